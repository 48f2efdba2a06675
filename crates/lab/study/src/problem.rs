//! What is wrong with a study file: a line, a column, a sentence.

use std::fmt;

/// A place in a study file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct At {
    /// From 1.
    pub(crate) line: u32,
    /// From 1, in characters.
    pub(crate) column: u32,
}

/// A mistake in a study file. It is always the file's: nothing else is looked at.
#[derive(Clone, PartialEq, Debug)]
pub struct Problem {
    /// The file, as it was named to the parser.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
    /// What it is; its text is a sentence for the user.
    pub kind: ProblemKind,
}

impl Problem {
    /// The known name that is nearest to an unknown one, where one is near.
    pub fn nearest(&self) -> Option<&str> {
        match &self.kind {
            ProblemKind::UnknownKey { nearest, .. } | ProblemKind::UnknownName { nearest, .. } => {
                nearest.as_deref()
            }
            _ => None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What a file has must not reach a terminal as more than a text.
        let kind = text::visible(&self.kind.to_string());
        write!(f, "{}:{}:{}: {kind}", self.file, self.line, self.column)
    }
}

impl std::error::Error for Problem {}

/// What a problem is.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProblemKind {
    /// The text is not YAML.
    #[error("this is not YAML: {0}")]
    NotYaml(String),
    /// The file is in another encoding.
    #[error("this is not UTF-8 (byte 0x{byte:02x}): save the file as UTF-8")]
    NotUtf8 {
        /// The first that can't be.
        byte: u8,
    },
    /// YAML, but of a kind that studies don't use.
    #[error("{0}")]
    NotUsed(&'static str),
    /// A key that means nothing here.
    #[error("{place} has no key '{key}'{}", hint(.nearest.as_deref(), .known))]
    UnknownKey {
        /// As written.
        key: String,
        /// What the key is in.
        place: String,
        /// The nearest key known there.
        nearest: Option<String>,
        /// All keys known there.
        known: String,
    },
    /// A name that is none of those known.
    #[error("unknown {what} '{name}'{}", hint(.nearest.as_deref(), .known))]
    UnknownName {
        what: &'static str,
        /// As written.
        name: String,
        /// The nearest known one.
        nearest: Option<String>,
        /// All known ones.
        known: String,
    },
    /// A key that must be there.
    #[error("{place} needs the key '{key}'")]
    Missing {
        /// What it should be in.
        place: String,
        key: &'static str,
    },
    /// Exactly one of some keys must be there.
    #[error("{place} needs exactly one of {keys}")]
    NotOneOf {
        /// What they should be in.
        place: String,
        keys: String,
    },
    /// A map, a list or a text where another is wanted.
    #[error("{place} must be {want}")]
    Shape {
        place: String,
        /// What it must be.
        want: &'static str,
    },
    /// A value that can't be.
    #[error("{place}: '{text}' is not {want}")]
    Value {
        /// The key.
        place: String,
        /// As written.
        text: String,
        /// What would do.
        want: String,
    },
    /// A name that can't be one.
    #[error("'{name}' can't be the name of a {what}: {why}")]
    Name {
        what: &'static str,
        /// As written, its beginning.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// A text that a terminal or a page would obey.
    #[error("{place} must be plain text: {what}")]
    Control {
        /// The key.
        place: String,
        /// What it has.
        what: String,
    },
    /// A value that a ceph.conf can't hold.
    #[error("the value of {option} is not possible in a ceph.conf: it has {what}")]
    NotForConf {
        option: String,
        /// What it has.
        what: &'static str,
    },
    /// A name that is there already.
    #[error("the {what} '{name}' is defined already in line {first}; {}", instead(.what))]
    Duplicate {
        what: &'static str,
        name: String,
        /// Where it is first.
        first: u32,
    },
    /// A list or map without anything in it.
    #[error("{0} is empty")]
    Empty(String),
    /// More than the lab can sensibly hold.
    #[error("too many {what}: {count} (at most {limit})")]
    TooMany {
        what: &'static str,
        /// As many.
        count: u64,
        limit: u64,
    },
    /// A modelled device that can't be.
    #[error(transparent)]
    Model(#[from] devmodel::ModelError),
    /// Things that are right alone and impossible together.
    #[error(transparent)]
    Conflict(#[from] Conflict),
}

/// Things that are right alone and impossible together.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
// The sentences say it.
pub enum Conflict {
    #[error("Ceph {release} has no FileStore (16.2 has): take bluestore, or release 16.2")]
    FileStoreGone { release: String },
    #[error("BlueStore takes a device without a file system: leave out 'fs'")]
    BlueStoreWithFileSystem,
    #[error("FileStore needs a file system on its {place}: give it 'fs'")]
    FileStoreWithoutFileSystem { place: &'static str },
    #[error("FileStore does not run on ext2: take xfs, ext4 or btrfs")]
    FileStoreOnExt2,
    #[error("a store in memory has neither place nor journal: leave out '{key}'")]
    MemoryWith { key: &'static str },
    #[error("a cluster that runs already is only measured: leave out '{key}'")]
    RunningWith { key: &'static str },
    #[error(
        "an NFS server has one place with a file system, and none of a cluster's keys: leave out '{key}'"
    )]
    NfsWith { key: &'static str },
    #[error("an NFS server needs a place with a file system")]
    NfsWithoutFileSystem,
    #[error(
        "system '{system}' is an NFS server, which runs commands only; workload '{workload}' is not a command"
    )]
    NfsWithLoad { system: String, workload: String },
    #[error("{store} does not fit in {size} bytes: give the {place} at least {} MiB", .least >> 20)]
    PlaceTooSmall { store: &'static str, place: &'static str, size: u64, least: u64 },
    #[error(
        "workload '{workload}' writes {bytes} bytes at once, and an OSD takes {} MiB (osd_max_write_size): make them \
         smaller, or set that option",
        .most >> 20
    )]
    WriteTooLarge { workload: String, bytes: u64, most: u64 },
    #[error("a journal lies on a bare device: leave out 'fs'")]
    JournalWithFileSystem,
    #[error("{copies} copies need as many OSDs; the system has {osds}")]
    CopiesAboveOsds { copies: u32, osds: u32 },
    #[error("{devices} devices for {osds} OSDs: each OSD needs one")]
    DevicesNotOsds { devices: usize, osds: u32 },
    #[error("the device {path} is given twice")]
    DeviceTwice { path: String },
    #[error("in_flight {in_flight} is not a multiple of the {instances} client instances that share it")]
    NotAMultiple { in_flight: u32, instances: u32 },
    #[error("a ladder sets depth and rate itself: leave out '{key}'")]
    LadderWith { key: &'static str },
    #[error(
        "rados bench has neither fixed rates nor percentiles: leave out '{key}', or take fio or loligo_bench"
    )]
    LadderOfBench { key: &'static str },
    #[error("the last depth {last} is below the first, {first}")]
    DepthsDescend { first: u32, last: u32 },
    #[error("rates must be in ascending order, each once")]
    RatesDescend,
    #[error("phase '{phase}' reads what no phase before it wrote{also}")]
    ReadBeforeWrite { phase: &'static str, also: &'static str },
    #[error("{load} has no phase '{phase}' (it has {has})")]
    PhaseOfAnother { load: &'static str, phase: &'static str, has: &'static str },
    #[error("only the phase 'mixed' has a share of reads: leave out 'reads'")]
    ReadsWithoutMixed,
    #[error("a request of {block} bytes does not fit in {size} bytes")]
    BlockAboveSize { block: u64, size: u64 },
    #[error(
        "workload '{workload}' has client hosts, and servers listen at 127.0.0.1: give the study the key 'listen' \
         with an address of this machine that the hosts reach"
    )]
    HostsOnLoopback { workload: String },
    #[error(
        "fio's rados engine counts reads of what was never written as reads, and a write phase may not write all: \
         leave 'prefill' at yes"
    )]
    RadosReadsUnfilled,
    #[error(
        "a rate of {rate} a second is too low for {instances} instances: each needs at least one a second"
    )]
    RateBelowInstances { rate: u32, instances: u32 },
    #[error("{first} and {second} both set {section}/{option}: they can't be crossed")]
    CrossSetsTwice { first: String, second: String, section: String, option: String },
    #[error("as_published names '{option}', which nothing in the study sets")]
    PublishedNotSet { option: String },
    #[error("the one_sigma rule has no correction: leave out 'correction'")]
    CorrectionOfOneSigma,
    #[error("'{name}' is reserved for the settings that variants are compared with")]
    NameOfDefault { name: String },
    #[error("'{name}' is a section of ceph.conf: write '{name}/OPTION: [...]' to vary an option of it")]
    NameOfSection { name: String },
}

/// What to do about something that is there twice.
fn instead(what: &str) -> &'static str {
    match what {
        "system" | "workload" | "variant" => "give one of them another name",
        _ => "leave one of them out",
    }
}

/// What may have been meant.
fn hint(nearest: Option<&str>, known: &str) -> String {
    match nearest {
        Some(name) => format!("; did you mean '{name}'?"),
        None => format!(" (known: {known})"),
    }
}

/// The problems found so far.
pub(crate) struct Problems {
    file: String,
    found: Vec<Problem>,
}

impl Problems {
    pub(crate) fn new(file: &str) -> Self {
        Self { file: file.to_owned(), found: Vec::new() }
    }

    pub(crate) fn add(&mut self, at: At, kind: impl Into<ProblemKind>) {
        let problem =
            Problem { file: self.file.clone(), line: at.line, column: at.column, kind: kind.into() };
        // What an alias repeats is said once.
        if !self.found.contains(&problem) {
            self.found.push(problem);
        }
    }

    /// Whether something was found at this very place.
    pub(crate) fn any_at(&self, at: At) -> bool {
        self.found.iter().any(|p| (p.line, p.column) == (at.line, at.column))
    }

    /// How many were found.
    pub(crate) fn count(&self) -> usize {
        self.found.len()
    }

    /// Everything that is wrong, in order of lines.
    pub(crate) fn in_order(mut self) -> Vec<Problem> {
        self.found.sort_by_key(|p| (p.line, p.column));
        self.found
    }
}
