//! What the suite has to know of a store, and what it can do to one.

use std::time::Duration;

use types::GHObject;

use crate::{CollectionId, ObjectStore};

/// What a store is capable of. A case that needs more than a store has is skipped, and the expansion of
/// [`conformance_tests!`](crate::conformance_tests) names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Properties {
    /// [`Factory::reopen`] gives back what was stored.
    pub reopens: bool,
    /// [`Factory::crash`] gives back what was durable.
    pub crashes: bool,
    /// Stored data has checksums, and [`Factory::damage`] can make one wrong.
    pub checks_data: bool,
    /// [`Factory::fail_commits`] works.
    pub fails_commits: bool,
    /// A clone shares blocks with its source, and both count them once.
    pub shares_blocks: bool,
    /// How many shards the store has.
    pub shards: u32,
    /// Every shard may use all of the store's space.
    pub shares_space: bool,
    /// Completions come from another thread. Then the suite gives them a moment of real time before it advances its
    /// clock to the store's deadline.
    pub threaded: bool,
    /// How long the suite waits for the waker before it takes the wake-up for lost.
    pub patience: Duration,
}

impl Properties {
    /// A store of one shard that keeps nothing and does everything within `turn`.
    pub const VOLATILE: Self = Self {
        reopens: false,
        crashes: false,
        checks_data: false,
        fails_commits: false,
        shares_blocks: false,
        shards: 1,
        shares_space: true,
        threaded: false,
        patience: Duration::from_secs(60),
    };
}

/// What a case needs of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    Reopen,
    Crash,
    Damage,
    FailedCommits,
    SeveralShards,
    SharedSpace,
}

impl Need {
    pub fn is_met(self, properties: &Properties) -> bool {
        match self {
            Self::Reopen => properties.reopens,
            Self::Crash => properties.crashes,
            Self::Damage => properties.checks_data,
            Self::FailedCommits => properties.fails_commits,
            Self::SeveralShards => properties.shards > 1,
            Self::SharedSpace => properties.shares_space,
        }
    }
}

/// What a store holds, counted: what its metadata may take depends on it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Contents {
    pub collections: u64,
    /// Bytes of all collections' infos.
    pub info_bytes: u64,
    pub objects: u64,
    /// Bytes of objects' names, keys and namespaces.
    pub name_bytes: u64,
    /// Blocks of 4 KiB that objects' sizes span.
    pub data_blocks: u64,
    pub attrs: u64,
    /// Bytes of attributes' names and values.
    pub attr_bytes: u64,
    pub omap_keys: u64,
    /// Bytes of omaps' keys, values and headers.
    pub omap_bytes: u64,
    pub log_records: u64,
    pub log_bytes: u64,
}

/// Makes the stores that the suite runs on, and does to them what a test can't do through the trait.
///
/// The suite expects that `shard_of` a collection that doesn't exist depends on the collection and the store's shards
/// alone, and that one step re-homes a collection of a few objects whole if `objects_max` allows that.
pub trait Factory {
    type Store: ObjectStore;

    fn properties(&self) -> Properties;

    /// An empty store of about so many bytes (a store may round). Several may be in use at once.
    fn fresh(&mut self, bytes_total: u64) -> Self::Store;

    /// The most that [`crate::StatFs::metadata_bytes`] may be for these contents, when nothing is under way.
    fn metadata_bytes_max(&self, contents: &Contents) -> u64;

    /// Closes a store in order (everything queued becomes durable) and opens it again.
    fn reopen(&mut self, store: Self::Store) -> Option<Self::Store> {
        drop(store);
        None
    }

    /// Loses power and opens the store again. Of what was not durable a part survives that depends on the seed.
    fn crash(&mut self, store: Self::Store, seed: u64) -> Option<Self::Store> {
        let _ = (store, seed);
        None
    }

    /// Flips stored bits of the object's byte at `offset` behind the store's back (closing and opening it, if need be).
    fn damage(
        &mut self,
        store: Self::Store,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<Self::Store> {
        let _ = (store, collection, object, offset);
        None
    }

    /// Makes every commit from now on fail with an I/O error, until the store is opened again.
    fn fail_commits(&mut self, store: &mut Self::Store) -> bool {
        let _ = store;
        false
    }
}
