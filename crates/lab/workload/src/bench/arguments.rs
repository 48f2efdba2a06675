//! `loligo bench`'s command line for an instance. Pure.

use study::{BenchLoad, Phase};

use crate::cluster::InstanceSpec;

/// Bytes of an object, as of fio's rados engine; less where all of an instance's bytes are less.
const OBJECT: u64 = 4 << 20;

/// Requests in flight while everything is written once, and bytes of one.
const FILL_DEPTH: u32 = 16;
const FILL_BLOCK: u64 = 1 << 20;

/// Longer than any fill takes: it ends when the last object is written.
const LONG: u32 = 1_000_000;

/// Size and number of an instance's objects. Of bytes that fill no whole object no use is made.
fn objects(load: &BenchLoad) -> (u64, u64) {
    let size = match load.size {
        small @ 0..OBJECT => small,
        _ => OBJECT.max(load.block_size),
    };
    // Blocks fill an object.
    let size = (size - size % load.block_size).max(load.block_size);
    (size, (load.size / size).max(1))
}

/// Everything written once.
pub(crate) fn fill(load: &BenchLoad, instance: InstanceSpec<'_>) -> Vec<String> {
    let (size, count) = objects(load);
    // The largest block that objects consist of, and that a request may have.
    let block = if size % FILL_BLOCK == 0 { FILL_BLOCK } else { load.block_size };
    let words = format!("{LONG} write -b {block} -O {size} --objects {count} -t {FILL_DEPTH} --no-cleanup");
    common(instance, &words)
}

/// A phase on what was written.
pub(crate) fn phase(load: &BenchLoad, phase: Phase, instance: InstanceSpec<'_>) -> Vec<String> {
    let (size, count) = objects(load);
    let block = load.block_size;
    let depth = load.in_flight / instance.of.max(1);
    let what = match phase {
        Phase::RandWrite => format!("randwrite -b {block} -O {size} --objects {count}"),
        Phase::Mixed => {
            let reads = load.reads_percent.unwrap_or(50);
            format!("mixed -b {block} -O {size} --objects {count} --reads {reads}")
        }
        Phase::RandRead => format!("rand -b {block}"),
        Phase::Read => format!("seq -b {block}"),
        // Objects of their own, block by block, without end.
        Phase::Write | Phase::Run => format!("write -b {block} -O {size} --no-cleanup"),
    };
    let mut words = common(instance, &format!("{} {what} --seed {}", load.seconds, instance.index));
    match load.rate {
        None => words.extend(["-t".into(), depth.to_string()]),
        // Clients that know nothing of each other: neither in step nor at even distances.
        Some(rate) => {
            let rate = f64::from(rate) / f64::from(instance.of.max(1));
            words.extend(["--rate".into(), rate.to_string(), "--arrivals".into(), "poisson".into()]);
        }
    }
    if phase == Phase::Write {
        words.extend(["--run-name".into(), "lab-new".into()]);
    }
    words
}

fn common(instance: InstanceSpec<'_>, what: &str) -> Vec<String> {
    // No word of it holds a blank.
    let mut words: Vec<String> =
        ["bench", "-c", instance.conf, "-p", instance.pool].map(str::to_owned).into();
    words.extend(what.split(' ').map(str::to_owned));
    words.extend(["-f".to_owned(), "json-lines".to_owned()]);
    if !what.contains(" write ") || what.contains("--objects") {
        words.extend(["--run-name".to_owned(), "lab".to_owned()]);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use study::Clients;

    fn load(block_size: u64, size: u64, rate: Option<u32>) -> BenchLoad {
        BenchLoad {
            clients: Clients { instances: 2, hosts: Vec::new(), pg_num: 32 },
            block_size,
            size,
            in_flight: 32,
            ladder: None,
            seconds: 7,
            phases: Vec::new(),
            reads_percent: Some(70),
            rate,
            drop_caches: true,
        }
    }

    fn words(of: impl Fn(InstanceSpec<'_>) -> Vec<String>) -> String {
        of(InstanceSpec { pool: "p1", index: 1, of: 2, conf: "/c" }).join(" ")
    }

    #[test]
    fn each_instance_has_its_pool_and_its_share() {
        let small = load(4096, 64 << 20, None);
        assert_eq!(
            words(|at| fill(&small, at)),
            "bench -c /c -p p1 1000000 write -b 1048576 -O 4194304 --objects 16 -t 16 --no-cleanup -f json-lines \
             --run-name lab"
        );
        let of = |what| words(|at| phase(&small, what, at));
        assert_eq!(
            of(Phase::RandRead),
            "bench -c /c -p p1 7 rand -b 4096 --seed 1 -f json-lines --run-name lab -t 16"
        );
        assert_eq!(
            of(Phase::RandWrite),
            "bench -c /c -p p1 7 randwrite -b 4096 -O 4194304 --objects 16 --seed 1 -f json-lines --run-name lab -t 16"
        );
        assert_eq!(
            of(Phase::Mixed),
            "bench -c /c -p p1 7 mixed -b 4096 -O 4194304 --objects 16 --reads 70 --seed 1 -f json-lines \
             --run-name lab -t 16"
        );
        assert_eq!(
            of(Phase::Write),
            "bench -c /c -p p1 7 write -b 4096 -O 4194304 --no-cleanup --seed 1 -f json-lines -t 16 --run-name lab-new"
        );
        let rated = load(4096, 64 << 20, Some(3001));
        let said = words(|at| phase(&rated, Phase::Read, at));
        assert!(said.ends_with("--run-name lab --rate 1500.5 --arrivals poisson"), "{said}");
    }

    #[test]
    fn objects_are_whole_blocks() {
        for (block, size, want) in [
            (4096, 64 << 20, (4 << 20, 16)),
            (4096, 10_000, (8192, 1)),
            (3000, 64 << 20, (4_194_000, 16)),
            (8 << 20, 64 << 20, (8 << 20, 8)),
        ] {
            assert_eq!(objects(&load(block, size, None)), want, "{block} of {size}");
        }
    }
}
