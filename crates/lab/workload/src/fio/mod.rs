//! fio: what it is called with, the documents it prints, its histograms. Pure but for `run`.

mod arguments;
pub mod document;
pub mod histogram;
mod run;

pub(crate) use run::{REMEDY, run};
