//! An OSD finds clones of snapshots that were purged long ago: it asks the monitor, and its PGs trim them.

use std::collections::BTreeMap;

use messages::Message;
use serde_json::json;
use types::{Epoch, IntervalSet, PoolId, SnapId};

use crate::world::{CLIENT, World};

const ASKS: &str = "MMonGetPurgedSnaps";
const HOUR: u64 = 3_600_000;

/// An OSD with an object for each of four snapshots, of which the monitor says nothing.
fn with_clones() -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.open_client(CLIENT);
    for name in ["a", "b", "c", "d"] {
        let first = w.write(name, b"zero");
        w.ask(CLIENT, first);
        for snap in 1..=4 {
            let mut op = w.write(name, b"data");
            (op.snap_seq, op.snaps) = (snap, (1..=snap).rev().map(SnapId).collect());
            w.ask(CLIENT, op);
        }
    }
    w
}

/// The monitor says that snapshots were purged by an epoch. The other pool is none of this OSD's.
fn purged(w: &mut World, epoch: u32, snap: u64) {
    let snaps = [(PoolId(1), IntervalSet::range(snap, 1)), (PoolId(7), IntervalSet::range(1, 50))];
    w.mon.purged.insert(Epoch(epoch), BTreeMap::from(snaps));
}

fn clones(w: &mut World) -> i64 {
    w.pass_ms(10_000);
    w.stats().unwrap().pg_stat.values().map(|stat| stat.stats.sum.num_object_clones).sum()
}

#[test]
fn an_osd_that_starts_trims_what_was_purged_however_long_ago() {
    let mut w = with_clones();
    assert_eq!((clones(&mut w), w.count(ASKS)), (16, 1));
    purged(&mut w, 2, 1);
    purged(&mut w, 3, 3);
    w.restart();
    w.open_client(CLIENT);
    assert_eq!((clones(&mut w), w.count(ASKS)), (8, 3), "two answers");
    let read = w.read("a");
    assert_eq!(w.ask(CLIENT, read).result, 0);
}

#[test]
fn it_asks_again_in_the_interval_of_deep_scrubs_and_when_it_is_told_to() {
    let mut w = with_clones();
    let interval = json!({ "prefix": "config set", "var": "osd_deep_scrub_interval", "val": "14400" });
    w.command(interval).unwrap();
    purged(&mut w, 2, 2);
    w.pass_ms(HOUR);
    assert_eq!((clones(&mut w), w.count(ASKS)), (16, 1));
    w.command(json!({ "prefix": "scrub_purged_snaps" })).unwrap();
    assert_eq!((clones(&mut w), w.count(ASKS)), (12, 2));
    purged(&mut w, 3, 4);
    w.pass_ms(3 * HOUR);
    assert_eq!(w.count(ASKS), 2);
    w.pass_ms(HOUR);
    assert_eq!((clones(&mut w), w.count(ASKS)), (8, 4), "two answers");
    let told = w.mon.received.iter().rev().find_map(|message| match message {
        Message::OsdBeacon(beacon) => Some(beacon.last_purged_snaps_scrub),
        _ => None,
    });
    assert!(told.unwrap() > types::UTime::default());
}

#[test]
fn a_question_that_a_session_lost_is_asked_again() {
    let mut w = with_clones();
    w.mon.holds_purged = true;
    purged(&mut w, 2, 2);
    w.command(json!({ "prefix": "scrub_purged_snaps" })).unwrap();
    w.mon.holds_purged = false;
    w.mon_reconnects();
    assert_eq!((clones(&mut w), w.count(ASKS)), (12, 3));
}
