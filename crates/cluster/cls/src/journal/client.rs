//! A journal's clients, and how far each of them is.

use buffer::Rope;
use encoding::Decode;
use ops::{ClassContext, StepError, decode_input};
use types::{Errno, Name};

use super::header;
use super::tag::remove_unused;
use super::types::{Client, ObjectSetPosition};
use crate::keys;

const PREFIX: &str = "client_";

fn key(id: &Name) -> Name {
    keys::join(PREFIX, id)
}

pub(super) fn all(ctx: &mut ClassContext<'_, '_>) -> Result<Vec<Client>, StepError> {
    list(ctx, &Name::new(), u64::MAX)
}

/// Fails with ENOENT if no client of this id is registered.
pub(super) fn require(ctx: &mut ClassContext<'_, '_>, id: &Name) -> Result<Client, StepError> {
    keys::require(ctx, key(id))
}

/// From the first one on where `after` is empty: an image's own client has the empty id, which comes before all others.
fn list(ctx: &mut ClassContext<'_, '_>, after: &Name, max: u64) -> Result<Vec<Client>, StepError> {
    let of_image = if after.is_empty() && max > 0 { keys::get(ctx, PREFIX)? } else { None };
    let left = max - u64::from(of_image.is_some());
    let others = keys::list_values(ctx, PREFIX, after, left)?;
    Ok(of_image.into_iter().chain(others.into_iter().map(|(_, client)| client)).collect())
}

/// A client's id, and what is to be stored of it.
fn with_id<T: Decode>(input: &Rope) -> Result<(Name, T), StepError> {
    decode_input(input)
}

/// Changes a client that there is.
fn update(
    ctx: &mut ClassContext<'_, '_>,
    id: &Name,
    change: impl FnOnce(&mut Client),
) -> Result<i32, StepError> {
    let mut client = require(ctx, id)?;
    change(&mut client);
    keys::set(ctx, key(id), &client)?;
    Ok(0)
}

/// Where the client is that is the furthest behind; nowhere where one has not begun.
fn minimum_position(ctx: &mut ClassContext<'_, '_>) -> Result<ObjectSetPosition, StepError> {
    let connected = all(ctx)?.into_iter().filter(|client| client.state != Client::DISCONNECTED);
    let newest_entry = |position: &ObjectSetPosition| position.0.first().map(|p| (p.tag_tid, p.entry_tid));
    // One without an entry is before all others.
    Ok(connected.map(|client| client.position).min_by_key(newest_entry).unwrap_or_default())
}

pub(super) fn get_client(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    let client = require(ctx, &id)?;
    ctx.reply(&client)
}

/// Adds a client, which begins where the last of the others is. Fails with EEXIST where it is there already.
pub(super) fn client_register(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, data): (Name, Name) = with_id(input)?;
    header::check_exists(ctx)?;
    if keys::has(ctx, key(&id))? {
        return Err(Errno::EEXIST.into());
    }
    let position = minimum_position(ctx)?;
    let client = Client { id: id.clone(), data, position, state: Client::CONNECTED };
    keys::set(ctx, key(&id), &client)?;
    Ok(0)
}

pub(super) fn client_update_data(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, data) = with_id(input)?;
    update(ctx, &id, |client| client.data = data)
}

pub(super) fn client_update_state(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, state) = with_id(input)?;
    update(ctx, &id, |client| client.state = state)
}

/// Removes a client, and the tags that only it had use for.
pub(super) fn client_unregister(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let id: Name = decode_input(input)?;
    if !keys::has(ctx, key(&id))? {
        return Err(Errno::ENOENT.into());
    }
    ctx.omap_remove(key(&id))?;
    remove_unused(ctx, Some(&id))?;
    Ok(0)
}

/// Fails with EINVAL where there are more positions than a set has objects.
pub(super) fn client_commit(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (id, position): (Name, ObjectSetPosition) = with_id(input)?;
    let splay_width: u8 = keys::require(ctx, header::SPLAY_WIDTH)?;
    if position.0.len() > usize::from(splay_width) {
        return Err(Errno::EINVAL.into());
    }
    if require(ctx, &id)?.position == position {
        return Ok(0);
    }
    update(ctx, &id, |client| client.position = position)
}

pub(super) fn client_list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let (after, max): (Name, u64) = keys::list_args(input)?;
    let clients = list(ctx, &after, max)?;
    ctx.reply(&clients)
}
