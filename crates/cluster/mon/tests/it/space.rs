//! What health says of full OSDs: of a shard that is full alone, and of a file system that has less than they may take.

use std::collections::BTreeMap;

use crate::common::{self, Cluster, config};
use maps::OsdState;
use messages::{FULLEST_SHARD_ALERT, OsdFull, Paxos, PgStats};
use mon::MonEvent;
use types::{EntityType, Epoch, OsdId};

#[test]
fn the_fullest_shard_of_a_full_osd_is_named_below_it() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let osd = cluster.boot(0);
    let mut stats = PgStats { fsid: common::FSID, epoch: cluster.mon.osdmap().epoch, ..PgStats::default() };
    let words = "shard 1 of its store's 2 is 96% full".to_owned();
    stats.osd_stat.os_alerts =
        BTreeMap::from([(OsdId(0), BTreeMap::from([(FULLEST_SHARD_ALERT.to_owned(), words)]))]);
    cluster.event(MonEvent::Message { session: osd, message: stats.into() });
    let state = OsdState::FULL;
    cluster.send(osd, OsdFull { paxos: Paxos::default(), map_epoch: Epoch(1), state });
    cluster.settle();
    let detail = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(detail.contains("OSD_FULL: 1 full osd(s)"), "{detail}");
    let lines = ["    osd.0 is full", "    osd.0: shard 1 of its store's 2 is 96% full"].join("\n");
    assert!(detail.contains(&lines), "{detail}");
}

#[test]
fn what_a_pool_may_still_take_is_what_the_fullest_shard_of_its_osd_has_left() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let osd = cluster.boot(0);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    // Of its 10 GiB 9 are free, in other shards.
    cluster.report(0, osd, 1);
    for (state, of_total) in
        [(0, 0.85), (OsdState::NEARFULL, 0.1), (OsdState::BACKFILLFULL, 0.05), (OsdState::FULL, 0.0)]
    {
        cluster.send(osd, OsdFull { paxos: Paxos::default(), map_epoch: Epoch(1), state });
        cluster.settle();
        let df = cluster.ok(client, r#"{"prefix":"df","format":"json"}"#);
        let avail = df.split("\"max_avail\":").nth(1).and_then(|rest| rest.split([',', '}']).next());
        let avail: f64 = avail.and_then(|text| text.parse().ok()).expect("max_avail");
        let want = of_total * 10.0 * f64::from(1 << 30);
        assert!((avail - want).abs() < 1e6, "{state}: {avail}, not {want}");
    }
}

/// What health says of an OSD that is nearly full, reports a size of 10 GiB, and has a store that was made for so many bytes.
fn health_with_store_for(made_for: u64) -> String {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let osd = cluster.open_session(EntityType::Osd, "0", 6800);
    let mut boot = cluster.boot_message(0, osd);
    boot.metadata.insert(mon::STORE_BYTES.into(), made_for.to_string());
    cluster.send(osd, boot);
    cluster.settle();
    cluster.report(0, osd, 1);
    assert_eq!(
        cluster.ok(client, r#"{"prefix":"health"}"#),
        "HEALTH_OK",
        "little space is no fault by itself"
    );
    let full = OsdFull { paxos: Paxos::default(), map_epoch: Epoch(1), state: OsdState::NEARFULL };
    cluster.send(osd, full);
    cluster.settle();
    let detail = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(detail.contains("OSD_NEARFULL: 1 nearfull osd(s)"), "{detail}");
    detail
}

#[test]
fn a_full_osd_that_its_file_system_limits_says_so() {
    let detail = health_with_store_for(1 << 40);
    let line = "osd.0 may take 1 TiB, but its file system lets it have 10 GiB, and 9 GiB of that are free";
    assert!(detail.contains(line), "{detail}");
    // The logs of a store of many small shards take one byte in 32.
    let detail = health_with_store_for((10 << 30) / 31 * 32);
    assert!(!detail.contains("file system"), "{detail}");
}
