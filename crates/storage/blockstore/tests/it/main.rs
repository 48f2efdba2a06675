//! The tests of `blockstore` from outside: one program, so that it is linked once. `conformance` is the suite of every
//! store, the other modules are what it does not look at.

#![allow(clippy::unwrap_used, reason = "a test may panic, its helpers too")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests do I/O")]

mod absent;
mod barriers;
mod checksums;
mod common;
mod compressed;
mod conformance;
mod crash;
mod damage;
mod formats;
mod full;
mod gaps;
mod growing;
mod inline;
mod large;
mod memory;
mod misplaced;
mod mixed;
mod moving;
mod order;
mod pipeline;
mod pools;
mod ranges;
mod seeds;
mod stopped;
mod stranded;
mod superblocks;
mod tuned;
mod waiting;

// Of a crash seed's time a fifth went to the system's allocator.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;
