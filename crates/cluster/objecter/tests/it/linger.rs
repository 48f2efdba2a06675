//! Watches and notifies of a client: registered, registered again, kept by pings, and their ends.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::world::*;
use encoding::Encoder;
use messages::osd_op::OpConst;
use messages::{Blob, Message, OpArgs, OpResult, OsdOp, OsdOpReply, WatchNotify};
use objecter::{NotifyId, OsdSession, Outcome, WatchEvent, WatchId};
use types::{Errno, OsdId};

type Sent = (OsdSession, OsdId, OsdOp);

fn watch(w: &mut World) -> WatchId {
    let now = w.now;
    w.act(|c, out| c.watch(now, POOL, "a", Duration::from_secs(30), out))
}

fn notify(w: &mut World) -> NotifyId {
    let now = w.now;
    w.act(|c, out| c.notify(now, POOL, "a", b"news"[..].into(), Duration::from_secs(9), out))
}

/// What a request does about a watch: the action, the cookie, the generation.
fn action(op: &OsdOp) -> (u32, u64, u32) {
    match op.ops[0].args {
        OpArgs::Watch { op, cookie, generation, .. } => (op.into(), cookie, generation),
        ref other => panic!("{other:?}"),
    }
}

/// A watch that is registered, and the session that it is in.
fn registered(w: &mut World) -> (WatchId, OsdSession) {
    let id = watch(w);
    let sent = w.one_sent();
    assert_eq!(action(&sent.2), (OpConst::WATCH_WATCH, id.0, 0));
    w.answer(&sent, 0);
    assert_eq!(std::mem::take(&mut w.watch_events), [(id, WatchEvent::Connected)]);
    (id, sent.0)
}

/// Answers a NOTIFY with its number.
fn answer_number(w: &mut World, (session, _, op): &Sent, number: u64) {
    let ops = vec![OpResult::of(&op.ops[0], 0, number.to_le_bytes().to_vec())];
    w.osd_sends(*session, OsdOpReply::to(op, 0, op.epoch, ops).into());
}

fn complete(cookie: u64, notify_id: u64, return_code: i32) -> Message {
    let answers: BTreeMap<(u64, u64), Blob> = [((7, 8), b"yes"[..].into())].into();
    let mut e = Encoder::new(0);
    e.put(&answers).put(&vec![(9u64, 10u64)]);
    let data = e.into_bytes().into();
    WatchNotify {
        opcode: WatchNotify::NOTIFY_COMPLETE,
        cookie,
        notify_id,
        return_code,
        data,
        ..Default::default()
    }
    .into()
}

fn of_watch(opcode: u8, cookie: u64) -> Message {
    WatchNotify {
        opcode,
        cookie,
        notify_id: 5,
        notifier_gid: 6,
        payload: b"news"[..].into(),
        ..Default::default()
    }
    .into()
}

#[test]
fn a_watch_gets_notifies_and_answers_them() {
    let mut w = World::new();
    let (id, session) = registered(&mut w);
    w.osd_sends(session, of_watch(WatchNotify::NOTIFY, id.0));
    let event = WatchEvent::Notify { notify: 5, notifier: 6, payload: b"news"[..].into() };
    assert_eq!(std::mem::take(&mut w.watch_events), [(id, event)]);
    let now = w.now;
    w.act(|c, out| c.ack(now, id, 5, &b"yes"[..].into(), out));
    let sent = w.one_sent();
    let mut e = Encoder::new(0);
    e.put(&5u64).put(&id.0).blob(b"yes");
    assert_eq!(sent.2.ops[0].indata.to_vec(), e.into_bytes());
    w.answer(&sent, Errno::ENOENT.code());
    assert!(w.watch_events.is_empty() && w.done.is_empty(), "an answer that came too late ends nothing");
}

#[test]
fn a_session_that_ends_makes_a_watch_connect_again_and_not_register_twice() {
    let mut w = World::new();
    let (id, session) = registered(&mut w);
    w.reset(session);
    let sent = w.one_sent();
    assert_eq!(action(&sent.2), (OpConst::WATCH_RECONNECT, id.0, 1));
    assert_eq!(sent.2.retry_attempt, 0, "a request of its own: an OSD answers a repeated one from its log");
    w.answer(&sent, 0);
    assert_eq!(w.watch_events, [(id, WatchEvent::Connected)]);
}

#[test]
fn a_registration_that_is_interrupted_is_sent_anew() {
    let mut w = World::new();
    let id = watch(&mut w);
    let first = w.one_sent();
    w.reset(first.0);
    let second = w.one_sent();
    assert_eq!(action(&second.2), (OpConst::WATCH_WATCH, id.0, 0));
    assert_ne!(first.2.tid, second.2.tid);
    w.answer(&second, 0);
    assert_eq!(w.watch_events, [(id, WatchEvent::Connected)]);
    assert_eq!(w.client.requests_pending(), 0);
}

#[test]
fn a_map_that_moves_the_object_takes_the_watch_along() {
    let mut w = World::new();
    let (id, _) = registered(&mut w);
    let old = w.primary("a");
    w.change_and_send(|_, inc| down(inc, old));
    let sent = w.one_sent();
    assert_ne!(sent.1, old);
    assert_eq!(sent.1, w.primary("a"));
    assert_eq!(action(&sent.2), (OpConst::WATCH_RECONNECT, id.0, 1));
    w.change_and_send(|_, _| {});
    assert!(w.sent.is_empty(), "a map that moves nothing");
}

#[test]
fn a_watch_that_is_wanted_before_the_first_map_is_registered_with_it() {
    let mut w = World::before_maps(|_| {});
    let id = watch(&mut w);
    w.send_maps();
    let sent = w.one_sent();
    assert_eq!(action(&sent.2), (OpConst::WATCH_WATCH, id.0, 0));
}

#[test]
fn pings_keep_a_watch_and_their_failure_ends_it() {
    let mut w = World::new();
    let (id, _) = registered(&mut w);
    w.pass(5_000);
    let ping = w.one_sent();
    assert_eq!(action(&ping.2), (OpConst::WATCH_PING, id.0, 0));
    w.pass(5_000);
    assert!(w.sent.is_empty(), "one at a time");
    w.answer(&ping, 0);
    w.pass(5_000);
    let ping = w.one_sent();
    w.answer(&ping, Errno::ENOTCONN.code());
    assert_eq!(w.watch_events, [(id, WatchEvent::Lost(Errno::ENOTCONN))]);
    w.pass(50_000);
    assert!(w.sent.is_empty() && w.done.is_empty());
}

#[test]
fn a_ping_goes_out_while_the_pool_is_full() {
    let mut w = World::new();
    let (id, _) = registered(&mut w);
    w.change_and_send(|map, inc| full(map, inc, true));
    w.pass(5_000);
    assert_eq!(action(&w.one_sent().2), (OpConst::WATCH_PING, id.0, 0));
}

#[test]
fn a_watch_ends_with_its_object_or_its_pool_or_because_it_can_not_begin() {
    let mut w = World::new();
    let (id, session) = registered(&mut w);
    w.osd_sends(session, of_watch(WatchNotify::DISCONNECT, id.0));
    assert_eq!(std::mem::take(&mut w.watch_events), [(id, WatchEvent::Lost(Errno::ENOTCONN))]);

    let id = watch(&mut w);
    let sent = w.one_sent();
    w.answer(&sent, Errno::ENOENT.code());
    assert_eq!(std::mem::take(&mut w.watch_events), [(id, WatchEvent::Lost(Errno::ENOENT))]);

    let (id, _) = registered(&mut w);
    w.change_and_send(|_, inc| {
        inc.old_pools.insert(POOL);
    });
    assert_eq!(w.watch_events, [(id, WatchEvent::Lost(Errno::ENOTCONN))]);
}

#[test]
fn a_watch_that_is_ended_here_gets_nothing_more() {
    let mut w = World::new();
    let (id, session) = registered(&mut w);
    let now = w.now;
    let request = w.act(|c, out| c.unwatch(now, id, out)).unwrap().unwrap();
    let sent = w.one_sent();
    assert_eq!(action(&sent.2), (OpConst::WATCH_UNWATCH, id.0, 0));
    w.osd_sends(session, of_watch(WatchNotify::NOTIFY, id.0));
    w.answer(&sent, 0);
    assert!(w.watch_events.is_empty());
    assert!(matches!(&w.take_done()[..], [(id, Outcome::Replied { result: 0, .. })] if *id == request));
    assert!(w.act(|c, out| c.unwatch(now, id, out)).unwrap().is_none());
}

#[test]
fn a_notify_ends_once_with_what_the_watchers_answered() {
    for number_first in [true, false] {
        let mut w = World::new();
        let id = notify(&mut w);
        let sent = w.one_sent();
        if number_first {
            answer_number(&mut w, &sent, 70);
            w.osd_sends(sent.0, complete(id.0, 69, 0));
            assert!(w.notifies_done.is_empty(), "the end of an earlier sending");
        }
        w.osd_sends(sent.0, complete(id.0, 70, Errno::ETIMEDOUT.code()));
        answer_number(&mut w, &sent, 70);
        w.osd_sends(sent.0, complete(id.0, 70, 0));
        let (done, outcome) = w.notifies_done.remove(0);
        assert_eq!((done, outcome.result, outcome.missed), (id, Errno::ETIMEDOUT.code(), vec![(9, 10)]));
        assert_eq!(outcome.answers, [((7, 8), b"yes"[..].into())].into());
        assert!(w.notifies_done.is_empty() && w.done.is_empty());
        assert_eq!(w.client.requests_pending(), 0);
    }
}

#[test]
fn a_notify_is_sent_again_to_the_next_osd_and_fails_with_its_request() {
    let mut w = World::new();
    let id = notify(&mut w);
    let sent = w.one_sent();
    answer_number(&mut w, &sent, 70);
    w.reset(sent.0);
    let again = w.one_sent();
    w.osd_sends(again.0, complete(id.0, 71, 0));
    assert_eq!(w.notifies_done.remove(0).0, id, "its number comes later");
    let id = notify(&mut w);
    let sent = w.one_sent();
    w.answer(&sent, Errno::ENOENT.code());
    let (done, outcome) = w.notifies_done.remove(0);
    assert_eq!((done, outcome.result), (id, Errno::ENOENT.code()));
}
