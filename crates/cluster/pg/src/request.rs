//! A client's request on its way through the PG.

use std::sync::Arc;

use auth::SessionId;
use messages::OsdOp;
use messages::osd_op::OsdFlags;
use ops::OpClass;
use types::{EntityAddrVec, EntityName, EntityType, HObject, ReqId, SnapContext, SnapId};

use crate::ClientOp;

/// A request that passed the first checks.
#[derive(Debug)]
pub(crate) struct Request {
    pub session: SessionId,
    pub source: EntityName,
    pub reqid: ReqId,
    pub addrs: Arc<EntityAddrVec>,
    pub features: u64,
    pub permitted: bool,
    pub class: OpClass,
    /// The client's snap context, taken out of the message.
    pub snapc: SnapContext,
    pub op: Box<OsdOp>,
}

impl Request {
    pub fn new(client: ClientOp, class: OpClass) -> Self {
        let ClientOp { session, source, addrs, features, permitted, mut op } = client;
        let snapc = SnapContext { seq: op.snap_seq, snaps: std::mem::take(&mut op.snaps) };
        Self { session, source, reqid: op.request_id(source), addrs, features, permitted, class, snapc, op }
    }

    /// The request as it came.
    pub fn into_client(self) -> ClientOp {
        let Self { session, source, addrs, features, permitted, snapc, mut op, .. } = self;
        op.snaps = snapc.snaps;
        ClientOp { session, source, addrs, features, permitted, op }
    }

    /// The object's head.
    pub fn head(&self) -> HObject {
        HObject { snap: SnapId::HEAD, ..self.op.hobject() }
    }

    pub fn returns_vector(&self) -> bool {
        self.op.has_flag(OsdFlags::RETURNVEC)
    }

    /// Whether a metadata server sent it. A full pool takes its writes, as in Ceph: a full file system could not be
    /// emptied otherwise.
    pub fn is_from_mds(&self) -> bool {
        self.reqid.name.kind == EntityType::Mds
    }
}
