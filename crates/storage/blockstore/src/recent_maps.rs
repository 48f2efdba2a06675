//! Records of objects' maps of data that were found lately: with its onode in [`crate::recent`], a small read searches the tree for
//! nothing.

use smallvec::SmallVec;

use crate::page::Key;
use crate::records::{PART_KEY_BYTES, Part, chunk_of, number_of, table};

/// Bytes of a record that has a place: one of 64 blocks in a few runs. What overwrites and snapshots have scattered is up to 960 bytes
/// long, and more with compressed blocks: that would take a fifth of the cache.
const RECORD_MAX: usize = 320;

/// Bytes of a record in the entry itself: that of a run of one block, as small objects have.
const INLINE: usize = 16;

/// What the allocator adds to an entry and to a record outside it, at most.
const OVERHEAD: usize = 72;

/// An object's number and the number of one of its records, [`crate::records::chunk_key`].
type Name = (u64, u64);

#[derive(Clone, Debug)]
struct Entry {
    name: Name,
    record: SmallVec<[u8; INLINE]>,
}

impl Entry {
    /// Bytes of memory.
    fn bytes(&self) -> u64 {
        let outside = if self.record.spilled() { self.record.capacity() } else { 0 };
        (size_of::<Self>() + outside + OVERHEAD) as u64
    }
}

/// What a search for a record of a map would find, of some of them: encoded, as [`crate::chunk::Chunk`].
///
/// Invariant: it never differs from the tables. So each of their changes passes [`RecentMaps::on_change`].
#[derive(Debug, Default)]
pub struct RecentMaps {
    /// Each at the only place that its name has: there are 0 or a power of two.
    records: Vec<Option<Box<Entry>>>,
    /// Places that there are once there is a record.
    places: usize,
    /// Memory of the records.
    bytes: u64,
}

/// The name of a record that has such a key.
fn name_of(key: &Key) -> Option<Name> {
    let is_record =
        key.first() == Some(&table::NUMBERED) && key.get(PART_KEY_BYTES - 1) == Some(&(Part::Chunk as u8));
    is_record.then(|| Some((number_of(key)?, chunk_of(key)?))).flatten()
}

impl RecentMaps {
    /// Sets the number of places, a power of two. All records are dropped.
    pub fn set_places(&mut self, places: usize) {
        self.places = places;
        self.forget();
    }

    /// Drops all.
    pub fn forget(&mut self) {
        (self.records, self.bytes) = (Vec::new(), 0);
    }

    /// The only place of a record, if there are places.
    fn place(&self, (number, chunk): Name) -> usize {
        let bits = self.records.len().checked_ilog2().unwrap_or(0);
        // Numbers are given in turn: the records of one object, and the first ones of objects made together, have other places.
        let hash = (number ^ chunk.rotate_right(24)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (u128::from(hash) << bits >> u64::BITS) as usize
    }

    pub fn record(&self, number: u64, chunk: u64) -> Option<&[u8]> {
        let entry = self.records.get(self.place((number, chunk)))?.as_ref()?;
        (entry.name == (number, chunk)).then_some(&entry.record)
    }

    pub fn note(&mut self, number: u64, chunk: u64, record: &[u8]) {
        if record.len() > RECORD_MAX {
            return;
        }
        if self.records.is_empty() {
            self.records = vec![None; self.places.max(1)];
        }
        let place = self.place((number, chunk));
        self.set(place, Some(Entry { name: (number, chunk), record: SmallVec::from_slice(record) }));
    }

    /// A key of the tables has another value now, or none.
    pub fn on_change(&mut self, key: &Key, value: Option<&[u8]>) {
        let Some((number, chunk)) = name_of(key) else { return };
        match value.filter(|value| value.len() <= RECORD_MAX) {
            // What was just written is asked for sooner than most.
            Some(record) => self.note(number, chunk, record),
            None if self.record(number, chunk).is_some() => self.set(self.place((number, chunk)), None),
            None => {}
        }
    }

    fn set(&mut self, place: usize, entry: Option<Entry>) {
        self.bytes += entry.as_ref().map_or(0, Entry::bytes);
        let there = &mut self.records[place];
        let before = match (there.as_mut(), entry) {
            (Some(there), Some(entry)) => Some(std::mem::replace(&mut **there, entry).bytes()),
            (_, entry) => std::mem::replace(there, entry.map(Box::new)).map(|before| before.bytes()),
        };
        self.bytes -= before.unwrap_or(0);
    }

    /// How many records it has. It looks at all places.
    pub fn count(&self) -> usize {
        self.records.iter().flatten().count()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.records.len() as u64 * size_of::<Option<Box<Entry>>>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{chunk_key, part_key};

    fn of(places: usize) -> RecentMaps {
        let mut maps = RecentMaps::default();
        maps.set_places(places);
        maps
    }

    #[test]
    fn a_record_is_as_its_key_was_set_last() {
        let mut maps = of(64);
        assert_eq!(maps.record(7, 0), None);
        maps.on_change(&chunk_key(7, 0), None);
        assert_eq!((maps.record(7, 0), maps.bytes()), (None, 0));
        maps.on_change(&chunk_key(7, 0), Some(&[2; 15]));
        assert_eq!(maps.record(7, 0), Some(&[2; 15][..]));
        assert_eq!((maps.record(7, 1), maps.record(8, 0)), (None, None));
        // Other parts of the object, other records, and other objects change nothing.
        for key in [
            part_key(7, Part::Attr, &[0; 4]),
            part_key(7, Part::Omap, &[0; 4]),
            chunk_key(7, 1),
            chunk_key(8, 0),
        ] {
            maps.on_change(&key, None);
            assert_eq!(maps.record(7, 0), Some(&[2; 15][..]));
        }
        maps.on_change(&chunk_key(7, 0), Some(&[3; 267]));
        assert_eq!(maps.record(7, 0), Some(&[3; 267][..]));
        maps.on_change(&chunk_key(7, 0), None);
        assert_eq!(maps.record(7, 0), None);
        maps.note(7, 0, &[4; 15]);
        assert_eq!(maps.record(7, 0), Some(&[4; 15][..]));
    }

    #[test]
    fn what_became_too_long_is_not_found_as_it_was() {
        let mut maps = of(1);
        maps.note(7, 0, &[1; RECORD_MAX]);
        maps.on_change(&chunk_key(7, 0), Some(&[2; RECORD_MAX + 1]));
        assert_eq!((maps.record(7, 0), maps.bytes()), (None, 8));
        maps.note(7, 0, &[2; RECORD_MAX + 1]);
        assert_eq!((maps.record(7, 0), maps.bytes()), (None, 8));
    }

    #[test]
    fn its_memory_is_counted() {
        let mut maps = of(1);
        maps.note(7, 0, &[1; INLINE]);
        let small = maps.bytes();
        // It takes the only place.
        maps.note(8, 0, &[1; 267]);
        assert_eq!((maps.record(7, 0), maps.bytes() - small), (None, 267));
        maps.on_change(&chunk_key(8, 0), Some(&[2; INLINE]));
        assert_eq!(maps.bytes(), small);
        maps.set_places(4);
        assert_eq!((maps.record(8, 0), maps.bytes()), (None, 0));
    }

    #[test]
    fn records_take_all_places() {
        for (objects, chunks) in [(4096, 1), (256, 16), (1, 4096)] {
            let mut maps = of(1024);
            let all =
                || (1000..1000 + objects).flat_map(|number| (0..chunks).map(move |chunk| (number, chunk)));
            all().for_each(|(number, chunk)| maps.note(number, chunk, &[1; 15]));
            let found = all().filter(|(number, chunk)| maps.record(*number, *chunk).is_some()).count();
            assert!(found > 900, "{found} of 1024 places are in use by {objects} objects");
        }
    }
}
