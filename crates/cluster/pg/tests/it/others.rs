//! What other OSDs have of a PG: whom it asks, and when it serves.

use std::sync::Arc;

use crate::common::*;
use messages::{PgHolding, PgInfoReply, PgQuestion, PgSummary};
use pg::{MapView, Notice, Peering, PgEvent, Phase};
use types::{EVersion, Epoch, Fsid, OsdId};

const OTHERS: Phase = Phase::Peering(Peering::Others);

fn advance(rig: &mut Rig, map: MapView) {
    rig.epoch = map.epoch.0;
    rig.event(PgEvent::AdvanceMap(Box::new(map)));
}

fn change(mut map: MapView, osd: usize, change: impl Fn(&mut maps::Osd)) -> MapView {
    change(&mut Arc::make_mut(&mut map.osdmap).osds[osd]);
    map
}

fn down(osd: &mut maps::Osd) {
    osd.state = maps::OsdState::EXISTS;
}

fn answer(rig: &mut Rig, osd: i32, question: PgQuestion, epoch: u32, has: PgHolding) {
    let reply = Box::new(PgInfoReply { fsid: Fsid::default(), question, epoch: Epoch(epoch), has });
    rig.event(PgEvent::PeerInfo { osd: OsdId(osd), reply });
}

fn info(started: u32, last_update: EVersion) -> PgHolding {
    PgHolding::Info(PgSummary {
        last_update,
        log_tail: EVersion::default(),
        last_epoch_started: Epoch(started),
        last_interval_started: Epoch(started),
    })
}

fn version(epoch: u32, version: u64) -> EVersion {
    EVersion { epoch: Epoch(epoch), version }
}

/// The PG has an object of epoch 5. Then each of these OSDs acted alone, in epochs 6, 7 and so on, and now this one does.
fn after(others: &[i32]) -> Rig {
    let mut rig = Rig::without_backoffs();
    rig.ask("old", vec![write_full(b"old")]);
    rig.settle();
    let mut epoch = 5;
    for osd in others {
        epoch += 1;
        advance(&mut rig, map(epoch, &[*osd]));
    }
    advance(&mut rig, map(epoch + 1, &[0]));
    rig.settle();
    assert_eq!(rig.pg.phase(), OTHERS);
    rig
}

fn reasons(rig: &Rig) -> Vec<&str> {
    let reasons = rig.notices.iter().filter_map(|notice| match notice {
        Notice::NotServed { reason } => Some(&reason[..]),
        _ => None,
    });
    reasons.collect()
}

fn serves(rig: &mut Rig) -> bool {
    rig.settle();
    assert!(!rig.failed);
    if rig.pg.is_active() {
        assert_eq!(rig.contents("old").unwrap(), b"old");
        assert_eq!(rig.pg.deadline(), None);
    }
    rig.pg.is_active()
}

#[test]
fn a_pg_serves_when_the_other_osd_has_nothing_of_it() {
    let mut rig = after(&[1]);
    let since = Epoch(7);
    let question = PgQuestion { pgid: pgid(), epoch: since, since };
    assert_eq!(rig.asked, [(1, question)]);
    let op = rig.message("new", vec![append(b"x")]);
    rig.send(op);
    assert!(!serves(&mut rig));
    answer(&mut rig, 1, question, 7, PgHolding::Nothing);
    assert!(serves(&mut rig));
    assert_eq!(rig.replies.len(), 1, "what waited is served");
    assert_eq!(rig.contents("new").unwrap(), b"x");
    assert_eq!((reasons(&rig), rig.asked.len()), (vec![], 1), "nothing was in the way");
}

#[test]
fn every_osd_that_may_have_written_has_to_answer() {
    for order in [[1, 2, 3], [3, 1, 2], [2, 3, 1]] {
        let mut rig = after(&[1, 2, 3]);
        let asked = std::mem::take(&mut rig.asked);
        assert_eq!(asked.iter().map(|(osd, _)| *osd).collect::<Vec<_>>(), [1, 2, 3]);
        for (at, osd) in order.into_iter().enumerate() {
            assert!(!serves(&mut rig), "{at} have answered");
            answer(&mut rig, osd, asked[0].1, 9, PgHolding::Nothing);
        }
        assert!(serves(&mut rig));
    }
}

#[test]
fn an_answer_twice_or_of_one_that_was_not_asked_counts_for_no_other() {
    let mut rig = after(&[1, 2]);
    let question = rig.asked[0].1;
    for osd in [1, 1, 3, 0] {
        answer(&mut rig, osd, question, 9, PgHolding::Nothing);
    }
    assert!(!serves(&mut rig));
    answer(&mut rig, 1, question, 9, info(7, version(7, 3)));
    answer(&mut rig, 2, question, 9, PgHolding::Nothing);
    assert!(serves(&mut rig), "the first answer of osd.1 is that of this interval");
    answer(&mut rig, 2, question, 9, info(7, version(7, 3)));
    assert!(serves(&mut rig));
}

#[test]
fn an_answer_of_an_earlier_interval_or_map_counts_for_nothing() {
    let mut rig = after(&[1]);
    let earlier = rig.asked[0].1;
    let mut resized = map(8, &[0]);
    resized.pool.size = 2;
    advance(&mut rig, resized);
    let since = Epoch(8);
    let question = PgQuestion { pgid: pgid(), epoch: since, since };
    assert_eq!(rig.asked[1..], [(1, question)], "it is asked again in the new interval");
    answer(&mut rig, 1, earlier, 8, PgHolding::Nothing);
    assert!(!serves(&mut rig), "in between osd.1 may have served");
    answer(&mut rig, 1, question, 7, PgHolding::Nothing);
    assert!(!serves(&mut rig), "by a map of before it may yet serve");
    answer(&mut rig, 1, question, 8, PgHolding::Nothing);
    assert!(serves(&mut rig));
}

#[test]
fn a_copy_that_this_one_has_outlived_is_no_hindrance() {
    let mine = version(5, 1);
    for (started, last_update) in
        [(4, version(4, 1)), (4, version(4, 9)), (5, mine), (5, version(4, 1)), (6, mine)]
    {
        let mut rig = after(&[1]);
        assert_eq!(rig.pg.info().last_update, mine);
        let question = rig.asked[0].1;
        answer(&mut rig, 1, question, 7, info(started, last_update));
        assert!(serves(&mut rig), "active in {started}, up to {last_update}");
    }
}

#[test]
fn a_copy_that_has_more_keeps_the_pg_from_serving_and_is_named() {
    for (started, last_update) in
        [(6, version(6, 2)), (5, version(5, 2)), (6, version(4, 1)), (6, version(0, 0))]
    {
        let mut rig = after(&[1, 2]);
        let question = rig.asked[0].1;
        answer(&mut rig, 2, question, 8, PgHolding::Nothing);
        answer(&mut rig, 1, question, 8, info(started, last_update));
        assert!(!serves(&mut rig));
        let [reason] = reasons(&rig)[..] else { panic!("{:?}", rig.notices) };
        let has = format!(
            "osd.1 has served it since this one did (from epoch {started} on, with writes up to {last_update}; here"
        );
        assert!(reason.starts_with(&has) && reason.contains("`ceph osd out 0`"), "{reason}");
        // The PG neither asks again nor says it again, also after a map with no news.
        rig.pass(60);
        advance(&mut rig, map(9, &[0]));
        assert!(!serves(&mut rig) && rig.asked.len() == 2 && reasons(&rig).len() == 1);
        // Its writes are given up.
        let lost = |osd: &mut maps::Osd| {
            down(osd);
            osd.info.lost_at = Epoch(9);
        };
        advance(&mut rig, change(map(10, &[0]), 1, lost));
        assert!(serves(&mut rig));
    }
}

#[test]
fn an_osd_that_is_down_is_waited_for_and_asked_when_it_is_up() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    advance(&mut rig, change(map(8, &[0]), 1, down));
    let [reason] = reasons(&rig)[..] else { panic!("{:?}", rig.notices) };
    assert!(
        reason.starts_with("osd.1 may have taken writes since this one acted, and is down: start it"),
        "{reason}"
    );
    rig.pass(60);
    assert!(!serves(&mut rig));
    let started = |osd: &mut maps::Osd| osd.info.up_from = Epoch(9);
    let before = rig.asked.len();
    advance(&mut rig, change(map(9, &[0]), 1, started));
    assert_eq!(rig.asked[before..], [(1, PgQuestion { epoch: Epoch(9), ..question })]);
    answer(&mut rig, 1, question, 9, PgHolding::Nothing);
    assert!(serves(&mut rig));
}

#[test]
fn an_answer_counts_although_its_sender_has_gone_down() {
    let mut rig = after(&[1, 2]);
    let question = rig.asked[0].1;
    answer(&mut rig, 1, question, 8, PgHolding::Nothing);
    advance(&mut rig, change(map(9, &[0]), 1, down));
    answer(&mut rig, 2, question, 8, PgHolding::Nothing);
    assert!(serves(&mut rig));
}

#[test]
fn a_question_whose_answer_is_lost_is_asked_again_after_a_while_and_of_a_new_start_at_once() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    advance(&mut rig, map(8, &[0]));
    assert_eq!(rig.asked.len(), 1, "a map alone is no reason");
    let started = |osd: &mut maps::Osd| osd.info.up_from = Epoch(9);
    advance(&mut rig, change(map(9, &[0]), 1, started));
    assert_eq!(rig.asked.len(), 2, "the new start knows nothing of it");
    assert!(rig.pg.deadline().is_some());
    rig.pass(4);
    assert_eq!(rig.asked.len(), 3);
    let [reason] = reasons(&rig)[..] else { panic!("{:?}", rig.notices) };
    assert!(reason.contains("does not say what it has"), "{reason}");
    answer(&mut rig, 1, question, 9, PgHolding::Nothing);
    assert!(serves(&mut rig), "an answer to any of the questions of the interval is one");
}

#[test]
fn an_osd_that_cannot_read_its_copy_is_asked_until_it_can() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    answer(&mut rig, 1, question, 7, PgHolding::Unreadable);
    assert!(!serves(&mut rig));
    assert!(reasons(&rig)[0].contains("can't read what it has"), "{:?}", rig.notices);
    rig.pass(4);
    assert_eq!(rig.asked.len(), 2);
    answer(&mut rig, 1, question, 7, PgHolding::Nothing);
    assert!(serves(&mut rig));
}

#[test]
fn an_osd_that_was_given_up_as_lost_and_is_up_again_is_asked() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    let lost = |osd: &mut maps::Osd| osd.info.lost_at = Epoch(7);
    advance(&mut rig, change(map(8, &[0]), 1, lost));
    assert!(!serves(&mut rig));
    answer(&mut rig, 1, question, 8, info(6, version(6, 2)));
    assert!(!serves(&mut rig));
}

#[test]
fn a_pg_that_several_osds_act_in_is_not_served_whatever_others_have() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    advance(&mut rig, map(8, &[0, 2]));
    answer(&mut rig, 1, PgQuestion { since: Epoch(8), ..question }, 8, PgHolding::Nothing);
    assert!(!serves(&mut rig));
    advance(&mut rig, map(9, &[2]));
    assert_eq!((rig.pg.phase(), rig.pg.deadline()), (Phase::Nonprimary, None));
}

#[test]
fn a_pg_says_what_it_has_unless_that_is_being_read() {
    let mut rig = after(&[1]);
    assert_eq!(rig.pg.holding(), Some(info(5, version(5, 1))));
    assert!(!rig.restart());
    assert_eq!(rig.pg.holding(), Some(info(5, version(5, 1))));
    let loading = pg::Pg::load(pgid(), ME, rig.config.clone(), &mut Vec::new());
    assert_eq!(loading.holding(), None);
}

#[test]
fn after_a_restart_others_are_asked_again() {
    let mut rig = after(&[1]);
    let question = rig.asked[0].1;
    rig.asked.clear();
    assert!(!rig.restart(), "no answer has come");
    let (osd, again) = rig.asked[0];
    assert_eq!((osd, rig.asked.len()), (1, 1));
    answer(&mut rig, 1, again, again.epoch.0, PgHolding::Nothing);
    assert!(serves(&mut rig));
    assert!(again.since >= question.since);
}
