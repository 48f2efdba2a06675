//! What an OSD's meta collection holds: the superblock, and a full map and an increment for every epoch.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use store::{CollectionId, ReadRequest, Transaction};
use types::{Epoch, Fsid, GHObject, HObject, Name, OsdId, PoolId, SnapId};

/// The pool number of objects that belong to no pool (Ceph's POOL_META).
const POOL_META: PoolId = PoolId(-1);

/// An object of the meta collection. Named by an exact name only, so no hash is needed.
fn meta_object(name: String) -> GHObject {
    let mut object = HObject::head(POOL_META, Name::new(), Name::new(), name.into(), 0);
    object.snap = SnapId(0);
    object.into()
}

/// Where the superblock is.
pub(crate) fn superblock_object() -> GHObject {
    meta_object("osd_superblock".into())
}

/// Where the full map of an epoch is (Ceph's names, here and below).
pub(crate) fn full_map_object(epoch: Epoch) -> GHObject {
    meta_object(format!("osdmap.{epoch}"))
}

/// Where the increment to an epoch is.
pub(crate) fn inc_map_object(epoch: Epoch) -> GHObject {
    meta_object(format!("inc_osdmap.{epoch}"))
}

/// A read of a whole object of the meta collection.
pub(crate) fn read_meta(object: GHObject) -> ReadRequest {
    ReadRequest::Data { collection: CollectionId::Meta, object, offset: 0, len: u64::MAX }
}

/// What an OSD knows of itself across restarts (Ceph's OSDSuperblock, in a form of its own).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The cluster it belongs to.
    pub cluster_fsid: Fsid,
    /// Its number.
    pub whoami: OsdId,
    /// Its own id.
    pub osd_fsid: Fsid,
    /// The map that its PGs have reached, at least.
    pub current_epoch: Epoch,
    /// The oldest map stored.
    pub oldest_map: Epoch,
    /// The newest map stored.
    pub newest_map: Epoch,
    /// First epoch of its last clean mount.
    pub mounted: Epoch,
    /// Its PGs were all clean through this epoch at the last clean stop.
    pub clean_thru: Epoch,
    /// Maps before this one are not needed by anybody (the monitor's word).
    pub trim_lower_bound: Epoch,
}

impl Superblock {
    /// A new OSD's.
    /// That of an empty store.
    pub fn new(cluster_fsid: Fsid, whoami: OsdId, osd_fsid: Fsid) -> Self {
        let none = Epoch(0);
        Self {
            cluster_fsid,
            whoami,
            osd_fsid,
            current_epoch: none,
            oldest_map: none,
            newest_map: none,
            mounted: none,
            clean_thru: none,
            trim_lower_bound: none,
        }
    }

    /// Appends what makes this the stored superblock.
    pub(crate) fn store(&self, txn: &mut Transaction) {
        // Removed first: a shorter one than before must not keep the old one's end.
        txn.push(store::TxOp::Truncate {
            collection: CollectionId::Meta,
            object: superblock_object(),
            size: 0,
        });
        txn.write(CollectionId::Meta, superblock_object(), 0, Rope::from(self.to_bytes(0)));
    }
}

impl Encode for Superblock {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.cluster_fsid).put(&self.whoami).put(&self.osd_fsid).put(&self.current_epoch);
            e.put(&self.oldest_map).put(&self.newest_map).put(&self.mounted).put(&self.clean_thru);
            e.put(&self.trim_lower_bound);
        });
    }
}
impl Decode for Superblock {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "superblock", |d, _| {
            Ok(Self {
                cluster_fsid: d.get()?,
                whoami: d.get()?,
                osd_fsid: d.get()?,
                current_epoch: d.get()?,
                oldest_map: d.get()?,
                newest_map: d.get()?,
                mounted: d.get()?,
                clean_thru: d.get()?,
                trim_lower_bound: d.get()?,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superblock_comes_back() {
        let mut sb = Superblock::new(Fsid([1; 16]), OsdId(3), Fsid([2; 16]));
        sb.current_epoch = Epoch(7);
        sb.trim_lower_bound = Epoch(2);
        assert_eq!(Superblock::from_bytes_exact(&sb.to_bytes(0)), Ok(sb));
    }

    #[test]
    fn maps_have_objects_of_their_own() {
        assert_ne!(full_map_object(Epoch(1)), inc_map_object(Epoch(1)));
        assert_ne!(full_map_object(Epoch(1)), full_map_object(Epoch(11)));
    }
}
