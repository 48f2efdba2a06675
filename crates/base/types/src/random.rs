//! The one generator of pseudo-random numbers: for models, simulators, and whatever must come out the same from the
//! same seed on every machine. Not for secrets.

/// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number generators", 2014).
///
/// The sequence of a seed never changes: resumed runs and recorded expectations depend on it.
#[derive(Debug, Clone)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// What the state grows by with each number: 2^64 divided by the golden ratio.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The number at `index` (from 0) of the sequence of `seed`, without drawing those before it.
    pub fn at(seed: u64, index: u64) -> u64 {
        Self(seed.wrapping_add(index.wrapping_mul(Self::STEP))).next_u64()
    }

    /// A number below `n`, by the remainder: the small ones are favoured by less than `n` in 2^64.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next_u64() % n
    }

    /// True with a chance of 1 in `n`.
    ///
    /// # Panics
    /// If `n` is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// At least 0 and below 1, in steps of 2^-53.
    pub fn f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_the_published_sequence() {
        // The reference implementation's first numbers from the seed 1234567.
        let mut random = SplitMix64::new(1_234_567);
        let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([random.next_u64(), random.next_u64(), random.next_u64()], want);
    }

    #[test]
    fn a_number_by_its_index_is_the_one_of_the_sequence() {
        for seed in [0, 7, u64::MAX] {
            let mut random = SplitMix64::new(seed);
            for index in 0..100 {
                assert_eq!(SplitMix64::at(seed, index), random.next_u64(), "seed {seed}, index {index}");
            }
        }
    }

    #[test]
    fn bounded_numbers_stay_in_their_bounds_and_are_spread_evenly() {
        let mut random = SplitMix64::new(1);
        let (mut counts, mut hits, mut sum) = ([0_u32; 10], 0_u32, 0.0);
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
            hits += u32::from(random.one_in(4));
            let share = random.f64();
            assert!((0.0..1.0).contains(&share), "{share}");
            sum += share;
        }
        // Six standard deviations around the mean of each.
        assert!(counts.iter().all(|n| (9_430..10_570).contains(n)), "{counts:?}");
        assert!((24_178..25_822).contains(&hits), "{hits}");
        assert!((49_452.0..50_548.0).contains(&sum), "{sum}");
    }
}
