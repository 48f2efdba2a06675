//! The simulated world: virtual time, the queue of events, and the run from its beginning to its end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use auth::SessionId;
use osd::{CoreId, PartMessage};
use types::{PoolId, SplitMix64, UTime};

use crate::client::{Client, Command, Purpose};
use crate::daemons::{MonProcess, OsdProcess};
use crate::faults::Relief;
use crate::fences::Served;
use crate::history::{Action, History};
use crate::images::Image;
use crate::network::{Network, Packet, Way};
use crate::notes::Notes;
use crate::plan::{Fault, SECOND, SnapKind};
use crate::snaps::Snaps;
use crate::workload::{Burst, Slot};
use crate::{Place, Plan, Trace, checks};

/// The virtual clock's beginning, nanoseconds since 1970.
pub const BASE: u64 = 1_800_000_000 * SECOND;
/// Virtual time in which everything has to end once all faults are over.
const LIVENESS: u64 = 300 * SECOND;
/// Virtual time in which requests that no client waits for end.
const SETTLING: u64 = 5 * SECOND;
/// Events at one moment of virtual time from which the run fails: events cause each other without end.
const EVENTS_AT_ONCE_MAX: u64 = 1_000_000;

/// An event of the simulation.
#[derive(Debug)]
pub enum Happening {
    Arrive(SessionId, Way, Packet),
    Release(SessionId, Way),
    Break(SessionId),
    BreakSide(SessionId, Way),
    MonTick(u32),
    MonCommitted(u32, u64),
    OsdWake(i32, CoreId, u64),
    OsdContinue(i32, CoreId, u32),
    CoreMessage(i32, CoreId, u32, PartMessage),
    OsdRebound(i32, u32),
    ClientWake(usize, u32, u64),
    Think(usize, u32),
    ImageTurn(usize, u32, usize),
    NoteTurn(usize, u32, usize),
    ListTurn(usize, u32),
    StartMon,
    StartOsd(i32),
    StartClient(usize),
    ReplaceClient(usize, u32),
    NextFault,
    SnapTurn,
    Relieve(Relief),
    EndFailures,
    LosePower(i32),
    EndOsd(i32),
    LoseAllPower,
    BreakAll(i32),
    Refuse(i32),
    RefuseAgain(i32, u32),
    ReadAgain(usize),
    CaughtUp(SessionId, i32),
    Burst(Burst),
    MakePool,
}

/// Why a run failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The counts of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    pub operations: u64,
    /// Operations that ended without telling whether they took effect.
    pub unknown: u64,
    pub events: u64,
    pub faults: u64,
    /// Listings of the pool that came to their end.
    pub listings: u64,
    pub by_fault: BTreeMap<Fault, u64>,
    /// Virtual nanoseconds.
    pub time: u64,
}

/// A run's end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    pub failure: Option<Failure>,
    pub counts: Counts,
    /// Of everything that happened.
    pub trace: u64,
}

pub struct World {
    pub plan: Plan,
    pub now: u64,
    rng: SplitMix64,
    /// Boxed: a tree moves what it holds, and happenings are large.
    queue: BTreeMap<(u64, u64), Box<Happening>>,
    queued: u64,
    pub trace: Trace,
    pub net: Network,
    /// Commands that wait for the one before them.
    pub commands: VecDeque<(Command, Purpose)>,
    pub mon: MonProcess,
    pub osds: Vec<OsdProcess>,
    /// The last one gives commands, and reads all objects at the end.
    pub clients: Vec<Client>,
    pub history: History,
    /// The operations' places in the history, by the client's global id and the request's.
    pub requests: BTreeMap<(i64, u64), usize>,
    pub served: Served,
    pub slots: Vec<Slot>,
    /// What clients copy.
    pub sources: Vec<Slot>,
    pub pool: Option<PoolId>,
    /// The other pool of what clients copy.
    pub pool_elsewhere: Option<PoolId>,
    pub snaps: Snaps,
    pub images: Vec<Image>,
    pub notes: Notes,
    /// The objects to watch that are made.
    pub notes_made: BTreeSet<usize>,
    /// How many of the objects that every listing has are made.
    pub listed_made: usize,
    /// The names of objects of which stored bytes have gone bad.
    pub damaged: BTreeSet<String>,
    /// The PGs that the pool is to have.
    pub pgs: u32,
    /// Clients' processes that are or will be fenced.
    pub fenced: BTreeSet<(usize, u32)>,
    /// Whether the faults are over.
    pub is_healing: bool,
    pub counts: Counts,
    failure: Option<Failure>,
}

/// Runs a plan.
pub fn run(plan: Plan, trace: Trace) -> Report {
    let mut world = World::new(plan, trace);
    world.play();
    world.counts.operations = world.history.operations.len() as u64;
    world.counts.events = world.trace.events;
    world.counts.time = world.now;
    if let Some(failure) = &world.failure {
        world.trace.note(world.now, 0, || format!("FAILED: {failure}"));
    }
    Report { failure: world.failure, counts: world.counts, trace: world.trace.hash() }
}

impl World {
    fn new(plan: Plan, trace: Trace) -> Self {
        Self {
            now: 0,
            rng: SplitMix64::new(plan.seed),
            queue: BTreeMap::new(),
            queued: 0,
            trace,
            net: Network::default(),
            commands: VecDeque::new(),
            mon: MonProcess::new(&plan),
            osds: (0..plan.osds).map(|id| OsdProcess::new(&plan, id)).collect(),
            clients: (0..=plan.clients).map(|_| Client::new()).collect(),
            history: History::default(),
            requests: BTreeMap::new(),
            served: Served::default(),
            slots: Vec::new(),
            sources: Vec::new(),
            pool: None,
            pool_elsewhere: None,
            snaps: Snaps::default(),
            images: Vec::new(),
            notes: Notes::default(),
            notes_made: BTreeSet::new(),
            listed_made: 0,
            damaged: BTreeSet::new(),
            pgs: plan.pgs,
            fenced: BTreeSet::new(),
            is_healing: false,
            counts: Counts::default(),
            failure: None,
            plan,
        }
    }

    fn play(&mut self) {
        self.make_slots();
        self.make_sources();
        self.make_images();
        self.start_mon();
        for id in 0..self.plan.osds {
            let delay = self.random(2 * SECOND);
            self.after(delay, Happening::StartOsd(id));
        }
        (0..self.clients.len()).for_each(|index| self.start_client(index));
        let delay = self.random(3 * SECOND);
        self.after(delay, Happening::MakePool);
        self.after(SECOND, Happening::NextFault);
        if self.plan.snaps != SnapKind::None {
            self.after(SECOND, Happening::SnapTurn);
        }
        self.run_while(self.plan.length, |_| true);
        self.heal();
        self.run_until_quiet("every request ends");
        let admin = self.admin();
        if self.pool.is_none() {
            self.fail("the pool was not made".into());
        }
        let snaps = self.snaps.all().into_iter().map(|snap| Action::ReadAt { snap });
        for action in std::iter::once(Action::Read).chain(snaps) {
            (0..self.history.objects.len()).for_each(|object| self.begin(admin, object, action.clone()));
        }
        if self.plan.listings {
            self.begin_listing(admin);
        }
        self.run_until_quiet("every object is read");
        self.await_trims(LIVENESS);
        self.last_notifies();
        // Copies of requests that were sent twice are answered too.
        self.run_while(self.now + SETTLING, |_| true);
        // A watch may be pinged just now. What is held for ever leaves no moment without budget.
        self.run_while(self.now + SETTLING, |world| world.osds.iter().any(|osd| osd.budget_held().is_some()));
        checks::check(self);
    }

    pub(crate) fn run_until_quiet(&mut self, what: &str) {
        let until = self.now + LIVENESS;
        self.run_while(until, |world| !world.is_quiet());
        if !self.is_quiet() {
            let pending = |client: &Client| client.requests.values().map(|at| at + 1).collect::<Vec<_>>();
            let marks: Vec<_> = self.clients.iter().map(pending).collect();
            let commands = self.clients[self.admin()].commands.len();
            let held: Vec<String> = self.osds.iter().filter_map(|osd| osd.budget_held()).collect();
            let text = format!(
                "{what}: not within {} s; the operations {marks:?} of each client and {commands} commands wait; {held:?}",
                LIVENESS / SECOND
            );
            self.fail(text);
        }
    }

    fn is_quiet(&self) -> bool {
        self.commands.is_empty()
            && self.clients.iter().all(|c| {
                c.requests.is_empty()
                    && c.parts.is_empty()
                    && c.calls.is_empty()
                    && c.commands.is_empty()
                    && c.waits.is_empty()
            })
            && !self.notifies_wait()
    }

    /// Handles events until a moment or a failure, while a condition holds.
    pub(crate) fn run_while(&mut self, until: u64, holds: impl Fn(&Self) -> bool) {
        let mut at_once = 0;
        while self.failure.is_none() && holds(self) {
            let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= until) else {
                self.now = until;
                return;
            };
            let at = entry.key().0;
            let happening = entry.remove();
            at_once = if at > self.now { 0 } else { at_once + 1 };
            self.now = at;
            if at_once > EVENTS_AT_ONCE_MAX {
                return self.fail("events follow each other without time going on".into());
            }
            self.happen(*happening);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(id, way, packet) => self.arrive(id, way, packet),
            Happening::Release(id, way) => self.release(id, way),
            Happening::Break(id) => self.break_connection(id),
            Happening::BreakSide(id, way) => self.break_side(id, way, "the connection broke"),
            Happening::MonTick(life) => self.mon_tick(life),
            Happening::MonCommitted(life, token) => self.mon_committed(life, token),
            Happening::OsdContinue(id, core, life) => self.osd_continue(id, core, life),
            Happening::CoreMessage(id, core, life, message) => self.core_message(id, core, life, message),
            Happening::OsdRebound(id, life) => self.osd_rebound(id, life),
            Happening::OsdWake(id, core, at) => self.osd_wake(id, core, at),
            Happening::ClientWake(index, life, at) => self.client_wake(index, life, at),
            Happening::Think(index, life) => self.think(index, life),
            Happening::ImageTurn(index, life, image) => self.image_turn(index, life, image),
            Happening::NoteTurn(index, life, note) => self.note_turn(index, life, note),
            Happening::ListTurn(index, life) => self.list_turn(index, life),
            Happening::StartMon => {
                if self.mon.node.is_none() {
                    self.start_mon();
                }
            }
            Happening::StartOsd(id) => self.start_osd(id),
            Happening::StartClient(index) => {
                if !self.clients[index].alive {
                    self.start_client(index);
                }
            }
            Happening::ReplaceClient(index, life) => self.replace_client(index, life),
            Happening::NextFault => self.next_fault(),
            Happening::SnapTurn => self.snap_turn(),
            Happening::Relieve(relief) => self.relieve(relief),
            Happening::EndFailures => self.end_failures(),
            Happening::EndOsd(osd) => self.end_osd_in_map(osd),
            Happening::LosePower(osd) => self.lose_power(osd),
            Happening::LoseAllPower => self.lose_all_power(),
            Happening::BreakAll(osd) => self.break_all(osd),
            Happening::Refuse(osd) => self.refuse_space(osd, !self.is_healing),
            Happening::RefuseAgain(osd, times) => self.refuse_again(osd, times),
            Happening::Burst(burst) => self.go_on_with_burst(burst),
            Happening::CaughtUp(session, osd) => self.caught_up(session, osd),
            Happening::ReadAgain(object) => self.read_again(object),
            Happening::MakePool => {
                self.command(r#"{"prefix":"osd set","key":"noout"}"#, Purpose::Nothing);
                let pgs = self.pgs;
                let json = format!(r#"{{"prefix":"osd pool create","pool":"data","pg_num":{pgs}}}"#);
                self.command(&json, Purpose::MakePool);
                if self.plan.copies {
                    let other = r#"{"prefix":"osd pool create","pool":"elsewhere","pg_num":2}"#;
                    self.command(other, Purpose::MakePoolElsewhere);
                }
            }
        }
    }

    /// The client that gives commands.
    pub(crate) fn admin(&self) -> usize {
        self.plan.clients
    }

    pub(crate) fn time(&self) -> UTime {
        UTime::from_nanos(BASE + self.now)
    }

    pub(crate) fn at(&mut self, at: u64, what: Happening) {
        self.queued += 1;
        self.queue.insert((at, self.queued), Box::new(what));
    }

    pub(crate) fn after(&mut self, nanos: u64, what: Happening) {
        self.at(self.now + nanos, what);
    }

    /// A number below `n`; 0 if `n` is 0.
    pub(crate) fn random(&mut self, n: u64) -> u64 {
        self.rng.below(n.max(1))
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.rng.one_in(n.max(1))
    }

    /// How long a message takes: usually little, sometimes much.
    pub(crate) fn delay(&mut self) -> u64 {
        let (least, most) = (self.plan.delay_us.start, self.plan.delay_us.end);
        let span = if self.one_in(4) { most - least } else { (most - least) / 8 };
        (least + self.random(span)) * 1_000
    }

    /// How long a message from one core to another takes.
    pub(crate) fn core_delay(&mut self) -> u64 {
        let most = if self.one_in(8) { self.plan.core_delay_us } else { self.plan.core_delay_us / 16 };
        1_000 * self.random(most + 1)
    }

    /// A process's number among those that were at its place.
    pub(crate) fn life(&self, place: Place) -> u32 {
        match place {
            Place::Mon => self.mon.life,
            Place::Osd(id) => self.osds[id as usize].life,
            Place::Client(index) => self.clients[index].life,
        }
    }

    pub(crate) fn life_if_alive(&self, place: Place) -> Option<u32> {
        let alive = match place {
            Place::Mon => self.mon.node.is_some(),
            Place::Osd(id) => self.osds[id as usize].is_running(),
            Place::Client(index) => self.clients[index].alive,
        };
        alive.then(|| self.life(place))
    }

    /// Notes what a process does.
    pub(crate) fn say(&mut self, place: Place, words: &str) {
        self.trace.note(self.now, (place, words), || format!("{place} {words}"));
    }

    pub(crate) fn say_fault(&mut self, words: &str) {
        self.trace.note(self.now, words, || format!("*** {words}"));
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Ends the run. The first failure counts.
    pub(crate) fn fail(&mut self, text: String) {
        self.failure.get_or_insert(Failure(text));
    }
}
