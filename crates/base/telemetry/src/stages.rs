//! When an operation reached its stages.

use core::time::Duration;

use types::UTime;

/// A stage of a client's operation, after it was received. Not every operation reaches every stage: one that reads
/// is never submitted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// It is in its shard's queue.
    Queued,
    /// Its PG has it.
    Begun,
    /// It waits for the store to read.
    Reading,
    /// Its change is with the store.
    Submitted,
    /// Its change is durable on this OSD.
    DurableHere,
    /// Its change is durable wherever the pool asks for.
    DurableEverywhere,
    Replied,
}

impl Stage {
    pub const ALL: [Self; 7] = [
        Self::Queued,
        Self::Begun,
        Self::Reading,
        Self::Submitted,
        Self::DurableHere,
        Self::DurableEverywhere,
        Self::Replied,
    ];

    /// The event's name in dumps: Ceph's where it has the event.
    pub fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued_for_pg",
            Self::Begun => "reached_pg",
            Self::Reading => "reading",
            Self::Submitted => "submitted",
            Self::DurableHere => "op_commit",
            Self::DurableEverywhere => "all_commit",
            Self::Replied => "done",
        }
    }
}

/// When an operation was received, and when it first reached each stage, to the microsecond.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpTimes {
    received: UTime,
    /// Microseconds after that, plus one; 0 for a stage that was not reached. Times of more than 71 minutes (2^32 µs)
    /// count as that.
    after: [u32; Stage::ALL.len()],
}

impl OpTimes {
    #[inline]
    pub fn received_at(received: UTime) -> Self {
        Self { received, after: [0; Stage::ALL.len()] }
    }

    pub fn received(&self) -> UTime {
        self.received
    }

    #[inline]
    pub fn reach(&mut self, stage: Stage, now: UTime) {
        let after = &mut self.after[stage as usize];
        if *after == 0 {
            let micros = now.as_nanos().saturating_sub(self.received.as_nanos()) / 1000;
            *after = u32::try_from(micros).unwrap_or(u32::MAX).saturating_add(1);
        }
    }

    /// How long after the operation was received it reached a stage; `None` if it has not.
    #[inline]
    pub fn after(&self, stage: Stage) -> Option<Duration> {
        let micros = self.after[stage as usize].checked_sub(1)?;
        Some(Duration::from_micros(micros.into()))
    }

    /// The stages that it has reached, with their times, in the order of time.
    pub fn reached(&self) -> Vec<(Stage, UTime)> {
        let reached = Stage::ALL.into_iter().filter_map(|stage| Some((stage, self.after(stage)?)));
        let mut reached: Vec<_> = reached.map(|(stage, after)| (stage, self.received.after(after))).collect();
        reached.sort_by_key(|(_, at)| *at);
        reached
    }

    /// The last stage that it has reached.
    pub fn stage(&self) -> Option<Stage> {
        Stage::ALL.into_iter().rev().find(|stage| self.after(*stage).is_some())
    }

    /// How long it has been there, in nanoseconds.
    #[inline]
    pub fn age_nanos(&self, now: UTime) -> u64 {
        now.as_nanos().saturating_sub(self.received.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> UTime {
        UTime::from_nanos(1_800_000_000_000_000_000 + micros * 1000)
    }

    #[test]
    fn stages_are_kept_with_their_first_times() {
        let mut times = OpTimes::received_at(at(0));
        assert_eq!(times.stage(), None);
        times.reach(Stage::Queued, at(0));
        times.reach(Stage::Submitted, at(70));
        times.reach(Stage::Submitted, at(80));
        assert_eq!(times.reached(), [(Stage::Queued, at(0)), (Stage::Submitted, at(70))]);
        assert_eq!((times.stage(), times.after(Stage::Reading)), (Some(Stage::Submitted), None));
        assert_eq!(times.age_nanos(at(100)), 100_000);
    }

    #[test]
    fn a_clock_that_goes_back_or_far_ahead_harms_nothing() {
        let mut times = OpTimes::received_at(at(100));
        times.reach(Stage::Queued, at(0));
        times.reach(Stage::Replied, at(u64::from(u32::MAX) * 10));
        assert_eq!(times.after(Stage::Queued), Some(Duration::ZERO));
        assert!(times.after(Stage::Replied) > Some(Duration::from_secs(4000)));
        assert_eq!(times.age_nanos(at(0)), 0);
    }
}
