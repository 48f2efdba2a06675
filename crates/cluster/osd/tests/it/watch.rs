//! Watches: what one session notifies reaches another's, and the end of a session or of its patience ends them.

use crate::world::*;
use auth::SessionId;
use encoding::Encoder;
use messages::osd_op::OpConst;
use messages::{Message, Op, OpArgs, OpCode, WatchNotify};
use options::Values;
use osd::OsdEvent;
use types::{AddrType, EntityAddr, Errno, UTime};

const OTHER: SessionId = SessionId(78);
const COOKIE: u64 = 94;

/// An object "a" that [`CLIENT`] watches.
fn watched(options: Values) -> World {
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    w.finish_pool(1);
    w.open_client(CLIENT);
    w.open_client(OTHER);
    let op = w.write("a", b"data");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    assert_eq!(ask(&mut w, CLIENT, watch(OpConst::WATCH_WATCH)), 0);
    w
}

fn ask(w: &mut World, session: SessionId, op: Op) -> i32 {
    let epoch = w.mon.epoch();
    let op = w.op("a", epoch, vec![op]);
    w.ask(session, op).result
}

fn watch(action: u32) -> Op {
    let args = OpArgs::Watch { cookie: COOKIE, ver: 0, op: action as u8, generation: 0, timeout: 0 };
    Op::new(OpCode::WATCH, args)
}

fn notify() -> Op {
    let mut e = Encoder::new(0);
    e.put(&1u32).put(&0u32).blob(b"news");
    Op::new(OpCode::NOTIFY, OpArgs::Notify { cookie: 5 }).with_indata(e.into_bytes())
}

/// The messages about watches that a session was sent since it was last asked.
fn told(w: &mut World, session: SessionId) -> Vec<WatchNotify> {
    let sent = w.sent.entry(session).or_default();
    let (of_watches, others): (Vec<_>, Vec<_>) =
        std::mem::take(sent).into_iter().partition(|message| matches!(message, Message::WatchNotify(_)));
    *sent = others;
    let messages = of_watches.into_iter().map(|message| match message {
        Message::WatchNotify(message) => message,
        other => panic!("{other:?}"),
    });
    messages.collect()
}

#[test]
fn what_a_session_notifies_reaches_the_session_that_watches() {
    let mut w = watched(Values::new());
    assert_eq!(ask(&mut w, OTHER, notify()), 0);
    let messages = told(&mut w, CLIENT);
    assert_eq!(messages.len(), 1);
    assert_eq!((messages[0].opcode, messages[0].cookie), (WatchNotify::NOTIFY, COOKIE));
    assert_eq!(&messages[0].payload[..], b"news");
    assert!(told(&mut w, OTHER).is_empty());
    let mut e = Encoder::new(0);
    e.put(&messages[0].notify_id).put(&COOKIE).blob(b"");
    let ack = Op::new(OpCode::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }).with_indata(e.into_bytes());
    assert_eq!(ask(&mut w, CLIENT, ack), 0);
    let messages = told(&mut w, OTHER);
    assert_eq!((messages.len(), messages[0].opcode), (1, WatchNotify::NOTIFY_COMPLETE));
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_session_that_ends_is_sent_nothing_and_its_watch_ends_when_its_time_is_over() {
    let mut options = Values::new();
    options.set("osd_client_watch_timeout", "5").unwrap();
    let mut w = watched(options);
    w.event(OsdEvent::SessionClosed(CLIENT));
    assert_eq!(ask(&mut w, OTHER, notify()), 0);
    assert!(told(&mut w, CLIENT).is_empty() && told(&mut w, OTHER).is_empty());
    w.pass_ms(4_000);
    assert!(told(&mut w, OTHER).is_empty());
    w.pass_ms(2_000);
    let messages = told(&mut w, OTHER);
    assert_eq!((messages.len(), messages[0].opcode), (1, WatchNotify::NOTIFY_COMPLETE));
    assert_eq!(messages[0].return_code, 0);
}

#[test]
fn a_client_that_comes_again_in_time_keeps_its_watch() {
    let mut w = watched(Values::new());
    w.event(OsdEvent::SessionClosed(CLIENT));
    w.pass_ms(20_000);
    w.open_client(CLIENT);
    assert_eq!(ask(&mut w, CLIENT, watch(OpConst::WATCH_PING)), Errno::ETIMEDOUT.code());
    assert_eq!(ask(&mut w, CLIENT, watch(OpConst::WATCH_RECONNECT)), 0);
    w.pass_ms(20_000);
    assert_eq!(ask(&mut w, CLIENT, watch(OpConst::WATCH_PING)), 0);
    assert_eq!(ask(&mut w, OTHER, notify()), 0);
    assert_eq!(told(&mut w, CLIENT).len(), 1);
}

#[test]
fn a_map_that_shuts_a_client_out_ends_its_watches() {
    let mut w = watched(Values::new());
    assert_eq!(ask(&mut w, OTHER, notify()), 0);
    let addr = EntityAddr { kind: AddrType::Any, ..client(CLIENT, auth::Caps::all()).peer_addrs.0[0] };
    w.change(|_, change| {
        change.new_blocklist.insert(addr, UTime { sec: u32::MAX, nsec: 0 });
    });
    w.push_maps();
    w.pass_ms(1);
    let codes: Vec<u8> = told(&mut w, CLIENT).iter().map(|message| message.opcode).collect();
    assert_eq!(codes, [WatchNotify::NOTIFY, WatchNotify::DISCONNECT]);
    assert_eq!(told(&mut w, OTHER).len(), 1, "nothing more is waited for");
}

#[test]
fn a_watch_that_is_removed_with_its_pool_leaves_no_timer() {
    let mut w = watched(Values::new());
    w.delete_pool(1);
    w.pass_ms(100_000);
    assert!(told(&mut w, CLIENT).is_empty());
}

#[test]
fn a_command_lists_every_watch_with_its_client() {
    let mut w = watched(Values::new());
    let listed = |w: &mut World| w.command(serde_json::json!({ "prefix": "dump_watchers" })).unwrap();
    let found = listed(&mut w);
    let [watch] = &found["watchers"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!(
        (&watch["object"], &watch["namespace"], &watch["cookie"]),
        (&"a".into(), &"".into(), &COOKIE.into())
    );
    assert_eq!(watch["entity_name"]["type"], "client");
    assert!(watch["timeout"].as_u64().unwrap() > 0);
    assert!(watch["entity_addr_t"]["addr"].as_str().unwrap().starts_with("127.0.0.1"));
    assert_eq!(ask(&mut w, CLIENT, self::watch(OpConst::WATCH_UNWATCH)), 0);
    assert_eq!(listed(&mut w), serde_json::json!({ "watchers": [] }));
}
