//! What the mirroring of images keeps and exchanges.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{AddrType, EntityAddr, EntityName, Name, UTime};

use super::types::structure;

structure! {
    /// An image that is mirrored.
    MirrorImage, "MirrorImage", version 2 {
        /// Of the image in all clusters.
        global_id: Name, since 1;
        /// MIRROR_IMAGE_STATE_*.
        state: u8, since 1;
        /// MIRROR_IMAGE_MODE_*.
        mode: u8, since 2;
    }
}

impl MirrorImage {
    pub const DISABLING: u8 = 0;
    pub const ENABLED: u8 = 1;
    pub const CREATING: u8 = 3;
}

structure! {
    /// Which instance of rbd-mirror has an image.
    MirrorImageMap, "MirrorImageMap", version 1 {
        instance_id: Name, since 1;
        mapped_time: UTime, since 1;
        /// The policy's own.
        data: Name, since 1;
    }
}

/// Which way images go between this cluster and a peer (MirrorPeerDirection).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Direction(pub u8);

impl Direction {
    pub const RECEIVE: Self = Self(0);
    pub const SEND: Self = Self(1);
    pub const BOTH: Self = Self(2);
}

/// A cluster that images are mirrored from or to (cls::rbd::MirrorPeer).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct MirrorPeer {
    pub uuid: Name,
    pub site_name: Name,
    /// What images are received as.
    pub client_name: Name,
    pub direction: Direction,
    pub mirror_uuid: Name,
    pub last_seen: UTime,
}

impl MirrorPeer {
    pub fn is_valid(&self) -> bool {
        let may_be = match self.direction {
            Direction::SEND => true,
            Direction::RECEIVE | Direction::BOTH => !self.client_name.is_empty(),
            Direction(_) => false,
        };
        may_be && !self.uuid.is_empty() && !self.site_name.is_empty()
    }
}

impl Encode for MirrorPeer {
    fn encode(&self, e: &mut Encoder) {
        const NO_POOL: i64 = -1;
        e.versioned(2, 1, |e| {
            e.put(&self.uuid).put(&self.site_name).put(&self.client_name).put(&NO_POOL);
            e.put(&self.direction.0).put(&self.mirror_uuid).put(&self.last_seen);
        });
    }
}
impl Decode for MirrorPeer {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "MirrorPeer", |d, v| {
            let (uuid, site_name, client_name) = (d.get()?, d.get()?, d.get()?);
            let _pool: i64 = d.get()?;
            let newer = v >= 2;
            Ok(Self {
                uuid,
                site_name,
                client_name,
                direction: if newer { Direction(d.get()?) } else { Direction::BOTH },
                mirror_uuid: if newer { d.get()? } else { Name::new() },
                last_seen: if newer { d.get()? } else { UTime::default() },
            })
        })
    }
}

/// How an image fares in a cluster (cls::rbd::MirrorImageSiteStatus).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct SiteStatus {
    /// Of the cluster; empty of this one.
    pub mirror_uuid: Name,
    /// MIRROR_IMAGE_STATUS_STATE_*.
    pub state: u8,
    pub description: Name,
    pub last_update: UTime,
    /// Whether the one who reported it is there.
    pub up: bool,
}

impl SiteStatus {
    pub const UNKNOWN: u8 = 0;
    pub const ERROR: u8 = 1;

    pub fn is_local(&self) -> bool {
        self.mirror_uuid.is_empty()
    }

    fn put(&self, e: &mut Encoder) {
        e.put(&self.state).put(&self.description).put(&self.last_update).put(&self.up);
    }

    fn get(d: &mut Decoder<'_>, mirror_uuid: Name) -> Result<Self, DecodeError> {
        let (state, description, last_update) = (d.get()?, d.get()?, d.get()?);
        Ok(Self { mirror_uuid, state, description, last_update, up: d.get()? })
    }
}

impl Encode for SiteStatus {
    fn encode(&self, e: &mut Encoder) {
        let version = if self.is_local() { 1 } else { 2 };
        e.versioned(version, version, |e| {
            if version == 2 {
                e.put(&self.mirror_uuid);
            }
            self.put(e);
        });
    }
}
impl Decode for SiteStatus {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "MirrorImageSiteStatus", |d, v| {
            let mirror_uuid = if v >= 2 { d.get()? } else { Name::new() };
            Self::get(d, mirror_uuid)
        })
    }
}

/// A client's instance and address, of any type: that a client is the same does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Instance(EntityName, EntityAddr);

impl Instance {
    pub fn new(name: EntityName, addr: EntityAddr) -> Self {
        Self(name, EntityAddr { kind: AddrType::Any, ..addr })
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self::new(EntityName::default(), EntityAddr::default())
    }
}

impl Encode for Instance {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.0).put(&self.1);
    }
}
impl Decode for Instance {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self::new(d.get()?, d.get()?))
    }
}

structure! {
    /// How a kept status begins.
    #[derive(Default)]
    StatusOrigin, "MirrorImageSiteStatusOnDisk", version 1 {
        reporter: Instance, since 1;
    }
}

/// How an image fares, as it is kept (cls::rbd::MirrorImageSiteStatusOnDisk).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KeptStatus {
    pub origin: StatusOrigin,
    pub status: SiteStatus,
}

impl Encode for KeptStatus {
    fn encode(&self, e: &mut Encoder) {
        e.put(&self.origin).put(&self.status);
    }
}
impl Decode for KeptStatus {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { origin: d.get()?, status: d.get()? })
    }
}

/// How an image fares in each cluster (cls::rbd::MirrorImageStatus).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ImageStatus {
    /// This cluster's is the first one, if there is one.
    pub sites: Vec<SiteStatus>,
}

impl ImageStatus {
    pub fn local(&self) -> Option<&SiteStatus> {
        self.sites.iter().find(|site| site.is_local())
    }

    pub fn remote(&self) -> impl Iterator<Item = &SiteStatus> {
        self.sites.iter().filter(|site| !site.is_local())
    }
}

impl Encode for ImageStatus {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            let local = self.local();
            local.unwrap_or(&SiteStatus::default()).put(e);
            e.put(&local.is_some()).put(&(self.remote().count() as u32));
            for site in self.remote() {
                e.put(&site.mirror_uuid);
                site.put(e);
            }
        });
    }
}
#[cfg(test)]
impl Decode for ImageStatus {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "MirrorImageStatus", |d, v| {
            let local = SiteStatus::get(d, Name::new())?;
            if v < 2 {
                return Ok(Self { sites: vec![local] });
            }
            let mut sites: Vec<_> = d.get::<bool>()?.then_some(local).into_iter().collect();
            for _ in 0..d.get::<u32>()? {
                let mirror_uuid = d.get()?;
                sites.push(SiteStatus::get(d, mirror_uuid)?);
            }
            Ok(Self { sites })
        })
    }
}
