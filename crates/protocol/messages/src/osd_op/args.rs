//! The argument union of an operation.

use encoding::{DecodeError, Decoder, Encoder};
use types::{Epoch, SnapId, UTime};

use super::{ARGS_LEN, OpCode};

/// An operation's arguments: the member of Ceph's union that its code uses. Offsets and lengths are in bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OpArgs {
    /// Reads, writes and every other operation on data and omap without a form of its own.
    Extent {
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// The size that the object was truncated to.
        truncate_size: u64,
        /// The number of that truncation.
        truncate_seq: u32,
    },
    /// Attributes: lengths of name and value in the input.
    Xattr {
        /// The name's.
        name_len: u32,
        /// The value's.
        value_len: u32,
        /// CMPXATTR: the comparison.
        cmp_op: u8,
        /// CMPXATTR: as string or number.
        cmp_mode: u8,
    },
    /// CALL: lengths of class, method and argument in the input.
    Class {
        /// The class name's.
        class_len: u8,
        /// The method name's.
        method_len: u8,
        /// 0.
        argc: u8,
        /// The argument's.
        indata_len: u32,
    },
    /// Listings of a placement group; the cursor is in the input, see [`super::ListCursor`].
    Pgls {
        /// The most entries wanted.
        count: u64,
        /// The map in which the listing began.
        start_epoch: Epoch,
    },
    /// ROLLBACK: to which snapshot.
    Snap {
        /// The snapshot.
        snapid: SnapId,
    },
    Watch {
        /// The client's number for the watch.
        cookie: u64,
        /// No longer used.
        ver: u64,
        /// What about it: watch, reconnect, ping, unwatch.
        op: u8,
        /// The registration's generation.
        generation: u32,
        /// Seconds without a sign of life after which the watch ends; 0 for the OSD's default.
        timeout: u32,
    },
    /// NOTIFY and NOTIFY_ACK.
    Notify {
        /// The client's number for the notify.
        cookie: u64,
    },
    AssertVer {
        /// 0.
        unused: u64,
        /// The user version that the object must have.
        ver: u64,
    },
    CopyGet {
        /// The most bytes wanted in the reply.
        max: u64,
    },
    /// COPY_FROM, COPY_FROM2, SET_REDIRECT.
    CopyFrom {
        /// The source's snapshot.
        snapid: SnapId,
        /// The source's user version, or 0.
        src_version: u64,
        /// CEPH_OSD_COPY_FROM_FLAG_*.
        flags: u8,
        /// Advice about the source, see [`super::OpFlags`].
        src_fadvise_flags: u32,
    },
    /// PG_HITSET_GET.
    HitSetGet {
        /// Which hit set.
        stamp: UTime,
    },
    /// SETALLOCHINT.
    AllocHint {
        /// Bytes that the object will have.
        expected_object_size: u64,
        /// Bytes that writes will have.
        expected_write_size: u64,
        /// CEPH_OSD_ALLOC_HINT_FLAG_*.
        flags: u32,
    },
    /// WRITESAME.
    WriteSame {
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// The pattern's length.
        data_length: u64,
    },
    Checksum {
        /// Where.
        offset: u64,
        /// How much.
        length: u64,
        /// Bytes that each checksum covers; 0 for one over all.
        chunk_size: u32,
        /// CEPH_OSD_CHECKSUM_OP_TYPE_*.
        kind: u8,
    },
    /// Codes whose form we don't know.
    Raw([u8; ARGS_LEN]),
}

impl OpArgs {
    /// An extent that no truncation goes with.
    pub fn extent(offset: u64, length: u64) -> Self {
        Self::Extent { offset, length, truncate_size: 0, truncate_seq: 0 }
    }

    /// No arguments: an empty extent.
    pub fn none() -> Self {
        Self::extent(0, 0)
    }

    pub(super) fn decode(code: OpCode, d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match code {
            OpCode::CALL => Self::Class {
                class_len: d.get()?,
                method_len: d.get()?,
                argc: d.get()?,
                indata_len: d.get()?,
            },
            OpCode::ROLLBACK => Self::Snap { snapid: d.get()? },
            OpCode::WATCH => Self::Watch {
                cookie: d.get()?,
                ver: d.get()?,
                op: d.get()?,
                generation: d.get()?,
                timeout: d.get()?,
            },
            OpCode::NOTIFY | OpCode::NOTIFY_ACK => Self::Notify { cookie: d.get()? },
            OpCode::ASSERT_VER => Self::AssertVer { unused: d.get()?, ver: d.get()? },
            OpCode::COPY_GET => Self::CopyGet { max: d.get()? },
            OpCode::COPY_FROM | OpCode::COPY_FROM2 | OpCode::SET_REDIRECT => Self::CopyFrom {
                snapid: d.get()?,
                src_version: d.get()?,
                flags: d.get()?,
                src_fadvise_flags: d.get()?,
            },
            OpCode::PG_HITSET_GET => Self::HitSetGet { stamp: d.get()? },
            OpCode::SETALLOCHINT => Self::AllocHint {
                expected_object_size: d.get()?,
                expected_write_size: d.get()?,
                flags: d.get()?,
            },
            OpCode::WRITESAME => {
                Self::WriteSame { offset: d.get()?, length: d.get()?, data_length: d.get()? }
            }
            OpCode::CHECKSUM => {
                Self::Checksum { offset: d.get()?, length: d.get()?, chunk_size: d.get()?, kind: d.get()? }
            }
            code if code.name().is_none() => Self::Raw(d.array("ceph_osd_op")?),
            code if code.is_attr() => {
                Self::Xattr { name_len: d.get()?, value_len: d.get()?, cmp_op: d.get()?, cmp_mode: d.get()? }
            }
            code if code.is_pg() => Self::Pgls { count: d.get()?, start_epoch: d.get()? },
            _ => Self::Extent {
                offset: d.get()?,
                length: d.get()?,
                truncate_size: d.get()?,
                truncate_seq: d.get()?,
            },
        })
    }

    pub(super) fn encode(&self, e: &mut Encoder) {
        match self {
            Self::Extent { offset, length, truncate_size, truncate_seq } => {
                e.put(offset).put(length).put(truncate_size).put(truncate_seq)
            }
            Self::Xattr { name_len, value_len, cmp_op, cmp_mode } => {
                e.put(name_len).put(value_len).put(cmp_op).put(cmp_mode)
            }
            Self::Class { class_len, method_len, argc, indata_len } => {
                e.put(class_len).put(method_len).put(argc).put(indata_len)
            }
            Self::Pgls { count, start_epoch } => e.put(count).put(start_epoch),
            Self::Snap { snapid } => e.put(snapid),
            Self::Watch { cookie, ver, op, generation, timeout } => {
                e.put(cookie).put(ver).put(op).put(generation).put(timeout)
            }
            Self::Notify { cookie } => e.put(cookie),
            Self::AssertVer { unused, ver } => e.put(unused).put(ver),
            Self::CopyGet { max } => e.put(max),
            Self::CopyFrom { snapid, src_version, flags, src_fadvise_flags } => {
                e.put(snapid).put(src_version).put(flags).put(src_fadvise_flags)
            }
            Self::HitSetGet { stamp } => e.put(stamp),
            Self::AllocHint { expected_object_size, expected_write_size, flags } => {
                e.put(expected_object_size).put(expected_write_size).put(flags)
            }
            Self::WriteSame { offset, length, data_length } => e.put(offset).put(length).put(data_length),
            Self::Checksum { offset, length, chunk_size, kind } => {
                e.put(offset).put(length).put(chunk_size).put(kind)
            }
            Self::Raw(bytes) => e.raw(bytes),
        };
    }
}
