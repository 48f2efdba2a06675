//! What a device is asked and what it answers.

/// Nanoseconds since an origin of the caller's.
pub type Nanos = u64;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Bytes from the device.
    Read,
    /// Bytes to the device.
    Write,
    /// Everything written before it arrived is to be durable. Offset and length mean nothing.
    Flush,
    /// The range is not needed any more.
    Discard,
}

/// A request. What lies behind the device's end is cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// A write that must be durable when it completes, whatever cache is there.
    pub fua: bool,
}

impl Request {
    pub fn read(offset: u64, length: u64) -> Self {
        Self { op: Op::Read, offset, length, fua: false }
    }

    /// A write that a cache may hold.
    pub fn write(offset: u64, length: u64) -> Self {
        Self { op: Op::Write, offset, length, fua: false }
    }

    pub fn flush() -> Self {
        Self { op: Op::Flush, offset: 0, length: 0, fua: false }
    }

    pub fn discard(offset: u64, length: u64) -> Self {
        Self { op: Op::Discard, offset, length, fua: false }
    }
}

/// A completion: the caller's number of the request, and when the device had done it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// As given to [`arrive`](crate::Model::arrive).
    pub id: u64,
    /// When it was done: never later than the time that `complete` was asked about.
    pub at: Nanos,
}
