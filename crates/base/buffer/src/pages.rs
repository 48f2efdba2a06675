//! Single pages of payload, apart from all other memory if the process says from where they come.
//!
//! An allocator keeps its list of free blocks in the blocks themselves: to take one of 4 KiB is a miss of the processor's caches, or
//! a page fault, before any byte of payload comes. The lists here hold addresses, and a page is touched first by what fills it.
//! A store in memory gains once more: its searches are faster in huge pages of the system, and payload that is written once is
//! cheaper in small ones. Only where they lie apart can a process have both (docs/profiling.md, "Memory").

use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ALIGN;

/// A page of memory: an allocator gives whole ones without padding where a run of bytes would need a page more.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C, align(4096))]
pub struct Page(pub(crate) [u8; ALIGN]);

impl Page {
    pub const ZEROS: Self = Self([0; ALIGN]);
}

/// Where single pages come from, and how the system gets their memory back.
#[derive(Clone, Copy, Debug)]
pub struct PageSource {
    /// The next pages to hand out, all zeros, as many as the source likes; `None` if the system has no memory.
    pub more: fn() -> Option<&'static mut [Page]>,
    /// Gives a page's memory back to the system. The page stays in place, as zeros; or as it was, if that fails, with `false`.
    pub forget: fn(&mut Page) -> bool,
}

/// Pages that go from a thread to the others at once, and back.
const BATCH: usize = 64;

/// Pages without a use whose memory the process keeps: 16 MiB.
const KEPT_MAX: usize = 4096;

static SOURCE: OnceLock<PageSource> = OnceLock::new();
static SHARED: Mutex<Shared> = Mutex::new(Shared { rest: None, zeros: Vec::new(), used: Vec::new() });

thread_local! {
    static MINE: RefCell<Mine> = const { RefCell::new(Mine { zeros: Vec::new(), used: Vec::new() }) };
}

/// Pages that no thread has.
struct Shared {
    /// Of the source's last answer.
    rest: Option<&'static mut [Page]>,
    /// The system has their memory.
    zeros: Vec<&'static mut Page>,
    used: Vec<&'static mut Page>,
}

fn shared() -> MutexGuard<'static, Shared> {
    // No list is left half changed by a panic: a page is in one or in none.
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A thread's pages.
struct Mine {
    zeros: Vec<&'static mut Page>,
    used: Vec<&'static mut Page>,
}

impl Drop for Mine {
    fn drop(&mut self) {
        let mut shared = shared();
        shared.zeros.append(&mut self.zeros);
        shared.used.append(&mut self.used);
    }
}

/// Has single pages come from `source` from now on, in all threads. The first call counts.
pub fn set_page_source(source: PageSource) {
    let _ = SOURCE.set(source);
}

/// A page from the source, which gets it back.
pub struct Pooled(Option<&'static mut Page>);

impl Pooled {
    /// A page of any content; `None` without a source, or if that has no memory.
    #[inline]
    pub fn to_fill() -> Option<Self> {
        Self::taken().map(|(page, _)| page)
    }

    /// The same, of zeros.
    #[inline]
    pub fn zeroed() -> Option<Self> {
        let (mut page, is_zeros) = Self::taken()?;
        if !is_zeros {
            page.as_mut_slice().fill(0);
        }
        Some(page)
    }

    /// A page, and whether it is all zeros.
    #[inline]
    fn taken() -> Option<(Self, bool)> {
        let source = SOURCE.get()?;
        // A thread that ends has no list any more.
        let (page, is_zeros) = MINE.try_with(|mine| mine.borrow_mut().take(source)).ok()??;
        Some((Self(Some(page)), is_zeros))
    }

    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], |page| &page.0)
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.0.as_deref_mut().map_or(&mut [], |page| &mut page.0)
    }
}

impl Drop for Pooled {
    #[inline]
    fn drop(&mut self) {
        let mut page = self.0.take();
        let _ = MINE.try_with(|mine| page.take().map(|page| mine.borrow_mut().put(page)));
        if let Some(page) = page {
            shared().used.push(page);
        }
    }
}

impl Mine {
    /// A page, and whether it is all zeros.
    #[inline]
    fn take(&mut self, source: &PageSource) -> Option<(&'static mut Page, bool)> {
        if self.used.is_empty() && self.zeros.is_empty() {
            self.refill(source);
        }
        match self.used.pop() {
            Some(page) => Some((page, false)),
            None => self.zeros.pop().map(|page| (page, true)),
        }
    }

    #[cold]
    fn refill(&mut self, source: &PageSource) {
        let mut shared = shared();
        let Shared { rest, zeros, used } = &mut *shared;
        for (from, to) in [(used, &mut self.used), (zeros, &mut self.zeros)] {
            to.extend(from.drain(from.len() - from.len().min(BATCH)..));
            if !to.is_empty() {
                return;
            }
        }
        let all = rest.take().filter(|rest| !rest.is_empty()).or_else(source.more);
        // Where the source has no memory, the piece comes from the allocator, which says so if it has none either.
        let Some((now, later)) = all.map(|all| all.split_at_mut(all.len().min(BATCH))) else { return };
        // The last of a list is taken first: so they are used in the order in which they lie.
        self.zeros.extend(now.iter_mut().rev());
        *rest = Some(later);
    }

    #[inline]
    fn put(&mut self, page: &'static mut Page) {
        self.used.push(page);
        if self.used.len() >= 2 * BATCH {
            self.share();
        }
    }

    /// Leaves the pages that were used longest ago to other threads, and to the system what would be too much.
    #[cold]
    fn share(&mut self) {
        let mut pages = self.used.drain(..BATCH);
        {
            let used = &mut shared().used;
            let room = KEPT_MAX.saturating_sub(used.len());
            used.extend(pages.by_ref().take(room));
        }
        if pages.len() == 0 {
            return;
        }
        // The system takes its time for each, which no other thread is to wait for.
        let forget = SOURCE.get().map(|source| source.forget);
        let (mut zeros, mut used) = (Vec::new(), Vec::new());
        for page in pages {
            match forget.is_some_and(|forget| forget(page)) {
                true => zeros.push(page),
                false => used.push(page),
            }
        }
        let mut shared = shared();
        shared.zeros.append(&mut zeros);
        shared.used.append(&mut used);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use zerocopy::FromZeros;

    use super::*;
    use crate::PieceMut;

    static MADE: AtomicUsize = AtomicUsize::new(0);
    static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);

    fn more() -> Option<&'static mut [Page]> {
        MADE.fetch_add(1000, Ordering::Relaxed);
        Some(Box::leak(<[Page]>::new_box_zeroed_with_elems(1000).ok()?))
    }

    fn forget(page: &mut Page) -> bool {
        FORGOTTEN.fetch_add(1, Ordering::Relaxed);
        page.0.fill(0);
        true
    }

    /// So many pages, all zeros and none twice, filled with ones.
    fn taken(count: usize) -> Vec<PieceMut> {
        let mut all: Vec<PieceMut> = (0..count).map(|_| PieceMut::zeroed(ALIGN)).collect();
        let places: BTreeSet<usize> = all.iter_mut().map(|p| p.as_mut_slice().as_ptr() as usize).collect();
        assert_eq!(places.len(), count);
        assert!(places.iter().all(|place| place % ALIGN == 0));
        for page in &mut all {
            assert!(page.as_mut_slice().iter().all(|byte| *byte == 0));
            page.as_mut_slice().fill(1);
        }
        all
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the pages of a thread that ends are the others'")]
    fn pages_come_back_as_zeros_from_every_thread_and_few_are_kept() {
        set_page_source(PageSource { more, forget });
        let place = |page: &mut PieceMut| page.as_mut_slice().as_ptr() as usize;
        let [mut first, second] = [taken(3 * KEPT_MAX), taken(100)];
        let places: BTreeSet<usize> = first.iter_mut().map(place).collect();
        thread::spawn(move || drop(first)).join().expect("pages can be dropped anywhere");
        // Other tests of this process may have some, too.
        let kept = 3 * KEPT_MAX - FORGOTTEN.load(Ordering::Relaxed);
        assert!(kept <= KEPT_MAX + 4 * BATCH, "{kept} of {} pages kept", 3 * KEPT_MAX);
        let made = MADE.load(Ordering::Relaxed);
        let mut again = taken(3 * KEPT_MAX);
        let same = again.iter_mut().map(place).filter(|place| places.contains(place)).count();
        assert!(same > 2 * KEPT_MAX, "{same} pages came back");
        assert!(MADE.load(Ordering::Relaxed) <= made + 1000);
        drop(second);
        drop(again);
        // What is to be filled comes from there, too.
        let mut to_fill: Vec<PieceMut> = (0..BATCH).map(|_| PieceMut::to_fill(ALIGN)).collect();
        assert!(to_fill.iter_mut().map(place).all(|place| places.contains(&place)));
    }
}
