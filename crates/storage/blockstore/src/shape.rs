//! Which spaces of keys a collection's objects lie in.
//!
//! An object's key begins with the number of a *space*, not with its collection, and goes on in Ceph's order: pool,
//! reversed hash, name. Objects whose hashes end in the same bits are a range of reversed hashes, so a split or a merge
//! exchanges ranges of spaces between two collections and touches no object.

use std::ops::Range;

use buffer::Piece;
use encoding::{DecodeError, Decoder, Encoder};

/// One more than the highest reversed hash.
pub const HASH_END: u64 = 1 << 32;

/// The reversed hashes of objects whose hash ends in the `bits` low bits of `rem`.
pub fn hash_range(bits: u32, rem: u32) -> Range<u64> {
    let free = 32u32.saturating_sub(bits);
    let low = u64::from(rem.reverse_bits()) >> free << free;
    low..low + (1u64 << free)
}

/// Reversed hashes and the space that has the objects with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part {
    pub hashes: Range<u64>,
    pub space: u64,
}

/// A collection's spaces by reversed hash. Invariant: parts ascend, cover every hash, and neighbours differ in their
/// space. No two collections have the same hash of the same space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape(Vec<Part>);

impl Shape {
    pub fn whole(space: u64) -> Self {
        Self(vec![Part { hashes: 0..HASH_END, space }])
    }

    /// The space, where there is only one.
    pub fn only(&self) -> Option<u64> {
        match &self.0[..] {
            [part] => Some(part.space),
            _ => None,
        }
    }

    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The space of an object with this hash (not reversed).
    pub fn space_of(&self, hash: u32) -> u64 {
        let reversed = u64::from(hash.reverse_bits());
        let after = self.0.partition_point(|part| part.hashes.start <= reversed);
        self.0.get(after.saturating_sub(1)).map_or(0, |part| part.space)
    }

    /// What lies within `hashes`.
    pub fn within(&self, hashes: &Range<u64>) -> Vec<Part> {
        let cut = |part: &Part| Part {
            hashes: part.hashes.start.max(hashes.start)..part.hashes.end.min(hashes.end),
            space: part.space,
        };
        self.0.iter().map(cut).filter(|part| !part.hashes.is_empty()).collect()
    }

    /// Lets the objects with these hashes lie in another space.
    pub fn set(&mut self, hashes: &Range<u64>, space: u64) {
        let mut parts = self.within(&(0..hashes.start));
        parts.push(Part { hashes: hashes.clone(), space });
        parts.extend(self.within(&(hashes.end..HASH_END)));
        parts.dedup_by(|next, before| {
            let joined = next.space == before.space;
            if joined {
                before.hashes.end = next.hashes.end;
            }
            joined
        });
        self.0 = parts;
    }

    /// For each part its first reversed hash (u32) and its space (u64).
    pub fn encode(&self) -> Piece {
        let mut e = Encoder::with_capacity(0, 12 * self.0.len());
        for part in &self.0 {
            e.put(&(part.hashes.start as u32)).put(&part.space);
        }
        e.into_bytes().into()
    }

    /// # Errors
    /// The first part does not begin at 0, or one is not after the one before it.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut d = Decoder::new(bytes);
        let mut parts: Vec<Part> = Vec::with_capacity(bytes.len() / 12);
        while d.remaining() > 0 {
            let (start, space): (u32, u64) = (d.get()?, d.get()?);
            let start = u64::from(start);
            let fits = parts.last().map_or(start == 0, |before| before.hashes.start < start);
            if !fits {
                return Err(DecodeError::BadValue { what: "part of a collection's hashes", value: start });
            }
            if let Some(before) = parts.last_mut() {
                before.hashes.end = start;
            }
            parts.push(Part { hashes: start..HASH_END, space });
        }
        match parts.is_empty() {
            true => {
                Err(DecodeError::Truncated { what: "parts of a collection's hashes", needed: 12, left: 0 })
            }
            false => Ok(Self(parts)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SplitMix64;

    #[test]
    fn hashes_that_end_in_the_same_bits_are_a_range_when_reversed() {
        let mut random = SplitMix64::new(3);
        for _ in 0..2000 {
            let (bits, rem, hash) =
                (random.below(33) as u32, random.next_u64() as u32, random.next_u64() as u32);
            let near = if bits == 0 { hash } else { rem ^ (1 << random.below(32)) };
            for hash in [hash, near, rem] {
                let inside = hash_range(bits, rem).contains(&u64::from(hash.reverse_bits()));
                assert_eq!(inside, store::split_takes(bits, rem, hash), "{bits} bits of {rem:x}, {hash:x}");
            }
        }
    }

    #[test]
    fn a_shape_is_a_function_of_the_hash_and_joins_what_is_the_same() {
        let mut shape = Shape::whole(7);
        shape.set(&hash_range(1, 1), 8);
        shape.set(&hash_range(2, 2), 9);
        assert_eq!([0u32, 1, 2, 3, 4].map(|hash| shape.space_of(hash)), [7, 8, 9, 8, 7]);
        assert_eq!((shape.parts().len(), shape.only()), (3, None));
        assert_eq!(Shape::decode(&shape.encode()), Ok(shape.clone()));
        assert_eq!(shape.within(&hash_range(2, 3)), [Part { hashes: hash_range(2, 3), space: 8 }]);
        shape.set(&hash_range(2, 2), 7);
        shape.set(&hash_range(1, 1), 7);
        assert_eq!((shape.only(), shape.clone()), (Some(7), Shape::whole(7)));
        for bad in [&[][..], &[1; 12], &[0; 24], &[0; 11]] {
            assert!(Shape::decode(bad).is_err(), "{bad:?}");
        }
    }
}
