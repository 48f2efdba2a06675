//! The process's allocator, how long it keeps memory that was given back to it, and the size of the pages behind it.

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

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
