//! MMonGetMap: a client's first message to a monitor.

use crate::codec::payload;

/// Ceph's MMonGetMap: asks for the monitor map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonGetMap;

payload!(MonGetMap = MON_GET_MAP, version 1, compat 1, []);
