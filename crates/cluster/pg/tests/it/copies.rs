//! What a PG does when a change has to become durable on several copies.

use crate::common::copies::Copies;
use crate::common::*;
use messages::osd_op::ListCursor;
use messages::{Op, OpArgs, OpCode};
use pg::PgEvent;
use store::{ReadOutcome, ReadRequest, StoreError};
use types::{Epoch, HObject};

const EIO: i32 = -5;

fn rig(seed: u64) -> Rig {
    Rig::of(Copies::Several { seed })
}

fn answered(rig: &mut Rig) -> Vec<u64> {
    rig.replies.drain(..).map(|(_, reply)| reply.tid).collect()
}

/// Sends an append to each of the objects; gives the requests' ids.
fn append_to(rig: &mut Rig, oids: &[&str]) -> Vec<u64> {
    let mut sent = Vec::new();
    for oid in oids {
        let op = rig.message(oid, vec![append(b"x")]);
        sent.push(op.tid);
        rig.send(op);
        rig.deliver_reads();
    }
    sent
}

#[test]
fn a_write_is_answered_when_every_copy_has_it() {
    let mut rig = rig(1);
    let sent = append_to(&mut rig, &["a"]);
    for copy in [3, 0, 2, 1] {
        assert_eq!(answered(&mut rig), []);
        while rig.commit_at(copy) {}
    }
    rig.hear();
    assert_eq!(answered(&mut rig), sent);
}

#[test]
fn changes_that_become_durable_at_once_are_answered_in_order() {
    let mut rig = rig(2);
    let sent = append_to(&mut rig, &["a", "b", "a", "c"]);
    for copy in [0, 2, 3] {
        while rig.commit_at(copy) {}
    }
    rig.hear();
    assert_eq!(answered(&mut rig), []);
    let mut answers = Vec::new();
    while rig.commit_at(1) {
        let some = answered(&mut rig);
        answers.push(some);
    }
    rig.hear();
    answers.push(answered(&mut rig));
    assert!(answers.iter().any(|at_once| at_once.len() > 1), "{answers:?}");
    assert_eq!(answers.concat(), sent);
}

#[test]
fn a_read_waits_until_every_copy_has_what_it_would_show() {
    let mut rig = rig(3);
    append_to(&mut rig, &["a"]);
    let op = rig.message("a", vec![read(0, 0)]);
    let tid = op.tid;
    rig.send(op);
    for copy in [0, 1, 2] {
        while rig.commit_at(copy) {}
        rig.hear();
    }
    assert_eq!((answered(&mut rig), rig.reads_due()), (vec![], 0));
    while rig.commit_at(3) {}
    rig.hear();
    rig.settle();
    assert_eq!(answered(&mut rig).last(), Some(&tid));
}

#[test]
fn a_copy_that_only_logs_keeps_the_log_and_no_object() {
    let mut rig = rig(4);
    for n in 0..5 {
        rig.ask(&format!("object{n}"), vec![write_full(b"data")]);
        rig.ask("object2", vec![create_exclusive()]);
    }
    let (first, logs) = (rig.dump(0), rig.dump(3));
    assert_eq!((first.log, first.objects.len()), (logs.log, 5));
    assert_eq!(logs.objects, []);
    rig.compare_copies();
}

#[test]
fn a_read_that_fails_at_one_copy_is_answered_by_another() {
    for (failures, result) in [(0, 0), (1, 0), (2, 0), (3, EIO)] {
        let mut rig = rig(5);
        rig.ask("a", vec![write_full(b"whole")]);
        let op = rig.message("a", vec![read(0, 0)]);
        rig.send(op);
        for _ in 0..failures {
            assert_eq!((rig.reads_due(), rig.replies.len()), (1, 0));
            rig.fail_read(StoreError::Damaged("a block".into()));
        }
        rig.settle();
        assert_eq!(
            rig.replies.pop().map(|(_, reply)| reply.result),
            Some(result),
            "{failures} copies failed"
        );
    }
}

#[test]
fn a_listing_that_fails_at_one_copy_is_answered_by_another() {
    for (failures, result) in [(0, 1), (1, 1), (2, 1), (3, EIO)] {
        let mut rig = rig(8);
        rig.ask("a", vec![write_full(b"whole")]);
        let args = OpArgs::Pgls { count: 10, start_epoch: Epoch(0) };
        let list = Op::new(OpCode::PGNLS, args).with_indata(ListCursor::plain(&HObject::min()));
        let op = rig.message("", vec![list]);
        rig.send(op);
        for _ in 0..failures {
            assert_eq!((rig.reads_due(), rig.replies.len()), (1, 0));
            rig.fail_read(StoreError::Damaged("a block".into()));
        }
        rig.settle();
        assert_eq!(
            rig.replies.pop().map(|(_, reply)| reply.result),
            Some(result),
            "{failures} copies failed"
        );
    }
}

#[test]
fn a_removal_waits_for_this_osds_store_and_for_no_other_copy() {
    let mut rig = rig(6);
    append_to(&mut rig, &["a", "b", "a"]);
    rig.event(PgEvent::Remove);
    for _ in 0..3 {
        assert_eq!(rig.reads_due(), 0, "a change is still to be made durable here");
        assert!(rig.commit_at(0));
    }
    while !rig.removed {
        assert!(rig.deliver_read() || rig.commit_at(0), "the removal waits for another copy");
    }
    assert!(!rig.failed);
    let left = rig.look(ReadRequest::Collection { collection: pgid().into() });
    assert_eq!(left, Ok(ReadOutcome::Collection(None)));
}

#[test]
fn what_another_copy_says_during_a_removal_does_not_disturb_it() {
    let mut rig = rig(7);
    append_to(&mut rig, &["a", "b", "a"]);
    rig.event(PgEvent::Remove);
    (0..3).for_each(|_| assert!(rig.commit_at(0)));
    for copy in [1, 2, 3] {
        while rig.commit_at(copy) {}
        rig.hear();
    }
    rig.settle();
    assert!(rig.removed && !rig.failed);
}
