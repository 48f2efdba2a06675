//! The OSD's state, and where events go.

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use messages::{Message, OsdSuperblock};
use monclient::{MonClient, MonClientEffect, VersionRange};
use options::{Values, opt};
use store::{Completion, Peek, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use types::{Epoch, SpgId, UTime};

use crate::load::LoadStep;
use crate::map_history::MapHistory;
use crate::pg_create::PendingCreates;
use crate::pgs::{PgSet, PgSlot};
use crate::report::OsdReport;
use crate::session::{Session, Sessions};
use crate::space::SpaceBudget;
use crate::superblock::new_superblock;
use crate::throttle::Throttle;
use crate::{LogLevel, OsdConfig, OsdEffect, OsdEvent};

/// Where an OSD stands, as `ceph daemon osd.N status` names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OsdPhase {
    /// Not started, or reading what is stored.
    Initializing,
    /// Getting maps and waiting for a monitor.
    Preboot,
    /// Waiting for a map that shows it up.
    Booting,
    /// Taking part.
    Active,
    /// Telling the monitor that it stops.
    Stopping,
    /// Done, or failed.
    Stopped,
}

/// What the OSD itself asked of the store.
#[derive(Debug)]
pub(crate) enum OwnIo {
    /// A step of loading.
    Load,
    /// The commit of maps up to an epoch.
    Maps { last: Epoch },
    /// A superblock or a trim that nothing waits for.
    Quiet,
    /// The commit of a clean stop.
    Stop,
    /// The store's space.
    StatFs,
    /// An old map, to see where PGs to be made were.
    CreateMap { epoch: Epoch },
}

pub struct Osd {
    pub(crate) config: OsdConfig,
    /// The options in force: see [`Osd::merge_options`].
    pub(crate) options: Values,
    /// Options that the monitor holds for this OSD.
    pub(crate) monitors_options: BTreeMap<String, String>,
    /// Options that a command gave to this OSD until it stops.
    pub(crate) overrides: BTreeMap<String, String>,
    pub(crate) mon: MonClient,
    pub(crate) state: OsdPhase,
    pub(crate) loading: Option<LoadStep>,
    pub(crate) superblock: OsdSuperblock,
    pub(crate) history: MapHistory,
    /// Commits of maps under way.
    pub(crate) map_commits: usize,
    /// The version of the OSD map that was asked for at boot: its handle, then the answer.
    pub(crate) version_asked: Option<u64>,
    pub(crate) mon_maps: Option<VersionRange>,
    /// First epoch that showed this start up; 0 before.
    pub(crate) boot_epoch: Epoch,
    /// First epoch since which it is up without a break; 0 when it is not.
    pub(crate) up_epoch: Epoch,
    /// It was marked down in this epoch although alive: only a later map can show it up.
    pub(crate) bind_epoch: Epoch,
    pub(crate) booting_since: UTime,
    pub(crate) stop_by: Option<UTime>,
    pub(crate) sessions: Sessions,
    pub(crate) throttle: Throttle,
    pub(crate) pgs: PgSet,
    /// PGs to be made, while old maps are read for them.
    pub(crate) creating: Option<PendingCreates>,
    pub(crate) report: OsdReport,
    pub(crate) space: SpaceBudget,
    /// Lines for the cluster log in this start.
    pub(crate) cluster_log_lines: u64,
    pub(crate) own_tokens: u64,
    pub(crate) own_io: BTreeMap<u64, OwnIo>,
    /// Message types that were logged as not handled.
    pub(crate) logged_kinds: BTreeSet<u16>,
    /// Epochs whose PGs' transactions are not durable yet: their tokens.
    pub(crate) advance_commits: BTreeSet<Token>,
    /// PGs are being given a map: what they queue belongs to reaching it.
    pub(crate) advancing: bool,
}

/// Where an event's effects go, and the store's memory that PGs may look at meanwhile.
pub(crate) struct Out<'a> {
    effects: &'a mut Vec<OsdEffect>,
    store: &'a mut dyn Peek,
    /// A transaction is among the effects, which the store does not have yet: its memory shows an older state.
    store_is_behind: bool,
}

impl<'a> Out<'a> {
    fn new(effects: &'a mut Vec<OsdEffect>, store: &'a mut dyn Peek) -> Self {
        Self { effects, store, store_is_behind: false }
    }

    pub(crate) fn push(&mut self, effect: OsdEffect) {
        self.store_is_behind |= matches!(effect, OsdEffect::Queue { .. });
        self.effects.push(effect);
    }
}

impl Extend<OsdEffect> for Out<'_> {
    fn extend<I: IntoIterator<Item = OsdEffect>>(&mut self, effects: I) {
        effects.into_iter().for_each(|effect| self.push(effect));
    }
}

impl Peek for Out<'_> {
    fn peek_at(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.store_is_behind { None } else { self.store.peek_at(request) }
    }
}

impl Osd {
    /// An OSD that has not started: nothing happens before [`OsdEvent::Start`].
    pub fn new(config: OsdConfig) -> Self {
        let limits = crate::config::limits(&config.options);
        let mut space = SpaceBudget::default();
        space.set_failsafe_ratio(config.options.get(opt::OSD_FAILSAFE_FULL_RATIO));
        Self {
            options: config.options.clone(),
            monitors_options: BTreeMap::new(),
            overrides: BTreeMap::new(),
            mon: MonClient::new(config.monitors.clone()),
            state: OsdPhase::Initializing,
            loading: None,
            superblock: new_superblock(config.cluster_fsid, config.whoami, config.osd_fsid),
            history: MapHistory::default(),
            map_commits: 0,
            version_asked: None,
            mon_maps: None,
            boot_epoch: Epoch(0),
            up_epoch: Epoch(0),
            bind_epoch: Epoch(0),
            booting_since: UTime::default(),
            stop_by: None,
            sessions: Sessions::new(),
            throttle: Throttle::new(limits),
            pgs: PgSet::default(),
            creating: None,
            report: OsdReport::default(),
            space,
            cluster_log_lines: 0,
            own_tokens: 0,
            own_io: BTreeMap::new(),
            logged_kinds: BTreeSet::new(),
            advance_commits: BTreeSet::new(),
            advancing: false,
            config,
        }
    }

    /// Where it stands.
    pub fn state(&self) -> OsdPhase {
        self.state
    }

    /// The map that it goes by.
    pub fn epoch(&self) -> Epoch {
        self.history.epoch()
    }

    /// The PGs that it has.
    pub fn pg_ids(&self) -> Vec<SpgId> {
        self.pgs.ids()
    }

    /// Client messages and their bytes that are held until their replies.
    pub fn held(&self) -> (u64, u64) {
        self.throttle.held()
    }

    /// When [`OsdEvent::Tick`] is due next, if ever.
    pub fn deadline(&self) -> Option<UTime> {
        if self.state == OsdPhase::Stopped {
            return None;
        }
        let own = [self.mon.deadline(), self.report_deadline(), self.stop_by];
        let booting = (self.state == OsdPhase::Booting).then(|| self.boot_retry_at());
        own.into_iter().flatten().chain(booting).min()
    }

    /// Takes an event. After [`OsdEffect::Stopped`] or [`OsdEffect::Failed`] nothing has an effect. `store` is the memory
    /// of the OSD's store, which must have got every transaction that earlier events gave.
    pub fn handle(&mut self, now: UTime, event: OsdEvent, store: &mut dyn Peek, out: &mut Vec<OsdEffect>) {
        if self.state == OsdPhase::Stopped {
            return;
        }
        self.on_event(now, event, &mut Out::new(out, store));
        debug_assert_eq!(self.check(), Ok(()), "osd.{}", self.config.whoami.0);
    }

    /// The first of the OSD's invariants that does not hold. Nothing holds of one that has stopped.
    ///
    /// # Errors
    /// What is wrong: a bug.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.state == OsdPhase::Stopped {
            return Ok(());
        }
        let holds = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
        self.pgs.check()?;
        self.throttle.check(|session| self.sessions.contains_key(&session))?;
        let waits = |(session, peer): (&SessionId, &Session)| {
            peer.waiting.iter().all(|op| self.throttle.holds(*session, op.tid))
        };
        holds(self.sessions.iter().all(waits), "an operation waits in a session without budget")?;
        holds(self.own_io.keys().all(|token| *token <= self.own_tokens), "own I/O has a token to come")?;
        let map_commits = self.own_io.values().filter(|io| matches!(io, OwnIo::Maps { .. })).count();
        holds(self.map_commits == map_commits, "the commits of maps are miscounted")?;
        holds(!self.advancing, "an event has ended while PGs are given a map")?;
        let of_pg =
            |token: &Token| PgSlot::of(*token).is_some_and(|(slot, _)| self.pgs.by_slot(slot).is_some());
        holds(self.advance_commits.iter().all(of_pg), "a transaction towards a map is of a PG that is gone")?;
        let reached = self.loading.is_some() || self.superblock.current_epoch <= self.epoch();
        holds(reached, "the superblock is ahead of the map that the OSD goes by")
    }

    fn on_event(&mut self, now: UTime, event: OsdEvent, out: &mut Out) {
        match event {
            OsdEvent::Start => self.start(out),
            OsdEvent::SessionOpened(info) => {
                self.sessions.insert(info.id, crate::session::Session::new(info));
            }
            OsdEvent::SessionClosed(session) => self.close_session(now, session, out),
            OsdEvent::Message { session, message, bytes } => {
                self.on_message(now, session, message, bytes, out)
            }
            OsdEvent::Mon(event) => {
                let mut effects = Vec::new();
                self.mon.handle(now, event, &mut effects);
                self.perform_mon(now, effects, out);
            }
            OsdEvent::Store(completion) => self.on_completion(now, completion, out),
            OsdEvent::Tick => self.on_tick(now, out),
            OsdEvent::Shutdown => self.shut_down(now, out),
        }
    }

    fn close_session(&mut self, now: UTime, session: SessionId, out: &mut Out) {
        if self.sessions.remove(&session).is_some() {
            self.pgs_session_reset(now, session, out);
            let resumed = self.throttle.close(session);
            out.extend(resumed.into_iter().map(OsdEffect::Resume));
        }
    }

    fn on_tick(&mut self, now: UTime, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.handle(now, monclient::MonClientEvent::Tick, &mut effects);
        self.perform_mon(now, effects, out);
        self.pgs_tick();
        self.report_tick(now, out);
        self.boot_tick(now, out);
    }

    fn on_completion(&mut self, now: UTime, completion: Completion, out: &mut Out) {
        let token = completion.token();
        match PgSlot::of(token) {
            Some((slot, inner)) => self.pg_completion(now, slot, inner, token, completion, out),
            None => {
                let Some(io) = self.own_io.remove(&token.0) else {
                    return self.broken(format!("the store completes {token:?}, which was not asked"), out);
                };
                if let Completion::Refused { error, .. } = completion {
                    return self.fail(format!("the store refused the OSD's own records: {error}"), out);
                }
                self.on_own_completion(now, io, completion, out);
            }
        }
    }

    fn on_own_completion(&mut self, now: UTime, io: OwnIo, completion: Completion, out: &mut Out) {
        match io {
            OwnIo::Load => self.on_loaded(now, completion, out),
            OwnIo::Maps { last } => self.on_maps_stored(now, last, out),
            OwnIo::Quiet => {}
            OwnIo::Stop => {
                self.state = OsdPhase::Stopped;
                out.push(OsdEffect::Stopped);
            }
            OwnIo::StatFs => self.on_statfs(now, completion, out),
            OwnIo::CreateMap { epoch } => self.on_create_map_read(now, epoch, completion, out),
        }
    }

    /// Queues a transaction of the OSD itself.
    pub(crate) fn queue(&mut self, txn: Transaction, io: OwnIo, out: &mut Out) {
        let token = self.own_token(io);
        out.push(OsdEffect::Queue { token, txn });
    }

    /// Reads for the OSD itself.
    pub(crate) fn read(&mut self, request: ReadRequest, io: OwnIo, out: &mut Out) {
        let token = self.own_token(io);
        out.push(OsdEffect::Read { token, request });
    }

    fn own_token(&mut self, io: OwnIo) -> Token {
        self.own_tokens += 1;
        self.own_io.insert(self.own_tokens, io);
        Token(self.own_tokens)
    }

    /// Sends to the monitor, now or as soon as there is one.
    pub(crate) fn send_mon(&mut self, message: impl Into<Message>, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.send(message.into(), &mut effects);
        out.extend(effects.into_iter().filter_map(|e| match e {
            MonClientEffect::Io(io) => Some(OsdEffect::Mon(io)),
            _ => None,
        }));
    }

    /// Tells the monitor what is new among the subscriptions.
    pub(crate) fn renew_subscriptions(&mut self, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.renew(&mut effects);
        out.extend(effects.into_iter().filter_map(|e| match e {
            MonClientEffect::Io(io) => Some(OsdEffect::Mon(io)),
            _ => None,
        }));
    }

    pub(crate) fn fail(&mut self, reason: String, out: &mut Out) {
        self.state = OsdPhase::Stopped;
        out.push(OsdEffect::Failed(reason));
    }

    /// Stops the OSD for a defect of this program: something that must hold does not, so nothing that it keeps in memory
    /// can be trusted. To go on would drop a request in silence, or worse.
    pub(crate) fn broken(&mut self, what: impl Into<String>, out: &mut Out) {
        let what = what.into();
        debug_assert!(false, "{what}");
        self.log(LogLevel::Error, format!("broken invariant, a defect of this program: {what}"), out);
        self.fail(what, out);
    }

    pub(crate) fn log(&self, level: LogLevel, text: impl Into<String>, out: &mut Out) {
        out.push(OsdEffect::Log(level, text.into()));
    }
}
