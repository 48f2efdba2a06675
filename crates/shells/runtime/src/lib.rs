//! Cores, listeners and the clock: pinned threads with a single-threaded event loop each, the sockets that they accept on,
//! the time that they share, and the machine's time zone and load.

mod clock;
mod listen;
mod machine;
mod socket_path;
mod threads;

pub use clock::Clock;
pub use listen::{bind, raise_file_limit, unpaced};
pub use machine::{load, utc_offset};
pub use socket_path::SocketPath;
pub use threads::spawn_core;
