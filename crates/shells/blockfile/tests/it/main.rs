//! The tests of `blockfile` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;
mod conformance;
mod expand;
mod files;
mod log;
mod move_log;
mod repair;
