//! What happens to the cluster is in its log, in Ceph's words.

use crate::common::{Cluster, at, config};
use auth::SessionId;
use messages::{Message, MonSubscribe, Subscription};
use mon::MonEvent;

fn up(osds: i32) -> (Cluster, SessionId) {
    let mut cluster = Cluster::new(config(osds, &[]));
    for osd in 0..osds {
        cluster.boot(osd);
    }
    let client = cluster.client();
    (cluster, client)
}

fn tick(cluster: &mut Cluster, second: u32) {
    cluster.now = at(second);
    cluster.event(MonEvent::Tick);
    cluster.settle();
}

/// The texts of the log's lines with their level, from the one after `known`.
fn lines(cluster: &mut Cluster, client: SessionId, channel: &str, level: &str) -> Vec<String> {
    let command = format!(r#"{{"prefix":"log last","num":500,"channel":"{channel}","level":"{level}"}}"#);
    let text = cluster.ok(client, &command);
    let of = |line: &str| line.split_once(&format!(" : {channel} ")).unwrap().1.to_owned();
    text.lines().map(of).collect()
}

#[test]
fn every_change_of_health_is_logged_once_also_over_a_restart() {
    let (mut cluster, client) = up(4);
    tick(&mut cluster, 3);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    tick(&mut cluster, 4);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    tick(&mut cluster, 5);
    tick(&mut cluster, 10);
    let health = |cluster: &mut Cluster, client| -> Vec<String> {
        let mut all = lines(cluster, client, "cluster", "info");
        all.retain(|line| line.contains("ealth"));
        all
    };
    let failed = [
        "[WRN] Health check failed: 1 osds down (OSD_DOWN)",
        "[WRN] Health check update: 2 osds down (OSD_DOWN)",
    ];
    assert_eq!(health(&mut cluster, client), failed, "a count that changes within 5 s waits");
    let mut cluster = cluster.kill();
    for osd in 0..2 {
        cluster.boot(osd);
    }
    let client = cluster.client();
    tick(&mut cluster, 1);
    assert_eq!(health(&mut cluster, client), failed, "quiet just after a start");
    tick(&mut cluster, 20);
    tick(&mut cluster, 21);
    let cleared = ["[INF] Health check cleared: OSD_DOWN (was: 2 osds down)", "[INF] Cluster is now healthy"];
    assert_eq!(health(&mut cluster, client), [&failed[..], &cleared].concat());
}

#[test]
fn a_check_that_is_muted_is_not_logged() {
    let (mut cluster, client) = up(4);
    cluster.ok(client, r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.ok(client, r#"{"prefix":"health mute","code":"OSDMAP_FLAGS"}"#);
    tick(&mut cluster, 3);
    assert!(!lines(&mut cluster, client, "cluster", "info").iter().any(|line| line.contains("OSDMAP_FLAGS")));
}

#[test]
fn changes_of_the_map_are_logged_with_who_asked_for_them() {
    let (mut cluster, client) = up(3);
    let epoch = cluster.mon.osdmap().epoch.0;
    cluster.ok(client, r#"{"prefix": "osd out", "ids": ["1"]}"#);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    cluster.ok(client, r#"{"prefix":"config set","who":"mon","name":"mon_max_pg_per_osd","value":"300"}"#);
    cluster.ok(client, r#"{"prefix":"osd pool ls"}"#);
    let cluster_lines = lines(&mut cluster, client, "cluster", "debug");
    for want in [
        "[INF] Client client.admin marked osd.1 out, while it was still marked up".to_owned(),
        format!("[DBG] osdmap e{}: 3 total, 3 up, 2 in", epoch + 1),
    ] {
        assert!(cluster_lines.contains(&want), "{want}: {cluster_lines:?}");
    }
    let audit = lines(&mut cluster, client, "audit", "info");
    let who = "[INF] from='client.4200 v2:127.0.0.1:0/4' entity='client.admin' cmd=";
    assert_eq!(
        audit,
        [
            format!(r#"{who}'[{{"prefix": "osd out", "ids": ["1"]}}]': finished"#),
            format!(r#"{who}'[{{"prefix":"osd pool create","pool":"p"}}]': finished"#),
            format!(
                r#"{who}'[{{"name":"mon_max_pg_per_osd","prefix":"config set","who":"mon"}}]': finished"#
            ),
        ]
    );
    // They are in the process's log too, but for the debug ones.
    assert!(
        cluster.log.iter().any(|line| line.contains("cluster [INF] Client client.admin marked osd.1 out"))
    );
    assert!(!cluster.log.iter().any(|line| line.contains("osdmap e")));
}

#[test]
fn a_line_of_a_client_is_by_its_name() {
    let (mut cluster, client) = up(1);
    cluster.ok(client, r#"{"prefix":"log","logtext":["hello","there"]}"#);
    let last = cluster.ok(client, r#"{"prefix":"log last","num":2}"#);
    assert!(last.contains(" client.admin (client.4200) 0 : cluster [INF] hello there\n"), "{last}");
}

#[test]
fn a_watcher_begins_with_the_last_line_and_gets_those_that_follow() {
    let (mut cluster, client) = up(3);
    let watcher = cluster.client();
    let wants = [("log-info".to_owned(), Subscription { start: 0, flags: 0 })];
    let seen = |cluster: &mut Cluster| -> Vec<String> {
        let logs = cluster.take(watcher).into_iter().filter_map(|m| match m {
            Message::Log(log) => Some(log),
            _ => None,
        });
        logs.flat_map(|log| log.entries).map(|entry| entry.message.to_string()).collect()
    };
    cluster.ok(client, r#"{"prefix":"log","logtext":["last"]}"#);
    cluster.send(watcher, MonSubscribe { what: wants.into(), hostname: "vm".into() });
    let first = seen(&mut cluster);
    assert!(
        first.len() == 2 && first[0] == "last" && first[1].contains("cmd="),
        "the audit's line after it: {first:?}"
    );
    cluster.ok(client, r#"{"prefix":"log","logtext":["next"]}"#);
    assert_eq!(seen(&mut cluster)[0], "next");
}
