//! The tests of `osd` from outside: one program, so that it is linked once.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests do I/O")]

mod admin;
mod backoffs;
mod clients;
mod copies;
mod creation;
mod garbage;
mod life;
mod log_length;
mod maps;
mod pg_infos;
mod purged;
mod reads;
mod refused;
mod scrub;
mod space;
mod split;
mod stock;
mod watch;
mod world;
