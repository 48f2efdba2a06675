//! Loop devices over files of ours.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::ledger::Resource;
use crate::release::program;
use crate::work_dir::WorkDir;

/// How long attaching may take.
const ATTACH: Duration = Duration::from_secs(20);

/// Loop devices over a file, also over one that was removed since.
pub(crate) fn over(backing: &Path) -> Vec<PathBuf> {
    let is_ours = |text: &[u8]| {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        text.strip_suffix(b" (deleted)").unwrap_or(text) == backing.as_os_str().as_bytes()
    };
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        if fs::read(entry.path().join("loop/backing_file")).is_ok_and(|t| is_ours(&t)) {
            found.push(Path::new("/dev").join(entry.file_name()));
        }
    }
    found.sort();
    found
}

/// Puts a loop device over a file, with direct I/O where the file system below can do that.
pub(crate) fn attach(work_dir: &mut WorkDir, backing: &Path) -> Result<PathBuf> {
    work_dir.ledger.about_to_make(Resource::Loop { backing: backing.to_owned() })?;
    let losetup = |direct: &[&str]| -> Result<PathBuf> {
        let mut command = Command::new(program("losetup")?);
        command.args(["--find", "--show"]).args(direct).arg(backing);
        let output = work_dir.runner.run("attaching a loop device", command, ATTACH)?;
        Ok(PathBuf::from(output.trim()))
    };
    let device = match losetup(&["--direct-io=on"]) {
        // Some versions fail, others warn and go on without.
        Err(Error::Failed { .. }) => over(backing).into_iter().next().map_or_else(|| losetup(&[]), Ok)?,
        other => other?,
    };
    let name = device.file_name().unwrap_or_default();
    let direct = fs::read_to_string(Path::new("/sys/block").join(name).join("loop/dio"));
    if !direct.is_ok_and(|text| text.trim() == "1") {
        work_dir.note(
            "loop devices have no direct I/O on this file system: what is written goes through the page cache twice",
        );
    }
    Ok(device)
}
