//! The kernel's block events: what each device is given, request by request, while a phase runs.
//!
//! They are what blktrace shows, taken from tracefs in its place: there they can be had on more hosts, need no program,
//! and have a buffer of their own that disturbs no other tracing. Nothing is mounted for that.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use results::Requests;
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};

use crate::error::Error;
use crate::seeks::{self, Device, Plot};

/// The event, below `events`.
const EVENT: &str = "events/block/block_rq_issue";

/// Kibibytes of each core's buffer: a second of forty thousand requests.
const BUFFER: &str = "4096";

/// Begins the names of our buffers; the process's id and start follow.
const NAME: &str = "loligo-lab";

/// How often lines are fetched.
const FETCH: Duration = Duration::from_millis(50);

/// How long the last lines may take.
const END: Duration = Duration::from_secs(10);

/// Where tracefs is mounted.
///
/// # Errors
/// It isn't, or this user may not see it, or the kernel has no block events.
pub fn available() -> Result<PathBuf, Error> {
    let why = |why: &str| Error::Events { why: why.to_owned() };
    let root = process::mounts::all()
        .into_iter()
        .find_map(|mount| (mount.kind == "tracefs").then_some(mount.at))
        .ok_or_else(|| why("tracefs is not mounted: mount -t tracefs tracefs /sys/kernel/tracing"))?;
    match fs::metadata(root.join(EVENT).join("enable")) {
        Ok(_) => Ok(root),
        Err(e) if e.kind() == ErrorKind::PermissionDenied => Err(why("only root may")),
        Err(_) => Err(why("this kernel has no block events (CONFIG_BLK_DEV_IO_TRACE)")),
    }
}

/// Requests that are written down.
#[derive(Debug)]
pub struct Tracing {
    instance: Instance,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<Requests>>>,
}

impl Tracing {
    /// Begins, on devices by their kernel names. Times count from `origin`.
    ///
    /// # Errors
    /// As [`available`]; a device that the kernel doesn't know.
    pub fn start(devices: &[String], origin: Instant) -> Result<Self, Error> {
        let root = available()?;
        let known: Vec<Device> = devices.iter().map(|name| device(name)).collect::<Result<_, _>>()?;
        sweep(&root);
        let instance = Instance::make(&root)?;
        let lines = instance.begin(&known)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopping = Arc::clone(&stop);
        let now = clock_gettime(ClockId::Monotonic);
        let begin = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9 - origin.elapsed().as_secs_f64();
        let reading = Reading {
            lines,
            plots: known.into_iter().map(|d| (d.number, Plot::new(d))).collect(),
            begin,
            lost: 0,
        };
        let thread = thread::Builder::new().name("requests".to_owned()).spawn(move || reading.run(&stopping));
        Ok(Self { instance, stop, thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Ends it and gives what each device was given.
    #[must_use]
    pub fn end(mut self) -> Vec<Requests> {
        self.finish()
    }

    fn finish(&mut self) -> Vec<Requests> {
        // Without the event nothing more comes; if that can't be, the reader's own bound ends it.
        let _ = self.instance.write(&format!("{EVENT}/enable"), "0");
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A buffer of our own; removed when dropped.
#[derive(Debug)]
struct Instance(PathBuf);

impl Instance {
    fn make(root: &Path) -> Result<Self, Error> {
        let pid = std::process::id();
        let path = root.join("instances").join(format!("{NAME}-{pid}-{}", started(pid).unwrap_or_default()));
        match fs::create_dir(&path) {
            Ok(()) => Ok(Self(path)),
            Err(source) => Err(Error::EventFile { path, source }),
        }
    }

    /// Gives the lines as they come.
    fn begin(&self, devices: &[Device]) -> Result<File, Error> {
        let numbers: Vec<String> =
            devices.iter().map(|d| format!("dev == {}", d.number.0 << 20 | d.number.1)).collect();
        self.write("trace_clock", "mono")?;
        self.write("buffer_size_kb", BUFFER)?;
        self.write(&format!("{EVENT}/filter"), &numbers.join(" || "))?;
        let path = self.0.join("trace_pipe");
        // It is one of the lower bits everywhere.
        let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
        let lines = OpenOptions::new().read(true).custom_flags(flags).open(&path);
        let lines = lines.map_err(|source| Error::EventFile { path, source })?;
        self.write(&format!("{EVENT}/enable"), "1")?;
        Ok(lines)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(|source| Error::EventFile { path, source })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What stays is removed by the next one that starts.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Removes what processes of ours left that were killed.
fn sweep(root: &Path) {
    for entry in fs::read_dir(root.join("instances")).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|(pid, start)| started(pid) != Some(start)) {
            // It may be gone already.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Whose buffer it is.
fn owner(name: &str) -> Option<(u32, u64)> {
    let (pid, start) = name.strip_prefix(NAME)?.strip_prefix('-')?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// When a process started, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    process::stat(pid).filter(process::ProcessStat::is_running).map(|stat| stat.start)
}

/// A device's number and place; a part of a disk has its whole disk's number in events.
fn device(name: &str) -> Result<Device, Error> {
    let unknown =
        || Error::NoDevice { name: name.to_owned(), known: "those below /sys/class/block".to_owned() };
    let own = fs::canonicalize(Path::new("/sys/class/block").join(name)).map_err(|_| unknown())?;
    let is_part = own.join("partition").exists();
    let whole = if is_part { own.parent().ok_or_else(unknown)?.to_owned() } else { own.clone() };
    let text = |path: PathBuf| fs::read_to_string(path).ok().map(|t| t.trim().to_owned());
    let number = |path: PathBuf| text(path).and_then(|t| t.parse::<u64>().ok());
    let dev = text(whole.join("dev")).ok_or_else(unknown)?;
    let (major, minor) = dev.split_once(':').ok_or_else(unknown)?;
    Ok(Device {
        name: name.to_owned(),
        number: (major.parse().map_err(|_| unknown())?, minor.parse().map_err(|_| unknown())?),
        first: if is_part { number(own.join("start")).unwrap_or(0) } else { 0 },
        sectors: number(own.join("size")).ok_or_else(unknown)?,
    })
}

/// The reader's own.
struct Reading {
    lines: File,
    plots: Vec<((u32, u32), Plot)>,
    /// The origin on the kernel's clock.
    begin: f64,
    lost: u64,
}

impl Reading {
    fn run(mut self, stop: &AtomicBool) -> Vec<Requests> {
        let mut buffer = vec![0; 64 << 10];
        let mut text = Vec::new();
        let mut stopping: Option<Instant> = None;
        loop {
            // Asked before reading: what came until then is read.
            if stopping.is_none() && stop.load(Ordering::Relaxed) {
                stopping = Some(Instant::now());
            }
            match self.lines.read(&mut buffer) {
                Ok(read) if read > 0 => text.extend_from_slice(buffer.get(..read).unwrap_or_default()),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                // Nothing now: an end, or the last of it.
                _ if stopping.is_some() => break,
                _ => thread::sleep(FETCH),
            }
            self.take(&mut text);
            if stopping.is_some_and(|since| since.elapsed() > END) {
                break;
            }
        }
        let lost = self.lost;
        self.plots.into_iter().map(|(_, plot)| plot.finish(lost)).collect()
    }

    /// Takes the whole lines.
    fn take(&mut self, text: &mut Vec<u8>) {
        let Some(end) = text.iter().rposition(|b| *b == b'\n') else { return };
        for line in String::from_utf8_lossy(text.get(..end).unwrap_or_default()).lines() {
            if let Some(found) = seeks::line(line) {
                let mut request = found.request;
                request.t -= self.begin;
                let of_it = self.plots.iter_mut().filter(|(number, _)| *number == found.number);
                of_it.for_each(|(_, plot)| plot.take(request));
            } else if let Some(lost) = seeks::lost(line) {
                self.lost += lost;
            }
        }
        text.drain(..=end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_buffers_have_an_owner() {
        assert_eq!(owner("loligo-lab-17-4711"), Some((17, 4711)));
        for other in ["loligo-lab", "loligo-lab-17", "loligo-lab-x-1", "perf-17-4711"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_by_name() {
        assert!(device("nosuch9").unwrap_err().to_string().contains("nosuch9"));
    }

    #[test]
    fn requests_of_this_machines_disk_are_seen() {
        let disks: Vec<String> = fs::read_dir("/sys/class/block")
            .unwrap()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .filter(|n| n.starts_with("vd") || n.starts_with("sd") || n.starts_with("nvme"))
            .collect();
        let tracing = match Tracing::start(&disks, Instant::now()) {
            Ok(tracing) => tracing,
            Err(why) => {
                println!("not here: {why}");
                return;
            }
        };
        let dir = tempfile::tempdir_in(".").unwrap();
        let path = dir.path().join("x");
        fs::write(&path, vec![7; 1 << 20]).unwrap();
        File::open(&path).unwrap().sync_all().unwrap();
        let instance = tracing.instance.0.clone();
        let found = tracing.end();
        assert!(!instance.exists());
        let written: u64 = found.iter().flat_map(|r| &r.seconds).map(|s| s.writes).sum();
        // A file system that is in memory has no disk.
        println!("{written} writes on {disks:?}");
        assert!(found.iter().flat_map(|r| &r.requests).all(|r| (0.0..60.0).contains(&r.t)));
    }
}
