//! Class `log`: entries in the order of their times, in an omap; its header knows the newest one.

use std::time::Duration;

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input};
use types::{Errno, Name, UTime};

use crate::by_time::{self, ListOp, ListReply};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "log",
    methods: &[
        Method::read_write("add", add),
        Method::read("list", list),
        Method::read_write("trim", trim),
        Method::read("info", info),
    ],
};

/// Entries that one `list` returns.
const LIST_MAX: u64 = 1000;

/// An entry (cls::log::entry), stored under its id.
#[derive(Clone)]
pub(crate) struct Entry {
    section: Name,
    name: Name,
    timestamp: UTime,
    data: Name,
    /// Empty in an entry that is to be given one.
    id: Name,
}

impl Encode for Entry {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.section).put(&self.name).put(&self.timestamp).put(&self.data).put(&self.id);
        });
    }
}
impl Decode for Entry {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "cls_log_entry", |d, v| {
            let (section, name, timestamp, data) = (d.get()?, d.get()?, d.get()?, d.get()?);
            let id = if v < 2 { Name::new() } else { d.get()? };
            Ok(Self { section, name, timestamp, data, id })
        })
    }
}

/// The omap's header (cls::log::header).
#[derive(Default)]
pub(crate) struct Header {
    /// The greatest id.
    max_marker: Name,
    max_time: UTime,
}

impl Encode for Header {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.max_marker).put(&self.max_time);
        });
    }
}
impl Decode for Header {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_log_header", |d, _| Ok(Self { max_marker: d.get()?, max_time: d.get()? }))
    }
}

/// Input of `add` (cls_log_add_op).
pub(crate) struct AddOp {
    entries: Vec<Entry>,
    /// An entry that is older than the newest one gets an id of the newest one's time.
    monotonic: bool,
}

impl Decode for AddOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "cls_log_add_op", |d, v| {
            Ok(Self { entries: d.get()?, monotonic: if v < 2 { true } else { d.get()? } })
        })
    }
}

/// Input of `trim` (cls_log_trim_op). A marker that is not empty is used instead of the time.
pub(crate) struct TrimOp {
    /// Exclusive where it is a marker.
    from_time: UTime,
    /// Inclusive.
    to_time: UTime,
    from_marker: Name,
    to_marker: Name,
}

impl Decode for TrimOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "cls_log_trim_op", |d, v| {
            let (from_time, to_time) = (d.get()?, d.get()?);
            let (from_marker, to_marker) = if v < 2 { Default::default() } else { (d.get()?, d.get()?) };
            Ok(Self { from_time, to_time, from_marker, to_marker })
        })
    }
}

/// Input of `info` (cls_log_info_op).
pub(crate) struct InfoOp;

impl Decode for InfoOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_log_info_op", |_, _| Ok(Self))
    }
}

/// Output of `info` (cls_log_info_ret).
struct InfoReply(Header);

impl Encode for InfoReply {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}

/// A header that can't be read counts as none, as in Ceph: it only speeds up clients.
fn header(ctx: &mut ClassContext<'_, '_>) -> Result<Header, StepError> {
    Ok(Header::from_bytes(&ctx.omap_header()?.to_vec()).unwrap_or_default())
}

fn add(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: AddOp = decode_input(input)?;
    let mut header = header(ctx)?;
    for mut entry in op.entries {
        let late = op.monotonic && entry.timestamp < header.max_time;
        let time = if late { header.max_time } else { entry.timestamp };
        header.max_time = header.max_time.max(time);
        if entry.id.is_empty() {
            let unique = ctx.subop_version();
            entry.id = [by_time::of_time(time), unique.into_bytes()].concat().into();
        }
        header.max_marker = header.max_marker.max(entry.id.clone());
        ctx.omap_set(entry.id.clone(), entry.to_bytes(0))?;
    }
    ctx.omap_set_header(header.to_bytes(0))?;
    Ok(0)
}

fn list(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: ListOp = decode_input(input)?;
    let bounded = op.from_time != UTime::default() && op.to_time >= op.from_time;
    let end = bounded.then(|| by_time::of_time(op.to_time));
    let max = u64::try_from(op.max_entries).ok().filter(|max| *max > 0).unwrap_or(LIST_MAX).min(LIST_MAX);
    let page = ctx.omap_range(op.first_key(), by_time::PREFIX, max)?;
    let mut reply = ListReply { entries: Vec::new(), marker: Name::new(), truncated: page.more };
    for (key, value) in page.pairs {
        let past = end.as_ref().is_some_and(|end| by_time::compare_start(&key, end).is_ge());
        reply.marker = key;
        if past {
            reply.truncated = false;
            break;
        }
        // An entry that can't be read is left out, as in Ceph, so that those after it can be had.
        reply.entries.extend(Entry::from_bytes(&value.to_vec()));
    }
    ctx.reply(&reply)
}

/// Fails with ENODATA if there was nothing to remove.
fn trim(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: TrimOp = decode_input(input)?;
    let from = by_time::key(op.from_marker, op.from_time);
    // The end of a range of keys is exclusive. Ceph 20.2 adds a thousand microseconds instead of one.
    let end: Name = match op.to_marker.is_empty() {
        true => by_time::of_time(op.to_time.after(Duration::from_micros(1))).into(),
        false => [&op.to_marker[..], b"\0"].concat().into(),
    };
    let (keys, _) = ctx.omap_keys(from, 1)?;
    let first = keys.into_iter().next().filter(|first| *first <= end).ok_or(Errno::ENODATA)?;
    ctx.omap_remove_range(first, end)?;
    Ok(0)
}

fn info(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let InfoOp = decode_input(input)?;
    let header = header(ctx)?;
    ctx.reply(&InfoReply(header))
}
