//! The plainest store: byte strings in maps, each transaction tried on a copy. Its answers are the right ones.
//!
//! Parts are shared between copies, so a model of every moment of a history is cheap to keep.

mod apply;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use buffer::Piece;
use types::{EVersion, GHObject, Name};

use super::factory::Contents;
use crate::{
    AllocHint, Attrs, CollectionId, LogRecord, Rehoming, StoreError, StoreShard, Token, Transaction,
};

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ModelObject {
    pub data: Arc<Vec<u8>>,
    pub attrs: Attrs,
    pub omap: Arc<BTreeMap<Name, Piece>>,
    pub header: Piece,
    pub hint: Option<AllocHint>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelCollection {
    pub shard: StoreShard,
    pub rehoming: Option<StoreShard>,
    pub bits: u32,
    pub info: Piece,
    pub objects: BTreeMap<GHObject, Arc<ModelObject>>,
    pub tail: EVersion,
    pub head: EVersion,
    pub log: Arc<BTreeMap<EVersion, LogRecord>>,
}

/// Where a store makes collections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Homes {
    pub shards: u32,
    /// Collections that are not here are made in shard 0.
    pub of: BTreeMap<CollectionId, StoreShard>,
}

/// What a store must hold after the requests given to this.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    homes: Arc<Homes>,
    collections: BTreeMap<CollectionId, Arc<ModelCollection>>,
    /// Collections closed by a refusal, with the transaction that closed them.
    closed: BTreeMap<CollectionId, Token>,
}

impl Model {
    /// Of an empty store.
    pub fn new(homes: Homes) -> Self {
        Self { homes: Arc::new(homes), collections: BTreeMap::new(), closed: BTreeMap::new() }
    }

    /// Takes a transaction as a store does: refuses it with the store's error, or applies it.
    pub fn queue(&mut self, txn: &Transaction, token: Token) -> Result<(), StoreError> {
        let named = txn.collections();
        if let Some((id, by)) = named.iter().find_map(|id| Some((*id, *self.closed.get(id)?))) {
            for id in named {
                self.closed.entry(id).or_insert(by);
            }
            return Err(StoreError::AfterRefused(id));
        }
        let outcome = self.try_apply(txn);
        if outcome.is_err() {
            self.closed.extend(named.into_iter().map(|id| (id, token)));
        }
        outcome
    }

    /// The same for a caller that acknowledges a refusal at once.
    pub fn apply(&mut self, txn: &Transaction) -> Result<(), StoreError> {
        self.try_apply(txn)
    }

    pub fn acknowledge(&mut self, refused: Token) {
        self.closed.retain(|_, by| *by != refused);
    }

    /// A restart acknowledges everything.
    pub fn acknowledge_all(&mut self) {
        self.closed.clear();
    }

    pub fn is_closed(&self, id: CollectionId) -> bool {
        self.closed.contains_key(&id)
    }

    /// Takes a step of re-homing with the store's answer: the number of steps is the store's choice.
    ///
    /// # Panics
    /// If the answer is not one that a store may give.
    pub fn rehome(&mut self, id: CollectionId, to: StoreShard, answer: &Result<Rehoming, StoreError>) {
        let error = self.rehome_error(id, to);
        match (answer, error) {
            (Err(answer), Some(error)) => assert_eq!(*answer, error, "re-homing of {id} to {to:?}"),
            (Ok(answer), None) => self.rehomed(id, to, *answer),
            (answer, error) => panic!("re-homing of {id} to {to:?} gave {answer:?}, wanted {error:?}"),
        }
    }

    fn rehome_error(&self, id: CollectionId, to: StoreShard) -> Option<StoreError> {
        if to.0 >= self.homes.shards {
            return Some(StoreError::NoSuchShard { shard: to, shards: self.homes.shards });
        }
        if self.is_closed(id) {
            return Some(StoreError::AfterRefused(id));
        }
        let Some(c) = self.collections.get(&id) else { return Some(StoreError::NoSuchCollection(id)) };
        let under_way = c.rehoming.filter(|&under_way| to != c.shard && to != under_way);
        under_way.map(|to| StoreError::Rehoming { collection: id, to })
    }

    fn rehomed(&mut self, id: CollectionId, to: StoreShard, answer: Rehoming) {
        let c = Arc::make_mut(self.collections.get_mut(&id).expect("checked before"));
        match answer {
            Rehoming::Done => (c.shard, c.rehoming) = (to, None),
            Rehoming::Continues => {
                assert!(c.rehoming.is_some() || to != c.shard, "{id} is in {to:?} already");
                c.rehoming = c.rehoming.or(Some(to));
            }
        }
    }

    /// Collections in order.
    pub fn collections(&self) -> Vec<CollectionId> {
        self.collections.keys().copied().collect()
    }

    pub fn get(&self, id: CollectionId) -> Option<&Arc<ModelCollection>> {
        self.collections.get(&id)
    }

    /// Makes a collection what it was in another model.
    pub fn put(&mut self, id: CollectionId, collection: Option<Arc<ModelCollection>>) {
        match collection {
            Some(collection) => drop(self.collections.insert(id, collection)),
            None => drop(self.collections.remove(&id)),
        }
    }

    /// Objects of a collection in order.
    pub fn objects(&self, id: CollectionId) -> Vec<GHObject> {
        self.get(id).map(|c| c.objects.keys().cloned().collect()).unwrap_or_default()
    }

    /// Where `shard_of` must say that a collection is.
    pub fn home(&self, id: CollectionId) -> StoreShard {
        let made_in = || self.homes.of.get(&id).copied().unwrap_or(StoreShard(0));
        self.get(id).map_or_else(made_in, |c| c.shard)
    }

    pub fn shards(&self) -> u32 {
        self.homes.shards
    }

    pub fn contents(&self) -> Contents {
        let mut all = Contents::default();
        for c in self.collections.values() {
            all.collections += 1;
            all.info_bytes += c.info.len() as u64;
            all.log_records += c.log.len() as u64;
            all.log_bytes += c.log.values().map(|r| r.bytes.len() as u64).sum::<u64>();
            c.objects.iter().for_each(|(name, object)| object.count(name, &mut all));
        }
        all
    }
}

impl ModelObject {
    fn count(&self, name: &GHObject, all: &mut Contents) {
        let pair = |(name, value): (&Name, &Piece)| (name.len() + value.len()) as u64;
        let h = &name.hobj;
        all.objects += 1;
        all.name_bytes += (h.name.len() + h.key.len() + h.nspace.len()) as u64;
        all.data_blocks += (self.data.len() as u64).div_ceil(4096);
        all.attrs += self.attrs.len() as u64;
        all.attr_bytes += self.attrs.bytes();
        all.omap_keys += self.omap.len() as u64;
        all.omap_bytes += self.omap.iter().map(pair).sum::<u64>() + self.header.len() as u64;
    }
}

/// Overlays bytes on bytes, with zeros in between.
pub fn overlay(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset as usize + bytes.len();
    data.resize(data.len().max(end), 0);
    data[offset as usize..end].copy_from_slice(bytes);
}
