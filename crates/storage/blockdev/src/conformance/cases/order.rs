//! Requests that meet: on two queues, or in flight together.

use super::{blocks, fresh, noise, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::{read, write};
use crate::conformance::shadow::bytes_of;
use crate::{Durability, Op, SECTOR_BYTES};

const BYTES: u64 = 64 << 10;

pub fn a_read_sees_what_completed_on_another_queue<F: Factory>(factory: &mut F) {
    let (mut a, _) = fresh(factory, 40);
    let mut b = open(factory);
    for device in factory.devices() {
        let (block, _) = blocks::<F>(&a, device);
        for n in 0..20 {
            let data = noise(4000 + n, 2 * block);
            let (writer, reader) = if n % 2 == 0 { (&mut a, &mut b) } else { (&mut b, &mut a) };
            writer.write(device, 0, &data, Durability::Volatile);
            assert!(reader.read(device, 0, 2 * block as usize) == data, "{device}: write {n}");
            assert!(writer.read(device, 0, 2 * block as usize) == data, "{device}: write {n}, its own queue");
        }
    }
    a.finish();
    b.finish();
}

pub fn overlapping_writes_leave_each_sector_to_one<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 41);
    for round in 0..20 {
        let numbers: Vec<u64> = (0..2 + round % 5).map(|n| 10_000 + 10 * round + n).collect();
        let durability = |n: &u64| if n % 3 == 0 { Durability::Durable } else { Durability::Volatile };
        let writes = numbers.iter().map(|n| (device, write(0, &bytes_of(*n, 0..BYTES), durability(n))));
        let tokens = h.submit(writes);
        assert!(h.wait_each(&tokens).iter().all(Result::is_ok));
        let seen = h.read(device, 0, BYTES as usize);
        check_sectors(&seen, &numbers);
        h.flush(device);
        assert!(h.read(device, 0, BYTES as usize) == seen, "a flush changes nothing");
    }
    h.finish();
}

pub fn a_read_beside_a_write_sees_whole_sectors<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 42);
    h.write(device, 0, &bytes_of(1, 0..BYTES), Durability::Volatile);
    for round in 1..30 {
        let (old, new) = (round, round + 1);
        let tokens = h.submit([
            (device, read(0, BYTES as usize)),
            (device, write(0, &bytes_of(new, 0..BYTES), Durability::Volatile)),
            (device, read(0, BYTES as usize)),
            (device, Op::Flush),
            (device, read(0, BYTES as usize)),
        ]);
        let outcomes = h.wait_each(&tokens);
        for beside in [&outcomes[0], &outcomes[2], &outcomes[4]] {
            check_sectors(beside.as_ref().expect("a read"), &[old, new]);
        }
        let after = h.read(device, 0, BYTES as usize);
        assert!(after == bytes_of(new, 0..BYTES), "round {round}: the write has completed");
    }
    h.finish();
}

/// Each sector is whole, in its place, and of one of these writes.
fn check_sectors(seen: &[u8], numbers: &[u64]) {
    for (at, sector) in (0..).step_by(SECTOR_BYTES).zip(seen.chunks(SECTOR_BYTES)) {
        let whole = numbers.iter().any(|n| bytes_of(*n, at..at + SECTOR_BYTES as u64) == sector);
        assert!(whole, "the sector at {at} is of none of the writes {numbers:?}, or torn");
    }
}

pub fn a_dropped_queue_leaves_the_others_working<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 43);
    let (block, _) = blocks::<F>(&h, device);
    for n in 0..20 {
        let mut dropped = open(factory);
        let writes =
            (0..30).map(|i| (device, write((32 + i) * block, &noise(n, block), Durability::Volatile)));
        dropped.submit(writes);
        let token = h.submit([(device, write(0, &noise(n, block), Durability::Volatile))])[0];
        drop(dropped);
        assert_eq!(h.wait(token), Ok(vec![]));
        h.flush(device);
        assert!(h.read(device, 0, block as usize) == noise(n, block), "round {n}");
    }
    h.finish();
}
