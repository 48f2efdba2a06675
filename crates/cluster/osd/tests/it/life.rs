//! Boot, maps, pools, restarts: an OSD with a scripted monitor.

use crate::world;

use std::sync::Arc;

use crate::world::*;
use auth::{Caps, SessionId};
use messages::Message;
use options::Values;
use osd::{CoreId, Osd, OsdEffect, OsdEvent, OsdPhase, Placement};
use store::{CollectionId, Completion, NoPeek, ObjectStore, ReadOutcome, ReadRequest, Token};
use types::{EntityAddr, Epoch, Fsid, OsdId, PoolId, UTime};

#[test]
fn a_new_osd_boots_as_a_stock_one_does_and_becomes_active_when_a_map_shows_it_up() {
    let w = World::active();
    let names: Vec<&str> = w.mon.received.iter().map(|m| m.name()).collect();
    let first =
        ["MMonGetMap", "MMonSubscribe", "MMonSubscribe", "MMonGetVersion", "MMonSubscribe", "MOSDBoot"];
    assert_eq!(names[..6], first);
    let Message::MonSubscribe(m) = &w.mon.received[1] else { panic!() };
    assert_eq!(m.what.keys().collect::<Vec<_>>(), ["config", "monmap"]);
    let Message::OsdBoot(boot) = &w.mon.received[5] else { panic!() };
    assert_eq!((boot.superblock.osd_fsid, boot.superblock.current_epoch), (OSD_FSID, Epoch(2)));
    assert_eq!(boot.metadata["front_addr"], "v2:127.0.0.1:6800/1");
    assert_eq!(w.osd.epoch(), Epoch(3));
    assert!(names.contains(&"MOSDBeacon") && names.contains(&"MPGStats"));
}

#[test]
fn each_start_boots_with_its_own_nonce_into_a_new_epoch() {
    let mut w = World::active();
    for start in 2..5 {
        let before = w.mon.map().osd(ME).unwrap().info.up_from;
        w.restart();
        assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
        let me = w.mon.map().osd(ME).unwrap();
        assert_eq!(me.client_addrs, addr(start).into());
        assert!(me.info.up_from > before);
        assert_eq!(w.osd.epoch().0, w.mon.epoch());
    }
}

#[test]
fn the_map_of_the_start_before_does_not_count_as_up() {
    let mut w = World::active();
    w.mon.deaf_to_boots = true;
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Booting, "its own addresses are not in the map yet");
    let boots = w.count("MOSDBoot");
    w.pass_ms(30_000);
    assert!(w.count("MOSDBoot") > boots, "it asks again");
}

#[test]
fn marked_down_while_alive_it_boots_again_and_only_a_later_map_counts() {
    let mut w = World::active();
    let boots = w.count("MOSDBoot");
    w.change(|_, inc| {
        inc.new_state.insert(ME, maps::OsdState::UP);
    });
    assert_eq!((w.osd.state(), w.rebinds), (OsdPhase::Preboot, 1), "{:#?}", w.log);
    assert_eq!(w.count("MOSDBoot"), boots, "not at the address of before");
    let cluster = EntityAddr::v2(([127, 0, 0, 1], 7777).into(), 4242);
    w.event(OsdEvent::Rebound(cluster.into()));
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    assert_eq!((w.count("MOSDBoot"), w.count("MOSDMarkMeDead")), (boots + 1, 1));
    let map = w.mon.map();
    let me = map.osd(ME).unwrap();
    assert_eq!((&me.cluster_addrs, &me.client_addrs), (&cluster.into(), &world::addr(w.nonce).into()));
}

/// What a start fails with whose map has changed since the last so.
fn failed_start(change: impl FnOnce(&mut maps::Incremental)) -> String {
    let mut w = World::active();
    // As a monitor does of such an OSD.
    w.mon.deaf_to_boots = true;
    w.mon.change(|_, inc| inc.new_state = [(ME, maps::OsdState::UP)].into());
    w.mon.change(|_, inc| change(inc));
    w.restart();
    assert_eq!((w.osd.state(), w.osd.has_stopped()), (OsdPhase::Stopped, true), "{:#?}", w.log);
    w.failed.unwrap_or_default()
}

#[test]
fn an_osd_that_the_newest_map_shows_destroyed_or_with_another_store_fails() {
    let destroyed = failed_start(|inc| {
        inc.new_state.insert(ME, maps::OsdState::DESTROYED);
    });
    assert!(destroyed.contains("is destroyed"), "{destroyed}");
    let other = Fsid::from_random([9; 16]);
    let replaced = failed_start(|inc| {
        inc.new_uuid.insert(ME, other);
    });
    assert!(replaced.contains("another store") && replaced.contains(&other.to_string()), "{replaced}");
}

#[test]
fn what_an_older_map_says_of_its_store_stops_no_osd() {
    let mut w = World::active();
    for bits in [maps::OsdState::UP, maps::OsdState::DESTROYED] {
        w.mon.change(|_, inc| inc.new_state = [(ME, bits)].into());
    }
    (0..100).for_each(|_| w.mon.change(|_, _| {}));
    w.mon.change(|_, inc| inc.new_state = [(ME, maps::OsdState::DESTROYED)].into());
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
}

#[test]
fn an_osd_that_the_map_no_longer_knows_stops() {
    let mut w = World::active();
    w.change(|_, inc| {
        inc.new_state.insert(ME, maps::OsdState::EXISTS);
    });
    assert!(w.failed.as_deref().is_some_and(|r| r.contains("does not exist")), "{:?}", w.failed);
}

#[test]
fn an_osd_that_fails_says_why_and_that_it_is_down() {
    let mut w = World::active();
    w.event(OsdEvent::Broken("a piece is missing".into()));
    assert_eq!(w.failed.as_deref(), Some("a piece is missing"));
    assert!(w.osd.has_stopped());
    let logged = w.mon.received.iter().find_map(|m| match m {
        Message::Log(log) => Some((log.entries[0].level, log.entries[0].message.clone())),
        _ => None,
    });
    assert_eq!(logged, Some((messages::LogEntry::ERROR, "osd.0 failed: a piece is missing".into())));
    let down = w.mon.received.iter().find_map(|m| match m {
        Message::OsdMarkMeDown(m) => Some((m.request_ack, m.down_and_dead)),
        _ => None,
    });
    assert_eq!(down, Some((true, false)));
    assert!(!w.mon.map().is_up(ME));
}

#[test]
fn an_osd_that_fails_does_not_wait_for_a_monitor_that_does_not_answer() {
    let mut w = World::active();
    w.mon.session = None;
    let mut effects = Vec::new();
    w.osd.handle(w.now, OsdEvent::Broken("a piece is missing".into()), &mut NoPeek, &mut effects);
    assert!(!w.osd.has_stopped());
    // Whatever comes counts for nothing.
    effects.clear();
    w.osd.handle(w.now, OsdEvent::Shutdown, &mut NoPeek, &mut effects);
    assert!(effects.is_empty(), "{effects:?}");
    w.pass_ms(10_000);
    assert_eq!(w.failed.as_deref(), Some("a piece is missing"));
    assert!(w.osd.has_stopped());
}

#[test]
fn a_clean_stop_tells_the_monitor_and_waits_for_it() {
    let mut w = World::active();
    w.event(OsdEvent::Shutdown);
    assert!(w.stopped);
    assert!(!w.mon.map().is_up(ME));
    let stopped_at = w.osd.epoch();
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    let boot = w.mon.received.iter().rev().find_map(|m| match m {
        Message::OsdBoot(b) => Some(b.superblock.clone()),
        _ => None,
    });
    assert_eq!(boot.map(|sb| (sb.mounted, sb.clean_thru)), Some((Epoch(3), stopped_at)));
}

#[test]
fn a_stop_without_a_monitor_ends_by_itself() {
    let mut w = World::active();
    let attempt = w.mon.session.unwrap();
    w.mon.session = None;
    w.event(OsdEvent::Shutdown);
    let _ = attempt;
    w.pass_ms(10_000);
    assert!(w.stopped, "{:#?}", w.log);
}

#[test]
fn a_store_of_another_osd_is_refused() {
    let mut w = World::active();
    let mut config = config(9, w.options.clone());
    config.osd_fsid = FSID;
    w.osd = osd::Osd::new(config);
    w.start();
    assert!(w.failed.as_deref().is_some_and(|r| r.contains("belongs to osd.0")), "{:?}", w.failed);
}

#[test]
fn a_new_pools_pgs_are_made_on_the_monitors_word_and_reported_active_within_100_ms() {
    let mut w = World::active();
    w.create_pool(1, 8);
    assert_eq!(w.osd.pg_ids().len(), 8);
    assert_eq!(w.count("MOSDPGCreated"), 8);
    assert!(w.count("MOSDAlive") >= 1);
    w.pass_ms(100);
    let stats = w.stats().unwrap();
    assert_eq!(stats.pg_stat.len(), 8);
    for (pgid, stat) in &stats.pg_stat {
        assert_eq!(stat.state.to_string(), "active+clean", "{pgid}");
        assert_eq!((stat.acting.clone(), stat.acting_primary), (vec![ME], ME));
    }
    assert_eq!((stats.osd_stat.num_pgs, stats.osd_stat.statfs.total), (8, 1 << 30));
    let me = w.mon.map().osd(ME).unwrap().info;
    assert!(me.up_thru >= Epoch(4), "up_thru covers the PGs' interval: {me:?}");
}

#[test]
fn statistics_and_beacons_come_at_their_intervals() {
    let mut w = World::active();
    let (stats, beacons) = (w.count("MPGStats"), w.count("MOSDBeacon"));
    w.pass_ms(1_000_000);
    let stats = w.count("MPGStats") - stats;
    assert!((195..=205).contains(&stats), "every 5 s in 1000 s: {stats}");
    assert_eq!(w.count("MOSDBeacon") - beacons, 3);
}

#[test]
fn an_old_order_to_create_is_not_followed() {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.finish_pool(1);
    let created = w.count("MOSDPGCreated");
    w.send_creates(1, 8);
    assert_eq!(w.osd.pg_ids().len(), 4);
    assert_eq!(w.count("MOSDPGCreated"), created);
}

#[test]
fn an_order_to_create_that_overtakes_its_map_waits_for_it() {
    let mut w = World::active();
    let held = w.mon.osdmap_next.take();
    w.create_pool(1, 4);
    assert!(w.osd.pg_ids().is_empty());
    w.mon.osdmap_next = held;
    w.push_maps();
    assert_eq!(w.osd.pg_ids().len(), 4);
}

#[test]
fn an_order_without_history_is_followed_where_nobody_else_can_have_had_the_pg() {
    let mut w = World::active();
    let made = w.publish_pool(1, 4);
    w.empty_epoch();
    w.restart();
    assert!(w.osd.pg_ids().is_empty());
    w.send_creates_without_history(1, 4, made);
    assert_eq!(w.osd.pg_ids().len(), 4, "{:#?}", w.log);
    w.open_client(CLIENT);
    let op = w.write("a", b"x");
    assert_eq!(w.ask(CLIENT, op).result, 0);
}

#[test]
fn an_order_without_history_is_refused_where_another_osd_had_the_pg() {
    let mut w = World::active();
    // All PGs belong to osd.1 at first, then to this OSD.
    w.change(|map, inc| {
        let mut crush = map.crush.clone();
        crush.add_osd(1, 0x10000, "host", None).unwrap();
        inc.set_crush(&crush);
        inc.new_max_osd = Some(2);
        inc.new_state.insert(OsdId(1), maps::OsdState::EXISTS);
        inc.new_weight.insert(OsdId(1), 0x10000);
        inc.new_weight.insert(ME, 0);
        for up in [
            &mut inc.new_up_client,
            &mut inc.new_up_cluster,
            &mut inc.new_hb_back_up,
            &mut inc.new_hb_front_up,
        ] {
            up.insert(OsdId(1), addr(99).into());
        }
    });
    let made = w.publish_pool(1, 4);
    w.change(|_, inc| {
        inc.new_weight.insert(ME, 0x10000);
        inc.new_weight.insert(OsdId(1), 0);
    });
    assert_eq!(w.mon.map().pg_to_up_acting(pg(1, 0).pg).acting, [ME]);
    w.send_creates_without_history(1, 4, made);
    assert!(w.osd.pg_ids().is_empty());
}

#[test]
fn an_order_without_history_is_refused_by_a_store_younger_than_the_pool() {
    let mut w = World::active();
    let made = w.publish_pool(1, 4);
    for _ in 0..5 {
        w.empty_epoch();
    }
    // The disk is replaced; the monitor has forgotten the older maps.
    w.store = store::MemStore::new(1 << 30);
    w.mon.trimmed = made + 2;
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    w.send_creates_without_history(1, 4, made);
    assert!(w.osd.pg_ids().is_empty());
}

#[test]
fn an_order_without_history_is_refused_where_another_store_of_this_osd_had_the_pg() {
    let made = |store: Fsid| {
        let mut w = World::new();
        w.mon.change(|_, inc| {
            // With a weight it exists.
            inc.new_weight.insert(ME, 0x10000);
            inc.new_uuid.insert(ME, store);
            inc.new_pool_max = Some(1);
            inc.new_pools.insert(PoolId(1), maps::PgPool::replicated(1, 1, 4, 0));
            inc.new_pool_names.insert(PoolId(1), "pool1".into());
        });
        let made = w.mon.epoch();
        // The disk is replaced; every map since the first is still there.
        w.mon.change(|_, inc| {
            inc.new_uuid.insert(ME, OSD_FSID);
        });
        w.start();
        assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
        w.send_creates_without_history(1, 4, made);
        w.osd.pg_ids().len()
    };
    assert_eq!(made(Fsid([8; 16])), 0);
    assert_eq!((made(OSD_FSID), made(Fsid::default())), (4, 4), "this store, or none yet");
}

fn collections(w: &mut World) -> Vec<CollectionId> {
    w.store.read(ReadRequest::Collections, Token(u64::MAX));
    let mut done = Vec::new();
    w.store.turn(w.now);
    w.store.completions(&mut done);
    match done.pop() {
        Some(Completion::Read { result: Ok(ReadOutcome::Collections(all)), .. }) => all,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_deleted_pools_objects_and_collections_go() {
    let mut w = World::active();
    w.create_pool(1, 2);
    w.open_client(CLIENT);
    for i in 0..300 {
        let op = w.write(&format!("object{i}"), b"data");
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    w.delete_pool(1);
    assert!(w.osd.pg_ids().is_empty());
    assert_eq!(collections(&mut w), [CollectionId::Meta]);
    w.pass_ms(100);
    assert!(w.stats().unwrap().pg_stat.is_empty());
}

#[test]
fn a_pool_deleted_while_the_osd_was_down_goes_at_the_next_start() {
    let mut w = World::active();
    w.create_pool(1, 2);
    w.mon.change(|_, inc| {
        inc.old_pools.insert(PoolId(1));
    });
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    assert_eq!(collections(&mut w), [CollectionId::Meta]);
}

#[test]
fn a_restart_brings_pgs_and_objects_back() {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.finish_pool(1);
    w.open_client(CLIENT);
    for i in 0..20 {
        let op = w.write(&format!("object{i}"), format!("data{i}").as_bytes());
        assert_eq!(w.ask(CLIENT, op).result, 0);
    }
    for _ in 0..3 {
        w.restart();
        assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
        assert_eq!(w.osd.pg_ids().len(), 4);
        w.open_client(CLIENT);
        for i in 0..20 {
            let op = w.read(&format!("object{i}"));
            let reply = w.ask(CLIENT, op);
            assert_eq!(reply.ops[0].outdata.to_vec(), format!("data{i}").as_bytes());
        }
    }
}

#[test]
fn a_pg_is_said_to_be_made_only_when_the_store_durably_has_it() {
    let mut w = World::active();
    w.announce_pool(1, 4);
    w.hold_store = true;
    w.send_creates(1, 4);
    assert_eq!(w.osd.pg_ids().len(), 4);
    w.send_creates(1, 4);
    assert_eq!(w.count("MOSDPGCreated"), 0, "a loss of power would take them back");
    w.hold_store = false;
    w.settle();
    assert_eq!(w.count("MOSDPGCreated"), 4);
    w.send_creates(1, 4);
    assert_eq!(w.count("MOSDPGCreated"), 8, "an order that comes again is answered again");
}

#[test]
fn a_crash_right_after_a_pool_was_made_loses_no_pg() {
    let mut w = World::active();
    w.create_pool(1, 4);
    // No map since then has told the superblock how far PGs got.
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    assert_eq!(w.osd.pg_ids().len(), 4);
    w.pass_ms(100);
    assert!(w.stats().unwrap().pg_stat.values().all(|s| s.state.to_string() == "active+clean"));
}

#[test]
fn many_epochs_behind_it_catches_up_before_it_boots() {
    let mut w = World::active();
    w.event(OsdEvent::Shutdown);
    for _ in 0..200 {
        w.mon.change(|_, _| {});
    }
    w.mon.chunk = 7;
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    assert_eq!(w.osd.epoch().0, w.mon.epoch());
}

#[test]
fn a_hole_in_the_maps_is_asked_for() {
    let mut w = World::active();
    let next = w.mon.osdmap_next.take();
    w.empty_epoch();
    w.empty_epoch();
    let newest = w.mon.epoch();
    let message = w.mon.maps_from(newest);
    w.mon_says(message);
    assert_eq!(w.osd.epoch().0, newest, "asked for from {next:?} on and got: {:#?}", w.mon.received.last());
}

/// Epochs whose maps the store has, from `first` on.
fn stored_epochs(w: &mut World, first: u32) -> Vec<u32> {
    (first..=w.mon.epoch()).filter(|e| w.stored_map(*e).is_some()).collect()
}

#[test]
fn maps_from_a_wrong_checksum_on_are_fetched_whole_and_none_is_skipped() {
    let mut w = World::active();
    w.mon.osdmap_next = None;
    let first = w.mon.epoch() + 1;
    (0..3).for_each(|_| w.mon.change(|_, _| {}));
    let message = w.maps_with_a_wrong_checksum(first);
    w.mon_says(message);
    assert!(w.log.iter().any(|l| l.contains("checksum")), "{:#?}", w.log);
    assert_eq!(w.fulls_asked(), [(first, first + 2)]);
    assert_eq!(w.osd.epoch().0, first + 2, "{:#?}", w.log);
    assert_eq!(stored_epochs(&mut w, first), [first, first + 1, first + 2]);
}

#[test]
fn a_newer_full_map_does_not_close_the_hole_that_a_wrong_checksum_leaves() {
    let mut w = World::active();
    w.mon.osdmap_next = None;
    let first = w.mon.epoch() + 1;
    (0..3).for_each(|_| w.mon.change(|_, _| {}));
    let message = w.maps_with_a_wrong_checksum(first);
    // The monitor's answer is on its way while another OSD shares its newest map.
    w.mon.chunk = 0;
    w.mon_says(message);
    w.mon.chunk = 40;
    w.mon_says(w.mon.maps_from(0));
    assert_eq!(w.osd.epoch().0, first + 2, "{:#?}", w.log);
    assert_eq!(stored_epochs(&mut w, first), [first, first + 1, first + 2]);
}

#[test]
fn full_maps_that_were_asked_for_are_asked_for_again_in_a_new_session() {
    let mut w = World::active();
    w.mon.osdmap_next = None;
    let first = w.mon.epoch() + 1;
    (0..5).for_each(|_| w.mon.change(|_, _| {}));
    let message = w.maps_with_a_wrong_checksum(first);
    // Only the first two arrive.
    w.mon.chunk = 2;
    w.mon_says(message);
    assert_eq!(w.fulls_asked()[..2], [(first, first + 4), (first + 2, first + 4)], "{:#?}", w.log);
    w.mon.chunk = 40;
    w.mon_reconnects();
    assert_eq!(w.osd.epoch().0, first + 4, "{:#?}", w.log);
    assert_eq!(stored_epochs(&mut w, first), (first..first + 5).collect::<Vec<_>>());
}

#[test]
fn a_message_that_claims_far_epochs_does_not_keep_full_maps_from_being_asked_for() {
    let mut w = World::active();
    w.mon.osdmap_next = None;
    let first = w.mon.epoch() + 1;
    for far in [u32::MAX, u32::MAX - 1] {
        let mut forged = messages::OsdMap { fsid: FSID, newest_map: Epoch(far), ..Default::default() };
        forged.incremental_maps = [(Epoch(first), vec![1].into()), (Epoch(far), vec![1].into())].into();
        w.mon.chunk = 0;
        w.mon_says(forged);
    }
    w.mon.chunk = 40;
    (0..4).for_each(|_| w.mon.change(|_, _| {}));
    let message = w.maps_with_a_wrong_checksum(first);
    w.mon_says(message);
    assert_eq!(w.osd.epoch().0, first + 3, "{:?} {:#?}", w.fulls_asked(), w.log);
}

#[test]
fn another_clusters_maps_are_refused() {
    let mut w = World::active();
    w.mon.change(|_, _| {});
    let mut message = w.mon.maps_from(w.mon.epoch());
    message.fsid = OSD_FSID;
    w.mon_says(message);
    assert!(w.osd.epoch().0 < w.mon.epoch());
}

#[test]
fn the_same_events_give_the_same_trace() {
    let run = || {
        let mut w = World::active();
        w.create_pool(1, 8);
        w.open_client(CLIENT);
        for i in 0..50 {
            let op = w.write(&format!("o{i}"), &[i as u8; 100]);
            w.send_op(CLIENT, op);
        }
        w.pass_ms(20_000);
        w.restart();
        w.delete_pool(1);
        w.trace
    };
    let (a, b) = (run(), run());
    assert!(a.len() > 200);
    assert_eq!(a, b);
}

#[test]
fn pgs_whose_records_are_damaged_do_not_keep_the_osd_from_starting() {
    let mut w = World::active();
    w.create_pool(1, 4);
    w.finish_pool(1);
    let mut txn = store::Transaction::new();
    for pgid in w.osd.pg_ids() {
        let meta = types::GHObject::pgmeta(pgid.pg.pool, pgid.pg.seed, pgid.shard);
        txn.set_attr(pgid.into(), &meta, pg::InfoAttr::INFO, vec![1, 2, 3]);
    }
    w.store.queue(txn, store::Token(0));
    w.restart();
    assert_eq!(w.osd.state(), OsdPhase::Active, "{:#?}", w.log);
    assert_eq!(w.log.iter().filter(|line| line.contains("has stopped")).count(), 4);
    // Operators learn which PGs they are: by the cluster log, and by the states that health goes by.
    let entries = w.mon.received.iter().filter_map(|m| match m {
        Message::Log(log) => Some(&log.entries),
        _ => None,
    });
    let of_cluster: Vec<_> = entries.flatten().filter(|e| e.level == messages::LogEntry::ERROR).collect();
    for seed in 0..4 {
        let name = format!("pg 1.{seed} has stopped: ");
        assert!(of_cluster.iter().any(|e| e.message.to_string().starts_with(&name)), "{of_cluster:?}");
    }
    w.pass_ms(10_000);
    let stats = w.stats().unwrap();
    assert_eq!(stats.pg_stat.len(), 4);
    assert!(stats.pg_stat.values().all(|pg| pg.state == messages::PgState::DOWN), "{stats:?}");
    // When their pool is deleted, the OSD says once of each that it is not removed; its next start removes them.
    w.delete_pool(1);
    w.pass_ms(10_000);
    let remain = |w: &World| w.log.iter().filter(|line| line.contains("can't be removed: ")).count();
    assert_eq!(remain(&w), 4, "{:#?}", w.log);
    w.restart();
    w.pass_ms(10_000);
    assert_eq!((remain(&w), w.osd.pg_ids().len()), (4, 0), "{:#?}", w.log);
}

#[test]
fn an_osd_that_stops_or_fails_does_so_on_all_its_cores() {
    let placement = Arc::new(Placement::new(vec![CoreId(0), CoreId(1)], vec![CoreId(0)]).unwrap());
    let on = |core| Osd::on_core(config(1, Values::new()), CoreId(core), placement.clone());
    let (mut control, mut gate) = (on(0), on(1));
    let handle = |osd: &mut Osd, event| {
        let mut effects = Vec::new();
        osd.handle(UTime { sec: 5000, nsec: 0 }, event, &mut NoPeek, &mut effects);
        effects
    };
    let session = SessionId::on_core(1, 7);
    handle(&mut gate, OsdEvent::SessionOpened(client(session, Caps::all())));
    let command = || Message::from(messages::MonGetOsdMap::default());
    let asked = handle(&mut gate, OsdEvent::Message { session, message: command(), bytes: 1000 });
    assert!(matches!(&asked[..], [OsdEffect::ToCore { core: CoreId(0), .. }]), "{asked:?}");

    let stopped = handle(&mut control, OsdEvent::Shutdown);
    let to_gate = stopped.into_iter().filter_map(|effect| match effect {
        OsdEffect::ToCore { core: CoreId(1), message } => Some(message),
        _ => None,
    });
    for message in to_gate {
        assert!(handle(&mut gate, OsdEvent::FromCore(message)).is_empty());
    }
    let unheard = handle(&mut gate, OsdEvent::Message { session, message: command(), bytes: 1000 });
    assert!(unheard.is_empty(), "{unheard:?}");
}

#[test]
fn a_store_that_is_older_than_what_the_osd_acknowledged_does_not_serve() {
    let mut w = World::active();
    w.create_pool(1, 4);
    let stored = w.mon.epoch();
    // The OSD has served on, with a store that is gone. One message has some of these maps.
    (0..100).for_each(|_| w.mon.change(|_, _| {}));
    let served = Epoch(w.mon.epoch());
    w.mon.change(|_, inc| {
        inc.new_up_thru.insert(ME, served);
    });
    w.mon.chunk = 10;
    // What the first start was told has not made it newer.
    for _ in 0..2 {
        w.failed = None;
        w.restart();
        let why = w.failed.clone().unwrap_or_default();
        assert!(why.contains(&format!("it has OSD map {stored}, and served with map {served}")), "{why}");
        assert!(why.contains("--set osd_allow_older_store=true"), "{why}");
    }
    w.failed = None;
    w.options.set("osd_allow_older_store", "true").unwrap();
    w.restart();
    assert_eq!((w.osd.state(), &w.failed), (OsdPhase::Active, &None), "{:#?}", w.log);
    assert!(w.log.iter().any(|line| line.contains("osd_allow_older_store is set")), "{:#?}", w.log);
    w.options.set("osd_allow_older_store", "false").unwrap();
    w.restart();
    assert_eq!((w.osd.state(), &w.failed), (OsdPhase::Active, &None), "once accepted it is the OSD's store");
}

#[test]
fn a_store_whose_newest_map_is_not_the_monitors_of_that_number_does_not_serve() {
    // The monitor's state of a backup has made as many maps as the OSD has, or more.
    for more in [0, 3] {
        let mut w = World::active();
        w.create_pool(1, 4);
        let stored = w.mon.epoch();
        w.mon.epochs.truncate(stored as usize - 2);
        (0..2 + more).for_each(|_| w.mon.change(|_, inc| inc.modified.nsec = 1));
        w.restart();
        let why = w.failed.clone().unwrap_or_default();
        assert!(why.contains(&format!("its OSD map {stored} is another than the monitor's")), "{why}");
        assert!(why.contains("`loligo mon rebuild --force DIR`"), "{why}");
        assert!(w.meta_object(&format!("inc_osdmap.{}", stored + 1)).is_none(), "none of them is stored");
        // A map that the monitor has trimmed is not taken for another one.
        w.failed = None;
        w.mon.trimmed = stored + 1;
        w.mon.change(|_, _| {});
        w.restart();
        assert_eq!((w.osd.state(), &w.failed), (OsdPhase::Active, &None), "{:#?}", w.log);
    }
}

#[test]
fn a_store_is_not_older_for_what_the_osd_never_went_by() {
    let mut w = World::active();
    w.create_pool(1, 4);
    // It is shown up, and dies before it has that map.
    let stored = Epoch(w.mon.epoch());
    w.mon.change(|_, inc| {
        inc.new_state.insert(ME, maps::OsdState::UP);
    });
    let up = addr(w.nonce);
    w.mon.change(|_, inc| {
        for ups in [
            &mut inc.new_up_client,
            &mut inc.new_up_cluster,
            &mut inc.new_hb_back_up,
            &mut inc.new_hb_front_up,
        ] {
            ups.insert(ME, up.into());
        }
    });
    w.mon.change(|_, inc| {
        inc.new_up_thru.insert(ME, stored);
    });
    w.restart();
    assert_eq!((w.osd.state(), &w.failed), (OsdPhase::Active, &None), "{:#?}", w.log);
    // An empty store takes the place of one that served.
    let mut w = World::new();
    (0..100).for_each(|_| w.mon.change(|_, _| {}));
    let served = Epoch(w.mon.epoch());
    w.mon.change(|_, inc| {
        inc.new_up_thru.insert(ME, served);
    });
    w.start();
    assert_eq!((w.osd.state(), &w.failed), (OsdPhase::Active, &None), "{:#?}", w.log);
}
