//! Changes of a pool that place its PGs anew: those that take PGs from their objects are refused, those that bring them
//! back are not.

use std::collections::BTreeMap;

use crate::common::{Cluster, FSID, config};
use auth::SessionId;
use encoding::Decode;
use messages::{OsdStat, PgStat, PgState, PgStats};
use mon::StateKey;
use types::{OsdId, PgId, PoolId};

const SERVES: PgState = PgState(PgState::ACTIVE.0 | PgState::CLEAN.0);

/// Three OSDs that report the PGs which they have, and of these those that the map gives them.
struct Bench {
    cluster: Cluster,
    client: SessionId,
    osds: Vec<SessionId>,
    /// Where the objects are, by the PG's number.
    has: BTreeMap<u32, i32>,
    seq: u64,
}

impl Bench {
    /// The pool `p` of 8 PGs under this rule; `one` is a rule that places everything on osd.0.
    fn new(rule: &str) -> Self {
        let mut cluster = Cluster::new(config(3, &[]));
        let osds = (0..3).map(|osd| cluster.boot(osd)).collect();
        let client = cluster.client();
        for command in [
            r#"{"prefix":"osd crush rm-device-class","ids":["0"]}"#,
            r#"{"prefix":"osd crush set-device-class","class":"own","ids":["0"]}"#,
            r#"{"prefix":"osd crush rule create-replicated","name":"one","root":"default","type":"osd","class":"own"}"#,
        ] {
            cluster.ok(client, command);
        }
        cluster
            .ok(client, &format!(r#"{{"prefix":"osd pool create","pool":"p","pg_num":8,"rule":"{rule}"}}"#));
        let mut bench = Self { cluster, client, osds, has: BTreeMap::new(), seq: 0 };
        bench.has = (0..8).map(|seed| (seed, bench.placed(seed))).collect();
        bench.report();
        bench
    }

    fn id(seed: u32) -> PgId {
        PgId { pool: PoolId(1), seed }
    }

    /// The OSD that the map gives a PG.
    fn placed(&self, seed: u32) -> i32 {
        self.cluster.mon.osdmap().pg_to_up_acting(Self::id(seed)).acting_primary.unwrap().0
    }

    /// The PGs that the map does not give the OSDs that have them.
    fn away(&self) -> Vec<u32> {
        let pool = &self.cluster.mon.osdmap().pools[&PoolId(1)];
        (0..pool.pg_num).filter(|seed| self.placed(*seed) != self.has[&(seed % 8)]).collect()
    }

    fn report(&mut self) {
        for (seed, osd) in self.has.clone() {
            if self.placed(seed) == osd {
                self.report_one(seed, osd, SERVES);
            }
        }
    }

    fn report_one(&mut self, seed: u32, osd: i32, state: PgState) {
        self.seq += 1;
        let epoch = self.cluster.mon.osdmap().epoch;
        let mut stat = PgStat {
            reported_seq: self.seq,
            reported_epoch: epoch,
            state,
            up: vec![OsdId(osd)],
            acting: vec![OsdId(osd)],
            up_primary: OsdId(osd),
            acting_primary: OsdId(osd),
            ..PgStat::default()
        };
        (stat.stats.sum.num_objects, stat.stats.sum.num_bytes) = (1, 10);
        let mut stats = PgStats { fsid: FSID, epoch, ..PgStats::default() };
        stats.pg_stat.insert(Self::id(seed), stat);
        self.cluster.send(self.osds[osd as usize], stats);
        self.cluster.settle();
    }

    /// The monitor is killed and starts again, and so do the OSDs.
    fn restart(mut self) -> Self {
        self.cluster.settle();
        let mut bench = Self { cluster: self.cluster.kill(), ..self };
        bench.client = bench.cluster.client();
        bench.osds = (0..3).map(|osd| bench.cluster.boot(osd)).collect();
        bench
    }

    /// Each OSD says what it has said of all its PGs, for the first time since it is up.
    fn end_reports(&mut self) {
        for osd in 0..3 {
            self.end_report(osd);
        }
    }

    fn end_report(&mut self, osd: i32) {
        let map = self.cluster.mon.osdmap();
        let (epoch, up_from) = (map.epoch, map.osd(OsdId(osd)).unwrap().info.up_from);
        let osd_stat = OsdStat { up_from, seq: u64::from(up_from.0) << 32 | 1, ..OsdStat::default() };
        let stats = PgStats { fsid: FSID, epoch, osd_stat, ..PgStats::default() };
        self.cluster.send(self.osds[osd as usize], stats);
        self.cluster.settle();
    }

    /// Whether the monitor's state has homes of PGs.
    fn keeps_homes(&self) -> bool {
        self.cluster.disk.keys().any(|key| key.service == "pg_homes")
    }

    /// The PGs of which the monitor's state has the homes.
    fn kept(&self) -> Vec<u32> {
        let kept = self.cluster.disk.get(&StateKey::version("pg_homes", 1));
        let homes = kept.map(|bytes| BTreeMap::<u32, Vec<OsdId>>::from_bytes(bytes).unwrap());
        homes.unwrap_or_default().into_keys().collect()
    }

    /// Runs commands. Whatever the durable map takes away, the home of that is durable, and no other.
    fn keeps_homes_at_any_time(&mut self, commands: &[&str]) {
        commands.iter().for_each(|command| self.cluster.ask(self.client, command));
        while self.cluster.commit_one() {
            assert_eq!(self.kept(), self.away(), "{commands:?}");
        }
    }

    fn set(&mut self, var: &str, value: &str) -> (i32, String) {
        let command = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{value}"}}"#);
        let (code, status, _) = self.cluster.run(self.client, &command);
        (code, status)
    }

    fn done(&mut self, var: &str, value: &str) {
        let (code, status) = self.set(var, value);
        assert_eq!(code, 0, "{var} {value}: {status}");
    }

    /// Refused, nothing changed: the sentence.
    fn refused(&mut self, var: &str, value: &str) -> String {
        let epoch = self.cluster.mon.osdmap().epoch;
        let (code, status) = self.set(var, value);
        assert_eq!(code, -95, "{var} {value}: {status}");
        assert_eq!(self.cluster.mon.osdmap().epoch, epoch, "{status}");
        assert!(status.contains("data can't be moved between OSDs yet"), "{status}");
        status
    }

    /// Places everything on osd.0, or as before. Such commands are not refused: they warn.
    fn weigh_others(&mut self, weight: f64) {
        for osd in 1..3 {
            let command =
                format!(r#"{{"prefix":"osd crush reweight","name":"osd.{osd}","weight":{weight}}}"#);
            self.cluster.ok(self.client, &command);
        }
    }

    fn without_others(&mut self, what: impl FnOnce(&mut Self)) {
        let weight = self.cluster.mon.osdmap().crush.weight_of(1);
        self.weigh_others(0.0);
        assert!((0..8).all(|seed| self.placed(seed) == 0));
        what(self);
        self.weigh_others(f64::from(weight) / 65536.0);
        assert_eq!(self.cluster.mon.osdmap().crush.weight_of(1), weight);
    }

    fn states(&mut self) -> String {
        let said = self.cluster.ok(self.client, r#"{"prefix":"pg stat"}"#);
        said.split(';').next().unwrap().to_owned()
    }
}

#[test]
fn a_rule_that_takes_pgs_from_their_objects_is_refused_in_words_that_help() {
    let mut bench = Bench::new("replicated_rule");
    let said = bench.refused("crush_rule", "one");
    let leaves = (0..8).find(|seed| bench.has[seed] != 0).unwrap();
    for want in [
        format!("pg 1.{leaves} would leave osd.{}", bench.has[&leaves]),
        "the rule stays 'replicated_rule'".into(),
        "ceph osd pool create NEW 8 8 replicated one".into(),
        "rados cppool p NEW".into(),
    ] {
        assert!(said.contains(&want), "{said}");
    }
    assert!(bench.away().is_empty());
    bench.done("crush_rule", "replicated_rule");
    assert_eq!(bench.set("crush_rule", "none").0, -2);
    // A rule that leaves every PG where it is.
    let rule = r#"{"prefix":"osd crush rule create-replicated","name":"same","root":"default","type":"osd"}"#;
    bench.cluster.ok(bench.client, rule);
    bench.done("crush_rule", "same");
    assert!(bench.away().is_empty());
}

#[test]
fn a_pgp_num_lowered_under_one_rule_keeps_the_pool_from_another_that_would_move_it() {
    let mut bench = Bench::new("one");
    bench.done("pgp_num", "3");
    bench.refused("crush_rule", "replicated_rule");
    assert!(bench.away().is_empty());
    // Whoever lowered it can undo that.
    bench.done("pgp_num", "8");
}

#[test]
fn what_brings_pgs_back_to_their_objects_is_not_refused() {
    let mut bench = Bench::new("replicated_rule");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    let away = bench.away();
    assert!(!away.is_empty(), "the test needs a PG that pgp_num 3 moves");
    assert_eq!(bench.states(), format!("8 pgs: {} active+clean, {} down", 8 - away.len(), away.len()));
    bench.report();
    bench.done("pgp_num", "8");
    bench.report();
    assert_eq!((bench.away(), bench.states().as_str()), (vec![], "8 pgs: 8 active+clean"));
}

#[test]
fn a_rule_and_a_pgp_num_that_took_pgs_from_their_objects_are_undone_one_after_the_other() {
    let mut bench = Bench::new("replicated_rule");
    bench.without_others(|bench| {
        bench.done("crush_rule", "one");
        bench.done("pgp_num", "3");
    });
    assert!(!bench.away().is_empty());
    bench.report();
    bench.done("pgp_num", "8");
    bench.done("crush_rule", "replicated_rule");
    bench.report();
    assert_eq!((bench.away(), bench.states().as_str()), (vec![], "8 pgs: 8 active+clean"));
}

#[test]
fn an_osd_that_does_not_serve_a_pg_says_nothing_of_where_its_objects_are() {
    let mut bench = Bench::new("replicated_rule");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    let away = bench.away();
    assert!(!away.is_empty());
    // They have older copies.
    for seed in away.clone() {
        bench.report_one(seed, bench.placed(seed), PgState::PEERING);
    }
    assert_eq!(bench.states(), format!("8 pgs: {} active+clean, {} peering", 8 - away.len(), away.len()));
    bench.done("pgp_num", "8");
    bench.report();
    assert_eq!((bench.away(), bench.states().as_str()), (vec![], "8 pgs: 8 active+clean"));
    bench.refused("pgp_num", "3");
}

#[test]
fn a_part_of_a_pg_that_was_split_is_where_that_pg_is_before_anyone_has_reported_it() {
    let mut bench = Bench::new("replicated_rule");
    bench.done("pg_num", "16");
    bench.refused("pgp_num", "16");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    assert!(bench.away().iter().any(|seed| *seed >= 8));
    bench.refused("crush_rule", "one");
    bench.done("pgp_num", "8");
    assert!(bench.away().is_empty());
}

#[test]
fn pgs_that_nobody_has_reported_stay_where_the_map_has_them() {
    let mut bench = Bench::new("replicated_rule");
    bench = Bench { cluster: bench.cluster.kill(), ..bench };
    bench.client = bench.cluster.client();
    for (var, value) in [("crush_rule", "one"), ("pgp_num", "3")] {
        let said = bench.refused(var, value);
        assert!(said.contains(", which no OSD has reported yet, would leave osd."), "{said}");
    }
    bench.osds = (0..3).map(|osd| bench.cluster.boot(osd)).collect();
    bench.report();
    let said = bench.refused("crush_rule", "one");
    assert!(!said.contains("reported"), "{said}");
}

#[test]
fn what_took_pgs_from_their_objects_is_undone_after_a_restart_of_the_monitor() {
    let mut bench = Bench::new("replicated_rule");
    assert!(!bench.keeps_homes(), "every PG is at home");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    let away = bench.away();
    assert!(!away.is_empty());
    // The OSDs go down with the cluster, which says nothing of where objects are.
    bench.cluster.ok(bench.client, r#"{"prefix":"osd down","ids":["0","1","2"]}"#);
    let mut bench = bench.restart().restart();
    bench.report();
    assert_eq!(bench.states(), format!("8 pgs: {} unknown, {} active+clean", away.len(), 8 - away.len()));
    let said = bench.refused("pgp_num", "8");
    assert!(said.contains(", which no OSD has reported yet, would leave osd."), "{said}");
    bench.end_reports();
    assert_eq!(bench.states(), format!("8 pgs: {} active+clean, {} down", 8 - away.len(), away.len()));
    let shown = bench.cluster.ok(bench.client, r#"{"prefix":"pg dump","format":"json"}"#);
    let home = bench.has[&away[0]];
    assert!(shown.contains(&format!(r#""blocked_by":[{home}]"#)), "{shown}");
    bench.done("pgp_num", "8");
    assert!(!bench.keeps_homes(), "every PG is at home again");
    bench.report();
    assert_eq!((bench.away(), bench.states().as_str()), (vec![], "8 pgs: 8 active+clean"));
    bench.refused("pgp_num", "3");
}

#[test]
fn what_pgs_have_that_are_away_from_their_objects_is_known_after_a_restart() {
    let mut bench = Bench::new("replicated_rule");
    let data = |bench: &mut Bench| {
        let said = bench.cluster.ok(bench.client, r#"{"prefix":"pg stat"}"#);
        said.split("; ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(data(&mut bench), "80 B data");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    let away = bench.away().len();
    assert!(away > 0);
    let mut bench = bench.restart().restart();
    assert_eq!(data(&mut bench), format!("{away}0 B data"));
    bench.report();
    bench.end_reports();
    assert_eq!(data(&mut bench), "80 B data");
    bench.done("pgp_num", "8");
    bench.report();
    assert_eq!(data(&mut bench), "80 B data");
}

#[test]
fn the_homes_that_a_map_takes_pgs_from_are_durable_with_it() {
    let mut bench = Bench::new("replicated_rule");
    let weight = f64::from(bench.cluster.mon.osdmap().crush.weight_of(1)) / 65536.0;
    let reweight = |to: f64| format!(r#"{{"prefix":"osd crush reweight","name":"osd.1","weight":{to}}}"#);
    bench.keeps_homes_at_any_time(&[&reweight(0.0)]);
    assert!(!bench.away().is_empty(), "the test needs a PG on osd.1");
    bench.keeps_homes_at_any_time(&[&reweight(weight)]);
    assert!(bench.away().is_empty());
    // While a proposal is under way two changes become one map: what a PG is split into goes with it.
    let (flag, split) = (
        r#"{"prefix":"osd set","key":"noout"}"#,
        r#"{"prefix":"osd pool set","pool":"p","var":"pg_num","val":"16"}"#,
    );
    let epoch = bench.cluster.mon.osdmap().epoch;
    bench.keeps_homes_at_any_time(&[flag, split, &reweight(0.0)]);
    assert_eq!(bench.cluster.mon.osdmap().epoch.0, epoch.0 + 2);
    assert!(bench.away().iter().any(|seed| *seed >= 8), "{:?}", bench.away());
}

#[test]
fn a_kept_home_counts_for_nothing_once_another_osd_serves_the_pg() {
    let mut bench = Bench::new("replicated_rule");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    let away = bench.away();
    let mut bench = bench.restart();
    // They were imported while the monitor was away.
    for seed in &away {
        bench.has.insert(*seed, bench.placed(*seed));
    }
    let said = bench.refused("pgp_num", "8");
    assert!(said.contains("which no OSD has reported yet"), "{said}");
    bench.report();
    bench.end_reports();
    let said = bench.refused("pgp_num", "8");
    assert!(!said.contains("reported"), "{said}");
    assert!(!bench.keeps_homes());
}

#[test]
fn the_kept_homes_of_a_pool_go_with_it() {
    let mut bench = Bench::new("replicated_rule");
    bench.without_others(|bench| bench.done("pgp_num", "3"));
    assert!(bench.keeps_homes());
    bench.cluster.ok(
        bench.client,
        r#"{"prefix":"config set","who":"mon","name":"mon_allow_pool_delete","value":"true"}"#,
    );
    let delete = r#"{"prefix":"osd pool delete","pool":"p","pool2":"p","yes_i_really_really_mean_it":true}"#;
    bench.cluster.ok(bench.client, delete);
    assert!(!bench.keeps_homes());
}
