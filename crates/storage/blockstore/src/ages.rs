//! Which entries of a cache were used longest ago.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entries that one call looks at: it is part of a turn.
const LOOKED_AT_MAX: usize = 4096;

/// When an entry was last used, by the clock of its [`Ages`].
#[derive(Debug)]
pub struct Used {
    last: AtomicU64,
    /// Its key in the queue: the time of the use with which it was queued last.
    queued: AtomicU64,
}

impl Used {
    /// Whether it was used since it came.
    pub fn again(&self) -> bool {
        self.last.load(Ordering::Relaxed) != self.queued.load(Ordering::Relaxed)
    }
}

/// The keys of a cache's entries, by a use of each: its last, or an earlier one. The keys of entries that went without
/// [`Ages::remove`] may be left.
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
        Used { last: AtomicU64::new(used), queued: AtomicU64::new(used) }
    }

    /// An entry is used. Its place in the queue is found when it is looked at.
    pub fn touch(&self, entry: &Used) {
        entry.last.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// An entry goes.
    pub fn remove(&mut self, entry: &Used) {
        self.queue.remove(&entry.queued.load(Ordering::Relaxed));
    }

    /// How many keys are queued.
    #[cfg(test)]
    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    /// The key of the entry that is first in the queue, used since or not.
    pub fn first(&self) -> Option<u64> {
        self.queue.first_key_value().map(|(_, key)| *key)
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
            let entry = find(key).filter(|entry| entry.queued.load(Ordering::Relaxed) == queued);
            let Some(entry) = entry else { continue };
            match entry.last.load(Ordering::Relaxed) {
                last if last == queued => return Some(key),
                last => {
                    entry.queued.store(last, Ordering::Relaxed);
                    self.queue.insert(last, key);
                }
            }
        }
        None
    }
}
