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
    fn continuing_equals_one_pass() {
        let bytes = [3u8; 777];
        assert_eq!(crc32c(crc32c(9, &bytes[..100]), &bytes[100..]), crc32c(9, &bytes));
        assert_eq!(crc32c_zeros(5, 10_000), crc32c(5, &[0; 10_000]));
    }
}
