//! The records. Parameters, build, machine and measurement are kept apart.
//!
//! Layout of a results directory (made by the runner):
//!
//! ```text
//! DIR/run.json            RunInfo
//! DIR/study.yaml          the study file, byte for byte
//! DIR/plan.json           the trials in their order, each with its ceph.conf
//! DIR/trials.jsonl        a Record a line, appended when the trial ends; the last one of an id counts
//! DIR/series/ID.jsonl     a Sample a line: what was measured each second of that trial
//! DIR/counters/ID.json    all of Ceph's counters that changed in each phase
//! DIR/profiles/ID/        stacks and requests of a profiled trial
//! DIR/logs/ID/            logs and configuration of a trial (of failed ones always, of others if asked)
//! ```

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format of records; a reader refuses newer ones.
pub const FORMAT: u32 = 1;

/// About a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RunInfo {
    /// [`FORMAT`].
    pub format: u32,
    /// The study's name.
    pub study: String,
    /// Its title.
    pub title: String,
    /// Hash of the study file (crc32c, hex): a run is only resumed with the same file.
    pub study_hash: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The seed of the order.
    pub seed: u64,
    /// The machine.
    pub machine: Machine,
    /// Sentences said before the start: raised limits, options without effect, what can't run yet.
    pub notes: Vec<String>,
}

/// A trial.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`].
    pub format: u32,
    /// Unique in the run, safe as a file name.
    pub id: String,
    /// Its place in the order, from 0.
    pub order: u32,
    /// Its block, from 0.
    pub block: u32,
    /// Whether it confirms a flagged cell.
    pub confirms: bool,
    /// Whether it was profiled: no sample of anything.
    pub profiled: bool,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// Seconds from the first step to the last, clean-up included.
    pub took_s: f64,
    /// What was asked for.
    pub parameters: Parameters,
    /// What ran.
    pub build: Build,
    /// How it ended.
    pub outcome: Outcome,
    /// One for each phase that ran, in order.
    pub measurements: Vec<Measurement>,
}

/// What was asked for.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Parameters {
    /// The system's name in the study.
    pub system: String,
    /// `loligo`, `ceph` or `running`.
    pub program: String,
    /// Ceph's release line (`16.2`), empty otherwise.
    pub release: String,
    /// The store.
    pub store: String,
    /// Where data live, in words: `loop xfs 4 GiB (-f -i size=2048; inode64,noatime)`.
    pub place: String,
    /// Where the journal lives, empty if with the data.
    pub journal: String,
    /// Whether the devices are modelled: compared with modelled ones only.
    pub modelled: bool,
    /// OSDs.
    pub osds: u32,
    /// Copies.
    pub pool_size: u32,
    /// The variant's name.
    pub variant: String,
    /// The parameter or group it belongs to.
    pub parameter: String,
    /// The variant's own options, `section/name` to value.
    pub settings: BTreeMap<String, String>,
    /// The workload's name.
    pub workload: String,
    /// `rados bench`, `fio rados`, `fio rbd`, `command`.
    pub load: String,
    /// Bytes of an object or request; 0 where that means nothing.
    pub block_size: u64,
    /// In flight over all instances; 0 where that means nothing.
    pub in_flight: u32,
    /// Client processes.
    pub instances: u32,
    /// The hosts that they run on, parted by blanks; empty: this machine.
    pub hosts: String,
    /// PGs of each pool.
    pub pg_num: u32,
    /// Whether requests come at a fixed rate (open loop) or when one has ended (closed loop).
    pub open_loop: bool,
}

/// What ran.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Build {
    /// The lab's version.
    pub lab: String,
    /// The server's own words on its version.
    pub server: String,
    /// The load's own words on its version.
    pub client: String,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Machine {
    /// Its name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// The distribution, as os-release names it.
    pub system: String,
    /// The processor's model.
    pub cpu: String,
    /// Cores online.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The device that the work directory is on, with its model where it has one.
    pub disk: String,
    /// The file system of the work directory.
    pub file_system: String,
}

/// How a trial ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// In a word.
    pub status: Status,
    /// What went wrong, for a user; empty if nothing.
    pub error: String,
    /// Where its logs are, relative to the results directory; empty if none were kept.
    pub logs: String,
}

/// In a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Every phase ran to its end.
    Ok,
    /// Something failed; phases that ended before are kept.
    Failed,
    /// The run was stopped meanwhile: it is run again on resuming.
    Interrupted,
}

/// A phase's result.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// `write`, `read`, `rand_write`, `rand_read`, `mixed`, `run`.
    pub phase: String,
    /// What this was on a ladder of loads; `None`: a phase of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    /// Seconds that it took, as the load itself says.
    pub seconds: f64,
    /// Operations completed over all instances.
    pub operations: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Seconds from the first client's start to the last one's.
    pub start_skew_s: f64,
    /// Operations a second: `operations / seconds`. For a command: 1 / seconds.
    pub ops_per_s: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// Latency over all instances.
    pub latency: Latency,
    /// Whether throughput was steady, as the load's own samples a second show; `None` where there are too few to decide.
    pub steady: Option<bool>,
    /// Why not, or why that is not known, in words; empty where the load gives no samples.
    pub unsteady: String,
    /// CPU.
    pub cpu: CpuUse,
    /// Devices below the stores, by name.
    pub devices: BTreeMap<String, DeviceUse>,
    /// Bytes written to the devices for each byte that clients wrote; 0 where that is not known.
    pub device_bytes_per_byte: f64,
    /// Joules that the processor's package took; `None` where the host does not report it.
    pub joules: Option<f64>,
    /// The telling ones of Ceph's perf counters over all OSDs, `section.counter`: sums as differences, latencies as
    /// means of the phase in milliseconds (`_ms`). All that changed are in `counters/ID.json`.
    pub counters: BTreeMap<String, f64>,
}

/// A step of a ladder: depths to saturation, fixed rates, the search for the highest rate that holds a target. A phase
/// with a ladder has a measurement for each step.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Step {
    /// Its name in the time line, in counters and in profiles, where phases without a ladder have their own.
    pub name: String,
    /// In flight over all instances; with a fixed rate no more than this.
    pub in_flight: u32,
    /// Operations a second asked for (open loop); `None`: a closed loop.
    pub rate: Option<u32>,
    /// Whether the rate was achieved and, where there is a target, the latency within it; `None` in a closed loop.
    pub held: Option<bool>,
    /// What the ladder found in it; `None` for a step on the way.
    pub found: Option<LadderPoint>,
}

/// What a ladder finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LadderPoint {
    /// The best throughput of the closed loop.
    Saturation,
    /// The highest rate that holds the target.
    HeldRate,
}

impl LadderPoint {
    /// `saturation`, `held_rate`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Saturation => "saturation",
            Self::HeldRate => "held_rate",
        }
    }
}

impl Measurement {
    /// Its phase in words, with the depth or the rate of a ladder's step.
    pub fn words(&self) -> String {
        match self.step.as_ref().map(|step| (step.rate, step.in_flight)) {
            None => self.phase.clone(),
            Some((Some(rate), _)) => format!("{} at {rate}/s", self.phase),
            Some((None, depth)) => format!("{} with {depth} in flight", self.phase),
        }
    }

    /// What it is called in the time line, in counters and in profiles.
    pub fn name(&self) -> &str {
        self.step.as_ref().map_or(&self.phase, |step| &step.name)
    }

    /// The phase that this is a trial's sample of: its own, or PHASE.saturation and PHASE.held_rate of a ladder. Other
    /// steps are no samples: what they measured depends on what the trial found before.
    pub fn sample_of(&self) -> Option<String> {
        match &self.step {
            None => Some(self.phase.clone()),
            Some(step) => step.found.map(|found| format!("{}.{}", self.phase, found.name())),
        }
    }
}

/// Latency in microseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Mean over all operations.
    pub mean_us: f64,
    /// Largest.
    pub max_us: f64,
    /// From merged histograms; `None` where the load gives none (`rados bench` gives mean, largest and deviation only).
    pub histogram: Option<Histogram>,
}

/// A histogram that can be merged: counts of operations by upper bound.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Histogram {
    /// (upper bound in microseconds, count), ascending, counts above 0.
    pub buckets: Vec<(f64, u64)>,
}

/// CPU seconds in a phase.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// By process: `osd.0`, `mon.a`, `loligo`, `client`.
    pub by_process: BTreeMap<String, Process>,
    /// The whole machine, busy seconds over all cores.
    pub machine_s: f64,
    /// Servers' CPU seconds an operation, microseconds.
    pub server_us_per_op: f64,
    /// Operations for each second of servers' CPU.
    pub ops_per_core_s: f64,
    /// Cycles that the servers took; `None`: not counted.
    pub cycles: Option<u64>,
}

/// A process.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Process {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
    /// Largest resident memory seen, bytes.
    pub rss_max: u64,
    /// Context switches, voluntary and not.
    pub switches: u64,
}

/// A block device in a phase (from diskstats).
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceUse {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Mean wait of a request, milliseconds.
    pub wait_ms: f64,
    /// Share of the time that it was busy, 0 to 1.
    pub busy: f64,
    /// Mean size of a request, bytes.
    pub request: f64,
}

/// A second of a trial.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the trial began.
    pub t: f64,
    /// The phase, empty between phases.
    pub phase: String,
    /// Values by name: `ops_per_s`, `bytes_per_s`, `latency_us`, `cpu.osd.0`, `cpu.machine`, `disk.sda.written`,
    /// `disk.sda.wait_ms`, `disk.sda.busy`, `disk.sda.request`, `net.lo.bytes`, `memory.osd.0`,
    /// `memory.machine`, `switches`, `pressure.cpu`, `pressure.io`, `pressure.memory`. CPU in cores, rates a second.
    pub values: BTreeMap<String, f64>,
}

/// The samples of a trial.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Series {
    /// In order of time.
    pub samples: Vec<Sample>,
}
