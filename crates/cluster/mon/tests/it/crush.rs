//! Commands that change the CRUSH map, place PGs, set flags of OSDs, and remove OSDs.

use crate::common;

use crate::common::{Cluster, at, config};
use auth::SessionId;
use encoding::Encode;
use maps::OsdState;
use mon::MonEvent;
use types::OsdId;

fn up(osds: i32) -> (Cluster, SessionId) {
    let mut cluster = Cluster::new(config(osds, &[]));
    for osd in 0..osds {
        cluster.boot(osd);
    }
    let client = cluster.client();
    (cluster, client)
}

/// `osd crush …`: the words of a command by name.
fn crush(cluster: &mut Cluster, client: SessionId, text: &str) -> (i32, String) {
    let (code, status, _) = cluster.run(client, &format!("{{{text}}}"));
    (code, status)
}

fn state(cluster: &Cluster, osd: i32) -> u32 {
    cluster.mon.osdmap().osd(OsdId(osd)).map_or(0, |entry| entry.state)
}

#[test]
fn an_osd_is_placed_moved_and_weighed_in_ceph_s_words() {
    let (mut c, client) = up(3);
    let (code, said) = crush(
        &mut c,
        client,
        r#""prefix":"osd crush set","id":2,"weight":1.0,"args":["root=default","host=h9"]"#,
    );
    let place = "at location {host=h9,root=default}";
    assert_eq!((code, said), (0, format!("set item id 2 name 'osd.2' weight 1 {place} to crush map")));
    let again =
        r#""prefix":"osd crush create-or-move","id":2,"weight":9.0,"args":["root=default","host=h9"]"#;
    let epoch = c.mon.osdmap().epoch;
    let (code, said) = crush(&mut c, client, again);
    assert_eq!(
        (code, said),
        (0, format!("create-or-move updated item name 'osd.2' weight 9 {place} to crush map"))
    );
    assert_eq!(c.mon.osdmap().epoch, epoch, "it is there already");
    let (code, _) = crush(
        &mut c,
        client,
        r#""prefix":"osd crush move","name":"osd.2","args":["host=h10","root=default"]"#,
    );
    assert_eq!(code, 0);
    let map = &c.mon.osdmap().crush;
    assert_eq!((map.weight_of(2), map.weight_of(map.item_by_name("h10").unwrap())), (0x1_0000, 0x1_0000));
    let (code, said) =
        crush(&mut c, client, r#""prefix":"osd crush move","name":"none","args":["host=h10"]"#);
    assert_eq!((code, said.as_str()), (-2, "item none does not exist"));
    let (code, said) =
        crush(&mut c, client, r#""prefix":"osd crush add","id":7,"weight":1,"args":["root=default"]"#);
    assert!(code == -2 && said.starts_with("osd.7 does not exist."), "{said}");
    let (code, _) = crush(&mut c, client, r#""prefix":"osd crush move","name":"h10","args":["nonsense=x"]"#);
    assert_eq!(code, -22);
}

#[test]
fn buckets_are_removed_when_they_are_empty_and_no_rule_begins_there() {
    let (mut c, client) = up(1);
    crush(
        &mut c,
        client,
        r#""prefix":"osd crush add-bucket","name":"r1","type":"rack","args":["root=default"]"#,
    );
    let rm = |c: &mut Cluster, name: &str| {
        crush(c, client, &format!(r#""prefix":"osd crush rm","name":"{name}""#))
    };
    assert_eq!(rm(&mut c, "vm").0, -39, "it holds an OSD");
    let (code, said) = rm(&mut c, "r1");
    assert!(
        code == 0 && said.starts_with("removed item id -") && said.ends_with("name 'r1' from crush map"),
        "{said}"
    );
    assert_eq!(rm(&mut c, "r1"), (0, "device 'r1' does not appear in the crush map".into()));
    rm(&mut c, "osd.0");
    assert_eq!(rm(&mut c, "vm").0, 0);
    assert_eq!(rm(&mut c, "default").0, -16, "the rule begins there");
}

#[test]
fn a_crush_map_is_taken_whole_unless_it_cannot_be_used() {
    let (mut c, client) = up(2);
    c.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let mut map = c.mon.osdmap().crush.clone();
    map.set_osd_weight(0, 0x3_0000).unwrap();
    let version = c.mon.osdmap().crush_version;
    let mut set = |bytes: Vec<u8>, prior: i64| {
        let m = messages::MonCommand {
            tid: 900,
            fsid: common::FSID,
            cmd: vec![format!(r#"{{"prefix":"osd setcrushmap","prior_version":{prior}}}"#).as_str().into()],
            data: bytes.into(),
            ..Default::default()
        };
        c.send(client, m);
        c.settle();
        let acks = c.take(client).into_iter().find_map(|m| match m {
            messages::Message::MonCommandAck(ack) => Some((ack.result, ack.status)),
            _ => None,
        });
        (acks.unwrap(), c.mon.osdmap().crush.clone())
    };
    let features = types::Profile::PACIFIC.features_encode;
    let ((code, said), now) = set(map.to_bytes(features), i64::from(version));
    assert_eq!((code, said, now.weight_of(0)), (0, (version + 1).to_string(), 0x3_0000));
    assert_eq!(set(map.to_bytes(features), i64::from(version)).0.0, -1, "an older version was read");
    let later = i64::from(version) + 1;
    assert_eq!(set(b"nonsense".to_vec(), later).0.0, -22);
    let mut bare = map.clone();
    bare.rules.clear();
    let ((code, said), _) = set(bare.to_bytes(features), later);
    assert!(code == -22 && said.contains("pool 1 'p' uses the rule 0"), "{said}");
}

#[test]
fn a_purged_osd_is_in_no_map_and_does_not_boot_again() {
    let (mut c, client) = up(3);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd purge","id":2,"force":true}"#);
    assert_eq!((code, said.as_str()), (-16, "osd.2 is not `down`."));
    c.ok(client, r#"{"prefix":"osd down","ids":["2"]}"#);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd purge","id":2,"yes_i_really_mean_it":true}"#);
    assert_eq!((code, said.as_str()), (0, "purged osd.2"));
    let map = c.mon.osdmap();
    assert!(!map.exists(OsdId(2)) && map.crush.item_by_name("osd.2").is_none());
    assert_eq!(c.ok(client, r#"{"prefix":"osd ls"}"#), "0\n1\n");
    assert!(!c.ok(client, r#"{"prefix":"osd tree"}"#).contains("osd.2"));
    c.boot(2);
    assert!(!c.mon.osdmap().exists(OsdId(2)));
    assert!(c.log.iter().any(|line| line == "boot of osd.2 refused: there is no such OSD"), "{:?}", c.log);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd purge","id":2,"force":true}"#);
    assert_eq!((code, said.as_str()), (0, "osd.2 does not exist"));
    c.ok(client, r#"{"prefix":"osd setmaxosd","newmax":2}"#);
    assert_eq!(c.mon.osdmap().max_osd(), 2);
    let mut again = c.kill();
    let client = again.client();
    assert_eq!(again.ok(client, r#"{"prefix":"osd ls"}"#), "0\n1\n");
}

#[test]
fn osd_rm_leaves_the_crush_map_and_needs_the_osd_down() {
    let (mut c, client) = up(2);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd rm","ids":["1"]}"#);
    assert_eq!((code, said.as_str()), (-16, "osd.1 is still up; must be down before removal. "));
    c.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd rm","ids":["1"]}"#);
    assert_eq!((code, said.trim()), (0, "removed osd.1."));
    assert!(!c.mon.osdmap().exists(OsdId(1)) && c.mon.osdmap().crush.item_by_name("osd.1") == Some(1));
    let tree = c.ok(client, r#"{"prefix":"osd tree"}"#);
    assert!(tree.contains("osd.1      DNE") || tree.contains("DNE"), "{tree}");
}

#[test]
fn a_flag_of_a_host_or_a_class_holds_its_osds() {
    let (mut c, client) = up(2);
    for (who, prefix) in [("vm", "osd set-group"), ("ssd", "osd set-group")] {
        c.ok(client, &format!(r#"{{"prefix":"{prefix}","flags":"noout,noup","who":["{who}"]}}"#));
    }
    let health = c.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("host vm has flags noup,noout"), "{health}");
    assert!(health.contains("device class 'ssd' has flags noup,noout"), "{health}");
    c.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    c.boot(1);
    assert_eq!(state(&c, 1) & OsdState::UP, 0, "noup");
    for second in [1, 700, 701] {
        c.now = at(second);
        c.event(MonEvent::Tick);
        c.settle();
    }
    assert!(c.mon.osdmap().is_in(OsdId(1)), "noout");
    c.ok(client, r#"{"prefix":"osd unset-group","flags":"noout,noup","who":["ssd","vm"]}"#);
    assert!(!c.ok(client, r#"{"prefix":"health","detail":"detail"}"#).contains("has flags"));
    c.boot(1);
    assert_ne!(state(&c, 1) & OsdState::UP, 0);
    c.ok(client, r#"{"prefix":"osd add-noout","ids":["0"]}"#);
    assert_ne!(state(&c, 0) & OsdState::NOOUT, 0);
    c.ok(client, r#"{"prefix":"osd rm-noout","ids":["0"]}"#);
    assert_eq!(state(&c, 0) & OsdState::NOOUT, 0);
    let (code, said, _) = c.run(client, r#"{"prefix":"osd set-group","flags":"nosuch","who":["vm"]}"#);
    assert!(code == -22 && said.contains("unrecognized flag 'nosuch'"), "{said}");
}

#[test]
fn pgs_are_placed_against_crush_and_a_pg_taken_from_its_objects_is_warned_of() {
    let mut c = Cluster::new(config(2, &[]));
    let sessions: Vec<SessionId> = (0..2).map(|osd| c.boot(osd)).collect();
    let client = c.client();
    c.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for (osd, session) in sessions.iter().enumerate() {
        c.report(osd as i32, *session, 1);
    }
    c.settle();
    let pg: types::PgId = "1.0".parse().unwrap();
    let at = c.mon.osdmap().pg_to_up_acting(pg).acting[0].0;
    let other = 1 - at;
    let command = format!(r#"{{"prefix":"osd pg-upmap-items","pgid":"1.0","id":[{at},{other}]}}"#);
    let (code, said, _) = c.run(client, &command);
    assert_eq!(code, 0, "{said}");
    assert!(said.starts_with(&format!("set 1.0 pg_upmap_items mapping to [{at}->{other}]")), "{said}");
    assert!(said.contains("WARNING: 1 PG is down from now on: its objects are on osd."), "{said}");
    assert_eq!(c.mon.osdmap().pg_to_up_acting(pg).up, [OsdId(other)]);
    let dump = c.ok(client, r#"{"prefix":"osd dump","format":"json"}"#);
    assert!(dump.contains(&format!(r#""mappings":[{{"from":{at},"to":{other}}}]"#)), "{dump}");
    c.ok(client, r#"{"prefix":"osd rm-pg-upmap-items","pgid":"1.0"}"#);
    assert_eq!(c.mon.osdmap().pg_to_up_acting(pg).up, [OsdId(at)]);
    let (code, _, _) = c.run(client, r#"{"prefix":"osd pg-upmap","pgid":"1.0","id":[0,1]}"#);
    assert_eq!(code, -22, "a pool of one copy");
    assert_eq!(c.run(client, r#"{"prefix":"osd pg-upmap","pgid":"9.0","id":[0]}"#).0, -2);
    c.ok(client, r#"{"prefix":"osd reweightn","weights":"{\"0\": 32768, \"1\": \"65536\"}"}"#);
    assert_eq!(c.mon.osdmap().weight(OsdId(0)), 32768);
    assert_eq!(c.run(client, r#"{"prefix":"osd reweightn","weights":"{\"9\": 1}"}"#).0, -22);
}

#[test]
fn classes_rules_tunables_and_profiles_are_kept_as_ceph_keeps_them() {
    let (mut c, client) = up(2);
    c.ok(client, r#"{"prefix":"osd crush class create","class":"slow"}"#);
    assert!(c.ok(client, r#"{"prefix":"osd crush class ls"}"#).contains("slow"));
    c.ok(client, r#"{"prefix":"osd crush class rename","srcname":"ssd","dstname":"fast"}"#);
    assert_eq!(c.ok(client, r#"{"prefix":"osd crush class ls-osd","class":"fast"}"#), "0\n1\n");
    c.ok(
        client,
        r#"{"prefix":"osd crush rule create-replicated","name":"quick","root":"default","type":"osd","class":"fast"}"#,
    );
    assert_eq!(c.ok(client, r#"{"prefix":"osd crush rule ls-by-class","class":"fast"}"#), "quick\n");
    assert_eq!(c.run(client, r#"{"prefix":"osd crush class rm","class":"fast"}"#).0, -16);
    c.ok(client, r#"{"prefix":"osd crush rule rename","srcname":"quick","dstname":"quicker"}"#);
    assert!(c.ok(client, r#"{"prefix":"osd crush rule list"}"#).contains("quicker"));
    c.ok(client, r#"{"prefix":"osd crush tunables","profile":"hammer"}"#);
    assert!(c.ok(client, r#"{"prefix":"osd crush show-tunables"}"#).contains(r#""chooseleaf_stable": 0"#));
    assert_eq!(c.run(client, r#"{"prefix":"osd crush tunables","profile":"x"}"#).0, -22);
    c.ok(client, r#"{"prefix":"osd erasure-code-profile set","name":"e","profile":["k=2","m=1"]}"#);
    let shown = c.ok(client, r#"{"prefix":"osd erasure-code-profile get","name":"e"}"#);
    assert!(shown.contains("k=2\nm=1\nplugin=jerasure\n"), "{shown}");
    let other = r#"{"prefix":"osd erasure-code-profile set","name":"e","profile":["k=3","m=1"]}"#;
    assert_eq!(c.run(client, other).0, -1, "not without --force");
    let meant = |force| {
        let flags = format!(r#""force":{force},"yes_i_really_mean_it":true"#);
        format!(r#"{{"prefix":"osd erasure-code-profile set","name":"e","profile":["k=3","m=1"],{flags}}}"#)
    };
    assert_eq!(c.run(client, &meant(false)).0, -1, "nor with the other flag alone");
    c.ok(client, &meant(true));
    assert!(c.ok(client, r#"{"prefix":"osd erasure-code-profile get","name":"e"}"#).contains("k=3\n"));
    c.ok(client, r#"{"prefix":"osd erasure-code-profile rm","name":"e"}"#);
    assert_eq!(c.run(client, r#"{"prefix":"osd erasure-code-profile get","name":"e"}"#).0, -2);
    assert_eq!(c.ok(client, r#"{"prefix":"osd ls-tree","name":"vm"}"#), "0\n1\n");
}
