//! Objects in the order of their names, found without comparing names.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

use smallvec::SmallVec;
use types::GHObject;

use super::object::Object;

/// The part of a name that the order begins with, as a number: all but names with the same 32 bit hash differ in it. It
/// lies in the tree's nodes, while a name is a pointer away.
type Prefix = u128;

fn prefix(name: &GHObject) -> Prefix {
    let h = &name.hobj;
    let signed = |n: i64| (n as u64 ^ 1 << 63) as Prefix;
    let shard = (name.shard.0 as u8 ^ 0x80) as Prefix;
    let max = |max: bool| max as Prefix;
    max(name.max) << 105 | shard << 97 | max(h.max) << 96 | signed(h.pool.0) << 32 | h.bitwise_key() as Prefix
}

/// Objects whose names have the same prefix, in order.
type Bucket = SmallVec<[Box<(GHObject, Object)>; 1]>;

/// An ordered map of objects by name.
///
/// Invariant: no bucket is empty.
#[derive(Clone, Default)]
pub(super) struct ObjectTable {
    buckets: BTreeMap<Prefix, Bucket>,
    len: usize,
}

fn place(bucket: &Bucket, name: &GHObject) -> Result<usize, usize> {
    bucket.binary_search_by(|entry| entry.0.cmp(name))
}

impl ObjectTable {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn get(&self, name: &GHObject) -> Option<&Object> {
        let bucket = self.buckets.get(&prefix(name))?;
        Some(&bucket[place(bucket, name).ok()?].1)
    }

    pub fn get_mut(&mut self, name: &GHObject) -> Option<&mut Object> {
        let bucket = self.buckets.get_mut(&prefix(name))?;
        let at = place(bucket, name).ok()?;
        Some(&mut bucket[at].1)
    }

    pub fn contains(&self, name: &GHObject) -> bool {
        self.get(name).is_some()
    }

    /// Sets an object; returns the one that it replaces.
    pub fn insert(&mut self, name: GHObject, object: Object) -> Option<Object> {
        let bucket = self.buckets.entry(prefix(&name)).or_default();
        match place(bucket, &name) {
            Ok(at) => Some(std::mem::replace(&mut bucket[at].1, object)),
            Err(at) => {
                bucket.insert(at, Box::new((name, object)));
                self.len += 1;
                None
            }
        }
    }

    pub fn remove(&mut self, name: &GHObject) -> Option<(GHObject, Object)> {
        let Entry::Occupied(mut bucket) = self.buckets.entry(prefix(name)) else { return None };
        let at = place(bucket.get(), name).ok()?;
        let entry = bucket.get_mut().remove(at);
        if bucket.get().is_empty() {
            bucket.remove();
        }
        self.len -= 1;
        Some(*entry)
    }

    pub fn pop_first(&mut self) -> Option<(GHObject, Object)> {
        let name = self.iter().next()?.0.clone();
        self.remove(&name)
    }

    pub fn pop_last(&mut self) -> Option<(GHObject, Object)> {
        let name = self.buckets.last_key_value()?.1.last()?.0.clone();
        self.remove(&name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&GHObject, &Object)> {
        self.buckets.values().flatten().map(|entry| (&entry.0, &entry.1))
    }

    /// Objects with names in `range`, which must not be backwards.
    pub fn range<'a>(
        &'a self,
        range: Range<&'a GHObject>,
    ) -> impl Iterator<Item = (&'a GHObject, &'a Object)> {
        let buckets = self.buckets.range(prefix(range.start)..=prefix(range.end));
        let entries = buckets.flat_map(|(_, bucket)| bucket).map(|entry| (&entry.0, &entry.1));
        entries.filter(move |(name, _)| range.contains(name))
    }
}

impl Extend<(GHObject, Object)> for ObjectTable {
    fn extend<I: IntoIterator<Item = (GHObject, Object)>>(&mut self, objects: I) {
        objects.into_iter().for_each(|(name, object)| drop(self.insert(name, object)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{HObject, Name, PoolId, ShardId, SnapId, SplitMix64};

    /// Names of which many have the same hash, and the sentinels.
    fn random_name(random: &mut SplitMix64) -> GHObject {
        let mut pick = |n: u64| random.below(n);
        match pick(40) {
            0 => return GHObject::min(),
            1 => return GHObject::max(),
            2 => return HObject::max().into(),
            _ => {}
        }
        let text = |n: u64| Name::from(["", "a", "b", "ab"][n as usize]);
        let pool = PoolId([-3, 0, 1, i64::MAX, i64::MIN][pick(5) as usize]);
        let mut h =
            HObject::head(pool, text(pick(4)), text(pick(4)), text(pick(4)), pick(4) as u32 * 0x4000_0001);
        h.snap = SnapId(pick(3));
        let shard = ShardId([-1, 0, 5, -128, 127][pick(5) as usize]);
        GHObject { shard, generation: pick(2), ..h.into() }
    }

    #[test]
    fn the_table_is_an_ordered_map() {
        let mut random = SplitMix64::new(11);
        let (mut table, mut model) = (ObjectTable::default(), BTreeMap::new());
        for round in 0..20_000u64 {
            let name = random_name(&mut random);
            let mut object = Object::default();
            object.data.truncate(round);
            match random.below(8) {
                0..4 => {
                    let old = table.insert(name.clone(), object).map(|o| o.data.size());
                    assert_eq!(old, model.insert(name, round));
                }
                4..6 => {
                    let removed = table.remove(&name).map(|(name, o)| (name, o.data.size()));
                    assert_eq!(removed, model.remove_entry(&name));
                }
                6 => {
                    let end = random_name(&mut random);
                    if name <= end {
                        let range = table.range(&name..&end).map(|(name, _)| name);
                        assert!(range.eq(model.range(&name..&end).map(|(name, _)| name)), "{name}..{end}");
                    }
                }
                _ => assert_eq!(table.get(&name).map(|o| o.data.size()), model.get(&name).copied()),
            }
            assert_eq!(table.len(), model.len());
        }
        assert!(table.iter().map(|(name, _)| name).eq(model.keys()) && table.len() > 500);
        while let Some((name, _)) = table.pop_last() {
            assert_eq!(Some(name), model.pop_last().map(|(name, _)| name));
            let first = table.pop_first().map(|(name, _)| name);
            assert_eq!(first, model.pop_first().map(|(name, _)| name));
        }
        assert!(table.is_empty() && table.buckets.is_empty());
    }
}
