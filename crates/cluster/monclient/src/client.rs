//! The session to a monitor.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use encoding::Decode;
use messages::{Message, MonGetMap, MonGetVersion, MonSubscribe, Subscription};
use types::{EntityAddrVec, Fsid, UTime};

use crate::hunt::{Hunt, HuntConfig};
use crate::subscriptions::Subscriptions;

/// A session's configuration.
#[derive(Clone, Debug)]
pub struct MonClientConfig {
    /// Where monitors are, from the configuration (`mon_host`).
    pub monitors: Vec<EntityAddrVec>,
    /// Index of the first one to try; a random number spreads daemons over monitors.
    pub first: usize,
    /// The cluster: the session to a monitor of another cluster is ended. `None` accepts the first monitor's.
    pub fsid: Option<Fsid>,
    /// This host's name, sent with subscriptions.
    pub hostname: String,
    /// When to give up on a monitor.
    pub hunt: HuntConfig,
    /// How often to send a keepalive (mon_client_ping_interval, Ceph's 10 s); zero sends none and expects none, for a
    /// transport that cannot hang.
    pub ping_interval: Duration,
    /// Silence after which the monitor is left (mon_client_ping_timeout, Ceph's 30 s).
    pub ping_timeout: Duration,
}

impl MonClientConfig {
    /// Ceph's times, without keepalives.
    pub fn new(monitors: Vec<EntityAddrVec>, fsid: Option<Fsid>) -> Self {
        Self {
            monitors,
            first: 0,
            fsid,
            hostname: String::new(),
            hunt: HuntConfig::default(),
            ping_interval: Duration::ZERO,
            ping_timeout: Duration::from_secs(30),
        }
    }
}

/// The number of a connection: its events carry it, and events of older connections are ignored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Attempt(pub u64);

/// An event of a session.
#[derive(Debug)]
pub enum MonClientEvent {
    /// The connection is open and authenticated.
    Connected(Attempt),
    /// The connection could not be made, or ended.
    Disconnected(Attempt, String),
    /// The monitor sent a message.
    Message(Attempt, Message),
    /// A keepalive was answered.
    KeepaliveAcked(Attempt),
    /// Time passed; due at [`MonClient::deadline`], harmless at any other time.
    Tick,
}

/// Effects that the shell performs.
#[derive(Debug)]
pub enum MonClientIo {
    /// Connect to a monitor and authenticate.
    Connect(Attempt, EntityAddrVec),
    /// Close the connection, or stop making it. No more events of it are needed.
    Disconnect(Attempt),
    Send(Attempt, Message),
    /// Send a keepalive (KEEPALIVE2).
    Keepalive(Attempt),
}

/// The answer to [`MonClient::get_version`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VersionRange {
    /// The newest version that the monitor has.
    pub newest: u64,
    pub oldest: u64,
}

/// The effects of an event.
#[derive(Debug)]
pub enum MonClientEffect {
    /// For the shell.
    Io(MonClientIo),
    /// A session is open, and the monitor has sent its map and the configuration: the owner sends now, or sends again, what
    /// must reach the monitor.
    Ready,
    /// The session ended; the next monitor is tried.
    Lost,
    /// A message for the owner of this session.
    Deliver(Message),
    /// The answer to [`MonClient::get_version`], by its handle.
    Version(u64, VersionRange),
    /// Something that an operator should know.
    Warning(String),
}

#[derive(Debug)]
enum State {
    Idle,
    /// Waits until the next try.
    Pausing {
        until: UTime,
        next: EntityAddrVec,
    },
    Connecting {
        attempt: Attempt,
        give_up_at: UTime,
    },
    Open {
        attempt: Attempt,
        has_map: bool,
        has_config: bool,
        ready: bool,
        pinged: UTime,
        heard: UTime,
    },
}

/// Messages kept while no session is open; older ones are dropped.
const QUEUE_MAX: usize = 64;

/// A session to any monitor.
#[derive(Debug)]
pub struct MonClient {
    config: MonClientConfig,
    hunt: Hunt,
    subscriptions: Subscriptions,
    /// Versions asked for and not yet answered, by handle.
    versions: BTreeMap<u64, String>,
    handles: u64,
    attempts: u64,
    waiting: VecDeque<Message>,
    monmap_epoch: u32,
    state: State,
}

impl MonClient {
    /// A session that is not started yet.
    pub fn new(config: MonClientConfig) -> Self {
        let hunt = Hunt::new(config.hunt.clone(), config.monitors.clone(), config.first);
        Self {
            config,
            hunt,
            subscriptions: Subscriptions::default(),
            versions: BTreeMap::new(),
            handles: 0,
            attempts: 0,
            waiting: VecDeque::new(),
            monmap_epoch: 0,
            state: State::Idle,
        }
    }

    /// Starts hunting. Subscribes to the monitors' map and the configuration, as every daemon does.
    pub fn start(&mut self, now: UTime, out: &mut Vec<MonClientEffect>) {
        if matches!(self.state, State::Idle) {
            self.subscriptions.want("config", 0, 0);
            self.subscriptions.want("monmap", 0, 0);
            self.hunt_next(now, out);
        }
    }

    /// Ends the session for good (until [`MonClient::start`]).
    pub fn stop(&mut self, out: &mut Vec<MonClientEffect>) {
        if let State::Connecting { attempt, .. } | State::Open { attempt, .. } = self.state {
            out.push(MonClientEffect::Io(MonClientIo::Disconnect(attempt)));
        }
        self.state = State::Idle;
    }

    /// Whether a session is open that has its map and configuration.
    pub fn is_ready(&self) -> bool {
        matches!(self.state, State::Open { ready: true, .. })
    }

    /// The epoch of the monitors' map, 0 before there is one.
    pub fn monmap_epoch(&self) -> u32 {
        self.monmap_epoch
    }

    /// The subscriptions, to change them; [`MonClient::renew`] sends the changes to the monitor.
    pub fn subscriptions(&mut self) -> &mut Subscriptions {
        &mut self.subscriptions
    }

    /// Sends the monitor the changes of the subscriptions.
    pub fn renew(&mut self, out: &mut Vec<MonClientEffect>) {
        let State::Open { attempt, .. } = self.state else {
            // The next session begins with all subscriptions.
            return;
        };
        let news = self.subscriptions.take_news();
        if !news.is_empty() {
            let what =
                news.into_iter().map(|(k, (start, flags))| (k, Subscription { start, flags })).collect();
            let subscribe = MonSubscribe { what, hostname: self.config.hostname.clone() };
            out.push(MonClientEffect::Io(MonClientIo::Send(attempt, Message::MonSubscribe(subscribe))));
        }
    }

    /// Sends a message, now or as soon as a session is ready. At most 64 wait; they are lost with a session.
    pub fn send(&mut self, message: Message, out: &mut Vec<MonClientEffect>) {
        match self.state {
            State::Open { attempt, ready: true, .. } => {
                out.push(MonClientEffect::Io(MonClientIo::Send(attempt, message)));
            }
            _ => {
                if self.waiting.len() >= QUEUE_MAX {
                    self.waiting.pop_front();
                }
                self.waiting.push_back(message);
            }
        }
    }

    /// Asks which versions of `what` ("osdmap") the monitor has; asked again by itself after a reconnect.
    pub fn get_version(&mut self, what: &str, out: &mut Vec<MonClientEffect>) -> u64 {
        self.handles += 1;
        self.versions.insert(self.handles, what.into());
        if let State::Open { attempt, ready: true, .. } = self.state {
            self.ask_version(attempt, self.handles, what, out);
        }
        self.handles
    }

    /// When a [`MonClientEvent::Tick`] is due, if ever.
    pub fn deadline(&self) -> Option<UTime> {
        match &self.state {
            State::Idle => None,
            State::Pausing { until, .. } => Some(*until),
            State::Connecting { give_up_at, .. } => Some(*give_up_at),
            State::Open { ready: false, heard, .. } => Some(heard.after(self.config.ping_timeout)),
            State::Open { .. } if self.config.ping_interval.is_zero() => None,
            State::Open { pinged, heard, .. } => {
                let ping = pinged.after(self.config.ping_interval);
                Some(ping.min(heard.after(self.config.ping_timeout)))
            }
        }
    }

    /// Takes an event.
    pub fn handle(&mut self, now: UTime, event: MonClientEvent, out: &mut Vec<MonClientEffect>) {
        match event {
            MonClientEvent::Connected(of) => self.on_connected(now, of, out),
            MonClientEvent::Disconnected(of, reason) => {
                if self.current() == Some(of) {
                    out.push(MonClientEffect::Warning(format!("lost the monitor: {reason}")));
                    self.lost(now, out);
                }
            }
            MonClientEvent::Message(of, message) => self.on_message(now, of, message, out),
            MonClientEvent::KeepaliveAcked(of) => {
                if let State::Open { attempt, heard, .. } = &mut self.state {
                    if *attempt == of {
                        *heard = now;
                    }
                }
            }
            MonClientEvent::Tick => self.on_tick(now, out),
        }
    }

    fn current(&self) -> Option<Attempt> {
        match self.state {
            State::Connecting { attempt, .. } | State::Open { attempt, .. } => Some(attempt),
            _ => None,
        }
    }

    fn hunt_next(&mut self, now: UTime, out: &mut Vec<MonClientEffect>) {
        self.state = match self.hunt.pick() {
            None => State::Idle,
            Some((next, wait)) if wait.is_zero() => return self.connect(now, next, out),
            Some((next, wait)) => State::Pausing { until: now.after(wait), next },
        };
    }

    fn connect(&mut self, now: UTime, to: EntityAddrVec, out: &mut Vec<MonClientEffect>) {
        self.attempts += 1;
        let attempt = Attempt(self.attempts);
        self.state = State::Connecting { attempt, give_up_at: now.after(self.hunt.attempt_timeout()) };
        out.push(MonClientEffect::Io(MonClientIo::Connect(attempt, to)));
    }

    /// The present attempt or session has ended: tries the next monitor.
    fn lost(&mut self, now: UTime, out: &mut Vec<MonClientEffect>) {
        let was_ready = self.is_ready();
        self.state = State::Idle;
        // The waiting messages belong to the session that ended; their owner sends them again when another is ready.
        self.waiting.clear();
        if was_ready {
            out.push(MonClientEffect::Lost);
        }
        self.hunt_next(now, out);
    }

    fn leave(&mut self, now: UTime, why: &str, out: &mut Vec<MonClientEffect>) {
        if let Some(attempt) = self.current() {
            out.push(MonClientEffect::Warning(format!("leaving the monitor: {why}")));
            out.push(MonClientEffect::Io(MonClientIo::Disconnect(attempt)));
            self.lost(now, out);
        }
    }

    fn on_connected(&mut self, now: UTime, of: Attempt, out: &mut Vec<MonClientEffect>) {
        if !matches!(self.state, State::Connecting { attempt, .. } if attempt == of) {
            // The event of an earlier attempt.
            return;
        }
        self.state = State::Open {
            attempt: of,
            has_map: false,
            has_config: false,
            ready: false,
            pinged: now,
            heard: now,
        };
        out.push(MonClientEffect::Io(MonClientIo::Send(of, Message::MonGetMap(MonGetMap))));
        self.subscriptions.reload();
        self.renew(out);
    }

    fn on_tick(&mut self, now: UTime, out: &mut Vec<MonClientEffect>) {
        match &mut self.state {
            State::Idle => {}
            State::Pausing { until, next } if *until <= now => {
                let next = next.clone();
                self.connect(now, next, out);
            }
            State::Pausing { .. } => {}
            State::Connecting { give_up_at, .. } if *give_up_at <= now => self.leave(now, "no answer", out),
            State::Connecting { .. } => {}
            State::Open { attempt, ready, pinged, heard, .. } => {
                let pings = !self.config.ping_interval.is_zero();
                if (pings || !*ready) && heard.after(self.config.ping_timeout) <= now {
                    return self.leave(now, "silent for too long", out);
                }
                if pings && pinged.after(self.config.ping_interval) <= now {
                    *pinged = now;
                    out.push(MonClientEffect::Io(MonClientIo::Keepalive(*attempt)));
                }
            }
        }
    }

    fn on_message(&mut self, now: UTime, of: Attempt, message: Message, out: &mut Vec<MonClientEffect>) {
        let (has_map, has_config) = match &mut self.state {
            State::Open { attempt, has_map, has_config, heard, .. } if *attempt == of => {
                *heard = now;
                (has_map, has_config)
            }
            // The message of a session that has ended.
            _ => return,
        };
        match &message {
            Message::MonMap(m) => match maps::MonMap::from_bytes(&m.map) {
                Err(error) => return self.leave(now, &format!("its map of monitors: {error}"), out),
                Ok(map) if self.config.fsid.is_some_and(|fsid| fsid != map.fsid) => {
                    return self.leave(now, &format!("it belongs to the cluster {}", map.fsid), out);
                }
                Ok(map) => {
                    *has_map = map.epoch.0 > 0;
                    self.on_monmap(&map);
                }
            },
            Message::Config(_) => *has_config = true,
            Message::MonGetVersionReply(m) => {
                if self.versions.remove(&m.handle).is_some() {
                    let version = VersionRange { newest: m.version, oldest: m.oldest_version };
                    out.push(MonClientEffect::Version(m.handle, version));
                }
                return;
            }
            Message::MonSubscribeAck(_) => return,
            _ => {}
        }
        out.push(MonClientEffect::Deliver(message));
        self.become_ready(out);
    }

    fn on_monmap(&mut self, map: &maps::MonMap) {
        self.config.fsid.get_or_insert(map.fsid);
        self.monmap_epoch = self.monmap_epoch.max(map.epoch.0);
        self.subscriptions.got("monmap", map.epoch.0.into());
        self.hunt.set_monitors(map.mons.values().map(|mon| mon.public_addrs.clone()).collect());
    }

    fn become_ready(&mut self, out: &mut Vec<MonClientEffect>) {
        let State::Open { attempt, has_map: true, has_config: true, ready, .. } = &mut self.state else {
            // The map or the configuration is still to come.
            return;
        };
        if std::mem::replace(ready, true) {
            return;
        }
        let attempt = *attempt;
        self.hunt.succeeded();
        for (handle, what) in self.versions.clone() {
            self.ask_version(attempt, handle, &what, out);
        }
        out.push(MonClientEffect::Ready);
        let waiting = self.waiting.drain(..).map(|m| MonClientEffect::Io(MonClientIo::Send(attempt, m)));
        out.extend(waiting);
    }

    fn ask_version(&self, attempt: Attempt, handle: u64, what: &str, out: &mut Vec<MonClientEffect>) {
        let ask = MonGetVersion { handle, what: what.into() };
        out.push(MonClientEffect::Io(MonClientIo::Send(attempt, Message::MonGetVersion(ask))));
    }
}
