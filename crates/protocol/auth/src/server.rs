//! The server's half of an authentication method.

use encoding::DecodeError;
use types::EntityId;

use crate::Caps;

/// A key shared with the peer, which signs the handshake. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionKey(pub Vec<u8>);

impl std::fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SessionKey")
    }
}

/// Whom a method found the peer to be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The authentication name, `client.admin`.
    pub entity: EntityId,
    /// The cluster-wide id of this instance, never 0.
    pub global_id: u64,
    /// What it may do here.
    pub caps: Caps,
    /// The connection mode agreed on (`MODE_CRC`).
    pub mode: u32,
    /// What AUTH_DONE carries to the peer.
    pub payload: Vec<u8>,
    /// The key for the handshake's signatures; none with method none.
    pub session_key: Option<SessionKey>,
}

/// What a method answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AuthStep {
    /// AUTH_BAD_METHOD: not this way; the peer may ask again on the same connection.
    Bad {
        /// A negative errno.
        result: i32,
        /// Methods that would do.
        methods: Vec<u32>,
        /// Connection modes that would do.
        modes: Vec<u32>,
    },
    /// AUTH_REPLY_MORE with this payload; the peer answers by AUTH_REQUEST_MORE.
    More(Vec<u8>),
    /// The daemon must give a global id ([`ServerMethod::global_id`]) before this can go on.
    GlobalIdWanted {
        /// Who wants it.
        entity: EntityId,
        /// The id that the peer says it has, 0 for none.
        asked: u64,
    },
    /// AUTH_DONE.
    Done(Identity),
}

/// Why an authentication ends with the connection. The peer's fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The payload cannot be read.
    #[error("authentication payload: {0}")]
    Malformed(#[from] DecodeError),
    /// A payload or an answer that the method does not expect now.
    #[error("authentication step out of turn: {0}")]
    OutOfTurn(&'static str),
    /// The server offers nothing that we can do.
    #[error("the server refused the method with {result}, it offers methods {methods:?}, modes {modes:?}")]
    Refused {
        /// Its errno.
        result: i32,
        /// What it offers.
        methods: Vec<u32>,
        /// Connection modes it offers.
        modes: Vec<u32>,
    },
    /// The server knows the method, and not the key.
    #[error("the key is not accepted for {entity} (error {result})")]
    Denied {
        entity: EntityId,
        /// Its errno.
        result: i32,
    },
    /// An AUTH_DONE that does not fit what was asked.
    #[error("the server's AUTH_DONE: {0}")]
    BadDone(&'static str),
}

/// One connection's authentication, seen from the server. `start` may come again after [`AuthStep::Bad`].
pub trait ServerMethod: Send {
    /// AUTH_REQUEST: the peer's method, the connection modes it accepts (best first), and the method's payload.
    fn start(&mut self, method: u32, modes: &[u32], payload: &[u8]) -> Result<AuthStep, AuthError>;

    /// AUTH_REQUEST_MORE, after [`AuthStep::More`].
    fn more(&mut self, payload: &[u8]) -> Result<AuthStep, AuthError>;

    /// The daemon's answer to [`AuthStep::GlobalIdWanted`].
    fn global_id(&mut self, id: u64) -> Result<AuthStep, AuthError>;
}
