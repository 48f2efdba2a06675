//! The tests of `node` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod connected;
mod cores;
mod sim;
mod turn;
mod whole_cluster;
