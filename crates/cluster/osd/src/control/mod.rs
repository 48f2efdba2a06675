//! The control part of an OSD: its maps, its boot, the session to the monitor, the orders to make and remove PGs, its
//! reports, commands, the superblock.
//!
//! There is one, on the core of store shard 0, whose meta collection holds its records. It has no client's request and no
//! PG: what it knows of those, their shards have published.

mod admin;
mod bench;
mod boot;
mod cluster_log;
mod command;
mod copies;
mod facts;
mod fetch_map;
mod load;
mod map_history;
pub(crate) mod map_reader;
mod maps_in;
mod peers;
mod pg_create;
mod pg_infos;
mod pg_table;
mod purged;
mod report;
mod scrub_times;
mod scrubs;
mod store_age;
pub(crate) mod superblock;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use messages::{Message, OsdSuperblock};
use monclient::{MonClient, MonClientEffect, VersionRange};
use options::{SetError, Values, opt};
use store::{Completion, ReadRequest, StoreShard, Token, Transaction};
use types::{Epoch, UTime};

use crate::parts::{GateMap, Out, REOPENED, ShardSpace, ToControl, ToGate, ToShard};
use crate::shard::ShardConfig;
use crate::{LogLevel, OsdConfig, OsdEffect, OsdEvent, Placement, Surroundings};
use admin::Gathers;
use copies::Copies;
pub(crate) use copies::CopyId;
use fetch_map::Fetch;
use load::LoadStep;
use map_history::MapHistory;
pub(crate) use map_history::MapStep;
use map_reader::MapReader;
use pg_create::PendingCreates;
use pg_infos::PgInfos;
use pg_table::PgTable;
use purged::PurgedSnaps;
use report::OsdReport;
use scrubs::Scrubs;
use store_age::StoreAge;
use superblock::new_superblock;

/// The store shard of the control part's records.
const META: StoreShard = StoreShard(0);

/// Where an OSD is in its life, as `ceph daemon osd.N status` names it.
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

/// What the control part asked of the store.
#[derive(Debug)]
enum OwnIo {
    /// A step of loading.
    Load,
    /// The commit of maps up to an epoch.
    Maps { last: Epoch },
    /// A superblock or a trim that nothing waits for.
    Quiet,
    /// The commit of a clean stop.
    Stop,
    /// A block of a bench.
    Bench,
    /// A stored map, being read.
    StoredMap { reader: Box<MapReader>, purpose: MapPurpose },
    /// An increment of before this start, to be shared with peers.
    OldIncrement { epoch: Epoch },
}

/// What a stored map is read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum MapPurpose {
    Load,
    /// To see where PGs to be made were.
    Create,
}

/// What a shard has published of itself.
#[derive(Clone, Default, Debug)]
struct ShardState {
    /// The map that it is through with.
    applied: Epoch,
    /// The epoch that all its PGs have durably reached.
    reached: Epoch,
    space: ShardSpace,
}

pub(crate) struct Control {
    config: OsdConfig,
    placement: Arc<Placement>,
    /// The options in force: see [`Control::merge_options`].
    options: Values,
    /// Options that the monitor holds for this OSD.
    monitors_options: BTreeMap<String, String>,
    /// Options that a command gave to this OSD until it stops.
    overrides: BTreeMap<String, String>,
    mon: MonClient,
    state: OsdPhase,
    loading: Option<LoadStep>,
    /// The map that the step under way waits for.
    fetching: Option<Fetch>,
    superblock: OsdSuperblock,
    store_age: StoreAge,
    history: MapHistory,
    /// Commits of maps under way.
    map_commits: usize,
    /// Maps came while the PGs were too far behind to take them.
    maps_refused: bool,
    /// Where each run of maps ends that was stored and not gone through, in order.
    stored_maps: VecDeque<Epoch>,
    /// The version of the OSD map that was asked for at boot: its handle, then the answer.
    version_asked: Option<u64>,
    mon_maps: Option<VersionRange>,
    /// First epoch that showed this start up; 0 before.
    boot_epoch: Epoch,
    /// First epoch since which it is up without a break; 0 when it is not.
    up_epoch: Epoch,
    /// It was marked down in this epoch although alive: only a later map can show it up.
    bind_epoch: Epoch,
    /// Whether a new cluster address was asked for; it does not boot without.
    rebinding: bool,
    booting_since: UTime,
    stop_by: Option<UTime>,
    /// Why it cannot go on. Set, it takes nothing but the monitor's acknowledgement.
    failure: Option<String>,
    pgs: PgTable,
    /// More PGs are to be made than one event may.
    creates_left: bool,
    /// PGs to be made, while old maps are read for them.
    creating: Option<PendingCreates>,
    shards: Vec<ShardState>,
    /// What the shards were configured with.
    shard_config: ShardConfig,
    /// How many PGs there were then; `None` before the first time.
    configured_pgs: Option<usize>,
    planted: pg::Planted,
    report: OsdReport,
    /// Commands that wait for reports of the other parts.
    gathers: Gathers,
    /// The bench under way.
    bench: Option<bench::Bench>,
    copies: Copies,
    pg_infos: PgInfos,
    scrubs: Scrubs,
    purged: PurgedSnaps,
    surroundings: Surroundings,
    /// Messages of maps, and the epochs in them.
    map_messages: u64,
    map_epochs: u64,
    /// Lines for the cluster log in this start.
    cluster_log_lines: u64,
    own_tokens: u64,
    own_io: BTreeMap<u64, OwnIo>,
    /// Message types that were logged as not handled.
    logged_kinds: BTreeSet<u16>,
}

impl Control {
    /// Switches a defect on, before the start.
    #[cfg(feature = "planted")]
    pub(crate) fn plant(&mut self, planted: pg::Planted) {
        self.planted = planted;
    }

    pub(crate) fn new(config: OsdConfig, placement: Arc<Placement>) -> Self {
        Self {
            options: config.options.clone(),
            monitors_options: BTreeMap::new(),
            overrides: BTreeMap::new(),
            mon: MonClient::new(config.monitors.clone()),
            state: OsdPhase::Initializing,
            loading: None,
            fetching: None,
            superblock: new_superblock(config.cluster_fsid, config.whoami, config.osd_fsid),
            store_age: StoreAge::Fine,
            history: MapHistory::new(config.options.get(opt::OSD_MAP_CACHE_SIZE) as usize),
            map_commits: 0,
            maps_refused: false,
            stored_maps: VecDeque::new(),
            version_asked: None,
            mon_maps: None,
            boot_epoch: Epoch(0),
            up_epoch: Epoch(0),
            bind_epoch: Epoch(0),
            rebinding: false,
            booting_since: UTime::default(),
            stop_by: None,
            failure: None,
            pgs: PgTable::default(),
            creates_left: false,
            creating: None,
            shards: vec![ShardState::default(); placement.shards().len()],
            shard_config: ShardConfig::default(),
            configured_pgs: None,
            planted: pg::Planted::default(),
            report: OsdReport::default(),
            gathers: Gathers::default(),
            bench: None,
            copies: Copies::default(),
            pg_infos: PgInfos::default(),
            scrubs: Scrubs::default(),
            purged: PurgedSnaps::default(),
            surroundings: Surroundings::default(),
            map_messages: 0,
            map_epochs: 0,
            cluster_log_lines: 0,
            own_tokens: 0,
            own_io: BTreeMap::new(),
            logged_kinds: BTreeSet::new(),
            placement,
            config,
        }
    }

    pub(crate) fn state(&self) -> OsdPhase {
        self.state
    }

    /// The epoch of the map that the OSD goes by.
    pub(crate) fn epoch(&self) -> Epoch {
        self.history.epoch()
    }

    /// Whether it cannot go on, and the monitor is to know that first.
    pub(crate) fn is_failing(&self) -> bool {
        self.failure.is_some()
    }

    pub(crate) fn deadline(&self) -> Option<UTime> {
        if self.is_failing() {
            return self.stop_by;
        }
        let own = [
            self.mon.deadline(),
            self.fetch_deadline(),
            self.report_deadline(),
            self.stop_by,
            self.copies.deadline(),
            self.pg_infos.deadline(),
            self.scrubs_deadline(),
            self.purged_deadline(),
        ];
        let booting = (self.state == OsdPhase::Booting).then(|| self.boot_retry_at());
        own.into_iter().flatten().chain(booting).min()
    }

    /// The first of the control part's invariants that does not hold.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let holds = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
        holds(self.own_io.keys().all(|token| *token <= self.own_tokens), "own I/O has a token to come")?;
        let map_commits = self.own_io.values().filter(|io| matches!(io, OwnIo::Maps { .. })).count();
        holds(self.map_commits == map_commits, "the commits of maps are miscounted")?;
        holds(self.fetching.is_none() || self.loading.is_some(), "a map is fetched and nothing loads")?;
        let reached = self.loading.is_some() || self.superblock.current_epoch <= self.epoch();
        holds(reached, "the superblock is ahead of the map that the OSD goes by")
    }

    pub(crate) fn on_event(&mut self, now: UTime, event: OsdEvent, out: &mut Out) {
        match event {
            OsdEvent::Start => self.start(out),
            OsdEvent::Mon(event) => {
                let mut effects = Vec::new();
                self.mon.handle(now, event, &mut effects);
                self.perform_mon(now, effects, out);
            }
            OsdEvent::PeerLost(addr) => self.on_peer_lost(now, &addr.into(), out),
            OsdEvent::Rebound(addrs) => self.on_rebound(now, addrs, out),
            OsdEvent::Tick => self.on_tick(now, out),
            OsdEvent::AdminCommand { id, command } => self.on_admin_command(now, id, &command, out),
            OsdEvent::Surroundings(surroundings) => self.surroundings = surroundings,
            OsdEvent::Shutdown => self.shut_down(now, out),
            OsdEvent::SessionOpened(_)
            | OsdEvent::SessionClosed(_)
            | OsdEvent::SessionBehind { .. }
            | OsdEvent::Message { .. }
            | OsdEvent::Store(..)
            | OsdEvent::Continue
            | OsdEvent::Broken(_)
            | OsdEvent::FromCore(_) => out.broken("an event of another part came to the control part"),
        }
    }

    pub(crate) fn handle(&mut self, now: UTime, message: ToControl, out: &mut Out) {
        match message {
            ToControl::Message { peer, message, bytes } => {
                self.on_peer_message(now, &peer, *message, out);
                out.send_gate_of(peer.id, ToGate::Handled { session: peer.id, bytes });
            }
            ToControl::ShareMaps { session, have } => self.share_maps(session, have, out),
            // What is to come is not known before.
            ToControl::WantMap if self.loading.is_some() => {}
            ToControl::WantMap => self.want_newer_map(out),
            ToControl::PgsFound { shard, found } => self.on_pgs_found(now, shard, found, out),
            ToControl::PgStatus { pgid, slot, status } => self.on_pg_status(now, pgid, slot, status, out),
            ToControl::PgsSplit { shard, children } => self.on_pgs_split(shard, children, out),
            ToControl::PgRemoved { pgid } => {
                self.pgs.remove(&pgid);
                self.scrubs.forget(&pgid);
                out.send_gates(|| ToGate::Pg { pgid, route: None });
                self.stats_changed(now);
            }
            ToControl::MapApplied { shard, epoch } => match self.shards.get_mut(shard.0 as usize) {
                Some(state) => {
                    state.applied = epoch;
                    self.pgs_loaded(now, out);
                    self.follow_maps(now, out);
                    self.answer_waiting(out);
                }
                None => out.broken(format!("shard {} is through with a map, and does not exist", shard.0)),
            },
            ToControl::MapReached { shard, epoch } => match self.shards.get_mut(shard.0 as usize) {
                Some(state) => {
                    state.reached = epoch;
                    if self.loading.is_none() {
                        self.note_pgs_stable(out);
                        self.ask_refused_maps(out);
                    }
                }
                None => out.broken(format!("shard {} has reached a map, and does not exist", shard.0)),
            },
            ToControl::Space { shard, space } => self.on_space(now, shard, *space, out),
            ToControl::Stats { stats, load } => self.on_stats(stats, load, out),
            ToControl::Report { id, report } => self.on_part_report(now, id, *report, out),
            ToControl::QueryAnswer { asked, answer } => self.on_query_answer(asked, answer, out),
            ToControl::Copy { id, source } => self.start_copy(now, id, *source, out),
            ToControl::AskPeer { osd, question } => self.ask_peer(now, osd, question),
            ToControl::CancelCopy(id) => self.cancel_copy(now, id, out),
            ToControl::Scrubbed { pgid, complete } => self.on_scrubbed(now, pgid, complete),
            ToControl::PeerClosed(addrs) => self.on_peer_lost(now, &addrs, out),
            ToControl::ClusterLog(level, text) => self.cluster_log(now, level, text, out),
            ToControl::Failed(reason) => self.fail(reason),
        }
    }

    fn on_tick(&mut self, now: UTime, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.handle(now, monclient::MonClientEvent::Tick, &mut effects);
        self.perform_mon(now, effects, out);
        self.fetch_tick(now, out);
        if self.configured_pgs != Some(self.pgs.len()) {
            self.configure_shards(out);
        }
        self.report_tick(now, out);
        self.boot_tick(now, out);
        self.copies_tick(now, out);
        self.pg_infos_tick(now, out);
        self.scrubs_tick(now, out);
        self.purged_tick(now, out);
    }

    pub(crate) fn on_completion(&mut self, now: UTime, completion: Completion, out: &mut Out) {
        let token = completion.token();
        let Some(io) = self.own_io.remove(&token.0) else {
            return out.broken(format!("the store completes {token:?}, which was not asked"));
        };
        if matches!(io, OwnIo::Bench) {
            return self.on_bench_write(now, &completion, out);
        }
        if let Completion::Refused { error, .. } = completion {
            return self.fail(format!("the store refused the OSD's own records: {error}{REOPENED}"));
        }
        match io {
            OwnIo::Load => self.on_loaded(now, completion, out),
            OwnIo::Maps { last } => self.on_maps_stored(now, last, out),
            OwnIo::Quiet | OwnIo::Bench => {}
            OwnIo::Stop => {
                self.state = OsdPhase::Stopped;
                out.push(OsdEffect::Stopped);
            }
            OwnIo::StoredMap { reader, purpose } => self.on_map_read(now, reader, purpose, completion, out),
            OwnIo::OldIncrement { epoch } => self.on_old_increment(epoch, completion, out),
        }
    }

    /// Queues a transaction of the control part.
    fn queue(&mut self, txn: Transaction, io: OwnIo, out: &mut Out) {
        let token = self.own_token(io);
        out.queue(META, token, txn);
    }

    /// Reads for the control part.
    fn read(&mut self, request: ReadRequest, io: OwnIo, out: &mut Out) {
        let token = self.own_token(io);
        out.read(META, token, request);
    }

    fn own_token(&mut self, io: OwnIo) -> Token {
        self.own_tokens += 1;
        self.own_io.insert(self.own_tokens, io);
        Token(self.own_tokens)
    }

    /// Sends to the monitor, now or as soon as there is one.
    fn send_mon(&mut self, message: impl Into<Message>, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.send(message.into(), &mut effects);
        push_io(effects, out);
    }

    /// Sends the monitor what is new among the subscriptions.
    fn renew_subscriptions(&mut self, out: &mut Out) {
        let mut effects = Vec::new();
        self.mon.renew(&mut effects);
        push_io(effects, out);
    }

    /// Asks the monitor for a map that is newer than all that are here.
    fn want_newer_map(&mut self, out: &mut Out) {
        let want = u64::from(self.history.newest().0) + 1;
        if self.mon.subscriptions().want_from("osdmap", want, 0) {
            self.renew_subscriptions(out);
        }
    }

    /// The OSD cannot go on. [`Control::report_failure`] follows at the end of the event.
    fn fail(&mut self, reason: String) {
        // The first reason counts: what follows may be its consequence.
        if self.state != OsdPhase::Stopped && self.failure.is_none() {
            self.state = OsdPhase::Stopping;
            self.failure = Some(reason);
        }
    }

    fn log(&self, level: LogLevel, text: impl Into<String>, out: &mut Out) {
        out.log(level, text);
    }

    /// Puts the options in force, as Ceph's programs do: the monitor's count least, then what this process was started
    /// with, then what a command gave to this OSD. Answers what could not be taken.
    fn merge_options(&mut self, out: &mut Out) -> Vec<SetError> {
        let mut merged = self.config.options.only_defaults();
        let given = self.config.options.changed();
        let monitors = self.monitors_options.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        // What only a start takes is there for clients.
        let monitors = monitors.filter(|(name, value)| options::check_settable(name, value).is_ok());
        let overrides = self.overrides.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let set = |(name, value)| merged.set(name, value).err();
        let errors = monitors.chain(given).chain(overrides).filter_map(set).collect();
        let level = |options: &Values| options::highest_log_level(options.changed());
        let (before, after) = (level(&self.options), level(&merged));
        if before != after {
            out.push(OsdEffect::LogLevel(after));
        }
        self.options = merged;
        self.history.increments_max = self.options.get(opt::OSD_MAP_CACHE_SIZE) as usize;
        let limits = crate::config::limits(&self.options, self.placement.gates().len());
        out.send_gates(|| ToGate::Limits(limits));
        self.configure_shards(out);
        errors
    }

    /// Gives the shards the options as they have them, if those are others than before or the number of PGs is.
    fn configure_shards(&mut self, out: &mut Out) {
        let pgs = self.pgs.len();
        self.configured_pgs = Some(pgs);
        let mut config = crate::config::of_shard(&self.options, pgs, self.shards.len());
        Arc::make_mut(&mut config.pg).planted = self.planted;
        if config != self.shard_config {
            self.shard_config = config.clone();
            out.send_shards(|| ToShard::Config(Box::new(config.clone())));
        }
    }

    /// Gives the gates the map that the OSD goes by.
    fn publish_map(&self, out: &mut Out) {
        // A new OSD has no map yet.
        let Some(map) = self.history.current() else { return };
        let map = GateMap { map: map.clone(), up_from: self.up_epoch };
        out.send_gates(|| ToGate::Map(map.clone()));
    }
}

fn push_io(effects: Vec<MonClientEffect>, out: &mut Out) {
    for effect in effects {
        if let MonClientEffect::Io(io) = effect {
            out.push(OsdEffect::Mon(io));
        }
    }
}
