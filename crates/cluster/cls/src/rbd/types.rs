//! What image headers keep: snapshots and parents, and how methods exchange them.

use std::collections::{BTreeMap, BTreeSet};

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{Name, SnapId, UTime};

pub(super) const HEAD: u64 = SnapId::HEAD.0;
/// The greatest id that a snapshot can have (CEPH_MAXSNAP).
pub(super) const SNAP_MAX: u64 = u64::MAX - 2;

/// A structure that is encoded as its fields in their order, in an envelope; what an older one lacks has its type's
/// default.
macro_rules! structure {
    (
        $(#[$meta:meta])*
        $name:ident, $what:literal, version $version:literal {
            $($(#[$field_meta:meta])* $field:ident: $type:ty, since $since:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub(crate) struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl ::encoding::Encode for $name {
            fn encode(&self, e: &mut ::encoding::Encoder) {
                e.versioned($version, 1, |e| {
                    $(e.put(&self.$field);)*
                });
            }
        }
        impl ::encoding::Decode for $name {
            fn decode(d: &mut ::encoding::Decoder<'_>) -> Result<Self, ::encoding::DecodeError> {
                d.versioned($version, $what, |d, v| {
                    Ok(Self { $($field: if v >= $since { d.get()? } else { Default::default() },)* })
                })
            }
        }
    };
}
pub(super) use structure;

structure! {
    /// A snapshot that an image is a clone of, as methods exchange it.
    ParentSpec, "ParentImageSpec", version 1 {
        pool: i64, since 1;
        namespace: Name, since 1;
        image_id: Name, since 1;
        snap: u64, since 1;
    }
}

/// What an image is a clone of (cls_rbd_parent).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Parent {
    pub spec: ParentSpec,
    /// Bytes at the head's start that are the parent's where the image has none of its own; `None` where only snapshots
    /// have such.
    pub head_overlap: Option<u64>,
}

impl Parent {
    pub fn exists(&self) -> bool {
        let ParentSpec { pool, image_id, snap, .. } = &self.spec;
        *pool >= 0 && !image_id.is_empty() && *snap != HEAD
    }
}

impl Default for Parent {
    fn default() -> Self {
        let spec = ParentSpec { pool: -1, namespace: Name::new(), image_id: Name::new(), snap: HEAD };
        Self { spec, head_overlap: None }
    }
}

impl Encode for Parent {
    fn encode(&self, e: &mut Encoder) {
        let ParentSpec { pool, namespace, image_id, snap } = &self.spec;
        e.versioned(2, 2, |e| {
            e.put(pool).put(namespace).put(image_id).put(snap).put(&self.head_overlap);
        });
    }
}
impl Decode for Parent {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "cls_rbd_parent", |d, v| {
            let pool = d.get()?;
            let namespace = if v >= 2 { d.get()? } else { Name::new() };
            let spec = ParentSpec { pool, namespace, image_id: d.get()?, snap: d.get()? };
            Ok(Self { spec, head_overlap: if v == 1 { Some(d.get()?) } else { d.get()? } })
        })
    }
}

/// An image that is a clone of a snapshot (cls::rbd::ChildImageSpec). In the order in which sets of them are encoded.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ChildSpec {
    pub pool: i64,
    pub namespace: Name,
    pub image_id: Name,
}

impl Encode for ChildSpec {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.pool).put(&self.image_id).put(&self.namespace);
        });
    }
}
impl Decode for ChildSpec {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "ChildImageSpec", |d, v| {
            let (pool, image_id) = (d.get()?, d.get()?);
            Ok(Self { pool, image_id, namespace: if v >= 2 { d.get()? } else { Name::new() } })
        })
    }
}

/// What a snapshot was made for (cls::rbd::SnapshotNamespace).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) enum SnapNamespace {
    #[default]
    User,
    /// It belongs to the snapshot of a group.
    Group {
        pool: i64,
        group_id: Name,
        group_snap_id: Name,
    },
    /// Removed by its user while clones need it.
    Trash {
        original_name: Name,
        original_kind: u32,
    },
    Mirror(MirrorSnap),
    /// Of a kind that is not known; nothing of it is kept.
    Unknown,
}

/// A snapshot that images are mirrored by (cls::rbd::MirrorSnapshotNamespace).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MirrorSnap {
    /// MIRROR_SNAPSHOT_STATE_*.
    pub state: u8,
    pub complete: bool,
    pub peer_uuids: BTreeSet<Name>,
    pub primary_mirror_uuid: Name,
    /// The primary image's snapshot; of a primary image, the snapshot since which nothing changed.
    pub primary_snap: u64,
    pub last_copied_object: u64,
    pub snap_seqs: BTreeMap<u64, u64>,
}

impl MirrorSnap {
    /// Whether it is a snapshot of an image that is not primary (MIRROR_SNAPSHOT_STATE_NON_PRIMARY*).
    pub fn is_non_primary(&self) -> bool {
        matches!(self.state, 2 | 3)
    }
}

impl SnapNamespace {
    pub const TRASH: u32 = 2;

    /// SNAPSHOT_NAMESPACE_TYPE_*.
    pub fn kind(&self) -> u32 {
        match self {
            Self::User => 0,
            Self::Group { .. } => 1,
            Self::Trash { .. } => Self::TRASH,
            Self::Mirror(_) => 3,
            Self::Unknown => u32::MAX,
        }
    }
}

impl Encode for SnapNamespace {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.kind());
            match self {
                Self::User | Self::Unknown => e,
                Self::Group { pool, group_id, group_snap_id } => e.put(pool).put(group_id).put(group_snap_id),
                Self::Trash { original_name, original_kind } => e.put(original_name).put(original_kind),
                Self::Mirror(mirror) => {
                    e.put(&mirror.state).put(&mirror.complete).put(&mirror.peer_uuids);
                    e.put(&mirror.primary_mirror_uuid).put(&mirror.primary_snap);
                    e.put(&mirror.last_copied_object).put(&mirror.snap_seqs)
                }
            };
        });
    }
}
impl Decode for SnapNamespace {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "SnapshotNamespace", |d, _| {
            Ok(match d.get::<u32>()? {
                0 => Self::User,
                1 => Self::Group { pool: d.get()?, group_id: d.get()?, group_snap_id: d.get()? },
                2 => Self::Trash { original_name: d.get()?, original_kind: d.get()? },
                3 => Self::Mirror(MirrorSnap {
                    state: d.get()?,
                    complete: d.get()?,
                    peer_uuids: d.get()?,
                    primary_mirror_uuid: d.get()?,
                    primary_snap: d.get()?,
                    last_copied_object: d.get()?,
                    snap_seqs: d.get()?,
                }),
                _ => Self::Unknown,
            })
        })
    }
}

/// A snapshot of an image, as its header keeps it (cls_rbd_snap).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Snap {
    pub id: u64,
    pub name: Name,
    pub image_size: u64,
    /// Read of old headers, not written: it is the image's.
    pub parent: Parent,
    /// RBD_PROTECTION_STATUS_*.
    pub protection: u8,
    pub flags: u64,
    pub namespace: SnapNamespace,
    pub timestamp: UTime,
    /// Clones that are in the snapshot's set of children.
    pub child_count: u32,
    /// Bytes at its start that are the parent's where the snapshot has none of its own.
    pub parent_overlap: Option<u64>,
}

impl Snap {
    pub const UNPROTECTED: u8 = 0;
    pub const PROTECTED: u8 = 2;

    pub fn is_in_trash(&self) -> bool {
        matches!(self.namespace, SnapNamespace::Trash { .. })
    }

    pub fn has_parent(&self) -> bool {
        self.parent.spec.pool != -1 || self.parent_overlap.is_some()
    }
}

impl Encode for Snap {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(8, 8, |e| {
            e.put(&self.id).put(&self.name).put(&self.image_size).put(&self.protection).put(&self.flags);
            e.put(&self.namespace).put(&self.timestamp).put(&self.child_count).put(&self.parent_overlap);
        });
    }
}
impl Decode for Snap {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        // The layout depends on it, too.
        let compat = d.rest().get(1).copied().unwrap_or_default();
        d.versioned(8, "cls_rbd_snap", |d, v| {
            let (id, name, image_size) = (d.get()?, d.get()?, d.get()?);
            if compat < 8 {
                let _features: u64 = d.get()?;
            }
            Ok(Self {
                id,
                name,
                image_size,
                parent: if v >= 2 && compat < 8 { d.get()? } else { Parent::default() },
                protection: if v >= 3 { d.get()? } else { Self::UNPROTECTED },
                flags: if v >= 4 { d.get()? } else { 0 },
                namespace: if v >= 5 { d.get()? } else { SnapNamespace::User },
                timestamp: if v >= 6 { d.get()? } else { UTime::default() },
                child_count: if v >= 7 { d.get()? } else { 0 },
                parent_overlap: if v >= 8 { d.get()? } else { None },
            })
        })
    }
}

structure! {
    /// What `snapshot_get` returns.
    SnapInfo, "SnapshotInfo", version 1 {
        id: u64, since 1;
        namespace: SnapNamespace, since 1;
        name: Name, since 1;
        image_size: u64, since 1;
        timestamp: UTime, since 1;
        child_count: u32, since 1;
    }
}
