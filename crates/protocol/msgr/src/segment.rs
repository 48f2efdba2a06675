//! A segment of a frame while its bytes come.

use buffer::{ALIGN, Piece, PieceMut, Rope, copy_payload, crc32c, crc32c_page};

use crate::frame::SEGMENT_SEED;

/// Bytes that a segment's memory has in all after each of its first steps: a small message has its own at once, a large
/// one begins with little.
const STEPS: [usize; 3] = [4 << 10, 128 << 10, 4 << 20];

/// A segment that is being received. Its memory grows in a few steps with the bytes that really come, each step a piece
/// of its own, so that nothing is copied to grow. (Taking the memory whole and counting on untouched pages does not
/// do: allocators clear memory that they use again.)
#[derive(Default)]
pub(crate) struct Segment {
    len: usize,
    received: usize,
    crc: u32,
    /// The checksum before the first byte of the pages under way.
    pages_seed: u32,
    /// The checksums, each from all ones, of those of them that are full, and of the bytes of the next one.
    page_crcs: Vec<u32>,
    page_crc: u32,
    /// Whether the bytes are checksummed and dropped.
    dropped: bool,
    /// What is full.
    pieces: Rope,
    filling: Filling,
}

/// The memory under way.
enum Filling {
    /// Less than a page in all: appended to.
    Bytes(Vec<u8>),
    /// Whole pages, the first so many bytes of them filled.
    Pages(PieceMut, usize),
}

impl Default for Filling {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Filling {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.capacity(),
            Self::Pages(piece, _) => piece.len(),
        }
    }
}

impl Segment {
    /// A segment of `len` bytes; `dropped`: they are not kept.
    pub(crate) fn new(len: usize, dropped: bool) -> Self {
        let filling =
            Filling::Bytes(if dropped || len >= ALIGN { Vec::new() } else { Vec::with_capacity(len) });
        let (crc, pages_seed) = (SEGMENT_SEED, SEGMENT_SEED);
        Self {
            len,
            received: 0,
            crc,
            pages_seed,
            page_crcs: Vec::new(),
            page_crc: !0,
            dropped,
            pieces: Rope::new(),
            filling,
        }
    }

    /// Bytes that have not come.
    pub(crate) fn missing(&self) -> usize {
        self.len - self.received
    }

    /// Bytes of memory held.
    pub(crate) fn held_bytes(&self) -> usize {
        self.pieces.len() + self.filling.len()
    }

    /// Whether its bytes go into pages that can be read into.
    pub(crate) fn is_paged(&self) -> bool {
        !self.dropped && self.len >= ALIGN
    }

    /// Takes a page with the first bytes of the segment, to be advanced over, if nothing of it has come and its memory begins with a page.
    pub(crate) fn adopt(&mut self, page: &mut Option<PieceMut>) -> bool {
        let begins = matches!(&self.filling, Filling::Bytes(none) if none.is_empty()) && self.received == 0;
        if !begins || !self.is_paged() || page.as_ref().map(PieceMut::len) != Some(self.next_step()) {
            return false;
        }
        if let Some(page) = page.take() {
            self.filling = Filling::Pages(page, 0);
        }
        true
    }

    /// Whether the memory of a segment of `len` bytes begins with a single page.
    pub(crate) fn begins_with_a_page(len: usize) -> bool {
        len >= ALIGN && Self { len, ..Self::default() }.next_step() == ALIGN
    }

    /// Bytes of the next piece: it begins on a page, so no step leaves less than a page behind.
    fn next_step(&self) -> usize {
        let reached = STEPS.into_iter().find(|&step| step > self.received);
        let reached = reached.unwrap_or(self.received.saturating_mul(2));
        match self.len.saturating_sub(reached) {
            ..ALIGN => self.missing(),
            _ => reached - self.received,
        }
    }

    /// Memory for the next bytes, of a segment of a page or more that is kept; some of it once more than nothing is
    /// missing.
    pub(crate) fn tail(&mut self) -> Option<&mut [u8]> {
        if !self.is_paged() {
            return None;
        }
        if let Filling::Bytes(_) = &self.filling {
            self.filling = Filling::Pages(PieceMut::to_receive(self.next_step()), 0);
        }
        match &mut self.filling {
            Filling::Pages(piece, filled) => piece.as_mut_slice().get_mut(*filled..),
            Filling::Bytes(_) => None,
        }
    }

    /// The first `n` bytes of the tail are filled. They are checksummed now, while they are warm.
    pub(crate) fn advance(&mut self, n: usize, check_crc: bool) {
        let Filling::Pages(piece, filled) = &mut self.filling else {
            // No tail was given.
            return;
        };
        let end = (*filled + n).min(piece.len());
        let (mut at, piece_len) = (*filled, piece.len());
        while check_crc && at < end {
            let page_end = (at / ALIGN + 1) * ALIGN;
            let part = &piece.as_mut_slice()[at..end.min(page_end)];
            at += part.len();
            if page_end > piece_len {
                // The last page of all is not a whole one.
                self.crc = crc32c(self.crc, part);
                continue;
            }
            // The bytes are looked at once: the store wants each page's checksum, the frame that of all.
            self.page_crc = crc32c(self.page_crc, part);
            if at == page_end {
                self.crc = crc32c_page(self.crc, self.page_crc);
                self.page_crcs.push(self.page_crc);
                self.page_crc = !0;
            }
        }
        self.received += end - *filled;
        *filled = end;
        if end == piece.len() {
            if let Filling::Pages(piece, _) = std::mem::take(&mut self.filling) {
                let page_crcs = std::mem::take(&mut self.page_crcs);
                self.pieces.push(match check_crc {
                    true => piece.freeze_with_sums(self.pages_seed, self.crc, page_crcs),
                    false => piece.freeze(),
                });
                self.pages_seed = self.crc;
            }
        }
    }

    /// Takes bytes, as far as the segment and its present step of memory go. Returns how many.
    pub(crate) fn feed(&mut self, bytes: &[u8], check_crc: bool) -> usize {
        let n = bytes.len().min(self.missing());
        if let Some(tail) = self.tail() {
            let n = n.min(tail.len());
            copy_payload(&mut tail[..n], &bytes[..n]);
            self.advance(n, check_crc);
            return n;
        }
        if check_crc {
            self.crc = crc32c(self.crc, &bytes[..n]);
        }
        if let (false, Filling::Bytes(kept)) = (self.dropped, &mut self.filling) {
            kept.extend_from_slice(&bytes[..n]);
        }
        self.received += n;
        n
    }

    /// The whole segment and its checksum.
    pub(crate) fn finish(self) -> (Rope, u32) {
        let mut bytes = self.pieces;
        if let Filling::Bytes(small) = self.filling {
            bytes.push(Piece::from(small));
        }
        (bytes, self.crc)
    }
}
