//! The newest superblock may be lost whole: what was acknowledged since the one before is there or can't be read, or the store is
//! refused.

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

impl History {
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

/// Zeros where the newest superblock is; returns where that is.
fn lose_newest(disks: &SimDisks) -> u64 {
    let of = |place| disks.visible(DeviceId::Data, place, 4096);
    // Both copies have the generation behind checksum, length, magic, features, store and shard.
    let generation = |bytes: &[u8]| u64::from_le_bytes(bytes[32..40].try_into().expect("8 bytes"));
    let places = [SUPERBLOCKS, SUPERBLOCKS + 4096];
    let newest = places.into_iter().max_by_key(|place| generation(&of(*place))).expect("two");
    write(disks, newest, vec![0; 4096]);
    newest
}

#[test]
fn a_newest_superblock_that_was_lost_is_missed_or_makes_no_difference() {
    let (mut refused, mut saved, mut over, mut whole, mut in_part) = (0, 0, 0, 0, 0);
    for seed in 0..200 {
        let what = format!("seed {seed}");
        let mut factory = Sim::new(Options::default(), LOG_BYTES);
        let mut h = Harness::new(factory.fresh(8 << 20), factory.properties());
        h.commit(|t| t.create_collection(pg(), 0));
        let Simulated { store, disks } = h.take();
        drop(store);
        disks.close();
        let mut history = History { factory, random: SplitMix64::new(seed), acknowledged: BTreeMap::new() };
        for _ in 0..3 {
            let writes = [0, 1, 5, 60, 400][history.random.below(5) as usize];
            history.use_it(&disks, writes);
        }
        let lost = lose_newest(&disks);
        let factory = history.factory.clone();
        match factory.try_open(&disks) {
            Ok(simulated) => {
                assert_eq!(simulated.store.state().unread_superblock, Some(lost), "{what}");
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
                assert_eq!(simulated.store.state().unread_superblock, None, "{what}");
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
    let mut factory = Sim::new(Options::default(), LOG_BYTES);
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
