//! What a cluster's stores may lie on, as far as flags say it: checked before anything is looked at.

use std::path::{Path, PathBuf};

use blockfile::{Owner, is_same_place};
use types::OsdId;

use crate::HostError;
use crate::cluster::UpRequest;
use crate::dir::{Description, StoreKind};
use crate::plan::OSD_SIZE_MIN;

/// What the flags of a first start ask for can be had.
pub(crate) fn check(request: &UpRequest) -> Result<(), HostError> {
    check_devices(request)?;
    check_log_devices(request)?;
    check_places(&request.devices, &request.log_devices, &request.overwrite)
}

/// No path that `--device`, `--log-device` and `--overwrite` name is to be two things, and none is to be overwritten for
/// nothing.
///
/// # Errors
/// One is.
pub fn check_places(
    devices: &[PathBuf],
    log_devices: &[PathBuf],
    overwrite: &[PathBuf],
) -> Result<(), HostError> {
    let refused = |why: String| Err(HostError::Unsupported(why));
    let named = |path| devices.contains(path) || log_devices.contains(path);
    let is_a_device = |path: &&PathBuf| devices.iter().any(|device| is_same_place(device, path));
    if let Some(stray) = overwrite.iter().find(|path| !named(path)) {
        return refused(format!("--overwrite {}: no --device or --log-device names it", stray.display()));
    }
    if let Some(path) = log_devices.iter().find(is_a_device) {
        let path = path.display();
        return refused(format!("{path} is named by --device and by --log-device: it can be one of them"));
    }
    for (flag, paths) in [("--device", devices), ("--log-device", log_devices)] {
        if let Some(path) = twice(paths) {
            return refused(format!("{flag} {} is named twice", path.display()));
        }
    }
    Ok(())
}

/// So can what a new cluster gets.
pub(crate) fn check_new(new: &Description) -> Result<(), HostError> {
    check_log_count(new)?;
    check_preallocate(new)
}

/// What was asked for on block devices can be had: each is one OSD's, whole.
fn check_devices(request: &UpRequest) -> Result<(), HostError> {
    let UpRequest { devices, osds, store, osd_size, .. } = request;
    let refused = |why: String| Err(HostError::Unsupported(why));
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
    Ok(())
}

/// The first path that is named again, if by another name.
fn twice(paths: &[PathBuf]) -> Option<&PathBuf> {
    let is_named_before = |at: usize, path| paths[..at].iter().any(|before| is_same_place(before, path));
    paths.iter().enumerate().find(|(at, path)| is_named_before(*at, path)).map(|(_, path)| path)
}

/// What was asked for of logs apart from the data can be had: each is one OSD's.
fn check_log_devices(request: &UpRequest) -> Result<(), HostError> {
    let UpRequest { log_devices, store, .. } = request;
    match store.filter(|store| !log_devices.is_empty() && *store != StoreKind::Block) {
        Some(store) => Err(HostError::Unsupported(format!(
            "--log-device is for the store 'block', not for '{}'",
            store.as_str()
        ))),
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

/// A first start's devices are large enough for an OSD each.
pub(crate) fn check_device_sizes(devices: &[PathBuf]) -> Result<(), HostError> {
    for device in devices {
        let bytes = device_bytes(device)?;
        if bytes < OSD_SIZE_MIN {
            return Err(HostError::DeviceTooSmall { device: device.clone(), bytes, min: OSD_SIZE_MIN });
        }
    }
    Ok(())
}

pub(crate) fn smallest(devices: &[PathBuf]) -> Result<u64, HostError> {
    devices.iter().map(|device| device_bytes(device)).try_fold(u64::MAX, |least, bytes| Ok(least.min(bytes?)))
}

/// Paths by OSD; `none` where an OSD has none.
pub(crate) fn listed(paths: &[PathBuf], none: &str) -> String {
    let shown = |path: &PathBuf| match is_named(path) {
        true => path.display().to_string(),
        false => none.to_owned(),
    };
    paths.iter().map(shown).collect::<Vec<_>>().join(", ")
}

/// Where some OSDs have a path and others have none, the latter's is empty.
fn is_named(path: &Path) -> bool {
    !path.as_os_str().is_empty()
}

impl Description {
    /// Whom an OSD's store must name as its owner; `None` where the description does not say it.
    pub fn owner_of(&self, osd: u32) -> Option<Owner> {
        let osd_uuid = self.osd_uuids.get(osd as usize)?.parse().ok()?;
        Some(Owner { cluster: self.fsid.parse().ok()?, osd: OsdId(osd as i32), osd_uuid })
    }

    /// The block device that an OSD's store lies on; `None` for an image file.
    pub fn device_of(&self, osd: u32) -> Option<&PathBuf> {
        self.devices.get(osd as usize).filter(|path| is_named(path))
    }

    /// The block device or file that the log of an OSD's store lies on; `None` for one beside the data.
    pub fn log_device_of(&self, osd: u32) -> Option<&PathBuf> {
        self.log_devices.get(osd as usize).filter(|path| is_named(path))
    }

    /// The other OSD whose store, or its log, lies on this, by whatever name.
    pub fn has_place(&self, path: &Path, other_than: u32) -> Option<u32> {
        let is = |of: Option<&PathBuf>| of.is_some_and(|of| is_same_place(of, path));
        let mut others = (0..self.osds).filter(|osd| *osd != other_than);
        others.find(|osd| is(self.device_of(*osd)) || is(self.log_device_of(*osd)))
    }

    /// Notes what an OSD's store lies on now. When all are on devices, the size of the smallest is that of an OSD, as after
    /// a first start.
    pub fn set_places_of(&mut self, osd: u32, device: Option<PathBuf>, log: Option<PathBuf>) {
        for (paths, path) in [(&mut self.devices, device), (&mut self.log_devices, log)] {
            paths.resize(self.osds as usize, PathBuf::new());
            if let Some(of) = paths.get_mut(osd as usize) {
                *of = path.unwrap_or_default();
            }
            if !paths.iter().any(|path| is_named(path)) {
                paths.clear();
            }
        }
        if !self.devices.is_empty() && self.devices.iter().all(|path| is_named(path)) {
            // One that is gone now is found out when its store is opened.
            self.osd_size = smallest(&self.devices).unwrap_or(self.osd_size);
        }
    }
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
    fn places_are_told_apart_only_while_some_osds_have_one() {
        let mut some = describe(&UpRequest { osds: Some(2), ..request() }, DirState::Empty).unwrap();
        let before = some.clone();
        some.set_places_of(1, None, Some("/log".into()));
        assert_eq!((some.log_device_of(0), some.log_device_of(1)), (None, Some(&"/log".into())));
        assert_eq!((some.devices.len(), some.device_of(1)), (0, None));
        assert_eq!(listed(&some.log_devices, "none"), "none, /log");
        some.set_places_of(0, Some("/data".into()), Some("/other".into()));
        assert_eq!((some.device_of(0), some.device_of(1)), (Some(&"/data".into()), None));
        assert_eq!(some.log_devices, [Path::new("/other"), Path::new("/log")]);
        assert_eq!(some.osd_size, before.osd_size);
        some.set_places_of(0, None, None);
        some.set_places_of(1, None, None);
        assert_eq!(some, before);
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
