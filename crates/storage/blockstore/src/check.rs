//! Looking for contradictions in a shard's metadata: what every object, block and count says of the others.

use std::collections::{BTreeMap, BTreeSet};

use blockdev::DeviceQueue;
use buffer::Piece;
use encoding::DecodeError;
use store::{CollectionId, Compressed, StoreError, keys};
use types::PoolId;

use crate::ENTRY_BYTES;
use crate::block_uses::{BlockUses, Uses};
use crate::chunk::{Blob, CHUNK_BLOCKS, Chunk, Slot};
use crate::layer::Layer;
use crate::layout::BLOCK;
use crate::one_place::Copies;
use crate::onode::{Home, Inline, Onode, OwnKeys};
use crate::packer::{decode_counted, pool_of};
use crate::page::Key;
use crate::pool_use::Use;
use crate::records::{
    Collection, Counts, Dead, PART_KEY_BYTES, Part, log_version, number_of, object_of, omap_key_bytes,
    space_of, table,
};
use crate::shape::{Part as HashPart, Shape};
use crate::stop::Stop;
use crate::store::BlockStore;
use crate::tree::Gap;

/// Why a check says nothing of blocks and counts.
pub(crate) const PARTIAL: &str = "what can't be read may be what maps a block";

/// What has no known object counts for this pool, which is that of the meta collection.
pub(crate) const NO_POOL: PoolId = PoolId(-1);

/// A check under way. It reads no data, and sees what is queued: nothing may be queued while it runs.
#[derive(Default)]
pub struct Checker {
    /// Where it goes on.
    from: Key,
    copies: Copies,
    /// Collections by their keys without the table.
    collections: BTreeMap<Key, Shape>,
    /// The parts of spaces that collections have, by space and first reversed hash, with the collections' pools.
    parts: BTreeMap<(u64, u64), (HashPart, PoolId)>,
    pub(crate) dead: BTreeMap<u64, Dead>,
    /// Numbers of objects, and of omaps that have one of their own.
    pub(crate) onodes: BTreeSet<u64>,
    pub(crate) objects: u64,
    /// Numbers of objects that something belongs to, ascending, each once.
    pub(crate) numbers: Vec<u64>,
    /// Which inline parts each has under keys of their own.
    own_keys: Vec<OwnKeys>,
    /// What each takes: the blocks that its records map and none before it did, and its entries of an omap.
    own_use: Vec<Use>,
    /// What each pool's objects take, and what is dead.
    pub(crate) pool_use: BTreeMap<PoolId, Use>,
    pub(crate) mapped: BlockUses,
    pub(crate) counts: BTreeMap<u64, u32>,
    pub(crate) metadata_bytes: u64,
    /// What is compressed, by what objects map.
    pub(crate) packed: BTreeMap<PoolId, Compressed>,
    /// Keys of spaces, infos and logs of collections that are not there.
    pub(crate) strays: Vec<Key>,
    /// Whether something could not be read: it may be all that maps a block, or that an object is there.
    pub(crate) is_partial: bool,
    problems: Vec<String>,
}

/// What a key is about, in words.
fn named(key: &[u8]) -> String {
    let words = match key.first() {
        Some(&table::ONODE) => object_of(key).map(|object| format!("object {object}")),
        Some(&table::LOG) => log_of(key),
        Some(&table::NUMBERED) => number_of(key).map(|number| format!("what object number {number} has")),
        _ => None,
    };
    words.unwrap_or_else(|| format!("key {key:02x?}"))
}

fn log_of(key: &[u8]) -> Option<String> {
    let collection = keys::collection_of(key.get(1..)?)?;
    Some(match log_version(collection, key) {
        Some(version) => format!("the log of {collection} from {version}"),
        None => format!("the log of {collection}"),
    })
}

impl Checker {
    pub fn new() -> Self {
        Self::default()
    }

    /// Numbers that something belongs to, of no object and nothing dead.
    pub(crate) fn ownerless(&self) -> impl Iterator<Item = u64> {
        let numbers = self.numbers.iter().copied();
        numbers.filter(|number| !self.onodes.contains(number) && !self.dead.contains_key(number))
    }

    /// What was found, a sentence each; `None` while pages are read: turn the store and ask again.
    pub fn advance<Q: DeviceQueue>(&mut self, store: &mut BlockStore<Q>) -> Option<Vec<String>> {
        let began = store.begin_check();
        // First, since the store goes on with what is dead while a check waits: keys and what is counted of them are to be compared at once.
        if self.copies.advance(store, began) {
            return None;
        }
        if self.from.is_empty() {
            // Such an opening counted no blocks.
            self.is_partial |= store.damage().is_some();
            self.mapped = BlockUses::below(store.space.numbers());
        }
        loop {
            let mut passed = Vec::new();
            let found = store.tables.next_readable(&Layer::new(), &self.from, None, &mut passed);
            for (gap, error) in passed {
                self.leave_out(&gap, &error);
                // What is passed by is not met again, however often this waits for pages.
                self.from = gap.high.unwrap_or_else(|| self.from.clone());
            }
            match found {
                Err(Stop::Pages(missing)) => {
                    store.read_for_check(missing, began);
                    return None;
                }
                Ok(Some((key, value))) => {
                    self.look_at(&key, &value);
                    self.from = key;
                    self.from.push(0);
                }
                Ok(None) => break,
                Err(stop) => {
                    self.is_partial = true;
                    let what = match stop {
                        Stop::Error(error) => error.to_string(),
                        other => format!("the search wants {other:?}"),
                    };
                    self.problems.push(format!("{what}; what follows could not be checked"));
                    break;
                }
            }
        }
        if self.is_partial {
            self.problems.push(format!("{PARTIAL}, so that nothing is mended here"));
        } else {
            self.compare(store);
        }
        Some(std::mem::take(&mut self.problems))
    }

    /// Notes that keys can't be read.
    fn leave_out(&mut self, Gap { low, high }: &Gap, error: &StoreError) {
        self.is_partial = true;
        let before = high.as_ref().map_or_else(String::new, |high| format!(", before {},", named(high)));
        let what = format!("{} and what follows{before}", named(low));
        self.problems.push(format!("{error}; {what} could not be checked"));
    }

    fn look_at(&mut self, key: &[u8], value: &Piece) {
        // An opening has loaded what pools take: a value that says nothing of the kind is refused there.
        if let table::BITMAP | table::STRANDED | table::POOL_USE = key[0] {
            return;
        }
        self.metadata_bytes += ENTRY_BYTES + (key.len() + value.len()) as u64;
        let decoded = match key[0] {
            table::COLLECTION => Collection::decode(value).map(|collection| {
                self.collections.insert(Key::from_slice(&key[1..]), Shape::whole(collection.space));
            }),
            table::DEAD => Dead::decode(value).map(|dead| {
                self.dead.insert(number_of(key).unwrap_or(u64::MAX), dead);
            }),
            table::SHAPE => Shape::decode(value).map(|shape| self.look_at_shape(key, shape)),
            table::ONODE => Onode::decode(value).and_then(|onode| self.look_at_object(key, &onode)),
            table::NUMBERED => self.look_at_part(key, value),
            table::COUNTS => Counts::decode(value).map(|counts| {
                let group = key.get(1..).and_then(|g| g.try_into().ok()).map_or(0, u64::from_be_bytes);
                let all =
                    counts.0.iter().map(|(place, count)| (group * CHUNK_BLOCKS + u64::from(*place), *count));
                self.counts.extend(all);
            }),
            table::COMPRESSED => {
                if pool_of(key).is_none() {
                    self.problems.push(format!("key {key:02x?} names no pool"));
                }
                decode_counted(value).map(|_| ())
            }
            table::INFO | table::LOG => {
                self.look_at_note(key);
                Ok(())
            }
            other => {
                self.problems.push(format!("key {key:02x?} is of no table ({other})"));
                Ok(())
            }
        };
        if let Err(error) = decoded {
            self.is_partial = true;
            self.problems.push(format!("the value of key {key:02x?}: {error}"));
        }
    }

    /// What spaces a collection has. Every collection's key comes before those.
    fn look_at_shape(&mut self, key: &[u8], shape: Shape) {
        let id = Key::from_slice(&key[1..]);
        // Its collection may be among what can't be read.
        if self.is_partial || self.collections.contains_key(&id) {
            self.collections.insert(id, shape);
            return;
        }
        self.strays.push(Key::from_slice(key));
        let whose = keys::collection_of(&id).map_or_else(|| format!("key {key:02x?}"), |id| id.to_string());
        self.problems.push(format!("there are spaces of a collection that is not there: {whose}"));
    }

    /// An info or a part of a log. Every collection's key comes before those.
    fn look_at_note(&mut self, key: &[u8]) {
        let id = keys::collection_of(&key[1..]);
        let is_there = |id| self.collections.contains_key(&keys::collection_key(id));
        // Its collection may be among what can't be read.
        if self.is_partial || id.is_some_and(is_there) {
            return;
        }
        self.strays.push(Key::from_slice(key));
        let what = if key[0] == table::LOG { "a log" } else { "an info" };
        let whose = id.map_or_else(|| format!("key {key:02x?} names none"), |id| id.to_string());
        let problem = format!("there is {what} of a collection that is not there: {whose}");
        // A log has many keys.
        if self.problems.last() != Some(&problem) {
            self.problems.push(problem);
        }
    }

    fn look_at_object(&mut self, key: &[u8], onode: &Onode) -> Result<(), DecodeError> {
        if self.objects == 0 {
            // Every collection's key comes before those of objects.
            self.gather_parts();
        }
        self.objects += 1;
        if !self.onodes.insert(onode.number) || onode.omap != onode.number && !self.onodes.insert(onode.omap)
        {
            self.problems.push(format!("two objects have the number {} or {}", onode.number, onode.omap));
        }
        for (number, dead) in [(onode.number, Dead::All(None)), (onode.omap, Dead::Omap(None))] {
            if self.dead.get(&number).is_some_and(|found| *found >= dead) {
                self.problems.push(format!("object number {number} is there, and dead"));
            }
        }
        let omap = (onode.omap != onode.number).then_some(onode.omap);
        let mut used = Use::NONE;
        for number in [onode.number].into_iter().chain(omap) {
            let Ok(at) = self.numbers.binary_search(&number) else { continue };
            used += self.own_use[at];
            if let Some(what) = onode.contradiction(self.own_keys[at]) {
                self.problems.push(format!("object number {number} {what}: nothing here mends that"));
            }
        }
        if let Home::Here(record) = onode.home(Inline::FirstChunk) {
            used.blocks += self.look_at_record(onode.number, record)?;
        }
        self.look_at_place(key, used);
        Ok(())
    }

    /// Whether an object is in a collection, for whose pool it counts.
    fn look_at_place(&mut self, key: &[u8], used: Use) {
        let at = space_of(key).zip(object_of(key));
        let Some((space, object)) = at else {
            self.problems.push(format!("key {key:02x?} names no object"));
            return self.count_for(NO_POOL, used);
        };
        let hash = u64::from(object.hobj.hash.reverse_bits());
        let part = self.parts.range(..=(space, hash)).next_back().map(|(_, part)| part);
        let part = part.filter(|(part, _)| part.space == space && part.hashes.contains(&hash));
        let pool = part.map(|(_, pool)| *pool);
        self.count_for(pool.unwrap_or(NO_POOL), used);
        // Its collection may be among what can't be read.
        if pool.is_none() && !self.is_partial {
            self.problems.push(format!("object {object} in space {space} is in no collection"));
        }
    }

    fn count_for(&mut self, pool: PoolId, used: Use) {
        *self.pool_use.entry(pool).or_default() += used;
    }

    fn gather_parts(&mut self) {
        for (key, shape) in &self.collections {
            let pool = keys::collection_of(key).map_or(NO_POOL, CollectionId::pool);
            for part in shape.parts() {
                self.parts.insert((part.space, part.hashes.start), (part.clone(), pool));
            }
        }
        let mut last: Option<&HashPart> = None;
        let all: usize = self.collections.values().map(|shape| shape.parts().len()).sum();
        for (part, _) in self.parts.values() {
            if last.is_some_and(|last| last.space == part.space && last.hashes.end > part.hashes.start) {
                self.problems.push(format!("two collections have the same hashes of space {}", part.space));
            }
            last = Some(part);
        }
        if all != self.parts.len() {
            self.problems.push("two collections begin at the same hash of a space".to_owned());
        }
    }

    fn look_at_part(&mut self, key: &[u8], value: &[u8]) -> Result<(), DecodeError> {
        let Some(number) = number_of(key) else {
            self.is_partial = true;
            self.problems.push(format!("key {key:02x?} has no number"));
            return Ok(());
        };
        if self.numbers.last() != Some(&number) {
            self.numbers.push(number);
            self.own_keys.push(OwnKeys::default());
            self.own_use.push(Use::NONE);
        }
        self.own_keys.iter_mut().next_back().into_iter().for_each(|own| own.note(key));
        let mut used = Use::NONE;
        if let Some(key_bytes) = omap_key_bytes(key) {
            used.omap_bytes = (key_bytes + value.len()) as u64;
        } else if key.get(PART_KEY_BYTES - 1) == Some(&(Part::Chunk as u8)) {
            used.blocks = self.look_at_record(number, value)?;
        }
        self.own_use.iter_mut().next_back().into_iter().for_each(|own| *own += used);
        Ok(())
    }

    /// A record of the map of data. Returns how many blocks it maps that none before it did.
    fn look_at_record(&mut self, number: u64, record: &[u8]) -> Result<u64, DecodeError> {
        let chunk = Chunk::decode(record)?;
        let mut blocks = 0;
        for blob in &chunk.blobs {
            self.look_at_blob(number, blob);
            // One chunk may have the same blob twice: two parts of it were cloned, one after the other.
            blocks += self.map(&blob.stored);
        }
        Ok(blocks + self.map(chunk.slots.values()))
    }

    /// Returns how many of these blocks nothing has mapped before.
    fn map<'a>(&mut self, slots: impl IntoIterator<Item = &'a Slot>) -> u64 {
        let mut first = 0;
        for slot in slots {
            first += u64::from(self.mapped.get(slot.block).is_none());
            self.mapped.note(slot);
        }
        first
    }

    fn look_at_blob(&mut self, number: u64, blob: &Blob) {
        if blob.is_too_large_for(blob.live) {
            let (stored, live) = (blob.stored.len(), blob.live.count_ones());
            let what = "compressed blocks of object number";
            self.problems.push(format!("{what} {number} take {stored} blocks, and {live} of them are left"));
        }
        let of_pool = self.packed.entry(blob.pool).or_default();
        of_pool.original += u64::from(blob.live.count_ones()) * BLOCK;
        if blob.stored.first().is_some_and(|slot| self.mapped.get(slot.block).is_none()) {
            of_pool.stored += u64::from(blob.bytes);
            of_pool.allocated += blob.stored.len() as u64 * BLOCK;
        }
    }

    /// Counts what belongs to no object any more, or to none that is known.
    fn count_dead(&mut self) {
        for at in 0..self.numbers.len() {
            let number = self.numbers[at];
            // An object that lives on has counted its dead omap.
            if !self.onodes.contains(&number) {
                let pool = self.dead.get(&number).and_then(|dead| dead.pool());
                self.count_for(pool.unwrap_or(NO_POOL), self.own_use[at]);
            }
        }
    }

    /// Compares what was gathered.
    fn compare<Q: DeviceQueue>(&mut self, store: &BlockStore<Q>) {
        let mut problems = std::mem::take(&mut self.problems);
        for number in self.ownerless() {
            problems.push(format!("no object has the number {number}, but something belongs to it"));
        }
        let mut mapped_blocks = 0;
        for block in self.mapped.blocks() {
            mapped_blocks += 1;
            let Uses { times, shared } = self.mapped.get(block).unwrap_or_default();
            let counted = self.counts.get(&block).copied().unwrap_or(1);
            if counted != times {
                problems.push(format!("block {block} is mapped {times} times and counted {counted}"));
            }
            if times > 1 && shared != times {
                problems.push(format!("block {block} is shared, and not everywhere said to be"));
            }
            if !store.space.holds_data(block) {
                problems.push(format!("block {block} is mapped, and free by the bitmap"));
            }
        }
        if let Some(block) = self.counts.keys().find(|block| self.mapped.get(**block).is_none()) {
            problems.push(format!("block {block} is counted, and nothing maps it"));
        }
        let counted = &store.packer.counted;
        for pool in self.packed.keys().chain(counted.keys()).collect::<BTreeSet<_>>() {
            let (found, counted) = (self.packed.get(pool), counted.get(pool));
            if found != counted {
                problems.push(format!("of pool {} {found:?} is compressed, counted is {counted:?}", pool.0));
            }
        }
        self.count_dead();
        if store.pool_use.counted.blocks() {
            for (PoolId(pool), found, counted) in store.pool_use.unlike(&self.pool_use) {
                let counts = [
                    ("blocks", found.blocks, counted.blocks),
                    ("bytes of omaps", found.omap_bytes, counted.omap_bytes),
                ];
                for (what, found, counted) in
                    counts.into_iter().filter(|(_, found, counted)| found != counted)
                {
                    problems.push(format!("{found} {what} of pool {pool} are there, {counted} are counted"));
                }
            }
        }
        let numbers = [
            ("blocks with data", mapped_blocks, store.space.data_blocks()),
            ("objects", self.objects, store.counters.objects),
            ("bytes of metadata", self.metadata_bytes, store.counters.metadata_bytes),
        ];
        for (what, found, counted) in numbers {
            if found != counted {
                problems.push(format!("{found} {what} are there, {counted} are counted"));
            }
        }
        if let Some(last) = self.onodes.last().filter(|last| **last >= store.counters.next_number) {
            problems.push(format!("object number {last} is to be given again"));
        }
        let taken = store.space.taken_blocks();
        let payloads: usize = store.payloads.iter().map(|(_, blocks)| blocks.len()).sum();
        let known = store.space.data_blocks()
            + store.space.leaving_blocks()
            + store.discarding_blocks
            + store.tree_blocks
            + payloads as u64;
        // A checkpoint under way has made pages that are not in the tree yet.
        if store.checkpoint.is_none() && taken != known {
            problems.push(format!("{taken} blocks are taken, {known} are known"));
        }
        self.problems = problems;
    }
}
