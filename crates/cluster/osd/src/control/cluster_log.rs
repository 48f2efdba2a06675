//! Lines for the cluster log, which operators read with `ceph log last` and monitors keep.

use messages::{Log, LogEntry, Paxos};
use types::{EntityId, EntityName, EntityType, UTime};

use super::Control;
use crate::LogLevel;
use crate::parts::Out;

impl Control {
    /// Writes a line to the OSD's own log and sends it to the monitor for the cluster's. It is sent once: a monitor that
    /// goes away before it has stored the line loses it.
    pub(crate) fn cluster_log(&mut self, now: UTime, level: LogLevel, text: String, out: &mut Out) {
        self.log(level, text.clone(), out);
        self.cluster_log_lines += 1;
        let id = self.config.whoami.0;
        let entry = LogEntry {
            name: EntityId { kind: EntityType::Osd, id: id.to_string() },
            rank: EntityName::new(EntityType::Osd, i64::from(id)),
            addrs: self.config.addrs.client.clone(),
            stamp: now,
            seq: self.cluster_log_lines,
            level: match level {
                LogLevel::Error => LogEntry::ERROR,
                LogLevel::Warn => LogEntry::WARN,
                LogLevel::Info => LogEntry::INFO,
                LogLevel::Debug => LogEntry::DEBUG,
            },
            message: text.as_str().into(),
            channel: "cluster".to_owned(),
        };
        let log = Log { paxos: Paxos::default(), fsid: self.config.cluster_fsid, entries: vec![entry] };
        self.send_mon(log, out);
    }
}
