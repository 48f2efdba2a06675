//! Cores and listeners: pinned threads with a single-threaded event loop each, and the sockets that they accept on.

mod listen;
mod threads;

pub use listen::{bind, raise_file_limit};
pub use threads::spawn_core;
