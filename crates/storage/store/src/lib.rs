//! The object store's contract: collections of objects with data, attributes and omap, and a log per collection,
//! changed by atomic [`Transaction`]s and read through [`ReadRequest`]s, both asynchronous by completion.
//!
//! Here are the trait [`ObjectStore`], its plain data, [`MemStore`] (keeps nothing, needs no thread) and, behind the
//! feature `conformance`, the suite that every store is held against. This crate knows no PG, reads no clock and never
//! does I/O.

mod check;
mod codec;
mod collection;
#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod mem;
mod object_store;
mod read;
mod transaction;

pub use collection::CollectionId;
pub use error::{Fault, StoreError};
pub use mem::MemStore;
pub use object_store::{Completion, ObjectStore, Token};
pub use read::{
    Attrs, CollectionStat, LogPage, ObjectHead, ObjectPage, ObjectStat, OmapPage, ReadOutcome, ReadRequest,
    StatFs,
};
pub use transaction::{AllocHint, OBJECT_BYTES_MAX, Transaction, TxOp};
