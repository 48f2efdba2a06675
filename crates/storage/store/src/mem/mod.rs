//! The store that keeps nothing: ordered maps, no thread, no clock. Deterministic, so pure tests run on it; quick, so
//! it shows what everything above a store costs.

mod apply;
mod object;
mod read;
mod undo;

use std::collections::{BTreeMap, VecDeque};

use buffer::Piece;
use types::{EVersion, GHObject};

use crate::{CollectionId, Completion, ObjectStore, ReadRequest, StoreError, Token, Transaction};
use object::Object;

/// A collection's log. Every entry is after `tail` and none after `head`.
#[derive(Clone, Default)]
struct Log {
    tail: EVersion,
    head: EVersion,
    entries: VecDeque<(EVersion, Piece)>,
}

#[derive(Clone, Default)]
struct Collection {
    bits: u32,
    objects: BTreeMap<GHObject, Object>,
    log: Log,
}

/// A store in memory. Completions are ready as soon as a request returns; contents are lost with the value.
pub struct MemStore {
    collections: BTreeMap<CollectionId, Collection>,
    completions: Vec<Completion>,
    bytes_total: u64,
    bytes_used: u64,
}

/// Counted for each object, attribute and omap key beside their bytes, so that `bytes_used` follows memory.
const OVERHEAD_BYTES: u64 = 64;

impl MemStore {
    /// An empty store that refuses transactions once `bytes_total` bytes are used.
    pub fn new(bytes_total: u64) -> Self {
        Self { collections: BTreeMap::new(), completions: Vec::new(), bytes_total, bytes_used: 0 }
    }

    fn collection(&self, id: CollectionId) -> Result<&Collection, StoreError> {
        self.collections.get(&id).ok_or(StoreError::NoSuchCollection(id))
    }
}

impl ObjectStore for MemStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        let completion = match self.apply(txn) {
            Ok(()) => Completion::Committed { token },
            Err(error) => Completion::Refused { token, error },
        };
        self.completions.push(completion);
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        let result = self.perform(&request);
        self.completions.push(Completion::Read { token, result });
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.completions);
    }
}
