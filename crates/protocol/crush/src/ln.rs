//! The fixed-point logarithm that straw2 draws with.
//!
//! Placement must agree with every client to the last bit, so the tables' irregularities are kept: two of the three
//! follow a formula (computed here), the third is off by a constant almost everywhere and by odd amounts in some
//! forty places, and so is given as its numbers.

/// 2^48 / (1 + k/128), rounded up.
const RECIPROCAL: [u64; 129] = {
    let mut table = [0; 129];
    let mut k = 0;
    while k < 129 {
        let divisor = 128 + k as u64;
        table[k] = (1u64 << 55).div_ceil(divisor);
        k += 1;
    }
    table
};

/// 2^48 * log2(1 + k/128), rounded down; the last one (k = 128) is 0xffff00000000, not 2^48.
const LOG_COARSE: [u64; 129] = {
    let mut table = [0; 129];
    let mut k = 0;
    while k < 128 {
        table[k] = log2_fraction((128 + k as u128) << 56);
        k += 1;
    }
    table[128] = 0xffff_0000_0000;
    table
};

/// The 48 leading fraction bits of log2(m / 2^63), for m in 2^63..2^64: squaring doubles the logarithm, and each
/// doubling that passes 1 yields a bit.
const fn log2_fraction(mut m: u128) -> u64 {
    let mut bits = 0;
    let mut i = 0;
    while i < 48 {
        m = (m * m) >> 63;
        bits <<= 1;
        if m >> 64 != 0 {
            m >>= 1;
            bits |= 1;
        }
        i += 1;
    }
    bits
}

/// Meant to be 2^48 * log2(1 + k/2^15).
#[rustfmt::skip]
const LOG_FINE: [u64; 256] = [
    0x00000000000, 0x002e2a60a00, 0x0070cb64ec5, 0x009ef50ce67, 0x00cd1e588fd, 0x00fb4747e9c,
    0x01296fdaf5e, 0x01579811b58, 0x0185bfec2a1, 0x01b3e76a552, 0x01e20e8c380, 0x02103551d43,
    0x023e5bbb2b2, 0x026c81c83e4, 0x029aa7790f0, 0x02c8cccd9ed, 0x02f6f1c5ef2, 0x03251662017,
    0x03533aa1d71, 0x03815e8571a, 0x03af820cd26, 0x03dda537fae, 0x040bc806ec8, 0x0439ea79a8c,
    0x04680c90310, 0x04962e4a86c, 0x04c44fa8ab6, 0x04f270aaa06, 0x05209150672, 0x054eb19a013,
    0x057cd1876fd, 0x05aaf118b4a, 0x05d9104dd0f, 0x06072f26c64, 0x06354da3960, 0x06636bc441a,
    0x06918988ca8, 0x06bfa6f1322, 0x06edc3fd79f, 0x071be0ada35, 0x0749fd01afd, 0x077818f9a0c,
    0x07a6349577a, 0x07d44fd535e, 0x08026ab8dce, 0x083085406e3, 0x085e9f6beb2, 0x088cb93b552,
    0x08bad2aeadc, 0x08e8ebc5f65, 0x09170481305, 0x09451ce05d3, 0x097334e37e5, 0x09a14c8a953,
    0x09cf63d5a33, 0x09fd7ac4a9d, 0x0a2b07f3458, 0x0a59a78ea6a, 0x0a87bd699fb, 0x0ab5d2e8970,
    0x0ae3e80b8e3, 0x0b11fcd2869, 0x0b40113d818, 0x0b6e254c80a, 0x0b9c38ff853, 0x0bca4c5690c,
    0x0bf85f51a4a, 0x0c2671f0c26, 0x0c548433eb6, 0x0c82961b211, 0x0cb0a7a664d, 0x0cdeb8d5b82,
    0x0d0cc9a91c8, 0x0d3ada20933, 0x0d68ea3c1dd, 0x0d96f9fbbdb, 0x0dc5095f744, 0x0df31867430,
    0x0e2127132b5, 0x0e4f35632ea, 0x0e7d43574e6, 0x0eab50ef8c1, 0x0ed95e2be90, 0x0f076b0c66c,
    0x0f35779106a, 0x0f6383b9ca2, 0x0f918f86b2a, 0x0fbf9af7c1a, 0x0feda60cf88, 0x101bb0c658c,
    0x1049bb23e3c, 0x1077c5259af, 0x10a5cecb7fc, 0x10d3d81593a, 0x1101e103d7f, 0x112fe9964e4,
    0x115df1ccf7e, 0x118bf9a7d64, 0x11ba0126ead, 0x11e8084a371, 0x12160f11bc6, 0x1244157d7c3,
    0x12721b8d77f, 0x12a02141b10, 0x12ce269a28e, 0x12fc2b96e0f, 0x132a3037daa, 0x1358347d177,
    0x1386386698c, 0x13b43bf45ff, 0x13e23f266e9, 0x141041fcc5e, 0x143e4477678, 0x146c469654b,
    0x149a48598f0, 0x14c849c117c, 0x14f64accf08, 0x15244b7d1a9, 0x15524bd1976, 0x15804bca687,
    0x15ae4b678f2, 0x15dc4aa90ce, 0x160a498ee31, 0x16384819134, 0x166646479ec, 0x1694441a870,
    0x16c24191cd7, 0x16df6ca19bd, 0x171e3b6d7aa, 0x174c37d1e44, 0x177a33dab1c, 0x17a82f87e49,
    0x17d62ad97e2, 0x180425cf7fe, 0x182b07f3458, 0x18601aa8c19, 0x188e148c046, 0x18bc0e13b52,
    0x18ea073fd52, 0x1918001065d, 0x1945f88568b, 0x1973f09edf2, 0x19a1e85ccaa, 0x19cfdfbf2c8,
    0x19fdd6c6063, 0x1a2bcd71593, 0x1a59c3c126e, 0x1a87b9b570b, 0x1ab5af4e380, 0x1ae3a48b7e5,
    0x1b11996d450, 0x1b3f8df38d9, 0x1b6d821e595, 0x1b9b75eda9b, 0x1bc96961803, 0x1bf75c79de3,
    0x1c254f36c51, 0x1c534198365, 0x1c81339e336, 0x1caf2548bd9, 0x1cdd1697d67, 0x1d0b078b7f5,
    0x1d38f823b9a, 0x1d66e86086d, 0x1d94d841e86, 0x1dc2c7c7df9, 0x1df0b6f26df, 0x1e1ea5c194e,
    0x1e4c943555d, 0x1e7a824db23, 0x1ea8700aab5, 0x1ed65d6c42b, 0x1f044a7279d, 0x1f32371d51f,
    0x1f60236ccca, 0x1f8e0f60eb3, 0x1fbbfaf9af3, 0x1fe9e63719e, 0x2017d1192cc, 0x2045bb9fe94,
    0x2073a5cb50d, 0x209c06e6212, 0x20cf791026a, 0x20fd622997c, 0x212b07f3458, 0x2159334a8d8,
    0x21871b52150, 0x21b502fe517, 0x21d6a73a78f, 0x2210d144eee, 0x223eb7df52c, 0x226c9e1e713,
    0x229a84024bb, 0x22c23679b4e, 0x22f64eb83a8, 0x2324338a51b, 0x235218012a9, 0x237ffc1cc69,
    0x23a2c3b0ea4, 0x23d13ee805b, 0x24035e9221f, 0x243788faf25, 0x24656b4e735, 0x247ed646bfe,
    0x24c12ee3d98, 0x24ef1025c1a, 0x251cf10c799, 0x25492644d65, 0x2578b1c85ee, 0x25a6919d8f0,
    0x25d13ee805b, 0x26025036716, 0x26296453882, 0x265e0d62b53, 0x268beb701f3, 0x26b9c92265e,
    0x26d32f798a9, 0x271583758eb, 0x2743601673b, 0x27713c5c3b0, 0x279f1846e5f, 0x27ccf3d6761,
    0x27e6580aecb, 0x2828a9e44b3, 0x28568462932, 0x287bdbf5255, 0x28b2384de4a, 0x28d13ee805b,
    0x29035e9221f, 0x29296453882, 0x29699bdfb61, 0x29902a37aab, 0x29c54b864c9, 0x29deabd1083,
    0x2a20f9c0bb5, 0x2a4c7605d61, 0x2a7bdbf5255, 0x2a96056dafc, 0x2ac3daf14ef, 0x2af1b019eca,
    0x2b296453882, 0x2b5d022d80f, 0x2b8fa471cb3, 0x2ba9012e713, 0x2bd6d4901cc, 0x2c04a796cf6,
    0x2c327a428a6, 0x2c61a5e8f4c, 0x2c8e1e891f6, 0x2cbbf023fc2, 0x2ce9c163e6e, 0x2d179248e13,
    0x2d4562d2ec6, 0x2d73330209d, 0x2da102d63b0, 0x2dced24f814,
];

/// 2^44 * log2(u + 1), between 0 and 2^48.
pub(crate) fn ln(u: u16) -> u64 {
    let x = u32::from(u) + 1;
    // Scaled into 0x8000..=0x10000, so that the top eight bits choose the coarse step.
    let shift = if x < 0x8000 { x.leading_zeros() - 16 } else { 0 };
    let x = x << shift;
    let coarse = (x >> 8) as usize - 128;
    let fine = ((u64::from(x) * RECIPROCAL[coarse]) >> 48) & 0xff;
    (u64::from(15 - shift) << 44) + ((LOG_COARSE[coarse] + LOG_FINE[fine as usize]) >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums over the whole published tables: a wrong entry anywhere shows.
    #[test]
    fn the_computed_tables_are_the_published_ones() {
        let sum = |table: &[u64]| {
            table.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, v| (h ^ v).wrapping_mul(0x100_0000_01b3))
        };
        assert_eq!(sum(&RECIPROCAL), 0xcda913331d016ebd);
        assert_eq!(sum(&LOG_COARSE), 0x3a73968bc6d9a498);
        assert_eq!(sum(&LOG_FINE), 0x1b696cf5935e1161);
    }

    #[test]
    fn it_is_a_logarithm_to_three_digits() {
        for u in 0..=u16::MAX {
            let exact = (f64::from(u) + 1.0).log2() * (1u64 << 44) as f64;
            let error = (ln(u) as f64 - exact).abs() / (1u64 << 44) as f64;
            assert!(error < 2e-4, "u {u}: {error}");
        }
    }
}
