//! The tests of `pg` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod backoffs;
mod classes;
mod common;
mod copies;
mod copy;
mod corpus;
mod filters;
mod hostile;
mod intervals;
mod life;
mod log;
mod model;
mod others;
mod refused;
mod requests;
mod scrub;
mod snapshots;
mod split;
mod watch;
