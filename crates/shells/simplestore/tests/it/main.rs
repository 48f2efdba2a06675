//! The tests of `simplestore` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;
mod conformance;
mod crash;
mod failures;
mod formats;
mod handle;
mod kill;
mod records;
