//! A monitor with a disk that the test controls, and peers that talk to it in messages.

use std::collections::{BTreeMap, VecDeque};

use auth::{Caps, SessionId, SessionInfo};
use messages::Message;
use mon::{Batch, InitialOsd, ManagerConfig, Mon, MonConfig, MonEffect, MonEvent, State};
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Fsid, Name, OsdId, Profile, UTime};

pub const FSID: Fsid = Fsid([7; 16]);

pub fn at(sec: u32) -> UTime {
    UTime { sec: 1_800_000_000 + sec, nsec: 0 }
}

pub fn config(osds: i32, local: &[(&str, &str)]) -> MonConfig {
    let mut values = options::Values::new();
    for (name, value) in local {
        values.set(name, value).unwrap();
    }
    MonConfig {
        fsid: FSID,
        name: "a".into(),
        addr: EntityAddr::v2("127.0.0.1:3300".parse().unwrap(), 0),
        manager: Some(ManagerConfig {
            addr: EntityAddr::v2("127.0.0.1:6803".parse().unwrap(), 9),
            epoch: Epoch(5),
        }),
        hostname: "vm".into(),
        profile: Profile::PACIFIC,
        version: "ceph version 16.2.15 (test) pacific (stable)".into(),
        options: values,
        key_seed: [7; 32],
        machine: BTreeMap::new(),
        osds: (0..osds)
            .map(|id| InitialOsd { id, uuid: uuid(id), size_bytes: 10 << 30, class: Some("ssd".into()) })
            .collect(),
    }
}

pub fn uuid(osd: i32) -> Fsid {
    let mut bytes = [(osd % 255) as u8 + 1; 16];
    bytes[0] ^= (osd / 255) as u8;
    Fsid::from_random(bytes)
}

pub struct Cluster {
    pub mon: Mon,
    pub config: MonConfig,
    pub disk: State,
    pub now: UTime,
    /// Batches that the monitor wants durable.
    pub commits: VecDeque<(u64, Batch)>,
    pub inbox: BTreeMap<SessionId, Vec<Message>>,
    pub log: Vec<String>,
    pub ids: Vec<(SessionId, u64)>,
    pub closed: Vec<SessionId>,
    /// OSDs with newer maps than the monitor's: theirs, and its newest.
    pub behind: Vec<(OsdId, Epoch, Epoch)>,
    /// Everything that came out, for comparisons of runs.
    pub trace: Vec<String>,
    next_session: u64,
    next_tid: u64,
}

impl Cluster {
    pub fn new(config: MonConfig) -> Self {
        let mut disk = State::new();
        Mon::create(&config, at(0)).unwrap().apply_to(&mut disk);
        Self::start(config, disk)
    }

    pub fn start(config: MonConfig, disk: State) -> Self {
        let mon = Mon::open(config.clone(), disk.clone(), at(0)).unwrap();
        Self {
            mon,
            config,
            disk,
            now: at(0),
            commits: VecDeque::new(),
            inbox: BTreeMap::new(),
            log: Vec::new(),
            ids: Vec::new(),
            closed: Vec::new(),
            behind: Vec::new(),
            trace: Vec::new(),
            next_session: 1,
            next_tid: 1,
        }
    }

    /// A kill: what was not durable is gone.
    pub fn kill(self) -> Self {
        Self::start(self.config, self.disk)
    }

    pub fn event(&mut self, event: MonEvent) {
        let mut out = Vec::new();
        self.mon.handle(self.now, event, &mut out);
        for effect in out {
            self.trace.push(format!("{effect:?}"));
            match effect {
                MonEffect::Send { session, message } => self.inbox.entry(session).or_default().push(message),
                MonEffect::Commit { token, batch } => self.commits.push_back((token, batch)),
                MonEffect::GlobalId { session, id } => self.ids.push((session, id)),
                MonEffect::Close { session, .. } => self.closed.push(session),
                MonEffect::Log(line) | MonEffect::LogError(line) => self.log.push(line),
                MonEffect::Behind { osd, has, newest } => self.behind.push((osd, has, newest)),
                MonEffect::Failed(broken) => panic!("{broken}"),
            }
        }
        assert!(self.commits.len() <= 1, "one proposal at a time");
    }

    /// Makes the batch under way durable and says so.
    pub fn commit_one(&mut self) -> bool {
        let Some((token, batch)) = self.commits.pop_front() else { return false };
        batch.apply_to(&mut self.disk);
        self.event(MonEvent::Committed { token });
        assert_eq!(self.mon.state(), &self.disk, "the monitor believes what the disk holds");
        true
    }

    pub fn settle(&mut self) {
        while self.commit_one() {}
    }

    pub fn open_session(&mut self, kind: EntityType, id: &str, port: u16) -> SessionId {
        let info = self.session_info(kind, id, port);
        let session = info.id;
        self.event(MonEvent::SessionOpened(info));
        session
    }

    /// A client's session at the manager's address.
    pub fn manager_session(&mut self) -> SessionId {
        let info = self.session_info(EntityType::Client, "admin", 0);
        let session = info.id;
        self.event(MonEvent::ManagerSessionOpened(info));
        session
    }

    fn session_info(&mut self, kind: EntityType, id: &str, port: u16) -> SessionInfo {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let entity = types::EntityId { kind, id: id.into() };
        let addr = EntityAddr::v2(format!("127.0.0.1:{port}").parse().unwrap(), session.0 as u32);
        SessionInfo {
            id: session,
            entity,
            name: EntityName::new(kind, id.parse().unwrap_or(4200)),
            global_id: 4200 + session.0,
            caps: Caps::all(),
            features: Profile::PACIFIC.features_supported,
            peer_addrs: EntityAddrVec(vec![addr]),
            local_nonce: 0,
        }
    }

    pub fn client(&mut self) -> SessionId {
        self.open_session(EntityType::Client, "admin", 0)
    }

    pub fn send(&mut self, session: SessionId, message: impl Into<Message>) {
        self.event(MonEvent::Message { session, message: message.into() });
    }

    pub fn take(&mut self, session: SessionId) -> Vec<Message> {
        self.inbox.remove(&session).unwrap_or_default()
    }

    pub fn boot_message(&self, osd: i32, session: SessionId) -> messages::OsdBoot {
        let addr = |port: i32| {
            let place = format!("127.0.0.1:{}", 6800 + osd * 10 + port).parse().unwrap();
            EntityAddrVec(vec![EntityAddr::v2(place, session.0 as u32)])
        };
        messages::OsdBoot {
            paxos: messages::Paxos::at(self.mon.osdmap().epoch.0.into()),
            superblock: messages::OsdSuperblock::new(FSID, OsdId(osd), uuid(osd)),
            hb_back_addrs: addr(1),
            cluster_addrs: addr(2),
            boot_epoch: Epoch(0),
            hb_front_addrs: addr(3),
            metadata: BTreeMap::from([
                ("hostname".to_string(), "vm".to_string()),
                ("ceph_version".to_string(), "ceph version 16.2.15 (test) pacific (stable)".to_string()),
            ]),
            osd_features: Profile::PACIFIC.features_supported,
        }
    }

    pub fn boot(&mut self, osd: i32) -> SessionId {
        let session = self.open_session(EntityType::Osd, &osd.to_string(), 6800 + osd as u16 * 10);
        let boot = self.boot_message(osd, session);
        self.send(session, boot);
        self.settle();
        session
    }

    /// Starts a command; its answer comes into the session's inbox.
    pub fn ask(&mut self, session: SessionId, json: &str) {
        let tid = self.next_tid;
        self.next_tid += 1;
        let cmd = vec![Name::from(json)];
        let m = messages::MonCommand {
            tid,
            paxos: Default::default(),
            fsid: FSID,
            cmd,
            data: Default::default(),
        };
        self.send(session, m);
    }

    /// Runs a command to its end: (result, sentence, output).
    pub fn run(&mut self, session: SessionId, json: &str) -> (i32, String, String) {
        self.ask(session, json);
        self.settle();
        let answer = self.take(session).into_iter().find_map(|m| match m {
            Message::MonCommandAck(ack) => Some(ack),
            _ => None,
        });
        let ack = answer.unwrap_or_else(|| panic!("no answer to {json}"));
        (ack.result, ack.status, String::from_utf8_lossy(&ack.data.to_vec()).into_owned())
    }

    /// The same by `ceph tell mon.ID`.
    pub fn tell(&mut self, session: SessionId, json: &str) -> (i32, String, String) {
        let tid = self.next_tid;
        self.next_tid += 1;
        let cmd = vec![Name::from(json)];
        self.send(session, messages::Command { tid, fsid: FSID, cmd, data: Default::default() });
        self.settle();
        let answer = self.take(session).into_iter().find_map(|m| match m {
            Message::CommandReply(reply) => Some(reply),
            _ => None,
        });
        let reply = answer.unwrap_or_else(|| panic!("no answer to {json}"));
        (reply.result, reply.status, String::from_utf8_lossy(&reply.data.to_vec()).into_owned())
    }

    /// A command that must succeed; its output.
    pub fn ok(&mut self, session: SessionId, json: &str) -> String {
        let (code, status, data) = self.run(session, json);
        assert_eq!(code, 0, "{json}: {status}");
        data
    }

    /// A PG's report as its primary sends it, for every PG that the map places on it.
    pub fn report(&mut self, osd: i32, session: SessionId, seq: u64) {
        let map = self.mon.osdmap();
        let mut stats = messages::PgStats { tid: seq, fsid: FSID, epoch: map.epoch, ..Default::default() };
        stats.osd_stat.statfs.total = 10 << 30;
        stats.osd_stat.statfs.available = 9 << 30;
        for (pool, p) in &map.pools {
            stats.pool_stat.insert(*pool, Default::default());
            for seed in 0..p.pg_num {
                let id = types::PgId { pool: *pool, seed };
                let place = map.pg_to_up_acting(id);
                if place.acting_primary == Some(OsdId(osd)) {
                    let mut stat = messages::PgStat {
                        reported_seq: seq,
                        reported_epoch: map.epoch,
                        state: messages::PgState(0b110),
                        up: place.up.clone(),
                        acting: place.acting.clone(),
                        up_primary: OsdId(osd),
                        acting_primary: OsdId(osd),
                        last_active: self.now,
                        last_change: self.now,
                        ..Default::default()
                    };
                    stat.stats.sum.num_objects = 1;
                    stat.stats.sum.num_bytes = 4096;
                    stats.pg_stat.insert(id, stat);
                }
            }
        }
        self.send(session, stats);
    }
}
