//! Requests to devices, and their completions.

use std::fmt;

use buffer::{PieceMut, Rope};

use crate::DeviceError;

/// The caller's number for a request. The completion repeats it. Any value may be used, and reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// One of the devices that a store lies on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeviceId {
    /// Objects' data, and the logs and metadata if they have no separate device.
    Data,
    /// The write-ahead logs.
    Wal,
    /// Metadata.
    Db,
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "the data device",
            Self::Wal => "the WAL device",
            Self::Db => "the metadata device",
        })
    }
}

/// A request to one device.
#[derive(Debug)]
pub struct Request {
    pub token: Token,
    pub device: DeviceId,
    pub op: Op,
}

impl Request {
    pub fn new(token: Token, device: DeviceId, op: Op) -> Self {
        Self { token, device, op }
    }
}

/// The operation of a request. Offsets and lengths are in bytes; see [`Geometry`](crate::Geometry) for their limits.
#[derive(Debug)]
pub enum Op {
    /// Fills `buffer` with the bytes from `offset` on. The completion hands the same buffer back. One that begins on a
    /// page boundary is filled without a copy.
    Read { offset: u64, buffer: PieceMut },
    /// Replaces the bytes from `offset` on. The pieces may have any length and any place in memory; those that begin on
    /// a page boundary and are whole blocks long are written without a copy.
    Write { offset: u64, data: Rope, durability: Durability },
    /// Makes completed writes durable ([`DeviceQueue`](crate::DeviceQueue), "Durability").
    Flush,
    /// The bytes are not needed any more.
    Discard { offset: u64, len: u64 },
}

/// What the completion of a write promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Durability {
    /// Reads see the bytes; a power loss may revert them until a flush has covered them.
    Volatile,
    /// The bytes survive a power loss (FUA, `RWF_DSYNC`). This covers no other write, unless the device's geometry says so.
    Durable,
}

/// A request's outcome.
#[derive(Debug)]
pub struct Completion {
    pub token: Token,
    pub result: Result<Done, DeviceError>,
}

/// The result, by the kind of request.
#[derive(Debug)]
pub enum Done {
    /// The buffer of the request, filled.
    Read(PieceMut),
    Written,
    Flushed,
    Discarded,
}
