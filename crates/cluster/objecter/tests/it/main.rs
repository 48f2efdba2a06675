//! The tests of `objecter` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod linger;
mod maps;
mod requests;
mod world;
