//! `loligo store bench`: a store alone under a load like that of PGs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use std::{io, thread};

use blockfile::{Load, LogPlace, NewStore, Options, Owner, SHARDS_MAX};
use lab::output;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use store::ObjectStore;
use types::{Fsid, OsdId};

use crate::fail;

#[derive(clap::Args)]
pub struct Args {
    /// Where the store is made: its disk is what is measured.
    #[arg(value_hint = clap::ValueHint::DirPath)]
    dir: PathBuf,
    /// `block`, or `simple` to compare with.
    #[arg(long, default_value = "block", value_parser = ["block", "simple"])]
    store: String,
    /// Bytes of a write, 128 MiB at most.
    #[arg(long, default_value = "4KiB", value_parser = write_size)]
    size: u64,
    /// Writes at a time, of each core.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    depth: u32,
    /// Cores, each with a shard of the store `block`.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(SHARDS_MAX)))]
    cores: u32,
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Objects that are written in turn, each whole.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    objects: u64,
    /// PGs that the objects are spread over.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=i64::from(PGS_MAX)))]
    pgs: u32,
    /// Bytes of the store.
    #[arg(long, default_value = "8GiB", value_parser = size)]
    store_size: u64,
    /// A block device or a file for the store's log, apart from its data; refused when it holds data. It holds nothing
    /// afterwards, and the file is removed.
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    log_device: Option<PathBuf>,
    /// Write the store's file whole before.
    #[arg(long)]
    preallocate: bool,
    /// `plain` or `json`.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json"])]
    format: String,
}

fn size(text: &str) -> Result<u64, String> {
    text::parse_size(text).filter(|n| *n > 0).ok_or_else(|| "give bytes, as 4KiB or 8GiB".into())
}

fn write_size(text: &str) -> Result<u64, String> {
    let fits = |bytes: &u64| *bytes <= WRITE_BYTES_MAX;
    size(text).ok().filter(fits).ok_or_else(|| "give at most 128MiB, as 4KiB or 1MiB".into())
}

/// No object of a cluster is longer (osd_max_object_size).
const WRITE_BYTES_MAX: u64 = 128 << 20;

/// No pool has more (mon_max_pool_pg_num).
const PGS_MAX: u32 = 1 << 16;

/// A directory that is removed when this is dropped.
struct Removed(PathBuf);

/// The cluster of every such store.
const CLUSTER: Fsid = Fsid([0; 16]);
const OSD: OsdId = OsdId(0);

impl Drop for Removed {
    fn drop(&mut self) {
        if let Err(error) = blockfile::unmake(&self.0, CLUSTER, OSD) {
            eprintln!("loligo: the log is left: {error}");
        }
        // A store that could not be made leaves none.
        if self.0.exists()
            && let Err(error) = std::fs::remove_dir_all(&self.0)
        {
            eprintln!("loligo: {} is left: {error}", self.0.display());
        }
    }
}

/// Removes the directory when SIGINT or SIGTERM ends the process, with the exit code that a shell expects.
fn remove_when_interrupted(dir: &Path) -> io::Result<()> {
    let (mut signals, dir) = (Signals::new([SIGINT, SIGTERM])?, dir.to_owned());
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            drop(Removed(dir));
            std::process::exit(128 + signal);
        }
    };
    thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
}

pub fn run(args: &Args) -> ExitCode {
    if args.dir.exists() {
        return fail(&format!("{} is there already; name a directory to be made", args.dir.display()));
    }
    if let Err(error) = remove_when_interrupted(&args.dir) {
        eprintln!("loligo: an interruption leaves {}, to be removed by hand: {error}", args.dir.display());
    }
    let removed = Removed(args.dir.clone());
    let measured = match args.store.as_str() {
        "simple" => bench_simple(args),
        _ => bench_block(args),
    };
    drop(removed);
    match measured {
        Err(reason) => fail(&reason),
        Ok(report) if args.format == "json" => {
            output::line(format_args!("{report:#}"));
            ExitCode::SUCCESS
        }
        Ok(report) => {
            for (name, value) in report.as_object().into_iter().flatten() {
                output::line(format_args!("{:<32} {value}", name.replace('_', " ")));
            }
            ExitCode::SUCCESS
        }
    }
}

fn bench_block(args: &Args) -> Result<Value, String> {
    let owner = Owner { cluster: CLUSTER, osd: OSD, osd_uuid: Fsid([0; 16]) };
    let options = Options::default();
    let shards = blockfile::shards_of(args.store_size, args.cores);
    if shards < args.cores {
        return Err(format!(
            "a store of {} has {shards} shards at most, one for each core: name fewer --cores or a larger --store-size",
            text::format_bytes(args.store_size)
        ));
    }
    let log = match &args.log_device {
        None => None,
        Some(path) => {
            let path = std::path::absolute(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Some(LogPlace { path, overwrite: false })
        }
    };
    let new = NewStore { preallocate: args.preallocate, shards, log, ..NewStore::file(args.store_size) };
    blockfile::mkfs(&args.dir, &owner, &new, &options).map_err(|e| e.to_string())?;
    let store = blockfile::open(&args.dir, &owner, &options).map_err(|e| e.to_string())?;
    load(args, store.into_handles())
}

fn bench_simple(args: &Args) -> Result<Value, String> {
    if args.cores > 1 {
        return Err("the store 'simple' has one shard: --cores is for 'block'".into());
    }
    if args.log_device.is_some() {
        return Err("the store 'simple' has no log: --log-device is for 'block'".into());
    }
    let label = simplestore::Label {
        cluster: CLUSTER,
        osd: OsdId(0),
        osd_uuid: Fsid([0; 16]),
        size_bytes: args.store_size,
    };
    let options = simplestore::Options::default();
    simplestore::mkfs(&args.dir, &label, &options).map_err(|e| e.to_string())?;
    load(args, vec![simplestore::open(&args.dir, &options).map_err(|e| e.to_string())?])
}

/// Seconds of CPU, kernel's and its helper threads' included, and bytes that this process has had written.
fn spent() -> (f64, f64) {
    let cpu = process::stat(std::process::id()).map_or((0.0, 0.0), |stat| stat.cpu_seconds());
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")?.parse().ok());
    (cpu.0 + cpu.1, written.unwrap_or(0.0))
}

fn load<S: ObjectStore + Send>(args: &Args, handles: Vec<S>) -> Result<Value, String> {
    let load = Load {
        bytes: args.size as usize,
        depth: args.depth as usize,
        objects: args.objects,
        pgs: args.pgs.next_power_of_two(),
        time: Duration::from_secs(args.seconds),
    };
    let before = spent();
    let (measured, handles) = blockfile::bench(handles, load).map_err(|error| error.to_string())?;
    drop(handles);
    let after = spent();
    let writes = measured.writes.max(1) as f64;
    let [mean, median, p99, p999, max] = measured.latency.map(|seconds| round(seconds * 1e3));
    Ok(json!({
        "writes": measured.writes,
        "writes_a_second": round(writes / measured.seconds),
        "writes_a_second_and_core": round(writes / measured.seconds / f64::from(args.cores)),
        "MB_a_second": round(writes * args.size as f64 / measured.seconds / 1e6),
        "cpu_microseconds_a_write": round((after.0 - before.0) / writes * 1e6),
        "bytes_written_a_byte": round((after.1 - before.1) / writes / args.size as f64),
        "latency_milliseconds": { "mean": mean, "median": median, "p99": p99, "p99.9": p999, "max": max },
    }))
}

/// Three decimals.
fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}
