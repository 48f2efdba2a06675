//! A simulated disk's bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use buffer::Rope;
use types::SplitMix64;

use crate::SECTOR_BYTES;

const PAGE_BYTES: u64 = 4096;
const SECTOR: u64 = SECTOR_BYTES as u64;

/// Shared by copies of a disk until one changes it: a test loses power many times, and keeps what the disk was.
type Page = Arc<[u8; PAGE_BYTES as usize]>;

/// Bytes by page. A page that was never written holds bytes that the seed gives: a new disk is not empty.
#[derive(Clone)]
pub struct Pages {
    pages: BTreeMap<u64, Page>,
    seed: u64,
}

impl Pages {
    pub fn new(seed: u64) -> Self {
        Self { pages: BTreeMap::new(), seed }
    }

    fn fresh(seed: u64, number: u64) -> Page {
        let mut page = [0; PAGE_BYTES as usize];
        let mut random = SplitMix64::new(SplitMix64::at(seed, number));
        page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&random.next_u64().to_le_bytes()));
        Arc::new(page)
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) {
        for (number, within, part) in parts(offset, out.len()) {
            let out = &mut out[part];
            match self.pages.get(&number) {
                Some(page) => out.copy_from_slice(&page[within..within + out.len()]),
                None => {
                    let page = Self::fresh(self.seed, number);
                    out.copy_from_slice(&page[within..within + out.len()]);
                }
            }
        }
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        let seed = self.seed;
        for (number, within, part) in parts(offset, bytes.len()) {
            let page = self.pages.entry(number).or_insert_with(|| Self::fresh(seed, number));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(&bytes[part]);
        }
    }

    /// Changes one sector.
    fn sector(&mut self, offset: u64) -> &mut [u8] {
        let (seed, number) = (self.seed, offset / PAGE_BYTES);
        let within = (offset % PAGE_BYTES) as usize;
        let page = self.pages.entry(number).or_insert_with(|| Self::fresh(seed, number));
        &mut Arc::make_mut(page)[within..within + SECTOR_BYTES]
    }

    /// Flips a bit of a byte.
    pub fn flip(&mut self, offset: u64, bit: u32) {
        self.sector(offset / SECTOR * SECTOR)[(offset % SECTOR) as usize] ^= 1 << (bit % 8);
    }
}

/// The pages that a range covers: the page's number, where in it the range begins, and the part of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = offset + at as u64;
        let within = (start % PAGE_BYTES) as usize;
        let part = at..(at + PAGE_BYTES as usize - within).min(len);
        at = part.end;
        (!part.is_empty()).then_some((start / PAGE_BYTES, within, part))
    })
}

/// What a request does to the bytes.
#[derive(Clone)]
pub enum Change {
    Bytes(Rope),
    /// Each sector is left, zeroed or filled with other bytes, as the seed says.
    Discard {
        len: u64,
        seed: u64,
    },
}

/// A change that the device has taken and that is not durable. Whole sectors.
#[derive(Clone)]
pub struct Record {
    /// Grows with each change of a device: a flush covers those below a number.
    pub number: u64,
    pub offset: u64,
    pub change: Change,
}

impl Record {
    pub fn range(&self) -> Range<u64> {
        let len = match &self.change {
            Change::Bytes(data) => data.len() as u64,
            Change::Discard { len, .. } => *len,
        };
        self.offset..self.offset + len
    }

    /// The part of the change that lies in `range`, if there is one.
    pub fn within(&self, range: Range<u64>) -> Option<Self> {
        let own = self.range();
        let (from, to) = (own.start.max(range.start), own.end.min(range.end));
        let change = match &self.change {
            _ if from >= to => return None,
            Change::Bytes(data) => {
                Change::Bytes(data.slice((from - own.start) as usize..(to - own.start) as usize))
            }
            Change::Discard { seed, .. } => Change::Discard { len: to - from, seed: *seed },
        };
        Some(Self { number: self.number, offset: from, change })
    }

    pub fn apply(&self, pages: &mut Pages) {
        match &self.change {
            Change::Bytes(data) => {
                let mut at = self.offset;
                for piece in data.pieces() {
                    pages.write(at, piece);
                    at += piece.len() as u64;
                }
            }
            Change::Discard { seed, .. } => {
                let range = self.range();
                // What was never written is unspecified anyway.
                let of_pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
                let there: Vec<u64> = pages.pages.range(of_pages).map(|(number, _)| *number).collect();
                let sectors = there.iter().flat_map(|n| (0..PAGE_BYTES / SECTOR).map(move |s| n * 8 + s));
                for sector in sectors.filter(|s| range.contains(&(s * SECTOR))) {
                    let lot = SplitMix64::at(*seed, sector);
                    match lot % 3 {
                        0 => {}
                        1 => pages.sector(sector * SECTOR).fill(0),
                        _ => pages.sector(sector * SECTOR).fill((lot >> 8) as u8),
                    }
                }
            }
        }
    }

    /// The change cut into sectors.
    pub fn sectors(&self) -> impl Iterator<Item = Self> {
        let range = self.range();
        range.step_by(SECTOR_BYTES).filter_map(|at| self.within(at..at + SECTOR))
    }
}

/// Takes a range out of the records: what follows has replaced it.
pub fn cut(records: &mut Vec<Record>, range: &Range<u64>) {
    if !records.iter().any(|r| r.range().start < range.end && range.start < r.range().end) {
        return;
    }
    let all = std::mem::take(records);
    let around = |record: Record| [record.within(0..range.start), record.within(range.end..u64::MAX)];
    records.extend(all.into_iter().flat_map(around).flatten());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_a_cut_record_leaves_its_range_alone() {
        let mut pages = Pages::new(1);
        let mut before = vec![0; 16 << 10];
        pages.read(0, &mut before);
        assert!(before.iter().any(|&b| b != 0), "a new disk is not empty");
        let record = |offset, len, byte| Record {
            number: 0,
            offset,
            change: Change::Bytes(Rope::copy_from(&vec![byte; len])),
        };
        let mut records = vec![record(512, 8192, 7), record(1024, 512, 8)];
        cut(&mut records, &(1024..2048));
        assert_eq!(records.iter().map(Record::range).collect::<Vec<_>>(), [512..1024, 2048..8704]);
        records.iter().for_each(|r| r.apply(&mut pages));
        let mut after = before.clone();
        after[512..1024].fill(7);
        after[2048..8704].fill(7);
        let mut seen = vec![0; 16 << 10];
        pages.read(0, &mut seen);
        assert!(seen == after);
        assert_eq!(records[1].sectors().count(), 13);
    }
}
