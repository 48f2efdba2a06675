//! The tests of `ops` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod corpus;
mod hostile;
mod semantics;
mod watch;
