//! What is mounted where, and which block device is below a path, as the kernel reports them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Where.
    pub at: PathBuf,
    /// `major:minor` of its device; file systems over several have a number of their own.
    pub device: String,
    /// The file system's type.
    pub kind: String,
    /// What was mounted, as `/dev/loop0`.
    pub source: PathBuf,
}

/// Parses `/proc/self/mountinfo`; lines that are not understood are left out.
#[must_use]
pub fn parse(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ');
        let device = left.nth(2)?.to_owned();
        let at = PathBuf::from(unescape(left.nth(1)?));
        let mut right = right.split(' ');
        let kind = right.next()?.to_owned();
        Some(Mount { at, device, kind, source: PathBuf::from(unescape(right.next()?)) })
    };
    text.lines().filter_map(mount).collect()
}

/// Blanks, tabs, newlines and backslashes are three octal digits.
fn unescape(text: &str) -> std::ffi::OsString {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|d| u8::from_str_radix(d, 8).ok()).filter(|_| first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(3..).unwrap_or_default();
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    std::ffi::OsStr::from_bytes(&bytes).to_owned()
}

/// Everything that is mounted now.
#[must_use]
pub fn all() -> Vec<Mount> {
    parse(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
}

/// Mounts at a path or below it.
#[must_use]
pub fn below(path: &Path) -> Vec<Mount> {
    all().into_iter().filter(|m| m.at.starts_with(path)).collect()
}

/// The mount that a path is on.
#[must_use]
pub fn of(path: &Path) -> Option<Mount> {
    let path = fs::canonicalize(path).ok()?;
    // Of mounts at one place the last hides the others, and the longest place is the nearest.
    all().into_iter().filter(|m| path.starts_with(&m.at)).max_by_key(|m| m.at.as_os_str().len())
}

/// The kernel's name of a block device's node, as `loop0`; of a link, where it leads to.
#[must_use]
pub fn kernel_name(device: &Path) -> Option<String> {
    let path = fs::canonicalize(device).ok()?;
    let number = fs::metadata(&path).ok()?.rdev();
    by_number(&format!("{}:{}", major(number), minor(number)))
}

fn by_number(number: &str) -> Option<String> {
    let link = fs::read_link(format!("/sys/dev/block/{number}")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// The kernel's name of the block device below a file or directory; none where there is none (tmpfs, network).
#[must_use]
pub fn device_below(path: &Path) -> Option<String> {
    let number = fs::metadata(path).ok()?.dev();
    by_number(&format!("{}:{}", major(number), minor(number)))
        .or_else(|| of(path).and_then(|m| kernel_name(&m.source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_fields_and_escapes_are_understood() {
        let text = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
                    40 27 0:45 /x /tmp/a\\040b rw shared:3 master:1 - btrfs /dev/loop3 rw,ssd\n\
                    rubbish\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].at, PathBuf::from("/tmp/a b"));
        assert_eq!((mounts[1].kind.as_str(), mounts[1].source.as_path()), ("btrfs", Path::new("/dev/loop3")));
        assert_eq!(mounts[0].device, "254:0");
    }
}
