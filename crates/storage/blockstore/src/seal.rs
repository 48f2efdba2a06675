//! Closing a shard in order: the superblock says where the log ends.
//!
//! What an opening does not find behind the last durable mark of a log, it takes for what a power loss left unwritten. So the last
//! records of a store that was closed, and whose log was damaged since, would vanish without an error. Of a sealed log the next
//! opening misses each of them. The superblock is the same that an opening writes: what is on the device then is what a crash right
//! after an opening leaves.

use blockdev::{DeviceError, DeviceQueue, Done, Durability};
use store::StoreError;
use types::UTime;
use wal::Opening;

use crate::planted::Barrier;
use crate::store::{BlockStore, Purpose, io_error};

/// The superblock of a sealed log, on its way to the device: that of an opening, or of a close.
pub struct Seal {
    requests: usize,
    error: Option<DeviceError>,
}

/// A store that is being closed in order. It answers nothing more; what was not in the log yet is given up, and was acknowledged to
/// no one. Dropped before it has an answer, it leaves what a crash leaves.
pub struct Sealing<'a, Q: DeviceQueue>(&'a mut BlockStore<Q>);

impl<'a, Q: DeviceQueue> Sealing<'a, Q> {
    pub fn new(store: &'a mut BlockStore<Q>) -> Self {
        Self(store)
    }

    pub fn deadline(&self) -> Option<UTime> {
        self.0.io.deadline()
    }

    /// Brings it on; there is an answer when the store can be dropped.
    ///
    /// # Errors
    /// The device failed, now or before: the superblock does not know where the log ends, as after a power loss.
    pub fn turn(&mut self, now: UTime) -> Option<Result<(), StoreError>> {
        self.0.drive(now);
        let outcome = self.0.seal();
        self.0.io.submit(now);
        outcome
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Begins to write the superblock of an opening: it says where the log that was replayed ends, and the salt from there on.
    ///
    /// # Errors
    /// It has no room for the tree's root.
    pub(crate) fn begin_seal(&mut self, now: UTime) -> Result<(), StoreError> {
        let root = self.tables.tree.root.clone();
        let durabilities = [Barrier::Seal, Barrier::SealCopy].map(|barrier| self.io.durability(barrier));
        let requests = self.send_superblock(Purpose::Seal, root, self.published, durabilities)?;
        self.seal = Some(Seal { requests, error: None });
        self.io.submit(now);
        Ok(())
    }

    /// What became of it; `None` while it is under way.
    pub(crate) fn is_sealed(&mut self) -> Option<Result<(), DeviceError>> {
        let seal = self.seal.take_if(|seal| seal.requests == 0)?;
        Some(seal.error.map_or(Ok(()), Err))
    }

    fn seal(&mut self) -> Option<Result<(), StoreError>> {
        if let Some(Seal { requests, error }) = &self.seal {
            let outcome =
                error.as_ref().map_or(Ok(()), |error| Err(io_error("write of a superblock", error)));
            return (*requests == 0).then_some(outcome);
        }
        // Another superblock under way would be newer than the last one, or older than this.
        let publishes = self.end_publishing();
        if let Some(error) = self.failure() {
            return Some(Err(error));
        }
        if publishes || self.flight.is_some() {
            return None;
        }
        let (kept, end) = (self.log.kept(), self.log.end());
        // A record behind the sealed end, written after this, would count for no one.
        self.fail(StoreError::Stopped);
        if end == self.opening.sealed || end == kept {
            return Some(Ok(()));
        }
        self.opening = Opening { kept, sealed: end, salt: self.opening.salt + 1, ..self.opening };
        let root = self.tables.tree.root.clone();
        match self.send_superblock(Purpose::Seal, root, self.published, [Durability::Durable; 2]) {
            Err(error) => return Some(Err(error)),
            Ok(requests) => self.seal = Some(Seal { requests, error: None }),
        }
        None
    }

    pub(crate) fn on_seal(&mut self, result: Result<Done, DeviceError>) {
        let Some(seal) = &mut self.seal else {
            debug_assert!(false, "a seal's requests are answered once each, after it was noted");
            return;
        };
        seal.requests -= 1;
        if let Err(error) = result {
            seal.error.get_or_insert(error);
        }
    }
}
