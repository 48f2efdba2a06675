//! What an OSD's meta collection holds: the superblock, an increment for every epoch, and the full map of some (see
//! [`maps::is_kept_whole`]).

use buffer::Rope;
use encoding::{Decode, Encode};
use messages::{FeatureSet, OsdSuperblock};
use store::{Advice, CollectionId, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{Epoch, Fsid, GHObject, HObject, Name, OsdId, PoolId, SnapId};

/// The pool number of objects that belong to no pool (Ceph's POOL_META).
const POOL_META: PoolId = PoolId(-1);

/// An object of the meta collection. Named by an exact name only, so no hash is needed.
fn meta_object(name: String) -> GHObject {
    let mut object = HObject::head(POOL_META, Name::new(), Name::new(), name.into(), 0);
    object.snap = SnapId(0);
    object.into()
}

/// Where the superblock is, and its copy: a store in which neither can be read has lost its OSD's identity and maps.
pub(crate) fn superblock_objects() -> [GHObject; 2] {
    ["osd_superblock", "osd_superblock.copy"].map(|name| meta_object(name.into()))
}

/// What a read of a superblock has brought.
///
/// # Errors
/// There is none, or it can't be read.
pub(crate) fn superblock_of(read: Result<ReadOutcome, StoreError>) -> Result<OsdSuperblock, String> {
    match read {
        Ok(ReadOutcome::Data(data)) => {
            OsdSuperblock::from_bytes(&data.to_piece()).map_err(|error| error.to_string())
        }
        Ok(_) => Err("the store answered something else".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Where the full map of an epoch is (Ceph's names, here and below).
pub(crate) fn full_map_object(epoch: Epoch) -> GHObject {
    meta_object(format!("osdmap.{epoch}"))
}

/// Where the increment to an epoch is.
pub(crate) fn inc_map_object(epoch: Epoch) -> GHObject {
    meta_object(format!("inc_osdmap.{epoch}"))
}

/// An object that `ceph tell osd.N bench` writes to.
pub(crate) fn bench_object(number: u64) -> GHObject {
    meta_object(format!("bench.{number}"))
}

/// A read of a whole object of the meta collection.
pub(crate) fn read_meta(object: GHObject) -> ReadRequest {
    let (collection, advice) = (CollectionId::Meta, Advice::default());
    ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify: false }
}

/// A new store's.
pub(crate) fn new_superblock(cluster_fsid: Fsid, whoami: OsdId, osd_fsid: Fsid) -> OsdSuperblock {
    let mut superblock = OsdSuperblock::new(cluster_fsid, whoami, osd_fsid);
    superblock.cluster_osdmap_trim_lower_bound = Some(Epoch(0));
    superblock.compat_features.incompat = INCOMPAT.into_iter().collect::<FeatureSet>();
    superblock
}

/// Maps before this one are not needed by any OSD, as the monitor says; 0 when it never said.
pub(crate) fn trim_lower_bound(superblock: &OsdSuperblock) -> Epoch {
    superblock.cluster_osdmap_trim_lower_bound.unwrap_or(Epoch(0))
}

/// Appends what makes this the stored superblock.
pub(crate) fn store_superblock(superblock: &OsdSuperblock, txn: &mut Transaction) {
    let bytes = Rope::from(superblock.to_bytes(0));
    superblock_objects().iter().for_each(|object| replace_meta(object, bytes.clone(), txn));
}

/// Appends what makes these the bytes of an object of the meta collection, whatever it had.
pub(crate) fn replace_meta(object: &GHObject, bytes: Rope, txn: &mut Transaction) {
    // Truncated first: shorter ones than before must not keep the old ones' end, nor their damage.
    txn.truncate(CollectionId::Meta, object, 0);
    txn.write(CollectionId::Meta, object, 0, bytes);
}

/// Features of the store as Ceph names them (CEPH_OSD_FEATURE_INCOMPAT_*); monitors pass over what they don't know.
const INCOMPAT: [(u64, &str); 17] = [
    (1, "initial feature set(~v.18)"),
    (2, "pginfo object"),
    (3, "object locator"),
    (4, "last_epoch_clean"),
    (5, "categories"),
    (6, "hobjectpool"),
    (7, "biginfo"),
    (8, "leveldbinfo"),
    (9, "leveldblog"),
    (10, "snapmapper"),
    (11, "sharded objects"),
    (12, "transaction hints"),
    (13, "pg meta object"),
    (14, "explicit missing set"),
    (15, "fastinfo pg attr"),
    (16, "deletes in missing set"),
    (17, "new snapmapper key structure"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_objects_of_their_own() {
        assert_ne!(full_map_object(Epoch(1)), inc_map_object(Epoch(1)));
        assert_ne!(full_map_object(Epoch(1)), full_map_object(Epoch(11)));
    }
}
