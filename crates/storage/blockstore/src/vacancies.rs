//! Which hashes have no onode, as far as some bits tell. Who makes an object has looked for it in vain just before: that search goes
//! through three pages of the tree, which the processor seldom has in its caches.

use crate::filter::spread;
use crate::page::Key;
use crate::records::{HASH_AT, hash_of};
use store::keys;

/// A range of hashes has so many cells, each a bit.
const CELLS_BITS: u32 = 12;
const CELLS: usize = 1 << CELLS_BITS;

/// A range with onodes of more hashes is too long.
const HASHES_MAX: usize = 256;

/// Of fewer hashes nothing is concluded.
const HASHES_FEW: usize = 16;

/// Keys that a listing of a range passes at most.
pub const LISTED_MAX: usize = 3 * HASHES_MAX;

/// A range is listed at its second search in vain, since the next one may be far, and again after so many that its cells did not spare. So
/// seldom does a range take the place of one that is known, too.
const SECOND: u8 = 1;
const AGAIN: u8 = 16;

/// Places at most, a power of two, and so many times the memory of a range for each of them in the cache.
const PLACES_MAX: usize = 1 << 16;
const CACHE_PART: u64 = 64;

/// What the allocator adds to a range, at most.
const OVERHEAD: usize = 16;

/// Spaces have one of so many lengths of their ranges, which only become shorter: two that have the same one follow the denser.
const LENGTHS: usize = 1024;

/// How long the ranges of a space are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Length {
    /// The first bits of a hash that name its range.
    bits: u8,
    /// How often that has changed: a range from before a change was told of no onode since.
    changes: u64,
}

impl Length {
    /// The cell of a hash in its range: what follows the bits that name the range.
    fn cell(self, hash: u32) -> usize {
        (hash << self.bits >> (u32::BITS - CELLS_BITS)) as usize
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct RangeName {
    prefix: [u8; HASH_AT],
    length: Length,
    /// The first bits of its hashes.
    first_bits: u32,
}

impl RangeName {
    /// The keys of its onodes: from the first on, before the second if there is one.
    fn keys(&self) -> (Key, Option<Key>) {
        let hash = |first_bits: u64| u32::try_from(first_bits << (u32::BITS - u32::from(self.length.bits)));
        let key = |hash: u32| keys::joined(&self.prefix, &hash.to_be_bytes());
        let (first, behind) = (u64::from(self.first_bits), u64::from(self.first_bits) + 1);
        let end = hash(behind).map_or_else(|_| keys::after_prefix(&self.prefix), |hash| Some(key(hash)));
        (key(hash(first).unwrap_or(0)), end)
    }
}

/// Where a hash is.
struct Spot {
    range: RangeName,
    /// The two places that the range may have.
    places: [usize; 2],
    cell: usize,
}

#[derive(Clone, Debug)]
struct Range {
    name: RangeName,
    /// Whether all of its onodes have their cells set: it was listed.
    is_known: bool,
    /// After so many more searches in vain it is worth listing.
    searches_left: u8,
    cells: [u64; CELLS / 64],
}

impl Range {
    fn new(name: RangeName, searches_left: u8) -> Self {
        Self { name, is_known: false, searches_left, cells: [0; CELLS / 64] }
    }

    fn set(&mut self, cell: usize) {
        self.cells[cell / 64] |= 1 << (cell % 64);
    }

    fn has(&self, cell: usize) -> bool {
        self.cells[cell / 64] & 1 << (cell % 64) != 0
    }
}

/// A range that is worth listing.
pub struct Unlisted {
    name: RangeName,
    pub start: Key,
    pub end: Option<Key>,
}

/// Ranges of hashes in which few enough onodes are for a bit each.
///
/// Invariant: where a range is known, each onode in the tables has its cell set. So each key that is set passes
/// [`Vacancies::on_set`]. An onode that is removed leaves its cell: then the tree is searched once in vain.
#[derive(Debug, Default)]
pub struct Vacancies {
    /// Each at one of the two places that its name has: there are 0 or a power of two.
    ranges: Vec<Option<Box<Range>>>,
    /// Places that there are once there is a range.
    places: usize,
    /// Ranges that there are.
    count: usize,
    lengths: Vec<Length>,
    /// How often a range had no place, since one took that of another one.
    crowded: u32,
}

/// Where the length of a space's ranges is.
fn length_of(prefix: &[u8; HASH_AT]) -> usize {
    spread(word(prefix, 1)) as usize % LENGTHS
}

fn word(prefix: &[u8; HASH_AT], at: usize) -> u64 {
    prefix[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

impl Vacancies {
    /// Sets the number of places by the size of the cache, in bytes. A change of that number drops all ranges.
    pub fn fit(&mut self, cache_bytes: u64) {
        let places = cache_bytes / CACHE_PART / size_of::<Range>() as u64;
        let places = 1 << places.clamp(1, PLACES_MAX as u64).ilog2();
        if places != self.places {
            self.places = places;
            self.forget();
        }
    }

    /// Drops all.
    pub fn forget(&mut self) {
        *self = Self { places: self.places, ..Self::default() };
    }

    /// Where the hash of an onode's key is, if there are places.
    fn spot(&self, key: &[u8]) -> Option<Spot> {
        let prefix: &[u8; HASH_AT] = key.first_chunk()?;
        let hash = hash_of(key)?;
        let length = *self.lengths.get(length_of(prefix))?;
        let first_bits = (u64::from(hash) << length.bits >> u32::BITS) as u32;
        let number = u64::from(first_bits) << 8 | u64::from(length.bits);
        let place = spread(word(prefix, 1) ^ spread(word(prefix, HASH_AT - 8) ^ number));
        let place = place as usize & (self.ranges.len() - 1);
        let places = [place, (place ^ 1) & (self.ranges.len() - 1)];
        Some(Spot {
            range: RangeName { prefix: *prefix, length, first_bits },
            places,
            cell: length.cell(hash),
        })
    }

    fn range(&self, spot: &Spot) -> Option<&Range> {
        let at = |place: usize| self.ranges.get(place)?.as_deref().filter(|range| range.name == spot.range);
        at(spot.places[0]).or_else(|| at(spot.places[1]))
    }

    fn range_mut(&mut self, spot: &Spot) -> Option<&mut Range> {
        let is_it =
            |place: &usize| self.ranges[*place].as_ref().is_some_and(|range| range.name == spot.range);
        let place = spot.places.into_iter().find(is_it)?;
        self.ranges[place].as_deref_mut()
    }

    /// Begins a range, in place of another one if need be, but seldom of one that is known.
    fn begin(&mut self, Spot { range, places, .. }: Spot) {
        let is_known = |range: &Range| {
            range.is_known && self.lengths[length_of(&range.name.prefix)] == range.name.length
        };
        let worth = |place: &usize| self.ranges[*place].as_deref().map(is_known);
        let [first, second] = places;
        let place = if worth(&second) < worth(&first) { second } else { first };
        if worth(&place) == Some(true) {
            self.crowded = (self.crowded + 1) % u32::from(AGAIN);
            if self.crowded > 0 {
                return;
            }
        }
        let new = Box::new(Range::new(range, SECOND));
        self.count += usize::from(self.ranges[place].replace(new).is_none());
    }

    /// Whether the tables certainly have no onode with this key.
    pub fn has(&self, key: &Key) -> bool {
        let known =
            |spot: &Spot| self.range(spot).is_some_and(|range| range.is_known && !range.has(spot.cell));
        self.spot(key).is_some_and(|spot| known(&spot))
    }

    /// The tables were searched for an onode in vain. Returns the range that it would be in if that is worth listing now: what is found
    /// goes to [`Vacancies::on_listed`], unless the listing fails.
    pub fn on_vain_search(&mut self, key: &Key) -> Option<Unlisted> {
        if self.ranges.is_empty() {
            (self.ranges, self.lengths) = (vec![None; self.places.max(1)], vec![Length::default(); LENGTHS]);
        }
        let spot = self.spot(key)?;
        let Some(range) = self.range_mut(&spot) else {
            self.begin(spot);
            return None;
        };
        range.searches_left -= 1;
        if range.searches_left > 0 {
            return None;
        }
        // What is known of it counts until the listing is there.
        range.searches_left = AGAIN;
        let (start, end) = spot.range.keys();
        Some(Unlisted { name: spot.range, start, end })
    }

    /// What a listing of a range has found: the hashes of all of its onodes' keys, or more than [`LISTED_MAX`].
    pub fn on_listed(&mut self, listed: Unlisted, mut hashes: Vec<u32>) {
        let is_whole = hashes.len() <= LISTED_MAX;
        hashes.sort_unstable();
        hashes.dedup();
        // The ranges of its space may have another length since.
        let Some(spot) = self.spot(&listed.start).filter(|spot| spot.range == listed.name) else { return };
        let length = listed.name.length;
        let mut cells: Vec<usize> = hashes.iter().map(|hash| length.cell(*hash)).collect();
        cells.dedup();
        // The hashes of a collection may all be in a small part of the range, and objects may have many clones of the same hash.
        let is_dense = hashes.len() > 2 * cells.len() + HASHES_FEW;
        let is_long = hashes.len() > HASHES_MAX || is_dense || !is_whole && hashes.len() >= HASHES_FEW;
        let shorter = (length.bits + 2).min((u32::BITS - CELLS_BITS) as u8);
        if is_long && shorter > length.bits {
            let changes = length.changes + 1;
            self.lengths[length_of(&listed.name.prefix)] = Length { bits: shorter, changes };
        } else if is_whole {
            // Another range may have its place since.
            let Some(range) = self.range_mut(&spot) else { return };
            *range = Range::new(listed.name, AGAIN);
            cells.into_iter().for_each(|cell| range.set(cell));
            range.is_known = true;
        }
    }

    /// A key of an onode has a value now.
    pub fn on_set(&mut self, key: &Key) {
        // Before the first search in vain there are no places.
        let Some(spot) = self.spot(key) else { return };
        if let Some(range) = self.range_mut(&spot) {
            range.set(spot.cell);
        }
    }

    /// How many ranges it knows.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> u64 {
        let ranges = self.ranges.len() * size_of::<Option<Box<Range>>>()
            + self.count * (size_of::<Range>() + OVERHEAD);
        (ranges + self.lengths.len() * size_of::<Length>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::Bound;

    use types::{GHObject, HObject, Name, PoolId, SplitMix64};

    use super::*;
    use crate::records::object_key;

    struct Searched {
        vacancies: Vacancies,
        onodes: BTreeSet<Key>,
        in_vain: usize,
        spared: usize,
        listed: usize,
    }

    impl Searched {
        fn new(cache_bytes: u64) -> Self {
            let mut vacancies = Vacancies::default();
            vacancies.fit(cache_bytes);
            Self { vacancies, onodes: BTreeSet::new(), in_vain: 0, spared: 0, listed: 0 }
        }

        /// As a store does.
        fn search(&mut self, key: &Key) {
            let is_there = self.onodes.contains(key);
            self.in_vain += usize::from(!is_there);
            if self.vacancies.has(key) {
                assert!(!is_there, "{key:?}");
                self.spared += 1;
            } else if !is_there && list(self, key) {
                self.listed += 1;
            }
        }

        fn set(&mut self, key: Key) {
            self.vacancies.on_set(&key);
            self.onodes.insert(key);
        }
    }

    fn list(searched: &mut Searched, key: &Key) -> bool {
        let Some(unlisted) = searched.vacancies.on_vain_search(key) else { return false };
        let end = unlisted.end.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = searched.onodes.range((Bound::Included(unlisted.start.clone()), end));
        let keys: Vec<&Key> = keys.take(LISTED_MAX + 1).collect();
        assert!(keys.iter().all(|key| key[..HASH_AT] == unlisted.start[..HASH_AT]));
        let hashes = keys.iter().filter_map(|key| hash_of(key)).collect();
        searched.vacancies.on_listed(unlisted, hashes);
        true
    }

    /// The key of an object of a space that has the PGs whose hashes end with `pg` of 32.
    fn key(space: u64, pg: u32, hash: u64) -> Key {
        let hash = (hash as u32) << 5 | pg;
        let object = HObject::head(PoolId(3), Name::new(), Name::new(), "name".into(), hash);
        object_key(space, &GHObject::from(object))
    }

    #[test]
    fn most_searches_for_what_is_made_next_are_spared() {
        let (mut random, mut searched) = (SplitMix64::new(1), Searched::new(256 << 20));
        for (first, made, percent) in [(0, 2_000, 40), (2_000, 20_000, 85), (20_000, 100_000, 90)] {
            let before = (searched.in_vain, searched.spared, searched.listed);
            for n in first..made {
                let pg = n % 8;
                let key = key(u64::from(pg), pg, random.next_u64());
                searched.search(&key);
                searched.set(key);
            }
            let in_vain = searched.in_vain - before.0;
            let (spared, listed) = (searched.spared - before.1, searched.listed - before.2);
            println!("{in_vain} in vain, {spared} spared, {listed} listed");
            assert!(spared * 100 > in_vain * percent, "{spared} of {in_vain} are spared");
            assert!(listed * 20 < in_vain, "{listed} listings");
        }
        let bytes = searched.vacancies.bytes();
        assert!(bytes < 256 << 14, "{bytes} bytes");
    }

    #[test]
    fn what_is_there_is_found_whatever_comes_and_goes() {
        for seed in 0..30 {
            let mut random = SplitMix64::new(seed);
            let cache_bytes = [64 << 10, 1 << 20, 64 << 20][seed as usize % 3];
            let mut searched = Searched::new(cache_bytes);
            for _ in 0..20_000 {
                let (space, pg) = (random.below(3), random.below(2) as u32);
                // Some spaces are dense, and hashes meet.
                let key = key(space, pg, random.below([1 << 27, 1 << 12, 50][space as usize]) << (6 * space));
                searched.search(&key);
                match random.below(8) {
                    0..4 => searched.set(key),
                    4 => drop(searched.onodes.remove(&key)),
                    5 if random.one_in(500) => searched.onodes.retain(|key| key[8] != space as u8),
                    6 if random.one_in(500) => {
                        searched.vacancies.fit([1 << 20, 64 << 20][space as usize % 2])
                    }
                    _ => {}
                }
            }
            assert!(searched.spared > 500, "{} spared", searched.spared);
        }
    }

    fn named(name: &str, hash: u32) -> Key {
        let object = HObject::head(PoolId(3), Name::new(), Name::new(), name.into(), hash);
        object_key(7, &GHObject::from(object))
    }

    #[test]
    fn what_is_known_counts_until_the_next_listing_is_there() {
        let mut searched = Searched::new(1 << 20);
        let (absent, set) = (named("absent", 9), named("set", 5));
        (0..3).for_each(|_| searched.search(&absent));
        searched.vacancies.on_set(&set);
        // It is gone, and its range is listed again in vain: pages are missing.
        let unlisted = (0..u16::from(AGAIN)).find_map(|_| searched.vacancies.on_vain_search(&set));
        assert!(unlisted.is_some() && searched.vacancies.has(&absent));
    }

    #[test]
    fn many_clones_of_one_object_shorten_no_range() {
        let mut searched = Searched::new(1 << 20);
        (0..=LISTED_MAX).for_each(|n| searched.set(named(&n.to_string(), 5)));
        (0..100_u32).for_each(|n| searched.search(&named("absent", n.wrapping_mul(0x9e37_79b1))));
        assert!(searched.listed > 0 && searched.spared == 0);
        assert!(searched.vacancies.lengths.iter().all(|length| length.bits == 0));
    }

    #[test]
    fn the_last_range_of_a_pool_ends_where_the_pool_does() {
        let at = |pool: i64, hash: u32| {
            let object =
                HObject::head(PoolId(pool), Name::new(), Name::new(), "name".into(), hash.reverse_bits());
            object_key(7, &GHObject::from(object))
        };
        let mut searched = Searched::new(1 << 20);
        for hash in [u32::MAX, 0] {
            searched.set(at(4, hash));
            (0..3).for_each(|_| searched.search(&at(3, hash)));
            assert!(searched.vacancies.has(&at(3, hash)) && !searched.vacancies.has(&at(4, hash)));
        }
        assert_eq!((searched.listed, searched.spared), (1, 4));
    }
}
