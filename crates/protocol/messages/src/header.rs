//! Ceph's ceph_msg_header2 (messenger 2) and a message as its segments.

use buffer::{Piece, Rope};
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
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
        for (to, from) in out.iter_mut().zip(self.to_bytes(0)) {
            *to = from;
        }
        out
    }
}

impl Encode for MessageHeader {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.seq).put(&self.tid).put(&self.kind).put(&self.priority).put(&self.version);
        e.put(&self.data_pre_padding_len).put(&self.data_offset).put(&self.ack_seq).put(&self.flags);
        e.put(&self.compat_version).put(&self.reserved);
    }
}
impl Decode for MessageHeader {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            seq: d.get()?,
            tid: d.get()?,
            kind: d.get()?,
            priority: d.get()?,
            version: d.get()?,
            data_pre_padding_len: d.get()?,
            data_offset: d.get()?,
            ack_seq: d.get()?,
            flags: d.get()?,
            compat_version: d.get()?,
            reserved: d.get()?,
        })
    }
}

/// A message as it stands in a frame.
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
        assert_eq!(MessageHeader::from_bytes_exact(&header.to_array()), Ok(header));
        assert!(MessageHeader::from_bytes(&header.to_array()[..40]).is_err());
    }
}
