//! Small encodings that several messages share.

use std::ops::Deref;

use buffer::Piece;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::codec::fields;

/// Bytes with a u32 length: an encoded map, a reply's payload. Kept as they came; cloning copies nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob(pub Piece);

impl Default for Blob {
    fn default() -> Self {
        Self(Piece::empty())
    }
}
impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}
impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec().into())
    }
}
impl From<Piece> for Blob {
    fn from(bytes: Piece) -> Self {
        Self(bytes)
    }
}
impl Deref for Blob {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
impl Encode for Blob {
    fn encode(&self, e: &mut Encoder) {
        e.blob(&self.0);
    }
}
impl Decode for Blob {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(d.blob("bytes")?.into())
    }
}

/// A versioned encoding kept verbatim: version, oldest compatible version, body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Versioned {
    /// The writer's version.
    pub version: u8,
    /// What it asks of readers.
    pub compat: u8,
    /// The fields.
    pub body: Blob,
}
fields!(Versioned [version, compat, body]);

/// What every message to or from a monitor's services starts with (Ceph's PaxosServiceMessage).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Paxos {
    /// The sender's version of the map in question; 0 where none is.
    pub version: u64,
    /// No longer used: -1.
    pub session_mon: i16,
    /// No longer used: 0.
    pub session_mon_tid: u64,
}

impl Paxos {
    /// The prefix with this version.
    pub fn at(version: u64) -> Self {
        Self { version, session_mon: -1, session_mon_tid: 0 }
    }
}
impl Default for Paxos {
    fn default() -> Self {
        Self::at(0)
    }
}
fields!(Paxos [version, session_mon, session_mon_tid]);

/// A signed span of time (Ceph's signedspan): seconds and nanoseconds of the same sign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct TimeSpan {
    /// Whole seconds.
    pub sec: i32,
    /// The rest, in nanoseconds.
    pub nsec: i32,
}

impl TimeSpan {
    /// From nanoseconds (good for 68 years).
    pub fn from_nanos(nanos: i64) -> Self {
        Self { sec: (nanos / 1_000_000_000) as i32, nsec: (nanos % 1_000_000_000) as i32 }
    }

    /// In nanoseconds.
    pub fn as_nanos(self) -> i64 {
        i64::from(self.sec) * 1_000_000_000 + i64::from(self.nsec)
    }
}
fields!(TimeSpan [sec, nsec]);
