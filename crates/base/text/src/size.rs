//! Sizes in bytes, read and written.

/// Which spellings of a size are read. In both the number is whole, the units are powers of 1024, and `K`, `Ki`, `KB`
/// and `KiB` are the same unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SizeGrammar {
    /// What Loligo and its lab read: the unit in any case, blanks around the number.
    AnyCase,
    /// What Ceph's daemons read as the value of an option of type size (checked with `ceph-conf --show-config-value` of
    /// 16.2 and 20.2): the unit's first letter is a capital, no blanks, `+` before the number. They ignore any other
    /// text and keep the default.
    Ceph,
}

/// Units with their powers of two, the largest first.
const UNITS: [(&str, u32); 6] =
    [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Reads a number of bytes as [`SizeGrammar::AnyCase`] has it: `4096`, `4K`, `4 KiB`, `10g`. `None` for anything else
/// and for more than 64 bits.
pub fn parse_size(text: &str) -> Option<u64> {
    parse_size_as(text, SizeGrammar::AnyCase)
}

/// Reads a number of bytes. `None` for what `grammar` does not have and for more than 64 bits.
pub fn parse_size_as(text: &str, grammar: SizeGrammar) -> Option<u64> {
    let text = match grammar {
        SizeGrammar::AnyCase => text.trim(),
        SizeGrammar::Ceph => text.strip_prefix('+').unwrap_or(text),
    };
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let shift = match grammar {
        SizeGrammar::AnyCase => shift(&unit.trim().to_ascii_uppercase().replace('I', "i")),
        SizeGrammar::Ceph => shift(unit),
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift?)
}

/// The power of two of a unit, spelt as Ceph does.
fn shift(unit: &str) -> Option<u32> {
    if matches!(unit, "" | "B") {
        return Some(0);
    }
    let letter =
        unit.strip_suffix("iB").or(unit.strip_suffix('B')).or(unit.strip_suffix('i')).unwrap_or(unit);
    UNITS.into_iter().find(|(name, _)| letter.len() == 1 && name.starts_with(letter)).map(|(_, shift)| shift)
}

/// Bytes in the largest unit that they fill, to one decimal: `4 GiB`, `1.5 KiB`, `512 bytes`.
pub fn format_bytes(bytes: u64) -> String {
    let Some((unit, shift)) = UNITS.into_iter().find(|(_, shift)| bytes >> shift > 0) else {
        return format!("{bytes} bytes");
    };
    let number = format!("{:.1}", bytes as f64 / (1_u64 << shift) as f64);
    format!("{} {unit}", number.strip_suffix(".0").unwrap_or(&number))
}

/// Bytes in the largest unit that they are a whole number of, without rounding: `4 GiB`, `1536 MiB`, `4097`.
/// [`parse_size`] reads it back.
pub fn format_bytes_exact(bytes: u64) -> String {
    let whole = UNITS.into_iter().find(|(_, shift)| bytes > 0 && bytes % (1 << shift) == 0);
    whole.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{} {unit}", bytes >> shift))
}

/// Two sizes that a sentence holds against each other: as [`format_bytes`] has them, with all their digits where others that differ
/// would read the same.
pub fn format_bytes_two(one: u64, other: u64) -> [String; 2] {
    let [a, b] = [one, other].map(format_bytes);
    match one != other && a == b {
        true => [format!("{a} ({one} bytes)"), format!("{b} ({other} bytes)")],
        false => [a, b],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_sizes_that_differ_read_differently() {
        let little = format_bytes_two((3 << 30) + (8 << 20), 3 << 30);
        assert_eq!(little, ["3 GiB (3229614080 bytes)", "3 GiB (3221225472 bytes)"]);
        assert_eq!(format_bytes_two(4 << 30, 3 << 30), ["4 GiB", "3 GiB"]);
        assert_eq!(format_bytes_two(3 << 30, 3 << 30), ["3 GiB", "3 GiB"]);
    }

    #[test]
    fn both_grammars_read_whole_numbers_with_binary_units() {
        for (text, want) in [
            ("4096", 4096),
            ("010", 10),
            ("4B", 4),
            ("4K", 4096),
            ("4Ki", 4096),
            ("4KB", 4096),
            ("4KiB", 4096),
            ("10GiB", 10 << 30),
            ("3T", 3 << 40),
            ("1E", 1 << 60),
        ] {
            for grammar in [SizeGrammar::AnyCase, SizeGrammar::Ceph] {
                assert_eq!(parse_size_as(text, grammar), Some(want), "{text} as {grammar:?}");
            }
        }
        for text in
            ["", "x", "K", "1i", "1iB", "1Bi", "1KK", "1.5G", "-1", "0x10", "4Q", "99999999999P", "16E"]
        {
            for grammar in [SizeGrammar::AnyCase, SizeGrammar::Ceph] {
                assert_eq!(parse_size_as(text, grammar), None, "{text} as {grammar:?}");
            }
        }
    }

    #[test]
    fn ceph_takes_capitals_and_a_sign_and_we_any_case_and_blanks() {
        for (text, want) in [("4k", 4096), ("4kb", 4096), ("4kIb", 4096), ("1 MB", 1 << 20), (" 5 ", 5)] {
            assert_eq!(parse_size(text), Some(want), "{text}");
            assert_eq!(parse_size_as(text, SizeGrammar::Ceph), None, "{text}");
        }
        assert_eq!(parse_size_as("+4K", SizeGrammar::Ceph), Some(4096));
        assert_eq!(parse_size("+4K"), None);
    }

    #[test]
    fn bytes_are_written_rounded_or_exactly() {
        for (bytes, rounded, exact) in [
            (0, "0 bytes", "0"),
            (512, "512 bytes", "512"),
            (4097, "4 KiB", "4097"),
            (1536, "1.5 KiB", "1536"),
            (4 << 30, "4 GiB", "4 GiB"),
            (3 << 29, "1.5 GiB", "1536 MiB"),
            (1 << 40, "1 TiB", "1 TiB"),
        ] {
            assert_eq!(format_bytes(bytes), rounded);
            assert_eq!(format_bytes_exact(bytes), exact);
            assert_eq!(parse_size(exact), Some(bytes));
        }
    }
}
