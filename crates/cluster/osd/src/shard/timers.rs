//! When the PGs of a shard want the time.

use std::collections::BTreeSet;

use types::UTime;

use super::PgSlot;

#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(UTime, PgSlot)>);

impl Timers {
    /// A PG's deadline is `at`. `known` is what it was; most PGs never have one.
    #[inline]
    pub fn set(&mut self, slot: PgSlot, known: &mut Option<UTime>, at: Option<UTime>) {
        if *known != at {
            self.forget(slot, *known);
            self.0.extend(at.map(|at| (at, slot)));
            *known = at;
        }
    }

    /// A PG that has gone has no deadline.
    pub fn forget(&mut self, slot: PgSlot, known: Option<UTime>) {
        if let Some(at) = known {
            self.0.remove(&(at, slot));
        }
    }

    pub fn first(&self) -> Option<UTime> {
        self.0.first().map(|(at, _)| *at)
    }

    /// The PGs whose deadline has come.
    pub fn due(&self, now: UTime) -> Vec<PgSlot> {
        self.0.iter().take_while(|(at, _)| *at <= now).map(|(_, slot)| *slot).collect()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}
