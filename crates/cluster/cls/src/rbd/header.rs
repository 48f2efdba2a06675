//! The header object of an image (`rbd_header.ID`), except for snapshots and parents; and the object that has an image's
//! id (`rbd_id.NAME`).

use std::collections::BTreeMap;

use buffer::Rope;
use encoding::Encode;
use ops::{ClassContext, StepError, decode_input, decode_stored};
use types::{Errno, Name, UTime};

use super::keys::{self, args, optional};
use super::parent;
use super::types::{HEAD, Snap};

/// An image's features (RBD_FEATURE_*).
pub(super) struct Features;

impl Features {
    pub const LAYERING: u64 = 1 << 0;
    pub const STRIPING: u64 = 1 << 1;
    pub const EXCLUSIVE_LOCK: u64 = 1 << 2;
    pub const OBJECT_MAP: u64 = 1 << 3;
    pub const FAST_DIFF: u64 = 1 << 4;
    pub const DEEP_FLATTEN: u64 = 1 << 5;
    pub const JOURNALING: u64 = 1 << 6;
    pub const DATA_POOL: u64 = 1 << 7;
    pub const OPERATIONS: u64 = 1 << 8;
    pub const MIGRATING: u64 = 1 << 9;
    pub const NON_PRIMARY: u64 = 1 << 10;
    pub const DIRTY_CACHE: u64 = 1 << 11;

    pub const ALL: u64 = (1 << 12) - 1;
    /// A client that does not know them can't read the image.
    const INCOMPATIBLE: u64 = Self::LAYERING | Self::STRIPING | Self::DATA_POOL | Self::DIRTY_CACHE;
    /// Those that can be switched on and off.
    const MUTABLE: u64 = Self::EXCLUSIVE_LOCK
        | Self::OBJECT_MAP
        | Self::FAST_DIFF
        | Self::JOURNALING
        | Self::NON_PRIMARY
        | Self::DIRTY_CACHE;
    /// Switched by this class alone.
    const INTERNAL: u64 = Self::OPERATIONS | Self::MIGRATING;
}

/// Operations that an image is part of (RBD_OPERATION_FEATURE_*). While there is one, the image has
/// [`Features::OPERATIONS`].
pub(super) struct OpFeatures;

impl OpFeatures {
    pub const CLONE_PARENT: u64 = 1 << 0;
    pub const CLONE_CHILD: u64 = 1 << 1;
    pub const GROUP: u64 = 1 << 2;
    pub const SNAP_TRASH: u64 = 1 << 3;
    const ALL: u64 = (1 << 4) - 1;

    /// Sets those in `mask` to what `features` has of them. Fails with ENOENT where the object is not a header of
    /// format 2.
    pub fn set(ctx: &mut ClassContext<'_, '_>, features: u64, mask: u64) -> Result<(), StepError> {
        let old_image_features: u64 = keys::require(ctx, "features")?;
        let old = keys::get(ctx, "op_features")?.unwrap_or(0);
        let new = old & !mask | features & mask;
        if new == old {
            return Ok(());
        }
        let image_features = if new == 0 {
            keys::remove(ctx, "op_features")?;
            old_image_features & !Features::OPERATIONS
        } else {
            keys::set(ctx, "op_features", &new)?;
            old_image_features | Features::OPERATIONS
        };
        if image_features != old_image_features {
            keys::set(ctx, "features", &image_features)?;
        }
        Ok(())
    }
}

/// Whether the image has all of these features; an image of format 1 has none.
pub(super) fn has_features(ctx: &mut ClassContext<'_, '_>, need: u64) -> Result<bool, StepError> {
    Ok(keys::get::<u64>(ctx, "features")?.is_some_and(|features| features & need == need))
}

pub(super) fn require_features(ctx: &mut ClassContext<'_, '_>, need: u64) -> Result<(), StepError> {
    if has_features(ctx, need)? { Ok(()) } else { Err(Errno::ENOEXEC.into()) }
}

pub(super) fn create(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (size, order, features, prefix, data_pool) = args(input, |d| {
        let (size, order, features) = (d.get::<u64>()?, d.get::<u8>()?, d.get::<u64>()?);
        Ok((size, order, features, d.get::<Name>()?, optional::<i64>(d)?.filter(|pool| *pool != -1)))
    })?;
    if features & !Features::ALL != 0 {
        return Err(Errno::ENOSYS.into());
    }
    if prefix.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    if keys::has(ctx, "object_prefix")? {
        return Err(Errno::EEXIST.into());
    }
    let wants_data_pool = features & Features::DATA_POOL != 0;
    if features & Features::OPERATIONS != 0 || wants_data_pool != data_pool.is_some() {
        return Err(Errno::EINVAL.into());
    }
    let now = ctx.now().to_bytes(0);
    let mut pairs: Vec<(Name, Rope)> = vec![
        ("size".into(), size.to_bytes(0).into()),
        ("order".into(), order.to_bytes(0).into()),
        ("features".into(), features.to_bytes(0).into()),
        ("object_prefix".into(), prefix.to_bytes(0).into()),
        ("snap_seq".into(), 0_u64.to_bytes(0).into()),
        ("create_timestamp".into(), now.clone().into()),
        ("access_timestamp".into(), now.clone().into()),
        ("modify_timestamp".into(), now.into()),
    ];
    pairs.extend(data_pool.map(|pool| ("data_pool_id".into(), pool.to_bytes(0).into())));
    ctx.omap_set_all(pairs)?;
    Ok(0)
}

pub(super) fn get_features(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let read_only = args(input, |d| {
        let _snap: u64 = d.get()?;
        Ok(optional(d)?.unwrap_or(false))
    })?;
    let features: u64 = keys::require(ctx, "features")?;
    // Every feature keeps a client that does not know it from writing.
    let incompatible = if read_only { Features::INCOMPATIBLE } else { Features::ALL };
    ctx.reply(&(features, features & incompatible))
}

pub(super) fn get_all_features(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    ctx.reply(&Features::ALL)
}

pub(super) fn set_features(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (features, mask): (u64, u64) = decode_input(input)?;
    let old = keys::get::<u64>(ctx, "features")?.unwrap_or(0);
    // A newer client may switch off what is not known here.
    let (internal, mask) = (mask & Features::INTERNAL, mask & Features::ALL);
    let (enabled, disabled) = (features & mask, !features & mask);
    let may_disable = Features::MUTABLE | Features::DEEP_FLATTEN;
    if internal != 0 || enabled & !Features::MUTABLE != 0 || disabled & !may_disable != 0 {
        return Err(Errno::EINVAL.into());
    }
    keys::set(ctx, "features", &(old & !mask | enabled))?;
    Ok(0)
}

pub(super) fn get_size(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap: u64 = decode_input(input)?;
    let order: u8 = keys::require(ctx, "order")?;
    let size: u64 = match snap {
        HEAD => keys::require(ctx, "size")?,
        snap => Snap::require(ctx, snap)?.image_size,
    };
    ctx.reply(&(order, size))
}

/// What an image loses at its end is not its parent's any more, should it grow again.
pub(super) fn set_size(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let size: u64 = decode_input(input)?;
    let old: u64 = keys::require(ctx, "size")?;
    keys::set(ctx, "size", &size)?;
    if size < old {
        let mut parent = parent::stored(ctx)?.unwrap_or_default();
        if parent.exists() && parent.head_overlap.is_some_and(|overlap| overlap > size) {
            parent.head_overlap = Some(size);
            keys::set(ctx, parent::KEY, &parent)?;
        }
    }
    Ok(0)
}

/// Bytes of an object, 2 to the power of the image's order.
fn object_size(order: u8) -> Result<u64, StepError> {
    1_u64.checked_shl(order.into()).ok_or(Errno::EIO.into())
}

pub(super) fn get_stripe_unit_count(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    ctx.stat()?;
    require_features(ctx, Features::STRIPING)?;
    let unit = match keys::get(ctx, "stripe_unit")? {
        Some(unit) => unit,
        None => object_size(keys::get(ctx, "order")?.ok_or(Errno::EIO)?)?,
    };
    let count = keys::get(ctx, "stripe_count")?.unwrap_or(1_u64);
    ctx.reply(&(unit, count))
}

pub(super) fn set_stripe_unit_count(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (unit, count): (u64, u64) = decode_input(input)?;
    if unit == 0 || count == 0 {
        return Err(Errno::EINVAL.into());
    }
    ctx.stat()?;
    require_features(ctx, Features::STRIPING)?;
    let object_size = object_size(keys::require(ctx, "order")?)?;
    if unit > object_size || object_size % unit != 0 {
        return Err(Errno::EINVAL.into());
    }
    keys::set(ctx, "stripe_unit", &unit)?;
    keys::set(ctx, "stripe_count", &count)?;
    Ok(0)
}

/// Zero where an older client made the image.
fn timestamp(ctx: &mut ClassContext<'_, '_>, key: &str) -> Result<i32, StepError> {
    let at = keys::get::<UTime>(ctx, key)?.unwrap_or_default();
    ctx.reply(&at)
}

fn touch(ctx: &mut ClassContext<'_, '_>, key: &str) -> Result<i32, StepError> {
    ctx.stat()?;
    let now = ctx.now();
    keys::set(ctx, key, &now)?;
    Ok(0)
}

pub(super) fn get_create_timestamp(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    timestamp(ctx, "create_timestamp")
}

pub(super) fn get_access_timestamp(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    timestamp(ctx, "access_timestamp")
}

pub(super) fn get_modify_timestamp(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    timestamp(ctx, "modify_timestamp")
}

pub(super) fn set_access_timestamp(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    touch(ctx, "access_timestamp")
}

pub(super) fn set_modify_timestamp(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    touch(ctx, "modify_timestamp")
}

pub(super) fn get_flags(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let flags: u64 = match decode_input(input)? {
        HEAD => keys::get(ctx, "flags")?.unwrap_or(0),
        snap => Snap::require(ctx, snap)?.flags,
    };
    ctx.reply(&flags)
}

pub(super) fn set_flags(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (flags, mask, snap) =
        args(input, |d| Ok((d.get::<u64>()?, d.get::<u64>()?, optional(d)?.unwrap_or(HEAD))))?;
    let changed = |old: u64| old & !mask | flags & mask;
    if snap == HEAD {
        let old = keys::get(ctx, "flags")?.unwrap_or(0);
        keys::set(ctx, "flags", &changed(old))?;
    } else {
        let mut snap = Snap::require(ctx, snap)?;
        snap.flags = changed(snap.flags);
        snap.store(ctx)?;
    }
    Ok(0)
}

pub(super) fn op_features_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let features = keys::get::<u64>(ctx, "op_features")?.unwrap_or(0);
    ctx.reply(&features)
}

pub(super) fn op_features_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (features, mask): (u64, u64) = decode_input(input)?;
    if mask & !OpFeatures::ALL != 0 {
        return Err(Errno::EINVAL.into());
    }
    OpFeatures::set(ctx, features, mask)?;
    Ok(0)
}

pub(super) fn get_object_prefix(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let prefix: Name = keys::require(ctx, "object_prefix")?;
    ctx.reply(&prefix)
}

pub(super) fn get_data_pool(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let pool = keys::get::<i64>(ctx, "data_pool_id")?.unwrap_or(-1);
    ctx.reply(&pool)
}

const METADATA_PREFIX: &str = "metadata_";

pub(super) fn metadata_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    const DEFAULT_MAX: u64 = 64;
    let (after, max) = keys::list_args::<Name>(input)?;
    let max = if max == 0 { DEFAULT_MAX } else { max };
    let pairs = keys::list(ctx, METADATA_PREFIX, &after, max)?;
    let pairs: BTreeMap<Name, Name> =
        pairs.into_iter().map(|(name, value)| (name, value.to_vec().into())).collect();
    ctx.reply(&pairs)
}

pub(super) fn metadata_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let pairs: BTreeMap<Name, Name> = decode_input(input)?;
    let stored = |(name, value): (Name, Name)| (keys::join(METADATA_PREFIX, &name), Rope::copy_from(&value));
    ctx.omap_set_all(pairs.into_iter().map(stored).collect())?;
    Ok(0)
}

pub(super) fn metadata_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let name: Name = decode_input(input)?;
    ctx.omap_remove(keys::join(METADATA_PREFIX, &name))?;
    Ok(0)
}

pub(super) fn metadata_get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let name: Name = decode_input(input)?;
    let value = ctx.omap_value(keys::join(METADATA_PREFIX, &name))?.ok_or(Errno::ENOENT)?;
    ctx.reply(&Name::from(value.to_vec()))
}

pub(super) fn get_id(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let (size, _) = ctx.stat()?;
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    let id: Name = decode_stored(&ctx.read(0, size)?)?;
    ctx.reply(&id)
}

pub(super) fn set_id(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (size, _) = ctx.stat()?;
    let id: Name = decode_input(input)?;
    if !keys::is_valid_id(&id) {
        return Err(Errno::EINVAL.into());
    }
    if size != 0 {
        return Err(Errno::EEXIST.into());
    }
    ctx.write(0, id.to_bytes(0))?;
    Ok(0)
}
