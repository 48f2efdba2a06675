//! Watches and notifies of a PG's objects, held against Ceph's Watch.cc and PrimaryLogPG's do_osd_op_effects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::common::{
    ME, Rig, append, client_addr, create, delete, map, message, osdmap, read, stat, write_full,
};
use auth::SessionId;
use encoding::{Decoder, Encoder};
use messages::osd_op::OpConst;
use messages::{Blob, Op, OpArgs, OpCode, OsdOpReply, WatchNotify};
use pg::{MapView, PgConfig, PgEvent, SetAside};
use types::{AddrType, EntityAddr, EntityName, EntityType, Errno, SplitMix64, UTime};

const WATCHER: u64 = 1;
const NOTIFIER: u64 = 2;
const COOKIE: u64 = 94;
const TIMEOUT: u32 = 30;

fn watch(action: u32, cookie: u64, timeout: u32) -> Op {
    let args = OpArgs::Watch { cookie, ver: 0, op: action as u8, generation: 0, timeout };
    Op::new(OpCode::WATCH, args)
}

fn begin() -> Op {
    watch(OpConst::WATCH_WATCH, COOKIE, TIMEOUT)
}

fn reconnect() -> Op {
    watch(OpConst::WATCH_RECONNECT, COOKIE, TIMEOUT)
}

fn ping() -> Op {
    watch(OpConst::WATCH_PING, COOKIE, 0)
}

fn notify(timeout: u32) -> Op {
    let mut e = Encoder::new(0);
    e.put(&1u32).put(&timeout).blob(b"news");
    Op::new(OpCode::NOTIFY, OpArgs::Notify { cookie: 5 }).with_indata(e.into_bytes())
}

fn ack(id: u64, cookie: u64) -> Op {
    let mut e = Encoder::new(0);
    e.put(&id).put(&cookie).blob(b"yes");
    Op::new(OpCode::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }).with_indata(e.into_bytes())
}

fn list() -> Op {
    Op::new(OpCode::LIST_WATCHERS, OpArgs::none())
}

/// How many watchers an object has.
fn watchers(rig: &mut Rig, oid: &str) -> u32 {
    let reply = rig.ask_on(9, oid, vec![list()]);
    listed(&reply)
}

fn listed(reply: &OsdOpReply) -> u32 {
    assert_eq!(reply.result, 0);
    let bytes = reply.ops[0].outdata.to_vec();
    u32::from_le_bytes(bytes[6..10].try_into().unwrap())
}

/// The number that a NOTIFY has got.
fn id_of(reply: &OsdOpReply) -> u64 {
    assert_eq!(reply.result, 0);
    u64::from_le_bytes(reply.ops[0].outdata.to_vec().try_into().unwrap())
}

type Answers = (BTreeMap<(u64, u64), Blob>, Vec<(u64, u64)>);

/// What the watchers have answered, and who has not.
fn answers(complete: &WatchNotify) -> Answers {
    let bytes = complete.data.to_piece();
    let d = &mut Decoder::new(&bytes);
    let answers = (d.get().unwrap(), d.get().unwrap());
    d.finish().unwrap();
    answers
}

/// An object "a" that [`WATCHER`] watches.
fn watched() -> Rig {
    let mut rig = Rig::new();
    assert_eq!(rig.ask_on(WATCHER, "a", vec![create(), begin()]).result, 0);
    assert_eq!(rig.watching, BTreeSet::from([WATCHER]));
    rig
}

fn disconnected(cookie: u64) -> WatchNotify {
    WatchNotify { opcode: WatchNotify::DISCONNECT, cookie, ..Default::default() }
}

fn codes(rig: &Rig) -> Vec<(u64, u8)> {
    rig.sent.iter().map(|(session, message)| (*session, message.opcode)).collect()
}

#[test]
fn a_notify_reaches_the_watcher_and_its_answer_the_notifier() {
    let mut rig = watched();
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    let expected = WatchNotify {
        opcode: WatchNotify::NOTIFY,
        cookie: COOKIE,
        ver: 1,
        notify_id: id,
        payload: b"news"[..].into(),
        notifier_gid: 4123,
        ..Default::default()
    };
    let (to, message) = rig.sent.remove(0);
    assert_eq!((to, WatchNotify { ver: 1, ..message.clone() }), (WATCHER, expected));
    assert!(rig.sent.is_empty());
    assert_eq!(rig.ask_on(WATCHER, "a", vec![ack(id, COOKIE)]).result, 0);
    let (to, complete) = rig.sent.remove(0);
    let is = (complete.opcode, complete.cookie, complete.notify_id, complete.return_code);
    assert_eq!((to, is), (NOTIFIER, (WatchNotify::NOTIFY_COMPLETE, 5, id, 0)));
    assert_eq!(answers(&complete), ([((4123, COOKIE), b"yes"[..].into())].into(), vec![]));
    assert_eq!(complete.ver, message.ver, "the object's version as users see it");
    assert!(rig.sent.is_empty());
}

#[test]
fn a_notify_without_watchers_is_over_at_once() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    let (to, complete) = rig.sent.remove(0);
    assert_eq!((to, complete.notify_id, complete.return_code), (NOTIFIER, id, 0));
    assert_eq!(answers(&complete), Default::default());
    assert_eq!(rig.pg.deadline(), None);
    assert_eq!(rig.ask("none", vec![notify(10)]).result, Errno::ENOENT.code());
}

#[test]
fn no_two_notifies_have_the_same_number() {
    let mut rig = watched();
    let first = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    let second = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    rig.crash();
    let third = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    assert!(first < second && second < third, "{first} {second} {third}");
}

#[test]
fn a_watch_is_connected_when_it_is_durable() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    let op = rig.message("a", vec![begin()]);
    rig.send_on(WATCHER, op);
    rig.deliver_reads();
    assert!(rig.watching.is_empty() && rig.replies.is_empty());
    rig.settle();
    assert_eq!((rig.watching.len(), rig.replies.len()), (1, 1));
}

#[test]
fn a_watch_that_the_store_refuses_is_none() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    rig.refuse_next();
    assert_eq!(rig.ask_on(WATCHER, "a", vec![begin()]).result, Errno::ENOSPC.code());
    assert!(rig.watching.is_empty());
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn a_watch_whose_session_ends_before_it_is_durable_waits_for_its_client() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    let op = rig.message("a", vec![begin()]);
    rig.send_on(WATCHER, op);
    rig.deliver_reads();
    rig.reset(WATCHER);
    rig.settle();
    assert!(rig.watching.is_empty());
    assert_eq!(watchers(&mut rig, "a"), 1);
    assert_eq!(rig.ask_on(3, "a", vec![reconnect()]).result, 0);
    assert_eq!(rig.watching, BTreeSet::from([3]));
    rig.reset(3);
    rig.pass(TIMEOUT + 1);
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn a_watch_that_connects_again_gets_the_notifies_that_it_has_not_answered() {
    let mut rig = watched();
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(20)]));
    rig.reset(WATCHER);
    assert_eq!(rig.ask_on(3, "a", vec![ping()]).result, Errno::ETIMEDOUT.code());
    let later = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(20)]));
    assert_eq!(codes(&rig), [(WATCHER, WatchNotify::NOTIFY)], "a session that has ended is sent nothing");
    rig.sent.clear();
    assert_eq!(rig.ask_on(3, "a", vec![reconnect()]).result, 0);
    let sent: Vec<_> = rig.sent.iter().map(|(to, message)| (*to, message.notify_id)).collect();
    assert_eq!(sent, [(3, id), (3, later)]);
    assert_eq!(rig.ask_on(3, "a", vec![ping()]).result, 0);
    rig.sent.clear();
    assert_eq!(rig.ask_on(3, "a", vec![reconnect()]).result, 0);
    assert!(rig.sent.is_empty(), "it is connected");
}

#[test]
fn a_notify_that_is_not_answered_in_time_says_who_has_missed_it() {
    let mut rig = watched();
    rig.ask_on(3, "a", vec![watch(OpConst::WATCH_WATCH, 95, 1000)]);
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    rig.ask_on(3, "a", vec![ack(id, 95)]);
    rig.sent.clear();
    rig.pass(12);
    let (to, complete) = rig.sent.remove(0);
    assert_eq!((to, complete.return_code), (NOTIFIER, Errno::ETIMEDOUT.code()));
    assert_eq!(answers(&complete), ([((4123, 95), b"yes"[..].into())].into(), vec![(4123, COOKIE)]));
    assert_eq!(rig.ask_on(WATCHER, "a", vec![ack(id, COOKIE)]).result, 0, "too late, and harmless");
    assert!(rig.sent.is_empty());
}

#[test]
fn a_watch_without_pings_ends() {
    let mut rig = watched();
    let before = rig.ask("a", vec![stat()]);
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(1000)]));
    rig.sent.clear();
    rig.pass(TIMEOUT + 1);
    assert_eq!(rig.sent.remove(0), (WATCHER, disconnected(COOKIE)));
    let (to, complete) = rig.sent.remove(0);
    assert_eq!((to, complete.notify_id, complete.return_code), (NOTIFIER, id, 0));
    assert_eq!(answers(&complete), Default::default(), "who is gone has missed nothing");
    assert!(rig.watching.is_empty() && rig.pg.deadline().is_none());
    assert_eq!(watchers(&mut rig, "a"), 0);
    assert_eq!(rig.ask("a", vec![stat()]).user_version, before.user_version);
    rig.crash();
    assert_eq!(watchers(&mut rig, "a"), 0, "durably");
}

#[test]
fn pings_keep_a_watch() {
    let mut rig = watched();
    for _ in 0..5 {
        rig.pass(TIMEOUT - 10);
        assert_eq!(rig.ask_on(WATCHER, "a", vec![ping()]).result, 0);
    }
    assert_eq!(watchers(&mut rig, "a"), 1);
    rig.pass(TIMEOUT + 1);
    assert_eq!(rig.ask_on(WATCHER, "a", vec![ping()]).result, Errno::ENOTCONN.code());
}

#[test]
fn a_legacy_watch_lasts_as_long_as_its_session() {
    let mut rig = Rig::new();
    rig.ask_on(WATCHER, "a", vec![create(), watch(OpConst::WATCH_LEGACY_WATCH, COOKIE, TIMEOUT)]);
    rig.pass(10 * TIMEOUT);
    assert_eq!(watchers(&mut rig, "a"), 1);
    rig.reset(WATCHER);
    rig.pass(TIMEOUT - 10);
    assert_eq!(watchers(&mut rig, "a"), 1);
    rig.pass(20);
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn a_watch_that_its_client_ends_is_gone() {
    let mut rig = watched();
    rig.ask_on(NOTIFIER, "a", vec![notify(1000)]);
    rig.sent.clear();
    assert_eq!(rig.ask_on(WATCHER, "a", vec![watch(OpConst::WATCH_UNWATCH, COOKIE, 0)]).result, 0);
    assert_eq!(codes(&rig), [(NOTIFIER, WatchNotify::NOTIFY_COMPLETE)]);
    assert!(rig.watching.is_empty() && rig.pg.deadline().is_none());
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn the_watchers_of_an_object_that_is_removed_learn_of_it() {
    let mut rig = watched();
    rig.ask_on(NOTIFIER, "a", vec![delete()]);
    assert_eq!(rig.sent, [(WATCHER, disconnected(COOKIE))]);
    assert!(rig.watching.is_empty() && rig.pg.deadline().is_none());
}

#[test]
fn after_a_restart_watches_wait_for_their_clients() {
    let mut rig = watched();
    rig.crash();
    assert_eq!(rig.pg.deadline(), None, "the object was not looked at");
    assert_eq!(rig.ask_on(3, "a", vec![ping()]).result, Errno::ETIMEDOUT.code());
    let id = id_of(&rig.ask_on(NOTIFIER, "a", vec![notify(10)]));
    assert!(rig.sent.is_empty());
    assert_eq!(rig.ask_on(3, "a", vec![reconnect()]).result, 0);
    assert_eq!((rig.sent[0].0, rig.sent[0].1.notify_id), (3, id));
    rig.crash();
    assert_eq!(watchers(&mut rig, "a"), 1);
    rig.pass(TIMEOUT + 1);
    assert_eq!(watchers(&mut rig, "a"), 0, "its client did not come");
}

#[test]
fn an_interval_that_ends_takes_notifies_with_it_and_watches_connect_again() {
    let mut rig = watched();
    rig.ask_on(NOTIFIER, "a", vec![notify(10)]);
    let op = rig.message("a", vec![watch(OpConst::WATCH_WATCH, 95, TIMEOUT)]);
    rig.send_on(3, op);
    rig.sent.clear();
    let mut next = map(rig.epoch + 1, &[0]);
    next.pool.size = 2;
    rig.event(PgEvent::AdvanceMap(Box::new(next)));
    assert!(rig.watching.is_empty());
    rig.settle();
    assert!(rig.watching.is_empty(), "the request was of the interval that has ended");
    rig.epoch += 1;
    assert!(rig.sent.is_empty());
    assert_eq!(rig.ask_on(WATCHER, "a", vec![reconnect()]).result, 0);
    assert_eq!(watchers(&mut rig, "a"), 2);
    rig.pass(TIMEOUT - 15);
    rig.ask_on(WATCHER, "a", vec![ping()]);
    rig.pass(20);
    assert_eq!(watchers(&mut rig, "a"), 1, "one has come again");
}

fn blocklist(rig: &mut Rig) -> MapView {
    rig.epoch += 1;
    let mut view = map(rig.epoch, &[0]);
    let mut osdmap = osdmap(rig.epoch);
    let client = EntityAddr { kind: AddrType::Any, ..client_addr() };
    osdmap.blocklist.insert(client, UTime { sec: 1 << 30, nsec: 0 });
    view.osdmap = Arc::new(osdmap);
    view
}

/// A client asks that [`blocklist`] does not shut out.
fn another_asks(rig: &mut Rig, oid: &str, op: Op) -> OsdOpReply {
    rig.event(PgEvent::ClientOp(
        pg::ClientOp {
            session: SessionId(9),
            source: EntityName::new(EntityType::Client, 4200),
            addrs: Default::default(),
            features: u64::MAX,
            caps: auth::Caps::all(),
            op: Box::new(message(700, rig.epoch, oid, vec![op])),
        },
        SetAside::default(),
    ));
    rig.settle();
    rig.replies.pop().unwrap().1
}

#[test]
fn the_watches_of_a_client_that_a_map_shuts_out_end_at_once() {
    for is_told in [true, false] {
        let mut rig = watched();
        rig.ask_on(NOTIFIER, "a", vec![notify(1000)]);
        rig.sent.clear();
        let view = blocklist(&mut rig);
        match is_told {
            true => rig.event(PgEvent::AdvanceMap(Box::new(view))),
            false => rig.pg.pass_map(&view.osdmap),
        }
        rig.pass(0);
        assert_eq!(
            codes(&rig),
            [(WATCHER, WatchNotify::DISCONNECT), (NOTIFIER, WatchNotify::NOTIFY_COMPLETE)]
        );
        assert!(rig.watching.is_empty() && rig.pg.deadline().is_none());
    }
}

#[test]
fn a_watch_of_a_client_that_is_shut_out_ends_when_its_object_is_read() {
    let mut rig = watched();
    rig.crash();
    let view = blocklist(&mut rig);
    rig.event(PgEvent::AdvanceMap(Box::new(view)));
    assert_eq!(rig.pg.deadline(), None);
    rig.epoch += 1;
    rig.event(PgEvent::AdvanceMap(Box::new(map(rig.epoch, &[0]))));
    let again = blocklist(&mut rig);
    rig.event(PgEvent::AdvanceMap(Box::new(again)));
    another_asks(&mut rig, "a", stat());
    rig.pass(0);
    assert_eq!(rig.pg.deadline(), None, "it is not waited for");
    assert!(rig.trace.iter().any(|effect| effect.contains("Queue")), "its removal is written");
}

#[test]
fn a_map_from_before_a_watch_does_not_end_it() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    rig.epoch = 20;
    rig.advance(20, &[0]);
    rig.ask_on(WATCHER, "a", vec![begin()]);
    // The store's first map is an older one, by which the client is shut out.
    rig.epoch = 6;
    rig.crash();
    let old = blocklist(&mut rig);
    rig.event(PgEvent::AdvanceMap(Box::new(old)));
    for _ in 0..2 {
        assert_eq!(listed(&another_asks(&mut rig, "a", list())), 1);
        rig.pass(1);
    }
    rig.epoch = 20;
    let new = blocklist(&mut rig);
    rig.event(PgEvent::AdvanceMap(Box::new(new)));
    rig.pass(1);
    assert_eq!(listed(&another_asks(&mut rig, "a", list())), 0);
}

#[test]
fn the_end_of_a_watch_waits_for_the_requests_that_have_its_object() {
    let mut rig = Rig::new();
    rig.ask_on(WATCHER, "a", vec![write_full(b"data"), watch(OpConst::WATCH_WATCH, COOKIE, 4)]);
    let op = rig.message("a", vec![read(0, 4), append(b"x")]);
    rig.send_on(NOTIFIER, op);
    assert_eq!(rig.reads_due(), 1, "the writer is parked");
    rig.sent.clear();
    for _ in 0..8 {
        rig.event(PgEvent::Tick);
    }
    assert_eq!((rig.uncommitted(), rig.reads_due()), (0, 1));
    rig.settle();
    assert_eq!(rig.sent, [(WATCHER, disconnected(COOKIE))]);
    assert_eq!(rig.contents("a").unwrap(), b"datax");
}

#[test]
fn a_watch_ends_of_an_object_whose_metadata_are_not_in_memory() {
    let config = PgConfig { object_contexts_idle_max: 0, ..PgConfig::default() };
    let mut rig = Rig::with_config(config);
    rig.ask_on(WATCHER, "a", vec![create(), begin()]);
    (0..3).for_each(|n| drop(rig.ask("b", vec![append(&[n])])));
    rig.pg.evict_contexts(0);
    rig.pg.evict_contexts(0);
    assert_eq!(rig.pg.load_counts().0, 0);
    rig.pass(TIMEOUT + 1);
    assert_eq!(rig.sent, [(WATCHER, disconnected(COOKIE))]);
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn a_watch_whose_removal_the_store_refuses_is_removed_later() {
    let mut rig = watched();
    rig.refuse_next();
    rig.pass(TIMEOUT + 1);
    assert!(rig.sent.is_empty());
    assert_eq!(watchers(&mut rig, "a"), 1);
    rig.pass(TIMEOUT + 1);
    assert_eq!(rig.sent, [(WATCHER, disconnected(COOKIE))]);
    assert_eq!(watchers(&mut rig, "a"), 0);
}

#[test]
fn a_request_that_repeats_a_watch_is_answered_from_the_log() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create()]);
    let op = rig.message("a", vec![begin()]);
    assert_eq!(rig.ask_message(op.clone()).result, 0);
    rig.reset(1);
    assert_eq!(rig.ask_message(op).result, 0);
    assert!(rig.watching.is_empty(), "its client connects again with a request of its own");
}

#[test]
fn what_notifies_hold_is_bounded() {
    let mut config = PgConfig::default();
    config.ops.notify_bytes_max = 1000;
    let mut rig = Rig::with_config(config);
    rig.ask_on(WATCHER, "a", vec![create(), begin()]);
    let results: Vec<i32> = (0..5).map(|_| rig.ask_on(NOTIFIER, "a", vec![notify(20)]).result).collect();
    assert_eq!(results, [0, 0, 0, 0, Errno::ENOMEM.code()]);
    rig.pass(25);
    assert_eq!(rig.ask_on(NOTIFIER, "a", vec![notify(20)]).result, 0);
}

/// A client of the model, which has one watch of each object.
struct Client {
    session: Option<u64>,
    /// The objects that it believes it watches.
    watches: BTreeSet<&'static str>,
}

/// Clients watch, ping, notify, answer or don't, lose their sessions; the PG loses its interval, its power and its
/// store. Each notify that was begun in an interval that lasts ends once, and when the clients have gone no watch is left.
fn model(seed: u64) {
    const OBJECTS: [&str; 3] = ["a", "b", "c"];
    let mut rng = SplitMix64::new(seed);
    let mut rig = Rig::new();
    OBJECTS.iter().for_each(|oid| drop(rig.ask(oid, vec![create()])));
    let (mut next_session, mut begun) = (100, BTreeSet::new());
    let mut clients: Vec<Client> =
        (0..3).map(|_| Client { session: None, watches: BTreeSet::new() }).collect();
    for _ in 0..200 {
        let at = rng.below(3) as usize;
        let client = &mut clients[at];
        rig.source = EntityName::new(EntityType::Client, 5000 + at as i64);
        let session = *client.session.get_or_insert_with(|| {
            next_session += 1;
            next_session
        });
        let oid = OBJECTS[rng.below(3) as usize];
        let timeout = 5 + rng.below(30) as u32;
        match rng.below(12) {
            0..3 => {
                let action =
                    if rng.below(4) == 0 { OpConst::WATCH_LEGACY_WATCH } else { OpConst::WATCH_WATCH };
                if rig.ask_on(session, oid, vec![create(), watch(action, at as u64, timeout)]).result == 0 {
                    client.watches.insert(oid);
                }
            }
            3 => drop(rig.ask_on(session, oid, vec![watch(OpConst::WATCH_UNWATCH, at as u64, 0)])),
            4 => drop(rig.ask_on(session, oid, vec![watch(OpConst::WATCH_RECONNECT, at as u64, timeout)])),
            5 => drop(rig.ask_on(session, oid, vec![watch(OpConst::WATCH_PING, at as u64, 0)])),
            6..8 => {
                let reply = rig.ask_on(session, oid, vec![notify(timeout)]);
                if reply.result == 0 {
                    assert!(begun.insert(id_of(&reply)), "a number is used twice");
                }
            }
            8 => {
                let op = rig.message(oid, vec![watch(OpConst::WATCH_WATCH, at as u64, timeout)]);
                rig.send_on(session, op);
                client.session = None;
                rig.reset(session);
                rig.settle();
                rig.replies.clear();
            }
            9 => rig.pass(rng.below(20) as u32),
            10 => match rng.below(5) {
                0 => {
                    rig.crash();
                    begun.clear();
                }
                1 => {
                    rig.epoch += 1;
                    let mut next = map(rig.epoch, &[ME.0]);
                    next.pool.size = rig.epoch;
                    rig.event(PgEvent::AdvanceMap(Box::new(next)));
                    rig.settle();
                    begun.clear();
                    assert!(rig.watching.is_empty());
                }
                2 => drop(rig.ask_on(session, oid, vec![delete()])),
                3 => {
                    rig.refuse_next();
                    rig.pass(rng.below(40) as u32);
                    // So that no record of the PG's own is refused.
                    rig.ask_on(session, oid, vec![append(b"x")]);
                }
                _ => {
                    rig.pg.evict_contexts(0);
                    rig.pg.evict_contexts(0);
                }
            },
            _ => {
                client.session = None;
                rig.reset(session);
            }
        }
        // Most messages are answered, by whom they reached.
        for (to, message) in std::mem::take(&mut rig.sent) {
            match message.opcode {
                WatchNotify::NOTIFY => {
                    let of = message.cookie as usize;
                    if clients[of].session == Some(to) && rng.below(4) > 0 {
                        rig.source = EntityName::new(EntityType::Client, 5000 + of as i64);
                        for oid in OBJECTS {
                            rig.ask_on(to, oid, vec![ack(message.notify_id, message.cookie)]);
                        }
                    }
                }
                WatchNotify::NOTIFY_COMPLETE => {
                    begun.remove(&message.notify_id);
                }
                code => assert_eq!(code, WatchNotify::DISCONNECT),
            }
        }
    }
    let sessions: Vec<u64> = clients.iter().filter_map(|client| client.session).collect();
    sessions.into_iter().for_each(|session| rig.reset(session));
    // The watches of an object end when it has been looked at since the start.
    OBJECTS.iter().for_each(|oid| drop(rig.ask(oid, vec![stat()])));
    (0..3).for_each(|_| rig.pass(50));
    assert_eq!((rig.watching.len(), rig.pg.deadline()), (0, None), "seed {seed}");
    for oid in OBJECTS {
        let reply = rig.ask_on(9, oid, vec![list()]);
        assert!(reply.result == Errno::ENOENT.code() || watchers(&mut rig, oid) == 0, "seed {seed}");
    }
}

#[test]
fn when_all_clients_are_gone_no_watch_is_left() {
    (0..60).for_each(model);
}
