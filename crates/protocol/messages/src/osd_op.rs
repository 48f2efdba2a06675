//! One operation of a compound operation (Ceph's ceph_osd_op with its data), and the flags around it.

use std::fmt;

use buffer::Rope;
use encoding::{DecodeError, Decoder, Encoder};

mod args;
mod code;
mod copy;
mod list;
mod scrub_ls;

pub use args::OpArgs;
pub use code::OpCode;
pub use copy::{CopyCursor, CopyData};
pub use list::{ListCursor, ListEntry, PgLsResponse, PgNlsResponse};
pub use scrub_ls::{
    InconsistentCopy, InconsistentId, InconsistentObject, InconsistentShard, InconsistentSnapSet, ScrubLsArg,
    ScrubLsResult,
};

/// Flags of a whole MOSDOp or MOSDOpReply (CEPH_OSD_FLAG_*).
pub struct OsdFlags;

macro_rules! flags {
    ($owner:ident: $($(#[$doc:meta])* $name:ident = $value:literal),* $(,)?) => {
        impl $owner {
            $($(#[$doc])* pub const $name: u32 = $value;)*
        }
    };
}
flags! { OsdFlags:
    /// Wants, or is, an acknowledgement in memory.
    ACK = 0x1,
    /// Acknowledgement in NVRAM.
    ONNVRAM = 0x2,
    /// Wants, or is, an acknowledgement that the change is durable.
    ONDISK = 0x4,
    /// Sent again.
    RETRY = 0x8,
    /// May read.
    READ = 0x10,
    /// May write.
    WRITE = 0x20,
    /// -EOLDSNAPC if the snapshot context is out of order.
    ORDERSNAP = 0x40,
    /// No longer used.
    PEERSTAT_OLD = 0x80,
    /// Any replica may answer.
    BALANCE_READS = 0x100,
    /// Operations may run in parallel.
    PARALLELEXEC = 0x200,
    /// About the placement group, not an object.
    PGOP = 0x400,
    /// May call a class.
    EXEC = 0x800,
    /// No longer used.
    EXEC_PUBLIC = 0x1000,
    /// A near replica may answer.
    LOCALIZE_READS = 0x2000,
    /// Ordered with concurrent reads.
    RWORDERED = 0x4000,
    /// Past the cache tier.
    IGNORE_CACHE = 0x8000,
    /// Without read and write locks.
    SKIPRWLOCKS = 0x1_0000,
    /// Past the overlay.
    IGNORE_OVERLAY = 0x2_0000,
    /// Part of a flush.
    FLUSH = 0x4_0000,
    /// The snapshot id names a clone.
    MAP_SNAP_CLONE = 0x8_0000,
    /// The client's snapshot context counts even where the pool has snapshots of its own.
    ENFORCE_SNAPC = 0x10_0000,
    /// Came by way of a redirect.
    REDIRECTED = 0x20_0000,
    /// REDIRECTED is known to be right.
    KNOWN_REDIR = 0x40_0000,
    /// Try although the pool is full.
    FULL_TRY = 0x80_0000,
    /// Do it although the pool is full.
    FULL_FORCE = 0x100_0000,
    /// Past redirects.
    IGNORE_REDIRECT = 0x200_0000,
    /// Results and data of writes are to be returned.
    RETURNVEC = 0x400_0000,
    /// The client knows the pool's EIO flag.
    SUPPORTSPOOLEIO = 0x800_0000,
}

/// Flags of a single operation (CEPH_OSD_OP_FLAG_*).
pub struct OpFlags;

flags! { OpFlags:
    /// CREATE fails if the object exists.
    EXCL = 0x1,
    /// Go on if this operation fails.
    FAILOK = 0x2,
    /// Advice: random access.
    FADVISE_RANDOM = 0x4,
    /// Advice: sequential access.
    FADVISE_SEQUENTIAL = 0x8,
    /// Advice: needed again soon.
    FADVISE_WILLNEED = 0x10,
    /// Advice: not needed again soon.
    FADVISE_DONTNEED = 0x20,
    /// Advice: needed once.
    FADVISE_NOCACHE = 0x40,
    /// Counts references.
    WITH_REFERENCE = 0x80,
    /// Past the store's cache.
    BYPASS_CLEAN_CACHE = 0x100,
}

/// Numbers inside operations' arguments.
pub struct OpConst;

flags! { OpConst:
    /// CEPH_OSD_CMPXATTR_OP_EQ.
    CMPXATTR_EQ = 1,
    /// CEPH_OSD_CMPXATTR_OP_NE.
    CMPXATTR_NE = 2,
    /// CEPH_OSD_CMPXATTR_OP_GT.
    CMPXATTR_GT = 3,
    /// CEPH_OSD_CMPXATTR_OP_GTE.
    CMPXATTR_GTE = 4,
    /// CEPH_OSD_CMPXATTR_OP_LT.
    CMPXATTR_LT = 5,
    /// CEPH_OSD_CMPXATTR_OP_LTE.
    CMPXATTR_LTE = 6,
    /// CEPH_OSD_CMPXATTR_MODE_STRING.
    CMPXATTR_MODE_STRING = 1,
    /// CEPH_OSD_CMPXATTR_MODE_U64.
    CMPXATTR_MODE_U64 = 2,
    /// CEPH_OSD_WATCH_OP_UNWATCH.
    WATCH_UNWATCH = 0,
    /// CEPH_OSD_WATCH_OP_LEGACY_WATCH.
    WATCH_LEGACY_WATCH = 1,
    /// CEPH_OSD_WATCH_OP_WATCH.
    WATCH_WATCH = 3,
    /// CEPH_OSD_WATCH_OP_RECONNECT.
    WATCH_RECONNECT = 5,
    /// CEPH_OSD_WATCH_OP_PING.
    WATCH_PING = 7,
    /// CEPH_OSD_CHECKSUM_OP_TYPE_XXHASH32.
    CHECKSUM_XXHASH32 = 0,
    /// CEPH_OSD_CHECKSUM_OP_TYPE_XXHASH64.
    CHECKSUM_XXHASH64 = 1,
    /// CEPH_OSD_CHECKSUM_OP_TYPE_CRC32C.
    CHECKSUM_CRC32C = 2,
    /// CEPH_OSD_COPY_FROM_FLAG_FLUSH.
    COPY_FROM_FLUSH = 1,
    /// CEPH_OSD_COPY_FROM_FLAG_IGNORE_OVERLAY.
    COPY_FROM_IGNORE_OVERLAY = 2,
    /// CEPH_OSD_COPY_FROM_FLAG_IGNORE_CACHE.
    COPY_FROM_IGNORE_CACHE = 4,
    /// CEPH_OSD_COPY_FROM_FLAG_MAP_SNAP_CLONE.
    COPY_FROM_MAP_SNAP_CLONE = 8,
    /// CEPH_OSD_COPY_FROM_FLAG_RWORDERED.
    COPY_FROM_RWORDERED = 16,
    /// CEPH_OSD_COPY_FROM_FLAG_TRUNCATE_SEQ (copy-from2 only).
    COPY_FROM_TRUNCATE_SEQ = 32,
    /// CEPH_OSD_COPY_FROM_FLAGS: all of them.
    COPY_FROM_FLAGS = 63,
    /// CEPH_OSD_ALLOC_HINT_FLAG_SEQUENTIAL_WRITE.
    ALLOC_HINT_SEQUENTIAL_WRITE = 1,
    /// CEPH_OSD_ALLOC_HINT_FLAG_RANDOM_WRITE.
    ALLOC_HINT_RANDOM_WRITE = 2,
    /// CEPH_OSD_ALLOC_HINT_FLAG_SEQUENTIAL_READ.
    ALLOC_HINT_SEQUENTIAL_READ = 4,
    /// CEPH_OSD_ALLOC_HINT_FLAG_RANDOM_READ.
    ALLOC_HINT_RANDOM_READ = 8,
    /// CEPH_OSD_ALLOC_HINT_FLAG_APPEND_ONLY.
    ALLOC_HINT_APPEND_ONLY = 16,
    /// CEPH_OSD_ALLOC_HINT_FLAG_IMMUTABLE.
    ALLOC_HINT_IMMUTABLE = 32,
    /// CEPH_OSD_ALLOC_HINT_FLAG_SHORTLIVED.
    ALLOC_HINT_SHORTLIVED = 64,
    /// CEPH_OSD_ALLOC_HINT_FLAG_LONGLIVED.
    ALLOC_HINT_LONGLIVED = 128,
    /// CEPH_OSD_ALLOC_HINT_FLAG_COMPRESSIBLE.
    ALLOC_HINT_COMPRESSIBLE = 256,
    /// CEPH_OSD_ALLOC_HINT_FLAG_INCOMPRESSIBLE.
    ALLOC_HINT_INCOMPRESSIBLE = 512,
}

/// Bytes of the argument union.
pub(crate) const ARGS_LEN: usize = 28;
/// Bytes of an operation in the front.
pub(crate) const OP_LEN: usize = 2 + 4 + ARGS_LEN + 4;

/// One operation of a compound operation. The wire's payload_len is `indata`'s length.
#[derive(Clone, PartialEq, Eq)]
pub struct Op {
    /// What to do.
    pub code: OpCode,
    /// See [`OpFlags`].
    pub flags: u32,
    /// The arguments, as the code has them.
    pub args: OpArgs,
    /// The union's bytes after the arguments. Its first bytes, which hold the arguments, are 0 here.
    slack: [u8; ARGS_LEN],
    /// Input: the bytes to write, names and values of attributes, a class call's input.
    pub indata: Rope,
}

impl Op {
    /// An operation without flags and input.
    pub fn new(code: OpCode, args: OpArgs) -> Self {
        Self { code, flags: 0, args, slack: [0; ARGS_LEN], indata: Rope::new() }
    }

    /// The same with input.
    pub fn with_indata(self, indata: impl Into<Rope>) -> Self {
        Self { indata: indata.into(), ..self }
    }

    /// The same with flags.
    pub fn with_flags(self, flags: u32) -> Self {
        Self { flags, ..self }
    }

    /// This operation without its input, as a reply repeats it.
    pub fn without_indata(&self) -> Self {
        Self { indata: Rope::new(), args: self.args.clone(), ..*self }
    }

    /// Reads the 38 bytes in the front; also gives the length of the input.
    fn decode_head(d: &mut Decoder<'_>) -> Result<(Self, usize), DecodeError> {
        let (code, flags) = (OpCode(d.get()?), d.get()?);
        let mut slack: [u8; ARGS_LEN] = d.array("ceph_osd_op")?;
        let mut inner = Decoder::new(&slack);
        let args = OpArgs::decode(code, &mut inner)?;
        let used = inner.position();
        slack.iter_mut().take(used).for_each(|b| *b = 0);
        let len: u32 = d.get()?;
        Ok((Self { code, flags, args, slack, indata: Rope::new() }, len as usize))
    }

    fn encode_head(&self, e: &mut Encoder, payload_len: usize) {
        e.put(&self.code.0).put(&self.flags);
        let start = e.len();
        self.args.encode(e);
        let used = e.len() - start;
        e.raw(self.slack.get(used..).unwrap_or(&[])).put(&(payload_len as u32));
    }

    /// Reads `count` operations and gives each its part of `data`; fails where there is less data than they name.
    pub(crate) fn decode_all(
        d: &mut Decoder<'_>,
        count: usize,
        data: &mut Rope,
    ) -> Result<Vec<Self>, DecodeError> {
        let needed = count.saturating_mul(OP_LEN);
        if needed > d.remaining() {
            return Err(DecodeError::Truncated { what: "operations", needed, left: d.remaining() });
        }
        let mut ops = Vec::with_capacity(count);
        for _ in 0..count {
            let (mut op, needed) = Self::decode_head(d)?;
            if needed > 0 {
                let left = data.len();
                let what = "operation's data";
                op.indata = data.split_front(needed).ok_or(DecodeError::Truncated { what, needed, left })?;
            }
            ops.push(op);
        }
        Ok(ops)
    }

    pub(crate) fn encode_all<'a>(
        ops: impl Iterator<Item = (&'a Self, &'a Rope)>,
        e: &mut Encoder,
        data: &mut Rope,
    ) {
        for (op, payload) in ops {
            op.encode_head(e, payload.len());
            data.append(payload.clone());
        }
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if self.flags != 0 {
            write!(f, " flags {:#x}", self.flags)?;
        }
        write!(f, " {:?}", self.args)?;
        match self.indata.len() {
            0 => Ok(()),
            n => write!(f, " in {n}b"),
        }
    }
}

/// An operation and what became of it, as in MOSDOpReply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpResult {
    /// The operation as it was asked for, without input.
    pub op: Op,
    /// 0 or more, or a negated error number.
    pub rval: i32,
    /// Output: bytes read and the like.
    pub outdata: Rope,
}

impl OpResult {
    /// The result of `op`, whose input is left out.
    pub fn of(op: &Op, rval: i32, outdata: impl Into<Rope>) -> Self {
        Self { op: op.without_indata(), rval, outdata: outdata.into() }
    }
}

/// A trace's ids (Ceph's blkin_trace_info); all 0 where nothing is traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Trace {
    pub trace_id: i64,
    pub span_id: i64,
    /// The span that this one is part of.
    pub parent_span_id: i64,
}
crate::codec::fields!(Trace [trace_id, span_id, parent_span_id]);

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of one operation in a front, and the data that goes with it.
    fn round_trip(front: &[u8], data: &[u8]) -> (Vec<u8>, Op) {
        let (mut rope, mut d) = (Rope::copy_from(data), Decoder::new(front));
        let ops = Op::decode_all(&mut d, 1, &mut rope).unwrap();
        assert!(rope.is_empty() && d.remaining() == 0);
        let (mut e, mut out) = (Encoder::new(0), Rope::new());
        Op::encode_all(ops.iter().map(|op| (op, &op.indata)), &mut e, &mut out);
        assert_eq!(out.to_vec(), data);
        (e.into_bytes(), ops[0].clone())
    }

    #[test]
    fn every_byte_of_the_union_comes_back_whatever_the_code() {
        for code in 0..=0xffff {
            let mut front: Vec<u8> = u16::to_le_bytes(code).to_vec();
            front.extend((0..32).map(|i| i ^ code as u8));
            front.extend(3u32.to_le_bytes());
            assert_eq!(round_trip(&front, b"abc").0, front, "{:?}", OpCode(code));
        }
    }

    #[test]
    fn a_write_has_an_extent_and_its_bytes() {
        let op = Op::new(OpCode::WRITE, OpArgs::extent(4096, 3)).with_indata(Rope::copy_from(b"xyz"));
        let (mut e, mut data) = (Encoder::new(0), Rope::new());
        Op::encode_all([(&op, &op.indata)].into_iter(), &mut e, &mut data);
        assert_eq!(e.len(), OP_LEN);
        assert_eq!(round_trip(e.as_slice(), b"xyz").1, op);
    }

    #[test]
    fn more_data_named_than_there_is_is_refused() {
        let (mut e, mut data) = (Encoder::new(0), Rope::copy_from(b"ab"));
        Op::new(OpCode::WRITE, OpArgs::extent(0, 3)).encode_head(&mut e, 3);
        let bytes = e.into_bytes();
        assert!(Op::decode_all(&mut Decoder::new(&bytes), 1, &mut data).is_err());
        assert!(Op::decode_all(&mut Decoder::new(&bytes), usize::MAX, &mut data).is_err());
    }
}
