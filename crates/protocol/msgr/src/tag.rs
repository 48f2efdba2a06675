//! What a frame is (Ceph's Tag), and when it may come.

/// A frame's kind, by its number on the wire.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum Tag {
    /// Entity type, and the address that the sender sees the receiver at.
    Hello = 1,
    /// The client's method, modes and payload.
    AuthRequest = 2,
    /// The server would have another method.
    AuthBadMethod = 3,
    /// The server's payload of a further step.
    AuthReplyMore = 4,
    /// The client's payload of a further step.
    AuthRequestMore = 5,
    /// Authenticated: global id, mode, payload.
    AuthDone = 6,
    /// Both sides: the signature of what was received so far.
    AuthSignature = 7,
    /// The client opens a session.
    ClientIdent = 8,
    /// The server accepts a session.
    ServerIdent = 9,
    /// The server needs features that the client lacks.
    IdentMissingFeatures = 10,
    /// The client takes a lossless session up again.
    SessionReconnect = 11,
    /// The server doesn't know that session.
    SessionReset = 12,
    /// The client's connect_seq is stale.
    SessionRetry = 13,
    /// The client's global_seq is stale.
    SessionRetryGlobal = 14,
    /// The session goes on.
    SessionReconnectOk = 15,
    /// Both sides dialled: this connection loses, the other will be used.
    Wait = 16,
    /// A message: header, front, middle, data.
    Message = 17,
    /// Are you there?
    Keepalive2 = 18,
    /// I am.
    Keepalive2Ack = 19,
    /// The newest sequence number that the sender has received.
    Ack = 20,
    /// The client would compress. Never allowed: we don't offer it; known so that captures of others can be read.
    CompressionRequest = 21,
    /// The server's answer to that.
    CompressionDone = 22,
}

impl Tag {
    const ALL: [Self; 22] = [
        Self::Hello,
        Self::AuthRequest,
        Self::AuthBadMethod,
        Self::AuthReplyMore,
        Self::AuthRequestMore,
        Self::AuthDone,
        Self::AuthSignature,
        Self::ClientIdent,
        Self::ServerIdent,
        Self::IdentMissingFeatures,
        Self::SessionReconnect,
        Self::SessionReset,
        Self::SessionRetry,
        Self::SessionRetryGlobal,
        Self::SessionReconnectOk,
        Self::Wait,
        Self::Message,
        Self::Keepalive2,
        Self::Keepalive2Ack,
        Self::Ack,
        Self::CompressionRequest,
        Self::CompressionDone,
    ];

    /// The tag of this number.
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n).checked_sub(1)?).copied()
    }

    /// The wire's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether a frame of this kind may come in `phase`.
    pub fn allowed_in(self, phase: Phase) -> bool {
        match phase {
            Phase::Authenticating => self <= Self::AuthSignature,
            Phase::Opening => self >= Self::ClientIdent && self <= Self::Wait,
            Phase::Open => self >= Self::Message && self <= Self::Ack,
            Phase::Any => true,
        }
    }
}

/// How far a connection is, as the frame reader must know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Up to the signature: HELLO and AUTH_* frames only.
    Authenticating,
    /// Authenticated, no session yet: identification frames only.
    Opening,
    /// A session is open: messages, keepalives and acknowledgements only.
    Open,
    /// Everything (for tools that read captures).
    Any,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tags_correspond() {
        for n in 1..=22 {
            assert_eq!(Tag::from_number(n).map(Tag::number), Some(n));
        }
        for n in [0, 23, 255] {
            assert_eq!(Tag::from_number(n), None);
        }
    }
}
