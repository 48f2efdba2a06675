//! Writes that a disk acknowledges and loses, or makes elsewhere: what they hit is noticed by its checksum, nothing wrong
//! is ever returned.
//!
//! Only writes of data and of pages of the tree are lost here. A record of the log that is lost is noticed when a later one
//! is there; the last one is not, and takes what it acknowledged with it at the next opening. No checksum shows that. The
//! same is true of data beside the last record. So each fault is followed by two records before the store is closed.

use std::collections::BTreeMap;

use blockdev::DeviceId;
use blockdev::sim::{SimDisks, WriteFault};
use blockstore::{OpenError, Options};
use store::conformance::{Factory, Harness};
use store::{ByMedium, CollectionId, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

use crate::common::{Sim, Simulated};

const LOG_BYTES: u64 = 256 << 10;
/// Where data and pages begin: behind the label, the superblocks and the log.
const BLOCKS: u64 = 4096 + 2 * 4096 + LOG_BYTES + 2 * 4096;
const SIZE: u64 = 4 << 20;
const OBJECTS: u64 = 24;
/// Rounds, each ended by closing the store.
const ROUNDS: u64 = 6;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u64) -> GHObject {
    let (name, hash) = (format!("object {n}"), (n as u32).wrapping_mul(0x9e37_79b1));
    HObject::head(PoolId(1), Name::new(), Name::new(), name.as_str().into(), hash).into()
}

/// What an object is to hold: its data, its attribute and its omap's values.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Want {
    data: Vec<u8>,
    attr: u64,
    omap: BTreeMap<Name, u64>,
}

struct Run {
    seed: u64,
    faults: bool,
    random: SplitMix64,
    h: Harness<Simulated>,
    disks: SimDisks,
    want: BTreeMap<u64, Want>,
    next: u64,
    /// Answers that were errors because of faults.
    noticed: u64,
    stopped: bool,
}

/// Whether an error says that something stored is bad.
fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::Checksum { .. } | StoreError::Damaged(_))
}

impl Run {
    /// Changes an object, unless what that needs is bad.
    fn change(&mut self) {
        if self.stopped {
            return;
        }
        let n = self.random.below(OBJECTS);
        self.next += 1;
        let (mark, byte) = (self.next, (self.next % 251) as u8);
        let mut want = self.want.get(&n).cloned().unwrap_or_default();
        let mut txn = Transaction::new();
        let most = [3_000, 40_000][self.random.below(2) as usize];
        let (offset, len) = (self.random.below(most), 1 + self.random.below(most) as usize);
        want.data.resize(want.data.len().max(offset as usize + len), 0);
        want.data[offset as usize..offset as usize + len].fill(byte);
        txn.write(pg(), &object(n), offset, vec![byte; len].into());
        want.attr = mark;
        txn.set_attr(pg(), &object(n), "mark", mark.to_le_bytes().to_vec());
        let keys = (0..self.random.below(40)).map(|_| format!("key {}", self.random.below(200)));
        let keys: Vec<Name> = keys.map(|key| key.as_str().into()).collect();
        want.omap.extend(keys.iter().map(|key| (key.clone(), mark)));
        let pairs = keys.into_iter().map(|key| (key, mark.to_le_bytes().to_vec().into()));
        txn.omap_set(pg(), &object(n), pairs.collect());
        match self.h.apply(txn) {
            Ok(()) => drop(self.want.insert(n, want)),
            Err(error) if is_damage(&error) => {
                self.noticed += 1;
                self.note_stop(n);
            }
            Err(error) => panic!("seed {}: a change is refused: {error}", self.seed),
        }
    }

    /// A checkpoint that meets a bad page stops the store, which goes on reading. What it refuses then may be seen.
    fn note_stop(&mut self, n: u64) {
        self.set_info(9);
        if self.stopped {
            self.want.remove(&n);
        }
    }

    /// Changes what depends on no page that may be bad: only a store that stopped refuses it.
    fn set_info(&mut self, value: u8) {
        if self.stopped {
            return;
        }
        let mut txn = Transaction::new();
        txn.set_info(pg(), vec![value; 8]);
        match self.h.apply(txn) {
            Ok(()) => {}
            Err(error) if is_damage(&error) || error == StoreError::Stopped => {
                self.noticed += 1;
                self.stopped = true;
            }
            Err(error) => panic!("seed {}: a store that goes on refuses: {error}", self.seed),
        }
    }

    /// Reads an object: everything is as it was written, or an error.
    fn check(&mut self, n: u64, when: &str) {
        let (seed, collection, object) = (self.seed, pg(), object(n));
        let want = self.want[&n].clone();
        let data = ReadRequest::Data {
            collection,
            object: object.clone(),
            offset: 0,
            len: u64::MAX,
            advice: Default::default(),
            verify: false,
        };
        let attr = ReadRequest::Attr { collection, object: object.clone(), name: "mark".into() };
        let omap = ReadRequest::OmapRange {
            collection,
            object,
            after: None,
            before: None,
            prefix: Name::new(),
            entries_max: usize::MAX,
            bytes_max: usize::MAX,
            values: true,
        };
        for request in [data, attr, omap] {
            match self.h.get(request) {
                Ok(ReadOutcome::Data(data)) => {
                    let (found, want) = (data.to_piece(), &want.data[..]);
                    let at = found.iter().zip(want).position(|(a, b)| a != b);
                    let pair = at.map(|at| (at, found[at], want[at]));
                    let (got, wanted) = (found.len(), want.len());
                    let what = format!("{got} bytes, {wanted} wanted; place, found, wanted: {pair:?}");
                    assert!(found[..] == *want, "seed {seed}, {when}: data of object {n}: {what}");
                }
                Ok(ReadOutcome::Attr(value)) => {
                    assert_eq!(value[..], want.attr.to_le_bytes(), "seed {seed}, {when}: mark of object {n}");
                }
                Ok(ReadOutcome::Omap(page)) => {
                    let of = |value: &[u8]| u64::from_le_bytes(value.try_into().expect("eight bytes"));
                    let found: BTreeMap<Name, u64> =
                        page.entries.iter().map(|(key, value)| (key.clone(), of(value))).collect();
                    assert_eq!(found, want.omap, "seed {seed}, {when}: omap of object {n}");
                }
                Err(error) if is_damage(&error) => self.noticed += 1,
                other => panic!("seed {seed}, {when}: object {n}: {other:?}"),
            }
        }
    }

    fn check_all(&mut self, when: &str) {
        let all: Vec<u64> = self.want.keys().copied().collect();
        all.into_iter().for_each(|n| self.check(n, when));
    }

    /// The next write of data or of a page is lost, or made elsewhere.
    fn plant(&mut self) {
        if !self.faults {
            return;
        }
        let elsewhere = BLOCKS + self.random.below(SIZE) / 512 * 512;
        let fault = if self.random.one_in(2) { WriteFault::Lost } else { WriteFault::Misdirected(elsewhere) };
        self.disks.fault_next_write_in(DeviceId::Data, BLOCKS..u64::MAX, fault);
    }

    fn round(&mut self) {
        let faults = 1 + self.random.below(2);
        for _ in 0..faults {
            for _ in 0..self.random.below(6) {
                self.change();
            }
            self.plant();
        }
        for _ in 0..4 + self.random.below(10) {
            self.change();
            if self.random.one_in(4) {
                self.h.store().store.request_checkpoint();
            }
            if self.random.one_in(4) {
                self.check_all("while it is open");
            }
        }
    }
}

/// Plays a seed: in how many answers and openings the faults were noticed.
fn play(seed: u64, faults: bool) -> u64 {
    let mut random = SplitMix64::new(seed);
    let pick = |random: &mut SplitMix64, of: &[u64]| of[random.below(of.len() as u64) as usize];
    let options = Options {
        prefer_deferred_bytes: pick(&mut random, &[0, 4 << 10, 32 << 10]),
        new_deferred_bytes: ByMedium { hdd: 0, ssd: pick(&mut random, &[0, 32 << 10]) },
        // Next to nothing is found in memory.
        cache_bytes: 8 << 10,
        changes_bytes_max: pick(&mut random, &[64 << 10, 1 << 20]),
        pages_per_turn: pick(&mut random, &[1, 32]) as usize,
        discard: random.one_in(2),
    };
    let mut factory = Sim { seed, ..Sim::new(options, LOG_BYTES) };
    let store = factory.fresh(SIZE);
    let disks = store.disks.clone();
    let h = Harness::new(store, factory.properties());
    let mut run =
        Run { seed, faults, random, h, disks, want: BTreeMap::new(), next: 0, noticed: 0, stopped: false };
    run.h.commit(|t| t.create_collection(pg(), 0));
    for round in 0..ROUNDS {
        run.round();
        // What no write has met yet meets one now.
        for _ in 0..100 {
            if run.disks.write_faults_left(DeviceId::Data) == 0 {
                break;
            }
            run.change();
            run.h.store().store.request_checkpoint();
        }
        // The log comes to say that everything before is durable.
        (0..2).for_each(|n| run.set_info(n));
        if run.stopped {
            // How much of the last records there is after an opening depends on what was lost.
            (0..200).for_each(|_| run.h.turn());
            run.check_all(&format!("round {round}, stopped"));
            drop(run.h.abandon());
            return run.noticed;
        }
        run.check_all(&format!("round {round}, open"));
        let simulated = run.h.abandon();
        drop(simulated);
        match run.random.one_in(2) {
            true => run.disks.close(),
            false => run.disks.power_loss(),
        }
        let opened = match factory.try_open(&run.disks) {
            Ok(opened) => opened,
            Err(OpenError::Device(error)) => panic!("seed {seed}: the device does not fail: {error}"),
            // It is noticed, and what is there is not served.
            Err(_) => return run.noticed + 1,
        };
        run.h = Harness::new(opened, factory.properties());
        run.check_all(&format!("round {round}, opened again"));
    }
    drop(run.h.abandon());
    run.noticed
}

#[test]
fn what_a_lost_or_misdirected_write_hits_is_noticed_and_never_returned() {
    let noticed = (1..=30).filter(|seed| play(*seed, true) > 0).count();
    // In the others what was hit was written again, or given up.
    assert!(noticed > 10, "only {noticed} of 30 runs notice what was hit");
}

#[test]
fn without_faults_nothing_is_noticed() {
    assert_eq!((1..=8).map(|seed| play(seed, false)).sum::<u64>(), 0);
}
