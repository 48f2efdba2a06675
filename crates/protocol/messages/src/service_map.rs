//! MServiceMap: the service daemons that registered with the manager.

use std::collections::BTreeMap;

use types::{EntityAddr, Name, UTime};

use crate::codec::{fields, payload};

/// Ceph's MServiceMap: from a monitor to those who subscribed to `servicemap`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceMap {
    pub map: ServiceMapContents,
}

/// Ceph's ServiceMap.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ServiceMapContents {
    pub epoch: u32,
    pub modified: UTime,
    pub services: BTreeMap<Name, MappedService>,
}

/// Ceph's ServiceMap::Service.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MappedService {
    pub daemons: BTreeMap<Name, MappedDaemon>,
    /// What `ceph -s` shows in place of how many daemons there are; nothing sets it.
    pub summary: Name,
}

/// Ceph's ServiceMap::Daemon.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MappedDaemon {
    /// The global id of the client that it is.
    pub gid: u64,
    pub addr: EntityAddr,
    /// When it registered.
    pub start_epoch: u32,
    pub start_stamp: UTime,
    pub metadata: BTreeMap<Name, Name>,
    pub task_status: BTreeMap<Name, Name>,
}

fields!(MappedDaemon "ServiceMap::Daemon" version 2, compat 1, [gid, addr, start_epoch, start_stamp, metadata, task_status]);
fields!(MappedService "ServiceMap::Service" version 1, compat 1, [daemons, summary]);
fields!(ServiceMapContents "ServiceMap" version 1, compat 1, [epoch, modified, services]);
payload!(ServiceMap = SERVICE_MAP, version 1, compat 1, [map]);
