//! The monitor's durable state: (service, key) → value, and the batches that change it.

use std::collections::BTreeMap;
use std::fmt;

/// A key within a service: a version (incrementals, full maps, log entries) or a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A version or epoch.
    Version(u64),
    Name(String),
}

/// A service and a key within it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateKey {
    /// The service (`osdmap`, `config`, …).
    pub service: String,
    pub key: Key,
}

impl StateKey {
    /// The key of a version of `service`.
    pub fn version(service: &str, version: u64) -> Self {
        Self { service: service.to_string(), key: Key::Version(version) }
    }

    /// The key of a name of `service`.
    pub fn name(service: &str, name: &str) -> Self {
        Self { service: service.to_string(), key: Key::Name(name.to_string()) }
    }
}

impl fmt::Display for StateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Key::Version(version) => write!(f, "{}/{version}", self.service),
            Key::Name(name) => write!(f, "{}/{name}", self.service),
        }
    }
}

/// Everything the monitor has made durable.
pub type State = BTreeMap<StateKey, Vec<u8>>;

/// Changes that become durable together or not at all: `Some` puts a value, `None` deletes the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(pub BTreeMap<StateKey, Option<Vec<u8>>>);

impl Batch {
    /// Sets a value.
    pub fn put(&mut self, key: StateKey, value: impl Into<Vec<u8>>) {
        self.0.insert(key, Some(value.into()));
    }

    pub fn delete(&mut self, key: StateKey) {
        self.0.insert(key, None);
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes the changes in `state`.
    pub fn apply_to(&self, state: &mut State) {
        for (key, value) in &self.0 {
            match value {
                Some(value) => drop(state.insert(key.clone(), value.clone())),
                None => drop(state.remove(key)),
            }
        }
    }
}

/// The values of a service's names, in order.
pub fn names<'a>(state: &'a State, service: &'a str) -> impl Iterator<Item = (&'a str, &'a [u8])> {
    state.range(StateKey::name(service, "")..).take_while(move |(k, _)| k.service == service).filter_map(
        |(k, v)| match &k.key {
            Key::Name(name) => Some((name.as_str(), v.as_slice())),
            Key::Version(_) => None,
        },
    )
}

/// The versions of a service from `from` on, in order.
pub fn versions<'a>(
    state: &'a State,
    service: &'a str,
    from: u64,
) -> impl DoubleEndedIterator<Item = (u64, &'a [u8])> {
    let range = StateKey::version(service, from)..=StateKey::version(service, u64::MAX);
    state.range(range).filter_map(|(k, v)| match k.key {
        Key::Version(version) => Some((version, v.as_slice())),
        Key::Name(_) => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_versions_of_a_service_are_kept_apart() {
        let mut state = State::new();
        let mut batch = Batch::default();
        batch.put(StateKey::version("a", 2), [2]);
        batch.put(StateKey::version("a", 10), [10]);
        batch.put(StateKey::name("a", "x"), [0]);
        batch.put(StateKey::name("b", "y"), [0]);
        batch.apply_to(&mut state);
        assert_eq!(versions(&state, "a", 0).map(|(v, _)| v).collect::<Vec<_>>(), [2, 10]);
        assert_eq!(versions(&state, "a", 3).map(|(v, _)| v).collect::<Vec<_>>(), [10]);
        assert_eq!(names(&state, "a").map(|(n, _)| n).collect::<Vec<_>>(), ["x"]);
        let mut batch = Batch::default();
        batch.delete(StateKey::version("a", 2));
        batch.apply_to(&mut state);
        assert_eq!(versions(&state, "a", 0).count(), 1);
    }
}
