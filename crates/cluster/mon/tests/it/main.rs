//! The tests of `mon` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]

mod answers;
mod cluster;
mod commands;
mod common;
mod crush;
mod elsewhere;
mod formats;
mod homes;
mod log;
mod manager;
mod maps;
mod mutes;
mod options;
mod osd_life;
mod pg_num;
mod rebuild;
mod scrub;
mod services;
mod slow_ops;
mod snaps;
mod space;
