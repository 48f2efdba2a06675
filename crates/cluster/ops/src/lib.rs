//! The interpreter of compound object operations: what each operation of a client's request means.
//!
//! [`execute`] runs a request's operations in order over an [`ObjectView`] and an [`ObjectState`] and leaves an
//! [`OpOutcome`]: results, the mutations to store, the object's new metadata. It is pure: the same input gives the same
//! outcome. What is not resident makes the run [`ExecuteResult::Pending`]; it is then run again from the start. Here too are an
//! object's metadata in Ceph's encodings. This crate knows no PG, log, lock or store, and never does I/O.

mod attrs;
mod checksum;
mod class;
mod class_context;
mod classify;
mod clean_regions;
mod clone;
mod context;
mod copy;
mod execute;
mod filter;
mod lists;
mod object_info;
mod omap;
mod outcome;
mod read;
mod run;
mod snapset;
mod table;
mod tmap;
mod view;
mod watch;
mod write;

pub use attrs::compare;
pub use class::{ClassTable, Method, MethodRun, ObjectClass};
pub use class_context::{ClassContext, OmapPage, decode_input, decode_stored};
pub use classify::{OpClass, Rights, classify};
pub use clean_regions::CleanRegions;
pub use clone::NewClone;
pub use context::{Caller, FullKind, OpContext, OpLimits};
pub use copy::{CopiedObject, CopySource, copy_get_op};
pub use execute::execute;
pub use filter::{AttributeIs, ClassFilter, ListFilter};
pub use object_info::{ObjectFlags, ObjectInfo, RawManifest, WatchId, WatchInfo, Watchers};
pub use outcome::{
    ExecuteResult, Mutation, ObjectState, OpOutcome, OpReturn, Record, ReplyExtents, StatsDelta,
};
pub use run::StepError;
pub use snapset::{FoundSnap, SnapSet};
pub use table::{OpSpec, SpaceUse, spec};
pub use view::{Fetched, Need, NeedOf, ObjectView};
pub use watch::{OpEffect, WatchContext};
