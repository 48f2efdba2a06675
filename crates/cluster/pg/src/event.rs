//! What happens to a PG, and what it wants done.

use std::sync::Arc;

use crate::{BackoffRange, CopyResult, ScrubOrder, ScrubWork, SetAside};
use auth::{Caps, SessionId};
use maps::{OsdMap, PeeringCrush};
use messages::{OsdOp, OsdOpReply, PgInfoReply, PgQuestion, WatchNotify};
use ops::{CopySource, FullKind};
use store::{Left, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use telemetry::Stage;
use types::{BrokenInvariant, EntityAddrVec, EntityName, Epoch, IntervalSet, OsdId, SnapContext, SpgId};

/// A client's request as the OSD hands it on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientOp {
    /// Where the reply goes.
    pub session: SessionId,
    /// Who sent it: the session's instance name, which makes up the request's id.
    pub source: EntityName,
    /// The client's addresses, by which a map may shut it out.
    pub addrs: Arc<EntityAddrVec>,
    /// Features of the session: which map changes make its client send again.
    pub features: u64,
    /// The session's capabilities: a request that they do not allow gets EPERM in its turn.
    pub caps: Caps,
    /// The message.
    pub op: Box<OsdOp>,
}

/// What of its pool a PG heeds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolView {
    /// Copies wanted.
    pub size: u32,
    /// Copies needed to serve.
    pub min_size: u32,
    /// PGs.
    pub pg_num: u32,
    /// PGs after the merge that is being prepared; otherwise the same.
    pub pg_num_pending: u32,
    /// Requests of older epochs are dropped: clients send them again (last_force_op_resend).
    pub last_force_op_resend: Epoch,
    /// The same for clients from before Nautilus, and from before Luminous.
    pub last_force_op_resend_prenautilus: Epoch,
    pub last_force_op_resend_preluminous: Epoch,
    /// What a stretch pool asks of the buckets that its PGs peer across.
    pub peering_crush: Option<PeeringCrush>,
    /// FLAG_EC_OPTIMIZATIONS.
    pub ec_optimizations: bool,
    /// Whether it is full: the map's FULL flag, or the pool's FULL or FULL_QUOTA.
    pub full: Option<FullKind>,
    /// Requests fail or are dropped (FLAG_EIO).
    pub eio: bool,
    /// Every write is advised as one whose data is not needed again (FLAG_WRITE_FADVISE_DONTNEED).
    pub writes_dontneed: bool,
    /// Whether objects may have omap data (not in erasure-coded pools).
    pub has_omap: bool,
    /// The pool's own snapshots, when it has such: they take the place of the client's snap context.
    pub snapc: Option<SnapContext>,
}

/// The PG in a map.
#[derive(Clone, PartialEq, Debug)]
pub struct MapView {
    /// The map's epoch. Every epoch is given, in order.
    pub epoch: Epoch,
    /// The map itself, for what concerns no PG in particular: which clients are shut out.
    pub osdmap: Arc<OsdMap>,
    /// The up set.
    pub up: Vec<OsdId>,
    pub up_primary: OsdId,
    /// The acting set.
    pub acting: Vec<OsdId>,
    pub acting_primary: OsdId,
    pub pool: PoolView,
}

/// Something happened.
#[derive(Clone, PartialEq, Debug)]
pub enum PgEvent {
    /// A client asks. Its epoch is not newer than the PG's: the OSD waits for maps.
    /// So much space is set aside for it.
    ClientOp(ClientOp, SetAside),
    /// A newer map.
    AdvanceMap(Box<MapView>),
    /// The snapshots of the PG's pool that were ever purged. What the PG still has of them is trimmed.
    Purged(Box<IntervalSet>),
    /// A read is done.
    ReadDone {
        /// The read's token.
        token: Token,
        /// What was read.
        result: Result<ReadOutcome, StoreError>,
    },
    /// A transaction is durable here.
    Committed {
        /// The transaction's token.
        token: Token,
    },
    /// The store refused a transaction, and refuses every other of this PG until [`PgEffect::Acknowledge`].
    Refused {
        /// The transaction's token.
        token: Token,
        error: StoreError,
    },
    /// Answers [`PgEffect::Copy`]. So much space is set aside for what was copied.
    Copied { token: Token, result: CopyResult, set_aside: SetAside },
    /// A session is gone: its requests that did not begin are dropped, replies to it too; its watches wait for their
    /// clients.
    SessionReset { session: SessionId },
    /// A session has learned of the end of its backoff ([`PgEffect::Unblock`]), and everything has come that it sent
    /// before it learned of the backoff.
    BackoffEnded { session: SessionId },
    /// Another OSD answers [`PgEffect::AskPeer`], perhaps more than once, or late.
    PeerInfo { osd: OsdId, reply: Box<PgInfoReply> },
    /// Scrub the PG; [`PgEffect::Scrubbed`] ends it. Not while a scrub runs.
    Scrub(ScrubOrder),
    /// End the scrub that runs without a result, if one does.
    AbortScrub,
    /// Time passed; due at [`Pg::deadline`](crate::Pg::deadline), harmless at any other time.
    Tick,
    /// The pool is gone: remove everything stored; [`PgEffect::Removed`] ends it.
    Remove,
}

/// Something to do, in this order.
#[derive(Clone, PartialEq, Debug)]
pub enum PgEffect {
    /// Answer a request.
    Reply {
        session: SessionId,
        /// The answer; its transaction id is the request's.
        reply: Box<OsdOpReply>,
    },
    /// Send a session a message that answers no request.
    Send { session: SessionId, message: Box<WatchNotify> },
    /// Whether a session has watches here from now on, so that [`PgEvent::SessionReset`] is to tell of its end.
    Watching { session: SessionId, watching: bool },
    /// Read from the store.
    Read {
        /// Names it within this PG.
        token: Token,
        request: ReadRequest,
    },
    /// Read another object, by requests of this OSD's own as a client, then [`PgEvent::Copied`].
    Copy {
        /// Names it within this PG.
        token: Token,
        source: Box<CopySource>,
    },
    /// The answer to [`PgEffect::Copy`] is not wanted any more.
    CancelCopy { token: Token },
    /// Ask another OSD, which the PG's map shows up, what it has of the PG: [`PgEvent::PeerInfo`]. The PG asks again if no
    /// answer comes.
    AskPeer { osd: OsdId, question: PgQuestion },
    /// Queue a transaction. Queue and Read of one PG must reach the store in the order given.
    Queue {
        /// Names it within this PG.
        token: Token,
        txn: Transaction,
    },
    /// A request is dropped, and its session is to hold back those of all the PG's objects until
    /// [`PgEffect::Unblock`]. Once a session, until [`PgEvent::BackoffEnded`].
    Block { session: SessionId, tid: u64, range: Box<BackoffRange> },
    /// A session may send again what it held back.
    Unblock { session: SessionId, epoch: Epoch },
    /// New PGs are stored that this one's objects were shared with: the pool has more PGs. They are to be loaded.
    Split { children: Vec<SpgId> },
    /// Tell the store that what was built upon this refused transaction is undone.
    Acknowledge { token: Token },
    /// A request has reached a stage. (The OSD knows by itself when it came and when it is answered.)
    Reached { session: SessionId, tid: u64, stage: Stage },
    /// A scrub has ended: with a result, which is part of the info, or without.
    Scrubbed { complete: bool, work: Box<ScrubWork> },
    /// Worth a line in the log.
    Notice(Notice),
    /// The PG can't go on and answers nothing any more: what it keeps in memory is not what is stored. Where a split was
    /// refused, it is loaded again at [`Pg::deadline`](crate::Pg::deadline).
    Failed(PgFailure),
    /// Everything stored is gone (durably), the PG with it.
    Removed,
}

/// Worth a line in the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A client used an operation that is not implemented (each code is said once a PG).
    UnsupportedOp { code: u16 },
    /// A request was dropped unanswered; the client sends it again when it learns why. Its budget is free. (Requests of
    /// a session that is gone are not named one by one.)
    Dropped { session: SessionId, tid: u64, reason: &'static str },
    /// The acting set is not one that can be served yet.
    NotServed { reason: String },
    /// The store refused a client's change; the client got the error, and the PG goes on.
    ChangeRefused { error: StoreError },
    /// Removed snapshots keep their objects until the next interval.
    TrimFailed { reason: &'static str },
    /// An object's stored metadata can't be read; its requests get EIO. Said once until they can be read again.
    BadObject {
        /// What is wrong.
        reason: String,
    },
    /// Worth a line in the cluster log, which operators read.
    ClusterLog { level: ClusterLogLevel, text: String },
}

/// How urgent a line of the cluster log is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClusterLogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// Why a PG can't go on.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PgFailure {
    /// The store refused a transaction.
    #[error("the store refused a transaction: {0}")]
    Refused(StoreError),
    /// The store has no room for its split, now: the PG begins again after a while.
    #[error("the store refused to split it, which is tried again: {0}")]
    Split(StoreError),
    /// An invariant of the PG does not hold.
    #[error(transparent)]
    Broken(BrokenInvariant),
    /// Its own records could not be read.
    #[error("the PG's records can't be read: {0}")]
    Load(String),
    /// Its pool is gone, and its objects can't be removed.
    #[error("its pool is gone, and its objects can't be removed: {0}")]
    Remove(StoreError),
    /// Its pool is gone, and all of its objects that can be removed.
    #[error("its pool is gone, and {0}; all else is removed")]
    Remains(Left),
    /// Its records show that this copy is not whole.
    #[error("this copy lacks {0}, and recovery does not exist yet")]
    Incomplete(String),
}
