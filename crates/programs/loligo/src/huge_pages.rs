//! Huge pages of the system for long payload, in a process that otherwise has none ([`crate::memory::use_small_pages`]).
//!
//! A thread of its own takes and touches the memory, when long payload has come for some times: the system clears each of the pages, and
//! may have to move others to make one. Until then, and where the system has no huge pages, payload lies in pages from elsewhere.

use std::sync::OnceLock;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use buffer::{HugePages, Page};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::memory::HugePagesLeft;

/// Bytes of a huge page, where pages of the system have 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of all of them, at most: 16 writes of 4 MiB at a time.
const BYTES_MAX: usize = 64 << 20;

/// And the part of the OSDs' memory targets.
const TARGET_PART: u64 = 16;

/// So many buffers must have wanted them, since they were given back last: for less, small pages do.
const WANTED: u32 = 32;

/// For each moment in which all of the process's memory may be huge pages, so many in which it is not.
const PAUSES: u32 = 4;

static ASKED: OnceLock<Asked> = OnceLock::new();
static STATE: Mutex<State> = Mutex::new(State::None { wanted: 0 });

struct Asked {
    bytes: usize,
    /// Only while all of the process's memory may be huge pages are some given.
    by_allowing_all: bool,
}

enum State {
    /// So many buffers wanted them.
    None {
        wanted: u32,
    },
    /// A thread prepares them.
    Prepared,
    Ready(&'static mut [Page]),
    /// Buffers have them.
    Used,
    /// There are none: no one asks again.
    Refused,
}

fn state() -> MutexGuard<'static, State> {
    // It is replaced whole: a panic leaves it as it was.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has long payload lie in huge pages, if there are some, of OSDs whose memory targets are so many bytes together.
pub fn use_for_payload(left: HugePagesLeft, target_bytes: u64) {
    let by_allowing_all = match left {
        HugePagesLeft::None => return,
        HugePagesLeft::Asked => false,
        HugePagesLeft::Allowed => true,
    };
    let bytes = usize::try_from(target_bytes / TARGET_PART).unwrap_or(usize::MAX).min(BYTES_MAX);
    if bytes < HUGE_PAGE || rustix::param::page_size() != size_of::<Page>() {
        return;
    }
    let _ = ASKED.set(Asked { bytes: bytes / HUGE_PAGE * HUGE_PAGE, by_allowing_all });
    buffer::set_huge_pages(HugePages { take, give_back, forget });
}

fn take() -> Option<&'static mut [Page]> {
    let mut state = state();
    match std::mem::replace(&mut *state, State::Used) {
        State::Ready(memory) => return Some(memory),
        State::None { wanted } if wanted < WANTED => *state = State::None { wanted: wanted + 1 },
        State::None { .. } => {
            let thread = std::thread::Builder::new().name("huge-pages".into()).spawn(prepare);
            *state = if thread.is_ok() { State::Prepared } else { State::Refused };
        }
        other => *state = other,
    }
    None
}

fn prepare() {
    let memory = ASKED.get().and_then(|asked| map(asked.bytes, asked.by_allowing_all));
    *state() = memory.map_or(State::Refused, State::Ready);
}

/// What no buffer has taken goes back, and what buffers wanted is forgotten.
fn forget() {
    let mut state = state();
    match std::mem::replace(&mut *state, State::None { wanted: 0 }) {
        State::Ready(memory) => {
            *state = State::Used;
            drop(state);
            give_back(memory);
        }
        State::None { .. } => {}
        other => *state = other,
    }
}

/// Maps so many bytes of memory, all touched, in huge pages if the system has some.
fn map(bytes: usize, by_allowing_all: bool) -> Option<&'static mut [Page]> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    #[allow(unsafe_code, reason = "memory is mapped by functions of C")]
    // SAFETY: the system chooses the address, so that no other memory is replaced. The mapping has room for `bytes` from its first
    // multiple of `HUGE_PAGE` on; what lies before and behind them is unmapped, and no one has seen it. It is full of zeros, and
    // any bytes make a valid `Page`. Only the caller gets a reference to it, and `give_back` unmaps it.
    let memory = unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), bytes + HUGE_PAGE, access, flags).ok()?;
        let before = start.align_offset(HUGE_PAGE);
        let first = start.byte_add(before);
        if before > 0 {
            let _ = munmap(start, before);
        }
        if before < HUGE_PAGE {
            let _ = munmap(first.byte_add(bytes), HUGE_PAGE - before);
        }
        // Where the system has none, it says so here, or gives small ones.
        let _ = madvise(first, bytes, Advice::LinuxHugepage);
        std::slice::from_raw_parts_mut(first.cast::<Page>(), bytes / size_of::<Page>())
    };
    for page in memory.chunks_mut(HUGE_PAGE / size_of::<Page>()) {
        if by_allowing_all {
            touch_allowing_all(page);
        } else {
            touch(page);
        }
    }
    Some(memory)
}

/// Touches all of these pages. That takes no lock of the process's mappings: other threads map and unmap meanwhile.
fn touch(pages: &mut [Page]) {
    pages.fill(Page::ZEROS);
}

/// The same while the process may have huge pages. What another thread touches for the first time in this moment may be one, too: so
/// the moments are short, and apart.
fn touch_allowing_all(pages: &mut [Page]) {
    let disable = rustix::thread::disable_transparent_huge_pages;
    let began = Instant::now();
    let _ = disable(false);
    if let Some(first) = pages.first_mut() {
        *first = Page::ZEROS;
    }
    let _ = disable(true);
    let took = began.elapsed().min(Duration::from_millis(20));
    touch(pages);
    std::thread::sleep(took * PAUSES);
}

fn give_back(memory: &'static mut [Page]) {
    let bytes = size_of_val(memory);
    #[allow(unsafe_code, reason = "memory is unmapped by a function of C")]
    // SAFETY: it is the whole mapping of `map`, and the caller has given up the only reference to it.
    let unmapped = unsafe { munmap(memory.as_mut_ptr().cast(), bytes) };
    *state() = if unmapped.is_ok() { State::None { wanted: 0 } } else { State::Refused };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_goes_back_whole() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = map(2 * HUGE_PAGE, false).expect("the system has memory");
        assert_eq!((size_of_val(memory), memory.as_ptr() as usize % HUGE_PAGE), (2 * HUGE_PAGE, 0));
        let maps = || std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let place = format!("{:x}-", memory.as_ptr() as usize);
        assert!(maps().contains(&place), "{place} is mapped");
        touch(memory);
        *state() = State::Used;
        give_back(memory);
        assert!(matches!(*state(), State::None { wanted: 0 }));
        assert!(!maps().contains(&place), "{place} is not mapped any more");
    }
    /// One at a time: the memory is the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn it_is_prepared_when_some_buffers_wanted_it_and_goes_back_if_no_one_takes_it() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ASKED.set(Asked { bytes: 2 * HUGE_PAGE, by_allowing_all: true });
        for _ in 0..WANTED {
            assert!(take().is_none() && matches!(*state(), State::None { .. }));
        }
        forget();
        for _ in 0..=WANTED {
            assert!(take().is_none());
        }
        let until = Instant::now() + Duration::from_secs(60);
        while !matches!(*state(), State::Ready(_)) {
            assert!(Instant::now() < until, "the thread prepares it");
            std::thread::sleep(Duration::from_millis(1));
        }
        forget();
        assert!(matches!(*state(), State::None { wanted: 0 }));
    }
}
