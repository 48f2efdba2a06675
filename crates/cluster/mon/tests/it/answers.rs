//! What commands answer, in the shapes of Ceph 16.2, and that what is not there says so.

use crate::common;

use crate::common::{Cluster, at, config};
use auth::SessionId;
use types::OsdId;

fn up(osds: i32) -> (Cluster, SessionId, Vec<SessionId>) {
    let mut cluster = Cluster::new(config(osds, &[]));
    let sessions = (0..osds).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    (cluster, client, sessions)
}

/// A cluster with a pool whose PGs have all been reported.
fn with_pool(osds: i32) -> (Cluster, SessionId, Vec<SessionId>) {
    let (mut cluster, client, sessions) = up(osds);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    report(&mut cluster, &sessions);
    (cluster, client, sessions)
}

fn report(cluster: &mut Cluster, sessions: &[SessionId]) {
    for (osd, session) in sessions.iter().enumerate() {
        cluster.report(osd as i32, *session, 7);
    }
    cluster.settle();
}

fn plain(prefix: &str) -> String {
    format!(r#"{{"prefix":"{prefix}"}}"#)
}

fn json(prefix: &str) -> String {
    format!(r#"{{"prefix":"{prefix}","format":"json"}}"#)
}

#[test]
fn what_is_empty_here_is_answered_as_ceph_answers_it_empty() {
    let (mut cluster, client, _) = up(1);
    for (command, text, as_json) in [
        ("fs ls", "No filesystems enabled\n", "[]"),
        ("fs status", "", "{}"),
        ("mds metadata", "[]\n", "[]"),
        ("mds versions", "{}\n", "{}"),
        ("service status", "{}\n", "{}"),
        ("crash ls", "", "[]"),
        ("crash stat", "0 crashes recorded\n", r#"{"crashes":0}"#),
        ("progress", "Nothing in progress\n", r#"{"completed":[],"events":[]}"#),
        ("device ls", "DEVICE  HOST:DEV  DAEMONS  WEAR  LIFE EXPECTANCY\n", "[]"),
        (
            "osd blocked-by",
            "osd  num_blocked\n",
            r#"{"pg_ready":true,"osd_blocked_by":{"osd_blocked_by_infos":[]}}"#,
        ),
        ("pg dump_stuck", "", r#"{"pg_ready":true,"stuck_pg_stats":[]}"#),
        (
            "osd numa-status",
            "OSD  HOST  NETWORK  STORAGE  AFFINITY  CPUS\n  0  vm          -        -         -  -   \n",
            r#"[{"osd":0,"host":"vm"}]"#,
        ),
    ] {
        assert_eq!(cluster.ok(client, &plain(command)), text, "{command}");
        assert_eq!(cluster.ok(client, &json(command)), as_json, "{command}");
    }
    for (command, sentence) in [
        ("fs status", "there are no file systems"),
        ("mds stat", "there are no metadata servers"),
        ("crash ls", "no crash reports are collected"),
    ] {
        assert_eq!(cluster.run(client, &plain(command)).1, sentence, "{command}");
        assert_eq!(cluster.run(client, &json(command)).1, "", "{command}: a program needs no sentence");
    }
    let dump = cluster.ok(client, &plain("fs dump"));
    assert!(dump.starts_with("e1\n") && dump.ends_with("\nNo filesystems configured\n"), "{dump}");
    assert_eq!(
        cluster.ok(client, &json("fs dump")),
        r#"{"epoch":1,"default_fscid":-1,"compat":{"compat":{},"ro_compat":{},"incompat":{"feature_1":"base v0.20","feature_2":"client writeable ranges","feature_3":"default file layouts on dirs","feature_4":"dir inode in separate object","feature_5":"mds uses versioned encoding","feature_6":"dirfrag is stored in omap","feature_8":"no anchor table","feature_9":"file layout v2","feature_10":"snaprealm v2"}},"feature_flags":{"enable_multiple":true,"ever_enabled_multiple":true},"standbys":[],"filesystems":[]}"#
    );
    assert!(cluster.ok(client, &json("mds stat")).contains(r#""mdsmap_first_committed":1"#));
    assert!(cluster.ok(client, &json("service dump")).contains(r#""services":{}"#));
}

#[test]
fn what_is_not_there_yet_says_so_instead_of_pretending() {
    let (mut cluster, client, _) = up(1);
    for command in [
        r#"{"prefix":"osd new","uuid":"00000000-0000-0000-0000-000000000001"}"#,
        r#"{"prefix":"osd new","uuid":"00000000-0000-0000-0000-000000000001","id":7}"#,
        r#"{"prefix":"osd set-require-min-compat-client","version":"reef"}"#,
    ] {
        let (code, status, data) = cluster.run(client, command);
        assert_eq!((code, data.as_str()), (-95, ""), "{command}: {status}");
        assert!(status.len() > 30, "{command}: {status}");
    }
    cluster.ok(client, r#"{"prefix":"osd set-require-min-compat-client","version":"luminous"}"#);
}

#[test]
fn what_names_nothing_is_refused_with_cephs_error() {
    let (mut cluster, client, _) = up(1);
    for (command, code, sentence) in [
        (r#"{"prefix":"config get","who":"osd.0","key":"nonsense"}"#, -2, "there is no option 'nonsense'"),
        (r#"{"prefix":"config help","key":"nonsense"}"#, -2, "there is no option 'nonsense'"),
        (r#"{"prefix":"config show","who":"osd.0","key":"nonsense"}"#, -2, "there is no option 'nonsense'"),
        (r#"{"prefix":"config set","who":"osd","name":"nonsense","value":"1"}"#, -22, "there is no option"),
        (r#"{"prefix":"config show","who":"osd.99"}"#, -2, "no config state for daemon osd.99"),
        (r#"{"prefix":"config show","who":"mon.b"}"#, -2, "no config state for daemon mon.b"),
        (r#"{"prefix":"config show","who":"client.x"}"#, -2, "no config state for daemon client.x"),
        (r#"{"prefix":"config show","who":"mon.a"}"#, 0, ""),
        (r#"{"prefix":"config show","who":"mgr.a"}"#, 0, ""),
        (r#"{"prefix":"pg ls-by-osd","osd":"99"}"#, -11, "osd 99 is not up"),
        (r#"{"prefix":"pg ls-by-primary","osd":"osd.99"}"#, -11, "osd 99 is not up"),
        (r#"{"prefix":"pg ls-by-osd","osd":"0"}"#, 0, ""),
        (r#"{"prefix":"osd require-osd-release","release":"nonsense"}"#, -22, "'nonsense' is not a release"),
        (r#"{"prefix":"osd require-osd-release","release":"reef"}"#, -1, "not all up OSDs have"),
        (
            r#"{"prefix":"osd crush set-device-class","class":"ssd","ids":["osd.99"]}"#,
            0,
            "osd.99 does not exist. set",
        ),
        (r#"{"prefix":"osd crush rm-device-class","ids":["osd.99"]}"#, 0, "osd.99 does not exist. done"),
        (r#"{"prefix":"fs get","fs_name":"x"}"#, -2, "filesystem 'x' not found"),
        (r#"{"prefix":"osd pool get","pool":"x","var":"size"}"#, -2, "unrecognized pool 'x'"),
        (r#"{"prefix":"osd pool rename","srcpool":"x","destpool":"y"}"#, -2, "unrecognized pool 'x'"),
        (r#"{"prefix":"osd map","pool":"x","object":"o"}"#, -2, "pool x does not exist"),
    ] {
        let (got, status, _) = cluster.run(client, command);
        assert_eq!((got, status.starts_with(sentence)), (code, true), "{command}: {status}");
    }
}

#[test]
fn a_format_that_ceph_does_not_know_is_plain_and_one_that_only_ceph_offers_is_refused() {
    let (mut cluster, client, _) = up(1);
    let in_format = |cluster: &mut Cluster, format: &str| {
        cluster.run(client, &format!(r#"{{"prefix":"osd tree","format":"{format}"}}"#))
    };
    let plain = in_format(&mut cluster, "plain");
    assert_eq!((plain.0, plain.2.starts_with("ID ")), (0, true));
    assert_eq!(in_format(&mut cluster, "yaml"), plain);
    let (code, status, data) = in_format(&mut cluster, "xml");
    assert_eq!((code, data.as_str()), (-22, ""));
    assert_eq!(status, "format 'xml' is not offered here; plain, json and json-pretty are");
}

#[test]
fn every_command_is_described_once() {
    let mut prefixes: Vec<String> =
        mon::command::all().map(|c| mon::command::signature::prefix(c.signature)).collect();
    let count = prefixes.len();
    prefixes.sort();
    prefixes.dedup();
    assert_eq!(prefixes.len(), count);
}

#[test]
fn stopping_or_destroying_an_osd_is_judged_by_the_pgs_on_it() {
    let (mut cluster, client, sessions) = with_pool(3);
    let (code, status, data) = cluster.run(client, r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#);
    assert_eq!(code, -16);
    assert!(status.starts_with("unsafe to stop osd(s) at this time ("), "{status}");
    assert!(data.starts_with(r#"{"ok_to_stop":false,"osds":[0],"num_ok_pgs":0,"num_not_ok_pgs":"#), "{data}");
    assert!(data.contains(r#""bad_become_inactive":["1."#), "{data}");
    let (code, status, data) =
        cluster.run(client, r#"{"prefix":"osd safe-to-destroy","ids":["osd.0"],"format":"json"}"#);
    assert_eq!(code, -16);
    assert!(status.contains("pgs currently mapped to them"), "{status}");
    assert_eq!(data, r#"{"safe_to_destroy":[],"active":[0],"missing_stats":[],"stored_pgs":[]}"#);
    // Its PGs go elsewhere, and are there.
    cluster.ok(client, r#"{"prefix":"osd out","ids":["0"]}"#);
    report(&mut cluster, &sessions);
    assert_eq!(
        cluster.ok(client, r#"{"prefix":"osd ok-to-stop","ids":["0"]}"#),
        "{\"ok_to_stop\":true,\"osds\":[0],\"num_ok_pgs\":0,\"num_not_ok_pgs\":0}\n"
    );
    let (code, status, _) = cluster.run(client, r#"{"prefix":"osd safe-to-destroy","ids":["0"]}"#);
    assert_eq!(
        (code, status.as_str()),
        (0, "OSD(s) 0 are safe to destroy without reducing data durability.")
    );
    let (code, status, _) = cluster.run(client, r#"{"prefix":"osd safe-to-destroy","ids":["77"]}"#);
    assert_eq!((code, status.contains("77")), (0, true));
    assert_eq!(cluster.run(client, r#"{"prefix":"osd ok-to-stop","ids":["x"]}"#).0, -22);
}

#[test]
fn pgs_that_nobody_reported_make_nothing_safe() {
    let (mut cluster, client, _) = up(2);
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for command in ["osd ok-to-stop", "osd safe-to-destroy"] {
        let (code, ..) = cluster.run(client, &format!(r#"{{"prefix":"{command}","ids":["0"]}}"#));
        assert_eq!(code, -16, "{command}");
    }
}

#[test]
fn pgs_that_stay_inactive_are_listed_as_stuck() {
    let (mut cluster, client, sessions) = with_pool(1);
    cluster.send(sessions[0], {
        let id = types::PgId { pool: types::PoolId(1), seed: 3 };
        let epoch = cluster.mon.osdmap().epoch;
        let mut stats = messages::PgStats { tid: 9, fsid: common::FSID, epoch, ..Default::default() };
        let stat = messages::PgStat {
            reported_seq: 9,
            reported_epoch: epoch,
            state: messages::PgState(1 << 12),
            up: vec![OsdId(0)],
            acting: vec![OsdId(0)],
            last_active: at(0),
            last_clean: at(0),
            ..Default::default()
        };
        stats.pg_stat.insert(id, stat);
        stats
    });
    cluster.settle();
    cluster.now = at(59);
    assert_eq!(cluster.ok(client, &plain("pg dump_stuck")), "");
    cluster.now = at(61);
    let shown = cluster.ok(client, r#"{"prefix":"pg dump_stuck","stuckops":["inactive"]}"#);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines.len(), 2, "{shown}");
    assert_eq!(lines[0].trim_end(), "PG_STAT  STATE    UP   UP_PRIMARY  ACTING  ACTING_PRIMARY");
    assert!(lines[1].starts_with("1.3      peering  [0]"), "{shown}");
    assert!(cluster.ok(client, &json("pg dump_stuck")).contains(r#""pgid":"1.3""#));
    let soon = r#"{"prefix":"pg dump_stuck","stuckops":["stale"],"threshold":1}"#;
    assert_eq!(cluster.ok(client, soon), "");
}

#[test]
fn what_osds_said_is_counted_and_numbered() {
    let (mut cluster, client, _) = with_pool(3);
    let of = |property: &str| {
        format!(r#"{{"prefix":"osd count-metadata","property":"{property}","format":"json"}}"#)
    };
    assert_eq!(cluster.ok(client, &of("hostname")), r#"{"vm":3}"#);
    assert_eq!(cluster.ok(client, &of("nosuch")), r#"{"unknown":3}"#);
    let mon = r#"{"prefix":"mon count-metadata","property":"hostname","format":"json"}"#;
    assert_eq!(cluster.ok(client, mon), r#"{"vm":1}"#);
    assert_eq!(cluster.ok(client, r#"{"prefix":"osd last-stat-seq","id":"osd.9"}"#), "0\n");
}

#[test]
fn device_classes_change_only_after_the_old_one_is_taken_away() {
    let (mut cluster, client, _) = up(2);
    let set =
        |class: &str| format!(r#"{{"prefix":"osd crush set-device-class","class":"{class}","ids":["0"]}}"#);
    assert_eq!(cluster.run(client, &set("nvme")).0, -16);
    cluster.ok(client, r#"{"prefix":"osd crush rm-device-class","ids":["osd.0"]}"#);
    let (code, status, _) = cluster.run(client, &set("nvme"));
    assert_eq!((code, status.as_str()), (0, "set osd(s) 0 to class 'nvme'"));
    let (code, status, _) = cluster.run(client, &set("nvme"));
    assert_eq!((code, status.as_str()), (0, "set osd(s)  to class 'nvme'"));
    assert_eq!(cluster.mon.osdmap().crush.device_class(0), Some("nvme"));
    assert_eq!(cluster.run(client, &set("a~b")).0, -22);
    let absent = r#"{"prefix":"osd crush set-device-class","class":"ssd","ids":["9"]}"#;
    let (code, status, _) = cluster.run(client, absent);
    assert_eq!((code, status.as_str()), (0, "osd.9 does not exist. set osd(s)  to class 'ssd'"));
}

#[test]
fn buckets_and_rules_are_added_and_a_rule_in_use_stays() {
    let (mut cluster, client, _) = up(3);
    let mut said = |command: &str| {
        let (code, status, _) = cluster.run(client, command);
        (code, status)
    };
    let bucket = r#"{"prefix":"osd crush add-bucket","name":"r1","type":"rack"}"#;
    assert_eq!(said(bucket), (0, "added bucket r1 type rack to crush map".into()));
    assert_eq!(said(bucket), (0, "bucket 'r1' already exists".into()));
    let place = r#"{"prefix":"osd crush add-bucket","name":"r2","type":"rack","args":["root=default"]}"#;
    assert_eq!(said(place), (0, "added bucket r2 type rack to location {root=default}".into()));
    for (command, code) in [
        (r#"{"prefix":"osd crush add-bucket","name":"x","type":"nosuch"}"#, -22),
        (r#"{"prefix":"osd crush add-bucket","name":"x","type":"osd"}"#, -22),
        (r#"{"prefix":"osd crush add-bucket","name":"a~b","type":"rack"}"#, -22),
        (r#"{"prefix":"osd crush add-bucket","name":"x","type":"root","args":["rack=r1"]}"#, -22),
        (r#"{"prefix":"osd crush add-bucket","name":"x","type":"rack","args":["nosuch=default"]}"#, -22),
        (r#"{"prefix":"osd crush rule create-replicated","name":"x","root":"default","type":"nosuch"}"#, -22),
        (r#"{"prefix":"osd crush rule create-replicated","name":"x","root":"nosuch","type":"osd"}"#, -2),
        (
            r#"{"prefix":"osd crush rule create-replicated","name":"x","root":"default","type":"osd","class":"hdd"}"#,
            -22,
        ),
    ] {
        let (got, status) = said(command);
        assert_eq!(got, code, "{command}: {status}");
    }
    let rule = r#"{"prefix":"osd crush rule create-replicated","name":"fast","root":"default","type":"osd","class":"ssd"}"#;
    assert_eq!(said(rule), (0, String::new()));
    assert_eq!(said(rule), (0, "rule fast already exists".into()));
    assert_eq!(said(r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"rule":"fast"}"#).0, 0);
    let remove = r#"{"prefix":"osd crush rule rm","name":"fast"}"#;
    assert_eq!(said(remove), (-16, "crush rule fast (1) is in use".into()));
    assert_eq!(
        said(r#"{"prefix":"osd pool set","pool":"p","var":"crush_rule","val":"replicated_rule"}"#).0,
        0
    );
    assert_eq!(said(remove), (0, String::new()));
    assert_eq!(said(remove), (0, "rule fast does not exist".into()));
    let map = cluster.mon.osdmap();
    assert!(map.crush.rule_by_name("fast").is_none());
    // The map still places PGs.
    let pg = types::PgId { pool: types::PoolId(1), seed: 0 };
    assert_eq!(map.pg_to_up_acting(pg).up.len(), 1);
}

#[test]
fn what_has_no_effect_is_said_where_it_is_set() {
    let mut cluster = Cluster::new(config(1, &[]));
    cluster.boot(0);
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let mut said = |command: &str| {
        let (code, status, _) = cluster.run(client, command);
        assert_eq!(code, 0, "{command}: {status}");
        status
    };
    let set = |var: &str, val: &str| {
        format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#)
    };
    for (var, val) in [("csum_type", "crc32c"), ("target_size_ratio", ".2"), ("recovery_priority", "1")] {
        assert!(said(&set(var, val)).contains("has no effect"), "{var}");
    }
    assert!(!said(&set("nodelete", "1")).contains("has no effect"));
    assert!(!said(&set("noscrub", "1")).contains("has no effect"));
    for (var, val) in [
        ("compression_mode", "aggressive"),
        ("compression_algorithm", "zstd"),
        ("compression_required_ratio", ".7"),
        ("compression_min_blob_size", "16K"),
        ("compression_max_blob_size", "1048576"),
        ("compression_mode", "unset"),
    ] {
        assert!(!said(&set(var, val)).contains("effect"), "{var}");
    }
    let stored =
        |name: &str| format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"4294967296"}}"#);
    assert!(said(&stored("bluestore_cache_size")).contains("has no effect"));
    assert_eq!(said(&stored("osd_max_object_size")), "");
    assert_eq!(said(&stored("osd_memory_target")), "");
}

#[test]
fn a_pools_compression_takes_what_there_is() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for (var, val, why) in [
        ("compression_algorithm", "snappy", "compression_algorithm: 'snappy' is not one of lz4, zstd"),
        (
            "compression_mode",
            "always",
            "compression_mode: 'always' is not one of none, passive, aggressive, force",
        ),
        ("compression_required_ratio", "1.5", "compression_required_ratio: 1.5 is outside 0 to 1"),
        ("compression_min_blob_size", "8G", "compression_min_blob_size: 8G is outside 0 to 4294967296"),
        (
            "csum_type",
            "md5",
            "csum_type: 'md5' is not one of none, crc32c, crc32c_16, crc32c_8, xxhash32, xxhash64",
        ),
        (
            "fingerprint_algorithm",
            "md5",
            "fingerprint_algorithm: 'md5' is not one of none, sha1, sha256, sha512",
        ),
        ("recovery_priority", "11", "recovery_priority: '11' is not from -10 to 10"),
        ("target_size_ratio", "-1", "target_size_ratio: '-1' is not a number from 0 on"),
    ] {
        let command = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{val}"}}"#);
        assert_eq!(cluster.run(client, &command).1, why);
    }
    let command =
        r#"{"prefix":"config set","who":"osd","name":"bluestore_compression_algorithm","value":"zlib"}"#;
    let (code, status, _) = cluster.run(client, command);
    assert!(code == -22 && status.contains("'zlib' is not one of lz4, zstd"), "{status}");
}

#[test]
fn an_option_without_effect_takes_what_ceph_takes() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    let set = |name: &str, value: &str| {
        format!(r#"{{"prefix":"config set","who":"osd","name":"{name}","value":"{value}"}}"#)
    };
    for (name, value, why) in [
        (
            "bluestore_csum_type",
            "rubbish",
            "is not one of none, crc32c, crc32c_16, crc32c_8, xxhash32, xxhash64",
        ),
        ("osd_op_queue", "fifo", "is not one of wpq, mclock_scheduler, debug_random"),
        ("osd_pool_default_pg_autoscale_mode", "maybe", "is not one of off, warn, on"),
        ("bluestore_cache_size", "much", "is not a size (bytes, as 4096, 64K or 10GiB)"),
        ("rbd_cache", "maybe", "is not a bool (true or false)"),
        ("ms_async_op_threads", "99", "is outside 1 to 24"),
    ] {
        let (code, status, _) = cluster.run(client, &set(name, value));
        let told = format!("'{value}' is not a value for {name}: ");
        assert!(code == -22 && status.starts_with(&told) && status.ends_with(why), "{code} {status}");
    }
    for (name, value) in [("bluestore_csum_type", "xxhash64"), ("rbd_cache", "true"), ("osd_op_queue", "wpq")]
    {
        cluster.ok(client, &set(name, value));
    }
}

#[test]
fn commands_of_ceph_that_are_not_there_say_so() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    for (prefix, args) in [("osd tier add", r#""a""#), ("telemetry", r#""on""#), ("orch", r#""ls""#)] {
        let (code, status, _) = cluster.run(client, &format!(r#"{{"prefix":"{prefix}","args":[{args}]}}"#));
        assert_eq!(code, -95, "{prefix}: {status}");
        assert!(status.contains(prefix) && status.contains("is not supported yet"), "{status}");
    }
}

#[test]
fn a_brief_dump_of_pgs_has_cephs_six_columns() {
    let mut cluster = Cluster::new(config(1, &[]));
    cluster.boot(0);
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let (code, _, text) = cluster.run(client, r#"{"prefix":"pg dump","dumpcontents":["pgs_brief"]}"#);
    assert_eq!(code, 0);
    let heading: Vec<&str> = text.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(heading, ["PG_STAT", "STATE", "UP", "UP_PRIMARY", "ACTING", "ACTING_PRIMARY"]);
    assert!(text.lines().skip(1).all(|line| line.split_whitespace().count() == 6), "{text}");
}

#[test]
fn a_ping_is_answered_with_the_monitors_state() {
    let mut cluster = Cluster::new(config(1, &[]));
    let client = cluster.client();
    cluster.take(client);
    cluster.send(client, messages::Ping::default());
    let answers = cluster.take(client);
    let [messages::Message::Ping(ping)] = &answers[..] else { panic!("{answers:?}") };
    let text = ping.answer.to_string();
    assert!(text.contains(r#""state": "leader""#) && text.contains(r#""health""#), "{text}");
}

#[test]
fn entities_get_keys_that_stay_and_capabilities_that_can_be_changed() {
    let mut c = Cluster::new(config(1, &[]));
    let client = c.client();
    let make =
        r#"{"prefix":"auth get-or-create","entity":"client.x","caps":["mon","allow r","osd","allow rw"]}"#;
    let (code, said, keyring) = c.run(client, make);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("authentication is off"), "{said}");
    assert!(keyring.starts_with("[client.x]\n\tkey = AQ") && keyring.ends_with("==\n"), "{keyring}");
    assert_eq!(c.run(client, make), (0, String::new(), keyring.clone()), "the same key again");
    let key = c.ok(client, r#"{"prefix":"auth get-key","entity":"client.x"}"#);
    assert!(keyring.contains(&key));
    let other = make.replace("allow rw", "allow *");
    let (code, said, _) = c.run(client, &other);
    assert_eq!((code, said.as_str()), (-22, "key for client.x exists but cap osd does not match"));
    c.ok(client, r#"{"prefix":"auth caps","entity":"client.x","caps":["mon","allow *"]}"#);
    let shown = c.ok(client, r#"{"prefix":"auth get","entity":"client.x"}"#);
    assert!(shown.ends_with("\tcaps mon = \"allow *\"\n") && shown.contains(&key), "{shown}");
    let mut c = c.kill();
    let client = c.client();
    assert_eq!(c.ok(client, r#"{"prefix":"auth get","entity":"client.x"}"#), shown, "it is durable");
    assert!(c.ok(client, r#"{"prefix":"auth ls"}"#).contains("client.admin\n"));
    c.ok(client, r#"{"prefix":"auth rm","entity":"client.x"}"#);
    assert_eq!(c.run(client, r#"{"prefix":"auth get","entity":"client.x"}"#).0, -2);
    assert_eq!(c.run(client, r#"{"prefix":"auth get","entity":"nonsense"}"#).0, -22);
    let odd = r#"{"prefix":"auth get-or-create","entity":"client.y","caps":["mon"]}"#;
    assert_eq!(c.run(client, odd).0, -22);
    let wrong = odd.replace(r#"["mon"]"#, r#"["mon","allow r","osd","allow rbd"]"#);
    let why = "osd capability parse failed, stopped at 'bd' of 'allow rbd'";
    assert_eq!(c.run(client, &wrong), (-22, why.to_owned(), String::new()));
}

#[test]
fn changes_of_stored_options_are_listed_and_taken_back() {
    let mut c = Cluster::new(config(1, &[]));
    let client = c.client();
    let set = |c: &mut Cluster, value: &str| {
        let set =
            format!(r#"{{"prefix":"config set","who":"osd","name":"osd_max_backfills","value":"{value}"}}"#);
        c.ok(client, &set);
    };
    set(&mut c, "3");
    set(&mut c, "3");
    set(&mut c, "5");
    let log = c.ok(client, r#"{"prefix":"config log"}"#);
    let lines: Vec<&str> = log.lines().collect();
    assert!(lines[0].starts_with("--- 3 --- ") && lines[3].starts_with("--- 2 --- "), "{log}");
    assert_eq!(lines[1..3], ["- osd/osd_max_backfills = 3", "+ osd/osd_max_backfills = 5"]);
    assert!(lines[5].starts_with("--- 1 --- "), "{log}");
    c.ok(client, r#"{"prefix":"config reset","num":1}"#);
    assert!(!c.ok(client, r#"{"prefix":"config dump"}"#).contains("osd_max_backfills"));
    c.ok(client, r#"{"prefix":"config reset","num":2}"#);
    assert!(c.ok(client, r#"{"prefix":"config dump"}"#).contains("osd_max_backfills  3"));
    assert_eq!(c.run(client, r#"{"prefix":"config reset","num":99}"#).0, -22);
}

#[test]
fn a_ceph_conf_is_stored_and_what_can_not_be_is_given_back() {
    let mut c = Cluster::new(config(1, &[]));
    let client = c.client();
    let file = "[global]\nfsid = x\nmon host = 1.2.3.4\n[osd]\nosd max backfills = 4\nno_such_option = 1\n";
    let m = messages::MonCommand {
        tid: 900,
        fsid: common::FSID,
        cmd: vec![r#"{"prefix":"config assimilate-conf"}"#.into()],
        data: file.as_bytes().to_vec().into(),
        ..Default::default()
    };
    c.send(client, m);
    c.settle();
    let acks = c.take(client).into_iter().find_map(|m| match m {
        messages::Message::MonCommandAck(ack) => Some(ack),
        _ => None,
    });
    let ack = acks.unwrap();
    let left = String::from_utf8_lossy(&ack.data.to_vec()).into_owned();
    assert_eq!(ack.result, 0, "{}", ack.status);
    assert_eq!(left, "\n[global]\n\tfsid = x\n\tmon_host = 1.2.3.4\n\n[osd]\n\tno_such_option = 1\n");
    assert!(c.ok(client, r#"{"prefix":"config dump"}"#).contains("osd_max_backfills  4"));
}

#[test]
fn the_monitor_itself_is_asked_for_counters_and_told_options() {
    let mut c = Cluster::new(config(2, &[]));
    c.boot(0);
    let client = c.client();
    let (code, _, dump) = c.tell(client, r#"{"prefix":"perf dump","logger":"cluster","format":"json"}"#);
    assert_eq!(code, 0);
    assert!(dump.contains(r#""num_osd":2,"num_osd_up":1"#), "{dump}");
    for what in ["dump", "schema"] {
        let told = |c: &mut Cluster, shape: &str| -> serde_json::Value {
            let asked = c.tell(client, &format!(r#"{{"prefix":"{shape} {what}","format":"json"}}"#));
            serde_json::from_str(&asked.2).unwrap()
        };
        let (plain, labelled) = (told(&mut c, "perf"), told(&mut c, "counter"));
        assert_eq!(labelled.as_object().unwrap().len(), plain.as_object().unwrap().len());
        for (section, counters) in plain.as_object().unwrap() {
            assert_eq!(labelled[section], serde_json::json!([{ "labels": {}, "counters": counters }]));
        }
    }
    let (_, _, told) = c.tell(client, r#"{"prefix":"config set","var":"mon_max_pg_per_osd","val":["77"]}"#);
    assert!(told.contains("mon_max_pg_per_osd = '77'"), "{told}");
    let get = r#"{"prefix":"config get","var":"mon_max_pg_per_osd"}"#;
    assert!(c.tell(client, get).2.contains("77"));
    let diff = c.tell(client, r#"{"prefix":"config diff","format":"json"}"#).2;
    assert_eq!(diff, r#"{"diff":{"mon_max_pg_per_osd":{"default":"250","final":"77"}}}"#);
    c.tell(client, r#"{"prefix":"injectargs","injected_args":["--mon-max-pg-per-osd=78"]}"#);
    assert!(c.tell(client, get).2.contains("78"));
    c.tell(client, r#"{"prefix":"config unset","var":"mon_max_pg_per_osd"}"#);
    assert!(c.tell(client, get).2.contains("250"));
    assert_eq!(c.tell(client, r#"{"prefix":"config set","var":"nonsense","val":["1"]}"#).0, -2);
    assert!(c.tell(client, r#"{"prefix":"sessions","format":"json"}"#).2.contains("client.admin"));
    assert_eq!(c.run(client, r#"{"prefix":"mon add","args":["b","1.2.3.4"]}"#).0, -95);
}
