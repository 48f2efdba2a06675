//! Records of collections and onodes that were found lately: most requests search the tree for their object's data alone.

use std::collections::BTreeMap;

use buffer::Piece;
use store::{CollectionId, keys};
use types::GHObject;

use crate::page::Key;
use crate::records::{Collection, Onode, SPACE_KEY_BYTES, object_key, space_of, table};

/// Places for onodes, a power of two.
const PLACES: usize = 4096;

/// Memory of an onode here, with its object's name, which requests share.
const ONODE_MEMORY: u64 = 320;

/// The bytes of an onode's key that are the object's reversed hash.
const HASH: std::ops::Range<usize> = SPACE_KEY_BYTES + 11..SPACE_KEY_BYTES + 15;

#[derive(Debug)]
struct Entry {
    space: u64,
    object: GHObject,
    onode: Onode,
}

/// What a search for a collection or an onode in the tables would find, of some of them.
///
/// Invariant: it never differs from the tables. So each of their changes passes [`Recent::on_change`].
#[derive(Debug, Default)]
pub struct Recent {
    collections: BTreeMap<CollectionId, Collection>,
    /// Each at the only place that its hash has.
    onodes: Vec<Option<Box<Entry>>>,
    count: u64,
}

fn place(reversed_hash: u32) -> usize {
    (reversed_hash.wrapping_mul(0x9e37_79b1) >> (u32::BITS - PLACES.ilog2())) as usize
}

impl Recent {
    pub fn collection(&self, id: CollectionId) -> Option<Collection> {
        self.collections.get(&id).copied()
    }

    pub fn note_collection(&mut self, id: CollectionId, collection: Collection) {
        self.collections.insert(id, collection);
    }

    pub fn onode(&self, space: u64, object: &GHObject) -> Option<Onode> {
        let entry = self.onodes.get(place(object.hobj.bitwise_key()))?.as_ref()?;
        (entry.space == space && entry.object == *object).then_some(entry.onode)
    }

    pub fn note_onode(&mut self, space: u64, object: &GHObject, onode: Onode) {
        if self.onodes.is_empty() {
            self.onodes.resize_with(PLACES, || None);
        }
        let there = &mut self.onodes[place(object.hobj.bitwise_key())];
        self.count += u64::from(there.is_none());
        *there = Some(Box::new(Entry { space, object: object.clone(), onode }));
    }

    /// A key of the tables has another value now, or none.
    pub fn on_change(&mut self, key: &Key, value: Option<&Piece>) {
        match key.first() {
            Some(&table::COLLECTION) => self.on_collection(key, value),
            Some(&table::ONODE) => self.on_onode(key, value),
            _ => {}
        }
    }

    fn on_collection(&mut self, key: &Key, value: Option<&Piece>) {
        match (keys::collection_of(&key[1..]), value.map(|value| Collection::decode(value))) {
            (Some(id), Some(Ok(collection))) => self.note_collection(id, collection),
            (Some(id), _) => drop(self.collections.remove(&id)),
            // Such a key names no collection that anyone asks for.
            (None, _) => {}
        }
    }

    fn on_onode(&mut self, key: &Key, value: Option<&Piece>) {
        let hash = key.get(HASH).and_then(|hash| hash.try_into().ok()).map(u32::from_be_bytes);
        let there = hash.and_then(|hash| self.onodes.get_mut(place(hash)));
        // Of an object that is not here nothing is to be noted: what is written once may never be asked for.
        let Some(there) = there else { return };
        let is_it = |entry: &Entry| {
            Some(entry.object.hobj.bitwise_key()) == hash
                && Some(entry.space) == space_of(key)
                && object_key(entry.space, &entry.object) == *key
        };
        let Some(entry) = there.as_mut().filter(|entry| is_it(entry)) else { return };
        match value.map(|value| Onode::decode(value)) {
            Some(Ok(onode)) => entry.onode = onode,
            _ => {
                *there = None;
                self.count -= 1;
            }
        }
    }

    /// Bytes of memory of the onodes.
    pub fn bytes(&self) -> u64 {
        self.count * ONODE_MEMORY + self.onodes.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collection_key;
    use types::{HObject, Name, PgId, PoolId, SnapId};

    fn object(name: &str, hash: u32) -> GHObject {
        HObject::head(PoolId(3), Name::new(), Name::new(), name.into(), hash).into()
    }

    #[test]
    fn an_onode_is_as_its_key_was_set_last() {
        let mut recent = Recent::default();
        let (a, same_place) = (object("a", 7), object("b", 7));
        assert_eq!(recent.onode(1, &a), None);
        recent.on_change(&object_key(1, &a), Some(&Onode::new(1).encode()));
        assert_eq!((recent.onode(1, &a), recent.bytes()), (None, 0));
        recent.note_onode(1, &a, Onode::new(4));
        assert_eq!(recent.onode(1, &a), Some(Onode::new(4)));
        assert_eq!((recent.onode(2, &a), recent.onode(1, &same_place)), (None, None));
        // Others of the same hash, and the same object of another space, change nothing.
        let mut clone = a.clone();
        clone.hobj.snap = SnapId(9);
        for (space, other) in [(1, &same_place), (1, &clone), (2, &a)] {
            recent.on_change(&object_key(space, other), None);
            assert_eq!(recent.onode(1, &a), Some(Onode::new(4)));
        }
        let grown = Onode { size: 9, ..Onode::new(4) };
        recent.on_change(&object_key(1, &a), Some(&grown.encode()));
        assert_eq!(recent.onode(1, &a), Some(grown));
        recent.note_onode(1, &same_place, Onode::new(5));
        assert_eq!((recent.onode(1, &a), recent.onode(1, &same_place)), (None, Some(Onode::new(5))));
        let bytes = recent.bytes();
        recent.on_change(&object_key(1, &same_place), None);
        assert_eq!((recent.onode(1, &same_place), bytes - recent.bytes()), (None, ONODE_MEMORY));
    }

    #[test]
    fn a_collection_is_as_its_key_was_set_last() {
        let mut recent = Recent::default();
        let id = CollectionId::Pg(PgId { pool: PoolId(3), seed: 5 }.into());
        let key = collection_key(table::COLLECTION, id);
        let collection = Collection { bits: 5, space: 8, ..Collection::default() };
        recent.on_change(&key, Some(&collection.encode()));
        assert_eq!((recent.collection(id), recent.collection(CollectionId::Meta)), (Some(collection), None));
        recent.on_change(&key, Some(&Collection { divided: true, ..collection }.encode()));
        assert!(recent.collection(id).is_some_and(|collection| collection.divided));
        recent.on_change(&key, None);
        assert_eq!(recent.collection(id), None);
    }
}
