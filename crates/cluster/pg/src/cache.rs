//! The reads of one request: what it has asked of the store and what came back.

use std::collections::BTreeMap;

use encoding::Decode;
use ops::{Fetched, Need, NeedOf, ObjectInfo, ObjectView};
use store::{Advice, CollectionId, Fault, ReadOutcome, ReadRequest, StoreError};
use types::{Errno, GHObject, HObject};

use crate::attrs::INFO_ATTR;
use crate::out::Out;
use crate::{Backend, CopyResult, Records, SetAside};

/// So many needs are looked through one by one; an ordinary request has one or two.
const SEARCHED_MAX: usize = 8;

/// What is needed, and of which object.
pub(crate) type ObjectNeed = (NeedOf, Need);

/// Needs in the order in which they were met.
#[derive(Debug, Default)]
pub(crate) struct ReadCache {
    entries: Vec<(ObjectNeed, Option<Fetched>)>,
    /// Their places, once there are so many that looking through them all would cost more: a request may hold
    /// thousands of operations.
    places: BTreeMap<ObjectNeed, usize>,
    /// How many of them were handed out by [`ReadCache::take_new`].
    asked: usize,
    failure: Option<StoreError>,
    /// What is set aside for copies that have come, until the run that makes them a change.
    copied: Vec<SetAside>,
}

/// What a request sees of its object and of that one's clones: what was read for it, and what the store has in memory.
pub(crate) struct StoreView<'a, 'o> {
    pub cache: &'a mut ReadCache,
    pub backend: &'a mut dyn Backend,
    pub records: &'a Records,
    pub out: &'a mut Out<'o>,
    pub object: GHObject,
    pub omap_bytes_max: u64,
}

impl StoreView<'_, '_> {
    /// The metadata of the object, where that is a clone; `None` until they are read.
    pub fn clone_info(&mut self) -> Option<Result<ObjectInfo, String>> {
        let info = match self.fetch(NeedOf::Own, Need::Attr(INFO_ATTR.into()))? {
            Fetched::Attr(Some(info)) => ObjectInfo::from_bytes(&info.to_piece()).map_err(|e| e.to_string()),
            Fetched::Failed(errno) => Err(errno.to_string()),
            _ => Err(format!("no attribute {INFO_ATTR}")),
        };
        Some(info)
    }
}

impl ObjectView for StoreView<'_, '_> {
    fn fetch(&mut self, of: NeedOf, need: Need) -> Option<Fetched> {
        let is_copy = matches!(need, Need::Copy(_));
        let need = (of, need);
        if let Some(place) = self.cache.place(&need) {
            return self.cache.entries[place].1.clone();
        }
        if is_copy {
            self.cache.add(need);
            return None;
        }
        let request = read_request(need.clone(), self.records.collection, &self.object, self.omap_bytes_max)?;
        // Kept, so that a later run of the request finds the same answer.
        let index = self.cache.add(need);
        let result = self.backend.peek(&request, self.records, self.out)?;
        self.cache.answer(index, result);
        self.cache.entries[index].1.clone()
    }
}

impl ReadCache {
    fn add(&mut self, need: ObjectNeed) -> usize {
        let index = self.entries.len();
        if index >= SEARCHED_MAX {
            self.places.insert(need.clone(), index);
        }
        self.entries.push((need, None));
        index
    }

    fn place(&self, need: &ObjectNeed) -> Option<usize> {
        let searched = &self.entries[..self.entries.len().min(SEARCHED_MAX)];
        searched.iter().position(|(n, _)| n == need).or_else(|| self.places.get(need).copied())
    }

    /// The needs that are neither answered nor asked for yet, with their places.
    pub fn take_new(&mut self) -> Vec<(usize, ObjectNeed)> {
        let from = std::mem::replace(&mut self.asked, self.entries.len());
        let new = self.entries.iter().enumerate().skip(from).filter(|(_, (_, fetched))| fetched.is_none());
        new.map(|(i, (need, _))| (i, need.clone())).collect()
    }

    /// Notes the answer to the need at `index`.
    pub fn answer(&mut self, index: usize, result: Result<ReadOutcome, StoreError>) {
        let Some(((_, need), fetched)) = self.entries.get_mut(index) else {
            // The need stays unanswered, so the request's next run finds nothing to wait for and ends the PG.
            debug_assert!(false, "an answer to need {index} of {}", self.entries.len());
            return;
        };
        if let Err(error) = &result {
            if error.fault() == Fault::Disk {
                self.failure = Some(error.clone());
            }
        }
        *fetched = Some(fetched_of(need, result));
    }

    /// Notes what a copy has read for the need at `index`.
    pub fn answer_copy(&mut self, index: usize, result: CopyResult, set_aside: SetAside) {
        let Some((_, fetched)) = self.entries.get_mut(index) else {
            // As in `answer`.
            debug_assert!(false, "a copy for need {index} of {}", self.entries.len());
            return;
        };
        self.copied.push(set_aside);
        *fetched = Some(match result {
            Ok(copied) => Fetched::Copied(copied),
            Err(errno) => Fetched::Failed(errno),
        });
    }

    /// What the disk did wrong with one of the reads; a client sees only a number.
    pub fn take_failure(&mut self) -> Option<StoreError> {
        self.failure.take()
    }
}

/// What the store is asked for a need of a request that runs on `own`; `None` of a copy, which no store has.
pub(crate) fn read_request(
    (of, need): ObjectNeed,
    collection: CollectionId,
    own: &GHObject,
    bytes_max: u64,
) -> Option<ReadRequest> {
    let object = match of {
        NeedOf::Own => own.clone(),
        NeedOf::Clone(snap) => GHObject { hobj: HObject { snap, ..own.hobj.clone() }, ..own.clone() },
    };
    Some(match need {
        Need::Copy(_) => return None,
        Need::Data { offset, len, flags } => {
            let advice = Advice::of_op_flags(flags);
            ReadRequest::Data { collection, object, offset, len, advice, verify: false }
        }
        Need::Extents { offset, len } => ReadRequest::Extents { collection, object, offset, len },
        Need::Attr(name) => ReadRequest::Attr { collection, object, name },
        Need::Attrs => ReadRequest::Attrs { collection, object },
        Need::OmapHeader => ReadRequest::OmapHeader { collection, object },
        Need::OmapKeys(keys) => ReadRequest::OmapKeys { collection, object, keys },
        Need::OmapRange { after, prefix, max, values } => ReadRequest::OmapRange {
            collection,
            object,
            after: if after.is_empty() { None } else { Some(after) },
            before: None,
            prefix,
            entries_max: usize::try_from(max).unwrap_or(usize::MAX),
            bytes_max: usize::try_from(bytes_max).unwrap_or(usize::MAX),
            values,
        },
    })
}

fn fetched_of(need: &Need, result: Result<ReadOutcome, StoreError>) -> Fetched {
    match (need, result) {
        (Need::Attr(_), Err(StoreError::NoSuchAttr)) => Fetched::Attr(None),
        (_, Err(error)) => Fetched::Failed(error.errno()),
        (Need::Data { .. }, Ok(ReadOutcome::Data(data))) => Fetched::Data(data),
        (Need::Extents { .. }, Ok(ReadOutcome::Extents(extents))) => Fetched::Extents(extents),
        (Need::Attr(_), Ok(ReadOutcome::Attr(value))) => Fetched::Attr(Some(value.into())),
        (Need::Attrs, Ok(ReadOutcome::Attrs(attrs))) => {
            Fetched::Attrs(attrs.into_iter().map(|(name, value)| (name, value.into())).collect())
        }
        (Need::OmapHeader, Ok(ReadOutcome::OmapHeader(header))) => Fetched::OmapHeader(header.into()),
        (Need::OmapRange { .. } | Need::OmapKeys(_), Ok(ReadOutcome::Omap(page))) => Fetched::Omap {
            pairs: page.entries.into_iter().map(|(key, value)| (key, value.into())).collect(),
            more: page.more,
        },
        // A store that answers another question than it was asked.
        _ => Fetched::Failed(Errno::EIO),
    }
}
