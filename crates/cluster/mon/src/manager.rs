//! The monitor as a manager: what clients and service daemons send to the address that the map of managers has.

use auth::SessionId;
use messages::Message;
use types::{EntityType, UTime};

use crate::command::CommandTarget;
use crate::event::MonEffect;
use crate::mon::Mon;
use crate::session::Service;

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
            Message::MgrClose(m) => out.push(MonEffect::Send { session, message: m.into() }),
            // A service introduces itself. It is asked for no reports, and is not shown.
            Message::MgrOpen(_) | Message::MgrUpdate(_) => {}
            other => self.unhandled(session, &other, out),
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
