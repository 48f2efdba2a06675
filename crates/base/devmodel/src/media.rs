//! What a model writes to in the end: a disk, an SSD, or disks as a RAID0.

use std::collections::BTreeMap;

use crate::Nanos;
use crate::disk::Disk;
use crate::sheet::{Base, Sheet};
use crate::ssd::Ssd;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) enum Media {
    Disk(Box<Disk>),
    Ssd(Ssd),
    Raid0(Raid0),
}

impl Media {
    pub(crate) fn new(sheet: &Sheet, bytes: u64) -> Self {
        match sheet.base() {
            Base::Disk => Self::Disk(Box::new(Disk::new(sheet, bytes, 0.0))),
            Base::Ssd => Self::Ssd(Ssd::new(sheet)),
            Base::Raid0(n) => Self::Raid0(Raid0::new(sheet, bytes, n)),
        }
    }

    /// What a flush takes when nothing is held back, and any command without data.
    pub(crate) fn flush(&self) -> Nanos {
        match self {
            Self::Disk(disk) => disk.command(),
            Self::Ssd(ssd) => ssd.flush(),
            // It goes to all, and all take the same.
            Self::Raid0(raid) => raid.members.first().map_or(0, Disk::command),
        }
    }

    /// A command comes. Everything up to `now` has been stepped through, and no command in flight has its tag.
    pub(crate) fn submit(&mut self, now: Nanos, tag: u64, write: bool, offset: u64, length: u64) {
        match self {
            Self::Disk(disk) => disk.submit(now, tag, write, offset, length),
            Self::Ssd(ssd) => ssd.submit(now, tag, write, length),
            Self::Raid0(raid) => raid.submit(now, tag, write, offset, length),
        }
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Disk(disk) => disk.next_event(),
            Self::Ssd(ssd) => ssd.next_event(),
            Self::Raid0(raid) => raid.members.iter().filter_map(Disk::next_event).min(),
        }
    }

    /// The next completion up to `now`: the command's tag, and when it was done.
    pub(crate) fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        match self {
            Self::Disk(disk) => disk.step(now),
            Self::Ssd(ssd) => ssd.step(now),
            Self::Raid0(raid) => raid.step(now),
        }
    }
}

/// Disks of the same kind that a range is spread over, stripe by stripe.
#[derive(Clone, Debug)]
pub(crate) struct Raid0 {
    members: Vec<Disk>,
    stripe: u64,
    /// How many members a command still waits for.
    open: BTreeMap<u64, u32>,
}

impl Raid0 {
    fn new(sheet: &Sheet, bytes: u64, n: u32) -> Self {
        let stripe = sheet.number("stripe") as u64;
        let each = bytes.div_ceil(stripe * u64::from(n)) * stripe;
        // Spindles are not in step.
        let member = |i: u32| Disk::new(sheet, each, f64::from(i) / f64::from(n));
        Self { members: (0..n).map(member).collect(), stripe, open: BTreeMap::new() }
    }

    /// A member's part of a range: it is in one piece there. First byte and length, which may be 0.
    fn part(&self, member: u64, offset: u64, end: u64) -> (u64, u64) {
        let n = self.members.len() as u64;
        // How many of the first `x` bytes are the member's.
        let before = |x: u64| {
            let (rounds, rest) = (x / (self.stripe * n), x % (self.stripe * n));
            rounds * self.stripe + rest.saturating_sub(member * self.stripe).min(self.stripe)
        };
        (before(offset), before(end) - before(offset))
    }

    fn submit(&mut self, now: Nanos, tag: u64, write: bool, offset: u64, length: u64) {
        let mut pieces = 0;
        for member in 0..self.members.len() {
            let (from, bytes) = self.part(member as u64, offset, offset + length);
            if bytes > 0 {
                self.members[member].submit(now, tag, write, from, bytes);
                pieces += 1;
            }
        }
        self.open.insert(tag, pieces);
    }

    fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        loop {
            let next = self.members.iter_mut().filter_map(|m| m.next_event().map(|at| (at, m)));
            let (at, member) = next.min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= now)?;
            let Some((tag, at)) = member.step(at) else { continue };
            let Some(left) = self.open.get_mut(&tag) else { continue };
            *left -= 1;
            if *left == 0 {
                self.open.remove(&tag);
                return Some((tag, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_split_without_a_gap_or_a_byte_twice() {
        let sheet = Sheet::read("raid0-of-3", &[("stripe".into(), "4K".into())]).unwrap();
        let raid = Raid0::new(&sheet, 1 << 30, 3);
        for (offset, end) in [(0, 4096), (0, 1 << 20), (100, 20_000), (4095, 4097), (8192, 12_288), (5, 6)] {
            let parts: Vec<_> = (0..3).map(|m| raid.part(m, offset, end)).collect();
            assert_eq!(parts.iter().map(|p| p.1).sum::<u64>(), end - offset);
            for byte in offset..end.min(offset + 30_000) {
                let (member, at) = (byte / 4096 % 3, byte / 4096 / 3 * 4096 + byte % 4096);
                let (from, length) = parts[member as usize];
                assert!((from..from + length).contains(&at), "{byte} of {offset}..{end}");
            }
        }
    }
}
