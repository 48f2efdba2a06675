//! The checksums of CHECKSUM: crc32c, xxHash of 32 and 64 bits.

use buffer::crc32c;
use encoding::Encoder;

/// Which one (CEPH_OSD_CHECKSUM_OP_TYPE_*).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChecksumKind {
    XxHash32,
    XxHash64,
    Crc32c,
}

impl ChecksumKind {
    pub fn from_wire(n: u8) -> Option<Self> {
        [Self::XxHash32, Self::XxHash64, Self::Crc32c].get(usize::from(n)).copied()
    }

    /// The start value, at the beginning of the request's data.
    pub fn init_value(self, indata: &[u8]) -> Option<u64> {
        match self {
            Self::XxHash64 => indata.first_chunk().map(|b| u64::from_le_bytes(*b)),
            _ => indata.first_chunk().map(|b| u64::from(u32::from_le_bytes(*b))),
        }
    }
}

/// A count and the checksum of each chunk; `chunk` 0 takes everything as one.
pub(crate) fn checksums(kind: ChecksumKind, init: u64, chunk: u64, data: &[u8]) -> Vec<u8> {
    let chunk = if chunk == 0 { data.len() } else { chunk as usize };
    let mut e = Encoder::new(0);
    e.put(&(data.len().checked_div(chunk).unwrap_or(0) as u32));
    if chunk > 0 {
        for part in data.chunks_exact(chunk) {
            match kind {
                ChecksumKind::XxHash32 => e.put(&xxhash32(part, init as u32)),
                ChecksumKind::XxHash64 => e.put(&xxhash64(part, init)),
                ChecksumKind::Crc32c => e.put(&crc32c(init as u32, part)),
            };
        }
    }
    e.into_bytes()
}

const P32: [u32; 5] = [0x9E37_79B1, 0x85EB_CA77, 0xC2B2_AE3D, 0x27D4_EB2F, 0x1656_67B1];
const P64: [u64; 5] = [
    0x9E37_79B1_85EB_CA87,
    0xC2B2_AE3D_27D4_EB4F,
    0x1656_67B1_9E37_79F9,
    0x85EB_CA77_C2B2_AE63,
    0x27D4_EB2F_1656_67C5,
];

fn word32(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |b| u32::from_le_bytes(*b))
}

fn word64(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

/// XXH32 as its published specification describes it.
fn xxhash32(data: &[u8], seed: u32) -> u32 {
    let round =
        |acc: u32, w: u32| acc.wrapping_add(w.wrapping_mul(P32[1])).rotate_left(13).wrapping_mul(P32[0]);
    let stripes = data.chunks_exact(16);
    let mut rest = stripes.remainder();
    let mut h = if data.len() >= 16 {
        let mut acc = [
            seed.wrapping_add(P32[0]).wrapping_add(P32[1]),
            seed.wrapping_add(P32[1]),
            seed,
            seed.wrapping_sub(P32[0]),
        ];
        for stripe in stripes {
            acc.iter_mut().zip(stripe.chunks_exact(4)).for_each(|(a, w)| *a = round(*a, word32(w)));
        }
        acc.iter().zip([1, 7, 12, 18]).fold(0u32, |h, (a, r)| h.wrapping_add(a.rotate_left(r)))
    } else {
        seed.wrapping_add(P32[4])
    };
    h = h.wrapping_add(data.len() as u32);
    while rest.len() >= 4 {
        h = h.wrapping_add(word32(rest).wrapping_mul(P32[2])).rotate_left(17).wrapping_mul(P32[3]);
        rest = &rest[4..];
    }
    for &b in rest {
        h = h.wrapping_add(u32::from(b).wrapping_mul(P32[4])).rotate_left(11).wrapping_mul(P32[0]);
    }
    h = (h ^ (h >> 15)).wrapping_mul(P32[1]);
    h = (h ^ (h >> 13)).wrapping_mul(P32[2]);
    h ^ (h >> 16)
}

/// XXH64 as its published specification describes it.
fn xxhash64(data: &[u8], seed: u64) -> u64 {
    let round =
        |acc: u64, w: u64| acc.wrapping_add(w.wrapping_mul(P64[1])).rotate_left(31).wrapping_mul(P64[0]);
    let stripes = data.chunks_exact(32);
    let mut rest = stripes.remainder();
    let mut h = if data.len() >= 32 {
        let mut acc = [
            seed.wrapping_add(P64[0]).wrapping_add(P64[1]),
            seed.wrapping_add(P64[1]),
            seed,
            seed.wrapping_sub(P64[0]),
        ];
        for stripe in stripes {
            acc.iter_mut().zip(stripe.chunks_exact(8)).for_each(|(a, w)| *a = round(*a, word64(w)));
        }
        let h = acc.iter().zip([1, 7, 12, 18]).fold(0u64, |h, (a, r)| h.wrapping_add(a.rotate_left(r)));
        acc.iter().fold(h, |h, &a| (h ^ round(0, a)).wrapping_mul(P64[0]).wrapping_add(P64[3]))
    } else {
        seed.wrapping_add(P64[4])
    };
    h = h.wrapping_add(data.len() as u64);
    while rest.len() >= 8 {
        h = (h ^ round(0, word64(rest))).rotate_left(27).wrapping_mul(P64[0]).wrapping_add(P64[3]);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        h ^= u64::from(word32(rest)).wrapping_mul(P64[0]);
        h = h.rotate_left(23).wrapping_mul(P64[1]).wrapping_add(P64[2]);
        rest = &rest[4..];
    }
    for &b in rest {
        h = (h ^ u64::from(b).wrapping_mul(P64[4])).rotate_left(11).wrapping_mul(P64[0]);
    }
    h = (h ^ (h >> 33)).wrapping_mul(P64[1]);
    h = (h ^ (h >> 29)).wrapping_mul(P64[2]);
    h ^ (h >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of the reference implementation's own documentation and widely published vectors.
    #[test]
    fn xxhash_gives_the_published_values() {
        assert_eq!(xxhash32(b"", 0), 0x02CC_5D05);
        assert_eq!(xxhash32(b"abc", 0), 0x32D1_53FF);
        assert_eq!(xxhash32(b"Nobody inspects the spammish repetition", 0), 0xE229_3B2F);
        assert_eq!(xxhash64(b"", 0), 0xEF46_DB37_51D8_E999);
        assert_eq!(xxhash64(b"abc", 0), 0x44BC_2CF5_AD77_0999);
        assert_eq!(xxhash64(b"Nobody inspects the spammish repetition", 0), 0xFBCE_A83C_8A37_8BF1);
    }

    #[test]
    fn chunks_are_counted_and_summed_one_by_one() {
        let got = checksums(ChecksumKind::Crc32c, u64::from(u32::MAX), 2, b"abcd");
        let mut e = Encoder::new(0);
        e.put(&2u32).put(&crc32c(!0, b"ab")).put(&crc32c(!0, b"cd"));
        assert_eq!(got, e.into_bytes());
        assert_eq!(checksums(ChecksumKind::Crc32c, 0, 0, b""), [0; 4]);
    }
}
