//! Performs block I/O on files with plain system calls, optionally behind a volatile write cache for kill tests, and
//! gives redb such a file as its storage. A file may lie on a modelled device, and is as slow as that then.
//!
//! [`Files`] are the devices of a store behind `blockdev::DeviceQueue`. The calls of [`Device`] block: their caller owns a
//! thread for that. Never looks into what it reads and writes.

mod few_files;
mod file;
mod in_place;
mod lock;
mod modelled;
mod modelled_queue;
mod named;
mod panics;
mod power;
mod queue;
mod redb_backend;
mod redb_in_memory;

pub use few_files::few_files;
pub use file::{Device, DeviceOptions, DeviceRole, FsSpace};
pub use in_place::write_in_place;
pub use lock::{DirLock, FileLock, LockError};
pub use modelled::{InFlightRequest, Modelled, ModelledRange};
pub use modelled_queue::{ModelledDisk, ModelledPlace, ModelledQueue};
pub use named::NamedDevice;
pub use panics::catch_redb;
pub use power::Power;
pub use queue::{Engine, FileDevice, FileQueue, Files, OpenError, RingEvent, is_read_only, rotates};
pub use redb_backend::RedbBackend;
pub use redb_in_memory::RedbInMemory;
