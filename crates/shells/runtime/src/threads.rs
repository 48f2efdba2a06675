//! A core: a pinned thread with its own event loop.

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use rustix::thread::{CpuSet, sched_setaffinity};
use tokio::task::LocalSet;

/// Starts a thread, pins it to CPU `index` (modulo those there are), and runs the future that `start` makes on a
/// single-threaded event loop until it ends. Everything made inside stays on that thread and needs no lock.
pub fn spawn_core<F, T>(
    index: usize,
    pin: bool,
    start: impl FnOnce() -> F + Send + 'static,
) -> io::Result<JoinHandle<T>>
where
    F: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    std::thread::Builder::new().name(format!("core-{index}")).spawn(move || {
        if pin {
            pin_to(index);
        }
        LocalSet::new().block_on(&runtime, start())
    })
}

/// Pinning is a help, not a need: where the system refuses it, the thread just moves.
fn pin_to(index: usize) {
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut set = CpuSet::new();
    set.set(index % cpus);
    let _ = sched_setaffinity(None, &set);
}
