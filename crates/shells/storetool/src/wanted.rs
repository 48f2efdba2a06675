//! What a conversion is asked for, and whether it can be had: looked at before anything is changed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use blockfile::{LogPlace, NewStore, Owner, Places};
use host::{Description, StoreKind, UNFINISHED_CONVERSION};
use types::{Fsid, OsdId};

use crate::ConvertError;

/// See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// One OSD's store alone.
    pub osd: Option<u32>,
    /// The old stores are not removed.
    pub keep: bool,
    /// Block devices for the new stores, one for each OSD that is converted; none for image files.
    pub devices: Vec<PathBuf>,
    /// Block devices or files for their logs, one for each; none for logs beside the data.
    pub log_devices: Vec<PathBuf>,
    /// Those of both whose contents may be overwritten.
    pub overwrite: Vec<PathBuf>,
}

impl Wanted {
    /// The OSDs that are meant.
    pub(crate) fn osds(&self, dir: &Path, description: &Description) -> Result<Range<u32>, ConvertError> {
        match self.osd {
            Some(osd) if osd >= description.osds => {
                Err(ConvertError::NoOsd { dir: dir.into(), osd, last: description.osds - 1 })
            }
            Some(osd) => Ok(osd..osd + 1),
            None => Ok(0..description.osds),
        }
    }

    /// Where the new store of each is to lie.
    pub(crate) fn places(
        &self,
        dir: &Path,
        description: &Description,
        osds: Range<u32>,
    ) -> Result<Vec<Places>, ConvertError> {
        host::check_places(&self.devices, &self.log_devices, &self.overwrite)?;
        for (flag, paths) in [("--device", &self.devices), ("--log-device", &self.log_devices)] {
            let (named, count) = (paths.len(), osds.len());
            if named > 0 && named != count {
                return Err(ConvertError::Count { flag, named, osds: count });
            }
        }
        let all = osds.enumerate().map(|(at, osd)| {
            let nth = |paths: &[PathBuf]| paths.get(at).cloned();
            let places = Places { device: nth(&self.devices), log: nth(&self.log_devices) };
            self.check(dir, description, osd, &places)?;
            Ok(places)
        });
        all.collect()
    }

    fn check(
        &self,
        dir: &Path,
        description: &Description,
        osd: u32,
        places: &Places,
    ) -> Result<(), ConvertError> {
        for path in places.device.iter().chain(&places.log) {
            if let Some(other) = description.has_place(path, osd) {
                return Err(ConvertError::OfAnother { osd, path: path.clone(), other });
            }
        }
        let at = dir.join(format!("osd.{osd}"));
        if let Some(there) = places_there(&at, description, osd) {
            return match places.device.is_none() && places.log.is_none() || there == *places {
                true => Ok(()),
                false => Err(ConvertError::Elsewhere { osd, there }),
            };
        }
        // One that is no id was refused when the description was read; nothing would be its own.
        let cluster: Fsid = description.fsid.parse().unwrap_or_default();
        let owner = Owner { cluster, osd: OsdId(osd as i32), osd_uuid: Fsid::default() };
        let checked = blockfile::check_places(&owner, &self.new_store(dir, places, 0));
        checked.map_err(|error| ConvertError::New { osd, error })
    }

    /// A store of the cluster in `dir` that lies there, or has an image file of so many bytes.
    pub(crate) fn new_store(&self, dir: &Path, places: &Places, file_bytes: u64) -> NewStore {
        let may = |path: &PathBuf| self.overwrite.contains(path);
        NewStore {
            overwrite: places.device.as_ref().is_some_and(may),
            device: places.device.clone(),
            log: places.log.as_ref().map(|path| LogPlace { path: path.clone(), overwrite: may(path) }),
            cluster_dir: Some(dir.to_owned()),
            ..NewStore::file(file_bytes)
        }
    }
}

/// Where an OSD's block store lies, if it is one already, or its new store counts.
fn places_there(at: &Path, description: &Description, osd: u32) -> Option<Places> {
    let decided = at.join(UNFINISHED_CONVERSION);
    if decided.exists() {
        let (moving, moved) = (blockfile::places_in(&decided), blockfile::places_in(at));
        let is_here = |path: PathBuf| path.symlink_metadata().is_ok();
        let device = if is_here(blockfile::path_in(&decided)) { moving.device } else { moved.device };
        return Some(Places { device, log: moving.log.or(moved.log) });
    }
    let (device, log) = (description.device_of(osd).cloned(), description.log_device_of(osd).cloned());
    (description.store_of(osd) == StoreKind::Block).then_some(Places { device, log })
}
