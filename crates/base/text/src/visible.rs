//! Text of others in our messages.

/// A text as a terminal may have it: characters that it would obey are replaced by their codes.
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || turns_text(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Whether a character changes in which order its neighbours are shown: two names would look like each other.
pub fn turns_text(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_as_its_code() {
        assert_eq!(visible("a\u{1b}[2J b\u{202e}c\n é"), "a\\u{1b}[2J b\\u{202e}c\\n é");
    }
}
