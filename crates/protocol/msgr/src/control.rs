//! Control frames: their payloads as plain data.

use encoding::{DecodeError, Decoder, Encoder};
use types::{EntityAddr, EntityAddrVec, EntityType, UTime};

use crate::Tag;
use crate::frame::encode_control;

/// CEPH_MSG_CONNECT_LOSSY: the session ends with its connection.
pub(crate) const LOSSY: u64 = 1;

/// CLIENT_IDENT: the client opens a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientIdent {
    /// The client's addresses.
    pub addrs: EntityAddrVec,
    /// The server's address that it dialled.
    pub target: EntityAddr,
    /// Its number: OSD number, rank, or global id; -1 where it has none yet.
    pub gid: i64,
    /// Rises with every connection that this instance makes.
    pub global_seq: u64,
    /// Features it has.
    pub supported: u64,
    /// Features that it requires; no implementation compares them.
    pub required: u64,
    /// Bit 0: the session is lossy.
    pub flags: u64,
    /// Names a lossless session; 0 in a lossy one.
    pub cookie: u64,
}

/// SERVER_IDENT: the server accepts a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerIdent {
    /// The server's addresses.
    pub addrs: EntityAddrVec,
    /// Its number.
    pub gid: i64,
    /// Rises with every connection that this instance makes or takes.
    pub global_seq: u64,
    /// Features it has.
    pub supported: u64,
    /// Features it requires.
    pub required: u64,
    /// Bit 0: the session is lossy.
    pub flags: u64,
    /// Names a lossless session; 0 in a lossy one.
    pub cookie: u64,
}

/// SESSION_RECONNECT: the client takes a lossless session up again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconnect {
    /// The client's addresses.
    pub addrs: EntityAddrVec,
    /// The cookie of its CLIENT_IDENT.
    pub client_cookie: u64,
    /// The cookie of the SERVER_IDENT that answered.
    pub server_cookie: u64,
    /// As in [`ClientIdent`].
    pub global_seq: u64,
    /// Rises with every reconnection of the session.
    pub connect_seq: u64,
    /// The newest message that the client has received.
    pub msg_seq: u64,
}

/// A control frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Control {
    Hello {
        /// What the sender is.
        kind: EntityType,
        /// The address it sees the receiver at.
        peer_addr: EntityAddr,
    },
    AuthRequest {
        method: u32,
        /// Connection modes, best first.
        modes: Vec<u32>,
        /// The method's payload.
        payload: Vec<u8>,
    },
    AuthBadMethod {
        /// The method refused.
        method: u32,
        /// A negative errno.
        result: i32,
        /// Methods that would do.
        methods: Vec<u32>,
        /// Modes that would do.
        modes: Vec<u32>,
    },
    AuthReplyMore(Vec<u8>),
    AuthRequestMore(Vec<u8>),
    AuthDone {
        /// The client's global id.
        global_id: u64,
        /// The connection mode chosen.
        mode: u32,
        /// The method's payload.
        payload: Vec<u8>,
    },
    /// AUTH_SIGNATURE: HMAC-SHA256 over what was received; zeros without a key.
    AuthSignature([u8; 32]),
    ClientIdent(ClientIdent),
    ServerIdent(ServerIdent),
    /// IDENT_MISSING_FEATURES: those that the client lacks.
    IdentMissingFeatures(u64),
    /// SESSION_RECONNECT.
    Reconnect(Reconnect),
    /// SESSION_RESET: forget the session, or (not `full`) only what the server said of it.
    Reset {
        /// Whether queued messages go too.
        full: bool,
    },
    /// SESSION_RETRY: with a connect_seq above this.
    Retry(u64),
    /// SESSION_RETRY_GLOBAL: with a global_seq above this.
    RetryGlobal(u64),
    /// SESSION_RECONNECT_OK: the newest message that the server has received.
    ReconnectOk(u64),
    Wait,
    /// KEEPALIVE2: the sender's time.
    Keepalive(UTime),
    /// KEEPALIVE2_ACK: the time from the keepalive that it answers.
    KeepaliveAck(UTime),
    /// ACK: the newest message received.
    Ack(u64),
}

impl Control {
    /// The frame's tag.
    pub fn tag(&self) -> Tag {
        match self {
            Self::Hello { .. } => Tag::Hello,
            Self::AuthRequest { .. } => Tag::AuthRequest,
            Self::AuthBadMethod { .. } => Tag::AuthBadMethod,
            Self::AuthReplyMore(_) => Tag::AuthReplyMore,
            Self::AuthRequestMore(_) => Tag::AuthRequestMore,
            Self::AuthDone { .. } => Tag::AuthDone,
            Self::AuthSignature(_) => Tag::AuthSignature,
            Self::ClientIdent(_) => Tag::ClientIdent,
            Self::ServerIdent(_) => Tag::ServerIdent,
            Self::IdentMissingFeatures(_) => Tag::IdentMissingFeatures,
            Self::Reconnect(_) => Tag::SessionReconnect,
            Self::Reset { .. } => Tag::SessionReset,
            Self::Retry(_) => Tag::SessionRetry,
            Self::RetryGlobal(_) => Tag::SessionRetryGlobal,
            Self::ReconnectOk(_) => Tag::SessionReconnectOk,
            Self::Wait => Tag::Wait,
            Self::Keepalive(_) => Tag::Keepalive2,
            Self::KeepaliveAck(_) => Tag::Keepalive2Ack,
            Self::Ack(_) => Tag::Ack,
        }
    }

    /// The bytes of the frame to send.
    pub fn encode_frame(&self) -> Vec<u8> {
        // Addresses are always in the form of MSG_ADDR2, whatever the peer's features.
        let mut e = Encoder::new(!0);
        self.encode_payload(&mut e);
        encode_control(self.tag(), e.as_slice())
    }

    fn encode_payload(&self, e: &mut Encoder) {
        match self {
            Self::Hello { kind, peer_addr } => e.put(&kind.number()).put(peer_addr),
            Self::AuthRequest { method, modes, payload } => e.put(method).put(modes).blob(payload),
            Self::AuthBadMethod { method, result, methods, modes } => {
                e.put(method).put(result).put(methods).put(modes)
            }
            Self::AuthReplyMore(payload) | Self::AuthRequestMore(payload) => e.blob(payload),
            Self::AuthDone { global_id, mode, payload } => e.put(global_id).put(mode).blob(payload),
            Self::AuthSignature(signature) => e.raw(signature),
            Self::ClientIdent(i) => {
                e.put(&i.addrs).put(&i.target).put(&i.gid).put(&i.global_seq);
                e.put(&i.supported).put(&i.required).put(&i.flags).put(&i.cookie)
            }
            Self::ServerIdent(i) => {
                e.put(&i.addrs).put(&i.gid).put(&i.global_seq);
                e.put(&i.supported).put(&i.required).put(&i.flags).put(&i.cookie)
            }
            Self::Reconnect(r) => {
                e.put(&r.addrs).put(&r.client_cookie).put(&r.server_cookie);
                e.put(&r.global_seq).put(&r.connect_seq).put(&r.msg_seq)
            }
            Self::Reset { full } => e.put(full),
            Self::IdentMissingFeatures(n)
            | Self::Retry(n)
            | Self::RetryGlobal(n)
            | Self::ReconnectOk(n)
            | Self::Ack(n) => e.put(n),
            Self::Wait => e,
            Self::Keepalive(time) | Self::KeepaliveAck(time) => e.put(time),
        };
    }

    /// Reads a control frame's payload; bytes that a later release adds at the end are ignored, as Ceph does. A
    /// message's tag has no control payload, and compression's are not read.
    pub fn decode(tag: Tag, payload: &[u8]) -> Result<Self, DecodeError> {
        let d = &mut Decoder::new(payload);
        Ok(match tag {
            Tag::Hello => Self::Hello { kind: d.get::<u8>()?.into(), peer_addr: d.get()? },
            Tag::AuthRequest | Tag::AuthBadMethod | Tag::AuthReplyMore | Tag::AuthRequestMore => {
                Self::decode_auth(tag, d)?
            }
            Tag::AuthDone => {
                Self::AuthDone { global_id: d.get()?, mode: d.get()?, payload: d.blob("payload")?.to_vec() }
            }
            Tag::AuthSignature => Self::AuthSignature(d.array("signature")?),
            Tag::ClientIdent => Self::ClientIdent(ClientIdent {
                addrs: d.get()?,
                target: d.get()?,
                gid: d.get()?,
                global_seq: d.get()?,
                supported: d.get()?,
                required: d.get()?,
                flags: d.get()?,
                cookie: d.get()?,
            }),
            Tag::ServerIdent => Self::ServerIdent(ServerIdent {
                addrs: d.get()?,
                gid: d.get()?,
                global_seq: d.get()?,
                supported: d.get()?,
                required: d.get()?,
                flags: d.get()?,
                cookie: d.get()?,
            }),
            Tag::SessionReconnect => Self::Reconnect(Reconnect {
                addrs: d.get()?,
                client_cookie: d.get()?,
                server_cookie: d.get()?,
                global_seq: d.get()?,
                connect_seq: d.get()?,
                msg_seq: d.get()?,
            }),
            Tag::IdentMissingFeatures => Self::IdentMissingFeatures(d.get()?),
            Tag::SessionReset => Self::Reset { full: d.get()? },
            Tag::SessionRetry => Self::Retry(d.get()?),
            Tag::SessionRetryGlobal => Self::RetryGlobal(d.get()?),
            Tag::SessionReconnectOk => Self::ReconnectOk(d.get()?),
            Tag::Wait => Self::Wait,
            Tag::Keepalive2 => Self::Keepalive(d.get()?),
            Tag::Keepalive2Ack => Self::KeepaliveAck(d.get()?),
            Tag::Ack => Self::Ack(d.get()?),
            Tag::Message | Tag::CompressionRequest | Tag::CompressionDone => {
                return Err(DecodeError::BadValue { what: "control tag", value: tag.number().into() });
            }
        })
    }

    fn decode_auth(tag: Tag, d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(match tag {
            Tag::AuthRequest => {
                Self::AuthRequest { method: d.get()?, modes: d.get()?, payload: d.blob("payload")?.to_vec() }
            }
            Tag::AuthBadMethod => {
                Self::AuthBadMethod { method: d.get()?, result: d.get()?, methods: d.get()?, modes: d.get()? }
            }
            Tag::AuthReplyMore => Self::AuthReplyMore(d.blob("payload")?.to_vec()),
            _ => Self::AuthRequestMore(d.blob("payload")?.to_vec()),
        })
    }
}
