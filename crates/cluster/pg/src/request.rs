//! A client's request on its way through the PG.

use std::sync::Arc;

use auth::SessionId;
use messages::OsdOp;
use messages::osd_op::OsdFlags;
use ops::OpClass;
use types::{EntityAddrVec, EntityType, HObject, ReqId, SnapContext, SnapId};

use crate::ClientOp;

/// A request that passed the first checks.
#[derive(Debug)]
pub(crate) struct Request {
    pub session: SessionId,
    pub reqid: ReqId,
    pub addrs: Arc<EntityAddrVec>,
    pub class: OpClass,
    /// The client's snap context, taken out of the message.
    pub snapc: SnapContext,
    pub op: Box<OsdOp>,
}

impl Request {
    pub fn new(client: ClientOp, class: OpClass) -> Self {
        let ClientOp { session, source, addrs, mut op, .. } = client;
        let snapc = SnapContext { seq: op.snap_seq, snaps: std::mem::take(&mut op.snaps) };
        Self { session, reqid: op.request_id(source), addrs, class, snapc, op }
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
