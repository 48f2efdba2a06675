//! Scrubs: what is damaged is found and counted, what is not is not; clients go on; the end of an interval ends a scrub.

use core::time::Duration;
use std::collections::BTreeSet;

use crate::common::copies::Copies;
use crate::common::*;
use encoding::{Decode, Encode};
use maps::MapFlags;
use messages::osd_op::{InconsistentObject, InconsistentSnapSet, ScrubLsArg, ScrubLsResult};
use messages::{Op, OpArgs, OpCode, PgState};
use pg::{Inconsistent, PgConfig, PgEvent, ScrubConfig, ScrubOrder};
use store::{AttrChoice, Attrs, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{Epoch, GHObject, SnapId, SplitMix64};

const SHALLOW: ScrubOrder = ScrubOrder { deep: false, repair: false, periodic: false };
const DEEP: ScrubOrder = ScrubOrder { deep: true, ..SHALLOW };
const REPAIR: ScrubOrder = ScrubOrder { repair: true, ..SHALLOW };

fn order(rig: &mut Rig, order: ScrubOrder) {
    rig.event(PgEvent::Scrub(order));
}

/// Scrubs the PG, and gives the cluster log's new lines but for its name.
fn scrub(rig: &mut Rig, what: ScrubOrder) -> Vec<String> {
    let (before, ended) = (rig.cluster_log().len(), rig.scrubbed.len());
    order(rig, what);
    rig.settle();
    assert_eq!(rig.scrubbed[ended..], [true]);
    rig.cluster_log()[before..].to_vec()
}

/// A rig whose chunks have one object each.
fn one_by_one() -> Rig {
    with_scrub(ScrubConfig {
        chunk_max: 1,
        chunk_min: 1,
        shallow_chunk_max: 1,
        shallow_chunk_min: 1,
        ..Default::default()
    })
}

fn with_scrub(scrub: ScrubConfig) -> Rig {
    Rig::with_config(PgConfig { scrub, ..PgConfig::default() })
}

/// An object's name in the store.
fn stored(rig: &mut Rig, oid: &str, snap: SnapId) -> GHObject {
    let hash = rig.message(oid, Vec::new()).hash;
    let hobj = types::HObject { snap, ..types::HObject::head(POOL, "".into(), "".into(), oid.into(), hash) };
    GHObject { shard: pgid().shard, ..GHObject::from(hobj) }
}

/// Changes an object behind the PG's back.
fn damage(rig: &mut Rig, oid: &str, snap: SnapId, change: impl FnOnce(&mut Transaction, &GHObject)) {
    let object = stored(rig, oid, snap);
    let mut txn = Transaction::new();
    change(&mut txn, &object);
    rig.damage_for_good(txn);
}

fn errors(rig: &Rig) -> (i64, i64, i64) {
    let sum = rig.pg.info().stats.stats.sum;
    (sum.num_scrub_errors, sum.num_shallow_scrub_errors, sum.num_deep_scrub_errors)
}

/// Objects of every kind: with data, omap, clones, a whiteout.
fn filled(rig: &mut Rig) {
    for n in 0..20 {
        rig.ask(&format!("object {n}"), vec![write_full(&vec![n; 100 * usize::from(n)])]);
    }
    rig.ask("omap", vec![omap_set("k")]);
    for (oid, ops, snaps) in [
        ("cloned", vec![write_full(b"one")], vec![]),
        ("cloned", vec![write(1, b"two")], vec![2]),
        ("cloned", vec![write_full(b"three")], vec![5, 2]),
        ("white", vec![write_full(b"white")], vec![]),
        ("white", vec![delete()], vec![7]),
    ] {
        let op = with_snaps(rig, oid, ops, &snaps);
        assert_eq!(rig.ask_message(op).result, 0);
    }
}

#[test]
fn a_scrub_of_a_healthy_pg_finds_nothing_and_leaves_its_time_in_the_info() {
    for copies in [Copies::One, Copies::Several { seed: 3 }] {
        let mut rig = Rig::of(copies);
        filled(&mut rig);
        let before = rig.pg.info().history;
        assert_eq!(scrub(&mut rig, SHALLOW), [""; 0]);
        let shallow = rig.pg.info().history;
        assert_eq!(shallow.last_scrub, rig.pg.info().last_update);
        assert!(shallow.last_scrub_stamp > before.last_scrub_stamp);
        assert_eq!(shallow.last_deep_scrub_stamp, before.last_deep_scrub_stamp);
        assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
        let deep = rig.pg.info().history;
        assert_eq!(deep.last_deep_scrub, rig.pg.info().last_update);
        assert!(deep.last_deep_scrub_stamp > shallow.last_scrub_stamp);
        assert_eq!(deep.last_clean_scrub_stamp, deep.last_deep_scrub_stamp);
        let sum = rig.pg.info().stats.stats.sum;
        assert_eq!((sum.num_omap_keys, sum.num_large_omap_objects), (1, 0));
        assert_eq!(rig.pg.stats().scrub.unwrap().objects_scrubbed, sum.num_objects);
        assert_eq!(rig.pg.inconsistent(), Some(&[][..]));
    }
}

#[test]
fn a_result_outlives_a_restart() {
    let mut rig = Rig::new();
    filled(&mut rig);
    damage(&mut rig, "object 7", SnapId::HEAD, |txn, object| {
        txn.truncate(pgid().into(), object, 3);
    });
    scrub(&mut rig, DEEP);
    let (history, errors_before) = (rig.pg.info().history, errors(&rig));
    rig.crash();
    let after = rig.pg.info().history;
    assert_eq!((after.last_scrub, after.last_scrub_stamp), (history.last_scrub, history.last_scrub_stamp));
    assert_eq!(after.last_deep_scrub_stamp, history.last_deep_scrub_stamp);
    assert_eq!(errors(&rig), errors_before);
    assert!(rig.pg.state().has(PgState::INCONSISTENT));
    assert_eq!(rig.pg.inconsistent(), None, "which objects they are is asked of the next scrub");
}

#[test]
fn the_state_says_what_runs() {
    let mut rig = Rig::new();
    filled(&mut rig);
    for (what, shown) in [
        (SHALLOW, "active+clean+scrubbing"),
        (DEEP, "active+clean+scrubbing+deep"),
        (REPAIR, "active+clean+scrubbing+deep+repair"),
    ] {
        order(&mut rig, what);
        let state = rig.pg.state();
        assert!(shown.split('+').all(|bit| state.to_string().split('+').any(|is| is == bit)), "{state}");
        rig.settle();
        assert_eq!(rig.pg.state().to_string(), "active+clean");
    }
}

#[test]
fn metadata_that_do_not_fit_are_found_without_reading_data() {
    let mut rig = Rig::new();
    filled(&mut rig);
    damage(&mut rig, "object 7", SnapId::HEAD, |txn, object| {
        txn.truncate(pgid().into(), object, 3);
    });
    let bad = Attrs::from([("_".into(), buffer::Piece::copy_from(b"bad"))]);
    damage(&mut rig, "object 8", SnapId::HEAD, |txn, object| {
        txn.set_attrs(pgid().into(), object, bad);
    });
    damage(&mut rig, "object 9", SnapId::HEAD, |txn, object| {
        txn.change(pgid().into(), object, store::ObjectChange::RemoveAttr("ss".into()));
    });
    let lines = scrub(&mut rig, SHALLOW);
    let has = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(has("candidate size 3 info size 700 mismatch"), "{lines:?}");
    assert!(has("::object 8:head : candidate had a corrupt info"), "{lines:?}");
    assert!(has("::object 9:head : candidate had a missing snapset key"), "{lines:?}");
    assert!(has("::object 9:head : failed to pick suitable object info"), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "1.0 scrub 3 errors");
    assert_eq!(errors(&rig), (3, 3, 0));
    assert!(rig.pg.state().has(PgState::INCONSISTENT));
    assert_eq!(rig.pg.inconsistent().unwrap().len(), 3);
    let stamp = rig.pg.info().history.last_clean_scrub_stamp;
    // A client mends what it replaces.
    rig.ask("object 7", vec![write_full(b"again")]);
    scrub(&mut rig, SHALLOW);
    assert_eq!(errors(&rig), (2, 2, 0));
    assert_eq!(rig.pg.info().history.last_clean_scrub_stamp, stamp);
}

#[test]
fn data_that_are_not_those_written_are_found_by_a_deep_scrub() {
    let mut rig = Rig::new();
    filled(&mut rig);
    damage(&mut rig, "object 7", SnapId::HEAD, |txn, object| {
        txn.change(pgid().into(), object, store::ObjectChange::write(3, buffer::Rope::copy_from(b"x")));
    });
    assert_eq!(scrub(&mut rig, SHALLOW), [""; 0]);
    let lines = scrub(&mut rig, DEEP);
    assert!(lines[0].contains("::object 7:head : data_digest 0x"), "{lines:?}");
    assert_eq!(lines[1..], ["1.0 deep-scrub 1 errors"]);
    assert_eq!(errors(&rig), (1, 0, 1));
    // A scrub that reads no data can't say that they are well.
    assert_eq!(scrub(&mut rig, SHALLOW), [""; 0]);
    assert_eq!(errors(&rig), (1, 0, 1));
    rig.ask("object 7", vec![write_full(b"again")]);
    assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
    assert_eq!(errors(&rig), (0, 0, 0));
    assert_eq!(rig.pg.state().to_string(), "active+clean");
}

#[test]
fn what_the_store_cannot_read_is_a_read_error_of_that_object_alone() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"one")]);
    order(&mut rig, DEEP);
    // Two listings, and the object's metadata.
    (0..3).for_each(|_| assert!(rig.deliver_read()));
    let object = Box::new(stored(&mut rig, "a", SnapId::HEAD));
    rig.fail_read(StoreError::Checksum { collection: pgid().into(), object, offset: 0 });
    rig.settle();
    let lines = rig.cluster_log();
    assert!(
        lines[0].contains("1.0 shard 0 soid 1:") && lines[0].contains("candidate had a read error"),
        "{lines:?}"
    );
    assert!(lines[1].contains("failed to pick suitable object info"), "{lines:?}");
    assert_eq!(lines[2], "1.0 deep-scrub 1 errors");
    assert_eq!((errors(&rig), &rig.scrubbed[..]), ((1, 0, 1), &[true][..]));
    let Some([Inconsistent::Object { errors, size: Some(3), digest: None, .. }]) = rig.pg.inconsistent()
    else {
        panic!("{:?}", rig.pg.inconsistent())
    };
    assert_eq!(*errors, 1 << 3);
}

#[test]
fn clones_and_heads_are_held_against_each_other() {
    let mut rig = Rig::new();
    filled(&mut rig);
    damage(&mut rig, "cloned", SnapId(2), |txn, object| {
        txn.remove(pgid().into(), object);
    });
    let (from, to) = (stored(&mut rig, "white", SnapId(7)), stored(&mut rig, "white", SnapId(4)));
    let mut txn = Transaction::new();
    txn.clone_object(pgid().into(), &from, &to);
    rig.damage_for_good(txn);
    let lines = scrub(&mut rig, SHALLOW);
    let has = |what: &str| lines.iter().any(|line| line.contains(what));
    assert!(has("::cloned:head : expected clone 1:") && has(":2 1 missing"), "{lines:?}");
    assert!(has("::cloned:head : 1 missing clone(s)"), "{lines:?}");
    assert!(has("::white:4 : is an unexpected clone"), "{lines:?}");
    assert!(
        has("::white:4 : candidate info oid mismatch") || has("candidate info oid mismatch"),
        "{lines:?}"
    );
    let snaps = |inconsistent: &&Inconsistent| matches!(inconsistent, Inconsistent::Snaps { .. });
    assert_eq!(rig.pg.inconsistent().unwrap().iter().filter(snaps).count(), 2);
}

#[test]
fn counters_that_are_wrong_are_said_and_mended_by_a_repair() {
    let mut rig = Rig::new();
    filled(&mut rig);
    let sum = rig.pg.info().stats.stats.sum;
    damage(&mut rig, "object 5", SnapId::HEAD, |txn, object| {
        txn.remove(pgid().into(), object);
    });
    let lines = scrub(&mut rig, SHALLOW);
    let got = format!("stat mismatch, got {}/{} objects", sum.num_objects - 1, sum.num_objects);
    assert!(lines[0].starts_with("1.0 scrub : ") && lines[0].contains(&got), "{lines:?}");
    assert!(lines[0].contains(&format!("{}/{} bytes", sum.num_bytes - 500, sum.num_bytes)), "{lines:?}");
    assert_eq!((lines.len(), errors(&rig)), (2, (1, 1, 0)));
    let lines = scrub(&mut rig, REPAIR);
    assert_eq!(lines.last().unwrap(), "1.0 repair 1 errors, 1 fixed");
    assert_eq!(errors(&rig), (0, 0, 0));
    assert_eq!(rig.pg.info().stats.stats.sum.num_objects, sum.num_objects - 1);
    assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
}

#[test]
fn a_repair_that_leaves_errors_shows() {
    let mut rig = Rig::new();
    filled(&mut rig);
    damage(&mut rig, "object 7", SnapId::HEAD, |txn, object| {
        txn.truncate(pgid().into(), object, 3);
    });
    let lines = scrub(&mut rig, REPAIR);
    assert_eq!(lines.last().unwrap(), "1.0 repair 1 errors, 0 fixed");
    assert!(rig.pg.state().has(PgState::FAILED_REPAIR));
}

#[test]
fn large_omaps_are_named_with_their_keys_and_bytes() {
    let mut rig = with_scrub(ScrubConfig { large_omap_keys: 2, omap_keys_at_once: 2, ..Default::default() });
    for oid in ["large", "small"] {
        rig.ask(oid, vec![omap_set("a"), omap_set("b")]);
    }
    rig.ask("large", vec![omap_set("c"), omap_set("d"), omap_set("e")]);
    assert_eq!(scrub(&mut rig, SHALLOW), [""; 0]);
    let lines = scrub(&mut rig, DEEP);
    let hash = rig.message("large", Vec::new()).hash;
    let name = format!("Object: 1:{:08x}:::large:head PG: 1.{hash:x} (1.0)", hash.reverse_bits());
    assert_eq!(lines, [format!("Large omap object found. {name} Key count: 5 Size (bytes): 5")]);
    let sum = rig.pg.info().stats.stats.sum;
    assert_eq!((sum.num_large_omap_objects, sum.num_omap_keys, sum.num_omap_bytes), (1, 7, 7));
    assert_eq!(errors(&rig), (0, 0, 0), "it is no error");
    rig.ask("large", vec![delete()]);
    scrub(&mut rig, DEEP);
    assert_eq!(rig.pg.info().stats.stats.sum.num_large_omap_objects, 0);
}

#[test]
fn a_write_ends_the_chunk_that_its_object_is_in_and_the_scrub_goes_on_behind_it() {
    let mut rig = Rig::new();
    filled(&mut rig);
    order(&mut rig, DEEP);
    (0..4).for_each(|_| assert!(rig.deliver_read()));
    let op = rig.message("object 3", vec![write_full(b"new")]);
    rig.send(op);
    while rig.replies.is_empty() {
        assert!(rig.commit_one() || rig.deliver_read());
        assert!(rig.scrubbed.is_empty(), "the write did not wait for the scrub");
    }
    rig.settle();
    assert_eq!((&rig.scrubbed[..], rig.cluster_log()), (&[true][..], vec![]));
}

#[test]
fn a_write_waits_for_a_chunk_that_may_not_be_ended_and_a_read_does_not() {
    let mut rig = with_scrub(ScrubConfig { preemptions_max: 0, ..Default::default() });
    rig.ask("a", vec![write_full(b"old")]);
    order(&mut rig, DEEP);
    (0..2).for_each(|_| assert!(rig.deliver_read()));
    let get = rig.message("a", vec![read(0, 0)]);
    rig.send(get);
    let op = rig.message("a", vec![write_full(b"new")]);
    rig.send(op);
    let behind = rig.message("a", vec![read(0, 0)]);
    rig.send(behind);
    rig.settle();
    assert_eq!((rig.replies.len(), &rig.scrubbed[..]), (3, &[true][..]));
    let got: Vec<Vec<u8>> = rig.replies.iter().map(|(_, reply)| reply.ops[0].outdata.to_vec()).collect();
    assert_eq!(got, [b"old".to_vec(), vec![], b"new".to_vec()]);
    let order_of =
        |rig: &Rig, what: &str| rig.trace.iter().position(|effect| effect.starts_with(what)).unwrap();
    let queued = rig.trace.iter().rposition(|effect| effect.starts_with("Queue")).unwrap();
    assert!(order_of(&rig, "Scrubbed") < queued, "the write was queued behind the chunk");
    assert_eq!(rig.cluster_log(), [""; 0]);
}

#[test]
fn a_write_that_has_begun_is_let_end_before_its_object_is_scrubbed() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    rig.settle();
    // It waits for a read.
    let op = rig.message("a", vec![read(0, 0), write(0, b"new data")]);
    rig.send(op);
    order(&mut rig, DEEP);
    rig.settle();
    assert_eq!((rig.replies.len(), &rig.scrubbed[..]), (1, &[true][..]));
    assert_eq!(rig.cluster_log(), [""; 0]);
    assert_eq!(rig.contents("a").unwrap(), b"new data");
}

#[test]
fn changes_during_a_scrub_are_counted_once_wherever_it_is() {
    for seed in 0..60 {
        let mut rng = SplitMix64::new(seed);
        let chunk = 1 + rng.below(4) as usize;
        let mut rig = with_scrub(ScrubConfig {
            chunk_max: chunk,
            chunk_min: 1,
            shallow_chunk_max: chunk,
            shallow_chunk_min: 1,
            preemptions_max: rng.below(3) as u32,
            stride_bytes: 64,
            ..Default::default()
        });
        rig.peeks = seed % 2 == 0;
        let what = if rng.below(2) == 0 { DEEP } else { SHALLOW };
        filled(&mut rig);
        order(&mut rig, what);
        let (mut sent, mut snap) = (0, 7);
        while rig.scrubbed.is_empty() {
            match rng.below(6) {
                0 if sent < 80 => {
                    sent += 1;
                    let oid =
                        ["cloned", "white", "object 3", "object 11", "omap", "new"][rng.below(6) as usize];
                    let ops = match rng.below(5) {
                        0 => vec![delete()],
                        1 => vec![omap_set("x")],
                        2 => vec![read(0, 0), write(rng.below(50), b"some data")],
                        _ => vec![write_full(&vec![1; rng.below(300) as usize])],
                    };
                    snap += rng.below(2);
                    let op = with_snaps(&mut rig, oid, ops, &[snap]);
                    rig.send(op);
                }
                1 => drop(rig.commit_one()),
                _ => assert!(rig.deliver_read() || rig.commit_one() || sent < 80, "seed {seed}: it hangs"),
            }
        }
        rig.settle();
        assert_eq!(
            (rig.cluster_log(), rig.replies.len(), &rig.scrubbed[..]),
            (vec![], sent, &[true][..]),
            "seed {seed}"
        );
    }
}

#[test]
fn an_object_with_more_clones_than_a_chunk_has_is_scrubbed_whole() {
    let mut rig = one_by_one();
    for snap in 1..10 {
        let op = with_snaps(&mut rig, "a", vec![write_full(&[snap as u8; 9])], &[snap]);
        rig.ask_message(op);
    }
    assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
    assert_eq!(rig.pg.stats().scrub.unwrap().objects_scrubbed, 9);
}

#[test]
fn the_end_of_the_interval_ends_a_scrub_without_a_result() {
    for reads in 0..6 {
        let mut rig = one_by_one();
        filled(&mut rig);
        let before = rig.pg.info().history.last_scrub_stamp;
        order(&mut rig, DEEP);
        (0..reads).for_each(|_| assert!(rig.deliver_read()));
        let op = rig.message("object 3", vec![write_full(b"new")]);
        rig.send(op);
        rig.epoch += 1;
        rig.advance(rig.epoch, &[]);
        rig.settle();
        assert_eq!((&rig.scrubbed[..], rig.pg.info().history.last_scrub_stamp), (&[false][..], before));
        order(&mut rig, DEEP);
        assert_eq!(rig.scrubbed, [false, false], "no OSD leads the PG");
        rig.epoch += 1;
        rig.advance(rig.epoch, &[0]);
        rig.settle();
        assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
    }
}

#[test]
fn the_removal_of_the_pool_ends_a_scrub() {
    let mut rig = one_by_one();
    filled(&mut rig);
    order(&mut rig, DEEP);
    (0..3).for_each(|_| assert!(rig.deliver_read()));
    rig.event(PgEvent::Remove);
    rig.settle();
    assert!(rig.removed);
    assert_eq!(rig.scrubbed, [false]);
}

#[test]
fn flags_end_scrubs_of_the_schedule_and_no_others() {
    for (flag, what) in [(MapFlags::NOSCRUB, SHALLOW), (MapFlags::NODEEP_SCRUB, DEEP)] {
        let mut rig = one_by_one();
        filled(&mut rig);
        let periodic = ScrubOrder { periodic: true, ..what };
        order(&mut rig, periodic);
        (0..3).for_each(|_| assert!(rig.deliver_read()));
        rig.flags = flag;
        rig.epoch += 1;
        rig.advance(rig.epoch, &[0]);
        rig.settle();
        assert_eq!(rig.scrubbed, [false]);
        assert_eq!(scrub(&mut rig, what), [""; 0]);
        let other = ScrubOrder { deep: !what.deep, ..periodic };
        assert_eq!(scrub(&mut rig, other), [""; 0]);
    }
}

#[test]
fn a_refused_change_ends_a_scrub_and_what_it_held_back_goes_on() {
    let mut rig = with_scrub(ScrubConfig { preemptions_max: 0, chunk_max: 4, ..Default::default() });
    filled(&mut rig);
    rig.refuse_next();
    let op = rig.message("object 1", vec![write_full(b"refused")]);
    rig.send(op);
    rig.deliver_reads();
    order(&mut rig, DEEP);
    (0..2).for_each(|_| assert!(rig.deliver_read()));
    for n in 0..20 {
        let op = rig.message(&format!("object {n}"), vec![write_full(b"x")]);
        rig.send(op);
    }
    assert!(rig.scrubbed.is_empty() && rig.commit_one());
    rig.settle();
    assert_eq!(rig.replies.len(), 21);
    assert_eq!(rig.scrubbed, [false]);
    assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
}

#[test]
fn snapshots_are_trimmed_after_a_scrub() {
    let mut rig = one_by_one();
    filled(&mut rig);
    order(&mut rig, SHALLOW);
    rig.remove_snaps(&[2]);
    rig.deliver_read();
    assert!(!rig.pg.state().has(PgState::SNAPTRIM));
    rig.settle();
    assert_eq!((&rig.scrubbed[..], rig.cluster_log()), (&[true][..], vec![]));
    assert_eq!(rig.pg.info().purged_snaps.size(), 1);
    assert_eq!(scrub(&mut rig, DEEP), [""; 0]);
}

#[test]
fn a_scrub_pauses_between_chunks_as_long_as_it_is_told() {
    let sleep = Duration::from_secs(10);
    let mut rig = with_scrub(ScrubConfig { sleep, shallow_chunk_max: 1, ..Default::default() });
    ["a", "b", "c"].into_iter().for_each(|oid| drop(rig.ask(oid, vec![create()])));
    order(&mut rig, SHALLOW);
    rig.settle();
    assert!(rig.scrubbed.is_empty() && rig.pg.deadline().is_some());
    rig.pass(5);
    assert!(rig.scrubbed.is_empty());
    rig.pass(60);
    assert_eq!(rig.scrubbed, [true]);
    assert_eq!(rig.pg.deadline(), None);
}

#[test]
fn a_repair_that_finds_nothing_changes_no_object() {
    let mut rig = Rig::new();
    filled(&mut rig);
    let all = ReadRequest::List {
        collection: pgid().into(),
        start: GHObject::min(),
        end: GHObject::max(),
        objects_max: 1000,
        attrs: AttrChoice::All,
    };
    let Ok(ReadOutcome::Objects(before)) = rig.look(all.clone()) else { panic!("a list") };
    scrub(&mut rig, REPAIR);
    let Ok(ReadOutcome::Objects(after)) = rig.look(all) else { panic!("a list") };
    let objects = |page: store::ObjectPage| {
        page.objects.into_iter().filter(|(o, _)| !o.is_pgmeta()).collect::<Vec<_>>()
    };
    assert_eq!(objects(before), objects(after));
}

fn scrub_ls(rig: &mut Rig, arg: ScrubLsArg) -> Result<ScrubLsResult, i32> {
    let op = Op::new(OpCode::SCRUBLS, OpArgs::Pgls { count: 0, start_epoch: Epoch(0) });
    let reply = rig.ask("", vec![op.with_indata(buffer::Rope::from(arg.to_bytes(0)))]);
    match reply.result {
        0 => Ok(ScrubLsResult::from_bytes(&reply.ops[0].outdata.to_piece()).unwrap()),
        errno => Err(errno),
    }
}

#[test]
fn damaged_objects_are_listed_in_parts_until_the_interval_ends() {
    let mut rig = Rig::new();
    filled(&mut rig);
    let arg = ScrubLsArg {
        interval: Epoch(0),
        get_snapsets: 0,
        start_name: "".into(),
        start_nspace: "".into(),
        start_snap: SnapId(0),
        max_return: 2,
    };
    assert_eq!(scrub_ls(&mut rig, arg.clone()), Err(-2), "nothing was scrubbed");
    for n in [3, 7, 9] {
        let cut = |txn: &mut Transaction, object: &GHObject| {
            txn.truncate(pgid().into(), object, 1);
        };
        damage(&mut rig, &format!("object {n}"), SnapId::HEAD, cut);
    }
    damage(&mut rig, "cloned", SnapId(2), |txn, object| {
        txn.remove(pgid().into(), object);
    });
    scrub(&mut rig, DEEP);
    let first = scrub_ls(&mut rig, arg.clone()).unwrap();
    let objects = |result: &ScrubLsResult| -> Vec<InconsistentObject> {
        result.vals.iter().map(|value| InconsistentObject::from_bytes(value.as_bytes()).unwrap()).collect()
    };
    assert_eq!(objects(&first).len(), 2);
    let last = objects(&first).pop().unwrap();
    let [(at, copy)] = &last.copies[..] else { panic!("{last:?}") };
    assert_eq!((at.osd, copy.size, copy.primary, copy.selected_oi), (ME, 1, true, true));
    assert_eq!((copy.errors & 1 << 18, last.union_errors), (1 << 18, copy.errors));
    let next = ScrubLsArg {
        interval: first.interval,
        start_name: last.object.name.clone(),
        start_snap: last.object.snap,
        ..arg.clone()
    };
    let rest = scrub_ls(&mut rig, next.clone()).unwrap();
    assert_eq!(rest.vals.len(), 1);
    let all: BTreeSet<types::Name> =
        objects(&first).into_iter().chain(objects(&rest)).map(|o| o.object.name).collect();
    assert_eq!(all, ["object 3", "object 7", "object 9"].map(types::Name::from).into());
    let snaps = scrub_ls(&mut rig, ScrubLsArg { get_snapsets: 1, ..arg.clone() }).unwrap();
    let snaps = InconsistentSnapSet::from_bytes(snaps.vals[0].as_bytes()).unwrap();
    assert_eq!((snaps.object.name.as_bytes(), &snaps.missing[..]), (&b"cloned"[..], &[SnapId(2)][..]));
    rig.crash();
    assert_eq!(scrub_ls(&mut rig, next), Err(-11), "another interval");
    assert_eq!(scrub_ls(&mut rig, arg), Err(-2), "which has not been scrubbed");
}
