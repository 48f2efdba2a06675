//! The process's allocator, how long it keeps memory that was given back to it, and the size of the pages behind it.

use buffer::{Page, PageSource};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

/// Milliseconds. Buffers of megabytes come and go all the time. When the allocator gives them back to the system at once (its
/// default is a second), the system clears them again for the next request; in a virtual machine it may have to ask the
/// host for them first. 4 MiB written cost a fifth more CPU so (docs/profiling.md).
const KEPT_MS: i64 = 60_000;

/// The option of that name in mimalloc.h, the same in its versions 2 and 3. The crate has no constant for it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// The same for huge pages, of its version 3: whether it asks for them.
const ALLOW_THP: libmimalloc_sys::mi_option_t = 43;

/// Lets the allocator keep freed memory for a minute. `MIMALLOC_PURGE_DELAY` in the environment goes before it.
pub fn keep_what_is_freed() {
    #[allow(unsafe_code, reason = "the allocator's options are set by a function of C")]
    // SAFETY: it writes a number into a table of the allocator, and checks the option against the table's length; the process
    // has one thread yet.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, KEPT_MS)
    };
}

/// Gives back to the system at once what is free.
pub fn give_back() {
    #[allow(unsafe_code, reason = "the allocator's memory is given back by a function of C")]
    // SAFETY: any thread may call it; it touches memory that is free alone.
    unsafe {
        libmimalloc_sys::mi_collect(true)
    };
}

/// Which huge pages a process has that was told to have none ([`use_small_pages`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HugePagesLeft {
    /// The process gets none: the system has none, or the process was started with huge pages disabled.
    None,
    /// Those that it asks for.
    Asked,
    /// None, but while it lets the system give any memory in huge pages ([`rustix::thread::disable_transparent_huge_pages`]).
    Allowed,
}

/// Has the system give a cluster's process memory by small pages. The first touch of a huge one clears 2 MiB, during which a core
/// serves no one: 5 ms in a virtual machine, and a checkpoint of a block store touched several (docs/performance.md, "A long run of single writes"). Ceph's daemons
/// have none by default either (`thp`).
pub fn use_small_pages() -> HugePagesLeft {
    if rustix::thread::transparent_huge_pages_are_disabled().unwrap_or(false) {
        return HugePagesLeft::None;
    }
    // As `always [madvise] never`.
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    if setting.contains("[madvise]") {
        ask_for_no_huge_pages();
        return HugePagesLeft::Asked;
    }
    if let Err(error) = rustix::thread::disable_transparent_huge_pages(true) {
        tracing::info!("huge pages stay in use, and single requests may wait longer for it: {error}");
        return HugePagesLeft::None;
    }
    if setting.contains("[always]") { HugePagesLeft::Allowed } else { HugePagesLeft::None }
}

/// Keeps the allocator from asking for huge pages, also where it has done so.
fn ask_for_no_huge_pages() {
    #[allow(unsafe_code, reason = "the allocator's options are set by a function of C")]
    // SAFETY: it writes a number into a table of the allocator, and checks the option against the table's length. Other threads
    // read the number whole, before or after.
    unsafe {
        libmimalloc_sys::mi_option_set(ALLOW_THP, 0)
    };
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    for (start, end) in maps.lines().filter_map(anonymous) {
        #[allow(unsafe_code, reason = "memory is advised of by a function of C")]
        // SAFETY: the advice changes no byte of what is mapped there, nor who may use it; where nothing is mapped any more it fails.
        let _ = unsafe {
            madvise(std::ptr::with_exposed_provenance_mut(start), end - start, Advice::LinuxNoHugepage)
        };
    }
}

/// Where a mapping begins and ends, of a line of `/proc/PID/maps`, if no file is below it.
fn anonymous(line: &str) -> Option<(usize, usize)> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let is_private = fields.next()?.ends_with('p');
    let inode = fields.nth(2)?;
    let place = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
    (is_private && inode == "0").then(|| Some((place(start)?, place(end)?)))?
}

/// Bytes of address space for single pages of payload that are taken at once. Only pages that are written take memory.
const PAGES_BYTES: usize = 32 << 20;

/// Has single pages of payload lie apart, in small pages of the system also where everything else has huge ones ([`buffer::Page`]).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_without_a_file_are_found() {
        let of = |line| anonymous(line);
        assert_eq!(of("7f00-7fff rw-p 00000000 00:00 0 "), Some((0x7f00, 0x7fff)));
        assert_eq!(of("7f00-7fff ---p 00000000 00:00 0 [anon:x]"), Some((0x7f00, 0x7fff)));
        assert_eq!(of("7f00-7fff r--p 00001000 fe:00 42 /usr/bin/x"), None);
        assert_eq!(of("7f00-7fff rw-s 00000000 00:01 0 /dev/zero"), None);
        assert_eq!(of("what"), None);
    }

    /// The flags that the system has for the mapping with this byte.
    fn flags_at(place: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let mut is_here = false;
        for line in maps.lines() {
            let range = line.split_ascii_whitespace().next().and_then(|range| range.split_once('-'));
            let number = |hexadecimal| usize::from_str_radix(hexadecimal, 16).ok();
            if let Some((Some(start), Some(end))) = range.map(|(start, end)| (number(start), number(end))) {
                is_here = (start..end).contains(&place);
            }
            if let Some(flags) = line.strip_prefix("VmFlags:").filter(|_| is_here) {
                return format!("{flags} ");
            }
        }
        panic!("no mapping has {place:x}")
    }

    #[test]
    fn the_allocator_asks_for_no_huge_pages_any_more() {
        let before = vec![0_u8; 8 << 20];
        ask_for_no_huge_pages();
        // Memory that the allocator has, and what it has to ask the system for. Neither is touched.
        for memory in [&before, &vec![0_u8; 3 << 30]] {
            let flags = flags_at(memory.as_ptr() as usize + (4 << 20));
            assert!(!flags.contains(" hg "), "{flags}");
        }
    }
}
