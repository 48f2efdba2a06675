//! A full record, for several tests.

use results::*;

pub fn run_info() -> RunInfo {
    RunInfo {
        format: FORMAT,
        study: "sweep".into(),
        title: "A sweep".into(),
        study_hash: "0123abcd".into(),
        started: "2026-01-02T03:04:05Z".into(),
        seed: 1,
        machine: Machine { host: "h".into(), cores: 2, memory: 1 << 33, ..Machine::default() },
        notes: vec!["mon_max_pg_per_osd was raised".into()],
    }
}

pub fn record(id: &str, order: u32) -> Record {
    Record {
        format: FORMAT,
        id: id.into(),
        order,
        block: 0,
        confirms: false,
        profiled: false,
        started: "2026-01-02T03:04:05Z".into(),
        took_s: 1.5,
        parameters: Parameters {
            system: "ceph, \"16.2\"\nxfs".into(),
            settings: [("osd/debug_osd".into(), "0/0".into()), ("global/x".into(), "a b".into())].into(),
            ..Parameters::default()
        },
        build: Build::default(),
        outcome: Outcome { status: Status::Ok, error: String::new(), logs: String::new() },
        measurements: vec![measurement("write"), measurement("read")],
    }
}

pub fn measurement(phase: &str) -> Measurement {
    let process = |user_s| Process { user_s, system_s: 0.5, rss_max: 1000, switches: 7 };
    let device = |wait_ms, written| DeviceUse { wait_ms, written, busy: 0.25, ..DeviceUse::default() };
    Measurement {
        phase: phase.into(),
        step: Some(Step {
            name: "rand_read.03-r250".to_owned(),
            in_flight: 16,
            rate: Some(250),
            held: Some(true),
            found: Some(LadderPoint::HeldRate),
        }),
        seconds: 10.0,
        operations: 2000,
        ops_per_s: 200.0,
        latency: Latency {
            mean_us: 80.0,
            max_us: 250.0,
            histogram: Some(Histogram { buckets: vec![(100.0, 1900), (300.0, 100)] }),
        },
        steady: Some(true),
        cpu: CpuUse {
            by_process: [
                ("osd.0".into(), process(1.0)),
                ("mon.a".into(), process(2.0)),
                ("client.1".into(), process(8.0)),
            ]
            .into(),
            cycles: Some(5),
            ..CpuUse::default()
        },
        devices: [("sda".into(), device(2.0, 10)), ("sdb".into(), device(3.0, 20))].into(),
        joules: Some(1.0),
        counters: [("osd.0.osd.op".into(), 2000.0)].into(),
        ..Measurement::default()
    }
}
