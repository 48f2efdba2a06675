//! Block devices as data: requests and completions, and models of what a device may do with them.
//!
//! [`VolatileCache`] keeps writes from the medium until a flush, as a disk's write cache does, and loses or leaks them
//! as a loss of power would have it. This crate never does I/O: `shells/device` performs requests on files.

mod request;
mod volatile;

pub use request::{Completion, Request, Token};
pub use volatile::{BLOCK_BYTES, VolatileCache};
