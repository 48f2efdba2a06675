//! The allocator of the programs: mimalloc, asked for plain memory wherever that is aligned enough.
//!
//! The crate `mimalloc` states an alignment with every request. Where no free block of the size is at hand, mimalloc
//! (`alloc-aligned.c`) then takes one of the next larger size, in which it could shift the address, although a plain block
//! would do: 4% of the instructions of a 4 KiB operation, and memory (docs/profiling.md). This crate never decides how long
//! memory is kept: that is the program's.

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys::{mi_malloc, mi_realloc, mi_zalloc};

/// See the crate.
pub struct Allocator;

/// What `malloc` aligns to: `max_align_t` of C, mimalloc's MI_MAX_ALIGN_SIZE, on 64 bits.
const PLAIN_ALIGN: usize = 16;

/// Whether a plain block of `size` bytes is aligned as `layout` wants. C promises it of blocks that are at least as large as
/// their alignment.
#[inline]
const fn is_plain(layout: Layout, size: usize) -> bool {
    layout.align() <= PLAIN_ALIGN && layout.align() <= size
}

#[allow(unsafe_code, reason = "memory comes from functions of C, for a trait whose contract is the caller's")]
// SAFETY: each block comes from mimalloc, whose functions take each other's blocks; `is_plain` says when `mi_malloc`
// aligns as the layout wants, and all else goes to `MiMalloc`. The callers keep the trait's contract, which asks no more than
// these functions do.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        unsafe {
            match is_plain(layout, layout.size()) {
                true => mi_malloc(layout.size()).cast(),
                false => mimalloc::MiMalloc.alloc(layout),
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        unsafe {
            match is_plain(layout, layout.size()) {
                true => mi_zalloc(layout.size()).cast(),
                false => mimalloc::MiMalloc.alloc_zeroed(layout),
            }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        unsafe {
            match is_plain(layout, new_size) {
                true => mi_realloc(block.cast(), new_size).cast(),
                false => mimalloc::MiMalloc.realloc(block, layout, new_size),
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { mimalloc::MiMalloc.dealloc(block, layout) }
    }
}

#[cfg(test)]
#[allow(unsafe_code, reason = "the tests ask as the compiler's code does")]
mod tests {
    use super::*;

    /// Blocks of every size up to 2 KiB, and some more, by every alignment: aligned, apart from each other, and they keep
    /// their bytes when they grow and shrink.
    #[test]
    fn blocks_are_aligned_and_keep_their_bytes() {
        let mut held = Vec::new();
        for align in [1, 2, 4, 8, 16, 32, 64, 4096] {
            for size in (1..2048).chain([5000, 40_000, 3 << 20]) {
                let layout = Layout::from_size_align(size, align).expect("a layout");
                // SAFETY: the size is not 0, and each block is freed once, by the layout that it has then.
                unsafe {
                    let block = match size % 2 {
                        0 => Allocator.alloc(layout),
                        _ => Allocator.alloc_zeroed(layout),
                    };
                    assert!(!block.is_null() && block.addr() % align == 0, "{layout:?}");
                    if size % 2 == 1 {
                        assert!(std::slice::from_raw_parts(block, size).iter().all(|byte| *byte == 0));
                    }
                    block.write_bytes(size as u8, size);
                    let new_size = if size % 3 == 0 { size / 2 + 1 } else { size * 2 };
                    let block = Allocator.realloc(block, layout, new_size);
                    assert!(!block.is_null() && block.addr() % align == 0, "{layout:?}");
                    let kept = std::slice::from_raw_parts(block, size.min(new_size));
                    assert!(kept.iter().all(|byte| *byte == size as u8), "{layout:?}");
                    block.write_bytes(!(size as u8), new_size);
                    held.push((
                        block,
                        Layout::from_size_align(new_size, align).expect("a layout"),
                        !(size as u8),
                    ));
                }
            }
        }
        for (block, layout, byte) in held {
            // SAFETY: as above.
            unsafe {
                let bytes = std::slice::from_raw_parts(block, layout.size());
                assert!(bytes.iter().all(|b| *b == byte), "{layout:?} shares memory");
                Allocator.dealloc(block, layout);
            }
        }
    }
}
