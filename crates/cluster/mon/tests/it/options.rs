//! Options: what is typed is checked, kept in one spelling, and takes effect in every spelling.

use crate::common::{Cluster, at, config};
use auth::SessionId;
use mon::{Batch, MonEvent, StateKey};

fn up(osds: i32, local: &[(&str, &str)]) -> (Cluster, SessionId) {
    let mut cluster = Cluster::new(config(osds, local));
    for osd in 0..osds {
        cluster.boot(osd);
    }
    let client = cluster.client();
    (cluster, client)
}

fn set(cluster: &mut Cluster, client: SessionId, name: &str, value: &str) -> (i32, String) {
    let command = format!(r#"{{"prefix":"config set","who":"mon","name":"{name}","value":"{value}"}}"#);
    let (code, status, _) = cluster.run(client, &command);
    (code, status)
}

fn stored(cluster: &Cluster, key: &str) -> Option<String> {
    let value = cluster.disk.get(&StateKey::name("config", key))?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Ticks a second after the boot: whether every OSD is still up.
fn all_up(cluster: &mut Cluster) -> bool {
    cluster.now = at(1);
    cluster.event(MonEvent::Tick);
    cluster.settle();
    let map = cluster.mon.osdmap();
    map.existing_osds().all(|(id, _)| map.is_up(id))
}

#[test]
fn every_valid_spelling_of_a_value_takes_effect() {
    let (mut cluster, client) = up(1, &[("mon_osd_report_timeout", "1e3")]);
    assert!(all_up(&mut cluster), "a timeout given at the start as 1e3 is not 0");
    for (name, value, kept) in [
        ("mon_osd_report_timeout", "900.0", "900"),
        ("mon_config_key_max_entry_size", "1K", "1024"),
        ("mon_allow_pool_delete", "False", "false"),
        ("mon_max_pg_per_osd", "1K", "1000"),
    ] {
        assert_eq!(set(&mut cluster, client, name, value), (0, String::new()));
        assert_eq!(stored(&cluster, &format!("mon/{name}")).as_deref(), Some(kept), "{value}");
    }
    let value = "x".repeat(1000);
    cluster.ok(client, &format!(r#"{{"prefix":"config-key set","key":"k","val":"{value}"}}"#));
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":512}"#);
    let remove = r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    assert_eq!(cluster.run(client, remove).0, -1);
}

#[test]
fn an_authentication_that_is_not_served_is_not_stored() {
    let (mut cluster, client) = up(1, &[]);
    for name in ["auth_client_required", "auth_cluster_required", "auth_service_required"] {
        let (code, said) = set(&mut cluster, client, name, "cephx");
        assert_eq!(code, -22, "{name}");
        assert!(said.contains("'cephx' can't be served: so far only 'none' can"), "{said}");
        assert_eq!(set(&mut cluster, client, name, "none"), (0, String::new()));
        assert_eq!(stored(&cluster, &format!("mon/{name}")).as_deref(), Some("none"));
    }
}

#[test]
fn what_an_older_program_stored_is_read_in_its_spelling_or_counts_as_the_default() {
    let (cluster, _) = up(2, &[]);
    for value in ["900.0", "1K", "nonsense", "0"] {
        let mut disk = cluster.disk.clone();
        let mut batch = Batch::default();
        batch.put(StateKey::name("config", "mon/mon_osd_report_timeout"), value);
        batch.apply_to(&mut disk);
        assert!(all_up(&mut Cluster::start(cluster.config.clone(), disk)), "{value}");
    }
}

#[test]
fn a_value_that_would_do_harm_or_is_none_is_refused() {
    let (mut cluster, client) = up(1, &[]);
    for (name, value) in [
        ("mon_osd_report_timeout", "0"),
        ("mon_osd_report_timeout", "-5"),
        ("mon_osd_report_timeout", "15 m"),
        ("mon_allow_pool_delete", "maybe"),
        ("mon_max_pg_per_osd", "0"),
        ("debug_osd", "foo"),
        ("debug_osd", "100"),
        ("debug_osd", "1/2/3"),
    ] {
        let (code, status) = set(&mut cluster, client, name, value);
        assert_eq!(code, -22, "{name} {value}");
        assert!(status.contains(name) && status.contains(value), "{status}");
    }
    assert!(cluster.disk.keys().all(|key| key.service != "config"));
}

#[test]
fn a_name_takes_effect_however_it_is_spelled() {
    let (mut cluster, client) = up(1, &[]);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p"}"#);
    assert_eq!(set(&mut cluster, client, "MON allow-Pool_DELETE", "false").0, 0);
    assert_eq!(stored(&cluster, "mon/mon_allow_pool_delete").as_deref(), Some("false"));
    let remove = r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    assert_eq!(cluster.run(client, remove).0, -1);
    cluster.ok(client, r#"{"prefix":"config rm","who":"mon","name":"MON_ALLOW_POOL_DELETE"}"#);
    assert_eq!(stored(&cluster, "mon/mon_allow_pool_delete"), None);
    cluster.ok(client, remove);
}

#[test]
fn an_unknown_name_is_refused_with_the_nearest_or_the_way_to_the_list() {
    let (mut cluster, client) = up(1, &[]);
    for (name, hint) in [
        ("debug_nonsense", "'debug_none'"),
        ("debug_ods", "'debug_"),
        ("osd_max_objekt_size", "'osd_max_object_size'"),
        ("zzzzzzzzzz", "`ceph config ls`"),
    ] {
        let (code, status) = set(&mut cluster, client, name, "1");
        assert_eq!(code, -22);
        assert!(status.contains(name) && status.contains(hint), "{status}");
    }
    let all = cluster.ok(client, r#"{"prefix":"config ls"}"#);
    let lines: Vec<&str> = all.lines().collect();
    assert!(
        lines.is_sorted() && lines.contains(&"osd_max_object_size") && lines.contains(&"debug_osd"),
        "{all}"
    );
}

#[test]
fn a_log_level_is_stored_as_ceph_does_and_says_where_it_changes_nothing() {
    let (mut cluster, client) = up(1, &[]);
    let (code, status) = set(&mut cluster, client, "debug_osd", "20");
    assert_eq!(code, 0);
    assert!(status.contains("has no effect") && status.contains("give it to an OSD"), "{status}");
    let of_osds = r#"{"prefix":"config set","who":"osd","name":"debug_osd","value":"20"}"#;
    assert_eq!(cluster.run(client, of_osds).1, "", "OSDs take it at once");
    assert_eq!(stored(&cluster, "mon/debug_osd").as_deref(), Some("20/20"));
    let help = cluster.ok(client, r#"{"prefix":"config help","key":"debug_osd"}"#);
    assert!(help.contains("Can update at runtime: true"), "{help}");
}

#[test]
fn a_monitor_tells_what_it_goes_by() {
    let (mut cluster, client) = up(1, &[("mon_osd_report_timeout", "77")]);
    let get = |name: &str| format!(r#"{{"prefix":"config get","var":"{name}"}}"#);
    assert!(cluster.tell(client, &get("mon_osd_report_timeout")).2.contains(r#""77""#), "its own");
    assert_eq!(set(&mut cluster, client, "mon_allow_pool_delete", "false").0, 0);
    assert!(cluster.tell(client, &get("mon_allow_pool_delete")).2.contains(r#""false""#), "what is stored");
    let (code, _, diff) = cluster.tell(client, r#"{"prefix":"config diff"}"#);
    assert!(code == 0 && diff.contains("mon_osd_report_timeout") && diff.contains(r#""final""#), "{diff}");
    assert_eq!(cluster.tell(client, &get("mon_osd_report_timeuot")).0, -2);
    // A command of the cluster's is answered too, and each is described once.
    assert_eq!(cluster.tell(client, r#"{"prefix":"version"}"#).0, 0);
    let described = cluster.tell(client, r#"{"prefix":"get_command_descriptions"}"#).2;
    assert_eq!(described.matches(r#""sig":["config","get""#).count(), 1);
}

#[test]
fn what_is_read_at_a_start_alone_is_refused_with_the_way_to_give_it() {
    let (mut cluster, client) = up(1, &[]);
    for (name, value) in [("bdev_model", "ssd"), ("ms connections max", "100"), ("osd_store_shards", "2")] {
        let (code, said) = set(&mut cluster, client, name, value);
        let given = format!("`loligo up --set {}={value}`", name.replace(' ', "_"));
        assert!(code == -22 && said.contains(&given), "{name}: {code} {said}");
        for told in [
            format!(r#"{{"prefix":"config set","var":"{name}","val":["{value}"]}}"#),
            format!(
                r#"{{"prefix":"injectargs","injected_args":["--{}","{value}"]}}"#,
                name.replace(' ', "-")
            ),
        ] {
            let (code, said, _) = cluster.tell(client, &told);
            assert!(code == -22 && said.contains(&given), "{told}: {code} {said}");
        }
    }
    assert!(!cluster.disk.keys().any(|key| key.service == "config"));
    // What an earlier version has stored can go.
    let remove = r#"{"prefix":"config rm","who":"osd","name":"bdev_model"}"#;
    assert_eq!(cluster.run(client, remove).0, 0);
}

#[test]
fn what_is_cephs_and_read_at_a_start_alone_is_stored_for_clients_and_in_force_nowhere_else() {
    let (mut cluster, client) = up(1, &[("ms_initial_backoff", "0.5")]);
    for told in [
        r#"{"prefix":"config set","var":"ms_max_backoff","val":["30"]}"#,
        r#"{"prefix":"injectargs","injected_args":["--ms-max-backoff","30"]}"#,
    ] {
        let (code, said, _) = cluster.tell(client, told);
        assert!(code == -22 && said.contains("`loligo up --set ms_max_backoff=30`"), "{told}: {code} {said}");
    }
    let (code, said) = set(&mut cluster, client, "ms_max_backoff", "30");
    assert!(
        code == 0
            && said.contains("is stored, but has no effect: Daemons have it from the `loligo up --set`")
    );
    assert_eq!(stored(&cluster, "mon/ms_max_backoff").as_deref(), Some("30"));
    let in_force = r#"{"prefix":"config get","var":"ms_max_backoff"}"#;
    assert!(cluster.tell(client, in_force).2.contains(r#""15""#), "{:?}", cluster.tell(client, in_force));
    assert!(!cluster.ok(client, r#"{"prefix":"config show","who":"mon.a"}"#).contains("ms_max_backoff"));
    let in_force = r#"{"prefix":"config get","var":"ms_initial_backoff"}"#;
    assert!(cluster.tell(client, in_force).2.contains(r#""0.5""#), "what it was started with");
    let command = r#"{"prefix":"config set","who":"client","name":"ms_max_backoff","value":"30"}"#;
    let (code, said, _) = cluster.run(client, command);
    assert_eq!((code, said.as_str()), (0, ""), "a client reads it");
}
