//! The answer to a read that names no collection, of the answers of all shards.

use crate::{ReadOutcome, StatFs, StoreError};

/// See the module's documentation.
pub struct Gather {
    answers: Vec<Option<Result<ReadOutcome, StoreError>>>,
}

impl Gather {
    pub fn of(shards: usize) -> Self {
        Self { answers: vec![None; shards] }
    }

    /// Adds a shard's answer. Returns whether it was the last.
    pub fn add(&mut self, shard: usize, answer: Result<ReadOutcome, StoreError>) -> bool {
        self.answers[shard] = Some(answer);
        self.answers.iter().all(Option::is_some)
    }

    /// The answer of all. Of several errors the first shard's counts.
    pub fn result(self) -> Result<ReadOutcome, StoreError> {
        let mut answers = self.answers.into_iter().flatten();
        let mut sum = answers.next().unwrap_or(Err(StoreError::Stopped))?;
        for answer in answers {
            match (&mut sum, answer?) {
                (ReadOutcome::Collections(all), ReadOutcome::Collections(more)) => all.extend(more),
                (ReadOutcome::StatFs(sum), ReadOutcome::StatFs(more)) => *sum += more,
                (_, other) => {
                    let what = format!("a shard answers a read of the whole store with {other:?}");
                    return Err(StoreError::Damaged(what));
                }
            }
        }
        if let ReadOutcome::Collections(all) = &mut sum {
            all.sort_unstable();
        }
        Ok(sum)
    }
}

impl std::ops::AddAssign for StatFs {
    fn add_assign(&mut self, more: Self) {
        let Self { bytes_total, bytes_used, bytes_available, data_bytes, metadata_bytes, objects } = more;
        self.bytes_total += bytes_total;
        self.bytes_used += bytes_used;
        self.bytes_available += bytes_available;
        self.data_bytes += data_bytes;
        self.metadata_bytes += metadata_bytes;
        self.objects += objects;
    }
}
