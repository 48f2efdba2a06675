//! MOSDBoot: an OSD asks to be marked up.

use std::collections::BTreeMap;

use types::{EntityAddrVec, Epoch};

use crate::codec::payload;
use crate::{OsdSuperblock, Paxos};

/// Ceph's MOSDBoot. The clients' addresses are the session's own.
#[derive(Clone, PartialEq, Debug)]
pub struct OsdBoot {
    /// The common prefix; its version is the newest map that the OSD has.
    pub paxos: Paxos,
    /// About the store.
    pub superblock: OsdSuperblock,
    /// Where it takes heartbeats from the cluster's network.
    pub hb_back_addrs: EntityAddrVec,
    /// Where it takes other OSDs' messages.
    pub cluster_addrs: EntityAddrVec,
    /// When this process was last in the map; 0 for never.
    pub boot_epoch: Epoch,
    /// Where it takes heartbeats from the clients' network.
    pub hb_front_addrs: EntityAddrVec,
    /// What `ceph osd metadata` shows.
    pub metadata: BTreeMap<String, String>,
    pub osd_features: u64,
}

payload!(OsdBoot = OSD_BOOT, version 7, compat 7, [
    paxos, superblock, hb_back_addrs, cluster_addrs, boot_epoch, hb_front_addrs, metadata, osd_features,
]);
