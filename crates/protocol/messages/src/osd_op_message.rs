//! MOSDOp: a client's compound operation on an object or placement group.

use encoding::{DecodeError, Decoder, Encoder};
use types::{
    EntityName, Epoch, FeatureBits, HObject, Name, ObjectLocator, ReqId, SnapContext, SnapId, SpgId, UTime,
};

use crate::codec::{Envelope, Payload};
use crate::osd_op::{Op, OpArgs, OpCode, Trace};
use crate::{Priority, Versioned, kind};

/// Ceph's MOSDOp, in version 8 (to and from peers without SERVER_SQUID) or 9.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOp {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The placement group that the client computed from its map.
    pub pgid: SpgId,
    /// The object's whole placement hash.
    pub hash: u32,
    /// The client's map.
    pub epoch: Epoch,
    /// See [`OsdFlags`].
    pub flags: u32,
    /// The request's id where the sender sets it (resends of others); see [`OsdOp::request_id`].
    pub reqid: ReqId,
    /// A trace's ids.
    pub trace: Trace,
    /// A trace's context (OpenTelemetry), in version 9.
    pub otel_trace: Option<Versioned>,
    /// The client's incarnation; librados sends 0.
    pub client_inc: u32,
    /// The modification time that a write is to set.
    pub mtime: UTime,
    /// Pool, key and namespace.
    pub locator: ObjectLocator,
    /// The object's name; empty in operations on a placement group.
    pub oid: Name,
    /// What to do, in order, all or nothing.
    pub ops: Vec<Op>,
    /// The snapshot to read; [`SnapId::HEAD`] for the object as it is now.
    pub snapid: SnapId,
    /// The snapshot context's newest.
    pub snap_seq: u64,
    /// The snapshot context's snapshots, newest first.
    pub snaps: Vec<SnapId>,
    /// How often it has been sent before; -1 when not known.
    pub retry_attempt: i32,
    /// The client's features.
    pub features: u64,
    /// The data's offset within a page, as the sender would have it received.
    pub data_offset: u16,
}

impl OsdOp {
    /// The object meant. In an operation on a placement group the name is empty.
    pub fn hobject(&self) -> HObject {
        HObject {
            name: self.oid.clone(),
            key: self.locator.key.clone(),
            snap: self.snapid,
            hash: self.hash,
            max: false,
            nspace: self.locator.nspace.clone(),
            pool: self.pgid.pg.pool,
        }
    }

    /// What a resend is recognised by: the id that the sender set, else the sender with the transaction id.
    pub fn request_id(&self, sender: EntityName) -> ReqId {
        if self.reqid.name != EntityName::default() || self.reqid.tid != 0 {
            return self.reqid;
        }
        ReqId { name: sender, tid: self.tid, inc: self.reqid.inc }
    }

    /// The snapshot context of a write.
    pub fn snap_context(&self) -> SnapContext {
        SnapContext { seq: self.snap_seq, snaps: self.snaps.clone() }
    }

    /// Bytes of its object that its reads ask for; `u64::MAX` where one asks for all, which is length 0.
    pub fn bytes_asked(&self) -> u64 {
        let of = |op: &Op| match (op.code, &op.args) {
            (OpCode::READ | OpCode::SPARSE_READ | OpCode::SYNC_READ, OpArgs::Extent { length, .. }) => {
                if *length == 0 { u64::MAX } else { *length }
            }
            _ => 0,
        };
        self.ops.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Whether all bits of `flag` (of [`OsdFlags`]) are set.
    pub fn has_flag(&self, flag: u32) -> bool {
        self.flags & flag == flag
    }
}

/// What a context without a trace is written as.
fn no_otel_trace() -> Versioned {
    Versioned { version: 1, compat: 1, body: vec![0].into() }
}

impl Payload for OsdOp {
    const KIND: u16 = kind::OSD_OP;
    const VERSION: u16 = 9;
    const COMPAT: u16 = 3;
    const OLDEST: u16 = 8;
    const PRIORITY: Option<u16> = Some(Priority::CLIENT_OP);

    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError> {
        let (pgid, hash, epoch, flags) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let (reqid, trace) = (d.get()?, d.get()?);
        let otel_trace = if env.version >= 9 { Some(d.get()?) } else { None };
        let (client_inc, mtime, locator, oid) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let count: u16 = d.get()?;
        let ops = Op::decode_all(d, count.into(), &mut env.data)?;
        let (snapid, snap_seq, snaps) = (d.get()?, d.get()?, d.get()?);
        let (retry_attempt, features) = (d.get()?, d.get()?);
        let (tid, data_offset) = (env.tid, env.data_offset);
        Ok(Self {
            tid,
            pgid,
            hash,
            epoch,
            flags,
            reqid,
            trace,
            otel_trace,
            client_inc,
            mtime,
            locator,
            oid,
            ops,
            snapid,
            snap_seq,
            snaps,
            retry_attempt,
            features,
            data_offset,
        })
    }

    fn payload_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.indata.len()).sum()
    }

    fn encode(&self, e: &mut Encoder, env: &mut Envelope) {
        (env.tid, env.data_offset) = (self.tid, self.data_offset);
        e.put(&self.pgid).put(&self.hash).put(&self.epoch).put(&self.flags).put(&self.reqid).put(&self.trace);
        if e.has(FeatureBits::SERVER_SQUID) {
            e.put(self.otel_trace.as_ref().unwrap_or(&no_otel_trace()));
        } else {
            env.version = 8;
        }
        e.put(&self.client_inc).put(&self.mtime).put(&self.locator).put(&self.oid);
        e.put(&(self.ops.len() as u16));
        Op::encode_all(self.ops.iter().map(|op| (op, &op.indata)), e, &mut env.data);
        e.put(&self.snapid).put(&self.snap_seq).put(&self.snaps).put(&self.retry_attempt).put(&self.features);
    }
}
