//! A journal's tags: numbered in the order of their creation, each of a class.

use std::collections::BTreeMap;

use buffer::Rope;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::client;
use super::header::{NEXT_TAG_CLASS, NEXT_TAG_TID};
use super::types::{Client, ObjectSetPosition, Tag};
use crate::keys;

const PREFIX: &str = "tag_";
/// As the class of a tag that is to be created: one that there is not yet.
const CLASS_NEW: u64 = u64::MAX;

fn key(tid: u64) -> Name {
    format!("{PREFIX}{tid:016x}").into()
}

/// By ascending number.
fn all(ctx: &mut ClassContext<'_, '_>) -> Result<Vec<(Name, Tag)>, StepError> {
    keys::list_values(ctx, PREFIX, b"", u64::MAX)
}

/// The lowest tag of a position's entries.
fn lowest_tag(position: &ObjectSetPosition) -> Option<u64> {
    position.0.iter().map(|p| p.tag_tid).min()
}

/// For each class, the last of its tags that are not after the first one that is `in_use`.
fn lowest_of_classes<'t>(tags: impl Iterator<Item = &'t Tag>, in_use: u64) -> BTreeMap<u64, u64> {
    let mut lowest = BTreeMap::new();
    for tag in tags {
        lowest.insert(tag.class, tag.tid);
        if tag.tid >= in_use {
            break;
        }
    }
    lowest
}

/// Removes the tags that no connected client has use for, `except` one. None is removed as long as one of the clients
/// has committed nothing.
pub(super) fn remove_unused(ctx: &mut ClassContext<'_, '_>, except: Option<&Name>) -> Result<(), StepError> {
    let mut in_use = None;
    for client in client::all(ctx)? {
        if Some(&client.id) == except || client.state == Client::DISCONNECTED {
            continue;
        }
        // It may yet read every tag.
        let Some(lowest) = lowest_tag(&client.position) else { return Ok(()) };
        in_use = Some(in_use.map_or(lowest, |tid: u64| tid.min(lowest)));
    }
    // Without a client that committed something, no tag is known to be unused.
    let Some(in_use) = in_use else { return Ok(()) };
    let tags = all(ctx)?;
    if tags.iter().any(|(name, tag)| keys::join(PREFIX, name) != key(tag.tid)) {
        return Err(Errno::EINVAL.into());
    }
    let lowest = lowest_of_classes(tags.iter().map(|(_, tag)| tag), in_use);
    for (_, tag) in tags.iter().take_while(|(_, tag)| tag.tid < in_use) {
        if lowest.get(&tag.class).is_some_and(|lowest| tag.tid < *lowest) {
            keys::remove(ctx, key(tag.tid))?;
        }
    }
    Ok(())
}

pub(super) fn get_tag(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let tid: u64 = decode_input(input)?;
    let tag: Tag = keys::require(ctx, key(tid))?;
    ctx.reply(&tag)
}

/// Fails with EEXIST if the tag exists, ESTALE if its id is not the next one, EINVAL if its class does not exist.
pub(super) fn tag_create(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let mut tag = keys::args(input, |d| Ok(Tag { tid: d.get()?, class: d.get()?, data: d.get()? }))?;
    if keys::has(ctx, key(tag.tid))? {
        return Err(Errno::EEXIST.into());
    }
    if keys::require::<u64>(ctx, NEXT_TAG_TID)? != tag.tid {
        return Err(Errno::ESTALE.into());
    }
    let next_class: u64 = keys::require(ctx, NEXT_TAG_CLASS)?;
    if tag.class == CLASS_NEW {
        tag.class = next_class;
        keys::set(ctx, NEXT_TAG_CLASS, &next_class.wrapping_add(1))?;
    } else if tag.class >= next_class {
        return Err(Errno::EINVAL.into());
    }
    remove_unused(ctx, None)?;
    keys::set(ctx, NEXT_TAG_TID, &tag.tid.wrapping_add(1))?;
    keys::set(ctx, key(tag.tid), &tag)?;
    Ok(0)
}

/// The tags that a client may yet need. The first one is not looked for after a number of 0.
pub(super) fn tag_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let ((after, max), (id, class)): ((u64, u64), (Name, Option<u64>)) = decode_input(input)?;
    let client = client::require(ctx, &id)?;
    let tags = all(ctx)?;
    let tags = tags.into_iter().map(|(_, tag)| tag).collect::<Vec<_>>();
    let lowest = match lowest_tag(&client.position) {
        Some(in_use) => lowest_of_classes(tags.iter(), in_use),
        None => BTreeMap::new(),
    };
    let needed = |tag: &Tag| {
        let in_class = class.is_none_or(|class| class == tag.class);
        in_class && lowest.get(&tag.class).is_none_or(|lowest| tag.tid >= *lowest)
    };
    let listed = tags.into_iter().filter(|tag| after == 0 || tag.tid > after).filter(needed);
    ctx.reply(&listed.take(usize::try_from(max).unwrap_or(usize::MAX)).collect::<Vec<_>>())
}
