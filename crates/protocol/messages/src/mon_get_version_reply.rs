//! MMonGetVersionReply: a map's newest and oldest version.

use crate::codec::payload;

/// Ceph's MMonGetVersionReply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetVersionReply {
    /// The request's.
    pub handle: u64,
    /// The newest committed version.
    pub version: u64,
    /// The oldest one kept.
    pub oldest_version: u64,
}

payload!(MonGetVersionReply = MON_GET_VERSION_REPLY, version 2, compat 2, [handle, version, oldest_version]);
