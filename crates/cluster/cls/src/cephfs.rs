//! Class `cephfs`: what is known of a file from its objects, which the repair of a file system collects.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, ClassFilter, ListFilter, Method, ObjectClass, StepError, decode_input};
use types::{Errno, HObject, Name};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "cephfs",
    methods: &[Method::read_write("accumulate_inode_metadata", accumulate_inode_metadata)],
};

pub(crate) const INODE_TAG: ClassFilter =
    ClassFilter { class: "cephfs", name: "inode_tag", make: |d| Ok(Box::new(d.get::<InodeTag>()?)) };

/// The names of files' first objects end so.
const FIRST_OBJECT: &[u8] = b".00000000";

/// Shows the first objects of files that do not have this tag (InodeTagFilterArgs).
struct InodeTag {
    /// Empty for none: all are shown.
    tag: Name,
    attribute: Name,
}

impl Decode for InodeTag {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "InodeTagFilterArgs", |d, _| {
            Ok(Self { tag: d.get()?, attribute: "_scrub_tag".into() })
        })
    }
}

impl ListFilter for InodeTag {
    fn attribute(&self) -> Option<&Name> {
        (!self.tag.is_empty()).then_some(&self.attribute)
    }

    fn passes(&self, object: &HObject, value: Option<&[u8]>) -> bool {
        let stored = value.and_then(|value| Decoder::new(value).get::<Name>().ok());
        object.name.ends_with(FIRST_OBJECT) && stored.is_none_or(|stored| stored != self.tag)
    }
}

/// The last object of a file (ObjCeiling). The greater one is the one with the greater index.
struct ObjCeiling {
    index: u64,
    size: u64,
}

impl Encode for ObjCeiling {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.index).put(&self.size);
        });
    }
}
impl Decode for ObjCeiling {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "ObjCeiling", |d, _| Ok(Self { index: d.get()?, size: d.get()? }))
    }
}

/// An object of a file, and the attributes that keep the greatest values of all of them (AccumulateArgs).
struct AccumulateArgs {
    ceiling_attr: Name,
    mtime_attr: Name,
    size_attr: Name,
    index: u64,
    size: u64,
    /// Seconds since 1970.
    mtime: i64,
}

impl Decode for AccumulateArgs {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "AccumulateArgs", |d, _| {
            let (ceiling_attr, mtime_attr, size_attr) = (d.get()?, d.get()?, d.get()?);
            let (index, size, mtime) = (d.get()?, d.get()?, d.get()?);
            Ok(Self { ceiling_attr, mtime_attr, size_attr, index, size, mtime })
        })
    }
}

/// Stores `value` where it is greater than what is stored, or nothing is stored that can be read.
fn raise<T: Encode + Decode>(
    ctx: &mut ClassContext<'_, '_>,
    attr: &Name,
    value: &T,
    is_greater: impl FnOnce(&T, &T) -> bool,
) -> Result<(), StepError> {
    let stored = match ctx.xattr(attr.clone()) {
        Err(e) if e.is(Errno::ENOENT) => None,
        stored => stored?.and_then(|stored| T::from_bytes_exact(&stored.to_vec()).ok()),
    };
    if stored.is_none_or(|stored| is_greater(value, &stored)) {
        ctx.set_xattr(attr.clone(), value.to_bytes(0))?;
    }
    Ok(())
}

fn accumulate_inode_metadata(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let args: AccumulateArgs = decode_input(input)?;
    let ceiling = ObjCeiling { index: args.index, size: args.size };
    raise(ctx, &args.ceiling_attr, &ceiling, |a, b| a.index > b.index)?;
    raise(ctx, &args.mtime_attr, &args.mtime, i64::gt)?;
    raise(ctx, &args.size_attr, &args.size, u64::gt)?;
    Ok(0)
}
