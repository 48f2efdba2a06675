//! A client's request on its way through the PG.

use auth::SessionId;
use messages::OsdOp;
use messages::osd_op::OsdFlags;
use ops::{Caller, OpClass};
use types::{HObject, SnapContext, SnapId};

use crate::ClientOp;

/// A request that passed the first checks.
#[derive(Debug)]
pub(crate) struct Request {
    pub session: SessionId,
    pub caller: Caller,
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
        let caller = Caller { name: source, reqid: op.request_id(source), addrs, features };
        Self { session, caller, permitted, class, snapc, op }
    }

    /// The request as it came.
    pub fn into_client(self) -> ClientOp {
        let Self { session, caller, permitted, snapc, mut op, .. } = self;
        let Caller { name: source, addrs, features, .. } = caller;
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
}
