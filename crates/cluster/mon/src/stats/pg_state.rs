//! A PG's state: a word of bits and its printed form.

/// The PG is being created.
pub const CREATING: u64 = 1 << 0;
/// It serves clients.
pub const ACTIVE: u64 = 1 << 1;
/// All copies are there and complete.
pub const CLEAN: u64 = 1 << 2;
/// A needed copy is down.
pub const DOWN: u64 = 1 << 4;
/// Recovery stopped at lost objects.
pub const RECOVERY_UNFOUND: u64 = 1 << 5;
/// Backfill stopped at lost objects.
pub const BACKFILL_UNFOUND: u64 = 1 << 6;
/// Some objects have fewer copies than asked for.
pub const DEGRADED: u64 = 1 << 10;
/// Copies differ.
pub const INCONSISTENT: u64 = 1 << 11;
/// The OSDs are agreeing on the PG's state.
pub const PEERING: u64 = 1 << 12;
/// No usable copy was found.
pub const INCOMPLETE: u64 = 1 << 16;
/// The primary has not reported.
pub const STALE: u64 = 1 << 17;
/// Acting differs from up.
pub const REMAPPED: u64 = 1 << 18;
/// Backfill waits for space.
pub const BACKFILL_TOOFULL: u64 = 1 << 21;
/// Fewer OSDs than the pool's size.
pub const UNDERSIZED: u64 = 1 << 23;
/// Recovery waits for space.
pub const RECOVERY_TOOFULL: u64 = 1 << 28;
/// Trimming snapshots failed.
pub const SNAPTRIM_ERROR: u64 = 1 << 29;

/// Bits and names in the order they are printed.
const NAMES: [(u64, &str); 33] = [
    (STALE, "stale"),
    (CREATING, "creating"),
    (ACTIVE, "active"),
    (1 << 24, "activating"),
    (CLEAN, "clean"),
    (1 << 22, "recovery_wait"),
    (RECOVERY_TOOFULL, "recovery_toofull"),
    (1 << 14, "recovering"),
    (1 << 30, "forced_recovery"),
    (DOWN, "down"),
    (RECOVERY_UNFOUND, "recovery_unfound"),
    (BACKFILL_UNFOUND, "backfill_unfound"),
    (UNDERSIZED, "undersized"),
    (DEGRADED, "degraded"),
    (REMAPPED, "remapped"),
    (1 << 7, "premerge"),
    (1 << 8, "scrubbing"),
    (1 << 19, "deep"),
    (INCONSISTENT, "inconsistent"),
    (PEERING, "peering"),
    (1 << 13, "repair"),
    (1 << 15, "backfill_wait"),
    (1 << 20, "backfilling"),
    (1 << 31, "forced_backfill"),
    (BACKFILL_TOOFULL, "backfill_toofull"),
    (INCOMPLETE, "incomplete"),
    (1 << 25, "peered"),
    (1 << 26, "snaptrim"),
    (1 << 27, "snaptrim_wait"),
    (SNAPTRIM_ERROR, "snaptrim_error"),
    (1 << 32, "failed_repair"),
    (1 << 33, "laggy"),
    (1 << 34, "wait"),
];

/// The names of all bits, joined by `+`; no bit at all is `unknown`.
pub fn text(state: u64) -> String {
    let names: Vec<&str> = NAMES.iter().filter(|(bit, _)| state & bit != 0).map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => "unknown".into(),
        false => names.join("+"),
    }
}

/// The bit of a name.
pub fn bit(name: &str) -> Option<u64> {
    NAMES.iter().find(|(_, known)| *known == name).map(|(bit, _)| *bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_print_in_a_fixed_order() {
        assert_eq!(text(CLEAN | ACTIVE), "active+clean");
        assert_eq!(text(CREATING | PEERING), "creating+peering");
        assert_eq!(text(1 << 25 | UNDERSIZED | REMAPPED), "undersized+remapped+peered");
        assert_eq!(text(0), "unknown");
        assert_eq!(bit("stale"), Some(STALE));
    }
}
