//! Class `timeindex`: values in the order of their times, in an omap.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input};
use types::{Errno, Name, UTime};

use crate::by_time::{self, ListOp, ListReply};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "timeindex",
    methods: &[Method::read_write("add", add), Method::read("list", list), Method::read_write("trim", trim)],
};

/// Entries that one `list` returns and one `trim` removes.
const ENTRIES_MAX: u64 = 1000;

/// An entry (cls_timeindex_entry): its time and extension are its key.
pub(crate) struct Entry {
    time: UTime,
    extension: Name,
    value: Name,
}

impl Entry {
    fn key(&self) -> Vec<u8> {
        [&by_time::of_time(self.time)[..], &self.extension].concat()
    }

    /// `None` where the key is not one of an entry. Ceph ends the extension at white space and after 255 bytes; here it
    /// is returned whole. As in Ceph, the nanoseconds returned are the microseconds of the key.
    fn parse(key: &[u8], value: Name) -> Option<Self> {
        let mut parts = key.strip_prefix(by_time::PREFIX.as_bytes())?.splitn(2, |b| *b == b'_');
        let (sec, usec) = std::str::from_utf8(parts.next()?).ok()?.split_once('.')?;
        let time = UTime { sec: sec.parse().ok()?, nsec: usec.parse().ok()? };
        Some(Self { time, extension: parts.next()?.into(), value })
    }
}

impl Encode for Entry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.time).put(&self.extension).put(&self.value);
        });
    }
}
impl Decode for Entry {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_timeindex_entry", |d, _| {
            Ok(Self { time: d.get()?, extension: d.get()?, value: d.get()? })
        })
    }
}

/// Input of `add` (cls_timeindex_add_op).
struct AddOp(Vec<Entry>);

impl Decode for AddOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_timeindex_add_op", |d, _| Ok(Self(d.get()?)))
    }
}

/// Input of `trim` (cls_timeindex_trim_op). A marker that is not empty is used instead of the time.
struct TrimOp {
    from_time: UTime,
    /// Inclusive.
    to_time: UTime,
    /// Exclusive.
    from_marker: Name,
    /// Inclusive.
    to_marker: Name,
}

impl Decode for TrimOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_timeindex_trim_op", |d, _| {
            Ok(Self { from_time: d.get()?, to_time: d.get()?, from_marker: d.get()?, to_marker: d.get()? })
        })
    }
}

fn add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let AddOp(entries) = decode_input(input)?;
    for entry in entries {
        ctx.omap_set(entry.key(), Rope::copy_from(&entry.value))?;
    }
    Ok(0)
}

fn list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: ListOp = decode_input(input)?;
    let end = (op.to_time >= op.from_time).then(|| by_time::of_time(op.to_time));
    let max = u64::try_from(op.max_entries).unwrap_or(ENTRIES_MAX).min(ENTRIES_MAX);
    let page = ctx.omap_range(op.first_key(), by_time::PREFIX, max)?;
    let mut reply = ListReply { entries: Vec::new(), marker: Name::new(), truncated: page.more };
    for (key, value) in page.pairs {
        if end.as_ref().is_some_and(|end| by_time::compare_start(&key, end).is_ge()) {
            reply.truncated = false;
            break;
        }
        // A key that no entry has is left out, so that those after it can be had.
        reply.entries.extend(Entry::parse(&key, value.to_vec().into()));
        reply.marker = key;
    }
    ctx.reply(&reply)
}

/// Fails with ENODATA if there was nothing to remove.
fn trim(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: TrimOp = decode_input(input)?;
    let end = by_time::key(op.to_marker, op.to_time);
    let page = ctx.omap_range(by_time::key(op.from_marker, op.from_time), by_time::PREFIX, ENTRIES_MAX)?;
    let in_range = |(key, _): &(Name, Rope)| by_time::compare_start(key, &end).is_le();
    let keys: Vec<Name> = page.pairs.into_iter().take_while(in_range).map(|(key, _)| key).collect();
    if keys.is_empty() {
        return Err(Errno::ENODATA.into());
    }
    keys.into_iter().try_for_each(|key| ctx.omap_remove(key))?;
    Ok(0)
}
