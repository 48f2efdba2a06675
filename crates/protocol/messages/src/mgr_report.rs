//! MMgrReport: what a daemon tells the manager every few seconds.

use std::collections::BTreeMap;

use encoding::{DecodeError, Decoder, Encoder};
use types::Name;

use crate::Blob;
use crate::codec::{Envelope, Payload, fields};
use crate::kind;

/// Ceph's PerfCounterType: a counter that a report has the value of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PerfCounterType {
    pub path: Name,
    pub description: Name,
    pub nick: Name,
    pub kind: u8,
    pub priority: u8,
    pub unit: u8,
}

fields!(PerfCounterType "PerfCounterType" version 3, compat 1, [path, description, nick, kind, priority, unit]);

/// Ceph's DaemonHealthMetric: slow operations of an OSD or monitor, or PGs that wait to be made.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DaemonHealthMetric {
    pub kind: u8,
    pub value: u64,
}

fields!(DaemonHealthMetric "DaemonHealthMetric" version 1, compat 1, [kind, value]);

/// Ceph's MetricReportMessage: what its kind of daemon has to say of its clients, not decoded further.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetricReport {
    /// Whose: 0 of an OSD, 1 of a metadata server.
    pub kind: u32,
    /// The envelope of what follows, and that.
    pub version: u8,
    pub compat: u8,
    pub body: Blob,
}

fields!(MetricReport [kind, version, compat, body]);

/// Ceph's MMgrReport, as those send it that are asked for no statistics of images.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MgrReport {
    /// The daemon's name within its service.
    pub daemon_name: Name,
    /// Counters that earlier reports did not have.
    pub declared: Vec<PerfCounterType>,
    /// The values of all declared counters.
    pub counters: Blob,
    /// Counters that are there no longer.
    pub undeclared: Vec<Name>,
    /// The service; empty: what kind of daemon the sender is says it.
    pub service_name: Name,
    /// What the daemon says of its state, where that is new.
    pub status: Option<BTreeMap<Name, Name>>,
    pub health: Vec<DaemonHealthMetric>,
    /// Its options as they are set, encoded; empty where nothing has changed.
    pub config: Blob,
    /// What it says of its tasks, where that is new.
    pub task_status: Option<BTreeMap<Name, Name>>,
    pub metrics: Option<MetricReport>,
}

impl Payload for MgrReport {
    const KIND: u16 = kind::MGR_REPORT;
    const VERSION: u16 = 9;
    const COMPAT: u16 = 1;

    fn decode(d: &mut Decoder<'_>, _env: &mut Envelope) -> Result<Self, DecodeError> {
        let (daemon_name, declared, counters, undeclared) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let (service_name, status, health, config) = (d.get()?, d.get()?, d.get()?, d.get()?);
        let clients: u32 = d.get()?;
        if clients > 0 {
            return Err(DecodeError::BadValue { what: "MMgrReport's statistics", value: clients.into() });
        }
        let (task_status, metrics) = (d.get()?, d.get()?);
        Ok(Self {
            daemon_name,
            declared,
            counters,
            undeclared,
            service_name,
            status,
            health,
            config,
            task_status,
            metrics,
        })
    }

    fn encode(&self, e: &mut Encoder, _env: &mut Envelope) {
        e.put(&self.daemon_name).put(&self.declared).put(&self.counters).put(&self.undeclared);
        e.put(&self.service_name).put(&self.status).put(&self.health).put(&self.config);
        // No statistics of clients' work.
        e.put(&0_u32).put(&self.task_status).put(&self.metrics);
    }
}
