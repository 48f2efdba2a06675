//! Requests that copy another object: what waits for them, and what does not.

use std::sync::Arc;

use crate::common::*;
use auth::SessionId;
use buffer::Rope;
use encoding::Encoder;
use messages::osd_op::{CopyCursor, CopyData};
use messages::{Op, OpArgs, OpCode};
use ops::{CopiedObject, CopySource, copy_get_op};
use pg::{PgEvent, SetAside};
use types::{EntityName, EntityType, Errno, Name, ObjectLocator, SnapId, UTime};

fn copy_from(source: &str) -> Op {
    let mut e = Encoder::new(0);
    let locator = ObjectLocator { pool: POOL, key: Name::new(), nspace: Name::new(), hash: -1 };
    e.put(source).put(&locator);
    let args = OpArgs::CopyFrom { snapid: SnapId::HEAD, src_version: 0, flags: 0, src_fadvise_flags: 0 };
    Op::new(OpCode::COPY_FROM, args).with_indata(e.into_bytes())
}

fn copy_get() -> Op {
    copy_get_op(&CopyCursor::default(), 1 << 20)
}

fn copied(data: &[u8]) -> CopiedObject {
    CopiedObject {
        mtime: UTime { sec: 77, nsec: 0 },
        user_version: 900,
        data: Rope::copy_from(data),
        data_digest: None,
        omap_digest: None,
        attrs: [("k".into(), Rope::copy_from(b"v"))].into(),
        omap_header: Rope::new(),
        omap: vec![("key".into(), Rope::copy_from(b"value"))],
        truncate_seq: 0,
        truncate_size: 0,
    }
}

/// Sends a COPY_FROM, and says of what the PG wants to know.
fn begin(rig: &mut Rig, session: u64, to: &str, from: &str) -> CopySource {
    let op = rig.message(to, vec![copy_from(from)]);
    rig.send_on(session, op);
    rig.deliver_reads();
    rig.copies_asked.last().expect("a copy").1.clone()
}

/// The oldest copy has read this.
fn arrive(rig: &mut Rig, result: Result<CopiedObject, Errno>) {
    let (token, _) = rig.copies_asked.remove(0);
    rig.event(PgEvent::Copied { token, result: result.map(Arc::new), set_aside: SetAside::default() });
}

fn results(rig: &Rig) -> Vec<(u64, i32)> {
    rig.replies.iter().map(|(SessionId(session), reply)| (*session, reply.result)).collect()
}

/// A COPY_GET of another OSD, on session 9.
fn get_by_an_osd(rig: &mut Rig, oid: &str) {
    let client = std::mem::replace(&mut rig.source, EntityName::new(EntityType::Osd, 3));
    let op = rig.message(oid, vec![copy_get()]);
    rig.send_on(9, op);
    rig.source = client;
}

#[test]
fn a_copy_has_its_sources_data_attributes_omap_time_and_version() {
    let mut rig = Rig::new();
    rig.ask("to", vec![write_full(b"longer than before")]);
    let source = begin(&mut rig, 1, "to", "from");
    assert_eq!((&source.name[..], source.locator.pool, source.snapid), (&b"from"[..], POOL, SnapId::HEAD));
    rig.settle();
    assert!(rig.replies.is_empty(), "it waits for its source");
    arrive(&mut rig, Ok(copied(b"data")));
    assert_eq!((rig.replies.len(), rig.uncommitted()), (0, 1), "it is answered when it is durable");
    rig.settle();
    let reply = rig.replies.pop().unwrap().1;
    assert_eq!((reply.result, reply.user_version), (0, 900));
    assert_eq!(rig.contents("to"), Some(b"data".to_vec()));
    let got = rig.ask("to", vec![stat(), xattr(OpCode::GETXATTR, "k", "", 0), copy_get()]);
    assert_eq!((got.result, got.user_version), (0, 900));
    assert_eq!(got.ops[1].outdata.to_vec(), b"v");
    let part = CopyData::from_piece(&got.ops[2].outdata.to_piece()).unwrap();
    assert!(part.cursor.is_complete());
    assert_eq!((part.data.to_vec(), part.mtime.sec), (b"data".to_vec(), 77));
    assert_eq!(part.omap_data.len(), 4 + 4 + 3 + 4 + 5);
    rig.ask("to", vec![append(b"x")]);
    assert!(rig.ask("to", vec![stat()]).user_version > 900, "versions of the object grow from there");
}

#[test]
fn what_comes_for_the_object_waits_for_the_copy_in_order() {
    let mut rig = Rig::new();
    begin(&mut rig, 1, "to", "from");
    for op in [append(b"1"), append(b"2"), read(0, 0)] {
        let op = rig.message("to", vec![op]);
        rig.send(op);
    }
    rig.settle();
    assert!(rig.replies.is_empty());
    assert_eq!(rig.contents("other"), None, "other objects do not wait");
    arrive(&mut rig, Ok(copied(b"data")));
    rig.settle();
    assert_eq!(results(&rig), [(1, 0); 4]);
    assert_eq!(rig.replies[3].1.ops[0].outdata.to_vec(), b"data12");
}

#[test]
fn an_error_of_the_source_is_the_copys_and_a_resend_gets_it_too() {
    let mut rig = Rig::new();
    let op = rig.message("to", vec![copy_from("from")]);
    rig.send(op.clone());
    rig.deliver_reads();
    arrive(&mut rig, Err(Errno::ENOENT));
    rig.settle();
    rig.send(op);
    rig.settle();
    assert_eq!(results(&rig), [(1, -2), (1, -2)]);
    assert!(rig.copies_asked.is_empty(), "the second time the log knows the answer");
    let first = &rig.replies[0].1;
    assert_eq!((first.replay_version.version, first.user_version), (0, 0), "it has no version, as Ceph's");
    assert_eq!(rig.contents("to"), None);
}

#[test]
fn a_request_that_fails_behind_its_copy_is_answered_with_the_sources_version() {
    let mut rig = Rig::new();
    rig.ask("to", vec![write_full(b"x")]);
    let op = rig.message("to", vec![copy_from("from"), create_exclusive()]);
    rig.send(op);
    rig.deliver_reads();
    arrive(&mut rig, Ok(copied(b"data")));
    rig.settle();
    let reply = rig.replies.pop().unwrap().1;
    assert_eq!((reply.result, reply.user_version), (Errno::EEXIST.code(), 900));
    let after = rig.ask("to", vec![append(b"y")]);
    assert_eq!((after.user_version, rig.contents("to")), (3, Some(b"xy".to_vec())), "nothing of it stays");
}

#[test]
fn an_object_is_no_copy_of_itself() {
    let mut rig = Rig::new();
    assert_eq!(rig.ask("a", vec![copy_from("a")]).result, Errno::EINVAL.code());
}

#[test]
fn copies_in_a_circle_end_because_osds_read_what_waits_for_its_source() {
    for peeks in [false, true] {
        let mut rig = Rig::new();
        rig.peeks = peeks;
        rig.ask("a", vec![write_full(b"a")]);
        rig.ask("b", vec![write_full(b"b")]);
        begin(&mut rig, 1, "a", "b");
        begin(&mut rig, 2, "b", "a");
        // A write that waits for the copy does not hold up the OSD that reads.
        let op = rig.message("b", vec![append(b"!")]);
        rig.send_on(3, op);
        get_by_an_osd(&mut rig, "b");
        get_by_an_osd(&mut rig, "a");
        rig.settle();
        assert_eq!(results(&rig), [(9, 0), (9, 0)]);
        let read = |at: usize| CopyData::from_piece(&rig.replies[at].1.ops[0].outdata.to_piece()).unwrap();
        assert_eq!((read(0).data.to_vec(), read(1).data.to_vec()), (b"b".to_vec(), b"a".to_vec()));
        rig.replies.clear();
        arrive(&mut rig, Ok(copied(b"b")));
        arrive(&mut rig, Ok(copied(b"a")));
        rig.settle();
        assert_eq!(results(&rig), [(1, 0), (2, 0), (3, 0)]);
        assert_eq!((rig.contents("a"), rig.contents("b")), (Some(b"b".to_vec()), Some(b"a!".to_vec())));
    }
}

#[test]
fn a_client_does_not_read_what_waits_for_its_source() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"a")]);
    begin(&mut rig, 1, "a", "b");
    let op = rig.message("a", vec![copy_get()]);
    rig.send_on(2, op);
    rig.settle();
    assert!(rig.replies.is_empty(), "it came after the copy");
}

#[test]
fn a_copy_changes_nothing_while_an_osd_reads_the_object() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"before")]);
    begin(&mut rig, 1, "a", "b");
    get_by_an_osd(&mut rig, "a");
    assert!(rig.reads_due() > 0, "the OSD's read is under way");
    arrive(&mut rig, Ok(copied(b"after")));
    assert_eq!(rig.uncommitted(), 0);
    rig.deliver_reads();
    let part = CopyData::from_piece(&rig.replies[0].1.ops[0].outdata.to_piece()).unwrap();
    assert_eq!(part.data.to_vec(), b"before");
    rig.settle();
    assert_eq!(results(&rig), [(9, 0), (1, 0)]);
    assert_eq!(rig.contents("a"), Some(b"after".to_vec()));
}

#[test]
fn the_end_of_its_session_or_of_the_interval_ends_a_copy() {
    let mut rig = Rig::new();
    begin(&mut rig, 1, "a", "b");
    let op = rig.message("a", vec![write_full(b"next")]);
    rig.send_on(2, op);
    rig.reset(1);
    rig.settle();
    assert!(rig.copies_asked.is_empty(), "its source is not wanted any more");
    assert_eq!(results(&rig), [(2, 0)], "what waited for it goes on");
    begin(&mut rig, 1, "a", "b");
    let old = rig.copies_asked[0].0;
    rig.epoch += 2;
    rig.event(PgEvent::AdvanceMap(Box::new(map(rig.epoch - 1, &[]))));
    assert!(rig.copies_asked.is_empty());
    rig.event(PgEvent::AdvanceMap(Box::new(map(rig.epoch, &[0]))));
    rig.settle();
    rig.event(PgEvent::Copied {
        token: old,
        result: Ok(Arc::new(copied(b"late"))),
        set_aside: SetAside::default(),
    });
    rig.settle();
    assert_eq!(rig.contents("a"), Some(b"next".to_vec()));
}

#[test]
fn a_copy_that_was_not_durable_is_gone_after_a_crash_and_one_that_was_stays() {
    let mut rig = Rig::new();
    begin(&mut rig, 1, "a", "b");
    arrive(&mut rig, Ok(copied(b"lost")));
    rig.crash();
    assert_eq!(rig.contents("a"), None);
    begin(&mut rig, 1, "a", "b");
    arrive(&mut rig, Ok(copied(b"kept")));
    rig.settle();
    rig.crash();
    assert_eq!(rig.contents("a"), Some(b"kept".to_vec()));
}

#[test]
fn a_head_is_cloned_before_a_copy_replaces_it() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let mut op = rig.message("a", vec![copy_from("b")]);
    (op.snap_seq, op.snaps) = (1, vec![SnapId(1)]);
    rig.send(op);
    rig.deliver_reads();
    arrive(&mut rig, Ok(copied(b"newer")));
    rig.settle();
    let mut op = rig.message("a", vec![read(0, 0)]);
    op.snapid = SnapId(1);
    assert_eq!(rig.ask_message(op).ops[0].outdata.to_vec(), b"old");
    assert_eq!(rig.contents("a"), Some(b"newer".to_vec()));
    let sum = rig.pg.info().stats.stats.sum;
    assert_eq!((sum.num_objects, sum.num_bytes), (2, 8));
}

#[test]
fn a_refused_change_before_it_makes_a_copy_begin_again() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    rig.refuse_next();
    let op = rig.message("a", vec![append(b"!")]);
    rig.send_on(2, op);
    begin(&mut rig, 1, "a", "b");
    let first = rig.copies_asked[0].0;
    rig.settle();
    assert_eq!(results(&rig), [(2, Errno::ENOSPC.code())]);
    assert!(rig.copies_asked.len() == 1 && rig.copies_asked[0].0 != first, "the source is asked for again");
    rig.event(PgEvent::Copied {
        token: first,
        result: Ok(Arc::new(copied(b"stale"))),
        set_aside: SetAside::default(),
    });
    arrive(&mut rig, Ok(copied(b"new")));
    rig.settle();
    assert_eq!(rig.contents("a"), Some(b"new".to_vec()));
}
