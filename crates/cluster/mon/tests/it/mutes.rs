//! Muted health checks end as Ceph's do.

use crate::common::{Cluster, at, config};
use auth::SessionId;
use mon::MonEvent;

fn up(osds: i32) -> (Cluster, SessionId) {
    let mut cluster = Cluster::new(config(osds, &[]));
    for osd in 0..osds {
        cluster.boot(osd);
    }
    let client = cluster.client();
    (cluster, client)
}

fn health(cluster: &mut Cluster, client: SessionId, second: u32) -> String {
    cluster.now = at(second);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    cluster.ok(client, r#"{"prefix":"health"}"#)
}

const MUTE: &str = r#"{"prefix":"health mute","code":"OSD_DOWN"}"#;

#[test]
fn a_mute_ends_when_the_count_rises_and_when_the_check_clears() {
    let (mut cluster, client) = up(4);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    cluster.ok(client, MUTE);
    assert_eq!(health(&mut cluster, client, 1), "HEALTH_OK (muted: OSD_DOWN)");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    assert_eq!(health(&mut cluster, client, 2), "HEALTH_WARN 2 osds down");
    let log = cluster.ok(client, r#"{"prefix":"log last"}"#);
    assert!(log.contains("Health alert mute OSD_DOWN cleared (count increased from 1 to 2)"), "{log}");
    // Cleared and back again: the mute is gone.
    cluster.ok(client, MUTE);
    assert_eq!(health(&mut cluster, client, 3), "HEALTH_OK (muted: OSD_DOWN)");
    cluster.boot(0);
    cluster.boot(1);
    assert_eq!(health(&mut cluster, client, 4), "HEALTH_OK");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["2"]}"#);
    assert_eq!(health(&mut cluster, client, 5), "HEALTH_WARN 1 osds down");
}

#[test]
fn a_mute_follows_a_count_that_falls() {
    let (mut cluster, client) = up(4);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0","1"]}"#);
    cluster.ok(client, MUTE);
    cluster.boot(0);
    assert_eq!(health(&mut cluster, client, 1), "HEALTH_OK (muted: OSD_DOWN)");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["2"]}"#);
    assert_eq!(health(&mut cluster, client, 2), "HEALTH_WARN 2 osds down");
}

#[test]
fn a_sticky_mute_stays_until_its_time_is_over_also_over_a_kill() {
    let (mut cluster, client) = up(4);
    let sticky = r#"{"prefix":"health mute","code":"OSD_DOWN","ttl":"10m","sticky":true}"#;
    cluster.ok(client, sticky);
    assert_eq!(health(&mut cluster, client, 1), "HEALTH_OK");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0","1"]}"#);
    assert_eq!(health(&mut cluster, client, 2), "HEALTH_OK (muted: OSD_DOWN(9m))");
    let mut cluster = cluster.kill();
    let client = cluster.client();
    assert_eq!(health(&mut cluster, client, 590), "HEALTH_OK (muted: OSD_DOWN(10s))");
    assert_eq!(health(&mut cluster, client, 600), "HEALTH_WARN 2 osds down");
}

#[test]
fn a_mute_of_what_is_not_there_or_for_no_time_is_refused() {
    let (mut cluster, client) = up(1);
    assert_eq!(cluster.run(client, MUTE).0, -2);
    cluster.ok(client, r#"{"prefix":"osd set","key":"noout"}"#);
    for ttl in ["0", "x", "5q"] {
        let command = format!(r#"{{"prefix":"health mute","code":"OSDMAP_FLAGS","ttl":"{ttl}"}}"#);
        let (code, status, _) = cluster.run(client, &command);
        assert_eq!(code, -22, "{status}");
    }
}
