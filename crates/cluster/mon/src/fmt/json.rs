//! A JSON value whose members keep their order, written compactly or indented.

use std::fmt::Write;

use super::number::general;

/// A JSON value; an object's members are written in the order they were added.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// true or false.
    Bool(bool),
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// A floating number, written with 17 significant digits.
    Float(f64),
    Text(String),
    Array(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An empty object.
    pub fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// The object with one more member (on anything else: unchanged).
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.put(key, value);
        self
    }

    /// Adds a member to an object (to anything else: nothing happens).
    pub fn put(&mut self, key: &str, value: impl Into<Json>) {
        if let Self::Object(members) = self {
            members.push((key.to_string(), value.into()));
        }
    }

    /// An array of what the iterator gives.
    pub fn array<T: Into<Json>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }

    /// On one line.
    pub fn compact(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, None);
        out
    }

    /// Indented by four spaces a level.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write(&mut out, Some(0));
        out
    }

    fn write(&self, out: &mut String, level: Option<usize>) {
        match self {
            Self::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Self::Int(value) => drop(write!(out, "{value}")),
            Self::Uint(value) => drop(write!(out, "{value}")),
            Self::Float(value) => out.push_str(&general(*value, 17)),
            Self::Text(text) => write_text(out, text),
            Self::Array(items) => {
                let inner = level.map(|l| l + 1);
                write_group(out, level, '[', ']', items.iter(), |out, item| item.write(out, inner));
            }
            Self::Object(members) => {
                let inner = level.map(|l| l + 1);
                write_group(out, level, '{', '}', members.iter(), |out, (key, value)| {
                    write_text(out, key);
                    out.push_str(if inner.is_some() { ": " } else { ":" });
                    value.write(out, inner);
                });
            }
        }
    }
}

fn write_group<T>(
    out: &mut String,
    level: Option<usize>,
    open: char,
    close: char,
    items: impl ExactSizeIterator<Item = T>,
    mut write_item: impl FnMut(&mut String, T),
) {
    let empty = items.len() == 0;
    let new_line = |out: &mut String, level: Option<usize>| {
        if let (Some(level), false) = (level, empty) {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', level * 4));
        }
    };
    out.push(open);
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(',');
        }
        new_line(out, level.map(|l| l + 1));
        write_item(out, item);
    }
    new_line(out, level);
    out.push(close);
}

fn write_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if (c as u32) < 0x20 => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
impl From<f64> for Json {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}
impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_string())
    }
}
impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}
impl From<Vec<Json>> for Json {
    fn from(value: Vec<Json>) -> Self {
        Self::Array(value)
    }
}
macro_rules! from_integers {
    ($variant:ident as $wide:ty: $($t:ty),*) => {$(
        impl From<$t> for Json {
            fn from(value: $t) -> Self {
                Self::$variant(value as $wide)
            }
        }
    )*};
}
from_integers!(Int as i64: i32, i64);
from_integers!(Uint as u64: u8, u16, u32, u64, usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_text_is_escaped() {
        let json = Json::object()
            .with("b", 1)
            .with("a", Json::array([1.5, 2.0]))
            .with("t", "say \"hi\"\n\u{1}")
            .with("e", Json::object());
        assert_eq!(json.compact(), r#"{"b":1,"a":[1.5,2],"t":"say \"hi\"\n\u0001","e":{}}"#);
        let parsed: serde_json::Value = serde_json::from_str(&json.pretty()).unwrap();
        assert_eq!(parsed, serde_json::from_str::<serde_json::Value>(&json.compact()).unwrap());
    }

    #[test]
    fn indentation_is_four_spaces_and_empty_groups_stay_closed() {
        let json = Json::object().with("x", Json::array([1])).with("y", Json::Array(vec![]));
        assert_eq!(json.pretty(), "{\n    \"x\": [\n        1\n    ],\n    \"y\": []\n}");
    }
}
