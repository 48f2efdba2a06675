//! MPing: an empty message.

use crate::codec::payload;

/// Ceph's MPing: nothing, to show that the session lives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ping;

payload!(Ping = PING, version 1, compat 1, []);
