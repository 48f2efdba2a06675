//! SLOW_OPS: what OSDs report of operations that take too long.

use crate::common;

use std::collections::BTreeMap;

use crate::common::{Cluster, at, config};
use auth::SessionId;
use messages::SlowOps;
use mon::MonEvent;
use types::OsdId;

fn report(cluster: &mut Cluster, osd: i32, session: SessionId, slow: Option<(u64, u64)>) {
    let mut stats = messages::PgStats { fsid: common::FSID, ..Default::default() };
    stats.epoch = cluster.mon.osdmap().epoch;
    if let Some((count, oldest_secs)) = slow {
        let text = SlowOps { count, oldest_secs }.to_string();
        let alerts = BTreeMap::from([(SlowOps::ALERT.to_owned(), text)]);
        stats.osd_stat.os_alerts.insert(OsdId(osd), alerts);
    }
    cluster.event(MonEvent::Message { session, message: stats.into() });
    cluster.settle();
}

fn health(cluster: &mut Cluster, client: SessionId, second: u32) -> String {
    cluster.now = at(second);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    cluster.ok(client, r#"{"prefix":"health"}"#)
}

#[test]
fn osds_with_slow_operations_are_named_until_they_report_none() {
    let mut cluster = Cluster::new(config(3, &[]));
    let sessions = [0, 1, 2].map(|osd| cluster.boot(osd));
    let client = cluster.client();
    report(&mut cluster, 1, sessions[1], Some((3, 31)));
    let text = health(&mut cluster, client, 1);
    assert_eq!(text, "HEALTH_WARN 3 slow ops, oldest one blocked for 31 sec, osd.1 has slow ops");
    report(&mut cluster, 2, sessions[2], Some((1, 40)));
    let text = health(&mut cluster, client, 2);
    assert_eq!(
        text,
        "HEALTH_WARN 4 slow ops, oldest one blocked for 40 sec, daemons [osd.1,osd.2] have slow ops."
    );
    let json = cluster.ok(client, r#"{"prefix":"health","format":"json"}"#);
    assert!(json.contains("\"SLOW_OPS\""), "{json}");
    report(&mut cluster, 1, sessions[1], None);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["2"]}"#);
    let text = health(&mut cluster, client, 3);
    assert!(!text.contains("slow"), "an OSD that is down has none: {text}");
}
