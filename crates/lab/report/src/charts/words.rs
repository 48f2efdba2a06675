//! The room that text takes, by the font that pictures are drawn with. Readers without it get Verdana's like, which is
//! about as wide.

use std::sync::LazyLock;

use ttf_parser::Face;

/// For the `font-family` attribute.
pub const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

static FACE: LazyLock<Option<Face<'static>>> = LazyLock::new(|| Face::parse(dejavu::sans::regular(), 0).ok());

/// Pixels that a text takes at a font size.
pub fn width(text: &str, size: f64) -> f64 {
    let of = |c: char| ASCII.get(c as usize).copied().unwrap_or_else(|| advance(c));
    text.chars().map(of).sum::<f64>() * size
}

/// Charts ask for little else, ten thousands of times.
static ASCII: LazyLock<[f64; 128]> = LazyLock::new(|| std::array::from_fn(|i| advance(i as u8 as char)));

/// What a character takes of the font's size; what the font doesn't have takes all of it.
fn advance(c: char) -> f64 {
    let width = |face: &Face| {
        let units = f64::from(face.units_per_em());
        Some(f64::from(face.glyph_hor_advance(face.glyph_index(c)?)?) / units)
    };
    FACE.as_ref().and_then(width).unwrap_or(1.0)
}

/// The text, or its beginning and its end with `…` between where it would take more than `room` pixels.
pub fn fit(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_string();
    }
    let chars: Vec<char> = text.chars().collect();
    let cut = |kept: usize| -> String {
        let end = kept / 2;
        let head: String = chars[..kept - end].iter().collect();
        let tail: String = chars[chars.len() - end..].iter().collect();
        format!("{head}…{tail}")
    };
    let (mut low, mut high) = (0, chars.len().saturating_sub(1));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if width(&cut(middle), size) <= room { low = middle } else { high = middle - 1 }
    }
    cut(low)
}

/// The text as lines of at most `room` pixels, broken at blanks; a single word that is wider is cut.
pub fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(fit(word, size, room)),
        }
    }
    lines
}

/// Text escaped for XML and HTML, in attributes too. Characters that XML forbids become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{FFFE}' | '\u{FFFF}') => out.push('\u{FFFD}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_keeps_its_two_ends_and_the_room() {
        let name = "filestore_queue_committing_max_bytes_1048576000+journal_queue_max_ops_5000";
        let cut = fit(name, 11.0, 200.0);
        assert!(cut.starts_with("filestore_q") && cut.ends_with("_5000") && cut.contains('…'), "{cut}");
        assert!(width(&cut, 11.0) <= 200.0 && width(&cut, 11.0) > 180.0);
        assert_eq!(fit("short", 11.0, 200.0), "short");
        assert_eq!(fit(name, 11.0, 0.0), "…");
    }

    #[test]
    fn what_could_be_markup_is_none() {
        assert_eq!(escape("<a b=\"c\" d='e'>&\0\n"), "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;\u{FFFD} ");
    }

    #[test]
    fn lines_keep_the_room() {
        let lines = wrap("one two three four five", 10.0, 60.0);
        assert!(lines.len() > 1 && lines.iter().all(|l| width(l, 10.0) <= 60.0), "{lines:?}");
    }
}
