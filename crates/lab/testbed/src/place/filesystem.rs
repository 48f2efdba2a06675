//! Making and mounting file systems with a study's options.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use study::{FileSystem, FsKind};

use crate::error::Result;
use crate::ledger::Resource;
use crate::release::program;
use crate::work_dir::WorkDir;

/// How long mkfs may take.
const MKFS: Duration = Duration::from_secs(300);

/// How long a mount may take.
const MOUNT: Duration = Duration::from_secs(60);

/// A file system's name, as mount and mkfs know it.
pub(crate) fn name(kind: FsKind) -> &'static str {
    match kind {
        FsKind::Btrfs => "btrfs",
        FsKind::Xfs => "xfs",
        FsKind::Ext4 => "ext4",
        FsKind::Ext2 => "ext2",
    }
}

/// The program that makes it.
pub(crate) fn mkfs_program(kind: FsKind) -> String {
    format!("mkfs.{}", name(kind))
}

/// mkfs's arguments: the study's, split at blanks; the id by which we know our own file system on a raw device again,
/// unless the study gives one; the device.
fn mkfs_arguments(fs: &FileSystem, uuid: Option<&str>, device: &Path) -> Vec<String> {
    let mut words: Vec<String> = fs.mkfs.split_ascii_whitespace().map(str::to_owned).collect();
    let named = words.iter().any(|w| w == "-U" || w == "--uuid" || w.contains("uuid="));
    if let Some(uuid) = uuid.filter(|_| !named) {
        words.extend(match fs.kind {
            FsKind::Xfs => ["-m".to_owned(), format!("uuid={uuid}")],
            FsKind::Btrfs | FsKind::Ext4 | FsKind::Ext2 => ["-U".to_owned(), uuid.to_owned()],
        });
    }
    words.push(device.display().to_string());
    words
}

/// mount's arguments: the options as written, if there are any.
fn mount_arguments(fs: &FileSystem, device: &Path, at: &Path) -> Vec<String> {
    let mut words = vec!["-t".to_owned(), name(fs.kind).to_owned()];
    if !fs.mount.trim().is_empty() {
        words.extend(["-o".to_owned(), fs.mount.trim().to_owned()]);
    }
    words.extend([device.display().to_string(), at.display().to_string()]);
    words
}

/// Makes a file system on a device and mounts it at a directory below the work directory.
pub(crate) fn make(
    work_dir: &mut WorkDir,
    fs: &FileSystem,
    uuid: Option<&str>,
    device: &Path,
    at: &Path,
) -> Result<()> {
    let tool = mkfs_program(fs.kind);
    let mut mkfs = Command::new(program(&tool)?);
    mkfs.args(mkfs_arguments(fs, uuid, device));
    work_dir.runner.run(&format!("{tool} {} on {}", fs.mkfs, device.display()), mkfs, MKFS)?;
    work_dir.make_dir(at)?;
    work_dir.ledger.about_to_make(Resource::Mount { at: at.to_owned() })?;
    let mut mount = Command::new(program("mount")?);
    mount.args(mount_arguments(fs, device, at));
    let what = format!("mounting {} with the options '{}'", name(fs.kind), fs.mount);
    work_dir.runner.run(&what, mount, MOUNT)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xfs(mkfs: &str, mount: &str) -> FileSystem {
        FileSystem { kind: FsKind::Xfs, mkfs: mkfs.into(), mount: mount.into() }
    }

    #[test]
    fn options_are_split_at_blanks_and_nowhere_else() {
        let fs = xfs("  -f  -i size=2048 -d su=64k,sw=8 ", "noatime");
        let words = mkfs_arguments(&fs, None, Path::new("/dev/loop9"));
        assert_eq!(words, ["-f", "-i", "size=2048", "-d", "su=64k,sw=8", "/dev/loop9"]);
    }

    #[test]
    fn a_raw_device_gets_an_id_unless_the_study_gives_one() {
        let words = |mkfs: &str| mkfs_arguments(&xfs(mkfs, ""), Some("u-u-i-d"), Path::new("/dev/x"));
        assert_eq!(words("-f"), ["-f", "-m", "uuid=u-u-i-d", "/dev/x"]);
        assert_eq!(words("-m uuid=mine"), ["-m", "uuid=mine", "/dev/x"]);
    }

    #[test]
    fn mount_options_stay_one_word_and_none_is_none() {
        let (device, at) = (Path::new("/dev/loop9"), Path::new("/w/data/osd.0"));
        let words = mount_arguments(&xfs("", "noatime,inode64"), device, at);
        assert_eq!(words, ["-t", "xfs", "-o", "noatime,inode64", "/dev/loop9", "/w/data/osd.0"]);
        assert_eq!(mount_arguments(&xfs("", " "), device, at).len(), 4);
    }
}
