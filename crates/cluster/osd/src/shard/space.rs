//! How full the store is: the state reported to the monitor, and the writes that must not begin.
//!
//! Invariant: a write begins only if the space that it may take is there beyond the reserve (`osd_failsafe_full_ratio`),
//! counting every write begun since the space was last asked for. So a store never has to refuse a transaction of a
//! PG, which would stop the PG. What needs no space here, removals and errors, still makes entries in a PG's log, and the OSD
//! keeps maps: the reserve has to hold the logs at their full length (`osd_target_pg_log_entries_per_osd`, about 250 bytes
//! an entry) and a few hundred maps. The cluster's own limits (nearfull, backfillfull, full) come well before: they are
//! flags in the map, by which clients hold their writes back.

use maps::{OsdMap, OsdState};
use messages::{Op, OpArgs};
use ops::{ClassTable, SpaceUse, spec};
use store::StatFs;

/// The largest block that a store allocates, bytes.
const BLOCK: u64 = 4096;
/// What a changing operation may take beside its data: a first and a last block written elsewhere, and metadata.
const OVERHEAD: u64 = 4 * BLOCK;
/// The share of what is left (1 / this) that may be given away before the store is asked again.
const ASK_AGAIN: u64 = 8;

/// The store's space as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct SpaceBudget {
    statfs: StatFs,
    /// Bytes that writes may have taken that `statfs` does not show.
    charged: u64,
    /// The part of `charged` that came after the question under way was put.
    charged_since_statfs: u64,
    /// The share of the store that is never given away, from 0 to 1.
    reserve: f64,
    /// The largest write that waits for space, or waited and did not get it.
    wanted: u64,
    /// Whether that was known when the question under way was put.
    statfs_sent_for_wanted: bool,
    /// Whether the store has less than that, whatever is set aside for writes under way.
    full: bool,
}

impl SpaceBudget {
    pub(crate) fn set_failsafe_ratio(&mut self, ratio: f64) {
        self.reserve = (1.0 - ratio).clamp(0.0, 1.0);
    }

    /// The store is being asked: the answer shows every write begun before.
    pub(crate) fn statfs_sent(&mut self) {
        self.charged_since_statfs = 0;
        self.statfs_sent_for_wanted = self.wanted > 0;
    }

    /// The store's answer.
    pub(crate) fn statfs_received(&mut self, statfs: StatFs) {
        self.statfs = statfs;
        self.charged = self.charged_since_statfs;
        self.full = self.statfs_sent_for_wanted && self.left() + self.charged < self.wanted;
        if self.left() >= self.wanted {
            self.wanted = 0;
        }
    }

    /// Whether a write that may take `bytes` can begin; if so they are set aside. Once one had to wait in vain none
    /// begins, so that a smaller one does not overtake it.
    pub(crate) fn take(&mut self, bytes: u64) -> bool {
        let known = self.statfs.bytes_total > 0;
        if known && (self.full || self.left() < bytes) {
            self.wanted = self.wanted.max(bytes);
            return false;
        }
        self.charged = self.charged.saturating_add(bytes);
        self.charged_since_statfs = self.charged_since_statfs.saturating_add(bytes);
        true
    }

    /// Whether the store ought to be asked: a write waits that has not been answered for, or much was given away.
    pub(crate) fn wants_answer(&self) -> bool {
        let known = self.statfs.bytes_total > 0;
        known && ((self.wanted > 0 && !self.full) || self.charged > self.left() / ASK_AGAIN)
    }

    /// Whether a write waits for which there is really too little space.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    fn left(&self) -> u64 {
        let reserve = (self.statfs.bytes_total as f64 * self.reserve) as u64;
        self.statfs.bytes_available.saturating_sub(reserve).saturating_sub(self.charged)
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

/// Bytes that so much data takes.
pub(crate) fn rounded(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK).saturating_mul(BLOCK)
}

/// Bytes that a request may take in the store, at most; 0 for one that only reads or deletes.
pub(crate) fn may_take(ops: &[Op], classes: &ClassTable) -> u64 {
    // What is not supported fails, and takes nothing.
    ops.iter().filter_map(|op| Some((op, spec(op.code)?))).fold(0, |sum, (op, spec)| {
        let data = match (spec.space, &op.args) {
            (SpaceUse::Nothing, _) => return sum,
            (SpaceUse::Method, _) if !classes.writes(op) => return sum,
            (SpaceUse::Announced, OpArgs::WriteSame { length, .. }) => *length,
            (SpaceUse::Payload | SpaceUse::Announced | SpaceUse::Method, _) => op.indata.len() as u64,
        };
        sum.saturating_add(rounded(data)).saturating_add(OVERHEAD)
    })
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
        space.statfs_received(StatFs { bytes_total: total, bytes_available: available, ..StatFs::default() });
        space
    }

    #[test]
    fn a_request_may_take_what_it_brings_or_announces_and_one_that_reads_or_deletes_nothing() {
        use messages::OpCode;
        let op = |code, args| Op::new(code, args).with_indata(vec![1; 100]);
        let classes = ClassTable::default();
        let data = |ops: &[Op]| may_take(ops, &classes).saturating_sub(OVERHEAD);
        assert_eq!(data(&[op(OpCode::WRITE, OpArgs::extent(0, 100))]), BLOCK);
        assert_eq!(data(&[op(OpCode::TRUNCATE, OpArgs::extent(1 << 40, 0))]), BLOCK, "a hole takes nothing");
        let same = OpArgs::WriteSame { offset: 0, length: 1 << 20, data_length: 100 };
        assert_eq!(data(&[op(OpCode::WRITESAME, same)]), 1 << 20);
        for code in [OpCode::READ, OpCode::DELETE, OpCode::COPY_GET] {
            assert_eq!(may_take(&[op(code, OpArgs::none())], &classes), 0);
        }
    }

    #[test]
    fn nothing_begins_that_reaches_into_the_reserve() {
        let mut space = space(1000, 130);
        assert!(space.take(100));
        assert!(!space.take(1), "the last 30 of 1000 are kept");
    }

    #[test]
    fn a_write_waits_until_the_store_has_answered_and_only_then_is_the_osd_full() {
        let map = OsdMap { full_ratio: 0.95, ..OsdMap::default() };
        let mut space = space(1000, 130);
        assert!(space.take(60) && !space.take(50), "60 may be gone, or come back");
        assert!(space.wants_answer() && !space.is_full());
        assert_eq!(state(&space, &map), 0);
        let answer = |space: &mut SpaceBudget, available| {
            space.statfs_sent();
            space.statfs_received(StatFs {
                bytes_total: 1000,
                bytes_available: available,
                ..StatFs::default()
            });
        };
        answer(&mut space, 70);
        assert!(space.is_full() && !space.take(1), "40 are left, 50 were wanted, and nothing overtakes");
        assert_eq!(state(&space, &map), OsdState::FULL, "although 93% are in use");
        answer(&mut space, 130);
        assert!(!space.is_full() && space.take(50));
        assert_eq!(state(&space, &map), 0);
    }

    #[test]
    fn what_began_after_the_question_is_not_in_the_answer() {
        let mut space = space(1000, 1000);
        assert!(space.take(500));
        space.statfs_sent();
        assert!(space.take(400));
        assert!(!space.take(100));
        space.statfs_received(StatFs { bytes_total: 1000, bytes_available: 600, ..StatFs::default() });
        assert!(space.take(170) && !space.take(1), "600 available, 400 under way, 30 kept");
    }

    #[test]
    fn a_store_of_unknown_size_takes_everything() {
        assert!(SpaceBudget::default().take(u64::MAX) && !SpaceBudget::default().wants_answer());
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
