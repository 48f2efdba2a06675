//! Which entries of a cache were used longest ago.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries that one call looks at: it is part of a turn.
const LOOKED_AT_MAX: usize = 4096;

/// When an entry was last used, by the clock of its [`Ages`].
#[derive(Debug)]
pub struct Used(AtomicU64);

/// The keys of a cache's entries, by a use of each: its last, or an earlier one. Keys that are gone may be left.
#[derive(Debug, Default)]
pub struct Ages {
    queue: BTreeMap<u64, u64>,
    clock: AtomicU64,
}

impl Ages {
    /// Counts uses: what is used from now on has this number or a higher one.
    pub fn clock(&self) -> u64 {
        self.clock.load(Ordering::Relaxed)
    }

    /// A new entry under this key.
    pub fn add(&mut self, key: u64) -> Used {
        let used = self.clock.fetch_add(1, Ordering::Relaxed);
        self.queue.insert(used, key);
        Used(AtomicU64::new(used))
    }

    /// An entry is used. Its place in the queue is found when it is looked at.
    pub fn touch(&self, entry: &Used) {
        entry.0.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The key of the entry that was used longest ago, before the clock was `before`; it leaves the queue. `None` also after
    /// many that were used meanwhile: the next call goes on. `find` has a key's entry.
    pub fn oldest<'a>(&mut self, before: u64, find: impl Fn(u64) -> Option<&'a Used>) -> Option<u64> {
        for _ in 0..LOOKED_AT_MAX {
            let (queued, key) = self.queue.first_key_value().map(|(queued, key)| (*queued, *key))?;
            if queued >= before {
                return None;
            }
            self.queue.pop_first();
            // What replaced an entry of the same key was queued itself, later.
            match find(key).map(|entry| entry.0.load(Ordering::Relaxed)) {
                None => {}
                Some(used) if used == queued => return Some(key),
                Some(used) => drop(self.queue.insert(used, key)),
            }
        }
        None
    }
}
