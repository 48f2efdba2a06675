//! An image's snapshots, a key of its header each (`snapshot_` and the id).

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::header::OpFeatures;
use super::keys::{self, args, optional};
use super::types::{HEAD, Parent, SNAP_MAX, Snap, SnapInfo, SnapNamespace};
use super::{old_format, parent};

const PREFIX: &str = "snapshot_";
/// How many snapshots the image may have.
const LIMIT_KEY: &str = "snap_limit";

fn key(id: u64) -> Name {
    format!("{PREFIX}{id:016x}").into()
}

/// EIO where the key is not one of a snapshot.
fn id_of(suffix: &[u8]) -> Result<u64, StepError> {
    let id = std::str::from_utf8(suffix).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
    id.ok_or(Errno::EIO.into())
}

impl Snap {
    /// Fails with ENOENT if the image has no snapshot of this id.
    pub fn require(ctx: &mut ClassContext<'_, '_>, id: u64) -> Result<Self, StepError> {
        keys::require(ctx, key(id))
    }

    /// Ascending by id.
    pub fn all(ctx: &mut ClassContext<'_, '_>) -> Result<Vec<Self>, StepError> {
        let snaps = keys::list_values(ctx, PREFIX, b"", u64::MAX)?;
        Ok(snaps.into_iter().map(|(_, snap)| snap).collect())
    }

    /// Moves a parent that the snapshot has of its own, as in old headers, into the header first.
    pub fn store(mut self, ctx: &mut ClassContext<'_, '_>) -> Result<(), StepError> {
        if self.parent.exists() {
            if !parent::stored(ctx)?.is_some_and(|stored| stored.exists()) {
                keys::set(ctx, parent::KEY, &Parent { head_overlap: None, ..self.parent.clone() })?;
            }
            self.parent_overlap = self.parent.head_overlap;
            self.parent = Parent::default();
        }
        keys::set(ctx, key(self.id), &self)
    }
}

/// The head has no snapshot's properties.
fn snap_of(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<Snap, StepError> {
    match decode_input(input)? {
        HEAD => Err(Errno::EINVAL.into()),
        snap => Snap::require(ctx, snap),
    }
}

pub(super) fn get_snapcontext(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let snaps = keys::list(ctx, PREFIX, b"", u64::MAX)?;
    let mut ids = snaps.iter().map(|(id, _)| id_of(id)).collect::<Result<Vec<u64>, StepError>>()?;
    ids.reverse();
    let seq: u64 = keys::require(ctx, "snap_seq")?;
    ctx.reply(&(seq, ids))
}

pub(super) fn get_snapshot_name(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap = snap_of(ctx, input)?;
    ctx.reply(&snap.name)
}

pub(super) fn get_snapshot_timestamp(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let snap = snap_of(ctx, input)?;
    ctx.reply(&snap.timestamp)
}

pub(super) fn snapshot_get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let Snap { id, namespace, name, image_size, timestamp, child_count, .. } = snap_of(ctx, input)?;
    ctx.reply(&SnapInfo { id, namespace, name, image_size, timestamp, child_count })
}

pub(super) fn get_protection_status(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.stat()?;
    let snap = snap_of(ctx, input)?;
    if snap.protection > Snap::PROTECTED {
        return Err(Errno::EIO.into());
    }
    ctx.reply(&snap.protection)
}

pub(super) fn set_protection_status(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, status): (u64, u8) = decode_input(input)?;
    ctx.stat()?;
    super::header::require_features(ctx, super::header::Features::LAYERING)?;
    if id == HEAD || status > Snap::PROTECTED {
        return Err(Errno::EINVAL.into());
    }
    let mut snap = Snap::require(ctx, id)?;
    snap.protection = status;
    snap.store(ctx)?;
    Ok(0)
}

/// Fails with ESTALE where a snapshot with a greater id was made meanwhile, EDQUOT where there are as many as the
/// image may have, EEXIST where there is one of this name and namespace.
pub(super) fn snapshot_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (name, id, namespace) = args(input, |d| {
        Ok((d.get::<Name>()?, d.get::<u64>()?, optional(d)?.unwrap_or(SnapNamespace::User)))
    })?;
    if namespace == SnapNamespace::Unknown || id > SNAP_MAX {
        return Err(Errno::EINVAL.into());
    }
    let seq: u64 = keys::require(ctx, "snap_seq")?;
    if id < seq {
        return Err(Errno::ESTALE.into());
    }
    let image_size = keys::require(ctx, "size")?;
    let flags = keys::get(ctx, "flags")?.unwrap_or(0);
    let limit = stored_limit(ctx)?;
    for (at, snap) in Snap::all(ctx)?.iter().enumerate() {
        if at as u64 + 1 >= limit {
            return Err(Errno::EDQUOT.into());
        }
        if (snap.name == name && snap.namespace == namespace) || snap.id == id {
            return Err(Errno::EEXIST.into());
        }
    }
    if namespace.kind() == SnapNamespace::TRASH {
        OpFeatures::set(ctx, OpFeatures::SNAP_TRASH, OpFeatures::SNAP_TRASH)?;
    }
    let parent = parent::stored(ctx)?.unwrap_or_default();
    let timestamp = ctx.now();
    keys::set(ctx, "snap_seq", &id)?;
    let (protection, child_count, parent_overlap) = (Snap::UNPROTECTED, 0, None);
    let snap = Snap {
        id,
        name,
        image_size,
        parent,
        protection,
        flags,
        namespace,
        timestamp,
        child_count,
        parent_overlap,
    };
    snap.store(ctx)?;
    Ok(0)
}

pub(super) fn snapshot_rename(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, name): (u64, Name) = decode_input(input)?;
    if Snap::all(ctx)?.iter().any(|snap| snap.namespace == SnapNamespace::User && snap.name == name) {
        return Err(Errno::EEXIST.into());
    }
    let mut snap = Snap::require(ctx, id)?;
    if snap.namespace != SnapNamespace::User {
        return Err(Errno::EINVAL.into());
    }
    snap.name = name;
    snap.store(ctx)?;
    Ok(0)
}

/// Fails with EBUSY where it is protected or has clones.
pub(super) fn snapshot_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: u64 = decode_input(input)?;
    let snap = Snap::require(ctx, id)?;
    if snap.protection != Snap::UNPROTECTED || snap.child_count > 0 {
        return Err(Errno::EBUSY.into());
    }
    keys::remove(ctx, key(id))?;
    let mut others = Snap::all(ctx)?;
    others.retain(|snap| snap.id != id);
    let parent = parent::stored(ctx)?.filter(Parent::exists);
    let is_head_child = parent.as_ref().is_some_and(|parent| parent.head_overlap.is_some());
    let is_child = is_head_child || others.iter().any(Snap::has_parent);
    if parent.is_some() && !is_child {
        keys::remove(ctx, parent::KEY)?;
    }
    let mut unused = 0;
    if !is_child {
        unused |= OpFeatures::CLONE_CHILD;
    }
    if !others.iter().any(Snap::is_in_trash) {
        unused |= OpFeatures::SNAP_TRASH;
    }
    if unused != 0 {
        OpFeatures::set(ctx, 0, unused)?;
    }
    Ok(0)
}

/// Hides a snapshot under a random name until its clones are gone.
pub(super) fn snapshot_trash_add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut snap = Snap::require(ctx, decode_input(input)?)?;
    if snap.protection != Snap::UNPROTECTED {
        return Err(Errno::EBUSY.into());
    }
    if snap.is_in_trash() {
        return Err(Errno::EEXIST.into());
    }
    OpFeatures::set(ctx, OpFeatures::SNAP_TRASH, OpFeatures::SNAP_TRASH)?;
    let original_name = std::mem::replace(&mut snap.name, keys::random_uuid(ctx));
    snap.namespace = SnapNamespace::Trash { original_name, original_kind: snap.namespace.kind() };
    snap.store(ctx)?;
    Ok(0)
}

pub(super) fn stored_limit(ctx: &mut ClassContext<'_, '_>) -> Result<u64, StepError> {
    Ok(keys::get(ctx, LIMIT_KEY)?.unwrap_or(u64::MAX))
}

pub(super) fn snapshot_get_limit(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let limit = stored_limit(ctx)?;
    ctx.reply(&limit)
}

/// Fails with ERANGE where there are more already. All ones are no limit.
pub(super) fn snapshot_set_limit(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let limit: u64 = decode_input(input)?;
    if limit == u64::MAX {
        ctx.omap_remove(LIMIT_KEY)?;
        return Ok(0);
    }
    let count = match old_format::snap_count(ctx)? {
        Some(count) => count.into(),
        None => keys::list(ctx, PREFIX, b"", u64::MAX)?.len() as u64,
    };
    if limit < count {
        return Err(Errno::ERANGE.into());
    }
    keys::set(ctx, LIMIT_KEY, &limit)?;
    Ok(0)
}
