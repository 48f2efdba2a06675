//! Class `refcount`: references to an object by tags, in an attribute; the last one takes the object along.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input, decode_stored};
use types::{Errno, Name};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "refcount",
    methods: &[
        Method::read_write("get", get),
        Method::read_write("put", put),
        Method::read_write("set", set),
        Method::read("read", read),
    ],
};

const ATTR: &str = "refcount";

/// An object's references (obj_refcount).
#[derive(Default)]
pub(crate) struct RefCount {
    /// The values say nothing.
    refs: BTreeMap<Name, bool>,
    /// Tags that were put: one that is put again changes nothing.
    retired: BTreeSet<Name>,
}

impl Encode for RefCount {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 1, |e| {
            e.put(&self.refs).put(&self.retired);
        });
    }
}
impl Decode for RefCount {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "obj_refcount", |d, v| {
            Ok(Self { refs: d.get()?, retired: if v < 2 { BTreeSet::new() } else { d.get()? } })
        })
    }
}

/// Input of `get` and `put` (cls_refcount_get_op, cls_refcount_put_op).
pub(crate) struct TagOp {
    tag: Name,
    implicit: bool,
}

impl Decode for TagOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_refcount_get_op", |d, _| Ok(Self { tag: d.get()?, implicit: d.get()? }))
    }
}

/// Input of `set` (cls_refcount_set_op), output of `read` (cls_refcount_read_ret).
pub(crate) struct Refs(Vec<Name>);

impl Encode for Refs {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for Refs {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_refcount_set_op", |d, _| Ok(Self(d.get()?)))
    }
}

/// Input of `read` (cls_refcount_read_op).
pub(crate) struct ReadOp {
    implicit: bool,
}

impl Decode for ReadOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_refcount_read_op", |d, _| Ok(Self { implicit: d.get()? }))
    }
}

/// With `implicit`, an object on which nothing was counted yet has one reference, of the empty tag.
fn stored(ctx: &mut ClassContext<'_, '_>, implicit: bool) -> Result<RefCount, StepError> {
    match ctx.xattr(ATTR)? {
        Some(value) => decode_stored(&value),
        None if implicit => Ok(RefCount { refs: [(Name::new(), true)].into(), ..RefCount::default() }),
        None => Ok(RefCount::default()),
    }
}

fn store(ctx: &mut ClassContext<'_, '_>, count: &RefCount) -> Result<i32, StepError> {
    ctx.set_xattr(ATTR, count.to_bytes(0))?;
    Ok(0)
}

fn get(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: TagOp = decode_input(input)?;
    let mut count = stored(ctx, op.implicit)?;
    count.refs.insert(op.tag, true);
    store(ctx, &count)
}

fn put(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: TagOp = decode_input(input)?;
    let mut count = stored(ctx, op.implicit)?;
    if count.refs.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let found = [Some(op.tag.clone()), op.implicit.then(Name::new)];
    let found = found.into_iter().flatten().find(|tag| count.refs.contains_key(tag));
    let (Some(found), false) = (found, count.retired.contains(&op.tag)) else { return Ok(0) };
    count.retired.insert(op.tag);
    count.refs.remove(&found);
    if count.refs.is_empty() {
        ctx.remove()?;
        return Ok(0);
    }
    store(ctx, &count)
}

fn set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let Refs(refs) = decode_input(input)?;
    if refs.is_empty() {
        ctx.remove()?;
        return Ok(0);
    }
    let refs = refs.into_iter().map(|tag| (tag, true)).collect();
    store(ctx, &RefCount { refs, ..RefCount::default() })
}

fn read(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: ReadOp = decode_input(input)?;
    let count = stored(ctx, op.implicit)?;
    ctx.reply(&Refs(count.refs.into_keys().collect()))
}
