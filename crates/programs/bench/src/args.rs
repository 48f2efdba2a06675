//! The command line.

use core::time::Duration;
use std::path::PathBuf;

use client::{Credentials, find_conf, monitors_of_conf, parse_mon_host};
use text::{format_bytes_exact, nearest, parse_size};
use types::EntityId;

use crate::names::INSTANCES_MAX;
use crate::session::Access;
use crate::spec::{Arrivals, Mode, Spec};

/// What a request may carry (osd_max_write_size's default is 90 MiB).
const BLOCK_MAX: u64 = 64 << 20;
const OBJECT_MAX: u64 = 128 << 30;
/// Operations in flight of an open loop, where no limit is given.
const OPEN_IN_FLIGHT: usize = 65_536;
const CLOSED_IN_FLIGHT: usize = 16;
const IN_FLIGHT_MAX: usize = 1 << 20;

#[derive(clap::Args, Clone, Debug)]
#[command(after_help = "\
Modes (write, seq, rand and their options are those of `rados bench`):
  write      new objects, one after the other
  seq        read the objects of an earlier `write --no-cleanup`, in order, once
  rand       read blocks of them at random
  randwrite  write blocks within large objects at random; prepares the objects first
  mixed      the same, and of a hundred operations --reads are reads
  cleanup    remove what an earlier run has kept, and what runs that were killed have left (no SECONDS)

Examples:
  loligo bench -p mypool 10 write -b 4096 --no-cleanup
  loligo bench -p mypool 10 rand -t 256
  loligo bench -p mypool 10 mixed --reads 70 -b 4096 -O 4M --objects 256
  loligo bench -p mypool 10 rand --rate 5000      5000 operations a second, however long each takes
  loligo bench -p mypool cleanup

With --rate the time of an operation counts from its planned start: when the cluster stalls, every operation that was \
planned meanwhile shows how long it waited (an open loop). Without it the next operation begins when one has ended, so \
that a stall is seen by as many operations as are in flight (a closed loop, as `rados bench`).

Exit code: 0 when the whole run was measured, 3 when only a part of it was (an operation failed, other bytes came than \
were written, Ctrl-C) or its objects could not be removed, 1 when nothing was, 2 when the command line is wrong.")]
pub struct BenchArgs {
    /// How long to begin operations, and what to do. `cleanup` takes no time.
    #[arg(required = true, num_args = 1..=2, value_names = ["SECONDS", "MODE"])]
    what: Vec<String>,
    /// The pool; several (`-p a,b` or `-p a -p b`) are used by an instance each.
    #[arg(short, long, required = true, value_name = "POOL", value_delimiter = ',')]
    pool: Vec<String>,
    /// Bytes of an operation: 4M in mode write, 4K in randwrite and mixed; in seq and rand what was written.
    #[arg(short, long, value_name = "SIZE")]
    block_size: Option<String>,
    /// Bytes of an object, a multiple of -b: that size in mode write, 4M in randwrite and mixed.
    #[arg(short = 'O', long, value_name = "SIZE")]
    object_size: Option<String>,
    /// Operations of each instance in flight at once: 16; with --rate at most so many: 65536.
    #[arg(short = 't', long, value_name = "N")]
    concurrent_ios: Option<usize>,
    /// Threads with a client each: as many as pools, or more, which share them in turn.
    #[arg(long, value_name = "N")]
    instances: Option<usize>,
    /// Begin so many operations a second, of all instances together (an open loop).
    #[arg(long, value_name = "OPS")]
    rate: Option<f64>,
    /// With --rate: evenly, or at random as independent users would.
    #[arg(long, value_name = "HOW", default_value = "even", value_parser = ["even", "poisson"], requires = "rate")]
    arrivals: String,
    /// Objects of each instance: at most so many (write), or just so many (randwrite, mixed: 64).
    #[arg(long, alias = "max-objects", value_name = "N")]
    objects: Option<u64>,
    /// Mode mixed: so many of a hundred operations are reads.
    #[arg(long, value_name = "PERCENT", default_value_t = 50)]
    reads: u32,
    /// The name of the run's record, by which later runs find its objects.
    #[arg(long, value_name = "NAME")]
    run_name: Option<String>,
    /// Leave the objects in the pool.
    #[arg(long)]
    no_cleanup: bool,
    /// Do not compare what is read with what was written.
    #[arg(long)]
    no_verify: bool,
    /// Mode write: do not send the hints about sizes.
    #[arg(long)]
    no_hints: bool,
    /// So many of a hundred bytes written are zeros; the others cannot be compressed.
    #[arg(long, value_name = "PERCENT", default_value_t = 0)]
    compressible: u32,
    /// What random places are drawn from.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Seconds until an operation without an answer has failed; 0 waits for ever.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    timeout: u64,
    /// Mode cleanup: remove all objects whose names begin so, instead of those of a run's record.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// The cluster's ceph.conf (default: $CEPH_CONF, /etc/ceph, ~/.ceph or the working directory).
    #[arg(short, long, value_hint = clap::ValueHint::FilePath)]
    conf: Option<PathBuf>,
    /// The monitors, instead of those of ceph.conf.
    #[arg(short, long, value_name = "ADDRS")]
    mon_host: Option<String>,
    /// As whom.
    #[arg(short, long, default_value = "client.admin")]
    name: String,
    /// The same without `client.`.
    #[arg(long, value_name = "ID", conflicts_with = "name")]
    id: Option<String>,
    /// Where the key is, for a cluster with cephx (default: $CEPH_KEYRING, or as ceph.conf says, or /etc/ceph).
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    keyring: Option<PathBuf>,
    /// How results are printed: `json` has progress on standard error, `json-lines` an object for each second first.
    #[arg(short, long, default_value = "plain", value_parser = ["plain", "json", "json-pretty", "json-lines"])]
    format: String,
    /// Write the results into a file.
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

/// How results are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Format {
    Plain,
    Json {
        pretty: bool,
    },
    /// An object for each second, and then one with the results.
    JsonLines,
}

/// What the command line asks for.
#[derive(Clone, Debug)]
pub(crate) enum Wanted {
    Bench(Spec),
    Cleanup { pools: Vec<String>, run_name: Option<String>, prefix: Option<String> },
}

impl BenchArgs {
    pub(crate) fn format(&self) -> Format {
        match self.format.as_str() {
            "json" => Format::Json { pretty: false },
            "json-pretty" => Format::Json { pretty: true },
            "json-lines" => Format::JsonLines,
            _ => Format::Plain,
        }
    }

    pub(crate) fn output(&self) -> Option<&PathBuf> {
        self.output.as_ref()
    }

    /// Where the cluster is.
    pub(crate) fn access(&self) -> Result<Access, String> {
        let conf = find_conf(self.conf.as_deref());
        let monitors = match (&self.mon_host, &conf) {
            (Some(hosts), _) => parse_mon_host(hosts),
            (None, Ok(conf)) => monitors_of_conf(conf),
            (None, Err(error)) => return Err(error.to_string()),
        };
        // `-n admin` is what users of --id expect to work, too.
        let name = match (&self.id, self.name.contains('.')) {
            (Some(id), _) => format!("client.{id}"),
            (None, true) => self.name.clone(),
            (None, false) => format!("client.{}", self.name),
        };
        let entity: EntityId = name.parse().map_err(|error| format!("--name: {error}"))?;
        // Beside monitors of the command line a ceph.conf counts where there is one.
        let conf = conf.ok().filter(|conf| self.mon_host.is_none() || conf.exists());
        let credentials = Credentials::find(conf.as_deref(), self.keyring.as_deref(), &entity);
        Ok(Access {
            monitors: monitors.map_err(|error| error.to_string())?,
            entity,
            credentials: credentials.map_err(|error| error.to_string())?,
            timeout: Duration::from_secs(self.timeout),
        })
    }

    /// Checks the whole, but for what only the cluster knows.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right.
    pub(crate) fn wanted(&self) -> Result<Wanted, String> {
        if self.pool.iter().any(String::is_empty) {
            return Err("--pool: a pool's name is empty".into());
        }
        let (time, mode) = match self.what.as_slice() {
            [mode] => (None, mode),
            [time, mode, ..] => (Some(time), mode),
            [] => return Err("expected SECONDS and MODE".into()),
        };
        match (time, mode.as_str()) {
            (None, "cleanup") => Ok(Wanted::Cleanup {
                pools: self.pool.clone(),
                run_name: self.run_name.clone(),
                prefix: self.checked_prefix()?,
            }),
            (Some(_), "cleanup") => Err("cleanup takes no SECONDS".into()),
            (time, mode) => {
                let mode = self.mode(mode)?;
                let time = time.ok_or_else(|| format!("'{}' needs SECONDS before it", mode.name()))?;
                Ok(Wanted::Bench(self.spec(mode, duration(time)?)?))
            }
        }
    }

    fn checked_prefix(&self) -> Result<Option<String>, String> {
        match &self.prefix {
            Some(prefix) if prefix.is_empty() => {
                Err("--prefix: it is empty, so it would remove everything".into())
            }
            prefix => Ok(prefix.clone()),
        }
    }

    fn mode(&self, name: &str) -> Result<Mode, String> {
        if self.prefix.is_some() {
            return Err("--prefix goes with cleanup alone".into());
        }
        match name {
            "write" => Ok(Mode::Write),
            "seq" => Ok(Mode::Seq),
            "rand" => Ok(Mode::Rand),
            "randwrite" => Ok(Mode::Mixed { reads_percent: 0 }),
            "mixed" if self.reads > 100 => Err(format!("--reads: {} is more than 100 per cent", self.reads)),
            "mixed" => Ok(Mode::Mixed { reads_percent: self.reads }),
            _ => Err(match nearest(name, Mode::NAMES) {
                Some(near) => format!("'{name}' is not a mode; did you mean '{near}'?"),
                None => format!("'{name}' is not a mode; there are {}", Mode::NAMES.join(", ")),
            }),
        }
    }

    fn spec(&self, mode: Mode, duration: Duration) -> Result<Spec, String> {
        let block_size = size("--block-size", self.block_size.as_ref(), BLOCK_MAX)?;
        let object_size = size("--object-size", self.object_size.as_ref(), OBJECT_MAX)?;
        if mode.needs_record() && object_size.is_some() {
            return Err(format!(
                "{} reads objects of the size that was written: leave --object-size out",
                mode.name()
            ));
        }
        if let (Some(block), Some(object)) = (block_size, object_size) {
            if object % block != 0 {
                let (block, object) = (format_bytes_exact(block), format_bytes_exact(object));
                return Err(format!("--object-size {object} is not a multiple of --block-size {block}"));
            }
        }
        if self.compressible > 100 {
            return Err(format!("--compressible: {} is more than 100 per cent", self.compressible));
        }
        if self.objects == Some(0) {
            return Err("--objects: expected 1 or more".into());
        }
        if mode.needs_record() && self.objects.is_some() {
            return Err(format!("{} reads the objects that were written: leave --objects out", mode.name()));
        }
        Ok(Spec {
            mode,
            duration,
            pools: self.pool.clone(),
            instances: self.instances()?,
            block_size,
            object_size,
            in_flight: self.in_flight()?,
            arrivals: self.arrivals()?,
            objects: self.objects,
            compressible_percent: self.compressible,
            run_name: self.run_name.clone(),
            cleans_up: !self.no_cleanup,
            verifies: !self.no_verify,
            hints: !self.no_hints,
            seed: self.seed,
        })
    }

    fn instances(&self) -> Result<usize, String> {
        let (pools, instances) = (self.pool.len(), self.instances.unwrap_or(self.pool.len()));
        match instances {
            0 => Err("--instances: expected 1 or more".into()),
            n if n < pools => Err(format!("--instances: {n} cannot use {pools} pools")),
            n if n > INSTANCES_MAX => Err(format!("--instances: expected at most {INSTANCES_MAX}")),
            n => Ok(n),
        }
    }

    fn in_flight(&self) -> Result<usize, String> {
        match (self.concurrent_ios, self.rate) {
            (Some(n @ 1..=IN_FLIGHT_MAX), _) => Ok(n),
            (Some(n), _) => Err(format!("--concurrent-ios: {n} is not within 1 to {IN_FLIGHT_MAX}")),
            (None, Some(_)) => Ok(OPEN_IN_FLIGHT),
            (None, None) => Ok(CLOSED_IN_FLIGHT),
        }
    }

    fn arrivals(&self) -> Result<Arrivals, String> {
        match self.rate {
            None => Ok(Arrivals::AsOneEnds),
            Some(rate) if !(rate.is_finite() && (0.001..=1e8).contains(&rate)) => {
                Err(format!("--rate: {rate} is not within 0.001 to 100000000 operations a second"))
            }
            Some(per_second) if self.arrivals == "poisson" => Ok(Arrivals::Poisson { per_second }),
            Some(per_second) => Ok(Arrivals::Even { per_second }),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    match seconds.filter(|seconds| (0.01..=1e7).contains(seconds)) {
        Some(seconds) => Ok(Duration::from_secs_f64(seconds)),
        None => Err(format!("'{text}' is not a number of SECONDS from 0.01 to 10000000")),
    }
}

fn size(option: &str, text: Option<&String>, max: u64) -> Result<Option<u64>, String> {
    let Some(text) = text else { return Ok(None) };
    match parse_size(text) {
        None => Err(format!("{option}: '{text}' is not a size (expected like 4096, 4K or 4M)")),
        Some(bytes) if (1..=max).contains(&bytes) => Ok(Some(bytes)),
        Some(_) => Err(format!("{option}: {text} is not within 1 byte to {}", format_bytes_exact(max))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn wanted(line: &str) -> Result<Wanted, String> {
        let words = ["bench"].into_iter().chain(line.split_whitespace());
        Cli::try_parse_from(words).map_err(|error| error.to_string())?.args.wanted()
    }

    fn spec(line: &str) -> Spec {
        match wanted(line) {
            Ok(Wanted::Bench(spec)) => spec,
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn the_flags_of_rados_bench_mean_the_same() {
        let spec = spec("-p a 10 write -b 4096 -O 65536 -t 32 --no-cleanup --run-name x --max-objects 7");
        assert_eq!((spec.mode, spec.duration, spec.in_flight), (Mode::Write, Duration::from_secs(10), 32));
        assert_eq!((spec.block_size, spec.object_size, spec.objects), (Some(4096), Some(65536), Some(7)));
        assert_eq!(
            (spec.run_name.as_deref(), spec.cleans_up, spec.arrivals),
            (Some("x"), false, Arrivals::AsOneEnds)
        );
        let rand = self::spec("-p a 2.5 rand -t 256 --no-verify");
        assert_eq!((rand.mode, rand.verifies, rand.in_flight), (Mode::Rand, false, 256));
    }

    #[test]
    fn instances_have_a_pool_each_and_a_rate_has_no_small_bound_in_flight() {
        assert_eq!(spec("-p a,b -p c 1 write").instances, 3);
        assert_eq!(spec("-p a 1 write --instances 4").instances, 4);
        let open = spec("-p a 1 mixed --reads 70 --rate 1000 --arrivals poisson");
        assert_eq!(open.arrivals, Arrivals::Poisson { per_second: 1000.0 });
        assert_eq!((open.in_flight, open.mode), (OPEN_IN_FLIGHT, Mode::Mixed { reads_percent: 70 }));
    }

    #[test]
    fn a_wrong_line_says_what_would_be_right() {
        for (line, says) in [
            ("-p a 10 wirte", "did you mean 'write'?"),
            ("-p a 10 zzzzzz", "there are write, seq, rand, randwrite, mixed, cleanup"),
            ("-p a write", "'write' needs SECONDS before it"),
            ("-p a x write", "'x' is not a number of SECONDS"),
            ("-p a 0 write", "'0' is not a number of SECONDS"),
            ("-p a nan write", "'nan' is not a number of SECONDS"),
            ("-p a 10 cleanup", "cleanup takes no SECONDS"),
            ("-p a 10 write -b x", "--block-size: 'x' is not a size (expected like 4096"),
            ("-p a 10 write -b 0", "--block-size: 0 is not within 1 byte to 64 MiB"),
            ("-p a 10 write -b 65M", "--block-size: 65M is not within"),
            ("-p a 10 write -b 4096 -O 5000", "--object-size 5000 is not a multiple of --block-size 4 KiB"),
            ("-p a 10 rand -O 4M", "leave --object-size out"),
            ("-p a 10 seq --objects 4", "leave --objects out"),
            ("-p a 10 write --objects 0", "--objects: expected 1 or more"),
            ("-p a 10 write -t 0", "--concurrent-ios: 0 is not within"),
            ("-p a 10 write --rate 0", "--rate: 0 is not within"),
            ("-p a 10 write --rate nan", "--rate: NaN is not within"),
            ("-p a 10 write --arrivals poisson", "--rate"),
            ("-p a 10 mixed --reads 101", "--reads: 101 is more than 100"),
            ("-p a 10 write --compressible 101", "--compressible: 101 is more than 100"),
            ("-p a,b 10 write --instances 1", "1 cannot use 2 pools"),
            ("-p a, 10 write", "a pool's name is empty"),
            ("-p a 10 write --prefix x", "--prefix goes with cleanup alone"),
            ("-p a cleanup --prefix=", "would remove everything"),
            ("10 write", "--pool"),
            ("-p a", "SECONDS"),
        ] {
            let error = wanted(line).expect_err(line);
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
