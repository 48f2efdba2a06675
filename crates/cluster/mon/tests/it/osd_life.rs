//! OSDs that fail, are given up and made again, and PGs every copy of which is lost.

use crate::common;

use std::collections::BTreeSet;

use crate::common::{Cluster, at, config, uuid};
use auth::SessionId;
use maps::{OsdState, PoolFlags};
use messages::{Message, MonSubscribe, Subscription};
use mon::MonEvent;
use types::{Epoch, Fsid, OsdId, PgId, PoolId};

/// A cluster with a pool whose PGs are reported.
fn up(osds: i32) -> (Cluster, SessionId, Vec<SessionId>) {
    let mut cluster = Cluster::new(config(osds, &[]));
    let sessions: Vec<SessionId> = (0..osds).map(|osd| cluster.boot(osd)).collect();
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    for (osd, session) in sessions.iter().enumerate() {
        cluster.report(osd as i32, *session, 1);
    }
    cluster.settle();
    (cluster, client, sessions)
}

fn tick(cluster: &mut Cluster, second: u32) {
    cluster.now = at(second);
    cluster.event(MonEvent::Tick);
    cluster.settle();
}

fn fail(cluster: &mut Cluster, osd: i32, reason: &str) {
    cluster.event(MonEvent::OsdFailed { osd, reason: reason.into() });
    cluster.settle();
}

fn state(cluster: &Cluster, osd: i32) -> u32 {
    cluster.mon.osdmap().osd(OsdId(osd)).unwrap().state
}

fn pgs_of(cluster: &Cluster, osd: i32) -> BTreeSet<PgId> {
    let map = cluster.mon.osdmap();
    let pools = map.pools.iter().flat_map(|(pool, p)| (0..p.pg_num).map(|seed| PgId { pool: *pool, seed }));
    pools.filter(|pg| map.pg_to_up_acting(*pg).acting_primary == Some(OsdId(osd))).collect()
}

/// The PGs that an OSD is to make, and since which epoch they are to exist.
fn ordered(cluster: &mut Cluster, session: SessionId) -> Vec<(PgId, Epoch)> {
    let orders = cluster.take(session).into_iter().filter_map(|m| match m {
        Message::OsdPgCreate2(m) => Some(m.pgs),
        _ => None,
    });
    orders.flatten().map(|(pg, (epoch, _))| (pg.pg, epoch)).collect()
}

fn subscribe(cluster: &mut Cluster, session: SessionId) {
    let what = [("osd_pg_creates".to_owned(), Subscription { start: 0, flags: 0 })];
    cluster.send(session, MonSubscribe { what: what.into(), hostname: "vm".into() });
}

fn force(cluster: &mut Cluster, client: SessionId, pg: PgId) -> (i32, String) {
    let command = format!(r#"{{"prefix":"osd force-create-pg","pgid":"{pg}","yes_i_really_mean_it":true}}"#);
    let (code, status, _) = cluster.run(client, &command);
    (code, status)
}

/// Destroys osd.0 and boots another in its place, with an empty store.
fn replace(cluster: &mut Cluster, client: SessionId) -> SessionId {
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    cluster.ok(client, r#"{"prefix":"osd destroy","id":0,"yes_i_really_mean_it":true}"#);
    let new = Fsid::from_random([99; 16]);
    cluster.ok(client, &format!(r#"{{"prefix":"osd new","uuid":"{new}","id":0}}"#));
    let session = cluster.open_session(types::EntityType::Osd, "0", 7000);
    let mut boot = cluster.boot_message(0, session);
    boot.superblock.osd_fsid = new;
    cluster.send(session, boot);
    cluster.settle();
    assert!(state(cluster, 0) & OsdState::UP != 0);
    session
}

#[test]
fn a_failed_osd_goes_down_and_its_reason_is_a_health_check_until_it_boots() {
    let (mut cluster, client, _) = up(3);
    fail(&mut cluster, 1, "its disk is gone");
    assert_eq!(state(&cluster, 1) & OsdState::UP, 0);
    let health = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(health.contains("OSD_FAILED: 1 osd failed"), "{health}");
    assert!(health.contains("osd.1 failed: its disk is gone"), "{health}");
    let log = cluster.ok(client, r#"{"prefix":"log last","num":20}"#);
    assert!(log.contains("osd.1 marked down, it failed: its disk is gone"), "{log}");
    cluster.boot(1);
    let health = cluster.ok(client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(!health.contains("OSD_FAILED"), "{health}");
}

#[test]
fn a_failure_during_a_proposal_counts_at_the_next_tick() {
    let (mut cluster, client, _) = up(2);
    cluster.ask(client, r#"{"prefix":"osd set","key":"noout"}"#);
    cluster.event(MonEvent::OsdFailed { osd: 0, reason: "x".into() });
    cluster.settle();
    assert!(state(&cluster, 0) & OsdState::UP != 0);
    tick(&mut cluster, 1);
    assert_eq!(state(&cluster, 0) & OsdState::UP, 0);
}

/// A report of a PG in a state of `bits`.
fn report_pg(
    cluster: &mut Cluster,
    session: SessionId,
    osd: i32,
    seq: u64,
    pg: PgId,
    state: messages::PgState,
) {
    let epoch = cluster.mon.osdmap().epoch;
    let mut stats = messages::PgStats { tid: seq, fsid: common::FSID, epoch, ..Default::default() };
    let (up, acting) = (vec![OsdId(osd)], vec![OsdId(osd)]);
    let primary = OsdId(osd);
    stats.pg_stat.insert(
        pg,
        messages::PgStat {
            reported_seq: seq,
            reported_epoch: epoch,
            state,
            up,
            acting,
            up_primary: primary,
            acting_primary: primary,
            ..Default::default()
        },
    );
    cluster.send(session, stats);
    cluster.settle();
}

fn log(cluster: &mut Cluster, session: SessionId, text: &str) {
    let entry = messages::LogEntry {
        name: "osd.0".parse().unwrap(),
        rank: types::EntityName::new(types::EntityType::Osd, 0),
        addrs: Default::default(),
        stamp: cluster.now,
        seq: 1,
        level: messages::LogEntry::ERROR,
        message: text.into(),
        channel: "cluster".into(),
    };
    let entries = vec![entry];
    cluster.send(session, messages::Log { fsid: common::FSID, entries, ..Default::default() });
    cluster.settle();
}

#[test]
fn the_health_says_why_a_pg_failed_until_it_is_something_else() {
    let (mut cluster, client, sessions) = up(2);
    let pg = *pgs_of(&cluster, 0).first().unwrap();
    let health = r#"{"prefix":"health","detail":"detail"}"#;
    let line = messages::PgTrouble::Stopped.line(&pg.into(), "its info is damaged");
    // A client may write what it likes to the log.
    log(&mut cluster, client, &line);
    report_pg(&mut cluster, sessions[0], 0, 50, pg, messages::PgState::DOWN);
    assert!(!cluster.ok(client, health).contains("it failed"));
    log(&mut cluster, sessions[0], &line);
    let said = cluster.ok(client, health);
    let line = said.lines().find(|line| line.contains(&format!("pg {pg} "))).unwrap_or_default();
    assert!(line.ends_with("last acting [0]: it failed: its info is damaged"), "{said}");
    report_pg(&mut cluster, sessions[0], 0, 51, pg, messages::PgState(0b110));
    report_pg(&mut cluster, sessions[0], 0, 52, pg, messages::PgState::DOWN);
    assert!(!cluster.ok(client, health).contains("it failed"), "that was before");
}

#[test]
fn the_health_names_a_pg_that_an_osd_can_not_remove_until_the_osd_starts_again() {
    let (mut cluster, client, sessions) = up(2);
    let pg = *pgs_of(&cluster, 0).first().unwrap();
    let health = r#"{"prefix":"health","detail":"detail"}"#;
    let line = |pg: PgId| messages::PgTrouble::Remains.line(&pg.into(), "damaged store: a page");
    // A client may write what it likes to the log, and a PG of a pool that is there is not removed.
    let gone = PgId { pool: PoolId(77), seed: 1 };
    log(&mut cluster, client, &line(gone));
    log(&mut cluster, sessions[0], &line(pg));
    assert!(!cluster.ok(client, health).contains("PG_NOT_REMOVED"));
    log(&mut cluster, sessions[0], &line(gone));
    let said = cluster.ok(client, health);
    assert!(said.contains("PG_NOT_REMOVED: 1 pg(s) of removed pools can't be removed"), "{said}");
    assert!(said.contains("osd.0 keeps pg 77.1: damaged store: a page"), "{said}");
    assert!(said.contains("loligo store remove") && said.contains("--replace"), "{said}");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    assert!(cluster.ok(client, health).contains("PG_NOT_REMOVED"));
    // What it says while its boot waits counts.
    let session = cluster.open_session(types::EntityType::Osd, "0", 6800);
    log(&mut cluster, session, &line(gone));
    let boot = cluster.boot_message(0, session);
    cluster.send(session, boot);
    cluster.settle();
    assert!(cluster.ok(client, health).contains("PG_NOT_REMOVED"));
    cluster.boot(0);
    assert!(!cluster.ok(client, health).contains("PG_NOT_REMOVED"));
}

#[test]
fn an_osd_is_destroyed_only_when_it_is_down_and_its_loss_accepted() {
    let (mut cluster, client, _) = up(3);
    let refused = |cluster: &mut Cluster, command: &str, code: i32, why: &str| {
        let (got, status, _) = cluster.run(client, command);
        assert_eq!(got, code, "{command}: {status}");
        assert!(status.contains(why), "{command}: {status}");
    };
    let plain = r#"{"prefix":"osd destroy","id":"osd.0"}"#;
    let forced = r#"{"prefix":"osd destroy","id":"0","force":true}"#;
    refused(&mut cluster, plain, -16, "pgs currently mapped to them");
    refused(&mut cluster, forced, -16, "is not `down`");
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    refused(&mut cluster, plain, -16, "passing --force");
    assert_eq!(cluster.run(client, forced).1, "destroyed osd.0");
    assert_eq!(cluster.run(client, forced).1, "destroyed osd.0");
    assert_eq!(cluster.run(client, r#"{"prefix":"osd destroy","id":"77"}"#).1, "osd.77 does not exist");
    assert!(state(&cluster, 0) & OsdState::DESTROYED != 0);
    let tree = cluster.ok(client, r#"{"prefix":"osd tree"}"#);
    assert!(tree.contains("destroyed"), "{tree}");
    cluster.boot(0);
    assert_eq!(state(&cluster, 0) & OsdState::UP, 0);
}

#[test]
fn only_a_destroyed_osd_is_made_again_and_only_its_new_store_boots() {
    let (mut cluster, client, _) = up(2);
    let new = |id: &str, uuid: Fsid| format!(r#"{{"prefix":"osd new","uuid":"{uuid}","id":{id}}}"#);
    let other = Fsid::from_random([99; 16]);
    assert_eq!(cluster.run(client, &new("0", other)).0, -22, "it is not destroyed");
    assert_eq!(cluster.run(client, &new("0", uuid(1))).0, -17, "the UUID is another OSD's");
    assert_eq!(cluster.run(client, &new("1", uuid(1))).2, "1\n", "it has it already");
    assert_eq!(cluster.run(client, &new("9", other)).0, -95, "nothing starts a new number");
    assert_eq!(cluster.run(client, r#"{"prefix":"osd new","uuid":"x","id":0}"#).0, -22);
    replace(&mut cluster, client);
    assert_eq!(state(&cluster, 0) & OsdState::DESTROYED, 0);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    // The former store.
    cluster.boot(0);
    assert_eq!(state(&cluster, 0) & OsdState::UP, 0, "{:?}", cluster.log.last());
}

#[test]
fn an_osd_is_declared_lost_only_when_it_is_down_and_that_is_meant() {
    let (mut cluster, client, _) = up(2);
    let sure = r#"{"prefix":"osd lost","id":0,"yes_i_really_mean_it":true}"#;
    assert_eq!(cluster.run(client, r#"{"prefix":"osd lost","id":0}"#).0, -1);
    assert_eq!(cluster.run(client, sure).0, -16);
    assert_eq!(cluster.run(client, r#"{"prefix":"osd lost","id":9,"yes_i_really_mean_it":true}"#).0, -2);
    cluster.ok(client, r#"{"prefix":"osd down","ids":["0"]}"#);
    let down_at = cluster.mon.osdmap().epoch;
    let (code, status, _) = cluster.run(client, sure);
    assert_eq!((code, status), (0, format!("marked osd lost in epoch {}", down_at.0)));
    assert_eq!(cluster.mon.osdmap().osd(OsdId(0)).unwrap().info.lost_at, down_at);
}

#[test]
fn a_lost_pg_is_made_again_alone_and_once() {
    let (mut cluster, client, _) = up(2);
    let lost: Vec<PgId> = pgs_of(&cluster, 0).into_iter().collect();
    assert!(lost.len() > 1);
    let session = replace(&mut cluster, client);
    subscribe(&mut cluster, session);
    assert_eq!(ordered(&mut cluster, session), [], "nothing is made without a command");
    let unsure = format!(r#"{{"prefix":"osd force-create-pg","pgid":"{}"}}"#, lost[0]);
    assert_eq!(cluster.run(client, &unsure).0, -1);
    let missing = r#"{"prefix":"osd force-create-pg","pgid":"1.ff","yes_i_really_mean_it":true}"#;
    assert_eq!(cluster.run(client, missing).0, -2);

    let epoch = cluster.mon.osdmap().epoch;
    assert_eq!(force(&mut cluster, client, lost[0]), (0, format!("pg {} now creating, ok", lost[0])));
    assert_eq!(ordered(&mut cluster, session), [(lost[0], epoch)]);
    let resend = |pool: &maps::PgPool| pool.last_force_op_resend == epoch.next();
    assert!(cluster.mon.osdmap().pools.values().all(resend), "what waits for it comes again");
    assert_eq!(force(&mut cluster, client, lost[0]), (0, format!("pg {} already creating", lost[0])));
    // A monitor that starts again has no report of any PG, and still wants only this one made.
    let mut cluster = cluster.kill();
    let client = cluster.client();
    assert!(cluster.mon.osdmap().pools.values().all(|pool| pool.has_flags(PoolFlags::CREATING)));
    let session = cluster.open_session(types::EntityType::Osd, "0", 7000);
    subscribe(&mut cluster, session);
    assert_eq!(ordered(&mut cluster, session), [(lost[0], epoch)]);
    // Reported, it is not made another time; its pool is whole when all others are reported too.
    let osds = [session, cluster.open_session(types::EntityType::Osd, "1", 6810)];
    cluster.report(0, osds[0], 5);
    tick(&mut cluster, 5);
    assert!(cluster.mon.osdmap().pools.values().all(|pool| pool.has_flags(PoolFlags::CREATING)));
    cluster.report(1, osds[1], 5);
    tick(&mut cluster, 6);
    assert!(cluster.mon.osdmap().pools.values().all(|pool| !pool.has_flags(PoolFlags::CREATING)));
    assert!(cluster.disk.keys().all(|key| key.service != "forced_pgs"), "nothing of it is kept");
    let status = cluster.ok(client, r#"{"prefix":"status"}"#);
    assert!(status.contains("8 active+clean"), "{status}");
}

#[test]
fn a_pg_that_was_made_again_is_not_made_after_the_next_start_of_the_monitor() {
    let (mut cluster, client, _) = up(2);
    let pg = *pgs_of(&cluster, 0).first().unwrap();
    replace(&mut cluster, client);
    force(&mut cluster, client, pg);
    // It is made while the monitor has no report of osd.1's PGs: the pool is not whole.
    let mut cluster = cluster.kill();
    let session = cluster.open_session(types::EntityType::Osd, "0", 7000);
    cluster.settle();
    cluster.report(0, session, 5);
    cluster.settle();
    let mut cluster = cluster.kill();
    assert!(cluster.mon.osdmap().pools.values().all(|pool| pool.has_flags(PoolFlags::CREATING)));
    let session = cluster.open_session(types::EntityType::Osd, "0", 7000);
    subscribe(&mut cluster, session);
    assert_eq!(ordered(&mut cluster, session), []);
}

#[test]
fn every_pg_of_a_pool_that_was_never_whole_is_being_created() {
    let mut cluster = Cluster::new(config(1, &[]));
    cluster.boot(0);
    let client = cluster.client();
    cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
    let pg = *pgs_of(&cluster, 0).first().unwrap();
    assert_eq!(force(&mut cluster, client, pg), (0, format!("pg {pg} already creating")));
}

#[test]
fn a_removed_pool_leaves_nothing_of_its_forced_pgs() {
    let (mut cluster, client, _) = up(2);
    let pg = *pgs_of(&cluster, 0).first().unwrap();
    force(&mut cluster, client, pg);
    assert!(cluster.disk.keys().any(|key| key.service == "forced_pgs"));
    let sure = r#"{"prefix":"osd pool rm","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    cluster.ok(client, sure);
    assert!(cluster.disk.keys().all(|key| key.service != "forced_pgs"));
}

#[test]
fn a_monitor_lists_its_commands_and_refuses_those_of_cephs_that_it_lacks() {
    let (mut cluster, client, _) = up(1);
    let (code, _, help) = cluster.tell(client, r#"{"prefix":"help"}"#);
    assert!(code == 0 && help.contains("\"config show\"") && !help.contains("dump_mempools"), "{help}");
    let (code, status, _) = cluster.tell(client, r#"{"prefix":"dump_mempools"}"#);
    assert!(code == -95 && status.contains("'dump_mempools'"), "{status}");
}

#[test]
fn an_osd_with_a_newer_map_than_the_monitor_does_not_boot_and_changes_nothing() {
    let (mut cluster, client, _) = up(2);
    let backup = cluster.disk.clone();
    cluster.ok(client, r#"{"prefix":"osd set","key":"noout"}"#);
    let newer = cluster.mon.osdmap().epoch;
    let mut cluster = Cluster::start(cluster.config, backup);
    let newest = cluster.mon.osdmap().epoch;
    for (has, boots) in [(newer, false), (newest, true)] {
        let session = cluster.open_session(types::EntityType::Osd, "0", 6800);
        let mut boot = cluster.boot_message(0, session);
        boot.superblock.newest_map = has;
        cluster.send(session, boot);
        cluster.settle();
        assert_eq!(cluster.mon.osdmap().epoch > newest, boots, "{has}");
    }
    assert_eq!(cluster.behind, [(OsdId(0), newer, newest)]);
    let said = format!("boot of osd.0 refused: it has map {newer}, and the newest here is {newest}");
    assert!(cluster.log.contains(&said), "{:?}", cluster.log);
}
