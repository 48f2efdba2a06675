//! Which keys a layer of changes has, as far as some bits tell: most searches pass a layer without comparing keys, each of
//! which is memory that the processor may not have in its caches.

/// Bits for each key that is expected. With two of them set a filter that is full lets 5% of other keys pass.
const BITS_PER_KEY: usize = 8;

/// What a filter knows of a key.
#[derive(Clone, Copy, Debug)]
pub struct KeyHash(u64);

impl KeyHash {
    pub fn of(key: &[u8]) -> Self {
        let words = key.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        Self(words.fold(key.len() as u64, |hash, word| spread(hash ^ word)))
    }
}

/// A number whose bits all depend on all of another's.
pub fn spread(number: u64) -> u64 {
    let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
    product as u64 ^ (product >> 64) as u64
}

/// Bits of a number of keys; one without bits lets all keys pass.
#[derive(Debug, Default)]
pub struct Filter {
    /// A power of two of them, or none.
    words: Vec<u64>,
}

impl Filter {
    /// For about so many keys.
    pub fn for_keys(keys: usize) -> Self {
        let words = (keys * BITS_PER_KEY / 64).next_power_of_two();
        Self { words: vec![0; words] }
    }

    /// The word of a key and its bits there: both in one, so that a search has one miss of the processor's caches.
    fn place(&self, KeyHash(hash): KeyHash) -> (usize, u64) {
        let bits = 1 << (hash % 64) | 1 << (hash / 64 % 64);
        ((hash >> 32) as usize & (self.words.len() - 1), bits)
    }

    pub fn note(&mut self, key: KeyHash) {
        if !self.words.is_empty() {
            let (word, bits) = self.place(key);
            self.words[word] |= bits;
        }
    }

    /// Whether the layer may have the key; if not, it has not.
    pub fn may_have(&self, key: KeyHash) -> bool {
        self.words.is_empty() || {
            let (word, bits) = self.place(key);
            self.words[word] & bits == bits
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_noted_pass_and_few_others() {
        let hash = |n: u64| KeyHash::of(&n.to_be_bytes());
        for keys in [1, 100, 10_000] {
            let mut filter = Filter::for_keys(keys);
            (0..keys as u64).for_each(|n| filter.note(hash(n)));
            assert!((0..keys as u64).all(|n| filter.may_have(hash(n))));
            let others = (0..10_000).filter(|n| filter.may_have(hash(1 << 32 | n))).count();
            assert!(others < 1_000, "{others} of 10,000 other keys pass a filter of {keys}");
        }
        let mut all = Filter::default();
        all.note(hash(1));
        assert!(all.may_have(hash(2)));
    }
}
