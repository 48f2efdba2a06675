//! Stranded changes: those of keys whose leaf of the tree can't be read.
//!
//! A change need not search for what it replaces, so that it may be acknowledged although its leaf has gone bad. A checkpoint can't
//! merge it then. It stays among the changes above the tree, where everything that is read sees it, and a table of the tree's own
//! notes it, so that the log need not. Each checkpoint tries again, and so does an opening: with the leaf back, all are merged.

use std::collections::BTreeSet;
use std::ops::Bound;

use blockdev::DeviceQueue;
use buffer::Piece;
use store::StoreError;

use crate::layer::{CHANGE_MEMORY, Layer, LayerKey};
use crate::page::Key;
use crate::records::{key, table};
use crate::stop::{Attempt, damaged};
use crate::store::BlockStore;
use crate::tree::{Gap, Tables};

/// Of the memory for changes, the part that stranded ones may take: the store stops where there are more. Those that are noted already
/// may stay, however little memory there is later.
const SHARE: u64 = 4;

/// The first key of the table of notes, which is the tree's last.
pub const NOTES: [u8; 1] = [table::STRANDED];

/// Note of a change: behind the table its key. The value begins with 0 where the change removes the key, else with 1.
fn note(key_changed: &[u8], change: Option<&Piece>) -> (Key, Piece) {
    let mut value = Vec::with_capacity(1 + change.map_or(0, |value| value.len()));
    value.push(u8::from(change.is_some()));
    change.iter().for_each(|bytes| value.extend_from_slice(bytes));
    (key(table::STRANDED, key_changed), value.into())
}

/// The change that a note is of.
///
/// # Errors
/// It is none.
fn noted(key: &[u8], value: &Piece) -> Attempt<(Key, Option<Piece>)> {
    let change = match value.first() {
        Some(0) if value.len() == 1 => None,
        Some(1) => Some(value.slice(1..value.len())),
        _ => return Err(damaged("a note of a stranded change")),
    };
    Ok((Key::from_slice(&key[NOTES.len()..]), change))
}

/// The changes of a layer from `low` on and before `high`, and before the notes.
fn within<'a>(
    layer: Option<&'a Layer>,
    low: &'a [u8],
    high: Option<&'a [u8]>,
) -> impl Iterator<Item = (&'a LayerKey, &'a Option<Piece>)> {
    let end = high.map_or(&NOTES[..], |high| high.min(&NOTES));
    let range = (Bound::Included(low), Bound::Excluded(end));
    layer.filter(|_| low < end).into_iter().flat_map(move |layer| layer.range::<[u8], _>(range))
}

/// What a checkpoint that met leaves which can't be read goes on with.
#[derive(Debug)]
pub struct Rest {
    /// The changes that it has not merged yet, and the notes.
    pub changes: Layer,
    /// The keys of all stranded changes.
    pub keys: BTreeSet<Key>,
    /// Memory that these take with their notes' values, bytes.
    pub bytes: u64,
}

fn memory_of(key: &[u8], value: &[u8]) -> u64 {
    CHANGE_MEMORY + (key.len() + value.len()) as u64
}

impl Tables {
    /// What a checkpoint goes on with that has merged the frozen changes before `at`, but for those in gaps. All notes are written
    /// each time, and those that are no longer needed are removed. `bytes_max`: memory that the stranded changes may take.
    ///
    /// # Errors
    /// There are more stranded changes than that: why the first gap can't be read.
    pub fn strand(&self, gaps: &[(Gap, StoreError)], at: &[u8], bytes_max: u64) -> Result<Rest, StoreError> {
        let mut rest = Rest { changes: Layer::new(), keys: BTreeSet::new(), bytes: 0 };
        for (gap, error) in gaps {
            for (key, change) in within(self.frozen.as_ref(), &gap.low, gap.high.as_deref()) {
                let (note, value) = note(key, change.as_ref());
                rest.bytes += memory_of(&note, &value);
                rest.changes.insert(note.into(), Some(value));
                rest.keys.insert(key.key().clone());
            }
            if rest.bytes > bytes_max {
                return Err(match error {
                    StoreError::Damaged(what) => StoreError::Damaged(format!(
                        "{what}; the changes that belong to such pages take over {bytes_max} bytes"
                    )),
                    other => other.clone(),
                });
            }
        }
        for over in self.stranded.difference(&rest.keys) {
            rest.changes.insert(key(table::STRANDED, over).into(), None);
        }
        let others = within(self.frozen.as_ref(), at, None);
        rest.changes.extend(others.map(|(key, change)| (key.clone(), change.clone())));
        Ok(rest)
    }

    /// The frozen changes are to go, but for the stranded ones: these are changes like others again, where none is newer.
    pub fn keep_stranded(&mut self, keys: BTreeSet<Key>, bytes: u64) {
        for key in keys.iter().filter(|key| !self.active().contains_key(*key)).cloned().collect::<Vec<_>>() {
            if let Some(change) = self.frozen.as_ref().and_then(|frozen| frozen.get(&key)).cloned() {
                self.add(key.into(), change);
            }
        }
        (self.stranded, self.stranded_bytes) = (keys, bytes);
    }

    /// Loads what is stranded, before anything that is newer.
    ///
    /// # Errors
    /// Pages have to be read first, or can't be read.
    pub fn load_stranded(&mut self) -> Attempt<()> {
        let notes = self.range(&Layer::new(), &NOTES, None)?;
        let changes: Vec<_> = notes.iter().map(|(key, value)| noted(key, value)).collect::<Attempt<_>>()?;
        self.stranded = changes.iter().map(|(key, _)| key.clone()).collect();
        self.stranded_bytes = notes.iter().map(|(key, value)| memory_of(key, value)).sum();
        changes.into_iter().for_each(|(key, change)| self.add(key.into(), change));
        Ok(())
    }
}

impl<Q: DeviceQueue> BlockStore<Q> {
    /// Changes that no checkpoint could bring into the tree, since the pages that they belong to can't be read.
    pub fn stranded_changes(&self) -> usize {
        self.tables.stranded.len()
    }

    /// Bytes of stranded changes at most. What is noted already was taken with more memory: it ends no store that has less now.
    pub(crate) fn stranded_bytes_max(&self) -> u64 {
        (self.options.changes_bytes_max / SHARE).max(self.tables.stranded_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_a_change_does() {
        for change in [None, Some(Piece::from(Vec::new())), Some(Piece::from(vec![0, 1, 2]))] {
            let (key, value) = note(b"key", change.as_ref());
            assert_eq!(noted(&key, &value), Ok((Key::from_slice(b"key"), change)));
        }
        for bad in [&[][..], &[0, 0], &[2]] {
            assert!(noted(b"~key", &Piece::copy_from(bad)).is_err(), "{bad:?}");
        }
    }
}
