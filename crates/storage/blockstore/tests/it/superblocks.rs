//! The newest superblock may be lost whole. Where each is written twice, nothing is lost with one of them, or with both of a pair.
//! Where it is written once, what was acknowledged since the one before is there or can't be read, or the store is refused.

use std::collections::BTreeMap;

use crate::common::{Sim, Simulated, check, write};
use blockdev::DeviceId;
use blockdev::sim::SimDisks;
use blockstore::{OpenError, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, ReadOutcome, ReadRequest, StoreError};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};
use wal::WalError;

const LOG_BYTES: u64 = 256 << 10;
const SUPERBLOCKS: u64 = 4096;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("object {n}").as_str().into(), n << 20).into()
}

fn read(h: &mut Harness<Simulated>, n: u32) -> Result<Vec<u8>, StoreError> {
    let (offset, len, advice, verify) = (0, u64::MAX, Default::default(), false);
    match h.get(ReadRequest::Data { collection: pg(), object: object(n), offset, len, advice, verify })? {
        ReadOutcome::Data(data) => Ok(data.to_vec()),
        other => panic!("object {n}: {other:?}"),
    }
}

/// A store with what it acknowledged.
struct History {
    factory: Sim,
    random: SplitMix64,
    acknowledged: BTreeMap<u32, Vec<u8>>,
}

/// Each superblock is in one place.
fn once() -> Sim {
    Sim { copies: false, ..Sim::new(Options::default(), LOG_BYTES) }
}

/// Each superblock is in two places.
fn twice(log_apart: bool) -> Sim {
    Sim { log_apart, ..Sim::new(Options::default(), LOG_BYTES) }
}

impl History {
    /// A store that was used and closed some times.
    fn new(mut factory: Sim, seed: u64) -> (Self, SimDisks) {
        let mut h = Harness::new(factory.fresh(8 << 20), factory.properties());
        h.commit(|t| t.create_collection(pg(), 0));
        let Simulated { store, disks } = h.take();
        drop(store);
        disks.close();
        let mut history = Self { factory, random: SplitMix64::new(seed), acknowledged: BTreeMap::new() };
        for _ in 0..3 {
            let writes = [0, 1, 5, 60, 400][history.random.below(5) as usize];
            history.use_it(&disks, writes);
        }
        (history, disks)
    }

    fn write(&mut self, h: &mut Harness<Simulated>) {
        let n = self.random.below(12) as u32;
        let len = [300, 5_000, 40_000][self.random.below(3) as usize];
        let mut data = vec![0; len];
        data.fill_with(|| self.random.next_u64() as u8);
        let offset = self.random.below(3) * 4096;
        h.commit(|t| t.write(pg(), &object(n), offset, data.clone().into()));
        let has = self.acknowledged.entry(n).or_default();
        let end = offset as usize + len;
        has.resize(has.len().max(end), 0);
        has[offset as usize..end].copy_from_slice(&data);
    }

    /// What a process does with the store until it is killed, or closes it.
    fn use_it(&mut self, disks: &SimDisks, writes: u64) {
        let mut h = Harness::new(self.factory.open(disks), self.factory.properties());
        for _ in 0..writes {
            self.write(&mut h);
            if self.random.one_in(30) {
                h.store().store.request_checkpoint();
            }
        }
        let Simulated { mut store, disks } = h.take();
        if self.random.one_in(3) {
            assert!(self.factory.seal(&mut store, u64::MAX));
        }
        drop(store);
        disks.close();
    }

    /// Everything is as it was acknowledged; returns how many objects can't be read.
    fn verify(&self, h: &mut Harness<Simulated>, what: &str) -> usize {
        let mut unread = 0;
        for (n, want) in &self.acknowledged {
            match read(h, *n) {
                Ok(found) => assert!(found == *want, "{what}: object {n} is not what was acknowledged"),
                Err(StoreError::Checksum { .. } | StoreError::Damaged(_)) => unread += 1,
                Err(other) => panic!("{what}: object {n}: {other}"),
            }
        }
        unread
    }
}

/// The generation of a superblock.
fn generation(disks: &SimDisks, place: u64) -> u64 {
    // Both halves have it behind checksum, length, magic, features, store and shard.
    let bytes = disks.visible(DeviceId::Data, place + 32, 8);
    u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
}

/// Where the newer superblock of the first pair is.
fn newest_of_first(disks: &SimDisks) -> u64 {
    let places = [SUPERBLOCKS, SUPERBLOCKS + 4096];
    places.into_iter().max_by_key(|place| generation(disks, *place)).expect("two")
}

/// Zeros where the newest superblock is; returns where that is.
fn lose_newest(disks: &SimDisks) -> u64 {
    let newest = newest_of_first(disks);
    write(disks, newest, vec![0; 4096]);
    newest
}

/// Where the newest superblock of all is in the first pair, and whether it is in both.
fn newest_of(disks: &SimDisks, factory: &Sim) -> (u64, bool) {
    let newer = |n: u64| {
        let places = [SUPERBLOCKS, copies(factory)].map(|pair| generation(disks, pair + n * 4096));
        (places[0].max(places[1]), n, places[0] == places[1])
    };
    let (_, n, in_both) = newer(0).max(newer(1));
    (SUPERBLOCKS + n * 4096, in_both)
}

/// Where a store has the copies of its superblocks.
fn copies(factory: &Sim) -> u64 {
    SUPERBLOCKS + 2 * 4096 + if factory.log_apart { 64 << 10 } else { LOG_BYTES }
}

#[test]
fn a_superblock_that_is_lost_in_one_place_is_read_from_the_other() {
    // Else the process was killed while it was written.
    let mut in_both = 0;
    for seed in 0..200 {
        let (mut history, disks) = History::new(twice(seed % 2 == 0), seed);
        let factory = history.factory.clone();
        let (first, second) = (SUPERBLOCKS, copies(&factory));
        let (newest, is_in_both) = newest_of(&disks, &factory);
        in_both += u32::from(is_in_both);
        let lost: Vec<u64> = match seed / 2 % 4 {
            0 => vec![newest],
            1 => vec![newest - first + second],
            2 => vec![first, first + 4096],
            _ => vec![second, second + 4096],
        };
        lost.iter().for_each(|place| write(&disks, *place, vec![0; 4096]));
        let what = format!("seed {seed}, {lost:?} lost");
        let mut simulated = factory.try_open(&disks).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!(simulated.store.unread_superblocks(), lost, "{what}");
        check(&mut simulated, &what);
        let mut h = Harness::new(simulated, factory.properties());
        assert_eq!(history.verify(&mut h, &what), 0, "{what}");
        drop(h.take());
        disks.close();
        // What is written next is in both places; two openings write each place anew.
        for pair in [first, second] {
            lose_pair_and_open(&mut history, &disks, pair, &what);
        }
        (0..2).for_each(|_| drop(factory.open(&disks)));
        let mut simulated = factory.open(&disks);
        assert_eq!(simulated.store.unread_superblocks(), [0; 0], "{what}");
        check(&mut simulated, &what);
    }
    assert!(in_both > 150, "{in_both}");
}

/// Uses the store, loses a pair of superblocks, and finds everything.
fn lose_pair_and_open(history: &mut History, disks: &SimDisks, pair: u64, what: &str) {
    let factory = history.factory.clone();
    history.use_it(disks, 20);
    write(disks, pair, vec![0; 2 * 4096]);
    let mut simulated = factory.try_open(disks).unwrap_or_else(|e| panic!("{what}, then {pair}: {e}"));
    check(&mut simulated, what);
    let mut h = Harness::new(simulated, factory.properties());
    assert_eq!(history.verify(&mut h, what), 0, "{what}, then {pair}");
    drop(h.take());
    disks.close();
}

/// Both of the newest superblock's places are lost: it is as if each were written once.
#[test]
fn a_newest_superblock_that_was_lost_in_both_places_is_missed_or_makes_no_difference() {
    let (mut refused, mut whole) = (0, 0);
    for seed in 0..100 {
        let (history, disks) = History::new(twice(seed % 2 == 0), seed);
        let factory = history.factory.clone();
        let (newest, _) = newest_of(&disks, &factory);
        let lost = [newest, newest - SUPERBLOCKS + copies(&factory)];
        lost.into_iter().for_each(|place| write(&disks, place, vec![0; 4096]));
        match factory.try_open(&disks) {
            Ok(simulated) => {
                assert_eq!(simulated.store.unread_superblocks(), lost, "seed {seed}");
                let mut h = Harness::new(simulated, factory.properties());
                whole += usize::from(history.verify(&mut h, &format!("seed {seed}")) == 0);
            }
            Err(OpenError::Log { error: WalError::Outdated { .. }, .. }) => refused += 1,
            Err(OpenError::WithoutSuperblock { at, .. }) => assert_eq!(at, newest, "seed {seed}"),
            Err(OpenError::Log { error: WalError::Corrupt { .. }, .. }) => {}
            Err(other) => panic!("seed {seed}: {other}"),
        }
    }
    assert!(refused > 10 && whole > 10, "{refused} refused, {whole} whole");
}

/// A device that can't read a place fails the opening only if nothing else says what was there.
#[test]
fn a_place_that_the_device_can_not_read_counts_as_lost_where_there_is_another() {
    for seed in 0..40 {
        let (history, disks) = History::new(twice(seed % 2 == 0), seed);
        let factory = history.factory.clone();
        // In the middle of a block, too: a sector is what a device loses.
        let lose = |place: u64| {
            let sector = place + seed % 8 * 512;
            disks.fail_reads(DeviceId::Data, sector..sector + 512);
        };
        let newest = || newest_of(&disks, &factory).0;
        for pair in [SUPERBLOCKS, copies(&factory)] {
            let place = newest() - SUPERBLOCKS + pair;
            lose(place);
            let opened = factory.try_open(&disks).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
            assert_eq!(opened.store.unread_superblocks(), [place], "seed {seed}");
            let mut h = Harness::new(opened, factory.properties());
            assert_eq!(history.verify(&mut h, &format!("seed {seed}")), 0);
            drop(h.take());
            disks.heal(DeviceId::Data);
            disks.close();
            drop(factory.open(&disks));
            disks.close();
        }
        [newest(), newest() - SUPERBLOCKS + copies(&factory)].into_iter().for_each(lose);
        let writes = disks.counts(DeviceId::Data).writes;
        let refused = factory.try_open(&disks).err();
        assert!(matches!(refused, Some(OpenError::Device(_))), "seed {seed}: {refused:?}");
        assert_eq!(disks.counts(DeviceId::Data).writes, writes, "nothing is written over it");
    }
}

#[test]
fn a_newest_superblock_that_was_lost_is_missed_or_makes_no_difference() {
    let (mut refused, mut saved, mut over, mut whole, mut in_part) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let what = format!("seed {seed}");
        let (mut history, disks) = History::new(once(), seed);
        let lost = lose_newest(&disks);
        let factory = history.factory.clone();
        match factory.try_open(&disks) {
            Ok(simulated) => {
                assert_eq!(simulated.store.unread_superblocks(), [lost], "{what}");
                let mut h = Harness::new(simulated, factory.properties());
                match history.verify(&mut h, &what) {
                    0 => whole += 1,
                    _ => in_part += 1,
                }
                let Simulated { store, disks } = h.take();
                drop(store);
                disks.close();
                // It goes on as if nothing had happened.
                history.use_it(&disks, 5);
                let mut simulated = factory.open(&disks);
                assert_eq!(simulated.store.unread_superblocks(), [0; 0], "{what}");
                check(&mut simulated, &what);
                history.verify(&mut Harness::new(simulated, factory.properties()), &what);
            }
            Err(OpenError::Log { error: WalError::Outdated { .. }, .. }) => {
                refused += 1;
                disks.close();
                let simulated = factory.open_damaged(&disks).unwrap_or_else(|e| panic!("{what}: {e}"));
                let mut h = Harness::new(simulated, factory.properties());
                saved += usize::from(
                    history.acknowledged.iter().all(|(n, want)| read(&mut h, *n).as_ref() == Ok(want)),
                );
            }
            // The log went on over what the superblock before has it keep.
            Err(OpenError::Log { error: WalError::Corrupt { .. }, .. }) => over += 1,
            Err(other) => panic!("{what}: {other}"),
        }
    }
    assert!(
        refused > 20 && saved > 10 && whole > 20,
        "{refused} refused, {saved} saved whole, {whole} whole"
    );
    assert!(
        in_part + over < 20,
        "{in_part} in part, {over} refused where the log went on over what was kept"
    );
}

/// A checkpoint's superblock leaves nothing in the log that says of it, and what was written since may lie where the tree before was.
#[test]
fn where_the_tree_is_gone_a_superblock_that_was_lost_is_named_as_the_reason() {
    let mut factory = once();
    let mut h = Harness::new(factory.fresh(4 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    h.commit(|t| t.touch(pg(), &object(1)));
    for _ in 0..2 {
        h.store().store.request_checkpoint();
        while !h.store().store.is_clean() {
            h.turn();
        }
        h.commit(|t| t.touch(pg(), &object(2)));
    }
    let Simulated { store, disks } = h.take();
    drop(store);
    disks.close();
    let lost = lose_newest(&disks);
    let blocks = SUPERBLOCKS + 2 * 4096 + LOG_BYTES;
    for offset in (blocks..blocks + (1 << 20)).step_by(1 << 16) {
        write(&disks, offset, vec![7; 1 << 16]);
    }
    match factory.try_open(&disks).err() {
        Some(OpenError::WithoutSuperblock { shard: 0, at, error }) => {
            assert_eq!(at, lost);
            assert!(matches!(*error, OpenError::Store(StoreError::Damaged(_))), "{error}");
        }
        other => panic!("{other:?}"),
    }
}
