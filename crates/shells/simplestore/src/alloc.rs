//! Free space of the image: a bit a block, rebuilt from the metadata when a store is opened.

/// Which blocks are in use.
pub struct Allocator {
    words: Vec<u64>,
    blocks: u64,
    free: u64,
    /// Where the last search ended: the next begins there, so that writes lie one after the other.
    cursor: u64,
}

/// Blocks that lie one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first.
    pub start: u64,
    /// How many.
    pub len: u64,
}

impl Allocator {
    /// All of `blocks` free.
    pub fn new(blocks: u64) -> Self {
        Self { words: vec![0; blocks.div_ceil(64) as usize], blocks, free: blocks, cursor: 0 }
    }

    /// Blocks in all.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks not in use.
    pub fn free_blocks(&self) -> u64 {
        self.free
    }

    fn is_used(&self, block: u64) -> bool {
        self.words[(block / 64) as usize] & (1 << (block % 64)) != 0
    }

    /// Notes that a block is in use; `false` if it was already, or lies outside.
    pub fn mark_used(&mut self, block: u64) -> bool {
        if block >= self.blocks || self.is_used(block) {
            return false;
        }
        self.words[(block / 64) as usize] |= 1 << (block % 64);
        self.free -= 1;
        true
    }

    /// Gives a block back.
    pub fn release(&mut self, block: u64) {
        if block < self.blocks && self.is_used(block) {
            self.words[(block / 64) as usize] &= !(1 << (block % 64));
            self.free += 1;
        }
    }

    /// `count` blocks in as few runs as lie ahead, or `None` (and nothing taken) if there are fewer.
    pub fn allocate(&mut self, count: u64) -> Option<Vec<Run>> {
        if count > self.free {
            return None;
        }
        let mut runs: Vec<Run> = Vec::new();
        let mut left = count;
        while left > 0 {
            let block = self.next_free();
            self.mark_used(block);
            self.cursor = block + 1;
            left -= 1;
            match runs.last_mut() {
                Some(run) if run.start + run.len == block => run.len += 1,
                _ => runs.push(Run { start: block, len: 1 }),
            }
        }
        Some(runs)
    }

    /// The first free block from the cursor on, around the end; there is one.
    fn next_free(&self) -> u64 {
        let mut block = if self.cursor >= self.blocks { 0 } else { self.cursor };
        loop {
            let word = self.words[(block / 64) as usize] | ((1u64 << (block % 64)) - 1);
            let found = block / 64 * 64 + u64::from(word.trailing_ones());
            if word != u64::MAX && found < self.blocks {
                return found;
            }
            block = (block / 64 + 1) * 64;
            if block >= self.blocks {
                block = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_given_once_until_released() {
        let mut a = Allocator::new(200);
        assert_eq!(a.allocate(130), Some(vec![Run { start: 0, len: 130 }]));
        (0..130).step_by(2).for_each(|b| a.release(b));
        assert_eq!(a.free_blocks(), 135);
        assert_eq!(a.allocate(136), None);
        let runs = a.allocate(135).unwrap();
        let mut got: Vec<u64> = runs.iter().flat_map(|r| r.start..r.start + r.len).collect();
        assert_eq!(got[..70], (130..200).collect::<Vec<_>>()[..]);
        got.sort_unstable();
        got.dedup();
        assert_eq!((got.len(), a.free_blocks()), (135, 0));
        assert_eq!(a.allocate(0), Some(vec![]));
        assert!(!a.mark_used(3) && !a.mark_used(200));
    }
}
