//! A process that writes is killed, again and again, while a volatile cache holds what it did not flush and, in half of
//! the rounds, lets a random part of that reach the files. What was acknowledged is there, what was not is there whole
//! or not at all, and the store goes on.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::common::history::{History, compare, last, model};
use crate::common::{CHILD_IS_MADE, PROPERTIES, label, mkfs, open};
use device::DeviceOptions;
use simplestore::{OpenError, Options, SimpleStore};
use store::conformance::Harness;
use store::{Completion, ObjectStore, Token};
use types::{SplitMix64, UTime};

const DIR: &str = "SIMPLESTORE_KILL_DIR";
const SEED: &str = "SIMPLESTORE_KILL_SEED";
const LEAK: &str = "SIMPLESTORE_KILL_LEAK";
const FROM: &str = "SIMPLESTORE_KILL_FROM";

/// Opens the store, made if it isn't there.
fn open_or_make(dir: &Path, options: &Options) -> SimpleStore {
    match open(dir, options) {
        Err(OpenError::NotAStore { .. }) => {
            mkfs(dir, &label(64 << 20), options).unwrap();
            open(dir, options).unwrap()
        }
        other => other.unwrap(),
    }
}

/// The process that is killed. Says what was acknowledged, a line each.
#[test]
#[ignore = "run by the other test, as a process of its own"]
fn child() {
    let var = |name| std::env::var(name).unwrap_or_else(|_| panic!("{name}"));
    let number = |name| var(name).parse::<u64>().unwrap();
    let leak_seed = var(LEAK).parse().ok();
    let device = DeviceOptions { volatile_cache: true, leak_seed, power: None };
    let mut store = open_or_make(Path::new(&var(DIR)), &Options { device, ..Options::default() });
    let mut out = std::io::stdout();
    writeln!(out, "\nmade").unwrap();
    let mut history = History::new(number(SEED));
    while history.n < number(FROM) {
        history.next();
    }
    let (mut in_flight, mut done) = (0, Vec::new());
    loop {
        while in_flight < 12 {
            let (n, txn) = history.next();
            store.queue(txn, Token(n));
            in_flight += 1;
            if n % 3 == 0 {
                store.turn(UTime::default());
            }
        }
        store.turn(UTime::default());
        store.completions(&mut done);
        for completion in done.drain(..) {
            in_flight -= 1;
            if let Completion::Committed { token } = completion {
                writeln!(out, "committed {}", token.0).unwrap();
            }
        }
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn spawn(dir: &Path, seed: u64, leak: Option<u64>, from: u64) -> (Child, Receiver<String>) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "kill::child", "--ignored", "--nocapture"]).stdout(Stdio::piped());
    command.env(DIR, dir).env(SEED, seed.to_string()).env(FROM, from.to_string());
    command.env(LEAK, leak.map_or(String::new(), |l| l.to_string()));
    let made = CHILD_IS_MADE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut child = command.spawn().unwrap();
    drop(made);
    let (lines, received) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    (child, received)
}

/// Runs the writer until it was killed; returns whether it had opened the store, and what was acknowledged last.
fn run_and_kill(rng: &mut SplitMix64, dir: &Path, seed: u64, leak: Option<u64>, from: u64) -> (bool, u64) {
    let (mut child, lines) = spawn(dir, seed, leak, from);
    let wanted = rng.below(120);
    let mut all: Vec<String> = Vec::new();
    let acknowledged = |all: &[String]| all.iter().filter(|l| l.starts_with("committed")).count() as u64;
    while acknowledged(&all) < wanted {
        all.push(lines.recv_timeout(Duration::from_secs(60)).expect("the writer goes on"));
    }
    std::thread::sleep(Duration::from_micros(rng.below(8000)));
    child.kill().unwrap();
    child.wait().unwrap();
    all.extend(lines.iter());
    let last = all.iter().filter_map(|l| l.strip_prefix("committed ")?.parse().ok()).max();
    (all.iter().any(|l| l == "made"), last.unwrap_or(0))
}

#[test]
#[cfg_attr(any(feature = "skip-flush-image", feature = "skip-flush-osd-metadata"), should_panic)]
fn a_killed_store_has_everything_acknowledged_and_nothing_by_halves() {
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = number("SIMPLESTORE_SEED").unwrap_or(20);
    let rounds = number("SIMPLESTORE_KILL_ROUNDS").unwrap_or(12);
    println!("SIMPLESTORE_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("osd");
    let (mut rng, mut history, mut all) = (SplitMix64::new(seed), History::new(seed), Vec::new());
    for round in 0..rounds {
        let leak = (round % 2 == 1).then(|| rng.next_u64());
        let before = history.n;
        let (made, acknowledged) = run_and_kill(&mut rng, &dir, seed, leak, before);
        let store = match open(&dir, &Options::default()) {
            Err(OpenError::NotAStore { .. }) if !made => continue,
            other => other.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}")),
        };
        let mut h = Harness::new(store, PROPERTIES);
        let applied = last(&mut h);
        assert!(
            applied >= acknowledged.max(before),
            "seed {seed}, round {round}: {acknowledged} lost, {applied} is last"
        );
        while history.n < applied {
            all.push(history.next().1);
        }
        let mut want = model(all.iter().cloned());
        compare(&mut h, &mut want, &format!("seed {seed}, round {round}, after {applied}"));
    }
    assert!(history.n > rounds * 10, "the writer got somewhere: {}", history.n);
}
