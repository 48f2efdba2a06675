//! Where an OSD's data or journal lives, made fresh.

pub(crate) mod devices;
pub(crate) mod filesystem;
pub(crate) mod loops;
pub(crate) mod modelled;
pub(crate) mod overhead;
pub(crate) mod space;

use std::path::{Path, PathBuf};

use study::{FileSystem, FsKind, Place};

use crate::error::{Error, Result};
use crate::ledger::Resource;
use crate::work_dir::WorkDir;
use process::mounts;

/// A place that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Volume {
    /// What the store gets.
    pub(crate) kind: VolumeKind,
    /// Kernel names of the block devices below it, as `loop0`.
    pub(crate) devices: Vec<String>,
}

/// What the store gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum VolumeKind {
    /// A directory, with the file system that was made for it, if one was.
    Dir(PathBuf, Option<FsKind>),
    /// A block device, or a file that is used as one.
    Raw(PathBuf),
}

/// Makes a place. `loligo` is our program, `name` is `osd.N` or `journal.N`, `index` is N, `uuid` the OSD's id.
pub(crate) fn make(
    work_dir: &mut WorkDir,
    place: &Place,
    loligo: &Path,
    (name, index): (&str, usize),
    uuid: &str,
) -> Result<Volume> {
    work_dir.runner.stop.check()?;
    let dir = work_dir.paths.data(name);
    match place {
        Place::Directory => {
            work_dir.make_dir(&dir)?;
            let devices = mounts::device_below(&dir).into_iter().collect();
            Ok(Volume { kind: VolumeKind::Dir(dir, None), devices })
        }
        Place::Image { size } => {
            let image = work_dir.paths.image(name);
            work_dir.make_file(&image, *size)?;
            let devices = mounts::device_below(&image).into_iter().collect();
            Ok(Volume { kind: VolumeKind::Raw(image), devices })
        }
        Place::Loop { size, fs } => {
            let image = work_dir.paths.image(name);
            work_dir.make_file(&image, *size)?;
            let device = loops::attach(work_dir, &image)?;
            on_device(work_dir, fs.as_ref(), None, device, &dir)
        }
        Place::Devices { paths, fs } => {
            let device = paths.get(index).cloned().ok_or_else(|| Error::Impossible {
                what: format!("no device for {name}: the system names {}", paths.len()),
            })?;
            let resource = Resource::Device { path: device.clone(), uuid: uuid.to_owned() };
            work_dir.ledger.about_to_make(resource)?;
            on_device(work_dir, fs.as_ref(), Some(uuid), device, &dir)
        }
        Place::Modelled { model, size, fs } => {
            let device = modelled::make(work_dir, loligo, model, *size, name)?;
            on_device(work_dir, fs.as_ref(), None, device, &dir)
        }
    }
}

fn on_device(
    work_dir: &mut WorkDir,
    fs: Option<&FileSystem>,
    uuid: Option<&str>,
    device: PathBuf,
    dir: &Path,
) -> Result<Volume> {
    let devices = mounts::kernel_name(&device).into_iter().collect();
    let Some(fs) = fs else { return Ok(Volume { kind: VolumeKind::Raw(device), devices }) };
    filesystem::make(work_dir, fs, uuid, &device, dir)?;
    Ok(Volume { kind: VolumeKind::Dir(dir.to_owned(), Some(fs.kind)), devices })
}
