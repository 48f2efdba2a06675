//! What stores have in memory.

/// What there is of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryPool {
    pub items: u64,
    pub bytes: u64,
}

impl MemoryPool {
    pub const fn of(items: u64, bytes: u64) -> Self {
        Self { items, bytes }
    }
}

impl std::ops::AddAssign for MemoryPool {
    fn add_assign(&mut self, more: Self) {
        self.items += more.items;
        self.bytes += more.bytes;
    }
}

/// What a store has in memory, in the pools into which Ceph divides the memory of its own one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreMemory {
    /// Which space is free.
    pub allocation: MemoryPool,
    /// Data that were read.
    pub data: MemoryPool,
    /// Objects that were found lately.
    pub onodes: MemoryPool,
    /// Metadata as the device has them, and what was found in them.
    pub metadata: MemoryPool,
    /// What else is kept to spare reads.
    pub other: MemoryPool,
    /// Changes that are in the log, and not in the metadata yet.
    pub changes: MemoryPool,
    /// Data that are in the log, and not in their places yet.
    pub deferred: MemoryPool,
}

impl StoreMemory {
    /// The pools by their names, which are Ceph's.
    pub fn named(&self) -> [(&'static str, MemoryPool); 7] {
        [
            ("bluestore_alloc", self.allocation),
            ("bluestore_cache_data", self.data),
            ("bluestore_cache_onode", self.onodes),
            ("bluestore_cache_meta", self.metadata),
            ("bluestore_cache_other", self.other),
            ("bluestore_txc", self.changes),
            ("bluestore_writing_deferred", self.deferred),
        ]
    }
}

impl std::ops::AddAssign for StoreMemory {
    fn add_assign(&mut self, more: Self) {
        let Self { allocation, data, onodes, metadata, other, changes, deferred } = more;
        self.allocation += allocation;
        self.data += data;
        self.onodes += onodes;
        self.metadata += metadata;
        self.other += other;
        self.changes += changes;
        self.deferred += deferred;
    }
}
