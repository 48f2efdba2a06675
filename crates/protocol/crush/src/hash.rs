//! Robert Jenkins' hashes as Ceph uses them: over strings (object names) and over a few 32-bit numbers (placement).

/// One round of the mix; `a`, `b`, `c` are the state.
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
    for (x, y, z) in [(13, 8, 13), (12, 16, 5), (3, 10, 15)] {
        a = a.wrapping_sub(b).wrapping_sub(c) ^ (c >> x);
        b = b.wrapping_sub(c).wrapping_sub(a) ^ (a << y);
        c = c.wrapping_sub(a).wrapping_sub(b) ^ (b >> z);
    }
    (a, b, c)
}

/// A running hash of numbers: `hash` takes part in every round with two of the other words.
struct Numbers {
    hash: u32,
}

impl Numbers {
    const SEED: u32 = 1_315_423_911;
    /// The two words that pad every variant.
    const X: u32 = 231_232;
    const Y: u32 = 1_232;

    fn new(words: &[u32]) -> Self {
        Self { hash: words.iter().fold(Self::SEED, |h, w| h ^ w) }
    }

    fn stir(&mut self, a: &mut u32, b: &mut u32) {
        (*a, *b, self.hash) = mix(*a, *b, self.hash);
    }
}

/// Ceph's crush_hash32_2.
pub fn hash32_2(mut a: u32, mut b: u32) -> u32 {
    let (mut x, mut y) = (Numbers::X, Numbers::Y);
    let mut h = Numbers::new(&[a, b]);
    h.stir(&mut a, &mut b);
    h.stir(&mut x, &mut a);
    h.stir(&mut b, &mut y);
    h.hash
}

/// Ceph's crush_hash32_3.
pub fn hash32_3(mut a: u32, mut b: u32, mut c: u32) -> u32 {
    let (mut x, mut y) = (Numbers::X, Numbers::Y);
    let mut h = Numbers::new(&[a, b, c]);
    h.stir(&mut a, &mut b);
    h.stir(&mut c, &mut x);
    h.stir(&mut y, &mut a);
    h.stir(&mut b, &mut x);
    h.stir(&mut y, &mut c);
    h.hash
}

/// Ceph's crush_hash32_4.
pub fn hash32_4(mut a: u32, mut b: u32, mut c: u32, mut d: u32) -> u32 {
    let (mut x, mut y) = (Numbers::X, Numbers::Y);
    let mut h = Numbers::new(&[a, b, c, d]);
    h.stir(&mut a, &mut b);
    h.stir(&mut c, &mut d);
    h.stir(&mut a, &mut x);
    h.stir(&mut y, &mut b);
    h.stir(&mut c, &mut x);
    h.stir(&mut y, &mut d);
    h.hash
}

/// Ceph's ceph_str_hash_rjenkins: the hash of an object's name or key.
pub fn str_rjenkins(bytes: &[u8]) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = (GOLDEN, GOLDEN, 0u32);
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        let word = |at: usize| (0..4).fold(0, |w, i| w | u32::from(block[at + i]) << (8 * i));
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(4));
        c = c.wrapping_add(word(8));
        (a, b, c) = mix(a, b, c);
    }
    // What is left fills `a`, `b` and the upper three bytes of `c`, whose lowest byte belongs to the length.
    c = c.wrapping_add(bytes.len() as u32);
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        let byte = u32::from(byte);
        match i {
            0..4 => a = a.wrapping_add(byte << (8 * i)),
            4..8 => b = b.wrapping_add(byte << (8 * (i - 4))),
            _ => c = c.wrapping_add(byte << (8 * (i - 7))),
        }
    }
    mix(a, b, c).2
}

/// Ceph's ceph_str_hash_linux: the hash of pools made before Argonaut.
pub fn str_linux(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0u32, |hash, &byte| {
        let c = u32::from(byte);
        hash.wrapping_add(c << 4).wrapping_add(c >> 4).wrapping_mul(11)
    })
}

/// Ceph's ceph_stable_mod: folds `x` into `0..b` so that few values move when `b` grows. `bmask` is the next power of
/// two of `b`, less one.
pub fn stable_mod(x: u32, b: u32, bmask: u32) -> u32 {
    match x & bmask {
        low if low < b => low,
        _ => x & (bmask >> 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pg_count_that_is_no_power_of_two_folds_the_upper_half_back() {
        assert_eq!((0..16).map(|x| stable_mod(x, 12, 15)).max(), Some(11));
        assert_eq!(stable_mod(13, 12, 15), 5);
        assert_eq!(stable_mod(11, 12, 15), 11);
    }

    #[test]
    fn names_hash_as_stock_osdmaptool_says() {
        // `osdmaptool MAP --test-map-object NAME --pool 1` on a pool of 2^30 placement groups.
        for (name, hash) in [
            ("foo", 0x3fc1_f406u32),
            ("bar", 0x2fe6_384b),
            ("hello world 123456789", 0x19af_fc8e),
            ("abcdefghijkl", 0x0b1b_3ea5),
            ("abcdefghijklmnopqrstuvw", 0x28e5_ff21),
        ] {
            let low = str_rjenkins(name.as_bytes()) & 0x3fff_ffff;
            assert_eq!(low, hash, "{name}");
        }
    }
}
