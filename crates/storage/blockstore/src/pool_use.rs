//! What each pool takes: how many blocks hold its data, and how many bytes the entries of its omaps have.
//!
//! A block or an entry counts for the pool of the collection whose object took it: objects are cloned and renamed within their pool
//! alone. Each batch says what it changes, and a checkpoint writes down what has changed since the one before, as it does with the
//! bitmap: so no transaction has a key more for it. Shards that earlier builds made do not count, or count blocks alone.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};
use smallvec::SmallVec;
use types::PoolId;

use crate::layout::{BLOCK, features};
use crate::page::Key;
use crate::records::{key, table};

/// Bytes of memory that a checkpoint's change of one pool takes at most, beside what every change takes.
pub const USE_BYTES: u64 = 32;

/// What a shard counts by pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Counted {
    #[default]
    Nothing,
    Blocks,
    /// Blocks, and the bytes of omaps.
    Omaps,
}

impl Counted {
    /// What a shard counts whose superblock has these features.
    pub fn of_features(features: u64) -> Self {
        match features {
            with if with & features::POOL_OMAPS != 0 => Self::Omaps,
            with if with & features::POOL_BLOCKS != 0 => Self::Blocks,
            _ => Self::Nothing,
        }
    }

    pub fn blocks(self) -> bool {
        self >= Self::Blocks
    }

    pub fn omaps(self) -> bool {
        self >= Self::Omaps
    }
}

/// What a transaction changes of what a pool takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Change {
    pub blocks: i64,
    pub omap_bytes: i64,
}

/// What a transaction changes of what pools take: nearly always of one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolChanges(SmallVec<[(PoolId, Change); 1]>);

impl PoolChanges {
    pub fn add(&mut self, pool: PoolId, more: Change) {
        match self.0.iter_mut().find(|(of, _)| *of == pool) {
            Some((_, sum)) => {
                sum.blocks += more.blocks;
                sum.omap_bytes += more.omap_bytes;
            }
            None => self.0.push((pool, more)),
        }
    }

    /// Without those that come to nothing.
    pub fn iter(&self) -> impl Iterator<Item = (PoolId, Change)> {
        self.0.iter().copied().filter(|(_, change)| *change != Change::default())
    }

    /// Whether a batch must say more than blocks.
    pub fn have_omaps(&self) -> bool {
        self.0.iter().any(|(_, change)| change.omap_bytes != 0)
    }

    /// Bytes of them all in a batch.
    pub fn bytes(&self) -> usize {
        4 + Self::entry_bytes(self.have_omaps()) * self.iter().count()
    }

    fn entry_bytes(have_omaps: bool) -> usize {
        if have_omaps { 24 } else { 16 }
    }

    pub fn put(&self, e: &mut Encoder) {
        e.put(&(self.iter().count() as u32));
        for (pool, change) in self.iter() {
            e.put(&pool.0).put(&change.blocks);
            if self.have_omaps() {
                e.put(&change.omap_bytes);
            }
        }
    }

    /// # Errors
    /// There are fewer than it says.
    pub fn get(d: &mut Decoder<'_>, have_omaps: bool) -> Result<Self, DecodeError> {
        let mut changes = Self::default();
        for _ in 0..d.count(Self::entry_bytes(have_omaps), "pools of a batch")? {
            let (pool, blocks) = (PoolId(d.get()?), d.get()?);
            let omap_bytes = if have_omaps { d.get()? } else { 0 };
            changes.0.push((pool, Change { blocks, omap_bytes }));
        }
        Ok(changes)
    }
}

/// What a pool takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Use {
    /// That hold its data.
    pub blocks: u64,
    /// Of the keys and values of its omaps.
    pub omap_bytes: u64,
}

impl Use {
    pub const NONE: Self = Self { blocks: 0, omap_bytes: 0 };

    fn plus(self, more: Change) -> Self {
        Self {
            blocks: self.blocks.saturating_add_signed(more.blocks),
            omap_bytes: self.omap_bytes.saturating_add_signed(more.omap_bytes),
        }
    }

    /// The change that makes this of what was counted.
    pub fn minus(self, counted: Self) -> Change {
        Change {
            blocks: self.blocks.wrapping_sub(counted.blocks) as i64,
            omap_bytes: self.omap_bytes.wrapping_sub(counted.omap_bytes) as i64,
        }
    }

    /// In a shard that counts omaps the blocks are followed by their bytes.
    fn encode(self, counted: Counted) -> Piece {
        let mut e = Encoder::with_capacity(0, 16);
        e.put(&self.blocks);
        if counted.omaps() {
            e.put(&self.omap_bytes);
        }
        e.into_bytes().into()
    }

    fn decode(value: &[u8], counted: Counted) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(value);
        let blocks = d.get()?;
        let omap_bytes = if counted.omaps() { d.get()? } else { 0 };
        d.finish()?;
        Ok(Self { blocks, omap_bytes })
    }
}

impl std::ops::AddAssign for Use {
    fn add_assign(&mut self, more: Self) {
        self.blocks += more.blocks;
        self.omap_bytes += more.omap_bytes;
    }
}

#[derive(Clone, Copy, Default)]
struct Entry {
    now: Use,
    /// The tree has it otherwise.
    is_changed: bool,
}

/// What all pools take.
#[derive(Default)]
pub struct PoolUse {
    pub counted: Counted,
    /// A pool that takes nothing stays until a checkpoint has removed it from the tree.
    pools: BTreeMap<PoolId, Entry>,
    /// How many have changed.
    changed: usize,
}

impl PoolUse {
    pub fn new(counted: Counted) -> Self {
        Self { counted, ..Self::default() }
    }

    pub fn note(&mut self, changes: &PoolChanges) {
        for (pool, change) in changes.iter() {
            let entry = self.pools.entry(pool).or_default();
            entry.now = entry.now.plus(change);
            self.changed += usize::from(!std::mem::replace(&mut entry.is_changed, true));
        }
    }

    /// Takes over what the tree says.
    ///
    /// # Errors
    /// The value says nothing of the kind.
    pub fn load(&mut self, pool: PoolId, value: &[u8]) -> Result<(), DecodeError> {
        self.pools.insert(pool, Entry { now: Use::decode(value, self.counted)?, is_changed: false });
        Ok(())
    }

    /// Of each pool that takes something.
    pub fn all(&self) -> BTreeMap<PoolId, Use> {
        let all = self.pools.iter().map(|(pool, entry)| (*pool, entry.now));
        all.filter(|(_, now)| *now != Use::NONE).collect()
    }

    /// The pools that take something else by what was found, with that and what is counted.
    pub fn unlike(&self, found: &BTreeMap<PoolId, Use>) -> Vec<(PoolId, Use, Use)> {
        let counted = self.all();
        let pools: BTreeSet<PoolId> = found.keys().chain(counted.keys()).copied().collect();
        let of = |all: &BTreeMap<PoolId, Use>, pool| all.get(&pool).copied().unwrap_or_default();
        let both = pools.into_iter().map(|pool| {
            let mut found = of(found, pool);
            if !self.counted.omaps() {
                found.omap_bytes = 0;
            }
            (pool, found, of(&counted, pool))
        });
        both.filter(|(_, found, counted)| found != counted).collect()
    }

    /// Bytes of data of each pool with any.
    pub fn data_bytes(&self) -> BTreeMap<PoolId, u64> {
        self.of_each(|now| now.blocks * BLOCK)
    }

    /// Bytes of the omaps of each pool with any.
    pub fn omap_bytes(&self) -> BTreeMap<PoolId, u64> {
        self.of_each(|now| now.omap_bytes)
    }

    fn of_each(&self, bytes: impl Fn(&Use) -> u64) -> BTreeMap<PoolId, u64> {
        let all = self.pools.iter().map(|(pool, entry)| (*pool, bytes(&entry.now)));
        all.filter(|(_, bytes)| *bytes > 0).collect()
    }

    /// Of how many pools the next checkpoint writes down what they take.
    pub fn changed(&self) -> usize {
        self.changed
    }

    /// What a checkpoint writes down.
    pub fn take_changed(&mut self) -> Vec<(Key, Option<Piece>)> {
        let mut taken = Vec::with_capacity(std::mem::take(&mut self.changed));
        for (pool, entry) in &mut self.pools {
            if std::mem::take(&mut entry.is_changed) {
                let value = Some(entry.now).filter(|now| *now != Use::NONE);
                taken.push((pool_key(*pool), value.map(|now| now.encode(self.counted))));
            }
        }
        self.pools.retain(|_, entry| entry.now != Use::NONE);
        taken
    }
}

fn pool_key(pool: PoolId) -> Key {
    key(table::POOL_USE, &pool.0.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use store::{CollectionId, ObjectChange, ObjectStore, Token, Transaction};
    use types::{GHObject, HObject, PgId};

    use super::*;
    use crate::packer::pool_of;
    use crate::test_store::{checked, rest, store};

    fn blocks(blocks: i64) -> Change {
        Change { blocks, ..Change::default() }
    }

    #[test]
    fn a_check_finds_a_wrong_count_and_a_repair_sets_it_right() {
        let mut store = store();
        let pool = PoolId(4);
        let c = CollectionId::Pg(PgId { pool, seed: 0 }.into());
        let object: GHObject = HObject::head(pool, "".into(), "".into(), "a".into(), 1).into();
        let mut txn = Transaction::new();
        txn.create_collection(c, 0).write(c, &object, 0, vec![1; 300_000].into());
        txn.change(c, &object, ObjectChange::OmapSet([("key".into(), vec![7; 20].into())].into()));
        store.queue(txn, Token(1));
        rest(&mut store);
        let right = BTreeMap::from([(pool, Use { blocks: 74, omap_bytes: 23 })]);
        assert_eq!(store.pool_use.all(), right);
        let mut wrong = PoolChanges::default();
        wrong.add(pool, Change { blocks: -3, omap_bytes: 9 });
        wrong.add(PoolId(5), blocks(2));
        wrong.add(PoolId(6), Change { blocks: 0, omap_bytes: 1 });
        store.pool_use.note(&wrong);
        let (checker, problems) = checked(&mut store);
        let want = [
            "74 blocks of pool 4 are there, 71 are counted",
            "23 bytes of omaps of pool 4 are there, 32 are counted",
            "0 blocks of pool 5 are there, 2 are counted",
            "0 bytes of omaps of pool 6 are there, 1 are counted",
        ];
        assert_eq!(problems, want);
        while checker.repair(&mut store).is_none() {
            rest(&mut store);
        }
        assert_eq!(store.pool_use.all(), right);
        assert_eq!(checked(&mut store).1, [""; 0]);
    }

    #[test]
    fn what_has_changed_is_written_down_once_and_loaded_again() {
        for (counted, omap_bytes, entry_bytes) in [(Counted::Blocks, 0, 16), (Counted::Omaps, 30, 24)] {
            let mut uses = PoolUse::new(counted);
            let mut changes = PoolChanges::default();
            for (pool, more) in [(1, 5), (2, 1), (1, -2), (2, -1), (3, 7)] {
                changes.add(PoolId(pool), blocks(more));
            }
            changes.add(PoolId(3), Change { blocks: 0, omap_bytes });
            let mut e = Encoder::new(0);
            changes.put(&mut e);
            let bytes = e.into_bytes();
            assert_eq!(bytes.len(), 4 + 2 * entry_bytes, "pool 2 has come to nothing");
            assert_eq!(bytes.len(), changes.bytes());
            let decoded = PoolChanges::get(&mut Decoder::new(&bytes), changes.have_omaps());
            uses.note(&decoded.expect("it was encoded"));
            let [first, third] =
                [Use { blocks: 3, omap_bytes: 0 }, Use { blocks: 7, omap_bytes: omap_bytes as u64 }];
            assert_eq!((uses.all(), uses.changed()), ([(PoolId(1), first), (PoolId(3), third)].into(), 2));
            let mut loaded = PoolUse::new(counted);
            for (key, value) in uses.take_changed() {
                let value = value.expect("the pool takes something");
                loaded.load(pool_of(&key).expect("a pool"), &value).expect("it was encoded");
            }
            assert_eq!((loaded.all(), uses.changed()), (uses.all(), 0));
            let mut gone = PoolChanges::default();
            gone.add(PoolId(3), Use::NONE.minus(third));
            uses.note(&gone);
            assert_eq!(uses.take_changed(), [(pool_key(PoolId(3)), None)]);
        }
    }
}
