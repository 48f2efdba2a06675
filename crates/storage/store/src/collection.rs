//! What a collection is named by.

use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{PoolId, SpgId};

/// A collection's name (Ceph's coll_t). Ordered with the meta collection first, then by PG and shard.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CollectionId {
    /// The OSD's own: its superblock and maps. Never split or merged.
    Meta,
    /// A placement group's (it has its temporary objects too, distinguished by their pool).
    Pg(SpgId),
}

impl CollectionId {
    /// The pool that it belongs to; Ceph counts the meta collection as pool -1.
    pub fn pool(self) -> PoolId {
        match self {
            Self::Meta => PoolId(-1),
            Self::Pg(pg) => pg.pg.pool,
        }
    }
}

impl From<SpgId> for CollectionId {
    fn from(pg: SpgId) -> Self {
        Self::Pg(pg)
    }
}

impl fmt::Display for CollectionId {
    /// Ceph's form: `meta`, `1.2a_head`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Meta => f.write_str("meta"),
            Self::Pg(pg) => write!(f, "{pg}_head"),
        }
    }
}
impl fmt::Debug for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for CollectionId {
    fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Meta => e.put(&0u8),
            Self::Pg(pg) => e.put(&1u8).put(pg),
        };
    }
}
impl Decode for CollectionId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            0 => Ok(Self::Meta),
            1 => Ok(Self::Pg(d.get()?)),
            kind => Err(DecodeError::BadValue { what: "collection kind", value: kind.into() }),
        }
    }
}
