//! Robert Jenkins' hashes as Ceph uses them: over strings (object names) and over a few 32-bit numbers (placement).

/// One word of the state in each of `N` hashes that are computed side by side.
type Words<const N: usize> = [u32; N];

/// One step of a round: `a` loses the other two and takes the shifted `c`.
#[inline(always)]
fn step<const N: usize>(a: &mut Words<N>, b: &Words<N>, c: &Words<N>, shift: impl Fn(u32) -> u32) {
    for ((a, &b), &c) in a.iter_mut().zip(b).zip(c) {
        *a = a.wrapping_sub(b).wrapping_sub(c) ^ shift(c);
    }
}

/// One round of the mix; `a`, `b`, `c` are the state.
#[inline(always)]
fn mix<const N: usize>(a: &mut Words<N>, b: &mut Words<N>, c: &mut Words<N>) {
    step(a, b, c, |c| c >> 13);
    step(b, c, a, |a| a << 8);
    step(c, a, b, |b| b >> 13);
    step(a, b, c, |c| c >> 12);
    step(b, c, a, |a| a << 16);
    step(c, a, b, |b| b >> 5);
    step(a, b, c, |c| c >> 3);
    step(b, c, a, |a| a << 10);
    step(c, a, b, |b| b >> 15);
}

/// Where a hash of numbers begins, before the numbers.
const SEED: u32 = 1_315_423_911;
/// The two words that pad every variant.
const PAD: (u32, u32) = (231_232, 1_232);

/// Ceph's crush_hash32_2.
pub fn hash32_2(a: u32, b: u32) -> u32 {
    let mut h = [SEED ^ a ^ b];
    let (mut a, mut b, mut x, mut y) = ([a], [b], [PAD.0], [PAD.1]);
    mix(&mut a, &mut b, &mut h);
    mix(&mut x, &mut a, &mut h);
    mix(&mut b, &mut y, &mut h);
    h[0]
}

/// Ceph's crush_hash32_3.
pub fn hash32_3(a: u32, b: u32, c: u32) -> u32 {
    hash32_3_words(a, [b], c)[0]
}

#[inline(always)]
fn hash32_3_words<const N: usize>(a: u32, mut b: Words<N>, c: u32) -> Words<N> {
    let mut h = b.map(|b| SEED ^ a ^ b ^ c);
    let (mut a, mut c, mut x, mut y) = ([a; N], [c; N], [PAD.0; N], [PAD.1; N]);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut a, &mut h);
    mix(&mut b, &mut x, &mut h);
    mix(&mut y, &mut c, &mut h);
    h
}

/// Hashes that [`hash32_3_each`] computes together.
pub(crate) const LANES: usize = 8;

/// [`hash32_3`] for several middle words. A hash is one long chain of dependent steps: the compiler makes vectors of four
/// out of the loop (on every x86-64), and two such chains fill a core's units.
pub(crate) fn hash32_3_each(a: u32, b: &[u32; LANES], c: u32) -> [u32; LANES] {
    let mut hashes = [0; LANES];
    let ((low, high), (first, second)) = (b.split_at(LANES / 2), hashes.split_at_mut(LANES / 2));
    for (((&low, &high), first), second) in low.iter().zip(high).zip(first).zip(second) {
        [*first, *second] = hash32_3_words(a, [low, high], c);
    }
    hashes
}

/// Ceph's crush_hash32_4.
pub fn hash32_4(a: u32, b: u32, c: u32, d: u32) -> u32 {
    let mut h = [SEED ^ a ^ b ^ c ^ d];
    let (mut a, mut b, mut c, mut d) = ([a], [b], [c], [d]);
    let (mut x, mut y) = ([PAD.0], [PAD.1]);
    mix(&mut a, &mut b, &mut h);
    mix(&mut c, &mut d, &mut h);
    mix(&mut a, &mut x, &mut h);
    mix(&mut y, &mut b, &mut h);
    mix(&mut c, &mut x, &mut h);
    mix(&mut y, &mut d, &mut h);
    h[0]
}

/// Ceph's ceph_str_hash_rjenkins: the hash of an object's name or key.
pub fn str_rjenkins(bytes: &[u8]) -> u32 {
    const GOLDEN: u32 = 0x9e37_79b9;
    let (mut a, mut b, mut c) = ([GOLDEN], [GOLDEN], [0u32]);
    let mut blocks = bytes.chunks_exact(12);
    for block in &mut blocks {
        let word = |at: usize| (0..4).fold(0, |w, i| w | u32::from(block[at + i]) << (8 * i));
        a[0] = a[0].wrapping_add(word(0));
        b[0] = b[0].wrapping_add(word(4));
        c[0] = c[0].wrapping_add(word(8));
        mix(&mut a, &mut b, &mut c);
    }
    // What is left fills `a`, `b` and the upper three bytes of `c`, whose lowest byte belongs to the length.
    c[0] = c[0].wrapping_add(bytes.len() as u32);
    for (i, &byte) in blocks.remainder().iter().enumerate() {
        let byte = u32::from(byte);
        match i {
            0..4 => a[0] = a[0].wrapping_add(byte << (8 * i)),
            4..8 => b[0] = b[0].wrapping_add(byte << (8 * (i - 4))),
            _ => c[0] = c[0].wrapping_add(byte << (8 * (i - 7))),
        }
    }
    mix(&mut a, &mut b, &mut c);
    c[0]
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
