//! The argument object of a command: JSON that a client wrote, read without trusting it.

use serde_json::{Map, Value};

/// Formats that Ceph offers beside JSON.
const CEPHS_FORMATS: [&str; 6] = ["xml", "xml-pretty", "table", "table-kv", "html", "html-pretty"];

/// How an answer is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for a person.
    Plain,
    /// JSON on one line.
    Json,
    /// Indented JSON.
    JsonPretty,
}

/// A command's members (prefix, arguments, format).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(Map<String, Value>);

/// Why a command's text is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgsError {
    /// Not a JSON object.
    #[error("the command is not a JSON object: {0}")]
    NotAnObject(String),
    /// No `prefix`.
    #[error("the command names no prefix")]
    NoPrefix,
    /// A format that is not offered.
    #[error("format '{0}' is not offered here; plain, json and json-pretty are")]
    Format(String),
    /// An argument of another type than its signature says.
    #[error("argument '{name}' is not {wanted}: '{got}'")]
    Type {
        /// The argument.
        name: String,
        /// What it ought to be.
        wanted: &'static str,
        /// What came.
        got: String,
    },
    /// A required argument is missing.
    #[error("argument '{0}' is missing")]
    Missing(String),
}

/// The longest command that is read.
pub const COMMAND_BYTES_MAX: usize = 1 << 20;

impl Args {
    /// Reads a command as clients send it: strings that, put together, begin with one JSON object. What stands behind it is
    /// not read, as by Ceph: `rbd perf image iostat` sends a quotation mark there.
    pub fn parse<T: AsRef<[u8]>>(parts: &[T]) -> Result<Self, ArgsError> {
        let len: usize = parts.iter().map(|part| part.as_ref().len()).sum();
        if len > COMMAND_BYTES_MAX {
            return Err(ArgsError::NotAnObject(format!("{len} bytes is too long")));
        }
        let mut text = Vec::with_capacity(len);
        parts.iter().for_each(|part| text.extend_from_slice(part.as_ref()));
        match serde_json::Deserializer::from_slice(&text).into_iter().next() {
            Some(Ok(Value::Object(map))) => Ok(Self(map)),
            Some(Ok(_)) => Err(ArgsError::NotAnObject("another kind of value".into())),
            Some(Err(error)) => Err(ArgsError::NotAnObject(error.to_string())),
            None => Err(ArgsError::NotAnObject("it is empty".into())),
        }
    }

    /// The command's name.
    pub fn prefix(&self) -> Result<&str, ArgsError> {
        self.0.get("prefix").and_then(Value::as_str).ok_or(ArgsError::NoPrefix)
    }

    /// The command as it was sent, but for one argument.
    pub fn text_without(&self, name: &str) -> String {
        let mut shown = self.0.clone();
        shown.remove(name);
        Value::Object(shown).to_string()
    }

    /// The format asked for.
    pub fn format(&self) -> Result<Format, ArgsError> {
        match self.0.get("format").and_then(Value::as_str) {
            None | Some("" | "plain") => Ok(Format::Plain),
            Some("json") => Ok(Format::Json),
            Some("json-pretty") => Ok(Format::JsonPretty),
            Some(other) if CEPHS_FORMATS.contains(&other) => Err(ArgsError::Format(other.to_string())),
            // Ceph, too, takes a format that it does not know (`yaml` is one) for plain text.
            Some(_) => Ok(Format::Plain),
        }
    }

    /// An optional argument as text (numbers too: programs differ in what they quote).
    pub fn text(&self, name: &str) -> Result<Option<String>, ArgsError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(Value::Number(number)) => Ok(Some(number.to_string())),
            Some(Value::Bool(value)) => Ok(Some(value.to_string())),
            Some(other) => Err(wrong(name, "a string", other)),
        }
    }

    /// A required argument as text.
    pub fn required(&self, name: &str) -> Result<String, ArgsError> {
        self.text(name)?.ok_or_else(|| ArgsError::Missing(name.to_string()))
    }

    /// An optional whole number.
    pub fn int(&self, name: &str) -> Result<Option<i64>, ArgsError> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value @ Value::Number(number)) => {
                number.as_i64().map(Some).ok_or_else(|| wrong(name, "a whole number", value))
            }
            Some(value @ Value::String(text)) => {
                text.parse().map(Some).map_err(|_| wrong(name, "a whole number", value))
            }
            Some(other) => Err(wrong(name, "a whole number", other)),
        }
    }

    /// An optional number.
    pub fn float(&self, name: &str) -> Result<Option<f64>, ArgsError> {
        let number = match self.0.get(name) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.parse().ok(),
            Some(_) => None,
        };
        match number.filter(|n: &f64| n.is_finite()) {
            Some(number) => Ok(Some(number)),
            None => Err(wrong(name, "a number", self.0.get(name).unwrap_or(&Value::Null))),
        }
    }

    /// Whether a flag is set. Releases send true, the flag's own name as text, or a list of it.
    pub fn flag(&self, name: &str) -> bool {
        match self.0.get(name) {
            Some(Value::Bool(value)) => *value,
            Some(Value::String(text)) => !text.is_empty() && text != "false",
            Some(Value::Array(items)) => !items.is_empty(),
            _ => false,
        }
    }

    /// An argument that may be given several times; a single value is a list of one.
    pub fn list(&self, name: &str) -> Result<Vec<String>, ArgsError> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text.clone()),
                    Value::Number(number) => Ok(number.to_string()),
                    other => Err(wrong(name, "a list of strings", other)),
                })
                .collect(),
            _ => Ok(self.text(name)?.into_iter().collect()),
        }
    }

    /// An OSD's number, given bare or as `osd.N`.
    pub fn osd(&self, name: &str) -> Result<Option<i32>, ArgsError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match parse_osd(&text) {
            Some(id) => Ok(Some(id)),
            None => Err(wrong(name, "an OSD's number", &Value::String(text))),
        }
    }
}

/// An OSD's number out of `N` or `osd.N`.
pub fn parse_osd(text: &str) -> Option<i32> {
    text.strip_prefix("osd.").unwrap_or(text).parse().ok().filter(|id| *id >= 0)
}

fn wrong(name: &str, wanted: &'static str, got: &Value) -> ArgsError {
    let got: String = got.to_string().chars().take(100).collect();
    ArgsError::Type { name: name.to_string(), wanted, got }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Args {
        Args::parse(&[text.to_string()]).unwrap()
    }

    #[test]
    fn a_command_split_over_strings_is_one_object() {
        let parsed = Args::parse(&["{\"prefix\": \"osd", " tree\"}"]).unwrap();
        assert_eq!(parsed.prefix(), Ok("osd tree"));
        assert_eq!(parsed.format(), Ok(Format::Plain));
    }

    #[test]
    fn arguments_are_read_in_every_form_that_programs_send() {
        let a = args(
            r#"{"prefix":"x","n":"7","m":8,"f":"0.5","b":"--yes","l":["osd.1",2],"s":"one","o":"osd.3","format":"json"}"#,
        );
        assert_eq!((a.int("n"), a.int("m"), a.int("none")), (Ok(Some(7)), Ok(Some(8)), Ok(None)));
        assert_eq!(a.float("f"), Ok(Some(0.5)));
        assert!(a.flag("b") && !a.flag("none"));
        assert_eq!(a.list("l"), Ok(vec!["osd.1".to_string(), "2".to_string()]));
        assert_eq!(a.list("s"), Ok(vec!["one".to_string()]));
        assert_eq!(a.osd("o"), Ok(Some(3)));
        assert!(a.osd("s").is_err() && a.int("s").is_err());
        assert_eq!(a.format(), Ok(Format::Json));
    }

    #[test]
    fn what_is_no_command_is_refused_with_the_reason() {
        assert!(matches!(Args::parse(&["[1]"]), Err(ArgsError::NotAnObject(_))));
        assert!(matches!(Args::parse(&["{".repeat(100_000)]), Err(ArgsError::NotAnObject(_))));
        assert!(matches!(Args::parse(&["[".repeat(100_000)]), Err(ArgsError::NotAnObject(_))));
        assert_eq!(args("{}").prefix(), Err(ArgsError::NoPrefix));
        assert!(matches!(args(r#"{"format":"xml"}"#).format(), Err(ArgsError::Format(_))));
    }
}
