//! Keys whose byte order is the order of what they name: how durable stores name collections, objects and log records.

use smallvec::SmallVec;
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, ShardId, SnapId, SpgId};

use crate::CollectionId;

/// A key. Those of collections, log records and blocks' maps, 14 to 27 bytes, lie in it without memory of their own, so
/// that a search in a tree's node reads the node alone; those of objects are longer.
pub type Key = SmallVec<[u8; 32]>;

const SIGN: u64 = 1 << 63;

/// A collection's key: the prefix of its objects' and log entries' keys, never a prefix of another collection's.
pub fn collection_key(id: CollectionId) -> Key {
    let CollectionId::Pg(spg) = id else { return Key::from_slice(&[0]) };
    let mut key = Key::new();
    key.push(1);
    put_pool(&mut key, spg.pg.pool);
    key.extend_from_slice(&spg.pg.seed.to_be_bytes());
    key.push(spg.shard.0 as u8 ^ 0x80);
    key
}

/// The collection that a key names.
pub fn collection_of(key: &[u8]) -> Option<CollectionId> {
    let mut r = Reader(key);
    match r.byte()? {
        0 => Some(CollectionId::Meta),
        1 => {
            let pg = PgId { pool: r.pool()?, seed: u32::from_be_bytes(r.array()?) };
            Some(CollectionId::Pg(SpgId { pg, shard: ShardId((r.byte()? ^ 0x80) as i8) }))
        }
        _ => None,
    }
}

/// An object's key, or a sentinel's.
pub fn object_key(collection: &[u8], object: &GHObject) -> Key {
    let o = &object.hobj;
    let mut key = Key::with_capacity(collection.len() + 48 + 2 * o.name.len() + o.nspace.len());
    key.extend_from_slice(collection);
    key.push(u8::from(object.max));
    key.push(object.shard.0 as u8 ^ 0x80);
    key.push(u8::from(o.max));
    put_pool(&mut key, o.pool);
    key.extend_from_slice(&o.bitwise_key().to_be_bytes());
    put_name(&mut key, &o.nspace);
    put_name(&mut key, o.effective_key());
    put_name(&mut key, &o.name);
    key.extend_from_slice(&o.snap.0.to_be_bytes());
    put_name(&mut key, &o.key);
    key.extend_from_slice(&object.generation.to_be_bytes());
    key
}

/// The object that a key, without its collection's, names.
pub fn object_of(key: &[u8]) -> Option<GHObject> {
    let mut r = Reader(key);
    let (max, shard) = (r.byte()? != 0, ShardId((r.byte()? ^ 0x80) as i8));
    let hobj_max = r.byte()? != 0;
    let pool = r.pool()?;
    let hash = u32::from_be_bytes(r.array()?).reverse_bits();
    let (nspace, _effective, name) = (r.name()?, r.name()?, r.name()?);
    let snap = SnapId(u64::from_be_bytes(r.array()?));
    let key = r.name()?;
    let generation = u64::from_be_bytes(r.array()?);
    let hobj = HObject { name, key, snap, hash, max: hobj_max, nspace, pool };
    Some(GHObject { max, shard, hobj, generation })
}

/// A log entry's key.
pub fn log_key(collection: &[u8], version: EVersion) -> Key {
    let mut key = Key::from_slice(collection);
    key.extend_from_slice(&version.epoch.0.to_be_bytes());
    key.extend_from_slice(&version.version.to_be_bytes());
    key
}

/// The version that a log entry's key, without its collection's, names.
pub fn log_version(key: &[u8]) -> Option<EVersion> {
    let mut r = Reader(key);
    let epoch = Epoch(u32::from_be_bytes(r.array()?));
    Some(EVersion { epoch, version: u64::from_be_bytes(r.array()?) })
}

/// The key of an object's omap entry or block chunk.
pub fn numbered_key(nid: u64, rest: &[u8]) -> Key {
    joined(&nid.to_be_bytes(), rest)
}

/// A key of two parts.
pub fn joined(first: &[u8], rest: &[u8]) -> Key {
    let mut key = Key::with_capacity(first.len() + rest.len());
    key.extend_from_slice(first);
    key.extend_from_slice(rest);
    key
}

/// The first key after all that begin with `prefix`; `None` if there is none (all bytes are 0xff).
pub fn after_prefix(prefix: &[u8]) -> Option<Key> {
    let kept = prefix.iter().rposition(|&b| b != 0xff)?;
    let mut key = Key::from_slice(&prefix[..=kept]);
    key[kept] += 1;
    Some(key)
}

fn put_pool(key: &mut Key, pool: PoolId) {
    key.extend_from_slice(&(pool.0 as u64 ^ SIGN).to_be_bytes());
}

/// Zero bytes are marked, so that two of them end a name before anything that goes on.
fn put_name(key: &mut Key, name: &Name) {
    // Nearly no name has any: then its bytes are copied at once.
    match name.contains(&0) {
        false => key.extend_from_slice(name),
        true => name.iter().for_each(|b| match b {
            0 => key.extend_from_slice(&[0, 0xff]),
            b => key.push(*b),
        }),
    }
    key.extend_from_slice(&[0, 0]);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn pool(&mut self) -> Option<PoolId> {
        Some(PoolId((u64::from_be_bytes(self.array()?) ^ SIGN) as i64))
    }

    fn name(&mut self) -> Option<Name> {
        let mut name = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    0 => return Some(name.into()),
                    _ => name.push(0),
                },
                b => name.push(b),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_objects_and_name_them() {
        let bytes: &[&[u8]] = &[b"", b"\0", b"\0\0", b"\0\xff", b"a", b"a\0", b"a\0b", b"a\x01", b"\xff"];
        let snaps = [0, 1, 7, SnapId::DIR.0, SnapId::HEAD.0];
        let object = |n: usize| {
            let pool = [-1, 0, 1, i64::MIN, i64::MAX][n % 5];
            let hash = [0, 1, 2, 0x8000_0000, !0, 0x1234_5678][n % 6];
            let name = bytes[n % 9].into();
            let (nspace, key) = (bytes[n / 9 % 9].into(), bytes[n / 81 % 9].into());
            let snap = SnapId(snaps[n / 7 % 5]);
            let hobj = HObject { name, key, snap, hash, max: false, nspace, pool: PoolId(pool) };
            let shard = ShardId([-1, 0, 5][n / 11 % 3]);
            GHObject { max: false, shard, hobj, generation: [u64::MAX, 0, 9][n / 13 % 3] }
        };
        let mut all: Vec<GHObject> = (0..500).map(object).collect();
        all.extend([GHObject::min(), GHObject::max(), HObject::max().into()]);
        let c = collection_key(CollectionId::Meta);
        for a in &all {
            assert_eq!(object_of(&object_key(&c, a)[c.len()..]).as_ref(), Some(a));
            for b in &all {
                assert_eq!(object_key(&c, a).cmp(&object_key(&c, b)), a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn collections_and_versions_come_back_from_keys() {
        for (pool, seed, shard) in [(0, 0, -1), (-1, 7, 0), (i64::MAX, u32::MAX, 5), (i64::MIN, 1, -1)] {
            let pg = PgId { pool: PoolId(pool), seed };
            let id = CollectionId::Pg(SpgId { pg, shard: ShardId(shard) });
            assert_eq!(collection_of(&collection_key(id)), Some(id));
        }
        let v = EVersion::new(Epoch(7), 99);
        assert_eq!(log_version(&log_key(b"x", v)[1..]), Some(v));
        assert_eq!(after_prefix(b"a\xff\xff"), Some(Key::from_slice(b"b")));
        assert_eq!(after_prefix(b"\xff"), None);
    }
}
