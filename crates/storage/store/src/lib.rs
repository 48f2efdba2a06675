//! The object store's contract: collections of objects with data, attributes and omap, and a log per collection,
//! changed by atomic [`Transaction`]s and read through [`ReadRequest`]s, both asynchronous by completion.
//!
//! Here are the trait [`ObjectStore`], its plain data, [`MemStore`] (keeps nothing, needs no thread) and, behind features,
//! the simulated store for tests of what uses one (`sim`) and the suite that every store is held against
//! (`conformance`). This crate knows no PG, reads no clock (but the suite, for its patience) and never does I/O.

mod attrs;
mod check;
mod codec;
mod collection;
mod compression;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod free_space;
pub mod keys;
mod left;
mod mem;
mod memory;
mod object_store;
mod read;
mod sharded;
#[cfg(feature = "sim")]
pub mod sim;
mod transaction;
mod tuning;

pub use attrs::Attrs;
pub use check::split_takes;
pub use collection::CollectionId;
pub use compression::{ByMedium, Compression, CompressionAlgorithm, CompressionMode};
pub use error::{FailedAt, Fault, StoreError};
pub use free_space::FreeSpace;
pub use left::Left;
pub use mem::MemStore;
pub use memory::{MemoryPool, StoreMemory};
pub use object_store::{Completion, NoPeek, ObjectStore, Peek, Rehoming, StoreShard, Token, Waker};
pub use read::{
    AttrChoice, CollectionStat, Compressed, LogPage, ObjectGap, ObjectHead, ObjectPage, ObjectStat, OmapPage,
    ReadOutcome, ReadRequest, StatFs, UNFINISHED,
};
pub use sharded::Sharded;
pub use transaction::{
    Advice, AllocHint, CHECKSUM_BLOCK, CollectionChange, INFO_BYTES_MAX, LogChange, LogRecord, LogRecordKind,
    OBJECT_BYTES_MAX, ObjectChange, ObjectRef, Step, Transaction,
};
pub use tuning::Tuning;
