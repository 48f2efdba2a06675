//! What a system makes of an option, and why.

use std::fmt;

use study::Setting;

use crate::parts::Process;

/// What a system makes of an option.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// A program that runs on the system acts on it.
    Effective,
    /// A name of earlier releases whose work other options do now. It is not rewritten: the new options rarely mean
    /// quite the same (a share instead of bytes, a product of two, the inverse), so a rewritten study would no longer be
    /// the one in the file. Nothing acts on the old name, so it counts as without effect until the study uses a new one.
    Renamed {
        /// The options of today that act on this system, at least one.
        to: Vec<&'static str>,
        /// What became of it: the part of a sentence.
        sentence: &'static str,
    },
    /// The system takes it and nothing there acts on it.
    AcceptedWithoutEffect { why: Why },
    /// No system of the lab has it, or ever had.
    Unknown {
        /// The nearest name that this system has, if any is near enough to be meant.
        nearest: Option<&'static str>,
    },
}

/// Why an option has no effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// The release's programs still parse it; none reads it.
    NobodyReads {
        /// Ceph's release.
        release: &'static str,
    },
    /// Only parts of Ceph read it that don't run on this system.
    NotRunning {
        /// Those parts, as a sentence calls them.
        readers: Vec<&'static str>,
    },
    /// It is in a section of ceph.conf that none of its readers reads.
    OtherSection {
        section: String,
        /// The processes that read it.
        readers: Vec<Process>,
    },
    /// It is in the section of one daemon, which this system doesn't have.
    NoSuchDaemon { section: String },
    /// The study sets the same option in a narrower section, which wins.
    Overridden { section: String },
    /// A rule (`rules.txt`): the rest of a sentence.
    Rule(&'static str),
    /// An option of earlier releases that has no counterpart today: the part of a sentence.
    Gone(&'static str),
    /// An option of earlier releases whose work others do now, which have no effect here either.
    SoIsItsSuccessor {
        /// The first of those.
        to: &'static str,
        /// What became of the option.
        sentence: &'static str,
    },
    /// This release does not know it; others do.
    OnlyIn {
        /// Systems that know it: `Ceph 18.2`, `Loligo`.
        systems: Vec<String>,
    },
    /// Ceph's option, for which Loligo has nothing to tune.
    NothingToTune,
    /// Loligo's servers share one process, to which sections of single daemons (and of metadata servers) aren't passed.
    NotPassed { section: String },
    /// A cluster that runs already is measured as it is.
    Running,
    /// There is no cluster.
    NoCluster,
}

/// An option and what a system makes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resolved {
    /// As the study has it.
    pub setting: Setting,
    /// What the system makes of it.
    pub verdict: Verdict,
    /// The processes that act on it; empty unless effective.
    pub acts_in: Vec<Process>,
    /// Whether its value is the system's own default: it is effective, and changes nothing unless something else does.
    pub at_default: bool,
}

/// Whether a system acts on none of these settings: a variant of them is not run there, its cell reads 'nothing to
/// tune'. No settings at all are not nothing: a variant without any is a second default, made on purpose.
pub fn nothing_effective(settings: &[Resolved]) -> bool {
    !settings.is_empty() && settings.iter().all(|s| s.verdict != Verdict::Effective)
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Effective => f.write_str("effective"),
            Self::Renamed { to, sentence } => write!(f, "renamed to {}: {sentence}", to.join(", ")),
            Self::AcceptedWithoutEffect { why } => write!(f, "accepted without effect: {why}"),
            Self::Unknown { nearest: Some(name) } => write!(f, "unknown; did you mean '{name}'?"),
            Self::Unknown { nearest: None } => f.write_str("unknown, and no known name is near it"),
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NobodyReads { release } => {
                write!(f, "Ceph {release} still parses it, and nothing reads it")
            }
            Self::NotRunning { readers } => {
                write!(f, "only {} read it, and this system does not run them", readers.join(" and "))
            }
            Self::OtherSection { section, readers } => {
                let names: Vec<&str> = readers.iter().map(|p| p.name()).collect();
                write!(f, "it is set in [{section}], but read from [{}]", names.join("], ["))
            }
            Self::NoSuchDaemon { section } => write!(f, "this system has no {section}"),
            Self::Overridden { section } => write!(f, "the study sets it in [{section}] too, which wins"),
            Self::Rule(why) | Self::Gone(why) => f.write_str(why),
            Self::SoIsItsSuccessor { to, sentence } => {
                write!(f, "{sentence}; {to} has no effect here either")
            }
            Self::OnlyIn { systems } => {
                write!(f, "this release doesn't know it; known to {}", systems.join(", "))
            }
            Self::NothingToTune => f.write_str("it is Ceph's; Loligo has nothing for it to tune"),
            Self::NotPassed { section } => {
                write!(f, "Loligo's servers share one process, which does not get [{section}]")
            }
            Self::Running => f.write_str("a running cluster is measured with its own configuration"),
            Self::NoCluster => f.write_str("the system is not a cluster"),
        }
    }
}
