//! Where an OSD's data or journal lives, made fresh.

pub(crate) mod devices;
pub(crate) mod filesystem;
pub(crate) mod loops;
pub(crate) mod modelled;
pub(crate) mod space;
pub(crate) mod way;

use std::path::{Path, PathBuf};

use study::{FileSystem, FsKind, Place};

use crate::error::{Error, Result};
use crate::ground::Ground;
use crate::ledger::Thing;
use process::mounts;

/// A place that was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Spot {
    /// What the store gets.
    pub(crate) kind: SpotKind,
    /// Kernel names of the block devices below it, as `loop0`.
    pub(crate) devices: Vec<String>,
}

/// What the store gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum SpotKind {
    /// A directory, with the file system that was made for it, if one was.
    Dir(PathBuf, Option<FsKind>),
    /// A block device, or a file that is used as one.
    Raw(PathBuf),
}

/// Makes a place. `loligo` is our program, `name` is `osd.N` or `journal.N`, `index` is N, `uuid` the OSD's id.
pub(crate) fn make(
    ground: &mut Ground,
    place: &Place,
    loligo: &Path,
    (name, index): (&str, usize),
    uuid: &str,
) -> Result<Spot> {
    ground.runner.stop.check()?;
    let dir = ground.work.data(name);
    match place {
        Place::Directory => {
            ground.make_dir(&dir)?;
            let devices = mounts::device_below(&dir).into_iter().collect();
            Ok(Spot { kind: SpotKind::Dir(dir, None), devices })
        }
        Place::Image { size } => {
            let image = ground.work.image(name);
            ground.make_file(&image, *size)?;
            let devices = mounts::device_below(&image).into_iter().collect();
            Ok(Spot { kind: SpotKind::Raw(image), devices })
        }
        Place::Loop { size, fs } => {
            let image = ground.work.image(name);
            ground.make_file(&image, *size)?;
            let device = loops::attach(ground, &image)?;
            on_device(ground, fs.as_ref(), None, device, &dir)
        }
        Place::Devices { paths, fs } => {
            let device = paths.get(index).cloned().ok_or_else(|| Error::Impossible {
                what: format!("there is no device for {name}: the system names {}", paths.len()),
            })?;
            let thing = Thing::Device { path: device.clone(), uuid: uuid.to_owned() };
            ground.ledger.about_to_make(thing)?;
            on_device(ground, fs.as_ref(), Some(uuid), device, &dir)
        }
        Place::Modelled { model, size, fs } => {
            let device = modelled::make(ground, loligo, model, *size, name)?;
            on_device(ground, fs.as_ref(), None, device, &dir)
        }
    }
}

fn on_device(
    ground: &mut Ground,
    fs: Option<&FileSystem>,
    uuid: Option<&str>,
    device: PathBuf,
    dir: &Path,
) -> Result<Spot> {
    let devices = mounts::kernel_name(&device).into_iter().collect();
    let Some(fs) = fs else { return Ok(Spot { kind: SpotKind::Raw(device), devices }) };
    filesystem::make(ground, fs, uuid, &device, dir)?;
    Ok(Spot { kind: SpotKind::Dir(dir.to_owned(), Some(fs.kind)), devices })
}
