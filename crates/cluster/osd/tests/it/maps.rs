//! Which maps an OSD keeps: in its store, sparsely, and in memory, within bounds.

use crate::world::{CLIENT, World, meta_object, write};
use encoding::{Decode, Encode};
use messages::{Message, OsdMap};
use options::Values;
use osd::OsdPhase;
use store::{CollectionId, ObjectStore, Token, Transaction};
use types::Epoch;

/// An active OSD with a pool, at an epoch or a few later.
fn at_epoch(epoch: u32) -> World {
    let mut w = World::active();
    w.create_pool(1, 4);
    while w.mon.epoch() < epoch {
        w.empty_epoch();
    }
    assert_eq!(w.osd.epoch().0, w.mon.epoch());
    w
}

/// The process ends, and later starts on the same store.
fn restarted(mut w: World) -> World {
    w.restart();
    assert_eq!((w.osd.state(), w.osd.epoch().0), (OsdPhase::Active, w.mon.epoch()), "{:#?}", w.log);
    assert_eq!(w.osd.pg_ids().len(), 4, "{:#?}", w.log);
    w
}

/// The maps that the OSD sends a client which has another epoch.
fn shared_with(w: &mut World, has: u32) -> OsdMap {
    w.open_client(CLIENT);
    let op = w.op("a", has, vec![write(b"x")]);
    // Whether the request is still good does not matter.
    w.send_op(CLIENT, op);
    let sent = w.sent[&CLIENT].iter().find_map(|m| match m {
        Message::OsdMap(map) => Some(map.clone()),
        _ => None,
    });
    sent.expect("maps were sent")
}

#[test]
fn one_map_in_thirty_two_is_stored_whole_and_every_epoch_can_be_made() {
    let mut w = at_epoch(100);
    let first = w.whole_epochs()[0];
    let whole = w.whole_epochs();
    assert_eq!(whole.iter().copied().filter(|e| *e > first).collect::<Vec<_>>(), [32, 64, 96]);
    for epoch in first..=w.mon.epoch() {
        assert!(w.stored_map(epoch).is_some(), "map {epoch}");
    }
}

#[test]
fn a_restart_begins_at_any_epoch() {
    for epoch in [31, 32, 33, 63, 65] {
        let mut w = restarted(at_epoch(epoch));
        w.empty_epoch();
        restarted(w);
    }
}

#[test]
fn what_is_left_after_trimming_can_be_made_and_the_rest_goes() {
    let mut w = at_epoch(150);
    for bound in [40, 100, 101] {
        w.mon.change(|_, _| {});
        let mut message = w.mon.maps_from(w.mon.epoch());
        message.cluster_osdmap_trim_lower_bound = Epoch(bound);
        w.mon_says(message);
        // It goes in parts, one with each message.
        (0..5).for_each(|_| w.empty_epoch());
        let oldest = bound / 32 * 32;
        assert_eq!(w.whole_epochs()[0], oldest);
        assert!((1..oldest).all(|e| w.meta_object(&format!("inc_osdmap.{e}")).is_none()));
        assert!((oldest..=w.mon.epoch()).all(|e| w.stored_map(e).is_some()));
    }
    restarted(w);
}

#[test]
fn a_store_of_before_in_which_every_map_is_whole_is_read_and_goes_on() {
    for with_increments in [true, false] {
        let mut w = at_epoch(50);
        let mut txn = Transaction::new();
        for (epoch, published) in (1..).zip(&w.mon.epochs) {
            txn.write(
                CollectionId::Meta,
                &meta_object(&format!("osdmap.{epoch}")),
                0,
                published.full.clone().into(),
            );
            if !with_increments {
                txn.remove(CollectionId::Meta, &meta_object(&format!("inc_osdmap.{epoch}")));
            }
        }
        w.store.queue(txn, Token(u64::MAX));
        let mut w = restarted(w);
        (0..20).for_each(|_| w.empty_epoch());
        let mut w = restarted(w);
        assert_eq!(w.whole_epochs().iter().copied().filter(|e| *e > 50).collect::<Vec<_>>(), [64]);
    }
}

/// What is stored in a meta object is another thing now.
fn store_other(w: &mut World, name: &str, bytes: Vec<u8>) {
    let mut txn = Transaction::new();
    txn.truncate(CollectionId::Meta, &meta_object(name), 0);
    txn.write(CollectionId::Meta, &meta_object(name), 0, bytes.into());
    w.store.queue(txn, Token(u64::MAX));
}

/// An OSD at epoch 40, with an increment in its store that leads elsewhere.
fn with_damaged_increment(epoch: u32) -> World {
    let mut w = at_epoch(40);
    let name = format!("inc_osdmap.{epoch}");
    let bytes = w.meta_object(&name).unwrap();
    let mut inc = <maps::Incremental as Decode>::from_bytes(&bytes).unwrap();
    inc.new_flags = Some(0);
    store_other(&mut w, &name, inc.encode_for(types::Release::PACIFIC));
    w
}

#[test]
fn a_map_that_is_damaged_in_the_store_is_fetched_and_stored_again() {
    let damages: [fn() -> World; 4] = [
        || with_damaged_increment(35),
        || with_damaged_increment(40),
        // Neither the whole map nor what makes it.
        || {
            let mut w = with_damaged_increment(30);
            store_other(&mut w, "osdmap.32", vec![7; 100]);
            w
        },
        // The map that it has to begin with is older than the newest by some.
        || {
            let mut w = with_damaged_increment(40);
            let bytes = w.meta_object("osd_superblock").unwrap();
            let mut superblock = messages::OsdSuperblock::from_bytes(&bytes).unwrap();
            superblock.current_epoch = Epoch(36);
            store_other(&mut w, "osd_superblock", superblock.to_bytes(0).to_vec());
            w
        },
    ];
    for damaged in damages {
        let mut w = damaged();
        let newest = w.mon.epoch();
        let asked = w.fulls_asked().len();
        w = restarted(w);
        let fetched = w.fulls_asked()[asked..].to_vec();
        assert!(fetched.len() == 1 && fetched[0].0 <= newest && fetched[0].0 == fetched[0].1, "{fetched:?}");
        assert!(w.log.iter().any(|line| line.contains("is fetched from a monitor")), "{:#?}", w.log);
        // What was fetched is stored: later starts need no one.
        w.empty_epoch();
        let asked = w.fulls_asked().len();
        let w = restarted(w);
        assert_eq!(w.fulls_asked().len(), asked);
    }
}

/// The monitor may be slow, have less than the OSD for a while, or be lost: nothing but the map itself is its answer.
#[test]
fn an_osd_waits_for_the_map_that_it_fetches() {
    let mut w = with_damaged_increment(35);
    let newest = w.mon.epoch();
    w.mon.holds_fulls = true;
    w.restart();
    let waits = |w: &World, when: &str| {
        assert_eq!(
            (w.osd.state(), &w.failed, w.osd.epoch()),
            (OsdPhase::Initializing, &None, Epoch(0)),
            "{when}"
        );
        assert_eq!(w.mon.osdmap_next, None, "{when}: it subscribes to no maps yet");
    };
    waits(&w, "no answer");
    let other = w.mon.maps_from(newest);
    w.mon_says(other);
    waits(&w, "another map");
    w.mon_says(OsdMap { fsid: w.mon.map().fsid, newest_map: Epoch(newest - 1), ..OsdMap::default() });
    waits(&w, "a monitor that is behind");
    let asked = w.fulls_asked().len();
    w.mon_reconnects();
    assert!(w.fulls_asked().len() > asked, "another session is asked");
    waits(&w, "another session");
    w.mon.holds_fulls = false;
    w.pass_ms(10_000);
    assert_eq!((w.osd.state(), w.osd.epoch().0), (OsdPhase::Active, w.mon.epoch()), "{:#?}", w.log);
    w.empty_epoch();
    assert_eq!(w.osd.epoch().0, w.mon.epoch(), "it has subscribed since");
    // A stop does not wait for it.
    let mut w = with_damaged_increment(35);
    w.mon.holds_fulls = true;
    w.restart();
    w.event(osd::OsdEvent::Shutdown);
    w.pass_ms(10_000);
    assert!(w.stopped, "{:#?}", w.log);
}

#[test]
fn a_whole_map_that_is_damaged_in_the_store_is_made_of_increments() {
    let mut w = at_epoch(40);
    store_other(&mut w, "osdmap.32", vec![7; 100]);
    let asked = w.fulls_asked().len();
    assert_eq!(restarted(w).fulls_asked().len(), asked);
}

#[test]
fn a_superblock_that_is_damaged_is_read_from_its_copy_and_written_again() {
    for name in ["osd_superblock", "osd_superblock.copy"] {
        let mut w = at_epoch(40);
        store_other(&mut w, name, vec![7; 20]);
        let mut w = restarted(w);
        assert_eq!(w.log.iter().any(|line| line.contains("its copy is tried")), name == "osd_superblock");
        w.empty_epoch();
        let superblock = messages::OsdSuperblock::from_bytes(&w.meta_object(name).unwrap()).unwrap();
        assert_eq!(superblock.newest_map.0, w.mon.epoch());
        restarted(w);
    }
    // A copy of an earlier time, as a build leaves it that does not know of it.
    let mut w = at_epoch(40);
    let bytes = w.meta_object("osd_superblock").unwrap();
    let mut superblock = messages::OsdSuperblock::from_bytes(&bytes).unwrap();
    (superblock.newest_map, superblock.current_epoch) = (Epoch(36), Epoch(36));
    store_other(&mut w, "osd_superblock", vec![7; 20]);
    store_other(&mut w, "osd_superblock.copy", superblock.to_bytes(0).to_vec());
    w.restart();
    assert!(w.failed.unwrap().contains("is older than the maps that are stored"));
    let mut w = at_epoch(40);
    store_other(&mut w, "osd_superblock", vec![7; 20]);
    store_other(&mut w, "osd_superblock.copy", vec![7; 20]);
    w.restart();
    assert!(w.failed.unwrap().contains("neither the superblock nor its copy can be read"));
}

#[test]
fn a_damaged_map_that_no_monitor_has_ends_the_start_with_its_name() {
    let mut w = with_damaged_increment(35);
    w.mon.trimmed = w.mon.epoch() + 1;
    w.restart();
    let reason = w.failed.unwrap();
    assert!(
        reason.contains("can't be made out of the stored map 32")
            && reason.contains("checksum")
            && reason.contains("the monitor does not have map 40"),
        "{reason}"
    );
}

#[test]
fn a_restarted_osd_shares_increments_of_before_its_start() {
    let w = at_epoch(80);
    let newest = w.mon.epoch();
    let mut w = restarted(w);
    let shared = shared_with(&mut w, newest - 10);
    assert!(shared.maps.is_empty());
    let now = w.osd.epoch().0;
    let epochs: Vec<u32> = shared.incremental_maps.keys().map(|e| e.0).collect();
    assert_eq!(epochs, (newest - 9..=now).collect::<Vec<_>>());
}

#[test]
fn as_many_increments_are_in_memory_as_the_option_says() {
    let mut options = Values::new();
    options.set("osd_map_cache_size", "7").unwrap();
    let mut w = World::with(options);
    w.start();
    w.create_pool(1, 4);
    (0..60).for_each(|_| w.empty_epoch());
    let newest = w.osd.epoch().0;
    let epochs: Vec<u32> = shared_with(&mut w, newest - 30).incremental_maps.keys().map(|e| e.0).collect();
    assert_eq!(epochs, (newest - 6..=newest).collect::<Vec<_>>());
}

#[test]
fn maps_beyond_what_the_pgs_have_gone_through_are_refused_and_asked_for_later() {
    let mut w = at_epoch(10);
    w.hold_store = true;
    let before = w.osd.epoch().0;
    for _ in 0..500 {
        w.empty_epoch();
    }
    assert_eq!(w.osd.epoch().0, before, "nothing is stored yet");
    // 50 increments in memory times a lag factor of 2.
    let taken = w.trace.iter().filter(|line| line.contains("inc_osdmap.")).count() as u32;
    assert!((before + 90..before + 110).contains(&taken), "{taken} maps taken");
    w.hold_store = false;
    w.settle();
    assert_eq!(w.osd.epoch().0, w.mon.epoch(), "{:#?}", w.log);
    restarted(w);
}
