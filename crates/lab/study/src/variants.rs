//! The `parametric` section of a study file: options that change one at a time, or in named groups.

use crate::fields::{duplicate, list, map};
use crate::model::{Setting, Variant};
use crate::node::{Entry, Node, Value};
use crate::problem::{At, Conflict, Problems};
use crate::settings;
use crate::words::check_name;

/// The name of the variant that changes nothing.
pub(crate) const DEFAULT: &str = "default";

/// A parameter or group of the file, as crosses refer to it.
pub(crate) struct Parameter {
    pub(crate) name: String,
    /// Whether it is a group: it has one variant and no value.
    pub(crate) group: bool,
    /// Its variants, each with the value as written (empty for a group).
    pub(crate) variants: Vec<(String, Variant)>,
}

/// Reads the section.
pub(crate) fn read(node: &Node, p: &mut Problems) -> Vec<Parameter> {
    let entries = map(node, "parametric", p).unwrap_or_default();
    entries.iter().filter_map(|entry| parameter(entry, p)).collect()
}

/// The variants of all parameters, after the one that changes nothing. Names that are there twice are noted.
pub(crate) fn all(
    parameters: &[Parameter],
    crossed: Vec<Variant>,
    line: u32,
    p: &mut Problems,
) -> Vec<Variant> {
    let default = Variant { name: DEFAULT.into(), parameter: DEFAULT.into(), settings: Vec::new(), line };
    let mut all = vec![default];
    let mut first = std::collections::BTreeMap::new();
    let alone = parameters.iter().flat_map(|q| q.variants.iter().map(|(_, v)| v.clone()));
    for variant in alone.chain(crossed) {
        let at = At { line: variant.line, column: 1 };
        match first.get(&variant.name) {
            Some(earlier) => duplicate("variant", &variant.name, *earlier, at, p),
            None => {
                first.insert(variant.name.clone(), at);
            }
        }
        all.push(variant);
    }
    all
}

fn parameter(entry: &Entry, p: &mut Problems) -> Option<Parameter> {
    let name = entry.key.as_str();
    if name == DEFAULT {
        p.add(entry.at, Conflict::NameOfDefault { name: name.to_owned() });
        return None;
    }
    if settings::is_section(name) {
        p.add(entry.at, Conflict::NameOfSection { name: name.to_owned() });
        return None;
    }
    let group = matches!(entry.node.value, Value::Map(_));
    let variants = if group {
        check_name("group", name, entry.at, p);
        let settings = settings::read(&entry.node, &format!("the group '{name}'"), p);
        vec![(String::new(), variant(name.to_owned(), entry, settings))]
    } else {
        let (section, option) = settings::address(name, entry.at, p)?;
        let values = values(entry, p);
        let mut variants = Vec::new();
        for node in values {
            let Some(setting) = settings::setting(section, option, entry.at, node, p) else { continue };
            let value = setting.value.clone();
            if variants.iter().any(|(v, _)| *v == value) {
                duplicate("value", &value, entry.at, node.at, p);
                continue;
            }
            variants.push((value.clone(), variant(format!("{name}_{value}"), entry, vec![setting])));
        }
        variants
    };
    Some(Parameter { name: name.to_owned(), group, variants })
}

/// The elements of a list, or a lone value.
fn values<'a>(entry: &'a Entry, p: &mut Problems) -> Vec<&'a Node> {
    match &entry.node.value {
        Value::List(_) => list(&entry.node, &format!("the list of '{}'", entry.key), p)
            .unwrap_or_default()
            .iter()
            .map(AsRef::as_ref)
            .collect(),
        _ => vec![&entry.node],
    }
}

fn variant(name: String, entry: &Entry, settings: Vec<Setting>) -> Variant {
    Variant { name, parameter: entry.key.clone(), settings, line: entry.at.line }
}
