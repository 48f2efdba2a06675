//! Models against what one computes by hand from their data sheets.

use devmodel::{Figures, Model, Nanos, Op, Order, Pattern, Request, measure};

const GIB: u64 = 1 << 30;
const SECOND: Nanos = 1_000_000_000;
const ROTATION: f64 = 60e9 / 7200.0;

const RANDOM_READ: Pattern = Pattern {
    op: Op::Read,
    order: Order::Random,
    block_bytes: 4096,
    depth: 1,
    flush_every: 0,
    span_bytes: 0,
    think: 0,
    warm_up: 0,
    time: 200 * SECOND,
    seed: 7,
};
const RANDOM_WRITE: Pattern = Pattern { op: Op::Write, ..RANDOM_READ };
const SEQUENTIAL_READ: Pattern =
    Pattern { order: Order::Sequential, block_bytes: 1 << 20, time: 10 * SECOND, ..RANDOM_READ };
const SEQUENTIAL_WRITE: Pattern = Pattern { op: Op::Write, ..SEQUENTIAL_READ };

fn model(name: &str, parameters: &[(&str, &str)]) -> Model {
    let parameters: Vec<_> = parameters.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Model::named(name, &parameters, 80 * GIB).expect("a model")
}

fn figures(name: &str, pattern: &Pattern) -> Figures {
    measure(&mut model(name, &[]), pattern)
}

#[track_caller]
fn near(got: f64, want: f64, tolerance: f64) {
    assert!((got / want - 1.0).abs() < tolerance, "{got}, not {want}");
}

#[test]
fn a_random_read_costs_the_arm_half_a_rotation_and_its_bytes() {
    let got = figures("disk-7200", &RANDOM_READ).mean as f64;
    near(got, 50e3 + 8.5e6 + ROTATION / 2.0 + 4096.0 / 0.11, 0.02);
    let got = figures("disk-7200", &RANDOM_WRITE).mean as f64;
    near(got, 50e3 + 9.5e6 + ROTATION / 2.0 + 4096.0 / 0.11, 0.02);
}

#[test]
fn a_sequential_reader_gets_the_media_rate_also_when_it_is_slow_to_ask() {
    near(figures("disk-7200", &SEQUENTIAL_READ).bytes_per_second, 139e6, 0.01);
    let slow = Pattern { think: 1_000_000, ..SEQUENTIAL_READ };
    near(figures("disk-7200", &slow).bytes_per_second, 139e6, 0.01);
    // Slower than the platter: the drive has read ahead, so that only its own time and the bus count.
    let slower = Pattern { think: 20_000_000, ..SEQUENTIAL_READ };
    near(figures("disk-7200", &slower).mean as f64, 50e3 + 1_048_576.0 / 0.3, 0.03);
}

#[test]
fn a_sequential_reader_gets_the_media_rate_also_with_several_requests_in_flight() {
    for depth in [2, 4, 32] {
        let pattern = Pattern { depth, block_bytes: 512 << 10, ..SEQUENTIAL_READ };
        near(figures("disk-7200", &pattern).bytes_per_second, 139e6, 0.01);
    }
}

#[test]
fn a_sequential_writer_loses_a_rotation_a_write_unless_the_next_is_queued_or_cached() {
    let transfer = 1_048_576.0 / 0.139;
    let alone = figures("disk-7200", &SEQUENTIAL_WRITE);
    near(alone.bytes_per_second, 1_048_576.0 * 1e9 / (transfer + ROTATION), 0.01);
    let fed = Pattern { depth: 4, ..SEQUENTIAL_WRITE };
    near(figures("disk-7200", &fed).bytes_per_second, 139e6, 0.01);
    near(
        figures("disk-7200-write-back", &Pattern { warm_up: SECOND, ..SEQUENTIAL_WRITE }).bytes_per_second,
        139e6,
        0.01,
    );
}

#[test]
fn a_deep_queue_is_faster() {
    let alone = figures("disk-7200", &RANDOM_READ).iops;
    let pattern = Pattern { time: 20 * SECOND, ..RANDOM_READ };
    let deep = figures("disk-7200", &Pattern { depth: 32, ..pattern }).iops;
    assert!((2.0..3.5).contains(&(deep / alone)), "{alone} {deep}");
    // More than the drive chooses from changes nothing but the wait.
    let deeper = figures("disk-7200", &Pattern { depth: 128, ..pattern }).iops;
    near(deeper, deep, 0.1);
}

#[test]
fn no_command_waits_for_ever_behind_better_ones() {
    let mut disk = model("disk-7200", &[]);
    disk.arrive(0, 0, Request::read(70 * GIB, 4096));
    for n in 1..2000 {
        disk.arrive(0, n, Request::read(n * 65_536, 65_536));
    }
    let all = disk.complete(60 * SECOND);
    let far = all.iter().find(|d| d.id == 0).unwrap().at;
    assert!(far < 2 * SECOND, "{far}");
}

#[test]
fn a_cached_write_takes_the_bus_and_a_flush_the_rest() {
    let flushed = Pattern { flush_every: 1, ..RANDOM_WRITE };
    let got = figures("disk-7200-write-back", &flushed);
    near(got.mean as f64, 50e3 + 4096.0 / 0.3, 0.01);
    // The arm and half a rotation, the media's command on the way there and the flush's own on the way back.
    near(got.flush_mean as f64, 9.5e6 + ROTATION / 2.0 + 4096.0 / 0.11 + 100e3, 0.02);
    let kept = measure(&mut model("disk-7200-write-back", &[("battery", "yes")]), &flushed);
    assert_eq!(kept.flush_mean, 50_000);
}

#[test]
fn a_full_cache_takes_writes_as_fast_as_they_leave_it() {
    let pattern = Pattern { warm_up: 10 * SECOND, time: 30 * SECOND, ..RANDOM_WRITE };
    let (cached, direct) =
        (figures("disk-7200-write-back", &pattern).iops, figures("disk-7200", &pattern).iops);
    assert!(cached > 2.0 * direct && cached < 10.0 * direct, "{cached} {direct}");
    let deep = figures("disk-7200-write-back", &Pattern { depth: 32, ..pattern }).iops;
    near(deep, cached, 0.02);
}

#[test]
fn a_raid0_scales_with_its_disks_where_they_can_work_at_once() {
    let deep = Pattern { depth: 64, time: 20 * SECOND, ..RANDOM_READ };
    let one = figures("disk-7200", &Pattern { depth: 16, ..deep }).iops;
    near(figures("raid0-of-4", &deep).iops / one, 4.0, 0.1);
    near(figures("raid0-of-4", &SEQUENTIAL_READ).bytes_per_second, 4.0 * 139e6, 0.05);
    // One small request at a time is one disk's.
    near(figures("raid0-of-4", &RANDOM_READ).iops, figures("disk-7200", &RANDOM_READ).iops, 0.03);
}

#[test]
fn an_ssd_has_its_data_sheets_figures() {
    let (read, write) = (Pattern { time: SECOND, ..RANDOM_READ }, Pattern { time: SECOND, ..RANDOM_WRITE });
    near(figures("ssd", &read).mean as f64, 75e3, 1e-3);
    near(figures("ssd", &write).mean as f64, 90e3, 1e-3);
    near(figures("ssd", &Pattern { depth: 32, ..read }).iops, 39_500.0, 1e-3);
    near(figures("ssd", &Pattern { depth: 32, ..write }).iops, 23_000.0, 1e-3);
    let deep = |p| Pattern { depth: 4, ..p };
    near(figures("ssd", &deep(SEQUENTIAL_READ)).bytes_per_second, 270e6, 0.01);
    near(figures("ssd", &deep(SEQUENTIAL_WRITE)).bytes_per_second, 220e6, 0.01);
    near(figures("ssd", &Pattern { flush_every: 1, ..write }).flush_mean as f64, 100e3, 1e-3);
}
