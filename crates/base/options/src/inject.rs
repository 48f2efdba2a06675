//! Options as on a command line: `--NAME VALUE` or `--NAME=VALUE` (`ceph tell ... injectargs`).

use crate::normalize;

/// The options of a command line, by their normalized names; in words, what is wrong with it.
pub fn injected(text: &str) -> Result<Vec<(String, String)>, String> {
    let bad = |what: String| Err(format!("injectargs: {what}; give --NAME VALUE or --NAME=VALUE"));
    let mut words = text.split_whitespace();
    let mut given = Vec::new();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else { return bad(format!("'{word}' is not an option")) };
        let value = match option.split_once('=') {
            Some((name, value)) => Some((name, value)),
            None => words.next().map(|value| (option, value)),
        };
        let Some((name, value)) = value else { return bad(format!("{word} has no value")) };
        given.push((normalize(name), value.to_owned()));
    }
    if given.is_empty() { bad("nothing is to be set".into()) } else { Ok(given) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_options_are_read_and_anything_else_is_refused() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(injected("--debug-osd 5 --a=b"), Ok(vec![pair("debug_osd", "5"), pair("a", "b")]));
        for wrong in ["", "debug_osd 5", "--debug_osd"] {
            assert!(injected(wrong).is_err_and(|why| why.starts_with("injectargs: ")), "{wrong}");
        }
    }
}
