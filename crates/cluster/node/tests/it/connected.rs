//! A monitor and an OSD of one core that reach each other through the core's messenger, byte for byte.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use messenger::{Endpoint, Event, Messenger, MessengerConfig, SocketEffect, SocketId};
use mon::state::State;
use mon::{InitialOsd, Mon, MonConfig, MonEvent};
use monclient::MonClientConfig;
use msgr::{Limits, Local};
use node::{ConnectedNode, CoreEffect, Daemon, NodeEvent};
use osd::{Osd, OsdAddrs, OsdConfig, OsdEvent};
use store::MemStore;
use types::{EntityAddr, EntityType, Fsid, OsdId, Profile, UTime};

const START: u64 = 1_800_000_000_000_000_000;
const OSD: OsdId = OsdId(0);

fn addr(port: u16, nonce: u32) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), nonce)
}

fn local(kind: EntityType, addr: EntityAddr) -> Local {
    Local {
        kind,
        num: 0,
        addrs: addr.into(),
        features_supported: Profile::PACIFIC.features_supported,
        features_required: 0,
        lossless_peers: Vec::new(),
        limits: Limits::default(),
    }
}

fn new_mon(fsid: Fsid, uuid: Fsid) -> Mon {
    let config = MonConfig {
        fsid,
        name: "a".into(),
        addr: addr(3300, 0),
        manager: None,
        hostname: "host".into(),
        profile: Profile::PACIFIC,
        version: "test".into(),
        options: options::Values::new(),
        key_seed: [0; 32],
        machine: Default::default(),
        osds: vec![InitialOsd { id: 0, uuid, size_bytes: 1 << 30, class: None }],
    };
    let mut state = State::new();
    Mon::create(&config, UTime::from_nanos(START)).unwrap().apply_to(&mut state);
    Mon::open(config, state, UTime::from_nanos(START)).unwrap()
}

fn new_osd(fsid: Fsid, uuid: Fsid) -> Osd {
    Osd::new(OsdConfig {
        whoami: OSD,
        cluster_fsid: fsid,
        osd_fsid: uuid,
        addrs: OsdAddrs::same(addr(6800, 7)),
        metadata: BTreeMap::new(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(vec![addr(3300, 0).into()], Some(fsid)),
        options: options::Values::new(),
    })
}

/// A host of one core whose sockets are all connected to each other.
struct Host {
    core: ConnectedNode,
    now: u64,
    other_end: BTreeMap<SocketId, SocketId>,
    active: bool,
    trace: Vec<String>,
}

impl Host {
    fn new() -> Self {
        let mut messenger = Messenger::new(MessengerConfig {
            core: 0,
            connections_max: 100,
            unfinished_bytes_max: 1 << 20,
            ready_timeout: Duration::from_secs(10),
            initial_backoff: Duration::from_millis(200),
            max_backoff: Duration::from_secs(15),
            peer_bytes_max: 1 << 20,
            check_in_memory: true,
            cookie_seed: 1,
            usage: Arc::default(),
        });
        messenger.set_endpoint(Endpoint::public(Daemon::Mon), local(EntityType::Mon, addr(3300, 0)));
        messenger.set_endpoint(Endpoint::public(Daemon::Osd(OSD)), local(EntityType::Osd, addr(6800, 7)));
        let (fsid, uuid) = (Fsid::from_random([1; 16]), Fsid::from_random([2; 16]));
        let mut core = ConnectedNode::new(messenger);
        core.node.add_mon(new_mon(fsid, uuid));
        core.node.add_osd(OSD, new_osd(fsid, uuid), Box::new(MemStore::new(1 << 30)));
        Self { core, now: START, other_end: BTreeMap::new(), active: false, trace: Vec::new() }
    }

    fn dispatch(&mut self, event: NodeEvent) {
        let mut effects = Vec::new();
        self.core.handle(UTime::from_nanos(self.now), event, &mut effects);
        self.settle(effects);
    }

    fn settle(&mut self, mut effects: Vec<CoreEffect>) {
        loop {
            self.core.settle(UTime::from_nanos(self.now), &mut effects);
            if effects.is_empty() {
                return;
            }
            for effect in std::mem::take(&mut effects) {
                self.trace.push(format!("{effect:?}"));
                self.perform(effect, &mut effects);
            }
        }
    }

    fn perform(&mut self, effect: CoreEffect, out: &mut Vec<CoreEffect>) {
        let now = UTime::from_nanos(self.now);
        match effect {
            CoreEffect::Socket(SocketEffect::Dial(id, to)) => {
                assert_eq!(to, "127.0.0.1:3300".parse().unwrap());
                let from = ([127, 0, 0, 1], 50_000).into();
                let accepted = self.core.accept(now, Endpoint::public(Daemon::Mon), from).unwrap();
                self.other_end.extend([(id, accepted), (accepted, id)]);
                self.core.handle_socket(now, Event::Connected(id));
            }
            CoreEffect::Socket(SocketEffect::Flush(id)) => {
                let mut bytes = Vec::new();
                let write = |slices: &[std::io::IoSlice<'_>]| {
                    slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
                    Ok(slices.iter().map(|slice| slice.len()).sum())
                };
                self.core.messenger.out_queue(id).unwrap().write_to(write).unwrap();
                self.core.handle_socket(now, Event::Bytes(self.other_end[&id], &bytes));
            }
            CoreEffect::Socket(SocketEffect::Close(id, _)) => {
                let other = self.other_end[&id];
                self.core.handle_socket(now, Event::EndOfStream(other));
            }
            CoreEffect::Commit(token, _) => {
                self.core.handle(now, NodeEvent::Mon(MonEvent::Committed { token }), out);
            }
            CoreEffect::Continue(osd) => {
                self.core.handle(now, NodeEvent::Osd(osd, OsdEvent::Continue), out);
            }
            CoreEffect::ToCore(core, ..) => panic!("a message for {core:?}, and there is one core"),
            CoreEffect::Failed(daemon, reason) => panic!("{daemon}: {reason}"),
            CoreEffect::Ended(osd) => panic!("osd.{osd} ended"),
            CoreEffect::ToHost(message) => panic!("nothing asks by the host's session: {message:?}"),
            CoreEffect::MonBehind { osd, .. } => panic!("osd.{osd} is ahead of the monitor"),
            CoreEffect::Active(_) => self.active = true,
            CoreEffect::Socket(SocketEffect::Interest(_)) | CoreEffect::Log(..) | CoreEffect::Stopped(_) => {}
            CoreEffect::Rebind(osd) => panic!("osd.{osd} was never down"),
            // There is no other core to learn of it.
            CoreEffect::ToAllCores(_) => {}
            CoreEffect::LogLevel(..) | CoreEffect::StoreMemory(_) => {}
            CoreEffect::AdminAnswer(osd, ..) => panic!("osd.{osd} answers what was not asked"),
            CoreEffect::PeerMessage(message) => panic!("there is one core: {message:?}"),
        }
    }

    fn run_until_active(&mut self) {
        self.dispatch(NodeEvent::Osd(OSD, OsdEvent::Start));
        for _ in 0..1000 {
            if self.active {
                return;
            }
            self.now += 50_000_000;
            self.dispatch(NodeEvent::Tick);
        }
        panic!("the OSD is not active after 50 s:\n{}", self.trace.join("\n"));
    }
}

#[test]
fn an_osd_boots_through_its_messenger_and_boots_again_the_same_way() {
    let mut host = Host::new();
    host.run_until_active();
    assert_eq!(host.core.messenger.sockets(), 2, "one session, both its ends");
    let mut again = Host::new();
    again.run_until_active();
    assert_eq!(host.trace, again.trace);
}

#[test]
fn an_osd_whose_session_to_the_monitor_ends_opens_another() {
    let mut host = Host::new();
    host.run_until_active();
    let accepted = *host.other_end.keys().next().unwrap();
    host.core.handle_socket(UTime::from_nanos(host.now), Event::Failed(accepted, "read: reset".into()));
    host.settle(Vec::new());
    for _ in 0..200 {
        host.now += 50_000_000;
        host.dispatch(NodeEvent::Tick);
    }
    assert_eq!(host.core.messenger.sockets(), 2);
    assert!(
        !host.other_end.keys().skip(2).any(|id| host.core.messenger.interest(*id).is_none()),
        "of the new one"
    );
}
