//! The `cross` section of a study file: parameters that change together, in all combinations or in chosen ones.

use crate::fields::{Fields, duplicate, list, map, text, unknown};
use crate::model::Variant;
use crate::node::{Entry, Node};
use crate::problem::{At, Conflict, ProblemKind, Problems};
use crate::settings::same_option;
use crate::variants::Parameter;

/// The value that stands for a group in a chosen combination.
const GROUP: &str = "group";

/// Reads the section: one variant for each combination. More than `limit` are noted and not made.
pub(crate) fn read(node: &Node, parameters: &[Parameter], limit: u64, p: &mut Problems) -> Vec<Variant> {
    let mut made = Vec::new();
    for item in list(node, "cross", p).unwrap_or_default() {
        let Some(fields) = Fields::of(item, "a cross", &["full", "chosen"], p) else { continue };
        let Some(entry) = fields.one_of(&["full", "chosen"], p) else { continue };
        match entry.key.as_str() {
            "full" => full(entry, parameters, limit, p, &mut made),
            _ => chosen(entry, parameters, p, &mut made),
        }
    }
    made
}

/// Every variant of each parameter with every one of the others; the last parameter changes fastest.
fn full(entry: &Entry, parameters: &[Parameter], limit: u64, p: &mut Problems, made: &mut Vec<Variant>) {
    let mut factors: Vec<&Parameter> = Vec::new();
    let nodes = list(&entry.node, "full", p).unwrap_or_default();
    for node in nodes {
        let Some(name) = text(node, "full", p) else { continue };
        let Some(parameter) = known(name, node.at, parameters, p) else { continue };
        if factors.iter().any(|f| f.name == parameter.name) {
            duplicate("parameter", name, entry.at, node.at, p);
            continue;
        }
        factors.push(parameter);
    }
    if !two_or_more(nodes.len(), entry.node.at, p) || factors.len() < nodes.len() {
        return;
    }
    let count = factors.iter().fold(1u64, |n, f| n.saturating_mul(f.variants.len() as u64));
    if count > limit {
        p.add(entry.node.at, ProblemKind::TooMany { what: "combinations", count, limit });
        return;
    }
    let mut combinations: Vec<Vec<&Variant>> = vec![Vec::new()];
    for factor in factors {
        let mut longer = Vec::with_capacity(combinations.len() * factor.variants.len());
        for combination in &combinations {
            for (_, variant) in &factor.variants {
                longer.push(combination.iter().copied().chain([variant]).collect());
            }
        }
        combinations = longer;
    }
    made.extend(combinations.iter().map(|parts| joined(parts, entry.at, p)));
}

/// The combinations that are listed, each a map from parameter to value (`group` for a group).
fn chosen(entry: &Entry, parameters: &[Parameter], p: &mut Problems, made: &mut Vec<Variant>) {
    for node in list(&entry.node, "chosen", p).unwrap_or_default() {
        let entries = map(node, "a chosen combination", p).unwrap_or_default();
        let parts: Vec<&Variant> = entries.iter().filter_map(|e| part(e, parameters, p)).collect();
        if !entries.is_empty() && two_or_more(entries.len(), node.at, p) && parts.len() == entries.len() {
            made.push(joined(&parts, node.at, p));
        }
    }
}

/// The variant that an entry of a chosen combination names.
fn part<'a>(entry: &Entry, parameters: &'a [Parameter], p: &mut Problems) -> Option<&'a Variant> {
    let parameter = known(&entry.key, entry.at, parameters, p)?;
    let value = text(&entry.node, &entry.key, p)?;
    let wanted = if parameter.group { GROUP } else { value };
    let values: Vec<&str> =
        parameter.variants.iter().map(|(v, _)| if parameter.group { GROUP } else { v.as_str() }).collect();
    match parameter.variants.iter().zip(&values).find(|(_, v)| **v == wanted && wanted == value) {
        Some(((_, variant), _)) => Some(variant),
        None => {
            unknown("value in a cross", value, &values, entry.node.at, p);
            None
        }
    }
}

fn known<'a>(name: &str, at: At, parameters: &'a [Parameter], p: &mut Problems) -> Option<&'a Parameter> {
    let found = parameters.iter().find(|q| q.name == name);
    if found.is_none() {
        let names: Vec<&str> = parameters.iter().map(|q| q.name.as_str()).collect();
        unknown("parameter", name, &names, at, p);
    }
    found
}

/// A cross of one is what `parametric` has already.
fn two_or_more(count: usize, at: At, p: &mut Problems) -> bool {
    if count == 1 {
        p.add(at, ProblemKind::Shape { place: "a cross".into(), want: "of two parameters or more" });
    }
    count > 1
}

/// The parts as one variant; no two of them set the same option.
fn joined(parts: &[&Variant], at: At, p: &mut Problems) -> Variant {
    let words = |of: fn(&Variant) -> &str| parts.iter().map(|v| of(v)).collect::<Vec<_>>().join("+");
    let mut settings: Vec<(&Variant, &crate::model::Setting)> = Vec::new();
    for part in parts {
        for setting in &part.settings {
            if let Some((other, _)) = settings.iter().find(|(_, s)| same_option(s, setting)) {
                let (section, option) = (setting.section.clone(), setting.name.clone());
                let (first, second) = (other.name.clone(), part.name.clone());
                p.add(at, Conflict::CrossSetsTwice { first, second, section, option });
            }
            settings.push((part, setting));
        }
    }
    Variant {
        name: words(|v| &v.name),
        parameter: words(|v| &v.parameter),
        settings: settings.into_iter().map(|(_, s)| s.clone()).collect(),
        line: at.line,
    }
}
