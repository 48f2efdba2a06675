//! The percentages: one table a variant over loads and systems, one a load over variants and systems.

use std::collections::BTreeMap;

use crate::charts::percentages::Percentages;
use crate::input::{Input, JudgedVariant};

/// Every judgement by (system, workload, phase, variant).
pub struct Fields<'a>(BTreeMap<(&'a str, &'a str, &'a str, &'a str), &'a JudgedVariant>);

impl<'a> Fields<'a> {
    /// Sorts them.
    pub fn of(input: &'a Input) -> Self {
        let cells = input.judged.cells.iter();
        let fields = cells.flat_map(|c| {
            let key = move |v: &'a JudgedVariant| {
                (c.system.as_str(), c.workload.as_str(), c.phase.as_str(), v.name.as_str())
            };
            c.variants.iter().map(move |v| (key(v), v))
        });
        Self(fields.collect())
    }

    /// One of them.
    pub fn get(&self, system: &str, load: (&str, &str), variant: &str) -> Option<&'a JudgedVariant> {
        self.0.get(&(system, load.0, load.1, variant)).copied()
    }
}

/// A variant over loads (rows) and systems (columns).
pub fn of_variant(input: &Input, fields: &Fields, variant: &str) -> Option<Percentages> {
    let rows: Vec<_> = input
        .outline
        .loads()
        .map(|load| {
            let row = input.outline.systems.iter().map(|s| fields.get(s, load, variant).cloned());
            (format!("{}, {}", load.0, load.1), row.collect::<Vec<_>>())
        })
        .filter(|(_, row)| row.iter().any(Option::is_some))
        .collect();
    table(input, variant.to_string(), rows)
}

/// A load over variants (rows) and systems (columns).
pub fn of_load(input: &Input, fields: &Fields, load: (&str, &str)) -> Option<Percentages> {
    let variants = input.outline.variants.iter().skip(1);
    let rows: Vec<_> = variants
        .map(|v| {
            let row = input.outline.systems.iter().map(|s| fields.get(s, load, &v.name).cloned());
            (v.name.clone(), row.collect::<Vec<_>>())
        })
        .filter(|(_, row)| row.iter().any(Option::is_some))
        .collect();
    table(input, format!("{}, {}", load.0, load.1), rows)
}

fn table(
    input: &Input,
    title: String,
    rows: Vec<(String, Vec<Option<JudgedVariant>>)>,
) -> Option<Percentages> {
    if rows.is_empty() {
        return None;
    }
    let modelled = |system: &str| {
        // All trials of a system have the same devices.
        input.records.iter().find(|r| r.parameters.system == system).is_some_and(|r| r.parameters.modelled)
    };
    let columns = input.outline.systems.iter();
    Some(Percentages {
        title: format!("{title}: against the default"),
        below: input.judged.rule_label.clone(),
        columns: columns.map(|s| if modelled(s) { format!("{s} (modelled)") } else { s.clone() }).collect(),
        rows,
    })
}
