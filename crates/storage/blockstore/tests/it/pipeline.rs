//! Data of new blocks go to the device while a record is in flight, once, and become durable with the record after it.

use std::collections::VecDeque;

use blockdev::DeviceId;
use blockstore::Options;
use store::Transaction;
use store::conformance::{Factory, Harness};
use types::{GHObject, HObject, Name, PgId, PoolId};

use crate::common::{Sim, Simulated};

const BLOCK: u64 = 4096;

fn pg() -> store::CollectionId {
    store::CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(n: u64) -> GHObject {
    let name = format!("{n}");
    let hash = (n as u32).wrapping_mul(0x9e37_79b1);
    HObject::head(PoolId(1), Name::new(), Name::new(), name.as_str().into(), hash).into()
}

fn new_object(n: u64, bytes: u64) -> Transaction {
    let mut txn = Transaction::new();
    txn.write(pg(), &object(n), 0, vec![n as u8; bytes as usize].into());
    txn
}

fn store(durable_flushes: bool, options: Options) -> (Sim, Harness<Simulated>) {
    let mut factory = Sim { durable_flushes, ..Sim::new(options, 8 << 20) };
    let mut h = Harness::new(factory.fresh(128 << 20), factory.properties());
    h.commit(|t| t.create_collection(pg(), 0));
    (factory, h)
}

/// Bytes written and flushes for each of some objects that are written 16 at once.
fn cost(durable_flushes: bool) -> (f64, f64) {
    const OBJECTS: u64 = 320;
    let (_, mut h) = store(durable_flushes, Options::default());
    let before = h.store().disks.counts(DeviceId::Data);
    for first in (0..OBJECTS).step_by(16) {
        let tokens: Vec<_> = (first..first + 16).map(|n| h.queue(new_object(n, BLOCK))).collect();
        tokens.into_iter().for_each(|token| drop(h.wait(token)));
    }
    let after = h.store().disks.counts(DeviceId::Data);
    for n in 0..OBJECTS {
        assert_eq!(h.data(pg(), &object(n)), vec![n as u8; BLOCK as usize]);
    }
    let bytes = (after.written_bytes - before.written_bytes) as f64 / (OBJECTS * BLOCK) as f64;
    let flushes = (after.flushes - before.flushes) as f64 / OBJECTS as f64;
    drop(h.abandon());
    (bytes, flushes)
}

#[test]
fn new_data_are_written_once_and_a_durable_write_that_flushes_covers_them() {
    let (bytes, flushes) = cost(true);
    assert!(bytes < 1.4, "{bytes} bytes for each of the clients'");
    assert_eq!(flushes, 0.0);
    let (bytes, flushes) = cost(false);
    assert!(bytes < 1.4, "{bytes} bytes for each of the clients'");
    assert!(flushes > 0.0, "nothing else makes the data durable");
}

#[test]
fn data_are_written_while_a_record_is_in_flight() {
    let (_, mut h) = store(true, Options::default());
    let first = h.queue(new_object(1, BLOCK));
    h.turn_now();
    let before = h.store().disks.counts(DeviceId::Data);
    let second = h.queue(new_object(2, 64 << 10));
    h.turn_now();
    let after = h.store().disks.counts(DeviceId::Data);
    assert_eq!(after.durable_writes, before.durable_writes, "the first record is in flight");
    assert_eq!(after.written_bytes - before.written_bytes, 64 << 10);
    drop((h.wait(first), h.wait(second)));
    drop(h.abandon());
}

#[test]
fn small_writes_wait_for_others_while_as_many_are_under_way() {
    let (_, mut h) = store(true, Options::default());
    // Bytes that are sent by a turn in which so many come, of so many blocks each.
    let mut number = 0..;
    let mut sent = |h: &mut Harness<Simulated>, count: usize, blocks: u64| {
        let before = h.store().disks.counts(DeviceId::Data);
        let new = number.by_ref().take(count).map(|n| new_object(n, blocks * BLOCK));
        let tokens: Vec<_> = new.map(|txn| h.queue(txn)).collect();
        h.turn_now();
        let after = h.store().disks.counts(DeviceId::Data);
        (tokens, (after.written_bytes - before.written_bytes) / BLOCK, after.writes - before.writes)
    };
    let (mut tokens, mut all) = (Vec::new(), Vec::new());
    for (count, blocks) in [(3, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1)] {
        let (new, written, writes) = sent(&mut h, count, blocks);
        tokens.extend(new);
        all.push((written, writes));
    }
    // The log has the data of the first one, since nothing is under way. Three are too few to wait for. Behind four the next ones wait
    // until they are more.
    assert_eq!(all, [(2, 1), (1, 1), (0, 0), (0, 0), (0, 0), (5, 1)]);
    tokens.into_iter().for_each(|token| drop(h.wait(token)));
    // Those that wait go with a long one, or when what they waited for has ended.
    let mut tokens = sent(&mut h, 5, 1).0;
    for (blocks, expected) in [(1, 0), (20, 21), (1, 0)] {
        let (more, written, _) = sent(&mut h, 1, blocks);
        assert_eq!(written, expected);
        tokens.extend(more);
    }
    tokens.into_iter().for_each(|token| drop(h.wait(token)));
    for n in 0..17 {
        assert_eq!(h.data(pg(), &object(n))[..BLOCK as usize], vec![n as u8; BLOCK as usize]);
    }
    drop(h.abandon());
}

#[test]
fn writes_that_come_one_by_one_fill_a_third_of_the_log_with_their_data() {
    let (_, mut h) = store(true, Options::default());
    let write = |h: &mut Harness<Simulated>, n| {
        let before = h.store().disks.counts(DeviceId::Data);
        let token = h.queue(new_object(n, BLOCK));
        drop(h.wait(token));
        let after = h.store().disks.counts(DeviceId::Data);
        (after.durable_writes - before.durable_writes, after.flushes - before.flushes)
    };
    let ways: Vec<_> = (0..900).map(|n| write(&mut h, n)).collect();
    // Data and record are one durable write, and then two at once.
    let through_log = ways.iter().take_while(|way| **way == (1, 0)).count();
    assert!((400..700).contains(&through_log), "{through_log} writes have their data in the log");
    assert!(ways[through_log..].iter().all(|way| *way == (2, 0)), "{:?}", &ways[through_log..]);
    // Where several come at once, the log has the data of one that comes alone.
    let tokens: Vec<_> = (900..916).map(|n| h.queue(new_object(n, BLOCK))).collect();
    tokens.into_iter().for_each(|token| drop(h.wait(token)));
    assert_eq!(write(&mut h, 916), (1, 0));
    for n in 0..917 {
        assert_eq!(h.data(pg(), &object(n)), vec![n as u8; BLOCK as usize]);
    }
    drop(h.abandon());
}

#[test]
fn a_checkpoint_begins_though_something_is_always_pending() {
    const CHANGES: u64 = 64 << 10;
    for durable_flushes in [false, true] {
        let (_, mut h) = store(durable_flushes, Options { changes_bytes_max: CHANGES, ..Options::default() });
        let mut tokens = VecDeque::new();
        for n in 0..4000 {
            tokens.push_back(h.queue(new_object(n, BLOCK)));
            h.turn();
            if tokens.len() == 64 {
                drop(tokens.pop_front().map(|oldest| h.wait(oldest)));
            }
            let changes = h.store().store.memory().changes;
            assert!(changes < 6 * CHANGES, "{changes} bytes of changes after {n} objects");
        }
        tokens.into_iter().for_each(|token| drop(h.wait(token)));
        drop(h.abandon());
    }
}
