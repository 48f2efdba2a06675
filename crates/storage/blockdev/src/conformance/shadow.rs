//! A model of a device: for each sector the states that it may have.

use std::collections::BTreeSet;
use std::ops::Range;

use types::SplitMix64;

use super::harness::Harness;
use crate::{DeviceId, DeviceQueue, Durability, SECTOR_BYTES};

/// Bytes of a device, from its first on, that the suite's histories write.
pub const REGION_BYTES: u64 = 1 << 20;

const SECTOR: u64 = SECTOR_BYTES as u64;

/// Which write left a sector as it is. `None`: anything may be there.
type State = Option<u64>;

/// The sectors of one device's region. Each write has a number; what it writes to a sector follows from that number and
/// the sector's, so what is read shows which write left it, and whether it is torn or in the wrong place.
pub struct Shadow {
    device: DeviceId,
    sectors: Vec<Sector>,
    next: u64,
    /// Writes that have completed.
    completed: BTreeSet<u64>,
}

#[derive(Clone)]
struct Sector {
    durable: State,
    /// The states since, the latest last, each with its write's number.
    later: Vec<(u64, State)>,
}

/// The bytes that a write leaves in the sectors of a range.
pub fn bytes_of(number: u64, range: Range<u64>) -> Vec<u8> {
    let mut out = Vec::with_capacity((range.end - range.start) as usize);
    for sector in range.start / SECTOR..range.end / SECTOR {
        let mut random = SplitMix64::new(SplitMix64::at(number, sector));
        out.extend(number.to_le_bytes());
        (1..SECTOR / 8).for_each(|_| out.extend(random.next_u64().to_le_bytes()));
    }
    out
}

/// Which write left the sector at an offset like this; `None` if none did.
fn writer_of(offset: u64, bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    (bytes_of(number, offset..offset + SECTOR) == bytes).then_some(number)
}

impl Shadow {
    /// Gives the whole region a known state, durable.
    pub fn new<Q: DeviceQueue>(h: &mut Harness<Q>, device: DeviceId) -> Self {
        let step = (256 << 10).min(h.geometry(device).request_bytes_max);
        for offset in (0..REGION_BYTES).step_by(step as usize) {
            let end = (offset + step).min(REGION_BYTES);
            h.write(device, offset, &bytes_of(1, offset..end), Durability::Volatile);
        }
        h.flush(device);
        let sector = Sector { durable: Some(1), later: Vec::new() };
        let sectors = vec![sector; (REGION_BYTES / SECTOR) as usize];
        Self { device, sectors, next: 2, completed: BTreeSet::new() }
    }

    fn of(&mut self, range: &Range<u64>) -> &mut [Sector] {
        &mut self.sectors[(range.start / SECTOR) as usize..(range.end / SECTOR) as usize]
    }

    /// A write is submitted: its number and its bytes.
    pub fn begin_write(&mut self, range: Range<u64>) -> (u64, Vec<u8>) {
        let number = self.next;
        self.next += 1;
        self.of(&range).iter_mut().for_each(|s| s.later.push((number, Some(number))));
        (number, bytes_of(number, range))
    }

    /// A discard is submitted: its number.
    pub fn begin_discard(&mut self, range: Range<u64>) -> u64 {
        let number = self.next;
        self.next += 1;
        self.of(&range).iter_mut().for_each(|s| s.later.push((number, None)));
        number
    }

    /// A write or a discard has completed.
    pub fn end(&mut self, number: u64, range: Range<u64>, durability: Durability) {
        self.completed.insert(number);
        if durability == Durability::Durable {
            self.settle(range, &BTreeSet::from([number]));
        }
    }

    /// What a flush that is submitted now covers.
    pub fn covered(&self) -> BTreeSet<u64> {
        self.completed.clone()
    }

    /// A flush that covers these has completed.
    pub fn flushed(&mut self, covered: &BTreeSet<u64>) {
        self.settle(0..REGION_BYTES, covered);
        self.completed.retain(|number| !covered.contains(number));
    }

    fn settle(&mut self, range: Range<u64>, durable: &BTreeSet<u64>) {
        for sector in self.of(&range) {
            if let Some(last) = sector.later.iter().rposition(|(number, _)| durable.contains(number)) {
                sector.durable = sector.later[last].1;
                sector.later.drain(..=last);
            }
        }
    }

    /// Checks what a read of a range without any request in flight returned.
    pub fn check(&self, offset: u64, bytes: &[u8]) {
        for (at, bytes) in (offset..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
            let sector = &self.sectors[(at / SECTOR) as usize];
            let state = sector.later.last().map_or(sector.durable, |(_, state)| *state);
            let Some(number) = state else { continue };
            assert!(
                bytes == bytes_of(number, at..at + SECTOR),
                "{}: the sector at {at} is of {:?} and should be of write {number}",
                self.device,
                writer_of(at, bytes)
            );
        }
    }

    /// Checks the whole region as a power loss has left it: what is there is durable now.
    pub fn check_after_power_loss<Q: DeviceQueue>(&mut self, h: &mut Harness<Q>) {
        let bytes = read_region(h, self.device);
        self.completed.clear();
        for (at, bytes) in (0..).step_by(SECTOR_BYTES).zip(bytes.chunks(SECTOR_BYTES)) {
            let sector = &mut self.sectors[(at / SECTOR) as usize];
            let seen = writer_of(at, bytes);
            let mut may = vec![sector.durable];
            may.extend(sector.later.drain(..).map(|(_, state)| state));
            assert!(
                may.contains(&None) || (seen.is_some() && may.contains(&seen)),
                "{}: after a power loss the sector at {at} is of {seen:?}; it may be of {may:?}, the first being durable",
                self.device,
            );
            sector.durable = seen;
        }
    }
}

/// The bytes of the region.
pub fn read_region<Q: DeviceQueue>(h: &mut Harness<Q>, device: DeviceId) -> Vec<u8> {
    let step = (256 << 10).min(h.geometry(device).request_bytes_max);
    let starts = (0..REGION_BYTES).step_by(step as usize);
    starts.flat_map(|offset| h.read(device, offset, step.min(REGION_BYTES - offset) as usize)).collect()
}
