//! When an interval starts to be served, and what becomes of requests that one interval leaves to the next.

use std::sync::Arc;

use crate::common::*;
use messages::{OpCode, PgState};
use pg::{Active, MapView, Notice, Origin, Peering, Pg, PgEffect, PgEvent, Phase};
use types::{Epoch, Errno, UTime};

/// The map with another pool size, which begins an interval with the same primary.
fn resized(map: MapView, size: u32) -> MapView {
    let pool = pg::PoolView { size, ..map.pool };
    MapView { pool, ..map }
}

/// The map, in which this OSD was last seen alive in the epoch `up_thru`.
fn alive_until(map: MapView, up_thru: u32) -> MapView {
    let mut osdmap = osdmap(map.epoch.0);
    osdmap.osds[0].info.up_thru = Epoch(up_thru);
    MapView { osdmap: Arc::new(osdmap), ..map }
}

fn advance(rig: &mut Rig, map: MapView) {
    rig.event(PgEvent::AdvanceMap(Box::new(map)));
}

/// Requests of each kind that has begun: a change in flight, one parked for a read, one in its object's queue, a resend
/// and a listing that wait for the change. Their transaction ids.
fn begin_all(rig: &mut Rig) -> Vec<u64> {
    rig.ask("b", vec![write_full(b"old")]);
    let change = rig.message("a", vec![append(b"1")]);
    let resend = change.clone();
    let parked = rig.message("b", vec![xattr(OpCode::CMPXATTR, "k", "", 1), append(b"2")]);
    let queued = rig.message("b", vec![append(b"3")]);
    let cursor = types::HObject::min();
    let args = messages::OpArgs::Pgls { count: 10, start_epoch: Epoch(0) };
    let list =
        messages::Op::new(OpCode::PGNLS, args).with_indata(messages::osd_op::ListCursor::plain(&cursor));
    let listing = rig.message("", vec![list]);
    let tids = [&change, &resend, &parked, &queued, &listing].map(|op| op.tid);
    rig.send(change);
    rig.deliver_reads();
    rig.send(resend);
    rig.send(listing);
    rig.deliver_reads();
    rig.send(parked);
    rig.send(queued);
    assert!(rig.uncommitted() > 0 && rig.reads_due() > 0);
    assert_eq!(rig.pg.load_counts().1, 1, "one is parked");
    tids.to_vec()
}

fn answered(rig: &mut Rig) -> Vec<(u64, i32)> {
    let mut all: Vec<_> = rig.replies.drain(..).map(|(_, reply)| (reply.tid, reply.result)).collect();
    all.sort();
    all
}

#[test]
fn requests_go_on_in_the_next_interval_where_the_primary_stays() {
    let mut rig = Rig::new();
    let tids = begin_all(&mut rig);
    advance(&mut rig, resized(map(6, &[0]), 2));
    rig.settle();
    assert_eq!(rig.dropped(), [], "clients do not send them again");
    let all: Vec<u64> = answered(&mut rig).into_iter().map(|(tid, _)| tid).collect();
    assert_eq!(all, tids, "each is answered once");
    let [a, b] = ["a", "b"].map(|oid| rig.contents(oid).unwrap());
    assert_eq!((&a[..], &b[..]), (&b"1"[..], &b"old23"[..]), "in order, and none twice");
}

#[test]
fn requests_wait_through_intervals_that_cannot_be_served_where_the_primary_stays() {
    let mut rig = Rig::without_backoffs();
    let tids = begin_all(&mut rig);
    advance(&mut rig, map(6, &[0, 1]));
    rig.settle();
    assert_eq!((answered(&mut rig).len(), rig.dropped().len()), (0, 0));
    advance(&mut rig, map(7, &[0]));
    rig.settle();
    let all: Vec<u64> = answered(&mut rig).into_iter().map(|(tid, _)| tid).collect();
    assert_eq!(all, tids);
    assert_eq!(rig.contents("a").unwrap(), b"1");
    assert_eq!(rig.contents("b").unwrap(), b"old23");
}

#[test]
fn requests_are_dropped_where_the_primary_changes() {
    let mut rig = Rig::new();
    let tids = begin_all(&mut rig);
    advance(&mut rig, map(6, &[1]));
    rig.settle();
    assert_eq!(answered(&mut rig), []);
    let mut dropped: Vec<u64> = rig.dropped().into_iter().map(|(_, tid)| tid).collect();
    dropped.sort();
    assert_eq!(dropped, tids);
}

#[test]
fn a_change_that_is_refused_after_its_interval_is_made_again() {
    let mut rig = Rig::new();
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    advance(&mut rig, resized(map(6, &[0]), 2));
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, 0)]);
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn nothing_is_served_before_the_start_of_the_interval_is_durable() {
    let mut rig = Rig::new();
    advance(&mut rig, resized(map(6, &[0]), 2));
    assert_eq!(rig.pg.phase(), Phase::Peering(Peering::Activating));
    assert_eq!(rig.pg.info().history.last_epoch_started, Epoch(5), "what others would hear");
    assert_eq!(rig.pg.info().last_epoch_started, Epoch(6), "what is being written");
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    assert_eq!(rig.uncommitted(), 1, "the record of the start alone");
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, 0)]);
    assert_eq!(rig.pg.info().history.last_epoch_started, Epoch(6));
    assert_eq!(rig.pg.info().history.last_epoch_clean, Epoch(5), "one of two copies acts");
    assert_eq!(rig.pg.phase(), Phase::Active(Active::Undersized));
    let state = PgState::ACTIVE.with(PgState::UNDERSIZED).with(PgState::DEGRADED);
    assert_eq!(rig.pg.state(), state);
}

#[test]
fn the_record_of_an_earlier_interval_does_not_start_a_later_one() {
    let mut rig = Rig::new();
    advance(&mut rig, resized(map(6, &[0]), 2));
    advance(&mut rig, resized(map(7, &[0]), 3));
    rig.commit_one();
    assert_eq!(rig.pg.phase(), Phase::Peering(Peering::Activating));
    rig.commit_one();
    assert!(rig.pg.is_active());
    assert_eq!(rig.pg.info().history.last_interval_started, Epoch(7));
}

#[test]
fn a_start_that_a_refusal_undoes_is_written_again() {
    let mut rig = Rig::new();
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    advance(&mut rig, resized(map(6, &[0]), 2));
    rig.commit_one();
    assert!(!rig.pg.is_active());
    rig.settle();
    assert!(rig.pg.is_active() && !rig.failed);
}

#[test]
fn an_interval_starts_when_a_map_shows_its_primary_alive_in_it() {
    let mut rig = Rig::without_backoffs();
    advance(&mut rig, alive_until(resized(map(6, &[0]), 2), 5));
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.settle();
    assert_eq!(rig.pg.phase(), Phase::Peering(Peering::UpThru));
    assert_eq!(rig.pg.state(), PgState::PEERING);
    assert_eq!(rig.pg.info().last_epoch_started, Epoch(5));
    advance(&mut rig, alive_until(resized(map(7, &[0]), 2), 5));
    rig.settle();
    assert_eq!(answered(&mut rig), []);
    advance(&mut rig, alive_until(resized(map(8, &[0]), 2), 6));
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, 0)]);
    assert_eq!(rig.pg.info().last_epoch_started, Epoch(8));
}

#[test]
fn a_new_pg_waits_for_up_thru_too() {
    let mut out = Vec::new();
    let origin = Origin::at(alive_until(map(5, &[0]), 4), UTime::default());
    let config = Rig::new().config;
    let pg = Pg::create(pgid(), ME, config, origin, UTime::default(), &mut out);
    assert_eq!(pg.phase(), Phase::Peering(Peering::UpThru));
    assert!(matches!(out[..], [PgEffect::Queue { .. }, PgEffect::Queue { .. }]));
}

#[test]
fn fewer_copies_than_min_size_serve_nothing_and_say_so() {
    let mut rig = Rig::without_backoffs();
    let mut larger = resized(map(6, &[0]), 3);
    larger.pool.min_size = 2;
    advance(&mut rig, larger);
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.settle();
    assert_eq!((rig.pg.phase(), answered(&mut rig)), (Phase::Peered, vec![]));
    assert!(matches!(rig.notices[..], [Notice::NotServed { .. }]));
    assert!(rig.pg.state().has(PgState::PEERED) && !rig.pg.state().has(PgState::ACTIVE));
    assert_eq!(rig.pg.info().last_epoch_started, Epoch(5), "it takes no writes");
    advance(&mut rig, resized(map(7, &[0]), 3));
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, 0)]);
}

/// Osd.1 acts alone from epoch 6 on; the map of its last epoch says that it was alive until `up_thru`. Then this OSD.
fn after_another(up_thru: u32, then: impl Fn(&mut MapView)) -> Phase {
    let mut rig = Rig::new();
    let with_other = |epoch: u32, acting: &[i32]| {
        let mut osdmap = osdmap(epoch);
        osdmap.osds[1].info.up_thru = Epoch(up_thru);
        MapView { osdmap: Arc::new(osdmap), ..map(epoch, acting) }
    };
    advance(&mut rig, with_other(6, &[1]));
    advance(&mut rig, with_other(7, &[1]));
    let mut back = with_other(8, &[0]);
    then(&mut back);
    advance(&mut rig, back);
    rig.settle();
    rig.pg.phase()
}

#[test]
fn a_copy_that_may_lack_another_osds_writes_is_not_served() {
    let change = |back: &mut MapView, change: &dyn Fn(&mut maps::Osd)| {
        change(&mut Arc::make_mut(&mut back.osdmap).osds[1]);
    };
    let (others, active) = (Phase::Peering(Peering::Others), Phase::Active(Active::Clean));
    assert_eq!(after_another(6, |_| {}), others, "it could be asked");
    let down = |osd: &mut maps::Osd| osd.state = maps::OsdState::EXISTS;
    assert_eq!(after_another(6, |back| change(back, &down)), others, "it will come back");
    assert_eq!(after_another(5, |_| {}), active, "it was never seen alive in its interval");
    let lost = |osd: &mut maps::Osd| {
        osd.state = maps::OsdState::EXISTS;
        osd.info.lost_at = Epoch(7);
    };
    assert_eq!(after_another(6, |back| change(back, &lost)), active);
    let removed = |osd: &mut maps::Osd| *osd = maps::Osd::default();
    assert_eq!(after_another(6, |back| change(back, &removed)), active);
}

#[test]
fn a_map_that_gives_the_other_osd_up_as_lost_lets_the_copy_serve() {
    let mut rig = Rig::without_backoffs();
    advance(&mut rig, map(6, &[1]));
    advance(&mut rig, map(7, &[0]));
    rig.epoch = 7;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.settle();
    assert_eq!(answered(&mut rig), []);
    let mut lost = map(8, &[0]);
    let osdmap = Arc::make_mut(&mut lost.osdmap);
    osdmap.osds[1].state = maps::OsdState::EXISTS;
    osdmap.osds[1].info.lost_at = Epoch(7);
    advance(&mut rig, lost);
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, 0)]);
}

#[test]
fn a_read_for_any_copy_waits_where_this_osd_leads() {
    let mut rig = Rig::without_backoffs();
    advance(&mut rig, map(6, &[0, 1]));
    rig.epoch = 6;
    let mut op = rig.message("a", vec![read(0, 0)]);
    op.flags |= messages::osd_op::OsdFlags::BALANCE_READS;
    rig.send(op);
    rig.settle();
    assert_eq!(answered(&mut rig), []);
    advance(&mut rig, map(7, &[0]));
    rig.settle();
    assert_eq!(answered(&mut rig), [(1, Errno::ENOENT.code())]);
}
