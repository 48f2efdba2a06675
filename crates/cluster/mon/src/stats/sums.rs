//! Counters that add up over PGs and pools.

use crate::fmt::Json;

macro_rules! sums {
    ($($(#[$doc:meta])* $field:ident),* $(,)?) => {
        /// A PG's counters (Ceph's object_stat_sum_t), in the order that they are shown.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Sums {
            $($(#[$doc])* pub $field: i64,)*
        }

        impl Sums {
            /// Adds another's counters.
            pub fn add(&mut self, other: &Sums) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }

            /// What was counted since `earlier`, nothing below zero.
            pub fn since(&self, earlier: &Sums) -> Sums {
                Sums { $($field: self.$field.saturating_sub(earlier.$field).max(0),)* }
            }

            /// As JSON, all counters.
            pub fn json(&self) -> Json {
                let mut out = Json::object();
                $(out.put(json_name(stringify!($field)), self.$field);)*
                out
            }
        }

        impl From<&messages::ObjectStatSum> for Sums {
            fn from(s: &messages::ObjectStatSum) -> Self {
                Self { $($field: i64::from(s.$field),)* }
            }
        }

        impl From<&Sums> for messages::ObjectStatSum {
            fn from(s: &Sums) -> Self {
                Self { $($field: s.$field as _,)* }
            }
        }
    };
}

/// The shown name of a counter.
fn json_name(field: &'static str) -> &'static str {
    match field {
        "num_rd" => "num_read",
        "num_rd_kb" => "num_read_kb",
        "num_wr" => "num_write",
        "num_wr_kb" => "num_write_kb",
        other => other,
    }
}

sums! {
    /// Bytes of data.
    num_bytes,
    num_objects,
    num_object_clones,
    /// Copies that there should be.
    num_object_copies,
    /// Objects that the primary misses.
    num_objects_missing_on_primary,
    /// Copies missing.
    num_objects_missing,
    /// Copies fewer than asked for.
    num_objects_degraded,
    /// Copies in the wrong place.
    num_objects_misplaced,
    /// Objects of which no copy was found.
    num_objects_unfound,
    /// Objects not flushed to a base tier.
    num_objects_dirty,
    num_whiteouts,
    /// Reads.
    num_rd,
    /// KiB read.
    num_rd_kb,
    /// Writes.
    num_wr,
    /// KiB written.
    num_wr_kb,
    /// Errors that scrubs found.
    num_scrub_errors,
    /// Of these, in metadata.
    num_shallow_scrub_errors,
    /// Of these, in data.
    num_deep_scrub_errors,
    num_objects_recovered,
    num_bytes_recovered,
    num_keys_recovered,
    /// Objects with an omap.
    num_objects_omap,
    num_objects_hit_set_archive,
    /// Their bytes.
    num_bytes_hit_set_archive,
    num_flush,
    /// KiB flushed.
    num_flush_kb,
    /// Evictions.
    num_evict,
    /// KiB evicted.
    num_evict_kb,
    /// Promotions.
    num_promote,
    /// Flushing hard.
    num_flush_mode_high,
    /// Flushing gently.
    num_flush_mode_low,
    num_evict_mode_some,
    /// Evicting all.
    num_evict_mode_full,
    num_objects_pinned,
    /// Old snapsets.
    num_legacy_snapsets,
    /// Objects with a large omap.
    num_large_omap_objects,
    num_objects_manifest,
    num_omap_bytes,
    num_omap_keys,
    num_objects_repaired,
}
