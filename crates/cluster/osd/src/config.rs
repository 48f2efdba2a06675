//! What an OSD is told at its start.

use std::collections::BTreeMap;

use monclient::MonClientConfig;
use options::{Values, opt};
use types::{EntityAddrVec, Fsid, OsdId, Profile};

use crate::throttle::ThrottleLimits;

/// The four addresses of an OSD. All carry the nonce of this start, which no earlier start had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdAddrs {
    /// Where clients connect.
    pub client: EntityAddrVec,
    /// Where other OSDs connect; equal to `client` where there is no second network.
    pub cluster: EntityAddrVec,
    /// Where heartbeats come on the cluster's network.
    pub hb_back: EntityAddrVec,
    /// Where heartbeats come on the public network.
    pub hb_front: EntityAddrVec,
}

impl OsdAddrs {
    /// One address for everything.
    pub fn same(addr: impl Into<EntityAddrVec>) -> Self {
        let addr = addr.into();
        Self { client: addr.clone(), cluster: addr.clone(), hb_back: addr.clone(), hb_front: addr }
    }
}

/// What an OSD is told at its start.
#[derive(Clone, Debug)]
pub struct OsdConfig {
    /// Its number.
    pub whoami: OsdId,
    /// The cluster's id.
    pub cluster_fsid: Fsid,
    /// The OSD's own id, as `osd new` registered it. Written into an empty store; must equal that of another one.
    pub osd_fsid: Fsid,
    /// Its addresses.
    pub addrs: OsdAddrs,
    /// What the boot message says of host, store and version (names as ceph-osd's: `hostname`, `osd_objectstore`, ...).
    /// The addresses are filled in.
    pub metadata: BTreeMap<String, String>,
    /// The release to be.
    pub profile: Profile,
    /// How to reach monitors.
    pub monitors: MonClientConfig,
    /// The options in force. Those that the monitor sends are set on top.
    pub options: Values,
}

/// The budget that the options give.
pub(crate) fn limits(options: &Values) -> ThrottleLimits {
    ThrottleLimits {
        messages_max: options.get(opt::OSD_CLIENT_MESSAGE_CAP),
        bytes_max: options.get(opt::OSD_CLIENT_MESSAGE_SIZE_CAP),
    }
}
