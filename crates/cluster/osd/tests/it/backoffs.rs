//! An OSD and the client core, with messages under way between them: what a PG can't serve is held back by the client.

use std::collections::VecDeque;

use crate::world::*;
use auth::{Caps, SessionId};
use encoding::Encode;
use messages::{Config, Message, MonMap, Op, OpArgs, OpCode, OsdBackoff};
use monclient::{Attempt, MonClientConfig, MonClientEvent, MonClientIo};
use objecter::{Objecter, ObjecterConfig, ObjecterEffect, ObjecterEvent, OsdSession, Request};
use osd::OsdEvent;
use types::{EntityAddr, EntityAddrVec, Epoch, FeatureBits, Fsid, OsdId, PoolId, Profile, SplitMix64};

const OTHER: OsdId = OsdId(1);

/// A world with a pool of one copy, osd.1 up beside this OSD, and no client yet.
fn world() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.finish_pool(1);
    w.change(|_, inc| {
        inc.new_max_osd = Some(2);
        inc.new_state.insert(OTHER, maps::OsdState::EXISTS);
        inc.new_uuid.insert(OTHER, Fsid([8; 16]));
    });
    w.change(|_, inc| {
        let addrs = EntityAddrVec::from(EntityAddr::v2(([127, 0, 0, 2], 6800).into(), 1));
        inc.new_up_client.insert(OTHER, addrs.clone());
        inc.new_up_cluster.insert(OTHER, addrs.clone());
        inc.new_hb_back_up.insert(OTHER, addrs.clone());
        inc.new_hb_front_up.insert(OTHER, addrs);
    });
    w
}

/// Who acts in every PG of the pool. With osd.1 among them this OSD can't serve.
fn act(w: &mut World, acting: &[OsdId]) {
    w.change(|_, inc| {
        for seed in 0..4 {
            inc.new_pg_temp.insert(pg(1, seed).pg, acting.to_vec());
        }
    });
}

fn backoffs(w: &World) -> Vec<OsdBackoff> {
    let sent = w.sent.get(&CLIENT).into_iter().flatten();
    sent.filter_map(|m| match m {
        Message::OsdBackoff(b) => Some((**b).clone()),
        _ => None,
    })
    .collect()
}

fn client_says(w: &mut World, message: impl Into<Message>) {
    w.event(OsdEvent::Message { session: CLIENT, message: message.into(), bytes: 100 });
}

#[test]
fn a_request_that_can_not_be_served_holds_no_budget_and_its_session_is_asked_to_hold_back() {
    let mut w = world();
    w.open_client(CLIENT);
    act(&mut w, &[ME, OTHER]);
    let op = w.write("a", b"x");
    let pgid = op.pgid;
    w.send_op(CLIENT, op.clone());
    assert_eq!(w.osd.held(), (0, 0));
    let block = backoffs(&w).pop().unwrap();
    let (begin, end) = (block.begin.clone(), block.end.clone());
    assert_eq!((block.pgid, block.op, block.id), (pgid, OsdBackoff::BLOCK, 1));
    assert_eq!(block.map_epoch, Epoch(w.mon.epoch()));
    assert!(begin <= op.hobject() && op.hobject() < end);
    // What it sent before it learned of that is dropped in silence.
    w.send_op(CLIENT, op.clone());
    assert_eq!((backoffs(&w).len(), w.osd.held()), (1, (0, 0)));
    client_says(&mut w, OsdBackoff { op: OsdBackoff::ACK_BLOCK, ..block.clone() });
    act(&mut w, &[ME]);
    let map_epoch = Epoch(w.osd.epoch().0);
    let unblock = backoffs(&w).pop().unwrap();
    assert!(unblock.map_epoch <= map_epoch);
    assert_eq!(unblock, OsdBackoff { op: OsdBackoff::UNBLOCK, map_epoch: unblock.map_epoch, ..block });
    assert_eq!(w.ask(CLIENT, op).result, 0);
}

#[test]
fn what_was_sent_before_the_acknowledgement_of_a_backoff_that_has_ended_is_dropped() {
    let mut w = world();
    w.open_client(CLIENT);
    act(&mut w, &[ME, OTHER]);
    let first = w.write("a", b"1");
    let second = w.write("a", b"2");
    w.send_op(CLIENT, first.clone());
    act(&mut w, &[ME]);
    let [block, unblock] = &backoffs(&w)[..] else { panic!("{:?}", backoffs(&w)) };
    assert_eq!((block.op, unblock.op), (OsdBackoff::BLOCK, OsdBackoff::UNBLOCK));
    w.send_op(CLIENT, second.clone());
    assert!(w.reply_to(CLIENT, second.tid).is_none(), "its client sends it again after the first");
    assert_eq!(w.osd.held(), (0, 0));
    client_says(&mut w, OsdBackoff { op: OsdBackoff::ACK_BLOCK, ..block.clone() });
    assert_eq!(w.ask(CLIENT, first).result, 0);
    assert_eq!(w.ask(CLIENT, second).result, 0);
}

#[test]
fn what_waits_for_a_client_to_take_answers_is_held_back_with_the_rest() {
    let mut w = world();
    w.open_client(CLIENT);
    let write = w.write("a", b"1");
    let read = w.read("a");
    w.event(OsdEvent::SessionBehind { session: CLIENT, is_behind: true });
    w.send_op(CLIENT, read.clone());
    assert_eq!(w.paused, [CLIENT]);
    act(&mut w, &[ME, OTHER]);
    // Its PG gets the read, and wants no more; the write was behind it.
    w.send_op(CLIENT, write.clone());
    w.event(OsdEvent::SessionBehind { session: CLIENT, is_behind: false });
    let [block] = &backoffs(&w)[..] else { panic!("{:?}", backoffs(&w)) };
    assert_eq!((block.op, w.osd.held()), (OsdBackoff::BLOCK, (0, 0)));
    client_says(&mut w, OsdBackoff { op: OsdBackoff::ACK_BLOCK, ..block.clone() });
    act(&mut w, &[ME]);
    assert_eq!(w.ask(CLIENT, write).result, 0);
    assert_eq!(w.ask(CLIENT, read).ops[0].outdata.to_vec(), b"1");
}

#[test]
fn a_backoff_ends_with_its_session_and_acknowledgements_of_none_are_ignored() {
    let mut w = world();
    w.open_client(CLIENT);
    act(&mut w, &[ME, OTHER]);
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op.clone());
    let block = backoffs(&w).pop().unwrap();
    for (op, id) in [(OsdBackoff::ACK_BLOCK, 7), (OsdBackoff::UNBLOCK, 1), (200, 1)] {
        client_says(&mut w, OsdBackoff { op, id, ..block.clone() });
    }
    let of_no_pg = OsdBackoff { pgid: pg(9, 9), op: OsdBackoff::ACK_BLOCK, ..block };
    client_says(&mut w, of_no_pg);
    w.event(OsdEvent::SessionClosed(CLIENT));
    act(&mut w, &[ME]);
    let next = SessionId(101);
    w.open_client(next);
    assert_eq!(w.ask(next, op).result, 0);
    assert_eq!(backoffs(&w).len(), 1, "nothing more for the session that ended");
}

#[test]
fn a_pool_that_is_deleted_leaves_no_backoff() {
    let mut w = world();
    w.open_client(CLIENT);
    act(&mut w, &[ME, OTHER]);
    let op = w.write("a", b"x");
    w.send_op(CLIENT, op);
    w.delete_pool(1);
    w.settle();
    assert!(w.osd.pg_ids().is_empty());
    w.event(OsdEvent::SessionClosed(CLIENT));
}

/// The client core with its connection to the OSD: messages wait in each direction until they are delivered.
struct Client {
    core: Objecter,
    mon: Option<Attempt>,
    maps_wanted: Option<u64>,
    session: Option<OsdSession>,
    to_osd: VecDeque<Message>,
    to_client: VecDeque<Message>,
    /// Results, in the order of the answers.
    done: Vec<i32>,
    /// Requests sent, backoffs acknowledged.
    sent: (usize, usize),
}

impl Client {
    fn new(w: &mut World) -> Self {
        let monitor = EntityAddr::v2(([127, 0, 0, 1], 3300).into(), 0);
        let monitors = MonClientConfig::new(vec![monitor.into()], Some(FSID));
        let mut client = Self {
            core: Objecter::new(ObjecterConfig::new(monitors, Profile::PACIFIC)),
            mon: None,
            maps_wanted: None,
            session: None,
            to_osd: VecDeque::new(),
            to_client: VecDeque::new(),
            done: Vec::new(),
            sent: (0, 0),
        };
        let mut out = Vec::new();
        client.core.start(w.now, &mut out);
        client.perform(w, out);
        let attempt = client.mon.expect("it dials");
        client.handle(w, ObjecterEvent::Mon(MonClientEvent::Connected(attempt)));
        client.mon_says(w, MonMap { map: Mon::monmap().to_bytes(!0).into() }.into());
        client.mon_says(w, Config::default().into());
        client.take_maps(w);
        client
    }

    fn mon_says(&mut self, w: &mut World, message: Message) {
        let attempt = self.mon.expect("a session to the monitor");
        self.handle(w, ObjecterEvent::Mon(MonClientEvent::Message(attempt, message)));
    }

    fn take_maps(&mut self, w: &mut World) {
        let next = self.maps_wanted.unwrap_or(u64::from(self.core.epoch().0) + 1);
        if next <= u64::from(w.mon.epoch()) {
            self.maps_wanted = None;
            let maps = w.mon.maps_from(next as u32);
            self.mon_says(w, maps.into());
        }
    }

    fn handle(&mut self, w: &mut World, event: ObjecterEvent) {
        let mut out = Vec::new();
        self.core.handle(w.now, event, &mut out);
        self.perform(w, out);
    }

    fn perform(&mut self, w: &mut World, effects: Vec<ObjecterEffect>) {
        for effect in effects {
            match effect {
                ObjecterEffect::Mon(MonClientIo::Connect(attempt, _)) => self.mon = Some(attempt),
                ObjecterEffect::Mon(MonClientIo::Send(_, Message::MonSubscribe(m))) => {
                    self.maps_wanted = m.what.get("osdmap").map(|sub| sub.start).or(self.maps_wanted);
                }
                ObjecterEffect::Mon(_) => {}
                ObjecterEffect::Connect(session, osd, _) => {
                    assert_eq!(osd, ME);
                    self.session = Some(session);
                    self.handle(w, ObjecterEvent::Connected(session));
                }
                ObjecterEffect::Send(_, message) => {
                    self.sent.0 += usize::from(matches!(message, Message::OsdOp(_)));
                    self.sent.1 += usize::from(matches!(message, Message::OsdBackoff(_)));
                    let bytes = message.encode(Profile::PACIFIC.features_supported);
                    self.to_osd.push_back(Message::decode_exact(&bytes).unwrap());
                }
                ObjecterEffect::Done(_, outcome) => self.done.push(outcome.result()),
                other => panic!("{other:?}"),
            }
        }
    }

    fn append(&mut self, w: &mut World, object: &str, letter: u8) {
        let op = Op::new(OpCode::APPEND, OpArgs::extent(0, 1)).with_indata(vec![letter]);
        let mut out = Vec::new();
        self.core.submit(w.now, Request::on(PoolId(1), object, vec![op]), &mut out).expect("there is room");
        self.perform(w, out);
    }

    /// A message arrives somewhere. Whether there was one.
    fn deliver(&mut self, w: &mut World, rng: &mut SplitMix64) -> bool {
        if rng.below(2) == 0
            && let Some(message) = self.to_osd.pop_front()
        {
            client_says(w, message);
        } else if let Some(message) = self.to_client.pop_front() {
            let session = self.session.expect("a session");
            self.handle(w, ObjecterEvent::Message(session, message));
        }
        self.to_client.extend(w.sent.remove(&CLIENT).into_iter().flatten());
        !(self.to_osd.is_empty() && self.to_client.is_empty())
    }
}

/// Appends while the PGs can be served now and then: all of them take effect once, in order. Answers how many backoffs
/// the client acknowledged.
fn run(seed: u64, features: u64) -> usize {
    let mut rng = SplitMix64::new(seed);
    let mut w = world();
    let mut info = client(CLIENT, Caps::all());
    info.features &= features;
    w.event(OsdEvent::SessionOpened(info));
    let mut c = Client::new(&mut w);
    let objects = ["a", "b", "c"];
    let mut wanted = [const { Vec::new() }; 3];
    for step in 0..400 {
        match rng.below(24) {
            0 => act(&mut w, &[ME, OTHER]),
            1 | 2 => act(&mut w, &[ME]),
            3 => c.take_maps(&mut w),
            4..8 => {
                let at = rng.below(3) as usize;
                let letter = b'a' + (step % 26) as u8;
                wanted[at].push(letter);
                c.append(&mut w, objects[at], letter);
            }
            8 => w.hold_store = true,
            9 | 10 => {
                w.hold_store = false;
                w.settle();
            }
            _ => {
                c.deliver(&mut w, &mut rng);
            }
        }
    }
    w.hold_store = false;
    act(&mut w, &[ME]);
    w.settle();
    c.take_maps(&mut w);
    while c.deliver(&mut w, &mut rng) {}
    let count: usize = wanted.iter().map(Vec::len).sum();
    assert_eq!(c.done, vec![0; count], "seed {seed}: {:#?}", w.log);
    assert_eq!(w.osd.held(), (0, 0));
    let reader = SessionId(200);
    w.open_client(reader);
    for (object, wanted) in objects.iter().zip(&wanted) {
        if !wanted.is_empty() {
            let op = w.read(object);
            let got = w.ask(reader, op).ops[0].outdata.to_vec();
            assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(wanted), "seed {seed}");
        }
    }
    c.sent.1
}

#[test]
fn a_client_and_an_osd_lose_repeat_and_reorder_nothing() {
    let backoffs: usize = (0..60).map(|seed| run(seed, u64::MAX)).sum();
    assert!(backoffs > 60, "{backoffs}");
}

#[test]
fn neither_do_those_of_a_client_that_knows_no_backoffs() {
    let backoffs: usize = (0..30).map(|seed| run(seed, !FeatureBits::RADOS_BACKOFF)).sum();
    assert_eq!(backoffs, 0);
}
