//! Space of the store that the OSD sets aside for a request, on its way to the store.
//!
//! It counts until it is given up: when the store has got the change that it was for, or will never get it. A request keeps its share
//! wherever it goes, so none is forgotten, whatever becomes of the request and of its session.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The shares of one store, summed up. The sums only grow, and wrap. All counting is done on the store's core; they are atomic since a PG may
/// be made on another thread than the one that it runs on.
#[derive(Debug, Default)]
pub struct SpaceTally {
    set_aside: AtomicU64,
    given_up: AtomicU64,
}

impl SpaceTally {
    /// All bytes that were ever set aside.
    pub fn set_aside(&self) -> u64 {
        self.set_aside.load(Relaxed)
    }

    /// Those that are not on their way any more.
    pub fn given_up(&self) -> u64 {
        self.given_up.load(Relaxed)
    }
}

/// A share: bytes that are on their way, or were. The default is nothing. It is small, since requests are moved.
#[derive(Debug, Default)]
pub struct SetAside {
    /// With [`GIVEN_UP`].
    bytes: u64,
    /// `None` for nothing.
    tally: Option<Arc<SpaceTally>>,
}

/// The bit of a share that was given up. No store has so many bytes.
const GIVEN_UP: u64 = 1 << 63;

impl SetAside {
    /// Sets bytes aside.
    pub fn new(bytes: u64, tally: &Arc<SpaceTally>) -> Self {
        let bytes = bytes.min(GIVEN_UP - 1);
        tally.set_aside.fetch_add(bytes, Relaxed);
        Self { bytes, tally: Some(tally.clone()) }
    }

    /// The store gets the change that it is for, and shows what that takes.
    pub(crate) fn give_up(&mut self) {
        if let (Some(tally), false) = (&self.tally, self.is_given_up()) {
            tally.given_up.fetch_add(self.bytes, Relaxed);
            self.bytes |= GIVEN_UP;
        }
    }

    /// The store does not have the change after all, or perhaps not.
    pub(crate) fn restore(&mut self) {
        if let (Some(tally), true) = (&self.tally, self.is_given_up()) {
            self.bytes &= !GIVEN_UP;
            tally.set_aside.fetch_add(self.bytes, Relaxed);
        }
    }

    fn is_given_up(&self) -> bool {
        self.bytes & GIVEN_UP != 0
    }
}

impl Drop for SetAside {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// A copy of a request is another one.
impl Clone for SetAside {
    fn clone(&self) -> Self {
        match &self.tally {
            Some(tally) if !self.is_given_up() => Self::new(self.bytes, tally),
            tally => Self { bytes: self.bytes, tally: tally.clone() },
        }
    }
}

impl PartialEq for SetAside {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for SetAside {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_counts_until_it_is_given_up_and_again_when_it_is_restored() {
        let tally = Arc::new(SpaceTally::default());
        let on_its_way = || tally.set_aside() - tally.given_up();
        let mut share = SetAside::new(10, &tally);
        let other = share.clone();
        assert_eq!(on_its_way(), 20);
        drop(other);
        share.give_up();
        share.give_up();
        assert_eq!((on_its_way(), tally.given_up()), (0, 20));
        share.restore();
        share.restore();
        assert_eq!((on_its_way(), tally.set_aside()), (10, 30));
        drop(share);
        assert_eq!(on_its_way(), 0);
    }
}
