//! Scrubs of an OSD: what operators order, what is due by the clock, how many run at once, what the monitor learns.

use maps::{MapFlags, PoolFlags, PoolOption, PoolOptionKey};
use messages::{Message, OsdScrub2, PgStat};
use osd::{OsdEvent, Surroundings};
use serde_json::{Value, json};
use types::{Errno, PoolId, SpgId, UTime};

use crate::world::{CLIENT, FSID, World, pg};

const MINUTE: u64 = 60_000;

fn with_pool() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    w.pass_ms(1_000);
    w
}

fn order(w: &mut World, pgs: &[SpgId], deep: bool) {
    w.mon_says(OsdScrub2 { fsid: FSID, scrub_pgs: pgs.to_vec(), deep, ..Default::default() });
}

/// Lines that the OSD wrote to the cluster log.
fn lines(w: &World) -> Vec<String> {
    let entries = w.mon.received.iter().filter_map(|message| match message {
        Message::Log(log) => Some(&log.entries),
        _ => None,
    });
    entries.flatten().map(|entry| String::from_utf8_lossy(&entry.message).into_owned()).collect()
}

/// How many scrubs have ended.
fn scrubs(w: &World) -> usize {
    lines(w).iter().filter(|line| line.ends_with(" scrub ok")).count()
}

/// What the monitor was told last of a PG.
fn stat(w: &mut World, seed: u32) -> PgStat {
    w.pass_ms(10_000);
    w.stats().unwrap().pg_stat[&pg(1, seed).pg].clone()
}

fn set(w: &mut World, name: &str, value: &str) {
    w.command(json!({ "prefix": "config set", "var": name, "val": value })).unwrap();
}

fn reservations(w: &mut World) -> Value {
    w.command(json!({ "prefix": "dump_scrub_reservations" })).unwrap()
}

#[test]
fn an_order_scrubs_the_pgs_named_and_the_monitor_learns_of_it() {
    let mut w = with_pool();
    order(&mut w, &[pg(1, 2)], true);
    w.pass_ms(100);
    assert_eq!(lines(&w), ["1.2 deep-scrub starts", "1.2 deep-scrub ok"]);
    let began = UTime { sec: 5001, nsec: 0 };
    let (scrubbed, other) = (stat(&mut w, 2), stat(&mut w, 1));
    assert_eq!((scrubbed.last_scrub_stamp, scrubbed.last_deep_scrub_stamp), (began, began));
    assert!(other.last_scrub_stamp < began);
    order(&mut w, &[pg(1, 2)], false);
    assert!(stat(&mut w, 2).last_scrub_stamp > began);
    assert_eq!(stat(&mut w, 2).last_deep_scrub_stamp, began);
}

#[test]
fn orders_of_another_cluster_and_for_pgs_that_are_not_here_are_ignored() {
    let mut w = with_pool();
    w.mon_says(OsdScrub2 { scrub_pgs: vec![pg(1, 2)], ..Default::default() });
    order(&mut w, &[pg(1, 77), pg(5, 0)], true);
    w.pass_ms(1_000);
    assert_eq!(lines(&w), [""; 0]);
}

#[test]
fn no_more_scrubs_run_at_once_than_the_option_allows() {
    let mut w = with_pool();
    set(&mut w, "osd_max_scrubs", "2");
    w.hold_store = true;
    let all = [0, 1, 2, 3].map(|seed| pg(1, seed));
    order(&mut w, &all, false);
    order(&mut w, &all[..1], true);
    let running = reservations(&mut w);
    assert_eq!((&running["scrubs_local"], &running["osd_max_scrubs"]), (&json!(2), &json!(2)));
    let planned = w.command(json!({ "prefix": "dump_scrubs" })).unwrap();
    let forced = |entry: &&Value| entry["forced"] == true;
    assert_eq!(planned.as_array().unwrap().iter().filter(forced).count(), 3, "{planned}");
    w.hold_store = false;
    w.settle();
    w.pass_ms(1_000);
    let ended = |what: &str| lines(&w).iter().filter(|line| line.ends_with(what)).count();
    assert_eq!((ended(" scrub ok"), ended(" deep-scrub ok")), (4, 1));
    assert_eq!(reservations(&mut w)["scrubs_local"], 0);
}

#[test]
fn pgs_are_scrubbed_when_their_last_scrub_is_long_ago_each_at_another_time() {
    let mut w = with_pool();
    set(&mut w, "osd_scrub_min_interval", "3600");
    set(&mut w, "osd_deep_scrub_interval", "14400");
    w.pass_ms(58 * MINUTE);
    assert_eq!(lines(&w), [""; 0]);
    w.pass_ms(34 * MINUTE);
    let first = lines(&w);
    assert_eq!(first.iter().filter(|line| line.ends_with(" scrub ok")).count(), 4, "{first:?}");
    let stamps: Vec<u32> = (0..4).map(|seed| stat(&mut w, seed).last_scrub_stamp.sec).collect();
    assert!(stamps.iter().max().unwrap() - stamps.iter().min().unwrap() > 60, "{stamps:?}");
    w.pass_ms(210 * MINUTE);
    assert_eq!(
        lines(&w).iter().filter(|line| line.ends_with(" deep-scrub ok")).count(),
        4,
        "{:?}",
        lines(&w)
    );
    // The same after a restart: what is scrubbed is not due again.
    let before = lines(&w).len();
    w.restart();
    w.pass_ms(1_000);
    assert_eq!(lines(&w).len(), before);
}

#[test]
fn flags_and_a_pools_own_interval_count_for_the_schedule_and_orders_are_carried_out_all_the_same() {
    let mut w = with_pool();
    w.change(|map, inc| inc.new_flags = Some(map.flags | MapFlags::NOSCRUB));
    w.change(|map, inc| {
        let mut pool = map.pools[&PoolId(1)].clone();
        pool.flags |= PoolFlags::NODEEP_SCRUB;
        pool.opts.insert(PoolOptionKey::SCRUB_MIN_INTERVAL, PoolOption::Double(600.0));
        inc.new_pools.insert(PoolId(1), pool);
    });
    w.pass_ms(20 * MINUTE);
    assert_eq!(lines(&w), [""; 0]);
    let planned = w.command(json!({ "prefix": "dump_scrubs" })).unwrap();
    assert_eq!(planned, json!([]), "nothing is planned");
    order(&mut w, &[pg(1, 0)], true);
    w.pass_ms(1_000);
    assert_eq!(lines(&w).len(), 2);
    w.change(|map, inc| inc.new_flags = Some(map.flags & !MapFlags::NOSCRUB));
    w.pass_ms(20 * MINUTE);
    let scrubs = lines(&w).iter().filter(|line| line.ends_with(" scrub ok")).count();
    assert!(scrubs >= 4, "{:?}", lines(&w));
}

#[test]
fn scrubs_of_the_schedule_keep_to_the_hours_and_the_load_and_orders_do_not() {
    let mut w = with_pool();
    set(&mut w, "osd_scrub_min_interval", "600");
    // The test begins on Thursday, 1970-01-01 at 01:23 UTC, which is 22:23 of Wednesday there.
    let mut surroundings = Surroundings { utc_offset: -3 * 3600, load: 0.5 };
    w.event(OsdEvent::Surroundings(surroundings));
    set(&mut w, "osd_scrub_begin_hour", "23");
    set(&mut w, "osd_scrub_end_hour", "2");
    w.pass_ms(30 * MINUTE);
    assert_eq!(lines(&w), [""; 0], "before 23 o'clock");
    order(&mut w, &[pg(1, 0)], false);
    w.pass_ms(1_000);
    assert_eq!(lines(&w), ["1.0 scrub starts", "1.0 scrub ok"], "an order has no hours");
    w.pass_ms(10 * MINUTE);
    assert_eq!(scrubs(&w), 4, "the other three at 23 o'clock: {:?}", lines(&w));
    // The clocks go: it is 2 o'clock.
    surroundings.utc_offset = 0;
    w.event(OsdEvent::Surroundings(surroundings));
    w.pass_ms(30 * MINUTE);
    assert_eq!(scrubs(&w), 4);
    set(&mut w, "osd_scrub_end_hour", "23");
    set(&mut w, "osd_scrub_begin_week_day", "5");
    w.pass_ms(30 * MINUTE);
    assert_eq!(scrubs(&w), 4, "on a Thursday");
    set(&mut w, "osd_scrub_begin_week_day", "4");
    surroundings.load = 10.0;
    w.event(OsdEvent::Surroundings(surroundings));
    w.pass_ms(10 * MINUTE);
    assert_eq!(scrubs(&w), 4, "under load");
    surroundings.load = 9.9;
    w.event(OsdEvent::Surroundings(surroundings));
    w.pass_ms(MINUTE);
    assert_eq!(scrubs(&w), 8);
}

#[test]
fn a_pg_is_told_to_scrub_itself() {
    let mut w = with_pool();
    for (prefix, line) in [
        ("scrub", "1.0 scrub ok"),
        ("deep-scrub", "1.0 deep-scrub ok"),
        ("deep_scrub", "1.0 deep-scrub ok"),
        ("trigger_scrub", "1.0 scrub ok"),
        ("trigger_deep_scrub", "1.0 deep-scrub ok"),
    ] {
        let answer = w.command(json!({ "prefix": prefix, "pgid": "1.0" })).unwrap();
        assert_eq!((&answer["deep"], &answer["must"]), (&json!(line.contains("deep")), &json!(true)));
        w.pass_ms(1_000);
        assert_eq!(lines(&w).last().unwrap(), line);
    }
    let answer = w.command(json!({ "prefix": "pg", "pgid": "1.1", "cmd": "deep-scrub" })).unwrap();
    assert_eq!(answer["deep"], true);
    let (errno, why) = w.command(json!({ "prefix": "scrub" })).unwrap_err();
    assert_eq!((errno, why.as_str()), (Errno::EINVAL, "no pgid specified"));
    let (errno, why) = w.command(json!({ "prefix": "scrub", "pgid": "7.0" })).unwrap_err();
    assert_eq!((errno, why.as_str()), (Errno::ENOENT, "i don't have pgid 7.0"));
    let query = w.command(json!({ "prefix": "query", "pgid": "1.0" })).unwrap();
    assert_eq!(query["scrubber"], json!({ "active": false }));
    assert_eq!(query["info"]["stats"]["stat_sum"]["num_scrub_errors"], 0);
}

#[test]
fn a_scrub_is_aborted_and_what_operators_want_is_taken_back() {
    let mut w = with_pool();
    set(&mut w, "osd_max_scrubs", "1");
    set(&mut w, "osd_scrub_retry_delay", "100");
    let abort = |w: &mut World, pgid: &str| w.command(json!({ "prefix": "scrub-abort", "pgid": pgid }));
    assert_eq!(abort(&mut w, "1.0").unwrap(), json!({ "applicable": true, "active": false }));
    w.hold_store = true;
    order(&mut w, &[pg(1, 0), pg(1, 1)], true);
    assert_eq!(abort(&mut w, "1.1").unwrap(), json!({ "applicable": true, "active": false }), "it waits");
    assert_eq!(abort(&mut w, "1.0").unwrap(), json!({ "applicable": true, "active": true }));
    w.hold_store = false;
    w.settle();
    w.pass_ms(10_000);
    assert_eq!(lines(&w), ["1.0 deep-scrub starts", "1.0 deep-scrub is aborted"]);
    assert_eq!(reservations(&mut w)["scrubs_local"], 0);
    // The schedule waits, and an order does not.
    set(&mut w, "osd_scrub_interval_randomize_ratio", "0");
    set(&mut w, "osd_scrub_min_interval", "1");
    w.pass_ms(30_000);
    let of_it = |w: &World| lines(w).iter().filter(|line| line.starts_with("1.0")).count();
    assert!(of_it(&w) == 2 && scrubs(&w) >= 3, "{:?}", lines(&w));
    w.pass_ms(70_000);
    assert!(of_it(&w) > 2, "{:?}", lines(&w));
    let (errno, why) = abort(&mut w, "7.0").unwrap_err();
    assert_eq!((errno, why.as_str()), (Errno::ENOENT, "i don't have pgid 7.0"));
}

#[test]
fn a_write_that_an_aborted_scrub_held_back_goes_on() {
    let mut w = with_pool();
    set(&mut w, "osd_scrub_max_preemptions", "0");
    let written = w.write("object", b"data");
    let pgid = written.pgid;
    assert_eq!(w.ask(CLIENT, written).result, 0);
    w.hold_store = true;
    order(&mut w, &[pgid], true);
    // The chunk is chosen and listed again; its first object is being read.
    (0..2).for_each(|_| assert!(w.complete_one()));
    let op = w.write("object", b"more");
    let tid = op.tid;
    w.send_op(CLIENT, op);
    let asked = json!({ "prefix": "scrub-abort", "pgid": pgid.pg.to_string() });
    assert_eq!(w.command(asked).unwrap()["active"], true);
    w.hold_store = false;
    w.settle();
    assert_eq!(w.reply_to(CLIENT, tid).unwrap().result, 0);
}

#[test]
fn a_large_omap_is_said_once_the_threshold_is_lowered() {
    let mut w = with_pool();
    let mut e = encoding::Encoder::new(0);
    let keys = ["a", "b", "c"].map(|key| (types::Name::from(key), types::Name::from("value")));
    e.put(&std::collections::BTreeMap::from(keys));
    let set_keys = messages::Op::new(messages::OpCode::OMAPSETVALS, messages::OpArgs::none())
        .with_indata(buffer::Rope::from(e.into_bytes()));
    let epoch = w.mon.epoch();
    let op = w.op("big", epoch, vec![set_keys]);
    let seed = op.pgid.pg.seed;
    assert_eq!(w.ask(CLIENT, op).result, 0);
    let all = [0, 1, 2, 3].map(|seed| pg(1, seed));
    order(&mut w, &all, true);
    w.pass_ms(1_000);
    assert!(!lines(&w).iter().any(|line| line.starts_with("Large omap")));
    set(&mut w, "osd_deep_scrub_large_omap_object_key_threshold", "2");
    order(&mut w, &all, true);
    w.pass_ms(1_000);
    let said: Vec<String> = lines(&w).into_iter().filter(|line| line.starts_with("Large omap")).collect();
    assert!(said.len() == 1 && said[0].ends_with("Key count: 3 Size (bytes): 15"), "{said:?}");
    let sum = stat(&mut w, seed % 4).stats.sum;
    assert_eq!((sum.num_large_omap_objects, sum.num_omap_keys, sum.num_omap_bytes), (1, 3, 15));
}
