//! Ctrl-C: noticed, so that a trial is taken down and the run can go on later.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants to stop.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    wanted: Arc<AtomicBool>,
    /// Nothing has been started yet: a signal ends the process at once.
    before_start: Arc<AtomicBool>,
}

/// The exit code of a run that the user stopped.
pub(crate) const STOPPED: u8 = 130;

impl Interrupt {
    /// SIGINT and SIGTERM end the process; from [`Interrupt::starting`] on they are noticed.
    pub fn install() -> Self {
        let new = Self { wanted: Arc::default(), before_start: Arc::new(AtomicBool::new(true)) };
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            // Without it an interrupted run is cleaned up at the next start.
            let _ = signal_hook::flag::register_conditional_shutdown(
                signal,
                STOPPED.into(),
                new.before_start.clone(),
            );
            let _ = signal_hook::flag::register(signal, new.wanted.clone());
        }
        new
    }

    /// There may be something to take down now.
    pub fn starting(&self) {
        self.before_start.store(false, Ordering::SeqCst);
    }

    pub fn is_set(&self) -> bool {
        self.wanted.load(Ordering::Relaxed)
    }

    pub fn flag(&self) -> Arc<AtomicBool> {
        self.wanted.clone()
    }
}
