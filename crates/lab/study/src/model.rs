//! A checked study. Everything that a user may write, with its unit and its default.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::trial_names::TrialNames;

#[derive(Clone, PartialEq, Debug)]
pub struct Study {
    /// Lower-case letters, digits and dashes; names the results' directory.
    pub name: String,
    /// A line.
    pub title: String,
    /// Paragraphs for the report.
    pub about: String,
    /// What was published, where the study follows a publication.
    pub source: Option<Source>,
    /// What differs from what was published, a sentence each; shown before the run and in the report.
    pub changes: Vec<String>,
    /// Systems under test, at least one.
    pub systems: Vec<System>,
    /// Workloads, at least one.
    pub workloads: Vec<Workload>,
    /// Options of every variant (the file's `default` section).
    pub default: Vec<Setting>,
    /// Variants; the first is always `default`, which sets nothing more.
    pub variants: Vec<Variant>,
    /// How trials are laid out and judged.
    pub design: Design,
    /// Options that are allowed to be unknown, because they were published so.
    pub as_published: Vec<String>,
    /// What its systems, workloads and variants are called in names of trials.
    pub trial_names: TrialNames,
}

/// A publication.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Source {
    pub title: String,
    /// Who wrote it.
    pub author: String,
    /// When, as YYYY-MM-DD, or as much of it as is known (YYYY-MM, YYYY).
    pub date: String,
}

/// An option as it reaches ceph.conf: nothing is normalised.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// A section of ceph.conf: `global`, `osd`, `osd.0`, `mon.a`, `client`, ...
    pub section: String,
    /// The option's name as written.
    pub name: String,
    /// Its value as written.
    pub value: String,
    /// Its line in the study file, from 1; 0 if it is not there.
    pub line: u32,
}

/// A set of options that is compared with the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Unique: `default`, `NAME_VALUE` of a list's element, a group's name, the parts of a cross joined by `+`.
    pub name: String,
    /// The parameter or group it belongs to: charts put those together.
    pub parameter: String,
    /// On top of the study's and the system's.
    pub settings: Vec<Setting>,
    /// Its line in the study file.
    pub line: u32,
}

/// What is measured.
#[derive(Clone, PartialEq, Debug)]
pub struct System {
    /// Unique.
    pub name: String,
    /// The program.
    pub target: Target,
    /// OSDs; default 3. Means nothing for a running cluster and for NFS.
    pub osds: u32,
    /// Copies in the pools; default 1.
    pub pool_size: u32,
    /// Cores that the servers may use (`taskset`; Loligo's `--cores` too); default all.
    pub cores: Option<u32>,
    /// Where its servers listen: the study's `listen`, default 127.0.0.1.
    pub listen: Ipv4Addr,
    /// Where the data of an OSD live.
    pub place: Place,
    /// Where its journal or log lives, if not there.
    pub journal: Option<Place>,
    /// Options of this system alone, on top of the study's default.
    pub settings: Vec<Setting>,
    /// Its line in the study file.
    pub line: u32,
}

/// The program under test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// This program.
    Loligo { store: LoligoStore },
    /// Real Ceph.
    Ceph {
        /// `16.2` (Debian 12's packages), `18.2` or `20.2` (from a root directory).
        release: String,
        store: CephStore,
    },
    /// A cluster that runs already: it is measured, never started, stopped or configured.
    Running {
        /// Its ceph.conf.
        conf: PathBuf,
    },
    /// No cluster: the kernel's NFS server exports a file system on the system's place, for commands only (`{export}`
    /// in their text is `host:/path`, `{conf}` is empty). Where the host has no NFS server or client it isn't run,
    /// which is said before the start.
    Nfs {
        /// Whether writes are on the disk before the server answers (`sync`), or not (`async`).
        sync: bool,
    },
}

/// Loligo's stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoligoStore {
    /// redb and an image file.
    Simple,
    /// One image file.
    Block,
    /// Memory.
    Mem,
}

/// Ceph's stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CephStore {
    /// Raw block device or image.
    BlueStore,
    /// A file system and a journal (16.2 only).
    FileStore,
    /// Memory.
    MemStore,
}

/// Where a store lives. Every trial begins with a fresh one.
#[derive(Clone, PartialEq, Debug)]
pub enum Place {
    /// A directory below the run's work directory, on whatever file system that is.
    Directory,
    /// A file used as a block device without a file system.
    Image {
        /// Bytes.
        size: u64,
    },
    /// Raw devices, one for each OSD. They are overwritten: only with the explicit flag that names each.
    Devices {
        /// Their paths.
        paths: Vec<PathBuf>,
        /// The file system made on each, or none.
        fs: Option<FileSystem>,
    },
    /// A loop device over a file below the work directory, for each OSD.
    Loop {
        /// Bytes.
        size: u64,
        /// The file system made on it, or none.
        fs: Option<FileSystem>,
    },
    /// A device that exists only as a model, for each OSD: below a loop device for other programs, inside our device
    /// layer for Loligo.
    Modelled {
        model: DeviceModel,
        /// Bytes.
        size: u64,
        /// The file system made on it, or none.
        fs: Option<FileSystem>,
    },
}

/// A file system to make and mount; the options as written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSystem {
    pub kind: FsKind,
    /// Options of mkfs, split at blanks.
    pub mkfs: String,
    /// Options of mount (-o).
    pub mount: String,
}

/// File systems that can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FsKind {
    Btrfs,
    Xfs,
    /// ext4.
    Ext4,
    /// ext2, for NFS servers of studies that had it.
    Ext2,
}

/// A modelled device: its name in the model's table and the parameters that differ, as written.
#[derive(Clone, PartialEq, Debug)]
pub struct DeviceModel {
    /// `disk-7200`, `disk-7200-write-back`, `raid0-of-N`, `ssd`, ...
    pub name: String,
    /// Parameters by name.
    pub parameters: Vec<(String, String)>,
}

/// What load is put on.
#[derive(Clone, PartialEq, Debug)]
pub struct Workload {
    /// Unique.
    pub name: String,
    /// The load.
    pub kind: WorkloadKind,
    /// Its line in the study file.
    pub line: u32,
}

/// Loads.
#[derive(Clone, PartialEq, Debug)]
pub enum WorkloadKind {
    /// `rados bench`.
    RadosBench(RadosBench),
    /// fio with the rados or rbd engine.
    Fio(FioLoad),
    /// `loligo bench`.
    LoligoBench(BenchLoad),
    /// A command of the user's.
    Command(CommandLoad),
}

/// Client processes, each with a pool (or image) of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Clients {
    /// Processes on each host; default 1.
    pub instances: u32,
    /// Hosts reached over ssh; empty: this machine.
    pub hosts: Vec<String>,
    /// PGs of each instance's pool; default 32.
    pub pg_num: u32,
}

/// `rados bench`: a new object for each write, then reads of them.
#[derive(Clone, PartialEq, Debug)]
pub struct RadosBench {
    pub clients: Clients,
    /// Bytes of an object.
    pub object_size: u64,
    /// Operations in flight over all instances; a multiple of their number. With a ladder its last depth.
    pub in_flight: u32,
    /// A ladder of depths in each phase instead of one depth; it has neither rates nor a target.
    pub ladder: Option<Ladder>,
    /// Seconds of each phase, or of each step of a ladder.
    pub seconds: u32,
    /// In this order; reads need a write before.
    pub phases: Vec<Phase>,
    /// Whether the host's caches are dropped before each read phase; default yes.
    pub drop_caches: bool,
}

/// What a phase measures instead of one load: depths until throughput no longer grows (closed loop), shares of that
/// throughput as fixed rates (open loop), and the highest rate that holds a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Ladder {
    /// Over all instances, a multiple of their number; each further depth is twice the one before.
    pub first_depth: u32,
    /// No depth is above.
    pub last_depth: u32,
    /// The share by which a doubling must raise throughput to have brought something.
    pub gain: f64,
    /// Shares of the saturated throughput, ascending.
    pub rates: Vec<f64>,
    /// Latency to hold.
    pub target: Option<LatencyTarget>,
}

/// Latency to hold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LatencyTarget {
    /// Of operations that must not take longer: 99 of a hundred.
    pub percentile: f64,
    /// Microseconds.
    pub latency_us: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Writes (rados bench: sequential names; fio: sequential offsets).
    Write,
    /// Reads in the order written.
    Read,
    /// Writes at random offsets (fio).
    RandWrite,
    /// Reads in random order.
    RandRead,
    /// Reads and writes at random offsets (loligo bench).
    Mixed,
    /// A command's run.
    Run,
}

#[derive(Clone, PartialEq, Debug)]
pub struct FioLoad {
    /// Clients; for rbd each has an image of its own.
    pub clients: Clients,
    pub engine: Engine,
    /// Bytes of a request.
    pub block_size: u64,
    /// Bytes of an image, or of all objects of an instance.
    pub size: u64,
    /// Requests in flight over all instances. With a ladder its last depth.
    pub in_flight: u32,
    /// A ladder in each phase instead of one depth and rate.
    pub ladder: Option<Ladder>,
    /// Seconds of each phase, or of each step of a ladder.
    pub seconds: u32,
    /// In this order.
    pub phases: Vec<Phase>,
    /// Requests a second over all instances, for an open loop; none: a closed loop.
    pub rate: Option<u32>,
    /// Whether everything is written once before the first phase; default yes.
    pub prefill: bool,
    /// Whether caches are dropped before each read phase; default yes.
    pub drop_caches: bool,
}

/// `loligo bench`: blocks within objects, all of which are written once before the first phase.
#[derive(Clone, PartialEq, Debug)]
pub struct BenchLoad {
    pub clients: Clients,
    /// Bytes of a request.
    pub block_size: u64,
    /// Bytes of all objects of an instance.
    pub size: u64,
    /// Requests in flight over all instances. With a ladder its last depth; with a rate it bounds nothing.
    pub in_flight: u32,
    /// A ladder in each phase instead of one depth and rate.
    pub ladder: Option<Ladder>,
    /// Seconds of each phase, or of each step of a ladder.
    pub seconds: u32,
    /// In this order.
    pub phases: Vec<Phase>,
    /// Of a hundred operations of the phase `mixed`, so many are reads; none: it has no such phase.
    pub reads_percent: Option<u32>,
    /// Requests a second over all instances, for an open loop whose latencies count from the planned start; none: a
    /// closed loop.
    pub rate: Option<u32>,
    /// Whether caches are dropped before each read phase; default yes.
    pub drop_caches: bool,
}

/// fio's engines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Engine {
    /// Objects.
    Rados,
    /// librbd images.
    Rbd,
}

/// A command, timed from start to end.
#[derive(Clone, PartialEq, Debug)]
pub struct CommandLoad {
    /// Shell text run before the clock starts (say, a mount); `{conf}` is the ceph.conf, `{work}` a fresh directory,
    /// `{export}` what an NFS server exports (`host:/path`; empty on other systems).
    pub prepare: Option<String>,
    /// Shell text that is timed.
    pub run: String,
    /// Shell text run after the clock stopped, also after a failure.
    pub cleanup: Option<String>,
    /// Programs it needs, with the Debian package of each.
    pub needs: Vec<(String, String)>,
    /// What must be there beyond pools: a file system (a metadata server).
    pub file_system: bool,
    /// Seconds after which it has failed.
    pub timeout: u32,
    /// Seconds that it is expected to take, for the estimate of time alone; default a third of `timeout`.
    pub expected: u32,
}

/// How trials are laid out and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Design {
    /// Blocks; default 3.
    pub blocks: u32,
    /// Trials of the default in each block; default 2.
    pub defaults_per_block: u32,
    /// Shuffles; default 1.
    pub seed: u64,
    /// What is tested.
    pub rule: Rule,
    /// Confidence of intervals after adjustment; default 0.95.
    pub confidence: f64,
    /// The smallest effect that is coloured, as a share; default 0.05.
    pub effect: f64,
    /// The spread between trials (coefficient of variation) assumed before any is measured; default 0.1.
    pub assumed_spread: f64,
    /// Whether cells that would be coloured are run once more; default yes.
    pub confirm: bool,
    /// When to stop early.
    pub stop: Stop,
    /// What a failed trial does.
    pub on_failure: OnFailure,
    /// Which cells get a trial that shows where time goes; default none.
    pub profile: Profiled,
}

/// Which cells get a trial of their own that is profiled. It is no sample: what is watched so closely is slower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Profiled {
    /// None.
    #[default]
    No,
    /// The default's, on each system under each workload.
    Default,
    /// Every variant's.
    All,
}

/// How a cell gets its colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// Ratios to the same block's default, Dunnett within a cell, `Correction` across cells.
    Adjusted(Correction),
    /// The 2013 article's: ranges of one standard deviation that do not overlap. Labelled so in the report.
    OneSigma,
}

/// Across cells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Correction {
    /// Holm: no false colour in the whole study, with the given confidence.
    Holm,
    /// Benjamini and Hochberg: a share of false colours. Labelled so in the report.
    FalseDiscovery,
}

/// When a run ends before its last block. Never by significance.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Stop {
    /// Every interval is narrower than this share on each side.
    pub precision: Option<f64>,
    /// Seconds spent.
    pub budget: Option<u64>,
}

/// What a failed trial does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFailure {
    /// It is kept, shown, and the others go on.
    GoOn,
    /// The run ends.
    Stop,
}
