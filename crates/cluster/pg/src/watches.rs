//! The watches of a PG's objects and the notifies on their way to them, in memory for one interval.
//!
//! An object's metadata say who watches it; here is which of those watches are connected to a session, and when the others
//! end. A watch that has ended must still leave the metadata, by a change of the object: until that is durable it is
//! ending. Invariant: a watch has a session, or an expiry, or is ending.

use core::time::Duration;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use encoding::{Encode, Encoder};
use messages::{Blob, WatchNotify};
use ops::{WatchId, WatchInfo, Watchers};
use types::{EntityAddr, EntityName, Epoch, Errno, HObject, UTime};

use crate::PgEffect;
use crate::out::Out;

/// What a notify, and each answer to it, counts besides its bytes.
const NOTIFY_COST: u64 = 256;

#[derive(Debug)]
struct Watch {
    addr: EntityAddr,
    timeout: Duration,
    session: Option<SessionId>,
    /// Its client pings, so it may expire while it is connected.
    pings: bool,
    last_ping: UTime,
    expires: Option<UTime>,
    /// It expired; its removal from the object is to be made.
    ending: bool,
}

/// A watch as others see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WatchView<'a> {
    pub oid: &'a HObject,
    pub name: EntityName,
    pub cookie: u64,
    pub timeout: Duration,
    pub addr: EntityAddr,
}

/// A message to an object's watchers, until all have answered.
#[derive(Debug)]
struct Notify {
    /// `None` when the notifier's session ended before the notify began.
    session: Option<SessionId>,
    notifier: EntityName,
    cookie: u64,
    user_version: u64,
    payload: Blob,
    ends: UTime,
    waiting: BTreeSet<WatchId>,
    /// By the watcher's global id and cookie.
    replies: BTreeMap<(u64, u64), Blob>,
}

#[derive(Debug, Default)]
struct ObjectWatches {
    watches: BTreeMap<WatchId, Watch>,
    notifies: BTreeMap<u64, Notify>,
    /// When it is looked at for what has expired; never later than the first expiry.
    timer: Option<UTime>,
}

/// Who asked for an effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Asker {
    pub name: EntityName,
    /// `None` if it has ended since.
    pub session: Option<SessionId>,
}

/// What a NOTIFY asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NewNotify {
    pub id: u64,
    pub cookie: u64,
    pub timeout: Duration,
    pub payload: Blob,
    /// The object's.
    pub user_version: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    objects: BTreeMap<HObject, ObjectWatches>,
    timers: BTreeSet<(UTime, HObject)>,
    /// How many watches each session is connected to.
    sessions: BTreeMap<SessionId, u32>,
    /// Objects that have a watch which is ending and whose removal is not begun.
    to_remove: BTreeSet<HObject>,
    /// What the notifies and the answers to them hold.
    notify_bytes: u64,
    /// Notifies so far.
    notifies: u64,
}

impl Watches {
    /// The cookies of a client's watches of an object that are connected.
    pub fn connected(&self, oid: &HObject, name: EntityName) -> Vec<u64> {
        let Some(object) = self.objects.get(oid) else { return Vec::new() };
        let of_client = object.watches.iter().filter(|(id, watch)| id.1 == name && watch.session.is_some());
        of_client.map(|(id, _)| id.0).collect()
    }

    /// The next notify's number: of its epoch, so that no later interval uses it again.
    pub fn next_notify_id(&self, epoch: Epoch) -> u64 {
        (u64::from(epoch.0) << 32) + self.notifies + 1
    }

    /// So many numbers are used.
    pub fn use_notify_ids(&mut self, count: usize) {
        self.notifies += count as u64;
    }

    /// Bytes that notifies hold.
    pub fn notify_bytes(&self) -> u64 {
        self.notify_bytes
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Every watch that is known in this interval, connected or not.
    pub fn all(&self) -> impl Iterator<Item = WatchView<'_>> {
        self.objects.iter().flat_map(|(oid, object)| {
            object.watches.iter().map(move |((cookie, name), watch)| WatchView {
                oid,
                name: *name,
                cookie: *cookie,
                timeout: watch.timeout,
                addr: watch.addr,
            })
        })
    }

    /// When [`Watches::expire`] is due.
    pub fn deadline(&self) -> Option<UTime> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// An object's metadata were read: its watches that are not known yet wait for their clients, and what was ending
    /// but was not removed ends later.
    pub fn load(&mut self, oid: &HObject, watchers: &Watchers, now: UTime) {
        if watchers.is_empty() {
            return;
        }
        let object = self.objects.entry(oid.clone()).or_default();
        let mut first = None;
        for (id, info) in watchers {
            if let Entry::Vacant(new) = object.watches.entry(*id) {
                first = earlier(first, new.insert(Watch::new(info)).expire_after(now));
            }
        }
        self.arm(oid, first);
        if !self.to_remove.contains(oid) {
            self.retry(oid, now);
        }
    }

    /// The removal of an object's watches came to nothing: it is tried again after their timeouts.
    pub fn retry(&mut self, oid: &HObject, now: UTime) {
        self.to_remove.remove(oid);
        // An object that nobody watches.
        let Some(object) = self.objects.get_mut(oid) else { return };
        let mut first = None;
        for watch in object.watches.values_mut() {
            watch.ending = false;
            if watch.expires.is_none() && (watch.session.is_none() || watch.pings) {
                first = earlier(first, watch.expire_after(now));
            }
        }
        self.arm(oid, first);
    }

    /// A client's session is connected to its watch, which gets the notifies that it has not answered.
    pub fn connect(
        &mut self,
        oid: &HObject,
        info: &WatchInfo,
        pings: bool,
        by: Asker,
        now: UTime,
        out: &mut Out<'_>,
    ) {
        let id = (info.cookie, by.name);
        let object = self.objects.entry(oid.clone()).or_default();
        let watch = object.watches.entry(id).or_insert_with(|| Watch::new(info));
        // A session that has ended since it asked takes no watch from a newer one.
        if watch.session.is_some() && (watch.session == by.session || by.session.is_none()) {
            return;
        }
        let before = std::mem::replace(&mut watch.session, by.session);
        (watch.pings, watch.last_ping, watch.ending, watch.expires) = (pings, now, false, None);
        let expires = (pings || by.session.is_none()).then(|| watch.expire_after(now)).flatten();
        for (notify_id, notify) in object.notifies.iter().filter(|(_, n)| n.waiting.contains(&id)) {
            send(by.session, notify.message(*notify_id, id.0), out);
        }
        self.leave(before, out);
        self.join(by.session, out);
        self.arm(oid, expires);
    }

    pub fn ping(&mut self, oid: &HObject, id: WatchId, now: UTime) {
        let watch = self.objects.get_mut(oid).and_then(|object| object.watches.get_mut(&id));
        // It has ended since the request ran, or has lost its session, which a ping does not bring back.
        let Some(watch) = watch.filter(|watch| watch.session.is_some()) else { return };
        watch.last_ping = now;
        watch.expire_after(now);
        let expires = watch.expires;
        self.arm(oid, expires);
    }

    /// A watch is gone from its object, durably. Notifies wait for it no more.
    pub fn remove(&mut self, oid: &HObject, id: WatchId, disconnect: bool, out: &mut Out<'_>) {
        // One that was never connected in this interval, nor loaded.
        let Some(object) = self.objects.get_mut(oid) else { return };
        let Some(watch) = object.watches.remove(&id) else { return };
        if disconnect {
            let message = WatchNotify { opcode: WatchNotify::DISCONNECT, cookie: id.0, ..Default::default() };
            send(watch.session, message, out);
        }
        let mut done = Vec::new();
        for (notify_id, notify) in &mut object.notifies {
            if notify.waiting.remove(&id) && notify.waiting.is_empty() {
                done.push(*notify_id);
            }
        }
        done.into_iter().for_each(|id| self.complete(oid, id, 0, out));
        self.leave(watch.session, out);
        self.forget_if_empty(oid);
    }

    /// Begins a notify.
    pub fn notify(&mut self, oid: &HObject, new: NewNotify, by: Asker, now: UTime, out: &mut Out<'_>) {
        let NewNotify { id, cookie, timeout, payload, user_version } = new;
        let object = self.objects.entry(oid.clone()).or_default();
        let mut notify = Notify {
            session: by.session,
            notifier: by.name,
            cookie,
            user_version,
            payload,
            ends: now.after(timeout),
            waiting: BTreeSet::new(),
            replies: BTreeMap::new(),
        };
        let mut left = Vec::new();
        for (watcher, watch) in &mut object.watches {
            if watch.pings && watch.last_ping.after(watch.timeout) < now {
                // Its client has been silent for too long to be waited for; its expiry is due.
                left.push(watch.session.take());
                continue;
            }
            notify.waiting.insert(*watcher);
            send(watch.session, notify.message(id, watcher.0), out);
        }
        let (ends, waits) = (notify.ends, !notify.waiting.is_empty());
        self.notify_bytes += notify.bytes();
        object.notifies.insert(id, notify);
        left.into_iter().for_each(|session| self.leave(session, out));
        match waits {
            true => self.arm(oid, Some(ends)),
            false => self.complete(oid, id, 0, out),
        }
    }

    /// A client answers a notify, for one of its watches or for all.
    pub fn ack(
        &mut self,
        oid: &HObject,
        id: u64,
        cookie: Option<u64>,
        reply: &Blob,
        by: Asker,
        out: &mut Out<'_>,
    ) {
        // The notify has ended.
        let Some(notify) = self.objects.get_mut(oid).and_then(|object| object.notifies.get_mut(&id)) else {
            return;
        };
        let of_client =
            |watch: &&WatchId| watch.1 == by.name && cookie.is_none_or(|cookie| watch.0 == cookie);
        let acked: Vec<WatchId> = notify.waiting.iter().filter(of_client).copied().collect();
        self.notify_bytes -= notify.bytes();
        for watch in acked {
            notify.waiting.remove(&watch);
            notify.replies.insert((global_id(watch.1), watch.0), reply.clone());
        }
        self.notify_bytes += notify.bytes();
        if notify.waiting.is_empty() {
            self.complete(oid, id, 0, out);
        }
    }

    /// Tells the notifier what the watchers answered, and which did not.
    fn complete(&mut self, oid: &HObject, id: u64, return_code: i32, out: &mut Out<'_>) {
        let notify = self.objects.get_mut(oid).and_then(|object| object.notifies.remove(&id));
        let Some(notify) = notify else {
            return debug_assert!(false, "notify {id} completes twice");
        };
        self.notify_bytes -= notify.bytes();
        let missed: Vec<(u64, u64)> = notify.waiting.iter().map(|w| (global_id(w.1), w.0)).collect();
        let mut e = Encoder::new(0);
        notify.replies.encode(&mut e);
        missed.encode(&mut e);
        let message = WatchNotify {
            opcode: WatchNotify::NOTIFY_COMPLETE,
            cookie: notify.cookie,
            ver: notify.user_version,
            notify_id: id,
            payload: Blob::default(),
            return_code,
            notifier_gid: global_id(notify.notifier),
            data: e.into_bytes().into(),
        };
        send(notify.session, message, out);
        self.forget_if_empty(oid);
    }

    /// A session has ended: its watches wait for their clients to reconnect.
    pub fn on_session_reset(&mut self, session: SessionId, now: UTime) {
        if self.sessions.remove(&session).is_none() {
            return;
        }
        let mut armed = Vec::new();
        for (oid, object) in &mut self.objects {
            for watch in object.watches.values_mut().filter(|watch| watch.session == Some(session)) {
                watch.session = None;
                if !watch.pings && !watch.ending {
                    armed.push((oid.clone(), watch.expire_after(now)));
                }
            }
        }
        armed.into_iter().for_each(|(oid, at)| self.arm(&oid, at));
    }

    /// Watches of clients that are shut out end now.
    pub fn fence(&mut self, is_fenced: impl Fn(&EntityAddr) -> bool, now: UTime) {
        let mut armed = Vec::new();
        for (oid, object) in &mut self.objects {
            for watch in object.watches.values_mut().filter(|watch| !watch.ending && is_fenced(&watch.addr)) {
                watch.expires = Some(now);
                armed.push(oid.clone());
            }
        }
        armed.into_iter().for_each(|oid| self.arm(&oid, Some(now)));
    }

    /// Ends the notifies that have waited for too long, and finds the watches that have expired, of at most
    /// `objects_max` objects. Answers the objects whose watches are to be removed: see [`Watches::take_ending`].
    pub fn expire(&mut self, now: UTime, objects_max: usize, out: &mut Out<'_>) -> Vec<HObject> {
        let mut ended = Vec::new();
        for _ in 0..objects_max {
            if self.timers.first().is_none_or(|(at, _)| *at > now) {
                break;
            }
            let Some((_, oid)) = self.timers.pop_first() else { break };
            let Some(object) = self.objects.get_mut(&oid) else { continue };
            object.timer = None;
            let late: Vec<u64> =
                object.notifies.iter().filter(|(_, n)| n.ends <= now).map(|(id, _)| *id).collect();
            let mut ends = false;
            for watch in object.watches.values_mut() {
                if watch.expires.is_some_and(|at| at <= now) {
                    (watch.expires, watch.ending, ends) = (None, true, true);
                }
            }
            if ends {
                self.to_remove.insert(oid.clone());
                ended.push(oid.clone());
            }
            late.into_iter().for_each(|id| self.complete(&oid, id, Errno::ETIMEDOUT.code(), out));
            // None left: the last notify of an object that nobody watches.
            let next = self.objects.get(&oid).and_then(ObjectWatches::next_expiry);
            self.arm(&oid, next);
        }
        ended
    }

    /// Whether an object has watches whose removal is to be made.
    #[inline]
    pub fn is_ending(&self, oid: &HObject) -> bool {
        !self.to_remove.is_empty() && self.to_remove.contains(oid)
    }

    /// Whether any object has.
    #[inline]
    pub fn any_ending(&self) -> bool {
        !self.to_remove.is_empty()
    }

    /// Takes the watches of an object whose removal is to be made.
    pub fn take_ending(&mut self, oid: &HObject) -> Vec<WatchId> {
        self.to_remove.remove(oid);
        let Some(object) = self.objects.get(oid) else { return Vec::new() };
        object.watches.iter().filter(|(_, watch)| watch.ending).map(|(id, _)| *id).collect()
    }

    /// The interval has ended. Clients connect their watches again in the next, and notify again.
    pub fn discard(&mut self, out: &mut Out<'_>) {
        for session in std::mem::take(self).sessions.into_keys() {
            out.push(PgEffect::Watching { session, watching: false });
        }
    }

    fn join(&mut self, session: Option<SessionId>, out: &mut Out<'_>) {
        // A watch that waits for its client to come back.
        let Some(session) = session else { return };
        let watches = self.sessions.entry(session).or_default();
        *watches += 1;
        if *watches == 1 {
            out.push(PgEffect::Watching { session, watching: true });
        }
    }

    fn leave(&mut self, session: Option<SessionId>, out: &mut Out<'_>) {
        // A watch that lost its session before.
        let Some(session) = session else { return };
        // A session that has ended was forgotten with its watches.
        let Some(watches) = self.sessions.get_mut(&session) else { return };
        *watches -= 1;
        if *watches == 0 {
            self.sessions.remove(&session);
            out.push(PgEffect::Watching { session, watching: false });
        }
    }

    /// The object is looked at by then, if not before.
    fn arm(&mut self, oid: &HObject, at: Option<UTime>) {
        // What is connected or new has no end by time.
        let (Some(at), Some(object)) = (at, self.objects.get_mut(oid)) else { return };
        if object.timer.is_some_and(|timer| timer <= at) {
            return;
        }
        if let Some(timer) = object.timer.replace(at) {
            self.timers.remove(&(timer, oid.clone()));
        }
        self.timers.insert((at, oid.clone()));
    }

    fn forget_if_empty(&mut self, oid: &HObject) {
        // It was forgotten with the last of the notifies that completed just now.
        let Some(object) = self.objects.get(oid) else { return };
        if object.watches.is_empty() && object.notifies.is_empty() {
            if let Some(timer) = object.timer {
                self.timers.remove(&(timer, oid.clone()));
            }
            self.objects.remove(oid);
            self.to_remove.remove(oid);
        }
    }

    /// The first of the invariants that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        let holds = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
        let watches = || self.objects.values().flat_map(|object| object.watches.values());
        let mut sessions = BTreeMap::new();
        watches().filter_map(|w| w.session).for_each(|s| *sessions.entry(s).or_insert(0u32) += 1);
        holds(sessions == self.sessions, "the sessions' watches are miscounted")?;
        let can_end = |w: &Watch| w.expires.is_some() || w.ending || w.session.is_some() && !w.pings;
        holds(watches().all(can_end), "a watch would never end")?;
        let timed = |(oid, object): (&HObject, &ObjectWatches)| match (object.timer, object.next_expiry()) {
            (Some(timer), next) => {
                next.is_none_or(|next| timer <= next) && self.timers.contains(&(timer, oid.clone()))
            }
            (None, next) => next.is_none(),
        };
        holds(self.objects.iter().all(timed), "an expiry has no timer")?;
        let timers = self.objects.values().filter(|object| object.timer.is_some()).count();
        holds(timers == self.timers.len(), "a timer is of no object")?;
        let notifies = || self.objects.values().flat_map(|object| object.notifies.values());
        let bytes: u64 = notifies().map(Notify::bytes).sum();
        holds(bytes == self.notify_bytes, "the notifies' bytes are miscounted")?;
        holds(notifies().all(|n| !n.waiting.is_empty()), "a notify waits for no watch")
    }
}

impl Watch {
    /// Not connected, and without an expiry yet.
    fn new(info: &WatchInfo) -> Self {
        Self {
            addr: info.addr,
            timeout: Duration::from_secs(info.timeout_seconds.into()),
            session: None,
            pings: false,
            last_ping: UTime::default(),
            expires: None,
            ending: false,
        }
    }

    fn expire_after(&mut self, now: UTime) -> Option<UTime> {
        self.expires = Some(now.after(self.timeout));
        self.expires
    }
}

impl Notify {
    fn message(&self, id: u64, cookie: u64) -> WatchNotify {
        WatchNotify {
            opcode: WatchNotify::NOTIFY,
            cookie,
            ver: self.user_version,
            notify_id: id,
            payload: self.payload.clone(),
            notifier_gid: global_id(self.notifier),
            ..Default::default()
        }
    }

    fn bytes(&self) -> u64 {
        let replies = self.replies.values().map(|reply| NOTIFY_COST + reply.len() as u64);
        NOTIFY_COST + self.payload.len() as u64 + replies.sum::<u64>()
    }
}

impl ObjectWatches {
    fn next_expiry(&self) -> Option<UTime> {
        let watches = self.watches.values().filter_map(|watch| watch.expires);
        watches.chain(self.notifies.values().map(|notify| notify.ends)).min()
    }
}

/// An instance's number, as the messages of a notify have it.
fn global_id(name: EntityName) -> u64 {
    name.num as u64
}

fn earlier(a: Option<UTime>, b: Option<UTime>) -> Option<UTime> {
    [a, b].into_iter().flatten().min()
}

fn send(session: Option<SessionId>, message: WatchNotify, out: &mut Out<'_>) {
    if let Some(session) = session {
        out.push(PgEffect::Send { session, message: Box::new(message) });
    }
}
