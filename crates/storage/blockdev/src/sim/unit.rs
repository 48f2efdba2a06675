//! One simulated device: its visible and durable bytes, and its faults.

use std::collections::VecDeque;
use std::ops::Range;

use buffer::Rope;
use devmodel::Model;
use types::{Errno, SplitMix64};

use super::SimDevice;
use super::contents::{Change, Pages, Record, cut};
use crate::{DeviceError, DeviceId, Durability, Geometry, SECTOR_BYTES};

/// A fault of a write that the device acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// Nothing is written.
    Lost,
    /// The bytes are written at this offset instead (a multiple of a sector), as far as the device reaches.
    Misdirected(u64),
}

/// The requests to a device since it was made, without refused ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    /// Of `writes`, those that were to be durable.
    pub durable_writes: u64,
    pub written_bytes: u64,
    pub flushes: u64,
    pub discards: u64,
}

pub struct Unit {
    pub id: DeviceId,
    pub geometry: Geometry,
    /// The device at rest: a power loss brings it back.
    idle: Model,
    pub model: Model,
    /// The bytes that reads see.
    pub visible: Pages,
    /// The bytes after a power loss that no volatile change survives.
    pub durable: Pages,
    /// The visible changes that are not durable, in order.
    volatile: Vec<Record>,
    next_number: u64,
    pub poisoned: bool,
    pub bad_reads: Vec<Range<u64>>,
    pub bad_writes: Vec<Range<u64>>,
    pub flushes_fail: bool,
    /// Each for the next write that lies in its range.
    pub faults: Vec<(Range<u64>, WriteFault)>,
    /// Requests that wait for a place among those that the device works on.
    pub waiting: VecDeque<u64>,
    pub active: usize,
    pub counts: Counts,
}

impl Unit {
    pub fn new(device: SimDevice, seed: u64) -> Self {
        let pages = Pages::new(seed);
        Self {
            id: device.id,
            geometry: device.geometry,
            idle: device.model.clone(),
            model: device.model,
            visible: pages.clone(),
            durable: pages,
            volatile: Vec::new(),
            next_number: 0,
            poisoned: false,
            bad_reads: Vec::new(),
            bad_writes: Vec::new(),
            flushes_fail: false,
            faults: Vec::new(),
            waiting: VecDeque::new(),
            active: 0,
            counts: Counts::default(),
        }
    }

    /// What a flush that is submitted now covers: the records below this number.
    pub fn floor(&self) -> u64 {
        self.next_number
    }

    pub fn unflushed_bytes(&self) -> u64 {
        self.volatile.iter().map(|r| r.range().end - r.range().start).sum()
    }

    fn record(&mut self, offset: u64, change: Change) -> Record {
        self.next_number += 1;
        Record { number: self.next_number - 1, offset, change }
    }

    fn io(&self, offset: u64) -> DeviceError {
        DeviceError::Io { device: self.id, offset, errno: Errno::EIO }
    }

    /// The first byte of a range that one of the bad ranges has.
    fn first_bad(bad: &[Range<u64>], range: &Range<u64>) -> Option<u64> {
        let hits = bad.iter().filter(|b| b.start < range.end && range.start < b.end);
        hits.map(|b| b.start.max(range.start)).min()
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        match Self::first_bad(&self.bad_reads, &(offset..offset + out.len() as u64)) {
            Some(at) => Err(self.io(at)),
            None => {
                self.visible.read(offset, out);
                Ok(())
            }
        }
    }

    pub fn write(
        &mut self,
        offset: u64,
        data: Rope,
        (durability, floor): (Durability, u64),
        random: &mut SplitMix64,
    ) -> Result<(), DeviceError> {
        let range = offset..offset + data.len() as u64;
        let mut record = self.record(offset, Change::Bytes(data));
        if self.poisoned {
            self.tear(&record, random);
            return Err(DeviceError::Poisoned { device: self.id });
        }
        if let Some(at) = Self::first_bad(&self.bad_writes, &range) {
            self.tear(&record, random);
            self.poisoned |= durability == Durability::Durable;
            return Err(self.io(at));
        }
        if self.flushes_fail && durability == Durability::Durable {
            self.tear(&record, random);
            self.poisoned = true;
            return Err(self.io(offset));
        }
        let hit = self.faults.iter().position(|(of, _)| of.start <= range.start && range.end <= of.end);
        match hit.map(|at| self.faults.remove(at).1) {
            None => {}
            Some(WriteFault::Lost) => return Ok(()),
            Some(WriteFault::Misdirected(to)) => record.offset = to,
        }
        let Some(record) = record.within(0..self.geometry.size_bytes) else { return Ok(()) };
        record.apply(&mut self.visible);
        self.read_again(&record.range());
        match durability {
            Durability::Volatile => self.volatile.push(record),
            Durability::Durable => {
                if self.geometry.durable_flushes {
                    self.flush(floor)?;
                }
                cut(&mut self.volatile, &record.range());
                record.apply(&mut self.durable);
            }
        }
        Ok(())
    }

    pub fn discard(&mut self, offset: u64, len: u64, random: &mut SplitMix64) -> Result<(), DeviceError> {
        if self.poisoned {
            return Err(DeviceError::Poisoned { device: self.id });
        }
        if self.geometry.discards {
            let record = self.record(offset, Change::Discard { len, seed: random.next_u64() });
            record.apply(&mut self.visible);
            self.volatile.push(record);
        }
        Ok(())
    }

    /// A flush that was submitted when the next record's number was `floor`.
    pub fn flush(&mut self, floor: u64) -> Result<(), DeviceError> {
        if self.poisoned {
            return Err(DeviceError::Poisoned { device: self.id });
        }
        if self.flushes_fail {
            self.poisoned = true;
            return Err(self.io(0));
        }
        // Records are in the order of their numbers.
        let covered = self.volatile.partition_point(|r| r.number < floor);
        for record in self.volatile.drain(..covered) {
            record.apply(&mut self.durable);
        }
        Ok(())
    }

    /// A write that fails leaves any of its sectors.
    pub fn tear(&mut self, record: &Record, random: &mut SplitMix64) {
        for sector in record.sectors().filter(|_| random.one_in(2)) {
            sector.apply(&mut self.visible);
            self.volatile.push(sector);
        }
    }

    /// What was in flight when the device was closed, in the order in which it may have been done.
    pub fn in_flight(&mut self, offset: u64, change: Change, random: &mut SplitMix64) {
        let record = self.record(offset, change);
        self.tear(&record, random);
    }

    /// Decides for each sector of the volatile changes whether it survives, and makes the result visible.
    pub fn lose_power(&mut self, random: &mut SplitMix64) {
        let mood = random.below(4);
        for record in std::mem::take(&mut self.volatile) {
            let lot = if mood < 2 { mood } else { random.below(3) };
            match lot {
                0 => {}
                1 => record.apply(&mut self.durable),
                _ => {
                    let odds = 1 + random.below(4);
                    let kept = record.sectors().filter(|_| random.one_in(odds));
                    kept.for_each(|sector| sector.apply(&mut self.durable));
                }
            }
        }
        self.visible = self.durable.clone();
    }

    /// The device after it was opened again. One that was poisoned has lost what a power loss would have taken.
    pub fn reopen(&mut self, random: &mut SplitMix64) {
        if std::mem::take(&mut self.poisoned) {
            self.lose_power(random);
        }
        self.model = self.idle.clone();
        self.waiting.clear();
        self.active = 0;
    }

    /// A block that could not be read can be when it has been written.
    fn read_again(&mut self, range: &Range<u64>) {
        let bad = std::mem::take(&mut self.bad_reads);
        let around = |b: Range<u64>| [b.start..b.end.min(range.start), b.start.max(range.end)..b.end];
        self.bad_reads = bad.into_iter().flat_map(around).filter(|b| !b.is_empty()).collect();
    }

    /// Flips a bit of what is stored, durable or not.
    pub fn flip(&mut self, offset: u64, bit: u32) {
        let sector = offset / SECTOR_BYTES as u64 * SECTOR_BYTES as u64;
        self.durable.flip(offset, bit);
        self.visible.flip(offset, bit);
        // What a flush would write is what reads see now.
        let volatile = self.volatile.iter().any(|r| r.range().contains(&offset));
        if volatile {
            let mut bytes = vec![0; SECTOR_BYTES];
            self.visible.read(sector, &mut bytes);
            let record = self.record(sector, Change::Bytes(Rope::copy_from(&bytes)));
            self.volatile.push(record);
        }
    }
}
