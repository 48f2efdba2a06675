//! What the suite of every store does not look at. One program, so that it is built once.

#[path = "../common/mod.rs"]
mod common;

mod checksums;
mod crash;
mod damage;
mod formats;
mod large;
mod memory;
mod order;
mod seeds;
mod waiting;
