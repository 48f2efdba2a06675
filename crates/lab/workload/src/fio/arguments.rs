//! fio's command line for an instance. Pure.

use study::{Engine, FioLoad, Phase};

use crate::cluster::InstanceSpec;

/// Bytes of an object of the rados engine, as librbd's.
const OBJECT: u64 = 4 << 20;

/// Bytes of a request while filling.
const FILL: u64 = 1 << 20;

/// Requests in flight while filling, for each instance.
const FILL_DEPTH: u32 = 16;

/// The image of an instance, in its pool.
pub(crate) const IMAGE: &str = "lab";

pub(crate) fn phase(load: &FioLoad, phase: Phase, instance: InstanceSpec<'_>) -> Vec<String> {
    let (rw, random) = match phase {
        Phase::RandWrite => ("randwrite", true),
        Phase::RandRead => ("randread", true),
        Phase::Read => ("read", false),
        _ => ("write", false),
    };
    let mut words = common(load, instance, rw, random);
    words.extend([
        format!("--bs={}", load.block_size),
        format!("--iodepth={}", load.in_flight / instance.of.max(1)),
        "--time_based=1".to_owned(),
        format!("--runtime={}", load.seconds),
        // Whether an offset was used already is not remembered: every second of a phase is alike.
        "--norandommap=1".to_owned(),
        format!("--randseed={}", instance.index + 1),
        // A document a second, with bins of the time from a request's making to its end.
        "--status-interval=1".to_owned(),
        "--lat_percentiles=1".to_owned(),
        "--clat_percentiles=0".to_owned(),
    ]);
    if let Some(rate) = load.rate {
        words.extend([
            format!("--rate_iops={}", share(rate, instance)),
            // Clients that know nothing of each other: neither in step nor at even distances.
            "--rate_process=poisson".to_owned(),
        ]);
    }
    words
}

/// Everything written once.
pub(crate) fn fill(load: &FioLoad, instance: InstanceSpec<'_>) -> Vec<String> {
    let mut words = common(load, instance, "write", false);
    // A last piece that is smaller than a request must be written too.
    let block = if load.size % FILL == 0 { FILL } else { load.block_size };
    words.extend([format!("--bs={block}"), format!("--iodepth={FILL_DEPTH}")]);
    words
}

fn common(load: &FioLoad, instance: InstanceSpec<'_>, rw: &str, random: bool) -> Vec<String> {
    let engine = match load.engine {
        Engine::Rados => "rados",
        Engine::Rbd => "rbd",
    };
    let mut words = vec![
        "--name=lab".to_owned(),
        // fio knows an engine's own options only after its name.
        format!("--ioengine={engine}"),
        "--output-format=json+".to_owned(),
        "--eta=never".to_owned(),
        // One process for each instance, whose CPU is the client's.
        "--thread=1".to_owned(),
        "--clientname=admin".to_owned(),
        format!("--pool={}", instance.pool),
        format!("--rw={rw}"),
    ];
    match load.engine {
        Engine::Rbd => {
            words.extend([format!("--rbdname={IMAGE}"), format!("--size={}", load.size)]);
        }
        Engine::Rados => {
            let object = OBJECT.max(load.block_size);
            let objects = (load.size / object).max(1);
            let size = if load.size >= object { objects * object } else { load.size };
            words.extend([
                format!("--conf={}", instance.conf),
                // Colons would part names.
                "--filename_format=lab.$filenum".to_owned(),
                format!("--nrfiles={objects}"),
                format!("--size={size}"),
                format!("--file_service_type={}", if random { "random" } else { "sequential" }),
                // What is to be measured makes the objects, or filling has.
                "--touch_objects=0".to_owned(),
            ]);
        }
    }
    words
}

/// An instance's share of a rate: together they come to it, none gets 0.
fn share(rate: u32, instance: InstanceSpec<'_>) -> u32 {
    let of = instance.of.max(1);
    (rate / of + u32::from(instance.index < rate % of)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Clients;

    pub(crate) fn load(engine: Engine) -> FioLoad {
        FioLoad {
            clients: Clients { instances: 2, hosts: Vec::new(), pg_num: 32 },
            engine,
            block_size: 4096,
            size: 64 << 20,
            in_flight: 32,
            ladder: None,
            seconds: 10,
            phases: vec![Phase::RandWrite],
            rate: None,
            prefill: true,
            drop_caches: true,
        }
    }

    const INSTANCE: InstanceSpec<'_> = InstanceSpec { pool: "p1", index: 1, of: 2, conf: "/c" };

    fn has(words: &[String], wanted: &[&str]) {
        for word in wanted {
            assert!(words.iter().any(|w| w == word), "{word} is not among {words:?}");
        }
    }

    #[test]
    fn an_rbd_instance_has_its_image_and_its_share_of_the_depth() {
        let words = phase(&load(Engine::Rbd), Phase::RandRead, INSTANCE);
        has(&words, &["--ioengine=rbd", "--rbdname=lab", "--pool=p1", "--rw=randread", "--bs=4096"]);
        has(&words, &["--iodepth=16", "--size=67108864", "--runtime=10", "--time_based=1"]);
        assert!(!words.iter().any(|w| w.starts_with("--rate")));
    }

    #[test]
    fn the_engine_comes_before_its_options() {
        let words = fill(&load(Engine::Rados), INSTANCE);
        let at = |start: &str| words.iter().position(|w| w.starts_with(start)).unwrap();
        assert!(at("--ioengine") < at("--clientname") && at("--ioengine") < at("--pool"));
    }

    #[test]
    fn rados_objects_are_of_4_mib_or_of_a_block() {
        let words = phase(&load(Engine::Rados), Phase::Write, INSTANCE);
        has(&words, &["--nrfiles=16", "--size=67108864", "--conf=/c", "--file_service_type=sequential"]);
        let big = FioLoad { block_size: 16 << 20, size: 40 << 20, ..load(Engine::Rados) };
        has(
            &phase(&big, Phase::RandRead, INSTANCE),
            &["--nrfiles=2", "--size=33554432", "--file_service_type=random"],
        );
        let small = FioLoad { size: 1 << 20, ..load(Engine::Rados) };
        has(&phase(&small, Phase::RandRead, INSTANCE), &["--nrfiles=1", "--size=1048576"]);
    }

    #[test]
    fn instances_together_come_to_the_rate() {
        let instances = (0..3).map(|index| InstanceSpec { index, of: 3, ..INSTANCE });
        assert_eq!(instances.map(|s| share(1000, s)).collect::<Vec<_>>(), [334, 333, 333]);
        let open = FioLoad { rate: Some(501), ..load(Engine::Rbd) };
        has(&phase(&open, Phase::RandWrite, INSTANCE), &["--rate_iops=250", "--rate_process=poisson"]);
    }

    #[test]
    fn filling_writes_all_of_it_without_a_clock() {
        let words = fill(&load(Engine::Rbd), INSTANCE);
        has(&words, &["--rw=write", "--bs=1048576", "--size=67108864"]);
        assert!(!words.iter().any(|w| w.contains("time_based") || w.contains("runtime")));
        let odd = FioLoad { size: (1 << 20) + 4096, ..load(Engine::Rbd) };
        has(&fill(&odd, INSTANCE), &["--bs=4096"]);
    }
}
