//! Errors of a process that has no descriptors left.

use std::io;

use rustix::io::Errno;

/// What to do where a file can't be opened because too many are open. Nothing is wrong with that file then.
pub fn few_files(error: &io::Error) -> Option<&'static str> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => {
            Some("let the process open more files (`ulimit -n`, in a unit of systemd LimitNOFILE=)")
        }
        Errno::NFILE => Some("let the system have more files open (`sysctl fs.file-max`)"),
        _ => None,
    }
}
