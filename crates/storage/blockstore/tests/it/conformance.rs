//! The suite of every store, on simulated disks.

use crate::common::shards::Shards;
use crate::common::{Sim, forced};
use blockstore::Options;
use store::conformance::OF_SEVERAL_SHARDS;
use store::{ByMedium, CompressionAlgorithm};

mod defaults {
    use super::*;
    store::conformance_tests!(Sim::new(Options::default(), 12 << 20), skipped: OF_SEVERAL_SHARDS);
}

/// A small log and little memory: checkpoints all the time, and pages that are read again and again.
mod cramped {
    use super::*;
    const OPTIONS: Options = Options {
        prefer_deferred_bytes: 32 << 10,
        new_deferred_bytes: ByMedium { hdd: 0, ssd: 0 },
        cache_bytes: 64 << 10,
        changes_bytes_max: 256 << 10,
        pages_per_turn: 2,
        discard: false,
    };
    store::conformance_tests!(Sim { clean: false, durable_flushes: true, ..Sim::new(OPTIONS, 4 << 20) }, skipped: OF_SEVERAL_SHARDS);
}

/// Nothing is deferred: every write goes to new blocks. The log has a device of its own.
mod direct {
    use super::*;
    const OPTIONS: Options = Options {
        prefer_deferred_bytes: 0,
        new_deferred_bytes: ByMedium { hdd: 0, ssd: 0 },
        cache_bytes: 64 << 20,
        changes_bytes_max: 1 << 20,
        pages_per_turn: 32,
        discard: true,
    };
    store::conformance_tests!(Sim { block_bytes: 4096, log_apart: true, ..Sim::new(OPTIONS, 4 << 20) }, skipped: OF_SEVERAL_SHARDS);
}

/// Everything that gets smaller is compressed.
mod compressed {
    use super::*;
    store::conformance_tests!(
        Sim { compression: Some(forced(CompressionAlgorithm::Lz4, 32 << 10)), ..Sim::new(Options::default(), 12 << 20) },
        skipped: OF_SEVERAL_SHARDS
    );
}

/// Three shards on one disk, with a small log each.
mod several_shards {
    use super::*;
    store::conformance_tests!(
        Shards { sim: Sim { clean: false, ..Sim::new(Options::default(), 4 << 20) }, shards: 3, grown: false },
        skipped: ["a_full_store_refuses_whole_and_takes_what_makes_room"]
    );
}

/// The same, with their logs side by side on a disk of their own.
mod several_shards_with_their_logs_apart {
    use super::*;
    store::conformance_tests!(
        Shards { sim: Sim { clean: false, log_apart: true, ..Sim::new(Options::default(), 4 << 20) }, shards: 3, grown: false },
        skipped: ["a_full_store_refuses_whole_and_takes_what_makes_room"]
    );
}

/// The same, each with its blocks in three places.
mod several_shards_that_have_grown {
    use super::*;
    store::conformance_tests!(
        Shards { sim: Sim { clean: false, ..Sim::new(Options::default(), 4 << 20) }, shards: 3, grown: true },
        skipped: ["a_full_store_refuses_whole_and_takes_what_makes_room"]
    );
}
