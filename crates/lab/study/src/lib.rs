//! Study files: what is measured on which systems with which options, checked whole, and the plan of trials they give.
//!
//! Pure: never opens a file, starts a program or looks at the machine.
//!
//! `parse` reads YAML's events into a tree (`node`), the tree's keys (`fields`) into the parts of a [`Study`] (a module
//! for each section of the file), noting every mistake as a [`Problem`]. [`Plan`] lays out the trials. The file's
//! language is described in [`language`].

mod command;
mod conf;
mod cross;
mod design;
mod estimate;
mod fields;
mod file;
mod ladder;
mod limits;
mod model;
mod names;
mod node;
mod place;
mod plan;
mod problem;
mod settings;
mod shuffle;
mod system_rules;
mod systems;
mod trial_names;
mod variants;
mod words;
mod workloads;

pub use conf::{ceph_conf_sections, ceph_conf_text, escaped, merged, settings_of};
pub use design::MAX_BLOCKS;
pub use estimate::{plan_seconds, trial_seconds};
pub use file::{MAX_TRIALS, parse, parse_bytes, read_bytes, trials_at_most};
pub use limits::{pgs_per_osd, raised_limits};
pub use model::{
    BenchLoad, CephStore, Clients, CommandLoad, Correction, Design, DeviceModel, Engine, FileSystem, FioLoad,
    FsKind, Ladder, LatencyTarget, LoligoStore, OnFailure, Phase, Place, Profiled, RadosBench, Rule, Setting,
    Source, Stop, Study, System, Target, Variant, Workload, WorkloadKind,
};
pub use place::MODELLED_MAX;
pub use plan::{Cell, NotRun, Plan, Trial};
pub use problem::{Conflict, Problem, ProblemKind};
pub use trial_names::TrialNames;

/// The language of study files.
#[doc = include_str!("../../../../docs/studies.md")]
pub mod language {}
