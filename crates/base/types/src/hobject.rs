//! Objects as placement groups and stores name them.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{Name, PoolId, ShardId, SnapId};

/// An object within a cluster (Ceph's hobject_t).
///
/// Ordered as Ceph lists: the maximum last; then pool, bit-reversed hash, namespace, effective key (the name where
/// there is no key), name, snapshot.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct HObject {
    /// The object's name.
    pub name: Name,
    /// The locator key; empty when the name places the object.
    pub key: Name,
    /// The snapshot, or [`SnapId::HEAD`].
    pub snap: SnapId,
    /// The whole placement hash.
    pub hash: u32,
    /// Whether this is the end of every order, and no object.
    pub max: bool,
    /// The namespace.
    pub nspace: Name,
    /// The pool; `i64::MIN` only in [`HObject::min`]; -2 - pool in a temporary object.
    pub pool: PoolId,
}

impl HObject {
    /// A head object. `hash` is the placement hash of its key or name.
    pub fn head(pool: PoolId, nspace: Name, key: Name, name: Name, hash: u32) -> Self {
        Self { name, key, snap: SnapId::HEAD, hash, max: false, nspace, pool }
    }

    /// The start of every order (a sentinel; also what an unset one is).
    pub fn min() -> Self {
        Self {
            name: Name::new(),
            key: Name::new(),
            snap: SnapId(0),
            hash: 0,
            max: false,
            nspace: Name::new(),
            pool: PoolId(i64::MIN),
        }
    }

    /// The end of every order (a sentinel).
    pub fn max() -> Self {
        Self { max: true, ..Self::min() }
    }

    /// Whether this is [`HObject::max`].
    pub fn is_max(&self) -> bool {
        self.max
    }

    /// Whether this is [`HObject::min`].
    pub fn is_min(&self) -> bool {
        *self == Self::min()
    }

    /// Whether this is the object as it is now, not a snapshot of it.
    pub fn is_head(&self) -> bool {
        self.snap == SnapId::HEAD
    }

    /// What the object is placed by.
    pub fn effective_key(&self) -> &Name {
        if self.key.is_empty() { &self.name } else { &self.key }
    }

    /// The hash in the order of listings and splits.
    pub fn bitwise_key(&self) -> u32 {
        self.hash.reverse_bits()
    }
}

impl Ord for HObject {
    fn cmp(&self, o: &Self) -> Ordering {
        self.max
            .cmp(&o.max)
            .then_with(|| self.pool.cmp(&o.pool))
            .then_with(|| self.bitwise_key().cmp(&o.bitwise_key()))
            .then_with(|| self.nspace.cmp(&o.nspace))
            .then_with(|| self.effective_key().cmp(o.effective_key()))
            .then_with(|| self.name.cmp(&o.name))
            .then_with(|| self.snap.cmp(&o.snap))
            // Same name with and without a key equal to it: distinct values, so order them.
            .then_with(|| self.key.cmp(&o.key))
    }
}
impl PartialOrd for HObject {
    fn partial_cmp(&self, o: &Self) -> Option<Ordering> {
        Some(self.cmp(o))
    }
}

impl fmt::Display for HObject {
    /// Ceph's form: `POOL:BITREVERSED-HASH:NAMESPACE:KEY:NAME:SNAP`, names [`Escaped`].
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        if self.is_min() {
            return f.write_str("MIN");
        }
        let reversed = self.bitwise_key();
        let [nspace, key, name] = [&self.nspace, &self.key, &self.name].map(Escaped);
        write!(f, "{}:{reversed:08x}:{nspace}:{key}:{name}:{}", self.pool, self.snap)
    }
}

/// A name as Ceph prints it in a hobject_t: `%` and two hexadecimal digits stand for each of `%`, `:`, `/` and for each byte that is
/// not printable ASCII.
struct Escaped<'a>(&'a Name);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_bytes().iter().try_for_each(|byte| match byte {
            b' '..=b'~' if !b"%:/".contains(byte) => f.write_char(char::from(*byte)),
            byte => write!(f, "%{byte:02x}"),
        })
    }
}

impl fmt::Debug for HObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn encode_fields(o: &HObject, e: &mut Encoder) {
    e.put(&o.key).put(&o.name).put(&o.snap).put(&o.hash).put(&o.max).put(&o.nspace).put(&o.pool);
}

fn decode_fields(d: &mut Decoder<'_>) -> Result<HObject, DecodeError> {
    let (key, name, snap, hash, max) = (d.get()?, d.get()?, d.get()?, d.get()?, d.get()?);
    Ok(HObject { name, key, snap, hash, max, nspace: d.get()?, pool: d.get()? })
}

impl Encode for HObject {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 3, |e| encode_fields(self, e));
    }
}
impl Decode for HObject {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(4, "hobject_t", |d, v| match v {
            0..4 => Err(DecodeError::TooOld { what: "hobject_t", version: v }),
            _ => decode_fields(d),
        })
    }
}

/// An object within a store (Ceph's ghobject_t): an [`HObject`] with a generation and an erasure-coded shard.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GHObject {
    // Field order is the order of listings.
    /// Whether this is the end of every order.
    pub max: bool,
    pub shard: ShardId,
    /// The object.
    pub hobj: HObject,
    /// The generation; [`GHObject::NO_GEN`] for the current one.
    pub generation: u64,
}

impl GHObject {
    /// The generation of the current object.
    pub const NO_GEN: u64 = u64::MAX;

    /// The start of every order.
    pub fn min() -> Self {
        Self::from(HObject::min())
    }

    /// The end of every order.
    pub fn max() -> Self {
        Self { max: true, ..Self::from(HObject::max()) }
    }

    /// A PG's own object, which holds its info and log: nameless, before all others of the collection.
    pub fn pgmeta(pool: PoolId, seed: u32, shard: ShardId) -> Self {
        let hobj = HObject::head(pool, Name::new(), Name::new(), Name::new(), seed);
        Self { max: false, shard, hobj, generation: Self::NO_GEN }
    }

    /// Whether this is a PG's own object.
    pub fn is_pgmeta(&self) -> bool {
        self.hobj.pool.0 >= 0 && self.hobj.name.is_empty() && self.hobj.key.is_empty()
    }
}

impl From<HObject> for GHObject {
    fn from(hobj: HObject) -> Self {
        Self { max: false, shard: ShardId::NONE, hobj, generation: Self::NO_GEN }
    }
}

impl fmt::Display for GHObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.max, self.generation) {
            (true, _) => f.write_str("GHMAX"),
            (_, Self::NO_GEN) => write!(f, "#{}#", self.hobj),
            (_, generation) => write!(f, "{}#{}#{generation:x}", self.shard, self.hobj),
        }
    }
}
impl fmt::Debug for GHObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for GHObject {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(6, 3, |e| {
            encode_fields(&self.hobj, e);
            e.put(&self.generation).put(&self.shard).put(&self.max);
        });
    }
}
impl Decode for GHObject {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(6, "ghobject_t", |d, v| {
            if v < 6 {
                return Err(DecodeError::TooOld { what: "ghobject_t", version: v });
            }
            let hobj = decode_fields(d)?;
            let (generation, shard) = (d.get()?, d.get()?);
            Ok(Self { max: d.get()?, shard, hobj, generation })
        })
    }
}

/// Where an object lives, as a client says it (Ceph's object_locator_t).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ObjectLocator {
    pub pool: PoolId,
    /// A key to place by instead of the name.
    pub key: Name,
    /// The namespace.
    pub nspace: Name,
    /// A hash to place by, or -1.
    pub hash: i64,
}

impl Encode for ObjectLocator {
    fn encode(&self, e: &mut Encoder) {
        let compat = if self.hash == -1 { 3 } else { 6 };
        e.versioned(6, compat, |e| {
            e.put(&self.pool).put(&-1i32).put(&self.key).put(&self.nspace).put(&self.hash);
        });
    }
}
impl Decode for ObjectLocator {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(6, "object_locator_t", |d, v| {
            if v < 6 {
                return Err(DecodeError::TooOld { what: "object_locator_t", version: v });
            }
            let pool = d.get()?;
            d.get::<i32>()?;
            Ok(Self { pool, key: d.get()?, nspace: d.get()?, hash: d.get()? })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(hash: u32, nspace: &str, name: &str) -> HObject {
        HObject::head(PoolId(1), nspace.into(), Name::new(), name.into(), hash)
    }

    #[test]
    fn objects_order_by_reversed_hash_then_namespace_then_name() {
        let list = [
            HObject::min(),
            object(0, "", "a"),
            object(0, "", "b"),
            object(0, "n", "a"),
            object(2, "", "a"),
            object(1, "", "a"),
            HObject::max(),
        ];
        assert!(list.is_sorted(), "{list:?}");
        assert!(GHObject::pgmeta(PoolId(1), 0, ShardId::NONE) < list[1].clone().into());
    }

    #[test]
    fn an_object_is_one_word_of_printable_ascii_but_for_spaces() {
        let odd = HObject::head(PoolId(1), "n:s".into(), "k/".into(), Name::from(&b"a%\n \xff\x7f~"[..]), 8);
        assert_eq!(odd.to_string(), "1:10000000:n%3as:k%2f:a%25%0a %ff%7f~:head");
    }

    #[test]
    fn sentinels_and_objects_come_back() {
        for o in [HObject::min(), HObject::max(), object(77, "x", "y")] {
            assert_eq!(HObject::from_bytes_exact(&o.to_bytes(0)), Ok(o.clone()));
            let g = GHObject::from(o);
            assert_eq!(GHObject::from_bytes_exact(&g.to_bytes(0)), Ok(g));
        }
        assert!(GHObject::max() > GHObject::from(HObject::max()));
    }
}
