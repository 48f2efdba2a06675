//! The stored configuration: options by section, and what of them a daemon or client gets.

use std::collections::BTreeMap;

use types::EntityId;

use crate::state::{Batch, State, StateKey, names};

const SERVICE: &str = "config";

/// The committed configuration: section (`global`, `osd`, `osd.0`) → option → value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigStore {
    sections: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whether `who` is a section: `global`, TYPE or TYPE.ID.
pub fn is_section(who: &str) -> bool {
    const TYPES: [&str; 5] = ["mon", "mgr", "osd", "mds", "client"];
    let kind = who.split_once('.').map_or(who, |(kind, _)| kind);
    let id_fits = who.split_once('.').is_none_or(|(_, id)| !id.is_empty() && !id.contains('/'));
    who == "global" || (TYPES.contains(&kind) && id_fits)
}

/// The sections that apply to an entity, the most general first.
pub fn sections_of(entity: &EntityId) -> [String; 3] {
    let kind = entity.kind.as_str().to_string();
    ["global".to_string(), kind.clone(), format!("{kind}.{}", entity.id)]
}

impl ConfigStore {
    /// Reads the stored options.
    pub fn open(state: &State) -> Self {
        let mut store = Self::default();
        for (name, value) in names(state, SERVICE) {
            if let (Some((section, option)), Ok(value)) = (name.rsplit_once('/'), std::str::from_utf8(value))
            {
                let options = store.sections.entry(section.to_string()).or_default();
                options.insert(option.to_string(), value.to_string());
            }
        }
        store
    }

    /// Adds a set option to a batch.
    pub fn set(section: &str, option: &str, value: &str, batch: &mut Batch) {
        batch.put(StateKey::name(SERVICE, &format!("{section}/{option}")), value.as_bytes());
    }

    /// Adds a removed option to a batch.
    pub fn remove(section: &str, option: &str, batch: &mut Batch) {
        batch.delete(StateKey::name(SERVICE, &format!("{section}/{option}")));
    }

    /// Everything: section, option, value, in the order that `config dump` shows.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.sections.iter().flat_map(|(section, options)| {
            options.iter().map(move |(option, value)| (section.as_str(), option.as_str(), value.as_str()))
        })
    }

    /// The options that apply to an entity: option → (section it comes from, value).
    pub fn of(&self, entity: &EntityId) -> BTreeMap<&str, (&str, &str)> {
        let mut out = BTreeMap::new();
        for section in sections_of(entity) {
            if let Some((section, options)) = self.sections.get_key_value(&section) {
                out.extend(options.iter().map(|(o, v)| (o.as_str(), (section.as_str(), v.as_str()))));
            }
        }
        out
    }
}

impl ConfigStore {
    /// The options that apply to the process that is both the monitor and the manager of this name. Of the sections `mgr` and
    /// `mgr.NAME` only options called `mgr_…` count: all others are read by the monitor. Between sections that are equally
    /// special the manager's counts.
    pub fn of_monitor_and_manager(&self, name: &str) -> BTreeMap<&str, &str> {
        let own = [format!("mon.{name}"), format!("mgr.{name}")];
        let mut out = BTreeMap::new();
        for section in ["global", "mon", "mgr"].into_iter().chain(own.iter().map(String::as_str)) {
            let is_managers = section.starts_with("mgr");
            let options = self.sections.get(section).into_iter().flatten();
            let counts = options.filter(|(option, _)| !is_managers || option.starts_with("mgr_"));
            out.extend(counts.map(|(option, value)| (option.as_str(), value.as_str())));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_special_section_wins() {
        let (mut state, mut batch) = (State::new(), Batch::default());
        ConfigStore::set("global", "x", "1", &mut batch);
        ConfigStore::set("osd", "x", "2", &mut batch);
        ConfigStore::set("osd.1", "x", "3", &mut batch);
        ConfigStore::set("mon", "y", "4", &mut batch);
        batch.apply_to(&mut state);
        let store = ConfigStore::open(&state);
        let of = |name: &str| store.of(&name.parse().unwrap()).get("x").map(|(_, v)| v.to_string());
        assert_eq!(of("client.admin").as_deref(), Some("1"));
        assert_eq!(of("osd.0").as_deref(), Some("2"));
        assert_eq!(of("osd.1").as_deref(), Some("3"));
        assert_eq!(store.all().count(), 4);
        let mut batch = Batch::default();
        ConfigStore::remove("osd.1", "x", &mut batch);
        batch.apply_to(&mut state);
        assert_eq!(ConfigStore::open(&state).all().count(), 3);
    }

    #[test]
    fn the_process_that_is_monitor_and_manager_goes_by_the_most_special_section_of_both() {
        let order = ["global", "mon", "mgr", "mon.a", "mgr.a"];
        for last in 0..order.len() {
            let (mut state, mut batch) = (State::new(), Batch::default());
            for (n, section) in order[..=last].iter().enumerate() {
                ConfigStore::set(section, "mgr_x", &n.to_string(), &mut batch);
                ConfigStore::set(section, "y", section, &mut batch);
            }
            ConfigStore::set("mgr.b", "mgr_x", "another's", &mut batch);
            batch.apply_to(&mut state);
            let store = ConfigStore::open(&state);
            let of = store.of_monitor_and_manager("a");
            let of_monitor = order[..=last].iter().rfind(|section| !section.starts_with("mgr")).unwrap();
            assert_eq!((of["mgr_x"], of["y"]), (last.to_string().as_str(), *of_monitor));
        }
    }

    #[test]
    fn sections_are_global_types_and_daemons() {
        for good in ["global", "osd", "osd.0", "client.admin", "mon.a"] {
            assert!(is_section(good), "{good}");
        }
        for bad in ["", "osdx", "osd.", "host", "osd/class:ssd", "global.x"] {
            assert!(!is_section(bad), "{bad}");
        }
    }
}
