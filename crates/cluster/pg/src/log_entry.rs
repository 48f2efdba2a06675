//! A change in a PG's log (Ceph's pg_log_entry_t) and what is remembered of an old one (pg_log_dup_t).

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{CleanRegions, OpReturn};
use types::{EVersion, Epoch, HObject, ReqId, UTime};

/// What an entry says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// The object was changed.
    Modify,
    /// A clone was made.
    Clone,
    /// The object was deleted.
    Delete,
    /// A lost object went back to an older version.
    LostRevert,
    /// A lost object was deleted.
    LostDelete,
    /// A lost object was marked so.
    LostMark,
    /// The object came from another tier.
    Promote,
    /// The object was marked clean in a tier.
    Clean,
    /// Nothing was changed: the request failed, and a resend gets the same answer.
    Error,
}

impl EntryKind {
    const NUMBERS: [(Self, i32); 9] = [
        (Self::Modify, 1),
        (Self::Clone, 2),
        (Self::Delete, 3),
        (Self::LostRevert, 5),
        (Self::LostDelete, 6),
        (Self::LostMark, 7),
        (Self::Promote, 8),
        (Self::Clean, 9),
        (Self::Error, 10),
    ];
}

impl Encode for EntryKind {
    fn encode(&self, e: &mut Encoder) {
        let number = Self::NUMBERS.iter().find(|(k, _)| k == self).map_or(0, |&(_, n)| n);
        e.put(&number);
    }
}
impl Decode for EntryKind {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let number: i32 = d.get()?;
        let found = Self::NUMBERS.iter().find(|&&(_, n)| n == number).map(|&(k, _)| k);
        found.ok_or(DecodeError::BadValue { what: "pg_log_entry_t op", value: number as u32 as u64 })
    }
}

/// How an entry can be undone locally (Ceph's ObjectModDesc). Replicated pools undo by recovery, so it is empty there;
/// erasure-coded ones will fill it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RollbackRecord {
    /// The version that a reader must know.
    pub version: u8,
    /// Whether `steps` suffice.
    pub can_local_rollback: bool,
    /// Whether what the steps need has been removed already.
    pub completed: bool,
    /// Ceph's encoded steps.
    pub steps: Vec<u8>,
}

impl RollbackRecord {
    /// Undone by recovery only.
    pub const fn none() -> Self {
        Self { version: 1, can_local_rollback: false, completed: false, steps: Vec::new() }
    }
}

impl Encode for RollbackRecord {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(self.version, self.version, |e| {
            e.put(&self.can_local_rollback).put(&self.completed).blob(&self.steps);
        });
    }
}
impl Decode for RollbackRecord {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "ObjectModDesc", |d, version| {
            let (can_local_rollback, completed) = (d.get()?, d.get()?);
            Ok(Self { version, can_local_rollback, completed, steps: d.blob("rollback steps")?.to_vec() })
        })
    }
}

impl Default for RollbackRecord {
    fn default() -> Self {
        Self::none()
    }
}

/// What few entries say.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct EntryExtras {
    /// Of [`EntryKind::LostRevert`]: the version gone back to.
    pub reverting_to: EVersion,
    /// Of clones: their snapshots, encoded.
    pub snaps: Vec<u8>,
    /// How to undo it.
    pub rollback: RollbackRecord,
    /// Requests that copied state brought along, with their user versions.
    pub extra_reqids: Vec<(ReqId, u64)>,
    /// Their results where not 0, by index.
    pub extra_return_codes: BTreeMap<u32, i32>,
    /// The results of the request's operations, where a resend must get them.
    pub op_returns: Vec<OpReturn>,
}

static NO_EXTRAS: EntryExtras = EntryExtras {
    reverting_to: EVersion { epoch: Epoch(0), version: 0 },
    snaps: Vec::new(),
    rollback: RollbackRecord::none(),
    extra_reqids: Vec::new(),
    extra_return_codes: BTreeMap::new(),
    op_returns: Vec::new(),
};

/// An entry's [`EntryExtras`], in a box if there are any: a PG keeps thousands of entries, most without.
#[derive(Clone, Default, Eq, Debug)]
pub struct Extras(Option<Box<EntryExtras>>);

impl Extras {
    /// The results of the request's operations.
    pub fn into_op_returns(self) -> Vec<OpReturn> {
        self.0.map_or_else(Vec::new, |extras| extras.op_returns)
    }
}

impl Deref for Extras {
    type Target = EntryExtras;
    fn deref(&self) -> &EntryExtras {
        self.0.as_deref().unwrap_or(&NO_EXTRAS)
    }
}
impl DerefMut for Extras {
    fn deref_mut(&mut self) -> &mut EntryExtras {
        self.0.get_or_insert_default()
    }
}

impl From<EntryExtras> for Extras {
    fn from(extras: EntryExtras) -> Self {
        Self((extras != NO_EXTRAS).then(|| Box::new(extras)))
    }
}

impl PartialEq for Extras {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

/// A change, or a request that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    /// What it says.
    pub kind: EntryKind,
    /// Of which object.
    pub oid: HObject,
    /// Its place in the log.
    pub version: EVersion,
    /// The object's version before.
    pub prior_version: EVersion,
    /// What librados shows as the object's version.
    pub user_version: u64,
    /// Whose request.
    pub reqid: ReqId,
    /// As the client set it.
    pub mtime: UTime,
    /// What was left as it was.
    pub clean_regions: CleanRegions,
    /// The request's result.
    pub return_code: i32,
    pub extras: Extras,
}

impl LogEntry {
    fn encode_fields(&self, e: &mut Encoder) {
        let extras = &*self.extras;
        let (revert, error) = (self.kind == EntryKind::LostRevert, self.kind == EntryKind::Error);
        e.put(&self.kind).put(&self.oid).put(&self.version);
        e.put(if revert { &extras.reverting_to } else { &self.prior_version });
        e.put(&self.reqid).put(&self.mtime);
        if revert {
            e.put(&self.prior_version);
        }
        e.blob(&extras.snaps).put(&self.user_version).put(&extras.rollback).put(&extras.extra_reqids);
        if error {
            e.put(&self.return_code);
        }
        if !extras.extra_reqids.is_empty() {
            e.put(&extras.extra_return_codes);
        }
        e.put(&self.clean_regions);
        if !error {
            e.put(&self.return_code);
        }
        e.put(&extras.op_returns);
    }
}

impl Encode for LogEntry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(14, 4, |e| self.encode_fields(e));
    }
}
impl Decode for LogEntry {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // Squid's version 15 adds the shards that a partial write touched.
        d.versioned(14, "pg_log_entry_t", |d, v| match v {
            0..14 => Err(DecodeError::TooOld { what: "pg_log_entry_t", version: v }),
            _ => decode_fields(d),
        })
    }
}

fn decode_fields(d: &mut Decoder<'_>) -> Result<LogEntry, DecodeError> {
    let (kind, oid, version) = (d.get()?, d.get()?, d.get()?);
    let (revert, error) = (kind == EntryKind::LostRevert, kind == EntryKind::Error);
    let prior_or_target: EVersion = d.get()?;
    let (reqid, mtime) = (d.get()?, d.get()?);
    let (prior_version, reverting_to) =
        if revert { (d.get()?, prior_or_target) } else { (prior_or_target, EVersion::default()) };
    let snaps = d.blob("snaps")?.to_vec();
    let (user_version, rollback) = (d.get()?, d.get()?);
    let extra_reqids: Vec<_> = d.get()?;
    let error_code = if error { d.get()? } else { 0 };
    let extra_return_codes = if extra_reqids.is_empty() { BTreeMap::new() } else { d.get()? };
    let clean_regions = d.get()?;
    let return_code = if error { error_code } else { d.get()? };
    let op_returns = d.get()?;
    let extras =
        EntryExtras { reverting_to, snaps, rollback, extra_reqids, extra_return_codes, op_returns }.into();
    Ok(LogEntry {
        kind,
        oid,
        version,
        prior_version,
        user_version,
        reqid,
        mtime,
        clean_regions,
        return_code,
        extras,
    })
}

/// What stays of an entry that left the log: enough to answer a resend (Ceph's pg_log_dup_t).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogDup {
    /// The request.
    pub reqid: ReqId,
    /// Its entry.
    pub version: EVersion,
    pub user_version: u64,
    /// Its result.
    pub return_code: i32,
    /// Its operations' results.
    pub op_returns: Vec<OpReturn>,
    /// Its object's hash, where the entry was here: it says which PG keeps the duplicate when this one splits. Not encoded.
    pub hash: Option<u32>,
}

impl LogDup {
    /// Of no request: says that a log reaches up to this version, whose entry another PG has.
    pub(crate) fn mark(version: EVersion) -> Self {
        let reqid = ReqId::default();
        Self { reqid, version, user_version: 0, return_code: 0, op_returns: Vec::new(), hash: None }
    }
}

impl Encode for LogDup {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.reqid).put(&self.version).put(&self.user_version);
            e.put(&self.return_code).put(&self.op_returns);
        });
    }
}
impl Decode for LogDup {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "pg_log_dup_t", |d, v| {
            if v < 2 {
                return Err(DecodeError::TooOld { what: "pg_log_dup_t", version: v });
            }
            let (reqid, version, user_version) = (d.get()?, d.get()?, d.get()?);
            let (return_code, op_returns) = (d.get()?, d.get()?);
            Ok(Self { reqid, version, user_version, return_code, op_returns, hash: None })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_without_extras_is_small_and_equals_one_with_empty_ones() {
        assert!(size_of::<LogEntry>() <= 208, "{} bytes", size_of::<LogEntry>());
        let version = EVersion { epoch: Epoch(3), version: 4 };
        let plain = LogEntry::new(EntryKind::Modify, HObject::max(), version, ReqId::default());
        let mut entry = plain.clone();
        entry.extras.op_returns.push(OpReturn::default());
        assert_ne!(entry, plain);
        assert_eq!(LogEntry::from_bytes_exact(&entry.to_bytes(0)), Ok(entry.clone()));
        entry.extras.op_returns.clear();
        assert_eq!(entry, plain);
        let decoded = LogEntry::from_bytes_exact(&entry.to_bytes(0)).expect("its own encoding");
        assert!(decoded.extras.0.is_none() && decoded == plain, "what is empty takes no box");
    }
}
