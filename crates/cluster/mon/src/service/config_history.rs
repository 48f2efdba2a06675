//! The history of the stored options: each change with its time, so that it can be looked up and taken back. Version 1 is
//! the empty beginning, as in Ceph.

use encoding::{Decode, DecodeError, Decoder, Encode, Encoder};
use types::UTime;

use crate::state::{Batch, Key, State, StateKey, versions};

const SERVICE: &str = "config-history";
/// Changes that are kept.
const KEPT: u64 = 100;

/// What was done to one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionChange {
    pub section: String,
    pub option: String,
    /// The value before and after; `None` where there was none.
    pub before: Option<String>,
    pub after: Option<String>,
}

/// A change of the stored options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigChange {
    pub stamp: UTime,
    /// What made it, where that is not a single command for an option.
    pub name: String,
    pub options: Vec<OptionChange>,
}

impl Encode for OptionChange {
    fn encode(&self, e: &mut Encoder) {
        e.put(self.section.as_str()).put(self.option.as_str()).put(&self.before).put(&self.after);
    }
}
impl Decode for OptionChange {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        Ok(Self { section: d.get()?, option: d.get()?, before: d.get()?, after: d.get()? })
    }
}

impl Encode for ConfigChange {
    fn encode(&self, e: &mut Encoder) {
        e.versioned(1, 1, |e| {
            e.put(&self.stamp).put(self.name.as_str()).put(&self.options);
        });
    }
}
impl Decode for ConfigChange {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        d.versioned(1, "stored options' change", |d, _| {
            Ok(Self { stamp: d.get()?, name: d.get()?, options: d.get()? })
        })
    }
}

/// The changes that are kept, by version, the newest first. A record that does not decode counts as missing.
pub fn newest_first(state: &State) -> impl Iterator<Item = (u64, ConfigChange)> + '_ {
    let read = |(version, bytes)| Some((version, ConfigChange::from_bytes(bytes).ok()?));
    versions(state, SERVICE, 2).rev().filter_map(read)
}

/// The version of the last change; 1 if there was none.
pub fn last(state: &State) -> u64 {
    versions(state, SERVICE, 2).next_back().map_or(1, |(version, _)| version)
}

/// Adds a change to a batch, which may hold others.
pub fn add(state: &State, change: &ConfigChange, batch: &mut Batch) {
    let pending = batch.0.keys().filter(|key| key.service == SERVICE).filter_map(|key| match key.key {
        Key::Version(version) => Some(version),
        Key::Name(_) => None,
    });
    let version = pending.fold(last(state), u64::max) + 1;
    batch.put(StateKey::version(SERVICE, version), change.to_bytes(0));
    for (old, _) in versions(state, SERVICE, 2).take_while(|(old, _)| old + KEPT <= version) {
        batch.delete(StateKey::version(SERVICE, old));
    }
}
