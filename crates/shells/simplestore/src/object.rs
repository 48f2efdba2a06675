//! Collections and objects within a group of requests that share a commit.

use device::Device;
use encoding::{Decode, Encode};
use store::{CollectionId, StoreError};
use types::GHObject;

use crate::records::{CollectionRecord, Counters, Onode};
use crate::space::Space;
use crate::tables::{Attempt, Table, Tables, damaged};
use store::keys::{self, Key};

/// The store as the requests performed so far in the group leave it.
pub struct Context<'a, 't> {
    pub tables: Tables<'t>,
    pub space: &'a mut Space,
    pub image: &'a Device,
    next_nid: u64,
    /// Whether the image has to be flushed before the commit.
    pub data_written: bool,
}

pub struct Found {
    pub collection: CollectionId,
    pub object: GHObject,
    pub key: Key,
    pub onode: Onode,
    /// The record as it is in the table; `None` for an object that is being made.
    stored: Option<Vec<u8>>,
}

impl<'a, 't> Context<'a, 't> {
    pub fn new(tables: Tables<'t>, space: &'a mut Space, image: &'a Device, next_nid: u64) -> Self {
        Self { tables, space, image, next_nid, data_written: false }
    }

    pub fn counters(&self) -> Counters {
        Counters { next_nid: self.next_nid, metadata_bytes: self.tables.metadata_bytes() }
    }

    /// A collection's key; the collection must exist.
    pub fn collection_key(&self, id: CollectionId) -> Attempt<Key> {
        let key = keys::collection_key(id);
        match self.tables.contains(Table::Collections, &key)? {
            true => Ok(key),
            false => Err(StoreError::NoSuchCollection(id).into()),
        }
    }

    /// A collection's key and record.
    pub fn collection(&self, id: CollectionId) -> Attempt<(Key, CollectionRecord)> {
        let key = keys::collection_key(id);
        let bytes = self.tables.get(Table::Collections, &key)?;
        let bytes = bytes.ok_or(StoreError::NoSuchCollection(id))?;
        let record = CollectionRecord::from_bytes_exact(&bytes);
        Ok((key, record.map_err(|e| damaged(format!("the record of collection {id}: {e}")))?))
    }

    pub fn set_collection(&mut self, key: &[u8], record: &CollectionRecord) -> Attempt<()> {
        self.tables.set(Table::Collections, key, &record.to_bytes(0))
    }

    /// An object, if it is there; the collection must exist.
    pub fn find(&self, collection: CollectionId, object: &GHObject) -> Attempt<Option<Found>> {
        let key = keys::object_key(&self.collection_key(collection)?, object);
        let Some(bytes) = self.tables.get(Table::Onodes, &key)? else { return Ok(None) };
        let onode = Onode::from_bytes_exact(&bytes)
            .map_err(|e| damaged(format!("the record of object {object} in {collection}: {e}")))?;
        Ok(Some(Found { collection, object: object.clone(), key, onode, stored: Some(bytes) }))
    }

    /// An object that must exist.
    pub fn require(&self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        let missing = || StoreError::NoSuchObject(collection, Box::new(object.clone()));
        self.find(collection, object)?.ok_or_else(|| missing().into())
    }

    /// An object, made if it is missing (and only stored by [`Context::store`]).
    pub fn find_or_new(&mut self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        if let Some(found) = self.find(collection, object)? {
            return Ok(found);
        }
        let key = keys::object_key(&keys::collection_key(collection), object);
        let onode = Onode { nid: self.next_nid, ..Onode::default() };
        // Numbers of refused transactions are not given again: 64 bits are enough.
        self.next_nid += 1;
        Ok(Found { collection, object: object.clone(), key, onode, stored: None })
    }

    /// Stores an object's record if it changed.
    pub fn store(&mut self, found: &Found) -> Attempt<()> {
        let bytes = found.onode.to_bytes(0);
        if found.stored.as_ref() == Some(&bytes) {
            return Ok(());
        }
        self.tables.set(Table::Onodes, &found.key, &bytes)
    }

    /// Removes an object with its blocks, its omap and its attributes.
    pub fn remove(&mut self, found: &Found) -> Attempt<()> {
        self.unmap(found.onode.nid, 0, u64::MAX)?;
        self.remove_numbered(Table::Omap, found.onode.nid)?;
        self.remove_numbered(Table::Attrs, found.onode.nid)?;
        self.tables.remove(Table::Onodes, &found.key)
    }

    /// Removes all that a table has of an object.
    pub fn remove_numbered(&mut self, table: Table, nid: u64) -> Attempt<()> {
        let start = keys::numbered_key(nid, &[]);
        let end = keys::after_prefix(&start);
        self.tables.remove_range(table, &start, end.as_deref())
    }
}
