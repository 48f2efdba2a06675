//! A count of copied payload, so that a test can hold that there was none.

use std::cell::Cell;

thread_local! {
    static COPIED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that this thread has copied from payload to payload so far: by [`copy_payload`], [`Piece::copy_from`],
/// [`Rope::to_vec`] and a [`Rope::to_piece`] of several pieces. Nothing but a test or a measurement depends on it.
///
/// [`Piece::copy_from`]: crate::Piece::copy_from
/// [`Rope::to_vec`]: crate::Rope::to_vec
/// [`Rope::to_piece`]: crate::Rope::to_piece
pub fn copied_bytes() -> u64 {
    COPIED.get()
}

#[inline]
pub(crate) fn count(bytes: usize) {
    COPIED.set(COPIED.get() + bytes as u64);
}

/// Copies payload, and counts it.
///
/// # Panics
/// If the lengths differ: the caller's mistake.
#[inline]
pub fn copy_payload(to: &mut [u8], from: &[u8]) {
    count(from.len());
    to.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Piece, Rope};

    #[test]
    fn copies_are_counted_and_shared_bytes_are_not() {
        let before = copied_bytes();
        let page = Piece::from(vec![1; 4096]);
        let mut rope = Rope::from(page.clone());
        rope.append(rope.slice(0..4000));
        assert_eq!((rope.slice(0..4096).to_piece(), copied_bytes() - before), (page.clone(), 0));
        assert_eq!((rope.to_piece().len(), copied_bytes() - before), (8096, 8096));
        assert_eq!((Piece::copy_from(&page).len(), copied_bytes() - before), (4096, 12_192));
        copy_payload(&mut [0; 3], b"abc");
        assert_eq!(copied_bytes() - before, 12_195);
    }
}
