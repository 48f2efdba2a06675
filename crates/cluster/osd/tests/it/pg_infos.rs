//! What OSDs ask each other of PGs: osd.1, played here, and the OSD under test.

use crate::world::*;
use auth::{Caps, SessionId, SessionInfo};
use messages::{Message, PgHolding, PgInfoQuery, PgInfoReply, PgQuestion};
use osd::OsdEvent;
use types::{EntityAddr, EntityName, EntityType, Epoch, Fsid, OsdId, SpgId};

/// The session with osd.1.
const PEER: SessionId = SessionId(91);
const OTHER: OsdId = OsdId(1);

fn other_addr() -> EntityAddr {
    EntityAddr::v2(([127, 0, 0, 1], 6900).into(), 7)
}

fn peer(addr: EntityAddr) -> SessionInfo {
    let info = client(PEER, Caps::all());
    let entity = "osd.1".parse().unwrap();
    SessionInfo { entity, name: EntityName::new(EntityType::Osd, 1), peer_addrs: addr.into(), ..info }
}

/// A pool with two PGs here, and osd.1, which is up and has a session with this one.
fn with_another() -> World {
    let mut w = World::active();
    w.create_pool(1, 2);
    w.finish_pool(1);
    w.change(|map, inc| {
        inc.new_max_osd = Some(2);
        inc.new_state.insert(OTHER, maps::OsdState::EXISTS);
        inc.new_weight.insert(OTHER, 0x10000);
        let _ = map;
    });
    w.change(|_, inc| {
        inc.new_up_client.insert(OTHER, other_addr().into());
        inc.new_up_cluster.insert(OTHER, other_addr().into());
        inc.new_hb_back_up.insert(OTHER, other_addr().into());
        inc.new_hb_front_up.insert(OTHER, other_addr().into());
    });
    w.open_client(CLIENT);
    w.event(OsdEvent::SessionOpened(peer(other_addr())));
    w
}

fn says(w: &mut World, message: impl Into<Message>) {
    w.event(OsdEvent::Message { session: PEER, message: message.into(), bytes: 100 });
}

fn asks(w: &mut World, pgid: SpgId, epoch: u32) {
    let question = PgQuestion { pgid, epoch: Epoch(epoch), since: Epoch(epoch) };
    says(w, PgInfoQuery { fsid: FSID, pgs: vec![question] });
}

fn replies(w: &mut World) -> Vec<PgInfoReply> {
    let sent = w.sent.remove(&PEER).into_iter().flatten();
    sent.filter_map(|message| if let Message::PgInfoReply(reply) = message { Some(reply) } else { None })
        .collect()
}

/// The PG's acting set from the next epoch on is osd.1, or that of CRUSH.
fn move_pgs(w: &mut World, away: bool) {
    w.change(|map, inc| {
        for seed in 0..2 {
            let to = if away { vec![OTHER] } else { Vec::new() };
            inc.new_pg_temp.insert(pg(1, seed).pg, to);
        }
        inc.new_up_thru.insert(OTHER, map.epoch.next());
    });
}

/// The questions that the OSD has sent to osd.1, in messages of so many.
fn questions(w: &mut World) -> Vec<Vec<PgQuestion>> {
    let sent = std::mem::take(&mut w.to_peers).into_iter();
    let questions = sent.map(|(to, message)| {
        assert_eq!(to, other_addr().into());
        let Message::PgInfoQuery(query) = message else { panic!("{message:?}") };
        query.pgs
    });
    questions.collect()
}

/// Whether a write of a client that has not been told to hold back is answered.
fn writes(w: &mut World, name: &str) -> bool {
    let op = w.write(name, b"x");
    let session = SessionId(1000 + op.tid);
    w.open_client(session);
    let tid = op.tid;
    w.send_op(session, op);
    w.reply_to(session, tid).is_some_and(|reply| reply.result == 0)
}

#[test]
fn an_osd_says_what_it_has_of_a_pg_or_that_it_has_nothing() {
    let mut w = with_another();
    assert!(writes(&mut w, "a") && writes(&mut w, "b") && writes(&mut w, "c"));
    move_pgs(&mut w, true);
    let epoch = w.mon.epoch();
    w.change(|_, inc| {
        let pool = maps::PgPool::replicated(1, 1, 4, 0);
        inc.new_pool_max = Some(2);
        inc.new_pools.insert(types::PoolId(2), pool);
        inc.new_pool_names.insert(types::PoolId(2), "two".into());
    });
    for (pgid, is_here) in [(pg(1, 0), true), (pg(1, 1), true), (pg(2, 3), false)] {
        asks(&mut w, pgid, epoch);
        let [reply] = &replies(&mut w)[..] else { panic!("one reply") };
        assert_eq!((reply.question.pgid, reply.fsid), (pgid, FSID));
        assert_eq!(reply.epoch.0, w.mon.epoch());
        match reply.has {
            PgHolding::Info(info) => {
                assert!(
                    is_here && info.last_update.version > 0 && info.last_epoch_started > Epoch(0),
                    "{info:?}"
                );
            }
            PgHolding::Nothing => assert!(!is_here),
            PgHolding::Unreadable => panic!("{pgid} can be read"),
        }
    }
}

#[test]
fn a_question_of_a_newer_map_waits_for_it() {
    let mut w = with_another();
    let newer = w.mon.epoch() + 2;
    asks(&mut w, pg(1, 0), newer);
    asks(&mut w, pg(1, 7), newer);
    w.empty_epoch();
    assert_eq!(replies(&mut w), []);
    w.empty_epoch();
    let epochs: Vec<u32> = replies(&mut w).into_iter().map(|reply| reply.epoch.0).collect();
    assert_eq!(epochs, [newer; 2]);
    w.empty_epoch();
    assert_eq!(replies(&mut w), [], "each is answered once");
}

#[test]
fn a_question_of_another_cluster_or_of_a_pool_that_is_gone_or_by_a_client_has_no_answer() {
    let mut w = with_another();
    let question = PgQuestion { pgid: pg(1, 0), epoch: Epoch(1), since: Epoch(1) };
    says(&mut w, PgInfoQuery { fsid: Fsid([9; 16]), pgs: vec![question] });
    asks(&mut w, pg(5, 0), 1);
    let query = PgInfoQuery { fsid: FSID, pgs: vec![question] };
    w.event(OsdEvent::Message { session: CLIENT, message: query.into(), bytes: 100 });
    assert_eq!(replies(&mut w), []);
    assert!(w.sent.get(&CLIENT).is_none_or(|sent| sent.is_empty()));
}

#[test]
fn a_pg_that_may_be_part_of_one_that_could_not_be_split_is_not_denied() {
    let mut w = with_another();
    w.refuse_splits = true;
    w.change(|map, inc| {
        let mut pool = map.pools[&types::PoolId(1)].clone();
        (pool.pg_num, pool.pgp_num) = (4, 2);
        inc.new_pools.insert(types::PoolId(1), pool);
    });
    let epoch = w.mon.epoch();
    for seed in [0, 2] {
        asks(&mut w, pg(1, seed), epoch);
        let [reply] = &replies(&mut w)[..] else { panic!("one reply: {:#?}", w.log) };
        assert_eq!(reply.has, PgHolding::Unreadable, "pg 1.{seed}");
    }
}

#[test]
fn pgs_serve_again_when_the_osd_that_they_were_at_says_that_it_has_nothing() {
    let mut w = with_another();
    assert!(writes(&mut w, "a"));
    move_pgs(&mut w, true);
    assert!(!writes(&mut w, "a"));
    move_pgs(&mut w, false);
    assert!(!writes(&mut w, "a"));
    w.pass_ms(20);
    let [asked] = &questions(&mut w)[..] else { panic!("one message for all PGs") };
    assert_eq!(asked.len(), 2);
    let epoch = Epoch(w.mon.epoch());
    let reply = |question: &PgQuestion| {
        let has = PgHolding::Nothing;
        PgInfoReply { fsid: FSID, question: *question, epoch, has }
    };
    // Not from where the map has osd.1.
    let elsewhere = SessionInfo { id: SessionId(92), ..peer(addr(3)) };
    w.event(OsdEvent::SessionOpened(elsewhere));
    for question in asked {
        let message = reply(question).into();
        w.event(OsdEvent::Message { session: SessionId(92), message, bytes: 100 });
    }
    assert!(!writes(&mut w, "a"));
    // Lost: asked again.
    w.pass_ms(6000);
    let [again] = &questions(&mut w)[..] else { panic!("asked again") };
    assert_eq!(again.len(), 2);
    again.iter().for_each(|question| says(&mut w, reply(question)));
    w.pass_ms(20);
    assert!(writes(&mut w, "a"), "{:#?}", w.log);
    w.pass_ms(20_000);
    assert!(questions(&mut w).is_empty());
}
