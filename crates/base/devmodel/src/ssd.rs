//! An SSD with power-loss protection: a controller that serves one command after the other, and flash behind it.
//!
//! A command takes the controller for as long as the data sheet's operations a second, or its bytes at the sequential
//! rate, whichever is longer. A read then waits for one of the flash channels; a write is safe once the controller has
//! it, as the capacitors carry it to the flash. A command alone takes what the data sheet calls the latency.
//!
//! Not modelled: garbage collection, wear, a sequential small write being cheaper than a random one, trim.

use std::collections::BTreeSet;

use crate::Nanos;
use crate::sheet::Sheet;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Ssd {
    read: TransferCost,
    write: TransferCost,
    flush: Nanos,
    controller_free: Nanos,
    /// When each channel is free.
    channels: Vec<Nanos>,
    done: BTreeSet<(Nanos, u64)>,
}

/// What a direction costs.
#[derive(Clone, Debug)]
struct TransferCost {
    /// The controller's time a command.
    command: Nanos,
    /// Bytes a nanosecond.
    rate: f64,
    /// What a small command takes beside the controller's time.
    rest: Nanos,
}

/// What the data sheets' latencies and operations a second are about.
const SMALL: u64 = 4096;

impl TransferCost {
    fn new(sheet: &Sheet, iops: &str, rate: &str, latency: &str) -> Self {
        let mut cost =
            Self { command: (1e9 / sheet.number(iops)) as Nanos, rate: sheet.number(rate) / 1e3, rest: 0 };
        cost.rest = sheet.nanos(latency).saturating_sub(cost.controller(SMALL));
        cost
    }

    fn controller(&self, length: u64) -> Nanos {
        self.command.max((length as f64 / self.rate).ceil() as Nanos)
    }
}

impl Ssd {
    pub(crate) fn new(sheet: &Sheet) -> Self {
        Self {
            read: TransferCost::new(sheet, "read_iops", "read_mb_s", "read_us"),
            write: TransferCost::new(sheet, "write_iops", "write_mb_s", "write_us"),
            flush: sheet.nanos("flush_us"),
            controller_free: 0,
            channels: vec![0; sheet.number("channels") as usize],
            done: BTreeSet::new(),
        }
    }

    /// What a flush takes.
    pub(crate) fn flush(&self) -> Nanos {
        self.flush
    }

    /// A command comes.
    pub(crate) fn submit(&mut self, now: Nanos, tag: u64, write: bool, length: u64) {
        let cost = if write { &self.write } else { &self.read };
        let served = now.max(self.controller_free) + cost.controller(length);
        self.controller_free = served;
        let mut done = served + cost.rest;
        if !write {
            if let Some(channel) = self.channels.iter_mut().min() {
                done = served.max(*channel) + cost.rest;
                *channel = done;
            }
        }
        self.done.insert((done, tag));
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.done.first().map(|done| done.0)
    }

    /// The next completion up to `now`.
    pub(crate) fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        self.next_event().filter(|at| *at <= now)?;
        self.done.pop_first().map(|(at, tag)| (tag, at))
    }
}
