//! Watches and notifies, which outlive a request (Ceph's linger operations).
//!
//! A watch is registered with its OSD, and again with the next one whenever the object's PG begins another interval or the
//! session ends; pings keep it. A notify waits for its end as long, and is sent again likewise: its watchers may get it
//! twice. The requests that do this are the client's own, and their outcomes come as [`WatchEvent`]s and
//! [`NotifyOutcome`]s.

use std::collections::{BTreeMap, BTreeSet};

use core::time::Duration;

use encoding::{DecodeError, Decoder, Encoder};
use messages::osd_op::{OpConst, OsdFlags};
use messages::{Blob, Op, OpArgs, OpCode, WatchNotify};
use types::{Errno, Name, OsdId, PoolId, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Busy, Objecter};
use crate::placement::{Change, Placing};
use crate::request::{Outcome, Pending, Request, RequestId};
use crate::session::Link;

/// A watch's number, never used twice by a client: the cookie that OSDs and other clients know it by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WatchId(pub u64);

/// A notify's number, never used twice by a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NotifyId(pub u64);

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WatchEvent {
    /// It is registered, for the first time or after an interruption in which notifies may have been missed.
    Connected,
    /// Somebody notifies; answer with [`Objecter::ack`].
    Notify {
        /// The OSD's number for it.
        notify: u64,
        /// The notifier's global id.
        notifier: u64,
        payload: Blob,
    },
    /// It has ended, and nothing more comes of it: ENOTCONN if the OSD has ended it or the object is gone.
    Lost(Errno),
}

/// What became of a notify.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NotifyOutcome {
    /// 0, or a negated error number: ETIMEDOUT if watchers have not answered in time.
    pub result: i32,
    /// Answers by the watcher's global id and cookie.
    pub answers: BTreeMap<(u64, u64), Blob>,
    /// The watchers that have not answered.
    pub missed: Vec<(u64, u64)>,
}

/// What a request of the client's own is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OwnRequest {
    /// Of the linger with this cookie.
    Register(u64),
    Ping(u64),
    Ack,
}

#[derive(Debug)]
enum Kind {
    Watch {
        timeout_seconds: u32,
        registered: bool,
        /// How often it was connected again.
        generation: u32,
    },
    Notify {
        payload: Blob,
        timeout_seconds: u32,
        /// The OSD's number, once it has said it.
        notify: Option<u64>,
    },
}

#[derive(Debug)]
pub(crate) struct Linger {
    /// The object as each map places it. Never sent.
    place: Pending,
    kind: Kind,
    /// The tids of its registration and of its ping, while they are under way.
    register: Option<u64>,
    ping: Option<u64>,
}

impl Linger {
    fn osd(&self) -> Option<OsdId> {
        self.place.placement.as_ref().and_then(|at| at.osd)
    }

    fn register_ops(&mut self, cookie: u64) -> Vec<Op> {
        match &mut self.kind {
            Kind::Watch { timeout_seconds, registered, generation } => {
                let action = if *registered { OpConst::WATCH_RECONNECT } else { OpConst::WATCH_WATCH };
                *generation += u32::from(*registered);
                vec![watch_op(cookie, action, *generation, *timeout_seconds)]
            }
            Kind::Notify { payload, timeout_seconds, notify } => {
                *notify = None;
                let mut e = Encoder::new(0);
                e.put(&1u32).put(timeout_seconds).put(&*payload);
                vec![Op::new(OpCode::NOTIFY, OpArgs::Notify { cookie }).with_indata(e.into_bytes())]
            }
        }
    }
}

fn watch_op(cookie: u64, action: u32, generation: u32, timeout: u32) -> Op {
    let op = action as u8;
    Op::new(OpCode::WATCH, OpArgs::Watch { cookie, ver: 0, op, generation, timeout })
}

impl Objecter {
    /// Begins to watch an object. `timeout` is how long the watch outlives its last ping; zero is the OSD's default.
    pub fn watch(
        &mut self,
        now: UTime,
        pool: PoolId,
        object: impl Into<Name>,
        timeout: Duration,
        out: &mut Vec<ObjecterEffect>,
    ) -> WatchId {
        let timeout_seconds = timeout.as_secs().try_into().unwrap_or(u32::MAX);
        let kind = Kind::Watch { timeout_seconds, registered: false, generation: 0 };
        WatchId(self.begin_linger(now, Request::on(pool, object, Vec::new()), kind, out))
    }

    /// Ends a watch; nothing more comes of it. `None` if it has ended.
    ///
    /// # Errors
    /// [`Busy`]: the watch goes on.
    pub fn unwatch(
        &mut self,
        now: UTime,
        WatchId(cookie): WatchId,
        out: &mut Vec<ObjecterEffect>,
    ) -> Result<Option<RequestId>, Busy> {
        let Some(linger) = self.lingers.get(&cookie) else { return Ok(None) };
        let ops = vec![watch_op(cookie, OpConst::WATCH_UNWATCH, 0, 0)];
        let id = self.submit(now, Request { ops, ..linger.place.request.clone() }, out)?;
        self.end_linger(cookie);
        Ok(Some(id))
    }

    /// Sends an object's watchers a message; [`ObjecterEffect::NotifyDone`] when all have answered or `timeout` is over.
    pub fn notify(
        &mut self,
        now: UTime,
        pool: PoolId,
        object: impl Into<Name>,
        payload: Blob,
        timeout: Duration,
        out: &mut Vec<ObjecterEffect>,
    ) -> NotifyId {
        let timeout_seconds = timeout.as_secs().try_into().unwrap_or(u32::MAX);
        let kind = Kind::Notify { payload, timeout_seconds, notify: None };
        NotifyId(self.begin_linger(now, Request::on(pool, object, Vec::new()), kind, out))
    }

    /// Answers a notify that a watch has got. A watch that has ended answers nothing.
    pub fn ack(
        &mut self,
        now: UTime,
        WatchId(cookie): WatchId,
        notify: u64,
        reply: &Blob,
        out: &mut Vec<ObjecterEffect>,
    ) {
        // The watch has ended since the notify came.
        let Some(linger) = self.lingers.get(&cookie) else { return };
        let mut e = Encoder::new(0);
        e.put(&notify).put(&cookie).put(reply);
        let op = Op::new(OpCode::NOTIFY_ACK, OpArgs::Notify { cookie: 0 }).with_indata(e.into_bytes());
        let request = Request { ops: vec![op], ..linger.place.request.clone() };
        self.submit_own(now, request, OwnRequest::Ack, out);
    }

    fn begin_linger(&mut self, now: UTime, of: Request, kind: Kind, out: &mut Vec<ObjecterEffect>) -> u64 {
        let cookie = self.next_tid();
        let place = Pending { flags: OsdFlags::READ, ..Pending::new(RequestId(cookie), of, now, None) };
        self.lingers.insert(cookie, Linger { place, kind, register: None, ping: None });
        self.place_linger(cookie);
        self.register(now, cookie, out);
        cookie
    }

    /// Compares a linger with the newest map. Before there is one nothing changes.
    fn place_linger(&mut self, cookie: u64) -> Change {
        let (Some(map), Some(linger)) = (&self.map, self.lingers.get_mut(&cookie)) else {
            return Change::None;
        };
        let (barrier, seed) = (self.barrier, self.config.seed);
        Placing { map, known: &mut self.placements, barrier, seed }.place(&mut linger.place)
    }

    /// Sends its request with a new tid: an OSD answers one that it knows without connecting the watch.
    fn register(&mut self, now: UTime, cookie: u64, out: &mut Vec<ObjecterEffect>) {
        self.cancel_requests_of(cookie);
        // It ended since it was collected to be sent again.
        let Some(linger) = self.lingers.get_mut(&cookie) else { return };
        let ops = linger.register_ops(cookie);
        let request = Request { ops, ..linger.place.request.clone() };
        let tid = self.submit_own(now, request, OwnRequest::Register(cookie), out);
        // It may have ended already, in a pool that fails all requests.
        if let Some(linger) = self.lingers.get_mut(&cookie).filter(|_| self.pending.contains_key(&tid)) {
            linger.register = Some(tid);
        }
    }

    fn submit_own(
        &mut self,
        now: UTime,
        request: Request,
        own: OwnRequest,
        out: &mut Vec<ObjecterEffect>,
    ) -> u64 {
        let tid = self.next_tid();
        let mut pending = Pending::new(RequestId(tid), request, now, None);
        if let OwnRequest::Ping(_) = own {
            // It changes nothing, and must not wait until there is space.
            pending.flags = OsdFlags::READ;
        }
        self.bytes += pending.bytes;
        self.pending.insert(tid, pending);
        self.own_requests.insert(RequestId(tid), own);
        self.start_request(now, tid, out);
        tid
    }

    /// Forgets the requests of a linger that are under way.
    fn cancel_requests_of(&mut self, cookie: u64) {
        // One that has ended has no request under way.
        let Some(linger) = self.lingers.get_mut(&cookie) else { return };
        for tid in [linger.register.take(), linger.ping.take()].into_iter().flatten() {
            if let Some(pending) = self.pending.remove(&tid) {
                self.bytes -= pending.bytes;
                self.own_requests.remove(&pending.id);
            }
            self.cancel_map_check(tid);
        }
    }

    fn end_linger(&mut self, cookie: u64) {
        self.cancel_requests_of(cookie);
        self.lingers.remove(&cookie);
    }

    /// A linger can't go on.
    fn lose_linger(&mut self, cookie: u64, errno: Errno, out: &mut Vec<ObjecterEffect>) {
        self.cancel_requests_of(cookie);
        out.extend(self.lingers.remove(&cookie).map(|linger| match linger.kind {
            Kind::Watch { registered, .. } => {
                // The object is gone, and its watches with it.
                let ended = registered && errno == Errno::ENOENT;
                let errno = if ended { Errno::ENOTCONN } else { errno };
                ObjecterEffect::Watch(WatchId(cookie), WatchEvent::Lost(errno))
            }
            Kind::Notify { .. } => {
                let outcome = NotifyOutcome { result: errno.code(), ..NotifyOutcome::default() };
                ObjecterEffect::NotifyDone(NotifyId(cookie), outcome)
            }
        }));
    }

    /// A request of the client's own has ended.
    pub(crate) fn on_own_done(
        &mut self,
        own: OwnRequest,
        id: RequestId,
        outcome: &Outcome,
        out: &mut Vec<ObjecterEffect>,
    ) {
        let (cookie, failed) = match own {
            // The notify waits for it no longer than it says.
            OwnRequest::Ack => return,
            OwnRequest::Register(cookie) | OwnRequest::Ping(cookie) => (cookie, outcome.result() < 0),
        };
        // The watch or notify ended while its request was under way.
        let Some(linger) = self.lingers.get_mut(&cookie) else { return };
        if failed {
            return self.lose_linger(cookie, Errno(-outcome.result()), out);
        }
        if let OwnRequest::Ping(_) = own {
            linger.ping = None;
            return;
        }
        linger.register = None;
        match &mut linger.kind {
            Kind::Watch { registered, .. } => {
                *registered = true;
                out.push(ObjecterEffect::Watch(WatchId(cookie), WatchEvent::Connected));
            }
            Kind::Notify { notify, .. } => {
                *notify = Decoder::new(&outcome.data().to_piece()).get().ok();
                if notify.is_none() {
                    let text = format!("the answer to notify {} has no number", id.0);
                    out.push(ObjecterEffect::Warning(text));
                }
            }
        }
    }

    pub(crate) fn on_watch_notify(&mut self, message: WatchNotify, out: &mut Vec<ObjecterEffect>) {
        let cookie = message.cookie;
        // It has ended here.
        let Some(linger) = self.lingers.get(&cookie) else { return };
        match (&linger.kind, message.opcode) {
            (Kind::Watch { .. }, WatchNotify::NOTIFY) => {
                let WatchNotify { notify_id: notify, notifier_gid: notifier, payload, .. } = message;
                let event = WatchEvent::Notify { notify, notifier, payload };
                out.push(ObjecterEffect::Watch(WatchId(cookie), event));
            }
            (Kind::Watch { .. }, WatchNotify::DISCONNECT) => self.lose_linger(cookie, Errno::ENOTCONN, out),
            (Kind::Notify { notify, .. }, WatchNotify::NOTIFY_COMPLETE) => {
                if notify.is_some_and(|notify| notify != message.notify_id) {
                    // Of an earlier sending.
                    return;
                }
                self.end_linger(cookie);
                match outcome_of(&message) {
                    Ok(outcome) => out.push(ObjecterEffect::NotifyDone(NotifyId(cookie), outcome)),
                    Err(error) => {
                        out.push(ObjecterEffect::Warning(format!("the end of notify {cookie}: {error}")));
                        let outcome = NotifyOutcome { result: Errno::EIO.code(), ..Default::default() };
                        out.push(ObjecterEffect::NotifyDone(NotifyId(cookie), outcome));
                    }
                }
            }
            (_, opcode) => {
                let text = format!("a message of kind {opcode} came for {cookie}, which takes none such");
                out.push(ObjecterEffect::Warning(text));
            }
        }
    }

    /// Compares lingers with a new map. Those that must be sent again are added to `again`.
    pub(crate) fn compare_lingers(
        &mut self,
        skipped: bool,
        again: &mut BTreeSet<u64>,
        out: &mut Vec<ObjecterEffect>,
    ) {
        for cookie in self.lingers.keys().copied().collect::<Vec<_>>() {
            let change = self.place_linger(cookie);
            // Its request, if one is under way, learns of it by itself.
            let is_alone = self.lingers.get(&cookie).is_some_and(|linger| linger.register.is_none());
            match change {
                Change::None if !skipped => {}
                Change::None | Change::Resend => {
                    again.insert(cookie);
                }
                Change::PoolGone if is_alone => self.lose_linger(cookie, Errno::ENOENT, out),
                Change::PoolEio if is_alone => self.lose_linger(cookie, Errno::EIO, out),
                Change::PoolGone | Change::PoolEio => {}
            }
        }
    }

    /// The lingers in an OSD's session.
    pub(crate) fn lingers_of(&self, osd: OsdId) -> Vec<u64> {
        let of = self.lingers.iter().filter(|(_, linger)| linger.osd() == Some(osd));
        of.map(|(cookie, _)| *cookie).collect()
    }

    pub(crate) fn register_again(
        &mut self,
        now: UTime,
        again: impl IntoIterator<Item = u64>,
        out: &mut Vec<ObjecterEffect>,
    ) {
        again.into_iter().for_each(|cookie| self.register(now, cookie, out));
    }

    /// Shows the OSDs that the watches are alive.
    pub(crate) fn ping_watches(&mut self, now: UTime, out: &mut Vec<ObjecterEffect>) {
        let mut due = Vec::new();
        for (cookie, linger) in &self.lingers {
            let Kind::Watch { registered: true, generation, .. } = linger.kind else { continue };
            let session = linger.osd().and_then(|osd| self.sessions.get(&osd));
            let open = session.is_some_and(|session| session.link == Link::Open);
            if open && linger.register.is_none() && linger.ping.is_none() {
                let ops = vec![watch_op(*cookie, OpConst::WATCH_PING, generation, 0)];
                due.push((*cookie, Request { ops, ..linger.place.request.clone() }));
            }
        }
        for (cookie, request) in due {
            let tid = self.submit_own(now, request, OwnRequest::Ping(cookie), out);
            if let Some(linger) = self.lingers.get_mut(&cookie).filter(|_| self.pending.contains_key(&tid)) {
                linger.ping = Some(tid);
            }
        }
    }
}

fn outcome_of(message: &WatchNotify) -> Result<NotifyOutcome, DecodeError> {
    let bytes = message.data.to_piece();
    let d = &mut Decoder::new(&bytes);
    Ok(NotifyOutcome { result: message.return_code, answers: d.get()?, missed: d.get()? })
}
