//! The placement groups: which there are, how events reach them and their effects leave them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use pg::{Pg, PgConfig, Phase};
use store::Token;
use types::{Epoch, PgId, PoolId, SpgId, UTime};

use crate::pg_create::CreateOrder;
use crate::pg_view::Mapping;

/// A PG's number within this start of the OSD; never used twice, so that a late completion finds nobody rather than
/// somebody else. It makes up the upper bits of the store's tokens; 0 is the OSD itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PgSlot(pub u32);

/// Bits of a store token that are the PG's own: enough for three years of 150,000 requests a second to one PG. The 20
/// others are for a million PGs in one start.
const INNER_BITS: u32 = 44;
const INNER_MASK: u64 = (1 << INNER_BITS) - 1;

impl PgSlot {
    /// Whose a store token is: the slot and the PG's own token.
    pub(crate) fn of(token: Token) -> Option<(PgSlot, Token)> {
        match (token.0 >> INNER_BITS) as u32 {
            0 => None,
            slot => Some((PgSlot(slot), Token(token.0 & INNER_MASK))),
        }
    }

    /// The store token for a PG's own; `None` once there are none left: a completion must not reach another PG.
    pub(crate) fn token(self, inner: Token) -> Option<Token> {
        let fits = inner.0 <= INNER_MASK && u64::from(self.0) <= u64::MAX >> INNER_BITS;
        fits.then_some(Token(u64::from(self.0) << INNER_BITS | inner.0))
    }
}

/// A PG and what the OSD keeps of it.
pub(crate) struct PgEntry {
    pub slot: PgSlot,
    pub pg: Pg,
    /// Where the last map that it was given puts it.
    pub mapping: Mapping,
    /// Whether it was led here and active after the last event.
    pub active: bool,
    /// It became active; the monitor may have to learn of it.
    pub to_announce: bool,
    /// When `active` or the mapping last changed, and since when it is active.
    pub changed: UTime,
    pub became_active: UTime,
}

impl PgEntry {
    /// Whether the monitor hears of it from here.
    pub(crate) fn is_reported(&self) -> bool {
        self.mapping.leads && !matches!(self.pg.phase(), Phase::Loading | Phase::Removing)
    }
}

/// All PGs.
#[derive(Default)]
pub(crate) struct PgSet {
    pub(crate) entries: BTreeMap<SpgId, PgEntry>,
    slots: BTreeMap<PgSlot, SpgId>,
    next_slot: u32,
    pub(crate) config: Arc<PgConfig>,
    /// How many PGs there were when `config` was made: their shares of the log depend on it.
    pub(crate) configured_for: usize,
    /// Stored collections whose pool the map does not have yet (while old maps are gone through).
    pub(crate) deferred: BTreeSet<SpgId>,
    /// PGs that the monitor wants made. They wait for the map of the order, or for room.
    pub(crate) to_create: BTreeMap<SpgId, CreateOrder>,
    /// Pools whose number of PGs has grown since their PGs were made, and how many they had: PGs can't be split yet, so
    /// the new ones are never made.
    pub(crate) unsplit: BTreeMap<PoolId, u32>,
    /// PGs that were made: the monitor is told until their pool is complete.
    pub(crate) created: BTreeSet<PgId>,
}

impl PgSet {
    pub(crate) fn ids(&self) -> Vec<SpgId> {
        self.entries.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Puts a configuration in force for the PGs that are there and those to come.
    pub(crate) fn configure(&mut self, config: PgConfig) {
        if *self.config == config {
            return;
        }
        self.config = Arc::new(config);
        for entry in self.entries.values_mut() {
            entry.pg.configure(self.config.clone());
        }
    }

    /// Whether operations on it can be handed on.
    pub(crate) fn contains(&self, pgid: &SpgId) -> bool {
        self.entries.get(pgid).is_some_and(|e| e.pg.phase() != Phase::Removing)
    }

    /// Whether it would have to come from another PG by a split.
    pub(crate) fn is_never_made(&self, pgid: &SpgId) -> bool {
        self.unsplit.get(&pgid.pg.pool).is_some_and(|made| pgid.pg.seed >= *made)
    }

    pub(crate) fn new_slot(&mut self, pgid: SpgId) -> PgSlot {
        self.next_slot += 1;
        let slot = PgSlot(self.next_slot);
        self.slots.insert(slot, pgid);
        slot
    }

    /// The first invariant that does not hold: slots and entries map one to one, and each slot was given out.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let of_entry = |(pgid, entry): (&SpgId, &PgEntry)| self.by_slot(entry.slot) == Some(*pgid);
        if self.slots.len() != self.entries.len() || !self.entries.iter().all(of_entry) {
            return Err("PGs and slots do not map one to one");
        }
        match self.slots.keys().all(|slot| (1..=self.next_slot).contains(&slot.0)) {
            true => Ok(()),
            false => Err("a slot was never given out"),
        }
    }

    pub(crate) fn by_slot(&self, slot: PgSlot) -> Option<SpgId> {
        self.slots.get(&slot).copied()
    }

    pub(crate) fn remove(&mut self, pgid: &SpgId) {
        if let Some(entry) = self.entries.remove(pgid) {
            self.slots.remove(&entry.slot);
        }
    }

    pub(crate) fn is_loading(&self, pgid: &SpgId) -> bool {
        self.entries.get(pgid).is_some_and(|e| e.pg.phase() == Phase::Loading)
    }

    pub(crate) fn all_loaded(&self) -> bool {
        self.entries.values().all(|e| e.pg.phase() != Phase::Loading)
    }

    /// The PGs that are led here, and the oldest epoch in which any PG here was last clean (`now` without any).
    pub(crate) fn last_epochs_clean(&self, now: Epoch) -> (Vec<PgId>, Epoch) {
        let led = self.entries.iter().filter(|(_, e)| e.mapping.leads);
        let clean = |e: &PgEntry| match e.active {
            true => now,
            // One that was never clean had nothing to miss when it was made.
            false => {
                let history = &e.pg.info().history;
                history.last_epoch_clean.max(history.epoch_created)
            }
        };
        let oldest = led.clone().map(|(_, e)| clean(e)).min().unwrap_or(now);
        (led.map(|(pgid, _)| pgid.pg).collect(), oldest)
    }

    /// The up_thru that the PGs led here need.
    pub(crate) fn up_thru_wanted(&self) -> Epoch {
        let led = self.entries.values().filter(|e| e.is_reported());
        led.map(|e| e.pg.info().history.same_interval_since).max().unwrap_or(Epoch(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_token_names_its_pg_and_the_osds_own_name_none() {
        let token = PgSlot(7).token(Token(12345)).unwrap();
        assert_eq!(PgSlot::of(token), Some((PgSlot(7), Token(12345))));
        assert_eq!(PgSlot::of(Token(12345)), None);
    }

    #[test]
    fn no_token_of_a_pg_is_ever_one_of_another() {
        let last = PgSlot(7).token(Token(INNER_MASK)).unwrap();
        assert_eq!(PgSlot::of(last), Some((PgSlot(7), Token(INNER_MASK))));
        assert_eq!(PgSlot(7).token(Token(INNER_MASK + 1)), None);
        assert_eq!(PgSlot(1 << 20).token(Token(1)), None);
    }

    #[test]
    fn a_slot_is_never_used_twice() {
        let mut set = PgSet::default();
        let pgid = SpgId::from("1.0".parse::<PgId>().unwrap());
        let first = set.new_slot(pgid);
        assert_ne!(set.new_slot(pgid), first);
    }
}
