//! Devices that fail.

use super::{blocks, fresh, noise, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::{Harness, read, write};
use crate::conformance::shadow::Shadow;
use crate::{DeviceError, DeviceId, DeviceQueue, Durability, Op};

/// Everything that changes a poisoned device fails, and reads go on.
fn is_poisoned<Q: DeviceQueue>(h: &mut Harness<Q>, device: DeviceId, block: u64, there: &[u8]) {
    let poisoned = Err(DeviceError::Poisoned { device });
    let volatile = write(0, &noise(1, block), Durability::Volatile);
    assert_eq!(h.perform(device, volatile), poisoned, "a write after a failed flush");
    let durable = write(0, &noise(1, block), Durability::Durable);
    assert_eq!(h.perform(device, durable), poisoned, "a durable write after a failed flush");
    assert_eq!(h.perform(device, Op::Flush), poisoned, "a second flush proves nothing");
    assert_eq!(h.perform(device, Op::Discard { offset: 0, len: block }), poisoned, "a discard");
    assert!(h.read(device, 0, there.len()) == there, "reads go on");
}

fn is_io<T: std::fmt::Debug>(outcome: &Result<T, DeviceError>, at: DeviceId) -> bool {
    matches!(outcome, Err(DeviceError::Io { device, .. }) if *device == at)
}

pub fn a_failed_flush_poisons_the_device_on_every_queue<F: Factory>(factory: &mut F) {
    for device in {
        factory.make(70);
        factory.devices()
    } {
        factory.make(70);
        let mut a = open(factory);
        let mut b = open(factory);
        let (block, _) = blocks::<F>(&a, device);
        let there = noise(70, 8 * block);
        a.write(device, 0, &there, Durability::Volatile);
        factory.fail_flushes(device);
        let outcome = b.perform(device, Op::Flush);
        assert!(is_io(&outcome, device), "the flush fails: {outcome:?}");
        is_poisoned(&mut b, device, block, &there);
        is_poisoned(&mut a, device, block, &there);
        let mut c = open(factory);
        is_poisoned(&mut c, device, block, &there);
        [a, b, c].into_iter().for_each(Harness::finish);
    }
}

pub fn a_failed_durable_write_poisons_the_device<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 71);
    let (block, _) = blocks::<F>(&h, device);
    let there = noise(71, 4 * block);
    h.write(device, 0, &there, Durability::Volatile);
    factory.fail_flushes(device);
    let outcome = h.perform(device, write(8 * block, &noise(2, block), Durability::Durable));
    assert!(is_io(&outcome, device), "the durable write fails: {outcome:?}");
    is_poisoned(&mut h, device, block, &there);
    h.finish();
}

pub fn a_poisoned_device_that_is_opened_again_has_what_was_durable<F: Factory>(factory: &mut F) {
    for seed in 0..6 {
        let (mut h, device) = fresh(factory, 7200 + seed);
        let (block, _) = blocks::<F>(&h, device);
        let mut shadow = Shadow::new(&mut h, device);
        for n in 0..10 {
            let range = 5 * n * block..(5 * n + 4) * block;
            let (number, bytes) = shadow.begin_write(range.clone());
            h.write(device, range.start, &bytes, Durability::Volatile);
            shadow.end(number, range, Durability::Volatile);
            if n == 4 {
                let covered = shadow.covered();
                h.flush(device);
                shadow.flushed(&covered);
            }
        }
        factory.fail_flushes(device);
        assert!(is_io(&h.perform(device, Op::Flush), device));
        h.finish();
        factory.close();
        let mut h = open(factory);
        shadow.check_after_power_loss(&mut h);
        h.write(device, 0, &noise(72, block), Durability::Durable);
        h.flush(device);
        assert!(h.read(device, 0, block as usize) == noise(72, block), "it takes writes again");
        h.finish();
    }
}

pub fn a_poisoned_device_leaves_the_others_working<F: Factory>(factory: &mut F) {
    let (mut h, first) = fresh(factory, 73);
    factory.fail_flushes(first);
    assert!(is_io(&h.perform(first, Op::Flush), first));
    for device in factory.devices().into_iter().skip(1) {
        let (block, _) = blocks::<F>(&h, device);
        h.write(device, 0, &noise(73, block), Durability::Durable);
        h.flush(device);
        assert!(h.read(device, 0, block as usize) == noise(73, block), "{device}");
    }
    h.finish();
}

pub fn a_failed_read_names_its_place_and_spares_its_neighbours<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 74);
    let (block, _) = blocks::<F>(&h, device);
    let data = noise(74, 16 * block);
    h.write(device, 16 * block, &data, Durability::Durable);
    let bad = 20 * block..21 * block;
    factory.fail_reads(device, bad.clone());
    for (from, to) in [(16, 32), (20, 21), (18, 21), (20, 24)] {
        let outcome = h.perform(device, read(from * block, ((to - from) * block) as usize));
        let Err(DeviceError::Io { offset, device: at, .. }) = outcome else {
            panic!("a read of blocks {from}..{to} meets a bad one and gives {outcome:?}");
        };
        assert_eq!(at, device);
        let start = from * block;
        assert!(offset == start || bad.contains(&offset), "the error of a read at {start} names {offset}");
    }
    for n in (16..32).filter(|n| *n != 20) {
        let at = ((n - 16) * block) as usize;
        assert!(h.read(device, n * block, block as usize) == data[at..at + block as usize], "block {n}");
    }
    h.write(device, 24 * block, &noise(75, block), Durability::Durable);
    h.flush(device);
    h.finish();
}

pub fn a_failed_volatile_write_concerns_its_range_only<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 75);
    let (block, _) = blocks::<F>(&h, device);
    let data = noise(76, 32 * block);
    h.write(device, 0, &data, Durability::Volatile);
    factory.fail_writes(device, 10 * block..11 * block);
    let outcome = h.perform(device, write(8 * block, &noise(77, 4 * block), Durability::Volatile));
    let Err(DeviceError::Io { offset, .. }) = outcome else { panic!("the write fails: {outcome:?}") };
    assert!(offset == 8 * block || (10 * block..11 * block).contains(&offset), "it names {offset}");
    for n in (0..32).filter(|n| !(8..12).contains(n)) {
        let at = (n * block) as usize;
        assert!(h.read(device, n * block, block as usize) == data[at..at + block as usize], "block {n}");
    }
    h.write(device, 12 * block, &noise(78, block), Durability::Volatile);
    h.flush(device);
    assert!(h.read(device, 12 * block, block as usize) == noise(78, block), "it is not poisoned");
    h.finish();
}
