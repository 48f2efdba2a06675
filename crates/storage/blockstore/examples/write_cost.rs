//! What writes and reads cost a store on a simulated disk, without the device: for callgrind, which counts what happens in `counted`.
//!
//!     cargo build --release -p blockstore --example write_cost
//!     valgrind --tool=callgrind --toggle-collect='*write_cost*counted*' --callgrind-out-file=/dev/null \
//!         target/release/examples/write_cost ALGORITHM KIB COUNT [RANDOM [INSIDE [TOGETHER [read]]]]
//!
//! ALGORITHM is none, lz4 or zstd; KIB the size of each of COUNT writes, each to an object of its own; one byte in RANDOM
//! (default 3) is random, 16 at a time, the others are the same. With INSIDE (MiB) the writes go to random places of that much
//! data, in objects of 4 MiB, and their transactions have what those of an image's writes have; TOGETHER of them (default 1)
//! come in one turn. With `read` as many random places are read instead, after they were written in a random order. Says how many bytes the data take.

use std::time::Duration;

use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, Geometry};
use blockstore::{BlockStore, Label, Making, Opener, Options};
use buffer::Piece;
use devmodel::Model;
use store::{
    Advice, AllocHint, Attrs, CollectionId, Completion, Compression, CompressionAlgorithm, CompressionMode,
    LogRecordKind, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, Token, Transaction,
};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId, ShardId, SpgId, SplitMix64, UTime};

const SIZE_BYTES: u64 = 2 << 30;

const OBJECT_BYTES: u64 = 4 << 20;

const COLLECTION: CollectionId =
    CollectionId::Pg(SpgId { pg: PgId { pool: PoolId(1), seed: 0 }, shard: ShardId::NONE });

fn opened() -> BlockStore<SimQueue> {
    let geometry = Geometry {
        size_bytes: SIZE_BYTES,
        block_bytes: 512,
        request_bytes_max: 1 << 20,
        queue_depth: 32,
        discards: true,
        rotational: false,
        durable_flushes: false,
    };
    let model = Model::named("ssd", &[], SIZE_BYTES).expect("a model");
    let devices = vec![SimDevice { id: DeviceId::Data, geometry, model }];
    let disks = SimDisks::new(SimOptions { seed: 1, jitter_ns: 0..1000, devices });
    let owner = Vec::new();
    let (log_bytes, log_unit_bytes, log_apart, copies) = (64 << 20, 512, false, true);
    let (id, shards, size_bytes) = (1, 1, SIZE_BYTES);
    let label = Label { id, shards, size_bytes, log_bytes, log_unit_bytes, log_apart, copies, owner };
    let mut making = Making::new(disks.open(), label).expect("it has room");
    let mut now = UTime { sec: 1, nsec: 0 };
    while making.turn(now).is_none() {
        now = making.deadline().expect("it waits for the device");
    }
    let mut opener = Opener::new(disks.open(), 0, Options::default()).expect("a device");
    loop {
        match opener.turn(now) {
            Some(opened) => return opened.expect("it opens"),
            None => now = opener.deadline().expect("it waits for the device"),
        }
    }
}

/// The whole way of a write through the store, but for what the device does afterwards.
#[inline(never)]
fn counted(store: &mut BlockStore<SimQueue>, txns: Vec<Transaction>, now: UTime) {
    txns.into_iter().for_each(|txn| store.queue(txn, Token(1)));
    store.turn(now);
}

/// A read's way to the device, or to its answer where the data are in memory.
#[inline(never)]
fn counted_reads(store: &mut BlockStore<SimQueue>, requests: Vec<ReadRequest>, now: UTime) {
    requests.into_iter().for_each(|request| store.read(request, Token(1)));
    store.turn(now);
}

/// Entries that the PG's log keeps, and how many it drops at once.
const LOG_ENTRIES: u64 = 250;
const LOG_TRIM: u64 = 100;

/// What the PG adds to the data of the `n`th write, of an image or another.
fn add_metadata(txn: &mut Transaction, object: &GHObject, n: u64, image: bool) {
    let version = |n: u64| EVersion::new(Epoch(1), n);
    let mut attrs: Attrs = [("_".into(), vec![7; 280].into())].into();
    if image {
        attrs.insert("snapset".into(), vec![6; 31].into());
    }
    txn.set_attrs(COLLECTION, object, attrs);
    txn.log_append(COLLECTION, version(n), LogRecordKind::Entry, vec![8; 190]);
    if image && n > LOG_ENTRIES && n % LOG_TRIM == 0 {
        txn.log_trim(COLLECTION, version(n - LOG_ENTRIES));
    }
    txn.set_info(COLLECTION, vec![9; 130]);
}

fn settle(store: &mut BlockStore<SimQueue>, now: &mut UTime, count: usize) {
    let mut completed = Vec::new();
    while completed.len() < count {
        *now = (*now).max(store.deadline().unwrap_or(*now)).after(Duration::from_nanos(1));
        store.turn(*now);
        store.completions(&mut completed);
    }
    let well = |done: &Completion| match done {
        Completion::Committed { .. } => true,
        Completion::Read { result, .. } => result.is_ok(),
        _ => false,
    };
    assert!(completed.iter().all(well), "{completed:?}");
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |at: usize, default: u64| args.get(at).map_or(default, |text| text.parse().expect("a number"));
    let algorithm = args.first().and_then(|name| CompressionAlgorithm::of_name(name));
    let (bytes, count, random_one_in) = (number(1, 64) << 10, number(2, 16), number(3, 3));
    let (inside, together) = (number(4, 0) << 20, number(5, 1));
    let mut store = opened();
    if let Some(algorithm) = algorithm {
        let how = Compression { mode: CompressionMode::Force, algorithm, ..Compression::default() };
        store.set_compression(None, Some(how));
    }
    let mut now = UTime { sec: 1000, nsec: 0 };
    let object = |n: u64| -> GHObject {
        let name = format!("rbd_data.5e3c6b8b4567.{n:016x}");
        HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), n as u32).into()
    };
    let mut random = SplitMix64::new(1);
    let mut txn_of = |n: u64, bytes: u64, (object_number, offset): (u64, u64)| {
        let data: Vec<u8> = (0..bytes)
            .map(|at| if at / 16 % random_one_in == 0 { random.below(256) as u8 } else { b'a' })
            .collect();
        let mut txn = Transaction::new();
        let object = object(object_number);
        // A connection has summed what it received.
        let data = Piece::copy_from(&data);
        data.take_page_sums();
        if inside > 0 {
            let (size, flags) = (OBJECT_BYTES, 0);
            let hint = AllocHint { object_size: size, write_size: size, flags };
            txn.change(COLLECTION, &object, ObjectChange::SetAllocHint(hint));
        }
        txn.write(COLLECTION, &object, offset, data.into());
        add_metadata(&mut txn, &object, n, inside > 0);
        txn
    };
    let mut first = Transaction::new();
    first.create_collection(COLLECTION, 0);
    store.queue(first, Token(0));
    settle(&mut store, &mut now, 1);
    // What is done once (a superblock, the algorithm's memory) is not counted; nor is the data to be written over.
    let before = inside / OBJECT_BYTES;
    let size = if inside == 0 { 64 << 10 } else { OBJECT_BYTES };
    for n in 0..before.max(1) {
        store.queue(txn_of(n + 1, size, (n, 0)), Token(0));
        settle(&mut store, &mut now, 1);
    }
    let mut places = SplitMix64::new(2);
    let reads = args.get(6).is_some_and(|word| word == "read");
    if reads {
        // So that what is read lies in the layers of changes, too.
        for n in 0..count {
            let place = (places.below(before), places.below(OBJECT_BYTES / bytes) * bytes);
            store.queue(txn_of(before + n + 1, bytes, place), Token(0));
            settle(&mut store, &mut now, 1);
        }
        for _ in 0..count / together {
            let request = |_| ReadRequest::Data {
                collection: COLLECTION,
                object: object(places.below(before)),
                offset: places.below(OBJECT_BYTES / bytes) * bytes,
                len: bytes,
                advice: Advice::default(),
                verify: false,
            };
            counted_reads(&mut store, (0..together).map(request).collect(), now);
            settle(&mut store, &mut now, together as usize);
        }
        return;
    }
    for turn in 0..count / together {
        let numbers = (turn * together..(turn + 1) * together).map(|n| before.max(1) + n + 1);
        let txns = numbers.map(|n| {
            let place = match before {
                0 => (n, 0),
                _ => (places.below(before), places.below(OBJECT_BYTES / bytes) * bytes),
            };
            txn_of(n, bytes, place)
        });
        counted(&mut store, txns.collect(), now);
        settle(&mut store, &mut now, together as usize);
    }
    let Some(Ok(ReadOutcome::StatFs(space))) = store.peek(&ReadRequest::StatFs) else {
        panic!("it is known")
    };
    println!("{} bytes allocated", space.data_bytes);
}
