//! The tests of `storetool` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;
mod convert;
mod histories;
mod streams;
