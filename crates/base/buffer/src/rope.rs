//! A rope: bytes as a sequence of shared pieces.

use std::ops::Range;

use smallvec::SmallVec;

use crate::copied::{copy_payload, count};
use crate::{ALIGN, Piece, PieceMut, crc32c, crc32c_page};

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
        if len == 0 {
            return rope;
        }
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

    /// Appends a piece; an empty one leaves no trace, and one that lies in memory behind the last is joined to it: what
    /// was cut into blocks goes to a socket or a disk as one stretch of memory.
    #[inline]
    pub fn push(&mut self, piece: Piece) {
        if piece.is_empty() {
            return;
        }
        self.len += piece.len();
        match self.pieces.last_mut() {
            Some(last) if last.is_followed_by(&piece) => last.extend_by(piece.len()),
            _ => self.pieces.push(piece),
        }
    }

    /// Appends another rope.
    pub fn append(&mut self, other: Rope) {
        if self.is_empty() {
            *self = other;
            return;
        }
        other.pieces.into_iter().for_each(|piece| self.push(piece));
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

    /// The bytes of `range` as one piece: memory is shared if they lie in one, else they are copied.
    ///
    /// # Panics
    /// If `range` reaches past the rope: the caller's mistake, never a peer's.
    pub fn piece(&self, range: Range<usize>) -> Piece {
        let mut at = 0;
        for piece in &self.pieces {
            if at <= range.start && range.end <= at + piece.len() {
                return piece.slice(range.start - at..range.end - at);
            }
            at += piece.len();
        }
        self.slice(range).to_piece()
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

    /// The same bytes, whole pages of them on pages of memory: this rope if it lies so, else a copy, which has its pages'
    /// checksums.
    pub fn in_pages(self) -> Self {
        if self.lies_in_pages() {
            return self;
        }
        let mut out = PieceMut::to_fill(self.len);
        let bytes = out.as_mut_slice();
        let (mut at, mut crc, mut sums) = (0, !0, Vec::with_capacity(self.len / ALIGN));
        // Parts are checksummed while they are warm.
        for part in self.pieces.iter().flat_map(|piece| piece.chunks(8 * ALIGN)) {
            copy_payload(&mut bytes[at..at + part.len()], part);
            at += part.len();
            for page in bytes[sums.len() * ALIGN..at].chunks_exact(ALIGN) {
                let sum = crc32c(!0, page);
                crc = crc32c_page(crc, sum);
                sums.push(sum);
            }
        }
        crc = crc32c(crc, &bytes[sums.len() * ALIGN..]);
        out.freeze_with_sums(!0, crc, sums).into()
    }

    /// Whether each whole page of the bytes is one of memory.
    fn lies_in_pages(&self) -> bool {
        let pages_end = self.len - self.len % ALIGN;
        let mut at = 0;
        self.pieces.iter().all(|piece| {
            let start = at;
            at += piece.len();
            start >= pages_end || (start % ALIGN == 0 && piece.as_ptr().addr() % ALIGN == 0)
        })
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
    use crate::{checksummed_bytes, copied_bytes};

    fn sample() -> Rope {
        let mut rope = Rope::copy_from(b"abc");
        rope.push(Piece::empty());
        rope.append(Rope::copy_from(b"defg"));
        rope.push(Piece::copy_from(b"h"));
        rope
    }

    #[test]
    fn a_range_is_one_piece_whether_it_lies_in_one_or_not() {
        let rope = sample();
        let whole = rope.to_vec();
        for start in 0..=whole.len() {
            for end in start..=whole.len() {
                assert_eq!(&rope.piece(start..end)[..], &whole[start..end], "{start}..{end}");
            }
        }
        let copied = copied_bytes();
        rope.piece(0..2);
        assert_eq!(copied_bytes(), copied, "bytes of one piece are shared");
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
    fn neighbours_in_memory_are_one_piece_again() {
        let page = Piece::copy_from(&(0..8192u32).map(|i| (i / 7) as u8).collect::<Vec<u8>>());
        let mut rope = Rope::new();
        for from in (0..8192).step_by(1024) {
            rope.push(page.slice(from..from + 1024));
        }
        assert_eq!((rope.pieces().len(), rope.to_piece().as_ptr()), (1, page.as_ptr()));
        let mut joined = rope.slice(0..100);
        joined.append(rope.slice(100..300));
        assert_eq!((joined.pieces().len(), joined.len()), (1, 300));
        // Neither what comes before, nor a gap, nor the same place of other memory.
        let other = Piece::copy_from(&page);
        for next in [page.slice(0..100), page.slice(301..400), other.slice(300..400)] {
            let mut rope = joined.clone();
            rope.push(next.clone());
            assert_eq!(rope.pieces().len(), 2);
            assert_eq!(rope.to_vec(), [&page[..300], &next[..]].concat());
        }
    }

    #[test]
    fn bytes_get_pages_of_their_own_only_where_they_have_none() {
        let flat: Vec<u8> = (0..70_000u32).map(|i| (i * 5 + i / 256) as u8).collect();
        let memory = Rope::copy_from(&flat);
        let apart = |at: usize| {
            let mut rope = Rope::copy_from(&flat[..at]);
            rope.append(Rope::copy_from(&flat[at..]));
            rope
        };
        for (rope, copied) in [
            (memory.slice(0..70_000), 0),
            (memory.slice(4096..50_000), 0),
            (memory.slice(7..4000), 0),
            (apart(8192), 0),
            (memory.slice(40..60_040), 60_000),
            (memory.slice(7..4103), 4096),
            (apart(5000), 70_000),
        ] {
            let bytes = rope.to_vec();
            let before = copied_bytes();
            let paged = rope.in_pages();
            assert_eq!(copied_bytes() - before, copied);
            assert_eq!(paged.to_vec(), bytes);
            assert!(
                paged.pieces().iter().all(|piece| piece.as_ptr().addr() % ALIGN == 0) || bytes.len() < ALIGN
            );
            let (crc, before) = (crc32c(5, &bytes), checksummed_bytes());
            assert_eq!(paged.crc32c(5), crc);
            assert!(copied == 0 || checksummed_bytes() - before == copied % ALIGN as u64);
        }
    }

    #[test]
    fn zeros_are_zeros() {
        let rope = Rope::zeros(200_000);
        assert_eq!(rope.len(), 200_000);
        assert!(rope.to_vec().iter().all(|&b| b == 0));
    }
}
