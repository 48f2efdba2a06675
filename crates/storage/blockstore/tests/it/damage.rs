//! A flipped bit anywhere on the device is noticed, or makes no difference: nothing wrong is ever returned.

use std::collections::BTreeMap;

use crate::common::{Sim, Simulated, write};
use blockdev::DeviceId;
use blockdev::sim::SimDisks;
use blockstore::{BLOCK, Checker, OpenError, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, ReadOutcome, ReadRequest, StoreError};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64, UTime};

const LOG_BYTES: u64 = 256 << 10;
const SUPERBLOCKS: u64 = 4096;
const LOG: u64 = SUPERBLOCKS + 2 * 4096;
const COPIES: u64 = LOG + LOG_BYTES;
const BLOCKS: u64 = COPIES + 2 * 4096;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").as_str().into(), n << 20).into()
}

/// All that is read of an object; the first error where there is one.
fn contents(h: &mut Harness<Simulated>, n: u32) -> Result<Vec<ReadOutcome>, StoreError> {
    let (collection, object) = (pg(), object(n));
    let all = [
        ReadRequest::Data {
            collection,
            object: object.clone(),
            offset: 0,
            len: u64::MAX,
            advice: Default::default(),
            verify: false,
        },
        ReadRequest::Attrs { collection, object: object.clone() },
        ReadRequest::OmapRange {
            collection,
            object,
            after: None,
            before: None,
            prefix: Name::new(),
            entries_max: usize::MAX,
            bytes_max: usize::MAX,
            values: true,
        },
    ];
    all.into_iter().map(|request| h.get(request)).collect()
}

/// A store with every kind of record: most in the tree, some in the log, some of the data deferred. It is closed in order, or as
/// if its process had been killed.
fn filled(in_order: bool) -> (Sim, SimDisks, Vec<Vec<ReadOutcome>>, Vec<u64>) {
    let mut factory = Sim::new(Options::default(), LOG_BYTES);
    let mut h = Harness::new(factory.fresh(4 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    let fill = |h: &mut Harness<Simulated>, objects: std::ops::Range<u32>| {
        for n in objects {
            let keys = (0..20).map(|k| (format!("{k}").as_str().into(), vec![n as u8; 30].into()));
            h.commit(|t| {
                t.write(pg(), &object(n), 0, vec![n as u8; 10_000].into());
                t.set_attr(pg(), &object(n), "_", vec![n as u8; 100]).omap_set(
                    pg(),
                    &object(n),
                    keys.collect(),
                )
            });
        }
        h.commit(|t| t.write(pg(), &object(0), 0, vec![9; 100_000].into()));
        h.commit(|t| t.clone_object(pg(), &object(0), &object(1)));
    };
    fill(&mut h, 0..40);
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    fill(&mut h, 40..44);
    let want = (0..44).map(|n| contents(&mut h, n).expect("nothing is damaged yet")).collect();
    // Those of the last objects are still in the log.
    let places = (0..40).filter_map(|n| h.store().store.locate(pg(), &object(n), 0)).collect();
    let Simulated { mut store, disks } = h.take();
    assert!(!in_order || factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    (factory, disks, want, places)
}

/// What the store makes of its device as it is now.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Noticed {
    /// It opens, and everything is there.
    Nothing,
    /// The same, since the tree has a copy of what was lost.
    ByCopy,
    /// Some objects can't be read whole.
    Reading,
    /// The metadata contradicts itself, or can't be read.
    Checking,
    Opening,
}

fn check(simulated: &mut Simulated) -> Vec<String> {
    use store::ObjectStore;
    let mut checker = Checker::new();
    let mut now = UTime { sec: 2_000_000_000, nsec: 0 };
    loop {
        match checker.advance(&mut simulated.store) {
            Some(problems) => return problems,
            None => {
                simulated.store.turn(now);
                now = now
                    .max(simulated.store.deadline().unwrap_or(now))
                    .after(std::time::Duration::from_nanos(1));
                simulated.store.turn(now);
            }
        }
    }
}

fn noticed(factory: &Sim, disks: &SimDisks, want: &[Vec<ReadOutcome>], what: &str) -> Noticed {
    let mut simulated = match factory.try_open(disks) {
        Ok(simulated) => simulated,
        Err(OpenError::Device(error)) => panic!("{what}: the device does not fail: {error}"),
        Err(refused) => {
            disks.close();
            read_what_is_left(factory, disks, want, &format!("{what}: {refused}"));
            return Noticed::Opening;
        }
    };
    let problems = check(&mut simulated);
    let mut h = Harness::new(simulated, factory.properties());
    let mut read_all = true;
    for (n, want) in want.iter().enumerate() {
        match contents(&mut h, n as u32) {
            Ok(found) => assert!(found == *want, "{what}: object {n} is not what was written"),
            Err(StoreError::Checksum { .. } | StoreError::Damaged(_)) => read_all = false,
            Err(other) => panic!("{what}: object {n}: {other}"),
        }
    }
    let Simulated { store, .. } = h.take();
    let by_copy = store.pages_in_one_place() > 0;
    drop(store);
    disks.close();
    match (read_all, problems.is_empty()) {
        (_, false) => Noticed::Checking,
        (false, true) => Noticed::Reading,
        (true, true) if by_copy => Noticed::ByCopy,
        (true, true) => Noticed::Nothing,
    }
}

/// Opens a store that is refused in spite of its damage, if its label and a superblock can be read: what is read of it is right,
/// or was before the last records of the log, and nothing is written.
fn read_what_is_left(factory: &Sim, disks: &SimDisks, want: &[Vec<ReadOutcome>], what: &str) {
    match factory.open_damaged(disks) {
        Ok(simulated) => read_damaged(simulated, factory, disks, want, what),
        Err(_) => disks.close(),
    }
}

fn read_damaged(
    mut simulated: Simulated,
    factory: &Sim,
    disks: &SimDisks,
    want: &[Vec<ReadOutcome>],
    what: &str,
) {
    let writes = disks.counts(DeviceId::Data).writes;
    let is_of_log = simulated.store.damage().is_some_and(|damage| !damage.is_empty());
    let problems = check(&mut simulated);
    assert!(problems.iter().any(|problem| problem.contains("nothing is mended")), "{what}: {problems:?}");
    let mut h = Harness::new(simulated, factory.properties());
    let mut read = 0;
    for (n, want) in want.iter().enumerate() {
        match contents(&mut h, n as u32) {
            Ok(found) if found == *want => read += 1,
            // The records with the last objects, and with what made the first two what they are, may be lost.
            Ok(_) => assert!(is_of_log && n < 2, "{what}: object {n} is not what was written"),
            Err(StoreError::NoSuchObject(..)) if is_of_log && n >= 40 => {}
            Err(StoreError::Checksum { .. } | StoreError::Damaged(_)) if !is_of_log => {}
            Err(other) => panic!("{what}: object {n}: {other}"),
        }
    }
    assert!(read >= 38 || !is_of_log, "{what}: {read} objects are read");
    let refused = h.refused(|t| t.touch(pg(), &object(0)));
    assert!(refused.to_string().contains("read only"), "{what}: {refused}");
    let Simulated { store, .. } = h.take();
    drop(store);
    disks.close();
    assert_eq!(disks.counts(DeviceId::Data).writes, writes, "{what}: nothing is written");
}

#[test]
fn a_store_on_a_device_that_can_not_be_written_is_read_whole() {
    for in_order in [false, true] {
        let (factory, disks, want, _) = filled(in_order);
        let writes = disks.counts(DeviceId::Data).writes;
        for _ in 0..2 {
            let mut simulated = factory.open_to_read(&disks);
            assert_eq!(check(&mut simulated), [""; 0], "it is checked whole");
            let mut h = Harness::new(simulated, factory.properties());
            for (n, want) in want.iter().enumerate() {
                assert!(contents(&mut h, n as u32).as_ref() == Ok(want), "object {n} is what was written");
            }
            let refused = h.refused(|t| t.touch(pg(), &object(0)));
            assert!(refused.to_string().contains("read only"), "{refused}");
            let Simulated { store, .. } = h.take();
            assert!(store.has_failed(), "it is not closed in order, with a write");
            drop(store);
            disks.close();
        }
        assert_eq!(disks.counts(DeviceId::Data).writes, writes, "nothing is written");
        assert_eq!(noticed(&factory, &disks, &want, "opened to be written"), Noticed::Nothing);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_noticed_or_makes_no_difference() {
    let (factory, disks, want, places) = filled(false);
    // What lies behind is noise, which the store has not touched.
    let size = BLOCKS + 320 * BLOCK;
    let mut random = SplitMix64::new(7);
    let mut by_kind: BTreeMap<(&str, Noticed), u32> = BTreeMap::new();
    for block in 0..size / BLOCK {
        let first = block * BLOCK;
        let before = disks.visible(DeviceId::Data, first, BLOCK as usize);
        // Some blocks are enough where there are many of a kind.
        let data = places.contains(&first);
        let kind = match first {
            0 => "label",
            _ if first < LOG => "superblock",
            _ if first < COPIES => "log",
            _ if first < BLOCKS => "copy of a superblock",
            _ if data => "data",
            _ => "page or data",
        };
        let zero = before.iter().all(|byte| *byte == 0);
        let one_in = match kind {
            "log" | "data" => 8,
            "page or data" => 3,
            _ => 1,
        };
        if zero || !random.one_in(one_in) {
            continue;
        }
        let used = 1 + before.iter().rposition(|byte| *byte != 0).unwrap_or(0) as u64;
        let (at, bit) = (first + random.below(used), random.below(8) as u32);
        disks.flip_bit(DeviceId::Data, at, bit);
        let found = noticed(&factory, &disks, &want, &format!("bit {bit} of byte {at} ({kind})"));
        *by_kind.entry((kind, found)).or_default() += 1;
        // An opening writes a superblock, maybe this one.
        if disks.visible(DeviceId::Data, at, 1)[0] == before[(at - first) as usize] ^ (1 << bit) {
            disks.flip_bit(DeviceId::Data, at, bit);
        }
    }
    assert_eq!(noticed(&factory, &disks, &want, "at the end"), Noticed::Nothing);
    let count = |kind, noticed| by_kind.get(&(kind, noticed)).copied().unwrap_or(0);
    assert_eq!((count("label", Noticed::Opening), count("label", Noticed::Nothing)), (1, 0), "{by_kind:?}");
    // Each superblock has two halves.
    assert_eq!(count("superblock", Noticed::Nothing), 2, "{by_kind:?}");
    assert_eq!(count("copy of a superblock", Noticed::Nothing), 2, "{by_kind:?}");
    assert!(count("log", Noticed::Opening) > 0, "{by_kind:?}");
    assert!(count("data", Noticed::Reading) > 2 && count("data", Noticed::Nothing) == 0, "{by_kind:?}");
    let pages = [Noticed::Checking, Noticed::ByCopy].map(|noticed| count("page or data", noticed));
    assert!(pages.iter().sum::<u32>() > 0, "{by_kind:?}");
}

/// No block of data or of the tree is one that a shard can't be opened without: what needs it can't be read, or has it twice.
#[test]
fn no_block_alone_keeps_a_shard_from_opening() {
    let (mut factory, mut disks, want, _) = filled(true);
    let mut by_kind = BTreeMap::<Noticed, u32>::new();
    for first in (BLOCKS..BLOCKS + 320 * BLOCK).step_by(BLOCK as usize) {
        let before = disks.visible(DeviceId::Data, first, BLOCK as usize);
        if before.iter().all(|byte| *byte == 0) {
            continue;
        }
        let what = format!("without the block at byte {first}");
        write(&disks, first, vec![0; BLOCK as usize]);
        let found = noticed(&factory, &disks, &want, &what);
        assert_ne!(found, Noticed::Opening, "{what}");
        let is_by_copy = found == Noticed::ByCopy;
        *by_kind.entry(found).or_default() += 1;
        if !is_by_copy {
            write(&disks, first, before);
            continue;
        }
        // The next checkpoint writes it anew.
        let mut simulated = factory.open(&disks);
        check(&mut simulated);
        let mut h = Harness::new(simulated, factory.properties());
        h.commit(|t| t.touch(pg(), &object(0)));
        h.store().store.request_checkpoint();
        while !h.store().store.is_clean() {
            h.turn();
        }
        drop(h.take().store);
        disks.close();
        let mut simulated = factory.open(&disks);
        assert_eq!(check(&mut simulated), Vec::<String>::new(), "{what}");
        assert_eq!(simulated.store.pages_in_one_place(), 0, "{what}: it was written anew");
        drop(simulated.store);
        disks.close();
        // The pages behind this one have moved, too.
        (factory, disks, ..) = filled(true);
    }
    assert_eq!(noticed(&factory, &disks, &want, "at the end"), Noticed::Nothing);
    // The root, and the leaves with the bitmap, the collections and the first objects; a leaf with others; data.
    let count = |noticed| by_kind.get(&noticed).copied().unwrap_or(0);
    assert!(count(Noticed::ByCopy) >= 3 && count(Noticed::Checking) > 0, "{by_kind:?}");
    assert!(count(Noticed::Reading) > 0, "{by_kind:?}");
}

/// Both pairs of superblocks.
fn superblocks_of(disks: &SimDisks) -> [Vec<u8>; 2] {
    [SUPERBLOCKS, COPIES].map(|at| disks.visible(DeviceId::Data, at, 2 * 4096))
}

fn restore_superblocks(disks: &SimDisks, superblocks: &[Vec<u8>; 2]) {
    for (at, pair) in [SUPERBLOCKS, COPIES].into_iter().zip(superblocks) {
        write(disks, at, pair.clone());
    }
}

/// A shard that is refused is one that nothing was written to: not even the superblock that an opening writes.
#[test]
fn an_opening_that_is_refused_has_written_nothing() {
    let (factory, disks, ..) = filled(false);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    // So many that some leaves have keys of collections alone.
    for seed in 1..500 {
        h.commit(|t| t.create_collection(CollectionId::Pg(PgId { pool: PoolId(1), seed }.into()), 0));
    }
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    let size = h.store().store.device_bytes();
    drop(h.take());
    disks.close();
    let all = |disks: &SimDisks| disks.visible(DeviceId::Data, 0, size as usize);
    let superblocks = superblocks_of(&disks);
    let (mut of_tree, mut of_collections) = (0, 0);
    // A page and its copy.
    let mut alike: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
    for at in (BLOCKS..size).step_by(BLOCK as usize) {
        alike.entry(disks.visible(DeviceId::Data, at, BLOCK as usize)).or_default().push(at);
    }
    for places in alike.into_values() {
        let flip = || places.iter().for_each(|at| disks.flip_bit(DeviceId::Data, at + 20, 3));
        let first = places[0];
        flip();
        let (before, writes) = (all(&disks), disks.counts(DeviceId::Data).writes);
        match factory.try_open(&disks).err() {
            None => restore_superblocks(&disks, &superblocks),
            Some(refused) => {
                assert!(all(&disks) == before, "byte {first}: {refused}, and something was written");
                assert_eq!(disks.counts(DeviceId::Data).writes, writes, "byte {first}: {refused}");
                match refused {
                    OpenError::Collections { .. } => of_collections += 1,
                    _ => of_tree += 1,
                }
            }
        }
        disks.close();
        flip();
    }
    // The root, the leaf of the bitmap; leaves of the collections' keys.
    assert!(of_tree > 1 && of_collections > 1, "{of_tree} of the tree, {of_collections} of the collections");
    assert!(factory.try_open(&disks).is_ok());
}

/// The units of the log that hold something.
fn units(disks: &SimDisks) -> Vec<u64> {
    let used = |at: &u64| disks.visible(DeviceId::Data, *at, UNIT as usize).iter().any(|byte| *byte != 0);
    (LOG..COPIES).step_by(UNIT as usize).filter(used).collect()
}

const UNIT: u64 = 512;

/// Of a store that was closed in order no record of the log is missed unnoticed, wherever it was lost from.
#[test]
fn a_log_that_lost_its_tail_since_it_was_closed_in_order_is_refused() {
    let (factory, disks, want, _) = filled(true);
    let units = units(&disks);
    let before: Vec<_> = units.iter().map(|at| disks.visible(DeviceId::Data, *at, UNIT as usize)).collect();
    let superblocks = superblocks_of(&disks);
    let restore = |units: &[u64], contents: &[Vec<u8>]| {
        for (at, bytes) in units.iter().zip(contents) {
            write(&disks, *at, bytes.clone());
        }
        restore_superblocks(&disks, &superblocks);
    };
    assert_eq!(noticed(&factory, &disks, &want, "undamaged"), Noticed::Nothing);
    let mut lost = 0;
    for first in 0..units.len() {
        restore(&units, &before);
        units[first..].iter().for_each(|at| write(&disks, *at, vec![0; UNIT as usize]));
        lost += usize::from(
            noticed(&factory, &disks, &want, &format!("zeros from {first} on")) == Noticed::Opening,
        );
    }
    assert_eq!(lost, units.len(), "of {} units", units.len());
    restore(&units, &before);
    assert_eq!(noticed(&factory, &disks, &want, "at the end"), Noticed::Nothing);
}

/// A superblock says which records were durable when it was written: so a log that was lost after a crash is missed, too.
#[test]
fn a_log_that_was_lost_since_a_checkpoint_is_refused() {
    let (factory, disks, ..) = filled(false);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let opened = h.store().store.state().generation;
    h.store().store.request_checkpoint();
    // Written while the checkpoint is: the log keeps them.
    for n in 0.. {
        h.commit(|t| t.write(pg(), &object(n % 40), 0, vec![7; 1000].into()));
        if h.store().store.state().generation > opened {
            assert!(n > 0, "the checkpoint was faster than a write");
            break;
        }
    }
    drop(h.take().store);
    disks.close();
    let log = disks.visible(DeviceId::Data, LOG, LOG_BYTES as usize);
    write(&disks, LOG, vec![0; LOG_BYTES as usize]);
    let refused = factory.try_open(&disks).err();
    assert!(matches!(refused, Some(OpenError::Log { .. })), "{refused:?}");
    disks.close();
    write(&disks, LOG, log);
    assert!(factory.try_open(&disks).is_ok());
}

/// A store that was closed in order, and used and closed again, is refused with the first state's log.
#[test]
fn a_log_of_an_earlier_time_is_refused() {
    let (factory, disks, ..) = filled(true);
    let log = |disks: &SimDisks| disks.visible(DeviceId::Data, LOG, LOG_BYTES as usize);
    let earlier = log(&disks);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    h.commit(|t| t.write(pg(), &object(1), 0, vec![7; 1000].into()));
    let Simulated { mut store, disks } = h.take();
    assert!(factory.seal(&mut store, u64::MAX));
    drop(store);
    disks.close();
    let later = log(&disks);
    write(&disks, LOG, earlier);
    let refused = factory.try_open(&disks).err();
    assert!(matches!(refused, Some(OpenError::Log { .. })), "{refused:?}");
    disks.close();
    write(&disks, LOG, later);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let read = contents(&mut h, 1).expect("it is there");
    assert!(matches!(&read[0], ReadOutcome::Data(data) if data.to_vec()[..1000] == [7; 1000]));
}

/// A store that is refused since the device can't read a block is read without what needs it.
fn read_without(at: u64, factory: &Sim, disks: &SimDisks, want: &[Vec<ReadOutcome>]) {
    let what = format!("without the block at byte {at}");
    disks.fail_reads(DeviceId::Data, at..at + BLOCK);
    match factory.try_open(disks) {
        Err(OpenError::Device(error)) => assert!(error.to_string().contains("EIO"), "{what}: {error}"),
        Err(other) => panic!("{what}: {other}"),
        Ok(_) => panic!("{what}: the store is opened"),
    }
    disks.close();
    let simulated = factory.open_damaged(disks).unwrap_or_else(|error| panic!("{what}: {error}"));
    read_damaged(simulated, factory, disks, want, &what);
    disks.heal(DeviceId::Data);
}

#[test]
fn what_lies_before_an_unreadable_part_of_the_log_is_read_in_spite_of_it() {
    let (factory, disks, want, _) = filled(false);
    // All of the log is read, since its records are looked for behind its end, too.
    for at in (LOG..LOG + LOG_BYTES).step_by(BLOCK as usize) {
        read_without(at, &factory, &disks, &want);
    }
}

#[test]
fn a_record_whose_data_beside_the_log_are_unreadable_ends_the_log() {
    let (factory, disks, want, _) = filled(false);
    let mut h = Harness::new(factory.open(&disks), factory.properties());
    let last = want.len() as u32;
    h.commit(|t| t.write(pg(), &object(last), 0, vec![7; 1 << 20].into()));
    let at = h.store().store.locate(pg(), &object(last), 0).expect("it was written");
    drop(h.take());
    disks.close();
    read_without(at, &factory, &disks, &want);
}
