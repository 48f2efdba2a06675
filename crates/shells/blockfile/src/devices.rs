//! What a store lies on, by its names: for the errors of its devices.

use std::path::Path;
use std::sync::Arc;

use device::NamedDevice;
use store::{Completion, FailedAt, ReadOutcome, StoreError};

/// What an open store lies on.
#[derive(Clone, Debug)]
pub struct Devices {
    data: NamedDevice,
    /// `None`: the log lies beside the data.
    log: Option<NamedDevice>,
}

impl Devices {
    pub fn at(data: &Path, log: Option<&Path>) -> Arc<Self> {
        Arc::new(Self { data: NamedDevice::at(data), log: log.map(NamedDevice::at) })
    }

    /// Has the error of a completion say which device or file failed, if one did.
    pub fn name_in(&self, completion: &mut Completion) {
        match completion {
            Completion::Refused { error, .. }
            | Completion::Read { result: Err(error), .. }
            | Completion::Rehomed { result: Err(error), .. } => self.name(error),
            // What of a list can't be read has a reason of its own.
            Completion::Read { result: Ok(ReadOutcome::Objects(page)), .. } => {
                page.gaps.iter_mut().for_each(|gap| self.name(&mut gap.why));
            }
            Completion::Committed { .. }
            | Completion::Read { result: Ok(_), .. }
            | Completion::Rehomed { result: Ok(_), .. } => {}
        }
    }

    /// The same of an error alone.
    pub fn name(&self, error: &mut StoreError) {
        let (StoreError::Io { errno, at, .. } | StoreError::Unreadable { errno, at, .. }) = error else {
            return;
        };
        if let Some(at) = at {
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
        let at = Some(Box::new(FailedAt { is_log: false, byte: Some(4096), said: None }));
        let mut unreadable = StoreError::Unreadable { what: "read of data", errno: types::Errno::EIO, at };
        beside.name(&mut unreadable);
        let (data, words) = (data.display(), unreadable.to_string());
        assert!(
            words.starts_with(&format!("read of data: {data} failed at byte 4096: Input/output")),
            "{words}"
        );
        let of_log = said(&apart, true, types::Errno::EIO, None);
        assert!(
            of_log.contains(&format!("{} failed: Input/output error", log.display()))
                && of_log.contains("`dmesg`"),
            "{of_log}"
        );
    }
}
