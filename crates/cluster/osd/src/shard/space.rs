//! How full the store is: the state reported to the monitor, and the writes that must not begin.
//!
//! Invariant: a write begins only if the space that it may take is there beyond the reserve (`osd_failsafe_full_ratio`),
//! counting every write begun that the store's last answer does not show: one that the store got later, or that is still on its
//! way, since its PG reads for it, or runs it again. So a store never has to refuse a transaction of a PG, which would stop the PG. What needs no space here,
//! removals and errors, still makes entries in a PG's log, and the OSD keeps maps: the reserve has to hold the logs at their
//! full length (`osd_target_pg_log_entries_per_osd`, about 250 bytes an entry) and a few hundred maps. The cluster's own
//! limits (nearfull, backfillfull, full) come well before: they are flags in the map, by which clients hold their writes back.
//! Exception: half of the reserve is also for small changes of metadata by clients that want an error rather than to wait
//! ([`SpaceBudget::take_of_reserve`]): Ceph lets such requests pass its failsafe.

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::SessionId;
use maps::{OsdMap, OsdState};
use messages::{Op, OpArgs};
use ops::{ClassTable, CopiedObject, SpaceUse, spec};
use pg::{SetAside, SpaceTally};
use store::StatFs;

use super::PgSlot;

/// The largest block that a store allocates, bytes.
const BLOCK: u64 = 4096;
/// What a changing operation may take beside its data: a first and a last block written elsewhere, and metadata.
const OVERHEAD: u64 = 4 * BLOCK;
/// The most that a request may take of the reserve.
const OF_RESERVE_MAX: u64 = 512 << 10;
/// The share of what is left (1 / this) that may be given away before the store is asked again.
const ASK_AGAIN: u64 = 8;

/// Whether there is room for a write.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// It is set aside.
    Taken(SetAside),
    /// There may be, once the store is asked or writes under way are done.
    Unknown,
    /// There is too little, as the store says.
    Lacking,
    /// There would be too little with nothing in the store.
    Never,
}

/// The store's space as far as it is known.
///
/// What waits is forgotten with each try of all that waits ([`SpaceBudget::try_anew`]), and noted again of what is still
/// there: nothing is kept for a write that was answered or whose client is gone.
#[derive(Debug, Default)]
pub(crate) struct SpaceBudget {
    statfs: StatFs,
    /// What was set aside for writes.
    tally: Arc<SpaceTally>,
    /// What had been given up of that when the question was put that `statfs` answers: it shows all that the store had got.
    shown: u64,
    /// The same of the question under way.
    asked: u64,
    /// The share of the store that is never given away, from 0 to 1.
    reserve: f64,
    /// The largest write that waits here until there is room.
    waiting: u64,
    /// A write waits here that is refused if the store has too little.
    tries: bool,
    /// Something waits here that no answer of the store was for.
    unanswered: bool,
    /// The largest write of a PG and a session that was sent back: its client sends it again when the map says that there is
    /// room, so this OSD is full until then.
    sent_back: BTreeMap<(PgSlot, SessionId), u64>,
    /// Whether something waited when the question under way was put.
    statfs_sent_for_waiting: bool,
    /// What is being tried waited for the store's newest answer.
    answered: bool,
    /// Whether the store has less than what waits for room, whatever is set aside for writes under way.
    full: bool,
}

impl SpaceBudget {
    pub(crate) fn set_failsafe_ratio(&mut self, ratio: f64) {
        self.reserve = (1.0 - ratio).clamp(0.0, 1.0);
    }

    /// The store is being asked: the answer shows every write that it has.
    pub(crate) fn statfs_sent(&mut self) {
        self.asked = self.tally.given_up();
        self.statfs_sent_for_waiting = self.is_awaited();
    }

    /// The store's answer. All that waits is tried next, until [`Self::answer_heeded`].
    pub(crate) fn statfs_received(&mut self, statfs: StatFs) {
        self.statfs = statfs;
        self.shown = self.asked;
        self.answered = self.statfs_sent_for_waiting;
        self.full = self.answered && self.wanted() > self.left_in_the_end();
        let left = self.left();
        self.sent_back.retain(|_, bytes| *bytes > left);
    }

    /// All that waited was tried: what comes later is not refused by an answer from before.
    pub(crate) fn answer_heeded(&mut self) {
        self.answered = false;
    }

    /// Sets `bytes` aside for a write if it can begin. Once one waits in vain none begins, so that a smaller one does not
    /// overtake it.
    pub(crate) fn take(&mut self, bytes: u64) -> Room {
        let known = self.statfs.bytes_total > 0;
        if known && bytes > self.most() {
            return Room::Never;
        }
        if known && (self.full || self.left() < bytes) {
            let lacks = self.full || (self.answered && self.left_in_the_end() < bytes);
            return if lacks { Room::Lacking } else { Room::Unknown };
        }
        Room::Taken(SetAside::new(bytes, &self.tally))
    }

    /// Sets `bytes` aside for a request that its client makes although it knows that the OSD is full (FULL_TRY), and for which there is too
    /// little left. Half of the reserve is for those that bring no data: before an image is removed, others are changed, as its object
    /// map and the list of what is being removed. If these were refused no one could make room. `None`: it is refused.
    pub(crate) fn take_of_reserve(&mut self, bytes: u64, ops: &[Op]) -> Option<SetAside> {
        let kept = self.reserved() / 2;
        let left = self.statfs.bytes_available.saturating_sub(kept).saturating_sub(self.charged());
        let fits = bytes <= left.min(OF_RESERVE_MAX) && !ops.iter().any(brings_data);
        fits.then(|| SetAside::new(bytes, &self.tally))
    }

    /// Such a write waits, until there is room or, if it only `tries`, until the store says that there is too little.
    pub(crate) fn wait(&mut self, bytes: u64, tries: bool) {
        self.unanswered |= !self.answered;
        match tries {
            true => self.tries = true,
            false => self.waiting = self.waiting.max(bytes),
        }
    }

    /// Everything that waits here is about to be tried.
    pub(crate) fn try_anew(&mut self) {
        (self.waiting, self.tries, self.unanswered) = (0, false, false);
    }

    /// A write is sent back to its client until the map says that there is room.
    pub(crate) fn send_back(&mut self, slot: PgSlot, session: SessionId, bytes: u64) {
        let noted = self.sent_back.entry((slot, session)).or_default();
        *noted = bytes.max(*noted);
    }

    /// A write has come that may be the one that was sent back: it waits here now, or needs nothing more.
    pub(crate) fn came(&mut self, slot: PgSlot, session: SessionId, bytes: u64) {
        if !self.sent_back.is_empty() && self.sent_back.get(&(slot, session)).is_some_and(|b| *b <= bytes) {
            self.sent_back.remove(&(slot, session));
        }
    }

    /// What was sent back to this session does not come again.
    pub(crate) fn forget_session(&mut self, session: SessionId) {
        self.sent_back.retain(|(_, of), _| *of != session);
    }

    /// What this PG sent back does not come to it again.
    pub(crate) fn forget_pg(&mut self, slot: PgSlot) {
        self.sent_back.retain(|(of, _), _| *of != slot);
    }

    /// The PGs that have sent a write back.
    pub(crate) fn awaiting_pgs(&self) -> impl Iterator<Item = PgSlot> {
        self.sent_back.keys().map(|(slot, _)| *slot)
    }

    /// Whether something waits for room, or for the store's answer.
    pub(crate) fn is_awaited(&self) -> bool {
        self.tries || self.wanted() > 0
    }

    /// Whether the store ought to be asked: a write waits that has not been answered for, the answer may make the OSD full or
    /// end that, or the store has got much, or anything that a write waits for. What is on its way to the store does not count: an answer
    /// shows nothing of it, and the OSD would ask for ever.
    pub(crate) fn wants_answer(&self) -> bool {
        let awaited = !self.full && self.is_awaited();
        let enough = if awaited { 0 } else { self.left() / ASK_AGAIN };
        let shows = self.tally.given_up().wrapping_sub(self.shown) > enough;
        let turns = self.full != (self.wanted() > self.left_in_the_end());
        self.statfs.bytes_total > 0 && (turns || awaited && self.unanswered || shows)
    }

    /// Whether a write waits for which there is really too little space.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The largest write that waits for room, here or at its client.
    fn wanted(&self) -> u64 {
        self.sent_back.values().copied().max().unwrap_or(0).max(self.waiting)
    }

    /// Bytes that a request may take in the store, at most; 0 for one that only reads or deletes.
    pub(crate) fn may_take(&self, ops: &[Op], classes: &ClassTable) -> u64 {
        // What is not supported fails, and takes nothing.
        ops.iter().filter_map(|op| Some((op, spec(op.code)?))).fold(0, |sum, (op, spec)| {
            let brought = op.indata.len() as u64;
            let bytes = match (spec.space, &op.args) {
                (SpaceUse::Nothing, _) => return sum,
                (SpaceUse::Method, _) if !classes.writes(op) => return sum,
                (SpaceUse::Announced, OpArgs::WriteSame { length, .. }) => rounded(*length),
                (SpaceUse::Payload | SpaceUse::Announced, _) => rounded(brought),
                (SpaceUse::Metadata | SpaceUse::Method, _) => self.of_metadata(brought),
            };
            sum.saturating_add(bytes).saturating_add(OVERHEAD)
        })
    }

    /// Bytes that a copied object takes in the store, at most.
    pub(crate) fn of_copied(&self, copied: &CopiedObject) -> u64 {
        rounded(copied.data.len() as u64).saturating_add(self.of_metadata(copied.metadata_bytes()))
    }

    fn of_metadata(&self, bytes: u64) -> u64 {
        rounded(bytes.saturating_mul(self.statfs.metadata_factor.max(1)))
    }

    fn left(&self) -> u64 {
        self.left_in_the_end().saturating_sub(self.charged())
    }

    /// Bytes that writes may take, or have taken, that `statfs` does not show.
    fn charged(&self) -> u64 {
        self.tally.set_aside().wrapping_sub(self.shown)
    }

    /// What is left if the writes under way take nothing.
    fn left_in_the_end(&self) -> u64 {
        self.statfs.bytes_available.saturating_sub(self.reserved())
    }

    /// What would be left if everything in the store were removed, at most.
    fn most(&self) -> u64 {
        let StatFs { bytes_total: total, bytes_used: used, bytes_available: available, .. } = self.statfs;
        available.saturating_add(used).min(total).saturating_sub(self.reserved())
    }

    fn reserved(&self) -> u64 {
        (self.statfs.bytes_total as f64 * self.reserve) as u64
    }
}

/// The state that the map ought to show of an OSD (Ceph's recalc_full_state), as one of its bits or 0. A write that waits in
/// vain (`is_full`) makes the OSD full whatever the limits say: its client needs the map to say so, and to take it back.
pub(crate) fn full_state(statfs: &StatFs, is_full: bool, map: &OsdMap) -> u32 {
    let StatFs { bytes_total: total, bytes_available: available, .. } = *statfs;
    if total == 0 {
        return 0;
    }
    let used = 1.0 - available as f64 / total as f64;
    let beyond = |limit: f32| limit > 0.0 && used > f64::from(limit);
    if beyond(map.full_ratio) || is_full {
        OsdState::FULL
    } else if beyond(map.backfillfull_ratio) {
        OsdState::BACKFILLFULL
    } else if beyond(map.nearfull_ratio) {
        OsdState::NEARFULL
    } else {
        0
    }
}

/// Whether an operation brings data for its object, or announces them.
fn brings_data(op: &Op) -> bool {
    match spec(op.code).map(|spec| spec.space) {
        Some(SpaceUse::Payload) => !op.indata.is_empty(),
        Some(SpaceUse::Announced) => true,
        Some(SpaceUse::Nothing | SpaceUse::Metadata | SpaceUse::Method) | None => false,
    }
}

fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(space: &SpaceBudget, map: &OsdMap) -> u32 {
        full_state(&space.statfs, space.is_full(), map)
    }

    fn space(total: u64, available: u64) -> SpaceBudget {
        let mut space = SpaceBudget::default();
        space.set_failsafe_ratio(0.97);
        space.statfs_sent();
        answer(&mut space, total, available);
        space
    }

    fn answer(space: &mut SpaceBudget, total: u64, available: u64) {
        space.statfs_received(StatFs {
            bytes_total: total,
            bytes_used: total - available,
            bytes_available: available,
            ..StatFs::default()
        });
    }

    /// What is set aside for a write that begins, and is on its way until that is dropped; otherwise it waits.
    fn begin(space: &mut SpaceBudget, bytes: u64) -> Option<SetAside> {
        if let Room::Taken(set_aside) = space.take(bytes) {
            return Some(set_aside);
        }
        space.wait(bytes, false);
        None
    }

    /// Whether a write begins, which the store has then; otherwise it waits.
    fn begins(space: &mut SpaceBudget, bytes: u64) -> bool {
        begin(space, bytes).is_some()
    }

    #[test]
    fn half_of_the_reserve_is_for_small_changes_of_metadata_that_try() {
        // 300,000 bytes of reserve, and nothing beside it.
        let mut space = space(10_000_000, 300_000);
        let ops = [Op::new(messages::OpCode::OMAPSETVALS, OpArgs::none()).with_indata(vec![1; 100])];
        assert_eq!(space.take(1), Room::Unknown);
        let first = space.take_of_reserve(100_000, &ops).unwrap();
        assert!(space.take_of_reserve(50_001, &ops).is_none(), "more than half");
        let second = space.take_of_reserve(50_000, &ops).unwrap();
        drop((first, second));
        assert!(space.take_of_reserve(1, &ops).is_none(), "the store has it, and did not say what is left");
        space.statfs_sent();
        answer(&mut space, 10_000_000, 200_000);
        let data = [Op::new(messages::OpCode::APPEND, OpArgs::extent(0, 1)).with_indata(vec![1])];
        assert!(space.take_of_reserve(1, &data).is_none());
        assert!(space.take_of_reserve(50_001, &ops).is_none());
        assert!(space.take_of_reserve(50_000, &ops).is_some());
    }

    #[test]
    fn a_request_may_take_what_it_brings_or_announces_and_one_that_reads_or_deletes_nothing() {
        use messages::OpCode;
        let op = |code, args| Op::new(code, args).with_indata(vec![1; 100]);
        let classes = ClassTable::default();
        let space = SpaceBudget::default();
        let data = |ops: &[Op]| space.may_take(ops, &classes).saturating_sub(OVERHEAD);
        assert_eq!(data(&[op(OpCode::WRITE, OpArgs::extent(0, 100))]), BLOCK);
        assert_eq!(data(&[op(OpCode::TRUNCATE, OpArgs::extent(1 << 40, 0))]), BLOCK, "a hole takes nothing");
        let same = OpArgs::WriteSame { offset: 0, length: 1 << 20, data_length: 100 };
        assert_eq!(data(&[op(OpCode::WRITESAME, same)]), 1 << 20);
        for code in [OpCode::READ, OpCode::DELETE, OpCode::COPY_GET] {
            assert_eq!(space.may_take(&[op(code, OpArgs::none())], &classes), 0);
        }
    }

    #[test]
    fn attributes_and_omaps_take_as_many_times_their_bytes_as_the_store_says() {
        use messages::OpCode;
        let mut space = SpaceBudget::default();
        space.statfs_received(StatFs { metadata_factor: 4, ..StatFs::default() });
        let classes = ClassTable::default();
        for code in [OpCode::OMAPSETVALS, OpCode::OMAPSETHEADER, OpCode::SETXATTR] {
            let op = Op::new(code, OpArgs::none()).with_indata(vec![1; 1 << 20]);
            assert_eq!(space.may_take(&[op], &classes), (4 << 20) + OVERHEAD, "{code:?}");
        }
        let pair = ("key".into(), vec![1; (1 << 20) - 3].into());
        let copied = CopiedObject { omap: vec![pair], data: vec![1; 100].into(), ..CopiedObject::default() };
        assert_eq!(space.of_copied(&copied), (4 << 20) + BLOCK);
    }

    #[test]
    fn nothing_begins_that_reaches_into_the_reserve() {
        let mut space = space(1000, 130);
        assert!(begins(&mut space, 100));
        assert!(!begins(&mut space, 1), "the last 30 of 1000 are kept");
    }

    #[test]
    fn a_write_waits_until_the_store_has_answered_and_only_then_is_the_osd_full() {
        let map = OsdMap { full_ratio: 0.95, ..OsdMap::default() };
        let mut space = space(1000, 130);
        assert!(begins(&mut space, 60) && !begins(&mut space, 50), "60 may be gone, or come back");
        assert!(space.wants_answer() && !space.is_full());
        assert_eq!(state(&space, &map), 0);
        space.statfs_sent();
        answer(&mut space, 1000, 70);
        assert!(space.is_full(), "40 are left, 50 were wanted");
        assert_eq!(space.take(1), Room::Lacking, "nothing overtakes");
        assert_eq!(state(&space, &map), OsdState::FULL, "although 93% are in use");
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(!space.is_full() && begins(&mut space, 50));
        assert_eq!(state(&space, &map), 0);
    }

    #[test]
    fn what_was_answered_is_not_waited_for() {
        let mut space = space(1000, 130);
        assert!(!begins(&mut space, 500));
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(space.is_full() && !space.wants_answer());
        space.try_anew();
        assert!(space.wants_answer(), "no one has said that it waits still");
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(!space.is_full() && begins(&mut space, 100));
    }

    #[test]
    fn one_that_only_tries_is_refused_by_an_answer_of_its_own_and_makes_nothing_full() {
        let mut space = space(1000, 130);
        assert_eq!(space.take(500), Room::Unknown);
        space.wait(500, true);
        assert!(space.wants_answer());
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        space.try_anew();
        assert_eq!(space.take(500), Room::Lacking);
        assert!(matches!(space.take(50), Room::Taken(_)));
        space.answer_heeded();
        assert!(!space.is_full());
        assert_eq!(space.take(500), Room::Unknown, "what was removed since counts");
    }

    #[test]
    fn a_write_that_would_not_fit_into_the_empty_store_never_fits() {
        let mut space = space(1000, 130);
        assert_eq!([971, 970].map(|bytes| space.take(bytes)), [Room::Never, Room::Unknown]);
        assert!(!space.wants_answer());
    }

    #[test]
    fn the_osd_is_full_for_what_was_sent_back_until_it_fits_or_does_not_come() {
        let (slot, session) = (PgSlot(2), SessionId(1));
        let full = || {
            let mut space = space(1000, 130);
            space.send_back(slot, session, 300);
            space.statfs_sent();
            answer(&mut space, 1000, 130);
            assert!(space.is_full() && !space.wants_answer());
            space
        };
        let ends: [fn(&mut SpaceBudget); 4] = [
            |space| space.forget_session(SessionId(1)),
            |space| space.forget_pg(PgSlot(2)),
            |space| space.came(PgSlot(2), SessionId(1), 300),
            |space| answer(space, 1000, 330),
        ];
        for end in ends {
            let mut space = full();
            end(&mut space);
            space.statfs_sent();
            answer(&mut space, 1000, 130);
            assert!(!space.is_full() && !space.is_awaited());
        }
        let mut space = full();
        space.try_anew();
        space.came(slot, session, 299);
        space.forget_pg(PgSlot(3));
        space.forget_session(SessionId(2));
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(space.is_full());
    }

    #[test]
    fn what_the_store_gets_after_the_question_is_not_in_the_answer() {
        let mut space = space(1000, 1000);
        assert!(begins(&mut space, 400));
        let late = begin(&mut space, 100).unwrap();
        space.statfs_sent();
        drop(late);
        assert!(begins(&mut space, 300));
        assert!(!begins(&mut space, 200));
        answer(&mut space, 1000, 600);
        assert!(begins(&mut space, 170) && !begins(&mut space, 1), "600 available, 400 under way, 30 kept");
    }

    #[test]
    fn what_the_store_has_not_got_is_not_asked_for_again() {
        let mut space = space(1000, 130);
        let [some, most] = [1, 79].map(|bytes| begin(&mut space, bytes).unwrap());
        assert!(!space.wants_answer(), "an answer shows nothing of it");
        assert!(!begins(&mut space, 50) && space.wants_answer(), "no answer was for this one");
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        space.try_anew();
        assert!(!begins(&mut space, 50) && !space.is_full());
        space.answer_heeded();
        assert!(!space.wants_answer(), "it waits for what is on its way");
        drop(some);
        assert!(space.wants_answer(), "some of that has come");
        drop(most);
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(begins(&mut space, 50));
    }

    #[test]
    fn the_store_is_asked_once_it_has_got_much() {
        let mut space = space(1000, 130);
        assert!(begins(&mut space, 80) && space.wants_answer());
    }

    #[test]
    fn what_is_on_its_way_is_not_taken_for_space_that_there_is() {
        let mut space = space(1000, 530);
        let on_its_way = begin(&mut space, 400);
        assert!(on_its_way.is_some() && !begins(&mut space, 200));
        space.statfs_sent();
        answer(&mut space, 1000, 130);
        assert!(space.is_full(), "100 are left, however much is on its way, and 200 were wanted");
    }

    #[test]
    fn a_store_of_unknown_size_takes_everything() {
        let mut space = SpaceBudget::default();
        assert!(begins(&mut space, u64::MAX) && !space.wants_answer());
    }

    #[test]
    fn the_state_is_the_highest_limit_passed() {
        let map =
            OsdMap { nearfull_ratio: 0.85, backfillfull_ratio: 0.9, full_ratio: 0.95, ..OsdMap::default() };
        let states = [200, 149, 99, 49].map(|available| state(&space(1000, available), &map));
        assert_eq!(states, [0, OsdState::NEARFULL, OsdState::BACKFILLFULL, OsdState::FULL]);
        assert_eq!(state(&space(1000, 0), &OsdMap::default()), 0, "no limit is set");
    }
}
