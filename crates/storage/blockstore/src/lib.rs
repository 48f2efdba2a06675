//! A store on a raw device: data, metadata and logs of collections durable with one write to a log.
//!
//! This crate performs no I/O and reads no clock: [`BlockStore`] submits requests to a
//! [`DeviceQueue`](blockdev::DeviceQueue). The format is in `docs/formats/block.md`, the reasons in
//! `docs/design/0013-the-block-store.md`.
//!
//! **The way of a transaction.** It is executed in memory, on top of everything before it (`context`, `apply`,
//! `data`, `write`): what it reads and misses is read from the device, and it begins again. What it comes to is a `batch` of
//! changed keys, of blocks taken and given up, and of blocks' contents. All batches of a turn are one record of the log:
//! small contents are in it (deferred), large ones are written beside it to new blocks. When the record is durable, so are
//! the transactions.
//!
//! **The way into the tree.** A checkpoint freezes the changes so far, writes deferred contents to their places and the
//! changed pages of the tree to new blocks (`pass`), and publishes the new root in a superblock. Then the log before it
//! is free. It does a bounded part in each turn, and transactions go on.
//!
//! **Blocks that are given up** are free once no read can want them, and once the log itself says that the record which gave
//! them up is durable (`space`): a replay never checks what was written over.

mod ages;
mod apply;
mod batch;
mod bitmap;
mod block_index;
mod block_runs;
mod block_uses;
mod blocks;
mod cache;
mod cached_runs;
mod capacity;
mod check;
mod checkpoint;
mod choice;
mod chunk;
mod codec;
mod commit;
mod context;
mod data;
mod decoders;
mod extents;
mod fetch;
mod filter;
mod find;
mod inbox;
mod io;
mod layer;
mod layout;
mod leftovers;
mod load;
mod make;
mod mapped;
mod one_place;
mod onode;
mod open;
mod packer;
mod page;
mod pages;
mod parts;
mod pass;
mod peeked;
mod planted;
mod pool_use;
mod purge;
mod ranges;
mod read;
mod recent;
mod recent_maps;
mod records;
mod repair;
mod requests;
mod seal;
mod shape;
mod space;
mod state;
mod stop;
mod store;
mod stranded;
#[cfg(test)]
mod test_store;
mod tree;
mod vacancies;
mod write;

pub use check::Checker;
pub use decoders::{decode_any, samples};
pub use layout::{BLOCK, FORMAT, LABEL_BYTES, Label, OWNER_BYTES_MAX, Part, SIZE_BYTES_MAX};
pub use make::Making;
pub use open::{OpenError, Opener};
pub use planted::{Barrier, Bug};
pub use ranges::{GROWTHS_MAX, GrowthError};
pub use seal::Sealing;
pub use state::State;
pub use store::{BlockStore, DISCARDED_BLOCKS_MIN, Memory, Options};

/// Counted for each key beside its bytes and its value's.
pub const ENTRY_BYTES: u64 = 16;
