//! Names and texts: they reach terminals, tables and charts.

use study::{Problem, parse};

fn text(system: &str, load: &str, rest: &str) -> String {
    format!(
        "name: n\n{rest}\nsystems:\n- {{name: {system}, loligo: {{store: mem}}}}\nworkloads:\n- {{name: {load}, command: \
         {{run: 'true', timeout: 1}}}}\n"
    )
}

fn problems(text: &str) -> Vec<Problem> {
    parse(text, "f").err().unwrap_or_default()
}

fn said(text: &str) -> Vec<String> {
    problems(text).iter().map(ToString::to_string).collect()
}

#[test]
fn names_are_words_that_can_be_shown() {
    let long = "x".repeat(101);
    let bad = [
        ("\"\"", "it is empty"),
        ("\"   \"", "it is empty"),
        ("\"a\\nb\"", "U+000A"),
        ("\"a\\rb\"", "U+000D"),
        ("\"\\e[31mred\"", "U+001B"),
        ("\"a\\x9bb\"", "U+009B"),
        ("\"\\u202ename\"", "U+202E"),
        ("\"a\\u2066b\"", "U+2066"),
        (long.as_str(), "more than 100 characters"),
    ];
    for (name, why) in bad {
        let cases = [
            (text(name, "w", "title: t"), 4),
            (text("s", name, "title: t"), 6),
            (text("s", "w", &format!("title: t\nparametric: {{{name}: {{osd: {{osd_op_threads: 1}}}}}}")), 3),
        ];
        for (text, line) in cases {
            let found = problems(&text);
            assert_eq!(found.len(), 1, "{:?}", said(&text));
            assert_eq!(found[0].line, line);
            let words = found[0].to_string();
            assert!(words.contains("can't be the name of a") && words.contains(why), "{words}");
            // The sentence itself is harmless, and no page long.
            assert!(
                !words.contains(|c: char| c.is_control() || c == '\u{202e}') && words.len() < 300,
                "{words}"
            );
        }
    }
    for good in ["日本", "a b", "<b>|=1+1", "'- x'", "../x", &"x".repeat(100)] {
        assert_eq!(said(&text(good, good, "title: t")), [""; 0], "{good}");
    }
}

#[test]
fn titles_and_what_is_about_are_plain_text() {
    let places = [
        ("title: \"a\\e[31m\"", "title"),
        ("title: t\nabout: \"a\\u0007\"", "about"),
        ("title: t\nchanges: [\"a\\rb\"]", "changes"),
        ("title: t\nsource: {title: \"a\\x9b\", author: a, date: 2013}", "title"),
    ];
    for (rest, place) in places {
        let said = said(&text("s", "w", rest));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains(&format!("{place} must be plain text: it has a control character")),
            "{said:?}"
        );
    }
    let lines = "title: t\nabout: |\n  a line\n\n  a\ttab, é\n";
    assert_eq!(said(&text("s", "w", lines)), [""; 0]);
    // Lines that end as Windows ends them are lines.
    assert_eq!(said(&text("s", "w", lines).replace('\n', "\r\n")), [""; 0]);
}

#[test]
fn what_a_file_has_reaches_no_terminal_as_a_command() {
    let said = said(&text("s", "w", "title: t\n\"\\e[2J\": 1"));
    assert!(said[0].contains("\\u{1b}[2J") && !said[0].contains('\u{1b}'), "{said:?}");
}
