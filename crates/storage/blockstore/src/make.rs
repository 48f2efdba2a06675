//! Making a store on a device.

use blockdev::{DeviceId, DeviceQueue, Durability};
use buffer::Rope;
use types::UTime;

use crate::io::Io;
use crate::layout::{Counters, Label, Part, SIZE_BYTES_MAX, Superblock, features};
use crate::open::OpenError;
use crate::planted::Barrier;
use crate::ranges::Grown;

/// Bytes of zeros written at once.
const ZEROS_BYTES: u64 = 1 << 20;

enum Step {
    /// Logs and superblocks are being written.
    Shards,
    Flush,
    /// The label, last: a device without one has no store.
    Label,
}

/// A store being made: labels and superblocks are written, and the logs are filled with zeros, so that their writes later
/// find their places allocated.
pub struct Making<Q: DeviceQueue> {
    io: Option<Io<Q, ()>>,
    label: Label,
    step: Step,
    requests: usize,
}

impl<Q: DeviceQueue> Making<Q> {
    /// # Errors
    /// The device is too small for such a store, or has larger blocks than its log; or the store would be too large.
    pub fn new(queue: Q, label: Label) -> Result<Self, OpenError> {
        let geometry = queue.geometry(DeviceId::Data).ok_or(OpenError::NoDevice)?;
        if label.size_bytes > SIZE_BYTES_MAX {
            return Err(OpenError::TooLarge { bytes: label.size_bytes, most: SIZE_BYTES_MAX });
        }
        if !label.is_sound()
            || label.size_bytes > geometry.size_bytes
            || label.log_unit_bytes % geometry.block_bytes != 0
        {
            return Err(OpenError::Sizes { device_bytes: geometry.size_bytes });
        }
        let log_device = label.log_device();
        let of_log = queue.geometry(log_device).ok_or(OpenError::NoLogDevice)?;
        if label.log_apart
            && (of_log.size_bytes < label.log_device_bytes()
                || label.log_unit_bytes % of_log.block_bytes != 0)
        {
            return Err(OpenError::Sizes { device_bytes: of_log.size_bytes });
        }
        let mut io = Io::new(queue).ok_or(OpenError::NoDevice)?;
        io.set_log(log_device);
        let mut requests = 0;
        for number in 0..label.shards {
            let Some(shard) = label.shard(number) else { continue };
            let superblock = Superblock {
                features: label.features() | features::POOL_BLOCKS | features::POOL_OMAPS,
                store: label.id,
                shard: number,
                generation: 0,
                root: None,
                counters: Counters::default(),
                log: wal::Opening::FIRST,
                grown: Grown::No,
            };
            let bytes = superblock.encode().ok_or(OpenError::NoDevice)?;
            // The other one is no superblock until the shard is opened.
            let other = Rope::zeros(bytes.len());
            for (generation, bytes) in [(0, bytes.into()), (1, other)] {
                for offset in shard.superblock_offsets(generation) {
                    requests += io.write((), offset, &bytes, Durability::Volatile);
                }
            }
            for at in (0..shard.log.bytes).step_by(ZEROS_BYTES as usize) {
                let zeros = Rope::zeros((shard.log.bytes - at).min(ZEROS_BYTES) as usize);
                requests += io.write_log((), shard.log.offset + at, &zeros, Durability::Volatile);
            }
        }
        if label.log_apart {
            requests += io.write_log((), 0, &label.encode(Part::Log).into(), Durability::Volatile);
        }
        Ok(Self { io: Some(io), label, step: Step::Shards, requests })
    }

    /// Leaves out a barrier.
    #[cfg(feature = "planted")]
    pub fn leave_out(&mut self, barrier: Barrier) {
        if let Some(io) = &mut self.io {
            io.planted.left_out = Some(barrier);
        }
    }

    pub fn deadline(&self) -> Option<UTime> {
        self.io.as_ref().and_then(Io::deadline)
    }

    /// Brings it on; the queue comes back when the store is there.
    ///
    /// # Errors
    /// The device failed. Nothing was made: a device without a label has no store.
    pub fn turn(&mut self, now: UTime) -> Option<Result<Q, OpenError>> {
        let io = self.io.as_mut()?;
        io.queue().turn(now);
        io.submit(now);
        for (_, result) in io.completions() {
            self.requests -= 1;
            if let Err(error) = result {
                return Some(Err(OpenError::Device(error)));
            }
        }
        if self.requests > 0 {
            return None;
        }
        match self.step {
            Step::Shards => {
                let flushes = io.flush_all((), Barrier::MadeData, Barrier::MadeLog);
                (self.step, self.requests) = (Step::Flush, flushes);
            }
            Step::Flush => {
                let bytes = self.label.encode(Part::Data).into();
                self.requests = io.write((), 0, &bytes, io.durability(Barrier::MadeLabel));
                self.step = Step::Label;
            }
            Step::Label => return self.io.take().map(|io| Ok(io.into_queue())),
        }
        io.submit(now);
        None
    }
}
