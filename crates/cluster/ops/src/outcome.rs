//! What an execution asks for and what it leaves behind.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use messages::{OpArgs, OsdOpReply};
use types::{HObject, Name, SnapId};

use crate::{CleanRegions, NewClone, ObjectInfo, OpEffect, SnapSet};

/// An object's state after every operation that ran before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectState {
    /// Whether there is such an object (a whiteout counts).
    pub exists: bool,
    /// Its metadata; fresh where it does not exist.
    pub info: ObjectInfo,
    /// Its snapshots.
    pub snapset: SnapSet,
}

impl ObjectState {
    /// An object that is not there.
    pub fn absent(oid: HObject) -> Self {
        Self { exists: false, info: ObjectInfo::new(oid), snapset: SnapSet::default() }
    }

    /// Whether a client sees an object.
    pub fn is_visible(&self) -> bool {
        self.exists && !self.info.is_whiteout()
    }
}

/// One change of the object's stored state, in order. Attribute names are the store's: a client's `x` is `_x`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mutation {
    /// Make the object, empty.
    Create,
    /// The object's contents do not change, but the change has a version and a time.
    Touch,
    /// Overwrite or extend.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes, never empty.
        data: Rope,
        /// CEPH_OSD_OP_FLAG_FADVISE_* of the operation.
        flags: u32,
    },
    /// Fill with zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
    },
    /// Cut or extend to this size in bytes.
    Truncate(u64),
    /// Remove the object with all it has.
    Remove,
    /// Become what a clone of the same head is: data, attributes, omap. What the object was is gone.
    BecomeClone(SnapId),
    /// Set an attribute.
    SetAttr(Name, Rope),
    /// Remove an attribute.
    RemoveAttr(Name),
    /// Set omap pairs.
    OmapSet(Vec<(Name, Rope)>),
    /// Remove omap keys.
    OmapRemove(Vec<Name>),
    /// Remove omap keys from the first up to, not including, the second.
    OmapRemoveRange(Name, Name),
    /// Set the omap's header.
    OmapHeader(Rope),
    /// Remove omap pairs and header.
    OmapClear,
    /// What the client expects to write.
    AllocHint {
        /// Bytes in the end.
        object_size: u64,
        /// Bytes a write.
        write_size: u64,
        /// CEPH_OSD_ALLOC_HINT_FLAG_*.
        flags: u32,
    },
}

/// One operation's result (as the log keeps it: Ceph's pg_log_op_return_item_t).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct OpReturn {
    /// The operation's own result.
    pub rval: i32,
    /// What it returned.
    pub data: Rope,
}

impl Encode for OpReturn {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.rval).put(&(self.data.len() as u32));
        self.data.pieces().iter().for_each(|p| {
            e.raw(p);
        });
    }
}
impl Decode for OpReturn {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { rval: d.get()?, data: Rope::copy_from(d.blob("op return")?) })
    }
}

/// By how much an execution changes its PG's counters, named as in [`messages::ObjectStatSum`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StatsDelta {
    /// Bytes of all objects.
    pub num_bytes: i64,
    /// Clones and whiteouts among them.
    pub num_objects: i64,
    pub num_object_clones: i64,
    /// Whiteouts among them.
    pub num_whiteouts: i64,
    /// Those flagged DIRTY: all that were written, where nothing flushes them to a base tier.
    pub num_objects_dirty: i64,
    /// Those that may have omap data.
    pub num_objects_omap: i64,
    /// Reading operations.
    pub num_rd: i64,
    /// KiB read, rounded up an operation.
    pub num_rd_kb: i64,
    /// Writing operations.
    pub num_wr: i64,
    /// KiB written, rounded up an operation.
    pub num_wr_kb: i64,
}

impl std::ops::Neg for StatsDelta {
    type Output = Self;

    /// What takes the change back.
    fn neg(self) -> Self {
        Self {
            num_bytes: -self.num_bytes,
            num_objects: -self.num_objects,
            num_object_clones: -self.num_object_clones,
            num_whiteouts: -self.num_whiteouts,
            num_objects_dirty: -self.num_objects_dirty,
            num_objects_omap: -self.num_objects_omap,
            num_rd: -self.num_rd,
            num_rd_kb: -self.num_rd_kb,
            num_wr: -self.num_wr,
            num_wr_kb: -self.num_wr_kb,
        }
    }
}

impl std::ops::AddAssign for StatsDelta {
    fn add_assign(&mut self, other: Self) {
        self.num_bytes += other.num_bytes;
        self.num_objects += other.num_objects;
        self.num_object_clones += other.num_object_clones;
        self.num_whiteouts += other.num_whiteouts;
        self.num_objects_dirty += other.num_objects_dirty;
        self.num_objects_omap += other.num_objects_omap;
        self.num_rd += other.num_rd;
        self.num_rd_kb += other.num_rd_kb;
        self.num_wr += other.num_wr;
        self.num_wr_kb += other.num_wr_kb;
    }
}

impl StatsDelta {
    pub(crate) fn read(&mut self, bytes: u64) {
        self.num_rd += 1;
        self.num_rd_kb += kib(bytes);
    }

    pub(crate) fn wrote(&mut self, bytes: u64) {
        self.num_wr += 1;
        self.num_wr_kb += kib(bytes);
    }
}

fn kib(bytes: u64) -> i64 {
    bytes.div_ceil(1024) as i64
}

/// What a reply says of extents otherwise than its request: ceph-osd writes into the operations as it runs them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ReplyExtents {
    /// Operations, by their place, and the bytes that they read or wrote.
    pub(crate) lengths: Vec<(usize, u64)>,
    /// Where the first READ began.
    pub(crate) first_read: Option<u64>,
}

impl ReplyExtents {
    /// Sets the operations' lengths and the message's data offset.
    pub fn apply(&self, reply: &mut OsdOpReply) {
        for &(place, bytes) in &self.lengths {
            if let Some(OpArgs::Extent { length, .. }) = reply.ops.get_mut(place).map(|r| &mut r.op.args) {
                *length = bytes;
            }
        }
        // The header has room for the low 16 bits.
        reply.data_offset = self.first_read.unwrap_or(0) as u16;
    }
}

/// What becomes of the result of a write that changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// The log keeps it, as a version of the PG that the answer has.
    Versioned,
    /// The log keeps it, and the answer has no version: the request failed, and none of its operations did. Ceph keeps
    /// nothing of it; a resend of it could succeed there, after what its client has written since.
    Unversioned,
    /// It is answered like a read, and a resend is run again.
    Nothing,
}

/// What a run to the end leaves. Where `result` is negative nothing may be applied: `mutations` and `effects` are
/// empty and `state` is as it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpOutcome {
    /// The whole request's result: negative errno, or what the last operation that says anything said.
    pub result: i32,
    /// Each operation's result; those that were not reached have 0 and no data.
    pub returns: Vec<OpReturn>,
    pub record: Record,
    /// The clone to store before them.
    pub clone: Option<Box<NewClone>>,
    /// The changes to store.
    pub mutations: Vec<Mutation>,
    /// What to do when the changes are durable, in order.
    pub effects: Vec<OpEffect>,
    /// The object afterwards. Versions, request id and times are the PG's to set.
    pub state: ObjectState,
    /// Whether a modifying operation ran, so that the user version grows.
    pub user_modify: bool,
    /// The user version that a copy gave the object, from which on the object's time is not the request's. It is that of
    /// the answer also where the request then fails.
    pub copied_version: Option<u64>,
    pub extents: ReplyExtents,
    /// What of the object is as it was.
    pub clean_regions: CleanRegions,
    /// Changes of the PG's counters.
    pub delta: StatsDelta,
    /// An operation code that is not implemented was met: worth a line in the log, once each.
    pub unsupported: Option<u16>,
}

/// How a run ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExecuteResult {
    /// At its end.
    Done(Box<OpOutcome>),
    /// Reads that are not resident are needed (the view has collected them): nothing happened yet, run it again from
    /// the first operation when they are there.
    Pending,
    /// The pool is full and the client should not have asked: the request is dropped unanswered.
    Dropped,
}
