//! A modelled disk as a process: mounted until it is unmounted or asked to end.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::{Handle, Signals};

use crate::backing::Backing;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::kernel;
use crate::pace::{Counts, Pace, TransportOverhead};
use crate::timing::Timing;

/// The kernel's side of FUSE.
const FUSE: &str = "/dev/fuse";

/// Threads that take requests from the kernel and do them.
const THREADS: usize = 4;

/// A modelled disk to serve.
#[derive(Clone, Debug)]
pub struct Served {
    /// Bytes.
    pub size: u64,
    /// The sparse file that holds them; made if it isn't there.
    pub backing: PathBuf,
    /// A file, made if it isn't there, that is the disk while this one is mounted on it.
    pub mount: PathBuf,
    /// What requests take besides the model.
    pub overhead: TransportOverhead,
}

/// Whatever prevents serving on this machine.
///
/// # Errors
/// [`Error::NoFuse`].
pub fn possible() -> Result<()> {
    open_fuse().map(drop)
}

fn open_fuse() -> Result<File> {
    OpenOptions::new().read(true).write(true).open(FUSE).map_err(|source| Error::NoFuse { source })
}

/// Mounts the disk, calls `ready`, and serves until it is unmounted. On SIGTERM and SIGINT it unmounts: it ends when
/// no program has the disk open any more. On SIGUSR1 it answers as fast as it can from there on.
///
/// # Errors
/// Before the mount, with the obstacle; after it, the kernel's words.
pub fn serve(served: &Served, timing: Box<dyn Timing>, ready: impl FnOnce()) -> Result<Counts> {
    let fuse = Arc::new(open_fuse()?);
    let backing = Backing::open(&served.backing, served.size)
        .map_err(|source| Error::Backing { path: served.backing.clone(), source })?;
    // What the kernel writes to make memory free may come through here: then this process must not wait for memory
    // that is freed by it. Without root's rights only that assurance is missing.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let failed = |source| Error::Mount { at: served.mount.clone(), source };
    mount_at(&fuse, &served.mount).map_err(failed)?;
    let pace = Arc::new(Pace::new(timing, served.overhead));
    let disk =
        Arc::new(Disk { fuse, backing, pace: pace.clone(), buffers: Arc::default(), turn: Mutex::default() });
    let started = start(&disk, &served.mount);
    let Ok((signals, pacer, takers)) = started else {
        // It disturbs nothing after that.
        let _ = unmount(&served.mount, UnmountFlags::DETACH);
        return Err(started.err().map_or(Error::Panicked, failed));
    };
    ready();
    let ended: Vec<_> = takers.into_iter().map(JoinHandle::join).collect();
    pace.end();
    signals.close();
    // It ends within a second, and panics only if an answer did.
    let _ = pacer.join();
    for result in ended {
        result.map_err(|_| Error::Panicked)?.map_err(|source| Error::Ended { source })?;
    }
    Ok(pace.counts())
}

/// Mounts the connection on a file.
fn mount_at(fuse: &File, at: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).open(at)?;
    let (user, group) = (rustix::process::getuid(), rustix::process::getgid());
    let (fd, mode) = (fuse.as_raw_fd(), kernel::MODE);
    let options = format!("fd={fd},rootmode={mode:o},user_id={},group_id={}", user.as_raw(), group.as_raw());
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
    Ok(mount("loligo-modelled", at, "fuse", flags, CString::new(options)?.as_c_str())?)
}

type Threads = (Handle, JoinHandle<()>, Vec<JoinHandle<io::Result<()>>>);

fn start(disk: &Arc<Disk>, at: &Path) -> io::Result<Threads> {
    let signals = hear_signals(at, disk.pace.clone())?;
    let pace = disk.pace.clone();
    let pacer = Builder::new().name("pace".into()).spawn(move || pace.run())?;
    let taker = |number| {
        let disk = disk.clone();
        Builder::new().name(format!("disk-{number}")).spawn(move || disk.run())
    };
    let takers = (0..THREADS).map(taker).collect::<io::Result<_>>()?;
    Ok((signals, pacer, takers))
}

/// A disk that is in use goes from the directory tree at once, and ends with its last user.
fn hear_signals(at: &Path, pace: Arc<Pace>) -> io::Result<Handle> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1])?;
    let handle = signals.handle();
    let at = at.to_owned();
    Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGUSR1 => pace.hurry(),
                // Unmounted already is as good.
                _ => drop(unmount(&at, UnmountFlags::DETACH)),
            }
        }
    })?;
    Ok(handle)
}
