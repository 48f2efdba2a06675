//! One run at a time in a results directory.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use crate::error::LabError;

/// How long a lock is waited for: a process that a killed run was just starting holds it until it is the new program.
const WAIT: Duration = Duration::from_secs(2);

/// The directory is this run's as long as this lives; the end of the process, however it comes, gives it free.
pub(crate) struct Alone {
    _locked: File,
}

/// Takes a results directory for this run.
///
/// # Errors
/// [`LabError::Busy`] where another run has it.
pub(crate) fn take(out: &Path) -> Result<Alone, LabError> {
    let path = out.join("run.lock");
    let file = File::create(&path).map_err(LabError::file(&path))?;
    let until = Instant::now() + WAIT;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Alone { _locked: file }),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LabError::Busy { path: out.to_owned() }),
            Err(error) => return Err(LabError::file(&path)(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_runs_until_that_ends() {
        let out = std::env::temp_dir().join(format!("loligo-lab-alone-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        let first = take(&out);
        let second = take(&out);
        assert!(first.is_ok() && matches!(second, Err(LabError::Busy { .. })));
        drop(first);
        let third = take(&out);
        std::fs::remove_dir_all(&out).unwrap();
        assert!(third.is_ok());
    }
}
