//! Applying transactions to the model.

use std::sync::Arc;

use types::{EVersion, GHObject};

use super::{Model, ModelCollection, ModelObject, overlay};
use crate::{
    CollectionChange, CollectionId, LogChange, ObjectChange, ObjectRef, Step, StoreError, StoreShard,
    Transaction,
};

impl Model {
    pub(super) fn try_apply(&mut self, txn: &Transaction) -> Result<(), StoreError> {
        txn.check()?;
        let shard = self.common_shard(txn)?;
        let mut next = self.clone();
        txn.steps().iter().try_for_each(|step| next.step(txn, step, shard))?;
        *self = next;
        Ok(())
    }

    /// The shard of all the collections that exist, or the first's that is named.
    fn common_shard(&self, txn: &Transaction) -> Result<StoreShard, StoreError> {
        let named = txn.collections();
        let mut first: Option<(CollectionId, StoreShard)> = None;
        for &id in &named {
            let Some(c) = self.get(id) else { continue };
            if let Some(to) = c.rehoming {
                return Err(StoreError::Rehoming { collection: id, to });
            }
            match first {
                Some((first, shard)) if shard != c.shard => {
                    return Err(StoreError::AcrossShards { first, second: id });
                }
                Some(_) => {}
                None => first = Some((id, c.shard)),
            }
        }
        let of_first_named = || named.first().map_or(StoreShard(0), |id| self.home(*id));
        Ok(first.map_or_else(of_first_named, |f| f.1))
    }

    pub(super) fn collection(&self, id: CollectionId) -> Result<&ModelCollection, StoreError> {
        self.get(id).map(|c| &**c).ok_or(StoreError::NoSuchCollection(id))
    }

    pub(super) fn object(&self, id: CollectionId, name: &GHObject) -> Result<&ModelObject, StoreError> {
        let object = self.collection(id)?.objects.get(name).map(|o| &**o);
        object.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(name.clone())))
    }

    fn get_mut(&mut self, id: CollectionId) -> Result<&mut ModelCollection, StoreError> {
        self.collections.get_mut(&id).map(Arc::make_mut).ok_or(StoreError::NoSuchCollection(id))
    }

    fn step(&mut self, txn: &Transaction, step: &Step, shard: StoreShard) -> Result<(), StoreError> {
        let named = |object: ObjectRef| txn.object(object);
        match step {
            Step::Object { object, change } => self.change_object(named(*object), change),
            Step::Clone { from, to } => {
                let ((id, from), (to_id, to)) = (named(*from), named(*to));
                self.collection(id)?;
                self.collection(to_id)?;
                let copy = Arc::new(self.object(id, from)?.clone());
                self.get_mut(to_id)?.objects.insert(to.clone(), copy);
                Ok(())
            }
            Step::CloneRange { from, to, from_offset, len, to_offset } => {
                self.clone_range(named(*from), named(*to), (*from_offset, *to_offset), *len)
            }
            Step::Rename { from, to } => self.rename(named(*from), named(*to)),
            Step::Log { collection, change } => self.change_log(*collection, change),
            Step::SetInfo { collection, info } => {
                self.get_mut(*collection)?.info = info.clone();
                Ok(())
            }
            Step::Collection { collection, change } => self.change_collection(*collection, change, shard),
        }
    }

    fn change_object(
        &mut self,
        (id, name): (CollectionId, &GHObject),
        change: &ObjectChange,
    ) -> Result<(), StoreError> {
        let objects = &mut self.get_mut(id)?.objects;
        let missing = !objects.contains_key(name);
        match change {
            ObjectChange::Remove => drop(objects.remove(name)),
            // The list of what creates nothing is the contract's; the cases hold the stores to it.
            change if missing && change.only_takes_away() => {}
            change => Arc::make_mut(objects.entry(name.clone()).or_default()).change(change),
        }
        Ok(())
    }

    fn clone_range(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
        (from_offset, to_offset): (u64, u64),
        len: u64,
    ) -> Result<(), StoreError> {
        self.collection(id)?;
        self.collection(to_id)?;
        let source = &self.object(id, from)?.data;
        let mut copy = vec![0; len as usize];
        let start = (from_offset as usize).min(source.len());
        let have = (source.len() - start).min(copy.len());
        copy[..have].copy_from_slice(&source[start..start + have]);
        let target = self.get_mut(to_id)?.objects.entry(to.clone()).or_default();
        overlay(Arc::make_mut(&mut Arc::make_mut(target).data), to_offset, &copy);
        Ok(())
    }

    fn rename(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Result<(), StoreError> {
        if self.collection(to_id)?.objects.contains_key(to) {
            return Err(StoreError::ObjectExists(to_id, Box::new(to.clone())));
        }
        let missing = || StoreError::NoSuchObject(id, Box::new(from.clone()));
        let object = self.get_mut(id)?.objects.remove(from).ok_or_else(missing)?;
        self.get_mut(to_id)?.objects.insert(to.clone(), object);
        Ok(())
    }

    fn change_log(&mut self, id: CollectionId, change: &LogChange) -> Result<(), StoreError> {
        let c = self.get_mut(id)?;
        match change {
            LogChange::Append(record) => {
                if record.version <= c.head {
                    return Err(StoreError::LogOrder { head: c.head, version: record.version });
                }
                c.head = record.version;
                Arc::make_mut(&mut c.log).insert(record.version, record.clone());
            }
            LogChange::Trim(to) => {
                (c.tail, c.head) = (c.tail.max(*to), c.head.max(*to));
                let rest = Arc::make_mut(&mut c.log).split_off(&after(*to));
                c.log = Arc::new(rest);
            }
            LogChange::Rewind(to) => {
                (c.tail, c.head) = (c.tail.min(*to), c.head.min(*to));
                Arc::make_mut(&mut c.log).split_off(&after(*to));
            }
        }
        Ok(())
    }

    fn change_collection(
        &mut self,
        id: CollectionId,
        change: &CollectionChange,
        shard: StoreShard,
    ) -> Result<(), StoreError> {
        match change {
            CollectionChange::Create { .. } if self.get(id).is_some() => {
                return Err(StoreError::CollectionExists(id));
            }
            CollectionChange::Create { bits } => {
                self.put(id, Some(Arc::new(ModelCollection::empty(shard, *bits))));
            }
            CollectionChange::Remove => {
                if !self.collection(id)?.objects.is_empty() {
                    return Err(StoreError::CollectionNotEmpty(id));
                }
                self.put(id, None);
            }
            CollectionChange::Split { bits, rem, into } => {
                let bit = |n: u32, hash: u32| n < *bits && (hash ^ rem) >> n & 1 == 1;
                self.move_objects(id, *into, |hash| !(0..32).any(|n| bit(n, hash)))?;
                self.get_mut(id)?.bits = *bits;
                self.get_mut(*into)?.bits = *bits;
            }
            CollectionChange::Merge { into, bits } => {
                self.move_objects(id, *into, |_| true)?;
                self.get_mut(*into)?.bits = *bits;
                self.put(id, None);
            }
        }
        Ok(())
    }

    fn move_objects(
        &mut self,
        from: CollectionId,
        into: CollectionId,
        takes: impl Fn(u32) -> bool,
    ) -> Result<(), StoreError> {
        self.collection(from)?;
        self.collection(into)?;
        let source = &mut self.get_mut(from)?.objects;
        let (moved, kept) = std::mem::take(source).into_iter().partition(|(o, _)| takes(o.hobj.hash));
        *source = kept;
        for (name, object) in moved {
            if let Some(twice) = self.get_mut(into)?.objects.insert(name.clone(), object) {
                drop(twice);
                return Err(StoreError::ObjectExists(into, Box::new(name)));
            }
        }
        Ok(())
    }
}

impl ModelCollection {
    fn empty(shard: StoreShard, bits: u32) -> Self {
        Self {
            shard,
            rehoming: None,
            bits,
            info: Default::default(),
            objects: Default::default(),
            tail: EVersion::default(),
            head: EVersion::default(),
            log: Default::default(),
        }
    }
}

impl ModelObject {
    fn change(&mut self, change: &ObjectChange) {
        let omap = &mut self.omap;
        match change {
            ObjectChange::Touch | ObjectChange::Remove => {}
            ObjectChange::Write { offset, data, .. } => {
                overlay(Arc::make_mut(&mut self.data), *offset, &data.to_piece());
            }
            ObjectChange::Zero { offset, len } => {
                overlay(Arc::make_mut(&mut self.data), *offset, &vec![0; *len as usize]);
            }
            ObjectChange::Truncate(size) => Arc::make_mut(&mut self.data).resize(*size as usize, 0),
            ObjectChange::SetAttrs(attrs) => self.attrs.extend(attrs.clone()),
            ObjectChange::RemoveAttr(name) => drop(self.attrs.remove(name)),
            ObjectChange::RemoveAttrs => self.attrs.clear(),
            ObjectChange::OmapSet(entries) => Arc::make_mut(omap).extend(entries.iter().cloned()),
            ObjectChange::OmapRemove(keys) => Arc::make_mut(omap).retain(|k, _| !keys.contains(k)),
            ObjectChange::OmapRemoveRange { first, last } => {
                Arc::make_mut(omap).retain(|k, _| k < first || k >= last);
            }
            ObjectChange::OmapSetHeader(header) => self.header = header.clone(),
            ObjectChange::OmapClear => {
                self.omap = Arc::default();
                self.header = Default::default();
            }
            ObjectChange::SetAllocHint(hint) => self.hint = Some(*hint),
        }
    }
}

/// The least version after another.
fn after(version: EVersion) -> EVersion {
    EVersion::new(version.epoch, version.version.saturating_add(1))
}
