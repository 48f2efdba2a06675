//! Loads on a real cluster: `LAB_CONF=ceph.conf cargo test -p workload --test live -- --ignored --test-threads 1`.
//! The cluster is any that `ceph` reaches with that file; `LAB_PREFIX` is put before its client programs (blanks part
//! its words). Pools named `lab-*` are made and removed.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that gets nothing fails here

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use results::Sample;
use study::{Clients, Engine, FioLoad, Phase, RadosBench, WorkloadKind};
use workload::{Cluster, Observer, Ran, client_version, run};

struct Live {
    cluster: Cluster,
    _dir: tempfile::TempDir,
}

fn ceph(conf: &str, words: &[&str]) {
    let done =
        Command::new("timeout").arg("60").arg("ceph").args(words).env("CEPH_CONF", conf).output().unwrap();
    assert!(done.status.success(), "ceph {words:?}: {}", String::from_utf8_lossy(&done.stderr));
}

impl Live {
    fn new(name: &str, pools: usize) -> Self {
        let conf = std::env::var("LAB_CONF").expect("LAB_CONF names the cluster's ceph.conf");
        let pools: Vec<String> = (0..pools).map(|n| format!("lab-{name}-{n}")).collect();
        for pool in &pools {
            ceph(&conf, &["osd", "pool", "create", pool, "8"]);
        }
        let dir = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::new(conf, dir.path(), pools);
        let prefix = std::env::var("LAB_PREFIX").unwrap_or_default();
        cluster.prefix = prefix.split_whitespace().map(Into::into).collect();
        Self { cluster, _dir: dir }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        for pool in &self.cluster.pools {
            let conf = self.cluster.conf.to_string_lossy();
            ceph(&conf, &["osd", "pool", "rm", pool, pool, "--yes-i-really-really-mean-it"]);
        }
    }
}

#[derive(Default)]
struct Seen {
    phases: Vec<String>,
    samples: Vec<Sample>,
    pids: usize,
}

impl Observer for Seen {
    fn before(&mut self, phase: &str, drop_caches: bool) -> Result<(), String> {
        self.phases.push(format!("{phase} {drop_caches}"));
        Ok(())
    }
    fn clients(&mut self, _: &str, pids: &[u32]) {
        assert!(pids.iter().all(|pid| PathBuf::from(format!("/proc/{pid}")).exists()));
        self.pids += pids.len();
    }
    fn sample(&mut self, sample: &Sample) {
        self.samples.push(sample.clone());
    }
}

fn clients(instances: u32) -> Clients {
    Clients { instances, hosts: Vec::new(), pg_num: 8 }
}

fn bench(instances: u32, phases: &[Phase]) -> WorkloadKind {
    WorkloadKind::RadosBench(RadosBench {
        clients: clients(instances),
        object_size: 16384,
        in_flight: 8,
        ladder: None,
        seconds: 4,
        phases: phases.to_vec(),
        drop_caches: true,
    })
}

fn fio(engine: Engine, rate: Option<u32>) -> WorkloadKind {
    WorkloadKind::Fio(FioLoad {
        clients: clients(2),
        engine,
        block_size: 4096,
        size: 16 << 20,
        in_flight: 8,
        ladder: None,
        seconds: 4,
        phases: vec![Phase::RandWrite, Phase::RandRead, Phase::Write, Phase::Read],
        rate,
        prefill: true,
        drop_caches: false,
    })
}

fn measure(live: &Live, kind: &WorkloadKind) -> (Ran, Seen) {
    let mut seen = Seen::default();
    let ran = run(kind, &live.cluster, Instant::now(), &mut seen);
    for phase in &ran.phases {
        let m = phase.measurement();
        println!(
            "{}: {:.2} s, {} operations, {:.0}/s, mean {:.0} us, max {:.0} us, {} samples, clients {:?}",
            m.phase,
            m.seconds,
            m.operations,
            m.ops_per_s,
            m.latency.mean_us,
            m.latency.max_us,
            phase.samples.len(),
            phase.clients
        );
    }
    (ran, seen)
}

#[test]
#[ignore = "needs Ceph's programs"]
fn two_instances_of_rados_bench_make_one_time_line() {
    let live = Live::new("bench", 2);
    let kind = bench(2, &[Phase::Write, Phase::Read, Phase::RandRead]);
    assert!(client_version(&kind, &live.cluster).unwrap().contains("ceph version"));
    let (ran, seen) = measure(&live, &kind);
    assert!(ran.failure.is_none(), "{:?}", ran.failure);
    assert_eq!(seen.phases, ["write false", "read true", "rand_read true"]);
    assert_eq!((ran.phases.len(), seen.pids), (3, 6));
    for phase in [&ran.phases[0], &ran.phases[2]] {
        assert!((2..=4).contains(&phase.samples.len()), "{:?}", phase.samples);
        assert!((phase.seconds - 4.0).abs() < 1.5, "{}", phase.seconds);
        let mean =
            phase.samples.iter().map(|s| s.values["ops_per_s"]).sum::<f64>() / phase.samples.len() as f64;
        assert!((mean / phase.ops_per_s() - 1.0).abs() < 0.4, "{mean} against {}", phase.ops_per_s());
        assert!(phase.instances.iter().all(|i| i.operations > 0));
        assert_eq!(phase.bytes, phase.operations * 16384);
        assert!(phase.clients.user_s > 0.0);
    }
    let times: Vec<f64> = seen.samples.iter().map(|s| s.t).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
#[ignore = "needs Ceph's programs"]
fn an_instance_that_fails_fails_the_phase_with_its_words() {
    let mut live = Live::new("missing", 1);
    live.cluster.pools.push("lab-never-made".into());
    let (ran, _) = measure(&live, &bench(2, &[Phase::Write]));
    live.cluster.pools.pop();
    let text = ran.failure.unwrap().to_string();
    assert!(text.contains("lab-never-made") && text.contains("No such file or directory"), "{text}");
}

fn fio_is_measured(live: &Live, engine: Engine) {
    let (ran, _) = measure(live, &fio(engine, None));
    assert!(ran.failure.is_none(), "{:?}", ran.failure);
    assert_eq!(ran.phases.len(), 4);
    for phase in &ran.phases {
        let histogram = phase.latency.histogram.as_ref().unwrap();
        assert_eq!(histogram.buckets.iter().map(|b| b.1).sum::<u64>(), phase.operations);
        assert!((3..=4).contains(&phase.samples.len()), "{:?}", phase.samples);
    }
    let live = Live::new("rate", 2);
    let (ran, _) = measure(&live, &fio(engine, Some(200)));
    assert!(ran.failure.is_none(), "{:?}", ran.failure);
    assert!(ran.phases.iter().all(|p| (p.ops_per_s() / 200.0 - 1.0).abs() < 0.05));
}

#[test]
#[ignore = "needs Ceph's programs"]
fn fio_measures_objects_in_a_closed_loop_and_at_a_rate() {
    fio_is_measured(&Live::new("fio", 2), Engine::Rados);
}

#[test]
#[ignore = "needs Ceph's programs"]
fn fio_measures_images() {
    fio_is_measured(&Live::new("rbd", 2), Engine::Rbd);
}
