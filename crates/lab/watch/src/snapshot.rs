//! Everything at one moment, read from the kernel.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;

use process::ProcessStat;
use process::kernel::{self, Disk};

use crate::energy::Energy;
use crate::error::Error;
use crate::tree::{Reading, Totals, Tree};

/// Totals at a moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Snapshot {
    /// Seconds since the origin.
    pub t: f64,
    /// By name.
    pub processes: BTreeMap<String, Totals>,
    /// Busy ticks of all cores.
    pub busy: u64,
    /// Context switches of the machine.
    pub switches: u64,
    /// Bytes in use.
    pub memory: Option<u64>,
    /// Those that were asked for.
    pub disks: BTreeMap<String, Disk>,
    /// Bytes by interface, those that were asked for.
    pub interfaces: BTreeMap<String, u64>,
    /// Microseconds by resource: `cpu`, `io`, `memory`.
    pub pressure: BTreeMap<&'static str, u64>,
    /// Joules since the first one.
    pub joules: Option<f64>,
}

/// Reads snapshots.
#[derive(Debug)]
pub(crate) struct Reader {
    pub tree: Tree,
    pub devices: Vec<String>,
    pub interfaces: Vec<String>,
    pub energy: Option<Energy>,
    buffer: String,
}

impl Reader {
    pub fn new(tree: Tree, devices: Vec<String>, interfaces: Vec<String>) -> Result<Self, Error> {
        const PATH: &str = "/proc/diskstats";
        let mut reader = Self { tree, devices, interfaces, energy: Energy::find(), buffer: String::new() };
        if !reader.devices.is_empty() {
            let text =
                fs::read_to_string(PATH).map_err(|e| Error::Kernel { path: PATH, why: e.to_string() })?;
            let known = kernel::disks(&text);
            if let Some(name) = reader.devices.iter().find(|d| !known.contains_key(*d)) {
                let known = known.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(Error::NoDevice { name: name.clone(), known });
            }
        }
        let text = reader.text("/proc/stat").unwrap_or_default();
        if kernel::machine(text).is_none() {
            return Err(Error::Kernel { path: "/proc/stat", why: "it has no CPU times".to_owned() });
        }
        Ok(reader)
    }

    /// Reads all now. What can't be read is missing.
    pub fn take(&mut self, t: f64) -> Snapshot {
        let mut snapshot = Snapshot { t, ..Snapshot::default() };
        let buffer = &mut self.buffer;
        self.tree.update(&mut |pid| process(pid, buffer));
        snapshot.processes = self.tree.totals();
        (snapshot.busy, snapshot.switches) =
            self.text("/proc/stat").and_then(kernel::machine).unwrap_or_default();
        snapshot.memory = self.text("/proc/meminfo").and_then(kernel::memory_used);
        if !self.devices.is_empty() {
            let disks = self.text("/proc/diskstats").map(kernel::disks).unwrap_or_default();
            snapshot.disks = disks.into_iter().filter(|(n, _)| self.devices.contains(n)).collect();
        }
        if !self.interfaces.is_empty() {
            let found = self.text("/proc/net/dev").map(kernel::interfaces).unwrap_or_default();
            snapshot.interfaces = found.into_iter().filter(|(n, _)| self.interfaces.contains(n)).collect();
        }
        for (name, path) in
            [("cpu", "/proc/pressure/cpu"), ("io", "/proc/pressure/io"), ("memory", "/proc/pressure/memory")]
        {
            if let Some(total) = self.text(path).and_then(kernel::pressure) {
                snapshot.pressure.insert(name, total);
            }
        }
        snapshot.joules = self.energy.as_mut().map(Energy::joules);
        snapshot
    }

    fn text(&mut self, path: &str) -> Option<&str> {
        read(Path::new(path), &mut self.buffer)
    }
}

fn read<'a>(path: &Path, buffer: &'a mut String) -> Option<&'a str> {
    buffer.clear();
    fs::File::open(path).ok()?.read_to_string(buffer).ok()?;
    Some(buffer)
}

/// One process with its threads' switches and its children.
fn process(pid: u32, buffer: &mut String) -> Option<Reading> {
    let base = Path::new("/proc").join(pid.to_string());
    let stat = kernel::process_stat(read(&base.join("stat"), buffer)?).filter(ProcessStat::is_running)?;
    let mut reading = Reading { stat, ..Reading::default() };
    for entry in fs::read_dir(base.join("task")).ok()?.flatten() {
        let path = entry.path();
        let thread = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
        // Kernels built without scheduling statistics lack the first; a thread that ends in between has neither.
        let switches = read(&path.join("schedstat"), buffer)
            .and_then(kernel::thread_runs)
            .or_else(|| read(&path.join("status"), buffer).and_then(kernel::thread_switches));
        reading.threads.extend(thread.zip(switches));
        let children = read(&path.join("children"), buffer).unwrap_or_default();
        reading.children.extend(children.split_ascii_whitespace().filter_map(|c| c.parse::<u32>().ok()));
    }
    Some(reading)
}
