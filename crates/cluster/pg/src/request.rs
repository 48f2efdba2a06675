//! A client's request on its way through the PG.

use auth::{Caps, SessionId};
use messages::OsdOp;
use messages::osd_op::OsdFlags;
use ops::{Caller, OpClass};
use types::{HObject, SnapContext, SnapId, SplitMix64, UTime};

use crate::{ClientOp, SetAside};

/// A request that passed the first checks.
#[derive(Debug)]
pub(crate) struct Request {
    pub session: SessionId,
    pub caller: Caller,
    pub caps: Caps,
    /// When it first ran; the same in every further run of it.
    pub began: Option<UTime>,
    pub class: OpClass,
    /// The client's snap context, taken out of the message.
    pub snapc: SnapContext,
    pub op: Box<OsdOp>,
    /// Given up once its change is handed to the store.
    pub set_aside: SetAside,
    /// Nobody waits for the answer.
    pub session_ended: bool,
}

impl Request {
    pub fn new(client: ClientOp, class: OpClass, set_aside: SetAside) -> Self {
        let ClientOp { session, source, addrs, features, caps, mut op } = client;
        let snapc = SnapContext { seq: op.snap_seq, snaps: std::mem::take(&mut op.snaps) };
        let caller = Caller { name: source, reqid: op.request_id(source), addrs, features };
        Self { session, caller, caps, began: None, class, snapc, op, set_aside, session_ended: false }
    }

    pub fn on_session_reset(&mut self, session: SessionId) {
        self.session_ended |= self.session == session;
    }

    /// The request as it came.
    pub fn into_client(self) -> (ClientOp, SetAside) {
        let Self { session, caller, caps, snapc, mut op, set_aside, .. } = self;
        let Caller { name: source, addrs, features, .. } = caller;
        op.snaps = snapc.snaps;
        (ClientOp { session, source, addrs, features, caps, op }, set_aside)
    }

    /// The object's head.
    pub fn head(&self) -> HObject {
        HObject { snap: SnapId::HEAD, ..self.op.hobject() }
    }

    /// A number that is another in each request, and the same in each run of this one.
    pub fn seed(&self) -> u64 {
        let reqid = &self.caller.reqid;
        let began = self.began.unwrap_or_default().as_nanos();
        [reqid.inc as u64, reqid.tid, began].into_iter().fold(reqid.name.num as u64, SplitMix64::at)
    }

    pub fn returns_vector(&self) -> bool {
        self.op.has_flag(OsdFlags::RETURNVEC)
    }
}
