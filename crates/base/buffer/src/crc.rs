//! CRC-32C as Ceph computes it: the caller's seed goes in as it is and the result is not inverted.

use std::cell::Cell;

use crc_fast::{CrcAlgorithm, Digest};

/// So few bytes are copied to take their checksum from another seed than all ones.
const SMALL_BYTES_MAX: usize = 32;

thread_local! {
    static CHECKSUMMED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has taken a crc32c of so far. Nothing but a test or a measurement depends on it.
pub fn checksummed_bytes() -> u64 {
    CHECKSUMMED.get()
}

/// Continues Ceph's crc32c from `seed` over `bytes`. Segments of a frame start from `!0`, a preamble from `0`.
pub fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    CHECKSUMMED.set(CHECKSUMMED.get() + bytes.len() as u64);
    uncounted(seed, bytes)
}

pub(crate) fn uncounted(seed: u32, bytes: &[u8]) -> u32 {
    // The usual (iSCSI) form starts from all ones, inverts what comes out, and has the quickest call.
    if seed == !0 {
        return !crc_fast::crc32_iscsi(bytes);
    }
    // A seed is added to the first four bytes: a preamble's is taken off there. (A frame has two that are not in the usual
    // form.)
    let mut small = [0; SMALL_BYTES_MAX];
    if let (Some(copy), Some(first)) = (small.get_mut(..bytes.len()), bytes.first_chunk::<4>()) {
        copy.copy_from_slice(bytes);
        copy[..4].copy_from_slice(&(u32::from_le_bytes(*first) ^ !seed).to_le_bytes());
        return !crc_fast::crc32_iscsi(copy);
    }
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}

/// What [`PAGE`](crate::ALIGN) zero bytes make of each bit of a checksum: a checksum is linear in its seed.
const PAGE_SHIFT: [u32; 32] = {
    // One zero byte, then doubled twelve times.
    let mut shift = [0; 32];
    let mut bit = 0;
    while bit < 32 {
        let mut crc = 1u32 << bit;
        let mut step = 0;
        while step < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            step += 1;
        }
        shift[bit] = crc;
        bit += 1;
    }
    let mut doubled = 0;
    while doubled < 12 {
        let mut next = [0; 32];
        let mut bit = 0;
        while bit < 32 {
            next[bit] = shifted(&shift, shift[bit]);
            bit += 1;
        }
        shift = next;
        doubled += 1;
    }
    shift
};

const fn shifted(shift: &[u32; 32], crc: u32) -> u32 {
    let mut out = 0;
    let mut bit = 0;
    while bit < 32 {
        out ^= shift[bit] & 0u32.wrapping_sub(crc >> bit & 1);
        bit += 1;
    }
    out
}

/// The same by the bytes of a checksum.
const PAGE_SHIFT_BYTES: [[u32; 256]; 4] = {
    let mut tables = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 0;
        while value < 256 {
            tables[byte][value] = shifted(&PAGE_SHIFT, (value as u32) << (8 * byte));
            value += 1;
        }
        byte += 1;
    }
    tables
};

/// Continues a checksum from `seed` over a page whose checksum from all ones is known.
pub fn crc32c_page(seed: u32, page: u32) -> u32 {
    let [a, b, c, d] = (seed ^ !0).to_le_bytes();
    let [t0, t1, t2, t3] = &PAGE_SHIFT_BYTES;
    page ^ t0[a as usize] ^ t1[b as usize] ^ t2[c as usize] ^ t3[d as usize]
}

/// Continues the crc over `len` zero bytes without touching memory for them.
pub fn crc32c_zeros(seed: u32, mut len: u64) -> u32 {
    const ZEROS: [u8; 4096] = [0; 4096];
    let mut crc = seed;
    while len > 0 {
        let step = len.min(ZEROS.len() as u64) as usize;
        crc = crc32c(crc, &ZEROS[..step]);
        len -= step as u64;
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bit by bit, from the polynomial: the reference the fast one is held against.
    fn slow(seed: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(seed, |crc, &b| {
            (0..8).fold(crc ^ u32::from(b), |c, _| if c & 1 == 1 { (c >> 1) ^ 0x82f6_3b78 } else { c >> 1 })
        })
    }

    #[test]
    fn agrees_with_the_polynomial_for_any_seed_and_length() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for seed in [0, 1, !0, 0x1234_5678] {
            for len in [0, 1, 3, 4, 5, 15, 16, 17, 28, 32, 33, 255, 256, 257, 4096, 5000] {
                assert_eq!(crc32c(seed, &bytes[..len]), slow(seed, &bytes[..len]), "seed {seed} len {len}");
            }
        }
    }

    #[test]
    fn a_page_is_added_by_its_own_checksum() {
        let pages: Vec<u8> = (0..8192u32).map(|i| (i * 11 + i / 256) as u8).collect();
        for seed in [0, 1, !0, 0x1234_5678] {
            let first = crc32c_page(seed, crc32c(!0, &pages[..4096]));
            assert_eq!(first, crc32c(seed, &pages[..4096]));
            assert_eq!(crc32c_page(first, crc32c(!0, &pages[4096..])), crc32c(seed, &pages));
        }
    }

    #[test]
    fn continuing_equals_one_pass() {
        let bytes = [3u8; 777];
        assert_eq!(crc32c(crc32c(9, &bytes[..100]), &bytes[100..]), crc32c(9, &bytes));
        assert_eq!(crc32c_zeros(5, 10_000), crc32c(5, &[0; 10_000]));
    }
}
