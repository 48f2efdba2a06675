//! Single outliers in a series of seconds.

/// Neighbours on each side that a value is compared with.
const REACH: usize = 3;

/// A value further from its neighbours' median than this many deviations is an outlier.
const FAR: f64 = 4.0;

/// What differs by a smaller share of the series' median than this is none, however quiet the rest is.
const SMALL: f64 = 0.02;

/// The series with single outliers replaced by the median of their neighbourhood (F. R. Hampel's identifier, "The
/// influence curve and its role in robust estimation", 1974, in a moving window). Steps and trends stay as they are.
/// Where more than one value in ten would go, they are no outliers and the series stays as it is.
pub(crate) fn without_outliers(series: &[f64]) -> Vec<f64> {
    let medians: Vec<f64> = (0..series.len())
        .map(|i| median(&series[i.saturating_sub(REACH)..(i + REACH + 1).min(series.len())]))
        .collect();
    let distances: Vec<f64> = series.iter().zip(&medians).map(|(x, m)| (x - m).abs()).collect();
    // 1.4826 medians of distances are a standard deviation where the distances are normal.
    let far = (FAR * 1.4826 * median(&distances)).max(SMALL * median(series).abs());
    let outliers = distances.iter().filter(|&&d| d > far).count();
    if outliers * 10 > series.len() {
        return series.to_vec();
    }
    let cleaned = series.iter().zip(&medians).zip(&distances);
    cleaned.map(|((&x, &m), &d)| if d > far { m } else { x }).collect()
}

/// The median; 0 of nothing.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// The value below which a share of all lies, interpolated between neighbours; 0 of nothing.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let low = sorted.get(place.floor() as usize).copied().unwrap_or(0.0);
    let high = sorted.get(place.ceil() as usize).copied().unwrap_or(low);
    low + (high - low) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn single_outliers_go_and_steps_stay() {
        let mut series: Vec<f64> =
            (0..40).map(|i| 100.0 + f64::from(i % 3) + if i < 20 { 0.0 } else { 50.0 }).collect();
        let step = series.clone();
        series[7] = 0.0;
        series[31] = 900.0;
        let cleaned = without_outliers(&series);
        assert!(cleaned.iter().zip(&step).all(|(a, b)| (a - b).abs() < 4.0), "{cleaned:?}");
        assert_eq!(without_outliers(&step), step);
    }

    #[test]
    fn what_is_often_is_no_outlier() {
        let series: Vec<f64> =
            (0..40).map(|i| if i % 5 == 0 { 10.0 } else { 100.0 + f64::from(i % 3) }).collect();
        assert_eq!(without_outliers(&series), series);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[4.0, 1.0, 3.0, 2.0], 0.5), 2.5);
        assert_eq!((quantile(&[], 0.5), quantile(&[7.0], 0.9)), (0.0, 7.0));
    }
}
