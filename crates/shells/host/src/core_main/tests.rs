//! Two cores of a process in one thread: what goes between them goes through their queues.

use std::collections::BTreeMap;

use messages::OsdPing;
use monclient::MonClientConfig;
use osd::OsdAddrs;
use store::MemStore;

use super::*;
use crate::delay::DispatchDelay;
use runtime::Clock;

const FSID: Fsid = Fsid([7; 16]);
const ROLE: Role = Role::HeartbeatFront;

fn endpoint(osd: u16) -> Endpoint {
    Endpoint::new(Daemon::Osd(OsdId(osd.into())), ROLE)
}

fn addr(osd: u16) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 6800 + osd).into(), 7)
}

/// A core that has the OSD of its number.
fn core(index: u16, shared: &Arc<Shared>, cores: &[UnboundedSender<CoreCommand>]) -> Rc<Core> {
    let config = MessengerConfig {
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
    };
    let core = Core::new(shared.clone(), config, cores.to_vec());
    let local = local(EntityType::Osd, index.into(), ROLE, addr(index), &Values::new());
    core.set_endpoint(endpoint(index), local);
    let config = OsdConfig {
        whoami: OsdId(index.into()),
        cluster_fsid: FSID,
        osd_fsid: Fsid([1 + index as u8; 16]),
        addrs: OsdAddrs::same(addr(index)),
        metadata: BTreeMap::new(),
        profile: Profile::PACIFIC,
        monitors: MonClientConfig::new(Vec::new(), Some(FSID)),
        options: Values::new(),
    };
    let here = CoreId(index);
    let placement = Placement::new(vec![here], vec![here]).map(Arc::new);
    let Some(placement) = placement else { panic!("a placement of one core") };
    core.node().add_osd(
        config.whoami,
        Osd::on_core(config, here, placement),
        Box::new(MemStore::new(1 << 20)),
    );
    core
}

#[test]
fn osds_on_two_cores_reach_each_other_through_the_cores_queues() {
    let (reports, failures) = std::sync::mpsc::channel();
    let shared = Arc::new(Shared {
        clock: Clock::start(),
        delay: DispatchDelay::of(&Values::new()),
        listen_backlog: 16,
        reports,
        osds: Default::default(),
    });
    let (senders, mut queues): (Vec<_>, Vec<_>) = (0..2).map(|_| unbounded_channel()).unzip();
    let cores: Vec<_> = (0..2).map(|index| core(index, &shared, &senders)).collect();
    let mut batches = 0;
    let mut run = || {
        cores.iter().for_each(|core| core.settle());
        while let Some((index, command)) =
            (0..2).find_map(|index| Some((index, queues[index].try_recv().ok()?)))
        {
            match command {
                CoreCommand::FromCore(messages) => cores[index].take_from_core(messages),
                _ => panic!("a command that no core gave"),
            }
            batches += 1;
        }
        std::mem::take(&mut batches)
    };
    assert_eq!(run(), 2, "each core learns where the other's OSD is");
    let ping = OsdPing { fsid: FSID, op: OsdPing::PING, ..OsdPing::default() };
    let sent = cores[0].messenger().send_peer(cores[0].now(), endpoint(0), &addr(1).into(), ping.into());
    assert!(sent.is_ok());
    assert_eq!(run(), 2, "the ping and its answer");
    assert!(cores.iter().all(|core| core.messenger().peers() == 1 && core.messenger().sockets() == 0));
    assert!(failures.try_recv().is_err(), "no core reports a failure");
}
