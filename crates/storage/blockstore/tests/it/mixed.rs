//! Random histories of few large objects: maps of several records, clones of ranges in all alignments, compression that is switched
//! meanwhile, little space, and power losses and failing devices in between.
//! `LOLIGO_MIXED_SEEDS=FIRST..END cargo test -p blockstore --test it mixed -- --nocapture` runs other seeds.

use std::collections::{BTreeMap, VecDeque};

use blockdev::DeviceId;
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{
    AllocHint, ByMedium, CollectionId, Completion, CompressionAlgorithm, MemStore, ObjectChange, ObjectStore,
    ReadOutcome, ReadRequest, StoreError, Token, Transaction, Tuning,
};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64, UTime};

use crate::common::{Sim, Simulated, check, forced};

/// Seeds that are played when none are asked for.
const SEEDS: std::ops::Range<u64> = 0..2;
const OBJECTS: u64 = 7;
const BLOCK: u64 = 4096;
/// How far most objects reach: four records of a map.
const REACH: u64 = 1 << 20;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u64) -> GHObject {
    let name = format!("object {n}");
    let hash = (n as u32).wrapping_mul(0x9e37_79b1);
    HObject::head(PoolId(1), Name::new(), Name::new(), name.as_str().into(), hash).into()
}

/// A store in memory, asked at once.
fn perform(model: &mut MemStore, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
    model.peek(request).expect("it has everything in memory")
}

fn apply(model: &mut MemStore, txn: &Transaction) -> Result<(), StoreError> {
    model.queue(txn.clone(), Token(1));
    model.turn(UTime::default());
    let mut out = Vec::new();
    model.completions(&mut out);
    match out.pop() {
        Some(Completion::Refused { error, .. }) => {
            model.acknowledge(Token(1));
            Err(error)
        }
        _ => Ok(()),
    }
}

/// A history under way.
struct Mixed {
    h: Harness<Simulated>,
    factory: Sim,
    random: SplitMix64,
    /// As of all that completed.
    model: MemStore,
    /// The same with what is under way.
    ahead: MemStore,
    open: VecDeque<(Token, u64, Transaction)>,
    /// Completions that were waited for.
    done: BTreeMap<Token, Completion>,
    reads: Vec<(Token, u64, ReadRequest, Result<ReadOutcome, StoreError>)>,
    next: u64,
    refused: u64,
    committed: u64,
    failed: bool,
    failures: u64,
    reach: u64,
    name: String,
}

impl Mixed {
    fn offset(&mut self) -> u64 {
        let reach = self.reach;
        match self.random.below(6) {
            0 => 0,
            1 | 2 => self.random.below(reach / BLOCK) * BLOCK,
            3 => self.random.below(reach / (64 * BLOCK) + 1) * 64 * BLOCK,
            4 => self.random.below(reach / (16 * BLOCK)) * 16 * BLOCK,
            _ => self.random.below(reach),
        }
    }

    fn len(&mut self) -> u64 {
        match self.random.below(9) {
            0 => 1 + self.random.below(100),
            1 => BLOCK,
            2 => BLOCK * (1 + self.random.below(20)),
            3 => 16 * BLOCK * (1 + self.random.below(4)),
            4 => 64 * BLOCK,
            5 => self.random.below(9000),
            6 => self.random.below(70_000),
            7 => BLOCK * (16 + self.random.below(100)),
            _ => self.random.below(self.reach / 3),
        }
    }

    fn data(&mut self, len: u64) -> Vec<u8> {
        let kind = self.random.below(4);
        let first = self.random.next_u64() | 0x0101_0101_0101_0101;
        let mut out = Vec::with_capacity(len as usize + 8);
        let mut n = 0u64;
        while (out.len() as u64) < len {
            let word = match kind {
                0 => first,
                1 if n / 16 % 2 == 0 => first,
                2 if n % 3 > 0 => first,
                _ => self.random.next_u64() | 0x0101_0101_0101_0101,
            };
            out.extend_from_slice(&word.to_le_bytes());
            n += 1;
        }
        out.truncate(len as usize);
        out
    }

    fn there(&mut self) -> Vec<GHObject> {
        let all = (0..OBJECTS).map(object);
        let ahead = &mut self.ahead;
        all.filter(|object| {
            perform(ahead, &ReadRequest::Stat { collection: pg(), object: object.clone() }).is_ok()
        })
        .collect()
    }

    fn size(&mut self, object: &GHObject) -> u64 {
        match perform(&mut self.ahead, &ReadRequest::Stat { collection: pg(), object: object.clone() }) {
            Ok(ReadOutcome::Stat(stat)) => stat.size,
            _ => 0,
        }
    }

    fn step(&mut self, txn: &mut Transaction) {
        let c = pg();
        let o = object(self.random.below(OBJECTS));
        match self.random.below(40) {
            0..=11 => {
                let (offset, len) = (self.offset(), self.len());
                let data = self.data(len);
                let aligned = offset % BLOCK == 0 && len % BLOCK == 0 && self.random.one_in(2);
                let checksums =
                    aligned.then(|| data.chunks(BLOCK as usize).map(|b| buffer::crc32c(!0, b)).collect());
                let change =
                    ObjectChange::Write { offset, data: data.into(), advice: store::Advice(0), checksums };
                txn.change(c, &o, change);
            }
            12..=13 => {
                // Many small writes.
                for _ in 0..self.random.below(60) {
                    let offset = self.random.below(self.reach);
                    let len = 1 + self.random.below(3);
                    let data = self.data(len);
                    txn.write(c, &o, offset, data.into());
                }
            }
            14..=16 => {
                let (offset, len) = (self.offset(), self.len());
                txn.zero(c, &o, offset, len);
            }
            17..=20 => {
                let size = self.size(&o);
                let to = match self.random.below(5) {
                    0 => 0,
                    1 => size.saturating_sub(self.random.below(2 * BLOCK)),
                    2 => size + self.random.below(3 * BLOCK),
                    _ => self.offset(),
                };
                txn.truncate(c, &o, to);
            }
            21 => {
                txn.remove(c, &o);
            }
            22..=34 => {
                let there = self.there();
                if there.is_empty() {
                    return;
                }
                let from = there[self.random.below(there.len() as u64) as usize].clone();
                // An earlier step may have removed it.
                txn.touch(c, &from);
                match self.random.below(8) {
                    0..=1 => {
                        txn.clone_object(c, &from, &o);
                    }
                    2 if !there.contains(&o) => {
                        txn.remove(c, &o).touch(c, &from);
                        if o != from {
                            txn.rename((c, &from), (c, &o));
                        }
                    }
                    _ => {
                        let (offset, mut len) = (self.offset(), self.len());
                        if self.random.one_in(2) {
                            len = (16 + self.random.below(90)) * BLOCK
                                + self.random.below(2) * self.random.below(BLOCK);
                        }
                        let to = match self.random.below(5) {
                            0 | 1 => offset,
                            2 => (offset + 64 * BLOCK * self.random.below(4)) % (2 * self.reach),
                            3 => (offset + BLOCK * self.random.below(100)) % (2 * self.reach),
                            _ => self.offset(),
                        };
                        txn.clone_range(c, (&from, offset), (&o, to), len);
                    }
                }
            }
            35 => {
                let flags = [0, 4 | 32, 256, 512, 4 | 16][self.random.below(5) as usize];
                txn.change(
                    c,
                    &o,
                    ObjectChange::SetAllocHint(AllocHint { object_size: 0, write_size: 0, flags }),
                );
            }
            36 => {
                let n = self.random.below(1500) * u64::from(self.random.one_in(4)) + self.random.below(8);
                let pair = |n: u64| (Name::from(format!("k{n}")), vec![n as u8; 20].into());
                let pairs = (0..n).map(pair).collect();
                txn.omap_set(c, &o, pairs);
            }
            37 => {
                txn.change(c, &o, ObjectChange::OmapClear);
            }
            38 => {
                let len = self.random.below(600);
                let value = self.data(len);
                txn.set_attr(c, &o, ["_", "snapset", "x"][self.random.below(3) as usize], value);
            }
            _ => {
                txn.change(c, &o, ObjectChange::OmapRemoveRange { first: "k2".into(), last: "k7".into() });
            }
        }
    }

    fn transaction(&mut self) {
        let mut txn = Transaction::new();
        for _ in 0..=self.random.below(3) * self.random.below(3) {
            self.step(&mut txn);
        }
        txn.set_info(pg(), self.next.to_le_bytes().to_vec());
        let mut after = self.ahead.clone();
        if let Err(error) = apply(&mut after, &txn) {
            panic!("{}: the generator made what can't be applied: {error} {:?}", self.name, txn.steps());
        }
        self.ahead = after;
        let token = self.h.queue(txn.clone());
        self.open.push_back((token, self.next, txn));
        self.next += 1;
    }

    fn read(&mut self) {
        let (object, offset, len) = (object(self.random.below(OBJECTS)), self.offset(), self.len());
        let (offset, len) = if self.random.one_in(3) { (0, u64::MAX) } else { (offset, len) };
        let (advice, verify) = (store::Advice(0), self.random.one_in(3));
        let request = ReadRequest::Data { collection: pg(), object, offset, len, advice, verify };
        let want = perform(&mut self.ahead, &request);
        let token = self.h.ask(request.clone());
        self.reads.push((token, self.next, request, want));
    }

    fn same(
        &self,
        request: &ReadRequest,
        got: &Result<ReadOutcome, StoreError>,
        want: &Result<ReadOutcome, StoreError>,
    ) {
        let is_same = match (got, want) {
            (Ok(ReadOutcome::Data(a)), Ok(ReadOutcome::Data(b))) => {
                let (a, b) = (a.to_piece(), b.to_piece());
                if a.as_slice() != b.as_slice() {
                    let at = a.iter().zip(b.iter()).position(|(a, b)| a != b);
                    panic!(
                        "{}: {request:?}: {} bytes, wanted {}, first wrong at {at:?}",
                        self.name,
                        a.len(),
                        b.len()
                    );
                }
                true
            }
            (a, b) => a == b,
        };
        assert!(is_same, "{}: {request:?} gave {got:?}, wanted {want:?}", self.name);
    }

    fn ready(&mut self, token: Token) -> Option<Completion> {
        self.done.remove(&token).or_else(|| self.h.ready(token))
    }

    /// Takes what has completed.
    fn take(&mut self) {
        while let Some((token, ..)) = self.open.front() {
            let Some(completion) = self.ready(*token) else { break };
            let Some((token, number, txn)) = self.open.pop_front() else { break };
            match completion {
                Completion::Committed { .. } => {
                    self.committed += 1;
                    apply(&mut self.model, &txn).expect("it was applied before");
                }
                Completion::Refused { error: StoreError::NoSpace { .. }, .. } => {
                    // What followed is refused as well.
                    self.refused += 1;
                    self.h.settle();
                    while let Some((later, ..)) = self.open.pop_front() {
                        let completion = self.ready(later);
                        assert!(
                            matches!(
                                completion,
                                Some(Completion::Refused { error: StoreError::AfterRefused(_), .. })
                            ),
                            "{}: {completion:?} behind a refusal",
                            self.name
                        );
                    }
                    self.h.acknowledge(token);
                    self.ahead = self.model.clone();
                    for (token, ..) in std::mem::take(&mut self.reads) {
                        drop(self.h.ready(token));
                    }
                    return;
                }
                Completion::Refused { .. } if self.failed => {
                    self.h.settle();
                    // Whether it is durable is not known.
                    self.open.push_front((token, number, txn));
                    for (token, ..) in std::mem::take(&mut self.reads) {
                        drop(self.h.ready(token));
                    }
                    return;
                }
                other => panic!("{}: transaction {number} {other:?} {:?}", self.name, txn.steps()),
            }
        }
        let mut left = Vec::new();
        // What was queued before a read may be refused yet.
        let known = self.open.front().map_or(self.next, |(_, number, _)| *number);
        for (token, at, request, want) in std::mem::take(&mut self.reads) {
            match if at > known { None } else { self.h.ready(token) } {
                Some(Completion::Read { result, .. }) => self.same(&request, &result, &want),
                Some(other) => panic!("{}: {other:?}", self.name),
                None => left.push((token, at, request, want)),
            }
        }
        self.reads = left;
    }

    fn set_compression(&mut self) {
        let algorithm =
            [CompressionAlgorithm::Lz4, CompressionAlgorithm::Zstd][self.random.below(2) as usize];
        let how = [None, Some(8 << 10), Some(16 << 10), Some(64 << 10), Some(256 << 10)]
            [self.random.below(5) as usize];
        let how = how.map(|bytes| forced(algorithm, bytes));
        self.factory.compression = how;
        self.h.store().set_compression(None, how);
    }

    fn compare(&mut self) {
        self.name.push_str(", compared");
        self.h.settle();
        self.take();
        for object in (0..OBJECTS).map(object) {
            let (collection, offset, len, advice) = (pg(), 0, u64::MAX, store::Advice(0));
            for verify in [true, false] {
                let object = object.clone();
                self.compare_one(ReadRequest::Data { collection, object, offset, len, advice, verify });
            }
            self.compare_one(ReadRequest::Stat { collection, object: object.clone() });
            self.compare_one(ReadRequest::Attrs { collection, object: object.clone() });
            let (entries_max, bytes_max) = (100_000, 100 << 20);
            let (after, before, prefix, values) = (None, None, Name::new(), true);
            self.compare_one(ReadRequest::OmapRange {
                collection,
                object,
                after,
                before,
                prefix,
                entries_max,
                bytes_max,
                values,
            });
        }
    }

    fn set_tuning(&mut self) {
        let discard = self.random.one_in(2);
        let bytes = [0, 4096, 65_535, 256 << 10][self.random.below(4) as usize];
        let new_deferred_bytes = ByMedium { hdd: bytes, ssd: bytes };
        self.h.store().set_tuning(Tuning { discard, new_deferred_bytes });
    }

    fn compare_one(&mut self, request: ReadRequest) {
        let (got, want) = (self.h.get(request.clone()), perform(&mut self.model, &request));
        self.same(&request, &got, &want);
    }

    fn run(&mut self, requests: u64) {
        let in_flight = 1 + self.random.below(3) * self.random.below(12);
        for _ in 0..requests {
            match self.random.below(16) {
                0..=2 => self.h.turn(),
                3..=5 => self.read(),
                6 if self.random.one_in(4) => self.set_compression(),
                7 if self.random.one_in(6) => {
                    let bytes = (3 + self.random.below(8)) << 20;
                    self.h.store().set_memory(bytes);
                }
                8 if self.random.one_in(4) => self.h.store().store.request_checkpoint(),
                9 if self.random.one_in(6) => self.set_tuning(),
                _ => self.transaction(),
            }
            self.take();
            while !self.failed && self.open.len() as u64 > in_flight {
                let waits = self.open.iter().filter(|(token, ..)| !self.done.contains_key(token));
                let waits: Vec<Token> = waits.map(|(token, ..)| *token).collect();
                let token = waits[self.random.below(waits.len() as u64) as usize];
                let completion = self.h.wait(token);
                self.done.insert(token, completion);
                self.take();
            }
            if self.failed && self.h.store().store.has_failed() {
                self.h.settle();
                self.take();
                return;
            }
        }
    }

    /// Loses power and makes the model what must be there.
    fn crash(mut self) -> Self {
        let seed = self.random.next_u64();
        self.reads.clear();
        self.done.clear();
        let mut factory = self.factory.clone();
        // A device that fails fails the close, too.
        factory.seals = !self.failed;
        let store = factory.crash(self.h.abandon(), seed).expect("power can be lost");
        let h = Harness::new(store, factory.properties());
        let mut all = Self { h, factory, failed: false, ..self };
        let info = all.h.get(ReadRequest::Collection { collection: pg() });
        let Ok(ReadOutcome::Collection(Some(stat))) = info else { panic!("{}: {info:?}", all.name) };
        let last = stat.info.as_slice().try_into().map_or(0, u64::from_le_bytes);
        let model = perform(&mut all.model, &ReadRequest::Collection { collection: pg() });
        let Ok(ReadOutcome::Collection(Some(stat))) = model else { panic!("{model:?}") };
        let acknowledged = stat.info.as_slice().try_into().map_or(0, u64::from_le_bytes);
        assert!(last >= acknowledged, "{}: {last} is there, {acknowledged} was acknowledged", all.name);
        for (_, number, txn) in std::mem::take(&mut all.open) {
            if number <= last {
                apply(&mut all.model, &txn).expect("it was applied before");
            }
        }
        all.ahead = all.model.clone();
        all
    }

    /// Has a device refuse flushes, or writes to a part of it.
    fn fail_something(&mut self) {
        let device =
            if self.factory.log_apart && self.random.one_in(2) { DeviceId::Wal } else { DeviceId::Data };
        let disks = self.h.store().disks.clone();
        match self.random.below(3) {
            0 => disks.fail_flushes(device),
            _ => {
                let start = self.random.below(12 << 20);
                disks.fail_writes(device, start..start + (1 << self.random.below(24)));
            }
        }
        self.failed = true;
        self.failures += 1;
    }
}

/// Returns how many transactions were committed, and refused for want of space, and how often a device failed.
fn play(seed: u64) -> [u64; 3] {
    let mut random = SplitMix64::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 77);
    let mut one_of = |choices: &[u64]| choices[random.below(choices.len() as u64) as usize];
    let options = Options {
        prefer_deferred_bytes: one_of(&[32 << 10, 0, 4096, 256 << 10]),
        new_deferred_bytes: ByMedium { hdd: one_of(&[0, 65_535]), ssd: one_of(&[32 << 10, 0, 0]) },
        cache_bytes: one_of(&[64 << 10, 0, 1 << 20, 16 << 20]),
        changes_bytes_max: one_of(&[16 << 10, 64 << 10, 512 << 10]),
        pages_per_turn: one_of(&[1, 4, 32]) as usize,
        discard: one_of(&[0, 1]) == 1,
    };
    let mut factory = Sim::new(options, one_of(&[256 << 10, 1 << 20, 512 << 10, 4 << 20]));
    factory.block_bytes = one_of(&[512, 4096]) as u32;
    factory.request_bytes_max = one_of(&[8 << 10, 64 << 10, 1 << 20]);
    factory.rotational = one_of(&[0, 0, 1]) == 1;
    factory.durable_flushes = one_of(&[0, 1]) == 1;
    factory.log_apart = one_of(&[0, 0, 1]) == 1;
    factory.clean = false;
    factory.seed = seed << 20;
    let reach = one_of(&[REACH, REACH, 300 << 10]);
    let bytes = one_of(&[5 << 18, 2 << 20, 3 << 20, 64 << 20]);
    let compress = one_of(&[0, 1]) == 1;
    let mut h = Harness::new(factory.fresh(bytes), factory.properties());
    let mut model = MemStore::new(1 << 40);
    let mut txn = Transaction::new();
    txn.create_collection(pg(), 0);
    apply(&mut model, &txn).expect("it can be made");
    assert_eq!(h.apply(txn), Ok(()));
    let mut all = Mixed {
        h,
        factory,
        random,
        ahead: model.clone(),
        model,
        open: VecDeque::new(),
        done: BTreeMap::new(),
        reads: Vec::new(),
        next: 1,
        refused: 0,
        committed: 0,
        failed: false,
        failures: 0,
        reach,
        name: String::new(),
    };
    if compress {
        all.set_compression();
    }
    for round in 0..5 {
        all.name = format!("seed {seed}, round {round}");
        let requests = 20 + all.random.below(120);
        all.run(requests);
        if all.random.one_in(3) {
            all.compare();
            check(all.h.store(), &all.name);
        }
        if all.random.one_in(5) {
            all.fail_something();
            all.run(40);
        }
        for _ in 0..all.random.below(8) {
            if !all.failed {
                all.transaction();
            }
        }
        if all.random.one_in(2) {
            all.h.turn();
        }
        all = all.crash();
        all.compare();
    }
    // Nothing is left of what is removed.
    let mut order: Vec<u64> = (0..OBJECTS).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, all.random.below(at as u64 + 1) as usize);
    }
    for n in order {
        all.h.commit(|t| t.remove(pg(), &object(n)));
    }
    // What is dead goes later.
    for _ in 0..20_000 {
        if all.h.statfs().data_bytes == 0 {
            break;
        }
        all.h.turn();
    }
    let statfs = all.h.statfs();
    assert_eq!((statfs.data_bytes, statfs.objects), (0, 0), "{}", all.name);
    assert!(statfs.compressed.is_empty(), "{}: {statfs:?}", all.name);
    check(all.h.store(), &all.name);
    [all.committed, all.refused, all.failures]
}

#[test]
fn large_objects_are_as_in_memory_whatever_happens() {
    let asked = std::env::var("LOLIGO_MIXED_SEEDS").ok();
    let seeds = asked.map_or(SEEDS, |asked| {
        let (first, end) = asked.split_once("..").expect("FIRST..END");
        first.parse().expect("the first seed")..end.parse().expect("the seed to end before")
    });
    let mut sum = [0; 3];
    for seed in seeds {
        let counts = play(seed);
        (0..3).for_each(|n| sum[n] += counts[n]);
    }
    println!("{sum:?} committed, refused for space, failures");
}
