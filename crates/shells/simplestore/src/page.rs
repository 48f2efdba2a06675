//! Pages of lists: entries until a limit.

use buffer::Piece;

pub struct Page<E> {
    pub entries: Vec<E>,
    /// Whether a limit ended it and more follow.
    pub more: bool,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl<E> Page<E> {
    /// At most `entries_max` entries, and `bytes_max` bytes unless the first entry alone has more.
    pub fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries: Vec::new(), more: false, bytes: 0, entries_max, bytes_max }
    }

    /// Takes an entry of `bytes` bytes; `false` when it didn't fit.
    pub fn push(&mut self, bytes: usize, entry: impl FnOnce() -> E) -> bool {
        self.bytes += bytes;
        self.more = self.entries.len() >= self.entries_max
            || (self.bytes > self.bytes_max && !self.entries.is_empty());
        if !self.more {
            self.entries.push(entry());
        }
        !self.more
    }
}

/// A value, or nothing of it where only keys are wanted.
pub fn value_if(wanted: bool, value: &[u8]) -> Piece {
    if wanted { Piece::copy_from(value) } else { Piece::empty() }
}
