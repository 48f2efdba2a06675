//! Maps, listings, fullness, removal, damage.

use std::collections::BTreeSet;

use crate::common::*;
use encoding::Decode;
use messages::osd_op::{ListCursor, OsdFlags, PgLsResponse, PgNlsResponse};
use messages::{Op, OpArgs, OpCode, OsdOp};
use messages::{PastInterval, PastIntervals, PgHistory, PgState};
use ops::FullKind;
use pg::{Notice, Origin, Pg, PgEffect, PgEvent, PgFailure};
use store::{
    Completion, Left, MemStore, ObjectGap, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token,
};
use types::{
    EntityName, EntityType, Epoch, Errno, FeatureBits, GHObject, HObject, OsdId, PgShard, ShardId, UTime,
};

fn list(cursor: &HObject, count: u64) -> Op {
    list_with(OpCode::PGNLS, cursor, count)
}

fn list_with(code: OpCode, cursor: &HObject, count: u64) -> Op {
    let args = OpArgs::Pgls { count, start_epoch: Epoch(0) };
    Op::new(code, args).with_indata(ListCursor::plain(cursor))
}

fn list_message(rig: &mut Rig, cursor: &HObject, count: u64, nspace: &str) -> OsdOp {
    let mut op = rig.message("", vec![list(cursor, count)]);
    op.locator.nspace = nspace.into();
    op
}

fn put(rig: &mut Rig, oid: &str, nspace: &str) {
    let mut op = rig.message(oid, vec![write_full(b"x")]);
    op.locator.nspace = nspace.into();
    assert_eq!(rig.ask_message(op).result, 0);
}

#[test]
fn a_listing_shows_every_object_once_in_pages_and_ends_with_one() {
    let mut rig = Rig::new();
    let names: BTreeSet<String> = (0..25).map(|n| format!("object{n}")).collect();
    names.iter().for_each(|name| put(&mut rig, name, ""));
    put(&mut rig, "elsewhere", "space");
    let (mut cursor, mut seen, mut pages) = (HObject::min(), Vec::new(), 0);
    loop {
        let op = list_message(&mut rig, &cursor, 4, "");
        let reply = rig.ask_message(op);
        let page = PgNlsResponse::from_bytes_exact(&reply.ops[0].outdata.to_piece()).unwrap();
        assert!(page.entries.len() <= 4);
        seen.extend(page.entries.into_iter().map(|e| e.name.to_string()));
        pages += 1;
        cursor = page.handle;
        if reply.result == 1 {
            break;
        }
        assert_eq!(reply.result, 0);
    }
    assert!(cursor.is_max() && pages >= 7);
    assert_eq!((seen.len(), seen.into_iter().collect::<BTreeSet<_>>()), (25, names));
}

#[test]
fn a_listing_shows_one_namespace_or_all() {
    let mut rig = Rig::new();
    put(&mut rig, "a", "");
    put(&mut rig, "b", "space");
    for (nspace, expected) in
        [("", vec!["a"]), ("space", vec!["b"]), ("none", vec![]), ("\u{1}", vec!["a", "b"])]
    {
        let op = list_message(&mut rig, &HObject::min(), 100, nspace);
        let reply = rig.ask_message(op);
        let page = PgNlsResponse::from_bytes_exact(&reply.ops[0].outdata.to_piece()).unwrap();
        let names: BTreeSet<_> = page.entries.iter().map(|e| e.name.to_string()).collect();
        assert_eq!(names, expected.iter().map(|s| s.to_string()).collect(), "{nspace:?}");
    }
    let op = list_with(OpCode::PGLS, &HObject::min(), 100);
    let reply = rig.ask("", vec![op]);
    let page = PgLsResponse::from_bytes_exact(&reply.ops[0].outdata.to_piece()).unwrap();
    assert_eq!((reply.result, page.entries.len(), page.handle), (1, 1, HObject::max()));
}

#[test]
fn a_listing_waits_for_what_it_may_show() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    let op = list_message(&mut rig, &HObject::min(), 100, "");
    rig.send(op);
    rig.deliver_reads();
    assert!(rig.replies.is_empty());
    rig.commit_one();
    assert_eq!(rig.replies.len(), 2);
}

#[test]
fn a_listing_that_waits_is_answered_when_the_store_refuses_what_it_may_show() {
    let mut rig = Rig::new();
    rig.refuse_next();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    let op = list_message(&mut rig, &HObject::min(), 100, "");
    rig.send(op);
    rig.deliver_reads();
    assert!(rig.replies.is_empty());
    rig.commit_one();
    // The error's entry is to become durable first.
    rig.commit_one();
    let results: Vec<i32> = rig.replies.iter().map(|(_, reply)| reply.result).collect();
    assert_eq!(results, [1, Errno::ENOSPC.code()]);
}

#[test]
fn a_resend_that_waits_when_its_interval_ends_is_not_answered() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send_on(1, op.clone());
    rig.deliver_reads();
    rig.send_on(2, op);
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[]))));
    rig.settle();
    assert!(rig.replies.is_empty());
    assert_eq!(rig.dropped().len(), 2, "both free their budget: {:?}", rig.notices);
}

#[test]
fn a_refusal_does_not_hold_up_a_removal() {
    let mut rig = Rig::new();
    rig.refuse_next();
    let op = rig.message("a", vec![write_full(b"x")]);
    rig.send(op);
    rig.deliver_reads();
    rig.event(PgEvent::Remove);
    rig.settle();
    assert!(rig.removed && !rig.failed);
}

#[test]
fn a_removal_that_meets_damage_says_that_it_is_one() {
    let mut rig = Rig::new();
    put(&mut rig, "a", "");
    let damaged = StoreError::Damaged("a page".into());
    rig.event(PgEvent::Remove);
    rig.fail_read(damaged.clone());
    rig.settle();
    assert!(!rig.removed);
    assert_eq!(rig.failure, Some(PgFailure::Remove(damaged)));
}

#[test]
fn a_removal_goes_on_behind_gaps_and_keeps_the_pg_for_what_may_be_in_them() {
    let mut rig = Rig::new();
    ["a", "b", "c"].into_iter().for_each(|name| put(&mut rig, name, ""));
    let why = StoreError::Damaged("a page".into());
    let gap = |behind: Option<GHObject>| ObjectGap { from: GHObject::min(), behind, why: why.clone() };
    rig.event(PgEvent::Remove);
    while rig.add_gap(&gap(None)) {
        assert!(rig.add_gap(&gap(Some(GHObject::max()))));
        rig.deliver_reads();
        while rig.commit_one() {}
    }
    let left = Left { objects: 0, gaps: 2, why };
    assert_eq!((rig.failure.take(), rig.removed), (Some(PgFailure::Remains(left)), false));
    // The PG's own records are still there: a dump reads them.
    assert_eq!(rig.dump(0).objects, []);
}

#[test]
fn a_removal_leaves_each_object_that_can_not_be_removed_and_no_other() {
    leaves_each_object_that_can_not_be_removed(&StoreError::Damaged("a page".into()));
    leaves_each_object_that_can_not_be_removed(&StoreError::Unreadable {
        what: "a page",
        errno: Errno::EIO,
        at: None,
    });
}

fn leaves_each_object_that_can_not_be_removed(why: &StoreError) {
    let mut rig = Rig::new();
    rig.damage_is = why.clone();
    (0..600).for_each(|n| put(&mut rig, &format!("{n:03}"), ""));
    let all: Vec<GHObject> = rig.dump(0).objects.into_iter().map(|(object, ..)| object).collect();
    // Also neighbours, the first and the last.
    let bad = [0, 77, 78, 300, 599].map(|n| all[n].clone());
    rig.unreadable.extend(bad.clone());
    rig.event(PgEvent::Remove);
    let mut steps = 0;
    while rig.deliver_read() || rig.commit_one() {
        steps += 1;
    }
    assert_eq!(rig.failure, Some(PgFailure::Remains(Left { objects: 5, gaps: 0, why: why.clone() })));
    let left: Vec<GHObject> = rig.dump(0).objects.into_iter().map(|(object, ..)| object).collect();
    assert_eq!(left, bad);
    // Each takes at most as many refusals as 256 can be halved, and as many steps until 256 are removed at once again.
    assert!(steps < 5 * 2 * 2 * 9, "{steps} reads and transactions");
}

/// A list from the beginning would pass by everything again that can't be read.
#[test]
fn a_removal_goes_on_where_it_is() {
    let mut rig = Rig::new();
    (0..600).for_each(|n| put(&mut rig, &format!("{n:03}"), ""));
    rig.event(PgEvent::Remove);
    rig.settle();
    assert!(rig.removed && !rig.failed);
    let lists = rig.trace.iter().filter(|effect| effect.contains("ListReadable"));
    let first = format!("start: {:?}", GHObject::min());
    // 600 objects are three steps, and that nothing is left is seen by a list, as is the collection's end.
    let is_first: Vec<bool> = lists.map(|effect| effect.contains(&first)).collect();
    assert_eq!(is_first, [true, false, false, false, false]);
}

#[test]
fn a_removal_ends_where_the_store_does() {
    let mut rig = Rig::new();
    ["a", "b"].into_iter().for_each(|name| put(&mut rig, name, ""));
    let commit = StoreError::Io { what: "commit", errno: Errno::EIO, at: None };
    rig.event(PgEvent::Remove);
    rig.deliver_reads();
    rig.refuse_queued(commit.clone());
    assert_eq!(rig.failure, Some(PgFailure::Remove(commit)));
}

#[test]
fn a_removal_whose_last_step_meets_damage_says_that_nothing_else_is_left() {
    let mut rig = Rig::new();
    put(&mut rig, "a", "");
    rig.unreadable.insert(GHObject::pgmeta(POOL, 0, pgid().shard));
    rig.event(PgEvent::Remove);
    rig.settle();
    let failure = rig.failure.take().unwrap();
    let text =
        "its pool is gone, and its own records can't be removed: damaged store: a page; all else is removed";
    assert_eq!((failure.to_string().as_str(), rig.removed), (text, false));
    assert_eq!(rig.dump(0).objects, []);
}

#[test]
fn bad_listings_are_refused() {
    let mut rig = Rig::new();
    let garbage = list(&HObject::min(), 1).with_indata(b"xyz".to_vec());
    assert_eq!(rig.ask("", vec![garbage]).result, Errno::EINVAL.code());
    let hit_sets = list_with(OpCode::PG_HITSET_LS, &HObject::min(), 1);
    assert_eq!(rig.ask("", vec![hit_sets]).result, Errno::EOPNOTSUPP.code());
    let no_filter = list_with(OpCode::PGNLS_FILTER, &HObject::min(), 1);
    assert_eq!(rig.ask("", vec![no_filter]).result, Errno::EINVAL.code());
}

#[test]
fn requests_of_an_older_interval_or_another_pg_are_dropped_unanswered() {
    let mut rig = Rig::new();
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[]))));
    rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[0]))));
    rig.settle();
    let old = rig.message("a", vec![write_full(b"x")]);
    rig.send(old);
    rig.epoch = 7;
    let mut of_another_pool = rig.message("a", vec![write_full(b"x")]);
    of_another_pool.pgid.pg.pool = types::PoolId(77);
    rig.send(of_another_pool);
    rig.settle();
    assert!(rig.replies.is_empty());
    assert_eq!(rig.notices.len(), 2);
    assert_eq!(rig.contents("a"), None);
}

#[test]
fn a_map_that_changes_nothing_for_the_pg_disturbs_no_request() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[0]))));
    rig.settle();
    assert_eq!(rig.replies.pop().unwrap().1.result, 0);
    assert_eq!(rig.pg.info().history.same_interval_since, Epoch(5));
}

#[test]
fn requests_wait_until_the_pg_can_serve_them() {
    let mut rig = Rig::without_backoffs();
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[0, 1]))));
    assert!(!rig.pg.is_active());
    assert!(matches!(rig.notices[..], [Notice::NotServed { .. }]));
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.settle();
    assert!(rig.replies.is_empty());
    rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[0]))));
    rig.settle();
    assert_eq!(rig.replies.pop().unwrap().1.result, 0);
    assert_eq!(rig.pg.stats().state, PgState::ACTIVE.with(PgState::CLEAN));
}

#[test]
fn another_primarys_requests_are_not_ours() {
    let mut rig = Rig::new();
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[1]))));
    rig.epoch = 6;
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op);
    rig.settle();
    assert!(rig.replies.is_empty());
    rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[0]))));
    rig.settle();
    assert!(rig.replies.is_empty());
}

#[test]
fn a_write_in_flight_when_its_interval_ends_is_answered_to_its_resend() {
    let mut rig = Rig::new();
    let op = rig.message("a", vec![append(b"x")]);
    rig.send(op.clone());
    rig.deliver_reads();
    rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[]))));
    rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[0]))));
    rig.epoch = 7;
    rig.send(OsdOp { epoch: Epoch(7), ..op });
    rig.deliver_reads();
    assert!(rig.replies.is_empty(), "not before it is durable");
    rig.settle();
    assert_eq!(rig.replies.len(), 1);
    assert_eq!(rig.contents("a").unwrap(), b"x");
}

#[test]
fn a_full_pool_takes_what_does_not_grow_it() {
    for (kind, errno) in [(FullKind::Quota, Errno::EDQUOT), (FullKind::Space, Errno::ENOSPC)] {
        let mut rig = Rig::new();
        rig.ask("a", vec![write_full(b"xx")]);
        let mut full = map(6, &[0]);
        full.pool.full = Some(kind);
        rig.event(PgEvent::AdvanceMap(Box::new(full)));
        let before_full = rig.message("b", vec![write_full(b"x")]);
        rig.send(before_full);
        rig.epoch = 6;
        let untried = rig.message("b", vec![write_full(b"x")]);
        rig.send(untried);
        rig.settle();
        assert!(rig.replies.is_empty(), "dropped: {:?}", rig.notices);
        let mut tried = rig.message("b", vec![write_full(b"x")]);
        tried.flags |= OsdFlags::FULL_TRY;
        assert_eq!(rig.ask_message(tried).result, errno.code());
        assert_eq!(rig.contents("b"), None);
        let mut forced = rig.message("b", vec![write_full(b"x")]);
        forced.flags |= OsdFlags::FULL_FORCE;
        assert_eq!(rig.ask_message(forced).result, 0);
        assert_eq!(rig.ask("a", vec![delete()]).result, 0);
    }
}

#[test]
fn a_removed_pg_leaves_nothing_in_the_store() {
    let mut rig = Rig::new();
    (0..300).for_each(|n| put(&mut rig, &format!("o{n}"), ""));
    let late = rig.message("o1", vec![append(b"late")]);
    rig.send(late);
    rig.event(PgEvent::Remove);
    rig.settle();
    assert!(rig.removed && !rig.failed);
    let mut out = Vec::new();
    rig.pg = Pg::create(
        pgid(),
        ME,
        rig.config.clone(),
        Origin::at(map(9, &[0]), Default::default()),
        Default::default(),
        &mut out,
    );
}

#[test]
fn counts_survive_a_restart() {
    let mut rig = Rig::new();
    (0..7).for_each(|n| put(&mut rig, &format!("o{n}"), ""));
    rig.ask("o3", vec![delete()]);
    let before = rig.pg.info().stats.stats.sum;
    rig.crash();
    let after = rig.pg.info().stats.stats.sum;
    assert_eq!((after.num_objects, after.num_bytes, after.num_wr), (6, 6, before.num_wr));
}

#[test]
fn idle_object_contexts_are_bounded() {
    let config = pg::PgConfig { object_contexts_idle_max: 10, ..pg::PgConfig::default() };
    let mut rig = Rig::with_config(config);
    (0..100).for_each(|n| put(&mut rig, &format!("o{n}"), ""));
    assert!(rig.pg.load_counts().0 <= 11, "{:?}", rig.pg.load_counts());
}

#[test]
fn an_object_whose_metadata_is_damaged_is_eio_and_others_are_served() {
    let config = pg::PgConfig { object_contexts_idle_max: 0, ..pg::PgConfig::default() };
    let mut rig = Rig::with_config(config);
    put(&mut rig, "bad", "");
    let mut txn = store::Transaction::new();
    txn.set_attr(pgid().into(), &message(1, 1, "bad", vec![]).hobject().into(), "_", vec![1, 2, 3]);
    rig.damage(txn);
    put(&mut rig, "good", "");
    assert_eq!(rig.ask("bad", vec![stat()]).result, Errno::EIO.code());
    assert_eq!(rig.ask("bad", vec![append(b"x")]).result, Errno::EIO.code());
    assert_eq!(rig.ask("good", vec![stat()]).result, 0);
    assert!(matches!(rig.notices[..], [Notice::BadObject { .. }]), "said once, asked for twice");
}

#[test]
fn a_delete_does_not_overtake_the_writes_that_a_full_pool_drops() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    // The read keeps the writes waiting in the object's queue.
    for ops in [vec![read(0, 0)], vec![append(b"more")], vec![delete()]] {
        let op = rig.message("a", ops);
        rig.send(op);
    }
    assert_eq!((rig.reads_due(), rig.uncommitted()), (1, 0));
    let mut full = map(6, &[0]);
    full.pool.full = Some(FullKind::Space);
    rig.event(PgEvent::AdvanceMap(Box::new(full)));
    rig.settle();
    let answered: Vec<u64> = rig.replies.iter().map(|(_, reply)| reply.tid).collect();
    assert_eq!(answered.len(), 1, "the read alone: {answered:?}");
    assert_eq!(rig.contents("a").unwrap(), b"old");
    let dropped = rig.notices.iter().filter(|n| matches!(n, Notice::Dropped { .. })).count();
    assert_eq!(dropped, 2);
}

#[test]
fn a_full_pool_takes_an_mds_writes_so_that_a_file_system_can_be_emptied() {
    let mut rig = Rig::new();
    rig.source = EntityName::new(EntityType::Mds, 4200);
    let mut full = map(6, &[0]);
    full.pool.full = Some(FullKind::Space);
    rig.event(PgEvent::AdvanceMap(Box::new(full)));
    assert_eq!(rig.ask("a", vec![write_full(b"sent before the pool was full")]).result, 0);
    rig.epoch = 6;
    assert_eq!(rig.ask("b", vec![write_full(b"sent after")]).result, 0);
}

#[test]
fn a_read_for_any_copy_is_sent_to_the_primary_by_a_replica_and_dropped_by_a_stray() {
    for flag in [OsdFlags::BALANCE_READS, OsdFlags::LOCALIZE_READS] {
        let mut rig = Rig::new();
        rig.event(PgEvent::AdvanceMap(Box::new(map(6, &[1, 0]))));
        rig.epoch = 6;
        let mut op = rig.message("a", vec![read(0, 0)]);
        op.flags |= flag;
        assert_eq!(rig.ask_message(op.clone()).result, Errno::EAGAIN.code());
        let plain = rig.message("a", vec![read(0, 0)]);
        let mut write = rig.message("a", vec![append(b"x")]);
        write.flags |= flag;
        for op in [plain, write] {
            rig.send(op);
        }
        rig.event(PgEvent::AdvanceMap(Box::new(map(7, &[1]))));
        rig.send(op);
        rig.settle();
        assert!(rig.replies.is_empty());
        let dropped = rig.notices.iter().filter(|n| matches!(n, Notice::Dropped { .. }));
        assert_eq!(dropped.count(), 3);
    }
}

#[test]
fn an_interval_begins_exactly_where_clients_see_one() {
    let begins = |change: &dyn Fn(&mut pg::MapView)| {
        let mut rig = Rig::new();
        let mut first = map(6, &[0]);
        (first.pool.pg_num, first.pool.pg_num_pending) = (4, 4);
        rig.event(PgEvent::AdvanceMap(Box::new(first.clone())));
        rig.settle();
        assert_eq!(rig.children.len(), 3);
        let since = rig.pg.info().history.same_interval_since;
        first.epoch = Epoch(7);
        change(&mut first);
        rig.event(PgEvent::AdvanceMap(Box::new(first)));
        rig.pg.info().history.same_interval_since != since
    };
    assert!(!begins(&|_| {}));
    assert!(begins(&|m| m.pool.size = 2));
    assert!(begins(&|m| m.pool.min_size = 2));
    assert!(begins(&|m| m.pool.pg_num = 5), "4 comes from 0, which this is");
    assert!(!begins(&|m| m.pool.pg_num_pending = 3), "2 and 3 become one");
    assert!(begins(&|m| m.pool.pg_num_pending = 1));
    assert!(begins(&|m| m.pool.ec_optimizations = true));
    let member = maps::PeeringCrush {
        bucket_count: 2,
        bucket_target: 2,
        bucket_barrier: 8,
        mandatory_member: 0x7fff_ffff,
    };
    assert!(begins(&|m| m.pool.peering_crush = Some(member)));
    for flag in [maps::MapFlags::SORTBITWISE, maps::MapFlags::RECOVERY_DELETES] {
        assert!(begins(&|m| {
            let osdmap = maps::OsdMap { flags: m.osdmap.flags ^ flag, ..maps::OsdMap::default() };
            m.osdmap = osdmap.into();
        }));
    }
}

#[test]
fn only_what_a_client_of_its_release_sends_again_is_dropped() {
    let before_luminous = FeatureBits::OSD_POOLRESEND;
    let before_nautilus = before_luminous | FeatureBits::RESEND_ON_SPLIT;
    let nautilus = before_nautilus | FeatureBits::SERVER_NAUTILUS;
    for (features, resend_since) in [(0, 0), (before_luminous, 8), (before_nautilus, 7), (nautilus, 6)] {
        for epoch in 5..9 {
            let mut rig = Rig::new();
            let mut newest = map(9, &[0]);
            newest.pool.last_force_op_resend = Epoch(6);
            newest.pool.last_force_op_resend_prenautilus = Epoch(7);
            newest.pool.last_force_op_resend_preluminous = Epoch(8);
            rig.event(PgEvent::AdvanceMap(Box::new(newest)));
            (rig.features, rig.epoch) = (features, epoch);
            let op = rig.message("a", vec![append(b"x")]);
            rig.send(op);
            rig.settle();
            assert_eq!(rig.replies.len(), usize::from(epoch >= resend_since), "{features:#x} {epoch}");
        }
    }
}

#[test]
fn a_new_pg_has_the_past_it_is_given_and_that_of_the_maps_since() {
    let mut history = PgHistory::created(Epoch(3), UTime { sec: 9, nsec: 0 });
    history.same_interval_since = Epoch(4);
    let shard = |osd| PgShard { osd, shard: ShardId::NONE };
    let mut past = PastIntervals::default();
    past.add(PastInterval { first: Epoch(3), last: Epoch(3), acting: [shard(OsdId(7))].into() }, true);
    // It moves to two OSDs, so that nothing of this is forgotten for being clean.
    let later = vec![map(6, &[0]), map(8, &[0, 1])];
    let origin = Origin { history, past, first: map(5, &[0]), later };
    let mut out = Vec::new();
    let pg = Pg::create(pgid(), ME, Rig::new().config, origin, UTime::default(), &mut out);
    let info = pg.info();
    assert_eq!((info.history.epoch_created, info.stats.created), (Epoch(3), Epoch(3)));
    assert_eq!((info.history.same_interval_since, info.history.same_primary_since), (Epoch(8), Epoch(3)));
    assert_eq!(info.history.last_scrub_stamp, UTime { sec: 9, nsec: 0 });
    let mut store = MemStore::new(1 << 20);
    for effect in out {
        if let PgEffect::Queue { token, txn } = effect {
            store.queue(txn, token);
        }
    }
    let object = types::GHObject::pgmeta(POOL, 0, ShardId::NONE);
    let name = pg::InfoAttr::PAST_INTERVALS.into();
    store.read(ReadRequest::Attr { collection: pgid().into(), object, name }, Token(99));
    store.turn(UTime::default());
    let mut done = Vec::new();
    store.completions(&mut done);
    let Some(Completion::Read { result: Ok(ReadOutcome::Attr(stored)), .. }) = done.pop() else {
        panic!("{done:?}")
    };
    let mut whole = PastIntervals::default();
    whole.add(PastInterval { first: Epoch(3), last: Epoch(3), acting: [shard(OsdId(7))].into() }, true);
    whole.add(PastInterval { first: Epoch(4), last: Epoch(7), acting: [shard(ME)].into() }, true);
    assert_eq!(PastIntervals::from_bytes_exact(&stored), Ok(whole));
}
