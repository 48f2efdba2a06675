//! One run at a time in a results directory.

use std::fs::File;
use std::path::Path;

use crate::error::LabError;

/// The directory is this run's as long as this lives; the end of the process, however it comes, gives it free.
pub(crate) struct RunLock {
    _locked: File,
}

/// Takes a results directory for this run.
///
/// # Errors
/// [`LabError::Busy`] where another run has it.
pub(crate) fn acquire(out: &Path) -> Result<RunLock, LabError> {
    let path = out.join("run.lock");
    let file = File::create(&path).map_err(LabError::file(&path))?;
    match testbed::lock(&file).map_err(LabError::file(&path))? {
        true => Ok(RunLock { _locked: file }),
        false => Err(LabError::Busy { path: out.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_one_runs_until_that_ends() {
        let out = std::env::temp_dir().join(format!("loligo-lab-run-lock-{}", std::process::id()));
        std::fs::create_dir_all(&out).unwrap();
        let first = acquire(&out);
        let second = acquire(&out);
        assert!(first.is_ok() && matches!(second, Err(LabError::Busy { .. })));
        drop(first);
        let third = acquire(&out);
        std::fs::remove_dir_all(&out).unwrap();
        assert!(third.is_ok());
    }
}
