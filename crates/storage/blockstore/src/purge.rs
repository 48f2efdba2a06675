//! Removing what is dead, some keys at a time: objects and omaps with more keys than one transaction should remove.
//!
//! The removal itself only takes the object's record away and notes the number in the table of the dead
//! ([`crate::records::Dead`]). This work follows it, also after the store was closed in between.

use std::collections::BTreeSet;

use blockdev::DeviceQueue;
use buffer::Piece;
use store::keys;

use crate::context::{Context, NOTHING_FETCHED};
use crate::fetch::Waiter;
use crate::inbox::Waits;
use crate::layer::Layer;
use crate::page::Key;
use crate::records::{Dead, dead_key, number_of, part_key, table};
use crate::stop::{Attempt, Stop, damaged};
use crate::store::BlockStore;

/// Keys that one step removes at most, and after how many bytes of keys it ends.
const KEYS_PER_STEP: usize = 512;
const KEY_BYTES_PER_STEP: usize = 16 << 10;

/// Numbers at most that are passed by since they could not be removed.
const FAILED_MAX: usize = 1024;

/// Whether changes note that something is dead.
pub fn adds_dead(changes: &Layer) -> bool {
    let dead =
        changes.range::<[u8], _>((std::ops::Bound::Included(&[table::DEAD][..]), std::ops::Bound::Unbounded));
    dead.take_while(|(key, _)| key.first() == Some(&table::DEAD)).any(|(_, value)| value.is_some())
}

/// The work on what is dead.
#[derive(Debug)]
pub struct Purge {
    /// Something may be dead.
    pub wanted: bool,
    cursor: Option<Cursor>,
    waits: Waits,
    tried: u64,
    /// Numbers that could not be removed. They stay until the next opening tries again, and no other one waits for them.
    failed: BTreeSet<u64>,
}

impl Default for Purge {
    fn default() -> Self {
        // What an earlier opening left is found by the first step.
        Self { wanted: true, cursor: None, waits: Waits::Nothing, tried: 0, failed: BTreeSet::new() }
    }
}

impl Purge {
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub fn on_page(&mut self) {
        if let Waits::Device(left) = self.waits {
            self.waits = if left > 1 { Waits::Device(left - 1) } else { Waits::Nothing };
        }
    }

    /// There may be room.
    pub fn wake(&mut self) {
        if self.waits == Waits::Room {
            self.waits = Waits::Nothing;
        }
    }

    pub fn needs_pages_from(&self) -> u64 {
        if let Waits::Device(_) = self.waits { self.tried } else { u64::MAX }
    }
}

/// Where the removal of a number goes on. It saves passing over the keys that are removed already; without it the work
/// begins at the number's first key.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Cursor {
    number: u64,
    dead: Dead,
    from: Key,
}

impl Context<'_> {
    /// The first number that is dead and not among those that failed, with what is noted of it.
    ///
    /// # Errors
    /// A page has to be read first, or is damaged.
    fn first_dead(&self, failed: &BTreeSet<u64>) -> Attempt<Option<(u64, Piece)>> {
        let mut merged = self.merged(&[table::DEAD], Some(&[table::DEAD + 1]))?;
        while let Some((key, value)) = merged.next()? {
            let number = number_of(&key).ok_or_else(|| damaged("a key of a dead object"))?;
            if !failed.contains(&number) {
                return Ok(Some((number, value)));
            }
        }
        Ok(None)
    }

    /// Removes some keys of a number that is dead. Returns where it goes on.
    ///
    /// # Errors
    /// A page has to be read first, or is damaged.
    fn purge(&mut self, number: u64, value: &Piece, cursor: Option<&Cursor>) -> Attempt<Option<Cursor>> {
        let dead = Dead::decode(value).map_err(damaged)?;
        self.pool = dead.pool();
        let known = cursor.filter(|at| (at.number, at.dead) == (number, dead));
        let start = known.map_or(Key::new(), |at| at.from.clone());
        let (mut some, mut bytes) = (Vec::new(), 0);
        for part in dead.parts() {
            let prefix = part_key(number, *part, &[]);
            let end = keys::after_prefix(&prefix);
            let from = prefix.max(start.clone());
            let mut merged = self.merged(&from, end.as_deref())?;
            while let Some((key, value)) = merged.next()? {
                if some.len() == KEYS_PER_STEP || bytes > KEY_BYTES_PER_STEP {
                    self.delete_parts(some)?;
                    return Ok(Some(Cursor { number, dead, from: key }));
                }
                bytes += key.len();
                some.push((*part, key, value));
            }
        }
        self.delete_parts(some)?;
        self.delete_known(dead_key(number), value);
        Ok(None)
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Whether a turn would bring the removal on.
    pub(crate) fn purge_runs(&self) -> bool {
        self.purge.wanted && self.purge.waits == Waits::Nothing && self.is_quiet() && self.held_from.is_none()
    }

    /// Does one step if no record is in flight: so it fills no log alone.
    pub(crate) fn purge_work(&mut self) {
        let waits = !self.purge.wanted || self.purge.waits != Waits::Nothing || self.flight.is_some();
        // A check looks at what is there: nothing may change meanwhile.
        if waits || self.stopped || self.held_from.is_some() {
            return;
        }
        self.purge.tried = self.tables.pages.clock();
        let cursor = self.purge.cursor.take();
        let failed = std::mem::take(&mut self.purge.failed);
        let mut context = self.context(&NOTHING_FETCHED);
        let first = context.first_dead(&failed);
        let number = first.as_ref().ok().and_then(|first| first.as_ref().map(|(number, _)| *number));
        let step = match first {
            Ok(Some((number, value))) => context.purge(number, &value, cursor.as_ref()).map(Some),
            Ok(None) => Ok(None),
            Err(stop) => Err(stop),
        };
        let stop = match step {
            Ok(None) => {
                self.purge.failed = failed;
                self.purge.wanted = false;
                return self.wake_for_room();
            }
            Ok(Some(next)) => {
                let ended = context.finish(false);
                self.purge.failed = failed;
                match self.admit(ended) {
                    Ok(()) => return self.purge.cursor = next,
                    Err(stop) => stop,
                }
            }
            Err(stop) => {
                context.take_back();
                self.purge.failed = failed;
                stop
            }
        };
        self.purge.cursor = cursor;
        self.on_purge_stopped(stop, number);
    }

    /// A step of the removal of `number` got no further: what it waits for, or that it goes on with another number, or that
    /// it ends for now.
    fn on_purge_stopped(&mut self, stop: Stop, number: Option<u64>) {
        self.purge.waits = match stop {
            Stop::Pages(pages) => Waits::Device(self.read_pages_for(pages, Waiter::Purge)),
            Stop::NextRecord => return,
            Stop::LogRoom => {
                self.checkpoint_wanted = true;
                Waits::Room
            }
            Stop::Space if self.space_may_come_for_purge() => Waits::Room,
            // Who waits for the space of what is dead is refused. The next removal, or opening, tries again.
            Stop::Space => {
                self.purge.wanted = false;
                return self.wake_for_room();
            }
            // What is dead stays, and takes its space, until the next opening tries again. The next number is tried.
            Stop::Blocks(_) | Stop::Announcement | Stop::Error(_) => {
                if let Some(number) = number.filter(|_| self.purge.failed.len() < FAILED_MAX) {
                    self.purge.failed.insert(number);
                    self.purge.waits = Waits::Nothing;
                    return;
                }
                self.purge.wanted = false;
                return self.wake_for_room();
            }
        };
    }
}
