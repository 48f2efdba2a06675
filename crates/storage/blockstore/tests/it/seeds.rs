//! Power losses under more seeds than the suite has, each with other options: small logs and caches, one device or two,
//! with compression and without.
//! `LOLIGO_CRASH_SEEDS=FIRST..END cargo test -p blockstore --test it seeds -- --nocapture` runs others (`make crash`).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use blockstore::Options;
use store::conformance::{Shape, crash_history};
use store::{ByMedium, CompressionAlgorithm};

use crate::common::{Sim, forced};

/// Seeds that are run when none are asked for.
const SEEDS: std::ops::Range<u64> = 2000..2003;

/// Seeds that failed once: requests whose pages drove one another out of a small cache waited for ever, when a retry took
/// an onode from memory and left its page unused. In the last the check counted compressed blocks twice that one object had
/// twice near each other.
const KEPT: [u64; 4] = [21_816, 24_588, 25_656, 165_367];

/// Power losses of a seed. After every fourth comes another with nothing done since; each may be followed by a second one
/// while the store is opened.
const CRASHES: u64 = 5;

fn asked() -> Option<std::ops::Range<u64>> {
    let asked = std::env::var("LOLIGO_CRASH_SEEDS").ok()?;
    let (first, end) = asked.split_once("..").expect("FIRST..END");
    Some(first.parse().expect("the first seed")..end.parse().expect("the seed to end before"))
}

fn play(seed: u64) {
    let one_of = |choices: &[u64], by: u64| choices[(seed / by) as usize % choices.len()];
    let options = Options {
        prefer_deferred_bytes: one_of(&[32 << 10, 0, 4096], 1),
        new_deferred_bytes: ByMedium { hdd: 0, ssd: one_of(&[32 << 10, 0], 4) },
        cache_bytes: one_of(&[64 << 10, 1 << 20], 3),
        changes_bytes_max: one_of(&[64 << 10, 512 << 10], 2),
        pages_per_turn: one_of(&[1, 4, 32], 1) as usize,
        discard: seed % 2 == 0,
    };
    let mut factory = Sim::new(options, one_of(&[256 << 10, 1 << 20, 512 << 10, 4 << 20], 1));
    factory.block_bytes = one_of(&[512, 4096], 2) as u32;
    factory.durable_flushes = seed / 8 % 2 == 0;
    factory.log_apart = seed % 5 == 0;
    let algorithm =
        [None, Some(CompressionAlgorithm::Lz4), Some(CompressionAlgorithm::Zstd)][seed as usize % 3];
    factory.compression =
        algorithm.map(|algorithm| forced(algorithm, one_of(&[64 << 10, 16 << 10, 8 << 10], 3)));
    factory.clean = false;
    // Those are to fail as they did.
    (factory.seals, factory.copies) = (!KEPT.contains(&seed), !KEPT.contains(&seed));
    factory.seed = seed << 20;
    let shape = Shape {
        collections_one_in: one_of(&[6, 20], 1),
        omap_keys_max: one_of(&[6, 400], 7),
        write_bytes_max: one_of(&[20_000, 150_000], 4),
        pg_attrs: !KEPT.contains(&seed),
        ..Shape::MIXED
    };
    crash_history(&mut factory, shape, seed, CRASHES);
}

/// Seeds that were played, and those that failed.
#[derive(Default)]
struct Played {
    count: u64,
    failed: Vec<u64>,
}

/// Plays a seed after the other, each of which no other thread has taken.
fn play_on(seeds: &Mutex<std::ops::Range<u64>>, played: &Mutex<Played>) {
    let next = || seeds.lock().expect("no holder panics").next();
    while let Some(seed) = next() {
        // The panic has named the seed.
        let is_ok = catch_unwind(AssertUnwindSafe(|| play(seed))).is_ok();
        let mut played = played.lock().expect("no holder panics");
        played.count += 1;
        played.failed.extend((!is_ok).then_some(seed));
    }
}

#[test]
fn what_was_acknowledged_survives_under_any_options() {
    let (asked, started) = (asked(), Instant::now());
    let (seeds, played) = (Mutex::new(asked.clone().unwrap_or(SEEDS)), Mutex::new(Played::default()));
    let says = asked.is_some();
    let say = || {
        let Played { count, failed } = &*played.lock().expect("no holder panics");
        let seconds = started.elapsed().as_secs();
        println!("{count} seeds of {CRASHES} power losses and more in {seconds} s; failed: {failed:?}");
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(|| play_on(&seeds, &played))).collect();
        let mut told = Instant::now();
        while !all.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(20));
            if says && told.elapsed() > Duration::from_secs(30) {
                told = Instant::now();
                say();
            }
        }
    });
    if says {
        say();
    }
    let Played { count, failed } = played.into_inner().expect("no holder panics");
    assert!(failed.is_empty(), "seeds that fail: {failed:?}");
    assert_eq!(count, asked.map_or(SEEDS.end - SEEDS.start, |asked| asked.end - asked.start));
}

#[test]
fn seeds_that_failed_once_pass() {
    KEPT.into_iter().for_each(play);
}
