//! Cores, listeners and the clock: pinned threads with a single-threaded event loop each, the sockets that they accept on,
//! and the time that they share.

mod clock;
mod listen;
mod threads;

pub use clock::Clock;
pub use listen::{bind, raise_file_limit};
pub use threads::spawn_core;
