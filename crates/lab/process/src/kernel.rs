//! The kernel's text as numbers. A line or field that is missing (older kernels) reads as nothing, never as a wrong
//! number.
//!
//! Our code instead of the crate `procfs`: a few fields of eight small formats, read for hundreds of threads every
//! second into one buffer, where that crate parses every field of a format into values of their own.

use std::collections::BTreeMap;
use std::fs;

/// Fields of `/proc/PID/stat`; times in the kernel's ticks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessStat {
    /// `R`, `S`, `D`...; `Z` or `X` of a process that has ended and was not waited for.
    pub state: char,
    pub user: u64,
    pub system: u64,
    /// Of children that it has waited for.
    pub children_user: u64,
    pub children_system: u64,
    /// When it started, since boot.
    pub start: u64,
    /// Resident pages.
    pub resident: u64,
}

impl ProcessStat {
    /// Whether the process has not ended.
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }

    /// CPU seconds, user and system, with those of children that it has waited for.
    pub fn cpu_seconds(&self) -> (f64, f64) {
        let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
        (seconds(self.user + self.children_user), seconds(self.system + self.children_system))
    }
}

/// Parses `/proc/PID/stat`. The program's name is in parentheses and may hold blanks and parentheses, so fields are
/// counted after the last one.
pub fn process_stat(text: &str) -> Option<ProcessStat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |n: usize| fields.get(n)?.parse::<u64>().ok();
    Some(ProcessStat {
        state: fields.first()?.chars().next()?,
        user: number(11)?,
        system: number(12)?,
        children_user: number(13)?,
        children_system: number(14)?,
        start: number(19)?,
        resident: number(21)?,
    })
}

/// The process that has this id now, even one that has ended but was not waited for.
pub fn stat(pid: u32) -> Option<ProcessStat> {
    process_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Whether a process that has not ended has this id now.
pub fn is_running(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.is_running())
}

/// How often a thread was put on a core, of `/proc/PID/task/TID/schedstat`: its context switches, at half the price of
/// reading its status.
pub fn thread_runs(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(2)?.parse().ok()
}

/// Context switches, voluntary and not, of `/proc/PID/task/TID/status`.
pub fn thread_switches(text: &str) -> Option<u64> {
    // They are the last two lines.
    let mut last = text.lines().rev();
    let forced = last.next()?.strip_prefix("nonvoluntary_ctxt_switches:")?.trim().parse::<u64>().ok()?;
    let waits = last.next()?.strip_prefix("voluntary_ctxt_switches:")?.trim().parse::<u64>().ok()?;
    Some(forced + waits)
}

/// The whole machine, of `/proc/stat`: busy ticks over all cores, context switches.
pub fn machine(text: &str) -> Option<(u64, u64)> {
    let line = |key: &str| text.lines().find_map(|l| l.strip_prefix(key));
    let cpu: Vec<u64> = line("cpu ")?.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
    let [user, nice, system, _idle, _io_wait, irq, soft_irq, ..] = cpu[..] else { return None };
    // Guests' time is part of the user's already; stolen time was spent by others.
    let busy = user + nice + system + irq + soft_irq;
    Some((busy, line("ctxt ")?.trim().parse().ok()?))
}

/// A block device's totals since boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disk {
    pub reads: u64,
    pub bytes_read: u64,
    pub writes: u64,
    pub bytes_written: u64,
    pub discards: u64,
    pub flushes: u64,
    /// Milliseconds that all requests waited, from their making to their end.
    pub waited_ms: u64,
    /// Milliseconds in which there was a request.
    pub busy_ms: u64,
}

impl Disk {
    pub fn requests(&self) -> u64 {
        self.reads + self.writes + self.discards + self.flushes
    }
}

/// Of `/proc/diskstats`, whose sectors have 512 bytes on every device.
pub fn disks(text: &str) -> BTreeMap<String, Disk> {
    text.lines().filter_map(disk).collect()
}

fn disk(line: &str) -> Option<(String, Disk)> {
    const SECTOR: u64 = 512;
    let mut fields = line.split_ascii_whitespace().skip(2);
    let name = fields.next()?.to_owned();
    let n: Vec<u64> = fields.map_while(|f| f.parse().ok()).collect();
    let &[reads, _, sectors_read, ms_read, writes, _, sectors_written, ms_written, _, busy_ms, ..] = &n[..]
    else {
        return None;
    };
    // Since 4.18 discards, since 5.5 flushes.
    let later = |at: usize| n.get(at).copied().unwrap_or(0);
    let disk = Disk {
        reads,
        bytes_read: sectors_read * SECTOR,
        writes,
        bytes_written: sectors_written * SECTOR,
        discards: later(11),
        flushes: later(15),
        waited_ms: ms_read + ms_written + later(14) + later(16),
        busy_ms,
    };
    Some((name, disk))
}

/// Bytes received and sent by each interface, of `/proc/net/dev`.
pub fn interfaces(text: &str) -> BTreeMap<String, u64> {
    let interface = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let fields: Vec<u64> = rest.split_ascii_whitespace().map_while(|f| f.parse().ok()).collect();
        Some((name.trim().to_owned(), fields.first()? + fields.get(8)?))
    };
    text.lines().filter_map(interface).collect()
}

/// Bytes of a line of `/proc/meminfo`, as `MemTotal`.
pub fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    let rest = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix(':'))?;
    rest.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Bytes of a line of this machine's `/proc/meminfo`, as `MemTotal`.
pub fn meminfo(key: &str) -> Option<u64> {
    meminfo_bytes(&fs::read_to_string("/proc/meminfo").ok()?, key)
}

/// Bytes of memory that are in use and can't be had by giving up caches, from the text of `/proc/meminfo`.
pub fn memory_used(text: &str) -> Option<u64> {
    Some(meminfo_bytes(text, "MemTotal")?.saturating_sub(meminfo_bytes(text, "MemAvailable")?))
}

/// Microseconds since boot in which something waited, of a file below `/proc/pressure`.
pub fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find(|l| l.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use super::*;

    #[test]
    fn a_processs_times_are_found_behind_any_name() {
        let found = process_stat(include_str!("../tests/data/process-stat")).unwrap();
        assert_eq!((found.user, found.system, found.start, found.resident), (14, 7, 644773, 8021));
        let odd = "7 (a) b (c)) S 1 1 1 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 99 1000 50 rest";
        let odd = process_stat(odd).unwrap();
        assert_eq!((odd.user, odd.children_system, odd.start, odd.resident), (11, 14, 99, 50));
        assert!(found.is_running() && odd.is_running());
        let ended = process_stat("7 (gone) Z 1 1 1 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0 99 1000 50").unwrap();
        assert!(!ended.is_running() && ended.start == 99);
        assert_eq!(process_stat("7 (cut) S 1 1"), None);
    }

    #[test]
    fn cpu_time_has_that_of_children_that_were_waited_for() {
        let second = rustix::param::clock_ticks_per_second();
        let stat =
            ProcessStat { user: second, children_user: second, system: second / 2, ..Default::default() };
        assert_eq!(stat.cpu_seconds(), (2.0, 0.5));
    }

    #[test]
    fn this_process_runs_and_a_child_does_until_it_ends() {
        assert!(is_running(std::process::id()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let begin = std::time::Instant::now();
        while is_running(child.id()) && begin.elapsed() < std::time::Duration::from_secs(30) {
            std::thread::yield_now();
        }
        assert!(!is_running(child.id()) && stat(child.id()).is_some(), "ended, and not waited for");
        child.wait().unwrap();
        assert_eq!(stat(child.id()), None);
    }

    #[test]
    fn both_kinds_of_switches_count() {
        assert_eq!(thread_runs("16713529 37286243 347\n"), Some(347));
        assert_eq!(thread_runs("0 0\n"), None);
        let text = "Name:\tx\nvoluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t2\n";
        assert_eq!(thread_switches(text), Some(42));
        assert!(thread_switches(include_str!("../tests/data/task-status")).is_some());
        assert_eq!(thread_switches("Name:\tx\n"), None);
    }

    #[test]
    fn the_machine_is_busy_neither_idle_nor_waiting_nor_stolen_from() {
        let text = "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 2 3\nintr 5\nctxt 4711\n";
        assert_eq!(machine(text), Some((163, 4711)));
        assert!(
            machine(include_str!("../tests/data/stat"))
                .is_some_and(|(busy, switches)| busy > 0 && switches > 0)
        );
        assert_eq!(machine("cpu  1 2\nctxt 1\n"), None);
    }

    #[test]
    fn a_disk_has_bytes_waits_and_flushes() {
        let all = disks(include_str!("../tests/data/diskstats"));
        let line = " 254 0 vdb 10 1 80 5 20 2 160 40 0 33 45 3 0 999 7 4 8\n";
        let expected = Disk {
            reads: 10,
            bytes_read: 40_960,
            writes: 20,
            bytes_written: 81_920,
            discards: 3,
            flushes: 4,
            waited_ms: 60,
            busy_ms: 33,
        };
        assert_eq!(disks(line)["vdb"], expected);
        assert_eq!(expected.requests(), 37);
        assert!(all["vda"].writes > 0 && all["vda"].flushes > 0 && all.contains_key("loop0"));
        // A kernel before 4.18.
        let old = disks(" 8 0 sda 10 1 80 5 20 2 160 40 0 33 45\nnonsense\n");
        assert_eq!((old.len(), old["sda"].waited_ms, old["sda"].flushes), (1, 45, 0));
    }

    #[test]
    fn an_interface_receives_and_sends() {
        let all = interfaces(include_str!("../tests/data/net-dev"));
        assert!(all["lo"] > 0 && all.contains_key("eth0"));
        assert_eq!(interfaces("  lo:5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n")["lo"], 12);
    }

    #[test]
    fn used_memory_is_what_caches_are_not() {
        assert_eq!(memory_used("MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable: 600 kB\n"), Some(409_600));
        assert!(memory_used(include_str!("../tests/data/meminfo")).is_some_and(|used| used > 0));
        assert_eq!(memory_used("MemTotal: 1000 kB\n"), None);
        assert_eq!(
            meminfo_bytes("MemFree: 1 kB\nMemTotal:       24680 kB\n", "MemTotal"),
            Some(24680 * 1024)
        );
        assert_eq!(meminfo_bytes("MemTotalish: 1 kB\n", "MemTotal"), None);
        assert!(meminfo("MemTotal") > meminfo("MemFree"));
    }

    #[test]
    fn pressure_is_the_total_of_some() {
        let text =
            "some avg10=1.00 avg60=0.50 avg300=0.10 total=123\nfull avg10=0.00 avg60=0 avg300=0 total=7\n";
        assert_eq!(pressure(text), Some(123));
        assert!(pressure(include_str!("../tests/data/pressure-cpu")).is_some());
        assert_eq!(pressure("full avg10=0.00 total=7\n"), None);
    }
}
