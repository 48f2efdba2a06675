//! A leaf of onodes that can't be read costs the objects in it, and nothing beside it or behind it.

use std::collections::BTreeSet;
use std::time::Duration;

use blockdev::DeviceId;
use blockdev::sim::SimDisks;
use blockstore::{BLOCK, Checker, Options};
use store::conformance::{Factory, Harness};
use store::{
    AttrChoice, CollectionId, ObjectGap, ObjectPage, ObjectStore, ReadOutcome, ReadRequest, StoreError,
    Transaction,
};
use types::{Errno, GHObject, HObject, Name, PgId, PoolId, UTime};

use crate::common::{Sim, Simulated, check, write};

const LOG_BYTES: u64 = 256 << 10;
const SIZE: u64 = 16 << 20;
const BLOCKS: u64 = 4096 + LOG_BYTES + 4 * 4096;

/// Objects of the PG, and as many clones of them, each with another hash than its original.
const OBJECTS: u32 = 200;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

/// What a split makes.
fn child() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 1 }.into())
}

fn object(n: u32) -> GHObject {
    let hash = n.wrapping_mul(0x9e37_79b1);
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n:03}").as_str().into(), hash).into()
}

fn all() -> impl Iterator<Item = u32> {
    0..2 * OBJECTS
}

fn contents(n: u32) -> Vec<u8> {
    vec![(n % OBJECTS) as u8; 8192]
}

/// A store of which one PG has its onodes in many leaves, none of which has a copy: what is made first, and so has copies, is another
/// collection. It is closed in order, with everything in its tree.
fn filled() -> (Sim, SimDisks) {
    let (factory, mut h) = begun();
    h.commit(|t| t.create_collection(pg(), 0).create_collection(child(), 1));
    for n in 0..OBJECTS {
        h.commit(|t| t.write(pg(), &object(n), 0, contents(n).into()));
        h.commit(|t| t.clone_object(pg(), &object(n), &object(OBJECTS + n)));
    }
    let simulated = closed(&factory, h);
    (factory, simulated)
}

/// A store whose first leaves, which have copies, hold what no test damages.
fn begun() -> (Sim, Harness<Simulated>) {
    begun_with(Options::default())
}

fn begun_with(options: Options) -> (Sim, Harness<Simulated>) {
    let mut factory = Sim::new(options, LOG_BYTES);
    let mut h = Harness::new(factory.fresh(SIZE), factory.properties());
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    for n in 1000..1060 {
        h.commit(|t| t.touch(CollectionId::Meta, &object(n)));
    }
    (factory, h)
}

/// Brings everything into the tree, and closes the store in order.
fn closed(factory: &Sim, mut h: Harness<Simulated>) -> SimDisks {
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
        assert!(!h.store().store.has_failed(), "a checkpoint goes on beside a page that can't be read");
    }
    let Simulated { mut store, disks } = h.take();
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    disks
}

/// Damages the leaf with an object of the PG. Returns the blocks that were changed, as they were.
fn damage(disks: &SimDisks, n: u32) -> Vec<(u64, Vec<u8>)> {
    damage_block(disks, format!("object {n:03}").as_bytes())
}

/// Damages the leaf that has these bytes.
fn damage_block(disks: &SimDisks, name: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let found = blocks_with(disks, name);
    found.iter().for_each(|(at, _)| disks.flip_bit(DeviceId::Data, at + 9, 1));
    found
}

/// Makes the leaf that has these bytes one that the device can't read.
fn lose_block(disks: &SimDisks, name: &[u8]) {
    let found = blocks_with(disks, name);
    assert!(!found.is_empty());
    found.iter().for_each(|(at, _)| disks.fail_reads(DeviceId::Data, *at..at + BLOCK));
}

/// Blocks of leaves that have these bytes, and where they are.
pub(crate) fn blocks_with(disks: &SimDisks, name: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let blocks = (BLOCKS..SIZE).step_by(BLOCK as usize);
    let blocks = blocks.map(|at| (at, disks.visible(DeviceId::Data, at, BLOCK as usize)));
    // The first name of a leaf is also in the page above, which begins with its level.
    let is_above = |block: &[u8]| block[0] == 1 && block[3..5] == [0, 0];
    let has_it = |block: &[u8]| has(block, name) && !is_above(block);
    blocks.filter(|(_, block)| has_it(block)).collect()
}

fn has(block: &[u8], bytes: &[u8]) -> bool {
    block.windows(bytes.len()).any(|some| some == bytes)
}

/// Puts back what was damaged, where nothing else was written since.
fn restore(disks: &SimDisks, damaged: Vec<(u64, Vec<u8>)>) {
    for (at, before) in damaged {
        let mut flipped = before.clone();
        flipped[9] ^= 2;
        if disks.visible(DeviceId::Data, at, BLOCK as usize) == flipped {
            write(disks, at, before);
        }
    }
}

fn removal(collection: CollectionId, object: &GHObject) -> Transaction {
    let mut txn = Transaction::new();
    txn.remove(collection, object);
    txn
}

/// Removes an object, if its records can be read.
fn remove(h: &mut Harness<Simulated>, collection: CollectionId, object: &GHObject) -> bool {
    match h.apply(removal(collection, object)) {
        Ok(()) => true,
        Err(error) if error.is_damage() => false,
        Err(other) => panic!("{object}: {other}"),
    }
}

/// Which objects can't be removed, after all others were.
fn remove_each(h: &mut Harness<Simulated>) -> Vec<u32> {
    all().filter(|n| !remove(h, pg(), &object(*n))).collect()
}

/// What can be listed of a collection, and each gap in its list.
fn listed(
    h: &mut Harness<Simulated>,
    collection: CollectionId,
    objects_max: usize,
) -> (Vec<GHObject>, Vec<ObjectGap>) {
    let (mut objects, mut gaps) = (Vec::new(), Vec::new());
    let (mut start, end) = (GHObject::min(), GHObject::max());
    while start != end {
        let list = ReadRequest::ListReadable { collection, start, end: end.clone(), objects_max };
        let ObjectPage { objects: some, next, gaps: passed } = match h.get(list) {
            Ok(ReadOutcome::Objects(page)) => page,
            other => panic!("{other:?}"),
        };
        assert!(some.len() == objects_max || next == end, "a page is full, or the last one");
        objects.extend(some.into_iter().map(|(object, _)| object));
        ObjectGap::add(&mut gaps, passed);
        start = next;
    }
    (objects, gaps)
}

fn data(h: &mut Harness<Simulated>, collection: CollectionId, object: &GHObject) -> Vec<u8> {
    let (object, advice) = (object.clone(), Default::default());
    let read = ReadRequest::Data { collection, object, offset: 0, len: u64::MAX, advice, verify: true };
    match h.get(read) {
        Ok(ReadOutcome::Data(data)) => data.to_vec(),
        other => panic!("{other:?}"),
    }
}

/// Fills what is free, so that whatever was given up is written over.
fn fill(h: &mut Harness<Simulated>) {
    for n in 2000.. {
        let mut txn = Transaction::new();
        txn.write(CollectionId::Meta, &object(n), 0, vec![0xee; 256 << 10].into());
        match h.apply(txn) {
            // Some would have their onodes in a leaf that can't be read.
            Ok(()) => {}
            Err(error) if error.is_damage() => {}
            Err(StoreError::NoSpace { .. }) => return assert!(n > 2010, "there was room"),
            Err(other) => panic!("{other}"),
        }
    }
}

/// Opens the store with what was damaged as it was: every object that was left is whole, and nothing contradicts it.
fn expect_left(factory: &Sim, disks: &SimDisks, damaged: Vec<(u64, Vec<u8>)>, left: &[(CollectionId, u32)]) {
    restore(disks, damaged);
    let mut simulated = factory.open(disks);
    check(&mut simulated, "with the pages back");
    let mut h = Harness::new(simulated, factory.properties());
    let mut found = Vec::new();
    for collection in [pg(), child()] {
        let (objects, gaps) = listed(&mut h, collection, 1000);
        assert_eq!(gaps, [], "{collection}");
        found.extend(objects.into_iter().map(|object| (collection, object)));
    }
    let mut want: Vec<_> = left.iter().map(|(collection, n)| (*collection, object(*n))).collect();
    want.sort();
    assert_eq!(found, want);
    for (collection, n) in left {
        assert!(data(&mut h, *collection, &object(*n)) == contents(*n), "object {n}");
    }
}

/// Leaves beside one that can't be read get small, and would be joined with it.
#[test]
fn a_checkpoint_goes_on_beside_a_leaf_that_can_not_be_read() {
    let (factory, disks) = filled();
    for n in [0, 77, 150] {
        damage(&disks, n);
    }
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let left = remove_each(&mut h);
    assert!((3..OBJECTS as usize).contains(&left.len()), "{} are left", left.len());
    let disks = closed(&factory, h);
    // Also from the tree that it has made.
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    assert_eq!(remove_each(&mut h), left);
    h.commit(|t| t.set_info(CollectionId::Meta, b"another".to_vec()));
    closed(&factory, h);
}

/// The store counts shared blocks apart from the objects: an object that can't be read keeps its blocks when another one that shares
/// them is removed.
#[test]
fn what_can_be_listed_is_removed_and_takes_nothing_from_what_can_not() {
    for (divided, objects_max) in [(false, 7), (false, 1000), (true, 7), (true, 1000)] {
        let (factory, mut disks) = filled();
        if divided {
            let mut h = Harness::new(factory.open(&disks), factory.properties());
            h.commit(|t| t.split(pg(), 1, 1, child()));
            disks = closed(&factory, h);
        }
        let of = |n: u32| if divided && object(n).hobj.hash % 2 == 1 { child() } else { pg() };
        let damaged: Vec<_> = [0, 77, 150].into_iter().flat_map(|n| damage(&disks, n)).collect();
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        let (start, end, attrs) = (GHObject::min(), GHObject::max(), AttrChoice::None);
        let list = ReadRequest::List { collection: pg(), start, end, objects_max: 1000, attrs };
        assert!(matches!(h.get(list), Err(StoreError::Damaged(_))), "another list has all or nothing");
        let (mut removed, mut gaps) = (Vec::new(), 0);
        for collection in [pg(), child()] {
            let (objects, passed) = listed(&mut h, collection, objects_max);
            assert!(objects.is_sorted(), "{collection}");
            assert!(passed.iter().all(|gap| gap.behind.as_ref().is_none_or(|behind| *behind > gap.from)));
            for object in &objects {
                assert!(remove(&mut h, collection, object), "{object} can be listed");
            }
            gaps += passed.len();
            assert!(passed.is_empty() || h.refused(|t| t.remove_collection(collection)).is_local());
            removed.extend(objects.into_iter().map(|object| (collection, object)));
        }
        // A leaf may have objects of both PGs, and two neighbours may be damaged.
        assert!((2..=6).contains(&gaps), "{gaps} gaps");
        let is_left = |n: &u32| !removed.contains(&(of(*n), object(*n)));
        let left: Vec<_> = all().filter(is_left).map(|n| (of(n), n)).collect();
        assert!((3..OBJECTS as usize).contains(&left.len()), "{} are left", left.len());
        for (collection, n) in &left {
            let stat = ReadRequest::Stat { collection: *collection, object: object(*n) };
            assert!(matches!(h.get(stat), Err(StoreError::Damaged(_))), "object {n} can be listed");
        }
        fill(&mut h);
        let disks = closed(&factory, h);
        expect_left(&factory, &disks, damaged, &left);
    }
}

/// Where it can't be read how many objects map a block, none of them is removed.
#[test]
fn an_object_stays_whose_shares_can_not_be_counted() {
    let (factory, disks) = filled();
    // An entry of a page: the key's length, table and number.
    let damaged = damage_block(&disks, b"\x09\0\0\0r\0\0\0\0\0\0\0");
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let left = remove_each(&mut h);
    assert!(left.len() > 2, "{} are left", left.len());
    fill(&mut h);
    let disks = closed(&factory, h);
    let left: Vec<_> = left.into_iter().map(|n| (pg(), n)).collect();
    expect_left(&factory, &disks, damaged, &left);
}

/// The same where the device says that it can't read the block.
#[test]
fn a_sector_that_can_not_be_read_costs_what_a_flipped_bit_does() {
    // A leaf with counts of shares (an entry's key length, table and number), which all removals need, and one with objects alone.
    for (entry, has_counts) in [(&b"\x09\0\0\0r\0\0\0\0\0\0\0"[..], true), (b"object 077", false)] {
        let (factory, disks) = filled();
        lose_block(&disks, entry);
        let mut h = Harness::new(factory.open(&disks), factory.properties());
        let (objects, gaps) = listed(&mut h, pg(), 1000);
        let is_why = |why: &StoreError| match why {
            StoreError::Unreadable { what: "read of a page", errno: Errno::EIO, at: Some(at) } => {
                !at.is_log && at.byte.is_some()
            }
            _ => false,
        };
        assert!(gaps.iter().all(|gap| is_why(&gap.why)), "{gaps:?}");
        let left = remove_each(&mut h);
        assert!(left.len() > 2, "{} are left", left.len());
        assert!(has_counts || !gaps.is_empty() && objects.len() + left.len() == all().count());
        fill(&mut h);
        let disks = closed(&factory, h);
        disks.heal(DeviceId::Data);
        let left: Vec<_> = left.into_iter().map(|n| (pg(), n)).collect();
        expect_left(&factory, &disks, Vec::new(), &left);
    }
}

/// A client's new object adds keys to a leaf that the store has not read. The options leave no memory for stranded changes, so that the
/// checkpoint ends the store.
#[test]
fn a_store_that_ends_does_not_say_that_a_sector_is_all_that_it_lacks() {
    let (factory, mut h) = begun_with(Options { changes_bytes_max: 1 << 10, ..Options::default() });
    h.commit(|t| t.create_collection(pg(), 0));
    let attr = |n: u32| [format!("attribute of {n:04}").into_bytes(), vec![7; 600]].concat();
    for n in 0..OBJECTS {
        h.commit(|t| t.set_attr(pg(), &object(n), "_", attr(n)));
    }
    let disks = closed(&factory, h);
    lose_block(&disks, format!("attribute of {:04}", OBJECTS - 1).as_bytes());
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.set_attr(pg(), &object(OBJECTS), "_", attr(OBJECTS)));
    h.store().store.request_checkpoint();
    for _ in 0..1000 {
        if h.store().store.has_failed() {
            break;
        }
        h.turn();
    }
    let refused = h.refused(|t| t.touch(CollectionId::Meta, &object(1)));
    assert!(matches!(refused, StoreError::Io { errno: Errno::EIO, .. }), "{refused}");
}

/// A check goes on behind those that it has passed, though it waits for others.
#[test]
fn many_leaves_that_can_not_be_read_are_passed_by_once_each() {
    let (factory, mut h) = begun();
    h.commit(|t| t.create_collection(pg(), 0));
    // Few objects with such names have room in a leaf.
    let long = "long".repeat(450);
    let name = |n: u32| format!("{long}{n:04}");
    let named = |n: u32| -> GHObject {
        let hash = n.reverse_bits();
        HObject::head(PoolId(1), Name::new(), Name::new(), name(n).as_str().into(), hash).into()
    };
    for n in 0..OBJECTS {
        h.commit(|t| t.touch(pg(), &named(n)));
    }
    let disks = closed(&factory, h);
    for (at, block) in blocks_with(&disks, long.as_bytes()) {
        // The first leaf and the last one have also what an opening reads.
        let is_meant = (20..OBJECTS - 20).any(|n| has(&block, name(n).as_bytes()));
        // A leaf begins with its level and, behind lengths, its first key's table.
        if is_meant && block[0] == 0 && block[9] == b'o' {
            disks.fail_reads(DeviceId::Data, at..at + BLOCK);
        }
    }
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let (objects, gaps) = listed(&mut h, pg(), 1000);
    assert!(objects.len() < 80 && gaps.len() > 10, "{} objects, {} gaps", objects.len(), gaps.len());
    let Simulated { store, disks } = h.take();
    drop(store);
    disks.close();
    let Simulated { mut store, .. } = factory.open(&disks);
    let mut now = UTime { sec: 2_000_000_000, nsec: 0 };
    let (mut checker, mut waits) = (Checker::new(), 0);
    let problems = loop {
        match checker.advance(&mut store) {
            Some(problems) => break problems,
            None => waits += 1,
        }
        store.turn(now);
        now = now.max(store.deadline().unwrap_or(now)).after(Duration::from_nanos(1));
        store.turn(now);
        assert!(waits < 1000, "a check ends");
    };
    let different: BTreeSet<&String> = problems.iter().collect();
    assert!(different.len() == problems.len() && problems.len() > gaps.len(), "{problems:#?}");
}
