//! A made-up study: records as a run would leave them, judged by `labstats`.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part of it; made-up data that are wrong must fail"
)]

use std::collections::BTreeMap;

use labstats::judge::{self, Better};
use report::from_labstats::{self, CellName};
use report::input::{Input, Outline, Publication, Variant, Workload};
use results::*;
use study::{Correction, Design, OnFailure, Rule, Stop};
use types::SplitMix64;

/// How large.
#[derive(Clone, Copy)]
pub struct Size {
    pub systems: usize,
    pub variants: usize,
    pub workloads: usize,
    pub blocks: u32,
}

impl Size {
    pub const SHORT: Self = Self { systems: 4, variants: 24, workloads: 3, blocks: 3 };
    pub const FEW: Self = Self { systems: 9, variants: 3, workloads: 2, blocks: 5 };
    pub const LARGE: Self = Self { systems: 9, variants: 24, workloads: 6, blocks: 3 };
}

pub struct Study {
    pub outline: Outline,
    pub records: Vec<Record>,
    pub design: Design,
    pub cells: Vec<(CellName, judge::Judged)>,
}

const SYSTEMS: [&str; 9] = [
    "ceph-16.2-xfs",
    "ceph-16.2-ext4",
    "ceph-20.2-bluestore",
    "loligo",
    "ceph-16.2-btrfs",
    "ceph-18.2-bluestore",
    "loligo-mem",
    "modelled-disk-7200-raid0-of-6-write-back",
    "nfs-async",
];

const VARIANTS: [&str; 24] = [
    "big_bytes",
    "big_ops",
    "debugging_off",
    "filestore_op_threads_1",
    "filestore_op_threads_4",
    "filestore_op_threads_8",
    "filestore_xattr_use_omap_false",
    "flush_false",
    "flush_true",
    "journal_aio_true",
    "ms_nocrc_true",
    "osd_disk_threads_2",
    "osd_disk_threads_4",
    "osd_disk_threads_8",
    "osd_op_threads_1",
    "osd_op_threads_4",
    "osd_op_threads_8",
    "small_bytes",
    "small_ops",
    "bluestore_cache_size_1073741824",
    "big_bytes+filestore_op_threads_8+journal_aio_true+osd_op_threads_8+debugging_off",
    "rocksdb_<&\"'>",
    "osd_memory_target_2147483648",
    "osd_op_num_shards_2",
];

const WORKLOADS: [(&str, u64, u32); 6] = [
    ("bench-4K-16", 4 << 10, 16),
    ("bench-4K-256", 4 << 10, 256),
    ("bench-4M-16", 4 << 20, 16),
    ("bench-128K-16", 128 << 10, 16),
    ("bench-128K-256", 128 << 10, 256),
    ("bench-4M-256", 4 << 20, 256),
];

/// Numbers that look random, from a seed.
pub struct Numbers(SplitMix64);

impl Numbers {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    /// 0 to 1.
    pub fn share(&mut self) -> f64 {
        self.0.f64()
    }

    /// Around 0 with deviation 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.share()).sum::<f64>() - 6.0
    }
}

impl Study {
    pub fn new(size: Size, seed: u64) -> Self {
        let outline = outline(size);
        let records = records(size, &outline, seed);
        let design = Design {
            blocks: size.blocks,
            defaults_per_block: 2,
            seed,
            rule: Rule::Adjusted(Correction::Holm),
            confidence: 0.95,
            effect: 0.05,
            assumed_spread: 0.1,
            confirm: true,
            stop: Stop::default(),
            on_failure: OnFailure::GoOn,
            profile: study::Profiled::No,
        };
        let cells = judge_all(&outline, &records);
        Self { outline, records, design, cells }
    }

    /// After records were changed.
    pub fn judge_again(&mut self) {
        self.cells = judge_all(&self.outline, &self.records);
    }

    pub fn input<'a>(&self, series: &'a dyn Fn(&str) -> Option<Series>) -> Input<'a> {
        Input {
            run: run_info(),
            outline: self.outline.clone(),
            records: self.records.clone(),
            judged: from_labstats::judged(&self.outline, &self.records, &self.design, &self.cells),
            criteria: criteria(),
            series,
            profiled: Vec::new(),
            profile: &|_, _| None,
        }
    }
}

pub fn criteria() -> judge::Criteria {
    judge::Criteria { correction: judge::Correction::Holm, confidence: 0.95, effect: 0.05, seed: 1 }
}

pub fn run_info() -> RunInfo {
    RunInfo {
        format: FORMAT,
        study: "sweep-2013-short".into(),
        title: "A parametric sweep of ceph.conf, in short form (made-up numbers)".into(),
        study_hash: "5f3a9c01".into(),
        started: "2026-01-02T03:04:05Z".into(),
        seed: 1,
        machine: Machine {
            host: "testhost".into(),
            kernel: "6.1.0-18-amd64".into(),
            system: "Debian GNU/Linux 12 (bookworm)".into(),
            cpu: "Some Processor at 2.5 GHz".into(),
            cores: 2,
            memory: 8 << 30,
            disk: "vda (a virtual disk)".into(),
            file_system: "ext4".into(),
        },
        notes: vec![
            "mon_max_pg_per_osd is raised to 4096 on every system: the study's pools need it".into(),
            "ceph-20.2-bluestore: filestore_op_threads has no effect there".into(),
        ],
    }
}

fn outline(size: Size) -> Outline {
    let variant = |name: &&str| Variant { name: (*name).into(), parameter: parameter(name) };
    let mut variants = vec![Variant { name: "default".into(), parameter: "default".into() }];
    variants.extend(VARIANTS.iter().take(size.variants).map(variant));
    let mut outline = Outline {
        about: "Each option of a list is changed alone, some in groups.\n\nNothing of this was measured: it shows what a \
                report looks like."
            .into(),
        source: Some(Publication {
            title: "Ceph Bobtail JBOD Performance Tuning".into(),
            author: "Mark Nelson".into(),
            date: "2013-01-22".into(),
        }),
        changes: vec!["Three OSDs on loop devices instead of eight disks.".into(), "20 seconds a phase, not 300.".into()],
        systems: SYSTEMS.iter().take(size.systems).map(|s| (*s).into()).collect(),
        workloads: WORKLOADS
            .iter()
            .take(size.workloads)
            .map(|w| Workload { name: w.0.into(), phases: vec!["write".into(), "read".into()] })
            .collect(),
        variants,
        ..Outline::default()
    };
    for v in &outline.variants {
        let filestore = ["filestore", "flush", "journal", "big_bytes+"].iter().any(|f| v.name.starts_with(f));
        for s in ["ceph-20.2-bluestore", "loligo"].iter().filter(|_| filestore) {
            outline.nothing_to_tune.insert(((*s).into(), v.name.clone()));
        }
    }
    outline.not_yet.insert(("loligo".into(), "bench-4M-16".into()), "objects above 1 MiB".into());
    outline
}

fn parameter(name: &str) -> String {
    name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').into()
}

fn records(size: Size, outline: &Outline, seed: u64) -> Vec<Record> {
    let mut numbers = Numbers::new(seed);
    let mut all = Vec::new();
    for block in 0..size.blocks {
        for (s, system) in outline.systems.iter().enumerate() {
            for (w, workload) in WORKLOADS.iter().take(size.workloads).enumerate() {
                if outline.not_yet.contains_key(&(system.clone(), workload.0.into())) {
                    continue;
                }
                for (v, variant) in outline.variants.iter().enumerate() {
                    if outline.nothing_to_tune.contains(&(system.clone(), variant.name.clone())) {
                        continue;
                    }
                    for repeat in 0..if v == 0 { 2 } else { 1 } {
                        let order = all.len() as u32;
                        let id = format!("b{block}.{system}.{}.v{v}.{repeat}", workload.0);
                        all.push(record(
                            &mut numbers,
                            (id, order, block),
                            (s, system),
                            (w, workload),
                            (v, variant),
                        ));
                    }
                }
            }
        }
    }
    all
}

fn record(
    numbers: &mut Numbers,
    (id, order, block): (String, u32, u32),
    (s, system): (usize, &str),
    (w, workload): (usize, &(&str, u64, u32)),
    (v, variant): (usize, &Variant),
) -> Record {
    let fails = system == "ceph-16.2-ext4" && variant.name == "small_ops";
    let modelled = system.starts_with("modelled");
    let effect = match variant.name.as_str() {
        "flush_true" => 0.62,
        "osd_op_threads_8" => 1.31,
        "debugging_off" => 1.12,
        "small_bytes" => 0.88,
        _ => 1.0,
    };
    let base = [900.0, 700.0, 2400.0, 5200.0, 500.0, 2100.0, 21_000.0, 260.0, 3000.0][s % 9]
        * [1.0, 1.9, 0.02, 0.5, 0.8, 0.025][w % 6];
    let measurement = |phase: &str, numbers: &mut Numbers| {
        let faster = if phase == "read" { 2.2 } else { 1.0 };
        let ops = base * faster * effect * (0.025 * numbers.normal()).exp();
        let operations = (ops * 20.0) as u64;
        let mean = 1e6 * f64::from(workload.2) / ops;
        let unsteady = v == 5 && block == 1 && phase == "write";
        let process = |us: f64| Process {
            user_s: us * ops * 2e-5,
            system_s: us * ops * 5e-6,
            rss_max: 300 << 20,
            switches: operations,
        };
        Measurement {
            phase: phase.into(),
            seconds: 20.0,
            operations,
            bytes: operations * workload.1,
            ops_per_s: ops,
            bytes_per_s: ops * workload.1 as f64,
            latency: Latency {
                mean_us: mean,
                max_us: mean * 9.0,
                histogram: (s != 0).then(|| histogram(mean, operations)),
            },
            steady: Some(!unsteady),
            unsteady: if unsteady {
                "the second half was 31% slower than the first".into()
            } else {
                String::new()
            },
            cpu: CpuUse {
                by_process: BTreeMap::from([
                    ("osd.0".into(), process(90.0)),
                    ("client".into(), process(30.0)),
                ]),
                machine_s: ops * 20.0 * 2e-4,
                server_us_per_op: 95.0 + 30.0 * s as f64 + numbers.normal(),
                ops_per_core_s: 1e6 / (95.0 + 30.0 * s as f64),
                cycles: None,
            },
            device_bytes_per_byte: if phase == "write" { 2.1 } else { 0.0 },
            ..Measurement::default()
        }
    };
    let measurements =
        if fails { Vec::new() } else { vec![measurement("write", numbers), measurement("read", numbers)] };
    Record {
        format: FORMAT,
        order,
        block,
        confirms: false,
        profiled: false,
        started: "2026-01-02T03:04:05Z".into(),
        took_s: 71.0,
        parameters: Parameters {
            system: system.into(),
            program: if system.starts_with("loligo") { "loligo" } else { "ceph" }.into(),
            release: if system.contains("16.2") { "16.2" } else { "" }.into(),
            store: "a store".into(),
            place: if modelled {
                "modelled disk-7200, 4 GiB, xfs (-f -i size=2048; inode64,noatime)"
            } else {
                "loop xfs 4 GiB"
            }
            .into(),
            modelled,
            osds: 3,
            pool_size: 1,
            variant: variant.name.clone(),
            parameter: variant.parameter.clone(),
            workload: workload.0.into(),
            load: "rados bench".into(),
            block_size: workload.1,
            in_flight: workload.2,
            instances: 8,
            pg_num: 128,
            ..Parameters::default()
        },
        build: Build {
            lab: "0.1.0".into(),
            server: "version 16.2.15 (or so)".into(),
            client: "rados 16.2.15".into(),
        },
        outcome: Outcome {
            status: if fails { Status::Failed } else { Status::Ok },
            error: if fails {
                "osd.0 did not come up within 60 s: see its log".into()
            } else {
                String::new()
            },
            logs: if fails { format!("logs/{id}") } else { String::new() },
        },
        measurements,
        id,
    }
}

/// A long tail around a mean.
fn histogram(mean: f64, operations: u64) -> Histogram {
    let mut left = operations;
    let mut bound = mean * 0.5;
    let mut buckets = Vec::new();
    while left > 0 {
        let count = (left / 3).max(1);
        buckets.push((bound, count));
        left -= count;
        bound *= 1.22;
    }
    Histogram { buckets }
}

fn judge_all(outline: &Outline, records: &[Record]) -> Vec<(CellName, judge::Judged)> {
    let mut by_cell: BTreeMap<CellName, Vec<labstats::effect::Trial>> = BTreeMap::new();
    for r in records {
        let variant = outline.variants.iter().position(|v| v.name == r.parameters.variant).unwrap();
        for m in &r.measurements {
            let name = (r.parameters.system.clone(), r.parameters.workload.clone(), m.phase.clone());
            let trial = labstats::effect::Trial { block: r.block, variant, value: m.ops_per_s };
            by_cell.entry(name).or_default().push(trial);
        }
    }
    let cells: Vec<_> =
        by_cell.values().map(|t| judge::Cell { better: Better::Higher, trials: t.clone() }).collect();
    by_cell.into_keys().zip(judge::judge(&cells, &criteria())).collect()
}

/// Forty-eight seconds of made-up samples.
pub fn series(id: &str) -> Option<Series> {
    let mut numbers = Numbers::new(id.bytes().map(u64::from).sum());
    let mut samples = Vec::new();
    for t in 1..=48 {
        let phase = match t {
            5..=24 => "write",
            28..=47 => "read",
            _ => "",
        };
        let ops = if phase == "read" { 2000.0 } else { 900.0 } * (0.1 * numbers.normal()).exp();
        let mut values = BTreeMap::new();
        if !phase.is_empty() {
            values.insert("ops_per_s".to_string(), ops);
            values.insert("bytes_per_s".to_string(), ops * 4096.0);
            values.insert("latency_us".to_string(), 16e6 / ops);
        }
        let cpus = [
            ("osd.0", 0.5),
            ("osd.1", 0.45),
            ("osd.2", 0.48),
            ("mon.a", 0.05),
            ("client", 0.3),
            ("machine", 1.8),
        ];
        for (name, cores) in cpus {
            values.insert(format!("cpu.{name}"), cores * (0.2 * numbers.normal()).exp());
        }
        for device in ["loop0", "loop1", "vda"] {
            values.insert(format!("disk.{device}.wait_ms"), 3.0 * (0.4 * numbers.normal()).exp());
            values.insert(format!("disk.{device}.busy"), (0.6 + 0.1 * numbers.normal()).clamp(0.0, 1.0));
        }
        samples.push(Sample { t: f64::from(t), phase: phase.into(), values });
    }
    Some(Series { samples })
}
