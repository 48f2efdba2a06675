//! Reading a stored map: the whole one where it is stored, otherwise made out of an older one and increments.

use std::sync::Arc;

use buffer::Piece;
use encoding::Decode;
use maps::{ApplyError, Incremental, OsdMap};
use store::{Completion, ReadOutcome, ReadRequest, StoreError};
use types::Epoch;

use super::superblock::{full_map_object, inc_map_object, read_meta};

/// A map out of the store.
#[derive(Debug)]
pub(crate) struct StoredMap {
    pub map: OsdMap,
    /// What made it of the map before, where that is how it was made; decoded and encoded.
    pub increment: Option<(Incremental, Piece)>,
}

/// A map as it was found; `None`: nothing of its epoch is stored. An error says what is damaged.
pub(crate) type FoundMap = Result<Option<Box<StoredMap>>, String>;

/// What comes after a read.
#[derive(Debug)]
pub(crate) enum MapRead {
    /// Another read is asked for: [`MapReader::request`].
    Ask,
    Done(FoundMap),
}

fn failed(reason: String) -> MapRead {
    MapRead::Done(Err(reason))
}

fn found(map: OsdMap, increment: Option<(Incremental, Piece)>) -> MapRead {
    MapRead::Done(Ok(Some(Box::new(StoredMap { map, increment }))))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asked {
    Whole(Epoch),
    Increment(Epoch),
}

/// The reading of one epoch's map.
#[derive(Debug)]
pub(crate) struct MapReader {
    epoch: Epoch,
    /// The map of the epoch before, if it is at hand: then its increment is read first.
    base: Option<Arc<OsdMap>>,
    asked: Asked,
    /// Without a base: the increments from `epoch` back to the one after the whole map that is looked for.
    increments: Vec<Piece>,
    /// Why what was looked for first is of no use: it counts where nothing else makes the map.
    misfit: Option<String>,
}

impl MapReader {
    /// A `base` that is not the map before is left aside.
    pub(crate) fn new(epoch: Epoch, base: Option<Arc<OsdMap>>) -> Self {
        let base = base.filter(|base| base.epoch.0.checked_add(1) == Some(epoch.0));
        let asked = match base {
            Some(_) => Asked::Increment(epoch),
            None => Asked::Whole(epoch),
        };
        Self { epoch, base, asked, increments: Vec::new(), misfit: None }
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The read that is next.
    pub(crate) fn request(&self) -> ReadRequest {
        read_meta(match self.asked {
            Asked::Whole(epoch) => full_map_object(epoch),
            Asked::Increment(epoch) => inc_map_object(epoch),
        })
    }

    fn ask(&mut self, what: Asked) -> MapRead {
        self.asked = what;
        MapRead::Ask
    }

    /// Takes what the store has answered.
    pub(crate) fn on_read(&mut self, completion: Completion) -> MapRead {
        let epoch = self.epoch;
        let bytes = match completion {
            Completion::Read { result: Ok(ReadOutcome::Data(data)), .. } => Some(data.to_piece()),
            Completion::Read { result: Err(StoreError::NoSuchObject(..)), .. } => None,
            Completion::Read { result: Err(error), .. } => return self.on_unread(&error),
            _ => return failed(format!("the store answered something else to a read of map {epoch}")),
        };
        match (self.asked, bytes) {
            (Asked::Whole(at), Some(bytes)) => self.on_whole(at, &bytes),
            (Asked::Whole(at), None) if self.base.is_none() => self.ask(Asked::Increment(at)),
            (Asked::Whole(_), None) => self.nothing(),
            (Asked::Increment(at), Some(bytes)) => self.on_increment(at, bytes),
            (Asked::Increment(at), None) if self.base.is_some() => self.ask(Asked::Whole(at)),
            (Asked::Increment(_), None) if self.increments.is_empty() => self.nothing(),
            (Asked::Increment(at), None) => {
                self.no_other(format!("map {epoch} can't be made: nothing of map {at} is stored"))
            }
        }
    }

    /// Nothing of the epoch is stored, or nothing that is of use.
    fn nothing(&mut self) -> MapRead {
        MapRead::Done(self.misfit.take().map_or(Ok(None), Err))
    }

    /// A damaged object is passed over, if the map may be had in another way.
    fn on_unread(&mut self, error: &StoreError) -> MapRead {
        let epoch = self.epoch;
        match self.asked {
            Asked::Increment(at) if self.base.is_some() => self
                .on_bad_increment(at, format!("the stored increment to map {epoch} can't be read: {error}")),
            Asked::Whole(at) => self.on_bad_whole(format!("the stored map {at} can't be read: {error}")),
            Asked::Increment(at) => self.no_other(format!(
                "map {epoch} can't be made: the stored increment to map {at} can't be read: {error}"
            )),
        }
    }

    /// The increment to the base is of no use: the whole map may be there.
    fn on_bad_increment(&mut self, at: Epoch, why: String) -> MapRead {
        self.misfit = Some(why);
        self.ask(Asked::Whole(at))
    }

    /// A whole map is of no use: increments may make it, unless one to the base has been tried.
    fn on_bad_whole(&mut self, why: String) -> MapRead {
        match self.asked {
            Asked::Whole(at) if self.base.is_none() => {
                self.misfit.get_or_insert(why);
                self.ask(Asked::Increment(at))
            }
            _ => self.no_other(why),
        }
    }

    fn no_other(&mut self, why: String) -> MapRead {
        failed(match self.misfit.take() {
            Some(first) => format!("{first}; {why}"),
            None => why,
        })
    }

    fn on_increment(&mut self, at: Epoch, bytes: Piece) -> MapRead {
        if let Some(base) = &self.base {
            let mut map = OsdMap::clone(base);
            let applied = Incremental::from_bytes(&bytes)
                .map_err(ApplyError::from)
                .and_then(|increment| map.apply_checked(&increment).map(|_| increment));
            return match applied {
                Ok(increment) => found(map, Some((increment, bytes))),
                Err(error) => {
                    // The monitor's may have fitted no map of ours; then the whole one was fetched.
                    self.on_bad_increment(at, format!("the stored increment to map {at} is damaged: {error}"))
                }
            };
        }
        self.increments.push(bytes);
        match at.0.checked_sub(1) {
            Some(before) => self.ask(Asked::Whole(Epoch(before))),
            None => failed(format!("an increment to map {at} is stored")),
        }
    }

    fn on_whole(&mut self, at: Epoch, bytes: &[u8]) -> MapRead {
        let epoch = self.epoch;
        let mut map = match OsdMap::from_bytes(bytes) {
            Ok(map) if map.epoch == at => map,
            Ok(map) => return self.on_bad_whole(format!("the stored map {at} is map {}", map.epoch)),
            Err(error) => {
                return self.on_bad_whole(format!("the stored map {at} can't be read: {error}"));
            }
        };
        match map.apply_all(self.increments.iter().rev().map(|bytes| &bytes[..])) {
            Ok(_) => found(map, None),
            Err(error) => {
                self.no_other(format!("map {epoch} can't be made out of the stored map {at}: {error}"))
            }
        }
    }
}
