//! A session from hunting to reconnecting, against a monitor played by hand.
#![allow(clippy::unwrap_used)]

use core::time::Duration;

use encoding::Encode;
use messages::{Config, Message, MonGetVersionReply, MonMap, OsdMap, Ping};
use monclient::{
    Attempt, MonClient, MonClientConfig, MonClientEffect, MonClientEvent, MonClientIo, VersionRange,
};
use types::{EntityAddr, EntityAddrVec, Epoch, Fsid, UTime};

const FSID: Fsid = Fsid([3; 16]);

fn at(ms: u64) -> UTime {
    UTime::from_nanos(1_000_000_000_000 + ms * 1_000_000)
}

fn addr(port: u16) -> EntityAddrVec {
    EntityAddr::v2(([127, 0, 0, 1], port).into(), 0).into()
}

fn client(ports: &[u16]) -> MonClient {
    MonClient::new(MonClientConfig::new(ports.iter().map(|p| addr(*p)).collect(), Some(FSID)))
}

fn monmap(fsid: Fsid, ports: &[u16]) -> Message {
    let mons = ports.iter().map(|p| (format!("m{p}"), addr(*p)));
    let mut map = maps::MonMap::new(fsid, UTime::default(), mons);
    map.epoch = Epoch(1);
    MonMap { map: map.to_bytes(!0).into() }.into()
}

fn handle(c: &mut MonClient, now: UTime, event: MonClientEvent) -> Vec<MonClientEffect> {
    let mut out = Vec::new();
    c.handle(now, event, &mut out);
    out
}

fn start(c: &mut MonClient) -> (Attempt, EntityAddrVec) {
    let mut out = Vec::new();
    c.start(at(0), &mut out);
    connects(&out).pop().expect("it connects at once")
}

fn connects(out: &[MonClientEffect]) -> Vec<(Attempt, EntityAddrVec)> {
    out.iter()
        .filter_map(|e| match e {
            MonClientEffect::Io(MonClientIo::Connect(attempt, addrs)) => Some((*attempt, addrs.clone())),
            _ => None,
        })
        .collect()
}

fn sent(out: &[MonClientEffect]) -> Vec<Message> {
    out.iter()
        .filter_map(|e| match e {
            MonClientEffect::Io(MonClientIo::Send(_, message)) => Some(message.clone()),
            _ => None,
        })
        .collect()
}

fn is_ready(out: &[MonClientEffect]) -> bool {
    out.iter().any(|e| matches!(e, MonClientEffect::Ready))
}

/// Brings a session to where it is ready.
fn open(c: &mut MonClient, attempt: Attempt, now: UTime) -> Vec<MonClientEffect> {
    let mut out = handle(c, now, MonClientEvent::Connected(attempt));
    out.extend(handle(c, now, MonClientEvent::Message(attempt, monmap(FSID, &[1, 2]))));
    out.extend(handle(c, now, MonClientEvent::Message(attempt, Config::default().into())));
    out
}

#[test]
fn a_session_is_ready_when_map_and_configuration_have_come_and_not_before() {
    let mut c = client(&[1, 2]);
    let (attempt, to) = start(&mut c);
    assert_eq!(to, addr(1));
    let out = handle(&mut c, at(1), MonClientEvent::Connected(attempt));
    let names: Vec<_> = sent(&out).iter().map(|m| m.name()).collect();
    assert_eq!(names, ["MMonGetMap", "MMonSubscribe"]);
    let out = handle(&mut c, at(2), MonClientEvent::Message(attempt, Config::default().into()));
    assert!(!is_ready(&out));
    let out = handle(&mut c, at(3), MonClientEvent::Message(attempt, monmap(FSID, &[1, 2])));
    assert!(is_ready(&out) && c.is_ready());
    let out = handle(&mut c, at(4), MonClientEvent::Message(attempt, Config::default().into()));
    assert!(!is_ready(&out), "said once a session");
}

#[test]
fn what_is_sent_before_goes_out_when_it_is_ready() {
    let mut c = client(&[1]);
    let (attempt, _) = start(&mut c);
    let mut out = Vec::new();
    c.send(Ping::default().into(), &mut out);
    let handle_ = c.get_version("osdmap", &mut out);
    assert!(out.is_empty());
    let out = open(&mut c, attempt, at(1));
    let names: Vec<_> = sent(&out).iter().map(|m| m.name()).collect();
    assert_eq!(names, ["MMonGetMap", "MMonSubscribe", "MMonGetVersion", "MPing"]);
    let reply = MonGetVersionReply { handle: handle_, version: 9, oldest_version: 2 };
    let out = handle(&mut c, at(2), MonClientEvent::Message(attempt, reply.clone().into()));
    assert!(
        matches!(out[..], [MonClientEffect::Version(h, VersionRange { newest: 9, oldest: 2 })] if h == handle_)
    );
    assert!(
        handle(&mut c, at(3), MonClientEvent::Message(attempt, reply.into())).is_empty(),
        "answered once"
    );
}

#[test]
fn a_lost_session_is_replaced_and_told_every_subscription_from_where_it_stood() {
    let mut c = client(&[1, 2]);
    let (attempt, _) = start(&mut c);
    open(&mut c, attempt, at(1));
    let mut out = Vec::new();
    c.subscriptions().want("osdmap", 5, 0);
    c.renew(&mut out);
    assert_eq!(sent(&out).len(), 1);
    c.subscriptions().got("osdmap", 7);
    let out = handle(&mut c, at(2), MonClientEvent::Disconnected(attempt, "reset".into()));
    assert!(out.iter().any(|e| matches!(e, MonClientEffect::Lost)));
    let (second, to) = connects(&out)[0].clone();
    assert_eq!(to, addr(2), "another one first");
    let out = open(&mut c, second, at(3));
    let Message::MonSubscribe(m) = &sent(&out)[1] else { panic!() };
    let starts: Vec<_> = m.what.iter().map(|(k, s)| (k.as_str(), s.start)).collect();
    assert_eq!(starts, [("config", 0), ("monmap", 2), ("osdmap", 8)]);
    assert!(is_ready(&out));
}

#[test]
fn a_monitor_that_does_not_answer_is_left_for_the_next_one() {
    let mut c = client(&[1, 2]);
    let (attempt, _) = start(&mut c);
    let due = c.deadline().unwrap();
    assert_eq!(due, at(3000));
    let out = handle(&mut c, due, MonClientEvent::Tick);
    assert!(matches!(out[1], MonClientEffect::Io(MonClientIo::Disconnect(a)) if a == attempt), "{out:?}");
    let (second, to) = connects(&out)[0].clone();
    assert_eq!(to, addr(2));
    assert!(handle(&mut c, due, MonClientEvent::Connected(attempt)).is_empty(), "too late");
    assert!(handle(&mut c, due, MonClientEvent::Disconnected(attempt, "late".into())).is_empty());
    assert!(!handle(&mut c, due, MonClientEvent::Connected(second)).is_empty());
}

#[test]
fn refused_by_all_it_pauses_and_tries_again() {
    let mut c = client(&[1, 2]);
    let (first, _) = start(&mut c);
    let out = handle(&mut c, at(0), MonClientEvent::Disconnected(first, "refused".into()));
    let (second, _) = connects(&out)[0].clone();
    let out = handle(&mut c, at(0), MonClientEvent::Disconnected(second, "refused".into()));
    assert!(connects(&out).is_empty());
    assert_eq!(c.deadline(), Some(at(100)));
    assert!(handle(&mut c, at(99), MonClientEvent::Tick).is_empty());
    assert_eq!(connects(&handle(&mut c, at(100), MonClientEvent::Tick))[0].1, addr(1));
}

#[test]
fn a_monitor_of_another_cluster_or_with_a_map_of_garbage_is_left() {
    for map in [monmap(Fsid([4; 16]), &[1]), MonMap { map: vec![1, 2, 3].into() }.into()] {
        let mut c = client(&[1, 2]);
        let (attempt, _) = start(&mut c);
        handle(&mut c, at(1), MonClientEvent::Connected(attempt));
        let out = handle(&mut c, at(2), MonClientEvent::Message(attempt, map));
        assert_eq!(connects(&out)[0].1, addr(2));
        assert!(!out.iter().any(|e| matches!(e, MonClientEffect::Deliver(_))));
    }
}

#[test]
fn monitors_that_the_map_names_are_hunted_too() {
    let mut c = client(&[1]);
    let (attempt, _) = start(&mut c);
    open(&mut c, attempt, at(1));
    let out = handle(&mut c, at(2), MonClientEvent::Disconnected(attempt, "gone".into()));
    let (next, first) = connects(&out)[0].clone();
    let out = handle(&mut c, at(2), MonClientEvent::Disconnected(next, "gone".into()));
    let second = connects(&out)[0].1.clone();
    assert_eq!([first, second], [addr(1), addr(2)]);
}

#[test]
fn a_silent_monitor_is_pinged_and_then_left_where_pings_are_on() {
    let mut config = MonClientConfig::new(vec![addr(1), addr(2)], Some(FSID));
    config.ping_interval = Duration::from_secs(10);
    let mut c = MonClient::new(config);
    let (attempt, _) = start(&mut c);
    open(&mut c, attempt, at(0));
    let out = handle(&mut c, at(10_000), MonClientEvent::Tick);
    assert!(matches!(out[..], [MonClientEffect::Io(MonClientIo::Keepalive(a))] if a == attempt));
    handle(&mut c, at(11_000), MonClientEvent::KeepaliveAcked(attempt));
    for ms in [20_000, 30_000, 40_000] {
        assert!(connects(&handle(&mut c, at(ms), MonClientEvent::Tick)).is_empty());
    }
    assert_eq!(connects(&handle(&mut c, at(41_000), MonClientEvent::Tick))[0].1, addr(2));
}

#[test]
fn without_pings_an_idle_session_needs_no_ticks() {
    let mut c = client(&[1]);
    let (attempt, _) = start(&mut c);
    open(&mut c, attempt, at(0));
    assert_eq!(c.deadline(), None);
    assert!(handle(&mut c, at(10_000_000), MonClientEvent::Tick).is_empty());
}

#[test]
fn messages_of_a_session_that_is_over_are_ignored() {
    let mut c = client(&[1, 2]);
    let (attempt, _) = start(&mut c);
    open(&mut c, attempt, at(0));
    handle(&mut c, at(1), MonClientEvent::Disconnected(attempt, "gone".into()));
    assert!(handle(&mut c, at(2), MonClientEvent::Message(attempt, OsdMap::default().into())).is_empty());
}
