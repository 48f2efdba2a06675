//! `loligo bench`: what it is called with, and what it says. Pure but for `run`.

mod arguments;
mod output;
mod run;

pub(crate) use run::{REMEDY, program_name, run};
