//! What a store lies on, by its names: for the errors of its devices.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use store::{Completion, FailedAt, StoreError};

/// A block device or a file.
#[derive(Clone, Debug)]
struct OneDevice {
    path: PathBuf,
    is_file: bool,
}

impl OneDevice {
    fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), is_file: std::fs::metadata(path).is_ok_and(|found| found.is_file()) }
    }

    /// How it failed, and what to do.
    fn failed(&self, errno: types::Errno, byte: Option<u64>) -> String {
        let words = io::Error::from_raw_os_error(errno.0);
        let at = byte.map_or_else(String::new, |byte| format!(" at byte {byte}"));
        let is_full = [Errno::NOSPC, Errno::DQUOT].iter().any(|full| full.raw_os_error() == errno.0);
        let todo = match is_full {
            true if self.is_file => "make room on its file system",
            true => "give what lies below the device more space",
            false => "the system's log (`dmesg`) may say why; mend the device, or have it replaced",
        };
        format!("{} failed{at}: {words}: {todo}", self.path.display())
    }
}

/// What an open store lies on.
#[derive(Clone, Debug)]
pub struct Devices {
    data: OneDevice,
    /// `None`: the log lies beside the data.
    log: Option<OneDevice>,
}

impl Devices {
    pub fn at(data: &Path, log: Option<&Path>) -> Arc<Self> {
        Arc::new(Self { data: OneDevice::at(data), log: log.map(OneDevice::at) })
    }

    /// Has the error of a completion say which device or file failed, if one did.
    pub fn name_in(&self, completion: &mut Completion) {
        match completion {
            Completion::Refused { error, .. }
            | Completion::Read { result: Err(error), .. }
            | Completion::Rehomed { result: Err(error), .. } => self.name(error),
            Completion::Committed { .. }
            | Completion::Read { result: Ok(_), .. }
            | Completion::Rehomed { result: Ok(_), .. } => {}
        }
    }

    fn name(&self, error: &mut StoreError) {
        if let StoreError::Io { errno, at: Some(at), .. } = error {
            let FailedAt { is_log, byte, said } = &mut **at;
            let device = self.log.as_ref().filter(|_| *is_log).unwrap_or(&self.data);
            said.get_or_insert_with(|| device.failed(*errno, *byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_device_names_it_and_what_to_do() {
        let tmp = tempfile::tempdir().unwrap();
        let [data, log] = ["block", "log"].map(|name| tmp.path().join(name));
        std::fs::write(&data, b"").unwrap();
        let said = |devices: &Devices, is_log, errno, byte| {
            let at = Some(Box::new(FailedAt { is_log, byte, said: None }));
            let error = StoreError::Io { what: "write of the log", errno, at };
            let mut refused = Completion::Refused { token: store::Token(1), error };
            devices.name_in(&mut refused);
            let Completion::Refused { error, .. } = refused else { panic!("it stays what it is") };
            error.to_string()
        };
        let (beside, apart) = (Devices::at(&data, None), Devices::at(&data, Some(&log)));
        assert_eq!(
            said(&beside, false, types::Errno::ENOSPC, Some(8192)),
            format!(
                "write of the log: {} failed at byte 8192: No space left on device (os error 28): make room on its file system",
                data.display()
            )
        );
        let of_log = said(&apart, true, types::Errno::EIO, None);
        assert!(
            of_log.contains(&format!("{} failed: Input/output error", log.display()))
                && of_log.contains("`dmesg`"),
            "{of_log}"
        );
    }
}
