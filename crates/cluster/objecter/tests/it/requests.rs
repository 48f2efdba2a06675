//! Requests, their sessions and their answers.

use core::time::Duration;

use crate::world::{POOL, World, read, write};
use messages::osd_op::OsdFlags;
use messages::{Message, MonCommandAck, Op, OpArgs, OpCode, OsdBackoff, PoolOp, PoolOpReply};
use objecter::{ObjecterEvent, Outcome, Request, Target};
use types::{Errno, HObject, Name, PgId};

#[test]
fn a_request_goes_to_its_pgs_primary_and_ends_with_the_answer() {
    let mut w = World::new();
    let id = w.submit(write("a"));
    let sent = w.one_sent();
    let (_, osd, op) = &sent;
    assert_eq!((*osd, op.pgid), (w.primary("a"), w.pg("a")));
    assert_eq!((op.epoch.0, op.retry_attempt, op.mtime), (w.epoch(), 0, w.now));
    let always = OsdFlags::ONDISK | OsdFlags::KNOWN_REDIR | OsdFlags::SUPPORTSPOOLEIO;
    assert_eq!(op.flags, OsdFlags::WRITE | always);
    w.answer(&sent, 0);
    let done = w.take_done();
    assert_eq!((done[0].0, done[0].1.result()), (id, 0));
    assert_eq!(done[0].1.data().to_vec(), b"data");
    w.answer(&sent, 0);
    assert!(w.take_done().is_empty(), "a request ends once");
    assert_eq!(w.client.requests_pending(), 0);
}

#[test]
fn placement_goes_by_key_namespace_and_hash() {
    let mut w = World::new();
    for (key, nspace, hash) in [("a", "", -1), ("", "ns", -1), ("k", "ns", -1), ("", "", 5)] {
        let mut request = write("object");
        let Target::Object { name, locator } = &mut request.target else { unreachable!() };
        (locator.key, locator.nspace, locator.hash) = (key.into(), nspace.into(), hash);
        let (name, locator) = (name.clone(), locator.clone());
        w.submit(request);
        let (_, osd, op) = w.one_sent();
        let raw = w.map().object_to_pg(&locator, &name).unwrap();
        assert_eq!((op.hash, &op.locator), (raw.seed, &locator));
        assert_eq!(Some(osd), w.map().pg_to_up_acting(raw).acting_primary);
    }
}

#[test]
fn a_listing_goes_to_the_pg_that_it_names() {
    let mut w = World::new();
    let pg = PgId { pool: POOL, seed: 5 };
    let list = Op::new(OpCode::PGNLS, OpArgs::Pgls { count: 10, start_epoch: types::Epoch(0) });
    w.submit(Request::on_pg(pg, vec![list]));
    let (_, osd, op) = w.one_sent();
    assert_eq!((op.pgid.pg, op.hash, op.oid.is_empty()), (pg, 5, true));
    assert!(op.has_flag(OsdFlags::PGOP | OsdFlags::IGNORE_OVERLAY | OsdFlags::READ));
    assert_eq!(Some(osd), w.map().pg_to_up_acting(pg).acting_primary);
}

#[test]
fn nothing_is_sent_before_a_map_and_a_connection_and_then_everything_in_order() {
    let mut w = World::before_maps(|_| {});
    w.connects = false;
    for _ in 0..5 {
        w.submit(write("a"));
    }
    assert!(w.dialled.is_empty());
    w.send_maps();
    assert!(w.sent.is_empty());
    assert_eq!(w.dialled.len(), 1, "one session an OSD");
    w.connected(w.dialled[0].0);
    let tids: Vec<u64> = w.sent.iter().map(|(_, _, op)| op.tid).collect();
    assert_eq!(tids.len(), 5);
    assert!(tids.is_sorted());
}

#[test]
fn after_a_reset_everything_is_sent_again_in_order_and_answers_of_before_are_ignored() {
    let mut w = World::new();
    w.submit(write("a"));
    w.submit(write("a"));
    let old = w.sent.clone();
    w.sent.clear();
    w.reset(old[0].0);
    let new = w.sent.clone();
    assert_ne!(new[0].0, old[0].0);
    let tids = |sent: &[(_, _, messages::OsdOp)]| sent.iter().map(|(_, _, op)| op.tid).collect::<Vec<_>>();
    assert_eq!(tids(&new), tids(&old), "the OSD knows them by their tids");
    assert!(new.iter().all(|(_, _, op)| op.retry_attempt == 1));
    w.answer(&old[0], 0);
    w.answer(&(new[0].0, new[0].1, old[0].2.clone()), 0);
    assert!(w.done.is_empty(), "an old session, an old attempt");
    w.answer(&new[0], 0);
    assert_eq!(w.done.len(), 1);
}

#[test]
fn an_osd_that_cannot_be_reached_is_tried_again_after_growing_pauses() {
    let mut w = World::new();
    w.connects = false;
    w.submit(write("a"));
    let mut waits = Vec::new();
    for _ in 0..10 {
        let session = w.dialled.pop().unwrap().0;
        let failed_at = w.now;
        w.reset(session);
        while w.dialled.is_empty() {
            let due = w.client.deadline().unwrap();
            w.pass((due.as_nanos() - w.now.as_nanos()) / 1_000_000);
        }
        waits.push((w.now.as_nanos() - failed_at.as_nanos()) / 1_000_000);
    }
    assert_eq!(waits, [0, 200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000]);
    let session = w.dialled.pop().unwrap().0;
    w.connected(session);
    let sent = w.one_sent();
    w.answer(&sent, 0);
    w.reset(session);
    assert_eq!(w.dialled.len(), 1, "an OSD that has answered is dialled again at once");
}

#[test]
fn a_laggy_osd_gets_a_ping() {
    let mut w = World::new();
    w.submit(write("a"));
    w.pass(5000);
    assert!(w.others.is_empty());
    w.pass(5000);
    assert!(matches!(w.others[..], [(osd, Message::Ping(_))] if osd == w.primary("a")));
}

#[test]
fn a_request_that_times_out_says_whether_it_was_sent() {
    let mut w = World::with(|c| c.request_timeout = Duration::from_secs(3));
    let sent_id = w.submit(write("a"));
    w.connects = false;
    let object = (0..).map(|i| format!("o{i}")).find(|o| w.primary(o) != w.primary("a")).unwrap();
    let unsent = w.submit(write(&object));
    w.pass(2999);
    assert!(w.done.is_empty());
    w.pass(1);
    let ended = |sent| Outcome::Ended { errno: Errno::ETIMEDOUT, sent };
    assert_eq!(w.take_done(), [(sent_id, ended(true)), (unsent, ended(false))]);
    let sent = w.one_sent();
    w.answer(&sent, 0);
    assert!(w.done.is_empty());
}

#[test]
fn a_fenced_client_gets_the_error() {
    let mut w = World::new();
    w.submit(write("a"));
    let sent = w.one_sent();
    w.answer(&sent, Errno::ESHUTDOWN.code());
    assert_eq!(w.take_done()[0].1.result(), -108);
}

#[test]
fn a_read_that_a_replica_refuses_goes_to_the_primary_as_a_new_request() {
    let mut w = World::new();
    let is_replica = |w: &World| w.sent.last().unwrap().1 != w.primary("a");
    while !w.sent.last().is_some_and(|_| is_replica(&w)) {
        w.sent.clear();
        w.submit(Request { flags: OsdFlags::BALANCE_READS, ..read("a") });
    }
    let first = w.one_sent();
    w.answer(&first, Errno::EAGAIN.code());
    assert!(w.done.is_empty());
    let second = w.one_sent();
    assert_eq!(second.1, w.primary("a"));
    assert!(second.2.tid > first.2.tid && !second.2.has_flag(OsdFlags::BALANCE_READS));
    w.answer(&second, 0);
    assert_eq!(w.take_done()[0].0.0, first.2.tid, "its user knows it by its first number");
}

fn backoff(w: &World, object: &str, op: u8, id: u64) -> OsdBackoff {
    let pgid = w.pg(object);
    let begin = HObject::head(POOL, Name::new(), Name::new(), Name::new(), 0);
    OsdBackoff { pgid, map_epoch: types::Epoch(w.epoch()), op, id, begin, end: HObject::max() }
}

#[test]
fn a_backoff_is_acknowledged_and_holds_requests_until_it_ends() {
    let mut w = World::new();
    w.submit(write("a"));
    let (session, osd, _) = w.one_sent();
    w.osd_sends(session, backoff(&w, "a", OsdBackoff::BLOCK, 1).into());
    let ack = backoff(&w, "a", OsdBackoff::ACK_BLOCK, 1);
    assert_eq!(w.others, [(osd, ack.into())]);
    w.submit(write("a"));
    w.submit(write("a"));
    assert!(w.sent.is_empty());
    w.osd_sends(session, backoff(&w, "a", OsdBackoff::UNBLOCK, 1).into());
    let attempts: Vec<i32> = w.take_sent().into_iter().map(|(_, _, attempt)| attempt).collect();
    assert_eq!(attempts, [1, 0, 0], "the first one was dropped, and its order is kept");
    w.osd_sends(session, backoff(&w, "a", OsdBackoff::UNBLOCK, 1).into());
    assert!(w.sent.is_empty() && w.warnings.len() == 1);
}

#[test]
fn backoffs_end_with_their_session() {
    let mut w = World::new();
    w.submit(write("a"));
    let (session, ..) = w.one_sent();
    w.osd_sends(session, backoff(&w, "a", OsdBackoff::BLOCK, 1).into());
    w.reset(session);
    assert_eq!(w.take_sent().len(), 1);
}

#[test]
fn more_than_the_limits_allow_is_handed_back() {
    let mut w = World::with(|c| (c.requests_max, c.request_bytes_max) = (3, 250));
    let now = w.now;
    let submit = |w: &mut World, request| w.act(|c, out| c.submit(now, request, out));
    submit(&mut w, read("a")).unwrap();
    submit(&mut w, read("b")).unwrap();
    let busy = submit(&mut w, read("c")).unwrap_err();
    assert_eq!(*busy.0, read("c"), "300 bytes");
    submit(&mut w, write("c")).unwrap();
    submit(&mut w, write("d")).unwrap_err();
    let sent = std::mem::take(&mut w.sent);
    sent.iter().for_each(|sent| w.answer(sent, 0));
    let huge = Request::on(POOL, "a", vec![Op::new(OpCode::READ, OpArgs::extent(0, 1000))]);
    submit(&mut w, huge).unwrap();
    submit(&mut w, write("d")).unwrap_err();
}

#[test]
fn commands_are_sent_when_the_monitor_is_ready_and_again_after_it_was_lost() {
    let mut w = World::with(|c| c.command_timeout = Duration::from_secs(60));
    let now = w.now;
    let id = w.act(|c, out| c.command(now, r#"{"prefix":"status"}"#, Default::default(), out));
    assert_eq!(w.commands.len(), 1);
    let attempt = w.mon.unwrap();
    let lost = monclient::MonClientEvent::Disconnected(attempt, "cut".into());
    w.handle(ObjecterEvent::Mon(lost));
    while w.mon == Some(attempt) {
        w.pass(100);
    }
    w.open_mon();
    assert_eq!(w.commands.len(), 2);
    let tid = w.commands[1].tid;
    let ack = MonCommandAck { tid, status: "fine".into(), ..Default::default() };
    w.mon_sends(ack.clone().into());
    w.mon_sends(ack.clone().into());
    assert_eq!(w.commands_done, [(id, ack)]);
    let id = w.act(|c, out| c.command(now, r#"{"prefix":"status"}"#, Default::default(), out));
    w.pass(60_000);
    assert_eq!((w.commands_done[1].0, w.commands_done[1].1.result), (id, -110));
    assert_eq!(w.client.commands_pending(), 0);
}

#[test]
fn pool_operations_go_the_way_of_commands() {
    let mut w = World::with(|c| c.command_timeout = Duration::from_secs(60));
    let now = w.now;
    let op = || PoolOp {
        tid: 0,
        paxos: Default::default(),
        fsid: Default::default(),
        pool: 1,
        op: PoolOp::CREATE_UNMANAGED_SNAP,
        auid: 0,
        snapid: types::SnapId(0),
        name: Default::default(),
        crush_rule: -1,
    };
    let id = w.act(|c, out| c.pool_op(now, op(), out));
    let attempt = w.mon.unwrap();
    w.handle(ObjecterEvent::Mon(monclient::MonClientEvent::Disconnected(attempt, "cut".into())));
    while w.mon == Some(attempt) {
        w.pass(100);
    }
    w.open_mon();
    assert_eq!(w.pool_ops.len(), 2);
    let reply = PoolOpReply { tid: w.pool_ops[1].tid, ..Default::default() };
    w.mon_sends(reply.clone().into());
    w.mon_sends(reply.clone().into());
    assert_eq!(w.pool_ops_done, [(id, reply)]);
    let id = w.act(|c, out| c.pool_op(now, op(), out));
    w.pass(60_000);
    assert_eq!((w.pool_ops_done[1].0, w.pool_ops_done[1].1.result), (id, -110));
}

#[test]
fn a_session_that_is_not_known_and_messages_that_no_client_takes_do_no_harm() {
    let mut w = World::new();
    w.submit(write("a"));
    let sent = w.one_sent();
    let unknown = objecter::OsdSession(999);
    w.connected(unknown);
    w.reset(unknown);
    w.answer(&(unknown, sent.1, sent.2.clone()), 0);
    assert!(w.done.is_empty() && w.sent.is_empty());
    w.osd_sends(sent.0, messages::Ping::default().into());
    assert_eq!(w.warnings.len(), 1);
    w.osd_sends(sent.0, backoff(&w, "a", 9, 1).into());
    assert_eq!(w.warnings.len(), 2);
}
