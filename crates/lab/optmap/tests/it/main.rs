//! The tests of `optmap` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod article_2013;
mod systems;
