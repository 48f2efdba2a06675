//! The simulated store as the suite wants it.

use std::time::Duration;

use store::CollectionId;
use store::conformance::{Contents, Factory, Properties};
use store::sim::{SimOptions, SimStore};
use types::GHObject;

pub struct Sim {
    pub shards: u32,
    pub seed: u64,
}

/// What MemStore counts: 64 bytes for each thing that it holds, beside its bytes, and 128 for an object.
pub fn mem_metadata_bytes_max(c: &Contents) -> u64 {
    let things = c.collections + 2 * c.objects + c.attrs + c.omap_keys + c.log_records;
    64 * things + c.info_bytes + c.name_bytes + c.attr_bytes + c.omap_bytes + c.log_bytes
}

impl Factory for Sim {
    type Store = SimStore;

    fn properties(&self) -> Properties {
        Properties {
            reopens: true,
            crashes: true,
            checks_data: true,
            fails_commits: true,
            shards: self.shards,
            patience: Duration::from_millis(300),
            ..Properties::VOLATILE
        }
    }

    fn fresh(&mut self, bytes_total: u64) -> SimStore {
        self.seed += 1;
        SimStore::new(SimOptions {
            bytes_total,
            shards: self.shards,
            seed: self.seed,
            commit_us: 20..400,
            read_us: 5..300,
        })
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        mem_metadata_bytes_max(contents)
    }

    fn reopen(&mut self, store: SimStore) -> Option<SimStore> {
        Some(store.close())
    }

    fn crash(&mut self, mut store: SimStore, seed: u64) -> Option<SimStore> {
        store.reseed(seed);
        Some(store.power_loss().0)
    }

    fn damage(
        &mut self,
        mut store: SimStore,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<SimStore> {
        store.damage(collection, object, offset);
        Some(store)
    }

    fn fail_commits(&mut self, store: &mut SimStore) -> bool {
        store.fail_commits();
        true
    }
}
