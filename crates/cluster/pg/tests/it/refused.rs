//! What a PG does when its store refuses a change.

use crate::common::copies::Copies;
use crate::common::*;
use messages::{OpCode, OsdOp};
use ops::FullKind;
use pg::{EntryKind, Notice, PgConfig, PgEvent};
use store::{StoreError, Token};
use types::{Epoch, Errno};

const ENOSPC: i32 = -28;

/// Each with the store alone and with several copies.
macro_rules! with_each_backend {
    ($($test:ident)*) => {
        mod one_copy {
            $(#[test]
            fn $test() {
                super::$test(super::Copies::One);
            })*
        }
        mod several_copies {
            $(#[test]
            fn $test() {
                (0..8).for_each(|seed| super::$test(super::Copies::Several { seed }));
            })*
        }
    };
}

with_each_backend! {
    a_refused_write_gets_its_errno_and_the_writes_behind_it_are_run_again
    of_a_refused_write_only_its_error_is_left
    so_it_is_after_a_restart
    a_resend_of_a_refused_write_gets_the_same_answer
    so_it_does_after_a_restart
    a_resend_that_names_another_object_gets_the_same_answer
    a_resend_of_a_refused_write_runs_before_the_writes_that_came_after_it
    the_pgs_own_records_behind_a_refused_write_are_durable_in_the_end
    a_guard_that_runs_again_sees_the_change_that_was_queued_just_before
    an_error_that_cannot_be_logged_is_answered
    requests_that_wait_for_reads_when_a_change_is_refused_begin_again
    reads_and_guards_behind_a_refused_write_see_what_is_there
    a_refusal_that_is_the_stores_or_the_pgs_own_fault_ends_the_pg
    a_refusal_of_the_pgs_own_records_ends_the_pg
}

fn a_refused_write_gets_its_errno_and_the_writes_behind_it_are_run_again(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"kept;")]);
    let before = rig.pg.info().last_update;
    rig.refuse_next();
    for (oid, data) in [("a", b"1;"), ("a", b"2;"), ("b", b"3;"), ("a", b"4;")] {
        let op = rig.message(oid, vec![append(data)]);
        rig.send(op);
    }
    rig.settle();
    let results: Vec<i32> = rig.replies.drain(..).map(|(_, reply)| reply.result).collect();
    assert_eq!(results, [ENOSPC, 0, 0, 0]);
    assert_eq!(rig.contents("a"), Some(b"kept;2;4;".to_vec()));
    assert_eq!(rig.contents("b"), Some(b"3;".to_vec()));
    assert_eq!(rig.pg.info().last_update.version, before.version + 4, "three changes and an error");
    assert!(rig.pg.is_active() && !rig.failed);
    assert_eq!(rig.notices.iter().filter(|n| matches!(n, Notice::ChangeRefused { .. })).count(), 1);
}

fn of_a_refused_write_only_its_error_is_left(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"kept;")]);
    let before = rig.pg.info().clone();
    rig.refuse_next();
    assert_eq!(rig.ask("b", vec![write_full(b"lost;")]).result, ENOSPC);
    let (info, newest) = (rig.pg.info(), rig.pg.log().entries().back().expect("an entry"));
    assert_eq!((newest.kind, newest.return_code), (EntryKind::Error, ENOSPC));
    assert_eq!(info.last_update, newest.version);
    assert_eq!(info.stats.stats, before.stats.stats);
    assert_eq!(info.last_user_version, before.last_user_version);
}

fn so_it_is_after_a_restart(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"kept;")]);
    rig.refuse_next();
    assert_eq!(rig.ask("a", vec![append(b"lost;")]).result, ENOSPC);
    rig.ask("a", vec![append(b"after;")]);
    let (update, sum) = (rig.pg.info().last_update, rig.pg.info().stats.stats.sum);
    rig.crash();
    assert_eq!(rig.contents("a"), Some(b"kept;after;".to_vec()));
    assert_eq!(rig.pg.log().head(), update);
    let again = rig.pg.info().stats.stats.sum;
    assert_eq!(
        (again.num_bytes, again.num_objects, again.num_wr),
        (sum.num_bytes, sum.num_objects, sum.num_wr)
    );
}

fn a_resend_of_a_refused_write_gets_the_same_answer(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send_on(1, op.clone());
    rig.send_on(2, op.clone());
    rig.settle();
    rig.ask("a", vec![append(b"y")]);
    rig.send_on(3, op);
    rig.settle();
    let results: Vec<(u64, i32)> = rig.replies.drain(..).map(|(s, reply)| (s.0, reply.result)).collect();
    assert_eq!(results, [(1, ENOSPC), (2, ENOSPC), (3, ENOSPC)]);
    assert_eq!(rig.contents("a"), Some(b"y".to_vec()));
}

fn so_it_does_after_a_restart(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"x")]);
    assert_eq!(rig.ask_message(op.clone()).result, ENOSPC);
    rig.crash();
    assert_eq!(rig.ask_message(OsdOp { epoch: Epoch(rig.epoch), ..op }).result, ENOSPC);
    assert_eq!(rig.contents("a"), None);
}

fn a_resend_that_names_another_object_gets_the_same_answer(copies: Copies) {
    // No context stays that nothing refers to, so that the next object takes the place of the one before.
    let mut rig = Rig::with(PgConfig { object_contexts_idle_max: 0, ..PgConfig::default() }, copies);
    rig.refuse_next();
    let first = rig.message("a", vec![append(b"x")]);
    let again = OsdOp { tid: first.tid, ..rig.message("z", vec![append(b"x")]) };
    rig.send_on(1, first);
    rig.deliver_reads();
    rig.send_on(2, again);
    rig.deliver_reads();
    let other = rig.message("y", vec![append(b"y")]);
    rig.send_on(3, other);
    rig.settle();
    let mut results: Vec<(u64, i32)> = rig.replies.drain(..).map(|(s, reply)| (s.0, reply.result)).collect();
    results.sort_unstable();
    assert_eq!(results, [(1, ENOSPC), (2, ENOSPC), (3, 0)]);
    assert_eq!(rig.contents("a"), None);
    assert_eq!(rig.contents("y"), Some(b"y".to_vec()));
    assert_eq!(rig.contents("z"), None);
}

fn a_resend_of_a_refused_write_runs_before_the_writes_that_came_after_it(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"0;")]);
    rig.refuse_next();
    let first = rig.message("a", vec![append(b"1;")]);
    rig.send(first.clone());
    // An interval ends and another begins before the store answers: the client sends again what is not answered.
    for acting in [&[][..], &[0]] {
        rig.epoch += 1;
        rig.event(PgEvent::AdvanceMap(Box::new(map(rig.epoch, acting))));
    }
    rig.send(OsdOp { epoch: Epoch(rig.epoch), ..first });
    let second = rig.message("a", vec![append(b"2;")]);
    rig.send(second);
    rig.settle();
    assert_eq!(rig.replies.drain(..).map(|(_, reply)| reply.result).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(rig.contents("a"), Some(b"0;1;2;".to_vec()));
}

fn the_pgs_own_records_behind_a_refused_write_are_durable_in_the_end(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"0;")]);
    rig.refuse_next();
    let refused = rig.message("a", vec![append(b"1;")]);
    rig.send(refused);
    // The pool is full in an interval in which this OSD does not act.
    for (acting, full) in [(&[][..], Some(FullKind::Space)), (&[0], None)] {
        rig.epoch += 1;
        let mut view = map(rig.epoch, acting);
        view.pool.full = full;
        rig.event(PgEvent::AdvanceMap(Box::new(view)));
    }
    rig.settle();
    assert_eq!(rig.notices.iter().filter(|n| matches!(n, Notice::ChangeRefused { .. })).count(), 1);
    let full_since = rig.pg.info().history.last_epoch_marked_full;
    assert_eq!(full_since, Epoch(rig.epoch - 1));
    rig.crash();
    assert_eq!(rig.pg.info().history.last_epoch_marked_full, full_since);
}

fn a_guard_that_runs_again_sees_the_change_that_was_queued_just_before(copies: Copies) {
    for peeks in [false, true] {
        let mut rig = Rig::of(copies);
        rig.peeks = peeks;
        rig.ask("a", vec![xattr(OpCode::SETXATTR, "k", "1", 0)]);
        rig.refuse_next();
        let refused = rig.message("a", vec![append(b"never")]);
        let set = rig.message("a", vec![xattr(OpCode::SETXATTR, "k", "2", 0)]);
        let guarded = rig.message("a", vec![xattr(OpCode::CMPXATTR, "k", "2", 1), append(b"yes")]);
        for op in [refused, set, guarded] {
            rig.send(op);
        }
        rig.settle();
        let results: Vec<i32> = rig.replies.drain(..).map(|(_, reply)| reply.result).collect();
        assert_eq!(results, [ENOSPC, 0, 0], "peeks: {peeks}");
        assert_eq!(rig.contents("a"), Some(b"yes".to_vec()));
    }
}

fn requests_that_wait_for_reads_when_a_change_is_refused_begin_again(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.ask("a", vec![write_full(b"0;"), xattr(OpCode::SETXATTR, "k", "1", 0)]);
    rig.refuse_next();
    for data in [b"1;", b"2;", b"3;"] {
        // The second waits for its guard, the third for the second.
        let guards = usize::from(data == b"2;");
        let mut ops = vec![xattr(OpCode::CMPXATTR, "k", "1", 1); guards];
        ops.push(append(data));
        let op = rig.message("a", ops);
        rig.send(op);
    }
    assert_eq!((rig.reads_due(), rig.uncommitted()), (1, 1));
    rig.commit_one();
    rig.settle();
    assert!(!rig.failed);
    let results: Vec<i32> = rig.replies.drain(..).map(|(_, reply)| reply.result).collect();
    assert_eq!(results, [ENOSPC, 0, 0]);
    assert_eq!(rig.contents("a"), Some(b"0;2;3;".to_vec()));
}

#[test]
fn a_write_of_an_object_that_cannot_be_read_is_remembered_too() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"0;")]);
    rig.crash();
    let op = rig.message("a", vec![append(b"1;")]);
    rig.send(op.clone());
    rig.fail_read(StoreError::Io { what: "read", errno: Errno::EIO, at: None });
    rig.settle();
    assert_eq!(rig.replies.drain(..).map(|(_, reply)| reply.result).collect::<Vec<_>>(), [-5]);
    assert_eq!(rig.ask("a", vec![append(b"2;")]).result, 0);
    assert_eq!(rig.ask_message(op).result, -5);
    assert_eq!(rig.contents("a"), Some(b"0;2;".to_vec()));
}

fn an_error_that_cannot_be_logged_is_answered(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    // The next transaction is the error's entry.
    rig.refuse_next();
    rig.settle();
    assert_eq!(rig.replies.drain(..).map(|(_, reply)| reply.result).collect::<Vec<_>>(), [ENOSPC]);
    assert!(rig.pg.is_active() && !rig.failed);
}

fn reads_and_guards_behind_a_refused_write_see_what_is_there(copies: Copies) {
    for peeks in [false, true] {
        let mut rig = Rig::of(copies);
        rig.peeks = peeks;
        rig.ask("a", vec![write_full(b"old")]);
        rig.refuse_next();
        let refused = rig.message("a", vec![write_full(b"never")]);
        let guarded = rig.message("a", vec![stat(), read(0, 0), append(b"er")]);
        let reads = rig.message("a", vec![read(0, 0)]);
        for op in [refused, guarded, reads] {
            rig.send(op);
        }
        rig.settle();
        let got: Vec<_> = rig.replies.drain(..).map(|(_, r)| (r.result, r.ops)).collect();
        assert_eq!(got[0].0, ENOSPC);
        assert_eq!((got[2].0, got[2].1[0].outdata.to_vec()), (0, b"older".to_vec()), "peeks: {peeks}");
    }
}

fn a_refusal_that_is_the_stores_or_the_pgs_own_fault_ends_the_pg(copies: Copies) {
    for error in [
        StoreError::Stopped,
        StoreError::Io { what: "commit", errno: Errno::EIO, at: None },
        StoreError::NoSuchCollection(pgid().into()),
    ] {
        let mut rig = Rig::of(copies);
        let op = rig.message("a", vec![append(b"x")]);
        rig.send(op);
        rig.deliver_reads();
        rig.refuse_queued(error);
        assert!(rig.failed && rig.replies.is_empty());
    }
}

fn a_refusal_of_the_pgs_own_records_ends_the_pg(copies: Copies) {
    let mut rig = Rig::of(copies);
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[]))));
    rig.refuse_queued(StoreError::NoSpace { needed: 1, available: 0 });
    assert!(rig.failed);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "not in flight"))]
fn a_refusal_of_what_was_never_queued_is_a_bug() {
    let mut rig = Rig::new();
    rig.event(PgEvent::Refused {
        token: Token(1 << 30),
        error: StoreError::NoSpace { needed: 1, available: 0 },
    });
    assert!(rig.failed);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "followed a refusal"))]
fn a_commit_of_what_followed_a_refusal_is_a_bug() {
    let mut rig = Rig::new();
    for data in [b"1", b"2"] {
        let op = rig.message("a", vec![append(data)]);
        rig.send(op);
    }
    rig.deliver_reads();
    // No client is to be answered: the error is not logged, for which this store would have no place.
    rig.epoch += 1;
    rig.event(PgEvent::AdvanceMap(Box::new(map(rig.epoch, &[]))));
    rig.refuse_queued(StoreError::NoSpace { needed: 1, available: 0 });
    rig.commit_one();
    assert!(rig.failed);
}

#[test]
fn several_reads_of_resident_data_need_no_second_run() {
    let mut rig = Rig::new();
    rig.peeks = true;
    rig.ask("a", vec![write_full(b"0123456789")]);
    rig.trace.clear();
    let ops = (0..5).map(|i| read(i * 2, 2)).collect();
    let reply = rig.ask("a", ops);
    let got: Vec<_> = reply.ops.iter().map(|op| op.outdata.to_vec()).collect();
    assert_eq!(got.concat(), b"0123456789");
    assert!(rig.trace.iter().all(|effect| !effect.starts_with("Read")), "{:?}", rig.trace);
}
