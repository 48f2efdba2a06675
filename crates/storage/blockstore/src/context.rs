//! What a transaction or a read sees and, for a transaction, what it has changed so far.

use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::slice;

use buffer::Piece;
use store::{CollectionId, Compressed, ObjectGap, StoreError, keys};
use types::{GHObject, PoolId};

use crate::ENTRY_BYTES;
use crate::batch::Batch;
use crate::bitmap::{Run, runs_of};
use crate::block_runs::{BlockMap, BlockSet};
use crate::cache::DataCache;
use crate::chunk::{CHUNK_BLOCKS, Chunk, Slot};
use crate::layer::Layer;
use crate::layout::{BLOCK, Counters};
use crate::mapped::BadBlob;
use crate::onode::Onode;
use crate::packer::{COUNTED_BYTES, Change, Packer, counted_key, encode_counted};
use crate::page::Key;
use crate::pool_use::{Change as PoolChange, PoolChanges, PoolUse};
use crate::recent::Recent;
use crate::records::{
    Collection, Counts, HASH_AT, Part, SPACE_KEY_BYTES, collection_key, counts_key, hash_of, number_of,
    object_key, object_of, omap_key_bytes, part_key, space_key, table,
};
use crate::shape::{HASH_END, Part as HashPart, Shape};
use crate::space::Space;
use crate::stop::{Attempt, Stop, damaged};
use crate::tree::{Gap, Merged, Tables};
use crate::vacancies::LISTED_MAX;

/// Contents of blocks in memory.
#[derive(Debug, Default)]
pub struct Contents {
    /// In the log and not in their places, since the last checkpoint began.
    pub deferred: BTreeMap<u64, Piece>,
    /// The same, which a checkpoint is writing to their places. Also blocks that were given up since: a power loss may take back
    /// that they were, and none of them is used again before all are written.
    pub frozen: BTreeMap<u64, Piece>,
    /// Being written to their places beside the log.
    pub writing: BlockMap,
    /// In their places, too.
    pub cache: DataCache,
}

/// Contents of blocks that were read for a request, or why that failed.
pub type Fetched = BTreeMap<u64, Result<Piece, StoreError>>;

/// For a request that has read none.
pub static NOTHING_FETCHED: Fetched = BTreeMap::new();

impl Contents {
    /// The bytes of a block that is not in its place.
    pub fn deferred(&self, block: u64) -> Option<Piece> {
        let deferred = self.deferred.get(&block).or_else(|| self.frozen.get(&block));
        deferred.cloned().or_else(|| self.writing.get(block))
    }

    /// The first of these blocks that is not in its place.
    pub fn first_deferred(&self, blocks: Range<u64>) -> Option<u64> {
        let first =
            |deferred: &BTreeMap<u64, Piece>| deferred.range(blocks.clone()).next().map(|(block, _)| *block);
        [first(&self.deferred), first(&self.frozen), self.writing.first_of(blocks.clone())]
            .into_iter()
            .flatten()
            .min()
    }
}

/// An object as it is found.
#[derive(Clone, Debug)]
pub struct Found {
    pub collection: CollectionId,
    pub object: GHObject,
    pub place: Place,
    pub onode: Onode,
    /// The onode as it is stored, if it is: encoded.
    pub stored: Option<Piece>,
}

impl Found {
    /// The key of its onode.
    pub fn key(&self) -> &Key {
        self.place.key(&self.object)
    }
}

/// Where an object's onode lies, or would.
#[derive(Clone, Debug)]
pub struct Place {
    pub space: u64,
    /// The onode's key, once someone needed it: a read of what was found lately does not.
    key: OnceCell<Key>,
}

impl Place {
    pub fn new(space: u64) -> Self {
        Self { space, key: OnceCell::new() }
    }

    fn key(&self, object: &GHObject) -> &Key {
        self.key.get_or_init(|| object_key(self.space, object))
    }
}

/// An onode, decoded and encoded.
fn decoded(value: Piece) -> Attempt<(Onode, Piece)> {
    Ok((Onode::decode(&value).map_err(damaged)?, value))
}

/// The error of a blob of an object that has its checksums and can't be decompressed.
pub fn bad_blob(collection: CollectionId, object: &GHObject, BadBlob(number): BadBlob) -> StoreError {
    StoreError::Checksum { collection, object: Box::new(object.clone()), offset: number * BLOCK }
}

/// What a gap has of the objects of the space that was searched from a key on.
fn objects_of(gap: &Gap, searched: &[u8], why: StoreError) -> ObjectGap {
    let is_of_space = |key: &&Key| key.get(..SPACE_KEY_BYTES) == searched.get(..SPACE_KEY_BYTES);
    let object = |key: Option<&Key>| key.filter(is_of_space).and_then(|key| object_of(key));
    let from = object(Some(&gap.low)).unwrap_or(GHObject::min());
    ObjectGap { from, behind: object(gap.high.as_ref()), why }
}

/// The bytes of an object's key, without its space, that are its reversed hash.
const HASH: std::ops::Range<usize> = HASH_AT - SPACE_KEY_BYTES..HASH_AT - SPACE_KEY_BYTES + 4;

/// The key of an object in a space.
fn in_space(space: u64, suffix: &[u8]) -> Key {
    keys::joined(&space_key(space), suffix)
}

/// A transaction under way. If it stops, nothing of it stays but the blocks that it took, which [`Context::take_back`]
/// gives back.
pub struct Context<'a> {
    pub tables: &'a Tables,
    pub contents: &'a Contents,
    pub fetched: &'a Fetched,
    pub space: &'a mut Space,
    pub packer: &'a Packer,
    pub counters: Counters,
    /// Whose blocks and omaps' entries it takes and gives up: that of the step's objects. `None` where the shard does not count.
    pub pool: Option<PoolId>,
    pub pool_use: &'a PoolUse,
    /// What it changes of what pools take.
    pub pools: PoolChanges,
    pub top: Layer,
    /// The collection that was looked at last: most steps of a transaction are about one.
    pub last_collection: Cell<Option<(CollectionId, Collection)>>,
    /// The object that was stored last: most steps of a transaction are about one. Its onode may not be set yet. A step that
    /// looks for objects or changes onodes otherwise sets it first, and forgets the object.
    pub last_object: Option<Found>,
    /// Where searches for objects go on behind what can't be read: what they have passed by.
    pub passed: RefCell<Option<Vec<ObjectGap>>>,
    /// What it changes of what is compressed.
    pub packed: BTreeMap<PoolId, Change>,
    /// Blocks that it took.
    pub fresh: BlockSet,
    /// Blocks of others that it gave up.
    pub freed: Vec<u64>,
    /// Contents of the fresh blocks.
    pub new_contents: BlockMap,
    /// New contents of other blocks, in place of what they hold.
    pub replaced: BTreeMap<u64, Piece>,
    /// Numbers from here on were never given before this transaction: what is stored under them is in `top` alone.
    pub new_numbers: u64,
    /// Whether blocks may be written in place, by the log.
    pub in_place: bool,
    /// Whether what was found lately counts. A request that has waited for pages searches for all that it needs: so it uses
    /// its pages together, and they stay until it has the last of them.
    pub asks_recent: bool,
    /// Blocks that must stay free for the next checkpoint.
    pub kept_blocks: u64,
    /// Of an object with more keys than this a removal only notes that they are dead.
    pub keys_at_once: usize,
    /// The same with keys of more bytes than this together.
    pub key_bytes_at_once: usize,
}

/// What a transaction that takes effect comes to.
pub struct Ended {
    /// For the log.
    pub batch: Batch,
    /// Contents of fresh blocks that are written to their places.
    pub placed: BlockMap,
    /// Blocks that are given up.
    pub freed: Vec<u64>,
    /// How much of pools' data is compressed after it, where that changes.
    pub packed: Vec<(PoolId, Compressed)>,
    /// The object that it stored last.
    pub last_object: Option<Found>,
}

impl<'a> Context<'a> {
    pub fn new(
        tables: &'a Tables,
        contents: &'a Contents,
        fetched: &'a Fetched,
        (space, packer, pool_use): (&'a mut Space, &'a Packer, &'a PoolUse),
        counters: Counters,
    ) -> Self {
        Self {
            tables,
            contents,
            fetched,
            space,
            packer,
            counters,
            pool: None,
            pool_use,
            pools: PoolChanges::default(),
            top: Layer::new(),
            last_collection: Cell::new(None),
            last_object: None,
            passed: RefCell::new(None),
            packed: BTreeMap::new(),
            fresh: BlockSet::default(),
            freed: Vec::new(),
            new_contents: BlockMap::default(),
            replaced: BTreeMap::new(),
            new_numbers: u64::MAX,
            in_place: false,
            asks_recent: false,
            kept_blocks: 0,
            keys_at_once: usize::MAX,
            key_bytes_at_once: usize::MAX,
        }
    }

    /// Ends a transaction without a trace.
    pub fn take_back(self) {
        self.space.give_back(self.fresh.blocks());
    }

    /// Ends a transaction that takes effect. Contents of fresh blocks go to their places where `direct`, otherwise all are
    /// in the batch.
    pub fn finish(mut self, direct: bool) -> Ended {
        let packed = self.note_packed();
        let Self { counters, pools, top, last_object, fresh, mut freed, new_contents, replaced, .. } = self;
        let mut deferred: Vec<(u64, Piece)> = replaced.into_iter().collect();
        let placed = match direct {
            true => new_contents,
            false => {
                deferred.extend(new_contents.blocks());
                deferred.sort_unstable_by_key(|(block, _)| *block);
                BlockMap::default()
            }
        };
        freed.sort_unstable();
        let (allocated, freed_runs) = (fresh.runs().collect(), runs_of(freed.iter().copied()));
        let batch = Batch { counters, allocated, freed: freed_runs, pools, deferred, changes: top };
        Ended { batch, placed, freed, packed, last_object }
    }

    /// Writes down how much of pools' data is compressed, where that changes.
    fn note_packed(&mut self) -> Vec<(PoolId, Compressed)> {
        let mut noted = Vec::new();
        for (pool, change) in std::mem::take(&mut self.packed) {
            let before = self.packer.counted.get(&pool).copied().unwrap_or_default();
            let after = change.of(before);
            let (key, value) = (counted_key(pool), encode_counted(&after));
            debug_assert_eq!(value.len(), COUNTED_BYTES);
            match (before == Compressed::default(), after == Compressed::default()) {
                (true, true) => continue,
                (true, false) => self.put_new(key, value),
                (false, false) => drop(self.top.insert(key.into(), Some(value))),
                (false, true) => self.delete_known(key, &value),
            }
            noted.push((pool, after));
        }
        noted
    }

    pub fn get(&self, key: &[u8]) -> Attempt<Option<Piece>> {
        if key.first() == Some(&table::NUMBERED) && number_of(key) >= Some(self.new_numbers) {
            return Ok(self.top.get(key).cloned().flatten());
        }
        self.tables.get(&self.top, key)
    }

    pub fn next(&self, from: &[u8], end: Option<&[u8]>) -> Attempt<Option<(Key, Piece)>> {
        match &mut *self.passed.borrow_mut() {
            None => self.tables.next(&self.top, from, end),
            Some(gaps) => {
                let mut passed = Vec::new();
                let found = self.tables.next_readable(&self.top, from, end, &mut passed);
                ObjectGap::add(gaps, passed.into_iter().map(|(gap, why)| objects_of(&gap, from, why)));
                found
            }
        }
    }

    /// All keys from `from` on before `end`.
    pub fn merged<'b>(&'b self, from: &'b [u8], end: Option<&'b [u8]>) -> Attempt<Merged<'b>> {
        self.tables.merged(&self.top, from, end)
    }

    /// Sets a key.
    pub fn put(&mut self, key: Key, value: Piece) -> Attempt<()> {
        let old_bytes = self.get(&key)?.map(|old| old.len());
        self.put_over(key, old_bytes, value);
        Ok(())
    }

    /// Sets a key whose value has so many bytes so far, if it is there.
    pub fn put_over(&mut self, key: Key, old_bytes: Option<usize>, value: Piece) {
        let Some(old_bytes) = old_bytes else { return self.put_new(key, value) };
        if omap_key_bytes(&key).is_some() {
            self.count_omap(value.len() as i64 - old_bytes as i64);
        }
        self.counters.metadata_bytes =
            (self.counters.metadata_bytes + value.len() as u64).saturating_sub(old_bytes as u64);
        self.top.insert(key.into(), Some(value));
    }

    /// Sets a key that is not there.
    pub fn put_new(&mut self, key: Key, value: Piece) {
        if let Some(key_bytes) = omap_key_bytes(&key) {
            self.count_omap((key_bytes + value.len()) as i64);
        }
        self.counters.metadata_bytes += ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.top.insert(key.into(), Some(value));
    }

    /// Removes a key whose value is known.
    pub fn delete_known(&mut self, key: Key, value: &Piece) {
        if let Some(key_bytes) = omap_key_bytes(&key) {
            self.count_omap(-((key_bytes + value.len()) as i64));
        }
        let bytes = ENTRY_BYTES + (key.len() + value.len()) as u64;
        self.counters.metadata_bytes = self.counters.metadata_bytes.saturating_sub(bytes);
        self.top.insert(key.into(), None);
    }

    fn count_omap(&mut self, more: i64) {
        if let Some(pool) = self.pool_of_omaps() {
            self.pools.add(pool, PoolChange { omap_bytes: more, ..PoolChange::default() });
        }
    }

    /// For which an omap of the step's object counts.
    pub fn pool_of_omaps(&self) -> Option<PoolId> {
        self.pool.filter(|_| self.pool_use.counted.omaps())
    }

    pub fn delete(&mut self, key: Key) -> Attempt<()> {
        if let Some(value) = self.get(&key)? {
            self.delete_known(key, &value);
        }
        Ok(())
    }

    /// All keys and values from `start` on before `end`.
    pub fn range(&self, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<(Key, Piece)>> {
        self.tables.range(&self.top, start, end)
    }

    /// All keys and values that begin with `prefix`.
    pub fn with_prefix(&self, prefix: &[u8]) -> Attempt<Vec<(Key, Piece)>> {
        self.range(prefix, keys::after_prefix(prefix).as_deref())
    }

    pub fn delete_range(&mut self, start: &[u8], end: Option<&[u8]>) -> Attempt<()> {
        for (key, value) in self.range(start, end)? {
            self.delete_known(key, &value);
        }
        Ok(())
    }
}

/// Collections and objects.
impl Context<'_> {
    /// What was found lately, if that is what this context would find. What a transaction has changed is known to it alone.
    pub fn recent(&self) -> Option<Ref<'_, Recent>> {
        (self.asks_recent && self.top.is_empty()).then(|| self.tables.recent.borrow())
    }

    /// Notes what was found, unless the transaction may have made it.
    pub fn note(&self, note: impl FnOnce(&mut Recent)) {
        if self.top.is_empty() {
            note(&mut self.tables.recent.borrow_mut());
        }
    }

    pub fn find_collection(&self, id: CollectionId) -> Attempt<Option<Collection>> {
        if let Some((_, collection)) = self.last_collection.get().filter(|(last, _)| *last == id) {
            return Ok(Some(collection));
        }
        let recent = self.recent().and_then(|recent| recent.collection(id));
        let collection = match recent {
            Some(collection) => collection,
            None => {
                let Some(value) = self.get(&collection_key(table::COLLECTION, id))? else { return Ok(None) };
                let collection = Collection::decode(&value).map_err(damaged)?;
                self.note(|recent| recent.note_collection(id, collection));
                collection
            }
        };
        self.last_collection.set(Some((id, collection)));
        Ok(Some(collection))
    }

    pub fn collection(&self, id: CollectionId) -> Attempt<Collection> {
        let found = self.find_collection(id)?;
        found.ok_or(Stop::Error(StoreError::NoSuchCollection(id)))
    }

    pub fn put_collection(&mut self, id: CollectionId, collection: &Collection) -> Attempt<()> {
        let old_bytes = self.find_collection(id)?.map(|_| Collection::BYTES);
        self.last_collection.set(Some((id, *collection)));
        self.put_over(collection_key(table::COLLECTION, id), old_bytes, collection.encode());
        Ok(())
    }

    pub fn delete_collection(&mut self, id: CollectionId) -> Attempt<()> {
        self.last_collection.set(None);
        self.delete(collection_key(table::COLLECTION, id))
    }

    /// Where a collection's objects lie.
    pub fn shape(&self, id: CollectionId, collection: &Collection) -> Attempt<Shape> {
        if !collection.divided {
            return Ok(Shape::whole(collection.space));
        }
        let value = self.get(&collection_key(table::SHAPE, id))?;
        let value = value.ok_or_else(|| damaged("a collection's spaces are missing"))?;
        Shape::decode(&value).map_err(damaged)
    }

    pub fn put_shape(&mut self, id: CollectionId, shape: &Shape) -> Attempt<()> {
        let mut collection = self.collection(id)?;
        let key = collection_key(table::SHAPE, id);
        match shape.only() {
            Some(space) => {
                self.delete(key)?;
                (collection.space, collection.divided) = (space, false);
            }
            None => {
                self.put(key, shape.encode())?;
                collection.divided = true;
            }
        }
        self.put_collection(id, &collection)
    }

    /// The space that an object lies in, or would.
    ///
    /// # Errors
    /// There is no such collection.
    fn space_of(&self, id: CollectionId, object: &GHObject) -> Attempt<u64> {
        let collection = self.collection(id)?;
        Ok(match collection.divided {
            false => collection.space,
            true => self.shape(id, &collection)?.space_of(object.hobj.hash),
        })
    }

    /// The key that an object has, or would have.
    ///
    /// # Errors
    /// There is no such collection.
    pub fn key_of(&self, id: CollectionId, object: &GHObject) -> Attempt<Key> {
        Ok(object_key(self.space_of(id, object)?, object))
    }

    /// # Errors
    /// There is no such collection.
    pub fn find(&self, collection: CollectionId, object: &GHObject) -> Attempt<Option<Found>> {
        let (mut place, onode) = self.look_for(collection, object)?;
        if onode.is_none() {
            // Most who look in vain make the object next.
            let Place { space, key } = &mut place;
            let note = |key| self.note(|recent| recent.note_absent(*space, object.clone(), key));
            key.take().into_iter().for_each(note);
        }
        let found = |(onode, stored)| Found {
            collection,
            object: object.clone(),
            place,
            onode,
            stored: Some(stored),
        };
        Ok(onode.map(found))
    }

    /// Where an object's onode lies, or would, and if the object exists the onode, decoded and encoded.
    fn look_for(
        &self,
        collection: CollectionId,
        object: &GHObject,
    ) -> Attempt<(Place, Option<(Onode, Piece)>)> {
        debug_assert!(self.last_object.is_none(), "an onode that may not be set yet is passed by");
        let place = Place::new(self.space_of(collection, object)?);
        if let Some(recent) = self.recent() {
            let value = recent.onode(place.space, object);
            if let Some(value) = value {
                return Ok((place, Some(decoded(value.clone())?)));
            }
            if let Some(key) = recent.absent(place.space, object) {
                return Ok((Place { key: key.clone().into(), ..place }, None));
            }
            if recent.vacancies.has(place.key(object)) {
                debug_assert!(!matches!(self.get(place.key(object)), Ok(Some(_))), "there is such an onode");
                return Ok((place, None));
            }
        }
        let Some(value) = self.get(place.key(object))? else {
            self.on_vain_search(place.key(object));
            return Ok((place, None));
        };
        // A piece of a page would keep all of the page in memory.
        let value = value.compact();
        let found = decoded(value.clone())?;
        self.note(|recent| recent.note_onode(place.space, object.clone(), value));
        Ok((place, Some(found)))
    }

    /// The tables have no onode with this key: where many such searches are, their neighbours are noted.
    fn on_vain_search(&self, key: &Key) {
        if self.recent().is_none() {
            return;
        }
        let unlisted = self.tables.recent.borrow_mut().vacancies.on_vain_search(key);
        // Most searches are not worth a listing.
        let Some(unlisted) = unlisted else { return };
        let mut hashes = Vec::new();
        let listed = self.tables.each_key(&unlisted.start, unlisted.end.as_deref(), |key| {
            hashes.extend(hash_of(key));
            hashes.len() <= LISTED_MAX
        });
        // A listing that needs pages from the device is left: a later search in vain tries again.
        if listed.is_ok() {
            self.tables.recent.borrow_mut().vacancies.on_listed(unlisted, hashes);
        }
    }

    /// The object if it was stored last. It has to be stored again to be found so once more, and for its onode to be set.
    fn take_last(&mut self, collection: CollectionId, object: &GHObject) -> Option<Found> {
        let last = self.last_object.as_ref()?;
        if last.collection == collection && last.object == *object {
            return self.last_object.take();
        }
        self.leave_last();
        None
    }

    /// [`Context::find`] without a search if the object was stored last.
    pub fn find_again(&mut self, collection: CollectionId, object: &GHObject) -> Attempt<Option<Found>> {
        match self.take_last(collection, object) {
            Some(last) => Ok(Some(last)),
            None => self.find(collection, object),
        }
    }

    /// [`Context::find`] where it must exist.
    pub fn existing(&self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        let missing = || Stop::Error(StoreError::NoSuchObject(collection, Box::new(object.clone())));
        self.find(collection, object)?.ok_or_else(missing)
    }

    /// The object, or a new one that is not yet stored.
    pub fn find_or_make(&mut self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        if let Some(last) = self.take_last(collection, object) {
            return Ok(last);
        }
        let (place, found) = self.look_for(collection, object)?;
        let (onode, stored) = match found {
            Some((onode, stored)) => (onode, Some(stored)),
            None => {
                self.counters.objects += 1;
                (Onode::new(self.new_number()), None)
            }
        };
        Ok(Found { collection, object: object.clone(), place, onode, stored })
    }

    /// A number that was never given.
    pub fn new_number(&mut self) -> u64 {
        let number = self.counters.next_number;
        self.counters.next_number += 1;
        number
    }

    /// The first onode in these parts of spaces from `from` on and before `end`, which are keys of objects without their
    /// space: its key without the space, the space, the value. Parts ascend.
    pub fn next_object(
        &self,
        parts: &[HashPart],
        from: &[u8],
        end: Option<&[u8]>,
    ) -> Attempt<Option<(Key, u64, Piece)>> {
        let before_end =
            |found: (Key, u64, Piece)| Some(found).filter(|f| end.is_none_or(|end| f.0.as_slice() < end));
        if let [part] = parts
            && part.hashes == (0..HASH_END)
        {
            let stop = match end {
                Some(end) => Some(in_space(part.space, end)),
                None => keys::after_prefix(&space_key(part.space)),
            };
            let found = self.next(&in_space(part.space, from), stop.as_deref())?;
            return Ok(
                found.map(|(key, value)| (Key::from_slice(&key[SPACE_KEY_BYTES..]), part.space, value))
            );
        }
        let mut from = Key::from_slice(from);
        loop {
            // Where the next bytes before a hash are looked for.
            let mut after = from.clone();
            if let Some(prefix) = from.get(..HASH.start) {
                // Among objects with the same bytes before their hash, parts follow one another.
                if let Some(found) = self.next_in_prefix(parts, prefix, &from)? {
                    return Ok(before_end(found));
                }
                let Some(behind) = keys::after_prefix(prefix) else { return Ok(None) };
                after = behind;
            }
            let mut least: Option<Key> = None;
            for part in parts {
                let stop = keys::after_prefix(&space_key(part.space));
                if let Some((key, _)) = self.next(&in_space(part.space, &after), stop.as_deref())? {
                    let found = key[SPACE_KEY_BYTES..].get(..HASH.start);
                    let found = found.ok_or_else(|| damaged("a key of an object"))?;
                    let found = Key::from_slice(found);
                    least = Some(least.map_or(found.clone(), |least| least.min(found)));
                }
            }
            match least {
                Some(least) if end.is_none_or(|end| least.as_slice() < end) => from = least,
                _ => return Ok(None),
            }
        }
    }

    /// The same among objects whose keys begin with the bytes before a hash.
    fn next_in_prefix(
        &self,
        parts: &[HashPart],
        prefix: &[u8],
        from: &[u8],
    ) -> Attempt<Option<(Key, u64, Piece)>> {
        let hash = from.get(HASH).and_then(|h| h.try_into().ok()).map_or(0, u32::from_be_bytes);
        for part in parts.iter().filter(|part| part.hashes.end > u64::from(hash)) {
            let first = keys::joined(prefix, &(part.hashes.start as u32).to_be_bytes());
            let after = match u32::try_from(part.hashes.end) {
                Ok(hash) => Some(keys::joined(prefix, &hash.to_be_bytes())),
                Err(_) => keys::after_prefix(prefix),
            };
            let start = in_space(part.space, from.max(&first));
            let stop = after.map(|after| in_space(part.space, &after));
            let stop = stop.or_else(|| keys::after_prefix(&space_key(part.space)));
            if let Some((key, value)) = self.next(&start, stop.as_deref())? {
                return Ok(Some((Key::from_slice(&key[SPACE_KEY_BYTES..]), part.space, value)));
            }
        }
        Ok(None)
    }

    /// The keys of some parts of an object, if there are at most [`Context::keys_at_once`].
    pub fn few_keys(&self, onode: &Onode, parts: &[Part]) -> Attempt<Option<Vec<(Part, Key, Piece)>>> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        for part in parts.iter().filter(|_| onode.has_keys()) {
            let prefix = part_key(onode.number_of(*part), *part, &[]);
            let end = keys::after_prefix(&prefix);
            let mut merged = self.merged(&prefix, end.as_deref())?;
            while let Some((key, value)) = merged.next()? {
                bytes += key.len();
                if all.len() == self.keys_at_once || bytes > self.key_bytes_at_once {
                    return Ok(None);
                }
                all.push((*part, key, value));
            }
        }
        Ok(Some(all))
    }

    /// Removes keys of parts of objects, and gives up the blocks that they map.
    pub fn delete_parts(&mut self, all: Vec<(Part, Key, Piece)>) -> Attempt<()> {
        for (part, key, value) in all {
            if part == Part::Chunk {
                self.give_up_record(&value)?;
            }
            self.delete_known(key, &value);
        }
        Ok(())
    }

    /// Stores an object whose onode may have changed since it was found: once a step is about another one, or with
    /// [`Context::write_last`].
    pub fn store(&mut self, found: Found) {
        self.write_last();
        self.last_object = Some(found);
    }

    /// Sets the onode of the object that was stored last.
    pub fn write_last(&mut self) {
        let Some(mut found) = self.last_object.take() else { return };
        let value = found.onode.encode();
        if found.stored.as_ref() != Some(&value) {
            let old_bytes = found.stored.map(|old| old.len());
            self.put_over(found.place.key(&found.object).clone(), old_bytes, value.clone());
            found.stored = Some(value);
        }
        self.last_object = Some(found);
    }

    /// Sets it, and forgets the object.
    pub fn leave_last(&mut self) {
        self.write_last();
        self.last_object = None;
    }
}

/// Blocks.
impl Context<'_> {
    /// Takes free blocks for data.
    pub fn allocate(&mut self, count: u64) -> Attempt<Vec<u64>> {
        if self.space.free_blocks() < count.saturating_add(self.kept_blocks) {
            return Err(Stop::Space);
        }
        let blocks = self.space.allocate(count).ok_or(Stop::Space)?;
        runs_of(blocks.iter().copied()).into_iter().for_each(|run| self.fresh.insert(run));
        self.count_blocks(blocks.len() as i64);
        Ok(blocks)
    }

    fn count_blocks(&mut self, more: i64) {
        if let Some(pool) = self.pool {
            self.pools.add(pool, PoolChange { blocks: more, ..PoolChange::default() });
        }
    }

    /// Blocks of data that there are with this transaction.
    pub fn data_blocks(&self) -> u64 {
        (self.space.data_blocks() + self.fresh.len()).saturating_sub(self.freed.len() as u64)
    }

    /// An object maps a block no more. Returns whether none does.
    pub fn give_up(&mut self, slot: Slot) -> Attempt<bool> {
        if slot.shared && !self.drop_share(slot.block)? {
            return Ok(false);
        }
        self.count_blocks(-1);
        match self.fresh.remove(slot.block) {
            // Nothing durable refers to it.
            true => {
                self.new_contents.remove(Run { start: slot.block, count: 1 });
                self.space.give_back([slot.block]);
            }
            false => {
                self.replaced.remove(&slot.block);
                self.freed.push(slot.block);
            }
        }
        Ok(true)
    }

    /// Sets the contents of a block that this transaction took, or may write in place.
    pub fn set_contents(&mut self, block: u64, bytes: Piece) {
        match self.fresh.contains(block) {
            true => self.new_contents.insert(block, bytes),
            false => drop(self.replaced.insert(block, bytes)),
        }
    }

    /// Blocks whose contents it sets.
    pub fn contents_blocks(&self) -> u64 {
        self.new_contents.len() + self.replaced.len() as u64
    }

    fn counts(&self, block: u64) -> Attempt<(Key, u8, Counts)> {
        let key = counts_key(block / CHUNK_BLOCKS);
        let counts = match self.get(&key)? {
            Some(value) => Counts::decode(&value).map_err(damaged)?,
            None => Counts::default(),
        };
        Ok((key, (block % CHUNK_BLOCKS) as u8, counts))
    }

    /// One object less maps a block. Returns whether that was the last.
    fn drop_share(&mut self, block: u64) -> Attempt<bool> {
        let (key, place, mut counts) = self.counts(block)?;
        match counts.0.get(&place).copied() {
            None => return Ok(true),
            Some(0..=2) => drop(counts.0.remove(&place)),
            Some(more) => drop(counts.0.insert(place, more - 1)),
        }
        match counts.0.is_empty() {
            true => self.delete(key)?,
            false => self.put(key, counts.encode())?,
        }
        Ok(false)
    }

    /// One object more maps the blocks.
    pub fn add_shares(&mut self, chunk: &Chunk) -> Attempt<()> {
        chunk.blobs.iter().for_each(|blob| self.count_live(blob, blob.live, 1));
        for slot in chunk.stored() {
            let (key, place, mut counts) = self.counts(slot.block)?;
            *counts.0.entry(place).or_insert(1) += 1;
            self.put(key, counts.encode())?;
        }
        Ok(())
    }

    /// The bytes of mapped blocks, each checked.
    ///
    /// # Errors
    /// Some have to be read first, could not be read, or are not what was written.
    pub fn bytes_of(&self, found: &Found, slots: &[(u64, Slot)]) -> Attempt<Vec<Piece>> {
        let held = |slot: &Slot| {
            let block = slot.block;
            let own = self.replaced.get(&block).cloned().or_else(|| self.new_contents.get(block));
            let own = own.or_else(|| self.contents.deferred(block));
            let cached = || self.contents.cache.get(block, slot.crc).map(Ok);
            own.map(Ok).or_else(|| self.fetched.get(&block).cloned()).or_else(cached)
        };
        let missing: Vec<u64> =
            slots.iter().map(|s| &s.1).filter(|s| held(s).is_none()).map(|s| s.block).collect();
        if !missing.is_empty() {
            return Err(Stop::Blocks(missing));
        }
        let mut out = Vec::with_capacity(slots.len());
        for slot in slots {
            let Some(piece) = held(&slot.1) else { continue };
            let piece = piece?;
            check_blocks(found.collection, &found.object, slice::from_ref(slot), &piece)?;
            out.push(piece);
        }
        Ok(out)
    }
}

/// Whether the bytes of blocks, one behind the other, are those that were written.
///
/// # Errors
/// They aren't.
pub fn check_blocks(
    collection: CollectionId,
    object: &GHObject,
    slots: &[(u64, Slot)],
    bytes: &Piece,
) -> Result<(), StoreError> {
    debug_assert_eq!(bytes.len() as u64, slots.len() as u64 * BLOCK, "bytes of {} blocks", slots.len());
    let wrong = bytes.first_wrong_page(slots.iter().map(|(_, slot)| slot.crc));
    match wrong.and_then(|at| slots.get(at)) {
        None => Ok(()),
        Some((number, _)) => {
            let object = Box::new(object.clone());
            Err(StoreError::Checksum { collection, object, offset: number * BLOCK })
        }
    }
}
