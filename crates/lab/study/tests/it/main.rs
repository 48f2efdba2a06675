//! The tests of `study` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod language;
mod plan;
mod problems;
mod properties;
mod published;
mod sizes;
mod words;
