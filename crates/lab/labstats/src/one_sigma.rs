//! The 2013 article's rule: coloured where the ranges of one standard deviation around the means do not overlap.
//!
//! Source: "Ceph Bobtail JBOD Performance Tuning" (2013), three samples each. It stays as a labelled mode only: with
//! three samples it colours 8.4% of comparisons of things that do not differ, and a table of hundreds of comparisons tens
//! of them. [`false_colours`] shows it for any number of samples.
//!
//! The number rests on assumptions: normal samples, and deviations with n - 1 in the divisor, as spreadsheets have them.
//! With n in the divisor it is 13.5%. Samples without tails give more (uniform ones 9.5%), with heavy tails less
//! (exponential on both sides 7.0%): a simulation of other samples, or of few comparisons, may well say 8.6%.

use crate::judge::{Better, Colour};
use crate::random::Random;

/// The rule's colour; `None` with fewer than two samples of either, where there is no deviation. It knows no "shown
/// equal": what is not coloured is grey.
pub fn colour(default: &[f64], variant: &[f64], better: Better) -> Option<Colour> {
    let (d, d_sigma) = mean_and_deviation(default)?;
    let (v, v_sigma) = mean_and_deviation(variant)?;
    if v - v_sigma > d + d_sigma {
        Some(if better == Better::Higher { Colour::Green } else { Colour::Red })
    } else if v + v_sigma < d - d_sigma {
        Some(if better == Better::Higher { Colour::Red } else { Colour::Green })
    } else {
        Some(Colour::Grey)
    }
}

/// The share of comparisons that the rule colours though nothing differs, with so many normal samples of the default and
/// of the variant, right to about a tenth of a per cent: what users are told.
pub fn false_colours(default: usize, variant: usize) -> f64 {
    false_colour_rate((default, variant), 100_000, 2013)
}

/// The share of comparisons that the rule colours though nothing differs, with so many normal samples of the default and
/// of the variant, from so many simulated comparisons. 0 with fewer than two samples of either.
pub fn false_colour_rate(samples: (usize, usize), comparisons: u32, seed: u64) -> f64 {
    let mut random = Random::new(seed);
    let (mut a, mut b) = (vec![0.0; samples.0], vec![0.0; samples.1]);
    let mut coloured = 0_u32;
    for _ in 0..comparisons {
        a.iter_mut().chain(b.iter_mut()).for_each(|x| *x = random.normal());
        coloured += u32::from(colour(&a, &b, Better::Higher).is_some_and(Colour::tells_apart));
    }
    f64::from(coloured) / f64::from(comparisons.max(1))
}

/// Mean and sample standard deviation.
fn mean_and_deviation(samples: &[f64]) -> Option<(f64, f64)> {
    if samples.len() < 2 {
        return None;
    }
    let n = samples.len() as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let squares: f64 = samples.iter().map(|x| (x - mean).powi(2)).sum();
    Some((mean, (squares / (n - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_do_not_overlap_are_coloured() {
        let default = [100.0, 110.0, 90.0];
        assert_eq!(colour(&default, &[130.0, 135.0, 125.0], Better::Higher), Some(Colour::Green));
        assert_eq!(colour(&default, &[130.0, 135.0, 125.0], Better::Lower), Some(Colour::Red));
        assert_eq!(colour(&default, &[70.0, 72.0, 68.0], Better::Higher), Some(Colour::Red));
        assert_eq!(colour(&default, &[112.0, 116.0, 108.0], Better::Higher), Some(Colour::Grey));
        assert_eq!(colour(&default, &[112.0], Better::Higher), None);
    }

    #[test]
    fn three_samples_give_false_colours_in_more_than_eight_of_a_hundred() {
        let rate = 100.0 * false_colour_rate((3, 3), 400_000, 2013);
        // The standard error is 0.04.
        assert!((rate - 8.35).abs() < 0.1, "{rate}");
        assert_eq!(format!("{:.1}", 100.0 * false_colours(3, 3)), "8.4");
        assert!(false_colour_rate((10, 10), 50_000, 1) < rate / 100.0);
        assert_eq!(false_colour_rate((1, 1), 10, 1), 0.0);
        // A default with twice the trials, as most studies have it (3.56% by an independent simulation).
        let uneven = 100.0 * false_colours(6, 3);
        assert!((uneven - 3.56).abs() < 0.2, "{uneven}");
    }
}
