//! Atomic changes as plain data.

use std::collections::BTreeSet;

use buffer::{Piece, Rope};
use types::{EVersion, GHObject, Name};

use crate::{Attrs, CollectionId};

/// The furthest end of an object, bytes (as Ceph's BlueStore has it).
pub const OBJECT_BYTES_MAX: u64 = u32::MAX as u64;

/// What a client said of an object's future (CEPH_OSD_OP_SETALLOCHINT).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocHint {
    /// Bytes that the object will have, 0 if not known.
    pub object_size: u64,
    /// Bytes of a typical write, 0 if not known.
    pub write_size: u64,
    /// Flags as on the wire.
    pub flags: u32,
}

/// One step of a [`Transaction`]. Steps take effect in order, each on what those before it left.
///
/// A step on a missing collection is an error. Steps that put something into an object (touch, write, zero, truncate,
/// set attributes, omap set and header, hint) create it; those that only take away (remove, remove attributes, omap
/// remove and clear) do nothing if it is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TxOp {
    /// Makes sure that the object exists.
    Touch { collection: CollectionId, object: GHObject },
    /// Puts bytes at an offset; a gap before them reads as zeros.
    Write {
        collection: CollectionId,
        object: GHObject,
        /// First byte.
        offset: u64,
        /// The bytes; none at all only touches.
        data: Rope,
    },
    /// Makes a range zero, and the object at least as long as to its end.
    Zero {
        collection: CollectionId,
        object: GHObject,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Sets the size; what is added reads as zeros.
    Truncate {
        collection: CollectionId,
        object: GHObject,
        /// Bytes.
        size: u64,
    },
    /// Removes the object with all it has.
    Remove { collection: CollectionId, object: GHObject },
    /// Sets attributes; others stay.
    SetAttrs {
        collection: CollectionId,
        object: GHObject,
        /// Names and values.
        attrs: Attrs,
    },
    /// Removes one attribute.
    RemoveAttr { collection: CollectionId, object: GHObject, name: Name },
    /// Removes all attributes.
    RemoveAttrs { collection: CollectionId, object: GHObject },
    /// Sets omap keys; others stay.
    OmapSet {
        collection: CollectionId,
        object: GHObject,
        /// Keys and values.
        entries: Attrs,
    },
    /// Removes omap keys.
    OmapRemove { collection: CollectionId, object: GHObject, keys: BTreeSet<Name> },
    /// Removes the omap keys `first..last`.
    OmapRemoveRange {
        collection: CollectionId,
        object: GHObject,
        /// The first removed.
        first: Name,
        /// The first after it that stays.
        last: Name,
    },
    /// Sets the omap's header.
    OmapSetHeader { collection: CollectionId, object: GHObject, header: Piece },
    /// Removes all omap keys and the header.
    OmapClear { collection: CollectionId, object: GHObject },
    /// Makes `to` equal `from`, which must exist: data, attributes, omap, hint.
    Clone {
        collection: CollectionId,
        /// What is copied.
        from: GHObject,
        /// What becomes its copy; replaced if it exists.
        to: GHObject,
    },
    /// Copies bytes of `from`, which must exist, to `to`, which is created. What lies behind `from`'s end is copied as
    /// zeros.
    CloneRange {
        collection: CollectionId,
        /// What is copied.
        from: GHObject,
        /// Where to.
        to: GHObject,
        /// First byte in `from`.
        from_offset: u64,
        /// Bytes.
        len: u64,
        /// First byte in `to`.
        to_offset: u64,
    },
    /// Renames an object that exists to one that doesn't, maybe in another collection.
    Rename {
        /// Where it is.
        collection: CollectionId,
        /// Its name.
        from: GHObject,
        /// Where it will be.
        to_collection: CollectionId,
        /// Its name there.
        to: GHObject,
    },
    /// Notes an allocation hint.
    SetAllocHint { collection: CollectionId, object: GHObject, hint: AllocHint },
    /// Makes a collection, which must not exist.
    CreateCollection {
        collection: CollectionId,
        /// How many low bits of the hash its objects have in common.
        bits: u32,
    },
    /// Removes a collection that has no object, with its log.
    RemoveCollection { collection: CollectionId },
    /// Moves every object whose hash ends in the `bits` low bits of `rem` to `into`, which must exist, and notes `bits`
    /// for both. The log stays whole where it is: its entries are the PG's to sort, by operations of their own.
    SplitCollection {
        /// The collection to split.
        collection: CollectionId,
        /// Bits of the hash that name each from now on.
        bits: u32,
        /// Their value in `into`.
        rem: u32,
        /// The collection that gets them.
        into: CollectionId,
    },
    /// Moves every object to `into`, notes `bits` for it, and removes the collection with its log.
    MergeCollection {
        /// The collection that ends.
        collection: CollectionId,
        /// The collection that gets its objects.
        into: CollectionId,
        /// Bits of the hash that name `into` from now on.
        bits: u32,
    },
    /// Appends to the collection's log an entry that must be newer than its head.
    LogAppend {
        collection: CollectionId,
        /// The entry's version.
        version: EVersion,
        entry: Piece,
    },
    /// Drops entries up to and including `to`. Past the head this empties the log, which then begins at `to`.
    LogTrim {
        collection: CollectionId,
        /// The newest version dropped.
        to: EVersion,
    },
    /// Drops entries newer than `to`, which becomes the head. Before the tail this empties the log, which then begins
    /// at `to`.
    LogRewind {
        collection: CollectionId,
        /// The newest version kept.
        to: EVersion,
    },
}

impl TxOp {
    /// The collection that the step is on (a rename's, split's or merge's source).
    pub fn collection(&self) -> CollectionId {
        match self {
            Self::Touch { collection, .. }
            | Self::Write { collection, .. }
            | Self::Zero { collection, .. }
            | Self::Truncate { collection, .. }
            | Self::Remove { collection, .. }
            | Self::SetAttrs { collection, .. }
            | Self::RemoveAttr { collection, .. }
            | Self::RemoveAttrs { collection, .. }
            | Self::OmapSet { collection, .. }
            | Self::OmapRemove { collection, .. }
            | Self::OmapRemoveRange { collection, .. }
            | Self::OmapSetHeader { collection, .. }
            | Self::OmapClear { collection, .. }
            | Self::Clone { collection, .. }
            | Self::CloneRange { collection, .. }
            | Self::Rename { collection, .. }
            | Self::SetAllocHint { collection, .. }
            | Self::CreateCollection { collection, .. }
            | Self::RemoveCollection { collection }
            | Self::SplitCollection { collection, .. }
            | Self::MergeCollection { collection, .. }
            | Self::LogAppend { collection, .. }
            | Self::LogTrim { collection, .. }
            | Self::LogRewind { collection, .. } => *collection,
        }
    }

    /// The one object that the step is on, where it is on one (not for clones and renames).
    pub fn object(&self) -> Option<&GHObject> {
        match self {
            Self::Touch { object, .. }
            | Self::Write { object, .. }
            | Self::Zero { object, .. }
            | Self::Truncate { object, .. }
            | Self::Remove { object, .. }
            | Self::SetAttrs { object, .. }
            | Self::RemoveAttr { object, .. }
            | Self::RemoveAttrs { object, .. }
            | Self::OmapSet { object, .. }
            | Self::OmapRemove { object, .. }
            | Self::OmapRemoveRange { object, .. }
            | Self::OmapSetHeader { object, .. }
            | Self::OmapClear { object, .. }
            | Self::SetAllocHint { object, .. } => Some(object),
            _ => None,
        }
    }

    /// How far the step makes an object reach, bytes (saturated), where it can make it longer.
    pub fn end(&self) -> Option<u64> {
        match self {
            Self::Write { offset, data, .. } => Some(offset.saturating_add(data.len() as u64)),
            Self::Zero { offset, len, .. } => Some(offset.saturating_add(*len)),
            Self::Truncate { size, .. } => Some(*size),
            Self::CloneRange { to_offset, len, .. } => Some(to_offset.saturating_add(*len)),
            _ => None,
        }
    }
}

/// Changes that happen together or not at all. An empty one commits like any other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transaction {
    /// The steps in order.
    pub ops: Vec<TxOp>,
}

impl Transaction {
    /// An empty transaction.
    pub const fn new() -> Self {
        Self { ops: Vec::new() }
    }

    /// Whether it has no step.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Appends a step.
    pub fn push(&mut self, op: TxOp) -> &mut Self {
        self.ops.push(op);
        self
    }

    /// Appends another transaction's steps.
    pub fn append(&mut self, mut other: Transaction) {
        self.ops.append(&mut other.ops);
    }

    /// Bytes of object data that it carries.
    pub fn data_bytes(&self) -> u64 {
        let data = |op: &TxOp| if let TxOp::Write { data, .. } = op { data.len() as u64 } else { 0 };
        self.ops.iter().map(data).sum()
    }

    /// See [`TxOp::Touch`].
    pub fn touch(&mut self, collection: CollectionId, object: GHObject) -> &mut Self {
        self.push(TxOp::Touch { collection, object })
    }

    /// See [`TxOp::Write`].
    pub fn write(
        &mut self,
        collection: CollectionId,
        object: GHObject,
        offset: u64,
        data: Rope,
    ) -> &mut Self {
        self.push(TxOp::Write { collection, object, offset, data })
    }

    /// See [`TxOp::Zero`].
    pub fn zero(&mut self, collection: CollectionId, object: GHObject, offset: u64, len: u64) -> &mut Self {
        self.push(TxOp::Zero { collection, object, offset, len })
    }

    /// See [`TxOp::Truncate`].
    pub fn truncate(&mut self, collection: CollectionId, object: GHObject, size: u64) -> &mut Self {
        self.push(TxOp::Truncate { collection, object, size })
    }

    /// See [`TxOp::Remove`].
    pub fn remove(&mut self, collection: CollectionId, object: GHObject) -> &mut Self {
        self.push(TxOp::Remove { collection, object })
    }

    /// See [`TxOp::SetAttrs`].
    pub fn set_attrs(&mut self, collection: CollectionId, object: GHObject, attrs: Attrs) -> &mut Self {
        self.push(TxOp::SetAttrs { collection, object, attrs })
    }

    /// [`TxOp::SetAttrs`] for one attribute.
    pub fn set_attr(
        &mut self,
        collection: CollectionId,
        object: GHObject,
        name: impl Into<Name>,
        value: impl Into<Piece>,
    ) -> &mut Self {
        self.set_attrs(collection, object, [(name.into(), value.into())].into())
    }

    /// See [`TxOp::OmapSet`].
    pub fn omap_set(&mut self, collection: CollectionId, object: GHObject, entries: Attrs) -> &mut Self {
        self.push(TxOp::OmapSet { collection, object, entries })
    }

    /// See [`TxOp::CreateCollection`].
    pub fn create_collection(&mut self, collection: CollectionId, bits: u32) -> &mut Self {
        self.push(TxOp::CreateCollection { collection, bits })
    }

    /// See [`TxOp::LogAppend`].
    pub fn log_append(
        &mut self,
        collection: CollectionId,
        version: EVersion,
        entry: impl Into<Piece>,
    ) -> &mut Self {
        self.push(TxOp::LogAppend { collection, version, entry: entry.into() })
    }

    /// See [`TxOp::LogTrim`].
    pub fn log_trim(&mut self, collection: CollectionId, to: EVersion) -> &mut Self {
        self.push(TxOp::LogTrim { collection, to })
    }
}
