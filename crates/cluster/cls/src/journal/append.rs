//! Appends to a journal's objects.

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name, Release};

/// CEPH_OSD_OP_FLAG_FADVISE_DONTNEED.
const DONT_NEED: u32 = 0x20;

/// What the size of an object is a multiple of after an append. Ceph pads to its store's units of allocation, and to
/// these bytes where it does not know them.
const PADDING: u64 = 8;

/// The object's size; fails with EOVERFLOW where that is `max` or more.
fn size_below(ctx: &mut ClassContext<'_, '_>, max: u64) -> Result<u64, StepError> {
    let size = match ctx.stat() {
        Err(e) if e.is(Errno::ENOENT) => 0,
        stat => stat?.0,
    };
    if size >= max { Err(Errno::EOVERFLOW.into()) } else { Ok(size) }
}

/// Fails with EOVERFLOW where the object is full; one that does not exist never is.
pub(super) fn guard_append(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let max: u64 = decode_input(input)?;
    if ctx.exists() {
        size_below(ctx, max)?;
    }
    Ok(0)
}

/// Clients since Octopus skip zeros between entries, so that each append can begin where nothing was written before.
/// Fails with EOVERFLOW where the object is full.
pub(super) fn append(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (max, data): (u64, Name) = decode_input(input)?;
    let start = size_below(ctx, max)?;
    ctx.write_with_flags(start, Rope::copy_from(&data), DONT_NEED)?;
    let end = start.saturating_add(data.len() as u64);
    let padded = end.checked_next_multiple_of(PADDING).unwrap_or(end);
    if padded != end && ctx.require_min_compat_client() >= Release::OCTOPUS {
        ctx.truncate(padded)?;
    }
    Ok(0)
}
