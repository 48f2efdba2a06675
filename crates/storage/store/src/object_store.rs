//! The trait.

use std::sync::Arc;

use types::{PoolId, UTime};

use crate::{
    CollectionId, Compression, FreeSpace, ReadOutcome, ReadRequest, StoreError, StoreMemory, Transaction,
    Tuning,
};

/// What a caller recognises its request by in a [`Completion`]. The store only hands it back. Of requests that are not
/// completed yet each has its own; so has a refused transaction until it is acknowledged. Every value may be used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Token(pub u64);

/// One of the parts that a store is divided into when it is made: `0..ObjectStore::shards()`. A shard has its own log,
/// allocator and metadata, so transactions and collections live whole in one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StoreShard(pub u32);

impl StoreShard {
    /// Where a collection is made that nothing else says a place for: PGs of a pool that are neighbours in different shards.
    pub fn of_new(collection: CollectionId, shards: u32) -> Self {
        Self(match collection {
            CollectionId::Meta => 0,
            CollectionId::Pg(spg) => (spg.pg.pool.0 as u32).wrapping_add(spg.pg.seed) % shards.max(1),
        })
    }
}

/// Called, from any thread, when completions are ready; must only wake the caller's loop.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// A request's outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Completion {
    /// The whole transaction is durable (for [`crate::MemStore`]: applied).
    Committed {
        token: Token,
    },
    /// The transaction had no effect, and its collections refuse everything until [`ObjectStore::acknowledge`].
    /// Exception: if the commit itself failed with [`StoreError::Io`], the store has stopped, and whether the
    /// transaction took effect shows when the store is opened again.
    Refused {
        token: Token,
        error: StoreError,
    },
    Read {
        token: Token,
        result: Result<ReadOutcome, StoreError>,
    },
    /// A step of [`ObjectStore::rehome`] is durable, or was refused and had no effect.
    Rehomed {
        token: Token,
        result: Result<Rehoming, StoreError>,
    },
}

impl Completion {
    pub fn token(&self) -> Token {
        match self {
            Self::Committed { token }
            | Self::Refused { token, .. }
            | Self::Read { token, .. }
            | Self::Rehomed { token, .. } => *token,
        }
    }
}

/// How far re-homing is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rehoming {
    /// The collection lies in two shards: it can be read, and refuses transactions.
    Continues,
    /// The collection lies whole in the shard asked for.
    Done,
}

/// A store of objects. Every request gets exactly one [`Completion`].
///
/// **Asynchronous.** No method waits for a device. What [`ObjectStore::queue`], [`ObjectStore::read`] and
/// [`ObjectStore::rehome`] take is begun by the next [`ObjectStore::turn`]: the caller calls `turn` once after each
/// burst of events, and the burst is one submission to the device and one group commit of each shard.
/// [`ObjectStore::completions`] yields what is ready. Whatever becomes ready outside of `turn` calls the waker, once or
/// more between the moment that it is ready and the moment that the caller collects it. Background work asks for time
/// by [`ObjectStore::deadline`].
///
/// **Order.** Transactions of one collection take effect, and complete, in the order queued. A read sees every
/// transaction that was queued on its collection before it, durable or not, and none queued after it; what it returned
/// never changes afterwards. The caller decides what clients may see before it is durable. Requests of
/// different collections have no order among them; a read that names no collection sees what was queued before it on
/// every one.
///
/// **Refusals.** A refused transaction closes every collection that it names, those that don't exist included: what is
/// queued on them afterwards, a step of re-homing too, is refused with [`StoreError::AfterRefused`] (it was built on
/// what is not there), until the caller has called [`ObjectStore::acknowledge`] with the token of the transaction that
/// closed them. A transaction refused with [`StoreError::AfterRefused`] closes what else it names in the name of the
/// refusal that closed the first of its closed collections (in their order): its own token acknowledges nothing. Reads
/// go on. Opening a store again acknowledges all, and brings back nothing that was refused.
///
/// **Space.** A full store refuses with [`StoreError::NoSpace`] what would take more, and keeps a reserve for what makes
/// room: a transaction that removes, truncates or zeroes, with its log record, info and attributes, is taken.
///
/// **Shards.** A transaction names collections of one store shard. A collection stays in its shard until
/// [`ObjectStore::rehome`] has moved it.
pub trait ObjectStore {
    /// Takes a transaction to be applied and made durable as a whole, or refused as a whole.
    fn queue(&mut self, txn: Transaction, token: Token);

    fn read(&mut self, request: ReadRequest, token: Token);

    /// The answer that a [`ObjectStore::read`] queued now would give, if memory alone holds it; `None` says nothing
    /// about what is stored.
    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>>;

    /// Brings closer to the processor what memory has of objects with this hash. Nothing else comes of it.
    fn touch(&mut self, _hash: u32) {}

    /// Says that the caller has undone what it built upon the refused transaction `refused`: its collections take
    /// transactions again. It counts for what is queued after it. A token that closes nothing is ignored: it does not
    /// count for a later refusal with that token.
    fn acknowledge(&mut self, refused: Token);

    /// Does one bounded step (at most `objects_max` objects) of moving a collection to another shard, or back to the
    /// one it comes from; the caller asks again until [`Rehoming::Done`]. From the first step to the last the
    /// collection refuses transactions with [`StoreError::Rehoming`]; its reads go on. A crash in between leaves it
    /// where the last durable step left it; [`crate::CollectionStat::rehoming`] then says what is to be finished.
    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token);

    /// Begins what was taken since the last turn, and does background work that is due. `now` never goes back; it may
    /// be the time of the last turn.
    fn turn(&mut self, now: UTime);

    /// When [`ObjectStore::turn`] is wanted though nothing was queued. After a turn at that time it is later, or `None`,
    /// as soon as no work is left that is due.
    fn deadline(&self) -> Option<UTime>;

    /// Appends what completed since the last call to `out`.
    fn completions(&mut self, out: &mut Vec<Completion>);

    /// Sets the waker; without one a caller must poll.
    fn set_waker(&mut self, waker: Waker);

    /// Bounds the memory that this shard takes, bytes. A store without such a bound ignores it.
    fn set_memory(&mut self, _bytes: u64) {}

    /// What this shard has in memory; zeros where a store does not count it. It may look at all of it: nothing asks often.
    fn memory_pools(&self) -> StoreMemory {
        StoreMemory::default()
    }

    /// Says how data that are written from the next transaction on are compressed: those of a pool's objects, or (`None`) of
    /// all pools of which nothing else was said. `None` for `how` takes back what was said. An open store begins with nothing
    /// said, and compresses nothing. A store that does not compress ignores it.
    fn set_compression(&mut self, _pool: Option<PoolId>, _how: Option<Compression>) {}

    /// Tunes the store from now on, in place of what it was opened with. A store without a device ignores it.
    fn set_tuning(&mut self, _tuning: Tuning) {}

    /// How the store's free space lies, as of the last turn. It looks at all of it, so it is for those who ask, not for each report.
    /// `None`: the store does not know.
    fn free_space(&self) -> Option<FreeSpace> {
        None
    }

    /// Gives up what is in memory only to spare reads: by the end of the next turn, but for what requests under way need. `false`: the
    /// store has no such memory, or can't.
    fn drop_caches(&mut self) -> bool {
        false
    }

    /// How many shards the store has, at least 1; fixed when it is made.
    fn shards(&self) -> u32;

    /// The shard that a collection lives in (during re-homing the one it comes from), or would be made in. As
    /// of the last turn, so not of what is queued since.
    fn shard_of(&self, collection: CollectionId) -> StoreShard;
}

/// The methods of an [`ObjectStore`](crate::ObjectStore) that passes everything on to the store at a place: written inside of
/// its `impl`, as `store::pass_on!(self => self.store);`.
#[macro_export]
macro_rules! pass_on {
    ($self:ident => $store:expr) => {
        fn queue(&mut $self, txn: $crate::Transaction, token: $crate::Token) {
            $store.queue(txn, token);
        }

        fn read(&mut $self, request: $crate::ReadRequest, token: $crate::Token) {
            $store.read(request, token);
        }

        fn peek(
            &mut $self,
            request: &$crate::ReadRequest,
        ) -> Option<Result<$crate::ReadOutcome, $crate::StoreError>> {
            $store.peek(request)
        }

        fn touch(&mut $self, hash: u32) {
            $store.touch(hash);
        }

        fn acknowledge(&mut $self, refused: $crate::Token) {
            $store.acknowledge(refused);
        }

        fn rehome(
            &mut $self,
            collection: $crate::CollectionId,
            to: $crate::StoreShard,
            objects_max: usize,
            token: $crate::Token,
        ) {
            $store.rehome(collection, to, objects_max, token);
        }

        fn turn(&mut $self, now: ::types::UTime) {
            $store.turn(now);
        }

        fn deadline(&$self) -> Option<::types::UTime> {
            $store.deadline()
        }

        fn completions(&mut $self, out: &mut Vec<$crate::Completion>) {
            $store.completions(out);
        }

        fn set_waker(&mut $self, waker: $crate::Waker) {
            $store.set_waker(waker);
        }

        fn set_memory(&mut $self, bytes: u64) {
            $store.set_memory(bytes);
        }

        fn memory_pools(&$self) -> $crate::StoreMemory {
            $store.memory_pools()
        }

        fn set_compression(&mut $self, pool: Option<::types::PoolId>, how: Option<$crate::Compression>) {
            $store.set_compression(pool, how);
        }

        fn set_tuning(&mut $self, tuning: $crate::Tuning) {
            $store.set_tuning(tuning);
        }

        fn free_space(&$self) -> Option<$crate::FreeSpace> {
            $store.free_space()
        }

        fn drop_caches(&mut $self) -> bool {
            $store.drop_caches()
        }

        fn shards(&$self) -> u32 {
            $store.shards()
        }

        fn shard_of(&$self, collection: $crate::CollectionId) -> $crate::StoreShard {
            $store.shard_of(collection)
        }
    };
}

impl<S: ObjectStore + ?Sized> ObjectStore for Box<S> {
    crate::pass_on!(self => (**self));
}

/// What of a store's memory may be looked at while an event is handled.
pub trait Peek {
    /// See [`ObjectStore::peek`].
    fn peek_at(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>>;

    /// See [`ObjectStore::memory_pools`].
    fn pools_of_memory(&self) -> StoreMemory {
        StoreMemory::default()
    }
}

impl<S: ObjectStore + ?Sized> Peek for S {
    fn peek_at(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.peek(request)
    }

    fn pools_of_memory(&self) -> StoreMemory {
        self.memory_pools()
    }
}

/// No memory: everything has to be read.
pub struct NoPeek;

impl Peek for NoPeek {
    fn peek_at(&mut self, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }
}
