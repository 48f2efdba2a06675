//! Atomic changes as plain data: a table of the objects named, and steps that refer to it by index.

use buffer::{Piece, Rope};
use smallvec::SmallVec;
use types::{EVersion, GHObject, Name};

use crate::{Attrs, CollectionId};

/// The furthest end of an object, bytes (as Ceph's BlueStore has it).
pub const OBJECT_BYTES_MAX: u64 = u32::MAX as u64;

/// The largest small info of a collection, bytes (see [`Step::SetInfo`]).
pub const INFO_BYTES_MAX: usize = 4096;

/// Bytes of a transaction without data that may use a full store's reserve.
const RESERVE_USE_BYTES_MAX: u64 = 16 << 10;

/// Bytes that one checksum of [`ObjectChange::Write`] covers.
pub const CHECKSUM_BLOCK: usize = 4096;

/// What a client said of an object's future (CEPH_OSD_OP_SETALLOCHINT).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AllocHint {
    /// Bytes that the object will have, 0 if not known.
    pub object_size: u64,
    /// Bytes of a typical write, 0 if not known.
    pub write_size: u64,
    /// CEPH_OSD_ALLOC_HINT_FLAG_*, as on the wire.
    pub flags: u32,
}

impl AllocHint {
    pub const RANDOM_WRITE: u32 = 2;
    pub const SEQUENTIAL_READ: u32 = 4;
    pub const RANDOM_READ: u32 = 8;
    pub const APPEND_ONLY: u32 = 16;
    pub const IMMUTABLE: u32 = 32;
    pub const COMPRESSIBLE: u32 = 256;
    pub const INCOMPRESSIBLE: u32 = 512;

    /// Whether the object is read in sequence, and not written in parts.
    pub fn is_read_whole(self) -> bool {
        let said = |flags| self.flags & flags != 0;
        said(Self::SEQUENTIAL_READ)
            && said(Self::IMMUTABLE | Self::APPEND_ONLY)
            && !said(Self::RANDOM_READ | Self::RANDOM_WRITE)
    }
}

/// How a client says it will use the data (CEPH_OSD_OP_FLAG_FADVISE_*, as on the wire). A store may heed it; what it
/// returns is the same either way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Advice(pub u32);

impl Advice {
    pub const RANDOM: Self = Self(0x4);
    pub const SEQUENTIAL: Self = Self(0x8);
    pub const WILLNEED: Self = Self(0x10);
    pub const DONTNEED: Self = Self(0x20);
    pub const NOCACHE: Self = Self(0x40);
    const ALL: u32 = 0x7c;

    /// The advice among an operation's flags.
    pub fn of_op_flags(flags: u32) -> Self {
        Self(flags & Self::ALL)
    }

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A change of one object.
///
/// Those that put something into an object create it; those for which [`ObjectChange::only_takes_away`] holds do
/// nothing if it is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ObjectChange {
    /// Makes sure that the object exists.
    Touch,
    /// Puts bytes at an offset; a gap before them reads as zeros.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes; none at all only touches.
        data: Rope,
        advice: Advice,
        /// The crc32c (seed -1) of each 4 KiB of `data`, where the caller has them already. Only for an aligned offset
        /// and whole blocks. A store that keeps checksums may keep these unseen: bytes that don't match them are then
        /// found when they are read.
        checksums: Option<Vec<u32>>,
    },
    /// Makes a range zero, and the object at least as long as to its end. A range of no bytes only touches.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Sets the size in bytes; what is added reads as zeros.
    Truncate(u64),
    /// Removes the object with all it has.
    Remove,
    /// Sets attributes; others stay.
    SetAttrs(Attrs),
    RemoveAttr(Name),
    /// Removes all attributes.
    RemoveAttrs,
    /// Sets omap keys; others stay. Of a key that comes twice the last value counts.
    OmapSet(Vec<(Name, Piece)>),
    OmapRemove(Vec<Name>),
    /// Removes the omap keys `first..last`.
    OmapRemoveRange {
        /// The first removed.
        first: Name,
        /// The first after it that stays.
        last: Name,
    },
    OmapSetHeader(Piece),
    /// Removes all omap keys and the header.
    OmapClear,
    SetAllocHint(AllocHint),
}

impl ObjectChange {
    /// A write without advice or checksums.
    pub fn write(offset: u64, data: Rope) -> Self {
        Self::Write { offset, data, advice: Advice::default(), checksums: None }
    }

    /// Whether the change does nothing, instead of creating the object, where the object is missing.
    pub fn only_takes_away(&self) -> bool {
        match self {
            Self::Remove
            | Self::RemoveAttr(_)
            | Self::RemoveAttrs
            | Self::OmapRemove(_)
            | Self::OmapRemoveRange { .. }
            | Self::OmapClear => true,
            Self::Touch
            | Self::Write { .. }
            | Self::Zero { .. }
            | Self::Truncate(_)
            | Self::SetAttrs(_)
            | Self::OmapSet(_)
            | Self::OmapSetHeader(_)
            | Self::SetAllocHint(_) => false,
        }
    }

    /// How far the change makes an object reach, bytes (saturated), where it can make it longer.
    pub fn end(&self) -> Option<u64> {
        match self {
            Self::Write { offset, data, .. } => Some(offset.saturating_add(data.len() as u64)),
            Self::Zero { offset, len } => Some(offset.saturating_add(*len)),
            Self::Truncate(size) => Some(*size),
            Self::Touch
            | Self::Remove
            | Self::SetAttrs(_)
            | Self::RemoveAttr(_)
            | Self::RemoveAttrs
            | Self::OmapSet(_)
            | Self::OmapRemove(_)
            | Self::OmapRemoveRange { .. }
            | Self::OmapSetHeader(_)
            | Self::OmapClear
            | Self::SetAllocHint(_) => None,
        }
    }

    /// Bytes that the change carries to be kept: data, values, keys.
    fn payload_bytes(&self) -> u64 {
        let pairs = |pairs: &[(Name, Piece)]| pairs.iter().map(|(k, v)| k.len() + v.len()).sum::<usize>();
        (match self {
            Self::Write { data, .. } => data.len(),
            Self::SetAttrs(attrs) => attrs.bytes() as usize,
            Self::OmapSet(entries) => pairs(entries),
            Self::OmapSetHeader(header) => header.len(),
            Self::Touch
            | Self::Zero { .. }
            | Self::Truncate(_)
            | Self::Remove
            | Self::RemoveAttr(_)
            | Self::RemoveAttrs
            | Self::OmapRemove(_)
            | Self::OmapRemoveRange { .. }
            | Self::OmapClear
            | Self::SetAllocHint(_) => 0,
        }) as u64
    }
}

/// What a log record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogRecordKind {
    /// A log entry: what recovery needs and what a resend is answered from.
    Entry,
    /// What a resend is answered from alone.
    Duplicate,
}

/// A record of a collection's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogRecord {
    pub version: EVersion,
    pub kind: LogRecordKind,
    pub bytes: Piece,
}

/// A change of a collection's log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogChange {
    /// Appends a record that must be newer than the log's head.
    Append(LogRecord),
    /// Drops records up to and including this version. Past the head this empties the log, which then begins there.
    Trim(EVersion),
    /// Drops records newer than this version, which becomes the head. Before the tail this empties the log, which then
    /// begins there.
    Rewind(EVersion),
}

/// A change of a collection as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CollectionChange {
    /// Makes the collection, which must not exist, in the store shard of the transaction's other collections, or where
    /// `shard_of` says when there is none.
    Create {
        /// How many low bits of the hash its objects have in common.
        bits: u32,
    },
    /// Removes the collection, which must have no object, with its log and info.
    Remove,
    /// Moves every object whose hash ends in the `bits` low bits of `rem` to `into`, which must exist, and notes `bits`
    /// for both. Log and info stay whole where they are: the entries are the PG's to sort, by steps of their own.
    Split { bits: u32, rem: u32, into: CollectionId },
    /// Moves every object to `into`, notes `bits` for it, and removes the collection with its log and info.
    Merge { into: CollectionId, bits: u32 },
}

/// An object named by a transaction: a place in its table. Only valid within the transaction that gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ObjectRef(pub(crate) u32);

/// One step of a [`Transaction`]. Steps take effect in order, each on what those before it left. A step on a missing
/// collection is an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    Object {
        object: ObjectRef,
        change: ObjectChange,
    },
    /// Makes `to` equal `from`, which must exist and be of the same pool: data, attributes, omap, hint. What `to` was is gone.
    Clone {
        from: ObjectRef,
        to: ObjectRef,
    },
    /// Copies bytes of `from`, which must exist, to `to`, of the same pool, which is created. What lies behind `from`'s end is copied as
    /// zeros.
    CloneRange {
        from: ObjectRef,
        to: ObjectRef,
        /// First byte in `from`.
        from_offset: u64,
        /// Bytes.
        len: u64,
        /// First byte in `to`.
        to_offset: u64,
    },
    /// Renames an object that exists to one that doesn't, maybe in another collection of its pool.
    Rename {
        from: ObjectRef,
        to: ObjectRef,
    },
    Log {
        collection: CollectionId,
        change: LogChange,
    },
    /// Replaces the collection's small info, at most [`INFO_BYTES_MAX`] bytes, that its owner changes with every entry.
    SetInfo {
        collection: CollectionId,
        info: Piece,
    },
    Collection {
        collection: CollectionId,
        change: CollectionChange,
    },
}

/// Changes that happen together or not at all. An empty one commits like any other.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transaction {
    pub(crate) objects: Vec<(CollectionId, GHObject)>,
    pub(crate) steps: Vec<Step>,
}

/// So many of the newest names are looked through before a name is added to the table again.
const NAMES_SEARCHED: usize = 4;

impl Transaction {
    pub const fn new() -> Self {
        Self { objects: Vec::new(), steps: Vec::new() }
    }

    /// An empty one with room for so many objects and steps.
    pub fn with_capacity(objects: usize, steps: usize) -> Self {
        Self { objects: Vec::with_capacity(objects), steps: Vec::with_capacity(steps) }
    }

    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Gives the steps away, in order, with the table that they refer to.
    pub fn into_parts(self) -> (Vec<(CollectionId, GHObject)>, Vec<Step>) {
        (self.objects, self.steps)
    }

    /// The objects named, by index. A name may be there twice.
    pub fn objects(&self) -> &[(CollectionId, GHObject)] {
        &self.objects
    }

    /// What a step's reference names.
    pub fn object(&self, object: ObjectRef) -> (CollectionId, &GHObject) {
        let (collection, name) = &self.objects[object.0 as usize];
        (*collection, name)
    }

    /// The collection that a step changes; of a split or a merge the one that gives.
    pub fn collection_of(&self, step: &Step) -> CollectionId {
        match step {
            Step::Object { object: to, .. }
            | Step::Clone { to, .. }
            | Step::CloneRange { to, .. }
            | Step::Rename { to, .. } => self.object(*to).0,
            Step::Log { collection, .. }
            | Step::SetInfo { collection, .. }
            | Step::Collection { collection, .. } => *collection,
        }
    }

    /// The collections named, each once, ascending. Nearly always one.
    pub fn collections(&self) -> SmallVec<[CollectionId; 2]> {
        let mut all = SmallVec::new();
        let mut add = |id: CollectionId| {
            if let Err(at) = all.binary_search(&id) {
                all.insert(at, id);
            }
        };
        self.objects.iter().for_each(|o| add(o.0));
        for step in &self.steps {
            match step {
                Step::Log { collection, .. } | Step::SetInfo { collection, .. } => add(*collection),
                Step::Collection { collection, change } => {
                    add(*collection);
                    match change {
                        CollectionChange::Split { into, .. } | CollectionChange::Merge { into, .. } => {
                            add(*into);
                        }
                        CollectionChange::Create { .. } | CollectionChange::Remove => {}
                    }
                }
                // These name objects of the table.
                Step::Object { .. } | Step::Clone { .. } | Step::CloneRange { .. } | Step::Rename { .. } => {}
            }
        }
        all
    }

    /// Bytes that the transaction carries to be kept: data, attributes, omap, log records, info.
    pub fn payload_bytes(&self) -> u64 {
        let of_step = |step: &Step| match step {
            Step::Object { change, .. } => change.payload_bytes(),
            Step::Log { change: LogChange::Append(record), .. } => record.bytes.len() as u64,
            Step::SetInfo { info, .. } => info.len() as u64,
            Step::Log { change: LogChange::Trim(_) | LogChange::Rewind(_), .. }
            | Step::Clone { .. }
            | Step::CloneRange { .. }
            | Step::Rename { .. }
            | Step::Collection { .. } => 0,
        };
        self.steps.iter().map(of_step).sum()
    }

    /// Bytes of object data that it carries.
    pub fn data_bytes(&self) -> u64 {
        let of_step = |step: &Step| match step {
            Step::Object { change: ObjectChange::Write { data, .. }, .. } => data.len() as u64,
            _ => 0,
        };
        self.steps.iter().map(of_step).sum()
    }

    /// Whether a full store takes it from its reserve: it brings little beside log and info, as those that make room do.
    pub fn may_use_reserve(&self) -> bool {
        self.data_bytes() == 0 && self.payload_bytes() <= RESERVE_USE_BYTES_MAX
    }

    /// A place in the table for an object.
    pub fn name(&mut self, collection: CollectionId, object: &GHObject) -> ObjectRef {
        let newest = self.objects.iter().enumerate().rev().take(NAMES_SEARCHED);
        for (at, (c, name)) in newest {
            if *c == collection && name == object {
                return ObjectRef(at as u32);
            }
        }
        self.objects.push((collection, object.clone()));
        ObjectRef(self.objects.len() as u32 - 1)
    }

    /// Appends a step whose references this transaction gave.
    pub fn push(&mut self, step: Step) -> &mut Self {
        debug_assert!(step.references().into_iter().flatten().all(|r| (r.0 as usize) < self.objects.len()));
        self.steps.push(step);
        self
    }

    /// Appends another transaction's steps.
    pub fn append(&mut self, other: Transaction) {
        let base = self.objects.len() as u32;
        self.objects.extend(other.objects);
        self.steps.extend(other.steps.into_iter().map(|step| step.moved_by(base)));
    }
}

impl Step {
    /// The objects that the step refers to.
    pub(crate) fn references(&self) -> [Option<ObjectRef>; 2] {
        match self {
            Self::Object { object, .. } => [Some(*object), None],
            Self::Clone { from, to } | Self::CloneRange { from, to, .. } | Self::Rename { from, to } => {
                [Some(*from), Some(*to)]
            }
            Self::Log { .. } | Self::SetInfo { .. } | Self::Collection { .. } => [None, None],
        }
    }

    fn moved_by(mut self, base: u32) -> Self {
        match &mut self {
            Self::Object { object, .. } => object.0 += base,
            Self::Clone { from, to } | Self::CloneRange { from, to, .. } | Self::Rename { from, to } => {
                from.0 += base;
                to.0 += base;
            }
            Self::Log { .. } | Self::SetInfo { .. } | Self::Collection { .. } => {}
        }
        self
    }
}

/// Steps by name: each appends one.
impl Transaction {
    pub fn change(&mut self, collection: CollectionId, object: &GHObject, change: ObjectChange) -> &mut Self {
        let object = self.name(collection, object);
        self.push(Step::Object { object, change })
    }

    pub fn touch(&mut self, collection: CollectionId, object: &GHObject) -> &mut Self {
        self.change(collection, object, ObjectChange::Touch)
    }

    pub fn write(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
        data: Rope,
    ) -> &mut Self {
        self.change(collection, object, ObjectChange::write(offset, data))
    }

    pub fn zero(&mut self, collection: CollectionId, object: &GHObject, offset: u64, len: u64) -> &mut Self {
        self.change(collection, object, ObjectChange::Zero { offset, len })
    }

    pub fn truncate(&mut self, collection: CollectionId, object: &GHObject, size: u64) -> &mut Self {
        self.change(collection, object, ObjectChange::Truncate(size))
    }

    pub fn remove(&mut self, collection: CollectionId, object: &GHObject) -> &mut Self {
        self.change(collection, object, ObjectChange::Remove)
    }

    pub fn set_attrs(&mut self, collection: CollectionId, object: &GHObject, attrs: Attrs) -> &mut Self {
        self.change(collection, object, ObjectChange::SetAttrs(attrs))
    }

    pub fn set_attr(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        name: impl Into<Name>,
        value: impl Into<Piece>,
    ) -> &mut Self {
        self.set_attrs(collection, object, [(name.into(), value.into())].into())
    }

    pub fn omap_set(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        entries: Vec<(Name, Piece)>,
    ) -> &mut Self {
        self.change(collection, object, ObjectChange::OmapSet(entries))
    }

    /// See [`Step::Clone`].
    pub fn clone_object(&mut self, collection: CollectionId, from: &GHObject, to: &GHObject) -> &mut Self {
        let (from, to) = (self.name(collection, from), self.name(collection, to));
        self.push(Step::Clone { from, to })
    }

    /// See [`Step::CloneRange`].
    pub fn clone_range(
        &mut self,
        collection: CollectionId,
        (from, from_offset): (&GHObject, u64),
        (to, to_offset): (&GHObject, u64),
        len: u64,
    ) -> &mut Self {
        let (from, to) = (self.name(collection, from), self.name(collection, to));
        self.push(Step::CloneRange { from, to, from_offset, len, to_offset })
    }

    /// See [`Step::Rename`].
    pub fn rename(
        &mut self,
        (collection, from): (CollectionId, &GHObject),
        (to_collection, to): (CollectionId, &GHObject),
    ) -> &mut Self {
        let (from, to) = (self.name(collection, from), self.name(to_collection, to));
        self.push(Step::Rename { from, to })
    }

    pub fn log_append(
        &mut self,
        collection: CollectionId,
        version: EVersion,
        kind: LogRecordKind,
        bytes: impl Into<Piece>,
    ) -> &mut Self {
        let change = LogChange::Append(LogRecord { version, kind, bytes: bytes.into() });
        self.push(Step::Log { collection, change })
    }

    pub fn log_trim(&mut self, collection: CollectionId, to: EVersion) -> &mut Self {
        self.push(Step::Log { collection, change: LogChange::Trim(to) })
    }

    pub fn log_rewind(&mut self, collection: CollectionId, to: EVersion) -> &mut Self {
        self.push(Step::Log { collection, change: LogChange::Rewind(to) })
    }

    pub fn set_info(&mut self, collection: CollectionId, info: impl Into<Piece>) -> &mut Self {
        self.push(Step::SetInfo { collection, info: info.into() })
    }

    pub fn create_collection(&mut self, collection: CollectionId, bits: u32) -> &mut Self {
        self.push(Step::Collection { collection, change: CollectionChange::Create { bits } })
    }

    pub fn remove_collection(&mut self, collection: CollectionId) -> &mut Self {
        self.push(Step::Collection { collection, change: CollectionChange::Remove })
    }

    pub fn split(&mut self, collection: CollectionId, bits: u32, rem: u32, into: CollectionId) -> &mut Self {
        self.push(Step::Collection { collection, change: CollectionChange::Split { bits, rem, into } })
    }

    pub fn merge(&mut self, collection: CollectionId, into: CollectionId, bits: u32) -> &mut Self {
        self.push(Step::Collection { collection, change: CollectionChange::Merge { into, bits } })
    }
}
