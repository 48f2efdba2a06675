//! `rados list-inconsistent-obj` and `list-inconsistent-snapset`: what the last scrub of this interval found.

use encoding::{Decode, Encode};
use messages::osd_op::{
    InconsistentCopy, InconsistentId, InconsistentObject, InconsistentShard, InconsistentSnapSet, ScrubLsArg,
    ScrubLsResult,
};
use types::{Epoch, Errno, HObject, Name};

use super::Inconsistent;
use super::check::ObjectErrors;
use crate::Pg;

/// Objects in one answer.
const LIST_MAX: u64 = 1000;

impl Inconsistent {
    fn oid(&self) -> &HObject {
        match self {
            Self::Object { oid, .. } => oid,
            Self::Snaps { head, .. } => head,
        }
    }

    fn is_snaps(&self) -> bool {
        matches!(self, Self::Snaps { .. })
    }
}

fn id(oid: &HObject) -> InconsistentId {
    let HObject { name, nspace, key, snap, .. } = oid.clone();
    InconsistentId { name, nspace, locator: key, snap }
}

impl Pg {
    /// Answers SCRUBLS.
    ///
    /// # Errors
    /// EINVAL for input that can't be read, EAGAIN when the interval is another one than asked for, ENOENT when no scrub
    /// has ended in it.
    pub(crate) fn list_inconsistent(&self, input: &[u8]) -> Result<Vec<u8>, Errno> {
        let arg = ScrubLsArg::from_bytes(input).map_err(|_| Errno::EINVAL)?;
        let interval = self.records.info.history.same_interval_since;
        if arg.interval != Epoch(0) && arg.interval != interval {
            return Err(Errno::EAGAIN);
        }
        let all = self.scrubbed.inconsistent.as_ref().ok_or(Errno::ENOENT)?;
        let wanted: Vec<&Inconsistent> =
            all.iter().filter(|found| found.is_snaps() == (arg.get_snapsets != 0)).collect();
        let is_last = |found: &&Inconsistent| {
            let oid = found.oid();
            (&oid.name, &oid.nspace, oid.snap) == (&arg.start_name, &arg.start_nspace, arg.start_snap)
        };
        let from = match arg.start_name.is_empty() {
            true => 0,
            // What was listed last is kept as long as the interval lasts and no other scrub ends.
            false => wanted.iter().position(is_last).map_or(wanted.len(), |at| at + 1),
        };
        let vals = wanted[from..].iter().take(arg.max_return.min(LIST_MAX) as usize);
        let vals = vals.map(|found| self.encoded(found)).collect();
        Ok(ScrubLsResult { interval, vals }.to_bytes(0))
    }

    fn encoded(&self, found: &Inconsistent) -> Name {
        match found {
            Inconsistent::Object { oid, version, errors, size, digest, attrs } => {
                let copy = InconsistentCopy {
                    errors: *errors,
                    primary: true,
                    attrs: attrs.iter().map(|(name, value)| (name.clone(), value.to_vec().into())).collect(),
                    size: size.unwrap_or_default(),
                    omap_digest: None,
                    data_digest: *digest,
                    selected_oi: ObjectErrors(*errors).info_is_known(),
                };
                let shard = InconsistentShard { osd: self.whoami, shard: self.id.shard };
                let object = InconsistentObject {
                    errors: 0,
                    object: id(oid),
                    version: *version,
                    copies: vec![(shard, copy)],
                    union_errors: *errors,
                };
                object.to_bytes(0).into()
            }
            Inconsistent::Snaps { head, errors, missing, extra, snapset } => {
                let snaps = InconsistentSnapSet {
                    errors: *errors,
                    object: id(head),
                    clones: extra.clone(),
                    missing: missing.clone(),
                    snapset: snapset.to_vec().into(),
                };
                snaps.to_bytes(0).into()
            }
        }
    }
}
