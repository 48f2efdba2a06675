//! Values of flags: what can't be meant is a usage error, before anything is read.

/// An hour in microseconds: nothing that a request takes is longer, and in nanoseconds a day of them still fits.
pub(crate) const HOUR_US: u64 = 3_600_000_000;
/// A day in seconds.
pub(crate) const DAY_S: u64 = 86_400;

/// Why a flag can't have a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum BadFlag {
    /// The limits of the study file's `effect`.
    #[error("expected a share: a number from 0 up to, but not including, 1")]
    Share,
    /// Not bytes.
    #[error("expected a size, as 4096, 64K, 4M or 10GiB")]
    Size,
    /// More than is modelled.
    #[error("a modelled device has at most {} TiB", study::MODELLED_MAX >> 40)]
    TooLarge,
}

/// A share, as a study file has it.
pub(crate) fn share(text: &str) -> Result<f64, BadFlag> {
    text.parse().ok().filter(|share| (0.0..1.0).contains(share)).ok_or(BadFlag::Share)
}

/// Bytes of a modelled device.
pub(crate) fn device_size(text: &str) -> Result<u64, BadFlag> {
    let bytes = text::parse_size(text).filter(|bytes| *bytes > 0).ok_or(BadFlag::Size)?;
    if bytes > study::MODELLED_MAX { Err(BadFlag::TooLarge) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that can't go on must fail")]

    use clap::Parser;

    use crate::args::LabArgs;

    #[derive(Parser)]
    struct Lab {
        #[command(flatten)]
        _lab: LabArgs,
    }

    fn is_usage_error(line: &str) -> bool {
        let words = std::iter::once("lab").chain(line.split(' '));
        Lab::try_parse_from(words).err().is_some_and(|error| error.exit_code() == 2)
    }

    #[test]
    fn a_share_has_the_limits_of_the_study_file() {
        for good in ["0", "0.05", "0.999"] {
            assert!(!is_usage_error(&format!("compare a b --effect {good}")), "{good}");
        }
        for bad in ["nan", "-1", "1", "1e400", "inf", "-0.1", "x"] {
            assert!(is_usage_error(&format!("compare a b --effect {bad}")), "{bad}");
        }
    }

    #[test]
    fn numbers_that_would_overflow_are_usage_errors() {
        let flags = "--think-us --overhead-us --flush-overhead-us --mib-overhead-us --warm-up-s --time-s --size --span";
        for flag in flags.split(' ') {
            let line = |value: &str| format!("device --model ssd --figures {flag} {value}");
            assert!(is_usage_error(&line("18446744073709551615")), "{flag}");
            assert!(!is_usage_error(&line("2000000")) || flag.ends_with("-s"), "{flag}");
        }
        assert!(is_usage_error("device --model ssd --figures --time-s 0"));
        assert!(is_usage_error("device --model ssd --figures --size 0"));
    }

    #[test]
    fn columns_need_no_results() {
        assert!(!is_usage_error("export --columns"));
        assert!(!is_usage_error("export results --columns"));
        assert!(is_usage_error("export"));
        assert!(is_usage_error("export --markdown"));
    }
}
