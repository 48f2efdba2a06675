//! MMgrUpdate: a daemon says again what it is.

use std::collections::BTreeMap;

use encoding::{DecodeError, Decoder, Encoder};
use types::Name;

use crate::codec::{Envelope, Payload};
use crate::kind;

/// Ceph's MMgrUpdate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrUpdate {
    /// The daemon's name within its service.
    pub daemon_name: Name,
    /// The service; empty: what kind of daemon the sender is says it.
    pub service_name: Name,
    /// Its metadata and status, where they are new.
    pub facts: Option<(BTreeMap<Name, Name>, BTreeMap<Name, Name>)>,
}

impl Payload for MgrUpdate {
    const KIND: u16 = kind::MGR_UPDATE;
    const VERSION: u16 = 2;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        let (daemon_name, service_name) = (d.get()?, d.get()?);
        let facts = if d.get()? { Some((d.get()?, d.get()?)) } else { None };
        Ok(Self { daemon_name, service_name, facts })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.daemon_name).put(&self.service_name).put(&self.facts.is_some());
        if let Some((metadata, status)) = &self.facts {
            e.put(metadata).put(status);
        }
    }
}
