//! Messages by kind: which peers may send each, and which code answers it.

use auth::{Access, SessionId};
use encoding::Encode;
use messages::{Blob, Message};
use types::{EntityType, Epoch, PoolId, UTime};

use crate::command::{CommandTarget, Failure, mon_status};
use crate::event::MonEffect;
use crate::fmt::Json;
use crate::mon::Mon;
use crate::service::kept_maps;
use crate::service::log::{CLUSTER, KEPT, LogLevel, LogLine};
use crate::service::osdmap;
use crate::session::Service;
use crate::subscriptions::FS_MAP_EPOCH;

impl Mon {
    /// Takes a message of a session, and sends the answer unless it must wait for a commit.
    pub(crate) fn receive(
        &mut self,
        now: UTime,
        session: SessionId,
        message: Message,
        out: &mut Vec<MonEffect>,
    ) {
        // The session has ended: no peer waits for an answer.
        let Some(known) = self.sessions.get(&session) else { return };
        let permits = |what| known.info.caps.permits(what);
        let (reads, writes) = (permits(Access::READ), permits(Access::READ | Access::WRITE));
        if known.service == Service::Manager {
            return self.receive_as_manager(now, session, message, out);
        }
        match message {
            Message::MonGetMap(_) => self.send_monmap(session, out),
            Message::MonSubscribe(m) if reads => self.subscribe(now, session, &m, out),
            Message::MonGetVersion(m) if reads => self.get_version(session, &m, out),
            Message::GetConfig(m) if reads => self.get_config(session, &m, out),
            Message::MonCommand(m) => self.mon_command(now, session, m, out),
            Message::Command(m) => self.daemon_command(now, session, CommandTarget::Daemon, m, out),
            Message::Log(m) if writes => self.append_log(session, m, out),
            Message::Statfs(m) if reads => self.statfs(session, &m, out),
            Message::GetPoolStats(m) if reads => self.get_pool_stats(session, &m, out),
            Message::PoolOp(m) if writes => self.pool_op(now, session, m, out),
            Message::RemoveSnaps(m) if writes => self.remove_snaps(now, session, m, out),
            // Without capabilities too: it is how a client finds out whether a monitor serves.
            Message::Ping(_) => self.answer_ping(now, session, out),
            other => self.receive_from_osd(now, session, other, out),
        }
    }

    /// Says once a kind that a message of it was not handled.
    pub(crate) fn unhandled(&mut self, session: SessionId, message: &Message, out: &mut Vec<MonEffect>) {
        if self.unhandled.insert(message.kind()) {
            let (name, kind) = (message.name(), message.kind());
            out.push(MonEffect::Log(format!(
                "{session}: {name} (type {kind}) is not handled or not permitted"
            )));
        }
    }

    fn get_version(&mut self, session: SessionId, m: &messages::MonGetVersion, out: &mut Vec<MonEffect>) {
        let (version, oldest_version) = match m.what.as_str() {
            "osdmap" => (self.osdmap.epoch.0.into(), kept_maps::first_committed(&self.state)),
            "monmap" => (self.monmap.epoch.0.into(), 1),
            "mgrmap" => (self.mgrmap.epoch.0.into(), 1),
            "fsmap" | "mdsmap" => (FS_MAP_EPOCH.into(), FS_MAP_EPOCH.into()),
            _ => (0, 0),
        };
        let reply = messages::MonGetVersionReply { handle: m.handle, version, oldest_version };
        out.push(MonEffect::Send { session, message: reply.into() });
    }

    /// `ceph ping mon.ID`: the members of Ceph's answer.
    fn answer_ping(&mut self, now: UTime, session: SessionId, out: &mut Vec<MonEffect>) {
        let health = self.health(now).json(false);
        let json = Json::object().with("health", health);
        let json = mon_status(self, now, json);
        let answer = (json.pretty() + "\n").into();
        out.push(MonEffect::Send { session, message: messages::Ping { answer }.into() });
    }

    fn append_log(&mut self, session: SessionId, m: messages::Log, out: &mut Vec<MonEffect>) {
        if self.is_proposing() {
            return self.wait(session, m.into(), out);
        }
        // Without lines there is nothing to acknowledge.
        let Some((last, channel)) = m.entries.last().map(|e| (e.seq, e.channel.clone())) else { return };
        let entity = self.sessions.get(&session).map(|known| &known.info.entity);
        let is_osd = entity.is_some_and(|entity| entity.kind == EntityType::Osd);
        let osd = entity.and_then(|entity| entity.id.parse::<i32>().ok()).filter(|_| is_osd);
        // Those before would be dropped by those after at once: the log keeps no more.
        let beyond = m.entries.len().saturating_sub(KEPT);
        for entry in m.entries.into_iter().skip(beyond) {
            let line = LogLine {
                name: entry.name.to_string(),
                rank: entry.rank.to_string(),
                addrs: entry.addrs.to_string(),
                stamp: entry.stamp,
                seq: entry.seq,
                level: LogLevel::from_number(entry.level),
                channel: entry.channel,
                text: entry.message.to_string(),
            };
            if let Some(osd) = osd {
                self.note_stopped_pg(&line.text);
                self.note_remaining_pg(osd, session, &line.text);
            }
            self.add_line(line);
        }
        let ack = messages::LogAck { fsid: self.config.fsid, last, channel };
        self.defer_reply(self.pending.map_changes, session, ack, None);
    }

    /// Adds a line of the monitor's own to the cluster log.
    pub(crate) fn say(&mut self, now: UTime, level: LogLevel, text: String) {
        let line = self.own_line(now, level, CLUSTER, text);
        self.add_line(line);
    }

    /// Adds a line to the cluster log.
    pub(crate) fn add_line(&mut self, line: LogLine) {
        self.pending.changes += 1;
        self.log.add(line, &mut self.pending.batch);
    }

    fn statfs(&mut self, session: SessionId, m: &messages::Statfs, out: &mut Vec<MonEffect>) {
        // Meant for another cluster's monitor: unanswered, as by Ceph's.
        if m.fsid != self.config.fsid {
            return;
        }
        let pools = self.pgmap.pools();
        let space = self.pgmap.space(|_| true);
        let (kb, kb_used, kb_avail, num_objects) = match m.data_pool {
            Some(pool) if pools.contains_key(&pool) => {
                let usage = self.pool_usage(pool);
                let stored = usage.stored / 1024;
                let avail = usage.max_avail / 1024;
                (stored + avail, stored, avail, usage.objects)
            }
            _ => {
                let objects = self.pgmap.total().sum().num_objects.max(0) as u64;
                (space.total / 1024, space.used_raw() / 1024, space.available / 1024, objects)
            }
        };
        let reply = messages::StatfsReply {
            tid: m.tid,
            fsid: self.config.fsid,
            version: self.pgmap.version,
            kb,
            kb_used,
            kb_avail,
            num_objects,
        };
        out.push(MonEffect::Send { session, message: reply.into() });
    }

    /// librados' own way to make and remove pools and snapshots.
    fn pool_op(&mut self, now: UTime, session: SessionId, m: messages::PoolOp, out: &mut Vec<MonEffect>) {
        use messages::PoolOp;
        if self.is_proposing() {
            return self.wait(session, m.into(), out);
        }
        let before = self.pending.map_changes;
        let what = self.shown_pool_op(&m);
        let result = match m.op {
            PoolOp::CREATE => self.pool_op_create(now, &m).map(|()| None),
            PoolOp::DELETE => self.pool_op_delete(now, PoolId(m.pool.into())).map(|()| None),
            _ => self.pool_snap_op(now, &m),
        };
        let (result, snap) = match result {
            Ok(snap) => (0, snap),
            Err(Failure::Wait) => return self.wait(session, m.into(), out),
            Err(Failure::Errno(errno, _) | Failure::Shown(errno, _)) => (errno.code(), None),
        };
        let changed = self.pending.map_changes != before;
        let epoch = Epoch(self.osdmap.epoch.0 + u32::from(changed));
        let reply = messages::PoolOpReply {
            tid: m.tid,
            paxos: messages::Paxos::at(epoch.0.into()),
            fsid: self.config.fsid,
            result,
            epoch,
            response: snap.map(|snap| Blob(snap.to_bytes(0).into())),
        };
        if changed {
            let audit = self.audit_line(now, session, &what);
            self.defer_reply(before, session, reply, audit);
        } else {
            out.push(MonEffect::Send { session, message: reply.into() });
        }
    }

    /// What a pool operation does, for the audit: it names the pool only by its number where there is one already.
    fn shown_pool_op(&self, m: &messages::PoolOp) -> String {
        let id = PoolId(m.pool.into());
        let name = match osdmap::pool(&self.osdmap, id) {
            Some(_) => osdmap::pool_name(&self.osdmap, id),
            None => m.name.to_string(),
        };
        let word = match m.op {
            messages::PoolOp::DELETE => "delete",
            messages::PoolOp::CREATE_SNAP | messages::PoolOp::CREATE_UNMANAGED_SNAP => "create snapshot of",
            messages::PoolOp::DELETE_SNAP | messages::PoolOp::DELETE_UNMANAGED_SNAP => "remove snapshot of",
            _ => "create",
        };
        format!("pool op {word} '{name}'")
    }

    fn get_config(&self, session: SessionId, m: &messages::GetConfig, out: &mut Vec<MonEffect>) {
        let config = self.config_of(&m.name);
        out.push(MonEffect::Send { session, message: messages::Config { config }.into() });
    }

    fn get_pool_stats(&self, session: SessionId, m: &messages::GetPoolStats, out: &mut Vec<MonEffect>) {
        let pools = self.pgmap.pools();
        let mut pool_stats = std::collections::BTreeMap::new();
        for name in &m.pools {
            let id = std::str::from_utf8(name).ok().and_then(|name| self.osdmap.pool_by_name(name));
            if let Some(stats) = id.and_then(|id| pools.get(&id)) {
                pool_stats.insert(name.clone(), stats.stat);
            }
        }
        let reply = messages::GetPoolStatsReply {
            tid: m.tid,
            paxos: messages::Paxos::at(self.pgmap.version),
            fsid: self.config.fsid,
            pool_stats,
            per_pool: self.pgmap.is_by_pool(),
        };
        out.push(MonEffect::Send { session, message: reply.into() });
    }
}
