//! Statistics inside messages: object_stat_sum_t, object_stat_collection_t, store_statfs_t, pool_stat_t.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};

use crate::codec::fields;

macro_rules! stat_sum {
    ($($(#[$doc:meta])* $f:ident: $t:ty),* $(,)?) => {
        /// Ceph's object_stat_sum_t: counts and sums over objects. They may be negative while they settle.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct ObjectStatSum {
            $($(#[$doc])* pub $f: $t,)*
        }

        impl ObjectStatSum {
            pub fn add(&mut self, o: &Self) {
                $(self.$f = self.$f.saturating_add(o.$f);)*
            }

            /// What was counted since `earlier`; a counter that fell gives 0.
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($f: self.$f.saturating_sub(earlier.$f).max(0),)* }
            }

            /// Names and values, in the order of the encoding.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, i64)> {
                [$((stringify!($f), i64::from(self.$f)),)*].into_iter()
            }
        }

        fields!(ObjectStatSum "object_stat_sum_t" version 20, compat 14, [$($f),*]);
    };
}
stat_sum! {
    /// Bytes of data.
    num_bytes: i64,
    /// Objects, clones included.
    num_objects: i64,
    num_object_clones: i64,
    /// Objects times copies wanted.
    num_object_copies: i64,
    /// Objects that the primary lacks.
    num_objects_missing_on_primary: i64,
    /// Copies that are lacking.
    num_objects_degraded: i64,
    /// Objects of which no copy is known.
    num_objects_unfound: i64,
    /// Read operations.
    num_rd: i64,
    /// KiB read.
    num_rd_kb: i64,
    /// Write operations.
    num_wr: i64,
    /// KiB written.
    num_wr_kb: i64,
    /// Errors found by scrubs.
    num_scrub_errors: i64,
    num_objects_recovered: i64,
    num_bytes_recovered: i64,
    /// Omap keys recovered.
    num_keys_recovered: i64,
    /// Errors found by shallow scrubs.
    num_shallow_scrub_errors: i64,
    /// Errors found by deep scrubs.
    num_deep_scrub_errors: i64,
    /// Objects that a cache tier has not written back.
    num_objects_dirty: i64,
    /// Whiteouts of a cache tier.
    num_whiteouts: i64,
    num_objects_omap: i64,
    num_objects_hit_set_archive: i64,
    /// Copies that are not where they belong.
    num_objects_misplaced: i64,
    /// Bytes of hit sets.
    num_bytes_hit_set_archive: i64,
    /// Flushes by a cache tier.
    num_flush: i64,
    /// KiB flushed.
    num_flush_kb: i64,
    /// Evictions.
    num_evict: i64,
    /// KiB evicted.
    num_evict_kb: i64,
    /// Promotions.
    num_promote: i64,
    /// 1 while a cache tier flushes at high speed.
    num_flush_mode_high: i32,
    /// 1 while it flushes at low speed.
    num_flush_mode_low: i32,
    /// 1 while it evicts some.
    num_evict_mode_some: i32,
    /// 1 while it evicts at full speed.
    num_evict_mode_full: i32,
    num_objects_pinned: i64,
    /// Objects that some copy lacks.
    num_objects_missing: i64,
    /// Snapshot sets in the form before Luminous.
    num_legacy_snapsets: i64,
    /// Objects with an unduly large omap.
    num_large_omap_objects: i64,
    /// Objects with a manifest.
    num_objects_manifest: i64,
    num_omap_bytes: i64,
    num_omap_keys: i64,
    num_objects_repaired: i64,
}

/// Ceph's object_stat_collection_t: an [`ObjectStatSum`] in an envelope that once held sums by category.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ObjectStatCollection {
    pub sum: ObjectStatSum,
}

impl Encode for ObjectStatCollection {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(2, 2, |e| {
            e.put(&self.sum).put(&0u32);
        });
    }
}
impl Decode for ObjectStatCollection {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(2, "object_stat_collection_t", |d, version| {
            if version < 2 {
                return Err(DecodeError::TooOld { what: "object_stat_collection_t", version });
            }
            let sum = d.get()?;
            match d.get::<u32>()? {
                0 => Ok(Self { sum }),
                n => Err(DecodeError::BadValue { what: "object_stat_collection_t categories", value: n.into() }),
            }
        })
    }
}

macro_rules! store_statfs {
    ($($(#[$doc:meta])* $f:ident: $t:ty),* $(,)?) => {
        /// Ceph's store_statfs_t: a store's size and use, in bytes.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct StoreStatfs {
            $($(#[$doc])* pub $f: $t,)*
        }

        impl StoreStatfs {
            pub fn add(&mut self, o: &Self) {
                $(self.$f = self.$f.saturating_add(o.$f);)*
            }
        }

        fields!(StoreStatfs "store_statfs_t" version 1, compat 1, [$($f),*]);
    };
}
store_statfs! {
    /// Size.
    total: u64,
    /// Free.
    available: u64,
    /// Kept back by the store for itself.
    internally_reserved: u64,
    /// Allocated to data.
    allocated: i64,
    /// Data as its users wrote it.
    data_stored: i64,
    data_compressed: i64,
    /// Allocated to compressed data.
    data_compressed_allocated: i64,
    /// What compressed data was before.
    data_compressed_original: i64,
    /// Used by omap, about.
    omap_allocated: i64,
    /// Used by metadata, about.
    internal_metadata: i64,
}

impl StoreStatfs {
    /// Bytes that are not free.
    pub fn used_raw(&self) -> u64 {
        self.total.saturating_sub(self.available)
    }
}

/// Ceph's pool_stat_t: a pool's statistics.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolStat {
    /// Counts over its objects.
    pub stats: ObjectStatCollection,
    /// Log entries.
    pub log_size: i64,
    /// Log entries on disk.
    pub ondisk_log_size: i64,
    /// Sum over PGs of OSDs that are up.
    pub up: i32,
    /// Sum over PGs of OSDs that act.
    pub acting: i32,
    /// Use of stores.
    pub store_stats: StoreStatfs,
    /// How many stores reported it.
    pub num_store_stats: i32,
}
fields!(PoolStat "pool_stat_t" version 7, compat 5, [
    stats, log_size, ondisk_log_size, up, acting, store_stats, num_store_stats,
]);
