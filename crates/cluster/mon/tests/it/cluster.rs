//! The monitor as a whole: a new cluster, OSDs that boot, pools, durability.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{Cluster, FSID, at, config};
use auth::SessionId;
use encoding::Decode;
use maps::{Incremental, OsdMap};
use messages::{Message, MonSubscribe, Subscription};
use mon::{Key, MonEvent, State};
use types::{EntityType, Epoch, SplitMix64};

fn up(osds: i32, local: &[(&str, &str)]) -> (Cluster, SessionId, Vec<SessionId>) {
    let mut cluster = Cluster::new(config(osds, local));
    let sessions = (0..osds).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    (cluster, client, sessions)
}

fn subscribe(what: &[(&str, u64)]) -> MonSubscribe {
    let what = what.iter().map(|(w, start)| (w.to_string(), Subscription { start: *start, flags: 0 }));
    MonSubscribe { what: what.collect(), hostname: "vm".into() }
}

/// Every epoch of a state: each increment applied to the map before gives a map with the checksum that it names, and the
/// whole map, byte for byte, of those epochs that have one.
fn check_maps(state: &State) -> Epoch {
    let of = |service: &str| {
        state
            .iter()
            .filter(|(k, _)| k.service == service)
            .filter_map(|(k, v)| match k.key {
                Key::Version(version) => Some((version, v.clone())),
                Key::Name(_) => None,
            })
            .collect::<BTreeMap<_, _>>()
    };
    let (increments, mut whole) = (of("osdmap"), of("osdmap_full"));
    assert_eq!(increments.keys().next(), whole.keys().next(), "what is left begins with a whole map");
    let mut map: Option<OsdMap> = None;
    for (epoch, increment) in increments {
        let full = whole.remove(&epoch);
        // Both decoders verify their checksum.
        let increment = Incremental::from_bytes_exact(&increment).unwrap();
        let decoded = full.as_ref().map(|full| OsdMap::from_bytes_exact(full).unwrap());
        let mut next = map.take().unwrap_or_default();
        if epoch > 1 && next.epoch == Epoch(0) {
            next = decoded.unwrap();
        } else {
            next.apply(&increment).unwrap();
        }
        let (bytes, crc) = next.encode_full_and_crc();
        assert!(full.is_none_or(|full| full == bytes), "epoch {epoch}");
        assert_eq!(increment.full_crc, crc, "epoch {epoch}");
        map = Some(next);
    }
    assert!(whole.is_empty(), "whole maps of epochs without an increment");
    map.unwrap().epoch
}

#[test]
fn a_new_cluster_is_healthy_once_its_osds_have_booted() {
    let mut cluster = Cluster::new(config(3, &[]));
    let client = cluster.client();
    let health = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.starts_with("HEALTH_WARN"), "{health}");
    assert!(health.contains("OSD_DOWN: 3 osds down"), "{health}");
    assert!(health.contains("OSD_HOST_DOWN: 1 host (3 osds) down"), "{health}");
    assert!(health.contains("OSD_ROOT_DOWN: 1 root (3 osds) down"), "{health}");
    cluster.boot(0);
    cluster.boot(2);
    let health = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("osd.1 (root=default,host=vm) is down"), "{health}");
    assert!(!health.contains("OSD_HOST_DOWN"), "{health}");
    cluster.boot(1);
    assert_eq!(cluster.ok(client, r#"{"prefix":"health"}"#), "HEALTH_OK");
    check_maps(&cluster.disk);
    println!("{}", cluster.ok(client, r#"{"prefix":"status"}"#));
    println!("{}", cluster.ok(client, r#"{"prefix":"osd tree"}"#));
    println!("{}", cluster.ok(client, r#"{"prefix":"osd dump"}"#));
}

#[test]
fn pools_come_and_go_and_every_epoch_is_what_its_increment_makes_of_the_one_before() {
    let (mut cluster, client, _) = up(3, &[]);
    let (code, status, _) = cluster.run(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    assert_eq!((code, status.as_str()), (0, "pool 'p' created"));
    let (code, status, _) = cluster.run(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    assert_eq!((code, status.as_str()), (0, "pool 'p' already exists"));
    assert_eq!(cluster.ok(client, r#"{"prefix":"osd pool ls"}"#), "p\n");
    for (command, code) in [
        (r#"{"prefix":"osd pool create","pool":"x","size":2}"#, -22),
        (r#"{"prefix":"osd pool create","pool":"x","pool_type":"erasure"}"#, -22),
        (r#"{"prefix":"osd pool create","pool":"x","pg_num":100000}"#, -34),
        (r#"{"prefix":"osd pool create","pool":"x","pg_num":1024}"#, -34),
        (r#"{"prefix":"osd pool create","pool":"x","pg_num":8,"pgp_num":16}"#, -34),
        (r#"{"prefix":"osd pool create","pool":"x","pg_num":-8}"#, -22),
        (r#"{"prefix":"osd pool create","pool":"x","rule":"nosuch"}"#, -2),
        (r#"{"prefix":"osd pool create","pool":""}"#, -22),
        (r#"{"prefix":"osd pool rm","pool":"p"}"#, -1),
        (r#"{"prefix":"osd pool rm","pool":"p","pool2":"q","yes_i_really_really_mean_it":true}"#, -1),
        (r#"{"prefix":"osd pool set","pool":"p","var":"size","val":"2"}"#, -22),
        (r#"{"prefix":"osd pool set","pool":"nosuch","var":"size","val":"1"}"#, -2),
        (r#"{"prefix":"osd pool set","pool":"p","var":"hashpspool","val":"false"}"#, -1),
        (r#"{"prefix":"no such command"}"#, -22),
    ] {
        let (got, status, _) = cluster.run(client, command);
        assert_eq!(got, code, "{command}: {status}");
        assert!(!status.is_empty(), "{command} says why");
    }
    cluster.ok(client, r#"{"prefix":"osd pool rename","srcpool":"p","destpool":"q"}"#);
    cluster.ok(client, r#"{"prefix":"osd pool application enable","pool":"q","app":"rados"}"#);
    cluster.ok(client, r#"{"prefix":"osd pool set","pool":"q","var":"compression_mode","val":"force"}"#);
    assert_eq!(
        cluster.ok(client, r#"{"prefix":"osd pool get","pool":"q","var":"compression_mode"}"#),
        "compression_mode: force\n"
    );
    let (code, status, _) = cluster
        .run(client, r#"{"prefix":"osd pool rm","pool":"q","pool2":"q","yes_i_really_really_mean_it":true}"#);
    assert_eq!((code, status.as_str()), (0, "pool 'q' removed"));
    assert_eq!(cluster.ok(client, r#"{"prefix":"osd pool ls"}"#), "");
    assert!(check_maps(&cluster.disk) > Epoch(8));
}

#[test]
fn removing_pools_is_allowed_until_config_set_switches_it_off() {
    let (mut cluster, client, _) = up(1, &[]);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    let remove = r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    let set = |value: &str| {
        format!(r#"{{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"{value}"}}"#)
    };
    cluster.ok(client, &set("false"));
    let (code, status, _) = cluster.run(client, remove);
    assert!(code == -1 && status.contains("mon_allow_pool_delete"), "{code} {status}");
    cluster.ok(client, &set("true"));
    assert_eq!(cluster.run(client, remove).0, 0);
    let (code, status, _) = cluster
        .run(client, r#"{"prefix":"config set","who":"osd","name":"mon_allow_pool_dalete","value":"1"}"#);
    assert_eq!(code, -22);
    assert!(status.contains("did you mean 'mon_allow_pool_delete'"), "{status}");
}

#[test]
fn nothing_is_answered_or_shown_before_it_is_durable() {
    let (mut cluster, client, _) = up(1, &[]);
    let watcher = cluster.client();
    cluster.send(watcher, subscribe(&[("osdmap", 0)]));
    assert!(matches!(&cluster.take(watcher)[..], [Message::OsdMap(m)] if m.maps.len() == 1));
    let before = cluster.mon.osdmap().epoch;
    cluster.ask(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    cluster.ask(client, r#"{"prefix":"osd pool create","pool":"q"}"#);
    cluster.ask(client, r#"{"prefix":"osd pool ls"}"#);
    assert_eq!(cluster.mon.osdmap().epoch, before);
    assert!(cluster.take(watcher).is_empty());
    let early = cluster.take(client);
    assert!(
        matches!(&early[..], [Message::MonCommandAck(ack)] if ack.data.is_empty()),
        "only ls, of nothing"
    );
    // A kill now: neither pool was ever seen.
    let disk = cluster.disk.clone();
    assert!(Cluster::start(cluster.config.clone(), disk).mon.osdmap().pools.is_empty());
    assert!(cluster.commit_one());
    assert!(matches!(&cluster.take(client)[..], [Message::MonCommandAck(_)]), "the first is answered");
    let seen = cluster.take(watcher);
    assert!(matches!(&seen[..], [Message::OsdMap(m)] if m.incremental_maps.len() == 1 && m.maps.is_empty()));
    // Killed with the second under way: the first stays, the second was never answered.
    let again = Cluster::start(cluster.config.clone(), cluster.disk.clone());
    assert_eq!(again.mon.osdmap().pools.len(), 1);
    cluster.settle();
    assert_eq!(cluster.mon.osdmap().pools.len(), 2);
    assert_eq!(cluster.take(client).len(), 1);
}

#[test]
fn whatever_was_answered_survives_a_kill_at_any_commit() {
    let mut random = SplitMix64::new(1);
    let (mut cluster, mut client, _) = up(1, &[("mon_max_pg_per_osd", "100000")]);
    let mut answered = BTreeSet::new();
    for round in 0..60 {
        for n in 0..random.below(4) {
            let name = format!("p{round}-{n}");
            cluster.ask(client, &format!(r#"{{"prefix":"osd pool create","pool":"{name}","pg_num":1}}"#));
        }
        for _ in 0..random.below(3) {
            cluster.commit_one();
        }
        for message in cluster.take(client) {
            if let Message::MonCommandAck(ack) = message {
                assert_eq!(ack.result, 0, "{}", ack.status);
                answered.insert(ack.status.split('\'').nth(1).unwrap().to_string());
            }
        }
        if random.one_in(3) {
            cluster = cluster.kill();
            client = cluster.client();
        }
        let there: BTreeSet<String> = cluster.mon.osdmap().pool_names.values().cloned().collect();
        assert!(answered.is_subset(&there), "round {round}: {answered:?} {there:?}");
    }
    assert!(answered.len() > 20);
    check_maps(&cluster.disk);
}

#[test]
fn global_ids_come_from_durable_blocks_and_never_twice() {
    let mut cluster = Cluster::new(config(0, &[]));
    let mut seen = BTreeSet::new();
    for round in 0..6u64 {
        for n in 0..3000 {
            cluster.event(MonEvent::GlobalIdWanted { session: SessionId(1000 + n), asked: 0 });
            if n % 700 == 0 {
                cluster.commit_one();
            }
        }
        if round % 2 == 0 {
            cluster.settle();
        }
        assert!(cluster.ids.len() > 100, "round {round}: some are given");
        for (_, id) in cluster.ids.drain(..) {
            assert!(id > 0 && seen.insert(id), "{id} was given twice");
        }
        cluster = cluster.kill();
    }
}

#[test]
fn an_osd_boots_goes_down_and_comes_back_with_new_addresses() {
    let (mut cluster, client, sessions) = up(2, &[]);
    let before = cluster.mon.osdmap().clone();
    // The same process again: only the map is sent.
    let boot = cluster.boot_message(0, sessions[0]);
    cluster.take(sessions[0]);
    cluster.send(sessions[0], boot);
    assert!(cluster.commits.is_empty());
    assert!(matches!(&cluster.take(sessions[0])[..], [Message::OsdMap(_)]));
    // A new process while the old one counts as up: down first, then up.
    cluster.boot(0);
    let after = cluster.mon.osdmap().clone();
    assert_eq!(after.epoch.0, before.epoch.0 + 2);
    let osd = types::OsdId(0);
    assert!(after.is_up(osd));
    assert_ne!(after.client_addrs(osd), before.client_addrs(osd));
    assert_eq!(after.osd(osd).unwrap().info.up_from, after.epoch);
    // A store of another OSD or cluster does not boot.
    let thief = cluster.open_session(EntityType::Osd, "1", 7000);
    let mut boot = cluster.boot_message(1, thief);
    boot.superblock.osd_fsid = common::uuid(9);
    cluster.send(thief, boot);
    let mut boot = cluster.boot_message(1, thief);
    boot.superblock.cluster_fsid = common::uuid(9);
    cluster.send(thief, boot);
    let refused = cluster.log.iter().filter(|line| line.contains("refused")).count();
    assert!(cluster.commits.is_empty() && refused == 2, "{:?}", cluster.log);
    // It says that it stops.
    let addrs = cluster.mon.osdmap().client_addrs(types::OsdId(1)).unwrap().clone();
    let m = messages::OsdMarkMeDown {
        paxos: Default::default(),
        fsid: FSID,
        target_osd: types::OsdId(1),
        target_addrs: addrs,
        epoch: cluster.mon.osdmap().epoch,
        request_ack: true,
        down_and_dead: true,
    };
    cluster.take(sessions[1]);
    cluster.send(sessions[1], m);
    assert!(cluster.take(sessions[1]).is_empty(), "not acknowledged before it is durable");
    cluster.settle();
    assert!(matches!(&cluster.take(sessions[1])[..], [Message::OsdMarkMeDown(_)]));
    assert!(!cluster.mon.osdmap().is_up(types::OsdId(1)));
    assert!(cluster.ok(client, r#"{"prefix":"osd tree"}"#).contains("down"));
    check_maps(&cluster.disk);
}

#[test]
fn an_osd_that_stays_down_goes_out_but_not_below_the_ratio() {
    let (mut cluster, client, _) = up(4, &[("mon_osd_min_in_ratio", "0.75")]);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0","1","2"]}"#);
    cluster.now = at(599);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    assert!(cluster.mon.osdmap().is_in(types::OsdId(0)));
    for second in 0..5 {
        cluster.now = at(620 + second);
        cluster.event(MonEvent::Tick);
        cluster.settle();
    }
    let map = cluster.mon.osdmap();
    assert!(!map.is_in(types::OsdId(0)));
    assert!(!map.is_in(types::OsdId(1)), "three of four are still enough to let one more go");
    assert!(map.is_in(types::OsdId(2)), "half of four are not");
    // It comes back in when it boots.
    cluster.boot(0);
    assert!(cluster.mon.osdmap().is_in(types::OsdId(0)));
    // Silence for mon_osd_report_timeout.
    cluster.now = at(620 + 901 + 620);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    assert!(!cluster.mon.osdmap().is_up(types::OsdId(3)));
    check_maps(&cluster.disk);
}

#[test]
fn one_of_three_osds_that_stays_down_goes_out() {
    let (mut cluster, client, _) = up(3, &[]);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    cluster.now = at(601);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    assert!(!cluster.mon.osdmap().is_in(types::OsdId(1)));
}

#[test]
fn subscribers_get_a_full_map_first_then_each_increment_once_in_bounded_messages() {
    let (mut cluster, client, _) = up(1, &[("osd_map_message_max", "3"), ("mon_max_pg_per_osd", "10000")]);
    let watcher = cluster.client();
    cluster.send(watcher, subscribe(&[("osdmap", 0), ("monmap", 0), ("config", 0), ("mgrmap", 0)]));
    let kinds: Vec<&str> = cluster.take(watcher).iter().map(Message::name).collect();
    assert_eq!(kinds, ["MConfig", "MMgrMap", "MMonMap", "MOSDMap"]);
    let mut epoch = cluster.mon.osdmap().epoch;
    for n in 0..7 {
        cluster.ok(client, &format!(r#"{{"prefix":"osd pool create","pool":"p{n}"}}"#));
        let got = cluster.take(watcher);
        let [Message::OsdMap(m)] = &got[..] else { panic!("{got:?}") };
        epoch = epoch.next();
        assert_eq!(m.incremental_maps.keys().copied().collect::<Vec<_>>(), [epoch]);
    }
    // One that is behind gets them all, three a message.
    let late = cluster.client();
    cluster.send(late, subscribe(&[("osdmap", u64::from(epoch.0) - 6)]));
    let sizes: Vec<usize> = cluster
        .take(late)
        .iter()
        .map(|m| match m {
            Message::OsdMap(m) => m.incremental_maps.len() + m.maps.len(),
            _ => 0,
        })
        .collect();
    assert_eq!(sizes, [3, 3, 1]);
    // One that wants the future waits for it.
    let early = cluster.client();
    cluster.send(early, subscribe(&[("osdmap", u64::from(epoch.0) + 2)]));
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"x"}"#);
    assert!(cluster.take(early).is_empty());
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"y"}"#);
    assert_eq!(cluster.take(early).len(), 1);
    // A changed option reaches those that it applies to.
    cluster.take(watcher);
    cluster.ok(client, r#"{"prefix":"config set","who":"osd","name":"mon_data_avail_warn","value":"1"}"#);
    assert!(cluster.take(watcher).is_empty(), "a client has nothing of the OSDs'");
    cluster.ok(client, r#"{"prefix":"config set","who":"global","name":"mon_data_avail_warn","value":"1"}"#);
    assert!(matches!(&cluster.take(watcher)[..], [Message::Config(m)] if m.config.len() == 1));
}

#[test]
fn a_one_time_subscriber_to_maps_gets_those_that_follow_within_seconds_too() {
    let (mut cluster, client, _) = up(3, &[]);
    let watcher = cluster.client();
    let next = u64::from(cluster.mon.osdmap().epoch.0) + 1;
    let onetime = Subscription { start: next, flags: Subscription::ONETIME };
    let asked = MonSubscribe { what: [("osdmap".to_string(), onetime)].into(), hostname: "vm".into() };
    cluster.send(watcher, asked);
    for (second, pool, maps) in [(0, "a", 1), (5, "b", 1), (7, "c", 0), (8, "d", 0)] {
        cluster.now = at(second);
        cluster.ok(client, &format!(r#"{{"prefix":"osd pool create","pool":"{pool}"}}"#));
        assert_eq!(cluster.take(watcher).len(), maps, "after {second} s");
    }
}

#[test]
fn a_watcher_of_the_log_gets_each_line_of_its_level_once() {
    let (mut cluster, client, _) = up(1, &[]);
    let watcher = cluster.client();
    cluster.send(watcher, subscribe(&[("log-info", 0)]));
    let texts = |messages: Vec<Message>| -> Vec<String> {
        let lines = messages.into_iter().flat_map(|m| match m {
            Message::Log(m) => m.entries.into_iter().filter(|entry| entry.channel == "cluster"),
            other => panic!("{other:?}"),
        });
        lines.map(|line| String::from_utf8_lossy(&line.message).into_owned()).collect()
    };
    assert!(texts(cluster.take(watcher)).iter().any(|line| line.contains("boot")), "what was before");
    cluster.ok(client, r#"{"prefix":"log","logtext":["hello"]}"#);
    assert_eq!(texts(cluster.take(watcher)), ["hello"]);
    let worried = cluster.client();
    cluster.send(worried, subscribe(&[("log-warn", 0)]));
    cluster.ok(client, r#"{"prefix":"log","logtext":["again"]}"#);
    assert_eq!(texts(cluster.take(watcher)), ["again"]);
    assert!(texts(cluster.take(worried)).is_empty(), "too unimportant");
    cluster.send(watcher, subscribe(&[("log-error", 0)]));
    cluster.ok(client, r#"{"prefix":"log","logtext":["more"]}"#);
    assert!(texts(cluster.take(watcher)).is_empty(), "another level takes the place of the one before");
}

#[test]
fn reports_of_pgs_make_the_status_and_new_pgs_are_asked_for() {
    let (mut cluster, client, sessions) = up(3, &[]);
    for session in &sessions {
        cluster.send(*session, subscribe(&[("osd_pg_creates", 0), ("osdmap", 0)]));
        cluster.take(*session);
    }
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    let mut made = BTreeSet::new();
    for session in &sessions {
        for message in cluster.take(*session) {
            if let Message::OsdPgCreate2(m) = message {
                assert!(m.pgs.values().all(|(epoch, _)| *epoch == cluster.mon.osdmap().epoch));
                made.extend(m.pgs.into_keys().map(|pg| pg.pg));
            }
        }
    }
    assert_eq!(made.len(), 32);
    assert!(cluster.ok(client, r#"{"prefix":"status"}"#).contains("100.000% pgs unknown"));
    for (osd, session) in sessions.iter().enumerate() {
        cluster.report(osd as i32, *session, 1);
        assert!(matches!(&cluster.take(*session)[..], [Message::PgStatsAck(ack)] if !ack.pg_stat.is_empty()));
    }
    let status = cluster.ok(client, r#"{"prefix":"status"}"#);
    assert!(status.contains("32 active+clean"), "{status}");
    assert!(status.contains("objects: 32 objects, 128 KiB"), "{status}");
    let health = cluster.ok(client, r#"{"prefix":"health"}"#);
    assert!(health.contains("1 pool(s) do not have an application enabled"), "{health}");
    cluster.ok(client, r#"{"prefix":"osd pool application enable","pool":"p","app":"rados"}"#);
    assert_eq!(cluster.ok(client, r#"{"prefix":"health"}"#), "HEALTH_OK");
    for command in ["df", "osd df", "osd pool stats", "pg stat", "pg dump", "pg ls", "osd tree"] {
        println!("{}", cluster.ok(client, &format!(r#"{{"prefix":"{command}"}}"#)));
    }
    println!("{}", cluster.ok(client, r#"{"prefix":"df","detail":"detail"}"#));
    println!("{}", cluster.ok(client, r#"{"prefix":"osd df","output_method":"tree"}"#));
    cluster.event(MonEvent::DiskSpace { total: 100, available: 20 });
    assert!(cluster.ok(client, r#"{"prefix":"health"}"#).contains("mon a is low on available space"));
    cluster.event(MonEvent::DiskSpace { total: 100, available: 4 });
    assert!(cluster.ok(client, r#"{"prefix":"health"}"#).starts_with("HEALTH_ERR"));
}

#[test]
fn old_epochs_are_trimmed_and_who_is_older_gets_a_full_map() {
    let (mut cluster, client, _) = up(1, &[("mon_min_osdmap_epochs", "5")]);
    for _ in 0..140 {
        cluster.ok(client, r#"{"prefix":"osd set","key":"noout"}"#);
        cluster.ok(client, r#"{"prefix":"osd unset","key":"noout"}"#);
    }
    let kept = cluster.disk.keys().filter(|k| k.service == "osdmap").count();
    assert!(kept < 270, "{kept}");
    check_maps(&cluster.disk);
    let late = cluster.client();
    cluster.send(late, subscribe(&[("osdmap", 2)]));
    let Some(Message::OsdMap(first)) = cluster.take(late).into_iter().next() else { panic!() };
    assert_eq!(first.maps.len(), 1);
}

#[test]
fn the_same_events_give_the_same_effects() {
    let run = || {
        let (mut cluster, client, sessions) = up(3, &[]);
        for (n, command) in [
            r#"{"prefix":"osd pool create","pool":"p"}"#,
            r#"{"prefix":"status"}"#,
            r#"{"prefix":"osd set","key":"noout"}"#,
            r#"{"prefix":"osd out","ids":["1"]}"#,
            r#"{"prefix":"config set","who":"global","name":"mon_max_pg_per_osd","value":"300"}"#,
            r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#,
        ]
        .iter()
        .enumerate()
        {
            cluster.ask(client, command);
            cluster.report(n as i32 % 3, sessions[n % 3], n as u64);
            cluster.now = at(n as u32);
            cluster.event(MonEvent::Tick);
            cluster.commit_one();
        }
        cluster.settle();
        (cluster.trace, cluster.disk)
    };
    assert_eq!(run(), run());
}

#[test]
fn a_session_cannot_hold_more_than_its_share() {
    let (mut cluster, client, _) = up(1, &[]);
    for n in 0..1000 {
        cluster.ask(client, &format!(r#"{{"prefix":"osd pool create","pool":"p{n}","pg_num":1}}"#));
    }
    assert!(cluster.closed.contains(&client));
    let many: Vec<String> = (0..100).map(|n| format!("kv:{n}")).collect();
    let other = cluster.client();
    cluster.send(other, subscribe(&many.iter().map(|w| (w.as_str(), 0)).collect::<Vec<_>>()));
    assert!(cluster.closed.contains(&other));
    let raw = messages::RawMessage::new(Default::default(), buffer::Piece::empty());
    for _ in 0..3 {
        let third = cluster.client();
        cluster.send(third, Message::Unknown { kind: 999, raw: Box::new(raw.clone()) });
    }
    assert_eq!(cluster.log.iter().filter(|l| l.contains("999")).count(), 1, "{:?}", cluster.log);
}

#[test]
fn a_full_osd_or_a_reached_quota_flags_its_pools_until_it_is_over() {
    let (mut cluster, client, sessions) = up(1, &[]);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let full = |state| messages::OsdFull { map_epoch: Epoch(1), state, ..Default::default() };
    let tick = |cluster: &mut Cluster| {
        cluster.event(MonEvent::Tick);
        cluster.settle();
        cluster.mon.osdmap().pools.values().next().unwrap().flags
    };
    cluster.send(sessions[0], full(maps::OsdState::FULL));
    cluster.settle();
    assert!(tick(&mut cluster) & maps::PoolFlags::FULL != 0);
    let health = cluster.ok(client, r#"{"prefix":"health"}"#);
    assert!(health.contains("1 full osd(s)") && health.contains("1 pool(s) full"), "{health}");
    cluster.send(sessions[0], full(0));
    cluster.settle();
    assert_eq!(tick(&mut cluster) & maps::PoolFlags::FULL, 0);
    cluster.ok(client, r#"{"prefix":"osd pool set-quota","pool":"p","field":"max_objects","val":"5"}"#);
    cluster.report(0, sessions[0], 1);
    cluster.settle();
    assert!(tick(&mut cluster) & maps::PoolFlags::FULL_QUOTA != 0);
    cluster.ok(client, r#"{"prefix":"osd pool set-quota","pool":"p","field":"max_objects","val":"0"}"#);
    assert_eq!(tick(&mut cluster) & maps::PoolFlags::FULL_QUOTA, 0);
    check_maps(&cluster.disk);
}

#[test]
fn who_asks_for_file_systems_is_told_that_there_are_none() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    cluster.send(client, subscribe(&[("fsmap", 0), ("fsmap.user", 1)]));
    let (all, short) = (messages::FsMap { epoch: 1, ..Default::default() }, messages::FsMapUser { epoch: 1 });
    assert_eq!(cluster.take(client), [Message::from(all), short.into()]);
    cluster.send(client, subscribe(&[("fsmap", 2), ("fsmap.user", 2), ("mdsmap", 0)]));
    assert_eq!(cluster.take(client), []);
}
