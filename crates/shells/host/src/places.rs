//! What a cluster's stores may lie on, as far as flags say it: checked before anything is looked at.

use std::path::{Path, PathBuf};

use crate::HostError;
use crate::cluster::UpRequest;
use crate::dir::{Description, StoreKind};

/// What the flags of a first start ask for can be had.
pub(crate) fn check(request: &UpRequest) -> Result<(), HostError> {
    check_devices(request)?;
    check_log_devices(request)
}

/// So can what a new cluster gets.
pub(crate) fn check_new(new: &Description) -> Result<(), HostError> {
    check_log_count(new)?;
    check_preallocate(new)
}

/// What was asked for on block devices can be had: each is one OSD's, whole.
fn check_devices(request: &UpRequest) -> Result<(), HostError> {
    let UpRequest { devices, overwrite, osds, store, osd_size, .. } = request;
    let refused = |why: String| Err(HostError::Unsupported(why));
    let named = |path| devices.contains(path) || request.log_devices.contains(path);
    if let Some(stray) = overwrite.iter().find(|path| !named(path)) {
        return refused(format!("--overwrite {}: no --device or --log-device names it", stray.display()));
    }
    if devices.is_empty() {
        return Ok(());
    }
    if let Some(store) = store.filter(|store| *store != StoreKind::Block) {
        return refused(format!("--device is for the store 'block', not for '{}'", store.as_str()));
    }
    if osd_size.is_some() {
        return refused("--osd-size is for image files: a device is used whole".into());
    }
    if osds.is_some_and(|osds| osds as usize != devices.len()) {
        return refused(format!(
            "--osds and --device disagree: {} devices are named, one for each OSD",
            devices.len()
        ));
    }
    match twice(devices) {
        Some(device) => refused(format!("--device {} is named twice", device.display())),
        None => Ok(()),
    }
}

/// The first path that is named again.
fn twice(paths: &[PathBuf]) -> Option<&PathBuf> {
    paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path)).map(|(_, path)| path)
}

/// What was asked for of logs apart from the data can be had: each is one OSD's.
fn check_log_devices(request: &UpRequest) -> Result<(), HostError> {
    let UpRequest { devices, log_devices, store, .. } = request;
    let refused = |why: String| Err(HostError::Unsupported(why));
    if log_devices.is_empty() {
        return Ok(());
    }
    if let Some(store) = store.filter(|store| *store != StoreKind::Block) {
        return refused(format!("--log-device is for the store 'block', not for '{}'", store.as_str()));
    }
    if let Some(path) = log_devices.iter().find(|path| devices.contains(path)) {
        let path = path.display();
        return refused(format!("{path} is named by --device and by --log-device: it can be one of them"));
    }
    match twice(log_devices) {
        Some(path) => refused(format!("--log-device {} is named twice", path.display())),
        None => Ok(()),
    }
}

/// There are as many places for logs as OSDs.
fn check_log_count(new: &Description) -> Result<(), HostError> {
    let (logs, osds) = (new.log_devices.len(), new.osds);
    if logs == 0 || logs == osds as usize {
        return Ok(());
    }
    Err(HostError::Unsupported(format!(
        "--log-device is named {logs} times for {osds} OSDs: name one for each OSD, the first for osd.0 and so on"
    )))
}

/// What is not an image file of the block store has nothing to be written whole.
fn check_preallocate(new: &Description) -> Result<(), HostError> {
    let why = match new {
        Description { preallocated: false, .. } => return Ok(()),
        Description { store: StoreKind::Block, devices, .. } if devices.is_empty() => return Ok(()),
        Description { store: StoreKind::Block, .. } => "a block device is used whole".to_owned(),
        Description { store, .. } => format!("the store '{}' has none", store.as_str()),
    };
    Err(HostError::Unsupported(format!("--preallocate is for the image files of the store 'block': {why}")))
}

pub(crate) fn device_bytes(path: &Path) -> Result<u64, HostError> {
    blockfile::device_bytes(path).map_err(|error| HostError::Unsupported(error.to_string()))
}

pub(crate) fn smallest(devices: &[PathBuf]) -> Result<u64, HostError> {
    devices.iter().map(|device| device_bytes(device)).try_fold(u64::MAX, |least, bytes| Ok(least.min(bytes?)))
}

pub(crate) fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::DirState;
    use crate::plan::describe;

    fn request() -> UpRequest {
        UpRequest { dir: "/nowhere".into(), port: Some(0), ..UpRequest::default() }
    }

    #[test]
    fn the_logs_places_are_kept_and_others_refused_later() {
        let logs = |paths: &[&str]| UpRequest {
            log_devices: paths.iter().map(PathBuf::from).collect(),
            ..request()
        };
        let first = describe(&logs(&["/a", "/b"]), DirState::Empty).unwrap();
        let later = |paths: &[&str]| describe(&logs(paths), DirState::Cluster(Box::new(first.clone())));
        assert_eq!(first.osds, 2, "as many as logs");
        assert_eq!(later(&[]).unwrap().log_devices, [Path::new("/a"), Path::new("/b")]);
        assert!(later(&["/a", "/b"]).is_ok());
        let refused = later(&["/b", "/a"]).unwrap_err().to_string();
        assert!(refused.contains("--log-device") && refused.contains("on /a, /b"), "{refused}");
    }

    #[test]
    fn devices_that_can_not_be_had_are_refused_with_the_flag() {
        let on = |devices: &[&str]| UpRequest {
            devices: devices.iter().map(PathBuf::from).collect(),
            ..request()
        };
        let logs = |paths: &[&str]| UpRequest {
            log_devices: paths.iter().map(PathBuf::from).collect(),
            ..request()
        };
        let zero = "/dev/zero";
        for (request, says) in [
            (UpRequest { store: Some(StoreKind::Simple), ..on(&[zero]) }, "not for 'simple'"),
            (UpRequest { osds: Some(2), ..on(&[zero]) }, "one for each OSD"),
            (UpRequest { osd_size: Some(1 << 30), ..on(&[zero]) }, "--osd-size"),
            (UpRequest { overwrite: vec!["/dev/null".into()], ..on(&[zero]) }, "/dev/null"),
            (on(&[zero, zero]), "named twice"),
            (UpRequest { preallocate: true, store: Some(StoreKind::Mem), ..request() }, "'mem' has none"),
            (on(&[zero]), "/dev/zero is no block device"),
            (
                UpRequest { store: Some(StoreKind::Mem), ..logs(&["/a"]) },
                "--log-device is for the store 'block'",
            ),
            (UpRequest { osds: Some(3), ..logs(&["/a", "/b"]) }, "named 2 times for 3 OSDs"),
            (logs(&["/a", "/b", "/a"]), "--log-device /a is named twice"),
            (UpRequest { devices: vec!["/a".into()], ..logs(&["/a"]) }, "--device and by --log-device"),
        ] {
            let refused = describe(&request, DirState::Empty).unwrap_err().to_string();
            assert!(refused.contains(says), "{refused}");
        }
    }
}
