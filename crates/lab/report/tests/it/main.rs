//! The tests of `report` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod charts;
mod made_up;
mod page;
mod tables;
