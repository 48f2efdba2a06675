//! What the process does when its OSDs may take more or less memory than before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Whether a thread will give memory back.
static IS_DUE: AtomicBool = AtomicBool::new(false);

/// How long the stores are given to heed a bound, and after that to have heeded the rest of it: they do so with their turns, each of
/// which drops a bounded part, and an OSD without requests has few.
const HEEDED_AFTER: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(3), Duration::from_secs(10)];

/// Sets what gives memory that is free back to the system. It is called, on a thread of its own, when OSDs were given another
/// bound of their memory (`osd_memory_target`), some times while they heed it.
pub fn on_memory_bound(give_back: fn()) {
    // Set once, when the program begins.
    let _ = GIVE_BACK.set(give_back);
}

/// A store has another bound. Not on its core's thread: gigabytes take the system a while, during which the core served no one.
pub(crate) fn note_other_bound() {
    let Some(give_back) = GIVE_BACK.get() else { return };
    // One for all stores that are told at the same time.
    if IS_DUE.swap(true, Ordering::Relaxed) {
        return;
    }
    let work = || {
        for pause in HEEDED_AFTER {
            thread::sleep(pause);
            // A bound that is set from now on has a thread of its own.
            IS_DUE.store(false, Ordering::Relaxed);
            give_back();
        }
    };
    if let Err(error) = thread::Builder::new().name("give-back".into()).spawn(work) {
        IS_DUE.store(false, Ordering::Relaxed);
        tracing::debug!("memory that is free goes back to the system later: {error}");
    }
}
