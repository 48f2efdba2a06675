//! Groups of images: the list of a pool (`rbd_group_directory`), a group's images and snapshots (`rbd_group_header.ID`),
//! and the group that an image's header names.

use std::collections::BTreeMap;

use buffer::Rope;
use encoding::Decode;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::header::OpFeatures;
use super::keys::{self, args};
use super::types::structure;

structure! {
    /// An image of a group.
    GroupImage, "GroupImageSpec", version 1 {
        image_id: Name, since 1;
        pool: i64, since 1;
    }
}

structure! {
    /// An image of a group, and whether its header names the group already.
    GroupImageStatus, "GroupImageStatus", version 1 {
        image: GroupImage, since 1;
        /// GROUP_IMAGE_LINK_STATE_*.
        state: u8, since 1;
    }
}

structure! {
    /// A group, as the header of an image of it names it.
    #[derive(Default)]
    Group, "GroupSpec", version 1 {
        pool: i64, since 1;
        id: Name, since 1;
    }
}

structure! {
    /// An image's snapshot that is part of a group's.
    #[derive(Default)]
    ImageSnap, "ImageSnapshotSpec", version 1 {
        pool: i64, since 1;
        image_id: Name, since 1;
        snap: u64, since 1;
    }
}

structure! {
    /// A group's snapshot.
    GroupSnap, "GroupSnapshot", version 1 {
        id: Name, since 1;
        name: Name, since 1;
        /// GROUP_SNAPSHOT_STATE_*.
        state: u8, since 1;
        snaps: Vec<ImageSnap>, since 1;
    }
}

impl GroupSnap {
    const INCOMPLETE: u8 = 0;
}

impl Default for GroupImage {
    fn default() -> Self {
        Self { image_id: Name::new(), pool: -1 }
    }
}

impl GroupImage {
    const PREFIX: &str = "image_";

    /// The key in the group's header without its prefix: the pool in hexadecimal and the image.
    fn key_suffix(&self) -> Vec<u8> {
        match self.pool {
            // No image: to list from the first.
            -1 => Vec::new(),
            pool => [format!("{pool:016x}_").as_bytes(), &self.image_id].concat(),
        }
    }

    fn key(&self) -> Name {
        match self.pool {
            -1 => Name::new(),
            _ => keys::join(Self::PREFIX, &self.key_suffix()),
        }
    }

    /// EIO where it is no such key.
    fn of_key_suffix(suffix: &[u8]) -> Result<Self, StepError> {
        let at = suffix.iter().position(|b| *b == b'_').ok_or(Errno::EIO)?;
        let pool = std::str::from_utf8(&suffix[..at]).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        Ok(Self { image_id: suffix[at + 1..].into(), pool: pool.ok_or(Errno::EIO)? as i64 })
    }
}

pub(super) fn group_dir_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.create(false)?;
    let (name, id): (Name, Name) = decode_input(input)?;
    keys::add_name(ctx, &name, &id, false)
}

pub(super) fn group_dir_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (name, id): (Name, Name) = decode_input(input)?;
    keys::remove_name(ctx, &name, &id)
}

pub(super) fn group_dir_rename(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (from, to, id): (Name, Name, Name) = args(input, |d| Ok((d.get()?, d.get()?, d.get()?)))?;
    keys::rename(ctx, &from, &to, &id)
}

pub(super) fn group_image_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let status: GroupImageStatus = decode_input(input)?;
    keys::set(ctx, status.image.key(), &status.state)?;
    Ok(0)
}

pub(super) fn group_image_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let image: GroupImage = decode_input(input)?;
    ctx.omap_remove(image.key())?;
    Ok(0)
}

pub(super) fn group_image_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<GroupImage>(input)?;
    let images = keys::list_values::<u8>(ctx, GroupImage::PREFIX, &after.key_suffix(), max)?;
    let status = |(suffix, state): (Name, u8)| {
        Ok(GroupImageStatus { image: GroupImage::of_key_suffix(&suffix)?, state })
    };
    let images = images.into_iter().map(status).collect::<Result<Vec<_>, StepError>>()?;
    ctx.reply(&images)
}

/// The key of an image's header that names its group.
const GROUP_KEY: &str = "rbd_group_ref";

/// Fails with EINVAL where what is stored can't be read.
fn group_of_image(ctx: &mut ClassContext<'_, '_>) -> Result<Option<Group>, StepError> {
    ctx.omap_value(GROUP_KEY)?.map(|value| decode_input(&value)).transpose()
}

/// Fails with EEXIST where the image is in another group.
pub(super) fn image_group_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let group: Group = decode_input(input)?;
    match group_of_image(ctx)? {
        Some(stored) if stored == group => return Ok(0),
        Some(_) => return Err(Errno::EEXIST.into()),
        None => {}
    }
    OpFeatures::set(ctx, OpFeatures::GROUP, OpFeatures::GROUP)?;
    keys::set(ctx, GROUP_KEY, &group)?;
    Ok(0)
}

/// Fails with EBADF where it is in another group.
pub(super) fn image_group_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let group: Group = decode_input(input)?;
    if group_of_image(ctx)?.ok_or(Errno::ENOENT)? != group {
        return Err(Errno::EBADF.into());
    }
    ctx.omap_remove(GROUP_KEY)?;
    OpFeatures::set(ctx, 0, OpFeatures::GROUP)?;
    Ok(0)
}

pub(super) fn image_group_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let none = Group { pool: -1, id: Name::new() };
    let group = group_of_image(ctx)?.unwrap_or(none);
    ctx.reply(&group)
}

const SNAP_PREFIX: &str = "snapshot_";
/// Snapshots' numbers in the order in which they were made.
const ORDER_PREFIX: &str = "snap_order_";
const MAX_ORDER_KEY: &str = "snap_max_order";

/// Records a snapshot that is begun (incomplete) or done. Fails with EEXIST where there is another of its name, or
/// where it is begun a second time.
pub(super) fn group_snap_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap: GroupSnap = decode_input(input)?;
    if snap.name.is_empty() || snap.id.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let others = keys::list_values::<GroupSnap>(ctx, SNAP_PREFIX, b"", u64::MAX)?;
    if others.iter().any(|(_, other)| other.name == snap.name && other.id != snap.id) {
        return Err(Errno::EEXIST.into());
    }
    let key = keys::join(SNAP_PREFIX, &snap.id);
    if snap.state == GroupSnap::INCOMPLETE {
        let order_key = keys::join(ORDER_PREFIX, &snap.id);
        if keys::has(ctx, key.clone())? || keys::has(ctx, order_key.clone())? {
            return Err(Errno::EEXIST.into());
        }
        let order = keys::get::<u64>(ctx, MAX_ORDER_KEY)?.unwrap_or(0).wrapping_add(1);
        keys::set(ctx, MAX_ORDER_KEY, &order)?;
        keys::set(ctx, order_key, &order)?;
    }
    keys::set(ctx, key, &snap)?;
    Ok(0)
}

pub(super) fn group_snap_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    ctx.omap_remove(keys::join(SNAP_PREFIX, &id))?;
    ctx.omap_remove(keys::join(ORDER_PREFIX, &id))?;
    Ok(0)
}

pub(super) fn group_snap_get_by_id(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    let snap: GroupSnap = keys::require(ctx, keys::join(SNAP_PREFIX, &id))?;
    ctx.reply(&snap)
}

pub(super) fn group_snap_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<GroupSnap>(input)?;
    let snaps = listed::<GroupSnap>(ctx, SNAP_PREFIX, &after.id, max)?;
    ctx.reply(&snaps.into_values().collect::<Vec<_>>())
}

pub(super) fn group_snap_list_order(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let orders = listed::<u64>(ctx, ORDER_PREFIX, &after, max)?;
    ctx.reply(&orders)
}

fn listed<T: Decode>(
    ctx: &mut ClassContext<'_, '_>,
    prefix: &str,
    after: &Name,
    max: u64,
) -> Result<BTreeMap<Name, T>, StepError> {
    Ok(keys::list_values(ctx, prefix, after, max)?.into_iter().collect())
}
