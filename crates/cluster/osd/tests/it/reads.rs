//! Large reads: their answers wait for the client, so that few are read at a time.

use serde_json::json;

use crate::world::*;
use auth::SessionId;
use messages::{Message, Op, OpArgs, OpCode, OsdOp};
use options::Values;
use osd::OsdEvent;

const CLIENT: SessionId = SessionId(7);
const OBJECT: usize = 3 << 20;

/// An OSD with objects of 3 MiB.
fn with_objects(names: &[&str]) -> World {
    let mut w = World::with(Values::new());
    w.start();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    for name in names {
        let op = w.write(name, &vec![1; OBJECT]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w
}

fn read(w: &mut World, name: &str, length: u64) -> OsdOp {
    let args = OpArgs::Extent { offset: 0, length, truncate_size: 0, truncate_seq: 0 };
    let epoch = w.mon.epoch();
    w.op(name, epoch, vec![Op::new(OpCode::READ, args)])
}

/// Sends a request, and gives its transaction id.
fn send(w: &mut World, op: OsdOp) -> u64 {
    let tid = op.tid;
    w.send_op(CLIENT, op);
    tid
}

/// The requests that wait for the client to take answers.
fn waiting(w: &mut World) -> usize {
    let dump = w.command(json!({ "prefix": "dump_ops_in_flight" })).unwrap();
    let ops = dump["ops"].as_array().unwrap();
    let waits = |op: &&serde_json::Value| {
        op["type_data"]["flag_point"] == "delayed: waiting for the client to take answers"
    };
    ops.iter().filter(waits).count()
}

fn behind(w: &mut World, is_behind: bool) {
    w.event(OsdEvent::SessionBehind { session: CLIENT, is_behind });
}

/// The transaction ids of the answers to a session, in their order.
fn answered(w: &World) -> Vec<u64> {
    let of = |message: &Message| match message {
        Message::OsdOpReply(reply) => Some(reply.tid),
        _ => None,
    };
    w.sent.get(&CLIENT).into_iter().flatten().filter_map(of).collect()
}

#[test]
fn large_reads_follow_each_other_and_what_comes_behind_them_keeps_its_place() {
    let mut w = with_objects(&["a", "b", "c"]);
    w.sent.clear();
    w.hold_store = true;
    let mut tids: Vec<u64> = Vec::new();
    for name in ["a", "b", "c"] {
        let op = read(&mut w, name, 4 << 20);
        tids.push(send(&mut w, op));
    }
    let overwrite = w.write("c", b"new");
    tids.push(send(&mut w, overwrite));
    assert_eq!((waiting(&mut w), w.osd.held().0), (3, 1));
    while w.complete_one() {}
    assert_eq!(waiting(&mut w), 0);
    assert_eq!(answered(&w), tids);
    let last = w.reply_to(CLIENT, tids[2]).unwrap();
    assert_eq!(last.ops[0].outdata.len(), OBJECT, "it was read before it was written over");
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn reads_that_bring_little_go_together_however_much_they_ask_for() {
    let mut w = with_objects(&[]);
    let names: Vec<String> = (0..16).map(|n| format!("small{n}")).collect();
    for name in &names {
        let op = w.write(name, b"little");
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w.hold_store = true;
    for (length, waits) in [(4 << 20, 15), (0, 0), (4 << 20, 0)] {
        for name in &names {
            let op = read(&mut w, name, length);
            send(&mut w, op);
        }
        assert_eq!(waiting(&mut w), waits, "{length}");
        while w.complete_one() {}
        assert_eq!(w.osd.held(), (0, 0));
    }
}

#[test]
fn nothing_large_is_read_for_a_client_that_takes_no_answers_and_that_is_not_slow() {
    let mut w = with_objects(&["a", "b"]);
    behind(&mut w, true);
    let small = read(&mut w, "a", 1000);
    assert_eq!(w.ask(CLIENT, small).ops[0].outdata.len(), 1000);
    let first = read(&mut w, "a", 4 << 20);
    let first = send(&mut w, first);
    let small = read(&mut w, "b", 1000);
    let small = send(&mut w, small);
    w.pass_ms(40_000);
    assert_eq!(waiting(&mut w), 2);
    assert_eq!(w.stats().unwrap().osd_stat.os_alerts.len(), 0, "the client is slow, not the OSD");
    assert!(w.reply_to(CLIENT, first).is_none());
    // Another client is served.
    let other = SessionId(CLIENT.0 + 1);
    w.open_client(other);
    let op = read(&mut w, "a", 4 << 20);
    assert_eq!(w.ask(other, op).ops[0].outdata.len(), OBJECT);
    w.sent.clear();
    behind(&mut w, false);
    assert_eq!(answered(&w), [first, small]);
    assert_eq!(w.osd.held(), (0, 0));
}

/// It sends no more while some wait, and these hold nothing that others need.
#[test]
fn a_client_that_takes_no_answers_keeps_no_other_from_being_served() {
    let mut w = with_objects(&["a"]);
    let set = json!({ "prefix": "config set", "var": "osd_client_message_cap", "val": ["3"] });
    w.command(set).unwrap();
    behind(&mut w, true);
    // They came together.
    for _ in 0..8 {
        let op = read(&mut w, "a", 4 << 20);
        send(&mut w, op);
    }
    assert_eq!((waiting(&mut w), w.osd.held()), (8, (0, 0)));
    assert_eq!(w.paused, [CLIENT]);
    let other = SessionId(CLIENT.0 + 1);
    w.open_client(other);
    for _ in 0..5 {
        let op = read(&mut w, "a", 4 << 20);
        assert_eq!(w.ask(other, op).ops[0].outdata.len(), OBJECT);
        assert_eq!(w.paused, [CLIENT]);
    }
    w.sent.clear();
    behind(&mut w, false);
    assert_eq!((answered(&w).len(), w.osd.held()), (8, (0, 0)));
    assert!(w.paused.is_empty());
}

#[test]
fn what_waits_for_a_client_ends_with_its_session_and_with_the_pool() {
    let mut w = with_objects(&["a", "b"]);
    behind(&mut w, true);
    for _ in 0..3 {
        let op = read(&mut w, "a", 4 << 20);
        send(&mut w, op);
    }
    assert_eq!((waiting(&mut w), w.osd.held()), (3, (0, 0)));
    w.event(OsdEvent::SessionClosed(CLIENT));
    assert_eq!(w.osd.held(), (0, 0));
    behind(&mut w, false);

    w.open_client(CLIENT);
    behind(&mut w, true);
    let op = read(&mut w, "b", 4 << 20);
    send(&mut w, op);
    w.delete_pool(1);
    assert_eq!((waiting(&mut w), w.osd.held()), (0, (0, 0)), "its client learns that it is gone");
}

#[test]
fn the_limit_can_be_changed_and_taken_away() {
    let mut w = with_objects(&["a", "b", "c"]);
    w.hold_store = true;
    for name in ["a", "b", "c"] {
        let op = read(&mut w, name, OBJECT as u64);
        send(&mut w, op);
    }
    assert_eq!(waiting(&mut w), 2);
    for (value, left) in [("6Mi", 1), ("0", 0)] {
        let set = json!({ "prefix": "config set", "var": "osd_client_reads_bytes_max", "val": [value] });
        w.command(set).unwrap();
        assert_eq!(waiting(&mut w), left, "{value}");
    }
    w.hold_store = false;
    w.settle();
    assert_eq!(w.osd.held(), (0, 0));
}
