//! Variants of value lists that set the same: `1` and `01`, `4K` and `4096` of a size, one option in two spellings. They
//! would be measured as two and told apart by chance alone. Groups may repeat each other: a study of what differs in
//! nothing is made of such.

use std::collections::BTreeMap;

use study::{Setting, Study, System, Target, Variant};

use crate::table::Release;
use crate::values;

/// A variant that repeats an earlier one.
pub(crate) struct Repeat<'a> {
    pub(crate) first: &'a Variant,
    pub(crate) again: &'a Variant,
    pub(crate) setting: &'a Setting,
    /// The systems that read the value.
    pub(crate) systems: Vec<String>,
}

/// Every variant whose value is, on all systems that know the option, that of an earlier one.
pub(crate) fn find(study: &Study) -> Vec<Repeat<'_>> {
    let mut first: BTreeMap<(String, Vec<Option<String>>), &Variant> = BTreeMap::new();
    let mut found = Vec::new();
    for again in study.variants.iter().filter(|v| v.name != v.parameter) {
        let [setting] = again.settings.as_slice() else { continue };
        let name = options::normalize(&setting.name);
        let values: Vec<Option<String>> =
            study.systems.iter().map(|system| value(system, &name, &setting.value)).collect();
        let knows = study.systems.iter().zip(&values).filter(|(_, value)| value.is_some());
        let systems: Vec<String> = knows.map(|(system, _)| system.name.clone()).collect();
        if systems.is_empty() {
            continue;
        }
        let key = (format!("{}/{name}", setting.section), values);
        match first.get(&key) {
            Some(&first) => found.push(Repeat { first, again, setting, systems }),
            None => {
                first.insert(key, again);
            }
        }
    }
    found
}

/// A value as a system reads it; none where it doesn't know the option, or can't read the value.
fn value(system: &System, name: &str, text: &str) -> Option<String> {
    if matches!(system.target, Target::Loligo { .. }) && options::lookup(name).is_some() {
        return options::canonical(name, text).ok();
    }
    values::canonical(Release::on(&system.target)?.table().get(name)?, text)
}
