//! Sessions with other OSDs that are forgotten before they open: their daemon learns that their messages are lost.

use crate::common::{Harness, addr, local, message};
use messenger::{Daemon, Endpoint, Role};
use types::{EntityAddr, EntityType, OsdId};

const ENDPOINT: Endpoint = Endpoint { daemon: Daemon::Osd(OsdId(1)), role: Role::Cluster };

fn peer() -> EntityAddr {
    addr(6950, 9)
}

fn with_endpoint(endpoint: Endpoint) -> Harness {
    let mut harness = Harness::new();
    let mut local = local(EntityType::Osd, 1, addr(6901, 5));
    local.lossless_peers = endpoint.role.lossless_peers();
    harness.messenger.set_endpoint(endpoint, local);
    harness
}

fn send(harness: &mut Harness, from: Endpoint, to: EntityAddr, n: u64) {
    let now = harness.now();
    harness.messenger.send_peer(now, from, &to.into(), message(n)).unwrap();
    harness.settle();
}

fn close(harness: &mut Harness, from: Endpoint) {
    let now = harness.now();
    harness.messenger.close_peer(now, from, &peer().into(), "the map has another address");
    harness.settle();
}

#[test]
fn a_session_without_an_address_to_dial_is_reported_lost_with_each_message() {
    let mut harness = with_endpoint(ENDPOINT);
    let nowhere = EntityAddr { socket: None, ..peer() };
    (1..=2).for_each(|n| send(&mut harness, ENDPOINT, nowhere, n));
    let lost = format!("{}: {nowhere} lost", ENDPOINT.daemon);
    assert_eq!(harness.events, [lost.clone(), lost]);
}

#[test]
fn a_session_that_ends_while_it_is_dialled_is_reported_lost_once() {
    for role in [Role::Cluster, Role::HeartbeatBack] {
        let endpoint = Endpoint { role, ..ENDPOINT };
        let mut harness = with_endpoint(endpoint);
        (1..=3).for_each(|n| send(&mut harness, endpoint, peer(), n));
        assert_eq!(harness.dials.len(), 1);
        assert!(harness.events.is_empty(), "{:?}", harness.events);
        close(&mut harness, endpoint);
        close(&mut harness, endpoint);
        assert_eq!(harness.events, [format!("{}: {} lost", endpoint.daemon, peer())]);
        assert!(harness.closed.is_empty(), "the daemon never knew of the session");
    }
}
