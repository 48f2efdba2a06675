//! A process that writes is killed, again and again, while a volatile cache holds what it did not flush and, in half of
//! the rounds, lets a random part of that reach the files. What was acknowledged is there, what was not is there whole
//! or not at all, and the store goes on.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use buffer::Piece;
use device::DeviceOptions;
use simplestore::{Label, OpenError, Options, SimpleStore, mkfs, open};
use store::conformance::{Generator, Harness, Model, Rng, compare_all};
use store::{CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Token, Transaction};
use types::{Fsid, GHObject, HObject, Name, OsdId, PoolId};

const DIR: &str = "SIMPLESTORE_KILL_DIR";
const SEED: &str = "SIMPLESTORE_KILL_SEED";
const LEAK: &str = "SIMPLESTORE_KILL_LEAK";
const FROM: &str = "SIMPLESTORE_KILL_FROM";

/// The object whose attribute says which transaction was the last.
fn marker() -> GHObject {
    HObject::head(PoolId(-1), Name::new(), Name::new(), "marker".into(), 0).into()
}

/// The transactions of a seed: the same in every process. The first makes the collections.
struct History {
    generator: Generator,
    n: u64,
}

impl History {
    fn new(seed: u64) -> Self {
        Self { generator: Generator::new(seed), n: 0 }
    }

    fn next(&mut self) -> (u64, Transaction) {
        let mut txn = if self.n == 0 { Generator::setup() } else { self.generator.transaction() };
        self.n += 1;
        txn.set_attr(CollectionId::Meta, marker(), "n", Piece::copy_from(&self.n.to_le_bytes()));
        (self.n, txn)
    }
}

fn options(device: DeviceOptions) -> Options {
    Options { device, ..Options::default() }
}

fn label() -> Label {
    Label { cluster: Fsid([1; 16]), osd: OsdId(0), osd_uuid: Fsid([2; 16]), size_bytes: 64 << 20 }
}

/// Opens the store, made if it isn't there.
fn open_or_make(dir: &Path, options: &Options) -> SimpleStore {
    match open(dir, options, Arc::new(|| ())) {
        Err(OpenError::NotAStore(_)) => {
            mkfs(dir, &label(), options).unwrap();
            open(dir, options, Arc::new(|| ())).unwrap()
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
    let mut store =
        open_or_make(Path::new(&var(DIR)), &options(DeviceOptions { volatile_cache: true, leak_seed }));
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
        }
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
    command.args(["--exact", "child", "--ignored", "--nocapture"]).stdout(Stdio::piped());
    command.env(DIR, dir).env(SEED, seed.to_string()).env(FROM, from.to_string());
    command.env(LEAK, leak.map_or(String::new(), |l| l.to_string()));
    let mut child = command.spawn().unwrap();
    let (lines, received) = channel();
    let out = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| lines.send(line)));
    (child, received)
}

/// Runs the writer until it was killed; returns whether it had opened the store, and what was acknowledged last.
fn run_and_kill(rng: &mut Rng, dir: &Path, seed: u64, leak: Option<u64>, from: u64) -> (bool, u64) {
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

/// The transaction that the store shows as the last.
fn last_applied(harness: &mut Harness) -> u64 {
    let request = ReadRequest::Attr { collection: CollectionId::Meta, object: marker(), name: "n".into() };
    match harness.get(request) {
        Ok(ReadOutcome::Attr(n)) => u64::from_le_bytes(n[..].try_into().unwrap()),
        _ => 0,
    }
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
    let (mut rng, mut history, mut model) = (Rng::new(seed), History::new(seed), Model::new());
    for round in 0..rounds {
        let leak = (round % 2 == 1).then(|| rng.next_u64());
        let before = history.n;
        let (made, acknowledged) = run_and_kill(&mut rng, &dir, seed, leak, before);
        let store = match open(&dir, &options(DeviceOptions::default()), Arc::new(|| ())) {
            Err(OpenError::NotAStore(_)) if !made => continue,
            other => other.unwrap_or_else(|e| panic!("seed {seed}, round {round}: {e}")),
        };
        let mut harness = Harness::new(Box::new(store));
        let last = last_applied(&mut harness);
        assert!(
            last >= acknowledged.max(before),
            "seed {seed}, round {round}: {acknowledged} lost, {last} is last"
        );
        while history.n < last {
            let _refused = model.apply(&history.next().1);
        }
        compare_all(&mut harness, &model, &format!("seed {seed}, round {round}, after {last}"));
    }
    assert!(history.n > rounds * 10, "the writer got somewhere: {}", history.n);
}
