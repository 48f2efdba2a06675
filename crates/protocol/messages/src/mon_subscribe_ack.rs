//! MMonSubscribeAck: the answer to subscriptions that clients before Mimic wait for.

use types::Fsid;

use crate::codec::payload;

/// Ceph's MMonSubscribeAck.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonSubscribeAck {
    /// Seconds after which the client is to subscribe again.
    pub interval: u32,
    /// The cluster.
    pub fsid: Fsid,
}

payload!(MonSubscribeAck = MON_SUBSCRIBE_ACK, version 1, compat 1, [interval, fsid]);
