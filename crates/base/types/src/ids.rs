//! Numbers with a meaning: epochs, pools, placement groups, shards, the cluster's id.

use std::fmt;
use std::str::FromStr;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::encode_as_inner;

/// A map's epoch (Ceph's epoch_t). 0 is "none yet".
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch after this one.
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// An OSD's number; -1 is "none", and in an erasure-coded set 0x7fffffff (see [`OsdId::NONE`]) is a hole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsdId(pub i32);

impl OsdId {
    /// CRUSH_ITEM_NONE: no OSD could be placed.
    pub const NONE: Self = Self(0x7fff_ffff);
}

/// A pool's number. -1 is "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub i64);

/// An erasure-coded shard's number within its PG (Ceph's shard_id_t); -1 in a replicated one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub i8);

impl ShardId {
    /// No shard: the PG is replicated.
    pub const NONE: Self = Self(-1);
}

impl Default for ShardId {
    fn default() -> Self {
        Self::NONE
    }
}

encode_as_inner!(Epoch, OsdId, PoolId, ShardId);

macro_rules! show_number {
    ($($t:ident),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($t), self.0)
            }
        }
    )*};
}
show_number!(Epoch, OsdId, PoolId, ShardId);

/// A placement group (Ceph's pg_t): pool and seed. As it comes from a client the seed may be a raw hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgId {
    pub pool: PoolId,
    /// The PG's number within the pool, or an object's whole hash before `raw_pg_to_pg`.
    pub seed: u32,
}

impl fmt::Display for PgId {
    /// Ceph's form: pool in decimal, a dot, the seed in hexadecimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:x}", self.pool, self.seed)
    }
}
impl fmt::Debug for PgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pg {self}")
    }
}

/// A text that is not an id of the kind asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {what}: '{text}'")]
pub struct ParseIdError {
    what: &'static str,
    text: String,
}

impl FromStr for PgId {
    type Err = ParseIdError;
    fn from_str(s: &str) -> Result<Self, ParseIdError> {
        let parse = || {
            let (pool, seed) = s.split_once('.')?;
            Some(Self { pool: PoolId(pool.parse().ok()?), seed: u32::from_str_radix(seed, 16).ok()? })
        };
        parse().ok_or_else(|| ParseIdError { what: "placement group id (POOL.SEED)", text: s.into() })
    }
}

impl Encode for PgId {
    fn encode(&self, e: &mut Encoder) {
        // The last field is the "preferred" OSD that releases before Nautilus had.
        e.put(&1u8).put(&self.pool).put(&self.seed).put(&-1i32);
    }
}
impl Decode for PgId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            1 => {}
            version => return Err(DecodeError::TooNew { what: "pg_t", compat: version, known: 1 }),
        }
        let id = Self { pool: d.get()?, seed: d.get()? };
        d.get::<i32>()?;
        Ok(id)
    }
}

/// A placement group's shard (Ceph's spg_t): what a collection of a store is named by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpgId {
    /// The placement group.
    pub pg: PgId,
    /// Its shard; [`ShardId::NONE`] when replicated.
    pub shard: ShardId,
}

impl From<PgId> for SpgId {
    fn from(pg: PgId) -> Self {
        Self { pg, shard: ShardId::NONE }
    }
}

impl fmt::Display for SpgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            ShardId::NONE => self.pg.fmt(f),
            shard => write!(f, "{}s{}", self.pg, shard),
        }
    }
}

impl Encode for SpgId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.pg).put(&self.shard);
        });
    }
}
impl Decode for SpgId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "spg_t", |d, _| Ok(Self { pg: d.get()?, shard: d.get()? }))
    }
}

/// The cluster's id, or any other UUID (an OSD's).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fsid(pub [u8; 16]);

impl Fsid {
    /// A random (version 4) UUID out of 16 random bytes.
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        Self(bytes)
    }

    /// Whether all bytes are zero ("none").
    pub fn is_zero(&self) -> bool {
        self.0 == [0; 16]
    }
}

impl fmt::Display for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}
impl fmt::Debug for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fsid {
    type Err = ParseIdError;
    fn from_str(s: &str) -> Result<Self, ParseIdError> {
        let error = || ParseIdError { what: "UUID", text: s.into() };
        let hex: Vec<u8> = s.bytes().filter(|&b| b != b'-').collect();
        if hex.len() != 32 || s.len() != 36 {
            return Err(error());
        }
        let mut out = [0; 16];
        for (byte, pair) in out.iter_mut().zip(hex.chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        Ok(Self(out))
    }
}

impl Encode for Fsid {
    fn encode(&self, e: &mut Encoder) {
        e.raw(&self.0);
    }
}
impl Decode for Fsid {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self(d.array("uuid")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_prints_and_parses() {
        let id = Fsid::from_random([0xab; 16]);
        assert_eq!(id.to_string(), "abababab-abab-4bab-abab-abababababab");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("abab".parse::<Fsid>().is_err());
        assert!("é".repeat(18).parse::<Fsid>().is_err());
    }

    #[test]
    fn a_pg_prints_its_seed_in_hexadecimal() {
        let pg = PgId { pool: PoolId(3), seed: 0x1f };
        assert_eq!(pg.to_string(), "3.1f");
        assert_eq!("3.1f".parse(), Ok(pg));
        assert_eq!(pg.to_bytes(0).len(), 17);
        assert_eq!(SpgId::from_bytes_exact(&SpgId::from(pg).to_bytes(0)), Ok(pg.into()));
    }
}
