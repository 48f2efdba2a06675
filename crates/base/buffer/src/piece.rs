//! A piece: a range of a shared allocation that starts on a page boundary.

use std::ops::{Deref, Range};
use std::sync::Arc;

use crate::copied::{copy_payload, count};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Alignment of a slab's first byte, the unit of direct I/O and of stored checksums.
pub const ALIGN: usize = 4096;

/// A page of memory: an allocator gives whole ones without padding where a run of bytes would need a page more.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
struct Page([u8; ALIGN]);

/// The allocation under a piece.
enum Slab {
    /// Less than a page, or bytes that came from elsewhere: no alignment.
    Bytes(Vec<u8>),
    /// Whole pages.
    Pages(Vec<Page>),
}

impl Slab {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pages(pages) => pages.as_bytes(),
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pages(pages) => pages.as_mut_bytes(),
        }
    }
}

/// A uniquely owned, zero-filled buffer to receive into; [`PieceMut::freeze`] makes it shareable.
pub struct PieceMut {
    slab: Slab,
    len: usize,
}

impl PieceMut {
    /// `len` zero bytes whose first lies on a 4 KiB boundary when `len` is at least a page (smaller ones are not
    /// worth the padding). Pages are touched only when written.
    pub fn zeroed(len: usize) -> Self {
        let slab = match len {
            0..ALIGN => Slab::Bytes(vec![0; len]),
            // A vector of zero values comes from the allocator as it is: large ones are not touched here.
            _ => Slab::Pages(FromZeros::new_vec_zeroed(len.div_ceil(ALIGN)).unwrap_or_default()),
        };
        assert!(slab.as_slice().len() >= len, "memory for {len} bytes");
        Self { slab, len }
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

    /// The bytes to fill.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.slab.as_mut_slice()[..self.len]
    }

    /// Ends writing: the bytes can be shared from here on.
    #[inline]
    pub fn freeze(self) -> Piece {
        Piece { len: self.len, ..self.slab.into() }
    }
}

impl std::fmt::Debug for PieceMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PieceMut({} bytes)", self.len)
    }
}

/// A shared, immutable range of bytes. Cloning and slicing copy no payload; an empty piece has no memory.
#[derive(Clone, Default)]
pub struct Piece {
    slab: Option<Arc<Slab>>,
    start: usize,
    len: usize,
}

impl Piece {
    /// An empty piece.
    #[inline]
    pub const fn empty() -> Self {
        Self { slab: None, start: 0, len: 0 }
    }

    /// A copy of `bytes`; from a page on it is aligned as [`PieceMut::zeroed`] says.
    pub fn copy_from(bytes: &[u8]) -> Self {
        if bytes.len() < ALIGN {
            count(bytes.len());
            return bytes.to_vec().into();
        }
        let mut piece = PieceMut::zeroed(bytes.len());
        copy_payload(piece.as_mut_slice(), bytes);
        piece.freeze()
    }

    /// The sub-range `range` of this piece, sharing its memory.
    ///
    /// # Panics
    /// If `range` reaches past the piece: the caller's mistake, never a peer's.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len, "slice {range:?} of {} bytes", self.len);
        if range.is_empty() {
            return Self::empty();
        }
        Self { slab: self.slab.clone(), start: self.start + range.start, len: range.end - range.start }
    }

    /// The same bytes to keep for long: this piece, or a copy where the memory that it shares is much larger.
    pub fn compact(self) -> Self {
        let shared = self.slab.as_ref().map_or(0, |slab| slab.as_slice().len());
        if shared / 2 <= self.len { self } else { Self::copy_from(&self) }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.slab {
            Some(slab) => &slab.as_slice()[self.start..self.start + self.len],
            None => &[],
        }
    }
}

impl From<Slab> for Piece {
    fn from(slab: Slab) -> Self {
        let len = slab.as_slice().len();
        Self { slab: (len > 0).then(|| Arc::new(slab)), start: 0, len }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        Slab::Bytes(bytes).into()
    }
}

impl Deref for Piece {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl AsRef<[u8]> for Piece {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl PartialEq for Piece {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}
impl Eq for Piece {}

impl std::fmt::Debug for Piece {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Piece({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_or_more_starts_on_a_page_and_stays_there_when_frozen() {
        for len in [4096, 4097, 65536, 4 << 20] {
            let mut p = PieceMut::zeroed(len);
            p.as_mut_slice()[len - 1] = 7;
            let p = p.freeze();
            assert_eq!(p.as_ptr().align_offset(ALIGN), 0);
            assert_eq!((p.len(), p[len - 1]), (len, 7));
        }
    }

    #[test]
    fn a_small_part_of_much_memory_is_compacted_by_a_copy() {
        let large = Piece::copy_from(&[7; 8192]);
        let (part, most) = (large.slice(10..100).compact(), large.slice(0..5000).compact());
        assert_eq!((&part[..], most.as_ptr()), (&[7; 90][..], large.as_ptr()));
        assert_ne!(part.as_ptr(), large[10..].as_ptr());
        assert!(Piece::empty().compact().is_empty());
    }

    #[test]
    fn slices_share_memory() {
        let p = Piece::copy_from(b"hello world");
        let s = p.slice(6..11);
        assert_eq!(&s[..], b"world");
        assert_eq!(s.as_ptr(), p[6..].as_ptr());
        assert_eq!(&s.slice(1..3)[..], b"or");
    }
}
