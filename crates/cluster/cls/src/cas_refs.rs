//! The references to a chunk of the class `cas`.

use std::collections::BTreeMap;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::HObject;

/// Ceph's names of what is encoded here.
pub(crate) const REFS: &str = "chunk_refs_t";
pub(crate) const BY_OBJECT: &str = "chunk_refs_by_object_t";
pub(crate) const COUNT: &str = "chunk_refs_count_t";

/// The references to a chunk (chunk_refs_t), in one of four encodings. A new chunk has the one of the most detail; the
/// class never changes to another one, but Ceph's tools may.
pub(crate) enum Refs {
    ByObject(ByObject),
    ByHash(ByHash),
    ByPool(ByPool),
    Count(Count),
}

/// The objects that refer, sorted; one as often as it refers (chunk_refs_by_object_t).
#[derive(Default)]
pub(crate) struct ByObject(Vec<HObject>);

/// References by pool and hash (chunk_refs_by_hash_t).
pub(crate) struct ByHash {
    /// Lower bits of the hashes that are kept: 1 to 32.
    bits: u32,
    counts: Counts<(i64, u32)>,
}

/// References by pool (chunk_refs_by_pool_t).
pub(crate) struct ByPool(Counts<i64>);

/// Only how many references there are (chunk_refs_count_t).
pub(crate) struct Count(u64);

struct Counts<K> {
    /// Ceph may have stored more than the sum of the others.
    total: u64,
    counts: BTreeMap<K, u64>,
}

impl<K: Ord> Counts<K> {
    fn is_empty(&self) -> bool {
        self.total == 0 || self.counts.is_empty()
    }

    fn add(&mut self, key: K) {
        let count = self.counts.entry(key).or_default();
        *count = count.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    fn remove(&mut self, key: &K) -> bool {
        let Some(count) = self.counts.get_mut(key) else { return false };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(key);
        }
        self.total = self.total.saturating_sub(1);
        true
    }
}

impl ByHash {
    fn key(&self, source: &HObject) -> (i64, u32) {
        (source.pool.0, source.hash & (u32::MAX >> (32 - self.bits)))
    }

    /// Bytes of a hash.
    fn hash_len(bits: u32) -> usize {
        bits.div_ceil(8) as usize
    }
}

impl Refs {
    const BY_OBJECT: u8 = 1;
    const BY_HASH: u8 = 2;
    const BY_POOL: u8 = 4;
    const COUNT: u8 = 5;

    pub fn none() -> Self {
        Self::ByObject(ByObject::default())
    }

    pub fn is_empty(&self) -> bool {
        match self {
            Self::ByObject(ByObject(objects)) => objects.is_empty(),
            Self::ByHash(by_hash) => by_hash.counts.is_empty(),
            Self::ByPool(ByPool(counts)) => counts.is_empty(),
            Self::Count(Count(count)) => *count == 0,
        }
    }

    pub fn add(&mut self, source: HObject) {
        match self {
            Self::ByObject(ByObject(objects)) => {
                let at = objects.partition_point(|object| *object <= source);
                objects.insert(at, source);
            }
            Self::ByHash(by_hash) => by_hash.counts.add(by_hash.key(&source)),
            Self::ByPool(ByPool(counts)) => counts.add(source.pool.0),
            Self::Count(Count(count)) => *count = count.saturating_add(1),
        }
    }

    /// Whether there was one to remove.
    pub fn remove(&mut self, source: &HObject) -> bool {
        match self {
            Self::ByObject(ByObject(objects)) => {
                let found = objects.binary_search(source);
                found.map(|at| objects.remove(at)).is_ok()
            }
            Self::ByHash(by_hash) => by_hash.counts.remove(&by_hash.key(source)),
            Self::ByPool(ByPool(counts)) => counts.remove(&source.pool.0),
            Self::Count(Count(count)) => {
                let less = count.checked_sub(1);
                *count = less.unwrap_or(0);
                less.is_some()
            }
        }
    }
}

impl Encode for Refs {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            match self {
                Self::ByObject(refs) => e.put(&Self::BY_OBJECT).put(refs),
                Self::ByHash(refs) => e.put(&Self::BY_HASH).put(refs),
                Self::ByPool(refs) => e.put(&Self::BY_POOL).put(refs),
                Self::Count(refs) => e.put(&Self::COUNT).put(refs),
            };
        });
    }
}
impl Decode for Refs {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, REFS, |d, _| match d.get()? {
            Self::BY_OBJECT => Ok(Self::ByObject(d.get()?)),
            Self::BY_HASH => Ok(Self::ByHash(d.get()?)),
            Self::BY_POOL => Ok(Self::ByPool(d.get()?)),
            Self::COUNT => Ok(Self::Count(d.get()?)),
            kind => Err(DecodeError::BadValue { what: "kind of chunk_refs_t", value: u64::from(kind) }),
        })
    }
}

impl Encode for ByObject {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for ByObject {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, BY_OBJECT, |d, _| {
            let mut objects: Vec<HObject> = d.get()?;
            objects.sort();
            Ok(Self(objects))
        })
    }
}

/// The sign is the lowest bit (Ceph's denc_signed_varint).
fn put_signed(e: &mut Encoder, value: i64) {
    e.varint(value.unsigned_abs() << 1 | u64::from(value < 0));
}

fn get_signed(d: &mut Decoder<'_>) -> Result<i64, DecodeError> {
    let value = d.varint()?;
    let magnitude = (value >> 1) as i64;
    Ok(if value & 1 == 0 { magnitude } else { -magnitude })
}

impl Encode for ByHash {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            let Counts { total, counts } = &self.counts;
            e.varint(*total).varint(u64::from(self.bits)).varint(counts.len() as u64);
            for ((pool, hash), count) in counts {
                put_signed(e, *pool);
                e.raw(&hash.to_le_bytes()[..Self::hash_len(self.bits)]).varint(*count);
            }
        });
    }
}
impl Decode for ByHash {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "chunk_refs_by_hash_t", |d, _| {
            let (total, bits) = (d.varint()?, d.varint()?);
            let bad_bits = DecodeError::BadValue { what: "bits of chunk_refs_by_hash_t", value: bits };
            let bits = u32::try_from(bits).ok().filter(|bits| (1..=32).contains(bits)).ok_or(bad_bits)?;
            let mut counts = BTreeMap::new();
            for _ in 0..d.varint()? {
                let pool = get_signed(d)?;
                let mut hash = [0; 4];
                let len = Self::hash_len(bits);
                hash[..len].copy_from_slice(d.take(len, "hash")?);
                counts.insert((pool, u32::from_le_bytes(hash)), d.varint()?);
            }
            Ok(Self { bits, counts: Counts { total, counts } })
        })
    }
}

impl Encode for ByPool {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.varint(self.0.total).varint(self.0.counts.len() as u64);
            for (pool, count) in &self.0.counts {
                put_signed(e, *pool);
                e.varint(*count);
            }
        });
    }
}
impl Decode for ByPool {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "chunk_refs_by_pool_t", |d, _| {
            let total = d.varint()?;
            let mut counts = BTreeMap::new();
            for _ in 0..d.varint()? {
                counts.insert(get_signed(d)?, d.varint()?);
            }
            Ok(Self(Counts { total, counts }))
        })
    }
}

impl Encode for Count {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for Count {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, COUNT, |d, _| Ok(Self(d.get()?)))
    }
}
