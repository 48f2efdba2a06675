//! How many blocks hold data of each pool.
//!
//! A block counts for the pool of the collection whose object took it: objects are cloned and renamed within their pool alone. Each
//! batch says what it changes, and a checkpoint writes down what has changed since the one before, as it does with the bitmap: so
//! no transaction has a key more for it. Shards that earlier builds made do not count.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use smallvec::SmallVec;
use types::PoolId;

use crate::layout::BLOCK;
use crate::page::Key;
use crate::records::{key, table};

/// Bytes of memory that a checkpoint's change of one count takes at most, beside what every change takes.
pub const COUNT_BYTES: u64 = 32;

/// How many blocks more a transaction makes hold data of pools: nearly always of one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolChanges(SmallVec<[(PoolId, i64); 1]>);

impl PoolChanges {
    pub fn add(&mut self, pool: PoolId, blocks: i64) {
        match self.0.iter_mut().find(|(of, _)| *of == pool) {
            Some((_, sum)) => *sum += blocks,
            None => self.0.push((pool, blocks)),
        }
    }

    /// Without those that come to nothing.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, i64)> {
        self.0.iter().copied().filter(|(_, blocks)| *blocks != 0)
    }

    /// Bytes of each in a batch.
    pub const BYTES: usize = 16;

    pub fn put(&self, e: &mut Encoder) {
        e.put(&(self.iter().count() as u32));
        for (pool, blocks) in self.iter() {
            e.put(&pool.0).put(&blocks);
        }
    }

    /// # Errors
    /// There are fewer than it says.
    pub fn get(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut changes = Self::default();
        for _ in 0..d.count(Self::BYTES, "pools of a batch")? {
            changes.0.push((PoolId(d.get()?), d.get()?));
        }
        Ok(changes)
    }
}

/// How many blocks hold a pool's data.
#[derive(Clone, Copy, Default)]
struct Count {
    blocks: u64,
    /// The tree has it otherwise.
    is_changed: bool,
}

/// The counts of all pools.
#[derive(Default)]
pub struct PoolBlocks {
    /// Whether the shard counts.
    pub is_counted: bool,
    /// One of 0 blocks stays until a checkpoint has removed it from the tree.
    counts: BTreeMap<PoolId, Count>,
    /// How many have changed.
    changed: usize,
}

impl PoolBlocks {
    pub fn note(&mut self, changes: &PoolChanges) {
        for (pool, blocks) in changes.iter() {
            let count = self.counts.entry(pool).or_default();
            count.blocks = count.blocks.saturating_add_signed(blocks);
            self.changed += usize::from(!std::mem::replace(&mut count.is_changed, true));
        }
    }

    /// Takes over what the tree says.
    ///
    /// # Errors
    /// The value is no count.
    pub fn load(&mut self, pool: PoolId, value: &[u8]) -> Result<(), DecodeError> {
        self.counts.insert(pool, Count { blocks: decode_count(value)?, is_changed: false });
        Ok(())
    }

    /// Of each pool with any.
    pub fn all(&self) -> BTreeMap<PoolId, u64> {
        let all = self.counts.iter().map(|(pool, count)| (*pool, count.blocks));
        all.filter(|(_, blocks)| *blocks > 0).collect()
    }

    /// The pools of which another number was found, with that and what is counted.
    pub fn unlike(&self, found: &BTreeMap<PoolId, u64>) -> Vec<(PoolId, u64, u64)> {
        let counted = self.all();
        let pools: BTreeSet<PoolId> = found.keys().chain(counted.keys()).copied().collect();
        let of = |counts: &BTreeMap<PoolId, u64>, pool| counts.get(&pool).copied().unwrap_or(0);
        let both = pools.into_iter().map(|pool| (pool, of(found, pool), of(&counted, pool)));
        both.filter(|(_, found, counted)| found != counted).collect()
    }

    pub fn bytes(&self) -> BTreeMap<PoolId, u64> {
        self.all().into_iter().map(|(pool, blocks)| (pool, blocks * BLOCK)).collect()
    }

    /// How many counts the next checkpoint writes down.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// What a checkpoint writes down.
    pub fn take_changed(&mut self) -> Vec<(Key, Option<Piece>)> {
        let mut taken = Vec::with_capacity(std::mem::take(&mut self.changed));
        for (pool, count) in &mut self.counts {
            if std::mem::take(&mut count.is_changed) {
                let value = Some(count.blocks).filter(|blocks| *blocks > 0).map(encode_count);
                taken.push((pool_key(*pool), value));
            }
        }
        self.counts.retain(|_, count| count.blocks > 0);
        taken
    }
}

fn pool_key(pool: PoolId) -> Key {
    key(table::POOL_BLOCKS, &pool.0.to_be_bytes())
}

fn encode_count(blocks: u64) -> Piece {
    Piece::copy_from(&blocks.to_le_bytes())
}

fn decode_count(value: &[u8]) -> Result<u64, DecodeError> {
    let mut d = Decoder::new(value);
    let blocks = d.get()?;
    d.finish()?;
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use store::{CollectionId, ObjectStore, Token, Transaction};
    use types::{GHObject, HObject, PgId};

    use super::*;
    use crate::packer::pool_of;
    use crate::test_store::{checked, rest, store};

    #[test]
    fn a_check_finds_a_wrong_count_and_a_repair_sets_it_right() {
        let mut store = store();
        let pool = PoolId(4);
        let c = CollectionId::Pg(PgId { pool, seed: 0 }.into());
        let object: GHObject = HObject::head(pool, "".into(), "".into(), "a".into(), 1).into();
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object, 0, vec![1; 300_000].into());
        store.queue(txn, Token(1));
        rest(&mut store);
        assert_eq!(store.pool_blocks.all(), [(pool, 74)].into());
        let mut wrong = PoolChanges::default();
        wrong.add(pool, -3);
        wrong.add(PoolId(5), 2);
        store.pool_blocks.note(&wrong);
        let (checker, problems) = checked(&mut store);
        let want =
            ["74 blocks of pool 4 are there, 71 are counted", "0 blocks of pool 5 are there, 2 are counted"];
        assert_eq!(problems, want);
        while checker.repair(&mut store).is_none() {
            rest(&mut store);
        }
        assert_eq!(store.pool_blocks.all(), [(pool, 74)].into());
        assert_eq!(checked(&mut store).1, [""; 0]);
    }

    #[test]
    fn what_has_changed_is_written_down_once_and_loaded_again() {
        let mut counted = PoolBlocks { is_counted: true, ..PoolBlocks::default() };
        let mut changes = PoolChanges::default();
        for (pool, blocks) in [(1, 5), (2, 1), (1, -2), (2, -1), (3, 7)] {
            changes.add(PoolId(pool), blocks);
        }
        let mut e = Encoder::new(0);
        changes.put(&mut e);
        let bytes = e.into_bytes();
        assert_eq!(bytes.len(), 4 + 2 * PoolChanges::BYTES, "pool 2 has come to nothing");
        counted.note(&PoolChanges::get(&mut Decoder::new(&bytes)).expect("it was encoded"));
        assert_eq!((counted.all(), counted.changed()), ([(PoolId(1), 3), (PoolId(3), 7)].into(), 2));
        let mut loaded = PoolBlocks::default();
        for (key, value) in counted.take_changed() {
            loaded.load(pool_of(&key).expect("a pool"), &value.expect("a count")).expect("it was encoded");
        }
        assert_eq!((loaded.bytes(), counted.changed()), (counted.bytes(), 0));
        let mut gone = PoolChanges::default();
        gone.add(PoolId(3), -7);
        counted.note(&gone);
        assert_eq!(counted.take_changed(), [(pool_key(PoolId(3)), None)]);
    }
}
