//! Watches processes and devices while a load runs, a sample a second. Never acts on them and never judges.
//!
//! [`Watch::start`] begins a thread that reads the kernel's figures on an exact beat and hands on a
//! [`results::Sample`] each time; [`Watch::begin`] and [`Watch::end`] mark a phase and give its [`PhaseUse`].
//!
//! ```text
//! parse      text of /proc to numbers                        (pure)
//! tree       processes under names, with their children      (pure over what is read)
//! snapshot   everything at one moment
//! change     two snapshots -> a Sample, CpuUse, DeviceUse    (pure)
//! sampler    the thread and the marks
//! energy     joules of the processor's packages, where the host reports them
//! cycles     `perf stat`, where the host counts
//! counters   Ceph's perf counters before and after           (pure but for the admin socket)
//! profile    `perf record` while a phase runs; stacks folds what it saw (pure)
//! events     requests that devices were given, from tracefs; seeks makes the plot of them (pure)
//! ```
//!
//! **What it costs.** 2.1 ms of CPU a sample for a process of 120 threads, on a virtual core of a 2026 machine: 0.2% of a
//! core at a sample a second, nearly all of it for context switches and children, which the kernel tells for each thread
//! alone. The `watching_costs_little` test measures it, and [`Watch::stop`] tells what it was.
//!
//! **Limits.** CPU is counted in the kernel's ticks of 10 ms. What a process did between the last sample and its end is
//! not seen, up to a second's worth: the figures of short-lived clients are better taken by the process that waits for them. A
//! thread's switches are lost with it likewise.

mod change;
pub mod counters;
pub mod cycles;
mod energy;
mod error;
pub mod events;
pub mod profile;
mod sampler;
mod seeks;
mod snapshot;
mod stacks;
mod tree;

pub use change::PhaseUse;
pub use error::Error;
pub use sampler::{Cost, Sink, Wanted, Watch};
