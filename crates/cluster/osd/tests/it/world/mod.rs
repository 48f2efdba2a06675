//! An OSD, a MemStore and a monitor played from a script, without sockets or clocks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use auth::{Caps, SessionId, SessionInfo};
use encoding::Encode;
use maps::{Incremental, NewCluster, OsdMap, PgPool, PoolFlags, Publication, publish};
use messages::osd_op::OsdFlags;
use messages::{
    Blob, Config, Message, MgrMap, MonGetPurgedSnapsReply, MonGetVersionReply, MonMap, Op, OpArgs, OpCode,
    OsdOp, OsdOpReply, OsdPgCreate2, PastIntervals, PgHistory, PgStats,
};
use options::Values;
use osd::{
    Attempt, MonClientConfig, MonClientEvent, MonClientIo, Osd, OsdAddrs, OsdConfig, OsdEffect, OsdEvent,
    OsdPhase, Stores,
};
use store::{
    Advice, CollectionChange, CollectionId, Completion, MemStore, NoPeek, ObjectStore, ReadOutcome,
    ReadRequest, Step, StoreError, StoreShard, Token, Tuning,
};
use types::{
    EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Errno, Fsid, GHObject, HObject, IntervalSet,
    Name, ObjectLocator, OsdId, PgId, PoolId, Profile, Release, ReqId, SnapId, SpgId, UTime,
};

pub const FSID: Fsid = Fsid([7; 16]);
pub const OSD_FSID: Fsid = Fsid([9; 16]);
pub const ME: OsdId = OsdId(0);
pub const CLIENT: SessionId = SessionId(100);

/// The monitor's side.
#[derive(Default)]
pub struct Mon {
    pub epochs: Vec<Publication>,
    pub session: Option<Attempt>,
    /// The next map to send, where subscribed.
    pub osdmap_next: Option<u32>,
    pub creates_subscribed: bool,
    /// What it was sent and has not handled.
    inbox: VecDeque<Message>,
    pub received: Vec<Message>,
    /// Whether a boot message leads to a map.
    pub deaf_to_boots: bool,
    /// Whether a request for full maps has no answer.
    pub holds_fulls: bool,
    /// Increments sent in one message at most.
    pub chunk: usize,
    /// Maps before this one are forgotten; 0 for none.
    pub trimmed: u32,
    /// What its epochs purged. An answer has one of them.
    pub purged: BTreeMap<Epoch, BTreeMap<PoolId, IntervalSet>>,
    /// Whether a question for that has no answer.
    pub holds_purged: bool,
}

impl Mon {
    pub fn new() -> Self {
        let mut mon = Self { chunk: 40, ..Self::default() };
        let cluster = NewCluster {
            fsid: FSID,
            created: UTime { sec: 1000, nsec: 0 },
            release: Release::PACIFIC,
            failure_domain: "osd".into(),
        };
        let first = publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap();
        mon.epochs.push(first);
        mon.change(|map, inc| {
            let mut crush = map.crush.clone();
            crush.add_osd(ME.0, 0x10000, "host", None).unwrap();
            inc.set_crush(&crush);
            inc.new_max_osd = Some(1);
            inc.new_state.insert(ME, maps::OsdState::EXISTS);
            inc.new_weight.insert(ME, 0x10000);
            inc.new_uuid.insert(ME, OSD_FSID);
        });
        mon
    }

    pub fn map(&self) -> &OsdMap {
        &self.epochs.last().unwrap().map
    }

    pub fn epoch(&self) -> u32 {
        self.map().epoch.0
    }

    /// Publishes a new epoch.
    pub fn change(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let map = self.map().clone();
        let mut inc = Incremental::new(FSID, map.epoch.next(), UTime { sec: 1000 + map.epoch.0, nsec: 0 });
        change(&map, &mut inc);
        self.epochs.push(publish(&map, inc).unwrap());
    }

    pub fn monmap() -> maps::MonMap {
        let addr = EntityAddr::v2(([127, 0, 0, 1], 3300).into(), 0);
        let mut map = maps::MonMap::new(FSID, UTime::default(), [("a".to_string(), addr.into())]);
        map.epoch = Epoch(1);
        map
    }

    /// A message of the increments from `from` on (a full map first if `from` is 0), as far as one message goes.
    pub fn maps_from(&self, from: u32) -> messages::OsdMap {
        let newest = self.epoch();
        let mut message = messages::OsdMap { fsid: FSID, newest_map: Epoch(newest), ..Default::default() };
        message.cluster_osdmap_trim_lower_bound = Epoch(1);
        match from {
            0 => {
                message.maps.insert(Epoch(newest), self.epochs.last().unwrap().full.clone().into());
            }
            _ => {
                let from = from.max(self.trimmed);
                if from == self.trimmed {
                    let full = self.epochs[from as usize - 1].full.clone();
                    message.maps.insert(Epoch(from), full.into());
                    message.cluster_osdmap_trim_lower_bound = Epoch(from);
                }
                for e in (from + u32::from(from == self.trimmed)..=newest).take(self.chunk) {
                    let bytes: Blob = self.epochs[e as usize - 1].incremental.clone().into();
                    message.incremental_maps.insert(Epoch(e), bytes);
                }
            }
        }
        message
    }
}

/// Everything.
pub struct World {
    pub osd: Osd,
    pub store: MemStore,
    pub mon: Mon,
    pub now: UTime,
    pub nonce: u32,
    /// What sessions were sent.
    pub sent: BTreeMap<SessionId, Vec<Message>>,
    pub paused: Vec<SessionId>,
    pub log: Vec<String>,
    /// Every effect, printed.
    pub trace: Vec<String>,
    pub stopped: bool,
    pub failed: Option<String>,
    completions: VecDeque<Completion>,
    /// Times it asked for another cluster address.
    pub rebinds: usize,
    /// What the OSD has sent as a client of others.
    pub to_peers: Vec<(EntityAddrVec, Message)>,
    /// Completions are held back while set.
    pub hold_store: bool,
    /// Transactions that split a collection, and are not done.
    pub splits: BTreeSet<Token>,
    /// Whether the store has no room for splits.
    pub refuse_splits: bool,
    /// Whether PGs may look at the store's memory.
    pub peeks: bool,
    pub options: Values,
    tids: u64,
    /// The OSD has work left.
    continues: bool,
    /// What it asked for last.
    pub log_level: Option<u8>,
    pub store_memory: Option<u64>,
    pub store_tuning: Option<Tuning>,
    /// Answers to commands of the admin socket.
    pub answers: Vec<(u64, CommandAnswer)>,
}

type CommandAnswer = Result<Vec<u8>, (Errno, String)>;

pub fn addr(nonce: u32) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 6800).into(), nonce)
}

pub fn config(nonce: u32, options: Values) -> OsdConfig {
    let mon = EntityAddr::v2(([127, 0, 0, 1], 3300).into(), 0);
    OsdConfig {
        whoami: ME,
        cluster_fsid: FSID,
        osd_fsid: OSD_FSID,
        addrs: OsdAddrs::same(addr(nonce)),
        metadata: [("hostname".to_string(), "host".to_string())].into(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(vec![mon.into()], Some(FSID)),
        options,
    }
}

impl World {
    pub fn new() -> Self {
        Self::with(Values::new())
    }

    pub fn with(options: Values) -> Self {
        Self {
            osd: Osd::new(config(1, options.clone())),
            store: MemStore::new(1 << 30),
            mon: Mon::new(),
            now: UTime { sec: 5000, nsec: 0 },
            nonce: 1,
            sent: BTreeMap::new(),
            paused: Vec::new(),
            log: Vec::new(),
            trace: Vec::new(),
            stopped: false,
            failed: None,
            completions: VecDeque::new(),
            rebinds: 0,
            to_peers: Vec::new(),
            hold_store: false,
            splits: BTreeSet::new(),
            refuse_splits: false,
            peeks: false,
            options,
            tids: 0,
            continues: false,
            answers: Vec::new(),
            log_level: None,
            store_memory: None,
            store_tuning: None,
        }
    }

    /// A started OSD that the map shows up.
    pub fn active() -> Self {
        let mut w = Self::new();
        w.start();
        assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
        w
    }

    /// One with a small store, a pool and a client.
    pub fn small(bytes: u64) -> Self {
        let mut w = Self::new();
        w.store = MemStore::new(bytes);
        w.start();
        w.create_pool(1, 4);
        w.open_client(CLIENT);
        w
    }

    pub fn start(&mut self) {
        self.event(OsdEvent::Start);
    }

    /// The process dies and another one starts on the same store.
    pub fn restart(&mut self) {
        self.nonce += 1;
        self.osd = Osd::new(config(self.nonce, self.options.clone()));
        self.completions.clear();
        let mut lost = Vec::new();
        self.store.turn(self.now);
        self.store.completions(&mut lost);
        (self.mon.session, self.mon.osdmap_next) = (None, None);
        self.sent.clear();
        self.stopped = false;
        self.start();
    }

    pub fn event(&mut self, event: OsdEvent) {
        let effects = self.handle(event);
        self.perform(effects);
        self.settle();
    }

    /// Hands the OSD an event, and gives what it wants done.
    pub fn handle(&mut self, event: OsdEvent) -> Vec<OsdEffect> {
        let mut effects = Vec::new();
        let memory: &mut dyn Stores = if self.peeks { &mut self.store } else { &mut NoPeek };
        self.osd.handle(self.now, event, memory, &mut effects);
        effects
    }

    /// Lets the store complete what it has, until nothing happens any more.
    pub fn settle(&mut self) {
        self.go_on();
        while !self.hold_store {
            let mut done: Vec<Completion> = Vec::new();
            self.store.turn(self.now);
            self.store.completions(&mut done);
            // What follows from one may settle too: the others keep their order.
            self.completions.extend(done);
            if !self.take_completion() {
                return;
            }
        }
    }

    /// Hands the OSD the oldest completion, although the store is held. Whether there was one.
    pub fn complete_one(&mut self) -> bool {
        let mut done: Vec<Completion> = Vec::new();
        self.store.turn(self.now);
        self.store.completions(&mut done);
        self.completions.extend(done);
        self.take_completion()
    }

    fn take_completion(&mut self) -> bool {
        let completion = match self.completions.pop_front() {
            None => return false,
            // The bad step of a split that is to be refused.
            Some(Completion::Refused { token, error: StoreError::NotAnObject(_) }) => {
                Completion::Refused { token, error: StoreError::NoSpace { needed: 1, available: 0 } }
            }
            Some(completion) => completion,
        };
        self.splits.remove(&completion.token());
        let effects = self.handle(OsdEvent::Store(StoreShard(0), completion));
        self.perform(effects);
        self.go_on();
        true
    }

    /// The collections that the store has.
    pub fn collections(&mut self) -> Vec<CollectionId> {
        match ObjectStore::peek(&mut self.store, &ReadRequest::Collections) {
            Some(Ok(ReadOutcome::Collections(all))) => all,
            other => panic!("{other:?}"),
        }
    }

    /// Lets the OSD do what it has left of maps.
    fn go_on(&mut self) {
        while std::mem::take(&mut self.continues) {
            let effects = self.handle(OsdEvent::Continue);
            self.perform(effects);
        }
    }

    /// Time passes, with ticks when they are due.
    pub fn pass_ms(&mut self, ms: u64) {
        let end = self.now.as_nanos() + ms * 1_000_000;
        while let Some(due) = self.osd.deadline().filter(|d| d.as_nanos() <= end) {
            self.now = self.now.max(due);
            self.event(OsdEvent::Tick);
            if self.osd.deadline().is_some_and(|d| d <= self.now) {
                panic!(
                    "a tick at {:?} leaves another due at {:?}: {:?}",
                    self.now,
                    self.osd.deadline(),
                    self.log
                );
            }
        }
        self.now = UTime::from_nanos(end);
    }

    pub fn perform(&mut self, effects: Vec<OsdEffect>) {
        for effect in effects {
            self.trace.push(format!("{effect:?}"));
            match effect {
                OsdEffect::Send { session, message } => self.sent.entry(session).or_default().push(message),
                OsdEffect::Queue { token, mut txn, .. } => {
                    if txn.steps().iter().any(is_split) {
                        self.splits.insert(token);
                        if self.refuse_splits {
                            txn.touch(txn.collections()[0], &GHObject::max());
                        }
                    }
                    self.store.queue(txn, token);
                }
                OsdEffect::Read { token, request, .. } => self.store.read(request, token),
                OsdEffect::Acknowledge { token, .. } => self.store.acknowledge(token),
                OsdEffect::Mon(io) => self.mon_io(io),
                OsdEffect::Log(level, text) => self.log.push(format!("{level:?} {text}")),
                OsdEffect::Pause(session) => self.paused.push(session),
                OsdEffect::Resume(session) => self.paused.retain(|s| *s != session),
                OsdEffect::StoreCompression { .. } => {}
                OsdEffect::StoreMemory { bytes, .. } => self.store_memory = Some(bytes),
                OsdEffect::StoreTuning { tuning, .. } => self.store_tuning = Some(tuning),
                OsdEffect::LogLevel(level) => self.log_level = level,
                OsdEffect::AdminAnswer { id, answer } => self.answers.push((id, answer)),
                OsdEffect::Stopped => self.stopped = true,
                OsdEffect::Failed(reason) => self.failed = Some(reason),
                OsdEffect::ToCore { .. } => panic!("all parts are on one core"),
                OsdEffect::Continue => self.continues = true,
                OsdEffect::SendPeer { to, message } => self.to_peers.push((to, message)),
                OsdEffect::ClosePeer { .. } => {}
                OsdEffect::Rebind => self.rebinds += 1,
                OsdEffect::Active | OsdEffect::Close { .. } => {}
            }
        }
        // The monitor answers at once, but not before what else the OSD wants is done.
        while let Some(message) = self.mon.inbox.pop_front() {
            self.mon_gets(message);
        }
    }

    fn mon_io(&mut self, io: MonClientIo) {
        match io {
            MonClientIo::Connect(attempt, _) => {
                self.mon.session = Some(attempt);
                self.mon_event(MonClientEvent::Connected(attempt));
            }
            MonClientIo::Disconnect(_) => (self.mon.session, self.mon.osdmap_next) = (None, None),
            MonClientIo::Send(_, message) => self.mon.inbox.push_back(message),
            MonClientIo::Keepalive(attempt) => self.mon_event(MonClientEvent::KeepaliveAcked(attempt)),
        }
    }

    fn mon_event(&mut self, event: MonClientEvent) {
        let mut effects = Vec::new();
        self.osd.handle(self.now, OsdEvent::Mon(event), &mut NoPeek, &mut effects);
        self.perform(effects);
    }

    /// The monitor says something.
    pub fn mon_says(&mut self, message: impl Into<Message>) {
        let Some(attempt) = self.mon.session else { return };
        // As it would come over the wire.
        let message =
            Message::decode_exact(&message.into().encode(Profile::PACIFIC.features_supported)).unwrap();
        self.mon_event(MonClientEvent::Message(attempt, message));
        self.settle();
    }

    fn mon_gets(&mut self, message: Message) {
        let message = Message::decode_exact(&message.encode(Profile::PACIFIC.features_supported)).unwrap();
        self.mon.received.push(message.clone());
        match message {
            Message::MonGetMap(_) => self.mon_says(MonMap { map: Mon::monmap().to_bytes(!0).into() }),
            Message::MonSubscribe(m) => {
                for (what, sub) in m.what {
                    match what.as_str() {
                        "config" => self.mon_says(Config::default()),
                        "monmap" => self.mon_says(MonMap { map: Mon::monmap().to_bytes(!0).into() }),
                        "mgrmap" => {
                            self.mon_says(MgrMap { map: maps::MgrMap::default().to_bytes(!0).into() })
                        }
                        "osdmap" => self.mon.osdmap_next = Some(sub.start as u32),
                        "osd_pg_creates" => self.mon.creates_subscribed = true,
                        _ => {}
                    }
                }
                self.push_maps();
            }
            Message::MonGetVersion(m) => self.mon_says(MonGetVersionReply {
                handle: m.handle,
                version: self.mon.epoch().into(),
                oldest_version: 1,
            }),
            Message::OsdBoot(m) if !self.mon.deaf_to_boots => {
                let client = addr(self.nonce);
                let up = |inc: &mut maps::Incremental| {
                    inc.new_up_client.insert(ME, client.into());
                    inc.new_up_cluster.insert(ME, m.cluster_addrs.clone());
                    inc.new_hb_back_up.insert(ME, m.hb_back_addrs.clone());
                    inc.new_hb_front_up.insert(ME, m.hb_front_addrs.clone());
                };
                self.mon.change(|map, inc| match map.is_up(ME) {
                    // As a monitor does: the one before is marked down in an epoch of its own.
                    true => drop(inc.new_state.insert(ME, maps::OsdState::UP)),
                    false => up(inc),
                });
                if !self.mon.map().is_up(ME) {
                    self.mon.change(|_, inc| up(inc));
                }
                self.push_maps();
            }
            Message::MonGetOsdMap(_) if self.mon.holds_fulls => {}
            Message::MonGetOsdMap(m) => {
                let full = |e: u32| (Epoch(e), self.mon.epochs[e as usize - 1].full.clone().into());
                let newest = Epoch(self.mon.epoch());
                // No map has the number 0: of such a range nothing is asked.
                let oldest = self.mon.trimmed.max(1);
                let kept = m.full_first.0.max(oldest)..=m.full_last.0;
                let increments = m.inc_first.0.max(oldest)..=m.inc_last.0;
                let increment =
                    |e: u32| (Epoch(e), self.mon.epochs[e as usize - 1].incremental.clone().into());
                self.mon_says(messages::OsdMap {
                    fsid: FSID,
                    maps: kept.take(self.mon.chunk).map(full).collect(),
                    incremental_maps: increments.map(increment).collect(),
                    cluster_osdmap_trim_lower_bound: Epoch(1),
                    newest_map: newest,
                });
            }
            Message::MonGetPurgedSnaps(_) if self.mon.holds_purged => {}
            Message::MonGetPurgedSnaps(m) => {
                let mut found = self.mon.purged.range(m.start.next()..=m.last);
                let first = found.next().map(|(epoch, purged)| (*epoch, purged.clone()));
                let last =
                    if found.next().is_some() { first.as_ref().map(|(epoch, _)| *epoch) } else { None };
                self.mon_says(MonGetPurgedSnapsReply {
                    start: m.start,
                    last: last.unwrap_or(m.last),
                    purged_snaps: first.into_iter().collect(),
                    ..Default::default()
                });
            }
            Message::OsdAlive(m) => {
                self.mon.change(|_, inc| {
                    inc.new_up_thru.insert(ME, m.want);
                });
                self.push_maps();
            }
            Message::OsdMarkMeDown(m) => {
                self.mon.change(|_, inc| {
                    inc.new_state.insert(ME, maps::OsdState::UP);
                });
                self.push_maps();
                self.mon_says(*Box::new(m));
            }
            _ => {}
        }
    }

    /// The increments from `from` on, the first of them with a checksum that does not fit the map it leads to.
    pub fn maps_with_a_wrong_checksum(&self, from: u32) -> messages::OsdMap {
        let mut message = self.mon.maps_from(from);
        let mut inc =
            <Incremental as encoding::Decode>::from_bytes(&message.incremental_maps[&Epoch(from)]).unwrap();
        inc.full_crc ^= 1;
        message.incremental_maps.insert(Epoch(from), inc.encode_for(Release::PACIFIC).into());
        message
    }

    /// An object of the meta collection, if it is stored.
    pub fn meta_object(&mut self, name: &str) -> Option<Vec<u8>> {
        let (collection, object) = (CollectionId::Meta, meta_object(name));
        let (advice, verify) = (Advice::default(), false);
        let read = ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify };
        self.store.read(read, Token(u64::MAX));
        self.store.turn(self.now);
        let mut done = Vec::new();
        self.store.completions(&mut done);
        match done.pop() {
            Some(Completion::Read { result: Ok(ReadOutcome::Data(data)), .. }) => {
                Some(data.to_piece().to_vec())
            }
            _ => None,
        }
    }

    /// Epochs whose maps are stored whole.
    pub fn whole_epochs(&mut self) -> Vec<u32> {
        (1..=self.mon.epoch()).filter(|e| self.meta_object(&format!("osdmap.{e}")).is_some()).collect()
    }

    /// The map of an epoch as the OSD's store gives it: whole, or made of the one before. It must be the monitor's.
    pub fn stored_map(&mut self, epoch: u32) -> Option<OsdMap> {
        let map = match self.meta_object(&format!("osdmap.{epoch}")) {
            Some(bytes) => <OsdMap as encoding::Decode>::from_bytes(&bytes).unwrap(),
            None => {
                let bytes = self.meta_object(&format!("inc_osdmap.{epoch}"))?;
                let mut map = self.stored_map(epoch - 1)?;
                map.apply(&<Incremental as encoding::Decode>::from_bytes(&bytes).unwrap()).unwrap();
                map
            }
        };
        assert!(map.encode_full() == self.mon.epochs[epoch as usize - 1].full, "map {epoch}");
        Some(map)
    }

    /// The session with the monitor ends and another one begins.
    pub fn mon_reconnects(&mut self) {
        let attempt = self.mon.session.take().unwrap();
        self.mon.osdmap_next = None;
        self.mon_event(MonClientEvent::Disconnected(attempt, "cut".into()));
        self.pass_ms(5_000);
        assert!(self.mon.session.is_some(), "{:#?}", self.log);
    }

    /// The ranges of full maps that the monitor was asked for.
    pub fn fulls_asked(&self) -> Vec<(u32, u32)> {
        let asked = self.mon.received.iter().filter_map(|m| match m {
            Message::MonGetOsdMap(m) if m.full_first > Epoch(0) => Some((m.full_first.0, m.full_last.0)),
            _ => None,
        });
        asked.collect()
    }

    /// Sends what is subscribed and new.
    pub fn push_maps(&mut self) {
        while let Some(next) = self.mon.osdmap_next.filter(|n| *n <= self.mon.epoch()) {
            let message = self.mon.maps_from(next);
            self.mon.osdmap_next = Some(message.last().unwrap().0 + 1);
            self.mon_says(message);
        }
    }

    /// Publishes an epoch and sends it.
    pub fn change(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        self.mon.change(change);
        self.push_maps();
    }

    /// An epoch with nothing in it.
    pub fn empty_epoch(&mut self) {
        self.change(|_, _| {});
    }

    /// A pool of one copy, with its PGs created as a monitor does.
    pub fn create_pool(&mut self, id: i64, pg_num: u32) {
        self.announce_pool(id, pg_num);
        self.send_creates(id, pg_num);
    }

    /// A pool of one copy that is being created; nobody is told yet to make its PGs.
    pub fn announce_pool(&mut self, id: i64, pg_num: u32) {
        self.change(|_, inc| {
            let mut pool = PgPool::replicated(1, 1, pg_num, 0);
            pool.flags |= PoolFlags::CREATING | PoolFlags::HASHPSPOOL;
            inc.new_pool_max = Some(id);
            inc.new_pools.insert(PoolId(id), pool);
            inc.new_pool_names.insert(PoolId(id), format!("pool{id}"));
        });
    }

    /// As Ceph's monitors do, for PGs that are made in the current map.
    pub fn send_creates(&mut self, id: i64, pg_num: u32) {
        self.send_creates_of(id, pg_num, Epoch(self.mon.epoch()));
    }

    /// As Ceph's monitors did in the epoch in which the PGs were made.
    pub fn send_creates_of(&mut self, id: i64, pg_num: u32, epoch: Epoch) {
        let mut create = OsdPgCreate2 { epoch, ..Default::default() };
        for seed in 0..pg_num {
            create.pgs.insert(pg(id, seed), (epoch, self.now));
            create
                .pg_extra
                .insert(pg(id, seed), (PgHistory::created(epoch, self.now), PastIntervals::default()));
        }
        self.mon_says(create);
    }

    /// As a monitor that keeps no histories does: PGs of a pool that was made in the epoch `made`.
    pub fn send_creates_without_history(&mut self, id: i64, pg_num: u32, made: u32) {
        let mut create = OsdPgCreate2 { epoch: Epoch(self.mon.epoch()), ..Default::default() };
        for seed in 0..pg_num {
            create.pgs.insert(pg(id, seed), (Epoch(made), self.now));
        }
        self.mon_says(create);
    }

    /// A pool without the CREATING flag. Answers its epoch.
    pub fn publish_pool(&mut self, id: i64, pg_num: u32) -> u32 {
        self.change(|_, inc| {
            inc.new_pool_max = Some(id);
            inc.new_pools.insert(PoolId(id), PgPool::replicated(1, 1, pg_num, 0));
            inc.new_pool_names.insert(PoolId(id), format!("pool{id}"));
        });
        self.mon.epoch()
    }

    /// Ends the creation of a pool.
    pub fn finish_pool(&mut self, id: i64) {
        self.change(|map, inc| {
            let mut pool = map.pools[&PoolId(id)].clone();
            pool.flags &= !PoolFlags::CREATING;
            inc.new_pools.insert(PoolId(id), pool);
        });
    }

    pub fn delete_pool(&mut self, id: i64) {
        self.change(|_, inc| {
            inc.old_pools.insert(PoolId(id));
        });
    }

    pub fn open_client(&mut self, session: SessionId) {
        self.event(OsdEvent::SessionOpened(client(session, Caps::all())));
    }

    /// An operation on `name` as a client with the map `epoch` sends it.
    pub fn op(&mut self, name: &str, epoch: u32, ops: Vec<Op>) -> OsdOp {
        self.tids += 1;
        let map = self.mon.map();
        let pool = *map.pools.keys().next().unwrap();
        let locator = ObjectLocator { pool, key: "".into(), nspace: "".into(), hash: -1 };
        let raw = map.object_to_pg(&locator, name.as_bytes()).unwrap();
        let writes = ops.iter().any(|op| op.code.writes());
        OsdOp {
            tid: self.tids,
            pgid: map.raw_pg_to_pg(raw).unwrap().into(),
            hash: raw.seed,
            epoch: Epoch(epoch),
            flags: OsdFlags::ACK | OsdFlags::ONDISK | if writes { OsdFlags::WRITE } else { OsdFlags::READ },
            reqid: ReqId::default(),
            trace: Default::default(),
            otel_trace: None,
            client_inc: 0,
            mtime: self.now,
            locator,
            oid: name.into(),
            ops,
            snapid: SnapId::HEAD,
            snap_seq: 0,
            snaps: Vec::new(),
            retry_attempt: 0,
            features: Profile::PACIFIC.features_supported,
            data_offset: 0,
        }
    }

    pub fn write(&mut self, name: &str, data: &[u8]) -> OsdOp {
        let epoch = self.mon.epoch();
        self.op(name, epoch, vec![write(data)])
    }

    pub fn read(&mut self, name: &str) -> OsdOp {
        let epoch = self.mon.epoch();
        let args = OpArgs::Extent { offset: 0, length: 0, truncate_size: 0, truncate_seq: 0 };
        self.op(name, epoch, vec![Op::new(OpCode::READ, args)])
    }

    pub fn send_op(&mut self, session: SessionId, op: OsdOp) {
        self.event(OsdEvent::Message { session, message: op.into(), bytes: 1000 });
    }

    /// Sends an operation and gives its reply.
    pub fn ask(&mut self, session: SessionId, op: OsdOp) -> OsdOpReply {
        let tid = op.tid;
        self.send_op(session, op);
        self.reply_to(session, tid).unwrap_or_else(|| panic!("no reply to {tid}: {:#?}", self.log))
    }

    pub fn reply_to(&self, session: SessionId, tid: u64) -> Option<OsdOpReply> {
        self.sent.get(&session)?.iter().find_map(|m| match m {
            Message::OsdOpReply(r) if r.tid == tid => Some((**r).clone()),
            _ => None,
        })
    }

    /// A command of the admin socket: the answer, as the OSD gives it at once.
    pub fn command(&mut self, json: serde_json::Value) -> Result<serde_json::Value, (Errno, String)> {
        let command = json.to_string().into_bytes();
        self.event(OsdEvent::AdminCommand { id: 7, command });
        let (id, answer) = self.answers.pop().unwrap();
        assert_eq!((id, self.answers.len()), (7, 0));
        answer.map(|text| serde_json::from_slice(&text).unwrap())
    }

    /// A command whose answer comes when the store is through with something.
    pub fn slow_command(&mut self, json: serde_json::Value) -> Result<serde_json::Value, (Errno, String)> {
        self.start_command(&json);
        self.settle();
        let (_, answer) = self.answers.pop().unwrap();
        answer.map(|text| serde_json::from_slice(&text).unwrap())
    }

    pub fn start_command(&mut self, json: &serde_json::Value) {
        let command = json.to_string().into_bytes();
        self.event(OsdEvent::AdminCommand { id: 7, command });
    }

    /// The statistics that the monitor got last.
    pub fn stats(&self) -> Option<PgStats> {
        self.mon.received.iter().rev().find_map(|m| match m {
            Message::PgStats(s) => Some((**s).clone()),
            _ => None,
        })
    }

    pub fn count(&self, name: &str) -> usize {
        self.mon.received.iter().filter(|m| m.name() == name).count()
    }
}

fn is_split(step: &Step) -> bool {
    matches!(step, Step::Collection { change: CollectionChange::Split { .. }, .. })
}

/// An object of the OSD's own records.
pub fn meta_object(name: &str) -> GHObject {
    let mut object = HObject::head(PoolId(-1), Name::new(), Name::new(), name.into(), 0);
    object.snap = SnapId(0);
    object.into()
}

pub fn pg(pool: i64, seed: u32) -> SpgId {
    PgId { pool: PoolId(pool), seed }.into()
}

pub fn write(data: &[u8]) -> Op {
    let args = OpArgs::Extent { offset: 0, length: data.len() as u64, truncate_size: 0, truncate_seq: 0 };
    Op::new(OpCode::WRITEFULL, args).with_indata(data.to_vec())
}

pub fn client(id: SessionId, caps: Caps) -> SessionInfo {
    SessionInfo {
        id,
        entity: "client.admin".parse().unwrap(),
        name: EntityName::new(EntityType::Client, 4000 + id.0 as i64),
        global_id: 4000 + id.0,
        caps,
        features: Profile::PACIFIC.features_supported,
        peer_addrs: EntityAddr::v2(([127, 0, 0, 1], 0).into(), id.0 as u32).into(),
        local_nonce: 1,
    }
}
