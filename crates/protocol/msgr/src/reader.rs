//! Frames out of a stream of bytes that comes in pieces of any size.

use buffer::{ALIGN, PieceMut, Rope, crc32c};
use messages::{MessageHeader, RawMessage};

use crate::frame::{self, CRC_LEN, DATA, EPILOGUE_LEN, PREAMBLE_LEN, SEGMENT_SEED, SEGMENTS_MAX};
use crate::segment::Segment;
use crate::{Frame, FrameBody, FrameError, Limits, Phase, Preamble, Tag};

/// A message's header and its checksum.
const HEADER_LEN: usize = MessageHeader::LEN + CRC_LEN;

/// What a reader can use next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeededBytes {
    /// This many bytes complete the current part; more may be fed at once.
    Bytes(usize),
    /// This many bytes of a segment of a page or more are missing: read into [`FrameReader::segment_tail`], or feed as ever.
    Segment(usize),
}

/// A message's shape, by which the next one's is foretold.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes from a frame's first to its data's first.
    pub(crate) head: usize,
    /// Bytes of its data, or of the last that had any.
    pub(crate) data: usize,
}

impl Shape {
    /// Bytes from a message's data to the next one's, if that is alike.
    pub(crate) fn gap(&self) -> usize {
        EPILOGUE_LEN + self.head
    }
}

/// Where the next segment of a page or more begins.
pub(crate) struct NextPages {
    /// Bytes up to there.
    pub(crate) distance: usize,
    /// Its length; `None` where nothing is known of what follows.
    pub(crate) bytes: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Preamble,
    /// A message's first segment with its checksum.
    Header,
    Segment(usize),
    /// The checksum behind a control frame's only segment.
    ControlCrc,
    Epilogue,
}

/// Assembles frames. Checks each announced length before it takes memory, and each checksum as the bytes come.
///
/// A segment's memory grows in a few steps with the bytes that really come, so a peer that announces much and sends
/// little costs little. [`FrameReader::held_bytes`] is what it costs, and what a shell sums over connections to end
/// the one that has stalled longest. Data that is refused with an answer ([`Limits::refused_with_answer`]) costs nothing:
/// its segment is empty in the frame.
pub struct FrameReader {
    limits: Limits,
    phase: Phase,
    handshake_left: usize,
    stage: Stage,
    /// The bytes so far of a stage that is no segment.
    small: [u8; HEADER_LEN],
    small_len: usize,
    preamble: Option<Preamble>,
    /// Of the last message begun. `None` before the first, and after one whose head is too long to be foretold.
    shape: Option<Shape>,
    header: MessageHeader,
    filling: Segment,
    /// Those that are whole.
    segments: [Rope; SEGMENTS_MAX],
    crcs: [u32; SEGMENTS_MAX],
}

impl FrameReader {
    /// A reader at a frame's start.
    pub fn new(limits: Limits, phase: Phase) -> Self {
        Self {
            limits,
            phase,
            handshake_left: limits.handshake_bytes_max,
            stage: Stage::Preamble,
            small: [0; HEADER_LEN],
            small_len: 0,
            preamble: None,
            shape: None,
            header: MessageHeader::default(),
            filling: Segment::default(),
            segments: Default::default(),
            crcs: [SEGMENT_SEED; SEGMENTS_MAX],
        }
    }

    /// Which frames may come from here on. Takes effect with the next preamble.
    pub fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    /// More data than is kept is allowed only for a message that gets an answer anyway.
    fn check_refused(&self, preamble: &Preamble) -> Result<(), FrameError> {
        if !preamble.refused(&self.limits) || self.limits.refused_with_answer == Some(self.header.kind) {
            return Ok(());
        }
        Err(FrameError::TooLong {
            what: "data",
            announced: preamble.segment_lengths()[DATA].into(),
            limit: self.limits.data_bytes_max as u64,
        })
    }

    /// Bytes of memory held for a frame that is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.small_len + self.filling.held_bytes() + self.segments.iter().map(Rope::len).sum::<usize>()
    }

    /// Bytes that the current frame announced (0 between frames).
    pub fn announced_bytes(&self) -> usize {
        self.preamble.map_or(0, |p| p.frame_len())
    }

    /// What to read next.
    pub fn want(&self) -> NeededBytes {
        match self.direct() {
            true => NeededBytes::Segment(self.missing()),
            false => NeededBytes::Bytes(self.missing()),
        }
    }

    /// Memory for the next bytes of a segment of a page or more, to read into; then call [`FrameReader::advance`].
    pub fn segment_tail(&mut self) -> Option<&mut [u8]> {
        if self.direct() { self.filling.tail() } else { None }
    }

    /// The first `n` bytes of [`FrameReader::segment_tail`] have been filled.
    pub fn advance(&mut self, n: usize) {
        if let (true, Stage::Segment(index)) = (self.direct(), self.stage) {
            self.filling.advance(n, self.limits.check_data_crc);
            if self.filling.missing() == 0 {
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
            if self.missing() > 0 {
                continue;
            }
            if let Some(frame) = self.finish_stage()? {
                return Ok((taken, Some(frame)));
            }
        }
        Ok((taken, None))
    }

    /// Takes a page with the next bytes of the stream, to be advanced over, if they begin a segment that lies in pages.
    pub(crate) fn adopt(&mut self, page: &mut Option<PieceMut>) -> bool {
        self.direct() && self.filling.adopt(page)
    }

    pub(crate) fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// The bytes to read into now, and whether they are the last of their segment.
    pub(crate) fn tail_len(&mut self) -> Option<(usize, bool)> {
        let missing = self.missing();
        self.segment_tail().map(|tail| (tail.len(), tail.len() == missing))
    }

    /// Where the next segment of a page or more begins: as this frame announced, or as the last message foretells.
    /// A segment that [`FrameReader::segment_tail`] gives is passed over.
    pub(crate) fn next_pages(&self) -> NextPages {
        let mut distance = if self.direct() { 0 } else { self.missing() };
        if let Some(preamble) = &self.preamble {
            let lengths = preamble.segment_lengths().map(|len| len as usize);
            let next = match self.stage {
                Stage::Segment(index) => index + 1,
                Stage::Preamble | Stage::Header => 1,
                Stage::ControlCrc | Stage::Epilogue => SEGMENTS_MAX,
            };
            for (index, bytes) in lengths.into_iter().enumerate().skip(next) {
                let dropped = index == DATA && preamble.refused(&self.limits);
                if bytes >= ALIGN && !dropped {
                    return NextPages { distance, bytes: Some(bytes) };
                }
                distance += bytes;
            }
            distance += match self.stage {
                Stage::Segment(0) => CRC_LEN,
                Stage::Epilogue => 0,
                _ if preamble.count > 1 => EPILOGUE_LEN,
                _ => 0,
            } + PREAMBLE_LEN;
        }
        match self.shape {
            Some(shape) => {
                NextPages { distance: distance + shape.head - PREAMBLE_LEN, bytes: Some(shape.data) }
            }
            // No page begins earlier in any frame that follows.
            None => NextPages { distance: distance + HEADER_LEN, bytes: None },
        }
    }

    fn direct(&self) -> bool {
        matches!(self.stage, Stage::Segment(i) if i > 0)
            && self.filling.missing() > 0
            && self.filling.is_paged()
    }

    /// Bytes that the current stage still lacks.
    fn missing(&self) -> usize {
        match self.stage {
            Stage::Preamble => PREAMBLE_LEN - self.small_len,
            Stage::Header => HEADER_LEN - self.small_len,
            Stage::Segment(_) => self.filling.missing(),
            Stage::ControlCrc => CRC_LEN - self.small_len,
            Stage::Epilogue => EPILOGUE_LEN - self.small_len,
        }
    }

    /// Moves bytes into the current stage, at most one step of memory; returns how many.
    fn take(&mut self, bytes: &[u8]) -> usize {
        if let Stage::Segment(_) = self.stage {
            return self.filling.feed(bytes, self.limits.check_data_crc);
        }
        let n = bytes.len().min(self.missing());
        self.small[self.small_len..self.small_len + n].copy_from_slice(&bytes[..n]);
        self.small_len += n;
        n
    }

    fn finish_stage(&mut self) -> Result<Option<Frame>, FrameError> {
        match self.stage {
            Stage::Preamble => self.finish_preamble(),
            Stage::Header => self.finish_header(),
            Stage::Segment(index) => {
                self.finish_segment(index);
                Ok(None)
            }
            Stage::ControlCrc => {
                self.check_crc(0, frame::le32(&self.small))?;
                Ok(self.finish_frame(false))
            }
            Stage::Epilogue => self.finish_epilogue(),
        }
    }

    fn finish_preamble(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut bytes = [0; PREAMBLE_LEN];
        bytes.copy_from_slice(&self.small[..PREAMBLE_LEN]);
        let preamble = Preamble::decode(&bytes, &self.limits, self.phase)?;
        if matches!(self.phase, Phase::Authenticating | Phase::Opening) {
            let (len, left) = (preamble.frame_len(), self.handshake_left);
            self.handshake_left = left.checked_sub(len).ok_or(FrameError::TooLong {
                what: "handshake",
                announced: (self.limits.handshake_bytes_max - left + len) as u64,
                limit: self.limits.handshake_bytes_max as u64,
            })?;
        }
        self.preamble = Some(preamble);
        self.small_len = 0;
        if preamble.tag == Tag::Message {
            let [_, front, middle, data] = preamble.segment_lengths().map(|len| len as usize);
            let head = PREAMBLE_LEN + HEADER_LEN + front + middle;
            // Reads between writes say nothing of the next write.
            let data = if data > 0 { data } else { self.shape.map_or(0, |before| before.data) };
            self.shape = (front < ALIGN && middle < ALIGN).then_some(Shape { head, data });
            // Its length was checked with the preamble.
            self.stage = Stage::Header;
            return Ok(None);
        }
        Ok(self.start_segment(0))
    }

    fn finish_header(&mut self) -> Result<Option<Frame>, FrameError> {
        let mut header = [0; MessageHeader::LEN];
        header.copy_from_slice(&self.small[..MessageHeader::LEN]);
        if self.limits.check_data_crc {
            self.crcs[0] = crc32c(SEGMENT_SEED, &header);
        }
        self.check_crc(0, frame::le32(&self.small[MessageHeader::LEN..]))?;
        self.header = MessageHeader::from_array(&header);
        if let Some(preamble) = &self.preamble {
            self.check_refused(preamble)?;
        }
        Ok(self.start_segment(1))
    }

    /// Goes on with the first segment from `from` on that is not empty, or with what follows them; a frame without
    /// either is whole.
    fn start_segment(&mut self, from: usize) -> Option<Frame> {
        self.small_len = 0;
        let preamble = self.preamble?;
        let lengths = preamble.segment_lengths();
        if let Some(index) = (from..SEGMENTS_MAX).find(|&i| lengths[i] > 0) {
            let dropped = index == DATA && preamble.refused(&self.limits);
            self.filling = Segment::new(lengths[index] as usize, dropped);
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
        (self.segments[index], self.crcs[index]) = std::mem::take(&mut self.filling).finish();
        match index {
            0 => self.stage = Stage::ControlCrc,
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
        let preamble = self.preamble.take()?;
        let [payload, front, middle, data] = std::mem::take(&mut self.segments);
        let body = match (aborted, preamble.tag) {
            (true, _) => FrameBody::Aborted,
            (false, Tag::Message) => {
                let (front, middle) = (front.to_piece(), middle.to_piece());
                FrameBody::Message(RawMessage { header: self.header, front, middle, data })
            }
            (false, _) => FrameBody::Control(payload.to_piece()),
        };
        Some(Frame { preamble, body })
    }
}
