//! Applying transactions, whole or not at all.

use std::collections::BTreeMap;

use buffer::Piece;
use store::{
    CollectionChange, CollectionId, INFO_BYTES_MAX, LogChange, LogRecord, ObjectChange, Step, StoreError,
    Token, Transaction, split_takes,
};
use types::{EVersion, GHObject};

use crate::object::{Context, Found};
use crate::records::{CollectionRecord, Onode, encode_log_record};
use crate::tables::{Attempt, Failure, Table, damaged};
use store::keys::{self, Key};

/// Collections closed by a refusal, with the transaction that closed them.
pub type Closed = BTreeMap<CollectionId, Token>;

/// What became of a transaction.
pub enum Applied {
    Whole,
    Refused(StoreError),
    /// It needs blocks that the commit of what was applied before it frees. Nothing of it is there.
    AfterCommit,
}

impl Context<'_, '_> {
    /// Applies a transaction; one that is refused leaves nothing and closes its collections.
    ///
    /// # Errors
    /// The store can't go on.
    pub fn apply_or_close(
        &mut self,
        txn: &Transaction,
        token: Token,
        closed: &mut Closed,
    ) -> Result<Applied, StoreError> {
        let collections = txn.collections();
        if let Some((id, by)) = collections.iter().find_map(|id| Some((*id, *closed.get(id)?))) {
            // Collections that were still open are closed with the others, by the refusal that closed those.
            for id in collections {
                closed.entry(id).or_insert(by);
            }
            return Ok(Applied::Refused(StoreError::AfterRefused(id)));
        }
        match self.apply(txn) {
            Ok(()) => {
                self.tables.commit();
                self.space.commit();
                Ok(Applied::Whole)
            }
            Err(Failure::Refused(error)) => {
                self.space.rollback();
                self.tables.rollback().map_err(Failure::into_error)?;
                if matches!(error, StoreError::NoSpace { .. }) && self.space.commit_frees() {
                    return Ok(Applied::AfterCommit);
                }
                closed.extend(collections.into_iter().map(|id| (id, token)));
                Ok(Applied::Refused(error))
            }
            Err(Failure::Fatal(error)) => Err(error),
        }
    }

    fn apply(&mut self, txn: &Transaction) -> Attempt<()> {
        txn.check()?;
        self.check_space(txn)?;
        txn.steps().iter().try_for_each(|step| self.step(txn, step))
    }

    fn check_space(&self, txn: &Transaction) -> Attempt<()> {
        let needed = txn.payload_bytes();
        let reserve = if txn.may_use_reserve() { self.space.reserve_bytes() } else { 0 };
        let available = self.bytes_available()? + reserve;
        if needed > available {
            return Err(StoreError::NoSpace { needed, available }.into());
        }
        Ok(())
    }

    fn step(&mut self, txn: &Transaction, step: &Step) -> Attempt<()> {
        match step {
            Step::Object { object, change } => self.change_object(txn.object(*object), change),
            Step::Clone { from, to } => self.clone_object(txn.object(*from), txn.object(*to)),
            Step::CloneRange { from, to, from_offset, len, to_offset } => {
                let (from, to) = (txn.object(*from), txn.object(*to));
                self.clone_range((from, *from_offset), (to, *to_offset), *len)
            }
            Step::Rename { from, to } => self.rename(txn.object(*from), txn.object(*to)),
            Step::Log { collection, change } => self.change_log(*collection, change),
            Step::SetInfo { collection, info } => {
                debug_assert!(info.len() <= INFO_BYTES_MAX, "Transaction::check refuses longer ones");
                let key = self.collection_key(*collection)?;
                self.tables.set(Table::Infos, &key, info)
            }
            Step::Collection { collection, change } => match change {
                CollectionChange::Create { bits } => self.create_collection(*collection, *bits),
                CollectionChange::Remove => self.remove_collection(*collection),
                CollectionChange::Split { bits, rem, into } => self.split(*collection, *into, *bits, *rem),
                CollectionChange::Merge { into, bits } => self.merge(*collection, *into, *bits),
            },
        }
    }

    fn change_object(
        &mut self,
        (id, object): (CollectionId, &GHObject),
        change: &ObjectChange,
    ) -> Attempt<()> {
        let found = match change.only_takes_away() {
            true => self.find(id, object)?,
            false => Some(self.find_or_new(id, object)?),
        };
        // What only takes away has nothing to do where there is no object.
        let Some(mut found) = found else { return Ok(()) };
        let nid = found.onode.nid;
        match change {
            ObjectChange::Touch => {}
            ObjectChange::Write { offset, data, advice: _, checksums } => {
                self.write_data(&mut found, *offset, data, checksums.as_deref())?;
            }
            ObjectChange::Zero { offset, len } => self.zero_data(&mut found, *offset, *len)?,
            ObjectChange::Truncate(size) => self.truncate_data(&mut found, *size)?,
            ObjectChange::Remove => return self.remove(&found),
            ObjectChange::SetAttrs(attrs) => self.set_attrs(&mut found, attrs)?,
            ObjectChange::RemoveAttr(name) => self.remove_attr(&mut found, name)?,
            ObjectChange::RemoveAttrs => self.clear_attrs(&mut found.onode)?,
            ObjectChange::OmapSet(entries) => {
                for (key, value) in entries {
                    self.tables.set(Table::Omap, &keys::numbered_key(nid, key), value)?;
                }
            }
            ObjectChange::OmapRemove(keys) => {
                for key in keys {
                    self.tables.remove(Table::Omap, &keys::numbered_key(nid, key))?;
                }
            }
            ObjectChange::OmapRemoveRange { first, last } => {
                let (first, last) = (keys::numbered_key(nid, first), keys::numbered_key(nid, last));
                self.tables.remove_range(Table::Omap, &first, Some(&last))?;
            }
            ObjectChange::OmapSetHeader(header) => found.onode.omap_header = header.clone(),
            ObjectChange::OmapClear => {
                self.remove_numbered(Table::Omap, nid)?;
                found.onode.omap_header = Piece::empty();
            }
            ObjectChange::SetAllocHint(hint) => found.onode.hint = Some(*hint),
        }
        self.store(&found)
    }

    fn clone_object(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        let source = self.find(id, from)?;
        let old = self.find(to_id, to)?;
        let source = source.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(from.clone())))?;
        if (id, from) == (to_id, to) {
            return Ok(());
        }
        if let Some(old) = old {
            self.remove(&old)?;
        }
        let mut target: Found = self.find_or_new(to_id, to)?;
        let nid = target.onode.nid;
        target.onode = Onode { nid, ..source.onode.clone() };
        self.copy_data(&source, nid)?;
        self.copy_numbered(Table::Omap, source.onode.nid, nid)?;
        self.copy_numbered(Table::Attrs, source.onode.nid, nid)?;
        self.store(&target)
    }

    /// Copies all that a table has of an object to the one numbered `to`, of which it has nothing.
    fn copy_numbered(&mut self, table: Table, from: u64, to: u64) -> Attempt<()> {
        let prefix = keys::numbered_key(from, &[]);
        for key in self.tables.keys(table, &prefix, keys::after_prefix(&prefix).as_deref())? {
            let value = self.tables.get(table, &key)?;
            let value = value.ok_or_else(|| damaged("a key is listed and not found"))?;
            self.tables.set(table, &keys::numbered_key(to, &key[prefix.len()..]), &value)?;
        }
        Ok(())
    }

    fn clone_range(
        &mut self,
        ((id, from), from_offset): ((CollectionId, &GHObject), u64),
        ((to_id, to), to_offset): ((CollectionId, &GHObject), u64),
        len: u64,
    ) -> Attempt<()> {
        let source = self.find(id, from)?;
        self.collection_key(to_id)?;
        let source = source.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(from.clone())))?;
        let data = self.read_data(&source, from_offset, len, crate::data::PageCache::Keep)?;
        let mut target = self.find_or_new(to_id, to)?;
        self.write_data(&mut target, to_offset, &data, None)?;
        let copied = data.len() as u64;
        self.zero_data(&mut target, to_offset + copied, len - copied)?;
        self.store(&target)
    }

    fn rename(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        let to_key = keys::object_key(&self.collection_key(to_id)?, to);
        if self.tables.contains(Table::Onodes, &to_key)? {
            return Err(StoreError::ObjectExists(to_id, Box::new(to.clone())).into());
        }
        let found = self.require(id, from)?;
        self.tables.rename(Table::Onodes, &found.key, &to_key)
    }

    fn create_collection(&mut self, id: CollectionId, bits: u32) -> Attempt<()> {
        let key = keys::collection_key(id);
        if self.tables.contains(Table::Collections, &key)? {
            return Err(StoreError::CollectionExists(id).into());
        }
        self.set_collection(&key, &CollectionRecord { bits, ..CollectionRecord::default() })
    }

    fn remove_collection(&mut self, id: CollectionId) -> Attempt<()> {
        let key = self.collection_key(id)?;
        let end = keys::after_prefix(&key);
        if !self.tables.is_empty(Table::Onodes, &key, end.as_deref())? {
            return Err(StoreError::CollectionNotEmpty(id).into());
        }
        self.tables.remove_range(Table::Log, &key, end.as_deref())?;
        self.tables.remove(Table::Infos, &key)?;
        self.tables.remove(Table::Collections, &key)
    }

    /// Moves the objects whose hash ends in `bits` bits of `rem`. Their blocks and omaps are found by number, so they
    /// need no move; log and info stay.
    fn split(&mut self, from: CollectionId, into: CollectionId, bits: u32, rem: u32) -> Attempt<()> {
        let (from_key, from_record) = self.collection(from)?;
        let (into_key, into_record) = self.collection(into)?;
        let end = keys::after_prefix(&from_key);
        for key in self.tables.keys(Table::Onodes, &from_key, end.as_deref())? {
            let name = &key[from_key.len()..];
            let object = keys::object_of(name)
                .ok_or_else(|| damaged(format!("an object of collection {from} has a malformed key")))?;
            if !split_takes(bits, rem, object.hobj.hash) {
                continue;
            }
            let new_key = [&into_key[..], name].concat();
            if self.tables.contains(Table::Onodes, &new_key)? {
                return Err(StoreError::ObjectExists(into, Box::new(object)).into());
            }
            self.tables.rename(Table::Onodes, &key, &new_key)?;
        }
        self.set_collection(&from_key, &CollectionRecord { bits, ..from_record })?;
        self.set_collection(&into_key, &CollectionRecord { bits, ..into_record })
    }

    /// A split that takes everything, whose source then goes.
    fn merge(&mut self, from: CollectionId, into: CollectionId, bits: u32) -> Attempt<()> {
        self.split(from, into, 0, 0)?;
        let (key, record) = self.collection(into)?;
        self.set_collection(&key, &CollectionRecord { bits, ..record })?;
        self.remove_collection(from)
    }

    fn change_log(&mut self, id: CollectionId, change: &LogChange) -> Attempt<()> {
        let (key, mut record) = self.collection(id)?;
        match change {
            LogChange::Append(LogRecord { version, kind, bytes }) => {
                let (version, head) = (*version, record.log_head);
                if version <= head {
                    return Err(StoreError::LogOrder { head, version }.into());
                }
                record.log_head = version;
                let bytes = encode_log_record(*kind, bytes);
                self.tables.set(Table::Log, &keys::log_key(&key, version), &bytes)?;
            }
            LogChange::Trim(to) => {
                self.tables.remove_range(Table::Log, &key, Some(&after_log_key(&key, *to)))?;
                record.log_tail = record.log_tail.max(*to);
                record.log_head = record.log_head.max(*to);
            }
            LogChange::Rewind(to) => {
                let end = keys::after_prefix(&key);
                self.tables.remove_range(Table::Log, &after_log_key(&key, *to), end.as_deref())?;
                record.log_tail = record.log_tail.min(*to);
                record.log_head = record.log_head.min(*to);
            }
        }
        self.set_collection(&key, &record)
    }
}

/// The first key after the log record of a version.
pub fn after_log_key(collection: &[u8], version: EVersion) -> Key {
    let mut key = keys::log_key(collection, version);
    key.push(0);
    key
}
