//! MMgrOpen: a daemon, or a client that runs a service, introduces itself to the manager.

use std::collections::BTreeMap;

use encoding::{DecodeError, Decoder, Encoder};
use types::Name;

use crate::Blob;
use crate::codec::{Envelope, Payload};
use crate::kind;

/// Ceph's MMgrOpen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrOpen {
    /// The daemon's name within its service.
    pub daemon_name: Name,
    /// The service; empty: what kind of daemon the sender is says it.
    pub service_name: Name,
    /// What a service daemon says of itself: metadata and status. `None`: it is one of the cluster's own daemons.
    pub service_daemon: Option<(BTreeMap<Name, Name>, BTreeMap<Name, Name>)>,
    /// Its options as they are set, encoded.
    pub config: Blob,
    /// Its options' defaults, encoded.
    pub config_defaults: Blob,
}

impl Payload for MgrOpen {
    const KIND: u16 = kind::MGR_OPEN;
    const VERSION: u16 = 3;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        Ok(Self {
            daemon_name: d.get()?,
            service_name: d.get()?,
            service_daemon: d.get()?,
            config: d.get()?,
            config_defaults: d.get()?,
        })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.daemon_name).put(&self.service_name).put(&self.service_daemon);
        e.put(&self.config).put(&self.config_defaults);
    }
}
