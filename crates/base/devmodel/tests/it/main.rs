//! The tests of `devmodel` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod closed_forms;
mod properties;
