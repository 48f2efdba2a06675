//! Modelled devices for programs that need a block device: a file, mounted by FUSE, whose requests are done for real, and
//! answered when the model says so. A loop device with direct I/O over that file is the disk. Knows no model:
//! that is `devmodel`'s; never makes the loop device: that is `testbed`'s.
//!
//! ```text
//! mkfs, Ceph --> loop device --> kernel's FUSE --> disk     the request is done on a sparse file
//!                                                  pace     the answer waits for the model
//! ```

mod backing;
mod disk;
mod error;
mod kernel;
mod pace;
mod serve;
pub mod timing;

pub use error::{Error, Result};
pub use pace::{Answer, Counts, Pace, TransportOverhead};
pub use serve::{Served, possible, serve};
