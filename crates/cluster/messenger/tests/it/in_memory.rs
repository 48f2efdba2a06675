//! OSDs of one process reach each other without sockets.

use crate::common::{Harness, addr, local, message, number};
use auth::SessionId;
use messenger::{Daemon, Endpoint, Role};
use types::{EntityAddr, EntityType, OsdId};

fn cluster(osd: i32) -> Endpoint {
    Endpoint::new(Daemon::Osd(OsdId(osd)), Role::Cluster)
}

fn cluster_addr(osd: i32) -> EntityAddr {
    addr(6900 + osd as u16, 5)
}

fn with_osds(osds: &[i32]) -> Harness {
    on_core(0, osds)
}

fn on_core(core: u16, osds: &[i32]) -> Harness {
    let mut harness = Harness::on_core(core, 1 << 20, 100);
    for &osd in osds {
        let mut local = local(EntityType::Osd, osd.into(), cluster_addr(osd));
        local.lossless_peers = Role::Cluster.lossless_peers();
        harness.messenger.set_endpoint(cluster(osd), local);
    }
    harness
}

fn send(harness: &mut Harness, from: i32, to: i32, n: u64) {
    let now = harness.now();
    harness.messenger.send_peer(now, cluster(from), &cluster_addr(to).into(), message(n)).unwrap();
    harness.settle();
}

/// The messengers of two cores that know of each other: osd.1 is on the first, osd.2 on the second.
fn two_cores() -> (Harness, Harness) {
    let (mut a, mut b) = (with_osds(&[1]), on_core(1, &[2]));
    a.settle();
    b.settle();
    std::mem::take(&mut a.news).into_iter().for_each(|news| b.messenger.endpoint_news(news));
    std::mem::take(&mut b.news).into_iter().for_each(|news| a.messenger.endpoint_news(news));
    (a, b)
}

/// Carries what one core has for the other.
fn carry(from: &mut Harness, to: &mut Harness) {
    for message in std::mem::take(&mut from.to_core) {
        let now = to.now();
        to.messenger.from_core(now, message);
    }
    to.settle();
}

fn numbers(harness: &Harness, session: SessionId) -> Vec<u64> {
    harness.received.iter().filter(|(s, _)| *s == session).map(|(_, m)| number(m)).collect()
}

#[test]
fn messages_between_osds_of_a_core_arrive_in_order_and_are_answered() {
    let mut harness = with_osds(&[1, 2]);
    (1..=10).for_each(|n| send(&mut harness, 1, 2, n));
    let [of_1, of_2] = [0, 1].map(|i| harness.opened[i].clone());
    assert_eq!((of_1.name.num, of_2.name.num, harness.opened.len()), (2, 1, 2));
    assert_eq!(of_2.peer_addrs, cluster_addr(1).into());
    assert_eq!(numbers(&harness, of_2.id), (1..=10).collect::<Vec<_>>());
    harness.send(of_2.id, &message(77));
    harness.settle();
    assert_eq!(numbers(&harness, of_1.id), [77]);
    // The other way it is the same session.
    send(&mut harness, 2, 1, 78);
    assert_eq!((numbers(&harness, of_1.id), harness.opened.len()), (vec![77, 78], 2));
    assert!(harness.dials.is_empty() && harness.messenger.sockets() == 0);
}

#[test]
fn a_session_in_memory_ends_on_both_sides() {
    let mut harness = with_osds(&[1, 2]);
    send(&mut harness, 1, 2, 1);
    let now = harness.now();
    harness.messenger.close_peer(now, cluster(1), &cluster_addr(2).into(), "down in the map");
    harness.settle();
    harness.closed.sort();
    assert_eq!(harness.closed, [harness.opened[0].id, harness.opened[1].id]);
    assert_eq!(harness.messenger.peers(), 0);
    send(&mut harness, 1, 2, 2);
    assert_eq!((harness.opened.len(), numbers(&harness, harness.opened[3].id)), (4, vec![2]));
}

#[test]
fn a_paused_session_in_memory_holds_what_comes() {
    let mut harness = with_osds(&[1, 2]);
    send(&mut harness, 1, 2, 1);
    let session = harness.opened[1].id;
    harness.messenger.pause(session, true);
    (2..=4).for_each(|n| send(&mut harness, 1, 2, n));
    assert_eq!(numbers(&harness, session), [1]);
    harness.messenger.pause(session, false);
    harness.settle();
    assert_eq!(numbers(&harness, session), [1, 2, 3, 4]);
}

#[test]
fn another_core_is_reached_through_the_host() {
    let (mut a, mut b) = two_cores();
    (1..=3).for_each(|n| send(&mut a, 1, 2, n));
    for message in std::mem::take(&mut a.to_core) {
        assert_eq!((message.to.core, message.from.core), (1, 0));
        let now = b.now();
        b.messenger.from_core(now, message);
    }
    b.settle();
    let session = b.opened[0].id;
    assert_eq!((numbers(&b, session), a.dials.len()), (vec![1, 2, 3], 0));
}

#[test]
fn a_message_to_an_address_that_the_osd_no_longer_has_is_dropped() {
    let (mut a, mut b) = two_cores();
    let now = b.now();
    // It has another address, and the news of that is on its way.
    b.messenger.rebind(now, cluster(2), cluster_addr(7));
    send(&mut a, 1, 2, 1);
    let now = b.now();
    b.messenger.from_core(now, a.to_core.pop().unwrap());
    b.settle();
    assert!(b.opened.is_empty() && b.received.is_empty());
    assert!(b.last_log().contains("no longer has"), "{}", b.last_log());
    let (session, now) = (a.opened[0].id, a.now());
    a.messenger.from_core(now, b.to_core.pop().unwrap());
    a.settle();
    assert_eq!(a.closed, [session], "the sender learns of the loss");
}

#[test]
fn a_peer_on_another_core_takes_no_more_than_its_window_until_its_daemon_has_taken_some() {
    let (mut a, mut b) = two_cores();
    send(&mut a, 1, 2, 0);
    carry(&mut a, &mut b);
    let session = b.opened[0].id;
    b.messenger.pause(session, true);
    let offer = |a: &mut Harness, n| {
        let now = a.now();
        a.messenger.send_peer(now, cluster(1), &cluster_addr(2).into(), message(n)).is_ok()
    };
    let sent = (1..).take_while(|n| offer(&mut a, *n)).last().unwrap();
    assert!((1000..4000).contains(&sent), "{sent} messages fit in a window of a MiB");
    a.settle();
    carry(&mut a, &mut b);
    assert_eq!(numbers(&b, session), [0]);
    assert!(a.events.is_empty() && b.to_core.is_empty(), "the daemon has taken none of them");
    b.messenger.pause(session, false);
    b.settle();
    assert_eq!(numbers(&b, session), (0..=sent).collect::<Vec<_>>());
    carry(&mut b, &mut a);
    assert_eq!(a.events, [format!("osd.1: room at {}", cluster_addr(2))]);
    assert!(offer(&mut a, sent + 1));
}

#[test]
fn a_window_in_memory_is_free_again_however_much_goes_through_it() {
    let (mut a, mut b) = two_cores();
    for n in 0..10_000 {
        send(&mut a, 1, 2, n);
        carry(&mut a, &mut b);
        carry(&mut b, &mut a);
    }
    assert_eq!(numbers(&b, b.opened[0].id).len(), 10_000);
    let owed = a.messenger.unacked_bytes(a.opened[0].id);
    assert!(owed < 1 << 18, "{owed} bytes are owed of what was taken");
}

#[test]
fn an_address_that_moved_or_ended_is_not_reached_in_memory_any_more() {
    let (mut a, mut b) = two_cores();
    let now = b.now();
    b.messenger.rebind(now, cluster(2), cluster_addr(7));
    b.settle();
    b.news.drain(..).for_each(|news| a.messenger.endpoint_news(news));
    send(&mut a, 1, 2, 1);
    assert_eq!((a.to_core.len(), a.dials.len()), (0, 1), "nothing of this process is there");
    send(&mut a, 1, 7, 1);
    assert_eq!(a.to_core.len(), 1);
    b.messenger.remove_daemon(Daemon::Osd(OsdId(2)), "it ended");
    b.settle();
    b.news.drain(..).for_each(|news| a.messenger.endpoint_news(news));
    let now = a.now();
    a.messenger.close_peer(now, cluster(1), &cluster_addr(7).into(), "it is down");
    a.settle();
    send(&mut a, 1, 7, 2);
    assert_eq!(a.dials.len(), 2);
}
