//! `rados bench`: what it is called with, what it says while it runs, what it says at its end. Pure but for `run`.

pub mod live;
mod run;
pub mod totals;

pub(crate) use run::run;
