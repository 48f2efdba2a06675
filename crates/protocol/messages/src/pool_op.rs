//! MPoolOp: librados' pool and pool-snapshot operations.

use encoding::{DecodeError, Decoder, Encoder};
use types::{Fsid, Name, SnapId};

use crate::codec::{Envelope, Payload};
use crate::{Paxos, kind};

/// Ceph's MPoolOp.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOp {
    /// Transaction id; the reply repeats it.
    pub tid: u64,
    /// The common prefix.
    pub paxos: Paxos,
    /// The cluster.
    pub fsid: Fsid,
    /// The pool's number.
    pub pool: u32,
    /// What to do: [`PoolOp::CREATE`] and its like.
    pub op: u32,
    /// The former owner's id: 0.
    pub auid: u64,
    /// The unmanaged snapshot to delete.
    pub snapid: SnapId,
    /// The new pool's or the pool snapshot's name.
    pub name: Name,
    /// The new pool's CRUSH rule, -1 for the default.
    pub crush_rule: i16,
}

impl PoolOp {
    /// POOL_OP_CREATE: makes a pool.
    pub const CREATE: u32 = 0x01;
    /// POOL_OP_DELETE: removes a pool.
    pub const DELETE: u32 = 0x02;
    /// POOL_OP_AUID_CHANGE: no longer exists.
    pub const AUID_CHANGE: u32 = 0x03;
    /// POOL_OP_CREATE_SNAP: takes a pool snapshot.
    pub const CREATE_SNAP: u32 = 0x11;
    /// POOL_OP_DELETE_SNAP: removes a pool snapshot.
    pub const DELETE_SNAP: u32 = 0x12;
    /// POOL_OP_CREATE_UNMANAGED_SNAP: allots a snapshot id (librbd).
    pub const CREATE_UNMANAGED_SNAP: u32 = 0x21;
    /// POOL_OP_DELETE_UNMANAGED_SNAP: gives a snapshot id back.
    pub const DELETE_UNMANAGED_SNAP: u32 = 0x22;
}

impl Payload for PoolOp {
    const KIND: u16 = kind::POOL_OP;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 2;

    fn decode(d: &mut Decoder<'_>, env: &mut Envelope) -> Result<Self, DecodeError> {
        let (paxos, fsid, pool, op) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let (auid, snapid, name) = (d.get()?, d.get()?, d.get()?);
        // Where version 3 had the rule as one byte.
        d.get::<u8>()?;
        Ok(Self { tid: env.tid, paxos, fsid, pool, op, auid, snapid, name, crush_rule: d.get()? })
    }

    fn encode(&self, e: &mut Encoder, env: &mut Envelope) {
        env.tid = self.tid;
        e.put(&self.paxos).put(&self.fsid).put(&self.pool).put(&self.op);
        e.put(&self.auid).put(&self.snapid).put(&self.name).put(&0u8).put(&self.crush_rule);
    }
}
