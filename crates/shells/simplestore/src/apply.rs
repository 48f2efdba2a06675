//! The steps of transactions.

use store::{CollectionId, StoreError, TxOp};
use types::{EVersion, GHObject};

use crate::keys;
use crate::object::{Context, Found};
use crate::onode::CollectionRecord;
use crate::tables::{In, Step};

impl Context<'_, '_> {
    pub fn step(&mut self, op: &TxOp) -> Step<()> {
        let id = op.collection();
        match op {
            TxOp::CreateCollection { bits, .. } => self.create_collection(id, *bits),
            TxOp::RemoveCollection { .. } => self.remove_collection(id),
            TxOp::SplitCollection { bits, rem, into, .. } => self.split(id, *into, *bits, *rem),
            TxOp::MergeCollection { into, bits, .. } => {
                self.split(id, *into, 0, 0)?;
                let (key, mut record) = self.collection(*into)?;
                record.bits = *bits;
                self.set_collection(&key, &record)?;
                self.remove_collection(id)
            }
            TxOp::LogAppend { version, entry, .. } => self.log_append(id, *version, entry),
            TxOp::LogTrim { to, .. } => self.log_trim(id, *to),
            TxOp::LogRewind { to, .. } => self.log_rewind(id, *to),
            TxOp::Clone { from, to, .. } => self.clone_object(id, from, to),
            TxOp::CloneRange { from, to, from_offset, len, to_offset, .. } => {
                let source = self.require(id, from)?;
                let data = self.read_data(&source, *from_offset, *len)?;
                let mut target = self.find_or_new(id, to)?;
                self.write_data(&mut target, *to_offset, &data)?;
                let copied = data.len() as u64;
                self.zero_data(&mut target, to_offset + copied, len - copied)?;
                self.store(&target)
            }
            TxOp::Rename { from, to_collection, to, .. } => self.rename(id, from, *to_collection, to),
            TxOp::Remove { object, .. } => match self.find(id, object)? {
                Some(found) => self.remove(&found),
                None => Ok(()),
            },
            TxOp::RemoveAttr { object, .. }
            | TxOp::RemoveAttrs { object, .. }
            | TxOp::OmapRemove { object, .. }
            | TxOp::OmapRemoveRange { object, .. }
            | TxOp::OmapClear { object, .. } => match self.find(id, object)? {
                Some(found) => self.take_away(found, op),
                None => Ok(()),
            },
            op => match op.object() {
                Some(object) => {
                    let found = self.find_or_new(id, object)?;
                    self.put(found, op)
                }
                None => Ok(()),
            },
        }
    }

    /// Steps that put something into an object.
    fn put(&mut self, mut found: Found, op: &TxOp) -> Step<()> {
        match op {
            TxOp::Write { offset, data, .. } => self.write_data(&mut found, *offset, data)?,
            TxOp::Zero { offset, len, .. } => self.zero_data(&mut found, *offset, *len)?,
            TxOp::Truncate { size, .. } => self.truncate_data(&mut found, *size)?,
            // Values are copied: a piece of a received message would be kept alive by it otherwise.
            TxOp::SetAttrs { attrs, .. } => found.onode.attrs.extend(attrs.clone()),
            TxOp::OmapSet { entries, .. } => {
                for (key, value) in entries {
                    self.tables.set(In::Omap, &keys::numbered_key(found.onode.nid, key), value)?;
                }
            }
            TxOp::OmapSetHeader { header, .. } => found.onode.omap_header = Some(header.to_vec()),
            TxOp::SetAllocHint { hint, .. } => found.onode.hint = Some(*hint),
            _ => {}
        }
        self.store(&found)
    }

    /// Steps that only take something away.
    fn take_away(&mut self, mut found: Found, op: &TxOp) -> Step<()> {
        let nid = found.onode.nid;
        match op {
            TxOp::RemoveAttr { name, .. } => drop(found.onode.attrs.remove(name)),
            TxOp::RemoveAttrs { .. } => found.onode.attrs.clear(),
            TxOp::OmapRemove { keys, .. } => {
                for key in keys {
                    self.tables.remove(In::Omap, &keys::numbered_key(nid, key))?;
                }
            }
            TxOp::OmapRemoveRange { first, last, .. } => self.omap_remove_range(nid, first, Some(last))?,
            TxOp::OmapClear { .. } => {
                self.omap_clear(nid)?;
                found.onode.omap_header = None;
            }
            _ => {}
        }
        self.store(&found)
    }

    fn clone_object(&mut self, id: CollectionId, from: &GHObject, to: &GHObject) -> Step<()> {
        let source = self.require(id, from)?;
        if from == to {
            return Ok(());
        }
        if let Some(old) = self.find(id, to)? {
            self.remove(&old)?;
        }
        let mut target = self.find_or_new(id, to)?;
        let nid = target.onode.nid;
        target.onode = crate::onode::Onode { nid, ..source.onode.clone() };
        self.copy_data(&source, nid)?;
        let prefix = source.onode.nid.to_be_bytes();
        let mut omap = Vec::new();
        self.tables.scan(In::Omap, &prefix, keys::after_prefix(&prefix).as_deref(), |key, value| {
            omap.push((key[prefix.len()..].to_vec(), value.to_vec()));
            Ok(true)
        })?;
        for (key, value) in omap {
            self.tables.set(In::Omap, &keys::numbered_key(nid, &key), &value)?;
        }
        self.store(&target)
    }

    fn rename(&mut self, id: CollectionId, from: &GHObject, to_id: CollectionId, to: &GHObject) -> Step<()> {
        if self.find(to_id, to)?.is_some() {
            return Err(StoreError::ObjectExists(to_id, Box::new(to.clone())).into());
        }
        let mut found = self.require(id, from)?;
        self.tables.remove(In::Onodes, &found.key)?;
        found.key = keys::object_key(&keys::collection_key(to_id), to);
        self.store(&found)
    }

    fn create_collection(&mut self, id: CollectionId, bits: u32) -> Step<()> {
        let key = keys::collection_key(id);
        if self.tables.get(In::Collections, &key)?.is_some() {
            return Err(StoreError::CollectionExists(id).into());
        }
        self.set_collection(&key, &CollectionRecord { bits, ..CollectionRecord::default() })
    }

    fn remove_collection(&mut self, id: CollectionId) -> Step<()> {
        let (key, _) = self.collection(id)?;
        let end = keys::after_prefix(&key);
        let mut empty = true;
        self.tables.scan(In::Onodes, &key, end.as_deref(), |_, _| {
            empty = false;
            Ok(false)
        })?;
        if !empty {
            return Err(StoreError::CollectionNotEmpty(id).into());
        }
        self.log_remove(&key, end.as_deref())?;
        self.tables.remove(In::Collections, &key)?;
        Ok(())
    }

    /// Moves the objects whose hash ends in `bits` bits of `rem`.
    fn split(&mut self, from: CollectionId, into: CollectionId, bits: u32, rem: u32) -> Step<()> {
        let (from_key, from_record) = self.collection(from)?;
        let (into_key, into_record) = self.collection(into)?;
        for key in self.tables.keys(In::Onodes, &from_key, keys::after_prefix(&from_key).as_deref())? {
            let name = &key[from_key.len()..];
            let damaged = || crate::tables::Failure::Fatal(StoreError::Damaged("an object's key".into()));
            let object = keys::object_of(name).ok_or_else(damaged)?;
            if !TxOp::split_takes(bits, rem, object.hobj.hash) {
                continue;
            }
            let new_key = [&into_key[..], name].concat();
            if self.tables.get(In::Onodes, &new_key)?.is_some() {
                return Err(StoreError::ObjectExists(into, Box::new(object)).into());
            }
            let onode = self.tables.remove(In::Onodes, &key)?.ok_or_else(damaged)?;
            self.tables.set(In::Onodes, &new_key, &onode)?;
        }
        self.set_collection(&from_key, &CollectionRecord { bits, ..from_record })?;
        self.set_collection(&into_key, &CollectionRecord { bits, ..into_record })
    }

    fn log_append(&mut self, id: CollectionId, version: EVersion, entry: &[u8]) -> Step<()> {
        let (key, mut record) = self.collection(id)?;
        if version <= record.log_head {
            return Err(StoreError::LogOrder { head: record.log_head, version }.into());
        }
        record.log_head = version;
        self.tables.set(In::Log, &keys::log_key(&key, version), entry)?;
        self.set_collection(&key, &record)
    }

    fn log_trim(&mut self, id: CollectionId, to: EVersion) -> Step<()> {
        let (key, mut record) = self.collection(id)?;
        let end = [&keys::log_key(&key, to)[..], &[0]].concat();
        self.log_remove(&key, Some(&end))?;
        record.log_tail = record.log_tail.max(to);
        record.log_head = record.log_head.max(to);
        self.set_collection(&key, &record)
    }

    fn log_rewind(&mut self, id: CollectionId, to: EVersion) -> Step<()> {
        let (key, mut record) = self.collection(id)?;
        let start = [&keys::log_key(&key, to)[..], &[0]].concat();
        self.log_remove(&start, keys::after_prefix(&key).as_deref())?;
        record.log_tail = record.log_tail.min(to);
        record.log_head = record.log_head.min(to);
        self.set_collection(&key, &record)
    }

    fn log_remove(&mut self, start: &[u8], end: Option<&[u8]>) -> Step<()> {
        for key in self.tables.keys(In::Log, start, end)? {
            self.tables.remove(In::Log, &key)?;
        }
        Ok(())
    }
}
