//! What daemons tell of the machine that they run on (`ceph osd metadata`, `ceph mon metadata`), by Ceph's names.

use std::collections::BTreeMap;

/// The value of `key` in lines of `key = value` or `key: value`.
fn field<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(separator));
    pairs.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().trim_matches('"'))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let facts = facts();
        assert!(facts["mem_total_kb"].parse::<u64>().unwrap() > 0, "{facts:?}");
        assert_eq!(facts["os"], "Linux");
        assert_eq!(field("a = \"x y\"\nb = 2", "a", '='), Some("x y"));
        assert_eq!(field("a: 1", "b", ':'), None);
    }
}
