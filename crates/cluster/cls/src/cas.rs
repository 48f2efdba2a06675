//! Class `cas`: a chunk of deduplicated data, and the objects that refer to it, in an attribute; the last reference
//! takes the chunk along.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input, decode_stored};
use types::{Errno, HObject, Name};

use crate::cas_refs::Refs;

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "cas",
    methods: &[
        Method::read_write("chunk_create_or_get_ref", create_or_get_ref),
        Method::read_write("chunk_get_ref", get_ref),
        Method::read_write("chunk_put_ref", put_ref),
        Method::read("references_chunk", references_chunk),
    ],
};

const ATTR: &str = "chunk_refs";

/// Input of `chunk_create_or_get_ref` (cls_cas_chunk_create_or_get_ref_op).
pub(crate) struct CreateOp {
    source: HObject,
    flags: u64,
    data: Name,
}

impl CreateOp {
    /// A chunk that there is must have this data.
    const VERIFY: u64 = 1;
}

impl Decode for CreateOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_cas_chunk_create_or_get_ref_op", |d, _| {
            Ok(Self { source: d.get()?, flags: d.get()?, data: d.get()? })
        })
    }
}

/// Input of `chunk_get_ref` and `chunk_put_ref` (cls_cas_chunk_get_ref_op, cls_cas_chunk_put_ref_op).
pub(crate) struct RefOp {
    source: HObject,
}

impl Decode for RefOp {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_cas_chunk_get_ref_op", |d, _| Ok(Self { source: d.get()? }))
    }
}

/// Fails with ENOENT if the chunk does not exist.
fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<Refs, StepError> {
    match ctx.xattr(ATTR)? {
        Some(value) => decode_stored(&value),
        None => Ok(Refs::none()),
    }
}

fn store(ctx: &mut ClassContext<'_, '_>, refs: &Refs) -> Result<i32, StepError> {
    ctx.set_xattr(ATTR, refs.to_bytes(0))?;
    Ok(0)
}

/// Fails with ENOMSG where the chunk is to be verified and has other data.
fn create_or_get_ref(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: CreateOp = decode_input(input)?;
    let mut refs = match stored(ctx) {
        Err(e) if e.is(Errno::ENOENT) => {
            ctx.write_full(Rope::copy_from(&op.data))?;
            Refs::none()
        }
        refs => {
            let refs = refs?;
            if op.flags & CreateOp::VERIFY != 0 && ctx.read(0, 0)?.to_vec() != op.data[..] {
                return Err(Errno::ENOMSG.into());
            }
            refs
        }
    };
    refs.add(op.source);
    store(ctx, &refs)
}

fn get_ref(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: RefOp = decode_input(input)?;
    let mut refs = stored(ctx)?;
    refs.add(op.source);
    store(ctx, &refs)
}

/// Fails with ENOLINK where the object does not refer to the chunk.
fn put_ref(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let op: RefOp = decode_input(input)?;
    let mut refs = stored(ctx)?;
    if !refs.remove(&op.source) {
        return Err(Errno::ENOLINK.into());
    }
    if refs.is_empty() {
        ctx.remove()?;
        return Ok(0);
    }
    store(ctx, &refs)
}

/// Whether the object's manifest refers to the chunk of this name. No object has a manifest here, so that none does.
fn references_chunk(_: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let _: Name = decode_input(input)?;
    Err(Errno::ENOLINK.into())
}
