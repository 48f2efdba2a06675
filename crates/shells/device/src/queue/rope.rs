//! A rope as memory that direct I/O takes.

use buffer::{Piece, PieceMut, Rope};

/// The pieces of `rope` that are aligned and whole blocks long, at block boundaries of it, as they are; what lies between
/// them as copies. All of them are aligned and whole blocks long then.
pub fn aligned(rope: &Rope, block_bytes: usize, memory_align: usize) -> Vec<Piece> {
    let mut out = Vec::with_capacity(rope.pieces().len());
    let mut between: Vec<&Piece> = Vec::new();
    let mut between_bytes = 0;
    for piece in rope.pieces() {
        let fits = between_bytes % block_bytes == 0
            && piece.len() % block_bytes == 0
            && is_aligned(piece.as_ptr(), memory_align);
        if fits {
            out.extend(copy(&std::mem::take(&mut between), between_bytes));
            between_bytes = 0;
            out.push(piece.clone());
        } else {
            between.push(piece);
            between_bytes += piece.len();
        }
    }
    out.extend(copy(&between, between_bytes));
    out
}

fn copy(pieces: &[&Piece], bytes: usize) -> Option<Piece> {
    if bytes == 0 {
        return None;
    }
    let mut copy = aligned_buffer(bytes);
    let mut at = 0;
    for piece in pieces {
        copy.as_mut_slice()[at..at + piece.len()].copy_from_slice(piece);
        at += piece.len();
    }
    Some(copy.freeze().slice(0..bytes))
}

/// A buffer of at least so many bytes that begins on a page.
pub fn aligned_buffer(bytes: usize) -> PieceMut {
    PieceMut::to_fill(bytes.max(buffer::ALIGN))
}

pub fn is_aligned(memory: *const u8, to: usize) -> bool {
    memory.addr() % to == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    /// A piece that begins so many bytes behind a page boundary.
    fn piece(behind: usize, len: usize, fill: u8) -> Piece {
        let mut slab = aligned_buffer(behind + len);
        slab.as_mut_slice().fill(fill);
        slab.freeze().slice(behind..behind + len)
    }

    #[test]
    fn aligned_pieces_are_not_copied_and_the_others_are() {
        let pieces =
            [piece(0, 4096, 1), piece(512, 1024, 2), piece(0, 100, 3), piece(4, 924, 4), piece(0, 512, 5)];
        let mut rope = Rope::new();
        pieces.iter().for_each(|piece| rope.push(piece.clone()));
        let out = aligned(&rope, BLOCK, 512);
        let same = |a: &Piece, b: &Piece| a.as_ptr() == b.as_ptr() && a.len() == b.len();
        assert_eq!(out.iter().map(|piece| piece.len()).collect::<Vec<_>>(), [4096, 1024, 1024, 512]);
        assert!(same(&out[0], &pieces[0]) && same(&out[1], &pieces[1]) && same(&out[3], &pieces[4]));
        assert!(out[2][..100] == [3; 100] && out[2][100..] == [4; 924]);
    }

    #[test]
    fn whatever_the_pieces_are_the_blocks_are_aligned_and_the_bytes_the_same() {
        let mut random = types::SplitMix64::new(1);
        for _ in 0..300 {
            let (mut rope, mut left) = (Rope::new(), BLOCK * (1 + random.below(40) as usize));
            while left > 0 {
                let most = [3, BLOCK, BLOCK, 8 * BLOCK][random.below(4) as usize];
                let some = if most == 3 { 1 + random.below(600) as usize } else { most };
                let behind = [0, 0, 512, 7][random.below(4) as usize];
                rope.push(piece(behind, some.min(left), random.below(256) as u8));
                left -= some.min(left);
            }
            let out = aligned(&rope, BLOCK, 512);
            assert!(out.iter().all(|p| p.len() % BLOCK == 0 && is_aligned(p.as_ptr(), 512)));
            let mut whole = Rope::new();
            out.into_iter().for_each(|piece| whole.push(piece));
            assert!(whole.to_vec() == rope.to_vec());
        }
    }
}
