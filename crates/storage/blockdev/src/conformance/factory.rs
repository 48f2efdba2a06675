//! What an implementor provides to the suite.

use std::ops::Range;
use std::time::Duration;

use crate::{DeviceId, DeviceQueue};

/// The faults that an implementor's devices support.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// `Some`: completions come from threads, within this time; the suite waits for the waker. `None`: they come at
    /// deadlines only.
    pub threads: Option<Duration>,
    /// [`Factory::power_loss`] works.
    pub power_loss: bool,
    /// [`Factory::fail_flushes`] works.
    pub failing_flushes: bool,
    /// [`Factory::fail_reads`] and [`Factory::fail_writes`] work.
    pub failing_ranges: bool,
}

/// The faults that a case needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    PowerLoss,
    FailingFlushes,
    FailingRanges,
}

impl Need {
    pub(super) fn is_met(self, properties: &Properties) -> bool {
        match self {
            Self::PowerLoss => properties.power_loss,
            Self::FailingFlushes => properties.failing_flushes,
            Self::FailingRanges => properties.failing_ranges,
        }
    }
}

/// Makes devices for the suite: of at least one id, each of [`DEVICE_BYTES_MIN`] or more.
pub trait Factory {
    type Queue: DeviceQueue;

    fn properties(&self) -> Properties;

    fn devices(&self) -> Vec<DeviceId>;

    /// Makes the devices, with any contents. The seed decides everything random.
    fn make(&mut self, seed: u64);

    /// Opens one more queue on the devices.
    fn open(&mut self) -> Self::Queue;

    /// Closes the devices in good order, the queues included. (They are dropped before or after.)
    fn close(&mut self);

    /// Cuts the power. The queues fail from now on; the suite drops them before it opens another.
    fn power_loss(&mut self, _seed: u64) {}

    /// Makes every flush and every durable write from now on fail, until the devices are closed or lose power.
    fn fail_flushes(&mut self, _device: DeviceId) {}

    /// Makes reads that touch a range fail.
    fn fail_reads(&mut self, _device: DeviceId, _range: Range<u64>) {}

    /// Makes writes that touch a range fail.
    fn fail_writes(&mut self, _device: DeviceId, _range: Range<u64>) {}
}

/// The least size of a device that the suite runs on.
pub const DEVICE_BYTES_MIN: u64 = 4 << 20;
