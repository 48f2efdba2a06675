//! Runs of pages that were used, kept for buffers that will be filled: nothing clears them in between.
//!
//! Payload of megabytes comes and goes all the time. Clearing its memory before the socket or the device fills it was a
//! fifth of the CPU of a 4 MiB read or write (docs/profiling.md, "Payload of megabytes").

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::pages::Page;

/// Pages of the shortest run that is kept: 32 KiB. A shorter one is cleared in the processor's cache, sooner than found here.
const RUN_MIN: usize = 8;

/// Pages that are kept without a use, in all: 64 MiB a process.
const KEPT_PAGES_MAX: usize = 16_384;

/// Runs that are kept: a search looks at each.
const KEPT_RUNS_MAX: usize = 256;

static KEPT: Mutex<Kept> = Mutex::new(Kept { runs: VecDeque::new(), pages: 0, unused: 0 });

/// Runs without a use, the one that was used last at the end.
struct Kept {
    runs: VecDeque<Box<[Page]>>,
    pages: usize,
    /// So many of the first were here when [`give_back_unused`] was called last.
    unused: usize,
}

impl Kept {
    fn remove(&mut self, at: usize) -> Option<Box<[Page]>> {
        let run = self.runs.remove(at)?;
        self.pages -= run.len();
        self.unused -= usize::from(at < self.unused);
        Some(run)
    }
}

fn kept() -> MutexGuard<'static, Kept> {
    // A panic leaves at worst a wrong sum of pages, which makes fewer or more stay.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of so many pages, of any content; `None` if no such run is kept.
pub fn take(pages: usize) -> Option<Box<[Page]>> {
    if pages < RUN_MIN {
        return None;
    }
    let mut kept = kept();
    let at = kept.runs.iter().rposition(|run| run.len() == pages)?;
    kept.remove(at)
}

/// Keeps a run that has no use any more, in place of those that were used longest ago. One that is too short or too long goes back
/// to the allocator.
pub fn put(run: Box<[Page]>) {
    if !(RUN_MIN..=KEPT_PAGES_MAX).contains(&run.len()) {
        return;
    }
    // What is not kept goes back when no thread waits for the lock.
    let mut gone = Vec::new();
    let mut kept = kept();
    kept.pages += run.len();
    kept.runs.push_back(run);
    while kept.pages > KEPT_PAGES_MAX || kept.runs.len() > KEPT_RUNS_MAX {
        let Some(oldest) = kept.remove(0) else { break };
        gone.push(oldest);
    }
    drop(kept);
}

/// Gives the allocator the runs of long buffers that had no use since the last call: a process that is idle keeps none.
pub fn give_back_unused() {
    let mut kept = kept();
    let unused = kept.unused;
    let gone: Vec<_> = kept.runs.drain(..unused).collect();
    kept.pages -= gone.iter().map(|run| run.len()).sum::<usize>();
    kept.unused = kept.runs.len();
    drop(kept);
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros;

    use super::*;

    fn run(pages: usize) -> Box<[Page]> {
        <[Page]>::new_box_zeroed_with_elems(pages).expect("the system has memory")
    }

    /// One test: what is kept is the process's.
    #[test]
    fn the_run_that_was_used_last_is_found_by_its_length_and_few_are_kept() {
        // Lengths that no other test of this crate has.
        const OWN: usize = 4001;
        assert!(take(OWN).is_none());
        let [first, second] = [run(OWN), run(OWN)];
        let places = [&first, &second].map(|run| run.as_ptr());
        put(first);
        put(second);
        assert!(take(OWN - 1).is_none() && take(OWN + 1).is_none());
        let again = [take(OWN), take(OWN)].map(|run| run.expect("two runs were kept"));
        assert_eq!(again.each_ref().map(|run| run.as_ptr()), [places[1], places[0]]);
        assert!(take(OWN).is_none());

        for short_or_long in [1, RUN_MIN - 1, KEPT_PAGES_MAX + 1] {
            put(run(short_or_long));
            assert!(take(short_or_long).is_none());
        }
        for _ in 0..5 {
            put(run(OWN));
        }
        let left = std::iter::from_fn(|| take(OWN)).count();
        assert!(
            (1..=KEPT_PAGES_MAX / OWN).contains(&left),
            "{left} runs of {OWN} pages are kept of at most {KEPT_PAGES_MAX}"
        );
        for _ in 0..2 * KEPT_RUNS_MAX {
            put(run(RUN_MIN + 1));
        }
        {
            let kept = kept();
            assert!(kept.runs.len() <= KEPT_RUNS_MAX && kept.pages <= KEPT_PAGES_MAX);
            assert_eq!(kept.pages, kept.runs.iter().map(|run| run.len()).sum::<usize>());
        }

        // Of three runs one is used between the calls.
        (0..3).for_each(|_| put(run(OWN)));
        give_back_unused();
        put(take(OWN).expect("three runs were kept"));
        give_back_unused();
        assert_eq!(std::iter::from_fn(|| take(OWN)).count(), 1);
        put(run(OWN));
        give_back_unused();
        give_back_unused();
        assert!(take(OWN).is_none());
    }
}
