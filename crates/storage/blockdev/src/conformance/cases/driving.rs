//! Completions, wake-ups and deadlines.

use types::SplitMix64;

use super::{blocks, fresh, noise, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::{read, write};
use crate::conformance::shadow::REGION_BYTES;
use crate::{DeviceQueue, Durability, Op};

pub fn every_request_completes_once<F: Factory>(factory: &mut F) {
    let (mut h, _) = fresh(factory, 30);
    let devices = factory.devices();
    let mut random = SplitMix64::new(30);
    for round in 0..30 {
        let mut batch = Vec::new();
        for n in 0..random.below(40) {
            let device = devices[random.below(devices.len() as u64) as usize];
            let (block, _) = blocks::<F>(&h, device);
            let offset = block * random.below(REGION_BYTES / block - 8);
            let len = block * (1 + random.below(8));
            let op = match random.below(6) {
                0 | 1 => read(offset, len as usize),
                2 => write(offset, &noise(n, len), Durability::Volatile),
                3 => write(offset, &noise(n, len), Durability::Durable),
                4 => Op::Flush,
                _ => Op::Discard { offset, len },
            };
            batch.push((device, op));
        }
        let tokens = h.submit(batch);
        // Some are waited for while others follow.
        if round % 3 == 0 {
            h.wait_each(&tokens)
                .into_iter()
                .for_each(|outcome| drop(outcome.expect("no fault was injected")));
        }
    }
    h.finish();
}

pub fn more_requests_than_the_queue_is_deep_complete<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 31);
    let geometry = h.geometry(device);
    let block = u64::from(geometry.block_bytes);
    let many = (4 * geometry.queue_depth as u64 + 3).min(REGION_BYTES / block);
    let writes = (0..many).map(|n| (device, write(n * block, &noise(n, block), Durability::Volatile)));
    let tokens = h.submit(writes);
    assert!(h.wait_each(&tokens).iter().all(Result::is_ok));
    let reads = (0..many).map(|n| (device, read(n * block, block as usize)));
    let tokens = h.submit(reads);
    for (n, outcome) in (0..).zip(h.wait_each(&tokens)) {
        assert!(outcome.expect("a read") == noise(n, block), "block {n}");
    }
    h.finish();
}

pub fn a_caller_that_waits_to_be_woken_is_woken_for_each<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 32);
    let mut other = open(factory);
    let (block, _) = blocks::<F>(&h, device);
    for n in 0..300 {
        let offset = block * (n % 16);
        match n % 3 {
            0 => h.write(device, offset, &noise(n, block), Durability::Volatile),
            1 => drop(h.read(device, offset, block as usize)),
            _ => other.write(device, offset, &noise(n, block), Durability::Volatile),
        }
        if n % 50 == 0 {
            other.flush(device);
        }
    }
    // Each of a burst, however the waker's calls fall together.
    let tokens = h.submit((0..64).map(|n| (device, read(n * block, block as usize))));
    tokens.into_iter().rev().for_each(|token| drop(h.wait(token).expect("a read")));
    h.finish();
    other.finish();
}

pub fn an_idle_queue_asks_for_nothing<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 33);
    let (block, _) = blocks::<F>(&h, device);
    h.write(device, 0, &noise(33, block), Durability::Volatile);
    h.flush(device);
    for _ in 0..100_000 {
        let Some(deadline) = h.queue().deadline() else { return h.finish() };
        h.now = h.now.max(deadline);
        h.turn();
    }
    panic!("100000 deadlines, and nothing is in flight");
}
