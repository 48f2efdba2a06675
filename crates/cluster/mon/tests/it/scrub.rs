//! Orders to scrub, and what health says of what scrubs found or did not do.

use auth::SessionId;
use messages::{Message, OsdScrub2, PgStat, PgState};
use mon::MonEvent;
use types::{OsdId, PgId, PoolId, UTime};

use crate::common;
use crate::common::{Cluster, at, config};

/// A cluster of three OSDs, with their sessions and a client's, and a pool of eight PGs.
fn cluster() -> (Cluster, [SessionId; 3], SessionId) {
    let mut cluster = Cluster::new(config(3, &[]));
    let osds = [0, 1, 2].map(|osd| cluster.boot(osd));
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8,"size":1}"#);
    cluster.settle();
    osds.iter().for_each(|osd| drop(cluster.take(*osd)));
    (cluster, osds, client)
}

fn orders(cluster: &mut Cluster, osd: SessionId) -> Vec<OsdScrub2> {
    let all = cluster.take(osd).into_iter();
    all.filter_map(|message| if let Message::OsdScrub2(order) = message { Some(order) } else { None })
        .collect()
}

fn leader(cluster: &Cluster, pg: PgId) -> i32 {
    cluster.mon.osdmap().pg_to_up_acting(pg).acting_primary.unwrap().0
}

fn pg(seed: u32) -> PgId {
    PgId { pool: PoolId(1), seed }
}

#[test]
fn a_pg_is_scrubbed_by_the_osd_that_leads_it() {
    let (mut cluster, osds, client) = cluster();
    for (verb, repair, deep) in
        [("scrub", false, false), ("deep-scrub", false, true), ("repair", true, false)]
    {
        let osd = leader(&cluster, pg(3));
        let (code, status, _) = cluster.run(client, &format!(r#"{{"prefix":"pg {verb}","pgid":"1.3"}}"#));
        assert_eq!((code, status), (0, format!("instructing pg 1.3 on osd.{osd} to {verb}")));
        for (of, session) in osds.iter().enumerate() {
            let told = orders(&mut cluster, *session);
            assert_eq!(told.len(), usize::from(of as i32 == osd));
            for order in told {
                assert_eq!((order.fsid, order.epoch), (common::FSID, cluster.mon.osdmap().epoch));
                assert_eq!(
                    (&order.scrub_pgs[..], order.repair, order.deep),
                    (&[pg(3).into()][..], repair, deep)
                );
            }
        }
    }
}

#[test]
fn an_osd_or_a_pool_is_scrubbed_with_all_pgs_that_are_led() {
    let (mut cluster, osds, client) = cluster();
    let (code, status, _) = cluster.run(client, r#"{"prefix":"osd deep-scrub","who":"1"}"#);
    assert_eq!((code, status.as_str()), (0, "instructed osd(s) 1 to deep-scrub"));
    let told = orders(&mut cluster, osds[1]);
    assert!(told.len() == 1 && told[0].deep, "{told:?}");
    assert!(told[0].scrub_pgs.iter().all(|pg| leader(&cluster, pg.pg) == 1));
    for command in [r#"{"prefix":"osd scrub","who":"all"}"#, r#"{"prefix":"osd pool scrub","who":["p"]}"#] {
        cluster.ok(client, command);
        let told: Vec<_> = osds.iter().flat_map(|osd| orders(&mut cluster, *osd)).collect();
        let mut pgs: Vec<PgId> = told.iter().flat_map(|order| &order.scrub_pgs).map(|pg| pg.pg).collect();
        pgs.sort();
        assert_eq!(pgs, (0..8).map(pg).collect::<Vec<_>>(), "{command}");
    }
}

#[test]
fn what_cannot_be_scrubbed_is_refused_as_ceph_does() {
    let (mut cluster, osds, client) = cluster();
    for (command, code, status) in [
        (r#"{"prefix":"pg scrub","pgid":"x"}"#, -22, "invalid pgid 'x'"),
        (r#"{"prefix":"pg scrub","pgid":"99.0"}"#, -2, "pg 99.0 does not exist"),
        (r#"{"prefix":"pg scrub","pgid":"1.8"}"#, -2, "pg 1.8 does not exist"),
        (r#"{"prefix":"osd scrub","who":"7"}"#, -11, "osd.7 is not up"),
        (r#"{"prefix":"osd scrub","who":"x"}"#, -22, "invalid osd 'x'"),
        (r#"{"prefix":"osd pool scrub","who":["x"]}"#, -2, "unrecognized pool 'x'"),
    ] {
        assert_eq!(cluster.run(client, command), (code, status.to_owned(), String::new()), "{command}");
    }
    let osd = leader(&cluster, pg(0));
    cluster.event(MonEvent::SessionClosed(osds[osd as usize]));
    let (code, status, _) = cluster.run(client, r#"{"prefix":"pg scrub","pgid":"1.0"}"#);
    assert_eq!((code, status), (-11, format!("pg 1.0 primary osd.{osd} is not currently connected")));
    cluster.ok(client, r#"{"prefix":"osd scrub","who":"all"}"#);
    let (code, ..) = cluster.run(client, r#"{"prefix":"osd pool scrub","who":["p"]}"#);
    assert_eq!(code, -11);
}

/// A report of one PG.
fn report(cluster: &mut Cluster, osds: &[SessionId; 3], seed: u32, change: impl FnOnce(&mut PgStat)) {
    let osd = leader(cluster, pg(seed));
    let map = cluster.mon.osdmap();
    let mut stats = messages::PgStats { fsid: common::FSID, epoch: map.epoch, ..Default::default() };
    let mut stat = PgStat {
        reported_seq: 1,
        reported_epoch: map.epoch,
        state: PgState::ACTIVE.with(PgState::CLEAN),
        acting: vec![OsdId(osd)],
        acting_primary: OsdId(osd),
        last_scrub_stamp: at(0),
        last_deep_scrub_stamp: at(0),
        ..PgStat::default()
    };
    change(&mut stat);
    stats.pg_stat.insert(pg(seed), stat);
    cluster.send(osds[osd as usize], stats);
    cluster.settle();
}

fn health(cluster: &mut Cluster, client: SessionId) -> String {
    cluster.event(MonEvent::Tick);
    cluster.settle();
    cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#)
}

#[test]
fn health_names_what_scrubs_found() {
    let (mut cluster, osds, client) = cluster();
    report(&mut cluster, &osds, 1, |stat| {
        stat.state = stat.state.with(PgState::INCONSISTENT);
        stat.stats.sum.num_scrub_errors = 3;
    });
    report(&mut cluster, &osds, 2, |stat| stat.stats.sum.num_large_omap_objects = 2);
    let text = health(&mut cluster, client);
    let (osd, has) = (leader(&cluster, pg(1)), |line: &str| text.lines().any(|is| is.trim() == line));
    assert!(has("[ERR] OSD_SCRUB_ERRORS: 3 scrub errors"), "{text}");
    assert!(has("[ERR] PG_DAMAGED: Possible data damage: 1 pg inconsistent"), "{text}");
    assert!(has(&format!("pg 1.1 is active+clean+inconsistent, acting [{osd}]")), "{text}");
    assert!(has("[WRN] LARGE_OMAP_OBJECTS: 2 large omap objects"), "{text}");
    assert!(has("2 large objects found in pool 'p'"), "{text}");
    assert!(has("Search the cluster log for 'Large omap object found' for more details."), "{text}");
    let json = cluster.ok(client, r#"{"prefix":"health","format":"json"}"#);
    assert!(json.contains(r#"{"message":"2 large omap objects","count":2}"#), "{json}");
}

#[test]
fn pgs_that_were_not_scrubbed_for_long_are_late() {
    const DAY: u32 = 86_400;
    let (mut cluster, osds, client) = cluster();
    for seed in 0..8 {
        report(&mut cluster, &osds, seed, |stat| {
            (stat.last_scrub_stamp, stat.last_deep_scrub_stamp) = (at(seed * DAY), at(0));
        });
    }
    cluster.now = at(10 * DAY);
    assert!(!health(&mut cluster, client).contains("SCRUBBED"));
    // osd_scrub_max_interval is a week, and a half of it is the grace; that of deep scrubs three quarters.
    cluster.now = UTime { sec: at(12 * DAY).sec, nsec: 0 };
    let text = health(&mut cluster, client);
    assert!(text.contains("[WRN] PG_NOT_SCRUBBED: 2 pgs not scrubbed in time"), "{text}");
    assert!(text.contains("    pg 1.1 not scrubbed since 20") && !text.contains("DEEP"), "{text}");
    cluster.now = at(13 * DAY);
    let text = health(&mut cluster, client);
    assert!(text.contains("[WRN] PG_NOT_DEEP_SCRUBBED: 8 pgs not deep-scrubbed in time"), "{text}");
    cluster.ok(client, r#"{"prefix":"osd pool set","pool":"p","var":"deep_scrub_interval","val":"1e7"}"#);
    cluster.ok(
        client,
        r#"{"prefix":"config set","who":"mon","name":"mon_warn_pg_not_scrubbed_ratio","value":"0"}"#,
    );
    assert!(!health(&mut cluster, client).contains("SCRUBBED"));
}
