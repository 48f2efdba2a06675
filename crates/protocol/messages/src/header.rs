//! Ceph's ceph_msg_header2 (messenger 2) and a message as its segments.

use buffer::{Piece, Rope};
use encoding::{Decode, DecodeError, Decoder};
use types::EntityType;

/// Priorities (CEPH_MSG_PRIO_*): a higher one is sent first.
pub struct Priority;

impl Priority {
    /// CEPH_MSG_PRIO_LOW.
    pub const LOW: u16 = 64;
    /// CEPH_MSG_PRIO_DEFAULT: what everyone but monitors sends at.
    pub const DEFAULT: u16 = 127;
    /// CEPH_MSG_PRIO_HIGH: what monitors send at.
    pub const HIGH: u16 = 196;
    /// CEPH_MSG_PRIO_HIGHEST.
    pub const HIGHEST: u16 = 255;
    /// `osd_client_op_priority`'s default, which clients put into their operations.
    pub const CLIENT_OP: u16 = 63;

    /// What a participant of this type sends messages at that have no priority of their own.
    pub fn of_sender(sender: EntityType) -> u16 {
        if sender == EntityType::Mon { Self::HIGH } else { Self::DEFAULT }
    }
}

/// The header segment of a message frame: 41 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageHeader {
    /// Number within the session, from 1; the session's business.
    pub seq: u64,
    /// The transaction id: a reply repeats its request's. 0 where there is none.
    pub tid: u64,
    /// The message type; see [`crate::kind`].
    pub kind: u16,
    /// See [`Priority`].
    pub priority: u16,
    /// Version of the front's encoding.
    pub version: u16,
    /// Bytes of padding before the data; 0 from every known peer.
    pub data_pre_padding_len: u32,
    /// The data's offset within a page, as the sender would have it received.
    pub data_offset: u16,
    /// The newest seq that the sender has received; the session's business.
    pub ack_seq: u64,
    /// See [`MessageHeader::COMPLETE`].
    pub flags: u8,
    /// The oldest version that a reader must know; 0 is "not said".
    pub compat_version: u16,
    /// 0.
    pub reserved: u16,
}

impl MessageHeader {
    /// Bytes on the wire.
    pub const LEN: usize = 41;
    /// Flags of every message in messenger 2: complete (1), and no checksum of version 1 (2).
    pub const COMPLETE: u8 = 3;

    /// The header's bytes.
    pub fn to_array(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.seq.to_le_bytes());
        out[8..16].copy_from_slice(&self.tid.to_le_bytes());
        out[16..18].copy_from_slice(&self.kind.to_le_bytes());
        out[18..20].copy_from_slice(&self.priority.to_le_bytes());
        out[20..22].copy_from_slice(&self.version.to_le_bytes());
        out[22..26].copy_from_slice(&self.data_pre_padding_len.to_le_bytes());
        out[26..28].copy_from_slice(&self.data_offset.to_le_bytes());
        out[28..36].copy_from_slice(&self.ack_seq.to_le_bytes());
        out[36] = self.flags;
        out[37..39].copy_from_slice(&self.compat_version.to_le_bytes());
        out[39..41].copy_from_slice(&self.reserved.to_le_bytes());
        out
    }

    /// The header that these bytes are: any are one.
    pub fn from_array(bytes: &[u8; Self::LEN]) -> Self {
        let u16 = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u64 = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        Self {
            seq: u64(0),
            tid: u64(8),
            kind: u16(16),
            priority: u16(18),
            version: u16(20),
            data_pre_padding_len: u32::from(u16(22)) | u32::from(u16(24)) << 16,
            data_offset: u16(26),
            ack_seq: u64(28),
            flags: bytes[36],
            compat_version: u16(37),
            reserved: u16(39),
        }
    }
}

impl Decode for MessageHeader {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self::from_array(&d.array("ceph_msg_header2")?))
    }
}

/// A message as a frame carries it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RawMessage {
    /// The first segment.
    pub header: MessageHeader,
    /// The second: the message's fields.
    pub front: Piece,
    /// The third: only the file system's messages have one.
    pub middle: Piece,
    /// The fourth: payload.
    pub data: Rope,
}

impl RawMessage {
    /// A message without middle and data.
    pub fn new(header: MessageHeader, front: Piece) -> Self {
        Self { header, front, middle: Piece::empty(), data: Rope::new() }
    }

    /// Bytes of front, middle and data: what a receiver's budget counts.
    pub fn len(&self) -> usize {
        self.front.len() + self.middle.len() + self.data.len()
    }

    /// Whether front, middle and data are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_41_bytes_and_comes_back() {
        let header = MessageHeader {
            seq: 1,
            tid: 2,
            kind: 3,
            priority: 4,
            version: 5,
            data_pre_padding_len: 6,
            data_offset: 7,
            ack_seq: 8,
            flags: 9,
            compat_version: 10,
            reserved: 11,
        };
        assert_eq!(MessageHeader::from_array(&header.to_array()), header);
        let bytes = [
            [1u8, 0, 0, 0, 0, 0, 0, 0, 2, 0],
            [0, 0, 0, 0, 0, 0, 3, 0, 4, 0],
            [5, 0, 6, 0, 0, 0, 7, 0, 8, 0],
        ];
        assert_eq!(header.to_array()[..30], bytes.concat());
        assert_eq!(header.to_array()[36..], [9, 10, 0, 11, 0]);
    }
}
