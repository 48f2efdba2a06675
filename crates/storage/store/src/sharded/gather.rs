//! One answer of the answers of several shards.

use types::GHObject;

use super::moving::MARKS;
use crate::{ObjectPage, ReadOutcome, ReadRequest, StatFs, StoreError, StoreShard};

type Answer = Result<ReadOutcome, StoreError>;

/// How the answers become one.
pub enum Kind {
    /// Every shard's, summed.
    All,
    /// Of a collection that lies in two shards: the one that has the object.
    Either,
    /// Both, in order.
    List { objects_max: usize, end: GHObject },
    /// One, with where the collection is on its way to.
    Collection { to: StoreShard },
}

impl Kind {
    /// How a read of a collection on its way is answered; `None`: by the shard that it comes from.
    pub fn of_moving(request: &ReadRequest, to: StoreShard) -> Option<Self> {
        match request {
            ReadRequest::List { objects_max, end, .. }
            | ReadRequest::ListReadable { objects_max, end, .. } => {
                Some(Self::List { objects_max: *objects_max, end: end.clone() })
            }
            ReadRequest::Collection { .. } => Some(Self::Collection { to }),
            ReadRequest::Log { .. } => None,
            _ => Some(Self::Either),
        }
    }
}

/// A read that several shards answer a part of.
pub struct Gather {
    kind: Kind,
    left: usize,
    answers: Vec<Answer>,
}

impl Gather {
    /// For so many answers.
    pub fn of(kind: Kind, shards: usize) -> Self {
        Self { kind, left: shards, answers: Vec::new() }
    }

    /// Adds an answer. Returns whether it was the last.
    pub fn add(&mut self, answer: Answer) -> bool {
        self.answers.push(answer);
        self.left = self.left.saturating_sub(1);
        self.left == 0
    }

    pub fn result(self) -> Answer {
        let Self { kind, answers, .. } = self;
        match kind {
            Kind::All => sum(answers),
            Kind::Either => either(answers),
            Kind::List { objects_max, end } => merged(answers, objects_max, &end),
            Kind::Collection { to } => {
                let mut answer = answers.into_iter().next().unwrap_or(Err(StoreError::Stopped));
                if let Ok(ReadOutcome::Collection(Some(stat))) = &mut answer {
                    stat.rehoming = Some(to);
                }
                answer
            }
        }
    }
}

fn unexpected(outcome: &ReadOutcome) -> StoreError {
    StoreError::Damaged(format!("a shard answers a read with {outcome:?}"))
}

/// Of several errors any counts.
fn sum(answers: Vec<Answer>) -> Answer {
    let mut answers = answers.into_iter();
    let mut sum = answers.next().unwrap_or(Err(StoreError::Stopped))?;
    for answer in answers {
        match (&mut sum, answer?) {
            (ReadOutcome::Collections(all), ReadOutcome::Collections(more)) => all.extend(more),
            (ReadOutcome::StatFs(sum), ReadOutcome::StatFs(more)) => *sum += more,
            (_, other) => return Err(unexpected(&other)),
        }
    }
    if let ReadOutcome::Collections(all) = &mut sum {
        all.sort_unstable();
        // One on its way is in two shards.
        all.dedup();
        all.retain(|id| *id != MARKS);
    }
    Ok(sum)
}

/// While an object is moved both shards may have it, alike.
fn either(answers: Vec<Answer>) -> Answer {
    let is_missing =
        |answer: &Answer| matches!(answer, Err(StoreError::NoSuchObject(..)) | Ok(ReadOutcome::Object(None)));
    let mut missing = Err(StoreError::Stopped);
    for answer in answers {
        if !is_missing(&answer) {
            return answer;
        }
        missing = answer;
    }
    missing
}

fn merged(answers: Vec<Answer>, objects_max: usize, end: &GHObject) -> Answer {
    let (mut objects, mut gaps, mut known_to) = (Vec::new(), Vec::new(), end.clone());
    for answer in answers {
        match answer? {
            ReadOutcome::Objects(page) => {
                objects.extend(page.objects);
                gaps.extend(page.gaps);
                known_to = known_to.min(page.next);
            }
            other => return Err(unexpected(&other)),
        }
    }
    objects.sort_by(|a, b| a.0.cmp(&b.0));
    objects.dedup_by(|a, b| a.0 == b.0);
    // Behind the end of a page there may be others of its shard.
    objects.retain(|(object, _)| *object < known_to);
    let next = objects.get(objects_max).map_or(known_to, |(object, _)| object.clone());
    objects.truncate(objects_max);
    Ok(ReadOutcome::Objects(ObjectPage { objects, next, gaps }))
}

impl std::ops::AddAssign for StatFs {
    fn add_assign(&mut self, more: Self) {
        let Self {
            bytes_total,
            bytes_used,
            bytes_available,
            data_bytes,
            metadata_bytes,
            metadata_factor,
            objects,
            by_pool,
            omaps_by_pool,
            has_uncounted_omaps,
            compressed,
        } = more;
        self.bytes_total += bytes_total;
        self.bytes_used += bytes_used;
        self.bytes_available += bytes_available;
        self.data_bytes += data_bytes;
        self.metadata_bytes += metadata_bytes;
        self.metadata_factor = self.metadata_factor.max(metadata_factor);
        self.objects += objects;
        self.has_uncounted_omaps |= has_uncounted_omaps;
        for (sums, more) in [(&mut self.by_pool, by_pool), (&mut self.omaps_by_pool, omaps_by_pool)] {
            for (pool, bytes) in more {
                *sums.entry(pool).or_default() += bytes;
            }
        }
        for (pool, of_pool) in compressed {
            *self.compressed.entry(pool).or_default() += of_pool;
        }
    }
}
