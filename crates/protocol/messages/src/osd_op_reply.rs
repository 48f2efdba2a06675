//! MOSDOpReply: what became of a compound operation.

use encoding::{DecodeError, Decoder, Encoder};
use types::{EVersion, Epoch, Name, ObjectLocator, PgId};

use crate::codec::{Envelope, Payload};
use crate::osd_op::{Op, OpResult, OsdFlags, Trace};
use crate::{Blob, OsdOp, kind};

/// Ceph's MOSDOpReply, version 8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdOpReply {
    /// The request's transaction id.
    pub tid: u64,
    /// The object's name.
    pub oid: Name,
    /// The placement group.
    pub pgid: PgId,
    /// The request's flags (see [`OsdFlags`]), with ACK and ONDISK as the reply has them.
    pub flags: i64,
    /// 0 or more, or a negated error number.
    pub result: i32,
    /// What clients before the split into replay and user version read.
    pub bad_replay_version: EVersion,
    /// The OSD's map.
    pub epoch: Epoch,
    /// As many as the request has.
    pub ops: Vec<OpResult>,
    /// The request's.
    pub retry_attempt: i32,
    /// A write's log entry; 0'0 for a read.
    pub replay_version: EVersion,
    /// The object's version as librados shows it.
    pub user_version: u64,
    /// Where to go instead.
    pub redirect: Option<Redirect>,
    /// A trace's ids.
    pub trace: Trace,
    /// The low 16 bits of the first read's offset.
    pub data_offset: u16,
}

/// Ceph's request_redirect_t: the object to ask for instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Redirect {
    /// Its place.
    pub locator: ObjectLocator,
    /// Its name; empty for the same.
    pub object: Name,
    /// No longer used: empty.
    pub osd_instructions: Blob,
}
crate::codec::fields!(Redirect "request_redirect_t" version 1, compat 1, [locator, object, osd_instructions]);

impl OsdOpReply {
    /// A durable reply to `request`: `result`, the OSD's map, and as many results as the request has operations.
    /// Versions are 0; see [`OsdOpReply::set_versions`].
    pub fn to(request: &OsdOp, result: i32, epoch: Epoch, ops: Vec<OpResult>) -> Self {
        let flags = request.flags & !(OsdFlags::ACK | OsdFlags::ONNVRAM | OsdFlags::ONDISK);
        Self {
            tid: request.tid,
            oid: request.oid.clone(),
            pgid: request.pgid.pg,
            flags: i64::from(flags | OsdFlags::ACK | OsdFlags::ONDISK),
            result,
            bad_replay_version: EVersion::default(),
            epoch,
            ops,
            retry_attempt: request.retry_attempt,
            replay_version: EVersion::default(),
            user_version: 0,
            redirect: None,
            trace: Trace::default(),
            data_offset: 0,
        }
    }

    /// Bytes that its operations bring.
    pub fn bytes_brought(&self) -> u64 {
        self.ops.iter().map(|result| result.outdata.len() as u64).sum()
    }

    /// A reply of an error that came before any operation ran: every operation is repeated with result 0 and no data,
    /// and nothing is acknowledged but what the request asked for.
    pub fn error(request: &OsdOp, result: i32, epoch: Epoch) -> Self {
        let ops = request.ops.iter().map(|op| OpResult::of(op, 0, buffer::Rope::new())).collect();
        let flags = i64::from(request.flags & !OsdFlags::ONNVRAM);
        Self { flags, ..Self::to(request, result, epoch, ops) }
    }

    /// Sets the log entry's version and the object's user version, and the field that old clients read.
    pub fn set_versions(&mut self, replay: EVersion, user: u64) {
        self.replay_version = replay;
        self.user_version = user;
        self.bad_replay_version = replay;
        if user != 0 {
            self.bad_replay_version.version = user;
        }
    }

    /// The same for an object that does not exist: there is no log entry, and old clients read `version`.
    pub fn set_enoent_versions(&mut self, version: EVersion, user: u64) {
        self.user_version = user;
        self.bad_replay_version = version;
    }
}

impl Payload for OsdOpReply {
    const KIND: u16 = kind::OSD_OP_REPLY;
    const VERSION: u16 = 8;
    const COMPAT: u16 = 2;

    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError> {
        let (oid, pgid, flags, result) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let (bad_replay_version, epoch) = (d.get()?, d.get()?);
        let count: u32 = d.get()?;
        let ops = Op::decode_all(d, count as usize, &mut env.data)?;
        let retry_attempt = d.get()?;
        let mut results = Vec::with_capacity(ops.len());
        for mut op in ops {
            let outdata = std::mem::take(&mut op.indata);
            results.push(OpResult { op, rval: d.get()?, outdata });
        }
        Ok(Self {
            tid: env.tid,
            oid,
            pgid,
            flags,
            result,
            bad_replay_version,
            epoch,
            ops: results,
            retry_attempt,
            replay_version: d.get()?,
            user_version: d.get()?,
            redirect: d.get()?,
            trace: d.get()?,
            data_offset: env.data_offset,
        })
    }

    fn payload_bytes(&self) -> usize {
        self.ops.iter().map(|op| op.outdata.len()).sum()
    }

    fn encode(&self, e: &mut Encoder, env: &mut Envelope) {
        (env.tid, env.data_offset) = (self.tid, self.data_offset);
        e.put(&self.oid).put(&self.pgid).put(&self.flags).put(&self.result);
        e.put(&self.bad_replay_version).put(&self.epoch).put(&(self.ops.len() as u32));
        Op::encode_all(self.ops.iter().map(|r| (&r.op, &r.outdata)), e, &mut env.data);
        e.put(&self.retry_attempt);
        self.ops.iter().for_each(|r| {
            e.put(&r.rval);
        });
        e.put(&self.replay_version).put(&self.user_version).put(&self.redirect).put(&self.trace);
    }
}
