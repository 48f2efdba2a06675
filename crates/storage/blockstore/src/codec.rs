//! Compressing and decompressing: bytes in, bytes out, as many as the caller allows. Never looks at an object or a block.

use std::cell::RefCell;

use buffer::{Piece, PieceMut};
use store::CompressionAlgorithm;

use crate::layout::BLOCK;

/// The memory that the algorithms work in, made when it is first needed and kept: some hundred KiB for zstd.
#[derive(Default)]
pub struct Codec(RefCell<Scratch>);

#[derive(Default)]
struct Scratch {
    zstd_in: Option<zstd_safe::CCtx<'static>>,
    zstd_out: Option<zstd_safe::DCtx<'static>>,
    /// What goes in, in one piece.
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Codec {
    /// What so many pieces come to, in whole blocks that zeros fill, with its bytes. `None`: more than `bytes_max`.
    pub fn pack(
        &self,
        algorithm: CompressionAlgorithm,
        zstd_level: i32,
        raw: &[&Piece],
        bytes_max: usize,
    ) -> Option<(Piece, u32)> {
        let Scratch { zstd_in, input, output, .. } = &mut *self.0.borrow_mut();
        gather(input, raw.iter().copied());
        let bytes = match algorithm {
            CompressionAlgorithm::Lz4 => {
                output.resize(lz4_flex::block::get_maximum_output_size(input.len()), 0);
                lz4_flex::block::compress_into(input, output).ok()?
            }
            CompressionAlgorithm::Zstd => {
                // More would be of no use: it ends as soon as it does not fit.
                output.resize(bytes_max, 0);
                let context = zstd_in.get_or_insert_with(zstd_safe::CCtx::create);
                context.compress(&mut output[..], input, zstd_level).ok()?
            }
        };
        let packed = output.get(..bytes).filter(|packed| !packed.is_empty() && packed.len() <= bytes_max)?;
        let mut piece = PieceMut::zeroed(bytes.next_multiple_of(BLOCK as usize));
        piece.as_mut_slice()[..bytes].copy_from_slice(packed);
        Some((piece.freeze(), bytes as u32))
    }

    /// So many blocks of the first `bytes` bytes of `stored`. `None`: those are not exactly that many blocks compressed.
    pub fn unpack<'a>(
        &self,
        algorithm: CompressionAlgorithm,
        stored: impl Iterator<Item = &'a Piece>,
        bytes: u32,
        blocks: u8,
    ) -> Option<Piece> {
        let Scratch { zstd_out, input, .. } = &mut *self.0.borrow_mut();
        gather(input, stored);
        let packed = input.get(..bytes as usize)?;
        let mut raw = PieceMut::zeroed(usize::from(blocks) * BLOCK as usize);
        let out = raw.as_mut_slice();
        let len = match algorithm {
            CompressionAlgorithm::Lz4 => lz4_flex::block::decompress_into(packed, out).ok()?,
            CompressionAlgorithm::Zstd => {
                zstd_out.get_or_insert_with(zstd_safe::DCtx::create).decompress(out, packed).ok()?
            }
        };
        (len == raw.as_mut_slice().len()).then(|| raw.freeze())
    }
}

fn gather<'a>(into: &mut Vec<u8>, pieces: impl Iterator<Item = &'a Piece>) {
    into.clear();
    pieces.for_each(|piece| into.extend_from_slice(piece));
}

#[cfg(test)]
mod tests {
    use types::SplitMix64;

    use super::*;

    const BOTH: [CompressionAlgorithm; 2] = [CompressionAlgorithm::Lz4, CompressionAlgorithm::Zstd];

    fn pieces(blocks: u8, byte: impl FnMut() -> u8) -> Vec<Piece> {
        let mut all: Vec<u8> = vec![0; usize::from(blocks) * BLOCK as usize];
        all.fill_with(byte);
        all.chunks(BLOCK as usize).map(Piece::copy_from).collect()
    }

    fn pack(
        codec: &Codec,
        algorithm: CompressionAlgorithm,
        raw: &[Piece],
        max: usize,
    ) -> Option<(Piece, u32)> {
        codec.pack(algorithm, 1, &raw.iter().collect::<Vec<_>>(), max)
    }

    #[test]
    fn what_is_packed_comes_back_and_what_is_too_large_is_not_packed() {
        let codec = Codec::default();
        for algorithm in BOTH {
            let mut random = SplitMix64::new(3);
            for blocks in [2, 16, 64] {
                let mut n = 0u64;
                let raw = pieces(blocks, || {
                    n += 1;
                    if n / 16 % 3 == 0 { random.below(256) as u8 } else { 7 }
                });
                let (packed, bytes) =
                    pack(&codec, algorithm, &raw, raw.len() * 4096).expect("it gets smaller");
                assert!(packed.len() < raw.len() * 4096, "{algorithm:?}: {} bytes", packed.len());
                let found = codec.unpack(algorithm, std::iter::once(&packed), bytes, blocks);
                let whole: Vec<u8> = raw.iter().flat_map(|piece| piece.to_vec()).collect();
                assert!(found.is_some_and(|found| found.to_vec() == whole), "{algorithm:?}");
                assert_eq!(pack(&codec, algorithm, &raw, bytes as usize - 1), None, "{algorithm:?}");
            }
            let noise = pieces(16, || random.below(256) as u8);
            assert_eq!(pack(&codec, algorithm, &noise, 15 * 4096), None, "{algorithm:?}");
        }
    }

    #[test]
    fn what_is_not_packed_or_of_another_length_is_refused() {
        let codec = Codec::default();
        for algorithm in BOTH {
            let raw = pieces(4, || 9);
            let (packed, bytes) = pack(&codec, algorithm, &raw, 4096).expect("it gets smaller");
            let one = || std::iter::once(&packed);
            for blocks in [3, 5, 64] {
                assert_eq!(codec.unpack(algorithm, one(), bytes, blocks), None, "{algorithm:?}, {blocks}");
            }
            assert_eq!(codec.unpack(algorithm, one(), 5000, 4), None, "more bytes than there are");
            assert_eq!(codec.unpack(algorithm, one(), 1, 4), None, "a part");
            let mut random = SplitMix64::new(5);
            for _ in 0..2000 {
                let mut bad = packed.to_vec();
                for _ in 0..=random.below(4) {
                    bad[random.below(u64::from(bytes)) as usize] = random.below(256) as u8;
                }
                let bad = Piece::from(bad);
                if let Some(found) = codec.unpack(algorithm, std::iter::once(&bad), bytes, 4) {
                    assert_eq!(found.len(), 4 * 4096);
                }
            }
        }
    }
}
