//! SCRUBLS: which objects of a placement group the last scrub found damaged, as `rados list-inconsistent-obj` and
//! `list-inconsistent-snapset` show them.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Epoch, Name, OsdId, ShardId, SnapId};

use crate::codec::fields;

/// Ceph's scrub_ls_arg_t: the input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubLsArg {
    /// The interval of which the beginning was listed; 0 for any.
    pub interval: Epoch,
    /// 1 for clones that do not fit their heads, 0 for objects.
    pub get_snapsets: u32,
    /// Where to go on, exclusive; an empty name for the beginning.
    pub start_name: Name,
    pub start_nspace: Name,
    pub start_snap: SnapId,
    /// Objects at most.
    pub max_return: u64,
}
fields!(ScrubLsArg "scrub_ls_arg_t" version 1, compat 1,
    [interval, get_snapsets, start_name, start_nspace, start_snap, max_return]);

/// Ceph's scrub_ls_result_t: the output. The values are encoded by themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScrubLsResult {
    pub interval: Epoch,
    pub vals: Vec<Name>,
}
fields!(ScrubLsResult "scrub_ls_result_t" version 1, compat 1, [interval, vals]);

/// An object's name as librados has it (Ceph's object_id_wrapper).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InconsistentId {
    pub name: Name,
    pub nspace: Name,
    /// The locator key.
    pub locator: Name,
    pub snap: SnapId,
}
fields!(InconsistentId "object_id_wrapper" version 1, compat 1, [name, nspace, locator, snap]);

/// Where a copy is (Ceph's osd_shard_wrapper).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InconsistentShard {
    pub osd: OsdId,
    pub shard: ShardId,
}
fields!(InconsistentShard "osd_shard_wrapper" version 1, compat 1, [osd, shard]);

/// A copy that is there (Ceph's shard_info_wrapper).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InconsistentCopy {
    /// Bits of Ceph's err_t.
    pub errors: u64,
    pub primary: bool,
    pub attrs: Vec<(Name, Name)>,
    /// Bytes.
    pub size: u64,
    pub omap_digest: Option<u32>,
    pub data_digest: Option<u32>,
    /// Whether its object info was taken for the object's.
    pub selected_oi: bool,
}

impl Encode for InconsistentCopy {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(3, 3, |e| {
            e.put(&self.errors).put(&self.primary).put(&self.attrs).put(&self.size);
            for digest in [self.omap_digest, self.data_digest] {
                e.put(&digest.is_some()).put(&digest.unwrap_or_default());
            }
            e.put(&self.selected_oi);
        });
    }
}
impl Decode for InconsistentCopy {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(3, "shard_info_wrapper", |d, version| {
            if version < 3 {
                return Err(DecodeError::TooOld { what: "shard_info_wrapper", version });
            }
            let (errors, primary, attrs, size) = (d.get()?, d.get()?, d.get()?, d.get()?);
            let mut digest = || {
                let (known, crc) = (d.get::<bool>()?, d.get::<u32>()?);
                Ok::<_, DecodeError>(known.then_some(crc))
            };
            let (omap_digest, data_digest) = (digest()?, digest()?);
            Ok(Self { errors, primary, attrs, size, omap_digest, data_digest, selected_oi: d.get()? })
        })
    }
}

/// A damaged object with its copies (Ceph's inconsistent_obj_wrapper).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InconsistentObject {
    /// How the copies differ from each other.
    pub errors: u64,
    pub object: InconsistentId,
    pub version: u64,
    pub copies: Vec<(InconsistentShard, InconsistentCopy)>,
    /// The errors of all copies.
    pub union_errors: u64,
}
fields!(InconsistentObject "inconsistent_obj_wrapper" version 2, compat 2,
    [errors, object, version, copies, union_errors]);

/// A head whose clones are not those that it names, or a clone without a head (Ceph's inconsistent_snapset_wrapper).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InconsistentSnapSet {
    /// Bits of Ceph's inconsistent_snapset_t.
    pub errors: u64,
    pub object: InconsistentId,
    /// Clones that the head does not name.
    pub clones: Vec<SnapId>,
    pub missing: Vec<SnapId>,
    /// The head's SnapSet as it is stored; empty where it has none that can be read.
    pub snapset: Name,
}
fields!(InconsistentSnapSet "inconsistent_snapset_wrapper" version 2, compat 1,
    [errors, object, clones, missing, snapset]);

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    // Put together by hand from the order of the fields in Ceph's scrub_types.cc.
    #[test]
    fn an_object_has_cephs_layout() {
        let object = InconsistentObject {
            errors: 0,
            object: InconsistentId {
                name: "o".into(),
                nspace: Name::new(),
                locator: Name::new(),
                snap: SnapId::HEAD,
            },
            version: 7,
            copies: vec![(
                InconsistentShard { osd: OsdId(2), shard: ShardId::NONE },
                InconsistentCopy {
                    errors: 8,
                    primary: true,
                    attrs: vec![("_".into(), "x".into())],
                    size: 3,
                    omap_digest: None,
                    data_digest: Some(0x0102_0304),
                    selected_oi: false,
                },
            )],
            union_errors: 8,
        };
        let bytes = object.to_bytes(0);
        let expected = concat!(
            "020272000000",
            "0000000000000000",
            "010115000000",
            "010000006f",
            "00000000",
            "00000000",
            "feffffffffffffff",
            "0700000000000000",
            "01000000",
            "010105000000",
            "02000000ff",
            "03032a000000",
            "0800000000000000",
            "01",
            "01000000",
            "010000005f",
            "0100000078",
            "0300000000000000",
            "00",
            "00000000",
            "01",
            "04030201",
            "00",
            "0800000000000000",
        );
        assert_eq!(hex(&bytes), expected);
        assert_eq!(InconsistentObject::from_bytes(&bytes), Ok(object));
    }
}
