//! Frames out of a stream of bytes that comes in pieces of any size.

use buffer::{Piece, PieceMut, crc32c};
use encoding::Decode;

use crate::frame::{self, CRC_LEN, DATA, EPILOGUE_LEN, PREAMBLE_LEN, SEGMENT_SEED, SEGMENTS_MAX};
use crate::{Frame, FrameError, Limits, Phase, Preamble, Tag};

/// From this many missing bytes on a segment asks to be read straight into.
const DIRECT_MIN: usize = 4096;

/// What a reader can use next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeededBytes {
    /// This many bytes complete the current part; more may be fed at once.
    Bytes(usize),
    /// This many bytes of a large segment are missing: read into [`FrameReader::segment_tail`], or feed as ever.
    Segment(usize),
}

/// The steps in which a segment's memory grows: a small message has its own at once, a large one is copied little.
const STEPS: [usize; 3] = [4 << 10, 128 << 10, 4 << 20];

/// The memory for a segment of `len` bytes of which `held` are filled.
fn next_step(held: usize, len: usize) -> usize {
    let step = STEPS.into_iter().find(|&step| step > held).unwrap_or(held.saturating_mul(2));
    step.min(len)
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Preamble,
    Segment(usize),
    FirstCrc,
    Epilogue,
}

/// Assembles frames. Checks each announced length before it takes memory, and each checksum as the bytes come.
///
/// A segment's memory grows in a few steps with the bytes that really come, so a peer that announces much and sends
/// little costs little. [`FrameReader::held_bytes`] is what it costs, and what a shell sums over connections to end
/// the one that has stalled longest. Data that is refused with an answer ([`Limits::refused_with_answer`]) costs nothing:
/// its segment is empty in the frame. (Taking a segment's memory whole and counting on untouched pages does not do:
/// allocators clear memory that they use again.)
pub struct FrameReader {
    limits: Limits,
    phase: Phase,
    handshake_left: usize,
    stage: Stage,
    small: [u8; PREAMBLE_LEN],
    small_len: usize,
    preamble: Option<Preamble>,
    /// The segment's memory so far, and how much of it is filled.
    filling: PieceMut,
    filled: usize,
    segment_len: usize,
    segments: frame::Segments,
    crcs: [u32; SEGMENTS_MAX],
}

fn no_segments() -> frame::Segments {
    std::array::from_fn(|_| Piece::empty())
}

impl FrameReader {
    /// A reader at a frame's start.
    pub fn new(limits: Limits, phase: Phase) -> Self {
        Self {
            limits,
            phase,
            handshake_left: limits.handshake_bytes_max,
            stage: Stage::Preamble,
            small: [0; PREAMBLE_LEN],
            small_len: 0,
            preamble: None,
            filling: PieceMut::zeroed(0),
            filled: 0,
            segment_len: 0,
            segments: no_segments(),
            crcs: [SEGMENT_SEED; SEGMENTS_MAX],
        }
    }

    /// Which frames may come from here on. Takes effect with the next preamble.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// Whether the segment being read is not kept.
    fn is_dropped(&self, index: usize) -> bool {
        index == DATA && self.preamble.is_some_and(|p| p.refused(&self.limits))
    }

    /// More data than is kept must be of a message that gets an answer all the same.
    fn check_refused(&self) -> Result<(), FrameError> {
        let Some(preamble) = self.preamble.filter(|p| p.refused(&self.limits)) else {
            // All of its data is kept.
            return Ok(());
        };
        let kind = crate::MessageHeader::from_bytes(&self.segments[0]).ok().map(|header| header.kind);
        match kind.is_some() && kind == self.limits.refused_with_answer {
            true => Ok(()),
            false => Err(FrameError::TooLong {
                what: "data",
                announced: preamble.segment_lengths()[DATA].into(),
                limit: self.limits.data_bytes_max as u64,
            }),
        }
    }

    /// Bytes of memory held for a frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.small_len + self.filling.len() + self.segments.iter().map(|s| s.len()).sum::<usize>()
    }

    /// Bytes that the current frame announced (0 between frames).
    pub fn announced_bytes(&self) -> usize {
        self.preamble.map_or(0, |p| p.frame_len())
    }

    /// What to read next.
    pub fn want(&self) -> NeededBytes {
        let missing = self.stage_len() - self.stage_filled();
        match self.direct() {
            true => NeededBytes::Segment(missing),
            false => NeededBytes::Bytes(missing),
        }
    }

    /// Memory for the next bytes of a large segment, to read into; then call [`FrameReader::advance`].
    pub fn segment_tail(&mut self) -> Option<&mut [u8]> {
        if !self.direct() {
            return None;
        }
        self.grow_if_full();
        self.filling.as_mut_slice().get_mut(self.filled..)
    }

    /// The first `n` bytes of [`FrameReader::segment_tail`] have been filled.
    pub fn advance(&mut self, n: usize) {
        if let (true, Stage::Segment(index)) = (self.direct(), self.stage) {
            self.take_filled(index, n);
            if self.filled == self.segment_len {
                self.finish_segment(index);
            }
        }
    }

    /// Takes bytes up to the end of a frame. Returns how many were taken, and the frame if it is whole; call again
    /// with the rest. After an error the stream is lost.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(usize, Option<Frame>), FrameError> {
        let mut taken = 0;
        while taken < bytes.len() {
            taken += self.take(&bytes[taken..]);
            if self.stage_filled() < self.stage_len() {
                continue;
            }
            if let Some(frame) = self.finish_stage()? {
                return Ok((taken, Some(frame)));
            }
        }
        Ok((taken, None))
    }

    fn direct(&self) -> bool {
        let message = self.preamble.is_some_and(|p| p.tag == Tag::Message);
        let missing = self.segment_len - self.filled;
        message
            && missing >= DIRECT_MIN
            && matches!(self.stage, Stage::Segment(i) if i > 0 && !self.is_dropped(i))
    }

    fn stage_len(&self) -> usize {
        match self.stage {
            Stage::Preamble => PREAMBLE_LEN,
            Stage::Segment(_) => self.segment_len,
            Stage::FirstCrc => CRC_LEN,
            Stage::Epilogue => EPILOGUE_LEN,
        }
    }

    fn stage_filled(&self) -> usize {
        match self.stage {
            Stage::Segment(_) => self.filled,
            _ => self.small_len,
        }
    }

    /// Takes the next step of memory when that of the segment is full.
    fn grow_if_full(&mut self) {
        if self.filled < self.filling.len() || self.filled == self.segment_len {
            return;
        }
        let mut larger = PieceMut::zeroed(next_step(self.filled, self.segment_len));
        larger.as_mut_slice()[..self.filled].copy_from_slice(&self.filling.as_mut_slice()[..self.filled]);
        self.filling = larger;
    }

    /// Moves bytes into the current stage, one step of memory at the most; returns how many.
    fn take(&mut self, bytes: &[u8]) -> usize {
        let mut n = bytes.len().min(self.stage_len() - self.stage_filled());
        match self.stage {
            Stage::Segment(index) if self.is_dropped(index) => {
                if self.limits.check_data_crc {
                    self.crcs[index] = crc32c(self.crcs[index], &bytes[..n]);
                }
                self.filled += n;
            }
            Stage::Segment(index) => {
                self.grow_if_full();
                n = n.min(self.filling.len() - self.filled);
                self.filling.as_mut_slice()[self.filled..self.filled + n].copy_from_slice(&bytes[..n]);
                self.take_filled(index, n);
            }
            _ => {
                self.small[self.small_len..self.small_len + n].copy_from_slice(&bytes[..n]);
                self.small_len += n;
            }
        }
        n
    }

    /// Counts `n` more bytes of the segment, and their checksum while they are warm.
    fn take_filled(&mut self, index: usize, n: usize) {
        let end = (self.filled + n).min(self.filling.as_mut_slice().len());
        if self.limits.check_data_crc {
            let new = &self.filling.as_mut_slice()[self.filled..end];
            self.crcs[index] = crc32c(self.crcs[index], new);
        }
        self.filled = end;
    }

    fn finish_stage(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.stage {
            Stage::Preamble => self.finish_preamble(),
            Stage::Segment(index) => {
                self.finish_segment(index);
                Ok(None)
            }
            Stage::FirstCrc => {
                self.check_crc(0, frame::le32(&self.small))?;
                self.check_refused()?;
                Ok(self.start_segment(1))
            }
            Stage::Epilogue => self.finish_epilogue(),
        }
    }

    fn finish_preamble(&mut self) -> Result<Option<Frame>, FrameError> {
        let preamble = Preamble::decode(&self.small, &self.limits, self.phase)?;
        if matches!(self.phase, Phase::Authenticating | Phase::Opening) {
            let (len, left) = (preamble.frame_len(), self.handshake_left);
            self.handshake_left = left.checked_sub(len).ok_or(FrameError::TooLong {
                what: "handshake",
                announced: (self.limits.handshake_bytes_max - left + len) as u64,
                limit: self.limits.handshake_bytes_max as u64,
            })?;
        }
        self.preamble = Some(preamble);
        Ok(self.start_segment(0))
    }

    /// Goes on with the first segment from `from` on that is not empty, or with what follows them; a frame without
    /// either is whole.
    fn start_segment(&mut self, from: usize) -> Option<Frame> {
        self.small_len = 0;
        let preamble = self.preamble?;
        let lengths = preamble.segment_lengths();
        if let Some(index) = (from..SEGMENTS_MAX).find(|&i| lengths[i] > 0) {
            self.segment_len = lengths[index] as usize;
            let len = if self.is_dropped(index) { 0 } else { next_step(0, self.segment_len) };
            self.filling = PieceMut::zeroed(len);
            self.filled = 0;
            self.stage = Stage::Segment(index);
            return None;
        }
        if preamble.count > 1 {
            self.stage = Stage::Epilogue;
            return None;
        }
        self.finish_frame(false)
    }

    fn finish_segment(&mut self, index: usize) {
        self.segments[index] = std::mem::replace(&mut self.filling, PieceMut::zeroed(0)).freeze();
        self.filled = 0;
        self.segment_len = 0;
        match index {
            0 => self.stage = Stage::FirstCrc,
            // Never a whole frame: an epilogue follows.
            _ => drop(self.start_segment(index + 1)),
        }
    }

    fn finish_epilogue(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut bytes = [0; EPILOGUE_LEN];
        bytes.copy_from_slice(&self.small[..EPILOGUE_LEN]);
        let (aborted, stated) = frame::decode_epilogue(&bytes)?;
        let count = self.preamble.map_or(0, |p| p.count);
        for (index, stated) in (1..count).zip(stated) {
            self.check_crc(index, stated)?;
        }
        Ok(self.finish_frame(aborted))
    }

    fn check_crc(&self, segment: usize, stated: u32) -> Result<(), FrameError> {
        let actual = self.crcs[segment];
        match !self.limits.check_data_crc || stated == actual {
            true => Ok(()),
            false => Err(FrameError::SegmentCrc { segment, stated, actual }),
        }
    }

    fn finish_frame(&mut self, aborted: bool) -> Option<Frame> {
        self.small_len = 0;
        self.stage = Stage::Preamble;
        self.crcs = [SEGMENT_SEED; SEGMENTS_MAX];
        let segments = std::mem::replace(&mut self.segments, no_segments());
        self.preamble.take().map(|preamble| Frame { preamble, segments, aborted })
    }
}
