//! CRUSH: the map of hosts and OSDs, and the placement of numbers on it, bit for bit as Ceph computes them.
//!
//! Decodes and encodes Ceph's binary map, runs its rules, and builds simple trees. Knows nothing of pools, epochs or
//! which OSDs are up; reads no text form.

mod build;
mod choose;
mod edit;
pub mod hash;
mod ln;
mod map;
mod msr;
mod rule;
mod wire;

pub use build::BuildError;
pub use edit::{Location, Removed};
pub use hash::stable_mod;
pub use map::{Alg, Bucket, ChooseArg, CrushMap, ITEM_NONE, Rule, RuleStep, Tunables, op};
pub use rule::{OsdFilter, Placed};
