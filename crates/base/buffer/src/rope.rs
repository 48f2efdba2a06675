//! A rope: bytes as a sequence of shared pieces.

use std::ops::Range;

use smallvec::SmallVec;

use crate::copied::count;
use crate::{Piece, PieceMut};

/// A byte string made of shared pieces, none of them empty. Cloning, joining and slicing copy no payload.
#[derive(Clone, Default)]
pub struct Rope {
    // Most ropes are one piece: no memory is taken for them.
    pieces: SmallVec<[Piece; 1]>,
    len: usize,
}

impl Rope {
    /// An empty rope.
    #[inline]
    pub fn new() -> Self {
        Self { pieces: SmallVec::new(), len: 0 }
    }

    /// An empty rope with room for so many pieces.
    pub fn with_capacity(pieces: usize) -> Self {
        Self { pieces: SmallVec::with_capacity(pieces), len: 0 }
    }

    /// A rope over a copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> Self {
        Piece::copy_from(bytes).into()
    }

    /// `len` zero bytes; long runs share one slab.
    pub fn zeros(len: usize) -> Self {
        const CHUNK: usize = 64 << 10;
        let mut rope = Self::new();
        let chunk = PieceMut::zeroed(len.min(CHUNK)).freeze();
        while rope.len < len {
            rope.push(chunk.slice(0..(len - rope.len).min(chunk.len())));
        }
        rope
    }

    /// Bytes held.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no byte.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces in order.
    #[inline]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Appends a piece; an empty one leaves no trace.
    #[inline]
    pub fn push(&mut self, piece: Piece) {
        if !piece.is_empty() {
            self.len += piece.len();
            self.pieces.push(piece);
        }
    }

    /// Appends another rope.
    pub fn append(&mut self, other: Rope) {
        if self.is_empty() {
            *self = other;
            return;
        }
        self.len += other.len;
        self.pieces.extend(other.pieces);
    }

    /// The bytes of `range`, sharing memory.
    ///
    /// # Panics
    /// If `range` reaches past the rope: the caller's mistake, never a peer's.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {} bytes", self.len);
        if range == (0..self.len) {
            return self.clone();
        }
        let mut out = Self::new();
        let mut at = 0;
        for piece in &self.pieces {
            let from = range.start.max(at);
            let to = range.end.min(at + piece.len());
            if from < to {
                out.push(piece.slice(from - at..to - at));
            }
            at += piece.len();
        }
        out
    }

    /// The first `len` bytes taken off the front, or `None` (and nothing taken) if there are fewer.
    pub fn split_front(&mut self, len: usize) -> Option<Rope> {
        if len > self.len {
            return None;
        }
        if len == self.len {
            return Some(std::mem::take(self));
        }
        let front = self.slice(0..len);
        *self = self.slice(len..self.len);
        Some(front)
    }

    /// One contiguous copy; a rope of one piece is shared instead of copied.
    pub fn to_piece(&self) -> Piece {
        match &self.pieces[..] {
            [] => Piece::empty(),
            [one] => one.clone(),
            _ => self.to_vec().into(),
        }
    }

    /// One contiguous copy.
    pub fn to_vec(&self) -> Vec<u8> {
        count(self.len);
        let mut out = Vec::with_capacity(self.len);
        self.pieces.iter().for_each(|p| out.extend_from_slice(p));
        out
    }

    /// Continues Ceph's crc32c from `seed` over all bytes.
    pub fn crc32c(&self, seed: u32) -> u32 {
        self.pieces.iter().fold(seed, |crc, piece| piece.crc32c(crc))
    }
}

impl From<Piece> for Rope {
    fn from(piece: Piece) -> Self {
        let mut rope = Self::new();
        rope.push(piece);
        rope
    }
}

impl From<Vec<u8>> for Rope {
    fn from(bytes: Vec<u8>) -> Self {
        Piece::from(bytes).into()
    }
}

impl PartialEq for Rope {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len
            && self.pieces.iter().flat_map(|p| p.iter()).eq(other.pieces.iter().flat_map(|p| p.iter()))
    }
}
impl Eq for Rope {}

impl std::fmt::Debug for Rope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rope({} bytes in {} pieces)", self.len, self.pieces.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crc32c;

    fn sample() -> Rope {
        let mut rope = Rope::copy_from(b"abc");
        rope.push(Piece::empty());
        rope.append(Rope::copy_from(b"defg"));
        rope.push(Piece::copy_from(b"h"));
        rope
    }

    #[test]
    fn every_slice_equals_the_slice_of_the_flat_bytes() {
        let (rope, flat) = (sample(), b"abcdefgh");
        for from in 0..=8 {
            for to in from..=8 {
                assert_eq!(rope.slice(from..to).to_vec(), &flat[from..to]);
            }
        }
        assert_eq!(rope.crc32c(!0), crc32c(!0, flat));
    }

    #[test]
    fn split_front_takes_nothing_when_too_short() {
        let mut rope = sample();
        assert_eq!(rope.split_front(9), None);
        assert_eq!(rope.split_front(4).unwrap().to_vec(), b"abcd");
        assert_eq!(rope.to_piece().as_slice(), b"efgh");
    }

    #[test]
    fn zeros_are_zeros() {
        let rope = Rope::zeros(200_000);
        assert_eq!(rope.len(), 200_000);
        assert!(rope.to_vec().iter().all(|&b| b == 0));
    }
}
