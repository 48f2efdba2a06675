//! The core of a RADOS client (Ceph's Objecter): requests on objects go to the OSD that serves them, and again where they
//! must, until each has exactly one [`Outcome`].
//!
//! A pure state machine: [`Objecter::handle`] takes an event with the time and appends effects. It keeps the newest
//! OSDMap, a session to each OSD that it has requests for, and the requests under way; it sends commands to the monitor.
//! It never opens a socket, reads a clock, caches an object or interprets what an operation does. The sessions to OSDs
//! are lossy: what was sent on one that ended is sent again on the next.

mod commands;
mod config;
mod event;
mod linger;
mod maps_in;
mod objecter;
mod placement;
mod replies;
mod request;
mod send;
mod session;

pub use commands::CommandId;
pub use config::ObjecterConfig;
pub use event::{ObjecterEffect, ObjecterEvent};
pub use linger::{NotifyId, NotifyOutcome, WatchEvent, WatchId};
pub use maps_in::MapWaitId;
pub use objecter::{Busy, Objecter};
pub use request::{Outcome, Request, RequestId, Target};
pub use session::OsdSession;
