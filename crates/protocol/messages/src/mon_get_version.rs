//! MMonGetVersion: asks for the newest version of a map.

use crate::codec::payload;

/// Ceph's MMonGetVersion.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetVersion {
    /// The asker's number for this request.
    pub handle: u64,
    /// Which map: `osdmap`, `mdsmap`, `fsmap`, `monmap`.
    pub what: String,
}

payload!(MonGetVersion = MON_GET_VERSION, version 1, compat 1, [handle, what]);
