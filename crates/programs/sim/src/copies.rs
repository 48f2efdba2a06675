//! Clients that copy objects: sources that are written whole again and again, and copies of them onto the load's objects.
//! The OSD that has the copy reads the source as a client of the OSD that has it.

use types::PoolId;

use crate::history::Action;
use crate::workload::Slot;
use crate::world::World;

/// Objects that are copied: the first is in the pool of the load, the second in a pool of its own.
const SOURCES: usize = 2;

impl World {
    pub(crate) fn make_sources(&mut self) {
        for source in 0..if self.plan.copies { SOURCES } else { 0 } {
            let object = self.history.object(format!("src{source}-0"));
            self.sources.push(Slot::of(object));
        }
    }

    /// Whether an object is not in the pool of the load.
    pub(crate) fn is_elsewhere(&self, object: usize) -> bool {
        self.history.is_elsewhere(object)
    }

    pub(crate) fn pool_of(&self, object: usize) -> Option<PoolId> {
        if self.is_elsewhere(object) { self.pool_elsewhere } else { self.pool }
    }

    /// Writes a source or reads it: `true`; or leaves a client something else to do.
    pub(crate) fn turn_to_source(&mut self, index: usize) -> bool {
        if !self.plan.copies || self.pool_elsewhere.is_none() || !self.one_in(8) {
            return false;
        }
        let at = self.random(SOURCES as u64) as usize;
        if self.sources[at].is_used_up() {
            let object = self.history.object(format!("src{at}-{}", self.sources[at].next()));
            self.sources[at].begin(object);
        }
        self.sources[at].operations += 1;
        let object = self.sources[at].object;
        let most = self.plan.blocks_max as u64;
        let action = match self.one_in(4) {
            true => Action::Read,
            false => Action::WriteFull { blocks: 1 + self.random(most) as usize },
        };
        self.begin(index, object, action);
        true
    }

    /// A copy of some source.
    pub(crate) fn some_copy(&mut self) -> Option<Action> {
        if !self.plan.copies || self.pool_elsewhere.is_none() || !self.one_in(5) {
            return None;
        }
        let at = self.random(SOURCES as u64) as usize;
        Some(Action::Copy { source: self.sources[at].object })
    }
}
