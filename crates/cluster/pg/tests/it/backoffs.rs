//! Sessions hold back from a PG that can't serve them soon.

use crate::common::*;
use pg::{MapView, PgEvent};
use store::StoreError;

fn advance(rig: &mut Rig, map: MapView) {
    rig.event(PgEvent::AdvanceMap(Box::new(map)));
}

/// A rig whose PG can't serve from epoch 6 on.
fn unserved() -> Rig {
    let mut rig = Rig::new();
    advance(&mut rig, map(6, &[0, 1]));
    rig.settle();
    rig.epoch = 6;
    rig
}

fn serve(rig: &mut Rig, epoch: u32) {
    advance(rig, map(epoch, &[0]));
    rig.settle();
}

fn send(rig: &mut Rig, session: u64, data: &[u8]) -> u64 {
    let op = rig.message("a", vec![append(data)]);
    let tid = op.tid;
    rig.send_on(session, op);
    tid
}

fn backoff_ended(rig: &mut Rig, session: u64) {
    rig.event(PgEvent::BackoffEnded { session: auth::SessionId(session) });
}

#[test]
fn each_session_is_asked_once_to_hold_back_and_may_send_again_when_the_pg_serves() {
    let mut rig = unserved();
    let first = send(&mut rig, 1, b"1");
    let second = send(&mut rig, 1, b"2");
    let other = send(&mut rig, 2, b"3");
    assert_eq!(rig.backoffs, [(1, Some(first)), (2, Some(other))]);
    assert_eq!(rig.dropped(), [(1, second)]);
    assert_eq!(rig.pg.load_counts().2, 0, "nothing waits");
    rig.backoffs.clear();
    serve(&mut rig, 7);
    assert_eq!(rig.backoffs, [(1, None), (2, None)]);
    assert!(rig.replies.is_empty());
}

#[test]
fn the_range_is_the_pgs() {
    let mut rig = unserved();
    rig.trace.clear();
    send(&mut rig, 1, b"1");
    let trace = rig.trace.concat();
    assert!(
        trace.contains("Block") && trace.contains("epoch: Epoch(6)") && trace.contains("end: MAX"),
        "{trace}"
    );
    let mut rig = Rig::new();
    let mut of_two = map(6, &[0, 1]);
    of_two.pool.pg_num = 2;
    advance(&mut rig, of_two);
    rig.trace.clear();
    send(&mut rig, 1, b"1");
    assert!(!rig.trace.concat().contains("end: MAX"));
}

#[test]
fn what_a_session_sent_before_it_learned_of_its_backoff_never_runs() {
    let mut rig = unserved();
    send(&mut rig, 1, b"1");
    serve(&mut rig, 7);
    // It was under way when the backoff began. The client sends both again, in order.
    let late = send(&mut rig, 1, b"2");
    rig.settle();
    assert_eq!(rig.dropped(), [(1, late)]);
    backoff_ended(&mut rig, 1);
    rig.epoch = 7;
    send(&mut rig, 1, b"1");
    send(&mut rig, 1, b"2");
    rig.settle();
    assert_eq!(rig.contents("a").unwrap(), b"12");
}

#[test]
fn a_backoff_outlives_intervals_that_are_not_served() {
    let mut rig = unserved();
    send(&mut rig, 1, b"1");
    rig.backoffs.clear();
    advance(&mut rig, map(7, &[0, 2]));
    rig.settle();
    assert_eq!(rig.backoffs, []);
    serve(&mut rig, 8);
    assert_eq!(rig.backoffs, [(1, None)]);
}

#[test]
fn one_that_ends_while_the_next_interval_begins_is_followed_by_another() {
    let mut rig = unserved();
    send(&mut rig, 1, b"1");
    serve(&mut rig, 7);
    advance(&mut rig, map(8, &[0, 1]));
    rig.settle();
    rig.backoffs.clear();
    rig.epoch = 8;
    let early = send(&mut rig, 1, b"2");
    assert_eq!((rig.backoffs.len(), rig.dropped()), (0, vec![(1, early)]), "the client hears of the end yet");
    backoff_ended(&mut rig, 1);
    let tid = send(&mut rig, 1, b"1");
    assert_eq!(rig.backoffs, [(1, Some(tid))]);
    rig.backoffs.clear();
    serve(&mut rig, 9);
    assert_eq!(rig.backoffs, [(1, None)]);
}

#[test]
fn requests_that_have_begun_are_held_back_when_their_interval_ends() {
    let mut rig = Rig::new();
    let change = send(&mut rig, 1, b"1");
    rig.deliver_reads();
    let queued = send(&mut rig, 1, b"2");
    advance(&mut rig, map(6, &[0, 1]));
    rig.settle();
    assert_eq!((&rig.backoffs[..], rig.replies.len()), (&[(1, Some(change))][..], 0));
    assert_eq!(rig.dropped(), [(1, queued)]);
}

#[test]
fn another_primarys_backoffs_end_and_a_session_that_ends_is_forgotten() {
    let mut rig = unserved();
    send(&mut rig, 1, b"1");
    send(&mut rig, 2, b"1");
    rig.event(PgEvent::SessionReset { session: auth::SessionId(2) });
    rig.backoffs.clear();
    advance(&mut rig, map(7, &[1]));
    assert_eq!(rig.backoffs, [(1, None)]);
}

#[test]
fn a_failed_pg_has_its_sessions_hold_back() {
    let mut rig = Rig::new();
    let tid = send(&mut rig, 1, b"1");
    rig.deliver_reads();
    rig.refuse_queued(StoreError::Stopped);
    assert!(rig.failed);
    assert_eq!(rig.backoffs, [(1, Some(tid))]);
    let other = send(&mut rig, 2, b"2");
    assert_eq!(rig.backoffs, [(1, Some(tid)), (2, Some(other))]);
    rig.event(PgEvent::SessionReset { session: auth::SessionId(2) });
    let again = send(&mut rig, 2, b"2");
    assert_eq!(rig.backoffs.last(), Some(&(2, Some(again))));
}

#[test]
fn a_pg_that_is_about_to_serve_keeps_its_requests() {
    let mut rig = Rig::new();
    let mut larger = map(6, &[0]);
    larger.pool.size = 2;
    advance(&mut rig, larger);
    rig.epoch = 6;
    send(&mut rig, 1, b"1");
    rig.settle();
    assert_eq!((rig.backoffs.len(), rig.replies.len()), (0, 1));
}
