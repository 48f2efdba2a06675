//! A PG over MemStore with commits and reads held back until the test says so, and crashes that lose what was not
//! committed.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use auth::SessionId;
use buffer::Rope;
use messages::osd_op::{OpFlags, OsdFlags, Trace};
use messages::{Op, OpArgs, OpCode, OsdOp, OsdOpReply};
use pg::{ClientOp, MapView, Notice, Origin, Pg, PgConfig, PgEffect, PgEvent, PoolView};
use store::{
    Completion, MemStore, NoPeek, ObjectStore, Peek, ReadOutcome, ReadRequest, StoreError, Token, Transaction,
};
use types::{
    EntityAddr, EntityName, EntityType, Epoch, Name, ObjectLocator, OsdId, PgId, PoolId, ReqId, SnapId,
    SpgId, UTime,
};

pub const POOL: PoolId = PoolId(1);
pub const ME: OsdId = OsdId(0);
const STORE_BYTES: u64 = 1 << 30;

type ReadResult = Result<ReadOutcome, StoreError>;

pub struct Rig {
    pub pg: Pg,
    pub config: Arc<PgConfig>,
    store: MemStore,
    /// Whether the PG may look at the store's memory.
    pub peeks: bool,
    committed: Vec<Transaction>,
    /// What the store will say of transactions, in order.
    queued: VecDeque<(Token, Result<Transaction, StoreError>)>,
    /// The store refuses the next transaction.
    refuse_next: bool,
    reads: VecDeque<(Token, ReadResult)>,
    pub replies: Vec<(SessionId, OsdOpReply)>,
    pub notices: Vec<Notice>,
    /// Times that all requests were dropped.
    pub drops: usize,
    pub failed: bool,
    pub removed: bool,
    pub trace: Vec<String>,
    pub epoch: u32,
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
        osdmap: Arc::default(),
        up: acting.clone(),
        up_primary: primary,
        acting_primary: primary,
        acting,
        pool,
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with_config(PgConfig::default())
    }

    pub fn with_config(config: PgConfig) -> Self {
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
        let mut rig = Self {
            pg,
            config,
            store: MemStore::new(STORE_BYTES),
            peeks: false,
            committed: Vec::new(),
            queued: VecDeque::new(),
            refuse_next: false,
            reads: VecDeque::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            drops: 0,
            failed: false,
            removed: false,
            trace: Vec::new(),
            epoch: 5,
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
        let memory: &mut dyn Peek = if self.peeks { &mut self.store } else { &mut NoPeek };
        self.pg.handle(UTime { sec: self.clock, nsec: 0 }, event, memory, &mut out);
        self.perform(out);
    }

    fn perform(&mut self, effects: Vec<PgEffect>) {
        for effect in effects {
            self.trace.push(format!("{effect:?}"));
            match effect {
                PgEffect::Reply { session, reply } => self.replies.push((session, *reply)),
                PgEffect::Queue { token, txn } => {
                    let mut tried = txn.clone();
                    if std::mem::take(&mut self.refuse_next) {
                        // Stands for any reason that lies in the store.
                        tried.remove_collection(pgid().into());
                    }
                    self.store.queue(tried, token);
                    let said = match self.completion() {
                        Completion::Committed { token } => (token, Ok(txn)),
                        Completion::Refused { token, error: StoreError::CollectionNotEmpty(_) } => {
                            (token, Err(StoreError::NoSpace { needed: 1, available: 0 }))
                        }
                        Completion::Refused { token, error: error @ StoreError::AfterRefused(_) } => {
                            (token, Err(error))
                        }
                        other => panic!("{other:?}"),
                    };
                    self.queued.push_back(said);
                }
                PgEffect::Read { token, request } => {
                    self.store.read(request, token);
                    match self.completion() {
                        Completion::Read { token, result } => self.reads.push_back((token, result)),
                        other => panic!("{other:?}"),
                    }
                }
                PgEffect::Acknowledge { token } => self.store.acknowledge(token),
                PgEffect::RequestsDropped => self.drops += 1,
                PgEffect::Notice(notice) => self.notices.push(notice),
                PgEffect::Failed(_) => self.failed = true,
                PgEffect::Removed => self.removed = true,
            }
        }
    }

    fn completion(&mut self) -> Completion {
        let mut out = Vec::new();
        self.store.turn(UTime::default());
        self.store.completions(&mut out);
        assert_eq!(out.len(), 1);
        out.remove(0)
    }

    /// The oldest queued transaction becomes durable, or the PG learns that it was refused.
    pub fn commit_one(&mut self) -> bool {
        let Some((token, outcome)) = self.queued.pop_front() else { return false };
        match outcome {
            Ok(txn) => {
                self.committed.push(txn);
                self.event(PgEvent::Committed { token });
            }
            Err(error) => self.event(PgEvent::Refused { token, error }),
        }
        true
    }

    /// The oldest queued transaction, although the store has it, is said to be refused.
    pub fn refuse_queued(&mut self, error: StoreError) {
        let (token, _) = self.queued.pop_front().expect("a queued transaction");
        self.event(PgEvent::Refused { token, error });
    }

    /// The store refuses the next transaction for lack of space, and what follows it until that is acknowledged.
    pub fn refuse_next(&mut self) {
        self.refuse_next = true;
    }

    /// Changes the store behind the PG's back.
    pub fn damage(&mut self, txn: Transaction) {
        self.store.queue(txn, Token(0));
        self.completion();
    }

    /// Changes the store behind the PG's back, in a way that a loss of power does not undo.
    pub fn damage_for_good(&mut self, txn: Transaction) {
        self.committed.push(txn.clone());
        self.damage(txn);
    }

    /// Reads from the store past the PG.
    pub fn look(&mut self, request: ReadRequest) -> ReadResult {
        self.store.read(request, Token(0));
        match self.completion() {
            Completion::Read { result, .. } => result,
            other => panic!("{other:?}"),
        }
    }

    pub fn uncommitted(&self) -> usize {
        self.queued.len()
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

    /// [`Rig::crash`] that may end badly: whether the PG serves again.
    pub fn restart(&mut self) -> bool {
        self.queued.clear();
        self.reads.clear();
        self.refuse_next = false;
        self.store = MemStore::new(STORE_BYTES);
        for (i, txn) in self.committed.iter().enumerate() {
            self.store.queue(txn.clone(), Token(i as u64));
            let mut out = Vec::new();
            self.store.turn(UTime::default());
            self.store.completions(&mut out);
            assert!(matches!(out[..], [Completion::Committed { .. }]), "{out:?}");
        }
        let mut out = Vec::new();
        self.pg = Pg::load(pgid(), ME, self.config.clone(), &mut out);
        self.perform(out);
        // Down, and up again.
        self.epoch += 2;
        self.event(PgEvent::AdvanceMap(Box::new(map(self.epoch - 1, &[]))));
        self.event(PgEvent::AdvanceMap(Box::new(map(self.epoch, &[0]))));
        self.settle();
        self.pg.is_active() && !self.failed
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
        self.event(PgEvent::ClientOp(ClientOp {
            session: SessionId(session),
            source: self.source,
            addrs: Arc::new(client_addr().into()),
            features: self.features,
            permitted: true,
            op: Box::new(op),
        }));
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
