//! A piece: a range of a shared allocation that starts on a page boundary.

use std::borrow::Cow;
use std::ops::{Deref, Range};
use std::slice;
use std::sync::{Arc, OnceLock};

use crate::copied::{copy_payload, count};
use crate::crc::{crc32c_page, uncounted};
use crate::crc32c;
use crate::huge;
use crate::pages::{Page, Pooled};
use crate::runs;
use zerocopy::{FromZeros, IntoBytes};

/// Alignment of a slab's first byte, the unit of direct I/O and of stored checksums.
pub const ALIGN: usize = 4096;

/// Bytes up to which a piece lies behind its own counter; a vector is copied for that, once. It spares 80 bytes a piece and one
/// miss of the processor's caches: a store in memory keeps several encodings for each object.
const SMALL_MAX: usize = 1024;

static ZEROS: [u8; SMALL_MAX] = [0; SMALL_MAX];

/// The memory under a piece.
#[derive(Clone)]
enum Memory {
    /// Few bytes, which lie behind their counter.
    Small(Arc<[u8]>),
    /// `None` under an empty piece.
    Slab(Option<Arc<Slab>>),
}

/// An allocation whose counter lies apart from its bytes.
enum Slab {
    /// Less than a page, or bytes that came from elsewhere: no alignment.
    Bytes(Vec<u8>),
    /// Whole pages.
    Pages(Box<Pages>),
    /// One page that lies apart.
    Page { page: Pooled, whole: OnceLock<Checksum>, sum: OnceLock<u32> },
}

/// Whole pages, and checksums of their bytes once they were taken: payload is received, stored and sent again without
/// being looked at otherwise.
struct Pages {
    pages: Run,
    whole: OnceLock<Checksum>,
    /// The crc32c, from all ones, of each of the first pages.
    sums: OnceLock<Box<[u32]>>,
}

/// Where whole pages come from, and go to.
enum Run {
    Allocated(Box<[Page]>),
    /// Kept for the next buffer that will be filled. Others would only take the room of those.
    Refilled(Box<[Page]>),
    Huge(huge::Run),
}

impl Run {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Allocated(pages) | Self::Refilled(pages) => pages.as_bytes(),
            Self::Huge(pages) => pages.as_bytes(),
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(pages) | Self::Refilled(pages) => pages.as_mut_bytes(),
            Self::Huge(pages) => pages.as_mut_bytes(),
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Self::Refilled(pages) = self {
            runs::put(std::mem::take(pages));
        }
    }
}

/// The crc32c of a slab's first `len` bytes, continued from `seed`.
struct Checksum {
    len: u32,
    seed: u32,
    crc: u32,
}

impl Memory {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Small(bytes) => bytes,
            Self::Slab(slab) => slab.as_deref().map_or(&[], Slab::as_slice),
        }
    }

    #[inline]
    fn slab(&self) -> Option<&Slab> {
        match self {
            Self::Small(_) => None,
            Self::Slab(slab) => slab.as_deref(),
        }
    }
}

impl Slab {
    #[inline]
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pages(pages) => pages.pages.as_slice(),
            Self::Page { page, .. } => page.as_slice(),
        }
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Pages(pages) => pages.pages.as_mut_slice(),
            Self::Page { page, .. } => page.as_mut_slice(),
        }
    }

    /// Where the checksum of the bytes is kept, if it is.
    #[inline]
    fn whole(&self) -> Option<&OnceLock<Checksum>> {
        match self {
            Self::Bytes(_) => None,
            Self::Pages(pages) => Some(&pages.whole),
            Self::Page { whole, .. } => Some(whole),
        }
    }

    /// The crc32c, from all ones, of each of the first pages, if they are known.
    #[inline]
    fn page_sums(&self) -> Option<&[u32]> {
        match self {
            Self::Bytes(_) => None,
            Self::Pages(pages) => pages.sums.get().map(|sums| &**sums),
            Self::Page { sum, .. } => sum.get().map(slice::from_ref),
        }
    }

    /// Whole pages of zeros.
    #[inline]
    fn zeroed(pages: usize) -> Self {
        match (pages == 1).then(Pooled::zeroed).flatten() {
            Some(page) => Self::page(page),
            // Zero values come from the allocator as they are: large memory is not touched here.
            None => Self::pages(Run::Allocated(allocated(pages))),
        }
    }

    #[inline]
    fn page(page: Pooled) -> Self {
        Self::Page { page, whole: OnceLock::new(), sum: OnceLock::new() }
    }

    fn pages(pages: Run) -> Self {
        Self::Pages(Box::new(Pages { pages, whole: OnceLock::new(), sums: OnceLock::new() }))
    }
}

/// Pages of zeros; none where the system has no memory.
fn allocated(pages: usize) -> Box<[Page]> {
    <[Page]>::new_box_zeroed_with_elems(pages).unwrap_or_default()
}

/// A uniquely owned buffer to receive into; [`PieceMut::freeze`] makes it shareable.
pub struct PieceMut {
    memory: Filling,
    len: usize,
}

/// Memory that has one owner.
enum Filling {
    Small(Arc<[u8]>),
    Slab(Slab),
}

impl PieceMut {
    /// `len` zero bytes whose first lies on a 4 KiB boundary when `len` is at least a page (smaller ones are not
    /// worth the padding). Pages are touched only when written.
    ///
    /// # Panics
    /// If the system has no memory left.
    pub fn zeroed(len: usize) -> Self {
        if len <= SMALL_MAX {
            return Self { memory: Filling::Small(ZEROS[..len].into()), len };
        }
        let slab = match len {
            0..ALIGN => Slab::Bytes(vec![0; len]),
            _ => Slab::zeroed(len.div_ceil(ALIGN)),
        };
        assert!(slab.as_slice().len() >= len, "memory for {len} bytes");
        Self { memory: Filling::Slab(slab), len }
    }

    /// The same, of any content: for a caller who fills all of it before anyone else sees it. From a page on it is memory that was
    /// used before, if there is some, and nothing clears it.
    ///
    /// # Panics
    /// If the system has no memory left.
    pub fn to_fill(len: usize) -> Self {
        match len {
            0..ALIGN => Self::zeroed(len).with_any_content(),
            ALIGN => Self::of_slab(Pooled::to_fill().map_or_else(|| Slab::zeroed(1), Slab::page), len),
            _ => {
                let pages = len.div_ceil(ALIGN);
                let run = Run::Refilled(runs::take(pages).unwrap_or_else(|| allocated(pages)));
                Self::of_slab(Slab::pages(run), len)
            }
        }
    }

    /// The same for bytes that go to a device or come from one and that no cache keeps: in huge pages, if some are free
    /// ([`set_huge_pages`](crate::set_huge_pages)).
    ///
    /// # Panics
    /// If the system has no memory left.
    pub fn to_receive(len: usize) -> Self {
        match huge::Run::take(len.div_ceil(ALIGN)) {
            Some(run) => Self::of_slab(Slab::pages(Run::Huge(run)), len),
            None => Self::to_fill(len),
        }
    }

    fn of_slab(slab: Slab, len: usize) -> Self {
        assert!(slab.as_slice().len() >= len, "memory for {len} bytes");
        Self { memory: Filling::Slab(slab), len }.with_any_content()
    }

    /// A caller who counts on zeros, or who leaves a part as it was, is found by the tests.
    fn with_any_content(mut self) -> Self {
        if cfg!(debug_assertions) {
            self.as_mut_slice().fill(0xa5);
        }
        self
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
        let bytes = match &mut self.memory {
            Filling::Small(bytes) => Arc::make_mut(bytes),
            Filling::Slab(slab) => slab.as_mut_slice(),
        };
        &mut bytes[..self.len]
    }

    /// Ends writing: the bytes can be shared from here on.
    ///
    /// # Panics
    /// From 4 GiB on.
    #[inline]
    pub fn freeze(self) -> Piece {
        match self.memory {
            Filling::Small(bytes) => bytes.into(),
            Filling::Slab(slab) => Piece { len: length(self.len), ..slab.into() },
        }
    }

    /// The same of bytes whose crc32c, continued from `seed`, the caller has taken: [`Piece::crc32c`] need not.
    #[inline]
    pub fn freeze_with_crc(self, seed: u32, crc: u32) -> Piece {
        let piece = self.freeze();
        debug_assert_eq!(uncounted(seed, &piece), crc, "the caller's checksum");
        piece.note_crc(seed, crc);
        piece
    }
}

impl PieceMut {
    /// The same where the crc32c, from all ones, of each whole page is known, too.
    #[inline]
    pub fn freeze_with_sums(self, seed: u32, crc: u32, pages: Vec<u32>) -> Piece {
        let piece = self.freeze_with_crc(seed, crc);
        debug_assert_eq!(pages.len(), piece.len() / ALIGN, "a checksum for each whole page");
        piece.note_pages(pages);
        piece
    }
}

impl std::fmt::Debug for PieceMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PieceMut({} bytes)", self.len)
    }
}

/// A shared, immutable range of bytes. Cloning and slicing copy no payload; an empty piece has no memory.
#[derive(Clone)]
pub struct Piece {
    memory: Memory,
    start: u32,
    len: u32,
}

/// The length of a piece.
///
/// # Panics
/// From 4 GiB on: messages, objects and transfers of devices have far less.
#[inline]
fn length(len: usize) -> u32 {
    assert!(len <= u32::MAX as usize, "a piece of {len} bytes: 4 GiB are too many");
    len as u32
}

impl Piece {
    /// An empty piece.
    #[inline]
    pub const fn empty() -> Self {
        Self { memory: Memory::Slab(None), start: 0, len: 0 }
    }

    /// A copy of `bytes`; from a page on it is aligned as [`PieceMut::zeroed`] says.
    pub fn copy_from(bytes: &[u8]) -> Self {
        if bytes.len() < ALIGN {
            count(bytes.len());
            return match bytes.len() {
                0..=SMALL_MAX => Arc::<[u8]>::from(bytes).into(),
                _ => bytes.to_vec().into(),
            };
        }
        let mut piece = PieceMut::to_fill(bytes.len());
        copy_payload(piece.as_mut_slice(), bytes);
        piece.freeze()
    }

    /// A copy of `parts` one behind the other, then zeros up to `len` bytes; from a page on it is aligned as
    /// [`PieceMut::zeroed`] says. The memory of whole pages is not cleared before they are filled.
    ///
    /// # Panics
    /// If the parts have more than `len` bytes.
    pub fn joined<'a>(parts: impl Iterator<Item = &'a [u8]>, len: usize) -> Self {
        let mut pages = Vec::with_capacity(len.div_ceil(ALIGN));
        let (mut page, mut filled) = (Page::ZEROS, 0);
        for mut part in parts {
            while !part.is_empty() {
                let (now, later) = part.split_at(part.len().min(ALIGN - filled));
                page.0[filled..filled + now.len()].copy_from_slice(now);
                (part, filled) = (later, filled + now.len());
                if filled == ALIGN {
                    pages.push(page);
                    filled = 0;
                }
            }
        }
        assert!(pages.len() * ALIGN + filled <= len, "parts of more than {len} bytes");
        if filled > 0 {
            page.0[filled..].fill(0);
            pages.push(page);
        }
        while pages.len() * ALIGN < len {
            pages.push(Page::ZEROS);
        }
        if len < ALIGN {
            return pages.as_bytes()[..len].to_vec().into();
        }
        Self { len: length(len), ..Slab::pages(Run::Allocated(pages.into())).into() }
    }

    /// The sub-range `range` of this piece, sharing its memory.
    ///
    /// # Panics
    /// If `range` reaches past the piece: the caller's mistake, never a peer's.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "slice {range:?} of {} bytes", self.len);
        if range.is_empty() {
            return Self::empty();
        }
        let (start, len) = (self.start + range.start as u32, range.len() as u32);
        Self { memory: self.memory.clone(), start, len }
    }

    /// Whether `next` lies in the same memory, just behind this piece.
    #[inline]
    pub(crate) fn is_followed_by(&self, next: &Self) -> bool {
        let same = match (&self.memory, &next.memory) {
            (Memory::Small(mine), Memory::Small(its)) => Arc::ptr_eq(mine, its),
            (Memory::Slab(Some(mine)), Memory::Slab(Some(its))) => Arc::ptr_eq(mine, its),
            _ => false,
        };
        same && self.start + self.len == next.start
    }

    /// Takes in so many bytes that lie behind it.
    #[inline]
    pub(crate) fn extend_by(&mut self, bytes: usize) {
        let end = self.start as usize + self.len() + bytes;
        debug_assert!(end <= self.memory.as_slice().len());
        self.len += bytes as u32;
    }

    /// The same bytes to keep for long: this piece, or a copy where the memory that it shares is much larger.
    pub fn compact(self) -> Self {
        let shared = self.memory.as_slice().len();
        if shared / 2 <= self.len() { self } else { Self::copy_from(&self) }
    }

    /// Continues Ceph's crc32c from `seed` over the bytes. Of pages that the piece has from their beginning it is taken
    /// once, and of pages whose own checksums are known it is made of those: damage to them in memory shows when what was
    /// sent is checked.
    pub fn crc32c(&self, seed: u32) -> u32 {
        let Some(whole) = self.whole() else { return crc32c(seed, self) };
        let whole = whole.get().filter(|w| self.start == 0 && w.len == self.len && w.seed == seed);
        if let Some(whole) = whole {
            return whole.crc;
        }
        let known = self.known_pages();
        if !known.is_empty() {
            let crc = known.iter().fold(seed, |crc, page| crc32c_page(crc, *page));
            return match self.len() % ALIGN {
                0 => crc,
                _ => crc32c(crc, &self[known.len() * ALIGN..]),
            };
        }
        let crc = crc32c(seed, self);
        if self.start == 0 {
            self.note_crc(seed, crc);
        }
        crc
    }

    /// Takes the checksum of each whole page, if the piece begins with one and they are not known: [`Piece::crc32c`] of any
    /// range of pages need not look at the bytes again.
    pub fn take_page_sums(&self) {
        if self.start == 0 && self.known_pages().is_empty() {
            self.note_pages(self.chunks_exact(ALIGN).map(|page| crc32c(!0, page)).collect());
        }
    }

    #[inline]
    fn whole(&self) -> Option<&OnceLock<Checksum>> {
        self.memory.slab()?.whole()
    }

    /// The crc32c (seed -1) of each whole page of the bytes: what is known of them is not taken again.
    pub fn page_checksums(&self) -> Cow<'_, [u32]> {
        match self.known_pages() {
            // Of one page it may be known as that of the whole.
            [] if self.len() == ALIGN => Cow::Owned(vec![self.crc32c(!0)]),
            [] => Cow::Owned(self.chunks_exact(ALIGN).map(|page| crc32c(!0, page)).collect()),
            known => Cow::Borrowed(known),
        }
    }

    /// The first page whose crc32c (seed -1) is not the expected one, or that the piece does not have whole. What is known of the
    /// pages is not taken again.
    pub fn first_wrong_page(&self, mut expected: impl Iterator<Item = u32>) -> Option<usize> {
        let sums = self.page_checksums();
        let mut sums = sums.iter();
        expected.position(|expected| sums.next() != Some(&expected))
    }

    /// The checksums of the piece's whole pages; empty unless all are known.
    fn known_pages(&self) -> &[u32] {
        let start = self.start as usize;
        let (Some(all), 0) = (self.memory.slab().and_then(Slab::page_sums), start % ALIGN) else {
            return &[];
        };
        all.get(start / ALIGN..(start + self.len()) / ALIGN).unwrap_or_default()
    }

    /// Keeps a checksum of the piece's bytes with its memory, if that is whole pages without one.
    fn note_crc(&self, seed: u32, crc: u32) {
        if let (0, Some(whole)) = (self.start, self.whole()) {
            // The first one stays: it is that of the whole, as a rule.
            let _ = whole.set(Checksum { len: self.len, seed, crc });
        }
    }

    fn note_pages(&self, sums: Vec<u32>) {
        match self.memory.slab() {
            Some(Slab::Pages(pages)) => {
                let _ = pages.sums.set(sums.into_boxed_slice());
            }
            Some(Slab::Page { sum, .. }) => {
                let _ = sums.first().map(|first| sum.set(*first));
            }
            Some(Slab::Bytes(_)) | None => {}
        }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        let start = self.start as usize;
        &self.memory.as_slice()[start..start + self.len as usize]
    }
}

impl Default for Piece {
    fn default() -> Self {
        Self::empty()
    }
}

impl From<Slab> for Piece {
    fn from(slab: Slab) -> Self {
        let len = slab.as_slice().len();
        Self { memory: Memory::Slab((len > 0).then(|| Arc::new(slab))), start: 0, len: length(len) }
    }
}

impl From<Arc<[u8]>> for Piece {
    fn from(bytes: Arc<[u8]>) -> Self {
        match bytes.len() {
            0 => Self::empty(),
            len => Self { memory: Memory::Small(bytes), start: 0, len: length(len) },
        }
    }
}

impl From<Vec<u8>> for Piece {
    fn from(bytes: Vec<u8>) -> Self {
        match bytes.len() {
            0..=SMALL_MAX => Self::from(Arc::<[u8]>::from(bytes)),
            _ => Slab::Bytes(bytes).into(),
        }
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
    use crate::checksummed_bytes;

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
    fn few_bytes_lie_behind_their_counter_and_many_stay_where_they_are() {
        assert!(matches!(Piece::from(Vec::new()).memory, Memory::Slab(None)));
        for len in [1, SMALL_MAX, SMALL_MAX + 1, ALIGN - 1, ALIGN] {
            let bytes: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
            let at = bytes.as_ptr();
            let piece = Piece::from(bytes.clone());
            assert_eq!(piece[..], bytes[..]);
            assert_eq!(matches!(piece.memory, Memory::Small(_)), len <= SMALL_MAX, "{len}");
            let moved = Piece::from(bytes);
            assert_eq!(moved.as_ptr() == at, len > SMALL_MAX, "{len}");
            let mut filled = PieceMut::zeroed(len);
            assert!(filled.as_mut_slice().iter().all(|byte| *byte == 0));
            filled.as_mut_slice().copy_from_slice(&moved);
            let filled = filled.freeze();
            assert_eq!((&filled, filled.len()), (&piece, len));
            let (left, right) = (filled.slice(0..len / 2), filled.slice(len / 2..len));
            assert_eq!(left.is_followed_by(&right), len > 1, "{len}");
            assert!(!left.is_followed_by(&piece.slice(len / 2..len)));
        }
        assert_eq!(size_of::<Piece>(), 24);
    }

    #[test]
    fn checksums_of_pages_that_are_known_are_not_taken_again() {
        let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let sums = [crc32c(!0, &bytes[..4096]), crc32c(!0, &bytes[4096..])];
        let taken = |piece: &Piece| {
            let before = checksummed_bytes();
            (piece.page_checksums().to_vec(), checksummed_bytes() - before)
        };
        let both = Piece::copy_from(&bytes);
        assert_eq!(taken(&both), (sums.to_vec(), 8192));
        both.take_page_sums();
        assert_eq!(taken(&both), (sums.to_vec(), 0));
        assert_eq!(taken(&both.slice(4096..8192)), (sums[1..].to_vec(), 0));
        let one = Piece::copy_from(&bytes[..4096]);
        one.crc32c(!0);
        assert_eq!(taken(&one), (sums[..1].to_vec(), 0));
    }

    #[test]
    fn the_first_page_that_differs_is_found() {
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let sums = [crc32c(!0, &bytes[..4096]), crc32c(!0, &bytes[4096..8192])];
        let first_wrong = |piece: &Piece, expected: &[u32]| {
            let before = checksummed_bytes();
            (piece.first_wrong_page(expected.iter().copied()), checksummed_bytes() - before)
        };
        let piece = Piece::copy_from(&bytes);
        assert_eq!(first_wrong(&piece, &sums), (None, 8192));
        piece.take_page_sums();
        assert_eq!(first_wrong(&piece, &sums), (None, 0));
        assert_eq!(first_wrong(&piece, &[sums[0], 5]), (Some(1), 0));
        assert_eq!(first_wrong(&piece, &[5, 5]), (Some(0), 0));
        assert_eq!(first_wrong(&piece, &[sums[0], sums[1], 5]), (Some(2), 0), "it has no third page");
        assert_eq!(first_wrong(&piece.slice(4096..8192), &sums[1..]), (None, 0));
        assert_eq!(
            first_wrong(&piece.slice(100..4196), &sums),
            (Some(0), 4096),
            "it is no page of the memory"
        );
        assert_eq!(first_wrong(&piece.slice(0..100), &sums[..1]), (Some(0), 0));
        let one = Piece::copy_from(&bytes[..4096]);
        assert_eq!((first_wrong(&one, &sums[..1]), first_wrong(&one, &sums[..1])), ((None, 4096), (None, 0)));
    }

    #[test]
    fn the_checksum_of_pages_is_taken_once_and_only_for_what_it_is_of() {
        let bytes: Vec<u8> = (0..8192u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let page = Piece::copy_from(&bytes);
        let taken = |piece: &Piece, seed| {
            let before = checksummed_bytes();
            (piece.crc32c(seed), checksummed_bytes() - before)
        };
        let [of_all, of_half] = [8192, 4096].map(|len| crc32c(!0, &bytes[..len]));
        assert_eq!((taken(&page, !0), taken(&page, !0)), ((of_all, 8192), (of_all, 0)));
        assert_eq!(taken(&page.slice(0..8192), !0), (of_all, 0), "the same bytes of the same memory");
        assert_eq!(taken(&page.slice(0..4096), !0), (of_half, 4096));
        assert_eq!(taken(&page.slice(4096..8192), of_half), (of_all, 4096));
        assert_eq!(taken(&page, 7), (crc32c(7, &bytes), 8192), "another seed");

        let mut filled = PieceMut::zeroed(8192);
        filled.as_mut_slice().copy_from_slice(&bytes);
        assert_eq!(taken(&filled.freeze_with_crc(!0, of_all), !0), (of_all, 0));
    }

    #[test]
    fn checksums_of_pages_give_those_of_any_range_of_pages() {
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        let piece = Piece::copy_from(&bytes);
        let before = checksummed_bytes();
        piece.take_page_sums();
        piece.take_page_sums();
        assert_eq!(checksummed_bytes() - before, 16384);
        for (from, to, looked_at) in
            [(0, 16384, 0), (4096, 12288, 0), (8192, 20_000, 3616), (100, 4196, 4096)]
        {
            for seed in [!0, 0, 5] {
                let before = checksummed_bytes();
                let crc = piece.slice(from..to).crc32c(seed);
                assert_eq!(checksummed_bytes() - before, looked_at, "{from}..{to}");
                assert_eq!(crc, uncounted(seed, &bytes[from..to]), "{from}..{to} from {seed}");
            }
        }
        let mut filled = PieceMut::zeroed(4096);
        filled.as_mut_slice().copy_from_slice(&bytes[..4096]);
        let crcs = [9, !0].map(|seed| crc32c(seed, &bytes[..4096]));
        let piece = filled.freeze_with_sums(9, crcs[0], vec![crcs[1]]);
        let before = checksummed_bytes();
        assert_eq!(([9, !0].map(|seed| piece.crc32c(seed)), checksummed_bytes() - before), (crcs, 0));
    }

    #[test]
    fn parts_are_joined_and_zeros_follow() {
        let bytes: Vec<u8> = (0..9000u32).map(|i| (i * 7 + i / 256) as u8 | 1).collect();
        for cuts in [&[][..], &[100], &[4096], &[0, 5, 5, 4000, 8192], &[9000]] {
            for (taken, len) in
                [(0, 0), (0, 10), (10, 512), (4096, 4096), (4097, 4608), (9000, 9000), (9000, 20_000)]
            {
                let mut edges: Vec<usize> = cuts.iter().map(|cut| *cut.min(&taken)).collect();
                edges.insert(0, 0);
                edges.push(taken);
                let joined = Piece::joined(edges.windows(2).map(|edge| &bytes[edge[0]..edge[1]]), len);
                assert_eq!(
                    joined.to_vec(),
                    [&bytes[..taken], &vec![0; len - taken]].concat(),
                    "{cuts:?} {len}"
                );
                assert!(len < ALIGN || joined.as_ptr().align_offset(ALIGN) == 0);
            }
        }
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
