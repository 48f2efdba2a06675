//! The tests of `messenger` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod common;
mod in_memory;
mod lossy;
mod memory;
mod network;
mod peers;
mod room;
mod undelivered;
mod wrong_peers;
