//! A pool's number of PGs grows while clients use it: the new PGs are there with the map that names them, or come out of
//! the store after a restart.

use std::collections::BTreeSet;

use crate::world::*;
use maps::PgPool;
use messages::{Message, OsdBackoff, PgState};
use osd::OsdEvent;
use types::{Epoch, PoolId, SpgId};

/// An epoch in which the pool has this number of PGs.
fn set_pg_num(w: &mut World, pg_num: u32) {
    w.mon.change(|map, inc| {
        let mut pool: PgPool = map.pools[&PoolId(1)].clone();
        (pool.pg_num, pool.pg_num_pending, pool.pg_num_target) = (pg_num, pg_num, pg_num);
        inc.new_pools.insert(PoolId(1), pool);
    });
}

fn grow(w: &mut World, pg_num: u32) {
    set_pg_num(w, pg_num);
    w.push_maps();
}

fn with_pool(pg_num: u32) -> World {
    let mut w = World::active();
    w.create_pool(1, pg_num);
    w.finish_pool(1);
    w.open_client(CLIENT);
    w
}

fn names() -> Vec<String> {
    (0..50).map(|n| format!("object {n}")).collect()
}

fn fill(w: &mut World) {
    for name in names() {
        let op = w.write(&name, name.as_bytes());
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
}

/// Every PG is there and active, and every object is where the map has it.
fn check(w: &mut World) {
    let pg_num = w.mon.map().pools[&PoolId(1)].pg_num;
    assert_eq!(w.failed, None);
    assert_eq!(w.osd.pg_ids(), (0..pg_num).map(|seed| pg(1, seed)).collect::<Vec<_>>());
    for name in names() {
        let op = w.read(&name);
        assert_eq!(w.ask(CLIENT, op).ops[0].outdata.to_vec(), name.as_bytes());
    }
    w.pass_ms(6000);
    let stats = w.stats().unwrap();
    assert_eq!(stats.pg_stat.len(), pg_num as usize);
    assert!(stats.pg_stat.values().all(|stat| stat.state == PgState::ACTIVE.with(PgState::CLEAN)));
    let objects: i64 = stats.pg_stat.values().map(|stat| stat.stats.sum.num_objects).sum();
    assert_eq!(objects, 50);
}

#[test]
fn pgs_split_with_the_map_and_serve_where_clients_look_for_their_objects() {
    let mut w = with_pool(4);
    fill(&mut w);
    for pg_num in [6, 13, 64] {
        grow(&mut w, pg_num);
        check(&mut w);
    }
}

#[test]
fn a_restart_begins_with_the_pgs_that_were_stored() {
    let mut w = with_pool(4);
    fill(&mut w);
    grow(&mut w, 13);
    w.restart();
    w.open_client(CLIENT);
    check(&mut w);
    // Down, while the pool grows twice.
    set_pg_num(&mut w, 20);
    set_pg_num(&mut w, 100);
    w.restart();
    w.open_client(CLIENT);
    check(&mut w);
}

#[test]
fn a_restart_at_any_point_of_a_split_ends_with_every_pg() {
    for steps in (0..60).step_by(4) {
        let mut w = with_pool(4);
        fill(&mut w);
        w.hold_store = true;
        grow(&mut w, 32);
        for _ in 0..steps {
            w.complete_one();
        }
        w.hold_store = false;
        w.restart();
        w.open_client(CLIENT);
        check(&mut w);
    }
}

#[test]
fn requests_of_the_new_map_wait_for_their_pgs_and_those_of_before_are_dropped() {
    let mut w = with_pool(4);
    fill(&mut w);
    w.hold_store = true;
    let before: Vec<_> = names().iter().map(|name| w.write(name, b"before")).collect();
    // The map is stored before what they change.
    grow(&mut w, 32);
    before.iter().for_each(|op| w.send_op(CLIENT, op.clone()));
    let after: Vec<_> = names().iter().map(|name| w.write(name, name.as_bytes())).collect();
    after.iter().for_each(|op| w.send_op(CLIENT, op.clone()));
    assert_eq!(w.osd.held().0, 100);
    w.hold_store = false;
    w.settle();
    assert!(after.iter().all(|op| w.reply_to(CLIENT, op.tid).is_some_and(|reply| reply.result == 0)));
    assert!(before.iter().all(|op| w.reply_to(CLIENT, op.tid).is_none()), "sent again by their clients");
    assert_eq!(w.osd.held(), (0, 0), "and they hold no budget");
    check(&mut w);
}

#[test]
fn a_client_gets_the_map_that_drops_its_request() {
    let mut w = with_pool(4);
    fill(&mut w);
    w.hold_store = true;
    let op = w.write("object 1", b"before");
    set_pg_num(&mut w, 32);
    let grown = Epoch(w.mon.epoch());
    w.push_maps();
    w.send_op(CLIENT, op.clone());
    w.hold_store = false;
    w.sent.clear();
    w.settle();
    assert!(w.reply_to(CLIENT, op.tid).is_none());
    let got = w.sent[&CLIENT].iter().filter_map(|m| match m {
        Message::OsdMap(map) => map.last(),
        _ => None,
    });
    assert!(got.max() >= Some(grown), "no map: it would send the request again when it has waited for long");
}

#[test]
fn many_pgs_split_a_few_at_a_time_and_no_map_overtakes_them() {
    let mut w = with_pool(100);
    w.hold_store = true;
    grow(&mut w, 200);
    for _ in 0..5 {
        w.empty_epoch();
    }
    let mut most = 0;
    while w.complete_one() {
        most = most.max(w.splits.len());
    }
    w.hold_store = false;
    w.settle();
    assert!((2..=8).contains(&most), "{most}");
    assert_eq!(w.osd.pg_ids().len(), 200);
    assert_eq!(w.osd.epoch(), Epoch(w.mon.epoch()));
}

#[test]
fn a_pg_that_comes_out_of_another_is_never_made_by_an_order() {
    let mut w = with_pool(4);
    fill(&mut w);
    let made = w.mon.epoch() - 1;
    set_pg_num(&mut w, 8);
    // The order is there before the map.
    w.send_creates_without_history(1, 8, made);
    w.hold_store = true;
    w.push_maps();
    w.send_creates_without_history(1, 8, made);
    w.hold_store = false;
    w.settle();
    check(&mut w);
    w.send_creates_without_history(1, 8, made);
    check(&mut w);
    assert!(!w.mon.received.iter().any(|m| matches!(m, Message::OsdPgCreated(c) if c.pgid.seed >= 4)));
    assert_eq!(w.collections().len(), 9, "the meta collection and 8 PGs");
}

fn backoffs(w: &mut World) -> Vec<OsdBackoff> {
    let sent = w.sent.remove(&CLIENT).into_iter().flatten();
    sent.filter_map(|m| if let Message::OsdBackoff(b) = m { Some(*b) } else { None }).collect()
}

/// The client acknowledges what asks it to hold back. The PGs concerned, and those that no longer are.
fn acknowledge(w: &mut World) -> (BTreeSet<SpgId>, BTreeSet<SpgId>) {
    let (mut begun, mut ended) = (BTreeSet::new(), BTreeSet::new());
    for backoff in backoffs(w) {
        if backoff.op == OsdBackoff::UNBLOCK {
            assert!(ended.insert(backoff.pgid), "{backoff:?} ends twice");
            continue;
        }
        assert!(begun.insert(backoff.pgid), "{backoff:?} begins twice");
        let message = OsdBackoff { op: OsdBackoff::ACK_BLOCK, ..backoff }.into();
        w.event(OsdEvent::Message { session: CLIENT, message, bytes: 100 });
    }
    (begun, ended)
}

#[test]
fn a_refused_split_holds_nothing_up_and_is_made_when_there_is_room() {
    let mut w = with_pool(4);
    fill(&mut w);
    w.refuse_splits = true;
    set_pg_num(&mut w, 8);
    w.hold_store = true;
    w.push_maps();
    // These wait for their PGs, old and new ones.
    let early: Vec<_> = names().iter().take(25).map(|name| w.read(name)).collect();
    early.iter().for_each(|op| w.send_op(CLIENT, op.clone()));
    assert_eq!(w.osd.held().0, 25);
    w.sent.clear();
    w.hold_store = false;
    w.settle();
    assert_eq!((&w.failed, w.osd.held()), (&None, (0, 0)), "nothing waits here");
    let all: BTreeSet<_> = (0..8).map(|seed| pg(1, seed)).collect();
    let (mut begun, _) = acknowledge(&mut w);
    // These come later.
    let late: Vec<_> = names().iter().map(|name| w.read(name)).collect();
    late.iter().for_each(|op| w.send_op(CLIENT, op.clone()));
    begun.extend(acknowledge(&mut w).0);
    assert_eq!((&begun, w.osd.held()), (&all, (0, 0)));
    assert_eq!(w.osd.epoch(), Epoch(w.mon.epoch()), "maps go on");
    w.empty_epoch();
    w.pass_ms(6000);
    let states =
        |w: &World| -> Vec<PgState> { w.stats().unwrap().pg_stat.values().map(|s| s.state).collect() };
    assert_eq!(states(&w), [PgState::DOWN; 4]);
    // It is refused again, and once more.
    w.pass_ms(32_000);
    assert_eq!((acknowledge(&mut w), states(&w)), (Default::default(), vec![PgState::DOWN; 4]));
    w.refuse_splits = false;
    w.pass_ms(60_000);
    assert_eq!(acknowledge(&mut w), (BTreeSet::new(), all), "its clients may send again");
    check(&mut w);
    assert_eq!(w.collections().len(), 9, "the meta collection and 8 PGs");
    grow(&mut w, 16);
    check(&mut w);
}

#[test]
fn what_a_refused_split_holds_back_ends_with_its_pool() {
    let mut w = with_pool(4);
    fill(&mut w);
    w.refuse_splits = true;
    grow(&mut w, 8);
    let ops: Vec<_> = names().iter().map(|name| w.read(name)).collect();
    ops.iter().for_each(|op| w.send_op(CLIENT, op.clone()));
    assert_eq!(acknowledge(&mut w).0.len(), 8);
    w.delete_pool(1);
    let new = (4..8).map(|seed| pg(1, seed)).collect();
    assert_eq!(acknowledge(&mut w), (BTreeSet::new(), new), "no PG will come to be");
    w.pass_ms(20_000);
    assert_eq!((w.osd.pg_ids(), w.collections().len(), w.osd.held()), (vec![], 1, (0, 0)));
}
