//! Changes of the metadata that are not in the tree yet, in the order of their keys.

use std::borrow::Borrow;
use std::collections::{BTreeMap, btree_map};
use std::ops::Deref;

use buffer::Piece;

use crate::page::Key;

/// Changes of keys: `None` removes.
pub type Layer = BTreeMap<LayerKey, Option<Piece>>;

/// Some of them in order.
pub type Changes<'a> = btree_map::Range<'a, LayerKey, Option<Piece>>;

/// Bytes of memory that a change takes beside its key and value.
pub const CHANGE_MEMORY: u64 = 184;

/// Bytes of memory that a change takes in all, about.
pub const CHANGE_BYTES: u64 = 280;

/// First bytes of a key that lie beside it, in words: an onode's key has its object's hash in them.
const HEAD_WORDS: usize = 3;

/// A key that has its first bytes beside it. A long key has memory of its own, and each comparison with it would be a miss of the
/// processor's caches: the first bytes decide nearly all.
///
/// Invariant: the order is that of the keys' bytes. What a short key lacks of the first bytes is 0, and keys that are the same there are
/// compared as a whole.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LayerKey {
    head: [u64; HEAD_WORDS],
    key: Key,
}

impl LayerKey {
    pub fn key(&self) -> &Key {
        &self.key
    }
}

impl From<Key> for LayerKey {
    fn from(key: Key) -> Self {
        let mut head = [[0; 8]; HEAD_WORDS];
        let bytes = head.as_flattened_mut();
        let len = key.len().min(bytes.len());
        bytes[..len].copy_from_slice(&key[..len]);
        Self { head: head.map(u64::from_be_bytes), key }
    }
}

impl Deref for LayerKey {
    type Target = Key;

    fn deref(&self) -> &Key {
        &self.key
    }
}

impl Borrow<Key> for LayerKey {
    fn borrow(&self) -> &Key {
        &self.key
    }
}

impl Borrow<[u8]> for LayerKey {
    fn borrow(&self) -> &[u8] {
        &self.key
    }
}

/// These changes.
pub fn layer_of(changes: impl IntoIterator<Item = (Key, Option<Piece>)>) -> Layer {
    changes.into_iter().map(|(key, change)| (key.into(), change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_order_of_their_bytes() {
        let long = [7; 40];
        let mut keys: Vec<Vec<u8>> = (0..=40).map(|len| long[..len].to_vec()).collect();
        for at in [0, 7, 8, 22, 23, 24, 25, 39] {
            for byte in [0, 6, 8, 255] {
                let mut other = long;
                other[at] = byte;
                keys.extend([at + 1, 24, 40].map(|len| other[..len].to_vec()));
            }
        }
        for key in &keys {
            for other in &keys {
                let [layer_key, layer_other] = [key, other].map(|key| LayerKey::from(Key::from_slice(key)));
                assert_eq!(layer_key.cmp(&layer_other), key.cmp(other), "{key:?}, {other:?}");
            }
        }
    }
}
