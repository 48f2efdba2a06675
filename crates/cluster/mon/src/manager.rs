//! The monitor as a manager: what clients and service daemons send to the address that the map of managers has.

use std::time::Duration;

use auth::SessionId;
use messages::{Message, MgrConfigure, MgrOpen, MgrReport};
use options::opt;
use types::{EntityType, Name, UTime};

use crate::command::{CommandTarget, legacy};
use crate::event::MonEffect;
use crate::mon::Mon;
use crate::service::services::{Registration, Taken, facts};
use crate::session::Service;

/// Above the priority of every counter: a daemon that reports those of this priority and above reports none.
const NO_COUNTERS: u32 = 255;

impl Mon {
    /// Takes a message of a session at the manager's address.
    pub(crate) fn receive_as_manager(
        &mut self,
        now: UTime,
        session: SessionId,
        message: Message,
        out: &mut Vec<MonEffect>,
    ) {
        match message {
            Message::MgrCommand(m) => self.daemon_command(now, session, CommandTarget::Cluster, m, out),
            // `ceph tell mgr`; without a cluster's id, a command of the cluster in the form that managers before 15 took.
            Message::Command(m) => {
                let whom = if m.fsid.is_zero() { CommandTarget::Cluster } else { CommandTarget::Daemon };
                self.daemon_command(now, session, whom, m, out);
            }
            // Who registers a service waits for this when it ends.
            Message::MgrClose(m) => {
                if let Some(gid) = self.gid(session) {
                    let (service, name) = (m.service_name.to_string(), m.daemon_name.to_string());
                    self.services.leave(now, (&service, &name, gid));
                }
                out.push(MonEffect::Send { session, message: m.into() });
            }
            Message::MgrOpen(m) => self.register_service(now, session, m, out),
            Message::MgrReport(m) => self.service_report(now, session, &m, out),
            // Ceph's manager, too, takes no new metadata into the map of services.
            Message::MgrUpdate(_) => {}
            other => self.unhandled(session, &other, out),
        }
    }

    fn gid(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|known| known.info.global_id)
    }

    /// A service daemon introduces itself. It is asked to report from time to time, so that its silence is noticed; its
    /// counters are not wanted.
    fn register_service(&mut self, now: UTime, session: SessionId, m: MgrOpen, out: &mut Vec<MonEffect>) {
        let (Some((metadata, status)), Some(known)) = (m.service_daemon, self.sessions.get(&session)) else {
            return;
        };
        let said = Registration {
            service: m.service_name.to_string(),
            name: m.daemon_name.to_string(),
            gid: known.info.global_id,
            addr: legacy(&known.info.peer_addrs).copied().unwrap_or_default(),
            metadata: facts(&metadata),
            status: facts(&status),
        };
        let limit = self.options.get(opt::MGR_SERVICES_BYTES_MAX);
        match self.services.register(now, said, limit as usize) {
            Taken::Noted => {
                let period = self.options.get(opt::MGR_STATS_PERIOD);
                let stats_period = u32::try_from(period).unwrap_or(u32::MAX);
                let wanted = MgrConfigure { stats_period, stats_threshold: NO_COUNTERS };
                self.services_full = false;
                out.push(MonEffect::Send { session, message: wanted.into() });
            }
            Taken::TooMuch | Taken::Unknown => self.no_room_for_service(&m.service_name, &m.daemon_name, out),
        }
    }

    fn service_report(&mut self, now: UTime, session: SessionId, m: &MgrReport, out: &mut Vec<MonEffect>) {
        let Some(gid) = self.gid(session) else { return };
        let (service, name) = (m.service_name.to_string(), m.daemon_name.to_string());
        let (status, tasks) = (m.status.as_ref().map(facts), m.task_status.as_ref().map(facts));
        let limit = self.options.get(opt::MGR_SERVICES_BYTES_MAX) as usize;
        match self.services.report(now, (&service, &name, gid), status, tasks, limit) {
            Taken::Noted => {}
            Taken::TooMuch => self.no_room_for_service(&m.service_name, &m.daemon_name, out),
            // The daemon was silent for longer than the grace and was forgotten. It registers again when it reconnects.
            Taken::Unknown => {
                let reason = format!("a report of {service}.{name}, which is not registered");
                out.push(MonEffect::Close { session, reason });
            }
        }
    }

    /// Says once that something was left out, until there is room again.
    fn no_room_for_service(&mut self, service: &Name, name: &Name, out: &mut Vec<MonEffect>) {
        if !std::mem::replace(&mut self.services_full, true) {
            out.push(MonEffect::Log(format!(
                "what service daemon {service}.{name} says of itself is left out: that of all may have {} bytes \
                 (mgr_services_bytes_max)",
                self.options.get(opt::MGR_SERVICES_BYTES_MAX)
            )));
        }
    }

    /// Forgets the service daemons that have fallen silent.
    pub(crate) fn prune_services(&mut self, now: UTime) {
        let grace = Duration::from_secs_f64(self.options.get(opt::MGR_SERVICE_BEACON_GRACE));
        self.services.prune(now, grace);
    }

    /// Sends the subscribers a map of services that is newer than what they were sent last.
    pub(crate) fn push_services(&mut self, now: UTime, out: &mut Vec<MonEffect>) {
        let epoch = self.services.epoch();
        if std::mem::replace(&mut self.services_pushed, epoch) != epoch {
            self.push_all(now, "servicemap", out);
        }
    }

    /// Sessions at the monitor's address. A client of the manager has one there, too.
    pub(crate) fn monitor_sessions(&self) -> impl Iterator<Item = &crate::session::Session> {
        self.sessions.values().filter(|session| session.service == Service::Monitor)
    }

    /// Whether the manager map that a session gets names the manager. An OSD's does not: an OSD that knows a manager sends
    /// its statistics to the manager's address, over a connection more, and they end in the same monitor.
    pub(crate) fn is_told_of_manager(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|known| known.info.entity.kind != EntityType::Osd)
    }
}
