//! The monitor's core: its state, and the pipeline that makes changes durable before they are shown.
//!
//! One proposal is under way at most. Requests that change something wait while one is, and run together when it is
//! durable; what they change goes into the next. A request that only reads never sees anything uncommitted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use auth::SessionId;
use buffer::Piece;
use encoding::Decode;
use maps::{Incremental, MgrMap, MonMap, OsdMap, Publication};
use messages::Message;
use options::{Values, opt};
use types::{BrokenInvariant, Epoch, Errno, PgId, UTime, broken};

use crate::elsewhere::moves_pgs;
use crate::event::{MonConfig, MonEffect, MonEvent, MonOpenError};
use crate::forced_pgs::ForcedPgs;
use crate::service::config_store::ConfigStore;
use crate::service::global_ids::GlobalIds;
use crate::service::kept_maps;
use crate::service::log::{CLUSTER, ClusterLog, LogLevel, LogLine};
use crate::service::osdmap::{self, ProposeError};
use crate::service::pg_homes::PgHomes;
use crate::service::services::ServiceMap;
use crate::session::{Service, Session};
use crate::state::{Batch, Key, State, StateKey};
use crate::stats::PgMap;

/// Requests of one session that may wait for a commit.
pub const WAITING_PER_SESSION_MAX: usize = 256;
/// Connections that may wait for a global id.
pub const WAITING_IDS_MAX: usize = 4096;

/// What a proposal changes; a request that needs the same thing again waits for the next proposal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claim {
    /// The map's flags and ratios.
    Flags,
    /// The CRUSH map.
    Crush,
    /// Upmaps and temporary acting sets of PGs.
    Placement,
    /// The set of pools and their names.
    Pools,
    Blocklist,
    /// One OSD's entry.
    Osd(i32),
    /// One pool's entry.
    Pool(i64),
}

/// Changes that are gathered for the next proposal.
#[derive(Default)]
pub(crate) struct Pending {
    pub batch: Batch,
    /// What goes with the change of the OSD map, or not at all.
    pub with_map: Batch,
    pub osdmap: Option<Incremental>,
    pub claimed: BTreeSet<Claim>,
    /// Answers to give once it is durable.
    pub deferred: Vec<DeferredReply>,
    /// Who is to be sent the maps from which epoch on once it is durable.
    pub maps_to: Vec<(SessionId, u64)>,
    /// Grows with every change, so that a request can be seen to have made one.
    pub changes: u64,
    /// Grows with every change of the OSD map.
    pub map_changes: u64,
}

/// An answer that waits for a commit.
pub(crate) struct DeferredReply {
    session: SessionId,
    message: Message,
    /// Whether it speaks of a change of the OSD map.
    of_map: bool,
    /// The audit's line of the change.
    audit: Option<LogLine>,
}

impl DeferredReply {
    /// The answer if the OSD map's change fails; acknowledgements are then left out.
    fn into_failure(self, error: &ProposeError) -> Option<MonEffect> {
        if !self.of_map {
            return Some(self.effect());
        }
        let (result, words) = (
            Errno::EIO.code(),
            format!("the OSD map can't be changed so, and nothing of it was changed: {error}"),
        );
        let message = match self.message {
            Message::MonCommandAck(ack) => {
                messages::MonCommandAck { result, status: words, data: Default::default(), ..ack }.into()
            }
            Message::CommandReply(reply) => {
                messages::CommandReply { result, status: words, data: Default::default(), ..reply }.into()
            }
            Message::MgrCommandReply(reply) => {
                messages::MgrCommandReply { result, status: words, data: Default::default(), ..reply }.into()
            }
            Message::PoolOpReply(reply) => messages::PoolOpReply { result, ..reply }.into(),
            _ => return None,
        };
        Some(MonEffect::Send { session: self.session, message })
    }

    fn effect(self) -> MonEffect {
        MonEffect::Send { session: self.session, message: self.message }
    }
}

pub(crate) struct Proposal {
    pub token: u64,
    pub batch: Batch,
    pub osdmap: Option<Publication>,
    effects: Vec<MonEffect>,
    maps_to: Vec<(SessionId, u64)>,
}

/// A request that waits for the proposal under way.
pub(crate) struct WaitingRequest {
    pub session: SessionId,
    pub message: Message,
}

/// The monitor. See the crate's documentation.
pub struct Mon {
    pub(crate) config: MonConfig,
    pub(crate) state: State,
    pub(crate) monmap: MonMap,
    pub(crate) mgrmap: MgrMap,
    pub(crate) osdmap: OsdMap,
    /// The same encoded: every client begins with it.
    pub(crate) osdmap_full: Piece,
    pub(crate) settings: ConfigStore,
    /// Options that `ceph tell mon.ID` has set until the next start.
    pub(crate) overrides: BTreeMap<String, String>,
    /// The options in force: see [`Mon::merge_options`].
    pub(crate) options: Values,
    pub(crate) log: ClusterLog,
    pub(crate) log_seq: u64,
    pub(crate) pgmap: PgMap,
    pub(crate) sessions: BTreeMap<SessionId, Session>,
    /// How many were opened at the monitor's address in this start.
    pub(crate) sessions_opened: u64,
    pub(crate) pending: Pending,
    pub(crate) in_flight: Option<Proposal>,
    pub(crate) token: u64,
    pub(crate) waiting: VecDeque<WaitingRequest>,
    ids: GlobalIds,
    pub(crate) ids_wanted: VecDeque<(SessionId, u64)>,
    pub(crate) started: UTime,
    pub(crate) disk: Option<(u64, u64)>,
    /// When each OSD last reported, and since when it is down and not yet out.
    pub(crate) beacons: BTreeMap<i32, UTime>,
    pub(crate) down_since: BTreeMap<i32, UTime>,
    /// When each health check was last logged.
    pub(crate) health_logged: BTreeMap<String, UTime>,
    /// Reports of failures: (target, reporter) and when.
    pub(crate) failures: BTreeMap<(i32, i32), UTime>,
    /// OSDs that failed, with the reasons, until they boot again.
    pub(crate) failed_osds: BTreeMap<i32, String>,
    pub(crate) forced_pgs: ForcedPgs,
    /// PGs that failed, with the reasons, until they are reported as something else.
    pub(crate) stopped_pgs: BTreeMap<PgId, String>,
    /// The homes of PGs that the map has taken from them, as they are to be kept.
    pub(crate) away: PgHomes,
    /// Whether they differ from what was put into a batch last.
    pub(crate) away_changed: bool,
    /// PGs of removed pools that OSDs can't remove, with the sessions that said so and the reasons, until the OSDs boot again.
    pub(crate) remaining_pgs: BTreeMap<(i32, PgId), (SessionId, String)>,
    /// The service daemons that registered.
    pub(crate) services: ServiceMap,
    /// The epoch of the map of services that subscribers have.
    pub(crate) services_pushed: u64,
    /// Whether the log has said that a daemon was left out, since the last that was noted.
    pub(crate) services_full: bool,
    pub(crate) sampled: UTime,
    pub(crate) unhandled: BTreeSet<u16>,
    pub(crate) trim_wanted: bool,
    /// Messages that commands want sent: they go out with the event.
    pub(crate) orders: Vec<(SessionId, Message)>,
    /// A change of the OSD map was dropped and nothing else was there to commit: requests wait for the next tick.
    pub(crate) change_dropped: bool,
    /// The change of the OSD map that was refused last, by the epoch before it: the log says once of those in a row that are
    /// refused alike.
    refused: Option<(Epoch, ProposeError)>,
    broken: Option<BrokenInvariant>,
}

impl Mon {
    /// The state of a new cluster: to be made durable before [`Mon::open`] reads it.
    pub fn create(config: &MonConfig, now: UTime) -> Result<Batch, MonOpenError> {
        crate::create::create(config, now)
    }

    /// The state of a cluster whose monitor's was lost, from the newest map that its OSDs have.
    pub fn rebuild(config: &MonConfig, found: &OsdMap, now: UTime) -> Result<Batch, MonOpenError> {
        crate::create::rebuild(config, found, now)
    }

    /// Starts with the durable state.
    pub fn open(config: MonConfig, state: State, now: UTime) -> Result<Self, MonOpenError> {
        let (osdmap, full) = kept_maps::open(&state)?;
        if osdmap.fsid != config.fsid {
            return Err(MonOpenError::OtherCluster { found: osdmap.fsid, wanted: config.fsid });
        }
        let log = ClusterLog::open(&state)
            .map_err(|source| MonOpenError::Bad { what: "the cluster log".into(), source })?;
        let monmap = crate::create::monmap(&config, &state)?;
        let services = ServiceMap::open(&state, now);
        let mut mon = Self {
            services_pushed: services.epoch(),
            services,
            settings: ConfigStore::open(&state),
            overrides: BTreeMap::new(),
            options: Values::new(),
            ids: GlobalIds::open(&state),
            forced_pgs: ForcedPgs::open(&state),
            mgrmap: crate::create::mgrmap(&config, now),
            config,
            state,
            monmap,
            osdmap,
            osdmap_full: full.into(),
            log,
            log_seq: 0,
            pgmap: PgMap::default(),
            sessions: BTreeMap::new(),
            sessions_opened: 0,
            pending: Pending::default(),
            in_flight: None,
            token: 0,
            waiting: VecDeque::new(),
            ids_wanted: VecDeque::new(),
            started: now,
            disk: None,
            beacons: BTreeMap::new(),
            down_since: BTreeMap::new(),
            health_logged: BTreeMap::new(),
            failures: BTreeMap::new(),
            failed_osds: BTreeMap::new(),
            stopped_pgs: BTreeMap::new(),
            away: PgHomes::new(),
            away_changed: false,
            remaining_pgs: BTreeMap::new(),
            services_full: false,
            sampled: UTime::default(),
            unhandled: BTreeSet::new(),
            trim_wanted: false,
            orders: Vec::new(),
            change_dropped: false,
            refused: None,
            broken: None,
        };
        mon.merge_options();
        mon.osdmap_changed(now);
        mon.open_homes(now);
        Ok(mon)
    }

    /// Takes an event and adds its effects to `out`.
    pub fn handle(&mut self, now: UTime, event: MonEvent, out: &mut Vec<MonEffect>) {
        if self.broken.is_some() {
            return;
        }
        let before = out.len();
        self.take_event(now, event, out);
        let orders = std::mem::take(&mut self.orders);
        out.extend(orders.into_iter().map(|(session, message)| MonEffect::Send { session, message }));
        self.propose(now, out);
        self.push_services(now, out);
        if cfg!(debug_assertions) {
            self.check().unwrap_or_else(|broken| self.fail(broken));
        }
        if let Some(broken) = &self.broken {
            // The effects of this event may rest on the broken state.
            out.truncate(before);
            out.push(MonEffect::Failed(broken.clone()));
        }
    }

    /// Notes that an invariant is broken: the event under way ends the monitor.
    pub(crate) fn fail(&mut self, broken: BrokenInvariant) {
        self.broken.get_or_insert(broken);
    }

    fn take_event(&mut self, now: UTime, event: MonEvent, out: &mut Vec<MonEffect>) {
        match event {
            MonEvent::SessionOpened(info) => {
                self.sessions_opened += 1;
                self.sessions.insert(info.id, Session::new(info, Service::Monitor));
            }
            MonEvent::ManagerSessionOpened(info) => {
                self.sessions.insert(info.id, Session::new(info, Service::Manager));
            }
            MonEvent::SessionClosed(id) => self.close(id),
            MonEvent::Message { session, message } => {
                self.step(|mon| mon.receive(now, session, message, out));
            }
            MonEvent::GlobalIdWanted { session, asked } => self.want_id(session, asked, out),
            MonEvent::Committed { token } => self.committed(now, token, out),
            MonEvent::DiskSpace { total, available } => self.disk = Some((total, available)),
            MonEvent::OsdFailed { osd, reason } => self.step(|mon| mon.osd_failed(now, osd, reason)),
            MonEvent::Tick => {
                self.tick(now);
                if !self.is_proposing() {
                    self.run_waiting(now, out);
                }
            }
        }
    }

    /// The OSD map as committed.
    pub fn osdmap(&self) -> &OsdMap {
        &self.osdmap
    }

    /// The state as committed.
    pub fn state(&self) -> &State {
        &self.state
    }

    fn close(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        self.waiting.retain(|w| w.session != id);
        self.ids_wanted.retain(|(session, _)| *session != id);
    }

    fn want_id(&mut self, session: SessionId, asked: u64, out: &mut Vec<MonEffect>) {
        match self.ids.assign(asked) {
            Some(id) => out.push(MonEffect::GlobalId { session, id }),
            None if self.ids_wanted.len() < WAITING_IDS_MAX => self.ids_wanted.push_back((session, asked)),
            None => out.push(MonEffect::Close { session, reason: "too many wait for a global id".into() }),
        }
    }

    /// Whether a proposal is under way, so that what changes something has to wait.
    pub(crate) fn is_proposing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// Lets a request wait until the proposal under way (or the one being gathered) is durable.
    pub(crate) fn wait(&mut self, session: SessionId, message: Message, out: &mut Vec<MonEffect>) {
        let Some(known) = self.sessions.get_mut(&session) else {
            return self.fail(broken!("a request of {session}, which has ended, is to wait"));
        };
        if known.waiting >= WAITING_PER_SESSION_MAX {
            out.push(MonEffect::Close { session, reason: "too many requests at once".into() });
            return;
        }
        known.waiting += 1;
        self.waiting.push_back(WaitingRequest { session, message });
    }

    /// The increment that gathers the OSD map's changes.
    pub(crate) fn osdmap_change(&mut self, now: UTime) -> &mut Incremental {
        self.pending.changes += 1;
        self.pending.map_changes += 1;
        let (epoch, fsid) = (Epoch(self.osdmap.epoch.0 + 1), self.config.fsid);
        self.pending.osdmap.get_or_insert_with(|| osdmap::increment(epoch, fsid, now))
    }

    /// The batch that gathers all other changes.
    pub(crate) fn batch(&mut self) -> &mut Batch {
        self.pending.changes += 1;
        &mut self.pending.batch
    }

    /// Runs a step of an event. What it puts into the state beside a change of the OSD map goes with that change.
    pub(crate) fn step<R>(&mut self, run: impl FnOnce(&mut Self) -> R) -> R {
        let before = self.pending.map_changes;
        let others = std::mem::take(&mut self.pending.batch);
        let result = run(self);
        let made = std::mem::replace(&mut self.pending.batch, others);
        let changed = self.pending.map_changes != before;
        let to = if changed { &mut self.pending.with_map } else { &mut self.pending.batch };
        to.0.extend(made.0);
        result
    }

    /// Gives an answer when what was gathered is durable; `before` is the count of the map's changes before those that
    /// it speaks of. The audit's line becomes durable with it.
    pub(crate) fn defer_reply(
        &mut self,
        before: u64,
        session: SessionId,
        message: impl Into<Message>,
        audit: Option<LogLine>,
    ) {
        let of_map = self.pending.map_changes != before;
        self.pending.deferred.push(DeferredReply { session, message: message.into(), of_map, audit });
    }

    /// Takes a part of the map for a change; false when this proposal has changed it already.
    pub(crate) fn claim(&mut self, what: Claim) -> bool {
        self.pending.claimed.insert(what)
    }

    /// Proposes the gathered changes, unless a proposal is under way.
    fn propose(&mut self, now: UTime, out: &mut Vec<MonEffect>) {
        if self.in_flight.is_some() {
            return;
        }
        self.ids.reserve(&mut self.pending.batch);
        self.services.reserve(&mut self.pending.batch);
        let mut kept = Batch::default();
        crate::create::keep_monmap(self, &mut kept);
        self.pending.batch.0.extend(kept.0);
        let Pending { mut batch, with_map, osdmap: increment, deferred, maps_to, .. } =
            std::mem::take(&mut self.pending);
        // Most maps move no PG: then none is placed once more.
        let moves_pgs = increment.as_ref().is_some_and(moves_pgs);
        let next =
            increment.map(|increment| osdmap::propose(&self.osdmap, increment, &mut batch)).transpose();
        let (osdmap, effects) = match next {
            Ok(osdmap) => {
                self.put_homes(osdmap.as_ref().filter(|_| moves_pgs).map(|next| &next.map), &mut batch);
                batch.0.extend(with_map.0);
                for line in deferred.iter().filter_map(|reply| reply.audit.clone()) {
                    self.log.add(line, &mut batch);
                }
                if let Some(map) = &osdmap {
                    let line = self.own_line(now, LogLevel::Debug, CLUSTER, osdmap::line(&map.map));
                    self.log.add(line, &mut batch);
                }
                (osdmap, deferred.into_iter().map(DeferredReply::effect).collect::<Vec<_>>())
            }
            Err(error) => {
                // Our own mistake: nothing of the map is shown or kept; whatever else was gathered is.
                self.put_homes(None, &mut batch);
                for line in deferred.iter().filter(|reply| !reply.of_map).filter_map(|r| r.audit.clone()) {
                    self.log.add(line, &mut batch);
                }
                let effects = deferred.into_iter().filter_map(|reply| reply.into_failure(&error)).collect();
                self.note_refused(error, out);
                (None, effects)
            }
        };
        if self.trim_wanted {
            let keep = self.options.get(opt::MON_MIN_OSDMAP_EPOCHS);
            kept_maps::trim(&self.state, keep, &mut batch);
            self.trim_wanted = false;
        }
        if batch.is_empty() {
            // A commit that would wake them does not come.
            self.change_dropped = !self.waiting.is_empty();
            maps_to.into_iter().for_each(|(session, from)| self.send_osdmaps(session, from, out));
            out.extend(effects);
            return;
        }
        self.token += 1;
        out.push(MonEffect::Commit { token: self.token, batch: batch.clone() });
        self.in_flight = Some(Proposal { token: self.token, batch, osdmap, effects, maps_to });
    }

    /// Says in the log why a change of the map was refused. What a tick asks for, it asks for again at the next.
    fn note_refused(&mut self, error: ProposeError, out: &mut Vec<MonEffect>) {
        let refused = Some((self.osdmap.epoch, error));
        if self.refused != refused
            && let Some((epoch, error)) = &refused
        {
            out.push(MonEffect::LogError(format!(
                "a change of OSD map {epoch} was refused, and nothing of it is kept: {error}"
            )));
        }
        self.refused = refused;
    }

    fn committed(&mut self, now: UTime, token: u64, out: &mut Vec<MonEffect>) {
        let Some(flight) = self.in_flight.take_if(|flight| flight.token == token) else {
            return self
                .fail(broken!("commit {token} was not asked for; the last proposal is {}", self.token));
        };
        flight.batch.apply_to(&mut self.state);
        self.ids.committed(&self.state);
        self.services.committed(&self.state);
        match self.log.committed(&self.state) {
            // The process's own log has them too: it is where people look first.
            Ok(from) => {
                let lines = self.log.since(from, LogLevel::Info);
                out.extend(lines.map(|line| MonEffect::Log(line.short())));
            }
            Err(error) => {
                out.push(MonEffect::Log(format!("a line of the cluster log does not decode: {error}")));
            }
        }
        if flight.batch.0.keys().any(|key| key.service == crate::service::log::SERVICE) {
            for what in crate::subscriptions::LOG_SUBSCRIPTIONS {
                self.push_all(now, what, out);
            }
        }
        if flight.batch.0.keys().any(|key| key.service == "config") {
            self.settings = ConfigStore::open(&self.state);
            self.merge_options();
            self.push_all(now, "config", out);
        }
        if flight.batch.0.keys().any(Self::concerns_forced_pgs) {
            self.forced_pgs_committed(now);
        }
        if let Some(next) = flight.osdmap {
            self.osdmap = next.map;
            self.osdmap_full = next.full.into();
            self.osdmap_changed(now);
            self.push_all(now, "osdmap", out);
            self.push_all(now, "osd_pg_creates", out);
        }
        for (session, from) in flight.maps_to {
            // A subscriber has them already.
            if self.sessions.get(&session).is_some_and(|s| !s.subscriptions.contains_key("osdmap")) {
                self.send_osdmaps(session, from, out);
            }
        }
        out.extend(flight.effects);
        for (session, asked) in std::mem::take(&mut self.ids_wanted) {
            self.want_id(session, asked, out);
        }
        self.run_waiting(now, out);
    }

    /// Takes the requests that waited for a proposal; they may wait again.
    fn run_waiting(&mut self, now: UTime, out: &mut Vec<MonEffect>) {
        self.change_dropped = false;
        for WaitingRequest { session, message } in std::mem::take(&mut self.waiting) {
            let left = self.sessions.get(&session).and_then(|known| known.waiting.checked_sub(1));
            match (self.sessions.get_mut(&session), left) {
                (Some(known), Some(left)) => known.waiting = left,
                _ => return self.fail(broken!("{session} has a request waiting that was not counted")),
            }
            self.step(|mon| mon.receive(now, session, message, out));
        }
    }

    /// Recomputes the state derived from the OSD map.
    fn osdmap_changed(&mut self, now: UTime) {
        let wanted = self.wanted_pgs();
        self.pgmap.set_pgs(now, &wanted);
        self.stopped_pgs.retain(|pg, _| wanted.contains_key(pg));
        let known = self.away.len();
        self.away.retain(|pg, _| wanted.contains_key(pg));
        self.away_changed |= self.away.len() != known;
        let map = &self.osdmap;
        self.pgmap.set_osds(now, |osd| osdmap::exists(map, osd), |osd| osdmap::is_up(map, osd));
        self.place_pgs(now);
        let map = &self.osdmap;
        self.down_since.retain(|osd, _| osdmap::is_down_in(map, *osd));
        for osd in osdmap::osds(map).filter(|osd| osdmap::is_down_in(map, *osd)) {
            self.down_since.entry(osd).or_insert(now);
        }
        self.failures.retain(|(target, by), _| osdmap::is_up(map, *target) && osdmap::is_up(map, *by));
        self.beacons.retain(|osd, _| osdmap::is_up(map, *osd));
        for osd in osdmap::osds(map).filter(|osd| osdmap::is_up(map, *osd)) {
            self.beacons.entry(osd).or_insert(now);
        }
        let (first, last) = (kept_maps::first_committed(&self.state), u64::from(self.osdmap.epoch.0));
        self.trim_wanted =
            last.saturating_sub(first) > self.options.get(opt::MON_MIN_OSDMAP_EPOCHS) + kept_maps::TRIM_SLACK;
    }

    /// The text of an option's value for this monitor, by its normalized name; empty where nothing was set and Loligo
    /// gives it no default.
    pub(crate) fn option_text(&self, name: &str) -> &str {
        self.options.text(name).unwrap_or_default()
    }

    /// Puts the options in force: those stored for this monitor and for the manager that it acts as. Those that this process
    /// was started with override both.
    pub(crate) fn merge_options(&mut self) {
        let mut merged = Values::new();
        let stored = self.settings.of_monitor_and_manager(&self.config.name);
        for (name, value) in
            stored.into_iter().filter(|(name, value)| options::check_settable(name, value).is_ok())
        {
            // What was stored by force or by an older program may not fit: then the default counts.
            let _ = merged.set(name, value);
        }
        let (given, overrides) = (self.config.options.clone(), self.overrides.clone());
        for (name, value) in given.changed().chain(overrides.iter().map(|(n, v)| (n.as_str(), v.as_str()))) {
            if let Err(error) = merged.set(name, value) {
                self.fail(broken!("an option of this process was not checked when it was given: {error}"));
            }
        }
        self.options = merged;
    }

    /// A value of the state that must decode.
    pub(crate) fn stored<T: Decode>(state: &State, key: &StateKey) -> Result<Option<T>, MonOpenError> {
        let Some(bytes) = state.get(key) else { return Ok(None) };
        T::from_bytes(bytes).map(Some).map_err(|source| MonOpenError::Bad { what: key.to_string(), source })
    }

    /// The names that a service stores.
    pub(crate) fn stored_names<'a>(&'a self, service: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.state.iter().filter(move |(k, _)| k.service == service).filter_map(|(k, v)| match &k.key {
            Key::Name(name) => Some((name.as_str(), v.as_slice())),
            Key::Version(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use auth::{Caps, SessionInfo};
    use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Fsid, OsdId, Profile};

    use super::*;

    const NOW: UTime = UTime { sec: 1_800_000_000, nsec: 0 };
    const SESSION: SessionId = SessionId(1);

    /// A monitor whose first block of ids is durable, with a client.
    fn mon() -> Mon {
        let config = MonConfig {
            fsid: Fsid([7; 16]),
            name: "a".into(),
            addr: EntityAddr::v2(([127, 0, 0, 1], 3300).into(), 0),
            manager: None,
            hostname: "vm".into(),
            profile: Profile::PACIFIC,
            version: "test".into(),
            options: Values::new(),
            key_seed: [0; 32],
            machine: BTreeMap::new(),
            osds: Vec::new(),
        };
        let mut state = State::new();
        Mon::create(&config, NOW).unwrap().apply_to(&mut state);
        let mut mon = Mon::open(config, state, NOW).unwrap();
        handle(
            &mut mon,
            MonEvent::SessionOpened(SessionInfo {
                id: SESSION,
                entity: "client.admin".parse().unwrap(),
                name: EntityName::new(EntityType::Client, 1),
                global_id: 1,
                caps: Caps::all(),
                features: Profile::PACIFIC.features_supported,
                peer_addrs: EntityAddrVec::default(),
                local_nonce: 0,
            }),
        );
        while mon.in_flight.is_some() {
            commit(&mut mon);
        }
        mon
    }

    fn handle(mon: &mut Mon, event: MonEvent) -> Vec<MonEffect> {
        let mut out = Vec::new();
        mon.handle(NOW, event, &mut out);
        out
    }

    fn commit(mon: &mut Mon) -> Vec<MonEffect> {
        let token = mon.token;
        handle(mon, MonEvent::Committed { token })
    }

    fn command(mon: &mut Mon, tid: u64, json: &str) -> Vec<MonEffect> {
        let message = messages::MonCommand {
            tid,
            paxos: Default::default(),
            fsid: mon.config.fsid,
            cmd: vec![json.into()],
            data: Default::default(),
        };
        handle(mon, MonEvent::Message { session: SESSION, message: message.into() })
    }

    #[test]
    fn a_map_change_that_does_not_apply_is_answered_and_everything_else_is_kept() {
        let mut mon = mon();
        let epoch = mon.osdmap.epoch;
        // While one proposal is under way, the next gathers a stored option, a change of the map, and new ids.
        command(&mut mon, 1, r#"{"prefix":"config-key set","key":"first","val":"1"}"#);
        command(&mut mon, 2, r#"{"prefix":"config-key set","key":"second","val":"2"}"#);
        command(&mut mon, 3, r#"{"prefix":"osd set","key":"noout"}"#);
        while mon.ids.assign(0).is_some() {}
        handle(&mut mon, MonEvent::GlobalIdWanted { session: SessionId(9), asked: 0 });
        // No OSD has this number.
        mon.osdmap_change(NOW).new_weight.insert(OsdId(99), 0);
        let mut seen = commit(&mut mon);
        while mon.in_flight.is_some() {
            seen.extend(commit(&mut mon));
        }
        let results: BTreeMap<u64, (i32, String)> = seen
            .iter()
            .filter_map(|effect| match effect {
                MonEffect::Send { message: Message::MonCommandAck(ack), .. } => {
                    Some((ack.tid, (ack.result, ack.status.clone())))
                }
                _ => None,
            })
            .collect();
        assert_eq!((results[&1].0, results[&2].0), (0, 0), "{results:?}");
        assert_eq!(results[&3].0, Errno::EIO.code());
        assert!(results[&3].1.contains("osd.99"), "{results:?}");
        assert_eq!(mon.osdmap.epoch, epoch);
        assert!(mon.state.contains_key(&StateKey::name("config-key", "second")));
        assert!(seen.iter().any(|e| matches!(e, MonEffect::GlobalId { .. })), "ids go on being reserved");
        assert!(seen.iter().any(|e| matches!(e, MonEffect::LogError(line) if line.contains("osd.99"))));
    }

    /// Gathers a change of the map that does not apply: no OSD has this number.
    fn gather_bad_change(mon: &mut Mon) {
        mon.osdmap_change(NOW).new_weight.insert(OsdId(99), 0);
    }

    #[test]
    fn who_waits_for_a_map_gets_it_when_its_change_is_dropped_with_nothing_else_to_commit() {
        let mut mon = mon();
        gather_bad_change(&mut mon);
        mon.pending.maps_to.push((SESSION, 1));
        let seen = handle(&mut mon, MonEvent::DiskSpace { total: 2, available: 1 });
        let maps = |e: &MonEffect| matches!(e, MonEffect::Send { message: Message::OsdMap(_), .. });
        assert!(seen.iter().any(maps), "{seen:?}");
    }

    #[test]
    fn a_request_that_waits_for_a_dropped_change_runs_at_the_next_tick() {
        let mut mon = mon();
        gather_bad_change(&mut mon);
        mon.claim(Claim::Flags);
        let set = r#"{"prefix":"osd set","key":"noout"}"#;
        assert!(!command(&mut mon, 1, set).iter().any(|e| matches!(e, MonEffect::Send { .. })), "it waits");
        assert!(!mon.is_proposing());
        handle(&mut mon, MonEvent::Tick);
        let seen = commit(&mut mon);
        let acked = |e: &MonEffect| matches!(e, MonEffect::Send { message: Message::MonCommandAck(ack), .. } if ack.result == 0);
        assert!(seen.iter().any(acked), "{seen:?}");
    }

    /// From now on no map that is made can be read: a table of it is longer than the others.
    fn spoil_maps(mon: &mut Mon) {
        mon.osdmap.weights.push(0);
    }

    /// What a command was answered, once what it proposed is durable.
    fn answer(mon: &mut Mon, json: &str) -> (i32, String) {
        let mut seen = command(mon, 7, json);
        while mon.in_flight.is_some() {
            seen.extend(commit(mon));
        }
        let mut answers = seen.into_iter().filter_map(|effect| match effect {
            MonEffect::Send { message: Message::MonCommandAck(ack), .. } => Some((ack.result, ack.status)),
            _ => None,
        });
        answers.next().unwrap()
    }

    #[test]
    fn a_map_that_nobody_could_read_is_refused_with_all_that_goes_with_it() {
        let mut mon = mon();
        spoil_maps(&mut mon);
        let before = mon.state.clone();
        for command in [
            r#"{"prefix":"osd set","key":"noout"}"#,
            r#"{"prefix":"osd pool create","pool":"p","pg_num":1}"#,
            r#"{"prefix":"osd erasure-code-profile set","name":"p","profile":["k=2","m=1"]}"#,
        ] {
            let (result, words) = answer(&mut mon, command);
            assert_eq!(result, Errno::EIO.code(), "{command}: {words}");
            let said = ["nothing of it was changed", "OSD map 2", "full map can't be read: OSDMap max_osd"];
            assert!(said.iter().all(|part| words.contains(part)), "{words}");
            assert_eq!(mon.state, before, "{command}: no map, no pool, no line of a log");
        }
        let (result, _) = answer(&mut mon, r#"{"prefix":"config-key set","key":"k","val":"v"}"#);
        assert_eq!(result, 0, "what is no change of the map goes on");
        mon.osdmap.weights.pop();
        assert_eq!(answer(&mut mon, r#"{"prefix":"osd set","key":"noout"}"#).0, 0);
        assert_eq!(mon.osdmap.epoch, Epoch(2));
        assert!(Mon::open(mon.config.clone(), mon.state.clone(), NOW).is_ok());
    }

    #[test]
    fn a_tick_that_asks_again_for_a_map_that_is_refused_logs_it_once() {
        let mut mon = mon();
        spoil_maps(&mut mon);
        let blocked = EntityAddr::v2(([127, 0, 0, 1], 9).into(), 1);
        mon.osdmap.blocklist.insert(blocked, UTime { sec: NOW.sec - 1, nsec: 0 });
        let errors = |seen: &[MonEffect]| seen.iter().filter(|e| matches!(e, MonEffect::LogError(_))).count();
        let mut ticks = |sec: u32| {
            let mut out = Vec::new();
            mon.handle(UTime { sec: NOW.sec + sec, nsec: 0 }, MonEvent::Tick, &mut out);
            while mon.in_flight.is_some() {
                out.extend(commit(&mut mon));
            }
            errors(&out)
        };
        assert_eq!((1..5).map(&mut ticks).collect::<Vec<_>>(), [1, 0, 0, 0]);
        gather_bad_change(&mut mon);
        let other = handle(&mut mon, MonEvent::DiskSpace { total: 2, available: 1 });
        assert_eq!(errors(&other), 1, "another reason is logged: {other:?}");
    }

    /// A panic with debug assertions; without, the monitor's end.
    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "commit 99 was not asked for"))]
    fn a_broken_invariant_ends_the_monitor_and_nothing_comes_from_it_any_more() {
        let mut mon = mon();
        let seen = handle(&mut mon, MonEvent::Committed { token: 99 });
        assert!(matches!(&seen[..], [MonEffect::Failed(_)]), "{seen:?}");
        assert_eq!(command(&mut mon, 1, r#"{"prefix":"status"}"#), []);
    }

    #[test]
    #[cfg_attr(debug_assertions, should_panic(expected = "sessions count 1 waiting requests of 0"))]
    fn a_miscount_of_waiting_requests_is_found_after_the_next_event() {
        let mut mon = mon();
        mon.sessions.get_mut(&SESSION).unwrap().waiting = 1;
        handle(&mut mon, MonEvent::Tick);
        assert!(mon.check().is_err());
    }
}
