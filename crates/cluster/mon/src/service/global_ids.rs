//! Global ids: never given twice, also across a kill.

use super::reserved::{self, Reserved};
use crate::state::{Batch, State, StateKey};

/// Ids that one durable write reserves.
pub const BLOCK: u64 = 4096;

const SERVICE: &str = "auth";

fn key() -> StateKey {
    StateKey::name(SERVICE, "max_global_id")
}

/// Reserves the first block of a new cluster.
pub fn create(batch: &mut Batch) {
    reserved::put(key(), BLOCK, batch);
}

/// Lets ids begin above `floor`.
pub fn create_above(floor: u64, batch: &mut Batch) {
    reserved::put(key(), floor.saturating_add(BLOCK), batch);
}

/// What was reserved and what of it is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalIds {
    next: u64,
    reserved: Reserved,
}

impl GlobalIds {
    /// After a start: every id of the blocks reserved before counts as given.
    pub fn open(state: &State) -> Self {
        let reserved = Reserved::open(key(), BLOCK, state);
        Self { next: reserved.durable() + 1, reserved }
    }

    /// An id for a session: the one it had (`asked`) where this cluster gave it, else a new one; `None` when a
    /// block has to be reserved first.
    pub fn assign(&mut self, asked: u64) -> Option<u64> {
        if asked > 0 && asked < self.next {
            return Some(asked);
        }
        if self.next > self.reserved.durable() {
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// Adds the next block to the batch where less than half a block is left.
    pub fn reserve(&mut self, batch: &mut Batch) {
        self.reserved.reserve(self.next, batch);
    }

    /// A batch is durable: its reservation may be handed out.
    pub fn committed(&mut self, state: &State) {
        self.reserved.committed(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_only_from_a_durable_block_and_never_twice_across_kills() {
        let mut state = State::new();
        let mut batch = Batch::default();
        create(&mut batch);
        batch.apply_to(&mut state);
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..5 {
            let mut ids = GlobalIds::open(&state);
            assert_eq!(ids.assign(0), None, "round {round}: nothing is reserved for this start yet");
            let mut batch = Batch::default();
            ids.reserve(&mut batch);
            assert_eq!(ids.assign(0), None, "not durable yet");
            batch.apply_to(&mut state);
            ids.committed(&state);
            for _ in 0..BLOCK {
                assert!(seen.insert(ids.assign(0).unwrap()));
            }
            assert_eq!(ids.assign(0), None, "the block is used up");
            // Reserved, but killed before it was durable.
            ids.reserve(&mut Batch::default());
        }
    }

    #[test]
    fn only_an_id_that_was_given_is_given_back() {
        let mut state = State::new();
        let mut batch = Batch::default();
        create(&mut batch);
        batch.apply_to(&mut state);
        let mut ids = GlobalIds::open(&state);
        let mut batch = Batch::default();
        ids.reserve(&mut batch);
        batch.apply_to(&mut state);
        ids.committed(&state);
        let first = ids.assign(0).unwrap();
        assert_eq!(ids.assign(first), Some(first));
        assert_eq!(ids.assign(first + 100), Some(first + 1), "one of the future is not honoured");
        assert_eq!(ids.assign(7), Some(7), "one of an earlier start is");
    }
}
