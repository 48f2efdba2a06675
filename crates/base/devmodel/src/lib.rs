//! Models of storage devices: a request and the time go in, the time of its completion comes out.
//!
//! [`Model`] is one device: a 7200 rpm disk, an SSD, or disks as a RAID0, each with or without a write-back cache
//! before it. It is a state machine without clock and data: a shell performs the I/O for real, asks the model when
//! each request would have been done, and answers no earlier. [`measure`] runs a pattern against a model alone and
//! gives its own figures, which the shells are held against. What is modelled, and from which data sheets, is in
//! [`Model`] and [`parameters`]. Never does I/O, never draws a random number, and knows nothing of who asks.

mod cache;
mod dirty;
mod disk;
mod error;
mod figures;
mod geometry;
mod media;
mod model;
mod request;
mod sheet;
mod ssd;

pub use error::ModelError;
pub use figures::{Figures, Order, Pattern, measure, standard_patterns};
pub use model::Model;
pub use request::{Done, Nanos, Op, Request};
pub use sheet::{ParameterDoc, check, pairs, parameters};
