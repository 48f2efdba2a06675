//! A client against a monitor and OSDs that are played by hand.

use std::collections::BTreeMap;

use encoding::Encode;
use maps::{Incremental, NewCluster, OsdMap, OsdState, PgPool, PoolFlags, Publication, publish};
use messages::{
    Blob, Config, Message, MonGetVersion, MonGetVersionReply, MonMap, Op, OpArgs, OpCode, OpResult, OsdOp,
    OsdOpReply,
};
use monclient::{Attempt, MonClientConfig, MonClientEvent, MonClientIo};
use objecter::{
    NotifyId, NotifyOutcome, Objecter, ObjecterConfig, ObjecterEffect, ObjecterEvent, OsdSession, Outcome,
    Request, RequestId, WatchEvent, WatchId,
};
use types::{EntityAddr, EntityAddrVec, Epoch, Fsid, OsdId, PoolId, Profile, Release, SpgId, UTime};

pub const FSID: Fsid = Fsid([7; 16]);
pub const POOL: PoolId = PoolId(1);

pub struct World {
    pub client: Objecter,
    pub now: UTime,
    pub epochs: Vec<Publication>,
    pub mon: Option<Attempt>,
    /// From where on maps are asked for, if they are.
    pub maps_wanted: Option<u64>,
    pub versions_asked: Vec<u64>,
    pub commands: Vec<messages::MonCommand>,
    pub pool_ops: Vec<messages::PoolOp>,
    /// Whether connections to OSDs are made at once.
    pub connects: bool,
    pub sessions: BTreeMap<OsdSession, OsdId>,
    pub dialled: Vec<(OsdSession, OsdId)>,
    pub closed: Vec<OsdSession>,
    /// Requests sent and not looked at.
    pub sent: Vec<(OsdSession, OsdId, OsdOp)>,
    /// Other messages to OSDs.
    pub others: Vec<(OsdId, Message)>,
    pub done: Vec<(RequestId, Outcome)>,
    pub watch_events: Vec<(WatchId, WatchEvent)>,
    pub notifies_done: Vec<(NotifyId, NotifyOutcome)>,
    pub commands_done: Vec<(objecter::CommandId, messages::MonCommandAck)>,
    pub pool_ops_done: Vec<(objecter::CommandId, messages::PoolOpReply)>,
    pub maps_reached: Vec<objecter::MapWaitId>,
    pub warnings: Vec<String>,
}

fn addr(port: u16, nonce: u32) -> EntityAddrVec {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), nonce).into()
}

pub fn osd_addr(osd: i32, nonce: u32) -> EntityAddrVec {
    addr(6800 + osd as u16, nonce)
}

/// Brings an OSD up.
pub fn up(inc: &mut Incremental, osd: i32, nonce: u32) {
    let (osd, at) = (OsdId(osd), osd_addr(osd, nonce));
    inc.new_up_client.insert(osd, at.clone());
    inc.new_up_cluster.insert(osd, at.clone());
    inc.new_hb_back_up.insert(osd, at.clone());
    inc.new_hb_front_up.insert(osd, at);
}

pub fn down(inc: &mut Incremental, osd: OsdId) {
    inc.new_state.insert(osd, OsdState::UP);
}

/// Changes the pool.
pub fn pool(map: &OsdMap, inc: &mut Incremental, change: impl FnOnce(&mut PgPool)) {
    let mut pool = map.pools[&POOL].clone();
    change(&mut pool);
    inc.new_pools.insert(POOL, pool);
}

pub fn write(object: &str) -> Request {
    let op = Op::new(OpCode::WRITEFULL, OpArgs::extent(0, 3)).with_indata(b"abc".to_vec());
    Request::on(POOL, object, vec![op])
}

pub fn read(object: &str) -> Request {
    Request::on(POOL, object, vec![Op::new(OpCode::READ, OpArgs::extent(0, 100))])
}

impl World {
    /// Three OSDs, a pool of size 3 with 8 PGs, a client without a map.
    pub fn before_maps(config: impl FnOnce(&mut ObjecterConfig)) -> Self {
        let monitors = MonClientConfig::new(vec![addr(3300, 0)], Some(FSID));
        let mut objecter_config = ObjecterConfig::new(monitors, Profile::PACIFIC);
        config(&mut objecter_config);
        let mut world = Self {
            client: Objecter::new(objecter_config),
            now: UTime { sec: 5000, nsec: 0 },
            epochs: Vec::new(),
            mon: None,
            maps_wanted: None,
            versions_asked: Vec::new(),
            commands: Vec::new(),
            pool_ops: Vec::new(),
            connects: true,
            sessions: BTreeMap::new(),
            dialled: Vec::new(),
            closed: Vec::new(),
            sent: Vec::new(),
            others: Vec::new(),
            done: Vec::new(),
            watch_events: Vec::new(),
            notifies_done: Vec::new(),
            commands_done: Vec::new(),
            pool_ops_done: Vec::new(),
            maps_reached: Vec::new(),
            warnings: Vec::new(),
        };
        world.publish_first();
        let now = world.now;
        world.act(|c, out| c.start(now, out));
        world.open_mon();
        world
    }

    pub fn with(config: impl FnOnce(&mut ObjecterConfig)) -> Self {
        let mut world = Self::before_maps(config);
        world.send_maps();
        world
    }

    pub fn new() -> Self {
        Self::with(|_| {})
    }

    fn publish_first(&mut self) {
        let cluster = NewCluster {
            fsid: FSID,
            created: UTime { sec: 1000, nsec: 0 },
            release: Release::PACIFIC,
            failure_domain: "osd".into(),
        };
        let first = publish(&OsdMap::default(), cluster.first_increment().unwrap()).unwrap();
        self.epochs.push(first);
        self.change(|map, inc| {
            let mut crush = map.crush.clone();
            inc.new_max_osd = Some(3);
            for osd in 0..3 {
                crush.add_osd(osd, 0x10000, "host", None).unwrap();
                inc.new_state.insert(OsdId(osd), OsdState::EXISTS);
                inc.new_weight.insert(OsdId(osd), 0x10000);
                inc.new_uuid.insert(OsdId(osd), Fsid([9; 16]));
            }
            inc.set_crush(&crush);
        });
        self.change(|_, inc| {
            (0..3).for_each(|osd| up(inc, osd, 1));
            inc.new_pool_max = Some(1);
            inc.new_pools.insert(POOL, PgPool::replicated(3, 2, 8, 0));
            inc.new_pool_names.insert(POOL, "p".into());
        });
    }

    pub fn map(&self) -> &OsdMap {
        &self.epochs.last().unwrap().map
    }

    pub fn epoch(&self) -> u32 {
        self.map().epoch.0
    }

    /// Publishes an epoch, and sends nothing.
    pub fn change(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        let map = self.epochs.last().unwrap().map.clone();
        let mut inc = Incremental::new(FSID, map.epoch.next(), UTime { sec: 1000 + map.epoch.0, nsec: 0 });
        change(&map, &mut inc);
        self.epochs.push(publish(&map, inc).unwrap());
    }

    /// A message with the increments to these epochs.
    pub fn increments(&self, epochs: std::ops::RangeInclusive<u32>) -> messages::OsdMap {
        let bytes = |e: u32| Blob::from(self.epochs[e as usize - 1].incremental.clone());
        messages::OsdMap {
            fsid: FSID,
            newest_map: Epoch(self.epoch()),
            cluster_osdmap_trim_lower_bound: Epoch(1),
            incremental_maps: epochs.map(|e| (Epoch(e), bytes(e))).collect(),
            ..Default::default()
        }
    }

    pub fn full_map(&self) -> messages::OsdMap {
        let newest = Epoch(self.epoch());
        let full = self.epochs.last().unwrap().full.clone();
        messages::OsdMap {
            maps: [(newest, full.into())].into(),
            incremental_maps: BTreeMap::new(),
            ..self.increments(2..=2)
        }
    }

    /// Answers what is asked for of maps.
    pub fn send_maps(&mut self) {
        let from = self.maps_wanted.expect("the client asks for maps");
        if from > u64::from(self.epoch()) {
            return;
        }
        self.maps_wanted = None;
        let message = match from {
            0 => self.full_map(),
            from => self.increments(from as u32..=self.epoch()),
        };
        self.mon_sends(message.into());
    }

    /// Publishes an epoch and sends it as an OSD would.
    pub fn change_and_send(&mut self, change: impl FnOnce(&OsdMap, &mut Incremental)) {
        self.change(change);
        let message = self.increments(self.epoch()..=self.epoch());
        self.mon_sends(message.into());
    }

    pub fn act<T>(&mut self, act: impl FnOnce(&mut Objecter, &mut Vec<ObjecterEffect>) -> T) -> T {
        let mut out = Vec::new();
        let result = act(&mut self.client, &mut out);
        out.into_iter().for_each(|effect| self.perform(effect));
        result
    }

    pub fn handle(&mut self, event: ObjecterEvent) {
        let now = self.now;
        self.act(|c, out| c.handle(now, event, out));
    }

    pub fn mon_sends(&mut self, message: Message) {
        let attempt = self.mon.expect("a session to the monitor");
        self.handle(ObjecterEvent::Mon(MonClientEvent::Message(attempt, message)));
    }

    pub fn osd_sends(&mut self, session: OsdSession, message: Message) {
        self.handle(ObjecterEvent::Message(session, message));
    }

    /// Makes the session to the monitor ready.
    pub fn open_mon(&mut self) {
        let attempt = self.mon.expect("it dials");
        self.handle(ObjecterEvent::Mon(MonClientEvent::Connected(attempt)));
        let mut map = maps::MonMap::new(FSID, UTime::default(), [("a".to_string(), addr(3300, 0))]);
        map.epoch = Epoch(1);
        self.mon_sends(MonMap { map: map.to_bytes(!0).into() }.into());
        self.mon_sends(Config::default().into());
    }

    pub fn pass(&mut self, ms: u64) {
        self.now = UTime::from_nanos(self.now.as_nanos() + ms * 1_000_000);
        self.handle(ObjecterEvent::Tick);
    }

    pub fn submit(&mut self, request: Request) -> RequestId {
        let now = self.now;
        self.act(|c, out| c.submit(now, request, out)).expect("there is room")
    }

    pub fn connected(&mut self, session: OsdSession) {
        self.handle(ObjecterEvent::Connected(session));
    }

    pub fn reset(&mut self, session: OsdSession) {
        self.handle(ObjecterEvent::Reset(session, "cut".into()));
    }

    /// The requests sent since the last call: to whom, the object, the attempt.
    pub fn take_sent(&mut self) -> Vec<(i32, String, i32)> {
        let of = |(_, osd, op): (OsdSession, OsdId, OsdOp)| (osd.0, op.oid.to_string(), op.retry_attempt);
        std::mem::take(&mut self.sent).into_iter().map(of).collect()
    }

    /// The only request sent since the last call.
    pub fn one_sent(&mut self) -> (OsdSession, OsdId, OsdOp) {
        assert_eq!(self.sent.len(), 1, "{:?}", self.sent);
        self.sent.pop().unwrap()
    }

    pub fn answer(&mut self, (session, _, op): &(OsdSession, OsdId, OsdOp), result: i32) {
        let ops = op.ops.iter().map(|o| OpResult::of(o, result, b"data".to_vec())).collect();
        let reply = OsdOpReply::to(op, result, op.epoch, ops);
        self.osd_sends(*session, reply.into());
    }

    pub fn take_done(&mut self) -> Vec<(RequestId, Outcome)> {
        std::mem::take(&mut self.done)
    }

    pub fn primary(&self, object: &str) -> OsdId {
        let at = self.map().pg_to_up_acting(self.pg(object).pg);
        at.acting_primary.unwrap()
    }

    pub fn pg(&self, object: &str) -> SpgId {
        let request = write(object);
        let objecter::Target::Object { name, locator } = request.target else { unreachable!() };
        let raw = self.map().object_to_pg(&locator, &name).unwrap();
        self.map().raw_pg_to_pg(raw).unwrap().into()
    }

    fn perform(&mut self, effect: ObjecterEffect) {
        match effect {
            ObjecterEffect::Mon(MonClientIo::Connect(attempt, _)) => self.mon = Some(attempt),
            ObjecterEffect::Mon(MonClientIo::Send(_, message)) => self.mon_receives(message),
            ObjecterEffect::Mon(MonClientIo::Disconnect(_)) => self.mon = None,
            ObjecterEffect::Mon(MonClientIo::Keepalive(_)) => {}
            ObjecterEffect::Connect(session, osd, _) => {
                self.sessions.insert(session, osd);
                self.dialled.push((session, osd));
                if self.connects {
                    self.connected(session);
                }
            }
            ObjecterEffect::Disconnect(session) => {
                self.sessions.remove(&session).expect("it was dialled");
                self.closed.push(session);
            }
            ObjecterEffect::Send(session, message) => {
                let message = Message::decode_exact(&message.encode(!0)).unwrap();
                let osd = *self.sessions.get(&session).expect("a session that is open");
                match message {
                    Message::OsdOp(op) => self.sent.push((session, osd, *op)),
                    other => self.others.push((osd, other)),
                }
            }
            ObjecterEffect::Done(id, outcome) => self.done.push((id, outcome)),
            ObjecterEffect::Watch(id, event) => self.watch_events.push((id, event)),
            ObjecterEffect::NotifyDone(id, outcome) => self.notifies_done.push((id, outcome)),
            ObjecterEffect::CommandDone(id, ack) => self.commands_done.push((id, ack)),
            ObjecterEffect::PoolOpDone(id, reply) => self.pool_ops_done.push((id, reply)),
            ObjecterEffect::MapReached(id) => self.maps_reached.push(id),
            ObjecterEffect::Warning(text) => self.warnings.push(text),
        }
    }

    fn mon_receives(&mut self, message: Message) {
        match message {
            Message::MonSubscribe(m) => {
                if let Some(subscription) = m.what.get("osdmap") {
                    self.maps_wanted = Some(subscription.start);
                }
            }
            Message::MonGetVersion(MonGetVersion { handle, .. }) => self.versions_asked.push(handle),
            Message::MonCommand(command) => self.commands.push(command),
            Message::PoolOp(op) => self.pool_ops.push(op),
            _ => {}
        }
    }

    /// Answers the questions for the newest version.
    pub fn answer_versions(&mut self) {
        for handle in std::mem::take(&mut self.versions_asked) {
            let version = self.epoch().into();
            self.mon_sends(MonGetVersionReply { handle, version, oldest_version: 1 }.into());
        }
    }
}

/// Sets or clears the pool's flag FULL.
pub fn full(map: &OsdMap, inc: &mut Incremental, is: bool) {
    pool(map, inc, |p| match is {
        true => p.flags |= PoolFlags::FULL,
        false => p.flags &= !PoolFlags::FULL,
    });
}
