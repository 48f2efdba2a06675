//! Snapshots' ids and the context that writes carry.

use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::encode_as_inner;

/// A snapshot's id (Ceph's snapid_t).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapId(pub u64);

impl SnapId {
    /// The object as it is now, not a snapshot (CEPH_NOSNAP).
    pub const HEAD: Self = Self(u64::MAX - 1);
    /// The object's directory of snapshots (CEPH_SNAPDIR).
    pub const DIR: Self = Self(u64::MAX);
}

encode_as_inner!(SnapId);

impl fmt::Display for SnapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::HEAD => f.write_str("head"),
            Self::DIR => f.write_str("snapdir"),
            Self(n) => write!(f, "{n:x}"),
        }
    }
}
impl fmt::Debug for SnapId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The snapshots that exist when a write is made (Ceph's SnapContext).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct SnapContext {
    /// The newest snapshot's id.
    pub seq: u64,
    /// Existing snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

impl SnapContext {
    /// Whether the snapshots descend and none is newer than `seq`.
    pub fn is_valid(&self) -> bool {
        self.snaps.first().is_none_or(|s| s.0 <= self.seq) && self.snaps.windows(2).all(|w| w[0] > w[1])
    }
}

impl Encode for SnapContext {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.seq).put(&self.snaps);
    }
}
impl Decode for SnapContext {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seq: d.get()?, snaps: d.get()? })
    }
}
