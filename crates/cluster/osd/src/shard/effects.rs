//! Events to placement groups, and what they want done.

use messages::{OpCode, PgTrouble};
use pg::{ClusterLogLevel, Notice, PgEffect, PgEvent, PgFailure, Phase};
use store::Fault;
use types::{Epoch, SpgId, UTime};

use super::pg_set::QueuedTxn;
use super::{EVICT_PGS_MAX, PgSlot, Shard};
use crate::control::CopyId;
use crate::parts::{Block, Out, PgPlace, REOPENED, ToControl, ToGate};
use crate::{LogLevel, OsdEffect};

/// Object contexts that were used only once: at least so many of each PG, which requests under way may need.
const CONTEXTS_ONCE_MIN: usize = 8;

impl Shard {
    /// Hands an event to a PG and does what it wants.
    pub(super) fn pg_handle(&mut self, now: UTime, slot: PgSlot, event: PgEvent, out: &mut Out) {
        let Some(entry) = self.pgs.get_mut(slot) else {
            return out.broken(format!("an event for the PG of {slot:?}, which is not here"));
        };
        let mut effects = std::mem::take(&mut self.effects);
        entry.pg.handle(now, event, &mut out.memory(self.id), &mut effects);
        self.effects = effects;
        self.perform(now, slot, out);
    }

    /// Does what a PG wants, and publishes what has changed of it.
    pub(super) fn perform(&mut self, now: UTime, slot: PgSlot, out: &mut Out) {
        let once_max = (self.config.object_contexts_once_max / self.pgs.len().max(1)).max(CONTEXTS_ONCE_MIN);
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            self.effect(now, slot, effect, out);
        }
        self.effects = effects;
        // The event may have ended with the PG's removal.
        let Some(entry) = self.pgs.get_mut(slot) else { return };
        let contexts = entry.pg.evict_contexts_once(once_max);
        self.contexts = self.contexts - entry.contexts + contexts;
        entry.contexts = contexts;
        self.timers.set(slot, &mut entry.timer, entry.pg.deadline());
        if entry.pg.phase() == Phase::Loading && !entry.loads {
            // It had failed, and begins again: what it is to get is the newest map.
            (entry.loads, entry.epoch) = (true, Epoch(0));
            self.loading += 1;
        }
        let splits = entry.pg.phase() == Phase::Splitting;
        if std::mem::replace(&mut entry.splits, splits) != splits {
            match splits {
                true => self.splitting += 1,
                false => (self.splitting, self.advance_waits) = (self.splitting - 1, false),
            }
        }
        if let Some(status) = entry.publish(now) {
            if !entry.may_get_again() {
                self.space.forget_pg(slot);
            }
            let pgid = entry.pg.id();
            out.send_control(ToControl::PgStatus { pgid, slot, status });
        }
        self.evict_contexts();
    }

    fn effect(&mut self, now: UTime, slot: PgSlot, effect: PgEffect, out: &mut Out) {
        let Some(entry) = self.pgs.get_mut(slot) else {
            return out.broken(format!("an effect of the PG of {slot:?}, which is not here"));
        };
        let pgid = entry.pg.id();
        let place = PgPlace { shard: self.id, slot };
        match effect {
            PgEffect::Reply { session, reply } => {
                if let Some(record) = entry.take_request(session, reply.tid) {
                    self.tracker.done(now, pgid, record, &reply);
                }
                out.send_gate_of(session, ToGate::Reply { session, place, reply });
            }
            PgEffect::Reached { session, tid, stage } => entry.reached(now, session, tid, stage),
            PgEffect::Send { session, message } => out.send_session(session, *message),
            PgEffect::Watching { session, watching } => {
                out.send_gate_of(session, ToGate::Watching { session, place, watching });
            }
            PgEffect::Read { token, request } => {
                let Some(token) = slot.token(token) else { return out_of_tokens(pgid, out) };
                out.read(self.id, token, request);
            }
            PgEffect::Copy { token, source } => {
                let id = CopyId { shard: self.id, slot, token };
                out.send_control(ToControl::Copy { id, source });
            }
            PgEffect::AskPeer { osd, question } => out.send_control(ToControl::AskPeer { osd, question }),
            PgEffect::CancelCopy { token } => {
                // What waits here for room would keep it from others.
                self.copied.retain(|(of, copied, _)| (*of, *copied) != (slot, token));
                out.send_control(ToControl::CancelCopy(CopyId { shard: self.id, slot, token }));
            }
            PgEffect::Queue { token: inner, txn } => {
                let Some(token) = slot.token(inner) else { return out_of_tokens(pgid, out) };
                let bytes = txn.payload_bytes();
                entry.queued.push_back(QueuedTxn {
                    token: inner,
                    bytes,
                    since: now,
                    is_advance: self.advancing,
                });
                self.queued_bytes += bytes;
                self.advances += usize::from(self.advancing);
                out.queue(self.id, token, txn);
            }
            PgEffect::Split { children } => {
                let shard = self.id;
                out.log(LogLevel::Info, format!("pg {pgid} was split: {} new PGs", children.len()));
                out.send_control(ToControl::PgsSplit { shard, children: children.clone() });
                children.into_iter().for_each(|child| self.load_pg(now, child, out));
            }
            PgEffect::Acknowledge { token } => {
                let Some(token) = slot.token(token) else { return out_of_tokens(pgid, out) };
                out.push(OsdEffect::Acknowledge { shard: self.id, token });
            }
            PgEffect::Block { session, tid, range } => {
                entry.take_request(session, tid);
                let block = Block { session, tid, pgid, place, range: *range };
                out.send_gate_of(session, ToGate::Block(Box::new(block)));
            }
            PgEffect::Unblock { session, epoch } => {
                out.send_gate_of(session, ToGate::Unblock { session, pgid, epoch });
            }
            PgEffect::Scrubbed { complete, work } => {
                self.tracker.counters.scrubs.add(complete, &work);
                out.send_control(ToControl::Scrubbed { pgid, complete });
            }
            PgEffect::Notice(Notice::ClusterLog { level, text }) => {
                out.send_control(ToControl::ClusterLog(level_of(level), text));
            }
            PgEffect::Notice(notice) => {
                if let Notice::Dropped { session, tid, .. } = notice {
                    entry.take_request(session, tid);
                    if self.lacking > 0 {
                        self.note_sent_back(slot, session, self.lacking, out);
                    }
                    out.send_gate_of(session, ToGate::Dropped { session, place, tid });
                }
                log_notice(pgid, notice, out);
            }
            PgEffect::Failed(failure) => pg_failed(pgid, failure, out),
            PgEffect::Removed => {
                if let Some(entry) = self.pgs.remove(slot) {
                    self.contexts -= entry.contexts;
                    self.space.forget_pg(slot);
                    self.timers.forget(slot, entry.timer);
                    self.splitting -= usize::from(entry.splits);
                    self.queued_bytes -= entry.queued.iter().map(|txn| txn.bytes).sum::<u64>();
                    self.advances -= entry.queued.iter().filter(|txn| txn.is_advance).count();
                }
                out.log(LogLevel::Debug, format!("pg {pgid} is removed"));
                out.send_control(ToControl::PgRemoved { pgid });
            }
        }
    }

    /// Evicts idle object contexts while all PGs together hold too many, from PGs that hold more than an equal share.
    /// A request adds at most one context and the hand stays where there are some to evict, so a bounded part of
    /// the work keeps up.
    fn evict_contexts(&mut self) {
        let (max, places) = (self.config.object_contexts_max, self.pgs.places());
        if self.contexts <= max {
            return;
        }
        let share = max / self.pgs.len().max(1);
        for _ in 0..EVICT_PGS_MAX.min(places) {
            if let Some(entry) = self.pgs.by_place(self.evict_hand) {
                let in_use = entry.requests.len() + entry.queued.len();
                if entry.contexts > share.max(in_use) {
                    let excess = self.contexts - max;
                    let left = entry.pg.evict_contexts(share.max(entry.contexts.saturating_sub(excess)));
                    self.contexts -= entry.contexts - left;
                    entry.contexts = left;
                    return;
                }
            }
            self.evict_hand = if self.evict_hand + 1 < places { self.evict_hand + 1 } else { 0 };
        }
    }

    /// The same of all PGs at once: an OSD without requests would keep what it may have no more.
    pub(super) fn evict_all_contexts(&mut self) {
        let share = self.config.object_contexts_max / self.pgs.len().max(1);
        for entry in self.pgs.iter_mut() {
            let left = entry.pg.evict_all_contexts(share);
            self.contexts -= entry.contexts - left;
            entry.contexts = left;
        }
    }

    /// A PG may have read what it keeps, or failed to: then it gets the map.
    pub(super) fn note_loaded(&mut self, now: UTime, slot: PgSlot, out: &mut Out) {
        let Some(entry) = self.pgs.get_mut(slot) else { return };
        if !entry.loads || entry.pg.phase() == Phase::Loading {
            return;
        }
        entry.loads = false;
        self.loading -= 1;
        self.advance_waits = false;
        self.first_map(now, slot, out);
    }
}

/// A restart begins to count again.
fn out_of_tokens(pgid: SpgId, out: &mut Out) {
    let reason = format!("pg {pgid} has used all store tokens of this start: restart the OSD");
    out.send_control(ToControl::Failed(reason));
}

fn level_of(level: ClusterLogLevel) -> LogLevel {
    match level {
        ClusterLogLevel::Error => LogLevel::Error,
        ClusterLogLevel::Warn => LogLevel::Warn,
        ClusterLogLevel::Info => LogLevel::Info,
        ClusterLogLevel::Debug => LogLevel::Debug,
    }
}

fn log_notice(pgid: SpgId, notice: Notice, out: &mut Out) {
    let (level, text) = match notice {
        Notice::UnsupportedOp { code } => {
            let name = OpCode(code).name().unwrap_or("of an unknown kind");
            (LogLevel::Warn, format!("operation {name} ({code:#06x}) is not supported yet"))
        }
        Notice::Dropped { reason, .. } => (LogLevel::Debug, format!("dropped a request: {reason}")),
        Notice::NotServed { reason } => (LogLevel::Warn, format!("not served: {reason}")),
        Notice::ChangeRefused { error } => {
            (LogLevel::Error, format!("the store refused a client's change: {error}"))
        }
        Notice::TrimFailed { reason } => (
            LogLevel::Error,
            format!("removed snapshots keep their objects until the next interval: {reason}"),
        ),
        Notice::BadObject { reason } => (LogLevel::Error, reason),
        Notice::ClusterLog { level, text } => (level_of(level), text),
    };
    out.log(level, format!("pg {pgid}: {text}"));
}

fn pg_failed(pgid: SpgId, failure: PgFailure, out: &mut Out) {
    let mut tell = |what: PgTrouble, reason: String| {
        out.send_control(ToControl::ClusterLog(LogLevel::Error, what.line(&pgid, reason)));
    };
    match failure {
        // The device is gone: nothing else on it can be trusted to last.
        PgFailure::Refused(error) if error.fault() == Fault::Disk && !error.is_local() => {
            out.send_control(ToControl::Failed(format!("pg {pgid}: {error}{REOPENED}")));
        }
        // Its pool is in no map any more, so nothing else would tell of it.
        PgFailure::Remove(error) => tell(PgTrouble::Remains, error.to_string()),
        PgFailure::Remains(left) => tell(PgTrouble::Remains, format!("{left}; all else is removed")),
        // The PG alone: operators learn of it, and which one it is.
        failure => tell(PgTrouble::Stopped, failure.to_string()),
    }
}
