//! MOSDScrub2: the manager tells an OSD to scrub placement groups of which it is the primary.

use types::{Epoch, Fsid, SpgId};

use crate::codec::payload;

/// Ceph's MOSDScrub2. A manager sends it, or a monitor.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OsdScrub2 {
    /// The cluster.
    pub fsid: Fsid,
    /// The sender's map.
    pub epoch: Epoch,
    pub scrub_pgs: Vec<SpgId>,
    /// Mend what can be mended; a scrub that does is deep.
    pub repair: bool,
    pub deep: bool,
}

payload!(OsdScrub2 = OSD_SCRUB2, version 1, compat 1, [fsid, epoch, scrub_pgs, repair, deep]);
