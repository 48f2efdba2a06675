//! Study files: what is measured on which systems with which options, checked whole, and the plan of trials they give.
//!
//! Pure: never opens a file, starts a program or looks at the machine.

mod model;

pub use model::{
    CephStore, Clients, CommandLoad, Correction, Design, DeviceModel, Engine, FileSystem, FioLoad, FsKind,
    LoligoStore, OnFailure, Phase, Place, RadosBench, Rule, Setting, Source, Stop, Study, System, Target,
    Variant, Workload, WorkloadKind,
};
