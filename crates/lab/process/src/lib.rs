//! Processes on this machine: what the kernel reports of them and of the machine (`/proc`), and children that may run
//! for a bounded time. Never starts a program itself, never chooses which processes to end.

mod child;
pub mod kernel;
pub mod mounts;
mod output;

pub use child::{End, end_and_errors, wait};
pub use kernel::{ProcessStat, is_running, meminfo, stat};
pub use output::{beginning, last_words};
