//! `osd pool set POOL pg_num N`: a target that the pool's PGs follow, where that moves no data.

use crate::common::{Cluster, config};
use auth::SessionId;
use maps::{PgPool, PoolFlags};
use mon::MonEvent;
use types::PoolId;

struct Bench {
    cluster: Cluster,
    client: SessionId,
    osds: Vec<SessionId>,
    seq: u64,
}

impl Bench {
    /// OSDs that have made a pool of 8 PGs.
    fn new(osds: i32) -> Self {
        let mut bench = Self::creating(osds);
        bench.report();
        assert!(!bench.pool().has_flags(PoolFlags::CREATING));
        bench
    }

    fn creating(osds: i32) -> Self {
        let mut cluster = Cluster::new(config(osds, &[]));
        let osds = (0..osds).map(|osd| cluster.boot(osd)).collect();
        let client = cluster.client();
        cluster.ok(client, r#"{"prefix":"osd pool create","pool":"p","pg_num":8}"#);
        Self { cluster, client, osds, seq: 0 }
    }

    /// Every OSD reports the PGs that the map gives it as active and clean, and time passes.
    fn report(&mut self) {
        self.seq += 1;
        for (osd, session) in self.osds.clone().into_iter().enumerate() {
            self.cluster.report(osd as i32, session, self.seq);
        }
        self.tick();
    }

    fn tick(&mut self) {
        self.cluster.settle();
        for _ in 0..3 {
            self.cluster.now.sec += 1;
            self.cluster.event(MonEvent::Tick);
            self.cluster.settle();
        }
    }

    fn pool(&self) -> &PgPool {
        &self.cluster.mon.osdmap().pools[&PoolId(1)]
    }

    /// pg_num, its target, pgp_num, its target.
    fn numbers(&self) -> [u32; 4] {
        let pool = self.pool();
        [pool.pg_num, pool.pg_num_target, pool.pgp_num, pool.pgp_num_target]
    }

    fn set(&mut self, var: &str, value: &str) -> (i32, String) {
        let command = format!(r#"{{"prefix":"osd pool set","pool":"p","var":"{var}","val":"{value}"}}"#);
        let (code, status, _) = self.cluster.run(self.client, &command);
        (code, status)
    }

    fn get(&mut self, var: &str) -> String {
        let command = format!(r#"{{"prefix":"osd pool get","pool":"p","var":"{var}"}}"#);
        self.cluster.ok(self.client, &command)
    }
}

#[test]
fn pg_num_rises_at_once_and_pgp_num_with_it_where_nothing_moves() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.set("pg_num", "13"), (0, "set pool 1 pg_num to 13".into()));
    assert_eq!(bench.numbers(), [13; 4]);
    assert_eq!((bench.get("pg_num"), bench.get("pgp_num")), ("pg_num: 13\n".into(), "pgp_num: 13\n".into()));
    let pool = bench.pool();
    assert_eq!(pool.pg_num_pending, 13);
    assert_eq!(pool.last_force_op_resend_preluminous, bench.cluster.mon.osdmap().epoch);
    assert_eq!(bench.set("pgp_num", "13").0, 0, "as it is");
    bench.report();
    assert_eq!(bench.set("pg_num", "100").0, 0);
    assert_eq!(bench.numbers(), [100; 4]);
    assert_eq!(bench.set("pg_num", "100").0, 0);
    assert_eq!(bench.set("pgp_num", "64").0, 0, "one OSD has everything whatever pgp_num is");
    assert_eq!(bench.numbers(), [100, 100, 64, 64]);
    bench.report();
    assert_eq!(bench.set("pg_num", "128").0, 0);
    assert_eq!(bench.numbers(), [128, 128, 64, 64], "it was set by hand, and stays");
}

#[test]
fn pgp_num_stays_where_it_would_move_data() {
    let mut bench = Bench::new(3);
    let places = |bench: &Bench| {
        let map = bench.cluster.mon.osdmap();
        (0..8).map(|seed| map.pg_to_up_acting(types::PgId { pool: PoolId(1), seed })).collect::<Vec<_>>()
    };
    let before = places(&bench);
    let (code, status) = bench.set("pg_num", "32");
    assert_eq!(
        (code, status.as_str()),
        (0, "set pool 1 pg_num to 32; pgp_num stays 8: data can't be moved between OSDs yet")
    );
    assert_eq!((bench.numbers(), places(&bench)), ([32, 32, 8, 8], before));
    let map = bench.cluster.mon.osdmap();
    for seed in 8..32 {
        let [child, parent] = [seed, seed % 8].map(|seed| types::PgId { pool: PoolId(1), seed });
        assert_eq!(map.pg_to_up_acting(child), map.pg_to_up_acting(parent));
    }
    let (code, status) = bench.set("pgp_num", "32");
    assert_eq!(code, -95);
    assert!(status.contains("data can't be moved between OSDs yet; it stays 8"), "{status}");
    let health = bench.cluster.ok(bench.client, r#"{"prefix":"health","detail":"detail"}"#);
    assert!(
        health.contains("SMALLER_PGP_NUM") && health.contains("pool p pg_num 32 > pgp_num 8"),
        "{health}"
    );
}

#[test]
fn pgp_num_stays_where_it_would_move_data_once_an_osd_is_in_again() {
    let mut bench = Bench::new(2);
    bench.cluster.ok(bench.client, r#"{"prefix":"osd out","ids":["1"]}"#);
    bench.report();
    assert_eq!(bench.set("pg_num", "32").0, 0);
    bench.report();
    assert_eq!(bench.numbers(), [32, 32, 8, 8], "osd.0 has everything only as long as osd.1 is out");
    assert_eq!(bench.set("pgp_num", "32").0, -95);
}

#[test]
fn pg_num_waits_for_every_pg_of_the_pool() {
    let mut bench = Bench::creating(1);
    let (code, status) = bench.set("pg_num", "16");
    assert_eq!(
        (code, status.as_str()),
        (0, "set pool 1 pg_num to 16; it is 8 until every PG of the pool is active")
    );
    bench.tick();
    assert_eq!(bench.numbers(), [8, 16, 8, 16]);
    bench.report();
    assert_eq!(bench.numbers(), [16; 4]);
    // The new PGs are not reported yet.
    assert_eq!(bench.set("pg_num", "32").0, 0);
    bench.tick();
    assert_eq!(bench.numbers(), [16, 32, 16, 32]);
    let mut bench = Bench { cluster: bench.cluster.kill(), ..bench };
    bench.client = bench.cluster.client();
    bench.osds = vec![bench.cluster.boot(0)];
    bench.tick();
    assert_eq!(bench.numbers(), [16, 32, 16, 32], "a restart forgets no target");
    bench.report();
    assert_eq!(bench.numbers(), [32; 4]);
}

#[test]
fn what_is_wrong_or_can_not_be_done_yet_is_refused_with_a_sentence() {
    let mut bench = Bench::new(1);
    for (var, value, code, why) in [
        ("pg_num", "0", -34, "pg_num must be from 1 to"),
        ("pg_num", "100000", -34, "mon_max_pool_pg_num"),
        ("pg_num", "1000", -34, "mon_max_pg_per_osd"),
        ("pg_num", "4", -95, "PGs can't be merged yet"),
        ("pg_num", "many", -22, "not a number"),
        ("pgp_num", "0", -22, "from 1 to pg_num, which is 8"),
        ("pgp_num", "9", -22, "from 1 to pg_num, which is 8"),
    ] {
        let (got, status) = bench.set(var, value);
        assert!(got == code && status.contains(why), "{var} {value}: {got} {status}");
    }
    let absent = r#"{"prefix":"osd pool set","pool":"absent","var":"pg_num","val":"16"}"#;
    assert_eq!(bench.cluster.run(bench.client, absent).0, -2);
    for (option, value, refused, taken) in
        [("pg_num_min", "20", "19", "20"), ("pg_num_max", "30", "31", "30")]
    {
        assert_eq!(bench.set(option, value).0, 0);
        let (code, status) = bench.set("pg_num", refused);
        assert!(code == -22 && status.contains(option), "{code} {status}");
        assert_eq!(bench.set("pg_num", taken).0, 0);
        bench.report();
    }
    assert_eq!(bench.set("nopgchange", "1").0, 0);
    for var in ["pg_num", "pgp_num"] {
        let (code, status) = bench.set(var, "30");
        assert!(code == -1 && status.contains("nopgchange"), "{code} {status}");
    }
    assert_eq!(bench.numbers(), [30; 4]);
}

#[test]
fn a_pg_that_an_exception_places_keeps_its_pool_from_growing() {
    let mut bench = Bench::new(3);
    let upmap = (0..3).find_map(|osd| {
        let command = format!(r#"{{"prefix":"osd pg-upmap","pgid":"1.2","id":[{osd}]}}"#);
        let map = bench.cluster.mon.osdmap();
        let pg = types::PgId { pool: PoolId(1), seed: 2 };
        (map.pg_to_up_acting(pg).up != [types::OsdId(osd)]).then_some(command)
    });
    bench.cluster.ok(bench.client, &upmap.unwrap());
    bench.report();
    let (code, status) = bench.set("pg_num", "16");
    assert_eq!(code, -95);
    assert!(status.contains("pg 1.2 is not where CRUSH places it, so pg 1.a"), "{status}");
    bench.cluster.ok(bench.client, r#"{"prefix":"osd rm-pg-upmap","pgid":"1.2"}"#);
    bench.report();
    assert_eq!(bench.set("pg_num", "16").0, 0);
    assert_eq!(bench.numbers(), [16, 16, 8, 8]);
}
