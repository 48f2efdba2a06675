//! The data objects of images (`rbd_data.ID.NUMBER`).

use std::collections::BTreeMap;

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::Errno;

/// Writes what a clone's parent has; nothing where the object was written meanwhile.
pub(super) fn copyup(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    if !ctx.exists() {
        // It came behind the method's name. In pages the store writes it as it is; else it copies each block.
        ctx.write(0, input.clone().in_pages())?;
    }
    Ok(0)
}

/// The same, of extents: offsets and lengths, then their data.
pub(super) fn sparse_copyup(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (extents, mut data) = extents_and_data(input)?;
    if ctx.exists() {
        return Ok(0);
    }
    if extents.is_empty() {
        ctx.create(true)?;
    }
    for (offset, len) in extents {
        let len = usize::try_from(len).map_err(|_| Errno::EINVAL)?;
        let extent = data.split_front(len).ok_or(Errno::EINVAL)?;
        ctx.write(offset, extent.in_pages())?;
    }
    Ok(0)
}

/// A map of extents and a string, of which only the map is copied: the string is an object's data.
fn extents_and_data(input: &Rope) -> Result<(BTreeMap<u64, u64>, Rope), StepError> {
    const COUNT_LEN: usize = 4;
    const EXTENT_LEN: usize = 16;
    let count: u32 = decode_input(&input.slice(0..input.len().min(COUNT_LEN)))?;
    let mut rest = input.clone();
    let mut take = |len: usize| rest.split_front(len).ok_or(Errno::EINVAL);
    let extents = decode_input(&take(COUNT_LEN + EXTENT_LEN * count as usize)?)?;
    let len: u32 = decode_input(&take(COUNT_LEN)?)?;
    Ok((extents, take(len as usize)?))
}

/// Fails unless the snapshot id given is newer than the object's newest (state 0), or is not (state 1): ERANGE.
pub(super) fn assert_snapc_seq(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    const NEWER: u8 = 0;
    const NOT_NEWER: u8 = 1;
    let (seq, state): (u64, u8) = decode_input(input)?;
    let snaps = ctx.snapset();
    let has_no_snaps = !ctx.exists() && snaps.clones.is_empty();
    let newer = has_no_snaps || seq > snaps.seq;
    match (state, newer) {
        (NEWER, true) | (NOT_NEWER, false) => Ok(0),
        (NEWER, false) | (NOT_NEWER, true) => Err(Errno::ERANGE.into()),
        _ => Err(Errno::EOPNOTSUPP.into()),
    }
}

/// The runs of `data` that are not zero, by chunks of `chunk` bytes: where each begins and ends.
fn runs(data: &[u8], chunk: u64) -> Vec<(usize, usize)> {
    let chunk = usize::try_from(chunk).unwrap_or(usize::MAX).min(data.len());
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (at, bytes) in data.chunks(chunk.max(1)).enumerate() {
        if bytes.iter().all(|b| *b == 0) {
            continue;
        }
        let (start, end) = (at * chunk, at * chunk + bytes.len());
        match runs.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => runs.push((start, end)),
        }
    }
    runs
}

/// Writes the object again without its chunks of zeros; removes it where nothing remains and it is to be.
pub(super) fn sparsify(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (chunk, remove_empty): (u64, bool) = decode_input(input)?;
    if chunk == 0 {
        return Err(Errno::EINVAL.into());
    }
    ctx.stat()?;
    let data = ctx.read(0, 0)?;
    let piece = data.to_piece();
    let runs = runs(&piece, chunk);
    match runs.as_slice() {
        [] if remove_empty => ctx.remove()?,
        [] if data.is_empty() => {}
        [] => ctx.truncate(0)?,
        [(0, end)] if *end == data.len() => {}
        runs => {
            ctx.truncate(0)?;
            for (start, end) in runs {
                ctx.write(*start as u64, data.slice(*start..*end))?;
            }
        }
    }
    Ok(0)
}
