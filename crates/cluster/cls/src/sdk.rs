//! Class `sdk`: Ceph's example of a class, which calls much of what classes may call.

use buffer::Rope;
use ops::{ClassContext, Method, ObjectClass, StepError};
use types::Errno;

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "sdk",
    methods: &[
        Method::read_write("test_coverage_write", write),
        Method::read_write("test_coverage_replay", replay),
    ],
};

/// The attribute and the key of the omap.
const KEY: &str = "foo";
/// All values.
const VALUE: &[u8] = b"test";

/// Makes an object of data, an attribute and a key of the omap.
fn write(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let value = || Rope::copy_from(VALUE);
    ctx.create(false)?;
    ctx.stat()?;
    ctx.write(0, value())?;
    ctx.stat()?;
    ctx.set_xattr(KEY, value())?;
    ctx.omap_set(KEY, value())?;
    Ok(0)
}

/// Reads what `write` made, and removes it. EIO where the values are not of one size.
fn replay(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let (size, _) = ctx.stat()?;
    let data = ctx.read(0, size)?;
    let attr = ctx.xattr(KEY)?.ok_or(Errno::ENODATA)?;
    let value = ctx.omap_value(KEY)?.ok_or(Errno::ENOENT)?;
    if [data, attr, value].iter().any(|value| value.len() as u64 != size) {
        return Err(Errno::EIO.into());
    }
    ctx.remove()?;
    Ok(0)
}
