//! Huge pages of the system for long payload, in a process that otherwise has none ([`crate::memory::use_small_pages`]).
//!
//! A thread of its own takes and touches the memory, when the first long payload comes: the system clears each of the pages, and may
//! have to move others to make one. Until then, and where the system has no huge pages, payload lies in pages from elsewhere.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use buffer::{HugePages, Page};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Bytes of a huge page, where pages of the system have 4 KiB.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of all of them, at most: 16 writes of 4 MiB at a time.
const BYTES_MAX: usize = 64 << 20;

/// And the part of the OSDs' memory targets.
const TARGET_PART: u64 = 16;

static BYTES: AtomicUsize = AtomicUsize::new(0);
static STATE: Mutex<State> = Mutex::new(State::None);

enum State {
    None,
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

/// Has long payload lie in huge pages, of OSDs whose memory targets are so many bytes together.
pub fn use_for_payload(target_bytes: u64) {
    let bytes = usize::try_from(target_bytes / TARGET_PART).unwrap_or(usize::MAX).min(BYTES_MAX);
    if bytes < HUGE_PAGE || rustix::param::page_size() != size_of::<Page>() {
        return;
    }
    BYTES.store(bytes / HUGE_PAGE * HUGE_PAGE, Ordering::Relaxed);
    buffer::set_huge_pages(HugePages { take, give_back });
}

fn take() -> Option<&'static mut [Page]> {
    let mut state = state();
    match std::mem::replace(&mut *state, State::Used) {
        State::Ready(memory) => return Some(memory),
        State::None => {
            let thread = std::thread::Builder::new().name("huge-pages".into()).spawn(prepare);
            *state = if thread.is_ok() { State::Prepared } else { State::Refused };
        }
        other => *state = other,
    }
    None
}

fn prepare() {
    let memory = map(BYTES.load(Ordering::Relaxed));
    *state() = memory.map_or(State::Refused, State::Ready);
}

/// Maps so many bytes of memory, all touched, in huge pages if the system has some.
fn map(bytes: usize) -> Option<&'static mut [Page]> {
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
    // The process has no huge pages but for this moment. What another thread touches in it the first time may be one, too.
    let small = rustix::thread::disable_transparent_huge_pages;
    let were_small = rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false);
    if were_small {
        let _ = small(false);
    }
    for page in memory.chunks_mut(HUGE_PAGE / size_of::<Page>()) {
        touch(page);
    }
    if were_small {
        let _ = small(true);
    }
    Some(memory)
}

/// Has the system give memory to all of these pages.
fn touch(pages: &mut [Page]) {
    #[allow(unsafe_code, reason = "memory is advised of by a function of C")]
    // SAFETY: the pages are the caller's, and keep their contents.
    let populated =
        unsafe { madvise(pages.as_mut_ptr().cast(), size_of_val(pages), Advice::LinuxPopulateWrite).is_ok() };
    if !populated {
        // Before Linux 5.14.
        pages.fill(Page::ZEROS);
    }
}

fn give_back(memory: &'static mut [Page]) {
    let bytes = size_of_val(memory);
    #[allow(unsafe_code, reason = "memory is unmapped by a function of C")]
    // SAFETY: it is the whole mapping of `map`, and the caller has given up the only reference to it.
    let unmapped = unsafe { munmap(memory.as_mut_ptr().cast(), bytes) };
    *state() = if unmapped.is_ok() { State::None } else { State::Refused };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_zeros_and_goes_back_whole() {
        let memory = map(2 * HUGE_PAGE).expect("the system has memory");
        assert_eq!((size_of_val(memory), memory.as_ptr() as usize % HUGE_PAGE), (2 * HUGE_PAGE, 0));
        let maps = || std::fs::read_to_string("/proc/self/maps").expect("Linux has it");
        let place = format!("{:x}-", memory.as_ptr() as usize);
        assert!(maps().contains(&place), "{place} is mapped");
        touch(memory);
        *state() = State::Used;
        give_back(memory);
        assert!(matches!(*state(), State::None));
        assert!(!maps().contains(&place), "{place} is not mapped any more");
    }
}
