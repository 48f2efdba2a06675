//! Collections and objects within a batch.

use device::Device;
use encoding::{Decode, Encode};
use store::{CollectionId, StoreError, Transaction};
use types::GHObject;

use crate::data::Space;
use crate::keys;
use crate::onode::{CollectionRecord, Onode};
use crate::tables::{Failure, In, Step, Tables};

/// A batch as it grows.
pub struct Context<'a, 't> {
    pub tables: Tables<'t>,
    pub space: &'a mut Space,
    pub image: &'a Device,
    next_nid: &'a mut u64,
    /// Whether the image has to be flushed.
    pub data_written: bool,
}

/// An object that is there.
pub struct Found {
    pub collection: CollectionId,
    pub object: GHObject,
    pub key: Vec<u8>,
    pub onode: Onode,
}

impl<'a, 't> Context<'a, 't> {
    pub fn new(tables: Tables<'t>, space: &'a mut Space, image: &'a Device, next_nid: &'a mut u64) -> Self {
        Self { tables, space, image, next_nid, data_written: false }
    }

    /// Applies a transaction, or refuses it and leaves nothing of it.
    ///
    /// # Errors
    /// The batch can't go on.
    pub fn apply(&mut self, txn: &Transaction) -> Result<Result<(), StoreError>, StoreError> {
        let done = txn.ops.iter().try_for_each(|op| {
            op.check()?;
            self.step(op)
        });
        match done {
            Ok(()) => {
                self.tables.keep();
                self.space.keep();
                Ok(Ok(()))
            }
            Err(Failure::Refused(error)) => {
                self.space.take_back();
                match self.tables.take_back() {
                    Ok(()) => Ok(Err(error)),
                    Err(Failure::Fatal(e) | Failure::Refused(e)) => Err(e),
                }
            }
            Err(Failure::Fatal(error)) => Err(error),
        }
    }

    /// A collection's key and record.
    pub fn collection(&self, id: CollectionId) -> Step<(Vec<u8>, CollectionRecord)> {
        let key = keys::collection_key(id);
        match self.tables.get(In::Collections, &key)? {
            Some(bytes) => Ok((key, CollectionRecord::from_bytes(&bytes)?)),
            None => Err(StoreError::NoSuchCollection(id).into()),
        }
    }

    pub fn set_collection(&mut self, key: &[u8], record: &CollectionRecord) -> Step<()> {
        self.tables.set(In::Collections, key, &record.to_bytes(0))
    }

    /// An object, if it is there; the collection has to be.
    pub fn find(&self, collection: CollectionId, object: &GHObject) -> Step<Option<Found>> {
        let (prefix, _) = self.collection(collection)?;
        let key = keys::object_key(&prefix, object);
        let Some(bytes) = self.tables.get(In::Onodes, &key)? else { return Ok(None) };
        Ok(Some(Found { collection, object: object.clone(), key, onode: Onode::from_bytes(&bytes)? }))
    }

    /// An object that has to be there.
    pub fn require(&self, collection: CollectionId, object: &GHObject) -> Step<Found> {
        let missing = || StoreError::NoSuchObject(collection, Box::new(object.clone()));
        self.find(collection, object)?.ok_or_else(|| missing().into())
    }

    /// An object, made if it is not there (and only stored by [`Context::store`]).
    pub fn find_or_new(&mut self, collection: CollectionId, object: &GHObject) -> Step<Found> {
        if let Some(found) = self.find(collection, object)? {
            return Ok(found);
        }
        let key = keys::object_key(&keys::collection_key(collection), object);
        let onode = Onode { nid: *self.next_nid, ..Onode::default() };
        // Numbers of refused transactions are not given again: they are many.
        *self.next_nid += 1;
        Ok(Found { collection, object: object.clone(), key, onode })
    }

    /// Stores an object's record.
    pub fn store(&mut self, found: &Found) -> Step<()> {
        self.tables.set(In::Onodes, &found.key, &found.onode.to_bytes(0))
    }

    /// Removes an object with its blocks and omap.
    pub fn remove(&mut self, found: &Found) -> Step<()> {
        self.unmap(found.onode.nid, 0, u64::MAX)?;
        self.omap_clear(found.onode.nid)?;
        self.tables.remove(In::Onodes, &found.key)?;
        Ok(())
    }

    /// Removes all omap keys.
    pub fn omap_clear(&mut self, nid: u64) -> Step<()> {
        self.omap_remove_range(nid, &[], None)
    }

    /// Removes the omap keys from `first` on and before `last`.
    pub fn omap_remove_range(&mut self, nid: u64, first: &[u8], last: Option<&[u8]>) -> Step<()> {
        let start = keys::numbered_key(nid, first);
        let end = match last {
            Some(last) => Some(keys::numbered_key(nid, last)),
            None => keys::after_prefix(&nid.to_be_bytes()),
        };
        for key in self.tables.keys(In::Omap, &start, end.as_deref())? {
            self.tables.remove(In::Omap, &key)?;
        }
        Ok(())
    }
}
