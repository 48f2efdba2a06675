//! Invariants: conditions that hold unless this program has a defect, whatever peers, disks and users do.
//!
//! [`invariant!`](crate::invariant) checks one, [`broken!`](crate::broken) is for a place that cannot be reached. A
//! broken one panics in builds with debug assertions, so in every test. In a release build it writes an error to the
//! log and gives a [`BrokenInvariant`], which the caller turns into the failure of its daemon: a request is never
//! dropped in silence.

use std::panic::Location;

/// An invariant that does not hold: a defect of this program, no peer's or disk's fault.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("broken invariant, a defect of this program: {what} ({file}:{line})")]
#[must_use = "it ends the daemon whose state it was found in"]
pub struct BrokenInvariant {
    what: String,
    file: &'static str,
    line: u32,
}

impl BrokenInvariant {
    /// For [`broken!`](crate::broken).
    ///
    /// # Panics
    /// With debug assertions.
    #[track_caller]
    #[doc(hidden)]
    pub fn new(what: std::fmt::Arguments<'_>) -> Self {
        let at = Location::caller();
        let broken = Self { what: what.to_string(), file: at.file(), line: at.line() };
        tracing::error!("{broken}");
        debug_assert!(false, "{broken}");
        broken
    }
}

/// The [`BrokenInvariant`] for a place that cannot be reached; the arguments are those of `format!`.
///
/// ```ignore
/// let slot = self.slots.get_mut(&id).ok_or_else(|| broken!("slot {id} is in use and has no object"))?;
/// ```
#[macro_export]
macro_rules! broken {
    ($($what:tt)+) => { $crate::BrokenInvariant::new(format_args!($($what)+)) };
}

/// `Ok(())` if the condition holds, else the [`BrokenInvariant`] with a message as of `format!`.
///
/// ```ignore
/// invariant!(self.in_flight.is_none(), "a proposal begins while {} is under way", self.token)?;
/// ```
#[macro_export]
macro_rules! invariant {
    ($condition:expr, $($what:tt)+) => {
        if $condition { Ok(()) } else { Err($crate::broken!($($what)+)) }
    };
}

#[cfg(test)]
mod tests {
    use super::BrokenInvariant;

    fn check(n: u32) -> Result<u32, BrokenInvariant> {
        invariant!(n < 3, "{n} is not below 3")?;
        Ok(n)
    }

    #[test]
    fn a_condition_that_holds_changes_nothing() {
        assert_eq!(check(2), Ok(2));
    }

    /// A panic with debug assertions, the caller's error without.
    #[test]
    #[cfg_attr(
        debug_assertions,
        should_panic(expected = "3 is not below 3 (crates/base/types/src/invariant.rs:")
    )]
    fn a_broken_invariant_says_what_and_where() {
        let error = check(3).unwrap_err().to_string();
        assert!(error.contains("3 is not below 3 (crates/base/types/src/invariant.rs:"), "{error}");
    }
}
