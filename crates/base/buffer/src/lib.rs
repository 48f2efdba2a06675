//! Payload memory: reference-counted pieces, ropes of them, and the checksum of the wire.
//!
//! A payload is received once into a [`PieceMut`] whose first byte lies on a 4 KiB boundary, frozen into a
//! [`Piece`], and handed on as a [`Rope`] to the store and back to a socket without being copied. This crate never
//! parses bytes and never does I/O.

mod copied;
mod crc;
mod huge;
mod pages;
mod piece;
mod rope;
mod runs;

pub use copied::{copied_bytes, copy_payload};
pub use crc::{checksummed_bytes, crc32c, crc32c_page, crc32c_zeros};
pub use huge::{HugePages, set_huge_pages};
pub use pages::{Page, PageSource, set_page_source};
pub use piece::{ALIGN, Piece, PieceMut};
pub use rope::Rope;

/// Gives back memory of long buffers that had no use since the last call: a process that is idle keeps none.
pub fn give_back_unused() {
    runs::give_back_unused();
    huge::give_back_unused();
}
