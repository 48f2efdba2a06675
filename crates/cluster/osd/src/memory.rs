//! How `osd_memory_target` is shared among what an OSD keeps in memory: idle object contexts, PG logs, and its store.
//!
//! What requests hold while they are served has a budget of its own (`osd_client_message_size_cap`).

use options::{Values, opt};

/// What an object context takes, measured: what an OSD grew by with 241,393 of them, beside one with 1,000 (604 bytes each).
pub const CONTEXT_BYTES: u64 = 620;

/// What an entry of a PG log takes, measured.
pub const LOG_ENTRY_BYTES: u64 = 300;

/// Contexts have at most this part of the target,
const CONTEXTS_PART: u64 = 8;
/// and logs this one.
const LOGS_PART: u64 = 4;

/// An OSD's memory. What the options for contexts and logs leave is the store's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryShares {
    pub object_contexts: u64,
    pub log_entries: u64,
    pub store_bytes: u64,
}

impl MemoryShares {
    pub fn of(options: &Values) -> Self {
        let target = options.get(opt::OSD_MEMORY_TARGET);
        let at_most = |wanted: u64, part: u64, each: u64| wanted.min(target / part / each);
        let object_contexts =
            at_most(options.get(opt::OSD_OBJECT_CONTEXTS_MAX), CONTEXTS_PART, CONTEXT_BYTES);
        let log_entries =
            at_most(options.get(opt::OSD_TARGET_PG_LOG_ENTRIES_PER_OSD), LOGS_PART, LOG_ENTRY_BYTES);
        let taken = object_contexts * CONTEXT_BYTES + log_entries * LOG_ENTRY_BYTES;
        Self { object_contexts, log_entries, store_bytes: target - taken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_add_up_to_the_target_however_small_it_is() {
        let mut options = Values::new();
        for (target, contexts, entries) in
            [("4G", 32768, 300_000), ("256M", 32768, 223_696), ("64M", 13530, 55924)]
        {
            options.set("osd_memory_target", target).expect("a size");
            let shares = MemoryShares::of(&options);
            assert_eq!((shares.object_contexts, shares.log_entries), (contexts, entries), "{target}");
            let sum = contexts * CONTEXT_BYTES + entries * LOG_ENTRY_BYTES + shares.store_bytes;
            assert_eq!(sum, options.get(opt::OSD_MEMORY_TARGET));
            assert!(shares.store_bytes >= sum / 8 * 5, "{target}");
        }
    }
}
