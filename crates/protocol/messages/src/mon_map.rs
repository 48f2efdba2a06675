//! MMonMap: the monitor map.

use crate::Blob;
use crate::codec::payload;

/// Ceph's MMonMap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonMap {
    /// The encoded monitor map.
    pub map: Blob,
}

payload!(MonMap = MON_MAP, version 1, compat 1, [map]);
