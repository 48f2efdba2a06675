//! What happened between two snapshots. Pure.

use std::collections::BTreeMap;

use results::{CpuUse, DeviceUse, Process, Sample};

use crate::snapshot::Snapshot;
use crate::tree::Totals;
use process::kernel::Disk;

/// How the kernel counts.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Units {
    /// Ticks a second.
    pub ticks: f64,
    /// Bytes of a page.
    pub page: u64,
}

impl Units {
    pub fn here() -> Self {
        Self {
            ticks: rustix::param::clock_ticks_per_second() as f64,
            page: rustix::param::page_size() as u64,
        }
    }
}

/// The name whose processes are clients: their CPU is not the servers'.
const CLIENT: &str = "client";

/// A sample from two snapshots; `phase` is what ran between them.
pub(crate) fn sample(before: &Snapshot, now: &Snapshot, phase: &str, units: Units) -> Sample {
    let seconds = now.t - before.t;
    let mut values = BTreeMap::new();
    let mut put = |name: String, value: f64| {
        if value.is_finite() {
            values.insert(name, value);
        }
    };
    for (name, totals) in &now.processes {
        let was = before.processes.get(name).copied().unwrap_or_default();
        let ticks = totals.user.saturating_sub(was.user) + totals.system.saturating_sub(was.system);
        put(format!("cpu.{name}"), ticks as f64 / units.ticks / seconds);
        put(format!("memory.{name}"), (totals.resident * units.page) as f64);
    }
    put("cpu.machine".into(), now.busy.saturating_sub(before.busy) as f64 / units.ticks / seconds);
    put("switches".into(), now.switches.saturating_sub(before.switches) as f64 / seconds);
    if let Some(memory) = now.memory {
        put("memory.machine".into(), memory as f64);
    }
    for (name, disk) in changed_disks(before, now) {
        let device = device(&disk, seconds);
        put(format!("disk.{name}.read"), device.read as f64 / seconds);
        put(format!("disk.{name}.written"), device.written as f64 / seconds);
        put(format!("disk.{name}.busy"), device.busy);
        if disk.requests() > 0 {
            put(format!("disk.{name}.wait_ms"), device.wait_ms);
        }
        if disk.reads + disk.writes > 0 {
            put(format!("disk.{name}.request"), device.request);
        }
    }
    for (name, bytes) in &now.interfaces {
        let was = before.interfaces.get(name).unwrap_or(bytes);
        put(format!("net.{name}.bytes"), bytes.saturating_sub(*was) as f64 / seconds);
    }
    for (name, us) in &now.pressure {
        let was = before.pressure.get(name).unwrap_or(us);
        // The kernel brings its sums up to date when it pleases: a second may get a little of the one before.
        put(format!("pressure.{name}"), (us.saturating_sub(*was) as f64 / 1e6 / seconds).min(1.0));
    }
    Sample { t: now.t, phase: phase.to_owned(), values }
}

/// What a phase took.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PhaseUse {
    /// Its name.
    pub phase: String,
    /// Between its marks.
    pub seconds: f64,
    /// By the names given.
    pub processes: BTreeMap<String, Process>,
    /// Busy seconds of the machine, over all cores.
    pub machine_s: f64,
    /// By the names given.
    pub devices: BTreeMap<String, DeviceUse>,
    /// Of the processor's packages; `None` where the host does not report it.
    pub joules: Option<f64>,
    /// Of the servers; `None`: not counted.
    pub cycles: Option<u64>,
}

impl PhaseUse {
    /// CPU, with what an operation took of the servers. Servers are all processes but those named `client`.
    #[must_use]
    pub fn cpu(&self, operations: u64) -> CpuUse {
        let server_s: f64 =
            self.processes.iter().filter(|(n, _)| *n != CLIENT).map(|(_, p)| p.user_s + p.system_s).sum();
        let per = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
        CpuUse {
            by_process: self.processes.clone(),
            machine_s: self.machine_s,
            server_us_per_op: per(server_s * 1e6, operations as f64),
            ops_per_core_s: per(operations as f64, server_s),
            cycles: self.cycles,
        }
    }

    /// Bytes written to the named devices for each byte that clients wrote; 0 if they wrote none.
    #[must_use]
    pub fn device_bytes_per_byte(&self, client_bytes: u64) -> f64 {
        if client_bytes == 0 {
            return 0.0;
        }
        self.devices.values().map(|d| d.written as f64).sum::<f64>() / client_bytes as f64
    }
}

/// A phase from the snapshots at its marks; `resident` has the most pages seen by name in between.
pub(crate) fn phase(
    name: &str,
    before: &Snapshot,
    now: &Snapshot,
    resident: &BTreeMap<String, u64>,
    units: Units,
) -> PhaseUse {
    let seconds = now.t - before.t;
    let process = |(name, totals): (&String, &Totals)| {
        let was = before.processes.get(name).copied().unwrap_or_default();
        let most = resident.get(name).copied().unwrap_or(0).max(totals.resident).max(was.resident);
        let process = Process {
            user_s: totals.user.saturating_sub(was.user) as f64 / units.ticks,
            system_s: totals.system.saturating_sub(was.system) as f64 / units.ticks,
            rss_max: most * units.page,
            switches: totals.switches.saturating_sub(was.switches),
        };
        (name.clone(), process)
    };
    PhaseUse {
        phase: name.to_owned(),
        seconds,
        processes: now.processes.iter().map(process).collect(),
        machine_s: now.busy.saturating_sub(before.busy) as f64 / units.ticks,
        devices: changed_disks(before, now).map(|(n, d)| (n.clone(), device(&d, seconds))).collect(),
        joules: before.joules.zip(now.joules).map(|(was, is)| is - was),
        cycles: None,
    }
}

/// Differences of the disks that are in both.
fn changed_disks<'a>(
    before: &'a Snapshot,
    now: &'a Snapshot,
) -> impl Iterator<Item = (&'a String, Disk)> + 'a {
    now.disks.iter().filter_map(|(name, is)| {
        let was = before.disks.get(name)?;
        let disk = Disk {
            reads: is.reads.saturating_sub(was.reads),
            bytes_read: is.bytes_read.saturating_sub(was.bytes_read),
            writes: is.writes.saturating_sub(was.writes),
            bytes_written: is.bytes_written.saturating_sub(was.bytes_written),
            discards: is.discards.saturating_sub(was.discards),
            flushes: is.flushes.saturating_sub(was.flushes),
            waited_ms: is.waited_ms.saturating_sub(was.waited_ms),
            busy_ms: is.busy_ms.saturating_sub(was.busy_ms),
        };
        Some((name, disk))
    })
}

fn device(disk: &Disk, seconds: f64) -> DeviceUse {
    let per = |a: f64, b: u64| if b > 0 { a / b as f64 } else { 0.0 };
    DeviceUse {
        read: disk.bytes_read,
        written: disk.bytes_written,
        reads: disk.reads,
        writes: disk.writes,
        flushes: disk.flushes,
        wait_ms: per(disk.waited_ms as f64, disk.requests()),
        // The kernel counts in whole milliseconds, which may come to a little more than the time that passed.
        busy: if seconds > 0.0 { (disk.busy_ms as f64 / 1e3 / seconds).min(1.0) } else { 0.0 },
        request: per((disk.bytes_read + disk.bytes_written) as f64, disk.reads + disk.writes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: Units = Units { ticks: 100.0, page: 4096 };

    fn at(t: f64, ticks: u64, disk: Disk) -> Snapshot {
        let totals = Totals { user: ticks, system: ticks / 2, resident: 10 + ticks, switches: ticks * 3 };
        Snapshot {
            t,
            processes: [("osd.0".to_owned(), totals), (CLIENT.to_owned(), totals)].into(),
            busy: ticks * 4,
            switches: ticks * 100,
            memory: Some(1 << 20),
            disks: [("sda".to_owned(), disk)].into(),
            interfaces: [("lo".to_owned(), ticks * 1000)].into(),
            pressure: [("io", ticks * 1000)].into(),
            joules: Some(t * 7.0),
        }
    }

    fn disk(n: u64) -> Disk {
        Disk {
            reads: n,
            bytes_read: n * 4096,
            writes: n * 3,
            bytes_written: n * 3 * 8192,
            flushes: n,
            discards: 0,
            waited_ms: n * 10,
            busy_ms: n * 5,
        }
    }

    #[test]
    fn rates_are_a_second_and_cpu_is_in_cores() {
        let sample = sample(&at(10.0, 100, disk(0)), &at(12.0, 300, disk(200)), "write", UNITS);
        assert_eq!((sample.t, sample.phase.as_str()), (12.0, "write"));
        let value = |name: &str| sample.values[name];
        assert_eq!((value("cpu.osd.0"), value("cpu.machine")), (1.5, 4.0));
        assert_eq!((value("switches"), value("memory.osd.0")), (10_000.0, 310.0 * 4096.0));
        assert_eq!((value("disk.sda.read"), value("disk.sda.written")), (409_600.0, 2_457_600.0));
        // 200 reads, 600 writes, 200 flushes waited 2,000 ms; the device was busy for 1,000 of 2,000 ms.
        assert_eq!((value("disk.sda.wait_ms"), value("disk.sda.busy")), (2.0, 0.5));
        assert_eq!(value("disk.sda.request"), 7168.0);
        assert_eq!((value("net.lo.bytes"), value("pressure.io")), (100_000.0, 0.1));
        assert_eq!(value("memory.machine"), 1_048_576.0);
        assert!(!sample.values.contains_key("pressure.cpu"));
    }

    #[test]
    fn a_quiet_disk_has_no_wait() {
        let sample = sample(&at(1.0, 0, disk(5)), &at(2.0, 0, disk(5)), "", UNITS);
        assert_eq!(sample.values["disk.sda.busy"], 0.0);
        assert!(!sample.values.contains_key("disk.sda.wait_ms"));
        assert!(!sample.values.contains_key("disk.sda.request"));
    }

    #[test]
    fn a_phase_charges_operations_to_the_servers_only() {
        let resident = [("osd.0".to_owned(), 900)].into();
        let used = phase("write", &at(10.0, 100, disk(0)), &at(12.0, 300, disk(200)), &resident, UNITS);
        let cpu = used.cpu(1_000_000);
        assert_eq!((cpu.server_us_per_op, cpu.ops_per_core_s, cpu.machine_s), (3.0, 1_000_000.0 / 3.0, 8.0));
        let osd = &cpu.by_process["osd.0"];
        assert_eq!((osd.user_s, osd.system_s, osd.rss_max, osd.switches), (2.0, 1.0, 900 * 4096, 600));
        assert_eq!(cpu.by_process.len(), 2);
        let sda = &used.devices["sda"];
        assert_eq!((sda.reads, sda.writes, sda.flushes, sda.busy), (200, 600, 200, 0.5));
        assert_eq!((used.joules, used.device_bytes_per_byte(2_457_600)), (Some(14.0), 2.0));
        assert_eq!(used.device_bytes_per_byte(0), 0.0);
    }

    #[test]
    fn no_operation_costs_nothing_instead_of_infinitely_much() {
        let used = phase("read", &at(1.0, 0, disk(0)), &at(2.0, 0, disk(0)), &BTreeMap::new(), UNITS);
        let cpu = used.cpu(0);
        assert_eq!((cpu.server_us_per_op, cpu.ops_per_core_s), (0.0, 0.0));
    }

    #[test]
    fn a_process_that_appears_counts_from_its_start() {
        let mut before = at(1.0, 0, disk(0));
        before.processes.clear();
        let sample = sample(&before, &at(2.0, 50, disk(0)), "", UNITS);
        assert_eq!(sample.values["cpu.client"], 0.75);
    }
}
