//! A load on a store alone: transactions like those of a PG that takes writes, so many at a time, of a thread for each of
//! the store's shards.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use buffer::{Piece, PieceMut};
use store::{CollectionId, Completion, LogRecordKind, ObjectStore, StoreError, Token, Transaction};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, SplitMix64};

use crate::drive::Driver;

/// Bytes of what a PG writes beside the data of an operation: the object's info, a log record, its own small info.
const OBJECT_INFO: usize = 280;
const LOG_RECORD: usize = 190;
const SMALL_INFO: usize = 130;

/// Log records that a PG keeps.
const LOG_RECORDS: u64 = 3000;

const POOL: PoolId = PoolId(1);

#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Bytes of a write.
    pub bytes: usize,
    /// Writes at a time, of each shard.
    pub depth: usize,
    /// Objects that are written in turn, each whole, all shards'.
    pub objects: u64,
    /// All shards'; each has at least one.
    pub pgs: u32,
    pub time: Duration,
}

/// What a load came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    pub writes: u64,
    pub seconds: f64,
    /// Mean, median, 99th and 99.9th percentile, maximum, seconds.
    pub latency: [f64; 5],
}

struct Bench<S> {
    store: S,
    load: Load,
    collections: Vec<CollectionId>,
    /// The head of each collection's log.
    heads: Vec<u64>,
    data: Piece,
    next: u64,
    open: BTreeMap<Token, Instant>,
    latencies: Vec<u32>,
    failed: Option<StoreError>,
}

/// Puts a load on an empty store, of whose shards there is a handle each, and gives the handles back with nothing under
/// way.
///
/// # Errors
/// The store's.
pub fn bench<S: ObjectStore + Send>(handles: Vec<S>, load: Load) -> Result<(Measured, Vec<S>), StoreError> {
    let shards = handles.len().max(1);
    let share = Load { objects: load.objects.div_ceil(shards as u64), ..load };
    let pgs = load.pgs.max(shards as u32);
    let collections = |shard| -> Vec<CollectionId> {
        let of_shard = (0..pgs).filter(|seed| *seed as usize % shards == shard);
        of_shard.map(|seed| CollectionId::Pg(PgId { pool: POOL, seed }.into())).collect()
    };
    let runs: Vec<Result<Run<S>, StoreError>> = std::thread::scope(|scope| {
        let begun: Vec<_> = handles
            .into_iter()
            .enumerate()
            .map(|(shard, store)| {
                let collections = collections(shard);
                scope.spawn(move || bench_shard(store, share, collections))
            })
            .collect();
        // A thread that panicked has said why.
        begun.into_iter().map(|thread| thread.join().unwrap_or(Err(StoreError::Stopped))).collect()
    });
    let (mut latencies, mut seconds, mut handles) = (Vec::new(), 0.0, Vec::new());
    for run in runs {
        let run = run?;
        latencies.extend(run.latencies);
        seconds = run.seconds.max(seconds);
        handles.push(run.store);
    }
    Ok((measured(latencies, seconds), handles))
}

/// What the load on one shard came to.
struct Run<S> {
    latencies: Vec<u32>,
    seconds: f64,
    store: S,
}

fn bench_shard<S: ObjectStore>(
    mut store: S,
    load: Load,
    collections: Vec<CollectionId>,
) -> Result<Run<S>, StoreError> {
    let driver = Driver::new();
    store.set_waker(driver.waker());
    let mut data = PieceMut::zeroed(load.bytes);
    let mut random = SplitMix64::new(1);
    data.as_mut_slice().fill_with(|| random.below(256) as u8);
    let mut bench = Bench {
        store,
        load,
        heads: vec![0; collections.len()],
        collections,
        data: data.freeze(),
        next: 0,
        open: BTreeMap::new(),
        latencies: Vec::new(),
        failed: None,
    };
    bench.make_collections();
    bench.settle(&driver, 0);
    bench.latencies.clear();
    let began = Instant::now();
    while began.elapsed() < load.time && bench.failed.is_none() {
        while bench.open.len() < load.depth.max(1) {
            bench.write();
        }
        bench.settle(&driver, load.depth.saturating_sub(1));
    }
    bench.settle(&driver, 0);
    let seconds = began.elapsed().as_secs_f64();
    match bench.failed {
        Some(error) => Err(error),
        None => Ok(Run { latencies: bench.latencies, seconds, store: bench.store }),
    }
}

fn measured(mut latencies: Vec<u32>, seconds: f64) -> Measured {
    latencies.sort_unstable();
    let at = |part: f64| {
        let place = (latencies.len() as f64 * part) as usize;
        latencies.get(place).or(latencies.last()).map_or(0.0, |micros| f64::from(*micros) / 1e6)
    };
    let sum: f64 = latencies.iter().map(|micros| f64::from(*micros)).sum();
    let mean = sum / 1e6 / latencies.len().max(1) as f64;
    Measured {
        writes: latencies.len() as u64,
        seconds,
        latency: [mean, at(0.5), at(0.99), at(0.999), at(1.0)],
    }
}

impl<S: ObjectStore> Bench<S> {
    fn make_collections(&mut self) {
        for collection in self.collections.clone() {
            let mut txn = Transaction::new();
            txn.create_collection(collection, self.load.pgs.max(1).ilog2());
            self.queue(txn);
        }
    }

    fn queue(&mut self, txn: Transaction) {
        let token = Token(self.next);
        self.next += 1;
        self.open.insert(token, Instant::now());
        self.store.queue(txn, token);
    }

    fn write(&mut self) {
        let number = self.next % self.load.objects.max(1);
        // The hash spreads the objects, as Ceph's does.
        let hash = (number as u32).wrapping_mul(0x9e37_79b1);
        let pg = hash as usize % self.collections.len();
        let name = format!("benchmark_data_{number:010}");
        let object: GHObject = HObject::head(POOL, Name::new(), Name::new(), name.into(), hash).into();
        let (collection, version) = (self.collections[pg], self.heads[pg] + 1);
        self.heads[pg] = version;
        let at = |n| EVersion::new(Epoch(1), n);
        let mut txn = Transaction::with_capacity(1, 5);
        // In memory of its own, as it comes from the network.
        txn.write(collection, &object, 0, Piece::copy_from(&self.data).into());
        txn.set_attr(collection, &object, "_", vec![7; OBJECT_INFO]);
        txn.log_append(collection, at(version), LogRecordKind::Entry, vec![8; LOG_RECORD]);
        if version > LOG_RECORDS {
            txn.log_trim(collection, at(version - LOG_RECORDS));
        }
        txn.set_info(collection, vec![9; SMALL_INFO]);
        self.queue(txn);
    }

    /// Waits until at most so many are under way.
    fn settle(&mut self, driver: &Driver, open: usize) {
        driver.run(
            self,
            |bench, now| {
                let mut completed = Vec::new();
                bench.store.turn(now);
                bench.store.completions(&mut completed);
                completed.into_iter().for_each(|completion| bench.complete(completion));
                (bench.open.len() <= open).then_some(())
            },
            |bench| bench.store.deadline(),
        );
    }

    fn complete(&mut self, completion: Completion) {
        if let Some(began) = self.open.remove(&completion.token()) {
            self.latencies.push(began.elapsed().as_micros().min(u128::from(u32::MAX)) as u32);
        }
        if let Completion::Refused { error, .. } = completion {
            self.failed.get_or_insert(error);
        }
    }
}
