//! What the machine is, for the records.

use std::path::Path;
use std::process::Command;

use results::Machine;

/// Looks at the machine and at the place where data will live. What can't be found out stays empty.
pub fn look(work: &Path) -> Machine {
    let os_release = read("/etc/os-release");
    let cpuinfo = read("/proc/cpuinfo");
    let (disk, file_system) = below(work);
    Machine {
        host: read("/proc/sys/kernel/hostname").trim().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        system: value(&os_release, "PRETTY_NAME=").trim_matches('"').to_owned(),
        cpu: value(&cpuinfo, "model name").trim_start_matches([' ', '\t', ':']).to_owned(),
        cores: cpuinfo.lines().filter(|line| line.starts_with("processor")).count() as u32,
        memory: process::meminfo("MemTotal").unwrap_or_default(),
        disk,
        file_system,
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The rest of the first line that begins with `key`.
fn value<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default()
}

/// The device with its model, and the file system, that a path lies on.
fn below(path: &Path) -> (String, String) {
    let found = Command::new("findmnt").args(["-n", "-o", "SOURCE,FSTYPE", "-T"]).arg(path).output();
    let text = found.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    let mut words = text.split_whitespace();
    let (source, kind) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let name = source.rsplit('/').next().unwrap_or_default();
    let model = read(&format!("/sys/class/block/{name}/device/model"));
    (format!("{source} {}", model.trim()).trim().to_owned(), kind.to_owned())
}
