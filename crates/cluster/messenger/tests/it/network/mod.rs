//! Messengers of several OSDs under a network that delays, cuts and forgets as a seed says.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::SessionId;
use messages::{Message, MonGetVersion};
use messenger::{
    Daemon, Effect, Endpoint, Event, Messenger, MessengerConfig, OutQueue, Role, SessionEvent, SocketEffect,
    SocketId,
};
use msgr::{Limits, Local};
use types::{EntityAddr, EntityType, OsdId, Profile, SplitMix64, UTime};

/// The window of a peer: a few messages.
pub const PEER_BYTES_MAX: usize = 8000;

const START: u64 = 1_800_000_000_000_000_000;

/// What the network does to the bytes of one flush, which are whole frames.
pub type Tamper = fn(&mut SplitMix64, Vec<u8>) -> Vec<u8>;

/// What a node received from another, by the receiver's session.
pub type Received = BTreeMap<SessionId, Vec<u64>>;

pub struct Node {
    pub messenger: Messenger,
    pub endpoint: Endpoint,
    pub addr: EntityAddr,
    /// Messages sent to each other node.
    pub sent: Vec<u64>,
    pub received: Vec<Received>,
    /// All that came from a node, in the order of arrival.
    pub arrived: Vec<Vec<u64>>,
    /// Which node a session is with.
    peers: BTreeMap<SessionId, usize>,
    /// Addresses that were full, without news of room since.
    full: BTreeSet<EntityAddr>,
    pub resets: usize,
    /// Sessions forgotten before they opened, with messages.
    pub lost: usize,
    pub closed: usize,
    pub log: Vec<String>,
}

/// One connection: two ends, and the bytes on their way to each.
struct Link {
    ends: [Option<(usize, SocketId)>; 2],
    under_way: [VecDeque<u8>; 2],
    /// The end was closed on the other side; known once the bytes are read.
    closed: [bool; 2],
    /// Bytes go nowhere, and no end learns of it.
    dead: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub seed: u64,
    pub nodes: usize,
    pub role: Role,
    /// Steps with sends and faults, before the network heals.
    pub steps: u64,
    /// A fault comes once in so many steps.
    pub fault_every: u64,
}

pub struct World {
    pub nodes: Vec<Node>,
    links: Vec<Link>,
    /// Sockets that are being connected, and where to.
    dials: Vec<(usize, SocketId, SocketAddr)>,
    by_socket: BTreeMap<(usize, SocketId), (usize, usize)>,
    pub random: SplitMix64,
    pub now: u64,
    tamper: Option<Tamper>,
    pub trace: u64,
    pub unacked_most: usize,
    /// Messages that were refused for lack of room.
    pub refused: u64,
}

fn config(plan: Plan, number: usize) -> MessengerConfig {
    MessengerConfig {
        core: number as u16,
        connections_max: 1000,
        unfinished_bytes_max: 1 << 20,
        ready_timeout: Duration::from_secs(10),
        initial_backoff: Duration::from_millis(200),
        max_backoff: Duration::from_secs(15),
        peer_bytes_max: PEER_BYTES_MAX,
        check_in_memory: true,
        cookie_seed: plan.seed.wrapping_mul(77) + number as u64,
        usage: Arc::default(),
    }
}

impl Node {
    fn new(plan: Plan, number: usize) -> Self {
        let addr = address(number);
        let endpoint = Endpoint::new(Daemon::Osd(OsdId(number as i32)), plan.role);
        let mut messenger = Messenger::new(config(plan, number));
        let local = Local {
            kind: EntityType::Osd,
            num: number as i64,
            addrs: addr.into(),
            features_supported: Profile::PACIFIC.features_supported,
            features_required: 0,
            lossless_peers: plan.role.lossless_peers(),
            limits: Limits::default(),
        };
        messenger.set_endpoint(endpoint, local);
        Self {
            messenger,
            endpoint,
            addr,
            sent: vec![0; plan.nodes],
            received: vec![BTreeMap::new(); plan.nodes],
            arrived: vec![Vec::new(); plan.nodes],
            peers: BTreeMap::new(),
            full: BTreeSet::new(),
            resets: 0,
            lost: 0,
            closed: 0,
            log: Vec::new(),
        }
    }
}

/// The nonces rise as the ports fall: the order of addresses is the nonces'.
fn address(number: usize) -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 6900 - number as u16).into(), 1 + number as u32)
}

impl World {
    pub fn new(plan: Plan, tamper: Option<Tamper>) -> Self {
        Self {
            nodes: (0..plan.nodes).map(|n| Node::new(plan, n)).collect(),
            links: Vec::new(),
            dials: Vec::new(),
            by_socket: BTreeMap::new(),
            random: SplitMix64::new(plan.seed),
            now: START,
            tamper,
            trace: 0,
            unacked_most: 0,
            refused: 0,
        }
    }

    fn now(&self) -> UTime {
        UTime::from_nanos(self.now)
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.below(n as u64) as usize
    }

    fn note(&mut self, what: u64) {
        self.trace = self.trace.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ what;
    }

    /// Sends the next message from one node to another.
    pub fn send(&mut self, from: usize, to: usize) {
        let now = self.now();
        let addr = self.nodes[to].addr;
        let node = &mut self.nodes[from];
        node.sent[to] += 1;
        let n = node.sent[to];
        let what = "x".repeat(if n % 5 == 0 { 3000 } else { 3 });
        let message = MonGetVersion { handle: n, what }.into();
        if node.messenger.send_peer(now, node.endpoint, &addr.into(), message).is_err() {
            node.sent[to] -= 1;
            node.full.insert(addr);
            self.refused += 1;
        }
        self.settle(from);
    }

    /// Performs what a node's messenger wants.
    pub fn settle(&mut self, n: usize) {
        loop {
            while let Some(effect) = self.nodes[n].messenger.poll() {
                self.perform(n, effect);
            }
            self.nodes[n].messenger.flush();
            if !self.nodes[n].messenger.has_effects() {
                return;
            }
        }
    }

    fn perform(&mut self, n: usize, effect: Effect) {
        match effect {
            Effect::Socket(SocketEffect::Dial(id, to)) => self.dials.push((n, id, to)),
            Effect::Socket(SocketEffect::Flush(id)) => {
                let bytes = self.nodes[n].messenger.out_queue(id).map(take).unwrap_or_default();
                self.carry(n, id, bytes);
            }
            Effect::Socket(SocketEffect::Interest(_)) => {}
            Effect::Socket(SocketEffect::Close(id, mut rest)) => {
                self.dials.retain(|dial| (dial.0, dial.1) != (n, id));
                let bytes = take(&mut rest);
                self.carry(n, id, bytes);
                if let Some((link, end)) = self.by_socket.remove(&(n, id)) {
                    self.links[link].ends[end] = None;
                    self.links[link].closed[1 - end] = true;
                }
            }
            Effect::ToCore(message) => panic!("one core each: {message:?}"),
            // There is no other core to learn of it.
            Effect::ToAllCores(_) => {}
            Effect::Log(_, _, text) => self.nodes[n].log.push(text),
            Effect::Daemon(_, event) => self.learn(n, event),
        }
    }

    fn learn(&mut self, n: usize, event: SessionEvent) {
        let node = &mut self.nodes[n];
        match event {
            SessionEvent::Opened(info) => {
                node.peers.insert(info.id, info.name.num as usize);
            }
            SessionEvent::Closed(_) => node.closed += 1,
            SessionEvent::PeerRoom(addr) => assert!(node.full.remove(&addr), "it was not full"),
            SessionEvent::PeerLost(_) => node.lost += 1,
            SessionEvent::Reset(_) => node.resets += 1,
            SessionEvent::Message { session, message, .. } => {
                let Message::MonGetVersion(m) = message else { panic!("{} came", message.name()) };
                let from = node.peers[&session];
                node.received[from].entry(session).or_default().push(m.handle);
                node.arrived[from].push(m.handle);
                self.note(m.handle << 8 | from as u64);
            }
            SessionEvent::GlobalIdWanted { .. } | SessionEvent::Behind { .. } | SessionEvent::Monitor(_) => {
                panic!("{event:?}")
            }
        }
    }

    fn carry(&mut self, n: usize, id: SocketId, bytes: Vec<u8>) {
        let Some((link, end)) = self.by_socket.get(&(n, id)).copied() else { return };
        let bytes = match self.tamper {
            Some(tamper) => tamper(&mut self.random, bytes),
            None => bytes,
        };
        if !self.links[link].dead {
            self.links[link].under_way[1 - end].extend(bytes);
        }
    }

    fn event(&mut self, n: usize, event: Event<'_>) {
        let now = self.now();
        self.nodes[n].messenger.handle(now, event);
        self.settle(n);
    }

    /// Gives a node another address; the others are told, as a map does.
    pub fn rebind(&mut self, n: usize) {
        let (now, old) = (self.now(), self.nodes[n].addr);
        let addr = EntityAddr::v2(([127, 0, 0, 1], 7000 + n as u16).into(), old.nonce + 100);
        let endpoint = self.nodes[n].endpoint;
        self.nodes[n].messenger.rebind(now, endpoint, addr);
        self.nodes[n].addr = addr;
        self.settle(n);
    }

    /// A node forgets its session with an address.
    pub fn forget(&mut self, n: usize, addr: EntityAddr) {
        let (now, endpoint) = (self.now(), self.nodes[n].endpoint);
        self.nodes[n].messenger.close_peer(now, endpoint, &addr.into(), "another address");
        self.settle(n);
    }

    // What the network does.

    fn connect(&mut self, which: usize) {
        let (n, id, to) = self.dials.remove(which);
        let Some(target) = self.nodes.iter().position(|node| node.addr.socket == Some(to)) else {
            return self.event(n, Event::Failed(id, "refused".into()));
        };
        let (now, endpoint) = (self.now(), self.nodes[target].endpoint);
        let from = ([127, 0, 0, 1], 40_000 + self.links.len() as u16).into();
        let link = self.links.len();
        self.links.push(Link {
            ends: [Some((n, id)), None],
            under_way: Default::default(),
            closed: [false; 2],
            dead: false,
        });
        self.by_socket.insert((n, id), (link, 0));
        let accepted = self.nodes[target].messenger.accept(now, endpoint, from).unwrap();
        self.links[link].ends[1] = Some((target, accepted));
        self.by_socket.insert((target, accepted), (link, 1));
        self.settle(target);
        self.event(n, Event::Connected(id));
    }

    /// Ends of links that have something to read: bytes, or the end.
    fn readable(&self) -> Vec<(usize, usize)> {
        let ends = (0..self.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
        ends.filter(|&(link, end)| {
            let l = &self.links[link];
            l.ends[end].is_some() && !l.dead && (!l.under_way[end].is_empty() || l.closed[end])
        })
        .collect()
    }

    /// Reads at most `most` bytes at an end of a link, or its end.
    fn read(&mut self, (link, end): (usize, usize), most: usize) {
        let Some((n, id)) = self.links[link].ends[end] else { return };
        if self.links[link].under_way[end].is_empty() {
            return self.event(n, Event::EndOfStream(id));
        }
        let now = self.now();
        let l = &mut self.links[link];
        let bytes = l.under_way[end].make_contiguous();
        let len = bytes.len().min(most);
        let node = &mut self.nodes[n];
        let mut arrived = &bytes[..len];
        let taken = node.messenger.read_slices(now, id).map(|mut to| arrived.read_vectored(&mut to).unwrap());
        if let Some(taken) = taken {
            node.messenger.handle(now, Event::Read(id, taken));
        }
        l.under_way[end].drain(..taken.unwrap_or(0));
        self.settle(n);
    }

    fn fail(&mut self, link: usize, end: usize) {
        if let Some((n, id)) = self.links[link].ends[end] {
            self.event(n, Event::Failed(id, "reset".into()));
        }
    }

    fn fault(&mut self) {
        let live: Vec<usize> =
            (0..self.links.len()).filter(|&l| self.links[l].ends.iter().any(Option::is_some)).collect();
        match self.below(6) {
            // A dial that nothing answers.
            0 if !self.dials.is_empty() => {
                let which = self.below(self.dials.len());
                let (n, id, _) = self.dials.remove(which);
                self.event(n, Event::Failed(id, "refused".into()));
            }
            1 => self.pass(Duration::from_millis(300)),
            kind if !live.is_empty() => {
                let link = live[self.below(live.len())];
                match kind {
                    // Reset: what is under way is lost, and both learn of it.
                    2 | 3 => {
                        self.links[link].under_way = Default::default();
                        self.fail(link, 0);
                        self.fail(link, 1);
                    }
                    // One side learns of it; or, half-open, none.
                    4 => {
                        self.links[link].dead = true;
                        let end = self.below(2);
                        self.fail(link, end);
                    }
                    _ => self.links[link].dead = true,
                }
            }
            _ => {}
        }
    }

    pub fn pass(&mut self, by: Duration) {
        self.now += by.as_nanos() as u64;
        for n in 0..self.nodes.len() {
            if self.nodes[n].messenger.deadline().is_some_and(|at| at <= self.now()) {
                self.event(n, Event::Tick);
            }
        }
    }

    /// One thing that can happen, by chance. `false`: nothing can without time.
    fn step(&mut self) -> bool {
        let readable = self.readable();
        let choices = readable.len() + self.dials.len();
        if choices == 0 {
            return false;
        }
        let which = self.below(choices);
        match readable.get(which) {
            Some(end) => {
                let most = [1, 30, 100, 1 << 20][self.below(4)];
                self.read(*end, most);
            }
            None => self.connect(which - readable.len()),
        }
        self.now += 10_000;
        true
    }

    /// Sends and faults, then a network without faults until nothing is left to happen.
    pub fn run(plan: Plan, tamper: Option<Tamper>) -> Result<Self, String> {
        let mut world = Self::new(plan, tamper);
        for _ in 0..plan.steps {
            if world.random.below(4) == 0 {
                let from = world.below(plan.nodes);
                let to = (from + 1 + world.below(plan.nodes - 1)) % plan.nodes;
                world.send(from, to);
            }
            if world.random.below(plan.fault_every) == 0 {
                world.fault();
            }
            if !world.step() {
                world.pass(Duration::from_millis(20));
            }
            world.measure();
        }
        world.heal()?;
        Ok(world)
    }

    fn measure(&mut self) {
        for node in &self.nodes {
            for session in node.peers.keys() {
                self.unacked_most = self.unacked_most.max(node.messenger.unacked_bytes(*session));
            }
        }
    }

    pub fn heal(&mut self) -> Result<(), String> {
        let end = self.now + 600_000_000_000;
        let mut steps = 0;
        loop {
            while self.step() {
                steps += 1;
                if steps > 100_000 {
                    return Err("it never comes to rest".into());
                }
            }
            let Some(next) = self.nodes.iter().filter_map(|n| n.messenger.deadline()).min() else { break };
            if next.as_nanos() > end {
                break;
            }
            self.now = self.now.max(next.as_nanos());
            self.pass(Duration::ZERO);
            if self.all_arrived() && self.now > end - 300_000_000_000 {
                break;
            }
        }
        Ok(())
    }

    fn all_arrived(&self) -> bool {
        let n = self.nodes.len();
        (0..n).all(|a| (0..n).all(|b| self.nodes[b].arrived[a].len() as u64 >= self.nodes[a].sent[b]))
    }

    /// Every message arrived once and in order, and no session was lost.
    pub fn check_lossless(&self) -> Result<(), String> {
        for (a, from) in self.nodes.iter().enumerate() {
            for (b, to) in self.nodes.iter().enumerate() {
                let expected: Vec<u64> = (1..=from.sent[b]).collect();
                if to.arrived[a] != expected {
                    return Err(format!(
                        "osd.{a} sent {} to osd.{b}, came {:?}",
                        from.sent[b], to.arrived[a]
                    ));
                }
            }
            if !from.full.is_empty() {
                return Err(format!("osd.{a} was never told of room at {:?}", from.full));
            }
            if (from.resets, from.closed, from.lost) != (0, 0, 0) {
                let log = from.log.join("\n  ");
                let (resets, closed, lost) = (from.resets, from.closed, from.lost);
                return Err(format!("osd.{a}: {resets} resets, {closed} closed, {lost} lost\n  {log}"));
            }
        }
        Ok(())
    }

    /// What came over each session is a run of what was sent, without a gap.
    pub fn check_lossy(&self) -> Result<(), String> {
        for (b, to) in self.nodes.iter().enumerate() {
            for came in to.received.iter().flat_map(BTreeMap::values) {
                if came.windows(2).any(|pair| pair[1] != pair[0] + 1) {
                    return Err(format!("osd.{b} received {came:?}"));
                }
            }
        }
        Ok(())
    }
}

/// Everything in a queue.
fn take(queue: &mut OutQueue) -> Vec<u8> {
    let mut out = Vec::new();
    queue
        .write_to(|slices| {
            slices.iter().for_each(|slice| out.extend_from_slice(slice));
            Ok(slices.iter().map(|slice| slice.len()).sum())
        })
        .unwrap();
    out
}
