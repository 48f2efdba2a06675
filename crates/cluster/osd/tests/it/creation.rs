//! Where a new PG's history begins: with the order to make it, whatever map the OSD has come to.

use crate::world::*;
use messages::{Message, OsdPgCreate2, PastInterval, PastIntervals, PgHistory, PgStat};
use osd::{MonClientEvent, OsdEffect, OsdEvent};
use types::{Epoch, PgShard, ShardId};

/// The only PG's report.
fn report(w: &mut World) -> PgStat {
    w.pass_ms(6000);
    let stats = w.stats().expect("statistics");
    stats.pg_stat.get(&pg(1, 0).pg).unwrap_or_else(|| panic!("no report: {:#?}", w.log)).clone()
}

/// This OSD is out for an epoch, and with it the PG nowhere. Answers the epoch in which it is back.
fn out_and_in(w: &mut World) -> Epoch {
    for weight in [0, 0x10000] {
        w.change(|_, inc| {
            inc.new_weight.insert(ME, weight);
        });
    }
    Epoch(w.mon.epoch())
}

#[test]
fn a_pg_ordered_some_epochs_ago_begins_with_the_order() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    let ordered = Epoch(w.mon.epoch());
    (0..5).for_each(|_| w.empty_epoch());
    w.send_creates_of(1, 1, ordered);
    let stat = report(&mut w);
    assert_eq!((stat.created, stat.mapping_epoch), (ordered, ordered));
    assert_eq!(stat.state.to_string(), "active+clean");
}

#[test]
fn a_pg_is_not_reported_before_it_is_stored() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    w.hold_store = true;
    w.send_creates(1, 1);
    w.pass_ms(6000);
    let reported = |w: &World| w.stats().is_some_and(|stats| stats.pg_stat.contains_key(&pg(1, 0).pg));
    assert!(!reported(&w), "the monitor would not order it again after a loss of power");
    w.hold_store = false;
    w.settle();
    w.pass_ms(1000);
    assert!(reported(&w), "{:#?}", w.log);
}

#[test]
fn intervals_between_the_order_and_the_osds_map_count() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    let ordered = Epoch(w.mon.epoch());
    w.empty_epoch();
    let back = out_and_in(&mut w);
    (0..3).for_each(|_| w.empty_epoch());
    w.send_creates_of(1, 1, ordered);
    let stat = report(&mut w);
    assert_eq!((stat.created, stat.mapping_epoch), (ordered, back));
}

#[test]
fn so_they_do_for_an_order_of_a_monitor_that_keeps_no_histories() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    let made = Epoch(w.mon.epoch());
    let back = out_and_in(&mut w);
    w.empty_epoch();
    w.send_creates_without_history(1, 1, made.0);
    let stat = report(&mut w);
    assert_eq!((stat.created, stat.mapping_epoch), (made, back));
}

/// An order of the monitor's present map with this past.
fn order(w: &mut World, history: PgHistory, past: PastIntervals) {
    let mut create = OsdPgCreate2 { epoch: Epoch(w.mon.epoch()), ..Default::default() };
    create.pgs.insert(pg(1, 0), (history.epoch_created, w.now));
    create.pg_extra.insert(pg(1, 0), (history, past));
    w.mon_says(create);
}

fn interval(first: u32, last: u32) -> PastIntervals {
    let acting = [PgShard { osd: ME, shard: ShardId::NONE }].into();
    let mut past = PastIntervals::default();
    past.add(PastInterval { first: Epoch(first), last: Epoch(last), acting }, true);
    past
}

#[test]
fn the_history_in_the_order_is_the_pgs() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    let made = Epoch(w.mon.epoch());
    let back = out_and_in(&mut w);
    w.empty_epoch();
    let mut history = PgHistory::created(made, w.now);
    history.same_interval_since = back;
    order(&mut w, history, interval(made.0, back.0 - 1));
    let stat = report(&mut w);
    assert_eq!((stat.created, stat.mapping_epoch), (made, back));
}

#[test]
fn an_order_whose_past_lies_in_its_future_is_refused() {
    let mut w = World::active();
    w.announce_pool(1, 1);
    let now = w.mon.epoch();
    let history = PgHistory::created(Epoch(now), w.now);
    order(&mut w, history, interval(now, now));
    assert!(w.osd.pg_ids().is_empty());
    assert!(w.log.iter().any(|line| line.contains("is not made")), "{:#?}", w.log);
    order(&mut w, history, interval(now - 1, now - 1));
    assert_eq!(w.osd.pg_ids().len(), 1);
}

#[test]
fn orders_of_several_epochs_are_followed_each_from_its_own() {
    let mut w = World::active();
    w.announce_pool(1, 2);
    let first = Epoch(w.mon.epoch());
    w.empty_epoch();
    w.empty_epoch();
    let second = Epoch(w.mon.epoch());
    w.empty_epoch();
    let mut create = OsdPgCreate2 { epoch: first, ..Default::default() };
    for (seed, made) in [(0, first), (1, second)] {
        create.pgs.insert(pg(1, seed), (made, w.now));
    }
    w.mon_says(create);
    w.pass_ms(6000);
    let created: Vec<Epoch> = w.stats().unwrap().pg_stat.values().map(|stat| stat.created).collect();
    assert_eq!(created, [first, second]);
}

#[test]
fn many_pgs_are_made_and_reported_in_pieces_with_other_events_between_them() {
    const PGS: u32 = 600;
    let mut w = World::active();
    w.announce_pool(1, PGS);
    let epoch = Epoch(w.mon.epoch());
    let mut create = OsdPgCreate2 { epoch, ..Default::default() };
    for seed in 0..PGS {
        create.pgs.insert(pg(1, seed), (epoch, w.now));
    }
    let effects = w.handle(OsdEvent::Mon(MonClientEvent::Message(w.mon.session.unwrap(), create.into())));
    let made = w.osd.pg_ids().len();
    assert!((1..300).contains(&made), "{made} in one event");
    assert!(effects.iter().any(|effect| matches!(effect, OsdEffect::Continue)));
    w.perform(effects);
    w.settle();
    assert_eq!(w.osd.pg_ids().len(), PGS as usize);
    w.mon.received.clear();
    w.pass_ms(6_000);
    let of_report = |m: &Message| match m {
        Message::PgStats(stats) => Some(stats.pg_stat.len()),
        _ => None,
    };
    let reports: Vec<usize> = w.mon.received.iter().filter_map(of_report).collect();
    assert!(reports.iter().all(|pgs| *pgs <= 512), "{reports:?}");
    assert!(reports.iter().sum::<usize>() >= PGS as usize, "{reports:?}");
    assert_eq!(w.stats().unwrap().osd_stat.num_pgs, PGS);
}
