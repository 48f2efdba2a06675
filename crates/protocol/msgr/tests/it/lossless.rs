//! Two endpoints, no sockets: a lossless session that is cut anywhere delivers each message once and in order.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use auth::{ClientNone, ServerNone, Service};
use buffer::Piece;
use msgr::{
    Accept, AcceptDecision, CloseReason, Connect, Connection, Effect, Limits, Local, MessageHeader,
    RawMessage, Session, SessionRequest,
};
use types::{EntityAddr, EntityType, Profile, SplitMix64};

/// A socket's end: its connection, and the frames that wait to go to the other end.
struct End {
    connection: Connection,
    outgoing: VecDeque<Vec<u8>>,
}

/// An OSD: its connections by the link they are on, and its session where no connection has it.
struct Node {
    addr: EntityAddr,
    peer: EntityAddr,
    local: Arc<Local>,
    number: i64,
    global_seq: u64,
    cookie: u64,
    ends: BTreeMap<u64, End>,
    /// Frames under way from ends that were closed here: unless their link is cut, the other side gets them.
    leaving: BTreeMap<u64, VecDeque<Vec<u8>>>,
    idle: Option<Session>,
    sent: u64,
    received: Vec<u64>,
    resets: u64,
}

impl Node {
    fn new(number: i64, port: u16, peer_port: u16) -> Self {
        let addr = |port: u16, nonce| EntityAddr::v2(([127, 0, 0, 1], port).into(), nonce);
        let own = addr(port, 1);
        let local = Local {
            kind: EntityType::Osd,
            num: number,
            addrs: own.into(),
            features_supported: Profile::PACIFIC.features_supported,
            features_required: 0,
            lossless_peers: vec![EntityType::Osd],
            limits: Limits::default(),
        };
        Self {
            addr: own,
            peer: addr(peer_port, 1),
            local: Arc::new(local),
            number,
            global_seq: 0,
            cookie: 1000 * (number as u64 + 1),
            ends: BTreeMap::new(),
            leaving: BTreeMap::new(),
            idle: Some(Session::lossless()),
            sent: 0,
            received: Vec::new(),
            resets: 0,
        }
    }

    fn next_global_seq(&mut self) -> u64 {
        self.global_seq += 1;
        self.global_seq
    }

    fn next_cookie(&mut self) -> u64 {
        self.cookie += 1;
        self.cookie
    }

    fn holder(&self) -> Option<u64> {
        self.ends.iter().find(|(_, end)| end.connection.session().is_lossless()).map(|(link, _)| *link)
    }

    fn send(&mut self) {
        self.sent += 1;
        let header = MessageHeader { tid: self.sent, kind: 41, ..MessageHeader::default() };
        let message = RawMessage::new(header, Piece::copy_from(&self.sent.to_le_bytes()));
        match self.holder() {
            Some(link) => self.ends.get_mut(&link).unwrap().connection.send(message),
            None => {
                assert!(self.idle.as_mut().expect("a session somewhere").send(message).unwrap().is_none())
            }
        }
    }

    fn dial(&mut self, link: u64) {
        let session = self.idle.take().expect("dials only with the session in hand");
        let method = Box::new(ClientNone::new(Service::Daemon, "osd.0".parse().unwrap(), 1));
        let connect = Connect {
            target: self.peer,
            peer_kind: EntityType::Osd,
            method,
            global_seq: self.next_global_seq(),
            session: Some((session, self.next_cookie())),
        };
        let connection = Connection::connect(self.local.clone(), connect);
        self.ends.insert(link, End { connection, outgoing: VecDeque::new() });
    }

    fn accept(&mut self, link: u64) {
        let accept = Accept {
            peer: self.peer,
            method: Box::new(ServerNone::new(Service::Daemon)),
            global_seq: self.next_global_seq(),
        };
        let connection = Connection::accept(self.local.clone(), accept);
        self.ends.insert(link, End { connection, outgoing: VecDeque::new() });
    }

    /// The link broke, as far as this side knows.
    fn lose(&mut self, link: u64) {
        if let Some(mut end) = self.ends.remove(&link) {
            self.global_seq = self.global_seq.max(end.connection.global_seq());
            if let Some(session) = end.connection.take_session() {
                assert!(self.idle.replace(session).is_none(), "there is one session");
            }
            self.leaving.insert(link, end.outgoing);
        }
    }

    /// Performs what the connection asks for; whether it ended.
    fn perform(&mut self, link: u64) -> bool {
        while let Some(end) = self.ends.get_mut(&link) {
            let Some(effect) = end.connection.poll() else { return false };
            match effect {
                Effect::Write(rope) => end.outgoing.push_back(rope.to_vec()),
                Effect::Message(message) => {
                    let bytes: [u8; 8] = message.front[..].try_into().unwrap();
                    self.received.push(u64::from_le_bytes(bytes));
                }
                Effect::SessionWanted(request) => self.answer(link, &request),
                Effect::SessionReset => self.resets += 1,
                Effect::Established(info) => {
                    assert!(!info.lossy);
                    assert_eq!(info.name.num, 1 - self.number, "a reconnection still knows the peer");
                    assert_eq!(info.features, Profile::PACIFIC.features_supported);
                }
                Effect::Close(reason) => {
                    let honest =
                        matches!(reason, CloseReason::LostRace | CloseReason::Stale | CloseReason::Replaced);
                    assert!(honest, "osd.{}: {reason}", self.number);
                    self.lose(link);
                    return true;
                }
                effect => panic!("{effect:?}"),
            }
        }
        true
    }

    fn answer(&mut self, link: u64, request: &SessionRequest) {
        let holder = self.holder();
        let existing = match holder {
            Some(holder) => Some(self.ends[&holder].connection.session()),
            None => self.idle.as_ref(),
        };
        let verdict = Session::judge(existing, request, &self.addr.into());
        if verdict == AcceptDecision::TakeOver {
            holder.into_iter().for_each(|holder| self.lose(holder));
        }
        let (cookie, global_seq) = (self.next_cookie(), self.next_global_seq());
        let connection = &mut self.ends.get_mut(&link).unwrap().connection;
        match verdict {
            AcceptDecision::TakeOver => {
                connection.open_session(self.idle.take().unwrap(), cookie, global_seq)
            }
            AcceptDecision::Fresh => connection.open_session(Session::lossless(), cookie, global_seq),
            AcceptDecision::Reply(control) => connection.refuse_session(&control),
            AcceptDecision::Close(reason) => connection.close(reason),
        }
    }
}

/// How a run goes.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    /// Cuts come after these counts of delivered frames.
    cuts: [u64; 3],
    /// Messages that each side sends.
    messages: u64,
    /// Whether the second node dials too.
    both_dial: bool,
    /// Whether each side sees a cut at once (bit 0 and bit 1); one that doesn't goes on with a dead connection.
    notice: u64,
}

struct World {
    nodes: [Node; 2],
    links: u64,
    /// Links that were cut, and since which round: what is written to them is lost.
    dead: BTreeMap<u64, u64>,
    round: u64,
    delivered: u64,
    random: SplitMix64,
}

impl World {
    fn new(seed: u64) -> Self {
        let nodes = [Node::new(0, 6800, 6801), Node::new(1, 6801, 6800)];
        Self { nodes, links: 0, dead: BTreeMap::new(), round: 0, delivered: 0, random: SplitMix64::new(seed) }
    }

    fn dial(&mut self, from: usize) {
        self.links += 1;
        self.nodes[from].dial(self.links);
        self.nodes[1 - from].accept(self.links);
        (0..2).for_each(|node| self.perform(node, self.links));
    }

    /// A node's connection on the link; where it ends, the other side sees that once it has read what was written.
    fn perform(&mut self, node: usize, link: u64) {
        self.nodes[node].perform(link);
    }

    /// Takes a frame over one of the links that has some, chosen by the seed. `false` if nothing moves.
    fn deliver_one(&mut self) -> bool {
        for node in &mut self.nodes {
            node.leaving.retain(|link, frames| !frames.is_empty() && !self.dead.contains_key(link));
        }
        if let Some((node, link)) = self.end_of_stream() {
            self.nodes[node].lose(link);
            return true;
        }
        let mut choices = Vec::new();
        for (from, node) in self.nodes.iter().enumerate() {
            let open = node.ends.iter().filter(|(_, end)| !end.outgoing.is_empty()).map(|(link, _)| *link);
            choices.extend(open.chain(node.leaving.keys().copied()).map(|link| (from, link)));
        }
        choices.retain(|(_, link)| !self.dead.contains_key(link));
        if choices.is_empty() {
            return false;
        }
        let (from, link) = choices[self.random.below(choices.len() as u64) as usize];
        let node = &mut self.nodes[from];
        let frames = match node.ends.get_mut(&link) {
            Some(end) => &mut end.outgoing,
            None => node.leaving.get_mut(&link).unwrap(),
        };
        let frame = frames.pop_front().unwrap();
        if let Some(end) = self.nodes[1 - from].ends.get_mut(&link) {
            end.connection.feed(&frame);
            self.perform(1 - from, link);
        }
        self.delivered += 1;
        true
    }

    /// An end whose other end was closed and has nothing more under way.
    fn end_of_stream(&self) -> Option<(usize, u64)> {
        (0..2).find_map(|node| {
            let other = &self.nodes[1 - node];
            let gone = |link: &&u64| {
                !other.ends.contains_key(link)
                    && !other.leaving.contains_key(link)
                    && !self.dead.contains_key(link)
            };
            self.nodes[node].ends.keys().find(gone).map(|link| (node, *link))
        })
    }

    /// Ends every link. A side that doesn't notice keeps its connection, whose bytes go nowhere.
    fn cut(&mut self, notice: u64) {
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let links: Vec<u64> = node.ends.keys().copied().collect();
            for link in links {
                self.dead.insert(link, self.round);
                if notice >> number & 1 == 1 {
                    node.lose(link);
                }
            }
        }
    }

    /// A connection that is dead unnoticed ends after a while, by a keepalive without an answer.
    fn time_out(&mut self) {
        self.round += 1;
        let due: Vec<u64> =
            self.dead.iter().filter(|(_, since)| **since + 150 < self.round).map(|(l, _)| *l).collect();
        for link in due {
            self.dead.remove(&link);
            self.nodes.iter_mut().for_each(|node| node.lose(link));
        }
    }
}

/// Runs until both sides have everything; how many frames that took.
fn run(plan: Plan) -> u64 {
    let mut world = World::new(plan.seed);
    let mut cuts = plan.cuts.iter().copied().filter(|&cut| cut > 0).peekable();
    let mut idle_rounds = 0;
    loop {
        for node in 0..2 {
            if world.nodes[node].sent < plan.messages && world.random.below(3) == 0 {
                world.nodes[node].send();
                let links: Vec<u64> = world.nodes[node].ends.keys().copied().collect();
                links.into_iter().for_each(|link| world.perform(node, link));
            }
            let dials = node == 0 || plan.both_dial;
            if dials && world.nodes[node].idle.is_some() && world.random.below(2) == 0 {
                world.dial(node);
            }
        }
        if cuts.next_if(|&cut| cut <= world.delivered).is_some() {
            world.cut(plan.notice);
        }
        if !world.deliver_one() {
            idle_rounds += 1;
        } else {
            idle_rounds = 0;
        }
        let done = |node: &Node, other: &Node| {
            node.sent == plan.messages && other.received.len() as u64 >= node.sent
        };
        let [a, b] = &world.nodes;
        if done(a, b) && done(b, a) && idle_rounds > 3 {
            break;
        }
        world.time_out();
        assert!(world.links < 500 && world.round < 20_000, "no end: {plan:?}");
    }
    let expected: Vec<u64> = (1..=plan.messages).collect();
    for node in &world.nodes {
        assert_eq!(node.received, expected, "osd.{} with {plan:?}", node.number);
        assert_eq!(node.resets, 0, "nobody restarted: {plan:?}");
    }
    world.delivered
}

const WHOLE: Plan = Plan { seed: 7, cuts: [0; 3], messages: 8, both_dial: false, notice: 3 };

#[test]
fn an_uncut_session_delivers_and_is_drained_by_acknowledgements() {
    let mut world = World::new(1);
    world.dial(0);
    (0..20).for_each(|_| world.nodes[0].send());
    world.perform(0, 1);
    while world.deliver_one() {}
    assert_eq!(world.nodes[1].received.len(), 20);
    let session = world.nodes[0].ends[&1].connection.session();
    assert!(session.is_drained(), "{} bytes unacknowledged", session.unacked_bytes());
}

#[test]
fn cut_at_every_frame_boundary_each_message_arrives_once_and_in_order() {
    for both_dial in [false, true] {
        for seed in 1..=6 {
            let frames = run(Plan { seed, both_dial, ..WHOLE });
            println!("seed {seed}, both dial {both_dial}: {frames} frames");
            for cut in 1..=frames {
                for notice in 0..4 {
                    run(Plan { seed, both_dial, cuts: [cut, 0, 0], notice, ..WHOLE });
                }
            }
        }
    }
}

#[test]
fn cut_again_while_it_reconnects_each_message_arrives_once_and_in_order() {
    for both_dial in [false, true] {
        let seed = 11;
        println!("seed {seed}");
        let frames = run(Plan { seed, both_dial, ..WHOLE });
        for first in (1..=frames).step_by(2) {
            for second in (first + 1..first + 24).step_by(2) {
                for notice in 0..4 {
                    let cuts = [first, second, 0];
                    run(Plan { seed: seed + first, both_dial, cuts, notice, ..WHOLE });
                }
            }
        }
    }
}

#[test]
fn cut_three_times_at_random_each_message_arrives_once_and_in_order() {
    let seed = 4711;
    println!("seed {seed}");
    let mut random = SplitMix64::new(seed);
    for _ in 0..1000 {
        let mut at = 0;
        let cuts = [(); 3].map(|()| {
            at += 1 + random.below(30);
            at
        });
        let plan = Plan {
            seed: random.next_u64(),
            cuts,
            messages: 1 + random.below(20),
            both_dial: random.below(2) == 0,
            notice: random.below(4),
        };
        run(plan);
    }
}

#[test]
fn a_peer_that_restarted_resets_the_session_and_later_messages_arrive() {
    for restarted in 0..2 {
        let mut world = World::new(5);
        world.dial(0);
        while world.deliver_one() {}
        (0..3).for_each(|_| world.nodes[0].send());
        world.perform(0, 1);
        while world.deliver_one() {}
        world.cut(3);
        // Queued for a peer that forgets, or forgotten with the sender: never delivered either way.
        world.nodes[0].send();
        let fresh = Node::new(restarted as i64, 6800 + restarted as u16, 6801 - restarted as u16);
        let seq = world.nodes[restarted].global_seq + 100;
        world.nodes[restarted] = Node { global_seq: seq, cookie: 77_000, ..fresh };
        world.nodes[restarted].idle = Some(Session::lossless());
        world.dial(0);
        while world.deliver_one() {}
        let before = world.nodes[1].received.len();
        let survivor = 1 - restarted;
        assert_eq!(world.nodes[survivor].resets, 1, "the one that stayed is told");
        world.nodes[0].send();
        let link = world.links;
        world.perform(0, link);
        while world.deliver_one() {}
        assert_eq!(world.nodes[1].received.len(), before + 1);
    }
}

#[test]
fn a_stale_reconnection_is_told_to_retry_above_what_the_server_knows() {
    let mut world = World::new(3);
    world.dial(0);
    while world.deliver_one() {}
    // The server has seen a higher global_seq, as after a connection whose end the client never heard of.
    world.cut(3);
    world.dial(0);
    while world.deliver_one() {}
    world.cut(3);
    world.nodes[0].global_seq = 0;
    world.nodes[0].send();
    world.dial(0);
    while world.deliver_one() {}
    assert_eq!(world.nodes[1].received, [1]);
    assert!(world.nodes[0].ends[&3].connection.global_seq() > 1, "RETRY_GLOBAL raised it");
}
