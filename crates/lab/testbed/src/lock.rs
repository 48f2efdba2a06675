//! Locks that end with the process that holds them, however it ends.

use std::fs::File;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// How long a lock is waited for: a process that a killed run was just starting holds it until it is the new program.
const WAIT: Duration = Duration::from_secs(2);

/// Takes the lock of a file for as long as the file is open; `false` where another process keeps it.
///
/// # Errors
/// The file system's.
pub fn lock(file: &File) -> io::Result<bool> {
    let until = Instant::now() + WAIT;
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) if Instant::now() < until => sleep(Duration::from_millis(20)),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}
