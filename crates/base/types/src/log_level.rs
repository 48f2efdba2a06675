//! How urgent a line of a daemon's log is.

/// The urgency of a log line, the most urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LogLevel {
    /// Something failed that should work.
    Error,
    /// Something that an operator should look at.
    Warn,
    /// A change of state.
    Info,
    /// For developers.
    Debug,
}
