//! Class `version`: a version of an object that its clients count themselves, in an attribute.

use buffer::Rope;
use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use ops::{ClassContext, Method, ObjectClass, StepError, decode_input, decode_stored};
use types::{Errno, Name};

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "version",
    methods: &[
        Method::read_write("set", set),
        Method::read_write("inc", increment),
        Method::read_write("inc_conds", increment),
        Method::read("read", read),
        Method::read("check_conds", check),
    ],
};

const ATTR: &str = "ceph.objclass.version";
/// Characters of a tag that is drawn.
const TAG_LEN: usize = 24;

/// A version (obj_version): comparable with others of the same tag.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct ObjVersion {
    ver: u64,
    tag: Name,
}

impl Encode for ObjVersion {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.ver).put(&self.tag);
        });
    }
}
impl Decode for ObjVersion {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "obj_version", |d, _| Ok(Self { ver: d.get()?, tag: d.get()? }))
    }
}

/// What a version must be like (obj_version_cond).
pub(crate) struct Condition {
    than: ObjVersion,
    /// VER_COND_*.
    kind: u32,
}

impl Decode for Condition {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "obj_version_cond", |d, _| Ok(Self { than: d.get()?, kind: d.get()? }))
    }
}

impl Condition {
    /// One of a kind that is not known holds, as in Ceph.
    fn holds(&self, version: &ObjVersion) -> bool {
        let than = &self.than;
        match self.kind {
            1 => version == than,
            2 => version.ver > than.ver,
            3 => version.ver >= than.ver,
            4 => version.ver < than.ver,
            5 => version.ver <= than.ver,
            6 => version.tag == than.tag,
            7 => version.tag != than.tag,
            _ => true,
        }
    }
}

/// Input of `set` (cls_version_set_op), output of `read` (cls_version_read_ret).
pub(crate) struct OneVersion(ObjVersion);

impl Encode for OneVersion {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.0);
        });
    }
}
impl Decode for OneVersion {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_version_set_op", |d, _| Ok(Self(d.get()?)))
    }
}

/// Input of `inc`, `inc_conds` and `check_conds` (cls_version_inc_op, cls_version_check_op).
pub(crate) struct Conditions(Vec<Condition>);

impl Decode for Conditions {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "cls_version_inc_op", |d, _| {
            d.get::<ObjVersion>()?;
            Ok(Self(d.get()?))
        })
    }
}

impl Conditions {
    fn check(&self, version: &ObjVersion) -> Result<(), StepError> {
        let holds = self.0.iter().all(|condition| condition.holds(version));
        if holds { Ok(()) } else { Err(Errno::ECANCELED.into()) }
    }
}

fn stored(ctx: &mut ClassContext<'_, '_>) -> Result<Option<ObjVersion>, StepError> {
    match ctx.xattr(ATTR) {
        Err(e) if e.is(Errno::ENOENT) => Ok(None),
        value => value?.map(|v| decode_stored(&v)).transpose(),
    }
}

fn store(ctx: &mut ClassContext<'_, '_>, version: &ObjVersion) -> Result<i32, StepError> {
    ctx.set_xattr(ATTR, version.to_bytes(0))?;
    Ok(0)
}

fn set(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let OneVersion(version) = decode_input(input)?;
    store(ctx, &version)
}

/// A tag in the letters of base64.
fn draw_tag(ctx: &mut ClassContext<'_, '_>) -> Name {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |_| LETTERS[ctx.random().below(64) as usize];
    (0..TAG_LEN).map(letter).collect::<Vec<u8>>().into()
}

fn increment(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let conditions: Conditions = decode_input(input)?;
    let mut version = match stored(ctx)? {
        Some(version) => version,
        None => {
            let first = ObjVersion { ver: 1, tag: draw_tag(ctx) };
            // Stays where a condition fails and that failure is fine (FAILOK).
            store(ctx, &first)?;
            first
        }
    };
    conditions.check(&version)?;
    version.ver = version.ver.wrapping_add(1);
    store(ctx, &version)
}

fn check(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let conditions: Conditions = decode_input(input)?;
    conditions.check(&stored(ctx)?.unwrap_or_default())?;
    Ok(0)
}

fn read(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let version = stored(ctx)?.unwrap_or_default();
    ctx.reply(&OneVersion(version))
}
