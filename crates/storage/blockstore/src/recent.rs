//! Records of collections, onodes and maps that were found or written lately, and which onodes there are not: most requests search the
//! tree for nothing.

use std::collections::BTreeMap;
use std::hint::black_box;

use buffer::Piece;
use store::{CollectionId, keys};
use types::{GHObject, HObject};

use crate::page::Key;
use crate::recent_maps::RecentMaps;
use crate::records::{Collection, hash_of, object_key, space_of, table};
use crate::vacancies::Vacancies;

/// Places for onodes at most, and for records of maps, a power of two.
const PLACES_MAX: usize = 1 << 18;

/// Memory of an onode with names and attributes of the usual length, and so many times as much for it in the cache. Records of maps, of which
/// there are as many places, take up to as much.
const ENTRY_BYTES: u64 = 512;
const CACHE_PART: u64 = 8;

/// Places that a hash has: with one, an onode often takes that of another one that is wanted, too.
const WAYS: usize = 4;

/// Bytes of an object's names, of which clients choose up to some KiB: those with more have no place here, which bounds the memory.
const NAMES_MAX: usize = 512;

/// What the allocator and the counters of shared names and of the onode add to an entry, at most.
const OVERHEAD: usize = 128;

#[derive(Clone, Debug)]
struct Entry {
    space: u64,
    object: GHObject,
    /// Encoded.
    onode: Piece,
}

impl Entry {
    /// Bytes of memory, as if no request shared the names.
    fn bytes(&self) -> u64 {
        (size_of::<Self>() + names_bytes(&self.object) + self.onode.len() + OVERHEAD) as u64
    }
}

/// The places of some hashes, in one line of the processor's caches. The onode that was noted last is the first, and a new one takes the
/// place of the last, however often that was found.
#[derive(Clone, Debug, Default)]
#[repr(align(64))]
struct Set([Way; WAYS]);

#[derive(Clone, Debug, Default)]
struct Way {
    /// The object's, reversed, if there is an entry: most searches look at the one that they want alone.
    hash: u32,
    entry: Option<Box<Entry>>,
}

impl Set {
    fn find(&self, hash: u32, is_it: impl Fn(&Entry) -> bool) -> Option<usize> {
        let is_it = |way: &Way| way.hash == hash && way.entry.as_deref().is_some_and(&is_it);
        self.0.iter().position(is_it)
    }
}

fn names_bytes(object: &GHObject) -> usize {
    let HObject { name, key, nspace, .. } = &object.hobj;
    [name, key, nspace].into_iter().map(|name| name.len()).sum()
}

/// What a search for a collection or an onode in the tables would find, of some of them.
///
/// Invariant: it never differs from the tables. So each of their changes passes [`Recent::on_change`].
#[derive(Debug, Default)]
pub struct Recent {
    collections: BTreeMap<CollectionId, Collection>,
    /// The object that was last looked for in vain, its space, and its onode's key: who makes an object has looked for it just before.
    absent: Option<(u64, GHObject, Key)>,
    /// Each in the set that its hash has: there are 0 or a power of two.
    onodes: Vec<Set>,
    /// Sets that there are once there is an onode.
    sets: usize,
    /// Memory of the onodes.
    bytes: u64,
    /// Records of maps.
    pub maps: RecentMaps,
    /// Onodes that there are not.
    pub vacancies: Vacancies,
}

impl Recent {
    /// Sets the number of places for onodes, and for records of maps, by the size of the cache, in bytes. A change of that number
    /// drops all of them.
    pub fn fit(&mut self, cache_bytes: u64) {
        self.vacancies.fit(cache_bytes);
        let places = (cache_bytes / CACHE_PART / ENTRY_BYTES).clamp(WAYS as u64, PLACES_MAX as u64) as usize;
        let places = 1 << places.ilog2();
        if places / WAYS != self.sets {
            (self.sets, self.onodes, self.bytes) = (places / WAYS, Vec::new(), 0);
            self.maps.set_places(places);
        }
    }

    /// Drops all but what it has of collections.
    pub fn forget(&mut self) {
        (self.onodes, self.bytes) = (Vec::new(), 0);
        self.maps.forget();
        self.vacancies.forget();
    }

    /// The set of an onode, if there are sets.
    fn set(&self, reversed_hash: u32) -> usize {
        let bits = self.onodes.len().checked_ilog2().unwrap_or(0);
        (u64::from(reversed_hash.wrapping_mul(0x9e37_79b1)) << bits >> u32::BITS) as usize
    }

    pub fn collection(&self, id: CollectionId) -> Option<Collection> {
        self.collections.get(&id).copied()
    }

    pub fn note_collection(&mut self, id: CollectionId, collection: Collection) {
        self.collections.insert(id, collection);
    }

    pub fn onode(&self, space: u64, object: &GHObject) -> Option<&Piece> {
        let hash = object.hobj.bitwise_key();
        let set = self.onodes.get(self.set(hash))?;
        let way = set.find(hash, |entry| entry.space == space && entry.object == *object)?;
        set.0[way].entry.as_ref().map(|entry| &entry.onode)
    }

    /// Brings closer to the processor the onodes of objects with this hash. Returns how many there are.
    pub fn touch(&self, hash: u32) -> usize {
        let hash = hash.reverse_bits();
        // The store has noted no onode yet.
        let Some(set) = self.onodes.get(self.set(hash)) else { return 0 };
        let entries = set.0.iter().filter(|way| way.hash == hash).filter_map(|way| way.entry.as_deref());
        let each = |entry: &Entry| {
            black_box((entry.object.hobj.name.as_bytes().first().copied(), entry.onode.first().copied()));
        };
        entries.map(each).count()
    }

    pub fn note_onode(&mut self, space: u64, object: GHObject, onode: Piece) {
        if names_bytes(&object) > NAMES_MAX {
            return;
        }
        if self.onodes.is_empty() {
            self.onodes = vec![Set::default(); self.sets.max(1)];
        }
        let hash = object.hobj.bitwise_key();
        let at = self.set(hash);
        let set = &mut self.onodes[at];
        let own = set.find(hash, |entry| entry.space == space && entry.object == object);
        let free = || set.0.iter().position(|way| way.entry.is_none());
        let replaced = own.or_else(free).unwrap_or(WAYS - 1);
        let replaced = &mut set.0[..=replaced];
        replaced.rotate_right(1);
        let entry = Entry { space, object, onode };
        self.bytes += entry.bytes();
        let before = std::mem::replace(&mut replaced[0], Way { hash, entry: Some(Box::new(entry)) });
        self.bytes -= before.entry.map_or(0, |before| before.bytes());
    }

    /// The key of an object's onode, if the last search that found no onode looked for it.
    pub fn absent(&self, space: u64, object: &GHObject) -> Option<&Key> {
        let (of, absent, key) = self.absent.as_ref()?;
        (*of == space && absent == object).then_some(key)
    }

    pub fn note_absent(&mut self, space: u64, object: GHObject, key: Key) {
        self.absent = Some((space, object, key));
    }

    /// A key of the tables has another value now, or none.
    pub fn on_change(&mut self, key: &Key, value: Option<&Piece>) {
        match key.first() {
            Some(&table::COLLECTION) => self.on_collection(key, value),
            Some(&table::ONODE) => self.on_onode(key, value),
            Some(&table::NUMBERED) => self.maps.on_change(key, value.map(|value| &value[..])),
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
        self.absent.take_if(|(.., absent)| absent == key);
        if value.is_some() {
            self.vacancies.on_set(key);
        }
        // A shorter key names no object.
        let Some(hash) = hash_of(key) else { return };
        let at = self.set(hash);
        // No onode was noted yet, or this one was not, or it has left.
        let Some(set) = self.onodes.get_mut(at) else { return };
        let is_it = |entry: &Entry| {
            Some(entry.space) == space_of(key) && object_key(entry.space, &entry.object) == *key
        };
        let Some(way) = set.find(hash, is_it) else { return };
        let there = &mut set.0[way].entry;
        let Some(entry) = there else { return };
        self.bytes -= entry.bytes();
        match value {
            Some(value) => {
                // One that moves from another space may be a piece of a page.
                entry.onode = value.clone().compact();
                self.bytes += entry.bytes();
            }
            None => *there = None,
        }
    }

    /// How many onodes it has, and their bytes of memory. It looks at all places.
    pub fn onodes(&self) -> (usize, u64) {
        let ways = self.onodes.iter().flat_map(|set| &set.0);
        (ways.filter(|way| way.entry.is_some()).count(), self.onodes_bytes())
    }

    fn onodes_bytes(&self) -> u64 {
        self.bytes + self.onodes.len() as u64 * size_of::<Set>() as u64
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.onodes_bytes() + self.maps.bytes() + self.vacancies.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::collection_key;
    use types::{Name, PgId, PoolId, SnapId};

    fn object(name: &str, hash: u32) -> GHObject {
        HObject::head(PoolId(3), Name::new(), Name::new(), name.into(), hash).into()
    }

    /// Bytes, of which nothing is decoded.
    fn onode(n: u8) -> Piece {
        Piece::copy_from(&[n; 17])
    }

    #[test]
    fn an_onode_is_as_its_key_was_set_last() {
        let mut recent = Recent::default();
        let (a, same_hash) = (object("a", 7), object("b", 7));
        assert_eq!(recent.onode(1, &a), None);
        recent.on_change(&object_key(1, &a), Some(&onode(1)));
        assert_eq!((recent.onode(1, &a), recent.bytes()), (None, 0));
        recent.note_onode(1, a.clone(), onode(4));
        assert_eq!(recent.onode(1, &a), Some(&onode(4)));
        assert_eq!((recent.onode(2, &a), recent.onode(1, &same_hash)), (None, None));
        assert_eq!((recent.touch(7), recent.touch(8)), (1, 0));
        // Others of the same hash, and the same object of another space, change nothing.
        let mut clone = a.clone();
        clone.hobj.snap = SnapId(9);
        for (space, other) in [(1, &same_hash), (1, &clone), (2, &a)] {
            recent.on_change(&object_key(space, other), None);
            assert_eq!(recent.onode(1, &a), Some(&onode(4)));
        }
        let (grown, before) = (Piece::copy_from(&[6; 317]), recent.bytes());
        recent.on_change(&object_key(1, &a), Some(&grown));
        assert_eq!((recent.onode(1, &a), recent.bytes() - before), (Some(&grown), 300));
        // Of more objects than there are places those that were noted last stay.
        recent.note_onode(1, same_hash.clone(), onode(5));
        assert_eq!((recent.onode(1, &a), recent.onode(1, &same_hash)), (Some(&grown), Some(&onode(5))));
        let others: Vec<GHObject> = (0..3).map(|n| object(&format!("other {n}"), 7 + n % 2)).collect();
        others[..2].iter().for_each(|other| recent.note_onode(1, other.clone(), onode(6)));
        assert!(
            [&a, &same_hash, &others[0], &others[1]].iter().all(|object| recent.onode(1, object).is_some())
        );
        recent.note_onode(1, a.clone(), onode(7));
        recent.note_onode(1, others[2].clone(), onode(8));
        assert_eq!((recent.onode(1, &a), recent.onode(1, &same_hash)), (Some(&onode(7)), None));
        // One that is removed makes room.
        recent.on_change(&object_key(1, &others[0]), None);
        assert_eq!(recent.onode(1, &others[0]), None);
        recent.note_onode(1, same_hash.clone(), onode(5));
        let there = [&a, &same_hash, &others[1], &others[2]];
        assert!(there.iter().all(|object| recent.onode(1, object).is_some()));
    }

    #[test]
    fn an_onode_that_was_looked_for_in_vain_is_absent_until_it_is_set() {
        let mut recent = Recent::default();
        let (a, b) = (object("a", 7), object("b", 7));
        let (key, other) = (object_key(1, &a), object_key(1, &b));
        assert_eq!(recent.absent(1, &a), None);
        recent.note_absent(1, a.clone(), key.clone());
        assert_eq!(
            (recent.absent(1, &a), recent.absent(2, &a), recent.absent(1, &b)),
            (Some(&key), None, None)
        );
        recent.on_change(&other, Some(&onode(1)));
        assert_eq!(recent.absent(1, &a), Some(&key));
        recent.on_change(&key, Some(&onode(1)));
        assert_eq!(recent.absent(1, &a), None);
    }

    #[test]
    fn its_memory_is_counted_and_long_names_have_no_place() {
        let mut recent = Recent::default();
        recent.fit(2 << 20);
        let (short, long, too_long) =
            (object("a", 7), object(&"b".repeat(NAMES_MAX), 7), object(&"c".repeat(NAMES_MAX + 1), 9));
        recent.note_onode(1, too_long.clone(), onode(4));
        assert_eq!((recent.onode(1, &too_long), recent.bytes()), (None, 0));
        recent.note_onode(1, short.clone(), onode(4));
        let (with_short, sets) = (recent.bytes(), 512 * 16);
        let of_short = with_short - sets;
        recent.note_onode(1, long.clone(), onode(5));
        let of_long = recent.bytes() - with_short;
        assert_eq!(of_long - of_short, NAMES_MAX as u64 - 1);
        recent.note_onode(1, short.clone(), onode(4));
        assert_eq!(recent.bytes(), sets + of_short + of_long);
        // Both leave their places to others.
        (0..WAYS).for_each(|n| recent.note_onode(1, object(&n.to_string(), 7), onode(6)));
        assert_eq!(recent.bytes(), sets + WAYS as u64 * of_short);
        (0..WAYS).for_each(|n| recent.on_change(&object_key(1, &object(&n.to_string(), 7)), None));
        assert_eq!(recent.bytes(), sets);
        recent.note_onode(1, short.clone(), onode(4));
        recent.fit((2 << 20) + 1);
        assert_eq!(recent.onode(1, &short), Some(&onode(4)));
        for (cache_bytes, places) in [(4 << 20, 1024), (0, WAYS), (1 << 50, PLACES_MAX)] {
            recent.fit(cache_bytes);
            assert_eq!((recent.onode(1, &short), recent.bytes()), (None, 0));
            recent.note_onode(1, short.clone(), onode(4));
            assert_eq!((recent.onode(1, &short), recent.onodes.len() * WAYS), (Some(&onode(4)), places));
        }
    }

    #[test]
    fn onodes_take_all_places() {
        let mut recent = Recent::default();
        recent.fit(2 << 20);
        let objects: Vec<GHObject> =
            (0..4096_u32).map(|n| object("a", n.wrapping_mul(0x0101_0101))).collect();
        objects.iter().for_each(|object| recent.note_onode(1, object.clone(), onode(4)));
        let found = objects.iter().filter(|object| recent.onode(1, object).is_some()).count();
        assert!(found > 500, "{found} of 512 places are in use");
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
