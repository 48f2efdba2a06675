//! MStatfsReply: the cluster's size and use.

use types::Fsid;

use crate::codec::payload;

/// Ceph's MStatfsReply (ceph_mon_statfs_reply).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StatfsReply {
    /// The request's transaction id.
    pub tid: u64,
    /// The cluster.
    pub fsid: Fsid,
    /// The statistics' version.
    pub version: u64,
    /// Size in KiB.
    pub kb: u64,
    /// In use, in KiB.
    pub kb_used: u64,
    /// Free, in KiB.
    pub kb_avail: u64,
    pub num_objects: u64,
}

payload!(
    StatfsReply = STATFS_REPLY, version 1, compat 1, [fsid, version, kb, kb_used, kb_avail, num_objects],
    outside [tid]
);
