//! Commands that change the cluster, by what they leave behind.

use crate::common::{Cluster, FSID, at, config};
use auth::SessionId;
use maps::{OsdState, PoolFlags};
use messages::Message;
use mon::MonEvent;
use types::{EntityAddr, EntityAddrVec, EntityName, EntityType, Epoch, OsdId};

fn up(osds: i32) -> (Cluster, SessionId, Vec<SessionId>) {
    let mut cluster = Cluster::new(config(osds, &[]));
    let sessions = (0..osds).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    (cluster, client, sessions)
}

fn tick(cluster: &mut Cluster, second: u32) {
    cluster.now = at(second);
    cluster.event(MonEvent::Tick);
    cluster.settle();
}

#[test]
fn a_blocklist_entry_that_is_added_again_stays() {
    let (mut cluster, client, _) = up(1);
    let add = |seconds: u32| {
        format!(
            r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/7","expire":{seconds}}}"#
        )
    };
    cluster.ok(client, &add(60));
    let first = cluster.mon.osdmap().blocklist.clone();
    assert_eq!(first.len(), 1);
    let (code, status, _) = cluster.run(client, &add(600));
    assert_eq!(
        (code, &cluster.mon.osdmap().blocklist),
        (0, &first),
        "as Ceph's maps have it, it keeps its time"
    );
    assert!(status.contains("already, until 2027-01-15T08:01:00"), "{status}");
    tick(&mut cluster, 61);
    assert!(cluster.mon.osdmap().blocklist.is_empty());
}

#[test]
fn the_blocklist_is_changed_by_its_old_name_too() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd blacklist","blacklistop":"add","addr":"10.0.0.1:0/7"}"#);
    let listed = cluster.ok(client, r#"{"prefix":"osd blacklist ls"}"#);
    assert!(listed.starts_with("10.0.0.1:0/7 "), "{listed}");
    assert_eq!(listed, cluster.ok(client, r#"{"prefix":"osd blocklist ls"}"#));
    cluster.ok(client, r#"{"prefix":"osd blacklist","blacklistop":"rm","addr":"10.0.0.1:0/7"}"#);
    assert!(cluster.mon.osdmap().blocklist.is_empty());
    cluster.ok(client, r#"{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/7"}"#);
    cluster.ok(client, r#"{"prefix":"osd blacklist clear"}"#);
    assert!(cluster.mon.osdmap().blocklist.is_empty());
}

#[test]
fn blocklist_entries_end_in_an_increment_of_the_monitor_each_at_its_time() {
    let (mut cluster, client, _) = up(1);
    for (nonce, seconds) in [(7, 60), (8, 120)] {
        cluster.ok(
            client,
            &format!(
                r#"{{"prefix":"osd blocklist","blocklistop":"add","addr":"10.0.0.1:0/{nonce}","expire":{seconds}}}"#
            ),
        );
    }
    let nonces = |cluster: &Cluster| -> Vec<u32> {
        cluster.mon.osdmap().blocklist.keys().map(|addr| addr.nonce).collect()
    };
    for (second, left) in [(59, vec![7, 8]), (61, vec![8]), (119, vec![8]), (121, vec![])] {
        let epoch = cluster.mon.osdmap().epoch;
        let before = nonces(&cluster);
        tick(&mut cluster, second);
        assert_eq!(nonces(&cluster), left, "after {second} s");
        let expected = if before == left { epoch } else { epoch.next() };
        assert_eq!(cluster.mon.osdmap().epoch, expected, "after {second} s: OSDs learn of it by a map");
    }
}

#[test]
fn a_full_osd_that_is_down_or_out_stops_nobody() {
    let (mut cluster, client, sessions) = up(3);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let pool_is_full =
        |cluster: &Cluster| cluster.mon.osdmap().pools.values().any(|p| p.has_flags(PoolFlags::FULL));
    let full = messages::OsdFull { map_epoch: Epoch(1), state: OsdState::FULL, ..Default::default() };
    cluster.send(sessions[1], full);
    cluster.settle();
    tick(&mut cluster, 1);
    assert!(pool_is_full(&cluster));
    cluster.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    tick(&mut cluster, 2);
    assert!(!pool_is_full(&cluster), "down");
    assert!(!cluster.ok(client, r#"{"prefix":"health"}"#).contains("full"));
    let again = cluster.boot(1);
    let full = messages::OsdFull { map_epoch: Epoch(1), state: OsdState::FULL, ..Default::default() };
    cluster.send(again, full);
    cluster.settle();
    tick(&mut cluster, 3);
    assert!(pool_is_full(&cluster));
    cluster.ok(client, r#"{"prefix":"osd out","ids":["1"]}"#);
    tick(&mut cluster, 4);
    assert!(!pool_is_full(&cluster), "out");
    assert!(!cluster.ok(client, r#"{"prefix":"health"}"#).contains("full"));
    assert!(cluster.mon.osdmap().osd(OsdId(1)).is_some_and(|osd| osd.state & OsdState::FULL != 0));
}

#[test]
fn every_line_of_a_large_log_message_is_taken_before_it_is_acknowledged() {
    let (mut cluster, client, _) = up(1);
    let entry = |seq: u64| messages::LogEntry {
        name: "client.admin".parse().unwrap(),
        rank: EntityName::new(EntityType::Client, 4200),
        addrs: EntityAddrVec(vec![EntityAddr::v2("127.0.0.1:1".parse().unwrap(), 1)]),
        stamp: at(0),
        seq,
        level: 1,
        channel: "cluster".into(),
        message: format!("line {seq} of many").as_str().into(),
    };
    let mut expected = 0;
    for count in [300, 1000] {
        let entries = (expected + 1..=expected + count).map(entry).collect();
        cluster.send(client, messages::Log { paxos: Default::default(), fsid: FSID, entries });
        cluster.settle();
        expected += count;
        let acks: Vec<u64> = cluster
            .take(client)
            .iter()
            .filter_map(|m| if let Message::LogAck(ack) = m { Some(ack.last) } else { None })
            .collect();
        assert_eq!(acks, [expected]);
        let shown = cluster.ok(client, r#"{"prefix":"log last","num":10000}"#);
        let kept = shown.lines().filter(|line| line.contains(" of many")).count() as u64;
        assert!(kept >= count.min(499), "{kept} of {count}");
        assert!(shown.lines().next_back().unwrap().contains(&format!("line {expected} of many")), "{shown}");
    }
}

#[test]
fn a_quota_is_counted_in_thousands_and_measured_in_kibibytes() {
    let (mut cluster, client, _) = up(1);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    let mut quota = |field: &str, val: &str| {
        let command =
            format!(r#"{{"prefix":"osd pool set-quota","pool":"p","field":"{field}","val":"{val}"}}"#);
        let (code, status, _) = cluster.run(client, &command);
        let pool = cluster.mon.osdmap().pools.values().next().unwrap();
        (code, status, pool.quota_max_objects, pool.quota_max_bytes)
    };
    let said = |field, n: u64| format!("set-quota {field} = {n} for pool p");
    assert_eq!(quota("max_objects", "1K"), (0, said("max_objects", 1000), 1000, 0));
    assert_eq!(quota("max_objects", "2M"), (0, said("max_objects", 2_000_000), 2_000_000, 0));
    for (val, bytes) in
        [("1K", 1 << 10), ("1Ki", 1 << 10), ("3KB", 3 << 10), ("2Mi", 2 << 20), ("4Gi", 4 << 30)]
    {
        assert_eq!(quota("max_bytes", val), (0, said("max_bytes", bytes), 2_000_000, bytes), "{val}");
    }
    for (field, val) in
        [("max_objects", "1Ki"), ("max_objects", "-1"), ("max_bytes", "-1"), ("max_bytes", "1X")]
    {
        let (code, status, objects, bytes) = quota(field, val);
        assert_eq!((code, objects, bytes), (-22, 2_000_000, 4 << 30), "{field} {val}");
        assert!(status.contains(val), "{status}");
    }
    assert_eq!(quota("max_objects", "0").2, 0);
}
