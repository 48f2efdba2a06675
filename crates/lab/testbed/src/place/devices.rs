//! Raw devices: refused unless they are named as allowed and hold nothing; wiped afterwards only where the content is
//! ours by its id.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{Doing, Error, Result};
use crate::release::program;
use crate::run::Runner;
use process::mounts;

/// How long a look at a device may take.
const LOOK: Duration = Duration::from_secs(30);

/// Bytes at the beginning of a device in which every store and file system that we put there has its id.
const HEAD: usize = 128 * 1024;

/// Bytes at the beginning that must be empty, and are made so afterwards.
const BLANK: usize = 1 << 20;

fn refuse<T>(path: &Path, why: impl Into<String>) -> Result<T> {
    Err(Error::Device { path: path.to_owned(), why: why.into() })
}

/// Checks that a device may be overwritten.
///
/// # Errors
/// [`Error::Device`] with the obstacle.
pub(crate) fn check(path: &Path, allowed: &[PathBuf]) -> Result<()> {
    let is_block = fs::metadata(path).doing("looking at the device", path)?.file_type().is_block_device();
    let (Ok(real), true) = (fs::canonicalize(path), is_block) else {
        return refuse(path, "it is not a block device");
    };
    let named = allowed.iter().any(|a| fs::canonicalize(a).is_ok_and(|a| a == real));
    if !named {
        let allow =
            format!("everything on it would be lost; allow it with --overwrite-device {}", path.display());
        return refuse(path, allow);
    }
    let Some(name) = mounts::kernel_name(&real) else {
        return refuse(path, "the kernel does not know it as a block device");
    };
    let sys = Path::new("/sys/class/block").join(&name);
    in_use(path, &real, &sys)?;
    holds_data(path, &real)
}

/// Mounts, swap, partitions, and devices that are built on it.
fn in_use(path: &Path, real: &Path, sys: &Path) -> Result<()> {
    let own = fs::read_to_string(sys.join("dev")).unwrap_or_default();
    let children = |what: &str| -> Vec<String> {
        let entries = fs::read_dir(sys.join(what)).into_iter().flatten().flatten();
        entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
    };
    let partitions: Vec<String> =
        children("").into_iter().filter(|name| sys.join(name).join("partition").exists()).collect();
    if !partitions.is_empty() {
        return refuse(path, format!("it has partitions ({}); remove them first", partitions.join(", ")));
    }
    let holders = children("holders");
    if !holders.is_empty() {
        return refuse(path, format!("{} is built on it", holders.join(", ")));
    }
    let source = |m: &mounts::Mount| fs::canonicalize(&m.source).is_ok_and(|s| s == real);
    if let Some(mount) = mounts::all().iter().find(|m| m.device == own.trim() || source(m)) {
        return refuse(path, format!("it is mounted on {}", mount.at.display()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let swap = |line: &str| line.split_ascii_whitespace().next().is_some_and(|s| Path::new(s) == real);
    if swaps.lines().any(swap) {
        return refuse(path, "it is used as swap space");
    }
    Ok(())
}

/// Signatures, and anything but zeros at its beginning.
fn holds_data(path: &Path, real: &Path) -> Result<()> {
    const EMPTY: &str = "if nothing on it is needed, empty it: wipefs --all DEVICE; \
                         dd if=/dev/zero of=DEVICE bs=1M count=1 oflag=direct";
    let mut wipefs = Command::new(program("wipefs")?);
    wipefs.args(["--no-act", "--parsable"]).arg(real);
    let signatures = Runner::default().run("looking for signatures", wipefs, LOOK)?;
    let found: Vec<&str> =
        signatures.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(',').next_back()).collect();
    if !found.is_empty() {
        return refuse(path, format!("it holds data ({}); {EMPTY}", found.join(", ")));
    }
    let mut blkid = Command::new(program("blkid")?);
    blkid.args(["--probe", "--output", "export"]).arg(real);
    // 2: nothing is known there. Anything else is a signature, or several that disagree.
    match Runner::default().run("looking for signatures", blkid, LOOK) {
        Err(Error::Failed { status, .. }) if status.ends_with(": 2") => {}
        Err(Error::Failed { output, .. }) => {
            return refuse(path, format!("it holds data ({}); {EMPTY}", output.trim()));
        }
        Ok(output) => {
            let content = content(&output);
            if !content.is_empty() {
                return refuse(path, format!("it holds data ({}); {EMPTY}", content.join(", ")));
            }
        }
        Err(other) => return Err(other),
    }
    if head(real, BLANK)?.iter().any(|b| *b != 0) {
        return refuse(path, format!("its first MiB is not empty, so it may hold data; {EMPTY}"));
    }
    Ok(())
}

/// Of what blkid exports (`KEY=value`) what is on the device: a partition's entry stands in another device's table.
fn content(exported: &str) -> Vec<&str> {
    let about_it = ["DEVNAME=", "PART_ENTRY_"];
    let lines = exported.lines().filter(|l| !l.trim().is_empty());
    lines.filter(|l| !about_it.iter().any(|key| l.starts_with(key))).collect()
}

fn head(device: &Path, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = File::open(device).doing("opening the device", device)?;
    file.take(length as u64).read_to_end(&mut bytes).doing("reading the device", device)?;
    Ok(bytes)
}

/// Whether the beginning of a device carries an id, as text (BlueStore's label) or as 16 bytes (file systems, the
/// journal's header).
fn carries(head: &[u8], uuid: &str) -> bool {
    let digits: Vec<u8> = uuid.bytes().filter(|b| *b != b'-').collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let Some(bytes) = digits.chunks(2).map(pair).collect::<Option<Vec<u8>>>().filter(|b| b.len() == 16)
    else {
        return false;
    };
    head.windows(16).any(|w| w == bytes) || head.windows(uuid.len()).any(|w| w == uuid.as_bytes())
}

/// Empties a device whose content carries the id. Anything else is left, with a sentence that says so.
pub(crate) fn wipe_own(path: &Path, uuid: &str) -> Result<Option<String>> {
    if !path.exists() {
        return Ok(Some(format!("{} no longer exists", path.display())));
    }
    let head = head(path, HEAD)?;
    if !carries(&head, uuid) {
        let empty = head.iter().all(|b| *b == 0);
        let note = format!("what is on {} is not known as this run's and was left", path.display());
        return Ok((!empty).then_some(note));
    }
    let mut wipefs = Command::new(program("wipefs")?);
    wipefs.arg("--all").arg(path);
    Runner::default().run("wiping signatures", wipefs, LOOK)?;
    let mut file = OpenOptions::new().write(true).open(path).doing("opening the device", path)?;
    file.write_all(&vec![0; BLANK]).doing("emptying the device", path)?;
    file.sync_all().doing("emptying the device", path)?;
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partitions_entry_is_no_data_on_it() {
        let entry = "DEVNAME=/dev/loop7p1\nPART_ENTRY_SCHEME=gpt\nPART_ENTRY_NUMBER=1\nPART_ENTRY_DISK=7:7\n";
        assert!(content(entry).is_empty());
        assert_eq!(
            content(&format!("{entry}TYPE=ext4\nUSAGE=filesystem\n")),
            ["TYPE=ext4", "USAGE=filesystem"]
        );
        assert_eq!(content("DEVNAME=/dev/sda\nPTTYPE=dos\n"), ["PTTYPE=dos"]);
    }

    const UUID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    #[test]
    fn an_id_is_known_as_text_and_as_bytes_and_another_is_not() {
        let mut head = vec![0; 4096];
        assert!(!carries(&head, UUID));
        let bytes: Vec<u8> = (0..16_u8).map(|n| n * 0x11).collect();
        head.splice(1128..1144, bytes);
        assert!(carries(&head, UUID));
        assert!(!carries(&head, "00112233-4455-6677-8899-aabbccddeef0"));
        assert!(carries(format!("bluestore block device\n{UUID}\n").as_bytes(), UUID));
        assert!(!carries(&head, "not an id"));
        assert!(!carries(&head, ""));
    }

    #[test]
    fn what_is_no_device_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = check(file.path(), &[file.path().to_owned()]).unwrap_err();
        assert!(error.to_string().contains("not a block device"), "{error}");
    }
}
