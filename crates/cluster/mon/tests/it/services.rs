//! Service daemons that register with the manager.

use std::collections::BTreeMap;

use auth::SessionId;
use messages::{
    Message, MgrClose, MgrConfigure, MgrOpen, MgrReport, MonSubscribe, ServiceMapContents, Subscription,
};
use mon::MonEvent;
use serde_json::{Value, json};
use types::Name;

use crate::common::{Cluster, at, config};

type Facts = BTreeMap<Name, Name>;

fn facts(pairs: &[(&str, &str)]) -> Facts {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn open(service: &str, name: &str, metadata: &[(&str, &str)]) -> MgrOpen {
    MgrOpen {
        daemon_name: name.into(),
        service_name: service.into(),
        service_daemon: Some((facts(metadata), Facts::new())),
        ..MgrOpen::default()
    }
}

fn report(service: &str, name: &str, status: Option<Facts>, task_status: Option<Facts>) -> MgrReport {
    MgrReport {
        daemon_name: name.into(),
        service_name: service.into(),
        status,
        task_status,
        ..MgrReport::default()
    }
}

/// A daemon that has registered.
fn daemon(cluster: &mut Cluster, service: &str, name: &str, metadata: &[(&str, &str)]) -> SessionId {
    let session = cluster.manager_session();
    cluster.send(session, open(service, name, metadata));
    let wanted = MgrConfigure { stats_period: 5, stats_threshold: 255 };
    assert_eq!(cluster.take(session), [Message::from(wanted)], "it is asked for beacons, not for counters");
    cluster.settle();
    session
}

fn json_of(cluster: &mut Cluster, client: SessionId, prefix: &str) -> Value {
    let text = cluster.ok(client, &format!(r#"{{"prefix":"{prefix}","format":"json"}}"#));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn services_are_shown_wherever_ceph_shows_them() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    cluster.now = at(10);
    let host = [("hostname", "h"), ("ceph_version", "v1"), ("daemon_type", "gateway"), ("zone_id", "z")];
    let one = daemon(&mut cluster, "radosgw", "1", &host);
    daemon(&mut cluster, "radosgw", "2", &host[..3]);
    daemon(&mut cluster, "x", "b\u{e9}", &[]);
    cluster.now = at(20);
    let (status, tasks) = (facts(&[("busy", "yes")]), facts(&[("sync", "half"), ("trim", "idle")]));
    cluster.send(one, report("radosgw", "1", Some(status), Some(tasks)));
    let dump = json_of(&mut cluster, client, "service dump");
    assert_eq!((&dump["epoch"], &dump["services"]["x"]["daemons"]["summary"]), (&json!(5), &json!("")));
    assert_eq!(dump["modified"], json!(at(20).to_string()));
    let expected = json!({
        "start_epoch": 2, "start_stamp": at(10).to_string(), "gid": 4202, "addr": "127.0.0.1:0/2",
        "metadata": {"hostname": "h", "ceph_version": "v1", "daemon_type": "gateway", "zone_id": "z"},
        "task_status": {"sync": "half", "trim": "idle"},
    });
    assert_eq!(dump["services"]["radosgw"]["daemons"]["1"], expected);
    let status = json_of(&mut cluster, client, "service status");
    let expected = json!({
        "status_stamp": at(20).to_string(), "last_beacon": at(20).to_string(), "status": {"busy": "yes"},
    });
    assert_eq!(status["radosgw"]["1"], expected);
    assert_eq!(status["x"]["b\u{e9}"]["last_beacon"], json!(at(10).to_string()));
    let shown = json_of(&mut cluster, client, "status");
    assert_eq!(shown["servicemap"], dump);
    let versions = json_of(&mut cluster, client, "versions");
    assert_eq!((&versions["radosgw"], &versions["x"]), (&json!({"v1": 2}), &json!({"unknown": 1})));
    assert_eq!((&versions["overall"]["v1"], &versions["overall"]["unknown"]), (&json!(2), &json!(1)));
    let text = cluster.ok(client, r#"{"prefix":"status"}"#);
    for part in [
        "    mon:     1 daemons",
        "    mgr:     a(active",
        "    osd:     1 osds",
        "\n    radosgw: 2 gateways active (1 hosts, 1 zones)\n    x:       1 daemon active\n \n  task status:\n\n",
        "\n    sync:\n        radosgw.1: half\n    trim:\n        radosgw.1: idle\n \n  data:\n",
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

/// The maps of services that a subscriber has got.
fn maps(cluster: &mut Cluster, session: SessionId) -> Vec<ServiceMapContents> {
    let got = cluster.take(session).into_iter();
    got.map(|message| match message {
        Message::ServiceMap(m) => m.map,
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn subscribers_get_the_map_and_its_changes() {
    let mut cluster = Cluster::new(config(1, &[]));
    let [all, once, later] = [0, 1, 2].map(|_| cluster.client());
    let want = |cluster: &mut Cluster, session, start, flags| {
        let what = [("servicemap".to_owned(), Subscription { start, flags })].into();
        cluster.send(session, MonSubscribe { what, hostname: String::new() });
    };
    want(&mut cluster, all, 0, 0);
    want(&mut cluster, once, 0, 1);
    want(&mut cluster, later, 2, 0);
    let empty = ServiceMapContents { epoch: 1, modified: at(0), ..Default::default() };
    assert_eq!(maps(&mut cluster, all), vec![empty.clone()]);
    assert_eq!((maps(&mut cluster, once), maps(&mut cluster, later)), (vec![empty], vec![]));
    cluster.now = at(10);
    let one = daemon(&mut cluster, "radosgw", "1", &[("hostname", "h")]);
    let got = maps(&mut cluster, all);
    let radosgw = &got[0].services[&Name::from("radosgw")].daemons[&Name::from("1")];
    assert_eq!((got.len(), got[0].epoch, got[0].modified), (1, 2, at(10)));
    assert_eq!((radosgw.gid, radosgw.start_epoch, radosgw.start_stamp), (4204, 2, at(10)));
    assert_eq!((&radosgw.metadata, radosgw.addr.nonce), (&facts(&[("hostname", "h")]), 4));
    assert_eq!((maps(&mut cluster, once), maps(&mut cluster, later)), (vec![], got));
    cluster.send(one, report("radosgw", "1", None, Some(facts(&[("sync", "half")]))));
    let got = maps(&mut cluster, all);
    assert_eq!(got[0].services[&Name::from("radosgw")].daemons[&Name::from("1")].task_status.len(), 1);
    cluster.send(one, MgrClose { daemon_name: "1".into(), service_name: "radosgw".into() });
    let got = maps(&mut cluster, all);
    assert_eq!((got.len(), got[0].epoch, got[0].services.len()), (1, 4, 0));
    // After a kill a newer one, since the services are gone.
    let mut cluster = cluster.kill();
    let client = cluster.client();
    want(&mut cluster, client, 5, 0);
    assert!(maps(&mut cluster, client)[0].epoch > 4);
    daemon(&mut cluster, "radosgw", "1", &[]);
    let epoch = json_of(&mut cluster, client, "service dump")["epoch"].as_u64();
    assert!(epoch > Some(5), "{epoch:?}");
}

#[test]
fn who_leaves_or_falls_silent_goes() {
    let mut cluster = Cluster::new(config(1, &[("mgr_service_beacon_grace", "60")]));
    let client = cluster.client();
    let one = daemon(&mut cluster, "s", "one", &[]);
    let two = daemon(&mut cluster, "s", "two", &[]);
    let left = MgrClose { daemon_name: "one".into(), service_name: "s".into() };
    cluster.send(one, left.clone());
    assert_eq!(cluster.take(one), [Message::from(left)]);
    let names = |cluster: &mut Cluster| {
        let status = json_of(cluster, client, "service status");
        status["s"].as_object().map(|s| s.keys().cloned().collect::<Vec<_>>()).unwrap_or_default()
    };
    assert_eq!(names(&mut cluster), ["two"]);
    // Its session may end: the next one may come.
    cluster.event(MonEvent::SessionClosed(two));
    cluster.now = at(60);
    cluster.event(MonEvent::Tick);
    assert_eq!(names(&mut cluster), ["two"]);
    let again = daemon(&mut cluster, "s", "two", &[]);
    cluster.now = at(120);
    cluster.event(MonEvent::Tick);
    assert_eq!(names(&mut cluster), ["two"]);
    cluster.now = at(121);
    cluster.event(MonEvent::Tick);
    assert_eq!(names(&mut cluster), [""; 0]);
    // It was only slow: it is to register anew.
    cluster.send(again, report("s", "two", None, None));
    assert_eq!(cluster.closed, [again]);
}

#[test]
fn a_daemon_is_asked_for_beacons_as_often_as_the_option_says_and_they_keep_it() {
    let options = [("mgr_stats_period", "2"), ("mgr_service_beacon_grace", "3")];
    let mut cluster = Cluster::new(config(1, &options));
    let client = cluster.client();
    let session = cluster.manager_session();
    cluster.send(session, open("s", "one", &[]));
    let wanted = MgrConfigure { stats_period: 2, stats_threshold: 255 };
    assert_eq!(cluster.take(session), [Message::from(wanted)]);
    cluster.settle();
    for time in (2..60).step_by(2) {
        cluster.now = at(time);
        cluster.send(session, report("s", "one", None, None));
        cluster.event(MonEvent::Tick);
    }
    let dump = json_of(&mut cluster, client, "service dump");
    assert_eq!((&dump["epoch"], dump["services"]["s"]["daemons"]["one"].is_object()), (&json!(2), true));
}

#[test]
fn what_services_say_has_a_limit() {
    let mut cluster = Cluster::new(config(1, &[("mgr_services_bytes_max", "4096")]));
    let client = cluster.client();
    let long = "x".repeat(2000);
    let one = daemon(&mut cluster, "s", "one", &[("about", &long)]);
    for name in ["two", "three"] {
        let session = cluster.manager_session();
        cluster.send(session, open("s", name, &[("about", &long)]));
        assert_eq!(cluster.take(session), [], "{name} is not asked for anything");
    }
    assert_eq!(cluster.log.len(), 1, "{:?}", cluster.log);
    assert!(cluster.log[0].contains("mgr_services_bytes_max"), "{:?}", cluster.log);
    cluster.send(one, report("s", "one", Some(facts(&[("state", &long)])), None));
    let status = json_of(&mut cluster, client, "service status");
    assert_eq!(
        status,
        json!({"s": {"one": {
            "status_stamp": at(0).to_string(), "last_beacon": at(0).to_string(), "status": {}
        }}})
    );
    // What fits is taken again, and so is one in the place of another.
    cluster.send(one, report("s", "one", Some(facts(&[("state", "well")])), None));
    let status = json_of(&mut cluster, client, "service status");
    assert_eq!(status["s"]["one"]["status"], json!({"state": "well"}));
    cluster.send(one, MgrClose { daemon_name: "one".into(), service_name: "s".into() });
    daemon(&mut cluster, "s", "two", &[("about", &long)]);
}

#[test]
fn the_cluster_s_own_kinds_are_no_services_and_clients_register_nothing() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    daemon(&mut cluster, "mds", "m", &[]);
    let session = cluster.manager_session();
    cluster.send(session, MgrOpen { service_daemon: None, ..open("s", "one", &[]) });
    assert_eq!(cluster.take(session), []);
    assert_eq!(json_of(&mut cluster, client, "service status"), json!({}));
    let dump = json_of(&mut cluster, client, "service dump");
    assert_eq!(dump["services"].as_object().unwrap().keys().collect::<Vec<_>>(), ["mds"]);
    assert!(!cluster.ok(client, r#"{"prefix":"status"}"#).contains("mds"));
    assert_eq!(json_of(&mut cluster, client, "versions")["mds"], json!({}));
}
