//! Blocks whose stored bytes don't match their checksums.

use std::collections::{BTreeMap, BTreeSet};

use types::GHObject;

use crate::{
    CollectionChange, CollectionId, MemStore, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, Step,
    StoreError, Transaction, split_takes,
};

/// What one checksum covers, bytes.
const BLOCK: u64 = 4096;

/// Bad blocks (their first bytes) by object. They go with their object; whatever would have to read one is refused.
#[derive(Clone, Default)]
pub struct Damage(BTreeMap<(CollectionId, GHObject), BTreeSet<u64>>);

impl Damage {
    pub fn add(&mut self, collection: CollectionId, object: &GHObject, offset: u64) {
        self.0.entry((collection, object.clone())).or_default().insert(offset / BLOCK * BLOCK);
    }

    /// The error of a read that meets a bad block.
    pub fn found_by(&self, request: &ReadRequest) -> Option<StoreError> {
        let ReadRequest::Data { collection, object, offset, len, .. } = request else { return None };
        let blocks = self.0.get(&(*collection, object.clone()))?;
        let end = offset.saturating_add(*len);
        let bad = blocks.iter().find(|&&block| block < end && *offset < block + BLOCK)?;
        Some(error(*collection, object, *bad))
    }

    /// What is bad after a transaction.
    ///
    /// # Errors
    /// The transaction would have to read a bad block.
    pub fn after(&self, txn: &Transaction, store: &mut MemStore) -> Result<Self, StoreError> {
        let mut next = self.clone();
        if !self.0.is_empty() {
            txn.steps().iter().try_for_each(|step| next.step(txn, step, store))?;
        }
        Ok(next)
    }

    fn step(&mut self, txn: &Transaction, step: &Step, store: &mut MemStore) -> Result<(), StoreError> {
        let key = |object: crate::ObjectRef| {
            let (collection, name) = txn.object(object);
            (collection, name.clone())
        };
        match step {
            Step::Object { object, change } => return self.change(&key(*object), change, store),
            Step::Clone { from, to } => {
                self.must_be_good(&key(*from), 0, u64::MAX)?;
                self.0.remove(&key(*to));
            }
            Step::CloneRange { from, to, from_offset, len, to_offset } => {
                self.must_be_good(&key(*from), *from_offset, *len)?;
                let end = to_offset.saturating_add(*len);
                self.written(&key(*to), *to_offset, end, store)?;
            }
            Step::Rename { from, to } => {
                if let Some(blocks) = self.0.remove(&key(*from)) {
                    self.0.insert(key(*to), blocks);
                }
            }
            Step::Collection { collection, change } => match change {
                CollectionChange::Split { bits, rem, into } => {
                    self.moved(*collection, *into, |hash| split_takes(*bits, *rem, hash));
                }
                CollectionChange::Merge { into, .. } => self.moved(*collection, *into, |_| true),
                CollectionChange::Create { .. } | CollectionChange::Remove => {}
            },
            Step::Log { .. } | Step::SetInfo { .. } => {}
        }
        Ok(())
    }

    fn change(
        &mut self,
        key: &(CollectionId, GHObject),
        change: &ObjectChange,
        store: &mut MemStore,
    ) -> Result<(), StoreError> {
        match change {
            ObjectChange::Write { offset, data, .. } => {
                self.written(key, *offset, offset + data.len() as u64, store)?;
            }
            ObjectChange::Zero { offset, len } => self.written(key, *offset, offset + len, store)?,
            ObjectChange::Truncate(size) => self.written(key, *size, u64::MAX, store)?,
            ObjectChange::Remove => drop(self.0.remove(key)),
            ObjectChange::Touch
            | ObjectChange::SetAttrs(_)
            | ObjectChange::RemoveAttr(_)
            | ObjectChange::RemoveAttrs
            | ObjectChange::OmapSet(_)
            | ObjectChange::OmapRemove(_)
            | ObjectChange::OmapRemoveRange { .. }
            | ObjectChange::OmapSetHeader(_)
            | ObjectChange::OmapClear
            | ObjectChange::SetAllocHint(_) => {}
        }
        Ok(())
    }

    fn must_be_good(
        &self,
        (collection, object): &(CollectionId, GHObject),
        offset: u64,
        len: u64,
    ) -> Result<(), StoreError> {
        let (collection, object) = (*collection, object.clone());
        let (advice, verify) = Default::default();
        let read = ReadRequest::Data { collection, object, offset, len, advice, verify };
        self.found_by(&read).map_or(Ok(()), Err)
    }

    /// Blocks that are overwritten whole (a last block up to the object's end) are good again; of others a part would
    /// have to be read.
    fn written(
        &mut self,
        key: &(CollectionId, GHObject),
        from: u64,
        to: u64,
        store: &mut MemStore,
    ) -> Result<(), StoreError> {
        let Some(blocks) = self.0.get_mut(key) else { return Ok(()) };
        let (collection, object) = (key.0, key.1.clone());
        // As it was before the transaction: enough for a test that damages a block.
        let size = match store.peek(&ReadRequest::Stat { collection, object }) {
            Some(Ok(ReadOutcome::Stat(stat))) => stat.size,
            _ => 0,
        };
        let whole = |block: u64| from <= block && to >= (block + BLOCK).min(size);
        let partly = |block: u64| from < block + BLOCK && to > block;
        if let Some(bad) = blocks.iter().find(|&&block| partly(block) && !whole(block)) {
            return Err(error(key.0, &key.1, *bad));
        }
        blocks.retain(|&block| !whole(block));
        Ok(())
    }

    fn moved(&mut self, from: CollectionId, into: CollectionId, takes: impl Fn(u32) -> bool) {
        let all = std::mem::take(&mut self.0);
        let place = |((collection, object), blocks): ((CollectionId, GHObject), _)| {
            let goes = collection == from && takes(object.hobj.hash);
            ((if goes { into } else { collection }, object), blocks)
        };
        self.0 = all.into_iter().map(place).collect();
    }
}

/// Data as a store would return it that does not look at its checksums.
pub fn flipped(outcome: ReadOutcome) -> ReadOutcome {
    match outcome {
        ReadOutcome::Data(data) => {
            let mut bytes = data.to_vec();
            bytes.iter_mut().take(1).for_each(|byte| *byte ^= 0xff);
            ReadOutcome::Data(bytes.into())
        }
        other => other,
    }
}

fn error(collection: CollectionId, object: &GHObject, offset: u64) -> StoreError {
    StoreError::Checksum { collection, object: Box::new(object.clone()), offset }
}
