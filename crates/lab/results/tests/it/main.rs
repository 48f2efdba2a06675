//! The tests of `results` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod columns;
mod common;
mod directory;
