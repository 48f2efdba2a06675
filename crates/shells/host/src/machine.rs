//! What daemons tell of the machine that they run on (`ceph osd metadata`, `ceph mon metadata`), by Ceph's names.

use std::collections::BTreeMap;

use blockfile::LogDevice;

use crate::core_main::OsdPlan;
use crate::dir::StoreKind;

/// The value of `key` in lines of `key = value` or `key: value`.
fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().trim_matches('"'))
}

/// OSDs have at most this part of the machine's memory together for what they keep, where `osd_memory_target` is not given, and as
/// much for what clients have sent, where `osd_client_message_size_cap` is not.
const MEMORY_PART: u64 = 4;
/// Of what an OSD keeps each has at most so many bytes, which is Ceph's default,
const TARGET_MAX: u64 = 4 << 30;
/// and at least so many: the least that the option takes.
const TARGET_MIN: u64 = 64 << 20;
/// The same of what clients have sent: Ceph's default,
const MESSAGES_MAX: u64 = 500 << 20;
/// and four of the largest requests that most clients make. A larger one is taken when there is room for any.
const MESSAGES_MIN: u64 = 16 << 20;

/// The defaults of an OSD's limits of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryLimits {
    /// `osd_memory_target`, in bytes.
    pub target: u64,
    /// `osd_client_message_size_cap`, in bytes.
    pub messages: u64,
}

/// Those of each of so many OSDs.
pub(crate) fn memory_limits(osds: u32) -> MemoryLimits {
    limits_of(memory_bytes(), osds)
}

fn limits_of(memory_bytes: u64, osds: u32) -> MemoryLimits {
    let share = memory_bytes / MEMORY_PART / u64::from(osds.max(1));
    let share = share >> 20 << 20;
    MemoryLimits {
        target: share.clamp(TARGET_MIN, TARGET_MAX),
        messages: share.clamp(MESSAGES_MIN, MESSAGES_MAX),
    }
}

/// The memory that this process may have: the machine's, or what a control group leaves it.
fn memory_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let total = read("/proc/meminfo");
    let total = field(&total, "MemTotal", ':').and_then(|value| value.trim_end_matches(" kB").parse().ok());
    // A machine that does not say is taken for a small one.
    let total = total.map_or(1 << 30, |kib: u64| kib << 10);
    let groups = read("/proc/self/cgroup");
    let limits = limit_files(&groups).into_iter().filter_map(|path| read(&path).trim().parse().ok());
    limits.fold(total, u64::min)
}

/// The files with the limits of memory of these control groups (lines of `/proc/self/cgroup`) and of those above them, of
/// version 2 and 1. One without a limit says `max`, or a number beyond any memory.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, name) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            all if all.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let groups = std::path::Path::new(path).ancestors().map(|group| group.display().to_string());
        files.extend(groups.map(|group| format!("{root}{}/{name}", group.trim_end_matches('/'))));
    }
    files
}

/// The machine's facts. What can't be read is left blank: nothing depends on it.
pub(crate) fn facts() -> BTreeMap<String, String> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let (cpu, memory, system) = (read("/proc/cpuinfo"), read("/proc/meminfo"), read("/etc/os-release"));
    let kib =
        |key: &str| field(&memory, key, ':').map_or("", |value| value.trim_end_matches(" kB")).to_owned();
    let of_system = |key: &str| field(&system, key, '=').unwrap_or_default().to_owned();
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let pairs = [
        ("container_name", String::new()),
        ("cpu", field(&cpu, "model name", ':').unwrap_or_default().to_owned()),
        ("device_ids", String::new()),
        ("device_paths", String::new()),
        ("devices", String::new()),
        ("distro", of_system("ID")),
        ("distro_description", of_system("PRETTY_NAME")),
        ("distro_version", of_system("VERSION_ID")),
        ("kernel_description", text(uname.version())),
        ("kernel_version", text(uname.release())),
        ("mem_swap_kb", kib("SwapTotal")),
        ("mem_total_kb", kib("MemTotal")),
        ("os", text(uname.sysname())),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A flag as Ceph writes it.
fn flag(is: bool) -> String {
    u8::from(is).to_string()
}

/// What an OSD with a block store tells of where its log lies: BlueStore's words, for the same thing. Nothing depends on it:
/// what can't be read is left out.
pub(crate) fn log_facts(plan: &OsdPlan) -> Vec<(&'static str, String)> {
    let log = match plan.store {
        StoreKind::Block => blockfile::log_device(&plan.dir).ok().flatten(),
        StoreKind::Simple | StoreKind::Mem => None,
    };
    let mut facts = vec![("journal_rotational", flag(log.as_ref().is_some_and(|log| log.rotates)))];
    if plan.store == StoreKind::Block {
        facts.push(("bluefs_dedicated_db", flag(false)));
        facts.push(("bluefs_dedicated_wal", flag(log.is_some())));
    }
    if let Some(log) = log {
        facts.extend(facts_of(&log));
    }
    facts
}

fn facts_of(log: &LogDevice) -> Vec<(&'static str, String)> {
    // A name that stays, as /dev/disk/by-id has them, leads to the one that the kernel shows.
    let node = log.path.canonicalize().unwrap_or(log.path.clone()).display().to_string();
    let place = match log.is_block_device {
        true => vec![
            ("bluefs_wal_access_mode", "blk".to_owned()),
            ("bluefs_wal_dev_node", node.clone()),
            ("bluefs_wal_partition_path", node),
        ],
        false => vec![("bluefs_wal_access_mode", "file".to_owned()), ("bluefs_wal_path", node)],
    };
    let kind = if log.rotates { "hdd" } else { "ssd" };
    let facts = [
        ("bluefs_wal_block_size", log.unit_bytes.to_string()),
        ("bluefs_wal_driver", "KernelDevice".to_owned()),
        ("bluefs_wal_rotational", flag(log.rotates)),
        ("bluefs_wal_size", log.bytes.to_string()),
        ("bluefs_wal_type", kind.to_owned()),
    ];
    facts.into_iter().chain(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn osds_share_a_part_of_the_memory_that_control_groups_leave() {
        let groups = "12:cpu,memory:/a/b\n3:pids:/x\n0::/c\n";
        let (v1, v2) = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes");
        let expected = [
            format!("{v1}/a/b/{v2}"),
            format!("{v1}/a/{v2}"),
            format!("{v1}/{v2}"),
            "/sys/fs/cgroup/c/memory.max".into(),
            "/sys/fs/cgroup/memory.max".into(),
        ];
        assert_eq!(limit_files(groups), expected);
        assert!(limit_files("strange").is_empty());
    }

    #[test]
    fn a_small_machine_has_small_limits_and_a_large_one_those_of_ceph() {
        let of = |mib: u64, osds| {
            let MemoryLimits { target, messages } = limits_of(mib << 20, osds);
            (target >> 20, messages >> 20)
        };
        assert_eq!(of(64 << 10, 1), (4096, 500));
        assert_eq!(of(24 << 10, 3), (2048, 500));
        assert_eq!(of(1024, 1), (256, 256));
        assert_eq!(of(1024, 3), (85, 85));
        assert_eq!(of(300, 3), (64, 25));
        assert_eq!(of(10, 1_000_000), (64, 16));
        assert!(memory_limits(1).target >= TARGET_MIN);
    }

    #[test]
    fn a_log_is_told_of_by_bluestores_names() {
        let of = |is_block_device, path: &str| {
            let path = path.into();
            let log = LogDevice { path, bytes: 1 << 30, unit_bytes: 4096, is_block_device, rotates: true };
            facts_of(&log).into_iter().collect::<BTreeMap<_, _>>()
        };
        let device = of(true, "/dev/none1");
        assert_eq!(device["bluefs_wal_dev_node"], "/dev/none1");
        assert_eq!((&*device["bluefs_wal_type"], &*device["bluefs_wal_size"]), ("hdd", "1073741824"));
        let file = of(false, "/none/log");
        assert_eq!((&*file["bluefs_wal_path"], file.get("bluefs_wal_dev_node")), ("/none/log", None));
    }

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let facts = facts();
        assert!(facts["mem_total_kb"].parse::<u64>().unwrap() > 0, "{facts:?}");
        assert_eq!(facts["os"], "Linux");
        assert_eq!(field("a = \"x y\"\nb = 2", "a", '='), Some("x y"));
        assert_eq!(field("a: 1", "b", ':'), None);
    }
}
