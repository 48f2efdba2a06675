//! Who a peer is and what it may do: authentication methods as multi-step state machines, and capabilities.
//!
//! A method sees only payloads (Ceph's AUTH_* frames carry them) and answers with a [`AuthStep`] or an error; frames,
//! signatures and sessions belong to the messenger. Of cephx there is the
//! client's half. This crate never does I/O, draws no random number and looks for no key: it is given them.

mod cap_syntax;
mod caps;
mod cephx;
mod client;
mod key;
mod none;
mod server;
mod session;

pub use cap_syntax::{CapService, CapSyntaxError, check_caps};
pub use caps::{Access, Caps, ParseCapsError};
pub use cephx::{CephxAuthorizer, CephxLogin, Login, Tickets};
pub use client::{AuthRequest, ClientMethod, ClientNone};
pub use key::{CryptoKey, KeyError};
pub use none::{ServerNone, Service};
pub use server::{AuthError, AuthStep, Identity, ServerMethod, SessionKey};
pub use session::{SessionId, SessionInfo};

/// CEPH_AUTH_NONE.
pub const METHOD_NONE: u32 = 1;
/// CEPH_AUTH_CEPHX.
pub const METHOD_CEPHX: u32 = 2;
/// CEPH_CON_MODE_CRC: frames are checksummed.
pub const MODE_CRC: u32 = 1;
/// CEPH_CON_MODE_SECURE: frames are sealed.
pub const MODE_SECURE: u32 = 2;
