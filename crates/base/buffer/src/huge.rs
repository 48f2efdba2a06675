//! Long runs of pages that lie in huge pages of the system, for what passes between a socket and a device.
//!
//! A device's request has an entry for each stretch of memory that is one to it, and few of them: in pages of 4 KiB it is cut into
//! many requests, and the system looks up and holds each page. In huge pages 4 MiB are two entries (docs/profiling.md, "Payload of
//! megabytes"). They are few, since each costs the system milliseconds at its first touch, and what is kept for
//! long would hold them: a buffer that finds none has pages from elsewhere.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::pages::Page;

/// Pages of the shortest run: 64 KiB. For less, a look for a free one costs what it spares.
const RUN_MIN: usize = 16;

/// Where huge pages come from, and how the system gets them back.
#[derive(Clone, Copy, Debug)]
pub struct HugePages {
    /// The memory, of any content, that all runs lie in; `None` if there is none, or not yet: a caller never waits for it.
    pub take: fn() -> Option<&'static mut [Page]>,
    /// Gives it back whole.
    pub give_back: fn(&'static mut [Page]),
    /// Is called now and then while no buffer has the memory: it need not be kept ready.
    pub forget: fn(),
}

static SOURCE: OnceLock<HugePages> = OnceLock::new();
static ARENA: Mutex<Option<Arena>> = Mutex::new(None);

fn arena() -> MutexGuard<'static, Option<Arena>> {
    // A panic between two changes of the list of free runs would leave some of them unused, and none used twice.
    ARENA.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has long buffers that are received lie in `source`'s memory from now on, in all threads. The first call counts.
pub fn set_huge_pages(source: HugePages) {
    let _ = SOURCE.set(source);
}

/// The memory of all runs.
struct Arena {
    first: NonNull<Page>,
    pages: usize,
    /// Runs without a user: their pages by their first. No two are neighbours.
    free: BTreeMap<usize, usize>,
    /// Whether a run was taken since [`give_back_unused`] was called last.
    used: bool,
}

#[allow(unsafe_code, reason = "it is the only owner of the memory that it points to")]
// SAFETY: an arena has its memory for itself, as a `Box` would; a `Page` is plain bytes.
unsafe impl Send for Arena {}

impl Arena {
    fn new(memory: &'static mut [Page]) -> Self {
        let pages = memory.len();
        Self { first: NonNull::from(memory).cast(), pages, free: [(0, pages)].into(), used: true }
    }

    fn take(&mut self, pages: usize) -> Option<Run> {
        let (&start, &len) = self.free.iter().find(|(_, len)| **len >= pages)?;
        self.free.remove(&start);
        if len > pages {
            self.free.insert(start + pages, len - pages);
        }
        self.used = true;
        #[allow(unsafe_code, reason = "runs are parts of one allocation, and put together again")]
        // SAFETY: a free run lies inside of the arena's memory: `start + pages <= self.pages`.
        let first = unsafe { self.first.add(start) };
        Some(Run { start, first, pages })
    }

    fn put(&mut self, mut start: usize, mut pages: usize) {
        if let Some((&before, &len)) = self.free.range(..start).next_back() {
            assert!(before + len <= start, "a run comes back once");
            if before + len == start {
                self.free.remove(&before);
                (start, pages) = (before, len + pages);
            }
        }
        if let Some(len) = self.free.remove(&(start + pages)) {
            pages += len;
        }
        self.free.insert(start, pages);
    }

    fn is_free(&self) -> bool {
        self.free.get(&0) == Some(&self.pages)
    }

    /// Its memory, which no run has.
    fn into_memory(self) -> Option<&'static mut [Page]> {
        if !self.is_free() {
            return None;
        }
        #[allow(unsafe_code, reason = "the memory goes back as it came")]
        // SAFETY: `first` and `pages` are of the slice that `new` was given for good. No run is out, so that nothing else
        // refers to it, and the arena ends here.
        Some(unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.pages) })
    }
}

/// A run of pages with one owner; dropping it gives it back.
pub struct Run {
    start: usize,
    first: NonNull<Page>,
    pages: usize,
}

#[allow(unsafe_code, reason = "it is the only owner of its pages")]
// SAFETY: a run has its pages for itself, as a `Box` would; a `Page` is plain bytes.
unsafe impl Send for Run {}

#[allow(unsafe_code, reason = "it is the only owner of its pages")]
// SAFETY: the same; a shared run is only read.
unsafe impl Sync for Run {}

impl Run {
    /// A run of so many pages, of any content; `None` if it would be short, or there is none.
    pub fn take(pages: usize) -> Option<Self> {
        if pages < RUN_MIN {
            return None;
        }
        let source = SOURCE.get()?;
        let mut arena = arena();
        if arena.is_none() {
            *arena = (source.take)().map(Arena::new);
        }
        arena.as_mut()?.take(pages)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // The arena stays as long as a run is out.
        if let Some(arena) = &mut *arena() {
            arena.put(self.start, self.pages);
        }
    }
}

impl Deref for Run {
    type Target = [Page];

    #[inline]
    fn deref(&self) -> &[Page] {
        #[allow(unsafe_code, reason = "a run is a part of one allocation")]
        // SAFETY: the pages lie in the arena's memory, which is there while a run is out, and no other run has them.
        unsafe {
            std::slice::from_raw_parts(self.first.as_ptr(), self.pages)
        }
    }
}

impl DerefMut for Run {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Page] {
        #[allow(unsafe_code, reason = "a run is a part of one allocation")]
        // SAFETY: as in `deref`; the borrow of the run is the only one.
        unsafe {
            std::slice::from_raw_parts_mut(self.first.as_ptr(), self.pages)
        }
    }
}

/// Gives the memory back if no run had a use since the last call: a process that is idle keeps none.
pub fn give_back_unused() {
    // A process that never asked for huge pages has none to give back.
    let Some(source) = SOURCE.get() else { return };
    let mut arena = arena();
    if arena.as_mut().is_some_and(|arena| std::mem::take(&mut arena.used) || !arena.is_free()) {
        return;
    }
    let unused = arena.take();
    // Beside the lock: the system takes its time.
    drop(arena);
    match unused {
        None => (source.forget)(),
        Some(unused) => unused.into_memory().into_iter().for_each(source.give_back),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use zerocopy::FromZeros;

    use super::*;

    const PAGES: usize = 100;

    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

    fn take() -> Option<&'static mut [Page]> {
        // The first caller comes too early.
        (TAKEN.fetch_add(1, Ordering::Relaxed) > 0)
            .then(|| Box::leak(<[Page]>::new_box_zeroed_with_elems(PAGES).expect("the system has memory")))
    }

    fn give_back(memory: &'static mut [Page]) {
        assert_eq!(memory.len(), PAGES);
        GIVEN_BACK.fetch_add(1, Ordering::Relaxed);
    }

    static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

    fn forget() {
        FORGOTTEN.fetch_add(1, Ordering::Relaxed);
    }

    /// One test: the memory is the process's.
    #[test]
    fn runs_lie_apart_come_back_and_are_put_together_again() {
        assert!(Run::take(50).is_none(), "no one has said where memory comes from");
        set_huge_pages(HugePages { take, give_back, forget });
        assert!(Run::take(50).is_none(), "there is none yet");
        assert!(Run::take(RUN_MIN - 1).is_none(), "too short");
        let mut runs: Vec<Run> = (0..4).map(|_| Run::take(25).expect("there is room")).collect();
        assert!(Run::take(RUN_MIN).is_none(), "all are out");
        for (value, run) in (1..).zip(&mut runs) {
            run.iter_mut().for_each(|page| page.0.fill(value));
        }
        for (value, run) in (1..).zip(&runs) {
            assert!(run.len() == 25 && run.iter().all(|page| page.0.iter().all(|byte| *byte == value)));
        }
        give_back_unused();
        // In every order, neighbours on no side, on one and on both.
        for order in [[0, 2, 1, 3], [3, 1, 2, 0], [0, 1, 2, 3]] {
            let mut out: Vec<Option<Run>> = runs.drain(..).map(Some).collect();
            order.into_iter().for_each(|at: usize| drop(out[at].take()));
            drop(Run::take(PAGES).expect("all is one run again"));
            runs = (0..4).map(|_| Run::take(25).expect("there is room")).collect();
        }
        drop(runs);
        give_back_unused();
        assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 0, "it had a use");
        assert_eq!(FORGOTTEN.load(Ordering::Relaxed), 0);
        give_back_unused();
        assert_eq!(GIVEN_BACK.load(Ordering::Relaxed), 1);
        give_back_unused();
        assert_eq!((GIVEN_BACK.load(Ordering::Relaxed), FORGOTTEN.load(Ordering::Relaxed)), (1, 1));
        drop(Run::take(PAGES).expect("it comes again"));
    }
}
