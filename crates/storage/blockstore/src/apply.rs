//! The steps of a transaction.

use std::collections::BTreeMap;

use buffer::Piece;
use store::{
    CollectionChange, CollectionId, LogChange, ObjectChange, Step, StoreError, Transaction, keys, split_takes,
};
use types::GHObject;

use crate::context::{Context, Found};
use crate::records::{
    Collection, Part, collection_key, encode_log_record, key, log_key, number_key, object_key, object_of,
    part_key, table,
};
use crate::stop::{Attempt, Stop, damaged};

impl Context<'_> {
    /// Applies the steps of a transaction that [`Transaction::check`] has found sound.
    ///
    /// # Errors
    /// It is refused, or has to wait for something and begin again.
    pub fn apply(&mut self, txn: &Transaction) -> Attempt<()> {
        txn.steps().iter().try_for_each(|step| self.step(txn, step))
    }

    fn step(&mut self, txn: &Transaction, step: &Step) -> Attempt<()> {
        match step {
            Step::Object { object, change } => {
                let (collection, object) = txn.object(*object);
                self.change_object(collection, object, change)
            }
            Step::Clone { from, to } => self.clone_object(txn.object(*from), txn.object(*to)),
            Step::CloneRange { from, to, from_offset, len, to_offset } => {
                let (from, to) = (txn.object(*from), txn.object(*to));
                self.clone_range((from, *from_offset), (to, *to_offset), *len)
            }
            Step::Rename { from, to } => self.rename(txn.object(*from), txn.object(*to)),
            Step::Log { collection, change } => self.change_log(*collection, change),
            Step::SetInfo { collection, info } => {
                self.collection(*collection)?;
                self.put(collection_key(table::INFO, *collection), Piece::copy_from(info))
            }
            Step::Collection { collection, change } => self.change_collection(*collection, change),
        }
    }

    fn change_object(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        change: &ObjectChange,
    ) -> Attempt<()> {
        self.collection(collection)?;
        let mut found = match self.find(collection, object)? {
            Some(found) => found,
            None if change.only_takes_away() => return Ok(()),
            None => self.make(collection, object),
        };
        let number = found.onode.number;
        match change {
            ObjectChange::Touch => {}
            ObjectChange::Write { offset, data, advice: _, checksums } => {
                self.write(&mut found, *offset, data, checksums.as_deref())?;
            }
            ObjectChange::Zero { offset, len } => self.zero(&mut found, *offset, *len)?,
            ObjectChange::Truncate(size) => self.truncate(&mut found, *size)?,
            ObjectChange::Remove => return self.remove(&found),
            ObjectChange::SetAttrs(attrs) => {
                for (name, value) in attrs.iter() {
                    self.put(part_key(number, Part::Attr, name), Piece::copy_from(value))?;
                }
            }
            ObjectChange::RemoveAttr(name) => self.delete(part_key(number, Part::Attr, name))?,
            ObjectChange::RemoveAttrs => self.delete_part(number, Part::Attr)?,
            ObjectChange::OmapSet(entries) => {
                for (name, value) in entries {
                    self.put(part_key(number, Part::Omap, name), Piece::copy_from(value))?;
                }
            }
            ObjectChange::OmapRemove(names) => {
                for name in names {
                    self.delete(part_key(number, Part::Omap, name))?;
                }
            }
            ObjectChange::OmapRemoveRange { first, last } => {
                let (start, end) = (part_key(number, Part::Omap, first), part_key(number, Part::Omap, last));
                if start < end {
                    self.delete_range(&start, Some(&end))?;
                }
            }
            ObjectChange::OmapSetHeader(header) => {
                let key = part_key(number, Part::OmapHeader, &[]);
                self.put(key, Piece::copy_from(header))?;
            }
            ObjectChange::OmapClear => {
                self.delete_part(number, Part::Omap)?;
                self.delete_part(number, Part::OmapHeader)?;
            }
            ObjectChange::SetAllocHint(hint) => found.onode.hint = Some(*hint),
        }
        self.store(&found)
    }

    fn delete_part(&mut self, number: u64, part: Part) -> Attempt<()> {
        let prefix = part_key(number, part, &[]);
        self.delete_range(&prefix, keys::after_prefix(&prefix).as_deref())
    }

    fn remove(&mut self, found: &Found) -> Attempt<()> {
        let number = found.onode.number;
        self.unmap(number, 0, u64::MAX)?;
        let prefix = number_key(number);
        self.delete_range(&prefix, keys::after_prefix(&prefix).as_deref())?;
        self.delete(object_key(found.collection, &found.object))?;
        self.counters.objects = self.counters.objects.saturating_sub(1);
        Ok(())
    }

    fn clone_object(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        self.collection(id)?;
        self.collection(to_id)?;
        let source = self.existing(id, from)?;
        if (id, from) == (to_id, to) {
            return Ok(());
        }
        if let Some(old) = self.find(to_id, to)? {
            self.remove(&old)?;
        }
        let mut copy = self.make(to_id, to);
        (copy.onode.size, copy.onode.hint) = (source.onode.size, source.onode.hint);
        let (from, to) = (source.onode.number, copy.onode.number);
        self.share_data(from, to)?;
        for part in [Part::OmapHeader, Part::Attr, Part::Omap] {
            let prefix = part_key(from, part, &[]);
            for (key, value) in self.with_prefix(&prefix)? {
                self.put_new(part_key(to, part, &key[prefix.len()..]), value);
            }
        }
        self.store(&copy)
    }

    fn clone_range(
        &mut self,
        ((id, from), from_offset): ((CollectionId, &GHObject), u64),
        ((to_id, to), to_offset): ((CollectionId, &GHObject), u64),
        len: u64,
    ) -> Attempt<()> {
        self.collection(id)?;
        self.collection(to_id)?;
        let source = self.existing(id, from)?;
        let there = source.onode.size.saturating_sub(from_offset).min(len);
        let data = match there {
            0 => buffer::Rope::new(),
            _ => self.read(&source, from_offset, there)?,
        };
        let mut target = match self.find(to_id, to)? {
            Some(found) => found,
            None => self.make(to_id, to),
        };
        self.write(&mut target, to_offset, &data, None)?;
        self.zero(&mut target, to_offset + there, len - there)?;
        self.store(&target)
    }

    fn rename(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        self.collection(to_id)?;
        if self.find(to_id, to)?.is_some() {
            return Err(StoreError::ObjectExists(to_id, Box::new(to.clone())).into());
        }
        self.collection(id)?;
        let found = self.existing(id, from)?;
        self.delete(object_key(id, from))?;
        self.put_new(object_key(to_id, to), found.onode.encode());
        Ok(())
    }

    fn change_log(&mut self, id: CollectionId, change: &LogChange) -> Attempt<()> {
        let mut collection = self.collection(id)?;
        let Collection { log_head: head, log_tail: tail, .. } = collection;
        let all = key(table::LOG, &keys::collection_key(id));
        match change {
            LogChange::Append(record) if record.version <= head => {
                return Err(StoreError::LogOrder { head, version: record.version }.into());
            }
            LogChange::Append(record) => {
                self.put_new(log_key(id, record.version), encode_log_record(record));
                collection.log_head = record.version;
            }
            LogChange::Trim(to) => {
                let mut end = log_key(id, *to);
                end.push(0);
                self.delete_range(&all, Some(&end))?;
                (collection.log_tail, collection.log_head) = (tail.max(*to), head.max(*to));
            }
            LogChange::Rewind(to) => {
                let mut start = log_key(id, *to);
                start.push(0);
                self.delete_range(&start, keys::after_prefix(&all).as_deref())?;
                (collection.log_tail, collection.log_head) = (tail.min(*to), head.min(*to));
            }
        }
        self.put_collection(id, &collection)
    }

    fn change_collection(&mut self, id: CollectionId, change: &CollectionChange) -> Attempt<()> {
        match change {
            CollectionChange::Create { bits } => {
                if self.find_collection(id)?.is_some() {
                    return Err(StoreError::CollectionExists(id).into());
                }
                self.put_collection(id, &Collection { bits: *bits, ..Collection::default() })
            }
            CollectionChange::Remove => self.remove_collection(id),
            CollectionChange::Split { bits, rem, into } => {
                self.move_objects(id, *into, |object| split_takes(*bits, *rem, object.hobj.hash))?;
                self.set_bits(id, *bits)?;
                self.set_bits(*into, *bits)
            }
            CollectionChange::Merge { into, bits } => {
                self.move_objects(id, *into, |_| true)?;
                self.set_bits(*into, *bits)?;
                self.remove_collection(id)
            }
        }
    }

    fn set_bits(&mut self, id: CollectionId, bits: u32) -> Attempt<()> {
        let collection = self.collection(id)?;
        self.put_collection(id, &Collection { bits, ..collection })
    }

    fn remove_collection(&mut self, id: CollectionId) -> Attempt<()> {
        self.collection(id)?;
        let objects = key(table::ONODE, &keys::collection_key(id));
        if self.next(&objects, keys::after_prefix(&objects).as_deref())?.is_some() {
            return Err(StoreError::CollectionNotEmpty(id).into());
        }
        let log = key(table::LOG, &keys::collection_key(id));
        self.delete_range(&log, keys::after_prefix(&log).as_deref())?;
        self.delete(collection_key(table::INFO, id))?;
        self.delete(collection_key(table::COLLECTION, id))
    }

    /// Moves objects' records; what they lead to stays where it is.
    fn move_objects(
        &mut self,
        from: CollectionId,
        into: CollectionId,
        goes: impl Fn(&GHObject) -> bool,
    ) -> Attempt<()> {
        self.collection(from)?;
        self.collection(into)?;
        let mut moved = BTreeMap::new();
        for (key, value) in self.with_prefix(&key(table::ONODE, &keys::collection_key(from)))? {
            let object = object_of(from, &key).ok_or_else(|| damaged("a key of an object"))?;
            if goes(&object) {
                let target = object_key(into, &object);
                if self.get(&target)?.is_some() {
                    return Err(Stop::Error(StoreError::ObjectExists(into, Box::new(object))));
                }
                moved.insert(key, (target, value));
            }
        }
        for (key, (target, value)) in moved {
            self.delete_known(key, &value);
            self.put_new(target, value);
        }
        Ok(())
    }
}
