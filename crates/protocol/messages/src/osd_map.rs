//! MOSDMap: OSD maps and increments.

use std::collections::BTreeMap;

use encoding::{DecodeError, Decoder, Encoder};
use types::{Epoch, Fsid};

use crate::codec::{Envelope, Payload};
use crate::{Blob, kind};

/// Ceph's MOSDMap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdMap {
    /// The cluster.
    pub fsid: Fsid,
    /// Encoded increments by the epoch that they lead to.
    pub incremental_maps: BTreeMap<Epoch, Blob>,
    /// Encoded full maps by epoch.
    pub maps: BTreeMap<Epoch, Blob>,
    /// A bound up to which the receiver may forget maps (formerly the sender's oldest).
    pub cluster_osdmap_trim_lower_bound: Epoch,
    /// The sender's newest.
    pub newest_map: Epoch,
}

impl OsdMap {
    /// The oldest epoch in the message.
    pub fn first(&self) -> Option<Epoch> {
        self.incremental_maps.keys().next().into_iter().chain(self.maps.keys().next()).min().copied()
    }

    /// The newest epoch in the message.
    pub fn last(&self) -> Option<Epoch> {
        self.incremental_maps.keys().next_back().into_iter().chain(self.maps.keys().next_back()).max().copied()
    }
}

impl Payload for OsdMap {
    const KIND: u16 = kind::OSD_MAP;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 3;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        let message = Self {
            fsid: d.get()?,
            incremental_maps: d.get()?,
            maps: d.get()?,
            cluster_osdmap_trim_lower_bound: d.get()?,
            newest_map: d.get()?,
        };
        // A map of removed snapshots that no release since Octopus fills.
        match d.get::<u32>()? {
            0 => Ok(message),
            n => Err(DecodeError::BadValue { what: "MOSDMap gap_removed_snaps", value: n.into() }),
        }
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.fsid).put(&self.incremental_maps).put(&self.maps);
        e.put(&self.cluster_osdmap_trim_lower_bound).put(&self.newest_map).put(&0u32);
    }

    fn payload_bytes(&self) -> usize {
        self.incremental_maps.values().chain(self.maps.values()).map(|map| map.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_and_last_look_at_both_kinds_of_map() {
        let mut m = OsdMap::default();
        assert_eq!((m.first(), m.last()), (None, None));
        m.maps.insert(Epoch(5), Blob::default());
        m.incremental_maps.insert(Epoch(6), Blob::default());
        assert_eq!((m.first(), m.last()), (Some(Epoch(5)), Some(Epoch(6))));
    }
}
