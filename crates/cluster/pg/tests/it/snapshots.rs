//! Clones: what a snapshot preserves stays readable, whatever becomes of the head; counters and overlaps say what is stored.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::common::copies::Copies;
use crate::common::*;
use encoding::{Decode, Decoder};
use maps::MapFlags;
use messages::{Op, OpArgs, OpCode, OsdOpReply, PgState};
use ops::{ObjectInfo, SnapSet};
use pg::{EntryKind, PgConfig, PgEvent};
use types::{Epoch, Errno, HObject, IntervalSet, SnapId, SplitMix64};

fn rollback(snap: u64) -> Op {
    Op::new(OpCode::ROLLBACK, OpArgs::Snap { snapid: SnapId(snap) })
}

fn list_snaps() -> Op {
    Op::new(OpCode::LIST_SNAPS, OpArgs::none())
}

fn range(code: OpCode, offset: u64, length: u64) -> Op {
    Op::new(code, OpArgs::extent(offset, length))
}

fn ask_at(rig: &mut Rig, oid: &str, ops: Vec<Op>, snap: SnapId) -> OsdOpReply {
    let mut op = rig.message(oid, ops);
    op.snapid = snap;
    rig.ask_message(op)
}

fn contents_at(rig: &mut Rig, oid: &str, snap: u64) -> Option<Vec<u8>> {
    let reply = ask_at(rig, oid, vec![read(0, 0)], SnapId(snap));
    match reply.result {
        0 => Some(reply.ops[0].outdata.to_vec()),
        -2 => None,
        other => panic!("{other}"),
    }
}

#[test]
fn a_write_after_a_snapshot_makes_a_clone_that_keeps_data_attributes_and_version() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old"), xattr(OpCode::SETXATTR, "k", "v", 0)]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"newer")], &[3, 2]);
    let wrote = rig.ask_message(op);
    assert_eq!((wrote.result, wrote.replay_version.version, wrote.user_version), (0, 3, 3));
    let [_, clone, write] = [0, 1, 2].map(|n| rig.pg.log().entries()[n].clone());
    assert_eq!((clone.kind, clone.oid.snap, clone.version.version), (EntryKind::Clone, SnapId(3), 2));
    assert_eq!(Vec::<SnapId>::from_bytes(&clone.extras.snaps), Ok(vec![SnapId(3), SnapId(2)]));
    assert_eq!(
        (write.kind, write.oid.snap, write.prior_version.version),
        (EntryKind::Modify, SnapId::HEAD, 1)
    );
    for snap in [2, 3] {
        let got = ask_at(&mut rig, "a", vec![read(0, 0), xattr(OpCode::GETXATTR, "k", "", 0)], SnapId(snap));
        assert_eq!((got.result, got.user_version), (0, 1), "the version of the state that it preserves");
        assert_eq!(got.ops[0].outdata.to_vec(), b"old");
        assert_eq!(got.ops[1].outdata.to_vec(), b"v");
    }
    assert_eq!(rig.contents("a").unwrap(), b"newer");
    assert_eq!(contents_at(&mut rig, "a", 1), None, "a snapshot that the client did not name");
    assert_eq!(contents_at(&mut rig, "a", 4).unwrap(), b"newer", "a snapshot since the last write");
    let sum = rig.pg.info().stats.stats.sum;
    assert_eq!((sum.num_objects, sum.num_object_clones, sum.num_bytes), (2, 1, 8));
}

#[test]
fn a_read_at_a_snapshot_waits_for_the_write_that_makes_its_clone() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[1]);
    rig.send(op);
    let mut op = rig.message("a", vec![read(0, 0)]);
    op.snapid = SnapId(1);
    rig.send(op);
    rig.deliver_reads();
    assert_eq!(rig.replies.len(), 0);
    rig.settle();
    assert_eq!(rig.replies.len(), 2);
    assert_eq!(rig.replies[1].1.ops[0].outdata.to_vec(), b"old");
}

#[test]
fn a_rollback_counts_what_was_there_before_its_request() {
    let made = [write_full(b"x"), create_exclusive(), xattr(OpCode::SETXATTR, "k", "v", 0)];
    for first in made {
        let mut rig = Rig::new();
        let op = with_snaps(&mut rig, "a", vec![first, rollback(1)], &[1]);
        assert_eq!(rig.ask_message(op).result, 0);
        assert_eq!(
            rig.contents("a"),
            None,
            "it was not there at the snapshot, whatever the request made before"
        );
        assert_eq!(rig.pg.info().stats.stats.sum.num_bytes, 0);
    }
    for (first, left) in [(write_full(b"new"), Some(b"new".to_vec())), (delete(), None)] {
        let mut rig = Rig::new();
        rig.ask("a", vec![write_full(b"old")]);
        let op = with_snaps(&mut rig, "a", vec![first, rollback(1)], &[1]);
        assert_eq!(rig.ask_message(op).result, 0);
        assert_eq!(rig.contents("a"), left, "the head is what the snapshot has, so nothing is done");
        assert_eq!(contents_at(&mut rig, "a", 1), Some(b"old".to_vec()));
    }
}

#[test]
fn a_head_that_is_removed_stays_as_a_whiteout_while_clones_need_it() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![delete()], &[1]);
    assert_eq!(rig.ask_message(op).result, 0);
    assert_eq!((rig.contents("a"), contents_at(&mut rig, "a", 1)), (None, Some(b"old".to_vec())));
    let again = with_snaps(&mut rig, "a", vec![delete()], &[1]);
    assert_eq!(rig.ask_message(again).result, Errno::ENOENT.code());
    assert_eq!(rig.pg.info().stats.stats.sum.num_whiteouts, 1);
    let assert_exists = rig.ask("a", vec![stat(), write_full(b"x")]);
    assert_eq!(assert_exists.result, Errno::ENOENT.code());
    let listed = ask_at(&mut rig, "a", vec![list_snaps()], SnapId::DIR);
    assert_eq!((listed.result, clones_listed(&listed)), (0, vec![1]));
    let op = with_snaps(&mut rig, "a", vec![create_exclusive()], &[1]);
    assert_eq!(rig.ask_message(op).result, 0);
    let listed = ask_at(&mut rig, "a", vec![list_snaps()], SnapId::DIR);
    assert_eq!(clones_listed(&listed), [1, SnapId::HEAD.0]);
    assert_eq!(rig.pg.info().stats.stats.sum.num_whiteouts, 0);
}

/// The ids in LIST_SNAPS' answer.
fn clones_listed(reply: &OsdOpReply) -> Vec<u64> {
    let bytes = reply.ops[0].outdata.to_vec();
    let listed = Decoder::new(&bytes).versioned(2, "obj_list_snap_response_t", |d, _| {
        let count: u32 = d.get()?;
        let id = |d: &mut Decoder<'_>| d.versioned(1, "clone_info", |d, _| d.get::<u64>());
        (0..count).map(|_| id(d)).collect::<Result<Vec<_>, _>>()
    });
    listed.expect("LIST_SNAPS' answer")
}

#[test]
fn a_rollback_brings_back_what_a_snapshot_had_and_removes_what_did_not_exist() {
    let mut rig = Rig::new();
    let op =
        with_snaps(&mut rig, "a", vec![write_full(b"first"), xattr(OpCode::SETXATTR, "k", "1", 0)], &[1]);
    rig.ask_message(op);
    let op = with_snaps(
        &mut rig,
        "a",
        vec![write_full(b"a second"), xattr(OpCode::SETXATTR, "k", "2", 0)],
        &[2, 1],
    );
    rig.ask_message(op);
    let op = with_snaps(&mut rig, "a", vec![rollback(2)], &[2, 1]);
    assert_eq!(rig.ask_message(op).result, 0);
    assert_eq!(rig.contents("a").unwrap(), b"first");
    let attr = rig.ask("a", vec![xattr(OpCode::GETXATTR, "k", "", 0)]);
    assert_eq!(attr.ops[0].outdata.to_vec(), b"1");
    let before = rig.pg.info().last_user_version;
    let op = with_snaps(&mut rig, "a", vec![rollback(9)], &[2, 1]);
    assert_eq!(rig.ask_message(op).user_version, before + 1, "to the head: a change all the same");
    let op = with_snaps(&mut rig, "a", vec![rollback(1)], &[2, 1]);
    assert_eq!(rig.ask_message(op).result, 0);
    assert_eq!((rig.contents("a"), contents_at(&mut rig, "a", 2)), (None, Some(b"first".to_vec())));
    let op = with_snaps(&mut rig, "a", vec![rollback(2)], &[2, 1]);
    assert_eq!(rig.ask_message(op).result, 0);
    assert_eq!(rig.contents("a").unwrap(), b"first");
    let op = with_snaps(&mut rig, "never", vec![rollback(2)], &[2, 1]);
    assert_eq!(rig.ask_message(op).result, 0, "as Ceph");
}

#[test]
fn snapshots_that_are_removed_are_neither_read_nor_preserved() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[2, 1]);
    rig.ask_message(op);
    rig.remove_snaps(&[1, 3]);
    assert_eq!((contents_at(&mut rig, "a", 1), contents_at(&mut rig, "a", 2)), (None, Some(b"old".to_vec())));
    let op = with_snaps(&mut rig, "a", vec![write_full(b"newer")], &[3, 2, 1]);
    rig.ask_message(op);
    let listed = ask_at(&mut rig, "a", vec![list_snaps()], SnapId::DIR);
    assert_eq!(clones_listed(&listed), [2, SnapId::HEAD.0], "no clone for a snapshot that is gone");
}

#[test]
fn a_removed_snapshot_gives_its_clones_back_and_is_purged_durably() {
    let mut rig = Rig::new();
    for (snap, oid) in [(2, "a"), (2, "b"), (3, "a")] {
        rig.ask(oid, vec![write_full(b"data")]);
        let op = with_snaps(&mut rig, oid, vec![write(0, b"D")], &[snap, 1]);
        assert_eq!(rig.ask_message(op).result, 0);
    }
    let op = with_snaps(&mut rig, "b", vec![delete()], &[3, 2, 1]);
    assert_eq!(rig.ask_message(op).result, 0);
    let sum = |rig: &Rig| rig.pg.info().stats.stats.sum;
    assert_eq!((sum(&rig).num_objects, sum(&rig).num_object_clones, sum(&rig).num_whiteouts), (6, 4, 1));
    rig.remove_snaps(&[1]);
    assert!(rig.pg.state().has(PgState::SNAPTRIM));
    assert_eq!(rig.pg.stats().snaptrimq_len, 1);
    rig.settle();
    check_stored(&mut rig);
    assert_eq!((sum(&rig).num_object_clones, rig.pg.stats().snaptrimq_len), (4, 0), "others need them");
    assert_eq!(contents_at(&mut rig, "b", 2).unwrap(), b"data");
    rig.remove_snaps(&[2, 3]);
    rig.settle();
    check_stored(&mut rig);
    assert_eq!((sum(&rig).num_objects, sum(&rig).num_object_clones, sum(&rig).num_whiteouts), (1, 0, 0));
    assert_eq!(rig.contents("a").unwrap(), b"Data");
    assert_eq!(rig.contents("b"), None);
    assert!(!rig.pg.state().has(PgState::SNAPTRIM));
    assert_eq!(rig.pg.stats().purged_snaps.ranges(), [(1, 3)]);
    rig.crash();
    assert_eq!(rig.pg.stats().purged_snaps.ranges(), [(1, 3)]);
    rig.forget_removed_snaps();
    assert!(rig.pg.stats().purged_snaps.is_empty());
}

#[test]
fn a_change_that_names_a_purged_snapshot_keeps_nothing_for_it_also_when_the_map_has_forgotten_it() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    rig.remove_snaps(&[1, 2]);
    rig.settle();
    rig.forget_removed_snaps();
    for crashes in [false, true] {
        if crashes {
            rig.crash();
        }
        // Their client has sent this before it heard of the removal.
        let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[2, 1]);
        assert_eq!(rig.ask_message(op).result, 0);
        let dump = rig.dump(0);
        let heads = dump.objects.iter().filter(|(object, ..)| !object.is_pgmeta()).count();
        assert_eq!((heads, dump.index.len()), (1, 0), "a clone that nothing trims");
    }
}

#[test]
fn of_purged_snapshots_a_pg_remembers_the_newest_and_all_of_the_maps_queue() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"x")]);
    let old: Vec<u64> = (0..100).map(|n| 2 * n + 1).collect();
    rig.remove_snaps(&old);
    rig.settle();
    assert_eq!(rig.pg.stats().purged_snaps.ranges().len(), 100);
    rig.forget_removed_snaps();
    rig.remove_snaps(&[1001]);
    rig.settle();
    let known = rig.pg.info().purged_snaps.clone();
    assert!(known.contains(1001) && known.contains(199) && !known.contains(1), "{known:?}");
    assert_eq!((known.ranges().len(), rig.pg.stats().purged_snaps.ranges()), (64, &[(1001, 1)][..]));
}

#[test]
fn a_clone_that_is_made_while_the_index_is_read_is_trimmed_when_its_snapshot_is_removed() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    rig.remove_snaps(&[1]);
    assert_eq!(rig.reads_due(), 1, "that of the index");
    let write = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[2]);
    rig.peeks = true;
    rig.send(write);
    rig.remove_snaps(&[2]);
    rig.settle();
    assert_eq!(rig.pg.stats().purged_snaps.ranges(), [(1, 2)]);
    let dump = rig.dump(0);
    let clones: Vec<_> = dump.objects.iter().filter(|(object, ..)| object.hobj.snap == SnapId(2)).collect();
    assert!(clones.is_empty() && dump.index.is_empty(), "{clones:?} {:?}", dump.index);
}

/// An OSD begins again with a map that all its PGs had reached: one may have changes of a later map.
#[test]
fn trimming_goes_on_in_a_map_that_is_older_than_the_last_change() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[1]);
    rig.ask_message(op);
    rig.flags = MapFlags::NOSNAPTRIM;
    rig.remove_snaps(&[1]);
    rig.epoch += 5;
    rig.advance(rig.epoch, &[0]);
    rig.ask("b", vec![write_full(b"later")]);
    let last = rig.pg.info().last_update;
    rig.flags = 0;
    rig.epoch -= 4;
    rig.crash();
    assert!(Epoch(rig.epoch) < last.epoch);
    let now = rig.pg.info();
    assert!(now.last_update > last && now.stats.stats.sum.num_object_clones == 0, "{now:?}");
}

/// An import brings back what was trimmed since the export, and no map's queue has the snapshots any more.
#[test]
fn clones_of_snapshots_that_were_purged_long_ago_are_trimmed_when_the_pg_hears_of_it() {
    let mut rig = Rig::new();
    for oid in ["a", "b"] {
        rig.ask(oid, vec![write_full(b"one")]);
        for (data, snaps) in [(b"two", &[2][..]), (b"six", &[6, 5, 4, 2]), (b"ten", &[9, 6, 5, 4, 2])] {
            let op = with_snaps(&mut rig, oid, vec![write_full(data)], snaps);
            rig.ask_message(op);
        }
    }
    rig.remove_snaps(&[9]);
    rig.settle();
    let mut purged = IntervalSet::range(4, 1);
    purged.insert(6, 3);
    rig.event(PgEvent::Purged(Box::new(purged)));
    rig.settle();
    let key = |snap: u64| format!("snap_{snap:016x}").into_bytes();
    let kept: Vec<_> = rig.dump(0).index.iter().map(|name| name.as_bytes()[..21].to_vec()).collect();
    assert_eq!(kept, [key(2), key(2), key(5), key(5)]);
    let stats = rig.pg.stats();
    assert_eq!((stats.snaptrimq_len, stats.stats.sum.num_object_clones), (0, 4));
    assert!(!rig.pg.state().has(PgState::SNAPTRIM));
    // What was purged long ago takes no place of what the map's queue has.
    assert_eq!(rig.pg.info().purged_snaps.ranges(), [(9, 1)]);
    rig.crash();
    assert_eq!(rig.pg.stats().stats.sum.num_object_clones, 4);
}

#[test]
fn a_pg_that_another_osd_leads_trims_nothing_of_what_was_purged() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"one")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"two")], &[1]);
    rig.ask_message(op);
    rig.epoch += 1;
    rig.advance(rig.epoch, &[1]);
    rig.event(PgEvent::Purged(Box::new(IntervalSet::range(1, 1))));
    rig.settle();
    assert_eq!(rig.pg.stats().stats.sum.num_object_clones, 1);
}

#[test]
fn trimming_takes_a_batch_at_a_time_and_sleeps_between() {
    let trim_sleep = Duration::from_secs(7);
    let mut rig = Rig::with_config(PgConfig { trim_sleep, concurrent_trims_max: 2, ..PgConfig::default() });
    for oid in ["a", "b", "c", "d", "e"] {
        rig.ask(oid, vec![write_full(b"data")]);
        let op = with_snaps(&mut rig, oid, vec![write(0, b"D")], &[1]);
        rig.ask_message(op);
    }
    let clones = |rig: &Rig| rig.pg.info().stats.stats.sum.num_object_clones;
    rig.remove_snaps(&[1]);
    for left in [3, 1, 0] {
        rig.settle();
        assert_eq!(clones(&rig), left);
        assert!(rig.pg.state().has(PgState::SNAPTRIM));
        rig.pass(3);
        rig.settle();
        assert_eq!(clones(&rig), left, "it sleeps");
        rig.pass(6);
    }
    rig.settle();
    assert!(!rig.pg.state().has(PgState::SNAPTRIM) && rig.pg.deadline().is_none());
    assert_eq!(rig.pg.info().purged_snaps.ranges(), [(1, 1)]);
}

#[test]
fn many_removed_snapshots_without_objects_are_purged_in_few_steps() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[500_000]);
    rig.ask_message(op);
    rig.removed_snaps = IntervalSet::range(1, 499_999);
    rig.removed_snaps.insert(500_001, 500_000);
    let before = rig.trace.len();
    rig.remove_snaps(&[]);
    rig.settle();
    assert_eq!(rig.pg.info().purged_snaps, rig.removed_snaps);
    assert!(rig.trace.len() - before < 10, "{:?}", &rig.trace[before..]);
    assert_eq!(contents_at(&mut rig, "a", 500_000).unwrap(), b"old");
}

#[test]
fn a_read_of_a_snapshot_that_is_removed_meanwhile_finds_nothing() {
    let mut rig = Rig::new();
    rig.ask("a", vec![write_full(b"old")]);
    let op = with_snaps(&mut rig, "a", vec![write_full(b"new")], &[2, 1]);
    rig.ask_message(op);
    let mut op = rig.message("a", vec![read(0, 0)]);
    op.snapid = SnapId(2);
    rig.send(op);
    // The metadata of the clone; its data are still to come when trimming begins.
    rig.deliver_read();
    rig.remove_snaps(&[1, 2]);
    rig.settle();
    assert_eq!(rig.replies.pop().expect("an answer").1.result, Errno::ENOENT.code(), "removed meanwhile");
    assert_eq!(rig.pg.info().stats.stats.sum.num_object_clones, 0);
}

#[test]
fn snapshots_of_a_write_must_descend() {
    let mut rig = Rig::new();
    let mut op = with_snaps(&mut rig, "b", vec![write_full(b"new")], &[3]);
    op.snaps = vec![SnapId(2), SnapId(3)];
    assert_eq!(rig.ask_message(op).result, Errno::EINVAL.code());
}

/// What objects and their snapshots must be.
#[derive(Default)]
struct Model {
    heads: BTreeMap<String, Vec<u8>>,
    /// By snapshot and object; those that are not there did not exist.
    snaps: BTreeMap<u64, BTreeMap<String, Vec<u8>>>,
    last_snap: u64,
}

impl Model {
    fn snaps(&self) -> Vec<u64> {
        self.snaps.keys().rev().copied().collect()
    }

    fn change(&mut self, rng: &mut SplitMix64, oid: &str) -> Op {
        let (offset, len) = (rng.below(40), 1 + rng.below(20));
        let data: Vec<u8> = (0..len).map(|_| b'a' + rng.below(26) as u8).collect();
        let head = self.heads.get(oid).cloned();
        let mut new = head.clone().unwrap_or_default();
        let put = |new: &mut Vec<u8>, at: usize, data: &[u8]| {
            new.resize(new.len().max(at + data.len()), 0);
            new[at..at + data.len()].copy_from_slice(data);
        };
        let op = match rng.below(8) {
            0 => {
                new.clone_from(&data);
                write_full(&data)
            }
            1 => {
                new.extend(&data);
                append(&data)
            }
            2 if head.is_some() => {
                new.resize(offset as usize, 0);
                range(OpCode::TRUNCATE, offset, 0)
            }
            3 if head.is_some() => {
                let end = (offset + len) as usize;
                if end < new.len() {
                    new[offset as usize..end].fill(0);
                } else {
                    new.truncate(new.len().min(offset as usize));
                }
                range(OpCode::ZERO, offset, len)
            }
            4 if head.is_some() => {
                self.heads.remove(oid);
                return delete();
            }
            5 if !self.snaps.is_empty() => {
                let at = rng.below(self.snaps.len() as u64) as usize;
                let (snap, then) = self.snaps.iter().nth(at).expect("a snapshot");
                match then.get(oid) {
                    Some(then) => self.heads.insert(oid.into(), then.clone()),
                    None => self.heads.remove(oid),
                };
                return rollback(*snap);
            }
            _ => {
                put(&mut new, offset as usize, &data);
                write(offset, &data)
            }
        };
        self.heads.insert(oid.into(), new);
        op
    }

    fn check(&self, rig: &mut Rig, oids: &[String]) {
        for oid in oids {
            assert_eq!(rig.contents(oid), self.heads.get(oid).cloned(), "{oid}");
            for (snap, objects) in &self.snaps {
                assert_eq!(contents_at(rig, oid, *snap), objects.get(oid).cloned(), "{oid} at {snap}");
            }
        }
        check_stored(rig);
    }
}

/// Counters and overlaps say what is stored.
fn check_stored(rig: &mut Rig) {
    let dump = rig.dump(0);
    let find = |oid: &HObject| dump.objects.iter().find(|(o, ..)| o.hobj == *oid).expect("an object");
    let mut preserved = 0;
    let (mut objects, mut clones, mut whiteouts, mut bytes, mut dirty) = (0, 0, 0, 0u64, 0);
    for (object, attrs, data) in &dump.objects {
        let info = ObjectInfo::from_bytes(attrs.get(&b"_"[..]).expect("an attribute")).expect("metadata");
        assert_eq!((&info.oid, info.size), (&object.hobj, data.len() as u64));
        objects += 1;
        dirty += i64::from(info.has(ops::ObjectFlags::DIRTY));
        whiteouts += i64::from(info.is_whiteout());
        if !object.hobj.is_head() {
            assert!(attrs.get(&b"ss"[..]).is_none(), "the SnapSet is the head's");
            let head = HObject { snap: SnapId::HEAD, ..object.hobj.clone() };
            assert!(find(&head).1.get(&b"ss"[..]).is_some());
            clones += 1;
            continue;
        }
        let snapset = SnapSet::from_bytes(attrs.get(&b"ss"[..]).expect("an attribute")).expect("a SnapSet");
        bytes += data.len() as u64;
        assert!(snapset.clones.is_sorted() && snapset.clone_snaps.keys().eq(&snapset.clones));
        assert!(
            snapset.clone_overlap.keys().eq(&snapset.clones) && snapset.clone_size.keys().eq(&snapset.clones)
        );
        for (at, id) in snapset.clones.iter().enumerate() {
            let clone = &find(&HObject { snap: *id, ..object.hobj.clone() }).2;
            let next = snapset.clones.get(at + 1).copied().unwrap_or(SnapId::HEAD);
            let newer = &find(&HObject { snap: next, ..object.hobj.clone() }).2;
            assert_eq!(snapset.clone_size[id], clone.len() as u64);
            bytes += snapset.clone_bytes(*id);
            for &(start, len) in snapset.clone_overlap[id].ranges() {
                let range = start as usize..(start + len) as usize;
                assert_eq!(clone[range.clone()], newer[range], "{} {id}: shared", object.hobj);
            }
        }
        assert!(!snapset.clones.is_empty() || !info.is_whiteout(), "a whiteout without clones");
        preserved += snapset.clone_snaps.values().map(Vec::len).sum::<usize>();
    }
    assert_eq!(dump.index.len(), preserved, "a key for every snapshot of every clone");
    let sum = &rig.pg.info().stats.stats.sum;
    let counted =
        [sum.num_objects, sum.num_object_clones, sum.num_whiteouts, sum.num_bytes, sum.num_objects_dirty];
    assert_eq!(counted, [objects, clones, whiteouts, bytes as i64, dirty]);
}

fn run(copies: Copies, seed: u64, steps: usize, refusals: bool) {
    println!("seed {seed}");
    let (mut rng, mut rig, mut model) =
        (SplitMix64::new(seed), Rig::with(PgConfig::default(), copies), Model::default());
    rig.peeks = seed % 2 == 0;
    let oids: Vec<String> = (0..3).map(|n| format!("o{n}")).collect();
    for _ in 0..steps {
        match rng.below(10) {
            0 | 1 => {
                model.last_snap += 1 + rng.below(2);
                model.snaps.insert(model.last_snap, model.heads.clone());
            }
            2 if rng.below(4) == 0 => rig.crash_to_any(),
            2 if model.snaps.len() > 2 => {
                let at = rng.below(model.snaps.len() as u64) as usize;
                let snap = *model.snaps.keys().nth(at).expect("a snapshot");
                model.snaps.remove(&snap);
                rig.remove_snaps(&[snap]);
                // Trimming goes on beside what follows.
            }
            4 if refusals && rng.below(3) == 0 => rig.refuse_next(),
            5 if rig.pg.stats().purged_snaps == rig.removed_snaps => rig.forget_removed_snaps(),
            3 => model.check(&mut rig, &oids),
            _ => {
                let oid = &oids[rng.below(3) as usize];
                let before = model.heads.clone();
                let op = model.change(&mut rng, oid);
                let op = with_snaps(&mut rig, oid, vec![op], &model.snaps());
                match rig.ask_message(op).result {
                    0 => {}
                    refused => {
                        assert_eq!(refused, Errno::ENOSPC.code());
                        model.heads = before;
                    }
                }
            }
        }
    }
    model.check(&mut rig, &oids);
    // What a refusal left over is tried again later; a crash is later too.
    rig.crash();
    assert_eq!(rig.pg.stats().purged_snaps, rig.removed_snaps, "everything is trimmed in the end");
    model.check(&mut rig, &oids);
    let dumps: Vec<Dump> = (0..copies.whole()).map(|copy| rig.dump(copy)).collect();
    for dump in &dumps[1..] {
        assert_eq!(
            (&dump.objects, &dump.log, &dump.index),
            (&dumps[0].objects, &dumps[0].log, &dumps[0].index)
        );
    }
}

#[test]
fn every_snapshot_stays_what_it_was_through_changes_rollbacks_and_crashes() {
    (0..24).for_each(|seed| run(Copies::One, seed, 150, false));
}

#[test]
fn and_with_several_copies() {
    (100..112).for_each(|seed| run(Copies::Several { seed }, seed, 150, false));
}

#[test]
fn nor_do_refusals_lose_any() {
    (200..216).for_each(|seed| run(Copies::One, seed, 150, true));
}
