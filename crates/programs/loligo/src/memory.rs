//! The process's allocator, how long it keeps memory that was given back to it, and the size of the pages behind it.

use buffer::{Page, PageSource};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// Milliseconds. Buffers of megabytes come and go all the time. When the allocator gives them back to the system at once (its
/// default is a second), the system clears them again for the next request; in a virtual machine it may have to ask the
/// host for them first. 4 MiB written cost a fifth more CPU so (docs/performance.md).
const KEPT_MS: i64 = 60_000;

/// The option of that name in mimalloc.h, the same in its versions 2 and 3. The crate has no constant for it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Lets the allocator keep freed memory for a minute. `MIMALLOC_PURGE_DELAY` in the environment goes before it.
pub fn keep_what_is_freed() {
    #[allow(unsafe_code, reason = "the allocator's options are set by a function of C")]
    // SAFETY: it writes a number into a table of the allocator, and checks the option against the table's length; the process
    // has one thread yet.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT_MS)
    };
}

/// Has the system give a cluster's process memory by small pages. The first touch of a huge one clears 2 MiB, during which a core
/// serves no one: 5 ms in a virtual machine, and a checkpoint of a block store touched several (docs/performance.md). Ceph's daemons
/// have none by default either (`thp`).
pub fn use_small_pages() {
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::info!("huge pages stay in use, and single requests may wait longer for it: {error}");
    }
}

/// Bytes of address space for single pages of payload that are taken at once. Only pages that are written take memory.
const PAGES_BYTES: usize = 32 << 20;

/// Has single pages of payload lie apart, in small pages of the system, while everything else has huge ones: for a store in
/// memory, where a write's payload is most of what is touched the first time.
pub fn set_payload_apart() {
    buffer::set_page_source(PageSource { more: more_pages, forget: forget_page });
}

fn more_pages() -> Option<&'static mut [Page]> {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::NORESERVE);
    #[allow(unsafe_code, reason = "memory is mapped by a function of C")]
    // SAFETY: the system chooses the address, so that no other memory is replaced. The mapping is as long as asked for, full of
    // zeros, and begins with a page of the system's, which has 4 KiB or more, so that a `Page` is aligned; any bytes make a
    // valid `Page`. It is never unmapped, and only the caller gets a reference to it.
    unsafe {
        let start = mmap_anonymous(std::ptr::null_mut(), PAGES_BYTES, access, flags).ok()?;
        // Where the system has no huge pages there is nothing to refuse.
        let _ = madvise(start, PAGES_BYTES, Advice::LinuxNoHugepage);
        Some(std::slice::from_raw_parts_mut(start.cast(), PAGES_BYTES / size_of::<Page>()))
    }
}

fn forget_page(page: &mut Page) -> bool {
    if rustix::param::page_size() != size_of::<Page>() {
        return false;
    }
    #[allow(unsafe_code, reason = "memory is given back by a function of C")]
    // SAFETY: the page is the caller's alone, and lies in a private mapping of `more_pages`. It is a page of the
    // system's, so that it becomes zeros, which it may be, and nothing else does.
    unsafe {
        madvise(std::ptr::from_mut(page).cast(), size_of::<Page>(), Advice::LinuxDontNeed).is_ok()
    }
}
