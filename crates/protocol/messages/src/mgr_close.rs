//! MMgrClose: a service daemon takes leave of the manager, which answers with the same.

use types::Name;

use crate::codec::payload;

/// Ceph's MMgrClose.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrClose {
    /// The daemon's name within its service.
    pub daemon_name: Name,
    /// The service; empty: what kind of daemon the sender is says it.
    pub service_name: Name,
}

payload!(MgrClose = MGR_CLOSE, version 1, compat 1, [daemon_name, service_name]);
