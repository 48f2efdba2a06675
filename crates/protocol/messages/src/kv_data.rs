//! MKVData: what a subscriber of `kv:PREFIX` is kept up to date about.

use std::collections::BTreeMap;

use types::Name;

use crate::Blob;
use crate::codec::payload;

/// Ceph's MKVData.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KvData {
    /// The store's version.
    pub version: u64,
    /// The prefix subscribed to.
    pub prefix: Name,
    /// Whether this is only what changed.
    pub incremental: bool,
    /// Values by key; `None` for a removed one.
    pub data: BTreeMap<Name, Option<Blob>>,
}

payload!(KvData = KV_DATA, version 1, compat 1, [version, prefix, incremental, data]);
