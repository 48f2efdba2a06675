//! A PG over MemStore with commits and reads held back until the test says so, and crashes that lose what was not
//! committed. The same with several copies (see [`copies`]), each over a store of its own.

pub mod copies;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::SessionId;
use buffer::Rope;
use encoding::Encode;
use messages::osd_op::{OpFlags, OsdFlags, Trace};
use messages::{Op, OpArgs, OpCode, OsdOp, OsdOpReply, PgQuestion, WatchNotify};
use pg::{
    ClientOp, ClusterLogLevel, MapView, Notice, Origin, Pg, PgConfig, PgEffect, PgEvent, PoolView, SetAside,
};
use store::{
    Advice, AttrChoice, Attrs, Completion, LogPage, LogRecord, MemStore, NoPeek, ObjectGap, ObjectStore,
    Peek, ReadOutcome, ReadRequest, StoreError, Token, Transaction,
};
use types::{
    EVersion, EntityAddr, EntityName, EntityType, Epoch, FeatureBits, GHObject, IntervalSet, Name,
    ObjectLocator, OsdId, PgId, PoolId, ReqId, SnapId, SpgId, SplitMix64, UTime,
};

use copies::{Copies, HEAR, SeveralCopies, change_of, copy_of, is_sync};

pub const POOL: PoolId = PoolId(1);
pub const ME: OsdId = OsdId(0);
const STORE_BYTES: u64 = 1 << 30;

type ReadResult = Result<ReadOutcome, StoreError>;

/// Everything that a copy has stored.
#[derive(PartialEq, Debug)]
pub struct Dump {
    pub log: Vec<LogRecord>,
    /// The info and the past intervals, as a restart would find them.
    info: Vec<u8>,
    pub objects: Vec<(GHObject, Attrs, Vec<u8>)>,
    /// The keys of the snap index.
    pub index: Vec<Name>,
}

/// A copy's store.
struct Side {
    store: MemStore,
    committed: Vec<Transaction>,
    /// What the store will say of transactions, in order.
    queued: VecDeque<(Token, Result<Transaction, StoreError>)>,
}

pub struct Rig {
    pub pg: Pg,
    pub config: Arc<PgConfig>,
    copies: Copies,
    /// The PG's own store first.
    sides: Vec<Side>,
    rng: SplitMix64,
    /// Whether the PG may look at the store's memory.
    pub peeks: bool,
    /// The stores refuse the next change.
    refuse_next: bool,
    refused: Option<u64>,
    /// What has to do with these objects can't be read, as the store says when they are to be changed.
    pub unreadable: BTreeSet<GHObject>,
    /// How a transaction of one of these is refused.
    pub damage_is: StoreError,
    reads: VecDeque<(Token, ReadResult)>,
    pub replies: Vec<(SessionId, OsdOpReply)>,
    pub notices: Vec<Notice>,
    /// Copies that the PG waits for.
    pub copies_asked: Vec<(Token, ops::CopySource)>,
    /// What other OSDs were asked.
    pub asked: Vec<(i32, PgQuestion)>,
    /// What sessions were sent besides replies.
    pub sent: Vec<(u64, WatchNotify)>,
    /// The sessions that have watches.
    pub watching: BTreeSet<u64>,
    /// Sessions that are to hold back, with the request that is dropped; `None` where one may send again.
    pub backoffs: Vec<(u64, Option<u64>)>,
    /// The PGs that this one was split into, which no OSD loads.
    pub children: Vec<SpgId>,
    /// Whether the scrubs that have ended came to a result.
    pub scrubbed: Vec<bool>,
    pub failed: bool,
    /// The last reason.
    pub failure: Option<pg::PgFailure>,
    pub removed: bool,
    pub trace: Vec<String>,
    pub epoch: u32,
    /// The pool's snapshots whose removal has begun.
    pub removed_snaps: IntervalSet,
    /// Flags of the maps to come.
    pub flags: u32,
    /// Who sends.
    pub source: EntityName,
    pub features: u64,
    clock: u32,
    tid: u64,
}

pub fn client_addr() -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 0).into(), 4123)
}

pub fn pgid() -> SpgId {
    PgId { pool: POOL, seed: 0 }.into()
}

/// A map that shows OSDs 0 to 3 up since epoch 1, and alive in its own epoch.
pub fn osdmap(epoch: u32) -> maps::OsdMap {
    let info = maps::OsdInfo { up_from: Epoch(1), up_thru: Epoch(epoch), ..maps::OsdInfo::default() };
    let state = maps::OsdState::EXISTS | maps::OsdState::UP;
    let osd = maps::Osd { state, info, ..maps::Osd::default() };
    maps::OsdMap { epoch: Epoch(epoch), osds: vec![osd; 4], ..maps::OsdMap::default() }
}

pub fn map(epoch: u32, acting: &[i32]) -> MapView {
    let acting: Vec<OsdId> = acting.iter().copied().map(OsdId).collect();
    let primary = acting.first().copied().unwrap_or(OsdId(-1));
    let pool = PoolView {
        size: 1,
        min_size: 1,
        pg_num: 1,
        pg_num_pending: 1,
        has_omap: true,
        ..PoolView::default()
    };
    MapView {
        epoch: Epoch(epoch),
        osdmap: Arc::new(osdmap(epoch)),
        up: acting.clone(),
        up_primary: primary,
        acting_primary: primary,
        acting,
        pool,
    }
}

impl Side {
    fn new() -> Self {
        Self { store: MemStore::new(STORE_BYTES), committed: Vec::new(), queued: VecDeque::new() }
    }

    /// The side after a loss of power, when it has made `committed` durable.
    fn restarted(committed: Vec<Transaction>) -> Self {
        let mut side = Self { committed, ..Self::new() };
        for (i, txn) in side.committed.clone().into_iter().enumerate() {
            side.store.queue(txn, Token(i as u64));
            let done = side.completion();
            assert!(matches!(done, Completion::Committed { .. }), "{done:?}");
        }
        side
    }

    fn completion(&mut self) -> Completion {
        let mut out = Vec::new();
        self.store.turn(UTime::default());
        self.store.completions(&mut out);
        assert_eq!(out.len(), 1);
        out.remove(0)
    }

    fn queue(&mut self, token: Token, txn: Transaction, refuse: bool) {
        let mut tried = txn.clone();
        if refuse {
            // Stands for any reason that lies in the store.
            tried.remove_collection(pgid().into());
        }
        self.store.queue(tried, token);
        let said = match self.completion() {
            Completion::Committed { token } => (token, Ok(txn)),
            Completion::Refused {
                token,
                error: StoreError::CollectionNotEmpty(_) | StoreError::NoSuchCollection(_),
            } if refuse => (token, Err(StoreError::NoSpace { needed: 1, available: 0 })),
            Completion::Refused { token, error: error @ StoreError::AfterRefused(_) } => (token, Err(error)),
            other => panic!("{other:?}"),
        };
        self.queued.push_back(said);
    }

    fn dump(&mut self) -> Dump {
        let (collection, after) = (pgid().into(), EVersion::default());
        let log = ReadRequest::Log { collection, after, records_max: 100_000, bytes_max: 1 << 30 };
        let Ok(ReadOutcome::Log(LogPage { records: log, more: false, .. })) = self.look(log) else {
            panic!("a log")
        };
        let objects = ReadRequest::List {
            collection,
            start: GHObject::min(),
            end: GHObject::max(),
            objects_max: 100_000,
            attrs: AttrChoice::All,
        };
        let Ok(ReadOutcome::Objects(page)) = self.look(objects) else { panic!("a list") };
        let with_data = |(object, head): (GHObject, _)| {
            let (offset, len, advice) = (0, u64::MAX, Advice::default());
            let request =
                ReadRequest::Data { collection, object: object.clone(), offset, len, advice, verify: false };
            let Ok(ReadOutcome::Data(data)) = self.look(request) else { panic!("data of {object}") };
            (object, head, data.to_vec())
        };
        let objects = page.objects.into_iter().filter(|(o, _)| !o.is_pgmeta()).map(with_data).collect();
        let meta = GHObject::pgmeta(POOL, 0, pgid().shard);
        let index = ReadRequest::OmapRange {
            collection,
            object: meta,
            after: None,
            before: None,
            prefix: Name::new(),
            entries_max: 100_000,
            bytes_max: 1 << 30,
            values: false,
        };
        let Ok(ReadOutcome::Omap(page)) = self.look(index) else { panic!("the snap index") };
        let index = page.entries.into_iter().map(|(key, _)| key).collect();
        Dump { log, info: self.loaded_info(), objects, index }
    }

    /// A PG's info as it loads it.
    fn loaded_info(&mut self) -> Vec<u8> {
        let mut effects = Vec::new();
        let mut pg = Pg::load(pgid(), ME, Arc::default(), &mut effects);
        while let Some(effect) = effects.pop() {
            let PgEffect::Read { token, request } = effect else { panic!("{effect:?}") };
            let event = PgEvent::ReadDone { token, result: self.look(request) };
            pg.handle(UTime::default(), event, &mut NoPeek, &mut effects);
        }
        assert_eq!(pg.log().head(), pg.info().last_update);
        pg.info().to_bytes(0)
    }

    fn look(&mut self, request: ReadRequest) -> ReadResult {
        self.store.read(request, Token(0));
        match self.completion() {
            Completion::Read { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with_config(PgConfig::default())
    }

    pub fn of(copies: Copies) -> Self {
        Self::with(PgConfig::default(), copies)
    }

    pub fn with_config(config: PgConfig) -> Self {
        Self::with(config, Copies::One)
    }

    pub fn with(config: PgConfig, copies: Copies) -> Self {
        let config = Arc::new(config);
        let mut out = Vec::new();
        let pg = Pg::create(
            pgid(),
            ME,
            config.clone(),
            Origin::at(map(5, &[0]), UTime::default()),
            UTime::default(),
            &mut out,
        );
        let (mut sides, mut seed) = (vec![Side::new()], 0);
        let pg = match copies {
            Copies::One => pg,
            Copies::Several { seed: of } => {
                seed = of;
                sides.extend((0..copies.whole()).map(|_| Side::new()));
                pg.with_backend(Box::new(SeveralCopies::new(of, false)))
            }
        };
        let mut rig = Self {
            pg,
            config,
            copies,
            sides,
            rng: SplitMix64::new(seed),
            peeks: false,
            refuse_next: false,
            refused: None,
            unreadable: BTreeSet::new(),
            damage_is: StoreError::Damaged("a page".into()),
            reads: VecDeque::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            copies_asked: Vec::new(),
            asked: Vec::new(),
            sent: Vec::new(),
            watching: BTreeSet::new(),
            backoffs: Vec::new(),
            children: Vec::new(),
            scrubbed: Vec::new(),
            failed: false,
            failure: None,
            removed: false,
            trace: Vec::new(),
            epoch: 5,
            removed_snaps: IntervalSet::new(),
            flags: 0,
            source: EntityName::new(EntityType::Client, 4123),
            features: u64::MAX,
            clock: 0,
            tid: 0,
        };
        rig.perform(out);
        rig.settle();
        rig
    }

    pub fn event(&mut self, event: PgEvent) {
        self.clock += 1;
        let mut out = Vec::new();
        let memory: &mut dyn Peek = if self.peeks { &mut self.sides[0].store } else { &mut NoPeek };
        self.pg.handle(UTime { sec: self.clock, nsec: 0 }, event, memory, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, effects: Vec<PgEffect>) {
        for effect in effects {
            self.trace.push(format!("{effect:?}"));
            match effect {
                PgEffect::Reply { session, reply } => self.replies.push((session, *reply)),
                PgEffect::Queue { token, txn } => {
                    let (copy, change) = (copy_of(token), change_of(token));
                    if copy == 0 && std::mem::take(&mut self.refuse_next) {
                        self.refused = Some(change);
                    }
                    let refuse = self.refused == Some(change) && !is_sync(token);
                    let damaged = txn.objects().iter().any(|(_, object)| self.unreadable.contains(object));
                    self.sides[copy].queue(token, txn, refuse || damaged);
                    if let Some((_, said)) = self.sides[copy].queued.back_mut().filter(|_| damaged) {
                        *said = Err(self.damage_is.clone());
                    }
                }
                PgEffect::Read { token, request } => {
                    let result = self.sides[copy_of(token)].look(request);
                    self.reads.push_back((token, result));
                }
                PgEffect::Copy { token, source } => self.copies_asked.push((token, *source)),
                PgEffect::AskPeer { osd, question } => self.asked.push((osd.0, question)),
                PgEffect::CancelCopy { token } => self.copies_asked.retain(|(of, _)| *of != token),
                PgEffect::Acknowledge { token } => self.sides[copy_of(token)].store.acknowledge(token),
                PgEffect::Block { session, tid, .. } => self.backoffs.push((session.0, Some(tid))),
                PgEffect::Unblock { session, .. } => self.backoffs.push((session.0, None)),
                PgEffect::Reached { .. } => {}
                PgEffect::Send { session, message } => self.sent.push((session.0, *message)),
                PgEffect::Watching { session, watching: true } => assert!(self.watching.insert(session.0)),
                PgEffect::Watching { session, watching: false } => assert!(self.watching.remove(&session.0)),
                PgEffect::Notice(notice) => self.notices.push(notice),
                PgEffect::Failed(failure) => (self.failed, self.failure) = (true, Some(failure)),
                PgEffect::Removed => self.removed = true,
                PgEffect::Scrubbed { complete, .. } => self.scrubbed.push(complete),
                PgEffect::Split { children } => self.children.extend(children),
            }
        }
    }

    /// A copy's oldest queued transaction becomes durable, or the PG learns that it was refused.
    pub fn commit_at(&mut self, copy: usize) -> bool {
        let Some((token, outcome)) = self.sides[copy].queued.pop_front() else { return false };
        match outcome {
            Ok(txn) => {
                self.sides[copy].committed.push(txn);
                self.event(PgEvent::Committed { token });
            }
            Err(error) => self.event(PgEvent::Refused { token, error }),
        }
        true
    }

    /// The oldest queued transaction becomes durable on each copy, or the PG learns that it was refused.
    pub fn commit_one(&mut self) -> bool {
        let oldest = |side: &Side| side.queued.front().map(|(token, _)| change_of(*token));
        let Some(change) = self.sides.iter().filter_map(oldest).min() else { return false };
        let mut copies: Vec<usize> = (0..self.sides.len()).collect();
        while !copies.is_empty() {
            let copy = copies.swap_remove(self.rng.below(copies.len() as u64) as usize);
            while oldest(&self.sides[copy]).is_some_and(|n| n <= change) {
                self.commit_at(copy);
            }
        }
        self.hear();
        true
    }

    /// As [`Rig::commit_one`], but on any of the copies alone.
    pub fn commit_somewhere(&mut self) {
        let copy = self.rng.below(self.sides.len() as u64) as usize;
        self.commit_at(copy);
        if self.rng.below(8) == 0 {
            self.hear();
        }
    }

    /// What the other copies have said reaches the primary.
    pub fn hear(&mut self) {
        if self.copies != Copies::One {
            self.event(PgEvent::Committed { token: HEAR });
        }
    }

    /// The oldest queued transaction, although the store has it, is said to be refused.
    pub fn refuse_queued(&mut self, error: StoreError) {
        let (token, _) = self.sides[0].queued.pop_front().expect("a queued transaction");
        self.event(PgEvent::Refused { token, error });
    }

    /// The store refuses the next transaction for lack of space, and what follows it until that is acknowledged.
    pub fn refuse_next(&mut self) {
        self.refuse_next = true;
    }

    /// Changes the store behind the PG's back.
    pub fn damage(&mut self, txn: Transaction) {
        self.sides[0].store.queue(txn, Token(0));
        self.sides[0].completion();
    }

    /// The oldest read fails.
    pub fn fail_read(&mut self, error: StoreError) {
        let (token, _) = self.reads.pop_front().expect("a read");
        self.event(PgEvent::ReadDone { token, result: Err(error) });
    }

    /// The list that the PG is to get next has a gap. Returns whether it is to get one.
    pub fn add_gap(&mut self, gap: &ObjectGap) -> bool {
        let Some((_, Ok(ReadOutcome::Objects(page)))) = self.reads.front_mut() else { return false };
        page.gaps.push(gap.clone());
        true
    }

    /// Changes the store behind the PG's back, in a way that a loss of power does not undo.
    pub fn damage_for_good(&mut self, txn: Transaction) {
        self.sides[0].committed.push(txn.clone());
        self.damage(txn);
    }

    /// What a copy has stored.
    pub fn dump(&mut self, copy: usize) -> Dump {
        self.sides[copy].dump()
    }

    /// Every copy has the same log, info and objects, byte for byte; the one that only logs, the same log.
    pub fn compare_copies(&mut self) {
        // The primary's own info of this interval goes to the others with the next change.
        self.ask("compared", vec![create()]);
        self.settle();
        let first = self.sides[0].dump();
        assert!(self.sides.len() == self.copies.whole() || first.log == self.sides[3].dump().log);
        for side in &mut self.sides[1..self.copies.whole()] {
            assert_eq!(side.dump(), first);
        }
    }

    /// Reads from the store past the PG.
    pub fn look(&mut self, request: ReadRequest) -> ReadResult {
        self.sides[0].look(request)
    }

    /// The lines for the cluster log so far, without those about scrubs that begin or find nothing.
    pub fn cluster_log(&self) -> Vec<String> {
        let lines = self.notices.iter().filter_map(|notice| match notice {
            Notice::ClusterLog { level, text } if *level != ClusterLogLevel::Debug => Some(text.clone()),
            _ => None,
        });
        lines.collect()
    }

    /// The requests that were dropped unanswered, by session and transaction id.
    pub fn dropped(&self) -> Vec<(u64, u64)> {
        let dropped = self.notices.iter().filter_map(|notice| match notice {
            Notice::Dropped { session, tid, .. } => Some((session.0, *tid)),
            _ => None,
        });
        dropped.collect()
    }

    pub fn uncommitted(&self) -> usize {
        self.sides[0].queued.len()
    }

    pub fn reads_due(&self) -> usize {
        self.reads.len()
    }

    pub fn deliver_read(&mut self) -> bool {
        let Some((token, result)) = self.reads.pop_front() else { return false };
        self.event(PgEvent::ReadDone { token, result });
        true
    }

    pub fn deliver_reads(&mut self) {
        while self.deliver_read() {}
    }

    pub fn settle(&mut self) {
        while self.deliver_read() || self.commit_one() {}
    }

    /// Power is lost: what was not committed is gone. The PG starts again on what is there, in the next epoch.
    pub fn crash(&mut self) {
        assert!(self.restart(), "the PG serves again");
    }

    /// [`Rig::crash`] where what any one of the copies has is what all have from then on.
    pub fn crash_to_any(&mut self) {
        let made = |(_, side): &(usize, &Side)| !side.committed.is_empty();
        let whole = self.sides.iter().take(self.copies.whole()).enumerate();
        let made: Vec<usize> = whole.filter(made).map(|(copy, _)| copy).collect();
        let survivor = made[self.rng.below(made.len() as u64) as usize];
        self.sides.swap(0, survivor);
        self.crash();
    }

    /// [`Rig::crash`] that may end badly: whether the PG serves again.
    pub fn restart(&mut self) -> bool {
        self.reads.clear();
        self.watching.clear();
        self.refuse_next = false;
        self.refused = None;
        let committed = std::mem::take(&mut self.sides[0].committed);
        // Recovery makes the other copies what the primary is; the one that only keeps the log is given up.
        self.sides = (0..self.copies.whole()).map(|_| Side::restarted(committed.clone())).collect();
        let mut out = Vec::new();
        let pg = Pg::load(pgid(), ME, self.config.clone(), &mut out);
        self.pg = match self.copies {
            Copies::One => pg,
            Copies::Several { .. } => {
                pg.with_backend(Box::new(SeveralCopies::new(self.rng.next_u64(), true)))
            }
        };
        self.perform(out);
        // Down, and up again.
        self.epoch += 2;
        self.advance(self.epoch - 1, &[]);
        self.advance(self.epoch, &[0]);
        self.settle();
        self.pg.is_active() && !self.failed
    }

    /// A map in which the removal of these of the pool's snapshots has begun, besides those of earlier maps.
    pub fn remove_snaps(&mut self, snaps: &[u64]) {
        snaps.iter().for_each(|&snap| self.removed_snaps.insert(snap, 1));
        self.epoch += 1;
        self.advance(self.epoch, &[0]);
    }

    /// A map in which the removal of all of the pool's snapshots has ended.
    pub fn forget_removed_snaps(&mut self) {
        self.removed_snaps = IntervalSet::new();
        self.epoch += 1;
        self.advance(self.epoch, &[0]);
    }

    pub fn advance(&mut self, epoch: u32, acting: &[i32]) {
        let mut view = map(epoch, acting);
        let mut osdmap = osdmap(epoch);
        osdmap.flags |= self.flags;
        if !self.removed_snaps.is_empty() {
            osdmap.removed_snaps_queue.insert(POOL, self.removed_snaps.clone());
        }
        view.osdmap = Arc::new(osdmap);
        self.event(PgEvent::AdvanceMap(Box::new(view)));
    }

    /// Time passes, and the PG learns of it as often as it asks to.
    pub fn pass(&mut self, seconds: u32) {
        let end = self.clock + seconds;
        while let Some(at) = self.pg.deadline().filter(|at| at.sec < end) {
            self.clock = self.clock.max(at.sec);
            self.event(PgEvent::Tick);
            self.settle();
        }
        self.clock = self.clock.max(end);
        self.event(PgEvent::Tick);
        self.settle();
    }

    /// A session ends.
    pub fn reset(&mut self, session: u64) {
        self.watching.remove(&session);
        self.event(PgEvent::SessionReset { session: SessionId(session) });
    }

    /// Sends operations on an object in another session and waits for the answer.
    pub fn ask_on(&mut self, session: u64, oid: &str, ops: Vec<Op>) -> OsdOpReply {
        let op = self.message(oid, ops);
        let before = self.replies.len();
        self.send_on(session, op);
        self.settle();
        assert_eq!(self.replies.len(), before + 1, "one answer");
        let (to, reply) = self.replies.pop().expect("an answer");
        assert_eq!(to, SessionId(session));
        reply
    }

    /// A rig whose clients know no backoffs.
    pub fn without_backoffs() -> Self {
        Self { features: !FeatureBits::RADOS_BACKOFF, ..Self::new() }
    }

    pub fn message(&mut self, oid: &str, ops: Vec<Op>) -> OsdOp {
        self.tid += 1;
        message(self.tid, self.epoch, oid, ops)
    }

    /// Sends a request on session 1.
    pub fn send(&mut self, op: OsdOp) {
        self.send_on(1, op);
    }

    pub fn send_on(&mut self, session: u64, op: OsdOp) {
        self.event(PgEvent::ClientOp(
            ClientOp {
                session: SessionId(session),
                source: self.source,
                addrs: Arc::new(client_addr().into()),
                features: self.features,
                caps: auth::Caps::all(),
                op: Box::new(op),
            },
            SetAside::default(),
        ));
    }

    /// Sends operations on an object and waits for the answer.
    pub fn ask(&mut self, oid: &str, ops: Vec<Op>) -> OsdOpReply {
        let op = self.message(oid, ops);
        self.ask_message(op)
    }

    pub fn ask_message(&mut self, op: OsdOp) -> OsdOpReply {
        let before = self.replies.len();
        self.send(op);
        self.settle();
        assert_eq!(self.replies.len(), before + 1, "one answer");
        self.replies.pop().expect("an answer").1
    }

    pub fn contents(&mut self, oid: &str) -> Option<Vec<u8>> {
        let reply = self.ask(oid, vec![read(0, 0)]);
        match reply.result {
            -2 => None,
            0 => Some(reply.ops[0].outdata.to_vec()),
            r => panic!("read: {r}"),
        }
    }
}

pub fn message(tid: u64, epoch: u32, oid: &str, ops: Vec<Op>) -> OsdOp {
    let oid = Name::from(oid);
    let hash = oid.iter().fold(7u32, |h, &b| h.wrapping_mul(0x0100_0193) ^ u32::from(b));
    OsdOp {
        tid,
        pgid: pgid(),
        hash,
        epoch: Epoch(epoch),
        flags: OsdFlags::ONDISK,
        reqid: ReqId::default(),
        trace: Trace::default(),
        otel_trace: None,
        client_inc: 0,
        mtime: UTime { sec: 1000, nsec: 1 },
        locator: ObjectLocator { pool: POOL, key: Name::new(), nspace: Name::new(), hash: -1 },
        oid,
        ops,
        snapid: SnapId::HEAD,
        snap_seq: 0,
        snaps: Vec::new(),
        retry_attempt: 0,
        features: u64::MAX,
        data_offset: 0,
    }
}

pub fn read(offset: u64, length: u64) -> Op {
    Op::new(OpCode::READ, OpArgs::extent(offset, length))
}

pub fn stat() -> Op {
    Op::new(OpCode::STAT, OpArgs::none())
}

pub fn write(offset: u64, data: &[u8]) -> Op {
    Op::new(OpCode::WRITE, OpArgs::extent(offset, data.len() as u64)).with_indata(Rope::copy_from(data))
}

pub fn write_full(data: &[u8]) -> Op {
    Op::new(OpCode::WRITEFULL, OpArgs::extent(0, data.len() as u64)).with_indata(Rope::copy_from(data))
}

pub fn append(data: &[u8]) -> Op {
    Op::new(OpCode::APPEND, OpArgs::extent(0, data.len() as u64)).with_indata(Rope::copy_from(data))
}

pub fn create() -> Op {
    Op::new(OpCode::CREATE, OpArgs::none())
}

pub fn create_exclusive() -> Op {
    Op::new(OpCode::CREATE, OpArgs::none()).with_flags(OpFlags::EXCL)
}

pub fn delete() -> Op {
    Op::new(OpCode::DELETE, OpArgs::none())
}

pub fn xattr(code: OpCode, name: &str, value: &str, cmp_op: u8) -> Op {
    let args = OpArgs::Xattr {
        name_len: name.len() as u32,
        value_len: value.len() as u32,
        cmp_op,
        cmp_mode: u8::from(cmp_op > 0),
    };
    Op::new(code, args).with_indata(Rope::copy_from(format!("{name}{value}").as_bytes()))
}

/// A write whose client knows these snapshots, newest first.
pub fn with_snaps(rig: &mut Rig, oid: &str, ops: Vec<Op>, snaps: &[u64]) -> OsdOp {
    let mut op = rig.message(oid, ops);
    op.snap_seq = snaps.first().copied().unwrap_or(0);
    op.snaps = snaps.iter().copied().map(SnapId).collect();
    op
}

/// Sets one key of an omap.
pub fn omap_set(key: &str) -> Op {
    let mut e = encoding::Encoder::new(0);
    e.put(&BTreeMap::from([(Name::from(key), Name::from("v"))]));
    Op::new(OpCode::OMAPSETVALS, OpArgs::none()).with_indata(Rope::from(e.into_bytes()))
}
