//! [`DeviceQueue`].

use std::sync::Arc;

use types::UTime;

use crate::{Completion, DeviceId, Geometry, Request};

/// Called, from any thread, when completions are ready; must only wake the caller's loop.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A queue of requests to the devices of one store: its data device, and a WAL and a metadata device where it has them.
/// Several queues may be open on the same devices, one for each core that works on the store.
///
/// **Asynchronous.** No method waits for a device. [`submit`](Self::submit) begins a batch, in one system call where the
/// implementor can. [`completions`](Self::completions) yields what is ready. Every request gets exactly one completion,
/// a refused one too. What becomes ready outside of this queue's `submit` and [`turn`](Self::turn) calls its waker, once
/// or more between the moment that it is ready and the moment that it is collected. An implementor that lives in
/// simulated time becomes ready in `turn`, at its [`deadline`](Self::deadline). Any number of requests may be submitted;
/// beyond [`Geometry::queue_depth`] they wait in memory.
///
/// **Order.** Requests in flight have none: they are done, and complete, in any order, also those of one batch. A read
/// sees every write that had completed, on any queue, before the read was submitted, and for each sector
/// ([`SECTOR_BYTES`](crate::SECTOR_BYTES)) of a write in flight either the old bytes or the new ones. Of writes in
/// flight that overlap, each sector keeps the bytes of one. *Completed* always means: collected by `completions`.
///
/// **Durability.** A [`Durable`](crate::Durability::Durable) write is durable when it completes. Any other write and a
/// discard are durable when a flush of their device completes that was submitted after they had completed, on whichever
/// queue; the flush says nothing of requests that were in flight when it was submitted, those of its own batch included.
/// With [`Geometry::durable_flushes`] a durable write is such a flush, too.
/// Until then a power loss keeps or drops each sector of each write by itself: a sector has any of the states that it had
/// since it was durable last, no sector is torn, and no other sector changes. A state older than a durable one never
/// comes back. Requests in flight at the power loss count as such writes. What is read after a power loss is durable.
///
/// **Discards.** The range holds unspecified bytes afterwards, in each sector and at each read, until it is written.
///
/// **Failures.** A read or a volatile write that fails concerns only its range. A flush or a durable write that fails
/// leaves in doubt everything that was not durable, and a second try would prove nothing: it *poisons* its device, on
/// all queues, until the devices are opened again. A poisoned device fails every write, discard and flush that has not
/// completed with [`DeviceError::Poisoned`](crate::DeviceError::Poisoned), and goes on reading. Opened again, the device
/// has what a power loss would have left.
///
/// **Closing.** The completions of a dropped queue are lost. Each sector of its requests in flight is written or not, but
/// none is written after the devices were opened again.
pub trait DeviceQueue {
    /// `None`: the store has no such device.
    fn geometry(&self, device: DeviceId) -> Option<Geometry>;

    /// Begins the requests, and leaves `requests` empty. `now` never goes back; it may be the time of the last call.
    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>);

    /// Performs everything that is due by `now`. `now` never goes back; it may be the time of the last call.
    fn turn(&mut self, now: UTime);

    /// When [`turn`](Self::turn) is wanted. After a turn at that time it is later, or `None`.
    fn deadline(&self) -> Option<UTime>;

    /// Appends what completed since the last call to `out`.
    fn completions(&mut self, out: &mut Vec<Completion>);

    /// Sets the waker; without one a caller must poll.
    fn set_waker(&mut self, waker: Waker);
}

impl<Q: DeviceQueue + ?Sized> DeviceQueue for Box<Q> {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        (**self).geometry(device)
    }

    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>) {
        (**self).submit(now, requests);
    }

    fn turn(&mut self, now: UTime) {
        (**self).turn(now);
    }

    fn deadline(&self) -> Option<UTime> {
        (**self).deadline()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        (**self).completions(out);
    }

    fn set_waker(&mut self, waker: Waker) {
        (**self).set_waker(waker);
    }
}
