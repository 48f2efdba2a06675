//! Memory and space over a longer life.

use std::time::Duration;

use blockdev::DeviceId;
use blockstore::{Checker, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, MemoryPool, ObjectStore, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64, UTime};

use crate::common::{Sim, Simulated};

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u64) -> GHObject {
    let name = format!("object {n}");
    HObject::head(
        PoolId(1),
        Name::new(),
        Name::new(),
        name.as_str().into(),
        (n as u32).wrapping_mul(0x9e37_79b1),
    )
    .into()
}

#[test]
fn memory_stays_within_its_bound_however_many_objects_there_are() {
    const OBJECTS: u64 = 12_000;
    let options = Options::of_memory(6 << 20);
    let mut factory = Sim::new(options, 2 << 20);
    let mut h = Harness::new(factory.fresh(160 << 20), factory.properties());
    let mut random = SplitMix64::new(2);
    h.commit(|t| t.create_collection(pg(), 0));
    // What one request or one burst needs at once comes on top.
    let slack = 1 << 20;
    let (mut pages, mut data) = (0, 0);
    for first in (0..OBJECTS).step_by(40) {
        let mut tokens = Vec::new();
        for n in first..first + 40 {
            let mut txn = Transaction::new();
            txn.write(pg(), &object(n), 0, vec![n as u8; 4096].into());
            txn.set_attr(pg(), &object(n), "_", vec![n as u8; 250]).set_info(pg(), vec![0; 300]);
            tokens.push(h.queue(txn));
        }
        for token in tokens {
            assert_eq!(h.outcome(token), Ok(()));
        }
        for _ in 0..10 {
            let n = random.below(first + 40);
            assert_eq!(h.data(pg(), &object(n)), vec![n as u8; 4096]);
        }
        let memory = h.store().store.memory();
        assert!(
            memory.pages + memory.data <= options.cache_bytes + slack,
            "{memory:?} after {first} objects"
        );
        assert!(memory.changes <= 3 * options.changes_bytes_max + slack, "{memory:?} after {first} objects");
        assert!(memory.deferred <= 2 << 20, "{memory:?}: more than the log");
        (pages, data) = (pages.max(memory.pages), data.max(memory.data));
    }
    assert!(pages > options.cache_bytes / 3 && data > 0, "the cache is used: {pages} and {data} bytes");
}

#[test]
fn what_is_in_memory_is_counted_by_kind() {
    let mut factory = Sim::new(Options::default(), 1 << 20);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let pools = |h: &mut Harness<Simulated>| h.store().memory_pools();
    let empty = pools(&mut h);
    let none = MemoryPool::default();
    assert_eq!((empty.data, empty.onodes, empty.deferred), (none, none, none));
    h.commit(|t| t.create_collection(pg(), 0));
    (0..100).for_each(|n| h.commit(|t| t.write(pg(), &object(n), 0, vec![1; 8192].into())));
    (0..10).for_each(|n| h.commit(|t| t.write(pg(), &object(n), 0, vec![2; 4096].into())));
    let written = pools(&mut h);
    // What is written over is deferred, and what is new where nothing else is under way.
    let deferred = written.deferred;
    assert!((10..=210).contains(&deferred.items) && deferred.bytes == deferred.items * 4096, "{written:?}");
    assert!(written.onodes.items == 100 && written.onodes.bytes > 100 * 100, "{written:?}");
    assert!(written.changes.items >= 100 && written.changes.bytes > 100 * 50, "{written:?}");
    // One region of each of two sets.
    assert!(written.allocation.items >= 2 && written.allocation.bytes >= 2 * 1024, "{written:?}");
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
    (0..100).for_each(|n| assert_eq!(h.data(pg(), &object(n))[4096..], [1; 4096]));
    h.turn();
    let read = pools(&mut h);
    assert_eq!((read.deferred, read.onodes.items), (none, 100));
    assert!(read.changes.items < written.changes.items / 2, "{read:?}");
    assert!(read.metadata.items > 2 && read.metadata.bytes > 2 * 4096, "{read:?}");
    assert!(read.data.items > 50 && read.data.bytes >= read.data.items * 4096, "{read:?}");
    let memory = h.store().store.memory();
    let cached = [read.onodes, read.metadata, read.other].map(|pool| pool.bytes).into_iter().sum();
    assert_eq!((memory.data, memory.pages, memory.changes), (read.data.bytes, cached, read.changes.bytes));
    assert!(h.store().drop_caches());
    h.turn();
    let dropped = pools(&mut h);
    assert_eq!((dropped.data, dropped.onodes, dropped.metadata.items), (none, none, 0), "{dropped:?}");
    assert_eq!((dropped.other.items, dropped.changes), (0, read.changes));
    (0..100).for_each(|n| assert_eq!(h.data(pg(), &object(n))[4096..], [1; 4096]));
    assert_eq!(pools(&mut h).data, read.data, "the same data are kept again");
}

/// Objects whose blocks are written over in place, and the most that was deferred meanwhile.
fn most_deferred(options: Options, log_bytes: u64, overwrite: impl Fn(&mut Transaction, u64, u8)) -> u64 {
    const BYTES: u64 = 2 << 20;
    let mut factory = Sim::new(options, log_bytes);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    for n in 0..6 {
        h.commit(|t| t.write(pg(), &object(n), 0, vec![1; BYTES as usize].into()));
    }
    let mut most = 0;
    for round in 0..24u8 {
        let n = u64::from(round) % 6;
        h.commit(|t| {
            overwrite(t, n, round);
            t
        });
        most = most.max(h.store().store.memory().deferred);
    }
    most
}

#[test]
fn what_is_deferred_is_no_more_than_the_log_holds() {
    const LOG_BYTES: u64 = 1 << 20;
    // Of each block a byte: what is written in place is deferred as a whole.
    let small = |t: &mut Transaction, n: u64, round: u8| {
        for at in (0..2 << 20).step_by(4096) {
            match round % 3 {
                0 => t.zero(pg(), &object(n), at + u64::from(round), 1),
                _ => t.write(pg(), &object(n), at + u64::from(round), vec![round].into()),
            };
        }
    };
    let most = most_deferred(Options::default(), LOG_BYTES, small);
    assert!(most <= LOG_BYTES, "{most} bytes are deferred beside a log of {LOG_BYTES}");
    // A payload beside the log leaves it nearly empty.
    let large = |t: &mut Transaction, n: u64, round: u8| {
        t.write(pg(), &object(n), 0, vec![round; 512 << 10].into());
        t.write(pg(), &object(n), 1 << 20, vec![round; 100 << 10].into());
    };
    let options = Options { prefer_deferred_bytes: 700 << 10, ..Options::default() };
    let most = most_deferred(options, LOG_BYTES, large);
    assert!(
        most > LOG_BYTES / 2 && most <= 2 * LOG_BYTES,
        "{most} bytes are deferred beside a log of {LOG_BYTES}"
    );
}

#[test]
fn a_check_keeps_no_more_pages_than_the_cache_holds() {
    let options = Options { cache_bytes: 256 << 10, ..Options::default() };
    let mut factory = Sim::new(options, 2 << 20);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    for n in 0..6_000 {
        h.commit(|t| t.set_attr(pg(), &object(n), "_", vec![n as u8; 800]));
    }
    assert!(h.comes_to_rest());
    let store = &mut h.store().store;
    store.request_checkpoint();
    let (mut checker, mut now, mut most) = (Checker::new(), UTime { sec: 2_000_000_000, nsec: 0 }, 0);
    let problems = loop {
        if let Some(problems) = checker.advance(store) {
            break problems;
        }
        store.turn(now);
        now = now.max(store.deadline().unwrap_or(now)).after(Duration::from_nanos(1));
        store.turn(now);
        most = most.max(store.memory().pages);
    };
    assert_eq!(problems, [""; 0]);
    let tree_bytes = store.state().tree_bytes;
    assert!(tree_bytes > 4 << 20, "{tree_bytes} bytes of pages");
    // Beside the cache those that it reads at once.
    assert!(most <= options.cache_bytes + (1 << 20), "{most} bytes in memory of {tree_bytes}");
}

/// A checkpoint writes changed pages to new blocks; no later search reads the former ones.
#[test]
fn pages_that_a_checkpoint_has_replaced_leave_memory() {
    let options = Options { changes_bytes_max: 256 << 10, cache_bytes: 64 << 20, ..Options::default() };
    let mut factory = Sim::new(options, 4 << 20);
    let mut h = Harness::new(factory.fresh(160 << 20), factory.properties());
    let mut random = SplitMix64::new(3);
    h.commit(|t| t.create_collection(pg(), 0));
    for round in 0..12_000 {
        let n = random.below(2_000);
        h.commit(|t| t.set_attr(pg(), &object(n), "_", vec![round as u8; 250]));
    }
    assert!(h.comes_to_rest());
    let store = &h.store().store;
    let (state, pages) = (store.state(), store.memory().pages);
    assert!(state.generation > 5, "{state:?}");
    assert!(pages < 2 * state.tree_bytes, "{pages} bytes in memory of {}", state.tree_bytes);
}

#[test]
fn a_store_whose_objects_come_and_go_still_finds_neighbouring_blocks() {
    let mut factory = Sim::new(Options::default(), 2 << 20);
    let mut h = Harness::new(factory.fresh(48 << 20), factory.properties());
    let mut random = SplitMix64::new(5);
    h.commit(|t| t.create_collection(pg(), 0));
    let mut written = 0u64;
    let mut sizes = vec![0u64; 60];
    while written < 150 << 20 {
        let n = random.below(60);
        let size = (64 << 10) * (1 + random.below(8));
        let others: u64 = sizes.iter().sum::<u64>() - sizes[n as usize];
        if others + size > 36 << 20 {
            h.commit(|t| t.remove(pg(), &object(n)));
            sizes[n as usize] = 0;
            continue;
        }
        h.commit(|t| {
            t.remove(pg(), &object(n)).write(pg(), &object(n), 0, vec![n as u8; size as usize].into())
        });
        sizes[n as usize] = size;
        written += size;
        // Overwrites of a block stay where they are.
        let at = 4096 * random.below(size / 4096);
        h.commit(|t| t.write(pg(), &object(n), at, vec![1; 4096].into()));
    }
    let fragmentation = h.store().store.free_space().unwrap().fragmentation();
    assert!(fragmentation < 0.2, "{fragmentation}");
    let writes = h.store().disks.counts(DeviceId::Data).writes;
    for n in 100..104 {
        h.commit(|t| t.write(pg(), &object(n), 0, vec![7; 1 << 20].into()));
    }
    let writes = h.store().disks.counts(DeviceId::Data).writes - writes;
    assert!(writes <= 4 * 20, "{writes} writes to the device for 4 of 1 MiB");
}
