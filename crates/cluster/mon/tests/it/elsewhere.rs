//! PGs whose objects are not where the map wants them: data can't be moved yet, and nothing hides that.

use crate::common;

use crate::common::{Cluster, config};
use auth::SessionId;

/// Two OSDs, a pool whose PGs are all reported active+clean.
fn up() -> (Cluster, SessionId, Vec<SessionId>) {
    let mut cluster = Cluster::new(config(2, &[]));
    let sessions: Vec<SessionId> = (0..2).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    report(&mut cluster, &sessions, 1);
    (cluster, client, sessions)
}

fn report(cluster: &mut Cluster, sessions: &[SessionId], seq: u64) {
    for (osd, session) in sessions.iter().enumerate() {
        cluster.report(osd as i32, *session, seq);
    }
    cluster.settle();
}

fn states(cluster: &mut Cluster, client: SessionId) -> String {
    cluster.ok(client, r#"{"prefix":"pg stat"}"#).split(';').next().unwrap().to_owned()
}

#[test]
fn pgs_that_a_command_takes_from_their_objects_are_down_and_the_command_and_health_say_so() {
    for (there, back) in [
        (r#"{"prefix":"osd out","ids":["1"]}"#, r#"{"prefix":"osd in","ids":["1"]}"#),
        (
            r#"{"prefix":"osd reweight","id":1,"weight":0.0}"#,
            r#"{"prefix":"osd reweight","id":1,"weight":1.0}"#,
        ),
        (
            r#"{"prefix":"osd crush reweight","name":"osd.1","weight":0.0}"#,
            r#"{"prefix":"osd crush reweight","name":"osd.1","weight":0.00977}"#,
        ),
    ] {
        let (mut cluster, client, sessions) = up();
        let on_one = cluster.ok(client, r#"{"prefix":"pg ls-by-osd","osd":"1","format":"json"}"#);
        let moved = on_one.matches(r#""pgid""#).count();
        assert!(moved > 0 && moved < 8, "{on_one}");
        let epoch = cluster.mon.osdmap().epoch;
        let placed =
            |seed| cluster.mon.osdmap().pg_to_up_acting(types::PgId { pool: types::PoolId(1), seed });
        let before: Vec<_> = (0..8).map(|seed| placed(seed).acting).collect();
        let (code, status, _) = cluster.run(client, there);
        assert_eq!(code, 0, "{there}: {status}");
        let want = match moved {
            1 => "WARNING: 1 PG is down from now on: its objects are on osd.1".to_owned(),
            many => format!("WARNING: {many} PGs are down from now on: their objects are on osd.1"),
        };
        assert!(status.contains(&want), "{there}: {status}");
        let mixed = format!("8 pgs: {} active+clean, {moved} down", 8 - moved);
        assert_eq!(states(&mut cluster, client), mixed);
        // A report of osd.1 that was on its way changes nothing.
        let mut late = messages::PgStats { fsid: common::FSID, epoch, ..Default::default() };
        for seed in 0..8 {
            let id = types::PgId { pool: types::PoolId(1), seed };
            if cluster.mon.osdmap().pg_to_up_acting(id).acting != before[seed as usize] {
                let acting = vec![types::OsdId(1)];
                let (reported_epoch, state) = (epoch, messages::PgState(0b110));
                let acting_primary = types::OsdId(1);
                let stat = messages::PgStat {
                    reported_epoch,
                    reported_seq: 2,
                    state,
                    acting,
                    acting_primary,
                    ..Default::default()
                };
                late.pg_stat.insert(id, stat);
            }
        }
        assert_eq!(late.pg_stat.len(), moved);
        cluster.send(sessions[1], late);
        cluster.settle();
        assert_eq!(states(&mut cluster, client), mixed);
        let health = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
        let plural = if moved == 1 { "" } else { "s" };
        let want = format!("PG_AVAILABILITY: Reduced data availability: {moved} pg{plural} down");
        assert!(health.contains(&want), "{health}");
        assert!(health.contains("is down, acting [1]: its objects are on osd.1"), "{health}");
        let stuck = cluster.ok(client, r#"{"prefix":"osd blocked-by"}"#);
        assert!(stuck.contains(&moved.to_string()), "{stuck}");
        let (code, status, _) = cluster.run(client, r#"{"prefix":"osd safe-to-destroy","ids":["1"]}"#);
        assert_ne!(code, 0, "osd.1 has all copies: {status}");
        let (_, status, _) = cluster.run(client, back);
        assert!(!status.contains("WARNING"), "{back}: {status}");
        assert_eq!(states(&mut cluster, client), "8 pgs: 8 active+clean", "{back}");
    }
}

#[test]
fn an_osd_that_comes_back_to_where_the_map_has_nothing_for_it_leaves_its_pgs_down_and_not_stale() {
    let (mut cluster, client, sessions) = up();
    cluster.ok(client, r#"{"prefix":"osd down","ids":["1"]}"#);
    assert!(states(&mut cluster, client).contains("stale+active+clean"));
    cluster.ok(client, r#"{"prefix":"osd out","ids":["1"]}"#);
    assert!(states(&mut cluster, client).contains("stale+down"), "{}", states(&mut cluster, client));
    let again = cluster.boot(1);
    let now = states(&mut cluster, client);
    assert!(now.contains(" down") && !now.contains("stale"), "{now}");
    cluster.ok(client, r#"{"prefix":"osd in","ids":["1"]}"#);
    report(&mut cluster, &[sessions[0], again], 2);
    assert_eq!(states(&mut cluster, client), "8 pgs: 8 active+clean");
}

#[test]
fn a_command_that_takes_an_osd_out_of_the_crush_map_says_what_puts_it_back() {
    for command in ["rm", "unlink"] {
        let (mut cluster, client, _) = up();
        let before = cluster.mon.osdmap().crush.clone();
        let (code, status, _) =
            cluster.run(client, &format!(r#"{{"prefix":"osd crush {command}","name":"osd.1"}}"#));
        assert_eq!(code, 0, "{status}");
        assert_ne!(states(&mut cluster, client), "8 pgs: 8 active+clean");
        let (_, after) = status.split_once("`ceph osd crush add ").unwrap_or_else(|| panic!("{status}"));
        let words: Vec<&str> = after.split('`').next().unwrap().split(' ').collect();
        let [osd, weight, place @ ..] = words.as_slice() else { panic!("{status}") };
        let add = format!(r#"{{"prefix":"osd crush add","id":"{osd}","weight":{weight},"args":{place:?}}}"#,);
        cluster.ok(client, &add);
        if let Some((_, class)) = status.split_once("`ceph osd crush set-device-class ") {
            let class = class.split(' ').next().unwrap();
            cluster.ok(
                client,
                &format!(r#"{{"prefix":"osd crush set-device-class","class":"{class}","ids":["{osd}"]}}"#),
            );
        }
        cluster.settle();
        assert_eq!(states(&mut cluster, client), "8 pgs: 8 active+clean", "{status}");
        let now = &cluster.mon.osdmap().crush;
        assert_eq!(now.weight_of(1), before.weight_of(1), "{status}");
        assert_eq!(now.device_class(1), before.device_class(1), "{status}");
        assert_eq!(now.parent_of(1).map(|b| b.id), before.parent_of(1).map(|b| b.id), "{status}");
    }
}
