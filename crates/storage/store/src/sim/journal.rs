//! What is queued and not durable.

use std::collections::BTreeMap;
use std::time::Duration;

use types::{SplitMix64, UTime};

use super::outcome;
use crate::{CollectionId, Completion, MemStore, ObjectStore, StoreShard, Token, Transaction};

/// A change of the durable state.
pub enum Change {
    Transaction(Transaction, Token),
    Rehome {
        collection: CollectionId,
        to: StoreShard,
        objects_max: usize,
        token: Token,
    },
    /// Of what was refused.
    Nothing,
}

impl Change {
    /// Applies what the visible store has applied before.
    pub fn apply(self, durable: &mut MemStore) {
        let completion = match self {
            Self::Transaction(txn, token) => outcome(durable, |s| s.queue(txn, token)),
            Self::Rehome { collection, to, objects_max, token } => {
                outcome(durable, |s| s.rehome(collection, to, objects_max, token))
            }
            Self::Nothing => return,
        };
        let applied =
            matches!(completion, Completion::Committed { .. } | Completion::Rehomed { result: Ok(_), .. });
        assert!(applied, "what was visible can't be made durable: {completion:?}");
    }
}

/// A change with what is to be shown when it is durable.
pub struct Record {
    /// The shards that it changes.
    pub shards: Vec<StoreShard>,
    pub change: Change,
    pub completion: Completion,
}

/// Records in the order in which they become durable: by time, then as they came.
///
/// Invariant: of two records that share a shard, the one that came first becomes durable first.
#[derive(Default)]
pub struct Journal {
    records: BTreeMap<(UTime, u64), Record>,
    pushed: u64,
    /// When the last record of each shard becomes durable.
    last: BTreeMap<StoreShard, UTime>,
    /// When the first record of a new group may.
    group: UTime,
    /// A commit that failed: whether its records took effect shows when the store is opened again.
    failed: Vec<Record>,
}

impl Journal {
    pub fn begin_group(&mut self, now: UTime, commit: Duration) {
        self.group = now.after(commit);
    }

    /// Appends a record. `apart` is how much later than the group it may become durable where nothing of its shards is
    /// in this group yet: shards commit by themselves.
    pub fn push(&mut self, record: Record, apart: Duration) {
        let fresh =
            || if record.shards.contains(&StoreShard(0)) { self.group } else { self.group.after(apart) };
        let before = record.shards.iter().filter_map(|s| self.last.get(s)).max();
        let at = match before {
            Some(&before) if before >= self.group => before,
            _ => fresh(),
        };
        self.last.extend(record.shards.iter().map(|shard| (*shard, at)));
        self.records.insert((at, self.pushed), record);
        self.pushed += 1;
    }

    pub fn next_due(&self) -> Option<UTime> {
        self.records.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn take_due(&mut self, now: UTime) -> Vec<Record> {
        let later = self.records.split_off(&(now, u64::MAX));
        std::mem::replace(&mut self.records, later).into_values().collect()
    }

    pub fn take_all(&mut self) -> Vec<Record> {
        std::mem::take(&mut self.records).into_values().collect()
    }

    /// Notes that a commit failed. Returns the completions of everything that was under way, each with whether it
    /// belongs to the commit (and not to a later one, which is not tried).
    pub fn fail(&mut self, commit: Vec<Record>) -> Vec<(Completion, bool)> {
        let mut all: Vec<_> = commit.iter().map(|r| (r.completion.clone(), true)).collect();
        all.extend(self.take_all().into_iter().map(|r| (r.completion, false)));
        self.failed = commit;
        all
    }

    /// Everything that is not durable, in order, each with whether it survives a loss of power.
    pub fn survivors(&mut self, rng: &mut SplitMix64) -> Vec<(Record, bool)> {
        let mut records = std::mem::take(&mut self.failed);
        records.extend(self.take_all());
        // One of so many ends its shard's log: few, some or nearly all survive.
        let odds = 1 << rng.below(6);
        let mut ended: Vec<StoreShard> = Vec::new();
        let mut survives = |record: &Record| {
            if rng.one_in(odds) || record.shards.iter().any(|s| ended.contains(s)) {
                ended.extend(&record.shards);
                return false;
            }
            true
        };
        let mut all = Vec::new();
        for record in records {
            let survives = survives(&record);
            all.push((record, survives));
        }
        all
    }
}
