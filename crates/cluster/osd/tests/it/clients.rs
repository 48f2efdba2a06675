//! Clients' sessions: maps they have or lack, budgets, capabilities, commands.

use crate::world::*;
use auth::{Caps, SessionId};
use messages::osd_op::OsdFlags;
use messages::{Command, Message, Op, OpArgs, OpCode, OsdOp, OsdPing, Ping};
use options::Values;
use osd::{LogLevel, OsdEffect, OsdEvent};
use types::{
    AddrType, EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, Errno, FeatureBits, Fsid, OsdId,
    PoolId, UTime,
};

fn with_pool() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.finish_pool(1);
    w.open_client(CLIENT);
    w
}

fn maps_sent(w: &World, session: SessionId) -> Vec<messages::OsdMap> {
    let sent = w.sent.get(&session).into_iter().flatten();
    sent.filter_map(|m| match m {
        Message::OsdMap(m) => Some(m.clone()),
        _ => None,
    })
    .collect()
}

#[test]
fn what_is_written_is_read() {
    let mut w = with_pool();
    let op = w.write("a", b"hello");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    let op = w.read("a");
    assert_eq!(w.ask(CLIENT, op).ops[0].outdata.to_vec(), b"hello");
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_write_is_answered_only_when_the_store_has_committed_it() {
    let mut w = with_pool();
    w.hold_store = true;
    let op = w.write("a", b"hello");
    let tid = op.tid;
    w.send_op(CLIENT, op);
    assert!(w.reply_to(CLIENT, tid).is_none());
    assert_eq!(w.osd.held(), (1, 1000));
    w.hold_store = false;
    w.settle();
    assert_eq!(w.reply_to(CLIENT, tid).map(|r| r.result), Some(0));
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn an_operation_of_a_newer_epoch_waits_for_that_map_and_those_behind_it_keep_their_order() {
    let mut w = with_pool();
    let next = w.mon.osdmap_next.take();
    w.mon.change(|_, _| {});
    let first = w.write("a", b"1");
    let old = w.mon.epoch() - 1;
    let second = w.op("a", old, vec![write(b"2")]);
    let tids = [first.tid, second.tid];
    w.send_op(CLIENT, first);
    w.send_op(CLIENT, second);
    assert!(tids.iter().all(|t| w.reply_to(CLIENT, *t).is_none()));
    assert_eq!(w.osd.held().0, 2);
    w.mon.osdmap_next = next;
    w.push_maps();
    assert!(tids.iter().all(|t| w.reply_to(CLIENT, *t).is_some_and(|r| r.result == 0)));
    let op = w.read("a");
    assert_eq!(w.ask(CLIENT, op).ops[0].outdata.to_vec(), b"2");
}

#[test]
fn a_client_that_lags_gets_the_increments_that_it_lacks_once() {
    let mut w = with_pool();
    let old = w.mon.epoch();
    w.empty_epoch();
    w.empty_epoch();
    for _ in 0..2 {
        let op = w.op("a", old, vec![write(b"x")]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    let maps = maps_sent(&w, CLIENT);
    assert_eq!(maps.len(), 1);
    let epochs: Vec<u32> = maps[0].incremental_maps.keys().map(|e| e.0).collect();
    assert_eq!((epochs, maps[0].maps.len()), (vec![old + 1, old + 2], 0));
    assert!(matches!(w.sent[&CLIENT][0], Message::OsdMap(_)), "before the reply");
    w.empty_epoch();
    let op = w.op("a", old + 2, vec![write(b"x")]);
    w.ask(CLIENT, op);
    assert_eq!(maps_sent(&w, CLIENT)[1].incremental_maps.len(), 1);
}

#[test]
fn a_client_far_behind_gets_the_newest_increments_and_asks_the_monitor_for_the_others() {
    let mut w = with_pool();
    let old = w.mon.epoch();
    (0..50).for_each(|_| w.empty_epoch());
    let op = w.op("a", old, vec![write(b"x")]);
    assert_eq!(w.ask(CLIENT, op).result, 0, "an old map is no reason to refuse a write");
    let maps = maps_sent(&w, CLIENT);
    let newest = w.mon.epoch();
    let epochs: Vec<u32> = maps[0].incremental_maps.keys().map(|e| e.0).collect();
    assert_eq!(epochs, (newest - 39..=newest).collect::<Vec<_>>(), "osd_map_share_max_epochs");
    assert!(maps[0].maps.is_empty());
}

#[test]
fn an_osd_without_the_newest_increment_sends_its_full_map() {
    let mut w = with_pool();
    let old = w.mon.epoch();
    w.mon.osdmap_next = None;
    w.mon.change(|_, _| {});
    w.mon_says(w.mon.maps_from(0));
    let op = w.op("a", old, vec![write(b"x")]);
    w.ask(CLIENT, op);
    let maps = maps_sent(&w, CLIENT);
    let newest = Epoch(w.osd.epoch().0);
    assert_eq!(maps[0].maps.keys().collect::<Vec<_>>(), [&newest]);
    assert_eq!(&maps[0].maps[&newest][..], &w.mon.epochs[newest.0 as usize - 1].full[..]);
}

#[test]
fn every_receiver_of_maps_is_given_the_clusters_trim_bound() {
    let mut w = with_pool();
    let old = w.mon.epoch();
    w.empty_epoch();
    let op = w.op("a", old, vec![write(b"x")]);
    w.ask(CLIENT, op);
    (0..50).for_each(|_| w.empty_epoch());
    let op = w.op("a", old + 1, vec![write(b"x")]);
    w.ask(CLIENT, op);
    let sent = maps_sent(&w, CLIENT);
    let bounds: Vec<Epoch> = sent.iter().map(|m| m.cluster_osdmap_trim_lower_bound).collect();
    assert_eq!(bounds, [Epoch(1), Epoch(1)], "the monitor of this world has every map");
    assert!(sent.iter().all(|m| m.newest_map.0 >= m.last().unwrap().0));
}

#[test]
fn another_osds_ping_brings_it_no_maps() {
    let mut w = with_pool();
    let mut peer = client(SessionId(8), Caps::all());
    peer.name = EntityName::new(EntityType::Osd, 0);
    w.event(OsdEvent::SessionOpened(peer));
    let old = w.mon.epoch();
    w.empty_epoch();
    let ping = OsdPing { fsid: FSID, map_epoch: Epoch(old), op: OsdPing::PING, ..OsdPing::default() };
    w.event(OsdEvent::Message { session: SessionId(8), message: ping.into(), bytes: 10 });
    let kinds: Vec<&str> = w.sent[&SessionId(8)].iter().map(|m| m.name()).collect();
    assert_eq!(kinds, ["MOSDPing"], "maps go over the connection between the OSDs");
}

#[test]
fn an_up_to_date_client_is_sent_no_maps() {
    let mut w = with_pool();
    let op = w.write("a", b"x");
    w.ask(CLIENT, op);
    assert!(maps_sent(&w, CLIENT).is_empty());
}

#[test]
fn what_is_for_another_osd_or_no_pool_is_dropped_and_holds_no_budget() {
    let mut w = with_pool();
    let mut op = w.write("a", b"x");
    op.pgid.pg.pool = PoolId(99);
    w.send_op(CLIENT, op);
    let mut op = w.write("a", b"x");
    op.pgid.pg.seed += 1000;
    w.send_op(CLIENT, op);
    assert!(w.sent.get(&CLIENT).is_none_or(|s| s.is_empty()));
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn an_operation_that_comes_before_its_pg_is_made_waits_for_it() {
    let mut w = World::active();
    w.open_client(CLIENT);
    w.announce_pool(1, 4);
    let op = w.write("a", b"x");
    let tid = op.tid;
    w.send_op(CLIENT, op);
    assert!(w.reply_to(CLIENT, tid).is_none());
    w.send_creates(1, 4);
    assert_eq!(w.reply_to(CLIENT, tid).map(|r| r.result), Some(0));
}

#[test]
fn past_the_budget_a_session_is_paused_and_resumed_when_replies_are_out() {
    let mut options = Values::new();
    options.set("osd_client_message_cap", "3").unwrap();
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    w.hold_store = true;
    for i in 0..3 {
        assert!(w.paused.is_empty(), "{i}");
        let op = w.write(&format!("o{i}"), b"x");
        w.send_op(CLIENT, op);
    }
    assert_eq!(w.paused, [CLIENT]);
    w.hold_store = false;
    w.settle();
    assert!(w.paused.is_empty());
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn an_osd_is_answered_and_not_paused_while_clients_have_spent_the_budget() {
    let mut options = Values::new();
    options.set("osd_client_message_cap", "1").unwrap();
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    let osd = SessionId(8);
    let mut peer = client(osd, Caps::all());
    peer.entity = "osd.5".parse().unwrap();
    peer.name = EntityName::new(EntityType::Osd, 5);
    w.event(OsdEvent::SessionOpened(peer));
    w.hold_store = true;
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    assert_eq!(w.paused, [CLIENT]);
    let ping = OsdPing { fsid: FSID, op: OsdPing::PING, ..OsdPing::default() };
    let effects = w.handle(OsdEvent::Message { session: osd, message: ping.into(), bytes: 200 });
    assert!(!effects.iter().any(|effect| matches!(effect, OsdEffect::Pause(_))), "{effects:?}");
    w.perform(effects);
    let Some(Message::OsdPing(reply)) = w.sent[&osd].first() else { panic!("{:?}", w.sent) };
    assert_eq!(reply.op, OsdPing::PING_REPLY);
    assert_eq!((&w.paused[..], w.osd.held()), (&[CLIENT][..], (1, 1000)));
    w.hold_store = false;
    w.settle();
    assert!(w.paused.is_empty());
}

#[test]
fn no_write_begins_while_the_store_has_as_much_as_it_may_though_the_session_that_brought_it_is_gone() {
    let mut options = Values::new();
    options.set("osd_client_message_size_cap", "100000").unwrap();
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    // What the store has in memory is answered at once, and commits are held.
    w.peeks = true;
    w.hold_store = true;
    let big = w.write("big", &[7; 100_000]);
    let begun = w.handle(OsdEvent::Message { session: CLIENT, message: big.into(), bytes: 1000 });
    assert!(begun.iter().any(|effect| matches!(effect, OsdEffect::Queue { .. })), "{begun:?}");
    w.perform(begun);
    w.event(OsdEvent::SessionClosed(CLIENT));
    assert_eq!(w.osd.held(), (0, 0), "its budget is free");

    let other = SessionId(CLIENT.0 + 1);
    w.open_client(other);
    let write = w.write("other", b"x");
    let effects = w.handle(OsdEvent::Message { session: other, message: write.clone().into(), bytes: 1000 });
    assert!(!effects.iter().any(|effect| matches!(effect, OsdEffect::Queue { .. })), "{effects:?}");
    w.perform(effects);
    let read = w.read("absent");
    assert_eq!(w.osd.held().0, 1);
    w.send_op(other, read.clone());
    w.hold_store = false;
    w.settle();
    assert_eq!(w.reply_to(other, write.tid).map(|reply| reply.result), Some(0), "{:#?}", w.log);
    assert!(w.reply_to(other, read.tid).is_some());
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_closed_session_and_a_deleted_pool_free_what_they_held() {
    let mut w = with_pool();
    w.hold_store = true;
    for i in 0..5 {
        let op = w.write(&format!("o{i}"), b"x");
        w.send_op(CLIENT, op);
    }
    assert_eq!(w.osd.held().0, 5);
    w.event(OsdEvent::SessionClosed(CLIENT));
    assert_eq!(w.osd.held(), (0, 0));
    w.hold_store = false;
    w.settle();

    w.open_client(CLIENT);
    w.hold_store = true;
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    w.delete_pool(1);
    w.hold_store = false;
    w.settle();
    assert_eq!(w.osd.held(), (0, 0));
    assert!(w.osd.pg_ids().is_empty());
}

/// Has another OSD act beside this one in all PGs of pool 1, which this OSD can't serve.
fn act_with_another(w: &mut World, acting: &[OsdId]) {
    let other = OsdId(1);
    w.change(|_, inc| {
        inc.new_max_osd = Some(2);
        inc.new_state.insert(other, maps::OsdState::EXISTS);
        inc.new_uuid.insert(other, Fsid([8; 16]));
    });
    w.change(|_, inc| {
        let addrs = EntityAddrVec::from(EntityAddr::v2(([127, 0, 0, 2], 6800).into(), 1));
        inc.new_up_client.insert(other, addrs.clone());
        inc.new_up_cluster.insert(other, addrs.clone());
        inc.new_hb_back_up.insert(other, addrs.clone());
        inc.new_hb_front_up.insert(other, addrs);
    });
    w.change(|_, inc| {
        for seed in 0..4 {
            inc.new_pg_temp.insert(pg(1, seed).pg, acting.to_vec());
        }
    });
}

fn resize_pool(w: &mut World, size: u8) {
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.size = size;
        inc.new_pools.insert(PoolId(1), pool);
    });
}

/// This OSD alone acts in all PGs of pool 1 again.
fn act_alone(w: &mut World) {
    w.change(|_, inc| {
        for seed in 0..4 {
            inc.new_pg_temp.insert(pg(1, seed).pg, vec![ME]);
        }
    });
}

#[test]
fn a_request_waits_through_intervals_with_the_same_primary() {
    let mut w = with_pool();
    let old = SessionId(102);
    let mut knows_no_backoffs = client(old, Caps::all());
    knows_no_backoffs.features &= !FeatureBits::RADOS_BACKOFF;
    w.event(OsdEvent::SessionOpened(knows_no_backoffs));
    act_with_another(&mut w, &[ME, OsdId(1)]);
    let op = w.write("a", b"x");
    let tid = op.tid;
    w.send_op(old, op);
    resize_pool(&mut w, 2);
    assert_eq!(w.osd.held().0, 1, "its client does not send it again");
    assert!(w.reply_to(old, tid).is_none());
    act_alone(&mut w);
    assert_eq!(w.reply_to(old, tid).map(|r| r.result), Some(0), "{:#?}", w.log);
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_read_for_any_copy_of_a_pg_that_is_not_here_is_sent_to_the_primary_and_a_write_is_dropped() {
    let mut w = World::active();
    w.announce_pool(1, 4);
    w.open_client(CLIENT);
    let mut read = w.read("a");
    read.flags |= OsdFlags::BALANCE_READS;
    let write = w.write("a", b"x");
    act_with_another(&mut w, &[OsdId(1), ME]);
    let tid = write.tid;
    assert_eq!(w.ask(CLIENT, read).result, Errno::EAGAIN.code());
    w.send_op(CLIENT, write);
    assert!(w.reply_to(CLIENT, tid).is_none());
    assert_eq!(w.osd.held(), (0, 0), "its client sends it to the primary when it has the map");
}

#[test]
fn a_pool_whose_pg_num_falls_is_an_error_in_both_logs_and_what_is_for_the_pgs_that_go_holds_no_budget() {
    let mut w = with_pool();
    let set_pg_num = |w: &mut World, pg_num: u32| {
        w.change(|map, inc| {
            let mut pool = map.pools[&PoolId(1)].clone();
            (pool.pg_num, pool.pgp_num) = (pg_num, pg_num);
            (pool.pg_num_pending, pool.pg_num_target) = (pg_num, pg_num);
            inc.new_pools.insert(PoolId(1), pool);
        });
    };
    let next = w.mon.osdmap_next.take();
    set_pg_num(&mut w, 8);
    let of_a_child = |w: &mut World| {
        let mut ops = (0..).map(|n| w.write(&format!("o{n}"), b"x"));
        ops.find(|op| op.pgid.pg.seed >= 4).unwrap()
    };
    let early = of_a_child(&mut w);
    w.send_op(CLIENT, early.clone());
    assert_eq!(w.osd.held().0, 1, "it waits for the map");
    w.mon.osdmap_next = next;
    w.push_maps();
    assert_eq!(w.reply_to(CLIENT, early.tid).unwrap().result, 0);
    let late = of_a_child(&mut w);
    set_pg_num(&mut w, 4);
    w.send_op(CLIENT, late);
    assert_eq!(w.osd.held(), (0, 0));
    let said = |text: &String| text.starts_with("Error pool 1: pg_num goes from 8 to 4");
    assert_eq!(w.log.iter().filter(|text| said(text)).count(), 1);
    let in_cluster_log = w.mon.received.iter().any(|m| match m {
        Message::Log(log) => log.entries[0].message.starts_with(b"pool 1: pg_num goes"),
        _ => false,
    });
    assert!(in_cluster_log);
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, 0);
}

#[test]
fn capabilities_are_asked_for_each_operation_and_command() {
    let mut w = with_pool();
    let reader = SessionId(7);
    w.event(OsdEvent::SessionOpened(client(reader, Caps::parse("allow r").unwrap())));
    let op = w.write("a", b"x");
    assert_eq!(w.ask(reader, op).result, Errno::EPERM.code());
    let op = w.read("a");
    assert_eq!(w.ask(reader, op).result, Errno::ENOENT.code());
    assert_eq!(tell(&mut w, reader, r#"{"prefix": "version"}"#).0, Errno::EACCES.code());
}

#[test]
fn a_blocklisted_client_is_refused_until_a_map_lacks_its_entry() {
    let mut w = with_pool();
    // As the monitor's command writes it.
    let who = EntityAddr { kind: AddrType::Any, ..client(CLIENT, Caps::all()).peer_addrs.0[0] };
    let until = UTime { sec: w.now.sec + 100, nsec: 0 };
    w.change(|_, inc| {
        inc.new_blocklist.insert(who, until);
    });
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, Errno::ESHUTDOWN.code());
    // The OSD's clock may be ahead of the monitor's.
    w.now = UTime { sec: until.sec + 1, nsec: 0 };
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, Errno::ESHUTDOWN.code());
    w.change(|_, inc| inc.old_blocklist.push(who));
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    assert_eq!(w.osd.held(), (0, 0));
}

/// Fences [`CLIENT`] as the monitor's command does.
fn blocklist_client(w: &mut World) {
    let who = EntityAddr { kind: AddrType::Any, ..client(CLIENT, Caps::all()).peer_addrs.0[0] };
    let until = UTime { sec: w.now.sec + 100, nsec: 0 };
    w.change(|_, inc| {
        inc.new_blocklist.insert(who, until);
    });
}

#[test]
fn a_write_that_waits_for_a_map_is_refused_when_that_map_fences_its_client() {
    let mut w = with_pool();
    let op = w.write("a", b"before");
    assert_eq!(w.ask(CLIENT, op).result, 0);
    let next = w.mon.epoch() + 1;
    let op = w.op("a", next, vec![write(b"late")]);
    let tid = op.tid;
    w.send_op(CLIENT, op);
    assert!(w.reply_to(CLIENT, tid).is_none());
    blocklist_client(&mut w);
    let reply = w.reply_to(CLIENT, tid).unwrap();
    assert_eq!((reply.result, reply.ops.len()), (Errno::ESHUTDOWN.code(), 1));
    let other = SessionId(200);
    w.event(OsdEvent::SessionOpened(client(other, Caps::all())));
    let op = w.read("a");
    assert_eq!(w.ask(other, op).ops[0].outdata.to_vec(), b"before");
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_write_that_waits_for_its_pg_to_be_made_is_refused_when_a_map_fences_its_client() {
    let mut w = World::active();
    w.announce_pool(1, 4);
    w.open_client(CLIENT);
    let op = w.write("a", b"late");
    let tid = op.tid;
    w.send_op(CLIENT, op);
    assert!(w.reply_to(CLIENT, tid).is_none());
    blocklist_client(&mut w);
    assert_eq!(w.reply_to(CLIENT, tid).map(|r| r.result), Some(Errno::ESHUTDOWN.code()));
    w.send_creates(1, 4);
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn a_resend_that_is_refused_leaves_the_budget_of_the_first_message() {
    let mut w = with_pool();
    // What the store has in memory is answered at once, and commits are held.
    w.peeks = true;
    w.hold_store = true;
    let first = w.write("a", b"x");
    let resend = OsdOp { epoch: first.epoch.next(), retry_attempt: 1, ..first.clone() };
    let tid = first.tid;
    // The store has the map before the write.
    blocklist_client(&mut w);
    w.event(OsdEvent::Message { session: CLIENT, message: first.into(), bytes: 1000 });
    w.event(OsdEvent::Message { session: CLIENT, message: resend.into(), bytes: 10 });
    assert_eq!(w.osd.held(), (2, 1010), "one is at the store, the other waits for the map");
    w.hold_store = false;
    // The OSD checks after each event that what its PGs have holds budget.
    w.settle();
    let replies = w.sent[&CLIENT].iter().filter_map(|message| match message {
        Message::OsdOpReply(reply) if reply.tid == tid => Some(reply.result),
        _ => None,
    });
    assert_eq!(replies.collect::<Vec<_>>(), [Errno::ESHUTDOWN.code(), 0]);
    assert_eq!(w.osd.held(), (0, 0));
}

#[test]
fn an_answer_frees_the_budget_of_its_own_pg_though_another_has_a_request_of_the_same_number() {
    let mut w = with_pool();
    // What the store has in memory is answered at once, and commits are held.
    w.peeks = true;
    w.hold_store = true;
    let first = w.write("a", b"x");
    let reads = (0..).map(|n| w.read(&format!("o{n}"))).find(|op| op.pgid != first.pgid);
    let second = OsdOp { tid: first.tid, ..reads.unwrap() };
    w.event(OsdEvent::Message { session: CLIENT, message: first.clone().into(), bytes: 1000 });
    w.event(OsdEvent::Message { session: CLIENT, message: second.into(), bytes: 10 });
    assert_eq!(w.reply_to(CLIENT, first.tid).map(|reply| reply.result), Some(Errno::ENOENT.code()));
    assert_eq!(w.osd.held(), (1, 1000), "the write is still at the store");
    w.osd.check().unwrap();
    w.hold_store = false;
    w.settle();
    assert_eq!(w.osd.held(), (0, 0));
}

fn tell(w: &mut World, session: SessionId, json: &str) -> (i32, String, serde_json::Value) {
    let command = Command { tid: 77, fsid: FSID, cmd: vec![json.into()], data: Default::default() };
    w.event(OsdEvent::Message { session, message: command.into(), bytes: 100 });
    match w.sent.get_mut(&session).and_then(Vec::pop) {
        Some(Message::CommandReply(r)) if r.tid == 77 => {
            (r.result, r.status, serde_json::from_slice(&r.data.to_vec()).unwrap_or_default())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn tell_answers_as_a_stock_osd_does() {
    let mut w = with_pool();
    let (result, _, version) = tell(&mut w, CLIENT, r#"{"prefix": "version"}"#);
    assert_eq!((result, &version["version"], &version["release"]), (0, &"16.2.15".into(), &"pacific".into()));
    let (_, _, all) = tell(&mut w, CLIENT, r#"{"prefix": "get_command_descriptions"}"#);
    let sigs: Vec<String> = all.as_object().unwrap().values().map(|c| c["sig"][0].to_string()).collect();
    assert!(sigs.contains(&"\"version\"".into()) && sigs.contains(&"\"config\"".into()), "{sigs:?}");
    let (_, _, status) = tell(&mut w, CLIENT, r#"{"prefix": "status"}"#);
    assert_eq!((&status["state"], &status["num_pgs"]), (&"active".into(), &4.into()));
    let (_, _, pg) = tell(&mut w, CLIENT, r#"{"prefix": "pg", "pgid": "1.2", "cmd": "query"}"#);
    assert_eq!(pg["state"], "active+clean");
}

#[test]
fn an_option_set_by_tell_or_by_the_monitor_has_effect_and_an_unknown_one_is_refused() {
    let mut w = with_pool();
    let set = r#"{"prefix": "config set", "var": "osd_client_message_cap", "val": ["1"]}"#;
    assert_eq!(tell(&mut w, CLIENT, set).0, 0);
    let op = w.write("a", b"x");
    w.hold_store = true;
    w.send_op(CLIENT, op);
    assert_eq!(w.paused, [CLIENT]);
    w.hold_store = false;
    w.settle();
    let get = r#"{"prefix": "config get", "var": "osd_client_message_cap"}"#;
    assert_eq!(tell(&mut w, CLIENT, get).2["osd_client_message_cap"], "1");
    let wrong = r#"{"prefix": "config set", "var": "osd_client_mesage_cap", "val": ["1"]}"#;
    assert_eq!(tell(&mut w, CLIENT, wrong).0, Errno::ENOENT.code());
    let config = [("osd_client_message_cap".to_string(), "5".to_string())].into();
    w.mon_says(messages::Config { config });
    assert_eq!(
        tell(&mut w, CLIENT, get).2["osd_client_message_cap"],
        "1",
        "what was told to this OSD counts more"
    );
    let unset = r#"{"prefix": "config unset", "var": "osd_client_message_cap"}"#;
    assert_eq!(tell(&mut w, CLIENT, unset).0, 0);
    assert_eq!(tell(&mut w, CLIENT, get).2["osd_client_message_cap"], "5");
}

#[test]
fn what_a_start_was_given_counts_more_than_what_the_monitor_holds() {
    let mut options = Values::new();
    options.set("osd_client_message_cap", "3").unwrap();
    let mut w = World::with(options);
    w.start();
    w.open_client(CLIENT);
    let config = [("osd_client_message_cap", "5"), ("osd_max_write_size", "80")];
    let config = config.map(|(name, value)| (name.to_string(), value.to_string())).into();
    w.mon_says(messages::Config { config });
    let show = tell(&mut w, CLIENT, r#"{"prefix": "config show"}"#).2;
    assert_eq!((&show["osd_client_message_cap"], &show["osd_max_write_size"]), (&"3".into(), &"80".into()));
}

#[test]
fn garbage_for_a_command_is_answered_not_fatal() {
    let mut w = with_pool();
    for json in
        ["", "{", "[]", "7", r#"{"prefix": 7}"#, r#"{"prefix": "nonsense"}"#, r#"{"prefix":"pg","pgid":"x"}"#]
    {
        let (result, status, _) = tell(&mut w, CLIENT, json);
        assert_eq!(result, Errno::EINVAL.code(), "{json}: {status}");
        assert!(!status.is_empty());
    }
    let deep = "[".repeat(60_000);
    assert_eq!(tell(&mut w, CLIENT, &deep).0, Errno::EINVAL.code());
}

#[test]
fn a_heartbeat_is_answered_as_a_stock_osd_does() {
    let mut w = with_pool();
    let mut peer = client(SessionId(8), Caps::all());
    peer.name = EntityName::new(EntityType::Osd, 5);
    w.event(OsdEvent::SessionOpened(peer));
    let ping = OsdPing {
        fsid: FSID,
        map_epoch: Epoch(w.mon.epoch()),
        op: OsdPing::PING,
        ping_stamp: UTime { sec: 9, nsec: 9 },
        padding_len: 100,
        ..OsdPing::default()
    };
    w.event(OsdEvent::Message { session: SessionId(8), message: ping.clone().into(), bytes: 200 });
    let Some(Message::OsdPing(reply)) = w.sent[&SessionId(8)].first() else { panic!() };
    assert_eq!((reply.op, reply.ping_stamp, reply.padding_len), (OsdPing::PING_REPLY, ping.ping_stamp, 100));
    assert_eq!(reply.up_from, w.mon.map().osd(ME).unwrap().info.up_from);
    let Some(Message::OsdPing(died)) = w.sent[&SessionId(8)].get(1) else { panic!() };
    assert_eq!(died.op, OsdPing::YOU_DIED, "there is no osd.5");
    let other = OsdPing { fsid: OSD_FSID, ..ping };
    w.event(OsdEvent::Message { session: SessionId(8), message: other.into(), bytes: 200 });
    assert_eq!(w.sent[&SessionId(8)].len(), 2, "another cluster's");
}

#[test]
fn a_message_that_nobody_handles_is_logged_once_with_its_name() {
    let mut w = with_pool();
    for _ in 0..3 {
        let message = messages::Statfs::default();
        w.event(OsdEvent::Message { session: CLIENT, message: message.into(), bytes: 1 });
        w.event(OsdEvent::Message { session: CLIENT, message: Ping::default().into(), bytes: 1 });
    }
    let said: Vec<&String> = w.log.iter().filter(|l| l.contains("not handled")).collect();
    assert_eq!(said.len(), 1);
    assert!(said[0].starts_with(&format!("{:?}", LogLevel::Warn)) && said[0].contains("MStatfs"), "{said:?}");
}

#[test]
fn an_operation_that_is_not_supported_is_logged_by_its_name() {
    let mut w = with_pool();
    let first = w.write("a", b"1");
    w.ask(CLIENT, first);
    let mut op = w.read("a");
    op.ops = vec![Op::new(OpCode::ISDIRTY, OpArgs::none())];
    w.ask(CLIENT, op);
    let line = w.log.iter().find(|line| line.contains("not supported")).unwrap();
    assert!(line.contains("operation isdirty (0x121d) is not supported yet"), "{line}");
}

#[test]
fn a_resent_write_after_a_restart_is_answered_from_the_log() {
    let mut w = with_pool();
    let op = w.write("a", b"1");
    let (again, epoch) = (op.clone(), w.mon.epoch());
    let version = w.ask(CLIENT, op).replay_version;
    let next = w.write("a", b"2");
    w.ask(CLIENT, next);
    w.restart();
    w.open_client(CLIENT);
    let reply = w.ask(CLIENT, messages::OsdOp { epoch: Epoch(epoch.max(w.mon.epoch())), ..again });
    assert_eq!((reply.result, reply.replay_version), (0, version));
    let op = w.read("a");
    assert_eq!(w.ask(CLIENT, op).ops[0].outdata.to_vec(), b"2", "not applied a second time");
}

#[test]
fn a_full_store_takes_no_write_but_deletions_and_says_so_until_there_is_room_again() {
    let mut w = World::small(4 << 20);
    let full = |w: &World| {
        w.mon.received.iter().rev().find_map(|m| match m {
            Message::OsdFull(m) => Some(m.state),
            _ => None,
        })
    };
    let data = vec![7; 64 << 10];
    let mut written = 0;
    let dropped = loop {
        let op = w.write(&format!("o{written}"), &data);
        let tid = op.tid;
        w.send_op(CLIENT, op);
        match w.reply_to(CLIENT, tid) {
            Some(reply) => assert_eq!(reply.result, 0),
            None => break tid,
        }
        written += 1;
        assert!(written < 64, "more than the store has");
    };
    assert!(written > 40, "{written} of 64");
    assert_eq!(full(&w), Some(maps::OsdState::FULL));
    assert_eq!(w.osd.held(), (1, 1000), "it waits: no map would bring it back yet");
    let small = w.write(&format!("o{written}"), b"small");
    let overtaker = small.tid;
    w.send_op(CLIENT, small);
    assert!(w.reply_to(CLIENT, overtaker).is_none(), "a write of the same object keeps its turn");
    let mut trying = w.write("tries", &data);
    trying.flags |= OsdFlags::FULL_TRY;
    let other = SessionId(101);
    w.open_client(other);
    let reply = w.ask(other, trying);
    assert_eq!((reply.result, reply.ops.len()), (Errno::ENOSPC.code(), 1), "clients compare the operations");
    // On a session of its own: behind a write of the same PG that waits it would keep its turn.
    let op = w.read("o0");
    assert_eq!(w.ask(other, op).ops[0].outdata.len(), data.len());
    // The map says so: the clients wait now. Deletions make room, and the OSD takes it back.
    w.change(|map, inc| {
        inc.new_state.insert(ME, maps::OsdState::FULL);
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.flags |= maps::PoolFlags::FULL;
        inc.new_pools.insert(PoolId(1), pool);
    });
    assert_eq!(w.osd.held(), (0, 0), "what is dropped holds nothing");
    assert!([dropped, overtaker].iter().all(|tid| w.reply_to(CLIENT, *tid).is_none()));
    for i in 0..written {
        let epoch = w.mon.epoch();
        let args = OpArgs::Extent { offset: 0, length: 0, truncate_size: 0, truncate_seq: 0 };
        let op = w.op(&format!("o{i}"), epoch, vec![Op::new(OpCode::DELETE, args)]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w.pass_ms(6000);
    assert_eq!(full(&w), Some(0));
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.flags &= !maps::PoolFlags::FULL;
        inc.new_pools.insert(PoolId(1), pool);
    });
    let op = w.write("again", &data);
    assert_eq!(w.ask(CLIENT, op).result, 0);
}

/// The states of fullness that the monitor was told.
fn fullness_told(w: &World) -> Vec<u32> {
    let told = w.mon.received.iter().filter_map(|m| match m {
        Message::OsdFull(m) => Some(m.state),
        _ => None,
    });
    told.collect()
}

/// A store of 4 MiB with 2 MiB in it, in objects `a` and `b`.
fn half_full() -> World {
    let mut w = World::small(4 << 20);
    for name in ["a", "b"] {
        let op = w.write(name, &[7; 1 << 20]);
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w
}

/// The map shows the OSD full.
fn show_full(w: &mut World) {
    w.change(|_, inc| {
        inc.new_state.insert(ME, maps::OsdState::FULL);
    });
    assert!(w.mon.map().osd(ME).is_some_and(|osd| osd.state & maps::OsdState::FULL != 0));
}

/// Clients hold their writes back, or no more.
fn set_full(w: &mut World, full: bool) {
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.flags = (pool.flags & !maps::PoolFlags::FULL) | if full { maps::PoolFlags::FULL } else { 0 };
        inc.new_pools.insert(PoolId(1), pool);
    });
}

/// The same and a write of 3 MiB, which waits: the map shows the OSD full. To be `sent_back`, it meets a pool that is full, too.
fn with_a_write_that_lacks_room(sent_back: bool) -> World {
    let mut w = half_full();
    let op = w.write("large", &[1; 3 << 20]);
    w.send_op(CLIENT, op);
    assert_eq!(fullness_told(&w), [maps::OsdState::FULL]);
    show_full(&mut w);
    if sent_back {
        set_full(&mut w, true);
    }
    w
}

#[test]
fn a_write_that_the_store_could_never_hold_is_refused_and_concerns_no_other() {
    let mut w = half_full();
    for flags in [0, OsdFlags::FULL_TRY] {
        let same = OpArgs::WriteSame { offset: 0, length: 4 << 20, data_length: 4096 };
        let epoch = w.mon.epoch();
        let mut op = w.op("m", epoch, vec![Op::new(OpCode::WRITESAME, same).with_indata(vec![1; 4096])]);
        op.flags |= flags;
        assert_eq!(w.ask(CLIENT, op).result, Errno::ENOSPC.code());
        let op = w.write("m", &[1; 64 << 10]);
        assert_eq!(w.ask(CLIENT, op).result, 0, "behind it");
    }
    w.pass_ms(6000);
    assert!(fullness_told(&w).is_empty());
}

#[test]
fn a_write_that_tries_and_does_not_fit_now_is_refused_and_concerns_no_other() {
    let mut w = half_full();
    let ops = [3 << 20, 1 << 20].map(|bytes| {
        let mut op = w.write("tries", &vec![1; bytes]);
        op.flags |= OsdFlags::FULL_TRY;
        op
    });
    let tids = [ops[0].tid, ops[1].tid];
    w.hold_store = true;
    ops.into_iter().for_each(|op| w.send_op(CLIENT, op));
    w.hold_store = false;
    w.settle();
    let results = tids.map(|tid| w.reply_to(CLIENT, tid).map(|reply| reply.result));
    assert_eq!(results, [Some(Errno::ENOSPC.code()), Some(0)], "the one behind it fits");
    w.pass_ms(6000);
    assert!(fullness_told(&w).is_empty());
}

#[test]
fn a_small_change_of_metadata_that_tries_takes_of_the_reserve_and_nothing_else_does() {
    let mut w = with_a_write_that_lacks_room(true);
    let other = SessionId(101);
    w.open_client(other);
    let mut tried = |name: &str, op: Op| {
        let epoch = w.mon.epoch();
        let mut op = w.op(name, epoch, vec![op]);
        op.flags |= OsdFlags::FULL_TRY;
        w.ask(other, op).result
    };
    let attr = |bytes: usize| {
        let args = OpArgs::Xattr { name_len: 1, value_len: bytes as u32, cmp_op: 0, cmp_mode: 0 };
        Op::new(OpCode::SETXATTR, args).with_indata(vec![b'k'; 1 + bytes])
    };
    let no_space = Errno::ENOSPC.code();
    assert_eq!(tried("a", attr(100)), 0, "what is written before an image is removed");
    assert_eq!(tried("a", attr(512 << 10)), no_space, "much");
    assert_eq!(tried("a", write(&[1; 4096])), no_space, "data");
    assert_eq!(tried("new", attr(100)), no_space, "a new object");
}

#[test]
fn room_that_a_client_waited_for_is_not_kept_when_it_is_gone() {
    for sent_back in [false, true] {
        let mut w = with_a_write_that_lacks_room(sent_back);
        let other = SessionId(101);
        w.open_client(other);
        if sent_back {
            assert_eq!(w.osd.held(), (0, 0));
            w.pass_ms(6000);
            assert_eq!(
                fullness_told(&w).last(),
                Some(&maps::OsdState::FULL),
                "it sends it again when there is room"
            );
        }
        let op = w.write("small", &[1; 64 << 10]);
        let small = op.tid;
        if !sent_back {
            w.send_op(other, op);
            assert!(w.reply_to(other, small).is_none(), "it does not overtake");
        }
        w.event(OsdEvent::SessionClosed(CLIENT));
        w.settle();
        assert_eq!(fullness_told(&w).last(), Some(&0));
        if sent_back {
            set_full(&mut w, false);
            let op = w.write("small", &[1; 64 << 10]);
            assert_eq!(w.ask(other, op).result, 0);
        } else {
            assert_eq!(w.reply_to(other, small).map(|reply| reply.result), Some(0));
        }
    }
}

#[test]
fn room_that_a_write_waits_for_is_not_kept_when_its_pg_is_led_elsewhere() {
    for sent_back in [false, true] {
        let mut w = with_a_write_that_lacks_room(sent_back);
        act_with_another(&mut w, &[OsdId(1)]);
        w.settle();
        assert_eq!(w.osd.held(), (0, 0), "its client sends it to the other one");
        w.pass_ms(6000);
        assert_eq!(fullness_told(&w).last(), Some(&0));
    }
}

#[test]
fn an_operation_from_before_its_pg_was_made_is_answered_though_maps_came_in_between() {
    let mut w = World::active();
    w.open_client(CLIENT);
    w.announce_pool(1, 4);
    let made = w.mon.epoch();
    let early = w.write("a", b"x");
    w.send_op(CLIENT, early.clone());
    w.empty_epoch();
    w.empty_epoch();
    w.send_creates_without_history(1, 4, made);
    assert_eq!(w.reply_to(CLIENT, early.tid).map(|r| r.result), Some(0), "the client would wait for ever");
    let mut late = w.write("b", b"x");
    late.epoch = Epoch(made);
    assert_eq!(w.ask(CLIENT, late).result, 0, "a client with the map of the pool's creation");
}

#[test]
fn a_write_that_lacks_space_only_while_others_are_under_way_waits_and_is_done() {
    let mut w = World::small(4 << 20);
    let data = vec![7; 512 << 10];
    let first = w.write("a", &data);
    assert_eq!(w.ask(CLIENT, first).result, 0);
    w.hold_store = true;
    // The same object over and over takes no more space in the end, but the OSD cannot know.
    let ops: Vec<_> = (0..12).map(|_| w.write("a", &data)).collect();
    let tids: Vec<u64> = ops.iter().map(|op| op.tid).collect();
    ops.into_iter().for_each(|op| w.send_op(CLIENT, op));
    assert!(w.osd.held().0 == 12);
    w.hold_store = false;
    w.settle();
    assert!(tids.iter().all(|tid| w.reply_to(CLIENT, *tid).is_some_and(|r| r.result == 0)));
    assert_eq!(w.count("MOSDFull"), 0);
}

#[test]
fn a_write_that_its_pg_has_and_the_store_has_not_counts_when_the_store_is_asked() {
    let mut w = World::small(4 << 20);
    // Each is of an object that its PG first looks for in the store, which is asked for its space meanwhile.
    w.hold_store = true;
    let ops: Vec<_> = (0..12).map(|n| w.write(&format!("o{n}"), &[7; 512 << 10])).collect();
    let tids: Vec<u64> = ops.iter().map(|op| op.tid).collect();
    ops.into_iter().for_each(|op| w.send_op(CLIENT, op));
    w.hold_store = false;
    w.settle();
    let results: Vec<_> = tids.iter().map(|tid| w.reply_to(CLIENT, *tid).map(|reply| reply.result)).collect();
    let (done, waiting) = results.split_at(7);
    assert!(done.iter().all(|result| *result == Some(0)), "{results:?}");
    assert!(waiting.iter().all(Option::is_none), "none is refused: {results:?}");
    assert_eq!(fullness_told(&w), [maps::OsdState::FULL]);
}

#[test]
fn all_pgs_together_keep_the_metadata_of_so_many_idle_objects() {
    let mut options = Values::new();
    options.set("osd_object_contexts_max", "40").unwrap();
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 8);
    w.open_client(CLIENT);
    for i in 0..200 {
        let op = w.write(&format!("o{i}"), b"x");
        w.ask(CLIENT, op);
        assert!(w.osd.object_contexts() <= 40 + 8, "{} after {i} objects", w.osd.object_contexts());
    }
    assert!(w.osd.object_contexts() > 20, "not each at once");
}

#[test]
fn so_many_of_them_may_have_been_used_once() {
    let kept = |once_max: &str| {
        let mut options = Values::new();
        options.set("osd_object_contexts_max", "400").unwrap();
        options.set("osd_object_contexts_once_max", once_max).unwrap();
        let mut w = World::with(options);
        w.start();
        w.create_pool(1, 1);
        w.open_client(CLIENT);
        for i in 0..200 {
            let op = w.write(&format!("o{i}"), b"x");
            w.ask(CLIENT, op);
        }
        w.osd.object_contexts()
    };
    let counts = ["20", "100", "1000"].map(kept);
    assert!((20..=28).contains(&counts[0]) && (100..=108).contains(&counts[1]), "{counts:?}");
    assert_eq!(counts[2], 200, "as many as there are, if the option lets them");
}
