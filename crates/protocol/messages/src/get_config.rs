//! MGetConfig: asks for the options that apply to a daemon or client.

use types::EntityId;

use crate::codec::payload;

/// Ceph's MGetConfig.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetConfig {
    /// Whose, `osd.0`.
    pub name: EntityId,
    /// Its host name.
    pub host: String,
    /// Its device class; empty when it has none.
    pub device_class: String,
}

payload!(GetConfig = GET_CONFIG, version 1, compat 1, [name, host, device_class]);
