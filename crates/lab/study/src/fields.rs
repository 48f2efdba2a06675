//! Reads keys and values of a study file, noting what is wrong and going on.
//!
//! Every reader answers `None` both for what is absent and for what is wrong; what is wrong has been noted.

use std::ops::RangeInclusive;
use std::rc::Rc;

use text::parse_size;

use crate::node::{Entry, Node, Value};
use crate::problem::{At, ProblemKind, Problems};
use crate::words::{check_name, check_text};

/// The keys of a map, all of them known.
pub(crate) struct Fields<'a> {
    /// What the map is, for sentences: `the study`, `system 'a'`.
    pub(crate) place: String,
    pub(crate) at: At,
    entries: Vec<&'a Entry>,
}

impl<'a> Fields<'a> {
    /// The keys of `node`; unknown and repeated ones are noted. `None` if it is no map.
    pub(crate) fn of(node: &'a Node, place: &str, known: &[&str], p: &mut Problems) -> Option<Self> {
        let mut entries: Vec<&Entry> = Vec::new();
        for entry in map(node, place, p)? {
            if known.contains(&entry.key.as_str()) {
                entries.push(entry);
                continue;
            }
            let kind = ProblemKind::UnknownKey {
                key: entry.key.clone(),
                place: place.to_owned(),
                nearest: nearest_of(&entry.key, known),
                known: known.join(", "),
            };
            p.add(entry.at, kind);
        }
        Some(Self { place: place.to_owned(), at: node.at, entries })
    }

    /// The same under another name, for sentences.
    pub(crate) fn called(self, place: String) -> Self {
        Self { place, ..self }
    }

    /// A key's value.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|e| e.node.as_ref())
    }

    /// A key's own place.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().copied().find(|e| e.key == key)
    }

    /// Notes each of `keys` that is not there.
    pub(crate) fn need(&self, keys: &[&'static str], p: &mut Problems) {
        for key in keys {
            if self.get(key).is_none() {
                p.add(self.at, ProblemKind::Missing { place: self.place.clone(), key });
            }
        }
    }

    /// The one of `keys` that is there; none or several are noted.
    pub(crate) fn one_of(&self, keys: &[&str], p: &mut Problems) -> Option<&'a Entry> {
        let there: Vec<_> = keys.iter().filter_map(|k| self.entry(k)).collect();
        match there.as_slice() {
            [one] => Some(*one),
            several => {
                let at = several.get(1).map_or(self.at, |e| e.at);
                p.add(at, ProblemKind::NotOneOf { place: self.place.clone(), keys: keys.join(", ") });
                None
            }
        }
    }

    /// A text of one line.
    pub(crate) fn line(&self, key: &str, p: &mut Problems) -> Option<&'a str> {
        let (node, text) = (self.get(key)?, self.text(key, p)?);
        if text.trim_end().contains('\n') {
            p.add(node.at, ProblemKind::Shape { place: key.to_owned(), want: "a text of one line" });
        }
        Some(text.trim_end())
    }

    /// A name, without blanks at its end.
    pub(crate) fn name(&self, what: &'static str, p: &mut Problems) -> Option<&'a str> {
        let (node, text) = (self.get("name")?, self.text("name", p)?);
        check_name(what, text.trim_end(), node.at, p);
        Some(text.trim_end())
    }

    /// A text of one line for readers.
    pub(crate) fn plain_line(&self, key: &str, p: &mut Problems) -> Option<&'a str> {
        let line = self.line(key, p)?;
        check_text(key, line, self.get(key)?.at, p);
        Some(line)
    }

    /// A text of any length for readers.
    pub(crate) fn plain_text(&self, key: &str, p: &mut Problems) -> Option<&'a str> {
        let text = self.text(key, p)?;
        check_text(key, text, self.get(key)?.at, p);
        Some(text)
    }

    /// The texts of a list for readers.
    pub(crate) fn plain_texts(&self, key: &str, p: &mut Problems) -> Option<Vec<String>> {
        let items = self.list(key, p)?;
        let mut texts = Vec::new();
        for node in items {
            let Some(text) = text(node, key, p) else { continue };
            check_text(key, text, node.at, p);
            texts.push(text.to_owned());
        }
        Some(texts)
    }

    /// A text of any length.
    pub(crate) fn text(&self, key: &str, p: &mut Problems) -> Option<&'a str> {
        text(self.get(key)?, key, p)
    }

    /// A whole number.
    pub(crate) fn whole(&self, key: &str, range: RangeInclusive<u64>, p: &mut Problems) -> Option<u64> {
        whole(self.get(key)?, key, range, p)
    }

    /// A whole number that fits in 32 bits.
    pub(crate) fn count(&self, key: &str, range: RangeInclusive<u32>, p: &mut Problems) -> Option<u32> {
        count(self.get(key)?, key, range, p)
    }

    /// A number from `low` up to, but not including, `high`.
    pub(crate) fn share(&self, key: &str, low: f64, high: f64, p: &mut Problems) -> Option<f64> {
        let node = self.get(key)?;
        let text = text(node, key, p)?;
        let number = text.parse::<f64>().ok().filter(|n| *n >= low && *n < high);
        if number.is_none() {
            let want = format!("a number from {low} up to (not including) {high}");
            p.add(node.at, ProblemKind::Value { place: key.to_owned(), text: text.to_owned(), want });
        }
        number
    }

    /// Bytes.
    pub(crate) fn size(&self, key: &str, p: &mut Problems) -> Option<u64> {
        size(self.get(key)?, key, p)
    }

    /// Bytes, at most as many.
    pub(crate) fn size_up_to(&self, key: &str, most: u64, p: &mut Problems) -> Option<u64> {
        let (node, bytes) = (self.get(key)?, self.size(key, p)?);
        if bytes > most {
            let text = text(node, key, p).unwrap_or_default().to_owned();
            let want = format!("a size of at most {} TiB", most >> 40);
            p.add(node.at, ProblemKind::Value { place: key.to_owned(), text, want });
        }
        Some(bytes)
    }

    /// yes or no.
    pub(crate) fn yes(&self, key: &str, p: &mut Problems) -> Option<bool> {
        let node = self.get(key)?;
        let text = text(node, key, p)?;
        let yes = match text {
            "yes" | "true" | "on" => Some(true),
            "no" | "false" | "off" => Some(false),
            _ => None,
        };
        if yes.is_none() {
            let want = "yes or no".to_owned();
            p.add(node.at, ProblemKind::Value { place: key.to_owned(), text: text.to_owned(), want });
        }
        yes
    }

    /// One of some words.
    pub(crate) fn word<T: Copy>(
        &self,
        key: &'static str,
        words: &[(&str, T)],
        p: &mut Problems,
    ) -> Option<T> {
        word(self.get(key)?, key, words, p)
    }

    /// The elements of a list that is not empty.
    pub(crate) fn list(&self, key: &str, p: &mut Problems) -> Option<&'a [Rc<Node>]> {
        list(self.get(key)?, key, p)
    }

    /// The elements of a list, or a lone value.
    pub(crate) fn one_or_more(&self, key: &str, p: &mut Problems) -> Option<Vec<&'a Node>> {
        let node = self.get(key)?;
        match &node.value {
            Value::List(_) => Some(list(node, key, p)?.iter().map(Rc::as_ref).collect()),
            _ => Some(vec![node]),
        }
    }

    /// The texts of a list.
    pub(crate) fn texts(&self, key: &str, p: &mut Problems) -> Option<Vec<String>> {
        let items = self.list(key, p)?;
        Some(items.iter().filter_map(|n| text(n, key, p)).map(str::to_owned).collect())
    }
}

/// The entries of a map that is not empty; repeated keys are noted.
pub(crate) fn map<'a>(node: &'a Node, place: &str, p: &mut Problems) -> Option<&'a [Entry]> {
    let Value::Map(entries) = &node.value else {
        p.add(node.at, ProblemKind::Shape { place: place.to_owned(), want: "a map (KEY: VALUE)" });
        return None;
    };
    if entries.is_empty() {
        p.add(node.at, ProblemKind::Empty(place.to_owned()));
    }
    for (i, entry) in entries.iter().enumerate() {
        if let Some(first) = entries.iter().take(i).find(|e| e.key == entry.key) {
            duplicate("key", &entry.key, first.at, entry.at, p);
        }
    }
    Some(entries)
}

/// The elements of a list that is not empty.
pub(crate) fn list<'a>(node: &'a Node, place: &str, p: &mut Problems) -> Option<&'a [Rc<Node>]> {
    let Value::List(items) = &node.value else {
        p.add(
            node.at,
            ProblemKind::Shape { place: place.to_owned(), want: "a list ([A, B] or a dash a line)" },
        );
        return None;
    };
    if items.is_empty() {
        p.add(node.at, ProblemKind::Empty(place.to_owned()));
    }
    Some(items)
}

/// A text that is there.
pub(crate) fn text<'a>(node: &'a Node, place: &str, p: &mut Problems) -> Option<&'a str> {
    match &node.value {
        Value::Text { absent: true, .. } => {
            p.add(node.at, ProblemKind::Empty(place.to_owned()));
            None
        }
        Value::Text { text, .. } => Some(text),
        _ => {
            p.add(node.at, ProblemKind::Shape { place: place.to_owned(), want: "one value" });
            None
        }
    }
}

/// A whole number in `range`.
fn whole(node: &Node, place: &str, range: RangeInclusive<u64>, p: &mut Problems) -> Option<u64> {
    let text = text(node, place, p)?;
    let number = text.parse::<u64>().ok().filter(|n| range.contains(n));
    if number.is_none() {
        let want = match *range.end() {
            u64::MAX => format!("a whole number from {}", range.start()),
            end => format!("a whole number from {} to {end}", range.start()),
        };
        p.add(node.at, ProblemKind::Value { place: place.to_owned(), text: text.to_owned(), want });
    }
    number
}

/// A whole number in `range` that fits in 32 bits.
pub(crate) fn count(node: &Node, place: &str, range: RangeInclusive<u32>, p: &mut Problems) -> Option<u32> {
    let number = whole(node, place, u64::from(*range.start())..=u64::from(*range.end()), p)?;
    u32::try_from(number).ok()
}

/// Bytes, more than none.
pub(crate) fn size(node: &Node, place: &str, p: &mut Problems) -> Option<u64> {
    let text = text(node, place, p)?;
    let bytes = parse_size(text).filter(|n| *n > 0);
    if bytes.is_none() {
        let want = "a size (4096, 64K, 4M, 10GiB)".to_owned();
        p.add(node.at, ProblemKind::Value { place: place.to_owned(), text: text.to_owned(), want });
    }
    bytes
}

/// One of some words.
pub(crate) fn word<T: Copy>(
    node: &Node,
    what: &'static str,
    words: &[(&str, T)],
    p: &mut Problems,
) -> Option<T> {
    let text = text(node, what, p)?;
    let found = words.iter().find(|(w, _)| *w == text).map(|(_, value)| *value);
    if found.is_none() {
        let known: Vec<&str> = words.iter().map(|(w, _)| *w).collect();
        unknown(what, text, &known, node.at, p);
    }
    found
}

/// Notes each element of a list of maps whose `name` an earlier one has, whatever else is wrong with either.
pub(crate) fn named_once(nodes: &[Rc<Node>], what: &'static str, p: &mut Problems) {
    let mut seen: Vec<(&str, At)> = Vec::new();
    for node in nodes {
        let Value::Map(entries) = &node.value else { continue };
        let Some(entry) = entries.iter().find(|e| e.key == "name") else { continue };
        let Value::Text { text, absent: false } = &entry.node.value else { continue };
        match seen.iter().find(|(name, _)| name == text) {
            Some((_, first)) => duplicate(what, text, *first, node.at, p),
            None => seen.push((text, node.at)),
        }
    }
}

/// Notes a name that is none of `known`.
pub(crate) fn unknown(what: &'static str, name: &str, known: &[&str], at: At, p: &mut Problems) {
    let nearest = nearest_of(name, known);
    p.add(at, ProblemKind::UnknownName { what, name: name.to_owned(), nearest, known: known.join(", ") });
}

/// Notes a name that is there already.
pub(crate) fn duplicate(what: &'static str, name: &str, first: At, at: At, p: &mut Problems) {
    p.add(at, ProblemKind::Duplicate { what, name: name.to_owned(), first: first.line });
}

fn nearest_of(name: &str, known: &[&str]) -> Option<String> {
    text::nearest(name, known.iter().copied()).map(str::to_owned)
}
