//! Messages of the monitor and of peers' sessions, but clients' requests.

use std::collections::BTreeMap;

use auth::{SessionId, SessionInfo};
use messages::{Message, OsdPing, TimeSpan};
use monclient::MonClientEffect;
use options::opt;
use types::{EntityType, Epoch, OsdId, UTime};

use super::superblock::trim_lower_bound;
use super::{Control, OsdPhase};
use crate::parts::Out;
use crate::{LogLevel, OsdEffect};

/// Message types remembered as logged, at most: a peer may invent any number.
const LOGGED_KINDS_MAX: usize = 256;

impl Control {
    /// Passes on what the session with the monitor gave.
    pub(super) fn perform_mon(&mut self, now: UTime, effects: Vec<MonClientEffect>, out: &mut Out) {
        for effect in effects {
            match effect {
                MonClientEffect::Io(io) => out.push(OsdEffect::Mon(io)),
                MonClientEffect::Ready => self.on_mon_ready(now, out),
                MonClientEffect::Lost => {}
                MonClientEffect::Deliver(message) => self.on_mon_message(now, message, out),
                MonClientEffect::Version(handle, version) => self.on_version(now, handle, version, out),
                MonClientEffect::Warning(text) => self.log(LogLevel::Warn, text, out),
            }
        }
    }

    fn on_mon_message(&mut self, now: UTime, message: Message, out: &mut Out) {
        if self.state == OsdPhase::Stopped {
            return;
        }
        match message {
            Message::OsdMap(m) => match self.fetching.take() {
                Some(fetch) => self.on_fetched(now, fetch, &m, out),
                None => self.handle_osd_map(now, &m, out),
            },
            Message::OsdPgCreate2(m) => self.handle_pg_create(&m, out),
            Message::OsdMarkMeDown(_) if self.state == OsdPhase::Stopping => self.finish_stop(out),
            Message::MgrMap(m) => self.handle_mgr_map(now, &m, out),
            Message::Config(m) => self.handle_config(m.config, out),
            Message::OsdScrub2(m) => self.on_scrub_message(now, &m, out),
            Message::MonGetPurgedSnapsReply(m) => self.on_purged(now, m, out),
            Message::MonMap(_)
            | Message::PgStatsAck(_)
            | Message::LogAck(_)
            | Message::MonCommandAck(_)
            | Message::OsdMarkMeDown(_) => {}
            other => self.log_unhandled(&other, "the monitor", out),
        }
    }

    /// Options that the monitor holds for us.
    fn handle_config(&mut self, config: BTreeMap<String, String>, out: &mut Out) {
        self.monitors_options = config;
        for error in self.merge_options(out) {
            self.log(LogLevel::Warn, format!("an option of the monitor's is ignored: {error}"), out);
        }
    }

    /// A session's message that is no client's request.
    pub(super) fn on_peer_message(
        &mut self,
        now: UTime,
        peer: &SessionInfo,
        message: Message,
        out: &mut Out,
    ) {
        let kind = peer.name.kind;
        match message {
            Message::OsdPing(ping) => self.handle_ping(now, peer, &ping, out),
            Message::Command(command) => self.handle_command(now, peer, &command, out),
            Message::OsdMap(m) if matches!(kind, EntityType::Osd | EntityType::Mon) => {
                self.handle_osd_map(now, &m, out);
            }
            Message::OsdScrub2(m) if matches!(kind, EntityType::Mgr | EntityType::Mon) => {
                self.on_scrub_message(now, &m, out);
            }
            Message::OsdOpReply(_) | Message::OsdBackoff(_) if kind == EntityType::Osd => {
                self.on_copy_message(now, peer, message, out);
            }
            Message::PgInfoQuery(m) if kind == EntityType::Osd => self.on_pg_info_query(peer, m, out),
            Message::PgInfoReply(m) if kind == EntityType::Osd => self.on_pg_info_reply(peer, m, out),
            // An OSD takes no maps from clients.
            Message::OsdMap(_) => {}
            other => {
                let from = format!("{} at {}", peer.name, peer.peer_addrs);
                self.log_unhandled(&other, &from, out);
            }
        }
    }

    fn log_unhandled(&mut self, message: &Message, from: &str, out: &mut Out) {
        if self.logged_kinds.len() < LOGGED_KINDS_MAX && self.logged_kinds.insert(message.kind()) {
            let text = format!("not handled: {} (type {}) from {from}", message.name(), message.kind());
            self.log(LogLevel::Warn, text, out);
        }
    }

    /// Sends a session the maps that it lacks.
    pub(super) fn share_maps(&mut self, session: SessionId, have: Epoch, out: &mut Out) {
        let epochs_max = self.options.get(opt::OSD_MAP_SHARE_MAX_EPOCHS) as u32;
        if let Some(message) = self.history.share_from(have, epochs_max, trim_lower_bound(&self.superblock)) {
            out.send_session(session, message);
        }
    }

    /// A heartbeat of another OSD (Ceph's handle_osd_ping). Maps never go over a heartbeat session: they delay its pings.
    fn handle_ping(&mut self, now: UTime, peer: &SessionInfo, ping: &OsdPing, out: &mut Out) {
        if ping.fsid != self.config.cluster_fsid || ping.op != OsdPing::PING {
            return;
        }
        let ours = self.history.epoch();
        let reply = OsdPing {
            map_epoch: ours,
            op: OsdPing::PING_REPLY,
            up_from: self.up_epoch,
            mono_send_stamp: TimeSpan::from_nanos(now.as_nanos() as i64),
            delta_ub: None,
            ..ping.clone()
        };
        out.send_session(peer.id, reply.clone());
        if self.has_died(peer, ping.map_epoch) {
            let died = OsdPing { op: OsdPing::YOU_DIED, ..reply };
            out.send_session(peer.id, died);
        }
    }

    /// Whether the OSD at the other end is down in a map that it does not have yet.
    fn has_died(&self, peer: &SessionInfo, its_epoch: Epoch) -> bool {
        // Before the first map nothing is known of it.
        let Some(map) = self.history.current() else { return false };
        // No OSD has such a number.
        let Ok(num) = i32::try_from(peer.name.num) else { return false };
        if peer.name.kind != EntityType::Osd {
            return false;
        }
        match map.osd(OsdId(num)).filter(|osd| osd.exists()) {
            None => true,
            Some(osd) => !osd.is_up() && osd.info.down_at > its_epoch,
        }
    }
}
