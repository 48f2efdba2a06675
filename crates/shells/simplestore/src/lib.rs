//! The first durable store, as simple as can be, later the reference that the fast one is held against.
//!
//! Metadata (objects, where their blocks lie, omap, logs) is a redb database, data an image file of 4 KiB blocks with a
//! crc32c each in the metadata. Nothing is overwritten: data goes to free blocks, the image is flushed, and one redb
//! commit makes a group of transactions take effect; blocks that it freed are reused after it. One thread does it all.
//! Aims at no speed, and never knows what a PG is. docs/formats/simple.md gives every byte, and the bounds below.
//!
//! **Shards.** One.
//!
//! **Space.** Data and metadata both count against the image's size, though metadata lies beside the image, and no more
//! is promised than the file system has, or the store's part of it: what is free there, divided by the stores on it. [`StatFs::data_bytes`](store::StatFs::data_bytes) are the 4 KiB blocks that
//! objects have; what queued transactions free counts as free, and is written again after their commit.
//! [`StatFs::metadata_bytes`](store::StatFs::metadata_bytes) are the bytes of all keys and values in the tables: at most
//! 64 for a collection, 18 + bytes for its info, 128 + 4 × bytes of its names for an object, 12 + bytes for an attribute,
//! 33 for each 4 KiB of data, 12 + bytes for an omap key, 32 + bytes for a log record. A clone has its own blocks.
//!
//! **Damage.** A block or record with a wrong checksum fails the requests that need it, and nothing else. A commit or a
//! write to the image that fails stops the store.

mod alloc;
mod apply;
mod attrs;
mod data;
mod label;
mod object;
mod open;
mod page;
mod read;
mod records;
mod space;
mod store;
mod tables;
mod worker;

pub use label::{FORMAT, Label, OpenError};
pub use open::{ModelledOn, Options, mkfs, open, open_to_read};
pub use store::SimpleStore;
