//! What a power loss leaves.

use super::{blocks, fresh, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::{Harness, write};
use crate::conformance::shadow::{REGION_BYTES, Shadow, read_region};
use crate::{DeviceId, DeviceQueue, Durability, Op};

/// Power losses of a case; what survives one depends on its seed.
const LOSSES: u64 = 12;

/// One write, waited for.
fn put<Q: DeviceQueue>(
    h: &mut Harness<Q>,
    shadow: &mut Shadow,
    device: DeviceId,
    offset: u64,
    len: u64,
    durability: Durability,
) {
    let range = offset..offset + len;
    let (number, bytes) = shadow.begin_write(range.clone());
    h.write(device, offset, &bytes, durability);
    shadow.end(number, range, durability);
}

/// One flush, waited for.
fn flush<Q: DeviceQueue>(h: &mut Harness<Q>, shadow: &mut Shadow, device: DeviceId) {
    let covered = shadow.covered();
    h.flush(device);
    shadow.flushed(&covered);
}

/// Runs a scenario some times on each device, each followed by a power loss and a look at everything.
fn each_loss<F: Factory>(
    factory: &mut F,
    scenario: impl Fn(&mut F, &mut Harness<F::Queue>, &mut Shadow, DeviceId, u64),
) {
    for seed in 0..LOSSES {
        let (mut h, _) = fresh(factory, 5000 + seed);
        let devices = factory.devices();
        let device = devices[seed as usize % devices.len()];
        let (block, _) = blocks::<F>(&h, device);
        let mut shadow = Shadow::new(&mut h, device);
        scenario(factory, &mut h, &mut shadow, device, block);
        factory.power_loss(seed);
        drop(h);
        let mut h = open(factory);
        shadow.check_after_power_loss(&mut h);
        h.finish();
    }
}

pub fn a_flushed_write_survives_a_power_loss<F: Factory>(factory: &mut F) {
    each_loss(factory, |_, h, shadow, device, block| {
        for n in 0..12 {
            put(h, shadow, device, 5 * n * block, 3 * block, Durability::Volatile);
        }
        flush(h, shadow, device);
        for n in 0..6 {
            put(h, shadow, device, 7 * n * block, 2 * block, Durability::Volatile);
        }
    });
}

pub fn a_durable_write_survives_a_power_loss<F: Factory>(factory: &mut F) {
    each_loss(factory, |_, h, shadow, device, block| {
        for n in 0..12 {
            put(h, shadow, device, 5 * n * block, 3 * block, Durability::Durable);
            put(h, shadow, device, 7 * n * block, block, Durability::Volatile);
        }
        put(h, shadow, device, 0, block, Durability::Durable);
    });
}

pub fn a_flush_covers_the_writes_of_other_queues<F: Factory>(factory: &mut F) {
    each_loss(factory, |factory, h, shadow, device, block| {
        let mut other = open(factory);
        for n in 0..8 {
            put(&mut other, shadow, device, 5 * n * block, 2 * block, Durability::Volatile);
        }
        flush(h, shadow, device);
    });
}

pub fn a_durable_write_that_flushes_covers_what_completed_before_it<F: Factory>(factory: &mut F) {
    each_loss(factory, |factory, h, shadow, device, block| {
        let mut other = open(factory);
        for n in 0..8 {
            put(&mut other, shadow, device, 5 * n * block, 2 * block, Durability::Volatile);
        }
        let covered = shadow.covered();
        put(h, shadow, device, 50 * block, block, Durability::Durable);
        if h.geometry(device).durable_flushes {
            shadow.flushed(&covered);
        }
    });
}

pub fn an_older_volatile_write_never_replaces_a_durable_one<F: Factory>(factory: &mut F) {
    each_loss(factory, |_, h, shadow, device, block| {
        // The last ones are not followed by a flush.
        for n in 0..10 {
            let at = 10 * n * block;
            put(h, shadow, device, at, 8 * block, Durability::Volatile);
            put(h, shadow, device, at + 2 * block, 3 * block, Durability::Durable);
            if n % 4 == 3 {
                flush(h, shadow, device);
            }
        }
    });
}

pub fn a_volatile_write_over_a_durable_one_leaves_either<F: Factory>(factory: &mut F) {
    each_loss(factory, |_, h, shadow, device, block| {
        for n in 0..8 {
            put(h, shadow, device, 10 * n * block, 8 * block, Durability::Durable);
            put(h, shadow, device, (10 * n + 1) * block, 3 * block, Durability::Volatile);
            put(h, shadow, device, (10 * n + 2) * block, 3 * block, Durability::Volatile);
        }
    });
}

pub fn a_flush_after_a_discard_keeps_what_was_written_since<F: Factory>(factory: &mut F) {
    each_loss(factory, |_, h, shadow, device, block| {
        for n in 0..8 {
            let range = 20 * n * block..(20 * n + 16) * block;
            put(h, shadow, device, range.start, 16 * block, Durability::Volatile);
            let number = shadow.begin_discard(range.clone());
            let discard = Op::Discard { offset: range.start, len: 16 * block };
            assert_eq!(h.perform(device, discard), Ok(vec![]));
            shadow.end(number, range.clone(), Durability::Volatile);
            put(h, shadow, device, range.start, 4 * block, Durability::Durable);
            put(h, shadow, device, range.start + 6 * block, 4 * block, Durability::Volatile);
            if n % 2 == 0 {
                flush(h, shadow, device);
            }
        }
    });
}

pub fn what_a_power_loss_left_is_durable<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 50);
    let mut shadow = Shadow::new(&mut h, device);
    for loss in 0..LOSSES {
        let (block, _) = blocks::<F>(&h, device);
        for n in 0..10 {
            put(&mut h, &mut shadow, device, 11 * n * block, 9 * block, Durability::Volatile);
        }
        // Some are still in flight.
        let range = 200 * block..216 * block;
        let (_, bytes) = shadow.begin_write(range.clone());
        h.submit([(device, write(range.start, &bytes, Durability::Volatile))]);
        factory.power_loss(100 + loss);
        drop(h);
        h = open(factory);
        shadow.check_after_power_loss(&mut h);
        let first = read_region(&mut h, device);
        factory.power_loss(200 + loss);
        drop(h);
        h = open(factory);
        let second = read_region(&mut h, device);
        let differs = (0..REGION_BYTES as usize).find(|at| first[*at] != second[*at]);
        assert_eq!(differs, None, "a byte that was read after a power loss, and not after the next");
    }
    h.finish();
}
