//! The placement groups of a shard: which there are, and what the shard keeps of each.

use std::collections::{BTreeMap, VecDeque};

use auth::SessionId;
use messages::PgHolding;
use pg::{Pg, Phase, ScrubState, TOKEN_BITS};
use store::Token;
use telemetry::Stage;
use types::{Epoch, SpgId, UTime};

use super::pg_view::Mapping;
use super::tracker::OpRecord;

/// A PG's number within this start of the shard; never used twice, so that a late completion finds no PG rather than
/// another one. It makes up the upper bits of the store's tokens; 0 is the control part, 1 the shard itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PgSlot(pub u32);

/// The bits of a store token that are not the PG's own are for its slot: a million PGs in one start.
const INNER_MASK: u64 = (1 << TOKEN_BITS) - 1;

impl PgSlot {
    /// The control part, in the tokens of shard 0.
    pub(crate) const CONTROL: Self = Self(0);
    /// The shard itself.
    pub(crate) const SHARD: Self = Self(1);
    const FIRST_PG: u32 = 2;

    /// Whose a store token is: the slot and its own token.
    pub(crate) fn of(token: Token) -> (PgSlot, Token) {
        (PgSlot((token.0 >> TOKEN_BITS) as u32), Token(token.0 & INNER_MASK))
    }

    /// The store token for a PG's own; `None` once there are none left: a completion must not reach another PG.
    pub(crate) fn token(self, inner: Token) -> Option<Token> {
        let fits = inner.0 <= INNER_MASK && u64::from(self.0) <= u64::MAX >> TOKEN_BITS;
        fits.then_some(Token(u64::from(self.0) << TOKEN_BITS | inner.0))
    }

    fn index(self) -> Option<usize> {
        Some(self.0.checked_sub(Self::FIRST_PG)? as usize)
    }
}

/// What the other parts know of a PG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PgStatus {
    pub phase: Phase,
    /// Whether the map that it was given last makes this OSD its primary.
    pub leads: bool,
    /// Whether it would be there after a loss of power.
    pub stored: bool,
    pub same_interval_since: Epoch,
    /// When it was last clean before this interval. A PG that never was had nothing to miss when it was made.
    pub last_epoch_clean: Epoch,
    /// When the last scrub ended, and the last deep one.
    pub last_scrub: UTime,
    pub last_deep_scrub: UTime,
    /// The scrub that runs.
    pub scrub: Option<ScrubState>,
}

impl PgStatus {
    /// Whether it is led here and serves.
    pub(crate) fn is_active(&self) -> bool {
        self.leads && self.phase.serves_requests()
    }

    /// Whether it is led here and nothing of it is missing.
    pub(crate) fn is_clean(&self) -> bool {
        self.leads && self.phase.is_clean()
    }

    /// Whether it is led here, and neither loads nor is removed.
    pub(crate) fn is_led(&self) -> bool {
        self.leads && !matches!(self.phase, Phase::Loading | Phase::Removing)
    }

    /// Whether the monitor hears of it from here. It orders a PG that was reported no more, so this must be stored.
    pub(crate) fn is_reported(&self) -> bool {
        self.is_led() && self.stored
    }
}

/// A transaction that the store has not answered.
#[derive(Debug)]
pub(crate) struct QueuedTxn {
    pub token: Token,
    pub bytes: u64,
    pub since: UTime,
    /// It belongs to reaching a map.
    pub is_advance: bool,
}

/// A PG and what the shard keeps of it.
pub(crate) struct PgEntry {
    pub slot: PgSlot,
    pub pg: Pg,
    /// The map that it was given last; 0 before the first.
    pub epoch: Epoch,
    /// Where that map puts it; `None` before the first.
    pub mapping: Option<Mapping>,
    /// What was published last.
    pub published: Option<PgStatus>,
    /// The mapping is another than when that was published.
    pub moved: bool,
    /// It reads what it keeps.
    pub loads: bool,
    /// A part of its objects is being moved to new PGs.
    pub splits: bool,
    /// When its activity or its mapping last changed, and since when it is active.
    pub changed: UTime,
    pub became_active: UTime,
    /// The requests that it has. A request that was sent again is there again.
    pub requests: Vec<OpRecord>,
    /// Its transactions that the store has not answered, in the order queued.
    pub queued: VecDeque<QueuedTxn>,
    /// Object contexts that it holds.
    pub contexts: usize,
    /// When it is to have [`pg::PgEvent::Tick`], as the shard's timers have it.
    pub timer: Option<UTime>,
}

impl PgEntry {
    pub(crate) fn status(&self) -> PgStatus {
        let history = &self.pg.info().history;
        PgStatus {
            phase: self.pg.phase(),
            leads: self.mapping.as_ref().is_some_and(|mapping| mapping.leads),
            stored: self.pg.is_stored(),
            same_interval_since: history.same_interval_since,
            last_epoch_clean: history.last_epoch_clean.max(history.epoch_created),
            last_scrub: history.last_scrub_stamp,
            last_deep_scrub: history.last_deep_scrub_stamp,
            scrub: self.pg.scrub_state(),
        }
    }

    /// The status, if it or the mapping is another than when it was published last. It is published then.
    pub(crate) fn publish(&mut self, now: UTime) -> Option<PgStatus> {
        let status = self.status();
        if self.published == Some(status) && !self.moved {
            return None;
        }
        self.moved = false;
        let was_active = self.published.is_some_and(|before| before.is_active());
        let scrubbed = self.published.and_then(|before| before.scrub).is_some();
        if was_active != status.is_active() || scrubbed != status.scrub.is_some() {
            self.changed = now;
        }
        if status.is_active() && !was_active {
            self.became_active = now;
        }
        self.published = Some(status);
        self.published
    }

    /// Whether it has reached a map as far as `epoch`, or takes no more maps.
    pub(crate) fn takes_requests_of(&self, epoch: Epoch) -> bool {
        match self.pg.phase() {
            // It answers or drops what comes.
            Phase::Failed | Phase::Removing => true,
            // It gets the map before it serves, and keeps requests until then.
            Phase::Loading => true,
            Phase::Nonprimary | Phase::Splitting | Phase::Peering(_) | Phase::Peered | Phase::Active(_) => {
                epoch <= self.epoch
            }
        }
    }

    /// Whether its clients send it again what it sent back.
    pub(crate) fn may_get_again(&self) -> bool {
        self.status().is_led() && self.pg.phase() != Phase::Failed
    }

    /// What there is of a PG that would be split off this one, in a pool of so many, and is not here.
    pub(crate) fn holding_of_part(&self, pg_num: u32) -> PgHolding {
        match self.pg.phase() {
            Phase::Loading | Phase::Splitting | Phase::Removing | Phase::Failed => PgHolding::Unreadable,
            Phase::Nonprimary | Phase::Peering(_) | Phase::Peered | Phase::Active(_) => {
                if self.pg.is_to_split(pg_num) { PgHolding::Unreadable } else { PgHolding::Nothing }
            }
        }
    }

    /// Takes out a request that is answered or dropped. `None`: it is of a session that is gone, and was forgotten with
    /// it.
    pub(crate) fn take_request(&mut self, session: SessionId, tid: u64) -> Option<OpRecord> {
        let at = self.requests.iter().position(|request| request.is(session, tid))?;
        Some(self.requests.swap_remove(at))
    }

    /// A request has reached a stage.
    pub(crate) fn reached(&mut self, now: UTime, session: SessionId, tid: u64, stage: Stage) {
        // One of a session that is gone is not measured any more.
        if let Some(request) = self.requests.iter_mut().find(|request| request.is(session, tid)) {
            request.reach(stage, now);
        }
    }
}

/// All PGs of a shard.
#[derive(Default)]
pub(crate) struct PgSet {
    /// By slot: a place for every PG that there was in this start.
    entries: Vec<Option<Box<PgEntry>>>,
    slots: BTreeMap<SpgId, PgSlot>,
}

impl PgSet {
    pub(crate) fn ids(&self) -> impl Iterator<Item = SpgId> {
        self.slots.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many PGs there were in this start.
    pub(crate) fn places(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn by_place(&mut self, place: usize) -> Option<&mut PgEntry> {
        self.entries.get_mut(place)?.as_deref_mut()
    }

    pub(crate) fn slot_of(&self, pgid: &SpgId) -> Option<PgSlot> {
        self.slots.get(pgid).copied()
    }

    pub(crate) fn get(&self, slot: PgSlot) -> Option<&PgEntry> {
        self.entries.get(slot.index()?)?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, slot: PgSlot) -> Option<&mut PgEntry> {
        self.entries.get_mut(slot.index()?)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &PgEntry> {
        self.slots.values().filter_map(|slot| self.get(*slot))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut PgEntry> {
        self.entries.iter_mut().filter_map(|entry| entry.as_deref_mut())
    }

    pub(crate) fn insert(&mut self, now: UTime, pg: Pg, mapping: Option<Mapping>, epoch: Epoch) -> PgSlot {
        let slot = PgSlot(PgSlot::FIRST_PG + self.entries.len() as u32);
        let loads = pg.phase() == Phase::Loading;
        self.slots.insert(pg.id(), slot);
        self.entries.push(Some(Box::new(PgEntry {
            slot,
            pg,
            epoch,
            mapping,
            published: None,
            moved: false,
            loads,
            splits: false,
            changed: now,
            became_active: now,
            requests: Vec::new(),
            queued: VecDeque::new(),
            contexts: 0,
            timer: None,
        })));
        slot
    }

    pub(crate) fn remove(&mut self, slot: PgSlot) -> Option<Box<PgEntry>> {
        let entry = self.entries.get_mut(slot.index()?)?.take()?;
        self.slots.remove(&entry.pg.id());
        Some(entry)
    }

    /// The first invariant that does not hold: slots and entries map one to one.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let of_entry = |(id, slot): (&SpgId, &PgSlot)| {
            self.get(*slot).is_some_and(|entry| entry.slot == *slot && entry.pg.id() == *id)
        };
        let entries = self.entries.iter().flatten().count();
        match self.slots.len() == entries && self.slots.iter().all(of_entry) {
            true => Ok(()),
            false => Err("PGs and slots do not map one to one"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_token_names_its_pg_and_the_osds_own_name_none() {
        let token = PgSlot(7).token(Token(12345)).unwrap();
        assert_eq!(PgSlot::of(token), (PgSlot(7), Token(12345)));
        assert_eq!(PgSlot::of(Token(12345)), (PgSlot::CONTROL, Token(12345)));
    }

    #[test]
    fn no_token_of_a_pg_is_ever_one_of_another() {
        let last = PgSlot(7).token(Token(INNER_MASK)).unwrap();
        assert_eq!(PgSlot::of(last), (PgSlot(7), Token(INNER_MASK)));
        assert_eq!(PgSlot(7).token(Token(INNER_MASK + 1)), None);
        assert_eq!(PgSlot(1 << 20).token(Token(1)), None);
    }

    #[test]
    fn a_token_of_a_pgs_backend_is_one_of_the_pg() {
        let of_backend = Token(pg::BACKEND_TOKEN_BIT | 12345);
        let token = PgSlot(7).token(of_backend).unwrap();
        assert_eq!(PgSlot::of(token), (PgSlot(7), of_backend));
    }

    #[test]
    fn a_slot_is_never_used_twice() {
        let mut set = PgSet::default();
        let pgid = SpgId::from("1.0".parse::<types::PgId>().unwrap());
        let pg = || Pg::load(pgid, types::OsdId(0), Default::default(), &mut Vec::new());
        let insert = |set: &mut PgSet| set.insert(UTime::default(), pg(), None, Epoch(0));
        let first = insert(&mut set);
        assert!(set.remove(first).is_some());
        assert_ne!(insert(&mut set), first);
        assert!(set.get(first).is_none());
        set.check().unwrap();
    }
}
