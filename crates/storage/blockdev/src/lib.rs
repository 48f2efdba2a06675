//! The block devices' contract: reads, writes, flushes and discards, asynchronous by completion ([`DeviceQueue`]).
//!
//! Here are the trait, its plain data, [`VolatileCache`] (a disk's write cache for devices that perform I/O) and, behind
//! features, the simulated disk (`sim`) and the conformance suite for implementors (`conformance`). This crate
//! never does I/O and reads no clock (except the suite, to bound its waits): `shells/device` performs requests on files.

#[cfg(feature = "conformance")]
pub mod conformance;
mod error;
mod geometry;
mod queue;
mod request;
#[cfg(feature = "sim")]
pub mod sim;
mod volatile;

pub use error::DeviceError;
pub use geometry::{Geometry, SECTOR_BYTES};
pub use queue::{DeviceQueue, Waker};
pub use request::{Completion, DeviceId, Done, Durability, Op, Request, Token};
pub use volatile::VolatileCache;
