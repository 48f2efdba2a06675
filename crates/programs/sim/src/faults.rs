//! Faults, and how each ends.

use crate::Place;
use crate::block_store::Damage;
use crate::client::Purpose;
use crate::daemons::{Ending, client_addr};
use crate::network::Way;
use crate::plan::{Fault, LARGE_STORE, SECOND};
use crate::store_handle::StoreHandle;
use crate::workload::{Burst, Mix};
use crate::world::{Happening, World};

/// PGs that the pool gets, at most.
const PGS_MAX: u32 = 32;

/// How long after everything was healed PGs stay failed: by then each client knows, and nothing else holds requests.
const FAILURE_TIME: u64 = 60 * SECOND;

/// Operations that a client begins in a burst, and how often a store refuses data in one fault.
const BURST: u32 = 6;
const REFUSALS: u32 = 5;

/// Within this time after a start power is lost again, nanoseconds.
const POWER_TIME: u64 = 4 * SECOND;

/// How often clients read an object again of which a byte went bad.
const READS_AGAIN: u32 = 3;

/// About how long the OSDs take to hear of a command to the monitor, nanoseconds.
const COMMAND_TIME: u64 = 40_000_000;

/// What ends a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relief {
    Network,
    Unset(&'static str),
    FullRatio,
    Space(i32),
    OsdOption,
    MarkIn(i32),
    /// The OSD's PGs can be loaded again when it is started again, which it is.
    Loads(i32),
}

impl World {
    /// A fault happens, and the next one is due.
    pub(crate) fn next_fault(&mut self) {
        if self.is_healing || self.plan.faults.is_empty() {
            return;
        }
        let which = self.random(self.plan.faults.len() as u64) as usize;
        let fault = self.plan.faults[which];
        self.counts.faults += 1;
        *self.counts.by_fault.entry(fault).or_default() += 1;
        self.say_fault(&format!("{fault:?}"));
        self.inflict(fault);
        let pause = self.random(2 * self.plan.fault_interval);
        self.after(pause, Happening::NextFault);
    }

    fn some_osd(&mut self) -> i32 {
        let osds = self.plan.osds as u64;
        self.random(osds) as i32
    }

    fn some_client(&mut self) -> usize {
        let clients = self.plan.clients as u64;
        self.random(clients) as usize
    }

    /// Usually short, sometimes long.
    fn some_while(&mut self) -> u64 {
        let most = [SECOND / 5, 3 * SECOND, 20 * SECOND][self.random(3) as usize];
        self.random(most.min(self.plan.fault_length))
    }

    fn inflict(&mut self, fault: Fault) {
        match fault {
            Fault::Reset => self.reset_some(),
            Fault::Partition => self.cut_off_some(),
            Fault::KillOsd => {
                let osd = self.some_osd();
                self.end_and_restart(osd, Ending::Killed);
            }
            Fault::EndInMap => {
                self.change_snaps();
                let osd = self.some_osd();
                let within = COMMAND_TIME + 1_000 * (self.plan.delay_us.end + self.plan.core_delay_us);
                let pause = self.random(within);
                self.after(pause, Happening::EndOsd(osd));
            }
            Fault::PowerLossOsd => {
                let osd = self.some_osd();
                let pause = if self.one_in(2) { 0 } else { self.disturb(osd) };
                self.after(pause, Happening::LosePower(osd));
            }
            Fault::PowerLossAll => {
                let osd = self.some_osd();
                let pause = if self.one_in(2) { 0 } else { self.disturb(osd) };
                self.after(pause, Happening::LoseAllPower);
            }
            Fault::StopOsd => {
                let osd = self.some_osd();
                self.stop_osd(osd);
                let pause = SECOND + self.some_while();
                self.after(pause, Happening::StartOsd(osd));
            }
            Fault::KillMon => self.end_and_restart_mon(false),
            Fault::MarkDown => {
                let osd = self.some_osd();
                self.command(&format!(r#"{{"prefix":"osd down","ids":["{osd}"]}}"#), Purpose::Nothing);
            }
            Fault::Pause => {
                let flag = ["pause", "full"][self.random(2) as usize];
                self.burst(COMMAND_TIME, Mix::Sizes);
                self.command(&format!(r#"{{"prefix":"osd set","key":"{flag}"}}"#), Purpose::Nothing);
                self.relieve_later(Relief::Unset(flag));
            }
            Fault::FullRatio => {
                let low = r#"{"prefix":"osd set-full-ratio","ratio":0.00001}"#;
                self.burst(COMMAND_TIME, Mix::Sizes);
                self.command(low, Purpose::Nothing);
                self.relieve_later(Relief::FullRatio);
            }
            Fault::RefuseSpace => {
                let osd = self.some_osd();
                match self.one_in(2) {
                    true => {
                        self.refuse_space(osd, true);
                        self.relieve_later(Relief::Space(osd));
                    }
                    false => self.refuse_again(osd, REFUSALS),
                }
            }
            Fault::StoreFails => {
                let osd = self.some_osd();
                let process = self.osd(osd);
                if process.is_running() {
                    process.may_fail = true;
                    process.stores.iter().for_each(|store| store.fail_commits());
                }
            }
            Fault::KillClient => {
                let client = self.some_client();
                self.restart_client_later(client);
            }
            Fault::FenceClient => self.fence_some(),
            Fault::OsdOption => {
                let cap = 1 + self.random(8);
                let set = r#""prefix":"config set","who":"osd","name":"osd_client_message_cap""#;
                self.command(&format!(r#"{{{set},"value":"{cap}"}}"#), Purpose::Nothing);
                self.relieve_later(Relief::OsdOption);
            }
            Fault::CutLinks => self.cut_links(),
            Fault::BitRot => self.rot_some(),
            Fault::FailPgs => {
                let osd = self.some_osd();
                self.fail_pgs(osd);
                self.relieve_later(Relief::Loads(osd));
            }
            Fault::MarkOut => {
                let osd = self.some_osd();
                // A PG that is made while its OSD is out is made on another, and can't be moved.
                if self.pools_are_made() {
                    self.command(&format!(r#"{{"prefix":"osd out","ids":["{osd}"]}}"#), Purpose::Nothing);
                    self.relieve_later(Relief::MarkIn(osd));
                    // One that starts, or others that did, make it doubtful who has served the PGs meanwhile.
                    if self.one_in(2) {
                        let osd = self.some_osd();
                        self.end_and_restart(osd, Ending::Killed);
                    }
                }
            }
            Fault::RaisePgs => {
                if self.plan.faults.contains(&Fault::RefuseSpace) && self.one_in(2) {
                    self.refuse_split();
                }
                self.pgs = (self.pgs * 2).min(PGS_MAX);
                let set = r#""prefix":"osd pool set","pool":"data","var":"pg_num""#;
                if self.pool.is_some() {
                    self.command(&format!(r#"{{{set},"val":"{}"}}"#, self.pgs), Purpose::Nothing);
                }
            }
        }
    }

    /// Whether every PG has been made, as far as the monitor knows.
    fn pools_are_made(&self) -> bool {
        let Some(mon) = self.mon.node.as_ref().and_then(|node| node.mon()) else { return false };
        let mut pools = mon.osdmap().pools.values();
        let are_there = self.pool.is_some() && (!self.plan.copies || self.pool_elsewhere.is_some());
        are_there && pools.all(|pool| !pool.has_flags(maps::PoolFlags::CREATING))
    }

    /// A store has no room for a moment, in which PGs are to be split: they fail, and begin again.
    fn refuse_split(&mut self) {
        let osd = self.some_osd();
        self.refuse_space(osd, true);
        self.relieve_later(Relief::Space(osd));
        self.burst(4 * COMMAND_TIME, Mix::Any);
    }

    /// Clients send more to an OSD, and their connections to it break: they send again what is not durable yet. Returns a
    /// time after which some of it still is not.
    fn disturb(&mut self, osd: i32) -> u64 {
        self.burst(0, Mix::Any);
        let commit = self.plan.commit_us.end * 1_000;
        let broken = self.random(commit);
        self.after(broken, Happening::BreakAll(osd));
        broken + self.random(commit + 4 * self.plan.delay_us.end * 1_000)
    }

    pub(crate) fn end_osd_in_map(&mut self, osd: i32) {
        if !self.is_healing {
            let ending = if self.one_in(2) { Ending::Killed } else { Ending::PowerLoss };
            self.end_and_restart(osd, ending);
        }
    }

    pub(crate) fn lose_power(&mut self, osd: i32) {
        if self.is_healing {
            return;
        }
        let pause = self.end_and_restart(osd, Ending::PowerLoss);
        // A store that was just opened gives out the blocks first that it gave up last.
        if self.one_in(3) {
            let again = pause + self.random(POWER_TIME);
            self.after(again, Happening::LosePower(osd));
        }
    }

    pub(crate) fn lose_all_power(&mut self) {
        if self.is_healing {
            return;
        }
        for osd in 0..self.plan.osds {
            self.end_and_restart(osd, Ending::PowerLoss);
        }
        self.end_and_restart_mon(true);
    }

    /// Breaks the connections of clients to an OSD; they learn of it at once.
    pub(crate) fn break_all(&mut self, osd: i32) {
        for id in self.net.of_clients(Place::Osd(osd)) {
            self.break_side(id, Way::Up, "the connection broke");
            self.break_side(id, Way::Down, "the connection broke");
        }
    }

    /// A store refuses data for a moment, and again a moment later, so many times.
    pub(crate) fn refuse_again(&mut self, osd: i32, times: u32) {
        if self.is_healing || times == 0 {
            return;
        }
        self.burst(0, Mix::Any);
        let begin = self.random(20_000_000);
        let end = begin + self.random(40_000_000);
        self.after(begin, Happening::Refuse(osd));
        self.after(end, Happening::Relieve(Relief::Space(osd)));
        let next = end + self.random(200_000_000);
        self.after(next, Happening::RefuseAgain(osd, times - 1));
    }

    /// Every client begins some operations on one object, after a time of at most `within`.
    fn burst(&mut self, within: u64, mix: Mix) {
        let slot = self.random(self.plan.objects as u64) as usize;
        for index in 0..self.plan.clients {
            let (pause, life) = (self.random(within), self.clients[index].life);
            self.after(pause, Happening::Burst(Burst { index, life, slot, left: BURST, mix }));
        }
    }

    /// A few clients and OSDs can't reach one other process each.
    fn cut_links(&mut self) {
        for _ in 0..=self.random(3) {
            let (osd, client) = (Place::Osd(self.some_osd()), Place::Client(self.some_client()));
            let link = [(client, osd), (client, osd), (client, Place::Mon), (osd, Place::Mon)];
            let link = link[self.random(4) as usize];
            self.say_fault(&format!("cut: {} from {}", link.0, link.1));
            self.net.cut_links.push(link);
        }
        self.relieve_later(Relief::Network);
    }

    /// A byte of some object of the load goes bad in its store.
    fn rot_some(&mut self) {
        let osd = self.some_osd();
        let shard = self.random(self.plan.shards.len() as u64) as usize;
        let store = self.osd(osd).stores[shard].clone();
        let objects = store.objects(self.time());
        let which = self.random(objects.len() as u64) as usize;
        // The store has no object of the load yet.
        let Some((collection, object, size)) = objects.get(which) else { return };
        let offset = self.random(*size);
        let Some(damage) = store.damage(*collection, object, offset) else { return };
        // A change of a part of the block has to read the rest: a disk that can't ends the OSD.
        self.osd(osd).may_fail |= damage == Damage::Unreadable;
        let name = String::from_utf8_lossy(object.hobj.name.as_bytes()).into_owned();
        self.say_fault(&format!("byte {offset} of {name} at {} goes bad: {damage:?}", object.hobj.snap));
        if let Some(object) = self.history.objects.iter().position(|known| *known == name) {
            for _ in 0..READS_AGAIN {
                let pause = self.some_while();
                self.after(pause, Happening::ReadAgain(object));
            }
        }
        self.damaged.insert(name);
        // A process that has nothing of it in memory has to read it.
        if self.one_in(2) {
            self.end_and_restart(osd, Ending::Killed);
        }
    }

    fn relieve_later(&mut self, relief: Relief) {
        let pause = self.some_while();
        self.after(pause, Happening::Relieve(relief));
    }

    pub(crate) fn relieve(&mut self, relief: Relief) {
        self.say_fault(&format!("over: {relief:?}"));
        match relief {
            Relief::Network => self.heal_network(),
            Relief::Unset(flag) => {
                self.command(&format!(r#"{{"prefix":"osd unset","key":"{flag}"}}"#), Purpose::Nothing);
            }
            Relief::FullRatio => {
                self.command(r#"{"prefix":"osd set-full-ratio","ratio":0.95}"#, Purpose::Nothing);
            }
            Relief::Space(osd) => self.refuse_space(osd, false),
            Relief::MarkIn(osd) => {
                self.command(&format!(r#"{{"prefix":"osd in","ids":["{osd}"]}}"#), Purpose::Nothing);
            }
            Relief::Loads(osd) => self.load_again(osd),
            Relief::OsdOption => {
                let rm = r#"{"prefix":"config rm","who":"osd","name":"osd_client_message_cap"}"#;
                self.command(rm, Purpose::Nothing);
            }
        }
    }

    /// An OSD is started again, and none of its PGs can be loaded.
    fn fail_pgs(&mut self, osd: i32) {
        self.osd(osd).stores.iter().for_each(|store| store.fail_loads(true));
        if self.osd(osd).is_running() {
            self.end_osd(osd, Ending::Killed);
        }
        self.start_osd(osd);
    }

    fn load_again(&mut self, osd: i32) {
        self.osd(osd).stores.iter().for_each(|store| store.fail_loads(false));
        if self.osd(osd).is_running() {
            self.end_osd(osd, Ending::Killed);
        }
        self.start_osd(osd);
    }

    /// After everything was healed: an OSD whose PGs have all failed asks clients to hold back, and holds nothing of theirs.
    /// Started again it serves them.
    pub(crate) fn end_failures(&mut self) {
        for osd in 0..self.plan.osds {
            let process = self.osd(osd);
            // PGs that were made since have not failed; what was split off them may have.
            if !process.stores.iter().any(StoreHandle::has_failed) {
                process.stores.iter().for_each(|store| store.fail_loads(false));
                continue;
            }
            let all = process.stores.iter().all(StoreHandle::all_have_failed);
            if let Some(held) = process.budget_held().filter(|_| all && process.is_running()) {
                self.fail(format!("of clients whose PGs have failed {held}"));
            }
            self.load_again(osd);
        }
    }

    pub(crate) fn refuse_space(&mut self, osd: i32, refuse: bool) {
        self.osd(osd).stores.iter().for_each(|store| store.refuse_space(refuse));
    }

    fn reset_some(&mut self) {
        let ids: Vec<_> = self.net.connections.keys().copied().collect();
        if let Some(id) = ids.get(self.random(ids.len() as u64) as usize) {
            self.break_connection(*id);
        }
    }

    fn cut_off_some(&mut self) {
        let mut places: Vec<Place> = (0..self.plan.osds).map(Place::Osd).collect();
        places.extend((0..self.clients.len()).map(Place::Client));
        places.push(Place::Mon);
        let few = self.one_in(2);
        let odds = if few { places.len() as u64 } else { 2 };
        places.retain(|_| self.one_in(odds));
        self.say_fault(&format!("cut off: {places:?}"));
        self.net.cut_off = places;
        self.relieve_later(Relief::Network);
    }

    /// Returns after which time it is started.
    fn end_and_restart(&mut self, osd: i32, ending: Ending) -> u64 {
        if self.osd(osd).is_running() {
            self.end_osd(osd, ending);
        }
        let pause = self.some_while();
        self.after(pause, Happening::StartOsd(osd));
        pause
    }

    fn end_and_restart_mon(&mut self, silent: bool) {
        if self.mon.node.is_some() {
            self.end_mon(silent);
        }
        let pause = self.some_while();
        self.after(pause, Happening::StartMon);
    }

    fn restart_client_later(&mut self, client: usize) {
        if self.clients[client].alive {
            self.end_client(client);
        }
        let pause = self.some_while();
        self.after(pause, Happening::StartClient(client));
    }

    fn fence_some(&mut self) {
        let client = self.some_client();
        let life = self.clients[client].life;
        if !self.fenced.insert((client, life)) {
            return;
        }
        let addr = client_addr(client, life);
        let socket = addr.socket.unwrap();
        let what = r#""prefix":"osd blocklist","blocklistop":"add","expire":86400"#;
        let json = format!(r#"{{{what},"addr":"{socket}/{}"}}"#, addr.nonce);
        self.command(&json, Purpose::Fence { client, life });
        // It begins its next operation at once, which otherwise might come after the fence.
        self.after(0, Happening::Think(client, life));
    }

    /// An OSD reported a client as fenced: its process ends, and another takes its place.
    pub(crate) fn fenced_client_learns(&mut self, client: usize) {
        let life = self.clients[client].life;
        if !self.fenced.contains(&(client, life)) {
            return self.fail(format!("client{client} is shut out without being fenced"));
        }
        if !std::mem::replace(&mut self.clients[client].is_fenced, true) {
            let pause = self.some_while();
            self.after(pause, Happening::ReplaceClient(client, life));
        }
    }

    pub(crate) fn replace_client(&mut self, client: usize, life: u32) {
        if self.clients[client].life == life && self.clients[client].alive {
            self.end_client(client);
            self.start_client(client);
        }
    }

    /// Gives an OSD a larger store if it has a small one: writes that wait for space would never end.
    fn make_room(&mut self, osd: i32) {
        if self.plan.store_bytes < LARGE_STORE {
            if self.osd(osd).is_running() {
                self.end_osd(osd, Ending::Killed);
            }
            self.osd(osd).resize(LARGE_STORE);
        }
    }

    /// Ends every lasting fault, and starts every process that does not run.
    pub(crate) fn heal(&mut self) {
        self.is_healing = true;
        self.say_fault("everything is healed");
        self.heal_network();
        if self.mon.node.is_none() {
            self.start_mon();
        }
        for osd in 0..self.plan.osds {
            self.refuse_space(osd, false);
            if self.osd(osd).stores.iter().any(StoreHandle::fails_loads) {
                self.load_again(osd);
            }
            self.make_room(osd);
            self.start_osd(osd);
        }
        if self.plan.faults.contains(&Fault::FailPgs) {
            let osd = self.some_osd();
            self.say_fault(&format!("the PGs of osd.{osd} fail"));
            self.fail_pgs(osd);
            self.after(FAILURE_TIME, Happening::EndFailures);
        }
        let reliefs = [Relief::Unset("pause"), Relief::Unset("full"), Relief::FullRatio, Relief::OsdOption];
        for relief in reliefs.into_iter().chain((0..self.plan.osds).map(Relief::MarkIn)) {
            self.relieve(relief);
            // A delayed copy of a command that was sent twice may have set it again.
            self.after(20 * SECOND, Happening::Relieve(relief));
        }
    }
}
