//! Why a connection ends.

use auth::AuthError;
use encoding::DecodeError;
use types::{EntityAddr, EntityAddrVec, EntityType};

use crate::{MessageTooLong, Tag};

/// Whose fault an end is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The peer broke the protocol, or is not one of ours.
    Peer,
    /// Both behave; they just don't fit, or the network failed.
    Nobody,
    /// Our own mistake.
    Us,
}

/// What is wrong with a frame. Always the peer's fault (or the network's, where a checksum fails).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The preamble's checksum does not match.
    #[error("preamble checksum {actual:#010x}, stated {stated:#010x}")]
    PreambleCrc {
        /// What the peer wrote.
        stated: u32,
        /// What its bytes give.
        actual: u32,
    },
    /// An unknown tag.
    #[error("unknown tag {0}")]
    UnknownTag(u8),
    /// A frame that may not come now.
    #[error("{tag:?} frame out of turn")]
    OutOfTurn { tag: Tag },
    /// A segment count other than 1 to 4 for a message, 1 for a control frame.
    #[error("{tag:?} frame of {count} segments")]
    SegmentCount {
        /// The frame's tag.
        tag: Tag,
        /// The count met.
        count: u8,
    },
    /// The last of several segments must not be empty.
    #[error("last segment is empty")]
    EmptyLastSegment,
    /// Flags that ask for what was not agreed on (compression).
    #[error("unknown frame flags {0:#x}")]
    Flags(u8),
    /// A segment (or the frame's sum) longer than we take.
    #[error("{what} of {announced} bytes announced, the limit is {limit}")]
    TooLong {
        /// Which segment.
        what: &'static str,
        /// Bytes announced.
        announced: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A message's header segment of another length than 41.
    #[error("message header of {0} bytes")]
    HeaderLength(u32),
    /// A segment's checksum does not match.
    #[error("segment {segment} checksum {actual:#010x}, stated {stated:#010x}")]
    SegmentCrc {
        /// Its index.
        segment: usize,
        /// What the peer wrote.
        stated: u32,
        /// What its bytes give.
        actual: u32,
    },
    /// An epilogue that says neither whole nor aborted.
    #[error("epilogue status {0:#04x}")]
    LateStatus(u8),
}

/// Why a connection ended (or must end now).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The first bytes are not messenger 2's.
    #[error("not a messenger 2 peer (it began with \"{}\")", .0.escape_ascii())]
    NotMessenger(Vec<u8>),
    /// A peer of messenger version 1.
    #[error("the peer speaks messenger version 1, only version 2 is served")]
    MessengerV1,
    /// The banner's payload cannot be read, or is absurdly long.
    #[error("bad banner: {0}")]
    Banner(&'static str),
    /// The peer lacks messenger 2.1.
    #[error("the peer's messenger features {supported:#x} lack revision 2.1")]
    Revision {
        /// What it has.
        supported: u64,
    },
    /// The peer requires messenger features that we lack.
    #[error("the peer requires messenger features {required:#x}")]
    RequiredByPeer { required: u64 },
    /// A bad frame.
    #[error("bad frame: {0}")]
    Frame(#[from] FrameError),
    /// A message of ours that fits no frame: a defect of the code that built it.
    #[error("can't send: {0}")]
    TooLong(#[from] MessageTooLong),
    /// A control frame's payload cannot be read.
    #[error("{tag:?} frame: {error}")]
    Payload {
        /// The frame's tag.
        tag: Tag,
        /// What is wrong.
        error: DecodeError,
    },
    /// A frame that the handshake does not expect in this state.
    #[error("{tag:?} frame while {state}")]
    Unexpected {
        /// The frame's tag.
        tag: Tag,
        /// What we were waiting for.
        state: &'static str,
    },
    /// Authentication failed.
    #[error("authentication: {0}")]
    Auth(#[from] AuthError),
    /// The peer's signature of the handshake is wrong.
    #[error("wrong signature of the handshake")]
    Signature,
    /// A CLIENT_IDENT without an address.
    #[error("the peer did not send its own address")]
    NoAddress,
    /// The peer dialled another daemon.
    #[error("the peer wants {target}, we are {ours}")]
    WrongTarget {
        /// Whom it wants.
        target: EntityAddr,
        /// Who we are.
        ours: EntityAddrVec,
    },
    /// This side dialled another daemon.
    #[error("wanted {target}, the peer is {theirs}")]
    WrongPeer {
        /// Whom we want.
        target: EntityAddr,
        /// Who is there.
        theirs: EntityAddrVec,
    },
    /// We dialled a daemon of another kind.
    #[error("wanted a {}, the peer is a {}", .wanted.as_str(), .found.as_str())]
    WrongPeerType {
        /// The kind we want.
        wanted: EntityType,
        /// The kind that is there.
        found: EntityType,
    },
    /// The server needs features that we lack.
    #[error("the server needs features {0:#x} that we lack")]
    MissingFeatures(u64),
    /// Both dialled each other; the other connection is used.
    #[error("both sides dialled, the other connection wins")]
    LostRace,
    /// A newer connection of the same peer took the session over.
    #[error("a newer connection of the peer took the session over")]
    Replaced,
    /// An older connection attempt came late.
    #[error("a stale connection attempt")]
    Stale,
    /// The daemon refused a global id or ended the handshake.
    #[error("refused here: {0}")]
    Refused(&'static str),
    /// An invariant of ours does not hold.
    #[error("internal error: {0}")]
    Internal(&'static str),
}

impl CloseReason {
    /// Whose fault it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::LostRace | Self::Replaced | Self::Stale | Self::MissingFeatures(_) => Fault::Nobody,
            Self::WrongTarget { .. } | Self::WrongPeer { .. } | Self::WrongPeerType { .. } => Fault::Nobody,
            Self::Refused(_) | Self::Internal(_) => Fault::Us,
            _ => Fault::Peer,
        }
    }
}
