//! Spans of time as Ceph's options of type secs have them.

const DAY: f64 = 86400.0;

/// Reads seconds as Ceph does: whole numbers, each with a unit or none, added up; blanks between (`5`, `1h 30m`). `None` for
/// anything else.
pub fn parse_seconds(text: &str) -> Option<f64> {
    let (mut rest, mut sum) = (text.trim_start(), 0.0);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let after = after.trim_start();
        let letters = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        sum += number.parse::<u32>().ok().map(f64::from)? * unit_seconds(unit)?;
        rest = after.trim_start();
    }
    Some(sum)
}

fn unit_seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "" | "s" | "sec" | "second" | "seconds" => 1.0,
        "m" | "min" | "minute" | "minutes" => 60.0,
        "h" | "hr" | "hour" | "hours" => 3600.0,
        "d" | "day" | "days" => DAY,
        "w" | "wk" | "week" | "weeks" => 7.0 * DAY,
        "mo" | "month" | "months" => 30.0 * DAY,
        "y" | "yr" | "year" | "years" => 365.0 * DAY,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_with_units_are_added_up() {
        for (text, want) in [("5", 5.0), ("1h", 3600.0), ("1h30m", 5400.0), (" 1 h 30 min ", 5400.0)] {
            assert_eq!(parse_seconds(text), Some(want), "{text}");
        }
        for text in ["", " ", "0.5", "-1", "5x", "h"] {
            assert_eq!(parse_seconds(text), None, "{text}");
        }
    }
}
