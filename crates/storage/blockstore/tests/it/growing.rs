//! A store on a device that has grown: it has the old end or the new one, whenever power is lost, and the new one for good.

use blockstore::{OpenError, Opener, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, ObjectStore, ReadOutcome, ReadRequest, StatFs, StoreError, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, UTime};

use crate::common::shards::{Shards, Whole};
use crate::common::{Sim, Simulated, check};

const OLD_BYTES: u64 = 16 << 20;
const NEW_BYTES: u64 = 40 << 20;
const DEVICE_BYTES: u64 = 48 << 20;
const C: CollectionId = CollectionId::Meta;

fn object(n: u64) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").into(), n as u32).into()
}

/// Brings an opening that grows the store as far as so many turns.
fn grow(
    sim: &Sim,
    disks: &blockdev::sim::SimDisks,
    to: u64,
    turns: usize,
) -> Option<Result<Simulated, OpenError>> {
    let mut opener = Opener::new(disks.open(), 0, sim.options).unwrap().growing_to(vec![to]);
    let mut now = UTime { sec: 2, nsec: 0 };
    for _ in 0..turns {
        match opener.turn(now) {
            Some(opened) => return Some(opened.map(|store| Simulated { store, disks: disks.clone() })),
            None => now = opener.deadline().expect("it waits for the device"),
        }
    }
    None
}

/// Writes objects of 256 KiB until the collection's shard is full; returns how many there are then.
fn fill<S: ObjectStore>(h: &mut Harness<S>, c: CollectionId, from: u64) -> u64 {
    for n in from.. {
        let mut txn = Transaction::new();
        txn.write(c, &object(n), 0, vec![n as u8 + 1; 256 << 10].into());
        let token = h.queue(txn);
        match h.outcome(token) {
            Ok(()) => {}
            Err(StoreError::NoSpace { .. }) => {
                h.acknowledge(token);
                return n;
            }
            Err(other) => panic!("{other}"),
        }
    }
    0
}

fn expect_objects<S: ObjectStore>(h: &mut Harness<S>, collection: CollectionId, count: u64, when: &str) {
    for n in 0..count {
        let (object, advice) = (object(n), store::Advice::default());
        let read = ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify: true };
        let Ok(ReadOutcome::Data(data)) = h.get(read) else { panic!("{when}: object {n}") };
        assert!(data.to_vec() == vec![n as u8 + 1; 256 << 10], "{when}: object {n}");
    }
}

#[test]
fn a_store_on_a_device_that_has_grown_has_the_old_end_or_the_new_one_and_then_the_new_one() {
    let mut sim = Sim::new(Options::default(), 1 << 20);
    let disks = sim.disks(DEVICE_BYTES);
    sim.make(&disks, sim.label(OLD_BYTES));
    let mut h = Harness::new(sim.open(&disks), sim.properties());
    h.commit(|t| t.create_collection(C, 0));
    let full = fill(&mut h, C, 0);
    let before: StatFs = h.statfs();
    let mut seen = [0, 0];
    for turns in 0.. {
        drop(h.abandon());
        disks.reseed(turns as u64);
        disks.power_loss();
        let done = grow(&sim, &disks, NEW_BYTES, turns);
        let whole = done.is_some();
        drop(done);
        disks.power_loss();
        let mut opened = sim.open(&disks);
        check(&mut opened, &format!("after {turns} turns"));
        let grown = opened.store.device_bytes() == NEW_BYTES;
        assert!(grown || opened.store.device_bytes() == OLD_BYTES, "{}", opened.store.device_bytes());
        assert!(grown || !whole, "an opening that came to its end counts");
        seen[usize::from(grown)] += 1;
        h = Harness::new(opened, sim.properties());
        expect_objects(&mut h, C, full, &format!("after {turns} turns"));
        if whole {
            break;
        }
    }
    assert!(seen[0] > 0, "no power loss came before the store had grown");
    assert!(h.statfs().bytes_total >= before.bytes_total + (NEW_BYTES - OLD_BYTES) / 256 * 255);
    let more = fill(&mut h, C, full);
    assert!(more >= full + 80, "24 MiB more hold some 90 objects: {more} are there, {full} were");
    for seed in 0..4 {
        let store = sim.crash(h.abandon(), seed).expect("power can be lost");
        h = Harness::new(store, sim.properties());
        expect_objects(&mut h, C, more, "grown, and full again");
    }
    // Once more, and closed in order.
    drop(h.abandon());
    disks.close();
    let Some(Ok(store)) = grow(&sim, &disks, DEVICE_BYTES, usize::MAX) else {
        panic!("it does not grow again")
    };
    let store = sim.reopen(store).expect("it opens");
    assert_eq!(store.store.device_bytes(), DEVICE_BYTES);
}

#[test]
fn what_is_no_growth_is_refused_and_changes_nothing() {
    let sim = Sim::new(Options::default(), 1 << 20);
    let disks = sim.disks(DEVICE_BYTES);
    sim.make(&disks, sim.label(OLD_BYTES));
    let refused = |to| grow(&sim, &disks, to, usize::MAX).map(|opened| opened.err());
    assert!(matches!(refused(OLD_BYTES - 4096), Some(Some(OpenError::Shrinks { has: OLD_BYTES, .. }))));
    assert!(matches!(
        refused(DEVICE_BYTES + 4096),
        Some(Some(OpenError::Sizes { device_bytes: DEVICE_BYTES }))
    ));
    assert_eq!(sim.open(&disks).store.device_bytes(), OLD_BYTES);
}

const SHARDS: u32 = 3;

fn of_several() -> Shards {
    Shards { sim: Sim::new(Options::default(), 1 << 20), shards: SHARDS, grown: false }
}

/// A collection of each shard.
fn pgs(h: &mut Harness<Whole>) -> Vec<CollectionId> {
    let pg = |seed| CollectionId::Pg(PgId { pool: PoolId(1), seed }.into());
    let mut of_shard = |shard| (0..99).map(pg).find(|c| h.shard_of(*c).0 == shard).expect("there is one");
    (0..SHARDS).map(&mut of_shard).collect()
}

/// What is full stays as it is, whatever else is written.
fn expect_all(h: &mut Harness<Whole>, counts: &[u64], when: &str) {
    for (c, count) in pgs(h).into_iter().zip(counts) {
        expect_objects(h, c, *count, when);
    }
}

fn fill_all(h: &mut Harness<Whole>, from: &[u64]) -> Vec<u64> {
    pgs(h).into_iter().zip(from).map(|(c, from)| fill(h, c, *from)).collect()
}

fn ends(h: &mut Harness<Whole>) -> Vec<Vec<u64>> {
    h.store().store.handles().iter().map(|handle| handle.ends()).collect()
}

/// A store of several shards, each full, on a device that is larger.
fn several_full() -> (Shards, blockdev::sim::SimDisks, Harness<Whole>, Vec<u64>) {
    let of = of_several();
    let disks = of.sim.disks(DEVICE_BYTES);
    of.sim.make(&disks, of.label(OLD_BYTES));
    let mut h = Harness::new(of.open(&disks, "new"), of.properties());
    for c in pgs(&mut h) {
        h.commit(|t| t.create_collection(c, 0));
    }
    let full = fill_all(&mut h, &[0; SHARDS as usize]);
    (of, disks, h, full)
}

#[test]
fn shards_grow_one_after_the_other_and_a_power_loss_between_them_is_made_up_for() {
    let (mut of, disks, mut h, full) = several_full();
    let before: StatFs = h.statfs();
    let label = of.label(OLD_BYTES);
    let first = label.ends_with(&[], NEW_BYTES).unwrap().expect("there is more");
    let mut seen = [0; SHARDS as usize + 1];
    for turns in 0.. {
        drop(h.abandon());
        disks.reseed(turns as u64);
        disks.power_loss();
        let done = of.grow(&disks, &first, turns).unwrap();
        disks.power_loss();
        let when = format!("after {turns} turns");
        h = Harness::new(of.open(&disks, &when), of.properties());
        let grown = ends(&mut h);
        let count = grown.iter().filter(|ends| **ends == first).count();
        assert!(grown[..count].iter().all(|ends| **ends == first), "{grown:?}");
        assert!(grown[count..].iter().all(Vec::is_empty) && (!done || count == 3), "{grown:?}");
        seen[count] += 1;
        expect_all(&mut h, &full, &when);
        if done {
            break;
        }
    }
    assert!(seen.iter().all(|times| *times > 0), "power was lost between any two shards: {seen:?}");
    assert!(h.statfs().bytes_total >= before.bytes_total + (NEW_BYTES - OLD_BYTES) / 256 * 255 - 16384);
    let more = fill_all(&mut h, &full);
    for (more, full) in more.iter().zip(&full) {
        assert!(
            more >= &(full + 28),
            "a third of 24 MiB holds some 30 objects: {more} are there, {full} were"
        );
    }
    for seed in 0..4 {
        let whole = of.crash(h.abandon(), seed).expect("power can be lost");
        h = Harness::new(whole, of.properties());
        expect_all(&mut h, &more, "grown, and full again");
    }
    // Once more, and closed in order.
    let second = label.ends_with(&first, DEVICE_BYTES).unwrap().expect("there is more");
    let whole = of.reopen(h.abandon()).expect("it opens");
    drop(whole);
    assert_eq!(of.grow(&disks, &second, usize::MAX), Ok(true));
    h = Harness::new(of.open(&disks, "grown twice"), of.properties());
    expect_all(&mut h, &more, "grown twice");
    let most = fill_all(&mut h, &more);
    assert!(most.iter().zip(&more).all(|(most, more)| most >= &(more + 9)), "{most:?}, {more:?}");
    h = Harness::new(of.reopen(h.take()).expect("it opens"), of.properties());
    expect_all(&mut h, &most, "full for the third time");
    assert_eq!(ends(&mut h), vec![second; SHARDS as usize]);
}

#[test]
fn a_shard_that_was_left_behind_gets_both_of_its_parts_when_the_device_has_grown_again() {
    let (mut of, disks, mut h, full) = several_full();
    drop(h.abandon());
    let label = of.label(OLD_BYTES);
    let first = label.ends_with(&[], NEW_BYTES).unwrap().expect("there is more");
    let mut turns = 0;
    loop {
        of.grow(&disks, &first, turns).unwrap();
        disks.power_loss();
        h = Harness::new(of.open(&disks, "interrupted"), of.properties());
        if ends(&mut h)[0] == first {
            break;
        }
        drop(h.abandon());
        turns += 1;
    }
    assert_eq!(ends(&mut h)[1..], [vec![], vec![]]);
    // The one that has grown uses what it has; the others are full.
    let mut counts = full.clone();
    counts[0] = fill_all(&mut h, &full)[0];
    assert!(counts[0] > full[0] + 28);
    drop(h.abandon());
    disks.close();
    let second = label.ends_with(&first, DEVICE_BYTES).unwrap().expect("there is more");
    assert_eq!(of.grow(&disks, &second, usize::MAX), Ok(true));
    h = Harness::new(of.open(&disks, "grown again"), of.properties());
    expect_all(&mut h, &counts, "grown again");
    let most = fill_all(&mut h, &counts);
    assert!(most.iter().all(|count| count.abs_diff(most[0]) <= 2), "all shards are alike: {most:?}");
    h = Harness::new(of.crash(h.abandon(), 7).expect("power can be lost"), of.properties());
    expect_all(&mut h, &most, "full");
}

#[test]
fn shards_that_would_grow_apart_or_beyond_the_device_are_refused_and_change_nothing() {
    let (of, disks, mut h, full) = several_full();
    drop(h.abandon());
    disks.close();
    let refused = |ends: &[u64]| of.grow(&disks, ends, usize::MAX).unwrap_err();
    assert!(matches!(refused(&[DEVICE_BYTES + 4096]), OpenError::Sizes { device_bytes: DEVICE_BYTES }));
    assert!(matches!(refused(&[OLD_BYTES - 4096]), OpenError::Shrinks { shard: 0, .. }));
    assert!(matches!(refused(&[OLD_BYTES + 4096]), OpenError::NoSuperblock { shard: 0, .. }));
    assert_eq!(of.grow(&disks, &[NEW_BYTES], usize::MAX), Ok(true));
    assert!(matches!(refused(&[NEW_BYTES - 8192, DEVICE_BYTES]), OpenError::GrownApart { shard: 0 }));
    h = Harness::new(of.open(&disks, "refused"), of.properties());
    assert_eq!(ends(&mut h), vec![vec![NEW_BYTES]; SHARDS as usize]);
    expect_all(&mut h, &full, "refused");
}
