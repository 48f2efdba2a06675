//! What can be wrong with a store's file.

use std::io;
use std::path::{Path, PathBuf};

use devmodel::ModelError;
use types::OsdId;

use crate::Owner;

/// The way out that is left where nothing can be put back. Only a running cluster takes it, and a tool meets a store while the OSD or its
/// cluster does not run.
pub const BEGIN_AGAIN: &str = "have the OSD begin again with an empty store (`loligo start DIR --osd N --replace` while the cluster runs; \
                               `loligo up DIR` starts it without this OSD)";

/// Why a store could not be made or opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{0} is in use (by another process, or mounted)")]
    InUse(PathBuf),
    #[error("{0} holds data already; move it away to have a new store made")]
    Exists(PathBuf),
    #[error(
        "{link} leads to {there}, and the new store is to lie on {to}: have the link lead there, or remove it"
    )]
    LeadsElsewhere { link: PathBuf, there: PathBuf, to: PathBuf },
    #[error("{0} is no block device; an image file needs no --device")]
    NotADevice(PathBuf),
    #[error(
        "{path} has {bytes} bytes, which is no whole number of its sectors of {sector}: from byte {} on it can't be read or written; give it \
         a size that is (the file of a loop device: make it longer or shorter, and set the loop device up again), or name another device",
        .bytes / .sector * .sector
    )]
    PartOfASector { path: PathBuf, bytes: u64, sector: u64 },
    #[error(
        "{path} can't be read at byte {at}: {error}; the system's log (`dmesg`) may say why. Mend the device, or name another"
    )]
    CanNotRead { path: PathBuf, at: u64, error: io::Error },
    #[error("{0} holds data; to give that up, name it with --overwrite too")]
    HoldsData(PathBuf),
    #[error("there is no device {0}: name one that is there")]
    MissingDevice(PathBuf),
    #[error("{0} can't be made, for its directory is not there: make that, or name another place")]
    NoDirectory(PathBuf),
    /// Of a part of a store, or of what is to be one.
    #[error(
        "{path} can't be written ({why}), as a store has to be that is served or changed: make it writable (permissions, attributes, a read-only \
         device, a read-only file system: `mount -o remount,rw`), or use a copy"
    )]
    ReadOnly { path: PathBuf, why: String },
    #[error(
        "{path} holds no block store ({why}); put the right file or device in its place, or a copy of it"
    )]
    NotAStore { path: PathBuf, why: String },
    #[error(
        "{0} is not there, where the store's data are or a link to their device; put it back, or {BEGIN_AGAIN}"
    )]
    NoFile(PathBuf),
    #[error(
        "the store's data are on {path}, which is not there; bring it back, or make {link} a link to where it is"
    )]
    NoData { link: PathBuf, path: PathBuf },
    #[error("{path} is the store of {has}, and not that of {wanted}; put the right file in its place")]
    OtherOwner { path: PathBuf, has: Box<Owner>, wanted: Box<Owner> },
    #[error(
        "there is no device {0}, and below /dev no file is made for a log: it would be in memory; name a device that is there, \
         or a file elsewhere"
    )]
    NoDevice(PathBuf),
    #[error("{0} is neither a block device nor a file: a log lies on one of these")]
    NoPlaceForALog(PathBuf),
    #[error("{path} has {}, and the logs of such a store need at least {}",
        text::format_bytes_two(*.bytes, *.needed)[0], text::format_bytes_two(*.bytes, *.needed)[1])]
    TooSmallForLogs { path: PathBuf, bytes: u64, needed: u64 },
    #[error("{path} has a part of osd.{other}'s store: name another place")]
    OfAnotherOsd { path: PathBuf, other: OsdId },
    #[error("{path} is a part of the cluster: name a place that is not there, or one outside of {dir}")]
    OfTheCluster { path: PathBuf, dir: PathBuf },
    #[error("{0} has the store's data: its log needs a place of its own")]
    HasTheData(PathBuf),
    #[error(
        "{path} is written in blocks of {block_bytes} bytes, and the store's log in units of {unit}: name a device with blocks that \
         are no larger"
    )]
    LogUnits { path: PathBuf, unit: u32, block_bytes: u32 },
    #[error(
        "the store in {0} was made with its log apart, and has no place for it beside the data; `--to` moves it to another device"
    )]
    NoPlaceBesideData(PathBuf),
    #[error("the store in {0} failed while its log was brought to its place; the log stays where it is")]
    LogStays(PathBuf),
    #[error(
        "the store's log is on {path}, which is not there ({why}); bring it back, or make {link} a link to where it is"
    )]
    NoLog { link: PathBuf, path: PathBuf, why: String },
    #[error("{path} does not have the log of {wanted}: {why}; make {link} a link to the right one")]
    OtherLog { link: PathBuf, path: PathBuf, wanted: Box<Owner>, why: String },
    #[error(
        "{path} has {} ({bytes} bytes), and the {} {} ({needed} bytes): {}",
        text::format_bytes(*.bytes),
        if *.is_log { "store's log on it" } else { "store in it" },
        text::format_bytes(*.needed),
        why_cut(*.is_file, *.is_log, path, *.needed)
    )]
    Cut { path: PathBuf, is_log: bool, is_file: bool, bytes: u64, needed: u64 },
    #[error("{path}: a block store can't be made in {}; it needs at least {}",
        text::format_bytes_two(*.bytes, *.needed)[0], text::format_bytes_two(*.bytes, *.needed)[1])]
    TooSmall { path: PathBuf, bytes: u64, needed: u64 },
    #[error("no store can be made in {path}: {why}")]
    NotMade { path: PathBuf, why: String },
    #[error("{0} is a block device, which is used whole; the size is for image files")]
    WholeDevice(PathBuf),
    #[error(
        "{path} has {}, and a store can't be made smaller, as {}: name more than it has",
        text::format_bytes_two(*.has, *.bytes)[0], text::format_bytes_two(*.has, *.bytes)[1]
    )]
    Shrinks { path: PathBuf, bytes: u64, has: u64 },
    #[error("{path} can't have {}: {}; name a smaller size", text::format_bytes(*.bytes), why_too_large(*.most))]
    TooLarge { path: PathBuf, bytes: u64, most: Option<u64> },
    #[error("{path}: {why}")]
    CanNotGrow { path: PathBuf, why: String },
    #[error(
        "the store in {path} is damaged ({why}); put back a copy of it (of one moment, its log too where that is apart; what was \
         written since is lost), or {BEGIN_AGAIN}; `loligo store fsck` says what is left, and `loligo store export --damaged` saves PGs"
    )]
    Damaged { path: PathBuf, why: String },
    #[error(transparent)]
    Device(device::OpenError),
    #[error("{path} failed while it was opened: {error}")]
    Failed { path: PathBuf, error: blockdev::DeviceError },
    /// The modelled device that it was to lie on can't be.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The system's, and not the store's: nothing of it could be looked at.
    #[error("{path} can't be opened: {error}: {todo}")]
    FewFiles { path: PathBuf, error: io::Error, todo: &'static str },
    #[error("{path}: {error}")]
    Io {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
}

impl OpenError {
    /// The system's error about a file.
    pub(crate) fn io(path: impl Into<PathBuf>, error: io::Error) -> Self {
        let path = path.into();
        match device::few_files(&error) {
            Some(todo) => OpenError::FewFiles { path, error, todo },
            None => OpenError::Io { path, error },
        }
    }
}

impl From<device::OpenError> for OpenError {
    fn from(error: device::OpenError) -> Self {
        match error {
            device::OpenError::Io { path, error, .. } if device::few_files(&error).is_some() => {
                OpenError::io(path, error)
            }
            other => OpenError::Device(other),
        }
    }
}

/// What a size is beyond: what a store can have at most, or any file of the file system.
fn why_too_large(most: Option<u64>) -> String {
    match most {
        Some(most) => format!("a block store has {} at most", text::format_bytes(most)),
        None => "its file system has no files so large".to_owned(),
    }
}

/// What probably made a file or device shorter than what lies on it, and what to do.
fn why_cut(is_file: bool, is_log: bool, path: &Path, needed: u64) -> String {
    let (why, back) = match is_file {
        true => ("the file was made shorter, or copied in part", "put back a whole copy of it"),
        false => (
            "the device was made smaller, or is another one",
            "give it its size back, or put back the right one",
        ),
    };
    let copy = if is_file { " (of one moment, data and log)" } else { "" };
    let rest = match is_file && !is_log {
        true => format!(
            "; without a copy, `truncate -s {needed} {}` makes it as long as it was, and `loligo store export --damaged` saves the PGs \
             that are left",
            path.display()
        ),
        false => String::new(),
    };
    format!("{why}; {back}{copy}, or {BEGIN_AGAIN}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_files_is_told_to_have_more_whatever_was_to_be_opened() {
        let path = PathBuf::from("c/osd.1/block");
        let error = || io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
        let id = blockdev::DeviceId::Data;
        let device = device::OpenError::Io { device: id, path: path.clone(), error: error() };
        for error in [OpenError::io(&path, error()), device.into()] {
            let said = error.to_string();
            assert!(matches!(error, OpenError::FewFiles { .. }), "{said}");
            assert!(said.contains("c/osd.1/block") && said.contains("`ulimit -n`"), "{said}");
        }
    }

    #[test]
    fn an_empty_store_is_advised_where_a_cluster_runs() {
        let path = PathBuf::from("c/osd.1/block");
        let damaged = OpenError::Damaged { path: path.clone(), why: "a reason".to_owned() };
        let cut =
            |is_file| OpenError::Cut { path: path.clone(), is_log: false, is_file, bytes: 1, needed: 2 };
        for said in [damaged, cut(true), cut(false)].map(|error| error.to_string()) {
            assert!(
                said.contains("--replace` while the cluster runs; `loligo up DIR` starts it without"),
                "{said}"
            );
        }
    }
}
