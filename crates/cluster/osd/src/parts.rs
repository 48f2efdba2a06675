//! An OSD's parts: where they are, and the messages between them.
//!
//! Messages go by value and keep their order from one part to another; there is none among messages of different
//! senders. So whatever names a PG at a gate was published by its shard before.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::{SessionId, SessionInfo};
use maps::OsdMap;
use messages::{Message, OsdOpReply, PgInfoReply, PgQuestion, PgStat};
use ops::CopySource;
use pg::{BackoffRange, ClientOp, CopyResult, Origin, ScrubOrder};
use serde_json::Value;
use smallvec::SmallVec;
use store::{
    FreeSpace, Peek, ReadOutcome, ReadRequest, StatFs, StoreError, StoreMemory, StoreShard, Token,
    Transaction,
};
use telemetry::Average;
use types::{EntityAddrVec, Epoch, IntervalSet, OsdId, PgId, PoolId, SpgId, UTime};

use crate::control::{CopyId, MapStep};
use crate::gate::ThrottleLimits;
use crate::perf::{OpCounters, OpHistograms};
use crate::report::OpView;
use crate::shard::{MAP_WORK_PER_EVENT, PgSlot, PgStatus, ShardConfig};
use crate::{LogLevel, OsdEffect};

/// What is left to do when a store's device is well again.
pub(crate) const REOPENED: &str = ". Then `loligo start DIR --osd N` opens the store again";

/// A core of the process, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CoreId(pub u16);

impl CoreId {
    /// The core whose gate has a session.
    pub fn of(session: SessionId) -> Self {
        Self(session.core())
    }
}

/// On which cores an OSD's parts are. The control part is on that of shard 0, whose handle of the store holds its records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    gates: Vec<CoreId>,
    shards: Vec<CoreId>,
}

impl Placement {
    /// Everything on one core.
    pub fn one_core(shards: u32) -> Self {
        Self { gates: vec![CoreId(0)], shards: vec![CoreId(0); shards.max(1) as usize] }
    }

    /// Gates on `gates`, and the store's shard *i* on `shards[i]`. `None` if either is empty.
    pub fn new(mut gates: Vec<CoreId>, shards: Vec<CoreId>) -> Option<Self> {
        gates.sort();
        gates.dedup();
        (!gates.is_empty() && !shards.is_empty()).then_some(Self { gates, shards })
    }

    /// The cores that have a gate, each once.
    pub fn gates(&self) -> &[CoreId] {
        &self.gates
    }

    /// The cores of the shards, by the shard's number.
    pub fn shards(&self) -> &[CoreId] {
        &self.shards
    }

    pub(crate) fn shards_of(&self, core: CoreId) -> impl Iterator<Item = StoreShard> {
        let of_core = self.shards.iter().enumerate().filter(move |(_, at)| **at == core);
        of_core.map(|(index, _)| StoreShard(index as u32))
    }

    /// The core of the control part.
    pub fn control(&self) -> CoreId {
        self.shards[0]
    }

    /// How many cores have a part of it.
    pub fn cores(&self) -> usize {
        self.all_cores().len()
    }

    /// The cores that have a part of it.
    pub fn all_cores(&self) -> BTreeSet<CoreId> {
        self.gates.iter().chain(&self.shards).copied().collect()
    }

    fn core_of(&self, to: &To) -> CoreId {
        match to {
            To::Control(_) => self.control(),
            To::Gate(core, _) | To::Stop(core) => *core,
            // A shard that does not exist is a defect that its core reports.
            To::Shard(shard, _) => self.shards.get(shard.0 as usize).copied().unwrap_or(self.control()),
        }
    }
}

/// The memory of a core's stores, one for each shard that is there.
pub trait Stores {
    /// See [`store::ObjectStore::peek`].
    fn peek(&mut self, shard: StoreShard, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>>;

    /// See [`store::ObjectStore::memory_pools`].
    fn memory_pools(&mut self, shard: StoreShard) -> StoreMemory;

    /// See [`store::ObjectStore::free_space`].
    fn free_space_of(&mut self, _shard: StoreShard) -> Option<FreeSpace> {
        None
    }

    /// See [`store::ObjectStore::drop_caches`].
    fn drop_caches_of(&mut self, _shard: StoreShard) -> bool {
        false
    }
}

/// One store: that of every shard asked for.
impl<P: Peek + ?Sized> Stores for P {
    fn peek(&mut self, _: StoreShard, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.peek_at(request)
    }

    fn memory_pools(&mut self, _: StoreShard) -> StoreMemory {
        self.pools_of_memory()
    }
}

/// Which of a store's objects a request will want that is about to come: those with this hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    pub shard: StoreShard,
    pub hash: u32,
}

/// A message from one part of an OSD to another, as it goes from core to core.
#[derive(Debug)]
pub struct PartMessage(pub(crate) To);

/// For which part, and what.
#[derive(Debug)]
pub(crate) enum To {
    Control(ToControl),
    Gate(CoreId, ToGate),
    Shard(StoreShard, ToShard),
    /// To all parts of a core: the OSD has stopped or failed.
    Stop(CoreId),
}

/// To the control part.
#[derive(Debug)]
pub(crate) enum ToControl {
    /// A session's message that is no client's request. The gate holds `bytes` of its budget until
    /// [`ToGate::Handled`].
    Message {
        peer: Arc<SessionInfo>,
        message: Box<Message>,
        bytes: u64,
    },
    /// A peer has maps up to `have` and lacks the newer ones.
    ShareMaps {
        session: SessionId,
        have: Epoch,
    },
    /// A request is of an epoch newer than the gate's map.
    WantMap,
    /// The PGs that a shard's store holds.
    PgsFound {
        shard: StoreShard,
        found: Result<Vec<SpgId>, String>,
    },
    /// A PG's state is new, or another than before.
    PgStatus {
        pgid: SpgId,
        slot: PgSlot,
        status: PgStatus,
    },
    /// New PGs are stored in a shard, out of one of it that was split: their states follow.
    PgsSplit {
        shard: StoreShard,
        children: Vec<SpgId>,
    },
    /// A PG is removed, durably.
    PgRemoved {
        pgid: SpgId,
    },
    /// A shard is through with a map: every PG has it that needs it. It takes the next one.
    MapApplied {
        shard: StoreShard,
        epoch: Epoch,
    },
    /// Every PG of a shard has durably reached this epoch.
    MapReached {
        shard: StoreShard,
        epoch: Epoch,
    },
    Space {
        shard: StoreShard,
        space: Box<ShardSpace>,
    },
    /// Answers [`ToShard::CollectStats`] and [`ToGate::CollectStats`].
    Stats {
        stats: BTreeMap<PgId, PgStat>,
        /// `None`: the part has more to report.
        load: Option<OpLoad>,
    },
    /// Answers [`ToShard::Report`] and [`ToGate::Report`].
    Report {
        id: u64,
        report: Box<PartReport>,
    },
    /// Answers [`ToShard::Query`]; `None` if the PG is not there.
    QueryAnswer {
        asked: Asker,
        answer: Option<Value>,
    },
    /// A PG wants another object, whole; [`ToShard::Copied`] answers.
    Copy {
        id: CopyId,
        source: Box<CopySource>,
    },
    /// It wants it no more.
    CancelCopy(CopyId),
    /// A PG asks what another OSD has of it; [`ToShard::PeerInfo`] answers, unless it is lost.
    AskPeer {
        osd: OsdId,
        question: PgQuestion,
    },
    /// Answers [`ToShard::Scrub`]: the scrub has ended, with a result or without.
    Scrubbed {
        pgid: SpgId,
        complete: bool,
    },
    /// A session with another OSD has ended.
    PeerClosed(Box<EntityAddrVec>),
    /// A line for the cluster log, and for the OSD's own.
    ClusterLog(LogLevel, String),
    /// A part cannot go on, and the OSD with it.
    Failed(String),
}

/// To a gate.
#[derive(Debug)]
pub(crate) enum ToGate {
    Limits(ThrottleLimits),
    /// The map that the OSD goes by.
    Map(GateMap),
    /// Where a PG's requests go from here on; `None`: nowhere.
    Pg {
        pgid: SpgId,
        route: Option<Route>,
    },
    /// Answers a request of a PG.
    Reply {
        session: SessionId,
        place: PgPlace,
        reply: Box<OsdOpReply>,
    },
    /// A PG's request was dropped unanswered.
    Dropped {
        session: SessionId,
        place: PgPlace,
        tid: u64,
    },
    /// A request was dropped, and its session is to hold back from its PG.
    Block(Box<Block>),
    /// A session may send again what it held back from a PG.
    Unblock {
        session: SessionId,
        pgid: SpgId,
        epoch: Epoch,
    },
    /// Whether a PG has watches of a session, so that it is to hear of the session's end.
    Watching {
        session: SessionId,
        place: PgPlace,
        watching: bool,
    },
    /// A PG has sent a write of a session back for want of room, so that its shard is to hear of the session's end.
    SentBack {
        session: SessionId,
        place: PgPlace,
    },
    /// Another message for a session.
    Send {
        session: SessionId,
        message: Box<Message>,
    },
    /// The control part is done with a message of [`ToControl::Message`].
    Handled {
        session: SessionId,
        bytes: u64,
    },
    /// Report on requests that wait here for longer than this; `None`: on none.
    CollectStats {
        complaint_time: Option<Duration>,
    },
    /// See [`ToControl::Report`].
    Report {
        id: u64,
        what: ReportKind,
        complaint_time: Option<Duration>,
    },
}

/// To a shard.
#[derive(Debug)]
pub(crate) enum ToShard {
    Config(Box<ShardConfig>),
    /// Which PGs does the store hold?
    FindPgs,
    /// Read what the store has of a PG.
    Load(SpgId),
    /// Make a PG. Its origin ends with the map of the newest [`ToShard::Map`].
    Make {
        pgid: SpgId,
        origin: Box<Origin>,
    },
    /// Remove a collection whose pool no map has.
    RemoveLeftover(SpgId),
    /// The next map, for every PG.
    Map(MapStep),
    Request {
        slot: PgSlot,
        op: ClientOp,
        /// When it came.
        received: UTime,
    },
    /// Answers [`ToControl::Copy`].
    Copied {
        slot: PgSlot,
        token: Token,
        result: CopyResult,
    },
    /// Answers [`ToControl::AskPeer`].
    PeerInfo {
        osd: OsdId,
        reply: Box<PgInfoReply>,
    },
    /// Another OSD asks what a PG has. The PG has come to the question's map.
    PgInfoAsked {
        session: SessionId,
        question: PgQuestion,
    },
    /// A session is gone that had requests of these PGs.
    SessionReset {
        session: SessionId,
        pgs: Vec<PgSlot>,
    },
    /// See [`pg::PgEvent::BackoffEnded`].
    BackoffEnded {
        slot: PgSlot,
        session: SessionId,
    },
    /// Ask the store for its space.
    AskSpace,
    /// Report on the PGs that are led here, as of this epoch.
    CollectStats {
        epoch: Epoch,
    },
    Query {
        pgid: SpgId,
        asked: Asker,
    },
    /// Scrub a PG that no scrub of runs.
    Scrub {
        pgid: SpgId,
        order: ScrubOrder,
    },
    AbortScrub {
        pgid: SpgId,
    },
    /// The snapshots that were ever purged, for the PGs of their pools.
    Purged(Arc<BTreeMap<PoolId, IntervalSet>>),
    /// See [`ToControl::Report`].
    Report {
        id: u64,
        what: ReportKind,
    },
}

/// What a command wants of all gates and shards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReportKind {
    /// The operations under way; only the slow ones if asked.
    InFlight {
        slow_only: bool,
    },
    /// The slowest ones that were answered lately.
    Longest,
    /// The latest ones that took long.
    LongestSlow,
    Counters,
    /// What is in memory.
    Memory,
    FreeSpace,
    /// The stores' caches, which are dropped.
    DropCaches,
    Histograms,
    Watches,
    /// The counters and histograms, which begin at zero again.
    ResetCounters,
}

/// A part's answer to a command.
#[derive(Clone, Debug, Default)]
pub(crate) struct PartReport {
    pub ops: Vec<OpView>,
    pub counters: OpCounters,
    pub histograms: OpHistograms,
    /// Messages and bytes that a gate holds.
    pub held: (u64, u64),
    /// Object contexts and log entries in memory.
    pub object_contexts: u64,
    pub log_entries: u64,
    pub store_memory: StoreMemory,
    /// The watches of objects, as Ceph's `dump_watchers` shows each.
    pub watches: Vec<Value>,
    /// How the free space of a shard's store lies.
    pub free_space: Option<FreeSpace>,
    /// The store could not drop its caches.
    pub keeps_caches: bool,
}

/// What an OSD's report has of operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct OpLoad {
    /// Operations that are under way for longer than osd_op_complaint_time, and for how many nanoseconds the oldest of
    /// them is.
    pub slow: u64,
    pub oldest_nanos: u64,
    /// Of all transactions since the start.
    pub commit_latency: Average,
}

impl OpLoad {
    /// An operation is slow.
    pub(crate) fn note_slow(&mut self, age_nanos: u64) {
        self.slow += 1;
        self.oldest_nanos = self.oldest_nanos.max(age_nanos);
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.slow += other.slow;
        self.oldest_nanos = self.oldest_nanos.max(other.oldest_nanos);
        self.commit_latency += other.commit_latency;
    }
}

/// What gates know of the cluster.
#[derive(Clone, Debug)]
pub(crate) struct GateMap {
    pub map: Arc<OsdMap>,
    /// The epoch since which the map shows this OSD up; 0 when it does not.
    pub up_from: Epoch,
}

/// A PG drops a request, and wants no more of its session.
#[derive(Debug)]
pub(crate) struct Block {
    pub session: SessionId,
    pub tid: u64,
    pub pgid: SpgId,
    pub place: PgPlace,
    pub range: BackoffRange,
}

/// Where a PG is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PgPlace {
    pub shard: StoreShard,
    pub slot: PgSlot,
}

/// The way to a PG.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Route {
    pub place: PgPlace,
    /// It has failed: what comes for PGs that are to be split off it would wait for long.
    pub has_failed: bool,
}

/// The space of a shard's store.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ShardSpace {
    pub statfs: StatFs,
    /// A write waits for which there is too little space.
    pub is_full: bool,
}

/// Who gave a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asker {
    Session {
        session: SessionId,
        tid: u64,
    },
    /// The admin socket: see [`crate::OsdEvent::AdminCommand`].
    Socket(u64),
}

/// Where an event's effects go, and what a part may look at meanwhile.
pub(crate) struct Out<'a> {
    effects: &'a mut Vec<OsdEffect>,
    inbox: &'a mut VecDeque<To>,
    stores: &'a mut dyn Stores,
    core: CoreId,
    placement: &'a Placement,
    /// The time of the event.
    now: UTime,
    /// Shards of which a transaction is among the effects: their stores' memory shows an older state.
    behind: SmallVec<[StoreShard; 2]>,
    /// What maps have cost in this event: see [`MAP_WORK_PER_EVENT`].
    work: usize,
}

impl<'a> Out<'a> {
    pub(crate) fn new(
        effects: &'a mut Vec<OsdEffect>,
        inbox: &'a mut VecDeque<To>,
        stores: &'a mut dyn Stores,
        core: CoreId,
        placement: &'a Placement,
        now: UTime,
    ) -> Self {
        Self { effects, inbox, stores, core, placement, now, behind: SmallVec::new(), work: 0 }
    }

    pub(crate) fn now(&self) -> UTime {
        self.now
    }

    pub(crate) fn push(&mut self, effect: OsdEffect) {
        self.effects.push(effect);
    }

    pub(crate) fn log(&mut self, level: LogLevel, text: impl Into<String>) {
        self.push(OsdEffect::Log(level, text.into()));
    }

    /// Queues a transaction on a shard's store.
    pub(crate) fn queue(&mut self, shard: StoreShard, token: Token, txn: Transaction) {
        if !self.behind.contains(&shard) {
            self.behind.push(shard);
        }
        self.push(OsdEffect::Queue { shard, token, txn });
    }

    /// Reads from a shard's store.
    pub(crate) fn read(&mut self, shard: StoreShard, token: Token, request: ReadRequest) {
        self.push(OsdEffect::Read { shard, token, request });
    }

    /// The memory of a shard's store, as far as it shows what the effects before have queued.
    pub(crate) fn memory(&mut self, shard: StoreShard) -> Memory<'_> {
        match self.behind.contains(&shard) {
            true => Memory { stores: None, shard },
            false => Memory { stores: Some(self.stores), shard },
        }
    }

    /// What a shard's store has in memory.
    pub(crate) fn memory_pools(&mut self, shard: StoreShard) -> StoreMemory {
        self.stores.memory_pools(shard)
    }

    /// How the free space of a shard's store lies.
    pub(crate) fn free_space(&mut self, shard: StoreShard) -> Option<FreeSpace> {
        self.stores.free_space_of(shard)
    }

    /// Has a shard's store drop its caches; `false`: it can't.
    pub(crate) fn drop_caches(&mut self, shard: StoreShard) -> bool {
        self.stores.drop_caches_of(shard)
    }

    pub(crate) fn send(&mut self, to: To) {
        let core = self.placement.core_of(&to);
        match core == self.core {
            true => self.inbox.push_back(to),
            false => self.push(OsdEffect::ToCore { core, message: PartMessage(to) }),
        }
    }

    pub(crate) fn send_control(&mut self, message: ToControl) {
        self.send(To::Control(message));
    }

    pub(crate) fn send_gate(&mut self, gate: CoreId, message: ToGate) {
        self.send(To::Gate(gate, message));
    }

    /// To the gate that has a session.
    pub(crate) fn send_gate_of(&mut self, session: SessionId, message: ToGate) {
        self.send_gate(CoreId::of(session), message);
    }

    pub(crate) fn send_gates(&mut self, message: impl Fn() -> ToGate) {
        for gate in self.placement.gates() {
            self.send_gate(*gate, message());
        }
    }

    pub(crate) fn send_shard(&mut self, shard: StoreShard, message: ToShard) {
        self.send(To::Shard(shard, message));
    }

    pub(crate) fn send_shards(&mut self, message: impl Fn() -> ToShard) {
        for shard in 0..self.placement.shards().len() as u32 {
            self.send_shard(StoreShard(shard), message());
        }
    }

    /// Sends a message on a session of any gate.
    pub(crate) fn send_session(&mut self, session: SessionId, message: impl Into<Message>) {
        self.send_gate_of(session, ToGate::Send { session, message: Box::new(message.into()) });
    }

    /// Counts work that a map is.
    pub(crate) fn note_work(&mut self, units: usize) {
        self.work += units;
    }

    pub(crate) fn has_work_left(&self) -> bool {
        self.work < MAP_WORK_PER_EVENT
    }

    /// What maps have cost so far in this event.
    pub(crate) fn work(&self) -> usize {
        self.work
    }

    /// The oldest message for a part of this core.
    pub(crate) fn next_message(&mut self) -> Option<To> {
        self.inbox.pop_front()
    }

    pub(crate) fn clear_messages(&mut self) {
        self.inbox.clear();
    }

    /// Stops the OSD for a defect of this program: something that must hold does not, so nothing that it keeps in memory
    /// can be trusted. To go on would drop a request in silence, or worse.
    pub(crate) fn broken(&mut self, what: impl Into<String>) {
        let what = what.into();
        debug_assert!(false, "{what}");
        self.log(LogLevel::Error, format!("broken invariant, a defect of this program: {what}"));
        self.send_control(ToControl::Failed(what));
    }
}

/// The memory of one shard's store.
pub(crate) struct Memory<'a> {
    stores: Option<&'a mut dyn Stores>,
    shard: StoreShard,
}

impl Peek for Memory<'_> {
    fn peek_at(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.stores.as_mut()?.peek(self.shard, request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_can_go_to_another_thread_and_is_small() {
        fn is_send<T: Send>() {}
        is_send::<PartMessage>();
        assert!(size_of::<PartMessage>() <= 96, "{} bytes", size_of::<PartMessage>());
    }

    #[test]
    fn the_control_part_is_where_shard_0_is() {
        let placement = Placement::new(vec![CoreId(2), CoreId(0), CoreId(2)], vec![CoreId(1), CoreId(0)]);
        let placement = placement.unwrap();
        assert_eq!((placement.control(), placement.gates()), (CoreId(1), &[CoreId(0), CoreId(2)][..]));
        assert_eq!(placement.shards_of(CoreId(0)).collect::<Vec<_>>(), [StoreShard(1)]);
        assert_eq!(placement.cores(), 3);
        assert_eq!(Placement::new(Vec::new(), vec![CoreId(0)]), None);
    }
}
