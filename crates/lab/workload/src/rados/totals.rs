//! What `rados bench` says at its end: a key and a value a line. Pure.

/// Totals of an instance, in the units of this crate.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// From its first operation to the end of its last.
    pub seconds: f64,
    /// Writes or reads made.
    pub operations: u64,
    /// Bytes of an object.
    pub object_size: u64,
    /// Mean, bytes a second.
    pub bytes_per_s: f64,
    /// Microseconds.
    pub mean_us: f64,
    /// Microseconds; reported for writes only.
    pub stddev_us: Option<f64>,
    /// Microseconds.
    pub max_us: f64,
    /// Microseconds.
    pub min_us: f64,
}

/// Reads them from the whole output.
///
/// # Errors
/// The line that is missing or isn't a number.
pub fn totals(text: &str) -> Result<Totals, String> {
    let find = |key: &str| {
        text.lines().find_map(|line| {
            let (k, value) = line.split_once(':')?;
            (k.trim() == key).then(|| value.trim())
        })
    };
    let number = |key: &str| {
        let value = find(key).ok_or_else(|| format!("it has no line '{key}'"))?;
        match value.parse::<f64>() {
            Ok(n) if n.is_finite() && n >= 0.0 => Ok(n),
            _ => Err(format!("'{key}: {value}' is not a number")),
        }
    };
    let made = if find("Total reads made").is_some() { "Total reads made" } else { "Total writes made" };
    let us = |key: &str| number(key).map(|seconds| seconds * 1e6);
    let stddev = "Stddev Latency(s)";
    Ok(Totals {
        seconds: number("Total time run")?,
        operations: number(made)? as u64,
        object_size: number("Object size")? as u64,
        bytes_per_s: number("Bandwidth (MB/sec)")? * f64::from(1 << 20),
        mean_us: us("Average Latency(s)")?,
        stddev_us: find(stddev).map(|_| us(stddev)).transpose()?,
        max_us: us("Max latency(s)")?,
        min_us: us("Min latency(s)")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writes_totals_are_all_there() {
        let found = totals(include_str!("../../tests/data/rados-16.2-write.txt")).unwrap();
        assert_eq!((found.seconds, found.operations, found.object_size), (3.00258, 7703, 65536));
        assert!((found.bytes_per_s - 160.341 * 1_048_576.0).abs() < 1.0);
        assert!((found.mean_us - 1557.4).abs() < 1e-6);
        assert!((found.stddev_us.unwrap() - 2087.24).abs() < 1e-6);
        assert!((found.max_us - 35463.7).abs() < 1e-6 && (found.min_us - 305.534).abs() < 1e-6);
    }

    #[test]
    fn every_release_says_the_same() {
        for text in [
            include_str!("../../tests/data/rados-16.2-rand.txt"),
            include_str!("../../tests/data/rados-18.2-write.txt"),
            include_str!("../../tests/data/rados-18.2-rand.txt"),
            include_str!("../../tests/data/rados-20.2-write.txt"),
            include_str!("../../tests/data/rados-20.2-rand.txt"),
            include_str!("../../tests/data/rados-20.2-write-22s.txt"),
        ] {
            let found = totals(text).unwrap();
            let bytes = found.operations as f64 * found.object_size as f64 / found.seconds;
            assert!((bytes / found.bytes_per_s - 1.0).abs() < 1e-4, "{found:?}");
            assert!(found.min_us < found.mean_us && found.mean_us < found.max_us, "{found:?}");
            assert_eq!(found.stddev_us.is_some(), text.contains("writes made"));
        }
    }

    #[test]
    fn a_read_that_ran_out_of_objects_has_its_own_time() {
        let found = totals(include_str!("../../tests/data/rados-16.2-seq-exhausted.txt")).unwrap();
        assert_eq!((found.seconds, found.operations), (0.997_856, 7703));
    }

    #[test]
    fn what_is_missing_is_named() {
        let text = include_str!("../../tests/data/rados-16.2-write.txt");
        let cut: String =
            text.lines().take_while(|l| !l.starts_with("Max lat")).map(|l| format!("{l}\n")).collect();
        assert_eq!(totals(&cut), Err("it has no line 'Max latency(s)'".to_owned()));
        let bad = text.replace("3.00258", "nan");
        assert_eq!(totals(&bad), Err("'Total time run: nan' is not a number".to_owned()));
    }
}
