//! MMonSubscribe: what a client wants to be kept up to date about.

use std::collections::BTreeMap;

use crate::codec::{fields, payload};

/// Ceph's MMonSubscribe. Adds to what the session has subscribed before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MonSubscribe {
    /// By name: `osdmap`, `monmap`, `mgrmap`, `config`, `osd_pg_creates`, `kv:PREFIX`, ...
    pub what: BTreeMap<String, Subscription>,
    /// The asker's host name.
    pub hostname: String,
}

/// Ceph's ceph_mon_subscribe_item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Subscription {
    /// The first version wanted; 0 asks for the newest.
    pub start: u64,
    /// See [`Subscription::ONETIME`].
    pub flags: u8,
}

impl Subscription {
    /// CEPH_SUBSCRIBE_ONETIME: ends with the first answer.
    pub const ONETIME: u8 = 1;

    /// Whether it ends with the first answer.
    pub fn is_onetime(&self) -> bool {
        self.flags & Self::ONETIME != 0
    }
}

fields!(Subscription [start, flags]);
payload!(MonSubscribe = MON_SUBSCRIBE, version 3, compat 1, [what, hostname]);
