//! The tests of `blockdev` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests do I/O")]

mod common;
mod conformance;
mod sim;
mod wrong;
mod wrong_devices;
