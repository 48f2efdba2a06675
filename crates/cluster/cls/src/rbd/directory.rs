//! Lists of a pool: images (`rbd_directory`), images in the trash (`rbd_trash`) and namespaces (`rbd_namespace`).

use std::collections::BTreeMap;

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name, UTime};

use super::keys::{self, ID_PREFIX, NAME_PREFIX, args};
use super::types::structure;

pub(super) fn dir_get_id(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let name: Name = decode_input(input)?;
    let id: Name = keys::require(ctx, keys::join(NAME_PREFIX, &name))?;
    ctx.reply(&id)
}

pub(super) fn dir_get_name(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    let name: Name = keys::require(ctx, keys::join(ID_PREFIX, &id))?;
    ctx.reply(&name)
}

/// Names and ids; of images as of groups.
pub(super) fn dir_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let names = keys::list_values::<Name>(ctx, NAME_PREFIX, &after, max)?;
    ctx.reply(&names.into_iter().collect::<BTreeMap<_, _>>())
}

pub(super) fn dir_add_image(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.create(false)?;
    let (name, id): (Name, Name) = decode_input(input)?;
    keys::add_name(ctx, &name, &id, false)
}

pub(super) fn dir_remove_image(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (name, id): (Name, Name) = decode_input(input)?;
    keys::remove_name(ctx, &name, &id)
}

pub(super) fn dir_rename_image(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (from, to, id): (Name, Name, Name) = args(input, |d| Ok((d.get()?, d.get()?, d.get()?)))?;
    keys::rename(ctx, &from, &to, &id)
}

/// Whether images can be added (DIRECTORY_STATE_*).
const STATE_KEY: &str = "state";
const STATE_READY: u8 = 0;
const STATE_ADD_DISABLED: u8 = 1;

/// Fails with ENOENT where it is in another state, or in none.
pub(super) fn dir_state_assert(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let state: u8 = decode_input(input)?;
    match keys::require::<u8>(ctx, STATE_KEY)? {
        stored if stored == state => Ok(0),
        _ => Err(Errno::ENOENT.into()),
    }
}

/// Fails with EBUSY where adding is to be disabled and there are images.
pub(super) fn dir_state_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let state: u8 = decode_input(input)?;
    match state {
        STATE_READY => {}
        STATE_ADD_DISABLED => {
            ctx.stat()?;
            if !keys::list(ctx, NAME_PREFIX, b"", 1)?.is_empty() {
                return Err(Errno::EBUSY.into());
            }
        }
        _ => return Err(Errno::EINVAL.into()),
    }
    keys::set(ctx, STATE_KEY, &state)?;
    Ok(0)
}

structure! {
    /// An image in the trash.
    TrashImage, "TrashImageSpec", version 2 {
        /// TRASH_IMAGE_SOURCE_*.
        source: u8, since 1;
        name: Name, since 1;
        deletion_time: UTime, since 1;
        /// Before then it is removed by force alone.
        deferment_end_time: UTime, since 1;
        /// TRASH_IMAGE_STATE_*.
        state: u8, since 2;
    }
}

pub(super) fn trash_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.create(false)?;
    let (id, image): (Name, TrashImage) = decode_input(input)?;
    if !keys::is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    let key = keys::join(ID_PREFIX, &id);
    if keys::has(ctx, key.clone())? {
        return Err(Errno::EEXIST.into());
    }
    keys::set(ctx, key, &image)?;
    Ok(0)
}

pub(super) fn trash_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    remove_existing(ctx, ID_PREFIX, input)
}

/// Removes the key of the name in the input; fails with ENOENT if there is none.
fn remove_existing(ctx: &mut ClassContext<'_, '_>, prefix: &str, input: &Rope) -> Result<i32, StepError> {
    let name: Name = decode_input(input)?;
    let key = keys::join(prefix, &name);
    if !keys::has(ctx, key.clone())? {
        return Err(Errno::ENOENT.into());
    }
    ctx.omap_remove(key)?;
    Ok(0)
}

pub(super) fn trash_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let images = keys::list_values::<TrashImage>(ctx, ID_PREFIX, &after, max)?;
    ctx.reply(&images.into_iter().collect::<BTreeMap<_, _>>())
}

pub(super) fn trash_get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    let image = ctx.omap_value(keys::join(ID_PREFIX, &id))?.ok_or(Errno::ENOENT)?;
    ctx.set_output(image);
    Ok(0)
}

/// Fails with ESTALE where it is in neither the state expected nor the new one.
pub(super) fn trash_state_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, state, expected): (Name, u8, u8) = args(input, |d| Ok((d.get()?, d.get()?, d.get()?)))?;
    let key = keys::join(ID_PREFIX, &id);
    let mut image: TrashImage = keys::require(ctx, key.clone())?;
    if image.state == expected {
        image.state = state;
        keys::set(ctx, key, &image)?;
    } else if image.state != state {
        return Err(Errno::ESTALE.into());
    }
    Ok(0)
}

pub(super) fn namespace_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let name: Name = decode_input(input)?;
    let key = keys::join(NAME_PREFIX, &name);
    if keys::has(ctx, key.clone())? {
        return Err(Errno::EEXIST.into());
    }
    ctx.omap_set(key, Rope::new())?;
    Ok(0)
}

pub(super) fn namespace_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    remove_existing(ctx, NAME_PREFIX, input)
}

pub(super) fn namespace_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max) = keys::list_args::<Name>(input)?;
    let names = keys::list(ctx, NAME_PREFIX, &after, max)?;
    ctx.reply(&names.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
}
