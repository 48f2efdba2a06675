//! OSDs of one process on two cores reach each other through the cores' queues, without sockets.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use messages::{Message, OsdPing};
use messenger::{CoreContent, CoreMessage, Endpoint, EndpointNews, Messenger, MessengerConfig, Role};
use monclient::MonClientConfig;
use msgr::{Limits, Local};
use node::{ConnectedNode, CoreEffect, Daemon};
use osd::{CoreId, Osd, OsdAddrs, OsdConfig, Placement};
use store::MemStore;
use types::{EntityAddr, EntityType, Fsid, OsdId, Profile, UTime};

const NOW: UTime = UTime { sec: 1_800_000_000, nsec: 0 };
const FSID: Fsid = Fsid([7; 16]);
const ROLES: [Role; 3] = [Role::Cluster, Role::HeartbeatBack, Role::HeartbeatFront];

fn endpoint(osd: u16, role: Role) -> Endpoint {
    Endpoint::new(Daemon::Osd(OsdId(osd.into())), role)
}

/// Of osd.N, which is on core N.
fn addr(osd: u16, role: Role) -> EntityAddr {
    let port = 6800 + 10 * osd + ROLES.iter().position(|r| *r == role).unwrap() as u16;
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 7)
}

fn core(index: u16) -> ConnectedNode {
    let mut messenger = Messenger::new(MessengerConfig {
        core: index,
        connections_max: 100,
        unfinished_bytes_max: 1 << 20,
        ready_timeout: Duration::from_secs(10),
        initial_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(15),
        peer_bytes_max: 1 << 20,
        check_in_memory: true,
        cookie_seed: index.into(),
        usage: Arc::default(),
    });
    for role in ROLES {
        let local = Local {
            kind: EntityType::Osd,
            num: index.into(),
            addrs: addr(index, role).into(),
            features_supported: Profile::PACIFIC.features_supported,
            features_required: 0,
            lossless_peers: role.lossless_peers(),
            limits: Limits::default(),
        };
        messenger.set_endpoint(endpoint(index, role), local);
    }
    let mut core = ConnectedNode::new(messenger);
    let config = OsdConfig {
        whoami: OsdId(index.into()),
        cluster_fsid: FSID,
        osd_fsid: Fsid([1 + index as u8; 16]),
        addrs: OsdAddrs::same(addr(index, Role::Cluster)),
        metadata: BTreeMap::new(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(Vec::new(), Some(FSID)),
        options: options::Values::new(),
    };
    let placement = Placement::new(vec![CoreId(index)], vec![CoreId(index)]).unwrap();
    let osd = Osd::on_core(config, CoreId(index), Arc::new(placement));
    core.node.add_osd(OsdId(index.into()), osd, Box::new(MemStore::new(1 << 20)));
    core
}

enum CrossCore {
    News(EndpointNews),
    Message(CoreMessage),
}

/// Two cores and the queues to them.
struct Cores {
    cores: [ConnectedNode; 2],
    queues: [VecDeque<CrossCore>; 2],
    /// Pings and replies that went between cores: to which, and the operation.
    pings: Vec<(u16, u8)>,
}

impl Cores {
    fn new() -> Self {
        let mut cores = Self { cores: [core(0), core(1)], queues: Default::default(), pings: Vec::new() };
        cores.run();
        cores
    }

    /// Until nothing happens any more.
    fn run(&mut self) {
        loop {
            (0..2).for_each(|index| self.settle(index));
            let Some((index, message)) = (0..2).find_map(|i| Some((i, self.queues[i].pop_front()?))) else {
                return;
            };
            match message {
                CrossCore::News(news) => self.cores[index].endpoint_news(news),
                CrossCore::Message(message) => self.cores[index].peer_message(NOW, message),
            }
        }
    }

    fn settle(&mut self, index: usize) {
        let mut effects = Vec::new();
        self.cores[index].settle(NOW, &mut effects);
        for effect in effects {
            match effect {
                CoreEffect::ToAllCores(news) => self.queues[1 - index].push_back(CrossCore::News(news)),
                CoreEffect::PeerMessage(message) => {
                    if let CoreContent::Message { message: content, .. } = &message.content
                        && let Message::OsdPing(ping) = &**content
                    {
                        self.pings.push((message.to.core, ping.op));
                    }
                    self.queues[usize::from(message.to.core)].push_back(CrossCore::Message(message));
                }
                CoreEffect::Log(..) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// osd.0 sends osd.1 a ping.
    fn ping(&mut self, role: Role) {
        let ping = OsdPing { fsid: FSID, op: OsdPing::PING, ..OsdPing::default() };
        let messenger = &mut self.cores[0].messenger;
        messenger.send_peer(NOW, endpoint(0, role), &addr(1, role).into(), ping.into()).unwrap();
        self.run();
    }
}

#[test]
fn an_osd_reaches_one_on_another_core_and_is_answered_in_memory() {
    let mut cores = Cores::new();
    for role in ROLES {
        cores.ping(role);
        assert_eq!(
            std::mem::take(&mut cores.pings),
            [(1, OsdPing::PING), (0, OsdPing::PING_REPLY)],
            "{role:?}"
        );
    }
    assert!(cores.cores.iter().all(|core| core.messenger.sockets() == 0));
}

#[test]
fn an_osd_that_has_ended_is_not_reached_in_memory() {
    let mut cores = Cores::new();
    cores.cores[1].messenger.remove_daemon(Daemon::Osd(OsdId(1)), "it ended");
    cores.run();
    let ping = OsdPing { fsid: FSID, op: OsdPing::PING, ..OsdPing::default() };
    let role = Role::HeartbeatBack;
    let messenger = &mut cores.cores[0].messenger;
    messenger.send_peer(NOW, endpoint(0, role), &addr(1, role).into(), ping.into()).unwrap();
    let mut effects = Vec::new();
    cores.cores[0].settle(NOW, &mut effects);
    assert!(
        effects.iter().all(|effect| matches!(effect, CoreEffect::Socket(_) | CoreEffect::Log(..))),
        "{effects:?}"
    );
    assert_eq!(cores.cores[0].messenger.sockets(), 1, "it may be another process by now");
}
