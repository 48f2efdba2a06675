//! MLogAck: says which entries of the cluster log have been stored.

use types::Fsid;

use crate::codec::payload;

/// Ceph's MLogAck.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogAck {
    /// The cluster.
    pub fsid: Fsid,
    /// The newest entry stored, by its sender's count.
    pub last: u64,
    /// The entries' channel.
    pub channel: String,
}

payload!(LogAck = LOG_ACK, version 1, compat 1, [fsid, last, channel]);
