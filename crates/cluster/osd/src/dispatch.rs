//! What a message is and who takes it.

use std::collections::BTreeMap;

use auth::{Access, SessionId};
use maps::OsdMap;
use messages::osd_op::OsdFlags;
use messages::{Message, OsdOp, OsdOpReply, OsdPing, TimeSpan};
use monclient::MonClientEffect;
use options::{SetError, Values, opt};
use pg::{ClientOp, may_read_replica};
use types::{EntityType, Epoch, Errno, OsdId, SpgId, UTime};

use crate::osd::Out;
use crate::session::OpDecision;
use crate::space::{self, SpaceBudget};
use crate::superblock::trim_lower_bound;
use crate::throttle::Throttle;
use crate::{LogLevel, Osd, OsdEffect, OsdPhase};

/// Message types remembered as logged, at most: a peer may invent any number.
const LOGGED_KINDS_MAX: usize = 256;

impl Osd {
    /// Passes on what the session with the monitor gave.
    pub(crate) fn perform_mon(&mut self, now: UTime, effects: Vec<MonClientEffect>, out: &mut Out) {
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
            Message::OsdMap(m) => self.handle_osd_map(&m, out),
            Message::OsdPgCreate2(m) => self.handle_pg_create(now, &m, out),
            Message::OsdMarkMeDown(_) if self.state == OsdPhase::Stopping => self.finish_stop(out),
            Message::MgrMap(m) => self.handle_mgr_map(now, &m, out),
            Message::Config(m) => self.handle_config(m.config, out),
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
        for error in self.merge_options() {
            self.log(LogLevel::Warn, format!("an option of the monitor's is ignored: {error}"), out);
        }
    }

    /// Puts the options in force, as Ceph's programs do: the monitor's count least, then what this process was started
    /// with, then what a command gave to this OSD. Answers what could not be taken.
    pub(crate) fn merge_options(&mut self) -> Vec<SetError> {
        let mut merged = Values::new();
        let given = self.config.options.changed();
        let monitors = self.monitors_options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let overrides = self.overrides.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let set = |(name, value)| merged.set(name, value).err();
        let errors = monitors.chain(given).chain(overrides).filter_map(set).collect();
        self.options = merged;
        self.options_changed();
        errors
    }

    /// Puts changed options in force.
    pub(crate) fn options_changed(&mut self) {
        self.throttle.set_limits(crate::config::limits(&self.options));
        self.space.set_failsafe_ratio(self.options.get(opt::OSD_FAILSAFE_FULL_RATIO));
        self.pgs_configure();
    }

    pub(crate) fn on_message(
        &mut self,
        now: UTime,
        session: SessionId,
        message: Message,
        bytes: u64,
        out: &mut Out,
    ) {
        // A message of a session that has just ended: nothing of it is held, and there is nobody to answer.
        let Some(peer) = self.sessions.get(&session) else { return };
        let kind = peer.info.name.kind;
        match message {
            Message::OsdOp(op) => self.handle_osd_op(now, session, op, bytes, out),
            Message::OsdPing(ping) => self.handle_ping(now, session, &ping, out),
            Message::Command(command) => self.handle_command(session, &command, out),
            Message::OsdMap(m) if matches!(kind, EntityType::Osd | EntityType::Mon) => {
                self.handle_osd_map(&m, out);
            }
            // Maps from a client are nobody's business; a ping asks for nothing.
            Message::OsdMap(_) | Message::Ping(_) => {}
            // Nothing is ever held back here, so there is nothing to note of an answer.
            Message::OsdBackoff(_) => {}
            other => {
                let from = format!("{} at {}", peer.info.name, peer.info.peer_addrs);
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

    fn handle_osd_op(&mut self, now: UTime, session: SessionId, op: Box<OsdOp>, bytes: u64, out: &mut Out) {
        if self.throttle.admit(session, op.tid, bytes) {
            out.push(OsdEffect::Pause(session));
        }
        let ours = self.history.epoch();
        if op.epoch > ours {
            let want = u64::from(self.history.newest().0) + 1;
            if self.mon.subscriptions().want_from("osdmap", want, 0) {
                self.renew_subscriptions(out);
            }
        }
        if let Some(peer) = self.sessions.get_mut(&session) {
            let theirs = op.epoch;
            peer.waiting.push_back(op);
            let lacks = peer.lacks(theirs, ours);
            self.share_maps(session, lacks, out);
        }
        self.run_ready(now, session, out);
    }

    fn is_blocklisted(&self, session: SessionId) -> bool {
        let (Some(map), Some(peer)) = (self.history.current(), self.sessions.get(&session)) else {
            return false;
        };
        peer.info.peer_addrs.0.iter().any(|addr| map.is_blocklisted(addr))
    }

    /// Sends a session the maps that it lacks.
    pub(crate) fn share_maps(&mut self, session: SessionId, lacks: Option<Epoch>, out: &mut Out) {
        // `None`: the peer is up to date.
        let Some(have) = lacks else { return };
        let epochs_max = self.options.get(opt::OSD_MAP_SHARE_MAX_EPOCHS) as u32;
        if let Some(message) = self.history.share_from(have, epochs_max, trim_lower_bound(&self.superblock)) {
            out.push(OsdEffect::Send { session, message: message.into() });
        }
    }

    /// Hands a session's operations on that need not wait (any more). Those of a client that the map shuts out are
    /// refused, whatever they wait for: it must learn that it is fenced.
    pub(crate) fn run_ready(&mut self, now: UTime, session: SessionId, out: &mut Out) {
        let epoch = self.history.epoch();
        if self.is_blocklisted(session) {
            let waiting = self.sessions.get_mut(&session).map(|peer| std::mem::take(&mut peer.waiting));
            for op in waiting.into_iter().flatten() {
                self.reply(session, OsdOpReply::error(&op, Errno::ESHUTDOWN.code(), epoch), out);
            }
            return;
        }
        // Before the first map, requests wait in their session. A session that has ended has none left.
        let Some(map) = self.history.current().cloned() else { return };
        let Some(peer) = self.sessions.get_mut(&session) else { return };
        let (whoami, is_up) = (self.config.whoami, self.up_epoch > Epoch(0));
        let (pgs, space, throttle) = (&self.pgs, &mut self.space, &self.throttle);
        let ready = peer.take_ready(epoch, |op| {
            if !pgs.contains(&op.pgid) {
                match role(&map, whoami, &op.pgid) {
                    // Its budget must be free; the client sends it again should the pool get its old number of PGs back.
                    Role::Primary if pgs.is_never_made(&op.pgid) => return OpDecision::Drop,
                    // A PG that the map gives us but that is not there yet is about to be created.
                    Role::Primary => return OpDecision::Wait,
                    Role::Replica if is_up && may_read_replica(op) => return OpDecision::AskPrimary,
                    Role::Replica | Role::None => {}
                }
            }
            // Before a map shows us up nothing is ours to answer. Nor is what was sent to the wrong OSD, or to a pool that
            // is gone.
            if !is_up || !pgs.contains(&op.pgid) {
                return OpDecision::Drop;
            }
            decide_write(space, throttle, &map, op)
        });
        let (source, caps, features) = (peer.info.name, peer.info.caps, peer.info.features);
        let addrs = peer.addrs.clone();
        for (op, turn) in ready {
            match turn {
                OpDecision::NoSpace => {
                    let reply = OsdOpReply::error(&op, Errno::ENOSPC.code(), epoch);
                    self.reply(session, reply, out);
                }
                OpDecision::AskPrimary => {
                    self.reply(session, OsdOpReply::error(&op, Errno::EAGAIN.code(), epoch), out);
                }
                OpDecision::Run => {
                    let permitted = caps.permits(needed_access(&op));
                    let addrs = addrs.clone();
                    let op = ClientOp { session, source, addrs, features, permitted, op: *op };
                    self.pg_client_op(now, op, out);
                }
                OpDecision::Drop | OpDecision::Wait => self.release(session, op.tid, out),
            }
        }
        if self.space.wants_answer() {
            self.ask_statfs(out);
        }
    }

    /// Maps came or PGs were made: what waited for them may run.
    pub(crate) fn sessions_ready(&mut self, now: UTime, out: &mut Out) {
        let waiting: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| !s.waiting.is_empty()).map(|(&id, _)| id).collect();
        for session in waiting {
            self.run_ready(now, session, out);
        }
    }

    /// Answers an operation and frees what it held.
    pub(crate) fn reply(&mut self, session: SessionId, reply: OsdOpReply, out: &mut Out) {
        let tid = reply.tid;
        if self.sessions.contains_key(&session) {
            out.push(OsdEffect::Send { session, message: reply.into() });
        }
        self.release(session, tid, out);
    }

    /// An operation is answered or dropped: what it held is free.
    pub(crate) fn release(&mut self, session: SessionId, tid: u64, out: &mut Out) {
        let resumed = self.throttle.release(session, tid);
        out.extend(resumed.into_iter().map(OsdEffect::Resume));
    }

    /// A heartbeat of another OSD (Ceph's handle_osd_ping). Maps never go over a heartbeat session: they delay its pings.
    fn handle_ping(&mut self, now: UTime, session: SessionId, ping: &OsdPing, out: &mut Out) {
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
        out.push(OsdEffect::Send { session, message: reply.clone().into() });
        if self.has_died(session, ping.map_epoch) {
            let died = OsdPing { op: OsdPing::YOU_DIED, ..reply };
            out.push(OsdEffect::Send { session, message: died.into() });
        }
    }

    /// Whether the OSD at the other end is down in a map that it does not have yet.
    fn has_died(&self, session: SessionId, its_epoch: Epoch) -> bool {
        let (Some(map), Some(peer)) = (self.history.current(), self.sessions.get(&session)) else {
            return false;
        };
        // No OSD has such a number.
        let Ok(num) = i32::try_from(peer.info.name.num) else { return false };
        if peer.info.name.kind != EntityType::Osd {
            return false;
        }
        match map.osd(OsdId(num)).filter(|osd| osd.exists()) {
            None => true,
            Some(osd) => !osd.is_up() && osd.info.down_at > its_epoch,
        }
    }
}

/// What a map makes of this OSD in a PG.
enum Role {
    Primary,
    Replica,
    None,
}

fn role(map: &OsdMap, whoami: OsdId, pgid: &SpgId) -> Role {
    if map.pools.get(&pgid.pg.pool).is_none_or(|pool| pgid.pg.seed >= pool.pg_num) {
        return Role::None;
    }
    let at = map.pg_to_up_acting(pgid.pg);
    if at.acting_primary == Some(whoami) {
        Role::Primary
    } else if at.acting.contains(&whoami) {
        Role::Replica
    } else {
        Role::None
    }
}

/// Whether an operation may begin as far as space and memory go.
///
/// One that lacks space waits: what is set aside for writes under way may come back. If the store says that there is
/// really too little, the OSD reports itself full; the map then says so of the pool, the operation is dropped, and its
/// client sends it again when the map takes that back. So a write is never dropped before there is a map to bring
/// it back, and writes of an object keep their order.
fn decide_write(space: &mut SpaceBudget, throttle: &Throttle, map: &OsdMap, op: &OsdOp) -> OpDecision {
    let bytes = space::may_take(&op.ops);
    if bytes == 0 || (!throttle.store_is_behind() && space.take(bytes)) {
        return OpDecision::Run;
    }
    if throttle.store_is_behind() || !space.is_full() {
        return OpDecision::Wait;
    }
    let full = |pool: &maps::PgPool| pool.has_flags(maps::PoolFlags::FULL);
    if op.flags & (OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE) != 0 {
        OpDecision::NoSpace
    } else if map.has_flags(maps::MapFlags::FULL) || map.pools.get(&op.pgid.pg.pool).is_some_and(full) {
        OpDecision::Drop
    } else {
        OpDecision::Wait
    }
}

/// What a client must be allowed for an operation.
fn needed_access(op: &OsdOp) -> Access {
    op.ops.iter().map(|op| op.code).fold(Access::READ, |sum, code| {
        let sum = if code.writes() { sum | Access::WRITE } else { sum };
        if code.is_exec() { sum | Access::EXECUTE } else { sum }
    })
}
