//! Finding collections and objects, and storing what changed of them.

use std::cell::{OnceCell, Ref};

use buffer::Piece;
use store::{CollectionId, StoreError, keys};
use types::GHObject;

use crate::context::Context;
use crate::onode::Onode;
use crate::page::Key;
use crate::recent::Recent;
use crate::records::{
    Collection, HASH_AT, Part, SPACE_KEY_BYTES, collection_key, hash_of, object_key, part_key, space_key,
    table,
};
use crate::shape::{HASH_END, Part as HashPart, Shape};
use crate::stop::{Attempt, Stop, damaged};
use crate::vacancies::LISTED_MAX;

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

/// The bytes of an object's key, without its space, that are its reversed hash.
const HASH: std::ops::Range<usize> = HASH_AT - SPACE_KEY_BYTES..HASH_AT - SPACE_KEY_BYTES + 4;

/// The key of an object in a space.
fn in_space(space: u64, suffix: &[u8]) -> Key {
    keys::joined(&space_key(space), suffix)
}

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
