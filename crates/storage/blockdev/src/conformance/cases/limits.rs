//! Geometries, and requests that break them.

use super::{fresh, noise};
use crate::conformance::factory::{DEVICE_BYTES_MIN, Factory};
use crate::conformance::harness::{read, write};
use crate::{DeviceError, DeviceId, DeviceQueue, Durability, Op, SECTOR_BYTES};

const ALL: [DeviceId; 3] = [DeviceId::Data, DeviceId::Wal, DeviceId::Db];

pub fn a_geometry_is_consistent<F: Factory>(factory: &mut F) {
    let (mut h, _) = fresh(factory, 20);
    let devices = factory.devices();
    for device in ALL {
        let Some(geometry) = h.queue().geometry(device) else {
            assert!(!devices.contains(&device), "{device} was made and has a geometry");
            continue;
        };
        assert!(devices.contains(&device), "{device} was not made and has a geometry");
        let block = u64::from(geometry.block_bytes);
        assert!(block.is_power_of_two() && block >= SECTOR_BYTES as u64, "{geometry:?}");
        assert!(geometry.size_bytes >= DEVICE_BYTES_MIN && geometry.size_bytes % block == 0, "{geometry:?}");
        assert!(geometry.request_bytes_max >= 64 << 10, "{geometry:?}");
        assert_eq!(geometry.request_bytes_max % block, 0, "{geometry:?}");
        assert!(geometry.queue_depth > 0, "{geometry:?}");
    }
    h.finish();
}

/// Requests with a mistake, and the errors that name it.
fn mistakes<F: Factory>(factory: &F, queue: &F::Queue, device: DeviceId) -> Vec<(DeviceId, Op, DeviceError)> {
    let geometry = queue.geometry(device).expect("the device was made");
    let (block, size) = (u64::from(geometry.block_bytes), geometry.size_bytes);
    let (block_bytes, size_bytes) = (geometry.block_bytes, size);
    let mut all = Vec::new();
    let mut each = |offset: u64, len: u64, error: DeviceError| {
        let data = vec![9; len as usize];
        all.push((device, read(offset, len as usize), error.clone()));
        all.push((device, write(offset, &data, Durability::Volatile), error.clone()));
        all.push((device, write(offset, &data, Durability::Durable), error.clone()));
        all.push((device, Op::Discard { offset, len }, error));
    };
    for (offset, len) in [(0, 0), (block, 0), (size, 0)] {
        each(offset, len, DeviceError::Empty { device, offset });
    }
    for (offset, len) in [(1, block), (0, block - 1), (block / 2, block / 2), (block, block + 1), (0, 1)] {
        each(offset, len, DeviceError::Misaligned { device, offset, len, block_bytes });
    }
    let top = u64::MAX / block * block;
    for (offset, len) in [(size, block), (size - block, 2 * block), (size + (1 << 40), block), (top, block)] {
        each(offset, len, DeviceError::OutOfRange { device, offset, len, size_bytes });
    }
    let request_bytes_max = geometry.request_bytes_max;
    let len = request_bytes_max + block;
    if len <= size.min(64 << 20) {
        let error = DeviceError::TooLong { device, len, request_bytes_max };
        all.push((device, read(0, len as usize), error.clone()));
        all.push((device, write(0, &vec![9; len as usize], Durability::Volatile), error));
    }
    for device in ALL.into_iter().filter(|d| !factory.devices().contains(d)) {
        let error = DeviceError::NoSuchDevice { device };
        all.push((device, read(0, block as usize), error.clone()));
        all.push((device, write(0, &vec![9; block as usize], Durability::Durable), error.clone()));
        all.push((device, Op::Flush, error.clone()));
        all.push((device, Op::Discard { offset: 0, len: block }, error));
    }
    all
}

pub fn a_request_with_a_mistake_is_refused_and_names_it<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 21);
    let geometry = h.geometry(device);
    let block = u64::from(geometry.block_bytes);
    let last = geometry.size_bytes - 2 * block;
    for offset in [0, last] {
        h.write(device, offset, &noise(21, 2 * block), Durability::Volatile);
    }
    for (device, op, error) in mistakes(factory, h.queue(), device) {
        let what = format!("{op:?}");
        assert_eq!(h.perform(device, op), Err(error), "{what}");
    }
    for offset in [0, last] {
        let seen = h.read(device, offset, 2 * block as usize);
        assert!(seen == noise(21, 2 * block), "what was refused had no effect at {offset}");
    }
    h.flush(device);
    h.finish();
}

pub fn a_refused_request_leaves_its_batch_alone<F: Factory>(factory: &mut F) {
    let (mut h, device) = fresh(factory, 22);
    let block = u64::from(h.geometry(device).block_bytes);
    for (n, (wrong_device, wrong, error)) in mistakes(factory, h.queue(), device).into_iter().enumerate() {
        let (a, b) = (noise(2200 + n as u64, block), noise(2300 + n as u64, block));
        let tokens = h.submit([
            (device, write(4 * block, &a, Durability::Volatile)),
            (wrong_device, wrong),
            (device, write(6 * block, &b, Durability::Volatile)),
        ]);
        assert_eq!(h.wait_each(&tokens), [Ok(vec![]), Err(error), Ok(vec![])]);
        let seen = h.read(device, 4 * block, 3 * block as usize);
        assert!(seen[..block as usize] == a && seen[2 * block as usize..] == b);
    }
    h.finish();
}
