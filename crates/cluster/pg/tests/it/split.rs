//! A pool's number of PGs grows: objects, snap index, counters and log go to the PG that has the object from then on, in
//! one step, whatever is under way and whenever power is lost.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::common::{ME, POOL, append, client_addr, message, omap_set, read, write_full};
use auth::SessionId;
use maps::{NewCluster, OsdMap, OsdState, PgPool};
use messages::{Op, OsdOp, OsdOpReply};
use pg::{ClientOp, MapView, Notice, Origin, Pg, PgConfig, PgEffect, PgEvent, Phase, PoolView, SetAside};
use store::{
    AttrChoice, CollectionChange, CollectionId, Completion, MemStore, NoPeek, ObjectStore, ReadOutcome,
    ReadRequest, Step, StoreError, Token, Transaction,
};
use types::{
    EntityName, EntityType, Epoch, Fsid, GHObject, IntervalSet, PgId, Release, ReqId, SnapId, SpgId, UTime,
};

/// A token's upper bits say of which PG it is.
const SEED_SHIFT: u32 = 48;

/// Every PG of a pool on one OSD, over one store.
struct Bench {
    store: MemStore,
    config: Arc<PgConfig>,
    pgs: BTreeMap<u32, Pg>,
    pg_num: u32,
    epoch: u32,
    removed_snaps: IntervalSet,
    /// Durable, in order.
    committed: Vec<Transaction>,
    queued: BTreeMap<u64, Transaction>,
    replies: Vec<OsdOpReply>,
    notices: Vec<Notice>,
    failed: Vec<String>,
    splits: usize,
    /// Whether the store has no room for splits.
    refuse_splits: bool,
    /// The PGs that clients are to send nothing to.
    held_back: BTreeSet<u32>,
    tid: u64,
    clock: u32,
}

fn id(seed: u32) -> SpgId {
    PgId { pool: POOL, seed }.into()
}

fn owner(hash: u32, pg_num: u32) -> u32 {
    let mask = pg_num.next_power_of_two() - 1;
    if hash & mask < pg_num { hash & mask } else { hash & mask >> 1 }
}

impl Bench {
    fn new(pg_num: u32, bytes: u64, config: PgConfig) -> Self {
        let mut bench = Self {
            store: MemStore::new(bytes),
            config: Arc::new(config),
            pgs: BTreeMap::new(),
            pg_num,
            epoch: 5,
            removed_snaps: IntervalSet::new(),
            committed: Vec::new(),
            queued: BTreeMap::new(),
            replies: Vec::new(),
            notices: Vec::new(),
            failed: Vec::new(),
            splits: 0,
            refuse_splits: false,
            held_back: BTreeSet::new(),
            tid: 0,
            clock: 0,
        };
        for seed in 0..pg_num {
            let (mut out, now) = (Vec::new(), UTime::default());
            let origin = Origin::at(bench.view(seed), now);
            let pg = Pg::create(id(seed), ME, bench.config.clone(), origin, now, &mut out);
            bench.pgs.insert(seed, pg);
            bench.perform(seed, out);
        }
        bench.settle();
        bench
    }

    fn view(&self, seed: u32) -> MapView {
        let cluster = NewCluster {
            fsid: Fsid([7; 16]),
            created: UTime::default(),
            release: Release::REEF,
            failure_domain: "osd".into(),
        };
        let mut map: OsdMap = cluster.map().unwrap();
        map.epoch = Epoch(self.epoch);
        map.crush.add_osd(0, 0x1_0000, "host", None).unwrap();
        map.set_max_osd(1);
        map.osds[0].state = OsdState::EXISTS | OsdState::UP;
        map.osds[0].info.up_thru = map.epoch;
        map.weights.fill(OsdMap::WEIGHT_IN);
        map.pools.insert(POOL, PgPool::replicated(1, 1, self.pg_num, 0));
        if !self.removed_snaps.is_empty() {
            map.removed_snaps_queue.insert(POOL, self.removed_snaps.clone());
        }
        let at = map.pg_to_up_acting(id(seed).pg);
        assert_eq!(at.acting, [ME]);
        let pg_num = self.pg_num;
        let pool = PoolView {
            size: 1,
            min_size: 1,
            pg_num,
            pg_num_pending: pg_num,
            has_omap: true,
            ..Default::default()
        };
        MapView {
            epoch: map.epoch,
            osdmap: Arc::new(map),
            up: at.up,
            up_primary: ME,
            acting: at.acting,
            acting_primary: ME,
            pool,
        }
    }

    fn event(&mut self, seed: u32, event: PgEvent) {
        self.clock += 1;
        let mut out = Vec::new();
        let pg = self.pgs.get_mut(&seed).unwrap();
        pg.handle(UTime { sec: self.clock, nsec: 0 }, event, &mut NoPeek, &mut out);
        self.perform(seed, out);
    }

    fn perform(&mut self, seed: u32, effects: Vec<PgEffect>) {
        let named = |token: Token| Token(u64::from(seed) << SEED_SHIFT | token.0);
        for effect in effects {
            match effect {
                PgEffect::Reply { reply, .. } => self.replies.push(*reply),
                PgEffect::Queue { token, mut txn } => {
                    if self.refuse_splits && txn.steps().iter().any(is_split) {
                        txn.touch(txn.collections()[0], &GHObject::max());
                    }
                    self.queued.insert(named(token).0, txn.clone());
                    self.store.queue(txn, named(token));
                }
                PgEffect::Read { token, request } => self.store.read(request, named(token)),
                PgEffect::Acknowledge { token } => self.store.acknowledge(named(token)),
                PgEffect::Split { children } => {
                    self.splits += 1;
                    children.into_iter().for_each(|child| self.load(child.pg.seed));
                }
                PgEffect::Notice(notice) => self.notices.push(notice),
                PgEffect::Failed(failure) => self.failed.push(failure.to_string()),
                PgEffect::Reached { .. } => {}
                PgEffect::Block { .. } => assert!(self.held_back.insert(seed)),
                PgEffect::Unblock { session, .. } => {
                    assert!(self.held_back.remove(&seed));
                    let pg = self.pgs.get_mut(&seed).unwrap();
                    let now = UTime { sec: self.clock, nsec: 0 };
                    pg.handle(now, PgEvent::BackoffEnded { session }, &mut NoPeek, &mut Vec::new());
                }
                PgEffect::Copy { .. }
                | PgEffect::AskPeer { .. }
                | PgEffect::CancelCopy { .. }
                | PgEffect::Send { .. }
                | PgEffect::Scrubbed { .. }
                | PgEffect::Watching { .. }
                | PgEffect::Removed => panic!("{effect:?}"),
            }
        }
    }

    fn load(&mut self, seed: u32) {
        let mut out = Vec::new();
        let pg = Pg::load(id(seed), ME, self.config.clone(), &mut out);
        assert!(self.pgs.insert(seed, pg).is_none(), "{seed} is there");
        self.perform(seed, out);
        let map = PgEvent::AdvanceMap(Box::new(self.view(seed)));
        self.event(seed, map);
    }

    /// Everything that is queued is done, but of what follows from that nothing.
    fn turn(&mut self) -> VecDeque<Completion> {
        let mut done = Vec::new();
        self.store.turn(UTime::default());
        self.store.completions(&mut done);
        done.into()
    }

    /// What was sent reads its objects, and its changes are queued: what the store has to say of those.
    fn begin_changes(&mut self) -> VecDeque<Completion> {
        let (reads, mut done): (VecDeque<_>, VecDeque<_>) =
            self.turn().into_iter().partition(|c| matches!(c, Completion::Read { .. }));
        reads.into_iter().for_each(|read| self.deliver(read));
        done.extend(self.turn());
        assert!(!done.is_empty() && !done.iter().any(|c| matches!(c, Completion::Read { .. })), "{done:?}");
        done
    }

    fn deliver(&mut self, completion: Completion) {
        let token = completion.token();
        let seed = (token.0 >> SEED_SHIFT) as u32;
        let inner = Token(token.0 & ((1 << SEED_SHIFT) - 1));
        let event = match completion {
            Completion::Committed { .. } => {
                self.committed.extend(self.queued.remove(&token.0));
                PgEvent::Committed { token: inner }
            }
            // The bad step of a split that is to be refused.
            Completion::Refused { error: StoreError::NotAnObject(_), .. } => {
                let error = StoreError::NoSpace { needed: 1, available: 0 };
                PgEvent::Refused { token: inner, error }
            }
            Completion::Refused { error, .. } => PgEvent::Refused { token: inner, error },
            Completion::Read { result, .. } => PgEvent::ReadDone { token: inner, result },
            other => panic!("{other:?}"),
        };
        self.event(seed, event);
    }

    fn settle(&mut self) {
        loop {
            let done = self.turn();
            if done.is_empty() {
                break;
            }
            done.into_iter().for_each(|completion| self.deliver(completion));
        }
    }

    /// As [`Bench::settle`], until so many transactions more are durable. Whether there were as many.
    fn settle_commits(&mut self, commits: usize) -> bool {
        let until = self.committed.len() + commits;
        loop {
            let done = self.turn();
            if done.is_empty() {
                return false;
            }
            for completion in done {
                if self.committed.len() == until {
                    return true;
                }
                self.deliver(completion);
            }
        }
    }

    /// A map with this number of PGs, for every PG that is there.
    fn advance(&mut self, pg_num: u32) {
        (self.pg_num, self.epoch) = (pg_num, self.epoch + 1);
        for seed in self.pgs.keys().copied().collect::<Vec<_>>() {
            let map = PgEvent::AdvanceMap(Box::new(self.view(seed)));
            self.event(seed, map);
        }
    }

    /// Power is lost: what was not said to be durable is gone. Every PG that the store has is loaded.
    fn crash(&mut self) {
        let committed = std::mem::take(&mut self.committed);
        (self.store, self.pgs) = (MemStore::new(1 << 30), BTreeMap::new());
        self.queued.clear();
        for (n, txn) in committed.iter().enumerate() {
            self.store.queue(txn.clone(), Token(n as u64));
        }
        assert!(self.turn().iter().all(|done| matches!(done, Completion::Committed { .. })));
        self.committed = committed;
        self.store.read(ReadRequest::Collections, Token(0));
        let found = self.turn().pop_front();
        let Some(Completion::Read { result: Ok(ReadOutcome::Collections(found)), .. }) = found else {
            panic!("{found:?}")
        };
        for collection in found {
            let CollectionId::Pg(pgid) = collection else { panic!("{collection}") };
            self.load(pgid.pg.seed);
        }
    }

    fn message(&mut self, oid: &str, ops: Vec<Op>) -> OsdOp {
        self.tid += 1;
        let op = message(self.tid, self.epoch, oid, ops);
        self.aim(op)
    }

    /// A request as its client sends it by the newest map.
    fn aim(&self, op: OsdOp) -> OsdOp {
        OsdOp { pgid: id(owner(op.hash, self.pg_num)), epoch: Epoch(self.epoch), ..op }
    }

    fn send(&mut self, op: OsdOp) {
        let client = ClientOp {
            session: SessionId(1),
            source: EntityName::new(EntityType::Client, 4123),
            addrs: Arc::new(client_addr().into()),
            features: u64::MAX,
            caps: auth::Caps::all(),
            op: Box::new(op),
        };
        let seed = client.op.pgid.pg.seed;
        self.event(seed, PgEvent::ClientOp(client, SetAside::default()));
    }

    fn ask_message(&mut self, op: OsdOp) -> OsdOpReply {
        let before = self.replies.len();
        self.send(op);
        self.settle();
        assert_eq!(self.replies.len(), before + 1, "one answer");
        self.replies.pop().unwrap()
    }

    fn ask(&mut self, oid: &str, ops: Vec<Op>) -> OsdOpReply {
        let op = self.message(oid, ops);
        self.ask_message(op)
    }

    fn contents(&mut self, oid: &str) -> Vec<u8> {
        let reply = self.ask(oid, vec![read(0, 0)]);
        assert_eq!(reply.result, 0, "{oid}");
        reply.ops[0].outdata.to_vec()
    }

    fn write_at_snaps(&mut self, oid: &str, data: &[u8], snaps: &[u64]) {
        let mut op = self.message(oid, vec![write_full(data)]);
        op.snap_seq = snaps[0];
        op.snaps = snaps.iter().copied().map(SnapId).collect();
        assert_eq!(self.ask_message(op).result, 0);
    }

    /// The pool's counters: objects, clones, bytes, dirty objects, objects with omap, writes.
    fn sums(&self) -> [i64; 6] {
        let mut all = [0; 6];
        for pg in self.pgs.values() {
            let sum = &pg.info().stats.stats.sum;
            let of = [
                sum.num_objects,
                sum.num_object_clones,
                sum.num_bytes,
                sum.num_objects_dirty,
                sum.num_objects_omap,
                sum.num_wr,
            ];
            all.iter_mut().zip(of).for_each(|(all, of)| *all += of);
        }
        all
    }

    /// A PG's objects without its own.
    fn objects(&mut self, seed: u32) -> Vec<GHObject> {
        let (collection, attrs) = (id(seed).into(), AttrChoice::None);
        let (start, end) = (GHObject::min(), GHObject::max());
        self.store.read(ReadRequest::List { collection, start, end, objects_max: 10_000, attrs }, Token(0));
        match self.turn().pop_front() {
            Some(Completion::Read { result: Ok(ReadOutcome::Objects(page)), .. }) => {
                page.objects.into_iter().map(|(object, _)| object).filter(|o| !o.is_pgmeta()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    /// Every PG is there and active, and has exactly its objects, counted exactly.
    fn check(&mut self) {
        assert_eq!(self.failed, [""; 0]);
        assert!(self.pgs.keys().copied().eq(0..self.pg_num), "{:?}", self.pgs.keys());
        for seed in 0..self.pg_num {
            let objects = self.objects(seed);
            let pg = &self.pgs[&seed];
            assert!(pg.is_active(), "{seed}: {:?}", pg.phase());
            assert!(objects.iter().all(|o| owner(o.hobj.hash, self.pg_num) == seed), "objects of {seed}");
            let (sum, info) = (&pg.info().stats.stats.sum, pg.info());
            assert_eq!(sum.num_objects, objects.len() as i64, "objects of {seed}");
            let clones = objects.iter().filter(|o| !o.hobj.is_head()).count();
            assert_eq!(sum.num_object_clones, clones as i64, "clones of {seed}");
            assert_eq!(info.last_update, pg.log().head());
            let is_ours = |hash| owner(hash, self.pg_num) == seed;
            assert!(pg.log().entries().iter().all(|e| is_ours(e.oid.hash)), "the log of {seed}");
            assert!(!info.stats.stats_invalid);
        }
    }
}

fn is_split(step: &Step) -> bool {
    matches!(step, Step::Collection { change: CollectionChange::Split { .. }, .. })
}

fn bench(pg_num: u32) -> Bench {
    Bench::new(pg_num, 1 << 30, PgConfig::default())
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("object {n}")).collect()
}

/// Objects with data, omaps and clones.
fn fill(bench: &mut Bench, names: &[String]) {
    for (n, name) in names.iter().enumerate() {
        bench.ask(name, vec![write_full(name.as_bytes())]);
        if n % 3 == 0 {
            bench.write_at_snaps(name, format!("{name} of 2").as_bytes(), &[1]);
            bench.write_at_snaps(name, format!("{name} of 3").as_bytes(), &[2, 1]);
        }
        if n % 4 == 0 {
            bench.ask(name, vec![omap_set("k")]);
        }
    }
}

fn content_of(n: usize, name: &str) -> Vec<u8> {
    if n % 3 == 0 { format!("{name} of 3").into_bytes() } else { name.as_bytes().to_vec() }
}

#[test]
fn objects_clones_and_counters_follow_the_number_of_pgs_also_to_no_power_of_two() {
    let (mut bench, names) = (bench(1), names(60));
    fill(&mut bench, &names);
    let before = bench.sums();
    assert!(before.iter().all(|n| *n > 0), "{before:?}");
    for pg_num in [3, 8, 13, 32, 100] {
        bench.advance(pg_num);
        bench.settle();
        bench.check();
        assert_eq!(bench.sums(), before, "{pg_num}");
        for restart in [false, true] {
            if restart {
                bench.crash();
                bench.settle();
                bench.check();
                assert_eq!(bench.sums(), before, "{pg_num}");
            }
            for (n, name) in names.iter().enumerate() {
                assert_eq!(bench.contents(name), content_of(n, name));
                if n % 3 == 0 {
                    let mut op = bench.message(name, vec![read(0, 0)]);
                    op.snapid = SnapId(1);
                    assert_eq!(bench.ask_message(op).ops[0].outdata.to_vec(), name.as_bytes());
                }
            }
        }
    }
    let versions = |bench: &Bench| bench.pgs.values().map(|pg| pg.info().last_update).max().unwrap();
    let newest = versions(&bench);
    let reply = bench.ask(&names[0], vec![append(b"!")]);
    assert!(reply.replay_version > newest && reply.user_version > newest.version, "versions go on ascending");
}

#[test]
fn a_resend_finds_its_answer_where_its_object_is_now_also_when_only_a_duplicate_is_left() {
    let mut config = PgConfig::default();
    config.log.entries_target = 5;
    config.log.trim_min = 1;
    let mut bench = Bench::new(1, 1 << 30, config);
    let mut sent = Vec::new();
    for name in names(40) {
        let op = bench.message(&name, vec![append(b"x")]);
        let reply = bench.ask_message(op.clone());
        sent.push((op, (reply.result, reply.replay_version, reply.user_version)));
    }
    assert!(bench.pgs[&0].log().dups().len() > 20);
    for (pg_num, crash) in [(4, false), (11, true), (64, false)] {
        bench.advance(pg_num);
        bench.settle();
        if crash {
            bench.crash();
            bench.settle();
        }
        bench.check();
        for (op, first) in &sent {
            let again = bench.aim(op.clone());
            let reply = bench.ask_message(again);
            assert_eq!((reply.result, reply.replay_version, reply.user_version), *first);
        }
    }
    for name in names(40) {
        assert_eq!(bench.contents(&name), b"x", "applied once");
    }
}

#[test]
fn changes_under_way_become_durable_before_the_split_and_their_resends_are_answered() {
    let (mut bench, names) = (bench(2), names(20));
    let mut sent = Vec::new();
    for name in &names {
        let op = bench.message(name, vec![append(b"x")]);
        sent.push(op.clone());
        bench.send(op);
    }
    // They have begun, and are not durable.
    let done = bench.begin_changes();
    bench.advance(8);
    assert!(bench.pgs.values().all(|pg| pg.phase() == Phase::Splitting));
    let late = bench.message(&names[0], vec![append(b"y")]);
    assert_eq!(bench.replies.len(), 0);
    done.into_iter().for_each(|completion| bench.deliver(completion));
    bench.settle();
    bench.check();
    assert_eq!(bench.replies.len(), 0, "their clients send them again");
    let dropped = bench.notices.iter().filter(|n| matches!(n, Notice::Dropped { .. })).count();
    assert_eq!(dropped, names.len(), "and they hold no budget");
    for op in sent {
        let again = bench.aim(op);
        assert_eq!(bench.ask_message(again).result, 0);
    }
    bench.ask_message(late);
    for (n, name) in names.iter().enumerate() {
        assert_eq!(bench.contents(name), if n == 0 { &b"xy"[..] } else { b"x" });
    }
}

#[test]
fn a_refused_change_does_not_keep_a_pg_from_splitting() {
    let mut bench = Bench::new(1, 1 << 20, PgConfig::default());
    bench.ask("a", vec![write_full(b"small")]);
    let op = bench.message("b", vec![write_full(&[1; 2 << 20])]);
    bench.send(op.clone());
    let done = bench.begin_changes();
    let follows = bench.message("c", vec![append(b"c")]);
    bench.send(follows.clone());
    bench.advance(4);
    done.into_iter().for_each(|completion| bench.deliver(completion));
    bench.settle();
    bench.check();
    assert!(bench.notices.iter().any(
        |n| matches!(n, Notice::ChangeRefused { error } if matches!(error, StoreError::NoSpace { .. }))
    ));
    let again = bench.aim(follows);
    assert_eq!(bench.ask_message(again).result, 0);
    assert_eq!((bench.contents("a"), bench.contents("c")), (b"small".to_vec(), b"c".to_vec()));
}

#[test]
fn a_split_that_the_store_refuses_is_made_later_from_what_is_stored() {
    let (mut bench, names) = (bench(3), names(40));
    fill(&mut bench, &names);
    let before = bench.sums();
    let op = bench.message(&names[0], vec![append(b"!")]);
    bench.send(op);
    let begun = bench.begin_changes();
    bench.refuse_splits = true;
    bench.advance(13);
    let waits = bench.message(&names[1], vec![read(0, 0)]);
    let asked = waits.pgid.pg.seed;
    if asked < 3 {
        bench.send(waits);
    }
    begun.into_iter().for_each(|completion| bench.deliver(completion));
    bench.settle();
    let failed = |bench: &Bench| bench.pgs.values().filter(|pg| pg.phase() == Phase::Failed).count();
    assert_eq!((bench.failed.len(), failed(&bench)), (3, 3), "{:?}", bench.failed);
    assert!(bench.failed[0].contains("tried again"), "{:?}", bench.failed);
    assert_eq!(bench.held_back.contains(&asked), asked < 3);
    // A request that comes now is held back, too.
    let late = OsdOp { pgid: id(2), ..bench.message("late", vec![read(0, 0)]) };
    bench.send(late);
    assert!(bench.held_back.contains(&2));
    // It is tried ever more seldom.
    let tick = |bench: &mut Bench| {
        let due = bench.pgs.values().filter_map(Pg::deadline).max().unwrap().sec;
        let waited = due - bench.clock.min(due);
        bench.clock = due;
        (0..3).for_each(|seed| bench.event(seed, PgEvent::Tick));
        bench.settle();
        // A PG that begins again gets the newest map.
        for seed in 0..3 {
            let map = PgEvent::AdvanceMap(Box::new(bench.view(seed)));
            bench.event(seed, map);
        }
        bench.settle();
        waited
    };
    let pauses: Vec<u32> = (0..7).map(|_| tick(&mut bench)).collect();
    assert!(pauses[1] > pauses[0] && pauses[6] <= 300 && failed(&bench) == 3, "{pauses:?}");
    bench.refuse_splits = false;
    bench.failed.clear();
    tick(&mut bench);
    bench.check();
    assert_eq!(
        (bench.sums()[..2].to_vec(), bench.splits, bench.held_back.len()),
        (before[..2].to_vec(), 3, 0)
    );
    for (n, name) in names.iter().enumerate() {
        let content = if n == 0 { [&content_of(n, name)[..], b"!"].concat() } else { content_of(n, name) };
        assert_eq!(bench.contents(name), content);
    }
    bench.advance(32);
    bench.settle();
    bench.check();
}

#[test]
fn what_was_sent_since_a_refused_split_was_due_is_not_sent_before_it() {
    let mut bench = bench(3);
    fill(&mut bench, &names(12));
    bench.refuse_splits = true;
    bench.advance(13);
    bench.settle();
    assert!(bench.pgs.values().all(|pg| pg.phase() == Phase::Failed));
    // Clients have seen the split, and see no other in later maps: they would not send again.
    let due = Epoch(bench.epoch);
    bench.epoch += 4;
    bench.refuse_splits = false;
    bench.clock = bench.pgs.values().filter_map(Pg::deadline).max().unwrap().sec;
    (0..3).for_each(|seed| bench.event(seed, PgEvent::Tick));
    bench.settle();
    for seed in 0..3 {
        let map = PgEvent::AdvanceMap(Box::new(bench.view(seed)));
        bench.event(seed, map);
    }
    bench.settle();
    assert_eq!(bench.splits, 3);
    for (seed, pg) in &bench.pgs {
        assert_eq!(pg.info().history.last_epoch_split, due, "pg 1.{seed}");
    }
}

#[test]
fn a_loss_of_power_at_any_point_leaves_a_split_that_is_made_once() {
    let names = names(30);
    let mut cut = 0;
    loop {
        let mut bench = bench(3);
        fill(&mut bench, &names);
        let before = bench.sums();
        for name in &names {
            let op = bench.message(name, vec![append(b"!")]);
            bench.send(op);
        }
        let begun = bench.begin_changes();
        bench.advance(13);
        begun.into_iter().take(cut).for_each(|completion| bench.deliver(completion));
        let more = cut < names.len() || bench.settle_commits(cut - names.len());
        bench.crash();
        bench.settle();
        bench.check();
        assert_eq!(bench.sums()[..2], before[..2], "after {cut} commits");
        for (n, name) in names.iter().enumerate() {
            let found = bench.contents(name);
            let content = content_of(n, name);
            assert!(found == content || found == [&content[..], b"!"].concat(), "{name} after {cut} commits");
        }
        if !more {
            break;
        }
        cut += 1;
    }
    assert!(cut > names.len() + 10, "{cut}");
}

#[test]
fn a_pg_that_missed_every_map_splits_to_the_newest_number_at_once() {
    let (mut bench, names) = (bench(8), names(50));
    fill(&mut bench, &names);
    let before = bench.sums();
    // It was down while the pool grew, more than once.
    bench.pg_num = 100;
    bench.epoch += 40;
    bench.crash();
    bench.settle();
    bench.check();
    assert_eq!((bench.splits, bench.sums()), (8, before));
    for (n, name) in names.iter().enumerate() {
        assert_eq!(bench.contents(name), content_of(n, name));
    }
    let split_at = |seed| bench.pgs[&seed].info().history.last_epoch_split;
    assert!((0..100).all(|seed| split_at(seed) == Epoch(45)), "what was sent before is sent again");
}

#[test]
fn snapshots_are_trimmed_by_the_pgs_that_have_the_clones_now() {
    let (mut bench, names) = (bench(1), names(40));
    fill(&mut bench, &names);
    bench.advance(5);
    bench.settle();
    bench.removed_snaps = IntervalSet::range(1, 1);
    bench.advance(8);
    bench.settle();
    let pass = |bench: &mut Bench| {
        for _ in 0..100 {
            bench.clock += 100;
            for seed in 0..bench.pg_num {
                bench.event(seed, PgEvent::Tick);
            }
            bench.settle();
        }
    };
    pass(&mut bench);
    bench.check();
    assert_eq!(bench.sums()[1], 14, "a clone of each 3rd object");
    bench.removed_snaps.insert(2, 1);
    bench.advance(21);
    bench.settle();
    pass(&mut bench);
    bench.check();
    assert_eq!(bench.sums()[..2], [40, 0]);
    for pg in bench.pgs.values() {
        assert_eq!(pg.info().purged_snaps, IntervalSet::range(1, 2), "{}", pg.id());
    }
}

#[test]
fn a_request_of_before_the_split_is_dropped_by_parent_and_child() {
    let mut bench = bench(1);
    let before = bench.message("a", vec![append(b"x")]);
    bench.advance(2);
    bench.settle();
    bench.send(before.clone());
    let child = OsdOp { pgid: id(1), ..before };
    bench.send(child);
    bench.settle();
    assert_eq!(bench.replies.len(), 0);
    let reasons: Vec<_> = bench
        .notices
        .iter()
        .filter_map(|n| if let Notice::Dropped { reason, .. } = n { Some(*reason) } else { None })
        .collect();
    assert_eq!(reasons, ["its PG has been split since"; 2]);
}

#[test]
fn maps_that_come_while_a_pg_splits_are_taken_in_order() {
    let (mut bench, names) = (bench(1), names(30));
    fill(&mut bench, &names);
    let op = bench.message("late", vec![append(b"x")]);
    bench.send(op);
    let done = bench.begin_changes();
    bench.advance(3);
    bench.advance(3);
    bench.advance(7);
    done.into_iter().for_each(|completion| bench.deliver(completion));
    bench.settle();
    assert_eq!(bench.failed, [""; 0]);
    for pg in bench.pgs.values() {
        assert!(pg.is_active() && pg.stats().reported_epoch == Epoch(bench.epoch), "{}", pg.id());
    }
    bench.check();
}

#[test]
fn an_entry_is_in_one_log_and_all_logs_reach_as_far() {
    // A PG whose newest entry went to another PG splits again before it has written.
    let (mut bench, names) = (bench(1), names(20));
    fill(&mut bench, &names);
    let head = bench.pgs[&0].info().last_update;
    for pg_num in [2, 4, 8, 16] {
        bench.advance(pg_num);
        bench.settle();
        bench.check();
        assert!(bench.pgs.values().all(|pg| pg.info().last_update == head));
    }
    bench.crash();
    bench.settle();
    bench.check();
    assert!(bench.pgs.values().all(|pg| pg.info().last_update == head));
    let found = bench.pgs.values().flat_map(|pg| pg.log().entries()).map(|entry| entry.version);
    let mut found: Vec<_> = found.collect();
    let all = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), all, "an entry is in one log");
    let none = ReqId::default();
    assert!(bench.pgs.values().all(|pg| pg.log().find(&none).is_none()));
}
