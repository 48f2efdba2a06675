//! A disk's volatile write cache.

use std::collections::BTreeMap;

use types::SplitMix64;

/// What reaches the medium whole or not at all, bytes.
pub const BLOCK_BYTES: usize = 4096;

/// A block as a write left it.
type Block = Box<[u8]>;

/// Writes that no flush has covered yet, by 4 KiB block. Reads see them; the medium has none of them, except, given a
/// seed, a random subset that leaks out early, one block at a time and in any order, as a real disk may write back what
/// it likes: so a power loss leaves torn writes.
pub struct VolatileCache {
    blocks: BTreeMap<u64, Block>,
    leaks: Option<Leaks>,
}

/// Blocks that will reach the medium before a flush, each as the write that drew the lot left it.
struct Leaks {
    random: SplitMix64,
    waiting: Vec<(u64, Block)>,
}

impl VolatileCache {
    /// An empty cache. With a seed, each written block leaks with a chance of one half.
    pub fn new(leak_seed: Option<u64>) -> Self {
        let leaks = leak_seed.map(|seed| Leaks { random: SplitMix64::new(seed), waiting: Vec::new() });
        Self { blocks: BTreeMap::new(), leaks }
    }

    /// Blocks held back.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether nothing is held back.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Holds `data` for `offset`. A block written in part that isn't held yet is read by `base`, which gets its offset
    /// and fills it with what the medium has.
    ///
    /// # Errors
    /// Those of `base`; then nothing is held of the blocks from that one on.
    pub fn write<E>(
        &mut self,
        offset: u64,
        data: &[u8],
        mut base: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let number = start / BLOCK_BYTES as u64;
            let within = (start % BLOCK_BYTES as u64) as usize;
            let len = (BLOCK_BYTES - within).min(data.len() - at);
            let part = &data[at..at + len];
            match self.blocks.get_mut(&number) {
                Some(block) => block[within..within + len].copy_from_slice(part),
                None => {
                    let mut block = vec![0; BLOCK_BYTES].into_boxed_slice();
                    if len < BLOCK_BYTES {
                        base(number * BLOCK_BYTES as u64, &mut block)?;
                    }
                    block[within..within + len].copy_from_slice(part);
                    self.blocks.insert(number, block);
                }
            }
            self.draw(number);
            at += len;
        }
        Ok(())
    }

    fn draw(&mut self, number: u64) {
        let (Some(leaks), Some(block)) = (&mut self.leaks, self.blocks.get(&number)) else { return };
        if leaks.random.next_u64() & 1 == 0 {
            leaks.waiting.push((number, block.clone()));
        }
    }

    /// Lays what is held over `out`, the medium's bytes from `offset` on.
    pub fn overlay(&self, offset: u64, out: &mut [u8]) {
        let end = offset + out.len() as u64;
        let block_bytes = BLOCK_BYTES as u64;
        for (number, block) in self.blocks.range(offset / block_bytes..end.div_ceil(block_bytes)) {
            let start = number * block_bytes;
            let (from, to) = (start.max(offset), (start + block_bytes).min(end));
            out[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&block[(from - start) as usize..(to - start) as usize]);
        }
    }

    /// One block, and its offset, that reaches the medium now although no flush asked for it; `None` if none is to.
    pub fn leak(&mut self) -> Option<(u64, Box<[u8]>)> {
        let leaks = self.leaks.as_mut().filter(|l| !l.waiting.is_empty())?;
        let chosen = leaks.random.below(leaks.waiting.len() as u64);
        let (number, block) = leaks.waiting.swap_remove(chosen as usize);
        Some((number * BLOCK_BYTES as u64, block))
    }

    /// Everything held, to be written and then flushed: offsets and blocks. With a seed in random order.
    pub fn take(&mut self) -> Vec<(u64, Box<[u8]>)> {
        let block_bytes = BLOCK_BYTES as u64;
        let mut all: Vec<_> =
            std::mem::take(&mut self.blocks).into_iter().map(|(n, b)| (n * block_bytes, b)).collect();
        if let Some(leaks) = &mut self.leaks {
            // An older state of a block must not follow the newest.
            leaks.waiting.clear();
            for i in (1..all.len()).rev() {
                let j = leaks.random.below(i as u64 + 1);
                all.swap(i, j as usize);
            }
        }
        all
    }

    /// Forgets what lies at or behind `len`, the device's new end.
    pub fn truncate(&mut self, len: u64) {
        let block_bytes = BLOCK_BYTES as u64;
        self.blocks.split_off(&len.div_ceil(block_bytes));
        if let Some(block) = self.blocks.get_mut(&(len / block_bytes)) {
            block[(len % block_bytes) as usize..].fill(0);
        }
        if let Some(leaks) = &mut self.leaks {
            leaks.waiting.retain(|(number, _)| (number + 1) * block_bytes <= len);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    const B: usize = BLOCK_BYTES;

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
        for (offset, block) in cache.take() {
            medium[offset as usize..offset as usize + B].copy_from_slice(&block);
        }
        assert!(medium == want && cache.is_empty());
    }

    #[test]
    fn with_a_seed_some_blocks_leak_whole_and_out_of_order() {
        let medium = vec![0; 64 * B];
        let mut cache = VolatileCache::new(Some(7));
        let data: Vec<u8> = (0..64 * B).map(|i| (i / B) as u8 + 1).collect();
        write(&mut cache, &medium, 0, &data);
        let leaked: Vec<(u64, Box<[u8]>)> = std::iter::from_fn(|| cache.leak()).collect();
        assert!((16..48).contains(&leaked.len()), "{} of 64", leaked.len());
        assert!(!leaked.is_sorted_by_key(|l| l.0));
        for (offset, block) in &leaked {
            assert!(block.iter().all(|&b| u64::from(b) == offset / B as u64 + 1));
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
