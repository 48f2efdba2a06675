//! Bytes go where they should, and nowhere else.

use buffer::{Piece, PieceMut, Rope};
use types::SplitMix64;

use super::{blocks, fresh, noise, open};
use crate::conformance::factory::Factory;
use crate::conformance::harness::read;
use crate::conformance::shadow::REGION_BYTES;
use crate::{DeviceId, Durability, Op};

pub fn what_was_written_is_read<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 1);
    let (block, most) = blocks::<F>(&h, device);
    let mut random = SplitMix64::new(1);
    for n in 0..60 {
        let len = block * (1 + random.below(most / block));
        let offset = block * random.below((REGION_BYTES - len) / block + 1);
        let durability = if n % 3 == 0 { Durability::Durable } else { Durability::Volatile };
        let data = noise(n, len);
        h.write(device, offset, &data, durability);
        assert!(h.read(device, offset, len as usize) == data, "{len} bytes at {offset}");
        let from = block * random.below(len / block);
        let part = h.read(device, offset + from, block as usize);
        assert!(part == data[from as usize..(from + block) as usize], "a part");
    }
    h.finish();
}

pub fn a_rope_of_any_pieces_is_one_write<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 2);
    let (block, most) = blocks::<F>(&h, device);
    let mut random = SplitMix64::new(2);
    for round in 0..20 {
        let len = most / block * block;
        let data = noise(100 + round, len);
        let mut rope = Rope::new();
        let mut at = 0;
        while at < data.len() {
            let limit = [1, 7, 511, 513, 4096, 40_000][random.below(6) as usize];
            let part = (1 + random.below(limit) as usize).min(data.len() - at);
            // Pieces that begin anywhere in memory.
            let lead = random.below(3) as usize;
            let bytes = [&vec![0; lead], &data[at..at + part]].concat();
            rope.push(Piece::copy_from(&bytes).slice(lead..lead + part));
            at += part;
        }
        let offset = block * round;
        let durability = if round % 2 == 0 { Durability::Durable } else { Durability::Volatile };
        let pieces = rope.pieces().len();
        assert_eq!(h.perform(device, Op::Write { offset, data: rope, durability }), Ok(vec![]));
        assert!(h.read(device, offset, data.len()) == data, "{pieces} pieces at {offset}");
    }
    // More pieces than a system call takes.
    let mut rope = Rope::new();
    let data = noise(200, 8192);
    data.chunks(2).for_each(|two| rope.push(Piece::copy_from(two)));
    let many = Op::Write { offset: 0, data: rope, durability: Durability::Volatile };
    assert_eq!(h.perform(device, many), Ok(vec![]));
    assert!(h.read(device, 0, 8192) == data, "4096 pieces");
    h.finish();
}

pub fn a_buffer_anywhere_in_memory_is_filled<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 3);
    let (block, most) = blocks::<F>(&h, device);
    let data = noise(3, most);
    h.write(device, 0, &data, Durability::Volatile);
    for len in (block..=most).step_by((most / 13 / block * block).max(block) as usize) {
        // Less than a page is not aligned; what is filled held something before.
        let mut buffer = PieceMut::zeroed(len as usize);
        buffer.as_mut_slice().fill(0xa5);
        let seen = h.perform(device, Op::Read { offset: 0, buffer }).expect("a read");
        assert!(seen == data[..len as usize], "{len} bytes");
    }
    h.finish();
}

pub fn a_write_changes_nothing_beside_it<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 4);
    let (block, _) = blocks::<F>(&h, device);
    let all = 64 * block;
    let mut want = noise(4, all);
    want.chunks(16 * block as usize).zip(0..).for_each(|(part, n)| {
        h.write(device, n * 16 * block, part, Durability::Volatile);
    });
    let mut random = SplitMix64::new(4);
    for n in 0..40 {
        let (from, len) = (random.below(60), 1 + random.below(4));
        let data = noise(500 + n, len * block);
        let durability = if n % 2 == 0 { Durability::Durable } else { Durability::Volatile };
        h.write(device, from * block, &data, durability);
        want[(from * block) as usize..((from + len) * block) as usize].copy_from_slice(&data);
        if n % 8 == 0 {
            h.flush(device);
        }
    }
    for n in 0..64 {
        let at = (n * block) as usize;
        assert!(h.read(device, n * block, block as usize) == want[at..at + block as usize], "block {n}");
    }
    h.finish();
}

pub fn the_first_and_the_last_block_are_written<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 5);
    let geometry = h.geometry(device);
    let block = u64::from(geometry.block_bytes);
    let last = geometry.size_bytes - block;
    for (offset, seed) in [(0, 5), (last, 6)] {
        h.write(device, offset, &noise(seed, block), Durability::Durable);
    }
    for (offset, seed) in [(0, 5), (last, 6)] {
        assert!(h.read(device, offset, block as usize) == noise(seed, block), "the block at {offset}");
    }
    h.finish();
}

pub fn the_longest_request_is_taken<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 6);
    let geometry = h.geometry(device);
    let len = geometry.request_bytes_max.min(geometry.size_bytes);
    let data = noise(6, len);
    h.write(device, 0, &data, Durability::Volatile);
    assert!(h.perform(device, read(0, len as usize)).expect("the longest read") == data);
    h.finish();
}

pub fn devices_share_no_bytes<F: Factory>(factory: &mut F) {
    let (mut h, _) = fresh(factory, 7);
    let devices = factory.devices();
    let seed = |device: DeviceId| 700 + device as u64;
    for &device in &devices {
        let (block, _) = blocks::<F>(&h, device);
        h.write(device, 2 * block, &noise(seed(device), 2 * block), Durability::Volatile);
    }
    for &device in &devices {
        let (block, _) = blocks::<F>(&h, device);
        let seen = h.read(device, 2 * block, 2 * block as usize);
        assert!(seen == noise(seed(device), 2 * block), "{device} has what was written to it");
    }
    h.finish();
}

pub fn a_discard_touches_its_range_only<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 8);
    let (block, most) = blocks::<F>(&h, device);
    let len = most / block * block;
    let mut random = SplitMix64::new(8);
    for round in 0..10 {
        let data = noise(800 + round, len);
        h.write(device, 0, &data, Durability::Durable);
        let blocks = len / block;
        let from = random.below(blocks);
        let to = from + 1 + random.below(blocks - from);
        let discard = Op::Discard { offset: from * block, len: (to - from) * block };
        assert_eq!(h.perform(device, discard), Ok(vec![]));
        if round % 2 == 0 {
            h.flush(device);
        }
        let seen = h.read(device, 0, len as usize);
        let (from, to) = ((from * block) as usize, (to * block) as usize);
        assert!(seen[..from] == data[..from], "before the discarded range {from}..{to}");
        assert!(seen[to..] == data[to..], "behind the discarded range {from}..{to}");
    }
    h.finish();
}

pub fn what_is_written_after_a_discard_is_read<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 9);
    let (block, most) = blocks::<F>(&h, device);
    let len = most / block * block;
    for round in 0..10 {
        h.write(device, 0, &noise(900 + round, len), Durability::Volatile);
        assert_eq!(h.perform(device, Op::Discard { offset: 0, len }), Ok(vec![]));
        let data = noise(950 + round, block);
        let durability = if round % 2 == 0 { Durability::Durable } else { Durability::Volatile };
        h.write(device, block * round, &data, durability);
        h.flush(device);
        assert!(h.read(device, block * round, block as usize) == data, "round {round}");
    }
    h.finish();
}

pub fn everything_is_there_after_reopening<F: Factory>(factory: &mut F) {
    let (mut h, _) = fresh(factory, 10);
    let devices = factory.devices();
    let data = |device: DeviceId, n: u64, block: u64| noise(1000 + 100 * device as u64 + n, block);
    for &device in &devices {
        let (block, _) = blocks::<F>(&h, device);
        for n in 0..20 {
            h.write(device, 3 * n * block, &data(device, n, block), Durability::Volatile);
        }
        h.flush(device);
    }
    let before: Vec<_> = devices.iter().map(|d| h.geometry(*d)).collect();
    h.finish();
    factory.close();
    let mut h = open(factory);
    for (&device, geometry) in devices.iter().zip(before) {
        assert_eq!(h.geometry(device), geometry, "a device keeps its geometry");
        let (block, _) = blocks::<F>(&h, device);
        for n in 0..20 {
            let seen = h.read(device, 3 * n * block, block as usize);
            assert!(seen == data(device, n, block), "{device}: block {n}");
        }
    }
    h.finish();
}
