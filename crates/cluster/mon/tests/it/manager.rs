//! The monitor as the manager that its map of managers names.

use auth::SessionId;
use encoding::Decode;
use maps::MgrMap;
use messages::{Message, MonSubscribe, Subscription};
use mon::{MANAGER_GID, MonEvent};
use types::{EntityAddr, EntityType, Epoch, Fsid, Name};

use crate::common::{Cluster, FSID, at, config};

fn mgrmap(cluster: &mut Cluster, session: SessionId) -> Option<MgrMap> {
    let what = [("mgrmap".to_owned(), Subscription { start: 0, flags: 0 })].into();
    cluster.send(session, MonSubscribe { what, hostname: String::new() });
    cluster.take(session).into_iter().find_map(|message| match message {
        Message::MgrMap(m) => Some(MgrMap::from_bytes_exact(&m.map).unwrap()),
        _ => None,
    })
}

fn mgr_command(json: &str, fsid: Fsid) -> messages::MgrCommand {
    messages::MgrCommand { tid: 77, fsid, cmd: vec![Name::from(json)], data: Default::default() }
}

/// The one answer: its kind, the transaction's id, result, sentence, output.
fn answer(cluster: &mut Cluster, session: SessionId) -> (&'static str, u64, i32, String, String) {
    let got = cluster.take(session);
    let text = |data: buffer::Rope| String::from_utf8(data.to_vec()).unwrap();
    match <[Message; 1]>::try_from(got) {
        Ok([Message::MgrCommandReply(m)]) => ("mgr", m.tid, m.result, m.status, text(m.data)),
        Ok([Message::CommandReply(m)]) => ("tell", m.tid, m.result, m.status, text(m.data)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn clients_are_told_of_the_manager_and_osds_are_not() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let map = mgrmap(&mut cluster, client).unwrap();
    let addr = EntityAddr::v2("127.0.0.1:6803".parse().unwrap(), 9);
    assert!(map.available);
    assert_eq!((map.epoch, map.active_name.as_str(), map.active_gid), (Epoch(5), "a", MANAGER_GID));
    assert_eq!((map.active_addrs.v2(), map.active_change), (Some(&addr), at(0)));
    // An OSD that knew one would no longer report to the monitor.
    let osd = cluster.open_session(EntityType::Osd, "0", 6800);
    let map = mgrmap(&mut cluster, osd).unwrap();
    assert_eq!(map, MgrMap { epoch: Epoch(5), ..MgrMap::default() });
}

#[test]
fn a_monitor_without_a_managers_address_announces_none() {
    let mut cluster = Cluster::new(mon::MonConfig { manager: None, ..config(1, &[]) });
    let client = cluster.client();
    assert!(!mgrmap(&mut cluster, client).unwrap().available);
    assert!(cluster.ok(client, r#"{"prefix":"status"}"#).contains("    mgr: no daemons active\n"));
    assert_eq!(cluster.ok(client, r#"{"prefix":"mgr metadata","format":"json"}"#), "[]");
    assert_eq!(cluster.ok(client, r#"{"prefix":"mgr versions","format":"json"}"#), "{}");
    let refused = cluster.run(client, r#"{"prefix":"mgr metadata","who":"a"}"#);
    assert_eq!((refused.0, refused.1.as_str()), (-2, "there is no manager 'a'"));
}

#[test]
fn commands_of_the_cluster_are_answered_at_the_managers_address_too() {
    let mut cluster = Cluster::new(config(1, &[]));
    let session = cluster.manager_session();
    cluster.send(session, mgr_command(r#"{"prefix":"fsid"}"#, Fsid::default()));
    assert_eq!(answer(&mut cluster, session), ("mgr", 77, 0, "".into(), format!("{FSID}\n")));
    // As programs before 15 send it.
    let old =
        messages::Command { tid: 3, cmd: vec![Name::from(r#"{"prefix":"fsid"}"#)], ..Default::default() };
    cluster.send(session, old);
    assert_eq!(answer(&mut cluster, session), ("tell", 3, 0, "".into(), format!("{FSID}\n")));
    cluster.send(session, mgr_command(r#"{"prefix":"no such"}"#, Fsid::default()));
    let (_, _, result, status, _) = answer(&mut cluster, session);
    assert_eq!((result, status.as_str()), (-22, "command 'no such' is unknown"));
    cluster.send(session, mgr_command(r#"{"prefix":"fsid"}"#, Fsid([9; 16])));
    assert_eq!(answer(&mut cluster, session).2, -1, "another cluster's");
}

#[test]
fn a_change_is_answered_to_the_manager_s_client_when_it_is_durable() {
    let mut cluster = Cluster::new(config(1, &[("mon_max_pg_per_osd", "10000")]));
    let session = cluster.manager_session();
    cluster.send(session, mgr_command(r#"{"prefix":"osd pool create","pool":"p"}"#, FSID));
    assert_eq!(cluster.take(session), [], "nothing is durable yet");
    cluster.settle();
    assert_eq!(answer(&mut cluster, session).3, "pool 'p' created");
    assert!(cluster.mon.osdmap().pool_by_name("p").is_some());
}

#[test]
fn what_is_told_to_the_manager_is_told_to_the_monitor() {
    let mut cluster = Cluster::new(config(1, &[]));
    let session = cluster.manager_session();
    let (code, _, shown) =
        cluster.tell(session, r#"{"prefix":"config get","var":"mon_max_pg_per_osd","format":"json"}"#);
    assert_eq!((code, shown.as_str()), (0, r#"{"mon_max_pg_per_osd":"250"}"#));
}

#[test]
fn commands_of_modules_are_refused_with_all_their_words() {
    let mut cluster = Cluster::new(config(1, &[]));
    let session = cluster.manager_session();
    for prefix in ["rbd perf image stats", "rbd task list", "crash archive", "mgr module enable", "mgr fail"]
    {
        cluster.send(session, mgr_command(&format!(r#"{{"prefix":"{prefix}"}}"#), Fsid::default()));
        let (_, _, result, status, _) = answer(&mut cluster, session);
        assert_eq!(result, -95, "{prefix}: {status}");
        assert!(status.starts_with(&format!("'{prefix}' ")), "{status}");
    }
    // `rbd perf image iostat` sends a quotation mark behind the object.
    cluster.send(session, mgr_command(r#"{"prefix":"rbd perf image stats"}""#, Fsid::default()));
    assert_eq!(answer(&mut cluster, session).2, -95);
    cluster.send(session, mgr_command(r#"{"prefix":"rbdx"}"#, Fsid::default()));
    assert_eq!(answer(&mut cluster, session).2, -22);
}

#[test]
fn the_manager_is_among_the_daemons_and_its_sessions_are_no_clients() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    for _ in 0..3 {
        cluster.manager_session();
    }
    cluster.now = at(30);
    let status = cluster.ok(client, r#"{"prefix":"status"}"#);
    assert!(status.contains("    mgr: a(active, since 30s)\n"), "{status}");
    let features: serde_json::Value =
        serde_json::from_str(&cluster.ok(client, r#"{"prefix":"features","format":"json"}"#)).unwrap();
    let count = |kind: &str| features[kind][0]["num"].as_u64();
    assert_eq!((count("mgr"), count("client")), (Some(1), Some(1)));
    let nodes = cluster.ok(client, r#"{"prefix":"node ls","type":"mgr","format":"json"}"#);
    assert_eq!(nodes, r#"{"vm":["a"]}"#);
    let json = |cluster: &mut Cluster, prefix: &str| -> serde_json::Value {
        let text = cluster.ok(client, &format!(r#"{{"prefix":"{prefix}","format":"json"}}"#));
        serde_json::from_str(&text).unwrap()
    };
    let versions = json(&mut cluster, "versions");
    assert_eq!(versions["mgr"], versions["mon"]);
    let metadata = json(&mut cluster, "mgr metadata");
    assert_eq!(metadata[0]["name"], "a");
    assert_eq!(metadata[0]["addrs"], "v2:127.0.0.1:6803/9");
    let stat = json(&mut cluster, "mgr stat");
    assert_eq!(
        stat,
        serde_json::json!({"epoch": 5, "available": true, "active_name": "a", "num_standby": 0})
    );
    let dump = json(&mut cluster, "mgr dump");
    assert_eq!(dump["active_addr"], "127.0.0.1:6803/9");
    let (code, _, _) = cluster.run(client, r#"{"prefix":"mgr dump","epoch":4}"#);
    assert_eq!(code, -2);
}

#[test]
fn a_session_at_the_managers_address_gets_nothing_but_the_managers_service() {
    let mut cluster = Cluster::new(config(1, &[]));
    let session = cluster.manager_session();
    cluster.send(session, messages::MgrOpen::default());
    cluster.send(session, messages::MgrUpdate::default());
    assert_eq!((cluster.take(session), cluster.log.len()), (vec![], 0), "taken, and asked for no reports");
    let close = messages::MgrClose { daemon_name: "d".into(), service_name: "s".into() };
    cluster.send(session, close.clone());
    assert_eq!(cluster.take(session), [Message::from(close)], "who leaves waits for the answer");
    let what = [("osdmap".to_owned(), Subscription { start: 0, flags: 0 })].into();
    cluster.send(session, MonSubscribe { what, hostname: String::new() });
    assert_eq!(cluster.take(session), []);
    assert!(cluster.log.iter().any(|line| line.contains("MMonSubscribe")), "{:?}", cluster.log);
    cluster.event(MonEvent::SessionClosed(session));
}

#[test]
fn metrics_have_the_manager_and_count_sessions() {
    let mut cluster = Cluster::new(config(1, &[]));
    let gone = cluster.client();
    cluster.client();
    cluster.manager_session();
    cluster.event(MonEvent::SessionClosed(gone));
    let text = cluster.mon.metrics(at(1));
    for line in [
        r#"ceph_mgr_metadata{ceph_daemon="mgr.a",hostname="vm",ceph_version="ceph version 16.2.15 (test) pacific (stable)"} 1"#,
        r#"ceph_mgr_status{ceph_daemon="mgr.a"} 1"#,
        r#"ceph_mon_num_sessions{ceph_daemon="mon.a"} 1"#,
        r#"ceph_mon_session_add{ceph_daemon="mon.a"} 2"#,
        r#"ceph_mon_session_rm{ceph_daemon="mon.a"} 1"#,
    ] {
        assert!(text.lines().any(|of| of == line), "{line} in {text}");
    }
    let cluster = Cluster::new(mon::MonConfig { manager: None, ..config(1, &[]) });
    assert!(!cluster.mon.metrics(at(1)).contains("ceph_mgr_"));
}

#[test]
fn an_option_of_the_manager_counts_before_the_same_one_of_all() {
    let mut cluster = Cluster::new(config(1, &[]));
    let session = cluster.client();
    let mut in_force = |section: &str, value: &str| {
        let set = format!(
            r#"{{"prefix":"config set","who":"{section}","name":"mgr_stats_period","value":"{value}"}}"#
        );
        cluster.ok(session, &set);
        cluster.tell(session, r#"{"prefix":"config get","var":"mgr_stats_period","format":"json"}"#).2
    };
    assert_eq!(in_force("mon", "7"), r#"{"mgr_stats_period":"7"}"#);
    assert_eq!(in_force("global", "9"), r#"{"mgr_stats_period":"7"}"#);
    assert_eq!(in_force("mgr", "8"), r#"{"mgr_stats_period":"8"}"#);
    assert_eq!(in_force("mon.a", "6"), r#"{"mgr_stats_period":"6"}"#);
    assert_eq!(in_force("mgr.a", "5"), r#"{"mgr_stats_period":"5"}"#);
}
