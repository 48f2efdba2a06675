//! Files for the suite.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use blockdev::DeviceId;
use blockdev::conformance::{Factory, Properties};
use device::{DeviceOptions, Engine, FileDevice, FileQueue, Files, Power};
use tempfile::TempDir;

/// Cases that files without hooks cannot be put through.
pub const NEEDS_FAULTS: [&str; 15] = [
    "a_flushed_write_survives_a_power_loss",
    "a_durable_write_survives_a_power_loss",
    "a_flush_covers_the_writes_of_other_queues",
    "a_durable_write_that_flushes_covers_what_completed_before_it",
    "an_older_volatile_write_never_replaces_a_durable_one",
    "a_volatile_write_over_a_durable_one_leaves_either",
    "a_flush_after_a_discard_keeps_what_was_written_since",
    "what_a_power_loss_left_is_durable",
    "random_histories_survive_power_losses",
    "a_failed_flush_poisons_the_device_on_every_queue",
    "a_failed_durable_write_poisons_the_device",
    "a_poisoned_device_that_is_opened_again_has_what_was_durable",
    "a_poisoned_device_leaves_the_others_working",
    "a_failed_read_names_its_place_and_spares_its_neighbours",
    "a_failed_volatile_write_concerns_its_range_only",
];

/// Files in a directory of their own.
struct Dir {
    dir: TempDir,
    devices: &'static [DeviceId],
}

impl Dir {
    fn new(devices: &'static [DeviceId]) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), devices }
    }

    fn path(&self, device: DeviceId) -> PathBuf {
        self.dir.path().join(format!("{device:?}"))
    }

    /// Empties the files. Their length is no whole block.
    fn make(&self) {
        for device in self.devices {
            std::fs::File::create(self.path(*device)).unwrap().set_len((16 << 20) + 100).unwrap();
        }
    }
}

fn properties(faults: bool) -> Properties {
    Properties {
        threads: Some(Duration::from_secs(60)),
        power_loss: faults,
        failing_flushes: faults,
        failing_ranges: false,
    }
}

/// Files as a store uses them.
pub struct Plain {
    dir: Dir,
    block_bytes: u32,
    engine: Engine,
    files: Option<Files>,
}

impl Plain {
    pub fn new(engine: Engine, block_bytes: u32, devices: &'static [DeviceId]) -> Self {
        Self { dir: Dir::new(devices), block_bytes, engine, files: None }
    }
}

impl Factory for Plain {
    type Queue = FileQueue;

    fn properties(&self) -> Properties {
        properties(false)
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.dir.devices.to_vec()
    }

    fn make(&mut self, _seed: u64) {
        self.files = None;
        self.dir.make();
    }

    fn open(&mut self) -> FileQueue {
        let device = |id: &DeviceId| FileDevice {
            block_bytes: self.block_bytes,
            ..FileDevice::new(*id, &self.dir.path(*id))
        };
        let open = || {
            let devices: Vec<FileDevice> = self.dir.devices.iter().map(device).collect();
            Files::open(&devices, self.engine).unwrap()
        };
        self.files.get_or_insert_with(open).queue()
    }

    fn close(&mut self) {
        self.files = None;
    }
}

/// Files behind a volatile cache, each with a power switch.
pub struct Switched {
    plain: Plain,
    power: Vec<Arc<Power>>,
}

impl Switched {
    pub fn new(block_bytes: u32, devices: &'static [DeviceId]) -> Self {
        Self { plain: Plain::new(Engine::IoUring, block_bytes, devices), power: Vec::new() }
    }
}

impl Factory for Switched {
    type Queue = FileQueue;

    fn properties(&self) -> Properties {
        properties(true)
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.plain.devices()
    }

    fn make(&mut self, seed: u64) {
        self.plain.make(seed);
    }

    fn open(&mut self) -> FileQueue {
        if self.plain.files.is_none() {
            let mut devices = Vec::new();
            self.power.clear();
            for id in self.plain.dir.devices {
                let power = Arc::new(Power::default());
                self.power.push(Arc::clone(&power));
                let debug = DeviceOptions { volatile_cache: true, leak_seed: None, power: Some(power) };
                let path = self.plain.dir.path(*id);
                let block_bytes = self.plain.block_bytes;
                devices.push(FileDevice { block_bytes, debug, ..FileDevice::new(*id, &path) });
            }
            self.plain.files = Some(Files::open(&devices, Engine::IoUring).unwrap());
        }
        self.plain.open()
    }

    fn close(&mut self) {
        self.plain.close();
    }

    fn power_loss(&mut self, seed: u64) {
        self.power.iter().for_each(|power| power.cut_after(0, Some(seed)));
        self.plain.close();
    }

    fn fail_flushes(&mut self, device: DeviceId) {
        let at = self.devices().iter().position(|id| *id == device).unwrap();
        self.power[at].fail_flushes(Some(at as u64));
    }
}
