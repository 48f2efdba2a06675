//! Class `hello`: Ceph's example, and its test of what a class may do.

use buffer::Rope;
use ops::{AttributeIs, ClassContext, ClassFilter, Method, ObjectClass, StepError};
use types::Errno;

pub(crate) static CLASS: ObjectClass = ObjectClass {
    name: "hello",
    methods: &[
        Method::read("say_hello", say_hello),
        Method::write("record_hello", record_hello),
        Method::write("write_return_data", write_return_data),
        // Its name before Octopus.
        Method::write("writes_dont_return_data", write_return_data),
        Method::write("write_too_much_return_data", write_too_much_return_data),
        Method::read("replay", replay),
        Method::read_write("turn_it_to_11", turn_it_to_11),
        // The two do what they are not declared to do: they fail with EIO.
        Method::write("bad_reader", |ctx, _| ctx.read(0, 100).map(|_| 0)),
        Method::read("bad_writer", |ctx, input| ctx.write_full(input.clone()).map(|()| 0)),
    ],
};

/// Shows the objects with a value of an attribute.
pub(crate) const HELLO: ClassFilter =
    ClassFilter { class: "hello", name: "hello", make: AttributeIs::decode };

/// Bytes of a name to greet.
const NAME_MAX: usize = 100;
/// Bytes of a greeting to read.
const GREETING_MAX: u64 = 1100;

fn greeting(name: &Rope) -> Result<Vec<u8>, StepError> {
    if name.len() > NAME_MAX {
        return Err(Errno::EINVAL.into());
    }
    let name = if name.is_empty() { b"world".to_vec() } else { name.to_vec() };
    Ok([b"Hello, ", name.as_slice(), b"!"].concat())
}

fn say_hello(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.set_output(greeting(input)?);
    Ok(0)
}

/// Keeps in an attribute who called.
fn note_caller(ctx: &mut ClassContext<'_, '_>, attr: &str) -> Result<i32, StepError> {
    let (name, addr) = ctx.origin();
    ctx.set_xattr(attr, format!("{name} {addr}").into_bytes())?;
    Ok(0)
}

fn record_hello(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    let greeting = greeting(input)?;
    if ctx.exists() {
        return Err(Errno::EEXIST.into());
    }
    ctx.write_full(greeting)?;
    note_caller(ctx, "said_by")
}

fn write_return_data(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    ctx.set_xattr("foo", b"bar".to_vec())?;
    if !input.is_empty() {
        ctx.set_output(b"too much input data!".to_vec());
        return Err(Errno::EINVAL.into());
    }
    ctx.set_output(b"you might see this".to_vec());
    Ok(42)
}

/// Its output is longer than osd_max_write_op_reply_len.
fn write_too_much_return_data(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    ctx.set_xattr("foo", b"bar".to_vec())?;
    ctx.set_output(b"you should not see this because it is toooooo long. ".repeat(10));
    Ok(42)
}

fn replay(ctx: &mut ClassContext<'_, '_>, _: &Rope) -> Result<i32, StepError> {
    let greeting = ctx.read(0, GREETING_MAX)?;
    ctx.set_output(greeting);
    Ok(0)
}

/// Makes the object's letters upper case.
fn turn_it_to_11(ctx: &mut ClassContext<'_, '_>, input: &Rope) -> Result<i32, StepError> {
    if !input.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let loud = ctx.read(0, GREETING_MAX)?.to_vec().to_ascii_uppercase();
    ctx.write_full(loud)?;
    note_caller(ctx, "amplified_by")
}
