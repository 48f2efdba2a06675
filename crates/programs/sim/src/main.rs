//! `sim`: runs seeds of the simulator, and replays one with a trace that a person can read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sim::plan::{Defect, PlanKind};
use sim::{Counts, Failure, Plan, Report, Trace, run};

const USAGE: &str = "\
sim run [--from SEED] [--seeds N] [--seconds S] [--keep-going] [--bug NAME]\n                                                                 run seeds until N, or S seconds, are over
sim bugs [--from SEED] [--seeds N] [--bug NAME]                  run N seeds with each planted defect: how many find it
sim replay SEED [--trace FILE] [--object NAME]                   run one seed and write what happened
Each with --kind any (as without it), or --kind trims for plans in which snapshots are trimmed all the time.";

/// The command line.
#[derive(Default)]
struct Args {
    bugs: bool,
    replay: Option<u64>,
    from: u64,
    seeds: Option<u64>,
    seconds: Option<u64>,
    keep_going: bool,
    bug: Option<Defect>,
    kind: PlanKind,
    trace: Option<String>,
    object: Option<String>,
}

fn parse() -> Option<Args> {
    let mut args = Args { from: 1, ..Args::default() };
    let mut words = std::env::args().skip(1);
    match words.next()?.as_str() {
        "run" => {}
        "bugs" => args.bugs = true,
        "replay" => args.replay = Some(words.next()?.parse().ok()?),
        _ => return None,
    }
    while let Some(word) = words.next() {
        match word.as_str() {
            "--keep-going" => args.keep_going = true,
            "--bug" => {
                let name = words.next()?;
                args.bug = Some(Defect::all().find(|(n, _)| *n == name)?.1);
            }
            "--kind" => {
                let name = words.next()?;
                args.kind = PlanKind::ALL.into_iter().find(|kind| kind.name() == name)?;
            }
            "--from" => args.from = words.next()?.parse().ok()?,
            "--seeds" => args.seeds = Some(words.next()?.parse().ok()?),
            "--seconds" => args.seconds = Some(words.next()?.parse().ok()?),
            "--trace" => args.trace = Some(words.next()?),
            "--object" => args.object = Some(words.next()?),
            _ => return None,
        }
    }
    Some(args)
}

fn main() -> ExitCode {
    let Some(args) = parse() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match args.replay {
        Some(seed) => replay(seed, &args),
        None if args.bugs => run_bugs(&args),
        None => run_seeds(&args),
    }
}

/// Runs a seed; a panic is a failure too.
fn play(kind: PlanKind, seed: u64, defect: Option<Defect>, trace: Trace) -> Report {
    let plan = Plan { defect, ..Plan::of_kind(kind, seed) };
    catch_unwind(AssertUnwindSafe(|| run(plan, trace))).unwrap_or_else(|_| Report {
        failure: Some(Failure("a panic; see above".into())),
        counts: Counts::default(),
        trace: 0,
    })
}

fn replay(seed: u64, args: &Args) -> ExitCode {
    let path = args.trace.clone().unwrap_or_else(|| format!("sim-{seed}.trace"));
    let file = match std::fs::File::create(&path) {
        Ok(file) => std::io::BufWriter::new(file),
        Err(error) => {
            eprintln!("the trace can't be written to {path}: {error}");
            return ExitCode::from(2);
        }
    };
    println!("{:#?}", Plan::of_kind(args.kind, seed));
    let report = play(args.kind, seed, args.bug, Trace::to(Box::new(file), args.object.clone()));
    println!("seed {seed}: {:?}, trace hash {:016x}, written to {path}", report.counts, report.trace);
    match report.failure {
        Some(failure) => {
            println!("FAILED: {failure}");
            ExitCode::FAILURE
        }
        None => ExitCode::SUCCESS,
    }
}

/// What the runs of one command came to.
#[derive(Default)]
struct Tally {
    sum: Counts,
    done: u64,
    failed: Vec<u64>,
}

/// Plays seeds on every processor, each seed on one thread.
fn play_seeds(args: &Args, started: Instant) -> Tally {
    let limit = args.seconds.map(Duration::from_secs);
    let seeds = args.seeds.unwrap_or(if limit.is_some() { u64::MAX } else { 100 });
    let (next, tally) = (AtomicU64::new(0), Mutex::new(Tally::default()));
    let over = || {
        let stopped = !args.keep_going && tally.lock().is_ok_and(|tally| !tally.failed.is_empty());
        stopped || limit.is_some_and(|limit| started.elapsed() >= limit)
    };
    let work = || {
        while !over() {
            let number = next.fetch_add(1, Relaxed);
            let Some(seed) = args.from.checked_add(number).filter(|_| number < seeds) else { break };
            let report = play(args.kind, seed, args.bug, Trace::default());
            let Ok(mut tally) = tally.lock() else { break };
            tally.done += 1;
            add(&mut tally.sum, &report.counts);
            if let Some(failure) = report.failure {
                let first = failure.0.lines().next().unwrap_or_default();
                let kind = match args.kind {
                    PlanKind::Any => String::new(),
                    kind => format!(" KIND={}", kind.name()),
                };
                println!("seed {seed} FAILED: {first}\n  replay it: make sim SEED={seed}{kind}");
                tally.failed.push(seed);
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    tally.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_seeds(args: &Args) -> ExitCode {
    let started = Instant::now();
    let Tally { sum, done, mut failed } = play_seeds(args, started);
    failed.sort_unstable();
    let (hours, seconds) = (sum.time as f64 / 3.6e12, started.elapsed().as_secs_f64());
    println!(
        "{done} seeds, {} failed; {} operations ({} of unknown outcome), {} faults, {} events, {hours:.1} virtual hours; {seconds:.1} s",
        failed.len(),
        sum.operations,
        sum.unknown,
        sum.faults,
        sum.events
    );
    if args.keep_going && !failed.is_empty() {
        println!("failed: {failed:?}");
    }
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints in how many seeds each planted defect is found; it is a failure if one is not found at all.
fn run_bugs(args: &Args) -> ExitCode {
    // A panic is one way in which a defect is found.
    std::panic::set_hook(Box::new(|_| {}));
    let seeds = args.seeds.unwrap_or(200);
    let mut all_found = true;
    println!("defect, seeds of {seeds} that find it, the first, seconds");
    for (name, defect) in Defect::all().filter(|(_, defect)| args.bug.is_none_or(|bug| bug == *defect)) {
        let started = Instant::now();
        let finds = |seed: &u64| play(args.kind, *seed, Some(defect), Trace::default()).failure.is_some();
        let found: Vec<u64> = (args.from..args.from.saturating_add(seeds)).filter(finds).collect();
        let first = found.first().map_or("-".into(), u64::to_string);
        println!("{name}, {}, {first}, {:.1}", found.len(), started.elapsed().as_secs_f64());
        all_found &= !found.is_empty();
    }
    if all_found { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn add(sum: &mut Counts, one: &Counts) {
    sum.operations += one.operations;
    sum.unknown += one.unknown;
    sum.events += one.events;
    sum.faults += one.faults;
    sum.listings += one.listings;
    sum.time += one.time;
    for (fault, count) in &one.by_fault {
        *sum.by_fault.entry(*fault).or_default() += count;
    }
}
