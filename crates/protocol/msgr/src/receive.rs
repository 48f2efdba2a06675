//! What a core's connections read into, so that one system call brings small parts and payload each to its place.

use std::io::IoSliceMut;

use buffer::{ALIGN, PieceMut};
use smallvec::SmallVec;

use crate::reader::{FrameReader, Shape};
use crate::segment::Segment;

/// Bytes for everything that is no page.
const SCRATCH_BYTES: usize = 64 << 10;
/// The same, and in all, when memory is short.
const SCRATCH_BYTES_TIGHT: usize = 4 << 10;
/// Pages that one read may bring.
const PAGES_MAX: usize = 8;
/// A segment's tail, and scratch before, between and after the pages.
const SLICES_MAX: usize = 2 * PAGES_MAX + 2;

/// Memory to read into, in the order of the stream.
pub type ReadSlices<'a> = SmallVec<[IoSliceMut<'a>; SLICES_MAX]>;

/// A stretch of what was offered to be read into.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// The connection's own memory: the rest of a segment, or of its memory so far.
    Tail(usize),
    /// The next so many bytes of the scratch memory.
    Scratch(usize),
    /// The next page.
    Page,
}

/// A stretch that was read.
pub(crate) enum Filled<'a> {
    /// So many bytes of the segment's tail.
    Tail(usize),
    Bytes(&'a [u8]),
    /// So many bytes of a page, which the connection may keep. It never shows the rest of a page: an earlier reader's
    /// bytes may be there.
    Page(&'a mut Option<PieceMut>, usize),
}

/// Memory that all connections of a core read into, one after the other. What a read brings is handed on before the next.
///
/// Where a frame's payload begins is foretold from the message before it, and a page offered for it. After a right guess
/// the page becomes the payload's memory; after a wrong one its bytes are copied out, which [`buffer::copied_bytes`] counts.
pub struct ReceiveBuffer {
    scratch: Vec<u8>,
    pages: [Option<PieceMut>; PAGES_MAX],
    parts: Vec<Part>,
}

impl Default for ReceiveBuffer {
    fn default() -> Self {
        Self { scratch: vec![0; SCRATCH_BYTES], pages: Default::default(), parts: Vec::new() }
    }
}

impl ReceiveBuffer {
    /// Plans a read of small parts alone.
    pub(crate) fn plan_scratch(&mut self, tight: bool) {
        self.parts.clear();
        self.parts.push(Part::Scratch(if tight { SCRATCH_BYTES_TIGHT } else { SCRATCH_BYTES }));
    }

    /// Plans a read of frames, of up to `pages` pages.
    pub(crate) fn plan(&mut self, reader: &mut FrameReader, pages: usize, tight: bool) {
        self.parts.clear();
        let mut scratch = Scratch { left: if tight { SCRATCH_BYTES_TIGHT } else { SCRATCH_BYTES } };
        if let Some((len, whole)) = reader.tail_len() {
            self.parts.push(Part::Tail(len));
            if !whole {
                return;
            }
        }
        let next = reader.next_pages();
        if !scratch.take(next.distance, &mut self.parts) {
            return;
        }
        match (next.bytes, reader.shape()) {
            (Some(bytes), shape) if bytes < ALIGN || Segment::begins_with_a_page(bytes) => {
                self.plan_pages(
                    if tight { 1 } else { pages.clamp(1, PAGES_MAX) },
                    bytes,
                    shape,
                    &mut scratch,
                );
            }
            // The tail of the segment is read into next, or nothing is known.
            _ => {}
        }
    }

    /// Pages from here on, the first for a segment of so many bytes.
    fn plan_pages(&mut self, pages: usize, bytes: usize, shape: Option<Shape>, scratch: &mut Scratch) {
        self.parts.push(Part::Page);
        for left in (0..pages).rev() {
            // Messages without payload run on: the pages serve as scratch memory, and the first is in its place should
            // a payload come.
            let more = match shape {
                _ if bytes < ALIGN => true,
                Some(shape) if bytes == ALIGN => {
                    scratch.take(shape.gap(), &mut self.parts) && shape.data == ALIGN
                }
                // The rest of the segment is not in the next page.
                _ => false,
            };
            if !more || left == 0 {
                return;
            }
            self.parts.push(Part::Page);
        }
    }

    /// What was planned, after the connection's own memory.
    pub(crate) fn slices<'a>(&'a mut self, tail: Option<&'a mut [u8]>) -> ReadSlices<'a> {
        let (mut tail, mut scratch, mut pages) = (tail, &mut self.scratch[..], self.pages.iter_mut());
        let mut slices = ReadSlices::new();
        for part in &self.parts {
            let slice = match *part {
                Part::Tail(_) => tail.take().unwrap_or_default(),
                Part::Scratch(len) => {
                    let (now, later) = std::mem::take(&mut scratch).split_at_mut(len);
                    scratch = later;
                    now
                }
                Part::Page => match pages.next() {
                    Some(page) => page.get_or_insert_with(|| PieceMut::to_fill(ALIGN)).as_mut_slice(),
                    None => break,
                },
            };
            slices.push(IoSliceMut::new(slice));
        }
        slices
    }

    /// Bytes and pages that were offered.
    pub(crate) fn offered(&self) -> (usize, usize) {
        let pages = self.parts.iter().filter(|part| **part == Part::Page).count();
        let rest = self.parts.iter().map(|part| match *part {
            Part::Tail(len) | Part::Scratch(len) => len,
            Part::Page => ALIGN,
        });
        (rest.sum(), pages)
    }

    /// What a read of `n` bytes filled, in order. Another read needs another plan.
    pub(crate) fn filled(&mut self, n: usize) -> impl Iterator<Item = Filled<'_>> {
        let (mut left, mut scratch, mut pages) = (n, &self.scratch[..], self.pages.iter_mut());
        self.parts.drain(..).map_while(move |part| {
            let len = match part {
                Part::Tail(len) | Part::Scratch(len) => len.min(left),
                Part::Page => ALIGN.min(left),
            };
            left -= len;
            if len == 0 {
                return None;
            }
            Some(match part {
                Part::Tail(_) => Filled::Tail(len),
                Part::Scratch(_) => {
                    let (now, later) = scratch.split_at(len);
                    scratch = later;
                    Filled::Bytes(now)
                }
                Part::Page => Filled::Page(pages.next()?, len),
            })
        })
    }
}

/// Scratch memory that is left for a plan.
struct Scratch {
    left: usize,
}

impl Scratch {
    /// Plans so many bytes of it; whether there are as many.
    fn take(&mut self, bytes: usize, parts: &mut Vec<Part>) -> bool {
        let taken = bytes.min(self.left);
        self.left -= taken;
        if taken > 0 {
            parts.push(Part::Scratch(taken));
        }
        taken == bytes
    }
}
