//! Snapshots: the clone that a write makes first, and ROLLBACK.

use encoding::Decode;
use types::{Errno, HObject, IntervalSet, SnapId};

use crate::run::{Runner, StepError, StepResult, unasked};
use crate::snapset::FoundSnap;
use crate::{
    Fetched, Mutation, Need, NeedOf, ObjectFlags, ObjectInfo, ObjectState, OpContext, Record, StatsDelta,
};

/// An object's attribute that holds its [`ObjectInfo`].
const INFO_ATTR: &str = "_";

/// A clone of the head as it was before the request, which must be stored before the request's mutations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewClone {
    /// Its metadata. The versions are the PG's to set.
    pub info: ObjectInfo,
    /// The snapshots that it preserves, newest first.
    pub snaps: Vec<SnapId>,
}

/// Brings the `SnapSet` of a head that changes up to date (the part of Ceph's make_writeable that concerns snapshots):
/// a visible head that some snapshot has not seen yet is cloned, and what the request modified is no longer shared with the
/// newest clone. `modified` are the byte ranges that the request changed.
pub(crate) fn preserve(
    ctx: &OpContext<'_>,
    before: &ObjectState,
    after: &mut ObjectState,
    mut modified: IntervalSet,
    delta: &mut StatsDelta,
) -> Option<Box<NewClone>> {
    let (snapc, snapset) = (ctx.snapc, &mut after.snapset);
    let unseen = snapc.snaps.iter().take_while(|snap| snap.0 > snapset.seq);
    let snaps: Vec<SnapId> = if before.is_visible() { unseen.copied().collect() } else { Vec::new() };
    let clone = (!snaps.is_empty()).then(|| {
        let id = SnapId(snapc.seq);
        let info = clone_info(&before.info, id);
        delta.num_objects += 1;
        delta.num_object_clones += 1;
        delta.num_objects_dirty += i64::from(info.has(ObjectFlags::DIRTY));
        delta.num_objects_omap += i64::from(info.is_omap());
        snapset.clones.push(id);
        snapset.clone_size.insert(id, info.size);
        snapset.clone_overlap.insert(id, IntervalSet::range(0, info.size));
        snapset.clone_snaps.insert(id, snaps.clone());
        Box::new(NewClone { info, snaps })
    });
    if let Some(mut newest) = snapset.clone_overlap.last_entry() {
        modified.intersect(newest.get());
        // Until now head and clone counted these bytes once.
        delta.num_bytes += modified.size() as i64;
        newest.get_mut().subtract(&modified);
    }
    snapset.seq = snapset.seq.max(snapc.seq);
    clone
}

/// What a clone takes over of its head's metadata (Ceph's copy_user_bits).
fn clone_info(head: &ObjectInfo, id: SnapId) -> ObjectInfo {
    ObjectInfo {
        prior_version: head.version,
        user_version: head.user_version,
        last_reqid: head.last_reqid,
        size: head.size,
        mtime: head.mtime,
        local_mtime: head.local_mtime,
        flags: head.flags & !ObjectFlags::MANIFEST,
        truncate_seq: head.truncate_seq,
        truncate_size: head.truncate_size,
        data_digest: head.data_digest,
        omap_digest: head.omap_digest,
        ..ObjectInfo::new(HObject { snap: id, ..head.oid.clone() })
    }
}

impl Runner<'_> {
    /// Makes the head what it was at a snapshot; removes it if it did not exist then.
    pub fn rollback(&mut self, snap: SnapId) -> StepResult {
        match self.state.snapset.find(snap, self.ctx.removed_snaps) {
            // What this request did to it does not count, as in Ceph: who was not there before was not there at the snapshot.
            FoundSnap::Head if self.was_visible => {
                // It has not changed since; a change all the same, with a version of its own.
                if self.state.is_visible() {
                    self.mutations.push(Mutation::Touch);
                }
                Ok(Some(0))
            }
            FoundSnap::Clone(id) => self.rollback_to(id),
            FoundSnap::Head if !self.stored && snap == SnapId::HEAD => {
                // Ceph takes it for a change, and finds nothing to log where the request has no other.
                self.record = Record::Nothing;
                Ok(Some(0))
            }
            FoundSnap::Head | FoundSnap::Nothing => {
                if self.was_watched {
                    return Err(Errno::EBUSY.into());
                }
                match self.delete() {
                    Ok(_) | Err(StepError::Fail(_)) => Ok(Some(0)),
                    Err(other) => Err(other),
                }
            }
        }
    }

    fn rollback_to(&mut self, id: SnapId) -> StepResult {
        let clone = self.fetch_clone_info(id)?;
        let size = self.state.info.size;
        let mut shared = self.state.snapset.shared_since(id);
        shared.intersect(&IntervalSet::range(0, size));
        let mut changed = IntervalSet::range(0, size);
        changed.subtract(&shared);
        self.mutations.push(Mutation::BecomeClone(id));
        self.note_created();
        self.clean.mark_data_dirty(0, size.max(clone.size));
        self.clean.clean_omap = false;
        if let Some(modified) = &mut self.modified {
            modified.union(&changed);
        }
        self.resize(clone.size);
        let info = &mut self.state.info;
        let taken = ObjectFlags::DATA_DIGEST | ObjectFlags::OMAP_DIGEST | ObjectFlags::OMAP;
        info.flags = info.flags & !taken | clone.flags & taken;
        (info.data_digest, info.omap_digest) = (clone.data_digest, clone.omap_digest);
        Ok(Some(0))
    }

    fn fetch_clone_info(&mut self, id: SnapId) -> Result<ObjectInfo, StepError> {
        let bytes = match self.fetch_of(NeedOf::Clone(id), Need::Attr(INFO_ATTR.into()))? {
            Fetched::Attr(bytes) => bytes.ok_or(Errno::EIO)?,
            other => return Err(unasked(&other)),
        };
        ObjectInfo::from_bytes(&bytes.to_piece()).map_err(|_| Errno::EIO.into())
    }
}
