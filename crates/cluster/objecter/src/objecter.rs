//! The client as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maps::{OsdMap, UpActing};
use messages::Message;
use monclient::{MonClient, MonClientEffect, MonClientEvent};
use types::{BrokenInvariant, Epoch, Errno, OsdId, PgId, UTime, invariant};

use crate::commands::PendingCommand;
use crate::config::ObjecterConfig;
use crate::event::{ObjecterEffect, ObjecterEvent};
use crate::linger::{Linger, OwnRequest};
use crate::maps_in::{MapWaits, VersionWanted};
use crate::placement::Change;
use crate::request::{Pending, Request, RequestId};
use crate::session::Session;

/// What is due at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Timer {
    /// A request, by tid, is given up.
    Request(u64),
    /// A command, by tid, is given up.
    Command(u64),
    Reconnect(OsdId),
}

/// A request that was not accepted: as much is under way as may be. There is room again when a request has ended.
#[derive(Debug)]
pub struct Busy(pub Box<Request>);

/// See the crate's documentation.
#[derive(Debug)]
pub struct Objecter {
    pub(crate) config: ObjecterConfig,
    pub(crate) mon: MonClient,
    pub(crate) map: Option<Arc<OsdMap>>,
    /// Where `map` puts PGs, as far as it was asked.
    pub(crate) placements: BTreeMap<PgId, UpActing>,
    /// Whether there was a map that was given up: epochs may be missing before the next one.
    pub(crate) map_was_lost: bool,
    pub(crate) map_requested_at: Option<UTime>,
    pub(crate) map_waits: MapWaits,
    /// Questions for the newest epoch, by the monitor session's number for them.
    pub(crate) versions: BTreeMap<u64, VersionWanted>,
    pub(crate) barrier: Epoch,
    /// By tid.
    pub(crate) pending: BTreeMap<u64, Pending>,
    /// Watches and notifies, by cookie.
    pub(crate) lingers: BTreeMap<u64, Linger>,
    /// Of the requests under way, those of the client's own.
    pub(crate) own_requests: BTreeMap<RequestId, OwnRequest>,
    /// The bytes of all in `pending`.
    pub(crate) bytes: u64,
    pub(crate) sessions: BTreeMap<OsdId, Session>,
    pub(crate) session_ids: u64,
    pub(crate) commands: BTreeMap<u64, PendingCommand>,
    pub(crate) timers: BTreeSet<(UTime, Timer)>,
    /// When requests are looked through again; `None` before the start.
    next_tick: Option<UTime>,
    tids: u64,
}

impl Objecter {
    /// A client that is not started yet.
    pub fn new(config: ObjecterConfig) -> Self {
        Self {
            mon: MonClient::new(config.monitors.clone()),
            config,
            map: None,
            placements: BTreeMap::new(),
            map_was_lost: false,
            map_requested_at: None,
            map_waits: BTreeMap::new(),
            versions: BTreeMap::new(),
            barrier: Epoch(0),
            pending: BTreeMap::new(),
            lingers: BTreeMap::new(),
            own_requests: BTreeMap::new(),
            bytes: 0,
            sessions: BTreeMap::new(),
            session_ids: 0,
            commands: BTreeMap::new(),
            timers: BTreeSet::new(),
            next_tick: None,
            tids: 0,
        }
    }

    /// Seeks a monitor and a map. Requests may be submitted before or after. A client that is given its maps
    /// ([`Objecter::take_map`]) needs no monitor, and need not be started.
    pub fn start(&mut self, now: UTime, out: &mut Vec<ObjecterEffect>) {
        self.next_tick = Some(now.after(self.config.tick_interval));
        self.request_map(now, out);
        let mut effects = Vec::new();
        self.mon.start(now, &mut effects);
        self.on_mon_effects(now, effects, out);
    }

    /// The newest map.
    pub fn map(&self) -> Option<&OsdMap> {
        self.map.as_deref()
    }

    /// The map's epoch; 0 before the first.
    pub fn epoch(&self) -> Epoch {
        self.map.as_ref().map_or(Epoch(0), |map| map.epoch)
    }

    /// Requests that have not ended.
    pub fn requests_pending(&self) -> usize {
        self.pending.len()
    }

    /// Begins a request. Requests on one object are sent in the order in which they are submitted, also when they are
    /// sent again.
    ///
    /// # Errors
    /// [`Busy`], with the request.
    pub fn submit(
        &mut self,
        now: UTime,
        request: Request,
        out: &mut Vec<ObjecterEffect>,
    ) -> Result<RequestId, Busy> {
        let tid = self.tids + 1;
        let timeout = self.config.request_timeout;
        let deadline = (!timeout.is_zero()).then(|| now.after(timeout));
        let pending = Pending::new(RequestId(tid), request, now, deadline);
        let fits = self.bytes.saturating_add(pending.bytes) <= self.config.request_bytes_max;
        let alone = self.pending.is_empty();
        if self.pending.len() >= self.config.requests_max || !(fits || alone) {
            return Err(Busy(Box::new(pending.request)));
        }
        self.tids = tid;
        self.bytes += pending.bytes;
        self.timers.extend(deadline.map(|at| (at, Timer::Request(tid))));
        self.pending.insert(tid, pending);
        self.start_request(now, tid, out);
        self.checked();
        Ok(RequestId(tid))
    }

    pub(crate) fn start_request(&mut self, now: UTime, tid: u64, out: &mut Vec<ObjecterEffect>) {
        match self.place(tid) {
            // Without a map it waits for one.
            Change::None | Change::Resend => self.assign(now, tid, out),
            Change::PoolGone => self.on_pool_gone(tid, out),
            Change::PoolEio => self.end_unanswered(tid, Errno::EIO, out),
        }
    }

    pub(crate) fn next_tid(&mut self) -> u64 {
        self.tids += 1;
        self.tids
    }

    /// When an [`ObjecterEvent::Tick`] is due; `None` before the start.
    pub fn deadline(&self) -> Option<UTime> {
        let timer = self.timers.first().map(|(at, _)| *at);
        [self.mon.deadline(), timer, self.next_tick].into_iter().flatten().min()
    }

    /// Takes an event.
    pub fn handle(&mut self, now: UTime, event: ObjecterEvent, out: &mut Vec<ObjecterEffect>) {
        match event {
            ObjecterEvent::Mon(event) => self.on_mon_event(now, event, out),
            ObjecterEvent::Connected(session) => self.on_connected(now, session, out),
            ObjecterEvent::Reset(session, reason) => self.on_reset(now, session, &reason, out),
            ObjecterEvent::Message(session, message) => self.on_osd_message(now, session, message, out),
            ObjecterEvent::Tick => self.on_tick(now, out),
        }
        self.checked();
    }

    fn on_tick(&mut self, now: UTime, out: &mut Vec<ObjecterEffect>) {
        self.on_mon_event(now, MonClientEvent::Tick, out);
        while let Some((at, timer)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Request(tid) => self.end_unanswered(tid, Errno::ETIMEDOUT, out),
                Timer::Command(tid) => self.on_command_timeout(tid, out),
                Timer::Reconnect(osd) => self.on_reconnect_due(now, osd, out),
            }
        }
        if self.next_tick.is_some_and(|at| at <= now) {
            let interval = self.config.tick_interval;
            self.next_tick = Some(now.after(interval));
            self.ping_watches(now, out);
            let laggy = self.ping_laggy(now, out);
            let homeless = self.pending.values().any(|p| p.home.is_none());
            let stale = self.map_requested_at.is_some_and(|at| at.after(interval * 2) < now);
            if laggy || homeless || stale {
                self.request_map(now, out);
            }
        }
    }

    fn on_mon_event(&mut self, now: UTime, event: MonClientEvent, out: &mut Vec<ObjecterEffect>) {
        let mut effects = Vec::new();
        self.mon.handle(now, event, &mut effects);
        self.on_mon_effects(now, effects, out);
    }

    /// Lets the monitor session do something that only sends.
    pub(crate) fn with_mon<T>(
        &mut self,
        out: &mut Vec<ObjecterEffect>,
        act: impl FnOnce(&mut MonClient, &mut Vec<MonClientEffect>) -> T,
    ) -> T {
        let mut effects = Vec::new();
        let result = act(&mut self.mon, &mut effects);
        for effect in effects {
            if let MonClientEffect::Io(io) = effect {
                out.push(ObjecterEffect::Mon(io));
            }
        }
        result
    }

    pub(crate) fn send_to_mon(&mut self, message: Message, out: &mut Vec<ObjecterEffect>) {
        self.with_mon(out, |mon, effects| mon.send(message, effects));
    }

    fn on_mon_effects(&mut self, now: UTime, effects: Vec<MonClientEffect>, out: &mut Vec<ObjecterEffect>) {
        for effect in effects {
            match effect {
                MonClientEffect::Io(io) => out.push(ObjecterEffect::Mon(io)),
                MonClientEffect::Ready => self.resend_commands(out),
                // Commands are sent again when the next session is ready.
                MonClientEffect::Lost => {}
                MonClientEffect::Deliver(Message::OsdMap(map)) => self.on_osd_map(now, &map, out),
                MonClientEffect::Deliver(Message::MonCommandAck(ack)) => self.on_command_ack(ack, out),
                MonClientEffect::Deliver(Message::PoolOpReply(reply)) => self.on_pool_op_reply(reply, out),
                // The monitors' map and the configuration, which the session has read.
                MonClientEffect::Deliver(_) => {}
                MonClientEffect::Version(handle, range) => self.on_version(now, handle, range.newest, out),
                MonClientEffect::Warning(text) => out.push(ObjecterEffect::Warning(text)),
            }
        }
    }

    pub(crate) fn checked(&self) {
        if cfg!(debug_assertions) {
            // A broken one panics here; nothing but a defect of this file breaks one.
            drop(self.check());
        }
    }

    /// Checks what holds between events.
    ///
    /// # Errors
    /// What does not hold: a defect of this crate.
    pub fn check(&self) -> Result<(), BrokenInvariant> {
        let bytes: u64 = self.pending.values().map(|p| p.bytes).sum();
        invariant!(self.bytes == bytes, "{} bytes are counted of {bytes} under way", self.bytes)?;
        for (tid, pending) in &self.pending {
            let home = pending.home.is_none_or(|osd| self.sessions.contains_key(&osd));
            invariant!(home, "tid {tid} is in a session that is closed")?;
            let placed = pending.placement.as_ref().and_then(|at| at.osd);
            invariant!(pending.home.is_none() || pending.home == placed, "tid {tid} is in a wrong session")?;
            let timer = pending.deadline.map(|at| (at, Timer::Request(*tid)));
            invariant!(timer.is_none_or(|t| self.timers.contains(&t)), "tid {tid} lacks its timer")?;
        }
        let under_way = |id: &RequestId| self.pending.values().any(|pending| pending.id == *id);
        invariant!(
            self.own_requests.keys().all(under_way),
            "a request of the client's own has ended unnoticed"
        )?;
        for why in self.versions.values() {
            if let VersionWanted::Pool(tid) = why {
                invariant!(self.pending.contains_key(tid), "a pool is asked for by tid {tid}, which ended")?;
            }
        }
        Ok(())
    }
}
