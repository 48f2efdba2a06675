//! Order, durability and resends of requests.

use crate::common::*;
use auth::SessionId;
use buffer::Rope;
use messages::osd_op::{OpFlags, OsdFlags};
use messages::{Op, OpArgs, OpCode};
use pg::{Notice, PgEvent, SetAside};
use types::{AddrType, EVersion, EntityAddr, EntityName, EntityType, Epoch, Errno, ReqId, UTime};

#[test]
fn what_is_written_is_read_with_its_versions() {
    let mut rig = Rig::new();
    let wrote = rig.ask("a", vec![write_full(b"hello")]);
    assert_eq!((wrote.result, wrote.replay_version, wrote.user_version), (0, EVersion::new(Epoch(5), 1), 1));
    assert_eq!(wrote.flags, i64::from(OsdFlags::ACK | OsdFlags::ONDISK), "as ceph-osd's");
    let got = rig.ask("a", vec![read(1, 3), stat()]);
    assert_eq!((got.result, got.replay_version, got.user_version), (0, EVersion::default(), 1));
    assert_eq!(got.ops[0].outdata.to_vec(), b"ell");
    assert_eq!(got.ops[1].outdata.to_vec()[..8], 5u64.to_le_bytes());
    assert_eq!(rig.pg.info().stats.stats.sum.num_objects, 1);
    assert_eq!(rig.pg.info().stats.stats.sum.num_bytes, 5);
    assert_eq!(rig.pg.info().stats.stats.sum.num_objects_dirty, 1);
}

#[test]
fn a_read_of_a_missing_object_is_enoent_without_a_version() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let got = rig.ask("b", vec![read(0, 0)]);
    // What ceph-osd does; ceph_test_rados_api_asio looks at it.
    assert_eq!((got.result, got.user_version), (Errno::ENOENT.code(), 0));
    assert_eq!(got.replay_version, EVersion::default());
}

#[test]
fn a_write_is_answered_when_it_is_durable_and_not_before() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    assert_eq!((rig.uncommitted(), rig.replies.len()), (1, 0));
    rig.commit_one();
    assert_eq!(rig.replies.len(), 1);
}

#[test]
fn a_read_waits_for_the_objects_uncommitted_writes_and_not_for_others() {
    let mut rig = Rig::new();
    rig.ask("other", vec![write_full(b"o")]);
    for (oid, op) in [("a", write_full(b"x")), ("a", stat()), ("other", stat())] {
        let op = rig.message(oid, vec![op]);
        rig.send(op);
        rig.deliver_reads();
    }
    assert_eq!(rig.replies.len(), 1, "only the other object's");
    assert_eq!(&rig.replies[0].1.oid[..], b"other");
    rig.commit_one();
    assert_eq!(rig.replies.len(), 3);
}

#[test]
fn an_rwordered_read_shows_nothing_that_is_not_durable() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send(op);
    let mut op = rig.message("a", vec![stat()]);
    op.flags |= OsdFlags::RWORDERED;
    rig.send(op);
    rig.deliver_reads();
    assert!(rig.replies.is_empty());
    rig.settle();
    assert_eq!(rig.replies.iter().map(|r| r.1.result).collect::<Vec<_>>(), [0, 0]);
}

#[test]
fn writes_of_an_object_need_not_wait_for_each_others_commits_and_keep_their_order() {
    let mut rig = Rig::new();
    for data in [b"1", b"2", b"3"] {
        let op = rig.message("a", vec![append(data)]);
        rig.send(op);
    }
    rig.deliver_reads();
    assert_eq!(rig.uncommitted(), 3);
    rig.settle();
    assert_eq!(rig.replies.iter().map(|r| r.1.tid).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(rig.contents("a").unwrap(), b"123");
}

#[test]
fn a_write_waits_for_a_read_that_came_before_it() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let reader = rig.message("a", vec![read(0, 0)]);
    let writer = rig.message("a", vec![write_full(b"new")]);
    rig.send(reader);
    rig.send(writer);
    assert_eq!((rig.reads_due(), rig.uncommitted()), (1, 0));
    rig.settle();
    assert_eq!(rig.replies[0].1.ops[0].outdata.to_vec(), b"old");
    assert_eq!(rig.contents("a").unwrap(), b"new");
}

#[test]
fn a_guarded_write_is_run_again_when_what_it_compares_with_was_read() {
    let mut rig = Rig::new();
    rig.ask("a", vec![xattr(OpCode::SETXATTR, "k", "v", 0)]);
    let op = rig.message("a", vec![xattr(OpCode::CMPXATTR, "k", "v", 1), append(b"yes")]);
    rig.send(op);
    let later = rig.message("a", vec![append(b"!")]);
    rig.send(later);
    assert_eq!((rig.reads_due(), rig.uncommitted()), (1, 0), "the later write keeps its place");
    rig.settle();
    let refused = rig.ask("a", vec![xattr(OpCode::CMPXATTR, "k", "w", 1), append(b"no")]);
    assert_eq!(refused.result, Errno::ECANCELED.code());
    assert_eq!(rig.contents("a").unwrap(), b"yes!");
}

#[test]
fn a_resend_in_flight_waits_for_the_same_commit_and_is_answered_once() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op.clone());
    rig.deliver_reads();
    rig.send_on(2, op);
    rig.deliver_reads();
    assert_eq!((rig.uncommitted(), rig.replies.len()), (1, 0));
    rig.commit_one();
    assert_eq!(rig.replies.iter().map(|r| r.0).collect::<Vec<_>>(), [SessionId(1), SessionId(2)]);
    assert_eq!(rig.replies[0].1.replay_version, rig.replies[1].1.replay_version);
    assert_eq!(rig.replies[0].1.user_version, rig.replies[1].1.user_version);
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn a_resend_in_the_queue_behind_its_original_is_applied_once() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op.clone());
    rig.send_on(2, op);
    rig.settle();
    assert_eq!(rig.replies.len(), 2);
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn a_resend_after_the_commit_or_a_restart_gets_the_stored_answer() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    let first = rig.ask_message(op.clone());
    let again = rig.ask_message(op.clone());
    rig.crash();
    let after = rig.ask_message(messages::OsdOp { epoch: Epoch(rig.epoch), retry_attempt: 3, ..op });
    for resend in [&again, &after] {
        assert_eq!(resend.result, 0);
        assert_eq!(resend.replay_version, first.replay_version);
        assert_eq!(resend.user_version, first.user_version);
    }
    assert_eq!(after.retry_attempt, 3);
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn an_exclusive_create_that_failed_fails_again_although_the_object_is_gone() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create_exclusive()]);
    let op = rig.message("a", vec![create_exclusive()]);
    let first = rig.ask_message(op.clone());
    assert_eq!(first.result, Errno::EEXIST.code());
    assert_eq!(rig.ask("a", vec![delete()]).result, 0);
    assert_eq!(rig.ask_message(op.clone()).result, Errno::EEXIST.code());
    rig.crash();
    let after = rig.ask_message(messages::OsdOp { epoch: Epoch(rig.epoch), ..op });
    assert_eq!((after.result, after.replay_version), (Errno::EEXIST.code(), first.replay_version));
    assert_eq!(after.ops[0].rval, Errno::EEXIST.code());
    assert_eq!(rig.contents("a"), None);
}

/// The answer's versions, and that of a write that follows.
fn versions(rig: &mut Rig, op: messages::OsdOp) -> (i32, u64, u64, u64) {
    let got = rig.ask_message(op);
    let next = rig.ask("next", vec![append(b"x")]);
    (got.result, got.replay_version.version, got.user_version, next.replay_version.version)
}

#[test]
fn a_write_that_changes_nothing_is_a_version_of_the_pg() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let op = rig.message("a", vec![create_exclusive()]);
    assert_eq!(versions(&mut rig, op), (Errno::EEXIST.code(), 2, 1, 3));
    let op = rig.message("gone", vec![delete()]);
    assert_eq!(versions(&mut rig, op), (Errno::ENOENT.code(), 4, 3, 5), "a floor for the object's version");
    let truncate = Op::new(OpCode::TRUNCATE, OpArgs::none());
    let op = rig.message("gone", vec![truncate]);
    assert_eq!(versions(&mut rig, op), (0, 6, 0, 7));
}

#[test]
fn a_write_that_fails_outside_of_its_operations_is_answered_without_a_version() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let mut op = rig.message("a", vec![append(b"x")]);
    op.snaps = vec![types::SnapId(1)];
    assert_eq!(versions(&mut rig, op), (Errno::EINVAL.code(), 0, 0, 2), "nor is it one of the PG");
    let mut op = rig.message("a", vec![xattr(OpCode::SETXATTR, "k", &"v".repeat(100), 0)]);
    op.ops.push(stat());
    rig.ask_message(op);
    let mut op = rig.message("a", vec![xattr(OpCode::GETXATTR, "k", "", 0), append(b"x")]);
    op.flags |= OsdFlags::RETURNVEC;
    let (result, version, user_version, _) = versions(&mut rig, op.clone());
    assert_eq!((result, version, user_version), (Errno::EOVERFLOW.code(), 0, 0));
    assert_eq!(rig.ask_message(op).result, Errno::EOVERFLOW.code(), "a resend fails as well");
}

#[test]
fn a_rollback_of_nothing_to_itself_is_answered_like_a_read() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let rollback = Op::new(OpCode::ROLLBACK, OpArgs::Snap { snapid: types::SnapId::HEAD });
    let op = rig.message("gone", vec![rollback.clone()]);
    assert_eq!(versions(&mut rig, op), (0, 0, 0, 2));
    let op = rig.message("gone", vec![rollback.clone(), create_exclusive(), create_exclusive()]);
    assert_eq!(versions(&mut rig, op), (Errno::EEXIST.code(), 3, 0, 4), "what fails is remembered");
    let op = rig.message("new", vec![create(), rollback]);
    assert_eq!(versions(&mut rig, op), (0, 5, 5, 6), "what the request has made stays");
    assert_eq!(rig.contents("new"), Some(vec![]));
}

#[test]
fn an_object_that_a_request_makes_and_removes_leaves_no_version() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let set = xattr(OpCode::SETXATTR, "k", "v", 0);
    let requests =
        [vec![create(), delete()], vec![append(b"x"), delete()], vec![create_exclusive(), set, delete()]];
    for (next, ops) in (2..).zip(requests) {
        let op = rig.message("gone", ops);
        assert_eq!(versions(&mut rig, op), (0, 0, 0, next));
    }
    let objects = rig.pg.info().stats.stats.sum.num_objects;
    assert_eq!((rig.contents("gone"), objects), (None, 2));
    let op = rig.message("a", vec![delete(), create(), stat()]);
    assert_eq!(rig.ask_message(op).replay_version.version, 5, "an object that was there is changed");
    let op = rig.message("gone", vec![create(), delete(), create()]);
    assert_eq!(rig.ask_message(op).replay_version.version, 6, "what is there in the end is made");
}

#[test]
fn what_a_write_without_a_version_has_seen_is_durable_when_it_is_answered() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let before = rig.replies.len();
    rig.refuse_next();
    for ops in [vec![delete()], vec![create_exclusive(), delete()]] {
        let op = rig.message("a", ops);
        rig.send(op);
    }
    rig.deliver_reads();
    assert_eq!((rig.uncommitted(), rig.replies.len()), (1, before));
    rig.settle();
    let results: Vec<i32> = rig.replies[before..].iter().map(|r| r.1.result).collect();
    assert_eq!(results, [Errno::ENOSPC.code(), Errno::EEXIST.code()], "the removal is undone");
}

#[test]
fn per_operation_results_survive_when_the_client_asked_for_them() {
    let mut rig = Rig::new();
    rig.ask("a", vec![xattr(OpCode::SETXATTR, "k", "v", 0)]);
    let mut op = rig.message("a", vec![xattr(OpCode::GETXATTR, "k", "", 0), append(b"x")]);
    op.flags |= OsdFlags::RETURNVEC;
    let first = rig.ask_message(op.clone());
    assert_eq!(first.ops[0].outdata.to_vec(), b"v");
    rig.crash();
    let after = rig.ask_message(messages::OsdOp { epoch: Epoch(rig.epoch), ..op });
    assert_eq!(after.ops[0].outdata.to_vec(), b"v");
}

#[test]
fn a_write_without_returnvec_returns_no_data_and_zero() {
    let mut rig = Rig::new();
    rig.ask("a", vec![xattr(OpCode::SETXATTR, "k", "v", 0)]);
    let got = rig.ask("a", vec![append(b"x"), xattr(OpCode::CMPXATTR, "k", "v", 1)]);
    assert_eq!(got.result, 0);
    assert!(got.ops.iter().all(|op| op.outdata.is_empty()));
}

#[test]
fn a_request_that_carries_its_own_id_is_recognised_by_it() {
    let mut rig = Rig::new();
    let reqid = ReqId { name: EntityName::new(EntityType::Client, 99), tid: 7, inc: 0 };
    for _ in 0..2 {
        let mut op = rig.message("a", vec![append(b"x")]);
        op.reqid = reqid;
        assert_eq!(rig.ask_message(op).result, 0);
    }
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn another_client_with_the_same_tid_is_another_request() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    rig.ask_message(op.clone());
    rig.event(PgEvent::ClientOp(
        pg::ClientOp {
            session: SessionId(9),
            source: EntityName::new(EntityType::Client, 5000),
            addrs: Default::default(),
            features: u64::MAX,
            caps: auth::Caps::all(),
            op: Box::new(op),
        },
        SetAside::default(),
    ));
    rig.settle();
    assert_eq!(rig.contents("a").unwrap(), b"xx");
}

#[test]
fn a_session_that_is_gone_takes_its_waiting_requests_along_but_not_those_begun() {
    let mut rig = Rig::new();
    let begun = rig.message("a", vec![xattr(OpCode::CMPXATTR, "k", "", 1), append(b"begun")]);
    rig.ask("a", vec![append(b"")]);
    rig.send_on(3, begun);
    let waiting = rig.message("a", vec![append(b"never")]);
    rig.send_on(3, waiting);
    rig.event(PgEvent::SessionReset { session: SessionId(3) });
    rig.settle();
    assert_eq!(rig.contents("a").unwrap(), b"begun");
}

#[test]
fn requests_without_rights_are_eperm_and_bad_names_are_refused() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![stat()]);
    rig.event(PgEvent::ClientOp(
        pg::ClientOp {
            session: SessionId(1),
            source: EntityName::new(EntityType::Client, 1),
            addrs: Default::default(),
            features: u64::MAX,
            caps: auth::Caps::none(),
            op: Box::new(op),
        },
        SetAside::default(),
    ));
    assert_eq!(rig.replies.pop().unwrap().1.result, Errno::EPERM.code());
    let long = "n".repeat(2049);
    assert_eq!(rig.ask(&long, vec![write_full(b"")]).result, Errno::ENAMETOOLONG.code());
    assert_eq!(rig.ask(&long[1..], vec![write_full(b"")]).result, 0);
    assert_eq!(rig.ask("", vec![stat()]).result, Errno::EINVAL.code());
    let mut op = rig.message("a", vec![stat()]);
    op.locator.nspace = "n".repeat(257).as_str().into();
    assert_eq!(rig.ask_message(op).result, Errno::ENAMETOOLONG.code());
}

#[test]
fn what_is_not_implemented_is_eopnotsupp_and_said_once() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"")]);
    for _ in 0..2 {
        let get = Op::new(OpCode::MASKTRUNC, OpArgs::none());
        assert_eq!(rig.ask("a", vec![get]).result, Errno::EOPNOTSUPP.code());
    }
    assert_eq!(rig.notices, [Notice::UnsupportedOp { code: OpCode::MASKTRUNC.0 }]);
    let args = OpArgs::Class { class_len: 1, method_len: 1, argc: 0, indata_len: 0 };
    let call = Op::new(OpCode::CALL, args).with_indata(b"cm".to_vec());
    assert_eq!(rig.ask("a", vec![call]).result, Errno::EPERM.code(), "no class is in the load list");
}

#[test]
fn the_log_is_trimmed_and_resends_are_recognised_as_far_back_as_configured() {
    let log = pg::LogLimits { entries_target: 20, trim_min: 5, trim_max: 100, dups_tracked: 60 };
    let config = pg::PgConfig { log, ..pg::PgConfig::default() };
    let mut rig = Rig::with_config(config);
    let ops: Vec<_> = (0..200).map(|_| rig.message("a", vec![append(b"x")])).collect();
    for op in &ops {
        assert_eq!(rig.ask_message(op.clone()).result, 0);
        assert!(rig.pg.log().entries().len() <= 25);
        assert!(rig.pg.log().dups().len() <= 60);
    }
    for restart in [false, true] {
        if restart {
            rig.crash();
            assert!(rig.pg.log().entries().len() <= 25 && rig.pg.log().dups().len() <= 65);
        }
        let epoch = Epoch(rig.epoch);
        for op in &ops[145..] {
            rig.ask_message(messages::OsdOp { epoch, ..op.clone() });
        }
        assert_eq!(rig.contents("a").unwrap().len(), 200, "none applied twice");
    }
    let epoch = Epoch(rig.epoch);
    rig.ask_message(messages::OsdOp { epoch, ..ops[0].clone() });
    assert_eq!(rig.contents("a").unwrap().len(), 201, "one that is forgotten is new");
}

/// The map `epoch`, which shuts the client of [`Rig::send`] out.
fn fencing_map(epoch: u32) -> pg::MapView {
    let mut osdmap = osdmap(epoch);
    let client = EntityAddr { kind: AddrType::Any, ..client_addr() };
    osdmap.blocklist.insert(client, UTime { sec: u32::MAX, nsec: 0 });
    pg::MapView { osdmap: osdmap.into(), ..map(epoch, &[0]) }
}

#[test]
fn a_write_in_its_objects_queue_does_not_run_after_the_map_that_fences_its_client() {
    let mut rig = Rig::new();
    rig.ask("a", vec![append(b"before")]);
    // The first waits for a read of what it compares with, the second for the first, the third for its object.
    let guarded = rig.message("a", vec![xattr(OpCode::CMPXATTR, "k", "", 1), append(b"1")]);
    let queued = rig.message("a", vec![append(b"2")]);
    let unread = rig.message("b", vec![append(b"3")]);
    for op in [guarded, queued, unread] {
        rig.send(op);
    }
    assert_eq!((rig.reads_due(), rig.uncommitted()), (2, 0));
    rig.event(PgEvent::AdvanceMap(Box::new(fencing_map(6))));
    rig.settle();
    let results: Vec<i32> = rig.replies.drain(..).map(|r| r.1.result).collect();
    assert_eq!(results, [Errno::ESHUTDOWN.code(); 3]);
    rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[0]))));
    assert_eq!(rig.contents("a").unwrap(), b"before");
    assert_eq!(rig.contents("b"), None);
}

#[test]
fn a_write_that_waits_for_its_pg_does_not_run_after_the_map_that_fences_its_client() {
    let mut rig = Rig::without_backoffs();
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[0, 1]))));
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"late")]);
    rig.send(op);
    rig.settle();
    assert!(rig.replies.is_empty(), "two OSDs act: the PG is not active");
    rig.event(PgEvent::AdvanceMap(Box::new(fencing_map(7))));
    rig.settle();
    assert_eq!(rig.replies.pop().unwrap().1.result, Errno::ESHUTDOWN.code());
    rig.event(PgEvent::AdvanceMap(Box::new(map(8, &[0]))));
    assert_eq!(rig.contents("a"), None);
}

#[test]
fn a_thousand_reads_of_a_large_object_are_refused_and_nothing_is_read() {
    let mut config = pg::PgConfig::default();
    config.ops.read_bytes_max = 100 << 10;
    let mut rig = Rig::with_config(config);
    rig.ask("a", vec![write_full(&[7; 10 << 10])]);
    let op = rig.message("a", vec![read(0, 0); 1000]);
    rig.send(op);
    assert_eq!(rig.reads_due(), 0);
    let (_, reply) = rig.replies.pop().unwrap();
    assert_eq!((reply.result, reply.ops.len()), (Errno::EMSGSIZE.code(), 1000));
    assert_eq!(rig.ask("a", vec![read(0, 0); 10]).result, 0);
}

#[test]
fn a_reply_says_how_much_was_read_and_where_the_first_read_began() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"hello")]);
    let reply = rig.ask("a", vec![stat(), read(3, 100), read(1, 0), read(9, 1)]);
    let lengths: Vec<u64> = {
        let length = |args: &OpArgs| match args {
            OpArgs::Extent { length, .. } => Some(*length),
            _ => None,
        };
        reply.ops.iter().filter_map(|op| length(&op.op.args)).collect()
    };
    assert_eq!((lengths, reply.data_offset), (vec![0, 2, 4, 0], 3));
}

#[test]
fn what_a_client_advises_reaches_the_store_with_reads_and_writes() {
    let mut rig = Rig::new();
    let flags = OpFlags::FADVISE_DONTNEED | OpFlags::FADVISE_SEQUENTIAL;
    rig.ask("a", vec![write(0, b"data").with_flags(flags)]);
    rig.ask("a", vec![read(0, 0).with_flags(flags)]);
    let advised = |what: &str| {
        rig.trace
            .iter()
            .any(|effect| effect.starts_with(what) && effect.contains(&format!("Advice({flags})")))
    };
    assert!(advised("Queue") && advised("Read"), "{:#?}", rig.trace);
}

#[test]
fn a_listing_of_omap_keys_fetches_no_values() {
    let mut rig = Rig::new();
    rig.ask("a", vec![create_exclusive()]);
    let keys = |code| {
        let mut e = encoding::Encoder::new(0);
        e.put(&types::Name::new()).put(&10u64).put(&types::Name::new());
        Op::new(code, OpArgs::none()).with_indata(Rope::from(e.into_bytes()))
    };
    let mut e = encoding::Encoder::new(0);
    e.put(&1u32).put(&types::Name::from("key")).blob(b"value");
    rig.ask("a", vec![Op::new(OpCode::OMAPSETVALS, OpArgs::none()).with_indata(Rope::from(e.into_bytes()))]);
    for (code, values) in [(OpCode::OMAPGETKEYS, false), (OpCode::OMAPGETVALS, true)] {
        rig.trace.clear();
        assert_eq!(rig.ask("a", vec![keys(code)]).result, 0);
        let wanted = format!("values: {values}");
        assert!(rig.trace.iter().any(|e| e.contains("OmapRange") && e.contains(&wanted)), "{:#?}", rig.trace);
    }
}

#[test]
fn a_pool_may_advise_that_written_data_is_not_needed_again() {
    let mut rig = Rig::new();
    let mut map = map(6, &[0]);
    map.pool.writes_dontneed = true;
    rig.event(PgEvent::AdvanceMap(Box::new(map)));
    rig.epoch = 6;
    rig.ask("a", vec![write_full(b"data")]);
    let wanted = format!("Advice({})", OpFlags::FADVISE_DONTNEED);
    assert!(rig.trace.iter().any(|e| e.starts_with("Queue") && e.contains(&wanted)), "{:#?}", rig.trace);
}

#[test]
fn a_request_that_would_skip_locks_keeps_its_place_all_the_same() {
    let skipping = |op: messages::OsdOp| messages::OsdOp { flags: op.flags | OsdFlags::SKIPRWLOCKS, ..op };
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"0;")]);
    // The first writer waits for the store.
    for data in [b"1;", b"2;"] {
        let op = rig.message("a", vec![read(0, 0), append(data)]);
        rig.send(skipping(op));
    }
    let op = rig.message("a", vec![append(b"3;")]);
    rig.send(skipping(op));
    rig.deliver_reads();
    let op = rig.message("a", vec![read(0, 0)]);
    rig.send(skipping(op));
    rig.deliver_reads();
    assert!(rig.replies.is_empty(), "nothing is durable, so nothing is shown");
    rig.settle();
    assert!(!rig.failed);
    assert_eq!(rig.replies.iter().map(|(_, reply)| reply.result).collect::<Vec<_>>(), [0; 4]);
    assert_eq!(rig.replies[3].1.ops[0].outdata.to_vec(), b"0;1;2;3;");
}

#[test]
fn an_object_whose_metadata_is_being_read_keeps_its_place_when_its_session_ends() {
    let mut rig = Rig::with_config(pg::PgConfig { object_contexts_idle_max: 0, ..pg::PgConfig::default() });
    rig.ask("a", vec![write_full(b"a")]);
    let op = rig.message("a", vec![read(0, 0)]);
    rig.send_on(2, op);
    rig.event(PgEvent::SessionReset { session: SessionId(2) });
    // It asks for the eviction of what is idle, and would take the place that is free then.
    for name in ["b", "c"] {
        let op = rig.message(name, vec![write_full(name.as_bytes())]);
        rig.send(op);
    }
    rig.settle();
    assert!(!rig.failed);
    for name in ["a", "b", "c"] {
        assert_eq!(rig.contents(name), Some(name.as_bytes().to_vec()));
    }
}
