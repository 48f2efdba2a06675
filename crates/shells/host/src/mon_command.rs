//! Commands that the process itself gives its monitor: as a client's, by a session in memory.

use auth::{Caps, SessionInfo};
use buffer::Rope;
use messages::Message;
use mon::MonEvent;
use serde_json::Value;
use types::{EntityAddrVec, EntityId, EntityName, EntityType, Fsid, Profile};

/// Called once, on the core that has the monitor.
pub(crate) type MonReply = Box<dyn FnOnce(MonAnswer) + Send>;

/// A command in Ceph's JSON.
#[derive(Clone, Debug)]
pub(crate) enum MonCommand {
    /// As by `ceph COMMAND`.
    Cluster(Value),
    /// As by `ceph tell mon.a COMMAND`, or at an admin socket. The text need not be JSON.
    Tell(Vec<u8>),
}

impl MonCommand {
    pub(crate) fn into_message(self, tid: u64) -> Message {
        match self {
            Self::Cluster(json) => messages::MonCommand {
                tid,
                paxos: messages::Paxos::default(),
                fsid: Fsid::default(),
                cmd: vec![json.to_string().as_str().into()],
                data: Rope::default(),
            }
            .into(),
            Self::Tell(text) => messages::Command {
                tid,
                fsid: Fsid::default(),
                cmd: vec![text.as_slice().into()],
                data: Rope::default(),
            }
            .into(),
        }
    }
}

/// What the monitor answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MonAnswer {
    /// 0, or a negated error number.
    pub(crate) result: i32,
    /// The sentence for the user.
    pub(crate) status: String,
    /// The output.
    pub(crate) data: Vec<u8>,
}

impl MonAnswer {
    pub(crate) fn new(result: i32, status: String, data: &Rope) -> Self {
        Self { result, status, data: data.to_vec() }
    }
}

/// Opens the session that the commands come by: that of the administrator, who could stop the process as well.
pub(crate) fn open_session() -> MonEvent {
    MonEvent::SessionOpened(SessionInfo {
        id: node::HOST_SESSION,
        entity: EntityId { kind: EntityType::Client, id: "admin".into() },
        name: EntityName::new(EntityType::Client, 0),
        global_id: 0,
        caps: Caps::all(),
        features: Profile::PACIFIC.features_supported,
        peer_addrs: EntityAddrVec::default(),
        local_nonce: 0,
    })
}
