//! What an object counts for in its PG's statistics.

use encoding::Decode;
use ops::{ObjectFlags, ObjectInfo, SnapSet, StatsDelta};
use store::Attrs;
use types::{HObject, SnapId};

use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};

/// The newest snapshot that an object knows of; `None` if its metadata can't be decoded, or it knows of none.
pub fn newest_snap(object: &HObject, attrs: &Attrs) -> Option<SnapId> {
    let newest = match object.is_head() {
        true => SnapId(SnapSet::from_bytes(attrs.get(SNAPSET_ATTR.as_bytes())?).ok()?.seq),
        false => object.snap,
    };
    (SnapId(1)..SnapId::HEAD).contains(&newest).then_some(newest)
}

/// What an object counts for; a head counts for the bytes of its clones too. `None`: its metadata can't be decoded.
pub(crate) fn count(object: &HObject, attrs: &Attrs) -> Option<StatsDelta> {
    let info = ObjectInfo::from_bytes(attrs.get(INFO_ATTR.as_bytes())?).ok()?;
    let mut counted = StatsDelta {
        num_objects: 1,
        num_objects_dirty: i64::from(info.has(ObjectFlags::DIRTY)),
        num_objects_omap: i64::from(info.is_omap()),
        ..StatsDelta::default()
    };
    if !object.is_head() {
        counted.num_object_clones = 1;
        return Some(counted);
    }
    let snapset = SnapSet::from_bytes(attrs.get(SNAPSET_ATTR.as_bytes())?).ok()?;
    let of_clones: u64 = snapset.clones.iter().map(|clone| snapset.clone_bytes(*clone)).sum();
    counted.num_bytes = (info.size + of_clones) as i64;
    counted.num_whiteouts = i64::from(info.is_whiteout());
    Some(counted)
}
