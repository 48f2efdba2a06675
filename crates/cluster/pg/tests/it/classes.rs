//! Calls of object classes through a PG.

use std::sync::Arc;

use crate::common::*;
use auth::{Caps, SessionId};
use cls::testing::call;
use messages::osd_op::OsdFlags;
use messages::{Op, OpArgs, OpCode, OsdOpReply};
use ops::ClassTable;
use pg::{ClientOp, PgConfig, PgEvent, SetAside};
use types::Errno;

fn rig(default_list: &str) -> Rig {
    let classes = ClassTable::new(cls::CLASSES, "*", default_list);
    Rig::with_config(PgConfig { classes, ..PgConfig::default() })
}

fn answer(reply: OsdOpReply) -> (i32, Vec<u8>) {
    (reply.result, reply.ops[0].outdata.to_vec())
}

#[test]
fn a_method_runs_the_same_whether_its_reads_are_resident_or_waited_for() {
    for peeks in [false, true] {
        let mut rig = rig("*");
        rig.peeks = peeks;
        let say = || vec![call("hello", "say_hello", b"you")];
        assert_eq!(rig.ask("a", say()).result, Errno::ENOENT.code(), "as every read of what does not exist");
        assert_eq!(answer(rig.ask("a", vec![call("hello", "record_hello", b"you")])), (0, vec![]));
        assert_eq!(answer(rig.ask("a", vec![call("hello", "turn_it_to_11", b"")])), (0, vec![]));
        assert_eq!(answer(rig.ask("a", say())), (0, b"Hello, you!".to_vec()));
        assert_eq!(answer(rig.ask("a", vec![call("hello", "replay", b"")])), (0, b"HELLO, YOU!".to_vec()));
        let args = OpArgs::Xattr { name_len: 7, value_len: 0, cmp_op: 0, cmp_mode: 0 };
        let said_by = Op::new(OpCode::GETXATTR, args).with_indata(b"said_by".to_vec());
        let caller = format!("{} {}", rig.source, client_addr()).into_bytes();
        assert_eq!(answer(rig.ask("a", vec![said_by])), (0, caller));
    }
}

#[test]
fn a_call_that_writes_makes_a_version_and_its_resend_is_answered_from_the_log() {
    let mut rig = rig("*");
    let mut op = rig.message("a", vec![call("hello", "write_return_data", b"")]);
    op.flags |= OsdFlags::RETURNVEC;
    for _ in 0..2 {
        let reply = rig.ask_message(op.clone());
        assert_eq!((reply.result, reply.user_version), (42, 1));
        assert_eq!(reply.ops[0].outdata.to_vec(), b"you might see this");
    }
    assert_eq!(rig.pg.log().entries().len(), 1);
    let reply = rig.ask("a", vec![call("hello", "write_return_data", b"x")]);
    assert_eq!(answer(reply), (Errno::EINVAL.code(), b"too much input data!".to_vec()));
    assert_eq!(rig.pg.log().entries().len(), 2, "a failed write is remembered");
    rig.ask("a", vec![call("hello", "say_hello", b"")]);
    assert_eq!(rig.pg.log().entries().len(), 2, "a read is not");
}

#[test]
fn each_request_draws_other_numbers_and_each_run_of_it_the_same() {
    let mut tags = Vec::new();
    for oid in ["a", "b", "c"] {
        let mut rig = rig("*");
        rig.ask("other", vec![write_full(b"")]);
        let empty = b"\x01\x01\x16\0\0\0\x01\x01\x0c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        for oid in [oid, "d"] {
            assert_eq!(rig.ask(oid, vec![call("version", "inc", empty)]).result, 0);
            let (result, version) = answer(rig.ask(oid, vec![call("version", "read", b"")]));
            assert_eq!(result, 0);
            tags.push(version[version.len() - 24..].to_vec());
        }
    }
    assert_eq!((&tags[0], &tags[1]), (&tags[2], &tags[3]), "the same events give the same");
    assert_ne!(tags[0], tags[1]);
}

#[test]
fn who_may_call_is_judged_by_the_method_and_by_the_list_of_its_class() {
    let read = || vec![call("hello", "say_hello", b"")];
    let write = || vec![call("hello", "write_return_data", b"")];
    let cases = [
        ("hello", "allow rwx", true, true),
        ("hello", "allow rw", false, false),
        ("hello", "allow r class-read", true, false),
        ("hello", "allow r class-write", false, true),
        ("hello", "allow x", false, false),
        ("other", "allow rwx", false, false),
        ("other", "allow *", true, true),
    ];
    for (default_list, caps, reads, writes) in cases {
        let mut rig = rig(default_list);
        rig.ask("a", vec![write_full(b"")]);
        for (ops, permitted) in [(read(), reads), (write(), writes)] {
            let op = rig.message("a", ops);
            rig.event(PgEvent::ClientOp(
                ClientOp {
                    session: SessionId(1),
                    source: rig.source,
                    addrs: Arc::new(client_addr().into()),
                    features: u64::MAX,
                    caps: Caps::parse(caps).unwrap(),
                    op: Box::new(op),
                },
                SetAside::default(),
            ));
            rig.settle();
            let result = rig.replies.pop().unwrap().1.result;
            assert_eq!(result, if permitted { 0 } else { Errno::EPERM.code() }, "{caps}, {default_list}");
        }
    }
}
