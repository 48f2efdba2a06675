//! What the map says of one OSD.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::{EntityAddrVec, Epoch, Fsid, UTime};

/// Bits of an OSD's state (CEPH_OSD_*).
// Named as Ceph names them.
pub struct OsdState;

impl OsdState {
    pub const EXISTS: u32 = 1 << 0;
    pub const UP: u32 = 1 << 1;
    /// Marked out by the monitor itself.
    pub const AUTOOUT: u32 = 1 << 2;
    /// Never marked in yet.
    pub const NEW: u32 = 1 << 3;
    pub const FULL: u32 = 1 << 4;
    pub const NEARFULL: u32 = 1 << 5;
    pub const BACKFILLFULL: u32 = 1 << 6;
    pub const DESTROYED: u32 = 1 << 7;
    pub const NOUP: u32 = 1 << 8;
    pub const NODOWN: u32 = 1 << 9;
    pub const NOIN: u32 = 1 << 10;
    pub const NOOUT: u32 = 1 << 11;
    pub const STOP: u32 = 1 << 12;
}

/// An OSD's life in epochs (Ceph's osd_info_t).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OsdInfo {
    /// First epoch of the last interval that ended cleanly.
    pub last_clean_begin: Epoch,
    /// Last epoch of that interval.
    pub last_clean_end: Epoch,
    /// Epoch it was marked up in.
    pub up_from: Epoch,
    /// Epoch up to which it is known to have been alive and peered.
    pub up_thru: Epoch,
    /// Epoch it was marked down in.
    pub down_at: Epoch,
    /// Epoch up to which its data was declared lost.
    pub lost_at: Epoch,
}

impl Encode for OsdInfo {
    fn encode(&self, e: &mut Encoder) {
        e.put(&1u8).put(&self.last_clean_begin).put(&self.last_clean_end).put(&self.up_from);
        e.put(&self.up_thru).put(&self.down_at).put(&self.lost_at);
    }
}
impl Decode for OsdInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        match d.get::<u8>()? {
            1 => {}
            version => return Err(DecodeError::TooNew { what: "osd_info_t", compat: version, known: 1 }),
        }
        Ok(Self {
            last_clean_begin: d.get()?,
            last_clean_end: d.get()?,
            up_from: d.get()?,
            up_thru: d.get()?,
            down_at: d.get()?,
            lost_at: d.get()?,
        })
    }
}

/// More about an OSD, of no use to clients (Ceph's osd_xinfo_t).
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct OsdXInfo {
    /// When it was last marked down.
    pub down_stamp: UTime,
    /// How probably it is laggy, in 2^-32.
    pub laggy_probability: u32,
    /// How long it used to be laggy, in seconds.
    pub laggy_interval: u32,
    /// The features it booted with.
    pub features: u64,
    /// Its weight before the monitor marked it out.
    pub old_weight: u32,
    /// When its last scrub of purged snapshots ended.
    pub last_purged_snaps_scrub: UTime,
    /// Last epoch in which it was known to be alive before it was found dead.
    pub dead_epoch: Epoch,
}

impl Encode for OsdXInfo {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(4, 1, |e| {
            e.put(&self.down_stamp).put(&self.laggy_probability).put(&self.laggy_interval);
            e.put(&self.features).put(&self.old_weight);
            e.put(&self.last_purged_snaps_scrub).put(&self.dead_epoch);
        });
    }
}
impl Decode for OsdXInfo {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(4, "osd_xinfo_t", |d, version| {
            let mut x = Self {
                down_stamp: d.get()?,
                laggy_probability: d.get()?,
                laggy_interval: d.get()?,
                ..Self::default()
            };
            if version >= 2 {
                x.features = d.get()?;
            }
            if version >= 3 {
                x.old_weight = d.get()?;
            }
            if version >= 4 {
                x.last_purged_snaps_scrub = d.get()?;
                x.dead_epoch = d.get()?;
            }
            Ok(x)
        })
    }
}

/// One OSD's entry. Its in/out weight is in [`crate::OsdMap::weights`], which placement reads as a slice.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Osd {
    /// Bits of [`OsdState`].
    pub state: u32,
    /// Where clients reach it.
    pub client_addrs: EntityAddrVec,
    /// Where OSDs reach it.
    pub cluster_addrs: EntityAddrVec,
    /// Where OSDs' heartbeats reach it on their own network.
    pub hb_back_addrs: EntityAddrVec,
    /// Where OSDs' heartbeats reach it on the clients' network.
    pub hb_front_addrs: EntityAddrVec,
    /// Its life in epochs.
    pub info: OsdInfo,
    /// More about it.
    pub xinfo: OsdXInfo,
    /// The id of its store.
    pub uuid: Fsid,
}

impl Osd {
    /// Whether it was created and not destroyed since.
    pub fn exists(&self) -> bool {
        self.state & OsdState::EXISTS != 0
    }

    /// Whether it is created and up.
    pub fn is_up(&self) -> bool {
        self.exists() && self.state & OsdState::UP != 0
    }
}
