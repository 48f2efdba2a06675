//! The reader of ceph.conf.

use crate::normalize;

/// A line of a ceph.conf that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}: '{text}'")]
pub struct ConfError {
    line: usize,
    what: &'static str,
    text: String,
}

/// A parsed ceph.conf: sections with their settings in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfFile {
    settings: Vec<(String, String, String)>,
}

impl ConfFile {
    /// Reads a text: `[section]` lines, `name = value` lines (spaces, dashes and underscores in names are one),
    /// `#` and `;` comments, a backslash at the end continues a line.
    pub fn parse(text: &str) -> Result<Self, ConfError> {
        let joined = text.replace("\\\n", " ");
        let mut out = Self::default();
        let mut section = "global".to_owned();
        for (at, line) in joined.lines().enumerate() {
            let error = |what| ConfError { line: at + 1, what, text: line.trim().into() };
            let line = strip_comment(line).trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[') {
                section =
                    name.strip_suffix(']').ok_or_else(|| error("a section without ']'"))?.trim().to_owned();
                continue;
            }
            let (name, value) =
                line.split_once('=').ok_or_else(|| error("neither a section nor name = value"))?;
            let value = value.trim();
            let unquoted = value.strip_prefix('"').and_then(|v| v.strip_suffix('"')).unwrap_or(value);
            out.settings.push((section.clone(), normalize(name), unquoted.to_owned()));
        }
        Ok(out)
    }

    /// All settings in order: section, name, value.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.settings.iter().map(|(section, name, value)| (section.as_str(), name.as_str(), value.as_str()))
    }

    /// The settings that apply to a daemon, later ones winning: its sections from the widest to its own, as
    /// `["global", "osd", "osd.0"]`.
    pub fn for_sections<'a>(&'a self, sections: &'a [&'a str]) -> impl Iterator<Item = (&'a str, &'a str)> {
        sections.iter().flat_map(move |wanted| {
            let of = self.settings.iter().filter(move |(section, ..)| section == wanted);
            of.map(|(_, name, value)| (name.as_str(), value.as_str()))
        })
    }
}

/// The line up to a comment sign outside quotes.
fn strip_comment(line: &str) -> &str {
    let mut quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => quoted = !quoted,
            '#' | ';' if !quoted => return &line[..at],
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_apply_from_the_widest_to_the_narrowest() {
        let text =
            "; c\nfsid = x # y\n[osd]\nosd max-object size = \\\n 5\n[osd.1]\nosd_max_object_size = \"6\"\n";
        let conf = ConfFile::parse(text).unwrap();
        let of = |s: &[&str]| -> Vec<(String, String)> {
            conf.for_sections(s).map(|(n, v)| (n.into(), v.into())).collect()
        };
        assert_eq!(of(&["global"]), [("fsid".into(), "x".into())]);
        assert_eq!(of(&["osd", "osd.1"])[1], ("osd_max_object_size".into(), "6".into()));
        assert_eq!(of(&["osd"])[0].1, "5");
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = ConfFile::parse("[global]\nwhat\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: neither a section nor name = value: 'what'");
    }
}
