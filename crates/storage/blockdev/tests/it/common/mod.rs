//! Simulated disks for the suite.

use std::ops::Range;

use blockdev::conformance::{Factory, Properties};
use blockdev::sim::{SimDevice, SimDisks, SimOptions, SimQueue};
use blockdev::{DeviceId, Geometry};
use devmodel::Model;

/// What the disks are like: their model and block size, and which there are.
#[derive(Clone)]
pub struct Sim {
    pub model: &'static str,
    pub block_bytes: u32,
    pub durable_flushes: bool,
    pub devices: &'static [DeviceId],
    pub disks: Option<SimDisks>,
}

impl Sim {
    pub fn new(model: &'static str, block_bytes: u32, devices: &'static [DeviceId]) -> Self {
        Self { model, block_bytes, durable_flushes: block_bytes == 512, devices, disks: None }
    }

    pub fn disks(&self) -> &SimDisks {
        self.disks.as_ref().expect("the suite makes devices first")
    }
}

/// Devices of a model.
fn disks(of: &Sim, seed: u64) -> SimDisks {
    let Sim { model, block_bytes, durable_flushes, devices, .. } = *of;
    let size_bytes = 32 << 20;
    let geometry = Geometry {
        size_bytes,
        block_bytes,
        request_bytes_max: 1 << 20,
        queue_depth: 16,
        discards: true,
        rotational: false,
        durable_flushes,
    };
    let device = |id: &DeviceId| SimDevice {
        id: *id,
        geometry,
        model: Model::named(model, &[], size_bytes).expect("a model"),
    };
    let devices = devices.iter().map(device).collect();
    SimDisks::new(SimOptions { seed, jitter_ns: 0..2_000_000, devices })
}

impl Factory for Sim {
    type Queue = SimQueue;

    fn properties(&self) -> Properties {
        Properties { threads: None, power_loss: true, failing_flushes: true, failing_ranges: true }
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.devices.to_vec()
    }

    fn make(&mut self, seed: u64) {
        self.disks = Some(disks(self, seed));
    }

    fn open(&mut self) -> SimQueue {
        self.disks().open()
    }

    fn close(&mut self) {
        self.devices.iter().for_each(|device| self.disks().heal(*device));
        self.disks().close();
    }

    fn power_loss(&mut self, seed: u64) {
        self.disks().reseed(seed);
        self.devices.iter().for_each(|device| self.disks().heal(*device));
        self.disks().power_loss();
    }

    fn fail_flushes(&mut self, device: DeviceId) {
        self.disks().fail_flushes(device);
    }

    fn fail_reads(&mut self, device: DeviceId, range: Range<u64>) {
        self.disks().fail_reads(device, range);
    }

    fn fail_writes(&mut self, device: DeviceId, range: Range<u64>) {
        self.disks().fail_writes(device, range);
    }
}
