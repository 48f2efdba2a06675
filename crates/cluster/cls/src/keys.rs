//! A method's arguments, and values that are kept encoded under keys of an omap.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode};
use ops::{ClassContext, StepError, decode_stored};
use types::{Errno, Name};

/// Reads a method's arguments, which follow each other. Fails with EINVAL where they can't be read.
pub(crate) fn args<T>(
    input: &Rope,
    read: impl FnOnce(&mut Decoder<'_>) -> Result<T, DecodeError>,
) -> Result<T, StepError> {
    read(&mut Decoder::new(&input.to_piece())).map_err(|_| Errno::EINVAL.into())
}

/// An argument that older clients leave out.
pub(crate) fn optional<T: Decode>(d: &mut Decoder<'_>) -> Result<Option<T>, DecodeError> {
    if d.remaining() > 0 { d.get().map(Some) } else { Ok(None) }
}

/// `prefix` and `name` as one key.
pub(crate) fn join(prefix: impl AsRef<[u8]>, name: &[u8]) -> Name {
    [prefix.as_ref(), name].concat().into()
}

pub(crate) fn get<T: Decode>(
    ctx: &mut ClassContext<'_, '_>,
    key: impl Into<Name>,
) -> Result<Option<T>, StepError> {
    ctx.omap_value(key)?.map(|value| decode_stored(&value)).transpose()
}

/// Fails with ENOENT if the omap does not have the key.
pub(crate) fn require<T: Decode>(
    ctx: &mut ClassContext<'_, '_>,
    key: impl Into<Name>,
) -> Result<T, StepError> {
    get(ctx, key)?.ok_or(Errno::ENOENT.into())
}

pub(crate) fn has(ctx: &mut ClassContext<'_, '_>, key: impl Into<Name>) -> Result<bool, StepError> {
    Ok(ctx.omap_value(key)?.is_some())
}

pub(crate) fn set<T: Encode + ?Sized>(
    ctx: &mut ClassContext<'_, '_>,
    key: impl Into<Name>,
    value: &T,
) -> Result<(), StepError> {
    // Nothing that is kept here depends on features, except for addresses, which take the caller's.
    let bytes = value.to_bytes(ctx.client_features());
    ctx.omap_set(key, bytes)
}

/// No error if there is no such key, or no object.
pub(crate) fn remove(ctx: &mut ClassContext<'_, '_>, key: impl Into<Name>) -> Result<(), StepError> {
    match ctx.omap_remove(key) {
        Err(e) if e.is(Errno::ENOENT) => Ok(()),
        removed => removed,
    }
}

/// The pairs whose keys begin with `prefix`, from the one after `prefix` and `after` on, up to `max`: the keys without
/// the prefix, and the values.
pub(crate) fn list(
    ctx: &mut ClassContext<'_, '_>,
    prefix: impl AsRef<[u8]>,
    after: &[u8],
    max: u64,
) -> Result<Vec<(Name, Rope)>, StepError> {
    let prefix = prefix.as_ref();
    let mut pairs = Vec::new();
    let mut last = join(prefix, after);
    while (pairs.len() as u64) < max {
        let page = ctx.omap_range(last, prefix, max - pairs.len() as u64)?;
        let Some((key, _)) = page.pairs.last() else { break };
        last = key.clone();
        pairs.extend(page.pairs.into_iter().map(|(key, value)| (key[prefix.len()..].into(), value)));
        if !page.more {
            break;
        }
    }
    Ok(pairs)
}

/// As [`list`], with the values decoded.
pub(crate) fn list_values<T: Decode>(
    ctx: &mut ClassContext<'_, '_>,
    prefix: impl AsRef<[u8]>,
    after: &[u8],
    max: u64,
) -> Result<Vec<(Name, T)>, StepError> {
    let pairs = list(ctx, prefix, after, max)?;
    pairs.into_iter().map(|(name, value)| Ok((name, decode_stored(&value)?))).collect()
}

/// Arguments of the methods that list: the name to start after, and how many to return.
pub(crate) fn list_args<T: Decode>(input: &Rope) -> Result<(T, u64), StepError> {
    args(input, |d| Ok((d.get()?, d.get()?)))
}

/// An image's or group's id: letters and digits.
pub(crate) fn is_valid_id(id: &[u8]) -> bool {
    !id.is_empty() && id.iter().all(u8::is_ascii_alphanumeric)
}

/// Adds a name and its id, each found by the other (`name_*`, `id_*`). Fails with EINVAL where one of them is not
/// possible, EEXIST where the name is taken, EBADF where the id is, unless it `may_have_id`.
pub(crate) fn add_name(
    ctx: &mut ClassContext<'_, '_>,
    name: &Name,
    id: &Name,
    may_have_id: bool,
) -> Result<i32, StepError> {
    if name.is_empty() || !is_valid_id(id) {
        return Err(Errno::EINVAL.into());
    }
    let (name_key, id_key) = (join(NAME_PREFIX, name), join(ID_PREFIX, id));
    if has(ctx, name_key.clone())? {
        return Err(Errno::EEXIST.into());
    }
    if has(ctx, id_key.clone())? && !may_have_id {
        return Err(Errno::EBADF.into());
    }
    ctx.omap_set_all(vec![(name_key, id.to_bytes(0).into()), (id_key, name.to_bytes(0).into())])?;
    Ok(0)
}

/// Fails with ENOENT if the name or the id is not listed, ESTALE if they belong to different entries.
pub(crate) fn remove_name(ctx: &mut ClassContext<'_, '_>, name: &Name, id: &Name) -> Result<i32, StepError> {
    let (name_key, id_key) = (join(NAME_PREFIX, name), join(ID_PREFIX, id));
    let stored_id: Name = require(ctx, name_key.clone())?;
    let stored_name: Name = require(ctx, id_key.clone())?;
    if stored_name != *name || stored_id != *id {
        return Err(Errno::ESTALE.into());
    }
    ctx.omap_remove(name_key)?;
    ctx.omap_remove(id_key)?;
    Ok(0)
}

/// Gives an id another name.
pub(crate) fn rename(
    ctx: &mut ClassContext<'_, '_>,
    from: &Name,
    to: &Name,
    id: &Name,
) -> Result<i32, StepError> {
    remove_name(ctx, from, id)?;
    // What was just removed is still read.
    add_name(ctx, to, id, true)
}

pub(crate) const NAME_PREFIX: &str = "name_";
pub(crate) const ID_PREFIX: &str = "id_";

/// A random UUID (version 4) as text.
pub(crate) fn random_uuid(ctx: &mut ClassContext<'_, '_>) -> Name {
    let (high, low) = (ctx.random().next_u64(), ctx.random().next_u64());
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0b11 << 62) | 0b10 << 62;
    let text = format!("{high:016x}{low:016x}");
    format!("{}-{}-{}-{}-{}", &text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]).into()
}
