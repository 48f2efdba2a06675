//! Random requests over few names, so that they meet. Most transactions make sense for the store that the model shows.

mod names;
mod objects;
mod reads;
mod refused;

use types::{EVersion, Epoch, PgId, PoolId, SplitMix64};

use super::model::Model;
use crate::{CollectionId, LogRecordKind, StoreShard, Transaction};

/// What a history is made of.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Requests that are not completed, at most.
    pub in_flight_max: usize,
    /// Steps on objects in a transaction, at most.
    pub steps_max: u64,
    /// Bytes of one write, at most.
    pub write_bytes_max: u64,
    /// How far writes reach, bytes.
    pub object_bytes_max: u64,
    /// Keys that one step sets, at most; many come from a large space of names.
    pub omap_keys_max: u64,
    /// Log records that a transaction appends, at most.
    pub log_records_max: u64,
    /// One of so many transactions can't be applied.
    pub refused_one_in: u64,
    /// One of so many requests moves a collection between shards (or tries to).
    pub rehome_one_in: u64,
    /// One of so many transactions makes, splits, merges or removes collections.
    pub collections_one_in: u64,
    /// Whether many attributes have the names and lengths of those that PGs set: a store may have another place for them.
    pub pg_attrs: bool,
}

impl Shape {
    /// A bit of everything.
    pub const MIXED: Self = Self {
        in_flight_max: 40,
        steps_max: 5,
        write_bytes_max: 20_000,
        object_bytes_max: 50_000,
        omap_keys_max: 6,
        log_records_max: 1,
        refused_one_in: 40,
        rehome_one_in: 60,
        collections_one_in: 30,
        pg_attrs: true,
    };
}

/// Collections that a history begins with, beside the meta collection.
const FIRST_PGS: u32 = 5;
/// Collections that splits may make.
const SPLIT_PGS: u32 = 4;

/// Makes random transactions and reads.
pub struct Generator {
    pub rng: SplitMix64,
    shape: Shape,
    log_version: u64,
}

impl Generator {
    pub fn new(seed: u64, shape: Shape) -> Self {
        Self { rng: SplitMix64::new(seed), shape, log_version: 0 }
    }

    /// Every collection that a history may name.
    pub fn collections() -> Vec<CollectionId> {
        let pgs = (0..FIRST_PGS + SPLIT_PGS).map(collection);
        std::iter::once(CollectionId::Meta).chain(pgs).collect()
    }

    /// The first transactions: the collections that most others use.
    pub fn setup() -> Vec<Transaction> {
        let create = |id| {
            let mut txn = Transaction::new();
            txn.create_collection(id, 1);
            txn
        };
        Self::collections().into_iter().take(1 + FIRST_PGS as usize).map(create).collect()
    }

    /// A collection that exists, most of the time.
    fn collection(&mut self, model: &Model) -> CollectionId {
        let all = model.collections();
        match all.is_empty() || self.rng.one_in(60) {
            true => collection(self.rng.below(u64::from(FIRST_PGS + SPLIT_PGS)) as u32),
            false => all[self.rng.below(all.len() as u64) as usize],
        }
    }

    /// A collection that takes transactions, most of the time.
    fn open_collection(&mut self, model: &Model) -> CollectionId {
        let mut id = self.collection(model);
        for _ in 0..4 {
            if takes_transactions(model, id) {
                break;
            }
            id = self.collection(model);
        }
        id
    }

    /// A collection of the same shard and pool that takes transactions.
    fn partner(&mut self, model: &Model, id: CollectionId) -> CollectionId {
        let is_beside =
            |other: CollectionId| model.home(other) == model.home(id) && other.pool() == id.pool();
        let fits = |&other: &CollectionId| takes_transactions(model, other) && is_beside(other);
        let all: Vec<_> = model.collections().into_iter().filter(fits).collect();
        match all.len() {
            0 => id,
            n => all[self.rng.below(n as u64) as usize],
        }
    }

    fn next_version(&mut self) -> EVersion {
        self.log_version += 1;
        version(self.log_version)
    }

    /// A version some way back.
    fn version_back(&mut self, by: u64) -> EVersion {
        version(self.log_version.saturating_sub(self.rng.below(by)))
    }

    /// A transaction of a few steps.
    pub fn transaction(&mut self, model: &Model) -> Transaction {
        let mut txn = Transaction::new();
        let id = self.open_collection(model);
        if self.rng.one_in(self.shape.collections_one_in) {
            self.collection_steps(model, &mut txn, id);
        }
        for _ in 0..=self.rng.below(self.shape.steps_max) {
            self.object_step(model, &mut txn, id);
        }
        if self.rng.one_in(2) {
            self.log_steps(&mut txn, id);
        }
        if self.rng.one_in(self.shape.refused_one_in) {
            self.impossible_step(model, &mut txn, id);
        }
        txn
    }

    fn log_steps(&mut self, txn: &mut Transaction, id: CollectionId) {
        for _ in 0..=self.rng.below(self.shape.log_records_max) {
            let kind = if self.rng.one_in(4) { LogRecordKind::Duplicate } else { LogRecordKind::Entry };
            let (version, len) = (self.next_version(), self.rng.below(200) as usize);
            txn.log_append(id, version, kind, self.data(len).to_piece());
        }
        match self.rng.below(12) {
            0..=2 => {
                txn.log_trim(id, self.version_back(20 * self.shape.log_records_max));
            }
            3 => {
                txn.log_rewind(id, self.version_back(5 * self.shape.log_records_max));
            }
            _ => {}
        }
        if self.rng.one_in(2) {
            let len = if self.rng.one_in(10) { 4096 } else { self.rng.below(300) };
            txn.set_info(id, self.data(len as usize).to_piece());
        }
    }

    /// Splits the collection, merges it, removes it when it is empty, or makes one.
    fn collection_steps(&mut self, model: &Model, txn: &mut Transaction, id: CollectionId) {
        let other = collection(FIRST_PGS + self.rng.below(u64::from(SPLIT_PGS)) as u32);
        let (bits, rem) = (self.rng.below(4) as u32, self.rng.below(8) as u32);
        let is_pg = id != CollectionId::Meta;
        let apart = !takes_transactions(model, other) || model.home(other) != model.home(id);
        match model.get(other) {
            // Refused: tried sometimes.
            Some(_) if apart && !self.rng.one_in(8) => {}
            None if is_pg => {
                txn.create_collection(other, bits).split(id, bits, rem, other);
            }
            None => {
                txn.create_collection(other, bits);
            }
            Some(c) if c.objects.is_empty() => {
                txn.remove_collection(other);
            }
            Some(c) if is_pg && other != id && self.rng.one_in(2) => {
                // What both have would refuse the merge.
                let ours = model.get(id).map(|c| &c.objects);
                for twice in c.objects.keys().filter(|o| ours.is_some_and(|ours| ours.contains_key(o))) {
                    txn.remove(other, twice);
                }
                txn.merge(other, id, bits);
            }
            Some(c) if is_pg && other != id => {
                for twice in c.objects.keys() {
                    txn.remove(id, twice);
                }
                txn.split(id, bits, rem, other);
            }
            Some(_) => {}
        }
    }

    /// A step of re-homing: which collection, where to, objects at most.
    pub fn rehoming(&mut self, model: &Model) -> (CollectionId, StoreShard, usize) {
        let on_their_way = |id: &CollectionId| model.get(*id).is_some_and(|c| c.rehoming.is_some());
        let id = match model.collections().into_iter().find(on_their_way) {
            Some(id) if !self.rng.one_in(3) => id,
            _ => self.collection(model),
        };
        let objects_max = 1 + self.rng.below(8) as usize;
        let under_way = model.get(id).and_then(|c| c.rehoming);
        let to = match under_way {
            Some(_) if self.rng.one_in(6) => model.home(id),
            Some(to) if !self.rng.one_in(10) => to,
            _ => StoreShard(self.rng.below(u64::from(model.shards()) + 1) as u32),
        };
        (id, to, objects_max)
    }
}

fn takes_transactions(model: &Model, id: CollectionId) -> bool {
    model.get(id).is_some_and(|c| c.rehoming.is_none()) && !model.is_closed(id)
}

/// The collection of a PG of pool 1.
fn collection(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1 + n as u32 / 10), n)
}
