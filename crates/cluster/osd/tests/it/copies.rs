//! Copies of objects: the OSD as a client of the one that has the source, which here is itself.

use crate::world::*;
use auth::{Caps, SessionId};
use encoding::Encoder;
use messages::{Message, Op, OpArgs, OpCode, OsdBackoff};
use options::Values;
use osd::OsdEvent;
use types::{EntityAddr, EntityName, EntityType, Errno, Name, ObjectLocator, PoolId, SnapId};

/// The OSD's session with itself.
const SELF: SessionId = SessionId(90);

fn with_objects(options: Values) -> World {
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    w.finish_pool(1);
    w.open_client(CLIENT);
    open_self(&mut w);
    let source: Vec<u8> = (0..10_000u32).map(|n| n as u8).collect();
    let op = w.write("source", &source);
    assert_eq!(w.ask(CLIENT, op).result, 0);
    w
}

fn open_self(w: &mut World) {
    let mut info = client(SELF, Caps::all());
    (info.entity, info.name) = ("osd.0".parse().unwrap(), EntityName::new(EntityType::Osd, 0));
    info.peer_addrs = addr(1).into();
    w.event(OsdEvent::SessionOpened(info));
}

fn copy_from(pool: i64, source: &str) -> Op {
    let mut e = Encoder::new(0);
    let locator = ObjectLocator { pool: PoolId(pool), key: Name::new(), nspace: Name::new(), hash: -1 };
    e.put(source).put(&locator);
    let args = OpArgs::CopyFrom { snapid: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise_flags: 0 };
    Op::new(OpCode::COPY_FROM, args).with_indata(e.into_bytes())
}

fn begin(w: &mut World, to: &str, op: Op) -> u64 {
    let epoch = w.mon.epoch();
    let op = w.op(to, epoch, vec![op]);
    let tid = op.tid;
    w.send_op(CLIENT, op);
    tid
}

/// Delivers what the OSD sends itself, until it sends nothing more. How many requests there were.
fn deliver(w: &mut World) -> usize {
    let mut requests = 0;
    loop {
        let mut messages: Vec<Message> = Vec::new();
        for (to, message) in std::mem::take(&mut w.to_peers) {
            assert_eq!(to, EntityAddr::into(addr(1)));
            requests += usize::from(matches!(message, Message::OsdOp(_)));
            messages.push(message);
        }
        messages.extend(w.sent.remove(&SELF).into_iter().flatten());
        if messages.is_empty() {
            return requests;
        }
        for message in messages {
            w.event(OsdEvent::Message { session: SELF, message, bytes: 0 });
        }
    }
}

fn data(w: &mut World, name: &str) -> Vec<u8> {
    let op = w.read(name);
    w.ask(CLIENT, op).ops[0].outdata.to_vec()
}

#[test]
fn an_object_is_copied_in_parts_of_osd_copyfrom_max_chunk() {
    let mut options = Values::new();
    options.set("osd_copyfrom_max_chunk", "4096").unwrap();
    let mut w = with_objects(options);
    let tid = begin(&mut w, "copy", copy_from(1, "source"));
    assert!(w.reply_to(CLIENT, tid).is_none());
    assert_eq!(deliver(&mut w), 3);
    assert_eq!(w.reply_to(CLIENT, tid).unwrap().result, 0);
    let (source, copy) = (data(&mut w, "source"), data(&mut w, "copy"));
    assert!(source.len() == 10_000 && source == copy);
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn an_object_or_a_pool_that_does_not_exist_cannot_be_copied() {
    let mut w = with_objects(Values::new());
    let tids = [begin(&mut w, "copy", copy_from(1, "gone")), begin(&mut w, "other", copy_from(9, "source"))];
    deliver(&mut w);
    for tid in tids {
        assert_eq!(w.reply_to(CLIENT, tid).unwrap().result, Errno::ENOENT.code());
    }
}

#[test]
fn a_source_that_changes_between_two_parts_fails_the_copy() {
    let mut options = Values::new();
    options.set("osd_copyfrom_max_chunk", "4096").unwrap();
    let mut w = with_objects(options);
    let tid = begin(&mut w, "copy", copy_from(1, "source"));
    // The first part.
    let (_, request) = w.to_peers.remove(0);
    w.event(OsdEvent::Message { session: SELF, message: request, bytes: 0 });
    let op = w.write("source", &[1; 10_000]);
    assert_eq!(w.ask(CLIENT, op).result, 0);
    deliver(&mut w);
    assert_eq!(w.reply_to(CLIENT, tid).unwrap().result, Errno::ERANGE.code(), "as assert_version");
}

#[test]
fn what_is_lost_with_a_session_is_asked_for_again() {
    let mut w = with_objects(Values::new());
    let tid = begin(&mut w, "copy", copy_from(1, "source"));
    assert_eq!(std::mem::take(&mut w.to_peers).len(), 1);
    w.event(OsdEvent::PeerLost(addr(1)));
    assert_eq!(w.to_peers.len(), 1, "at once");
    w.to_peers.clear();
    w.event(OsdEvent::SessionClosed(SELF));
    assert!(w.to_peers.is_empty(), "the second time after a pause");
    open_self(&mut w);
    w.pass_ms(300);
    deliver(&mut w);
    assert_eq!(w.reply_to(CLIENT, tid).unwrap().result, 0);
    assert_eq!(data(&mut w, "copy").len(), 10_000);
}

#[test]
fn a_copy_waits_while_the_sources_pg_holds_requests_back() {
    let mut w = with_objects(Values::new());
    let tid = begin(&mut w, "copy", copy_from(1, "source"));
    let Some((_, Message::OsdOp(request))) = w.to_peers.pop() else { panic!("a request") };
    let backoff = |op| OsdBackoff {
        pgid: request.pgid,
        map_epoch: request.epoch,
        op,
        id: 3,
        begin: request.hobject(),
        end: request.hobject(),
    };
    let says = |w: &mut World, op| {
        let message = Message::OsdBackoff(Box::new(backoff(op)));
        w.event(OsdEvent::Message { session: SELF, message, bytes: 0 });
        w.to_peers.drain(..).map(|(_, message)| message.name()).collect::<Vec<_>>()
    };
    assert_eq!(says(&mut w, OsdBackoff::BLOCK), ["MOSDBackoff"], "the acknowledgement");
    assert_eq!(says(&mut w, OsdBackoff::UNBLOCK), ["MOSDOp"]);
    assert!(w.reply_to(CLIENT, tid).is_none());
}

#[test]
fn a_copy_whose_client_is_gone_is_given_up() {
    let mut w = with_objects(Values::new());
    begin(&mut w, "copy", copy_from(1, "source"));
    w.event(OsdEvent::SessionClosed(CLIENT));
    w.open_client(OTHER_CLIENT);
    deliver(&mut w);
    let op = w.read("copy");
    assert_eq!(w.ask(OTHER_CLIENT, op).result, Errno::ENOENT.code());
    assert_eq!(w.osd.held(), (0, 0));
}

const OTHER_CLIENT: SessionId = SessionId(79);
