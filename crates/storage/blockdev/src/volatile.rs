//! A disk's volatile write cache.

use std::collections::BTreeMap;

use types::SplitMix64;

use crate::SECTOR_BYTES;

/// A sector as a write left it.
type Sector = Box<[u8]>;

/// Writes that no flush has covered yet, by sector. Reads see them; the medium has none of them, except, given a seed,
/// a random subset that leaks out early, one sector at a time and in any order, as a real disk may write its cache back:
/// so a power loss leaves torn writes.
pub struct VolatileCache {
    sectors: BTreeMap<u64, Sector>,
    leaks: Option<Leaks>,
}

/// Sectors that will reach the medium before a flush, each with the bytes of the write that was chosen.
struct Leaks {
    random: SplitMix64,
    waiting: Vec<(u64, Sector)>,
}

impl VolatileCache {
    /// An empty cache. With a seed, each written sector leaks with a chance of one half.
    pub fn new(leak_seed: Option<u64>) -> Self {
        let leaks = leak_seed.map(|seed| Leaks { random: SplitMix64::new(seed), waiting: Vec::new() });
        Self { sectors: BTreeMap::new(), leaks }
    }

    /// Sectors held back.
    pub fn len(&self) -> usize {
        self.sectors.len()
    }

    /// Whether nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// Holds `data` for `offset`. A sector written in part that isn't held yet is read by `base`, which gets its offset
    /// and fills it with what the medium has.
    ///
    /// # Errors
    /// Those of `base`; then nothing is held of the sectors from that one on.
    pub fn write<E>(
        &mut self,
        offset: u64,
        data: &[u8],
        mut base: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let number = start / SECTOR_BYTES as u64;
            let within = (start % SECTOR_BYTES as u64) as usize;
            let len = (SECTOR_BYTES - within).min(data.len() - at);
            let part = &data[at..at + len];
            match self.sectors.get_mut(&number) {
                Some(sector) => sector[within..within + len].copy_from_slice(part),
                None => {
                    let mut sector = vec![0; SECTOR_BYTES].into_boxed_slice();
                    if len < SECTOR_BYTES {
                        base(number * SECTOR_BYTES as u64, &mut sector)?;
                    }
                    sector[within..within + len].copy_from_slice(part);
                    self.sectors.insert(number, sector);
                }
            }
            self.draw(number);
            at += len;
        }
        Ok(())
    }

    fn draw(&mut self, number: u64) {
        let (Some(leaks), Some(sector)) = (&mut self.leaks, self.sectors.get(&number)) else { return };
        if leaks.random.next_u64() & 1 == 0 {
            leaks.waiting.push((number, sector.clone()));
        }
    }

    /// Lays what is held over `out`, the medium's bytes from `offset` on.
    pub fn overlay(&self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        let sector_bytes = SECTOR_BYTES as u64;
        for (number, sector) in self.sectors.range(offset / sector_bytes..end.div_ceil(sector_bytes)) {
            let start = number * sector_bytes;
            let (from, to) = (start.max(offset), (start + sector_bytes).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&sector[(from - start) as usize..(to - start) as usize]);
        }
    }

    /// One sector, and its offset, that reaches the medium now although no flush asked for it; `None` if none is to.
    pub fn leak(&mut self) -> Option<(u64, Box<[u8]>)> {
        let leaks = self.leaks.as_mut().filter(|l| !l.waiting.is_empty())?;
        let chosen = leaks.random.below(leaks.waiting.len() as u64);
        let (number, sector) = leaks.waiting.swap_remove(chosen as usize);
        Some((number * SECTOR_BYTES as u64, sector))
    }

    /// Everything held, to be written and then flushed: offsets and sectors. With a seed in random order.
    pub fn take(&mut self) -> Vec<(u64, Box<[u8]>)> {
        let sector_bytes = SECTOR_BYTES as u64;
        let mut all: Vec<_> =
            std::mem::take(&mut self.sectors).into_iter().map(|(n, b)| (n * sector_bytes, b)).collect();
        if let Some(leaks) = &mut self.leaks {
            // An older state of a sector must not follow the newest.
            leaks.waiting.clear();
            for i in (1..all.len()).rev() {
                let j = leaks.random.below(i as u64 + 1);
                all.swap(i, j as usize);
            }
        }
        all
    }

    /// Forgets the sectors that lie whole in a range: the medium has newer bytes.
    pub fn forget(&mut self, offset: u64, len: u64) {
        let sector_bytes = SECTOR_BYTES as u64;
        let range = offset.div_ceil(sector_bytes)..(offset + len) / sector_bytes;
        self.sectors.retain(|number, _| !range.contains(number));
        if let Some(leaks) = &mut self.leaks {
            leaks.waiting.retain(|(number, _)| !range.contains(number));
        }
    }

    /// Forgets the sectors at or behind `len`, the device's new end.
    pub fn truncate(&mut self, len: u64) {
        let sector_bytes = SECTOR_BYTES as u64;
        self.sectors.split_off(&len.div_ceil(sector_bytes));
        if let Some(sector) = self.sectors.get_mut(&(len / sector_bytes)) {
            sector[(len % sector_bytes) as usize..].fill(0);
        }
        if let Some(leaks) = &mut self.leaks {
            leaks.waiting.retain(|(number, _)| (number + 1) * sector_bytes <= len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const B: usize = SECTOR_BYTES;

    fn write(cache: &mut VolatileCache, medium: &[u8], offset: u64, data: &[u8]) {
        let base = |at: u64, out: &mut [u8]| {
            out.copy_from_slice(&medium[at as usize..at as usize + B]);
            Ok::<_, Infallible>(())
        };
        cache.write(offset, data, base).unwrap();
    }

    fn read(cache: &VolatileCache, medium: &[u8], offset: usize, len: usize) -> Vec<u8> {
        let mut out = medium[offset..offset + len].to_vec();
        cache.overlay(offset as u64, &mut out);
        out
    }

    #[test]
    fn reads_see_writes_and_the_medium_does_not_until_taken() {
        let mut medium = vec![1; 8 * B];
        let mut want = medium.clone();
        let mut cache = VolatileCache::new(None);
        for (offset, len, byte) in
            [(0, B, 2), (100, 10, 3), (B - 5, 10, 4), (3 * B + 1, 2 * B, 5), (7, 3 * B, 6)]
        {
            write(&mut cache, &medium, offset as u64, &vec![byte; len]);
            want[offset..offset + len].fill(byte);
            for (at, n) in [(0, 8 * B), (50, 100), (B - 1, 2), (4 * B, B), (6 * B, 2 * B)] {
                assert_eq!(read(&cache, &medium, at, n), &want[at..at + n]);
            }
        }
        assert_eq!(cache.leak(), None, "nothing leaks without a seed");
        for (offset, sector) in cache.take() {
            medium[offset as usize..offset as usize + B].copy_from_slice(&sector);
        }
        assert!(medium == want && cache.is_empty());
    }

    #[test]
    fn with_a_seed_some_sectors_leak_whole_and_out_of_order() {
        let medium = vec![0; 64 * B];
        let mut cache = VolatileCache::new(Some(7));
        let data: Vec<u8> = (0..64 * B).map(|i| (i / B) as u8 + 1).collect();
        write(&mut cache, &medium, 0, &data);
        let leaked: Vec<(u64, Box<[u8]>)> = std::iter::from_fn(|| cache.leak()).collect();
        assert!((16..48).contains(&leaked.len()), "{} of 64", leaked.len());
        assert!(!leaked.is_sorted_by_key(|l| l.0));
        for (offset, sector) in &leaked {
            assert!(sector.iter().all(|&b| u64::from(b) == offset / B as u64 + 1));
        }
        assert_eq!(cache.len(), 64, "what leaked is still to be flushed");
    }

    #[test]
    fn nothing_older_leaks_after_a_flush() {
        let medium = vec![0; 8 * B];
        let mut cache = VolatileCache::new(Some(1));
        (0..20u8).for_each(|i| write(&mut cache, &medium, 0, &vec![i; 8 * B]));
        assert_eq!(cache.take().len(), 8);
        assert_eq!(cache.leak(), None);
    }

    #[test]
    fn what_is_forgotten_neither_leaks_nor_is_taken() {
        let medium = vec![0; 8 * B];
        let mut cache = VolatileCache::new(Some(1));
        (0..9u8).for_each(|i| write(&mut cache, &medium, 0, &vec![i; 8 * B]));
        cache.forget(B as u64 - 1, 3 * B as u64);
        let kept = |offset: u64| ![B as u64, 2 * B as u64].contains(&offset);
        assert!(std::iter::from_fn(|| cache.leak()).all(|(offset, _)| kept(offset)));
        let taken = cache.take();
        assert!(taken.len() == 6 && taken.iter().all(|(offset, _)| kept(*offset)));
    }

    #[test]
    fn a_shorter_device_forgets_what_lay_behind() {
        let medium = vec![0; 8 * B];
        let mut cache = VolatileCache::new(Some(3));
        write(&mut cache, &medium, 0, &vec![9; 4 * B]);
        cache.truncate(B as u64 + 10);
        assert_eq!(cache.len(), 2);
        assert_eq!(read(&cache, &medium, B, 20), [[9; 10], [0; 10]].concat());
        while let Some((offset, _)) = cache.leak() {
            assert_eq!(offset, 0);
        }
    }
}
