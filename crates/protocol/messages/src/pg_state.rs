//! The state word of a placement group (PG_STATE_*).

use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

/// What a placement group is at, as bits. Shown as Ceph shows it: `active+clean`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PgState(pub u64);

macro_rules! states {
    ($($(#[$doc:meta])* $name:ident = $bit:literal $text:literal),* $(,)?) => {
        impl PgState {
            $($(#[$doc])* pub const $name: Self = Self(1 << $bit);)*

            /// All states with their names, in the order in which Ceph prints them.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, $text),)*];
        }
    };
}
states! {
    /// The primary has not reported for a while (set by the monitor).
    STALE = 17 "stale",
    /// Being made.
    CREATING = 0 "creating",
    /// Serves operations.
    ACTIVE = 1 "active",
    /// Peered, about to be active.
    ACTIVATING = 24 "activating",
    /// Every copy is where it belongs.
    CLEAN = 2 "clean",
    /// Waits for a recovery slot.
    RECOVERY_WAIT = 22 "recovery_wait",
    /// Recovery waits for space.
    RECOVERY_TOOFULL = 28 "recovery_toofull",
    RECOVERING = 14 "recovering",
    /// Recovers before others, by command.
    FORCED_RECOVERY = 30 "forced_recovery",
    /// A replica that is needed is down.
    DOWN = 4 "down",
    /// Recovery stopped: objects could not be found.
    RECOVERY_UNFOUND = 5 "recovery_unfound",
    /// Backfill stopped: objects could not be found.
    BACKFILL_UNFOUND = 6 "backfill_unfound",
    /// Fewer OSDs act than the pool asks for.
    UNDERSIZED = 23 "undersized",
    /// Objects have fewer copies than the pool asks for.
    DEGRADED = 10 "degraded",
    /// Acts elsewhere than CRUSH says.
    REMAPPED = 18 "remapped",
    /// About to be merged.
    PREMERGE = 7 "premerge",
    /// Being scrubbed.
    SCRUBBING = 8 "scrubbing",
    /// Being scrubbed deeply.
    DEEP_SCRUB = 19 "deep",
    /// A scrub found a difference.
    INCONSISTENT = 11 "inconsistent",
    /// Agreeing on its history.
    PEERING = 12 "peering",
    /// Repairs what a scrub finds.
    REPAIR = 13 "repair",
    /// Waits for a backfill slot.
    BACKFILL_WAIT = 15 "backfill_wait",
    BACKFILLING = 20 "backfilling",
    /// Backfills before others, by command.
    FORCED_BACKFILL = 31 "forced_backfill",
    /// Backfill waits for space.
    BACKFILL_TOOFULL = 21 "backfill_toofull",
    /// Peering found no complete copy.
    INCOMPLETE = 16 "incomplete",
    /// Peered with too few OSDs to serve.
    PEERED = 25 "peered",
    /// Removes snapshots.
    SNAPTRIM = 26 "snaptrim",
    /// Waits to remove snapshots.
    SNAPTRIM_WAIT = 27 "snaptrim_wait",
    /// Removing snapshots failed.
    SNAPTRIM_ERROR = 29 "snaptrim_error",
    /// A repair did not mend everything.
    FAILED_REPAIR = 32 "failed_repair",
    /// Can't read for lack of a lease.
    LAGGY = 33 "laggy",
    /// Waits for earlier leases to end.
    WAIT = 34 "wait",
}

impl PgState {
    /// Whether every bit of `o` is set.
    pub fn has(self, o: Self) -> bool {
        self.0 & o.0 == o.0
    }

    /// Both together.
    pub const fn with(self, o: Self) -> Self {
        Self(self.0 | o.0)
    }

    /// No bit: the placement group was never reported.
    pub fn is_unknown(self) -> bool {
        self.0 == 0
    }

    /// The state of a name, as in [`PgState::ALL`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(state, _)| *state)
    }

    /// Without `o`.
    pub const fn without(self, o: Self) -> Self {
        Self(self.0 & !o.0)
    }
}

impl fmt::Display for PgState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names = Self::ALL.iter().filter(|(s, _)| self.has(*s)).map(|(_, name)| *name);
        f.write_str(names.next().unwrap_or("unknown"))?;
        names.try_for_each(|name| write!(f, "+{name}"))
    }
}
impl fmt::Debug for PgState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for PgState {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0);
    }
}
impl Decode for PgState {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self(d.get()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_print_in_cephs_order() {
        assert_eq!(PgState::CLEAN.with(PgState::ACTIVE).to_string(), "active+clean");
        assert_eq!(PgState::ACTIVE.with(PgState::DEGRADED).with(PgState::UNDERSIZED).to_string(), "active+undersized+degraded");
        assert_eq!(PgState::default().to_string(), "unknown");
        assert_eq!(PgState::named("stale"), Some(PgState::STALE));
        assert_eq!(PgState::named("stalled"), None);
        assert!(PgState::ACTIVE.with(PgState::CLEAN).without(PgState::CLEAN) == PgState::ACTIVE);
    }
}
