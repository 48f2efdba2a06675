//! What comes in and what goes out.

use auth::{SessionId, SessionInfo};
use encoding::DecodeError;
use messages::Message;
use types::{BrokenInvariant, EntityAddr, Epoch, Fsid, OsdId, Profile};

use crate::state::Batch;
use options::Values;

/// The monitor's configuration at its creation and at each start.
#[derive(Clone)]
pub struct MonConfig {
    /// The cluster.
    pub fsid: Fsid,
    /// The monitor's name, `a`.
    pub name: String,
    /// Where it listens, with the nonce that its sessions show: clients compare them.
    pub addr: EntityAddr,
    /// The address at which the monitor acts as the manager, and the manager map's epoch. `None`: the manager map names no
    /// manager.
    pub manager: Option<ManagerConfig>,
    /// The host, as CRUSH and `node ls` name it.
    pub hostname: String,
    /// Which release to be.
    pub profile: Profile,
    /// What `versions` says.
    pub version: String,
    pub options: Values,
    /// Random bytes, other ones at each start: the keys that `auth get-or-create` makes come from them.
    pub key_seed: [u8; 32],
    /// What `mon metadata` shows of the machine, by Ceph's names.
    pub machine: std::collections::BTreeMap<String, String>,
    /// The OSDs that a new cluster starts with ([`crate::Mon::create`] only).
    pub osds: Vec<InitialOsd>,
}

/// The manager's part of the monitor, as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerConfig {
    /// Where it listens. Its nonce is another one at each start, so that clients that stay know it as a new one.
    pub addr: EntityAddr,
    /// The map's number: higher at each start than at all before, or clients would not take the new address.
    pub epoch: Epoch,
}

/// An OSD of a new cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InitialOsd {
    /// Its number.
    pub id: i32,
    /// Its UUID, which its boot has to show.
    pub uuid: Fsid,
    /// The size of its device, in bytes: its weight, in TiB.
    pub size_bytes: u64,
    /// Its device class, if it has one.
    pub class: Option<String>,
}

/// Something happened.
#[derive(Clone, Debug)]
pub enum MonEvent {
    /// A peer is authenticated and there.
    SessionOpened(SessionInfo),
    /// The same, at the manager's address.
    ManagerSessionOpened(SessionInfo),
    /// It is gone.
    SessionClosed(SessionId),
    /// It says something.
    Message { session: SessionId, message: Message },
    /// A connection that authenticates wants a global id; it gets one by [`MonEffect::GlobalId`].
    GlobalIdWanted {
        /// The connection.
        session: SessionId,
        /// The id it had before; 0 for none.
        asked: u64,
    },
    /// A batch is durable.
    Committed {
        /// The batch's token.
        token: u64,
    },
    /// The space of the file system that holds the monitor's state.
    DiskSpace {
        /// Its size in bytes.
        total: u64,
        /// What is free of it.
        available: u64,
    },
    /// What runs an OSD says that it failed, for this reason, and does nothing until it boots again. An OSD elsewhere has
    /// only its own words for it.
    OsdFailed { osd: i32, reason: String },
    /// Time goes on: some once a second.
    Tick,
}

/// Something is to be done.
#[derive(Clone, Debug, PartialEq)]
pub enum MonEffect {
    /// Send a message.
    Send {
        /// To whom.
        session: SessionId,
        message: Message,
    },
    /// End a session.
    Close {
        session: SessionId,
        /// Why, for the log.
        reason: String,
    },
    /// Make a batch durable and answer with [`MonEvent::Committed`]. There is never more than one under way.
    Commit {
        /// Names it.
        token: u64,
        /// The changes.
        batch: Batch,
    },
    /// The global id of a connection that asked for one.
    GlobalId {
        /// The connection.
        session: SessionId,
        id: u64,
    },
    /// A line for the process's own log.
    Log(String),
    /// The same of something that failed and should have worked.
    LogError(String),
    /// An OSD that wants to boot has a newer map than any that was ever made durable here: this state is older than the OSDs'
    /// stores, as that of a backup. A map is shown only once it is durable, so none of a healthy state can be ahead of it.
    Behind { osd: OsdId, has: Epoch, newest: Epoch },
    /// An invariant of the monitor is broken: it can't go on, and nothing more comes from it.
    Failed(BrokenInvariant),
}

/// Why the monitor's state can't be opened: the disk's fault, or a newer program's.
#[derive(Debug, thiserror::Error)]
pub enum MonOpenError {
    /// Something that must be there is not.
    #[error("the monitor's state lacks {0}")]
    Missing(String),
    /// Something does not decode.
    #[error("the monitor's state: {what}: {source}")]
    Bad {
        /// Which key.
        what: String,
        source: DecodeError,
    },
    /// Something does not fit together.
    #[error("the monitor's state: {0}")]
    Wrong(String),
    /// It belongs to another cluster.
    #[error("the monitor's state belongs to cluster {found}, not to {wanted}")]
    OtherCluster {
        /// The cluster in the state.
        found: Fsid,
        /// The cluster asked for.
        wanted: Fsid,
    },
}
