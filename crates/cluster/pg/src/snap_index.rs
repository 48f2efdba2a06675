//! The index of clones by snapshot: keys of the pgmeta object's omap, so that a snapshot's objects are found without looking
//! at all objects.
//!
//! A key is `snap_`, the snapshot in 16 hexadecimal digits, `_`, the object's hash with its bits reversed in 8, `_`, and the
//! clone's name as Ceph encodes an hobject_t; the value is empty. In this order the objects that a split moves are a range
//! of each snapshot's keys. A clone has a key for every snapshot that it preserves.

use encoding::{Decode, Encode};
use types::{HObject, Name, SnapId};

/// What every key begins with.
pub(crate) const PREFIX: &[u8] = b"snap_";
/// Bytes before the clone's name.
const NAME_AT: usize = PREFIX.len() + 16 + 1 + 8 + 1;

/// What the keys of a snapshot begin with.
pub(crate) fn first_key(snap: SnapId) -> Name {
    [PREFIX, format!("{:016x}", snap.0).as_bytes()].concat().into()
}

/// The key of a clone that preserves a snapshot.
pub(crate) fn key(snap: SnapId, clone: &HObject) -> Name {
    let place = format!("_{:08x}_", clone.hash.reverse_bits());
    [first_key(snap).as_bytes(), place.as_bytes(), &clone.to_bytes(0)].concat().into()
}

/// What a key says; `None`: it is damaged.
pub(crate) fn parse(key: &[u8]) -> Option<(SnapId, HObject)> {
    let digits = key.strip_prefix(PREFIX)?.get(..16)?;
    let snap = u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    let clone = HObject::from_bytes(key.get(NAME_AT..)?).ok()?;
    Some((SnapId(snap), clone))
}

#[cfg(test)]
mod tests {
    use types::PoolId;

    use super::*;

    #[test]
    fn keys_come_back_and_stand_in_the_order_of_snapshots_then_of_placement() {
        let clone = |hash, snap| HObject {
            snap: SnapId(snap),
            ..HObject::head(PoolId(1), "n".into(), Name::new(), "o".into(), hash)
        };
        for (snap, hash) in [(1, 0), (u64::MAX, u32::MAX), (0x1234_5678, 0xdead_beef)] {
            let clone = clone(hash, snap);
            assert_eq!(parse(&key(SnapId(snap), &clone)), Some((SnapId(snap), clone)));
        }
        let keys = [(1, 8, 9), (1, 4, 9), (1, 1, 9), (2, 8, 3), (16, 8, 16)];
        let keys = keys.map(|(snap, hash, id)| key(SnapId(snap), &clone(hash, id)));
        assert!(keys.is_sorted(), "{keys:?}");
        assert_eq!(parse(b"snap_00"), None);
        assert_eq!(parse(&first_key(SnapId(7))), None);
    }
}
