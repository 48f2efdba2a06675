//! Clones: an image's parent, and the children of snapshots.

use std::collections::BTreeSet;

use buffer::Rope;
use encoding::{Decoder, Encoder};
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::header::{Features, OpFeatures, has_features, require_features};
use super::keys::{self, args, optional};
use super::types::{ChildSpec, HEAD, Parent, ParentSpec, Snap};

pub(super) const KEY: &str = "parent";

pub(super) fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<Option<Parent>, StepError> {
    keys::get(ctx, KEY)
}

/// Fails with EEXIST where the image has a parent, unless it is to be exchanged (`reattach`) or only snapshots have
/// it and it is this one.
fn attach(
    ctx: &mut ClassContext<'_, '_>,
    spec: ParentSpec,
    overlap: u64,
    reattach: bool,
) -> Result<i32, StepError> {
    ctx.stat()?;
    require_features(ctx, Features::LAYERING)?;
    let mut parent = Parent { spec, head_overlap: None };
    if !parent.exists() || overlap == 0 {
        return Err(Errno::EINVAL.into());
    }
    if stored(ctx)?.is_some_and(|stored| stored != parent) && !reattach {
        return Err(Errno::EEXIST.into());
    }
    let size: u64 = keys::require(ctx, "size")?;
    parent.head_overlap = Some(overlap.min(size));
    keys::set(ctx, KEY, &parent)?;
    Ok(0)
}

/// With deep flatten, snapshots lose their parent as well; otherwise it stays theirs.
fn detach(ctx: &mut ClassContext<'_, '_>, knows_namespaces: bool) -> Result<i32, StepError> {
    ctx.stat()?;
    require_features(ctx, Features::LAYERING)?;
    let deep = has_features(ctx, Features::DEEP_FLATTEN)?;
    let parent = stored(ctx)?.ok_or(Errno::ENOENT)?;
    if !knows_namespaces && !parent.spec.namespace.is_empty() {
        return Err(Errno::EXDEV.into());
    }
    if parent.head_overlap.is_none() {
        return Err(Errno::ENOENT.into());
    }
    let mut snaps = Snap::all(ctx)?;
    snaps.retain(Snap::has_parent);
    if !snaps.is_empty() && !deep {
        keys::set(ctx, KEY, &Parent { head_overlap: None, ..parent })?;
        return Ok(0);
    }
    for snap in snaps {
        Snap { parent: Parent::default(), parent_overlap: None, ..snap }.store(ctx)?;
    }
    keys::remove(ctx, KEY)?;
    OpFeatures::set(ctx, 0, OpFeatures::CLONE_CHILD)?;
    Ok(0)
}

/// As of before Nautilus. Fails with EXDEV where the parent is in a namespace.
pub(super) fn get_parent(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap: u64 = decode_input(input)?;
    ctx.stat()?;
    let mut parent = Parent::default();
    if has_features(ctx, Features::LAYERING)? {
        parent = stored(ctx)?.unwrap_or_default();
        if !parent.spec.namespace.is_empty() {
            return Err(Errno::EXDEV.into());
        }
        if snap != HEAD {
            parent = of_snap(ctx, snap, parent)?;
        }
    }
    let ParentSpec { pool, image_id, snap, .. } = parent.spec;
    ctx.reply(&((pool, image_id), (snap, parent.head_overlap.unwrap_or(0))))
}

/// The parent of a snapshot of an image whose parent is `parent`.
fn of_snap(ctx: &mut ClassContext<'_, '_>, id: u64, parent: Parent) -> Result<Parent, StepError> {
    let snap = match Snap::require(ctx, id) {
        Err(e) if e.is(Errno::ENOENT) => return Ok(Parent::default()),
        snap => snap?,
    };
    if snap.parent.exists() {
        return Ok(snap.parent);
    }
    match snap.parent_overlap {
        None => Ok(Parent::default()),
        Some(_) if !parent.exists() => Err(Errno::EINVAL.into()),
        overlap => Ok(Parent { head_overlap: overlap, ..parent }),
    }
}

pub(super) fn set_parent(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (spec, overlap) = args(input, |d| {
        let (pool, image_id, snap) = (d.get()?, d.get()?, d.get()?);
        Ok((ParentSpec { pool, namespace: Name::new(), image_id, snap }, d.get()?))
    })?;
    attach(ctx, spec, overlap, false)
}

pub(super) fn remove_parent(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    detach(ctx, false)
}

pub(super) fn parent_get(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    ctx.stat()?;
    let mut parent = Parent::default();
    if has_features(ctx, Features::LAYERING)? {
        parent = match stored(ctx)? {
            Some(parent) => parent,
            // Old headers have it in snapshots alone once the head is flattened.
            None => {
                let parents = Snap::all(ctx)?.into_iter().map(|snap| snap.parent);
                parents.filter(Parent::exists).last().unwrap_or_default()
            }
        };
    }
    ctx.reply(&parent.spec)
}

pub(super) fn parent_overlap_get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap: u64 = decode_input(input)?;
    let overlap = if !has_features(ctx, Features::LAYERING)? {
        None
    } else if snap == HEAD {
        stored(ctx)?.and_then(|parent| parent.head_overlap)
    } else {
        let snap = Snap::require(ctx, snap)?;
        let of_its_own = snap.parent.exists().then_some(snap.parent.head_overlap).flatten();
        snap.parent_overlap.or(of_its_own)
    };
    ctx.reply(&overlap)
}

pub(super) fn parent_attach(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (spec, overlap, reattach) = args(input, |d| Ok((d.get()?, d.get()?, optional(d)?.unwrap_or(false))))?;
    attach(ctx, spec, overlap, reattach)
}

pub(super) fn parent_detach(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    detach(ctx, true)
}

/// The key of a parent snapshot in `rbd_children`, the object of a pool that has the children of the first format of
/// clones: pool, image and snapshot, as they are encoded.
fn children_key(d: &mut Decoder<'_>) -> Result<Name, encoding::DecodeError> {
    let (pool, image_id, snap): (u64, Name, u64) = (d.get()?, d.get()?, d.get()?);
    let mut e = Encoder::new(0);
    e.put(&pool).put(&image_id).put(&snap);
    Ok(e.into_bytes().into())
}

fn child_args(input: &Rope) -> Result<(Name, Name), StepError> {
    args(input, |d| Ok((children_key(d)?, d.get()?)))
}

pub(super) fn add_child(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (key, child) = child_args(input)?;
    let mut children: BTreeSet<Name> = keys::get(ctx, key.clone())?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    keys::set(ctx, key, &children)?;
    Ok(0)
}

pub(super) fn remove_child(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (key, child) = child_args(input)?;
    let mut children: BTreeSet<Name> = keys::require(ctx, key.clone())?;
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        ctx.omap_remove(key)?;
    } else {
        keys::set(ctx, key, &children)?;
    }
    Ok(0)
}

pub(super) fn get_children(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let key = args(input, children_key)?;
    let children: BTreeSet<Name> = keys::require(ctx, key)?;
    ctx.reply(&children)
}

/// The key of a header that has the children of a snapshot, in the second format of clones.
fn snap_children_key(snap: u64) -> Name {
    format!("snap_children_{snap:016x}").into()
}

type Children = BTreeSet<ChildSpec>;

/// Fails with ENOENT where the snapshot is in the trash.
pub(super) fn child_attach(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, child): (u64, ChildSpec) = decode_input(input)?;
    let mut snap = Snap::require(ctx, id)?;
    if snap.is_in_trash() {
        return Err(Errno::ENOENT.into());
    }
    let mut children: Children = keys::get(ctx, snap_children_key(id))?.unwrap_or_default();
    if !children.insert(child) {
        return Err(Errno::EEXIST.into());
    }
    keys::set(ctx, snap_children_key(id), &children)?;
    snap.child_count = snap.child_count.wrapping_add(1);
    snap.store(ctx)?;
    OpFeatures::set(ctx, OpFeatures::CLONE_PARENT, OpFeatures::CLONE_PARENT)?;
    Ok(0)
}

pub(super) fn child_detach(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, child): (u64, ChildSpec) = decode_input(input)?;
    let mut snap = Snap::require(ctx, id)?;
    let mut children: Children = keys::get(ctx, snap_children_key(id))?.unwrap_or_default();
    if snap.child_count as usize != children.len() {
        return Err(Errno::EINVAL.into());
    }
    if !children.remove(&child) {
        return Err(Errno::ENOENT.into());
    }
    if children.is_empty() {
        keys::remove(ctx, snap_children_key(id))?;
    } else {
        keys::set(ctx, snap_children_key(id), &children)?;
    }
    snap.child_count = children.len() as u32;
    snap.store(ctx)?;
    if children.is_empty() && !Snap::all(ctx)?.iter().any(|other| other.id != id && other.child_count > 0) {
        OpFeatures::set(ctx, 0, OpFeatures::CLONE_PARENT)?;
    }
    Ok(0)
}

pub(super) fn children_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: u64 = decode_input(input)?;
    Snap::require(ctx, id)?;
    let children: Children = keys::require(ctx, snap_children_key(id))?;
    ctx.reply(&children)
}
