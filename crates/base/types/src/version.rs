//! Versions of objects and logs, and the ids of requests.

use std::fmt;

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::{EntityName, Epoch};

/// A PG's version (Ceph's eversion_t): the epoch it was made in and a number that only grows. Ordered by epoch first.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EVersion {
    pub epoch: Epoch,
    /// The number within the PG.
    pub version: u64,
}

impl EVersion {
    /// Version `version` of `epoch`.
    pub fn new(epoch: Epoch, version: u64) -> Self {
        Self { epoch, version }
    }
}

impl fmt::Display for EVersion {
    /// Ceph's form: `EPOCH'VERSION`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}'{}", self.epoch, self.version)
    }
}
impl fmt::Debug for EVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for EVersion {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.version).put(&self.epoch);
    }
}
impl Decode for EVersion {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let version = d.get()?;
        Ok(Self { epoch: d.get()?, version })
    }
}

/// A request's id (Ceph's osd_reqid_t): what a resend is recognised by.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReqId {
    /// Who asked (type and global id).
    pub name: EntityName,
    /// The client's transaction number.
    pub tid: u64,
    /// The client's incarnation.
    pub inc: i32,
}

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}:{}", self.name, self.inc, self.tid)
    }
}
impl fmt::Debug for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Encode for ReqId {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.put(&self.name).put(&self.tid).put(&self.inc);
        });
    }
}
impl Decode for ReqId {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "osd_reqid_t", |d, _| Ok(Self { name: d.get()?, tid: d.get()?, inc: d.get()? }))
    }
}
