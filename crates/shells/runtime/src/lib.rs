//! Cores and sockets: pinned threads with a single-threaded event loop each, listeners, and the write side of a
//! connection.
//!
//! Knows bytes, not messages: what they mean stands in `msgr` and in the daemons.

mod listen;
mod out_queue;
mod threads;

pub use listen::{bind, raise_file_limit};
pub use out_queue::OutQueue;
pub use threads::spawn_core;
