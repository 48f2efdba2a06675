//! The object map of an image or of a snapshot (`rbd_object_map.ID`): which of its objects there are.

use buffer::Rope;
use encoding::Encode;
use ops::{ClassContext, StepError, decode_input};
use types::Errno;

use super::bit_vector::{BitVector, Elements, HEADER_LEN, Layout};
use super::keys::args;

/// The object is there.
const EXISTS: u8 = 1;
/// It is there and not changed since the newest snapshot.
const EXISTS_CLEAN: u8 = 3;
/// Objects that a map can have.
const LEN_MAX: u64 = 256_000_000;
/// The object will be used again soon (CEPH_OSD_OP_FLAG_FADVISE_WILLNEED).
const WILL_NEED: u32 = 0x10;

/// Fails with ENOENT where it is empty, EINVAL where it can't be read.
fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<BitVector, StepError> {
    let (size, _) = ctx.stat()?;
    if size == 0 {
        return Err(Errno::ENOENT.into());
    }
    decode_input(&ctx.read(0, size)?)
}

fn store(ctx: &mut ClassContext<'_, '_>, map: &BitVector) -> Result<i32, StepError> {
    ctx.write_full(map.to_bytes(0))?;
    Ok(0)
}

/// What it returns has no checksums.
pub(super) fn object_map_load(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let mut map = stored(ctx)?;
    map.with_crcs = false;
    ctx.reply(&map)
}

pub(super) fn object_map_save(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut map: BitVector = decode_input(input)?;
    map.with_crcs = true;
    store(ctx, &map)
}

/// New objects are in the state given, and so must be those that are cut off: fails with ESTALE if not.
pub(super) fn object_map_resize(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (len, state): (u64, u8) = decode_input(input)?;
    if len > LEN_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut map = match stored(ctx) {
        Err(e) if e.is(Errno::ENOENT) => BitVector::new(),
        map => map?,
    };
    if (len..map.len()).any(|at| map.get(at) != Some(state)) {
        return Err(Errno::ESTALE.into());
    }
    map.resize(len, state);
    store(ctx, &map)
}

/// Reads and writes the blocks of the objects concerned alone. Fails with ERANGE where the map has no such objects.
pub(super) fn object_map_update(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (first, end, new, old) = args(input, |d| {
        let (first, end, new) = (d.get::<u64>()?, d.get::<u64>()?, d.get::<u8>()?);
        Ok((first, end, new, d.get::<Option<u8>>()?))
    })?;
    ctx.stat()?;
    let layout: Layout = decode_input(&ctx.read_with_flags(0, HEADER_LEN, WILL_NEED)?)?;
    if first >= end || end > layout.0 {
        return Err(Errno::ERANGE.into());
    }
    let blocks = layout.blocks_of(first, end);
    let (crcs_offset, crcs_len) = layout.crcs_extent(blocks);
    let (data_offset, data_len) = layout.data_extent(blocks);
    let crcs = ctx.read_with_flags(crcs_offset, crcs_len, WILL_NEED)?;
    let data = ctx.read_with_flags(data_offset, data_len, WILL_NEED)?;
    if data.len() as u64 != data_len {
        return Err(Errno::EINVAL.into());
    }
    let crcs: Vec<u32> = args(&crcs, |d| (0..blocks.1 - blocks.0).map(|_| d.get()).collect())?;
    let mut elements = Elements::checked(data.to_vec(), &crcs).map_err(|_| Errno::EINVAL)?;
    let origin = layout.first_of(blocks.0);
    let mut changed = false;
    for at in first - origin..end - origin {
        let state = elements.get(at);
        let concerned = old.is_none_or(|old| state == old || (old == EXISTS && state == EXISTS_CLEAN));
        if concerned && state != new {
            elements.set(at, new);
            changed = true;
        }
    }
    if changed {
        let crcs: Vec<u8> = elements.crcs().iter().flat_map(|crc| crc.to_le_bytes()).collect();
        ctx.write_with_flags(data_offset, Rope::copy_from(elements.bytes()), WILL_NEED)?;
        ctx.write_with_flags(crcs_offset, crcs, WILL_NEED)?;
    }
    Ok(0)
}

/// A snapshot is made: what there is is unchanged since.
pub(super) fn object_map_snap_add(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let mut map = stored(ctx)?;
    if map.change_all(|_, state| if state == EXISTS { EXISTS_CLEAN } else { state }) {
        store(ctx, &map)?;
    }
    Ok(0)
}

/// The snapshot before this one is removed, whose map is the input: what had changed in it has so since the one before.
pub(super) fn object_map_snap_remove(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let removed: BitVector = decode_input(input)?;
    let mut map = stored(ctx)?;
    let was_dirty = |at| removed.get(at).is_none_or(|state| state == EXISTS);
    let changed =
        map.change_all(|at, state| if state == EXISTS_CLEAN && was_dirty(at) { EXISTS } else { state });
    if changed {
        store(ctx, &map)?;
    }
    Ok(0)
}
