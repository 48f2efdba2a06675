//! A journal's layout, and which of its sets of objects are in use.

use std::cmp::Ordering;

use buffer::Rope;
use encoding::{Decode, Encode};
use ops::{ClassContext, StepError, decode_input};
use types::Errno;

use crate::keys;

const ORDER: &str = "order";
pub(super) const SPLAY_WIDTH: &str = "splay_width";
const POOL_ID: &str = "pool_id";
const MINIMUM_SET: &str = "minimum_set";
const ACTIVE_SET: &str = "active_set";
pub(super) const NEXT_TAG_TID: &str = "next_tag_tid";
pub(super) const NEXT_TAG_CLASS: &str = "next_tag_class";

/// Fails with ENOENT if the object holds no journal.
pub(super) fn check_exists(ctx: &mut ClassContext<'_, '_>) -> Result<(), StepError> {
    keys::require::<u8>(ctx, ORDER).map(drop)
}

/// Fails with EEXIST where there is a journal.
pub(super) fn create(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (order, (splay_width, pool)): (u8, (u8, i64)) = decode_input(input)?;
    if keys::has(ctx, ORDER)? {
        return Err(Errno::EEXIST.into());
    }
    keys::set(ctx, ORDER, &order)?;
    keys::set(ctx, SPLAY_WIDTH, &splay_width)?;
    keys::set(ctx, POOL_ID, &pool)?;
    for key in [ACTIVE_SET, MINIMUM_SET, NEXT_TAG_TID, NEXT_TAG_CLASS] {
        keys::set(ctx, key, &0u64)?;
    }
    Ok(0)
}

fn get<T: Decode + Encode>(ctx: &mut ClassContext<'_, '_>, key: &str) -> Result<i32, StepError> {
    let value: T = keys::require(ctx, key)?;
    ctx.reply(&value)
}

/// Bits of an object's size.
pub(super) fn get_order(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<u8>(ctx, ORDER)
}

/// Objects of a set.
pub(super) fn get_splay_width(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<u8>(ctx, SPLAY_WIDTH)
}

/// The pool of the journal's objects; -1: the header's.
pub(super) fn get_pool_id(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<i64>(ctx, POOL_ID)
}

pub(super) fn get_minimum_set(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<u64>(ctx, MINIMUM_SET)
}

pub(super) fn get_active_set(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<u64>(ctx, ACTIVE_SET)
}

pub(super) fn get_next_tag_tid(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    get::<u64>(ctx, NEXT_TAG_TID)
}

/// Fails with ESTALE where `set` is before the one that is stored.
fn advance(ctx: &mut ClassContext<'_, '_>, key: &str, set: u64) -> Result<i32, StepError> {
    let current: u64 = keys::require(ctx, key)?;
    match set.cmp(&current) {
        Ordering::Less => return Err(Errno::ESTALE.into()),
        Ordering::Equal => {}
        Ordering::Greater => keys::set(ctx, key, &set)?,
    }
    Ok(0)
}

/// Fails with EINVAL where it would be after the active set.
pub(super) fn set_minimum_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let set: u64 = decode_input(input)?;
    if set > keys::require(ctx, ACTIVE_SET)? {
        return Err(Errno::EINVAL.into());
    }
    advance(ctx, MINIMUM_SET, set)
}

/// Fails with EINVAL where it would be before the minimum set.
pub(super) fn set_active_set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let set: u64 = decode_input(input)?;
    if set < keys::require(ctx, MINIMUM_SET)? {
        return Err(Errno::EINVAL.into());
    }
    advance(ctx, ACTIVE_SET, set)
}
