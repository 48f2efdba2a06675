//! The order of trials from a seed. A run is resumed by making its plan again, perhaps with a later version of
//! this program, so the same seed must give the same order for ever: the generator is ours, not a library's.

use types::SplitMix64;

pub(crate) struct Shuffle {
    random: SplitMix64,
}

impl Shuffle {
    /// The generator of a seed and a stream: streams of one seed have nothing to do with each other.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self { random: SplitMix64::new(seed ^ SplitMix64::at(stream, 0)) }
    }

    /// A number below `bound` (above 0), each as likely as the others.
    fn below(&mut self, bound: u64) -> u64 {
        // Numbers past the last whole multiple of the bound would favour the small ones.
        let past = u64::MAX - u64::MAX % bound;
        loop {
            let number = self.random.next_u64();
            if number < past {
                return number % bound;
            }
        }
    }

    /// Puts items in an order, every order as likely as the others.
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1);
            items.swap(last, usize::try_from(other).unwrap_or(last));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_seed_never_changes() {
        let mut items: Vec<u32> = (0..10).collect();
        Shuffle::new(1, 0).shuffle(&mut items);
        assert_eq!(
            items,
            [7, 8, 9, 5, 4, 3, 1, 6, 2, 0],
            "if this fails, runs begun with an earlier version can't be resumed"
        );
    }

    #[test]
    fn every_order_of_three_is_about_as_likely() {
        let mut seen = std::collections::BTreeMap::new();
        for seed in 0..6000 {
            let mut items = [0, 1, 2];
            Shuffle::new(seed, 7).shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        // Six standard deviations around 1000.
        assert!(seen.values().all(|n| (827..1173).contains(n)), "{seen:?}");
    }
}
