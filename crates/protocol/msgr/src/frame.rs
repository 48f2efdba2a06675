//! A frame's bytes in crc mode, messenger 2.1: preamble, first segment and its checksum, further segments, epilogue.

use buffer::{Piece, Rope, crc32c};

use crate::limits::REFUSED_DATA_BYTES_MAX;
use crate::{FrameError, Limits, Phase, RawMessage, Tag};

/// The segment of a message's data.
pub(crate) const DATA: usize = 3;
/// Segments of a frame at most: header, front, middle, data.
pub(crate) const SEGMENTS_MAX: usize = 4;
/// Bytes of a preamble.
pub(crate) const PREAMBLE_LEN: usize = 32;
/// Bytes of an epilogue.
pub(crate) const EPILOGUE_LEN: usize = 13;
/// Bytes of a checksum.
pub(crate) const CRC_LEN: usize = 4;
/// The epilogue's status: everything was sent.
const STATUS_COMPLETE: u8 = 0xe;
/// The epilogue's status: the sender gave up, the frame is to be dropped.
const STATUS_ABORTED: u8 = 0x1;
/// The part of the status that says so; the other half is reserved.
const STATUS_MASK: u8 = 0xf;
/// A segment's checksum starts from here.
pub(crate) const SEGMENT_SEED: u32 = !0;
/// A front of up to this many bytes is copied beside its header, so that a small message is one piece.
const INLINE_MAX: usize = 4096;
/// Alignment stated for all segments but a message's data.
const ALIGN_DEFAULT: u16 = 8;
/// Alignment stated for a message's data.
const ALIGN_DATA: u16 = 4096;

/// A frame's first 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preamble {
    /// What the frame is.
    pub tag: Tag,
    /// Segments, 1 to 4.
    pub count: usize,
    /// Their lengths in bytes.
    pub lengths: [u32; SEGMENTS_MAX],
    /// The alignments at which the sender would have them received, in bytes.
    pub aligns: [u16; SEGMENTS_MAX],
}

impl Preamble {
    /// Reads a preamble and holds what it announces against `limits` and `phase`.
    pub fn decode(bytes: &[u8; PREAMBLE_LEN], limits: &Limits, phase: Phase) -> Result<Self, FrameError> {
        let (body, stated) = bytes.split_at(PREAMBLE_LEN - CRC_LEN);
        let (stated, actual) = (le32(stated), crc32c(0, body));
        if stated != actual {
            return Err(FrameError::PreambleCrc { stated, actual });
        }
        let (tag, count, flags) = (bytes[0], bytes[1], bytes[26]);
        let tag = Tag::from_number(tag).ok_or(FrameError::UnknownTag(tag))?;
        if flags != 0 {
            return Err(FrameError::Flags(flags));
        }
        if !tag.allowed_in(phase) {
            return Err(FrameError::OutOfTurn { tag });
        }
        let count_max = if tag == Tag::Message { SEGMENTS_MAX } else { 1 };
        if !(1..=count_max).contains(&usize::from(count)) {
            return Err(FrameError::SegmentCount { tag, count });
        }
        let mut out = Self { tag, count: count.into(), lengths: [0; 4], aligns: [0; 4] };
        for (i, at) in (2..26).step_by(6).enumerate() {
            out.lengths[i] = le32(&bytes[at..at + 4]);
            out.aligns[i] = u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]);
        }
        out.check(limits)?;
        Ok(out)
    }

    fn check(&self, limits: &Limits) -> Result<(), FrameError> {
        if self.count > 1 && self.lengths[self.count - 1] == 0 {
            return Err(FrameError::EmptyLastSegment);
        }
        let within = |what, announced: u64, limit: usize| match announced <= limit as u64 {
            true => Ok(()),
            false => Err(FrameError::TooLong { what, announced, limit: limit as u64 }),
        };
        if self.tag != Tag::Message {
            return within("control frame", self.lengths[0].into(), limits.control_bytes_max);
        }
        if self.lengths[0] as usize != crate::MessageHeader::LEN {
            return Err(FrameError::HeaderLength(self.lengths[0]));
        }
        let [_, front, middle, data] = self.segment_lengths().map(u64::from);
        within("front", front, limits.front_bytes_max)?;
        within("middle", middle, limits.middle_bytes_max)?;
        // The header, which has not come yet, says which message the data belongs to.
        let data_max = match limits.refused_with_answer {
            Some(_) => REFUSED_DATA_BYTES_MAX.max(limits.data_bytes_max),
            None => limits.data_bytes_max,
        };
        within("data", data, data_max)?;
        let kept = data.min(limits.data_bytes_max as u64);
        within("message", front + middle + kept, limits.message_bytes_max)
    }

    /// Whether the data is more than is kept: it is read if the message gets an answer anyway.
    pub(crate) fn refused(&self, limits: &Limits) -> bool {
        self.tag == Tag::Message && self.segment_lengths()[DATA] as usize > limits.data_bytes_max
    }

    /// The lengths of all four segments; those beyond `count` are empty whatever the preamble says of them.
    pub fn segment_lengths(&self) -> [u32; SEGMENTS_MAX] {
        let mut out = self.lengths;
        out.iter_mut().skip(self.count).for_each(|len| *len = 0);
        out
    }

    /// Bytes of the whole frame on the wire.
    pub fn frame_len(&self) -> usize {
        let first_crc = if self.lengths[0] > 0 { CRC_LEN } else { 0 };
        let epilogue = if self.count > 1 { EPILOGUE_LEN } else { 0 };
        let segments: usize = self.segment_lengths().iter().map(|&len| len as usize).sum();
        PREAMBLE_LEN + segments + first_crc + epilogue
    }

    fn encode(&self) -> [u8; PREAMBLE_LEN] {
        let mut out = [0; PREAMBLE_LEN];
        out[0] = self.tag.number();
        out[1] = self.count as u8;
        for (i, at) in (2..26).step_by(6).enumerate() {
            out[at..at + 4].copy_from_slice(&self.lengths[i].to_le_bytes());
            out[at + 4..at + 6].copy_from_slice(&self.aligns[i].to_le_bytes());
        }
        let crc = crc32c(0, &out[..PREAMBLE_LEN - CRC_LEN]);
        out[PREAMBLE_LEN - CRC_LEN..].copy_from_slice(&crc.to_le_bytes());
        out
    }
}

/// A whole frame as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it announced.
    pub preamble: Preamble,
    pub body: FrameBody,
}

/// What a frame holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FrameBody {
    /// The payload of a control frame.
    Control(Piece),
    /// A message. Data that is refused with an answer is empty here, whatever the preamble announced.
    Message(RawMessage),
    /// The sender gave up midway: the frame is to be dropped.
    Aborted,
}

/// A control frame's bytes.
pub fn encode_control(tag: Tag, payload: &[u8]) -> Vec<u8> {
    let preamble = Preamble {
        tag,
        count: 1,
        lengths: [payload.len() as u32, 0, 0, 0],
        aligns: [ALIGN_DEFAULT, 0, 0, 0],
    };
    let mut out = Vec::with_capacity(preamble.frame_len());
    out.extend_from_slice(&preamble.encode());
    if !payload.is_empty() {
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32c(SEGMENT_SEED, payload).to_le_bytes());
    }
    out
}

fn crc_if_any(present: bool, crc: impl FnOnce(u32) -> u32) -> u32 {
    if present { crc(SEGMENT_SEED) } else { 0 }
}

fn epilogue(crcs: [u32; 3]) -> [u8; EPILOGUE_LEN] {
    let mut out = [0; EPILOGUE_LEN];
    out[0] = STATUS_COMPLETE;
    for (to, crc) in out[1..].chunks_exact_mut(CRC_LEN).zip(crcs) {
        to.copy_from_slice(&crc.to_le_bytes());
    }
    out
}

/// Reads an epilogue: whether the frame was aborted, and the checksums of segments 1 to 3.
pub(crate) fn decode_epilogue(bytes: &[u8; EPILOGUE_LEN]) -> Result<(bool, [u32; 3]), FrameError> {
    let aborted = match bytes[0] & STATUS_MASK {
        STATUS_COMPLETE => false,
        STATUS_ABORTED => true,
        _ => return Err(FrameError::LateStatus(bytes[0])),
    };
    Ok((aborted, [1, 5, 9].map(|at| le32(&bytes[at..at + CRC_LEN]))))
}

/// A message with a segment of 4 GiB or more: a frame can't say how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a message of type {kind} has a segment of {bytes} bytes; a frame's segments are shorter than 4 GiB")]
pub struct MessageTooLong {
    pub kind: u16,
    /// The segment's length.
    pub bytes: usize,
}

/// A message as a frame's bytes: one piece for everything small, the payload's pieces shared, each byte's checksum
/// taken once. The header is written unchanged, sequence numbers included.
///
/// # Errors
/// Where a segment's length does not fit the preamble.
pub fn encode_message(message: &RawMessage) -> Result<Rope, MessageTooLong> {
    let header = message.header.to_array();
    let lengths = [header.len(), message.front.len(), message.middle.len(), message.data.len()];
    let count = lengths.iter().rposition(|&len| len > 0).map_or(1, |last| last + 1);
    let aligns = [ALIGN_DEFAULT, ALIGN_DEFAULT, ALIGN_DEFAULT, ALIGN_DATA];
    let mut preamble = Preamble { tag: Tag::Message, count, lengths: [0; 4], aligns: [0; 4] };
    for i in 0..count {
        let length = u32::try_from(lengths[i])
            .map_err(|_| MessageTooLong { kind: message.header.kind, bytes: lengths[i] })?;
        (preamble.lengths[i], preamble.aligns[i]) = (length, aligns[i]);
    }
    let small = message.front.len() + message.middle.len() <= INLINE_MAX;
    let inline = if small { message.front.len() + message.middle.len() } else { 0 };
    let mut head = Vec::with_capacity(PREAMBLE_LEN + header.len() + CRC_LEN + inline + EPILOGUE_LEN);
    head.extend_from_slice(&preamble.encode());
    head.extend_from_slice(&header);
    head.extend_from_slice(&crc32c(SEGMENT_SEED, &header).to_le_bytes());
    let crcs = [
        crc_if_any(count > 1, |seed| crc32c(seed, &message.front)),
        crc_if_any(count > 2, |seed| crc32c(seed, &message.middle)),
        crc_if_any(count > 3, |seed| message.data.crc32c(seed)),
    ];
    let epilogue = epilogue(crcs);
    if small {
        head.extend_from_slice(&message.front);
        head.extend_from_slice(&message.middle);
    }
    // The epilogue lies behind the head in the same memory, also where payload comes between them.
    let head_len = head.len();
    if count > 1 {
        head.extend_from_slice(&epilogue);
    }
    let head = Piece::from(head);
    if small && message.data.is_empty() {
        return Ok(head.into());
    }
    let mut out = Rope::with_capacity(4 + message.data.pieces().len());
    out.push(head.slice(0..head_len));
    if !small {
        out.push(message.front.clone());
        out.push(message.middle.clone());
    }
    out.append(message.data.clone());
    out.push(head.slice(head_len..head.len()));
    Ok(out)
}

/// The first four bytes as a number; fewer never come here.
pub(crate) fn le32(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |n, &b| n << 8 | u32::from(b))
}
