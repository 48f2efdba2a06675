//! Room for another connection where the process may open no more files.

use std::time::Duration;

use crate::common::{Client, Harness, addr, local, message, mon, osd};
use messenger::{Daemon, Endpoint, Role, SocketId};
use types::{EntityType, OsdId};

const SECOND: Duration = Duration::from_secs(1);

/// What ends next to make room.
fn ends(harness: &mut Harness) -> Option<SocketId> {
    let before = harness.ended.len();
    let made = harness.messenger.make_room(harness.now());
    harness.settle();
    let ended: Vec<SocketId> = harness.ended[before..].iter().map(|(id, _)| *id).collect();
    assert_eq!(ended.len(), usize::from(made));
    ended.first().copied()
}

fn say(harness: &mut Harness, client: &mut Client) {
    client.send(&message(1));
    client.exchange(harness);
}

#[test]
fn what_waits_longest_for_its_handshake_ends_first_and_then_the_quietest_client() {
    let mut harness = Harness::new();
    let mut clients: Vec<Client> =
        (0..3).map(|n| harness.client(if n == 1 { mon() } else { osd() })).collect();
    harness.pass(SECOND);
    let unready = [harness.accept(mon()).unwrap(), harness.accept(osd()).unwrap()];
    say(&mut harness, &mut clients[0]);
    harness.pass(SECOND / 2);
    // A handshake may take a moment.
    let fresh = harness.accept(osd()).unwrap();
    harness.pass(SECOND / 2);
    assert_eq!(ends(&mut harness), Some(unready[0]));
    assert!(harness.last_log().contains("may open no more files"), "{}", harness.last_log());
    assert_eq!(ends(&mut harness), Some(unready[1]));
    assert_eq!(ends(&mut harness), Some(clients[1].socket));
    assert_eq!(ends(&mut harness), Some(clients[2].socket));
    assert_eq!(harness.closed.len(), 2, "their daemons know");
    assert_eq!(ends(&mut harness), Some(clients[0].socket), "heard from last");
    assert_eq!(ends(&mut harness), None, "{fresh} is new");
    harness.pass(SECOND / 2);
    assert_eq!(ends(&mut harness), Some(fresh));
}

#[test]
fn a_client_in_the_middle_of_something_does_not_end() {
    let mut harness = Harness::new();
    let mut talks = harness.client(osd());
    let mut sends = harness.client(osd());
    let behind = harness.client(osd());
    let paused = harness.client(osd());
    harness.pass(SECOND);
    say(&mut harness, &mut talks);
    sends.send(&messages::Command { data: buffer::Rope::zeros(100_000), ..Default::default() }.into());
    harness.read_all(sends.socket, &sends.to_send[..50_000]);
    let session = behind.session(&harness);
    harness.send(session, &message(1));
    harness.settle();
    harness.messenger.pause(paused.session(&harness), true);
    harness.settle();
    assert_eq!(ends(&mut harness), None, "one has just been heard");
    harness.pass(2 * SECOND);
    assert_eq!(ends(&mut harness), Some(talks.socket));
    assert_eq!(ends(&mut harness), None, "{:?}", harness.log);
}

#[test]
fn connections_of_osds_and_monitors_stay() {
    let mut harness = Harness::new();
    for kind in [EntityType::Osd, EntityType::Mon, EntityType::Mgr] {
        harness.peer(kind, mon());
        harness.peer(kind, osd());
    }
    let peers = Endpoint::new(Daemon::Osd(OsdId(0)), Role::HeartbeatBack);
    harness.messenger.set_endpoint(peers, local(EntityType::Osd, 0, addr(6802, 5)));
    harness.accept(peers).unwrap();
    harness.pass(5 * SECOND);
    assert_eq!(ends(&mut harness), None, "{:?}", harness.log);
}
