//! The first durable store, as simple as can be, later the reference that the fast one is held against.
//!
//! Metadata (objects, where their blocks lie, omap, logs) is a redb database, data an image file of 4 KiB blocks with a
//! crc32c each in the metadata. Nothing is overwritten: data goes to free blocks, the image is flushed, and one redb
//! commit makes a batch of transactions take effect; blocks that it freed are given out after it. One thread does it
//! all. Aims at no speed, and never knows what a PG is.

mod alloc;
mod apply;
mod data;
mod keys;
mod label;
mod object;
mod onode;
mod open;
mod read;
mod store;
mod tables;
mod worker;

pub use label::{FORMAT, Label, OpenError};
pub use open::{ModelledOn, Options, mkfs, open};
pub use store::{SimpleStore, Waker};
