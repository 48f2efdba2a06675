//! A power switch for tests: a crash without a process to kill.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use types::SplitMix64;

/// The power of the devices that share it ([`DeviceOptions::power`](crate::DeviceOptions::power)).
///
/// While it is off, every read, write, change of length and flush fails with EIO, and nothing reaches the files, with
/// one exception: when a device with a volatile cache is closed, a random part of what its cache held reaches the file,
/// in whole sectors, if the cut asked for that. So the files are what a loss of power leaves, and can be opened
/// again (with another switch) once the devices are closed.
#[derive(Default, Debug)]
pub struct Power(Mutex<State>, Option<PathBuf>);

#[derive(Clone, Copy, Default, Debug)]
enum State {
    #[default]
    On,
    /// Nothing can be written, everything be read.
    ReadOnly,
    /// Nothing can be made durable. When the devices are closed it is as after a cut.
    NoFlush {
        survivors_seed: Option<u64>,
    },
    /// So many writing operations until the cut.
    CutAfter {
        operations: u64,
        survivors_seed: Option<u64>,
    },
    Off {
        survivors_seed: Option<u64>,
    },
}

impl Power {
    /// Cuts the power after `operations` more writes, changes of length, flushes and sectors that a flush writes; 0 cuts
    /// it now. With a seed, each sector that a volatile cache holds then survives with a probability that the seed also
    /// chooses; without one, none survives.
    pub fn cut_after(&self, operations: u64, survivors_seed: Option<u64>) {
        *self.state() = match operations {
            0 => State::Off { survivors_seed },
            operations => State::CutAfter { operations, survivors_seed },
        };
    }

    /// A switch with which every operation, reads too, fails with EIO while there is a file at `path`: the failure of a disk
    /// that a test begins from another process.
    pub fn fails_while(path: PathBuf) -> Self {
        Self(Mutex::default(), Some(path))
    }

    fn check_file(&self) -> io::Result<()> {
        if self.1.as_ref().is_some_and(|path| path.exists()) { Err(off()) } else { Ok(()) }
    }

    /// From now on everything but reads fails with EIO: a device that is worn out, with the power on.
    pub fn fail_writes(&self) {
        *self.state() = State::ReadOnly;
    }

    /// From now on every flush and every durable write fails with EIO. What a volatile cache holds when its device is closed
    /// survives as after a cut.
    pub fn fail_flushes(&self, survivors_seed: Option<u64>) {
        *self.state() = State::NoFlush { survivors_seed };
    }

    pub fn is_off(&self) -> bool {
        matches!(*self.state(), State::Off { .. })
    }

    /// The seed by which sectors survive, if the power is off, or nothing can be made durable, and some are to.
    pub(crate) fn survivors_seed(&self) -> Option<u64> {
        match *self.state() {
            State::Off { survivors_seed } | State::NoFlush { survivors_seed } => survivors_seed,
            State::On | State::ReadOnly | State::CutAfter { .. } => None,
        }
    }

    /// Counts an operation that changes the medium. The cut comes after the last one that is allowed.
    pub(crate) fn spend(&self) -> io::Result<()> {
        self.check_file()?;
        let mut state = self.state();
        match *state {
            State::On | State::NoFlush { .. } => Ok(()),
            State::CutAfter { operations: 1, survivors_seed } => {
                *state = State::Off { survivors_seed };
                Ok(())
            }
            State::CutAfter { operations, survivors_seed } => {
                *state = State::CutAfter { operations: operations - 1, survivors_seed };
                Ok(())
            }
            State::ReadOnly | State::Off { .. } => Err(off()),
        }
    }

    /// [`Power::spend`] for a flush or a durable write.
    pub(crate) fn spend_sync(&self) -> io::Result<()> {
        if matches!(*self.state(), State::NoFlush { .. }) { Err(off()) } else { self.spend() }
    }

    /// Allows an operation that changes nothing.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_off() { Err(off()) } else { self.check_file() }
    }

    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn off() -> io::Error {
    Errno::IO.into()
}

/// Which sectors survive a cut.
pub(crate) struct Survivors {
    random: SplitMix64,
    /// Of 256 sectors so many survive.
    share: u64,
}

impl Survivors {
    pub fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let share = random.below(257);
        Self { random, share }
    }

    pub fn includes_next(&mut self) -> bool {
        self.random.below(256) < self.share
    }
}
