//! What each system under test makes of a study's options: effective, renamed, accepted without effect, or unknown with
//! the nearest name. Pure: never starts a program, reads a file or rewrites a study.
//!
//! The facts are in text files, so that they can be read and corrected without reading code:
//! - `tables/ceph-RELEASE.txt`: a release's options with type, limits, default and the parts of Ceph that read each,
//!   made by `make-tables.py` from the programs themselves.
//! - `rules.txt`: options that are read and still do nothing on some system (a store, a file system, another option).
//! - `old-names.txt`: what became of options of earlier releases.
//!
//! An option is effective where a process runs on the system whose code reads it, and which reads the section of
//! ceph.conf that it stands in, unless a rule says no. Loligo's own options are those of the crate `options`; its clients
//! are Ceph's programs and read theirs.

mod check;
mod loligo;
mod old_names;
mod parts;
mod repeats;
mod resolve;
mod rules;
mod table;
mod values;
mod verdict;

pub use check::{Problem, ProblemKind, Resolution, SystemOptions, check};
pub use parts::Process;
pub use resolve::resolve;
pub use table::Release;
pub use values::BadValue;
pub use verdict::{Resolved, Verdict, Why, nothing_effective};
