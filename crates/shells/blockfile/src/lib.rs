//! An OSD's block store in a directory: the pure [`blockstore`] on the file `block`, which may be a link to a block
//! device, behind the queues of [`device`]. Its logs may lie apart, behind the link `block.wal`.
//!
//! [`mkfs`] and [`open`] block their caller. An open store does not: it works in its caller's turns, on its caller's
//! thread, and only the device's requests are performed elsewhere (by the kernel, or by the device's threads).
//! Never looks into what the store writes but for the label.

mod allocate;
mod bench;
mod blocking;
mod devices;
mod drive;
mod error;
mod expand;
mod fsck;
mod growing;
mod label;
mod make;
mod medium;
mod move_log;
mod open;
mod place;
mod repair;
mod room;
mod store;
mod walk;

pub use bench::{Load, Measured, bench};
pub use blocking::{Blocking, unexpected};
pub use blockstore::{BLOCK as BLOCK_BYTES, Options as StoreOptions, State};
pub use error::{BEGIN_AGAIN, OpenError};
pub use expand::{Expanded, expand};
pub use fsck::{Findings, fsck};
pub use growing::FileSpace;
pub use label::{Owner, SHARDS_MAX, owner_on};
pub use make::{LogPlace, NewStore, check_links, check_places, logs_bytes, mkfs, shards_of};
pub use move_log::{Moved, move_log};
pub use open::{
    LogDevice, ModelledOn, Options, Queue, ReadOnly, ToRead, handles, log_device, log_path_in, open,
    open_any, open_to_read, path_in, shards_in,
};
pub use place::{Places, device_bytes, is_same_place, places_in, unmake};
pub use repair::{Mended, repair};
pub use store::{BlockFileShard, BlockFileStore};
pub use walk::Walk;
