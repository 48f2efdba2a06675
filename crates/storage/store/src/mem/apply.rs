//! Applying transactions, whole or not at all.
//!
//! Steps that can only fail for reasons seen beforehand (a missing collection, a sentinel, a length, the log's order)
//! are checked first and then applied with nothing to undo: the way of every ordinary write. A transaction with a
//! clone, a rename or a collection step keeps what it changes and puts it back if a later step fails.

use buffer::Piece;
use types::{EVersion, GHObject};

use super::object::Object;
use super::undo::{Undo, UndoStep};
use super::{Collection, Log, MemStore, OVERHEAD_BYTES};
use crate::{CollectionId, StoreError, Transaction, TxOp};

impl MemStore {
    pub(super) fn apply(&mut self, txn: Transaction) -> Result<(), StoreError> {
        self.check_space(&txn)?;
        if txn.ops.iter().all(is_plain) {
            self.check_plain(&txn)?;
            let mut undo = Undo::off();
            return txn.ops.into_iter().try_for_each(|op| self.step(op, &mut undo));
        }
        let bytes_used = self.bytes_used;
        let mut undo = Undo::on();
        for op in txn.ops {
            if let Err(error) = op.check().and_then(|()| self.step(op, &mut undo)) {
                self.put_back(undo);
                self.bytes_used = bytes_used;
                return Err(error);
            }
        }
        Ok(())
    }

    fn check_space(&self, txn: &Transaction) -> Result<(), StoreError> {
        let needed = txn.data_bytes();
        let available = self.bytes_total.saturating_sub(self.bytes_used);
        match needed > available {
            true => Err(StoreError::NoSpace { needed, available }),
            false => Ok(()),
        }
    }

    /// Everything that can be wrong with a transaction of plain steps.
    fn check_plain(&self, txn: &Transaction) -> Result<(), StoreError> {
        let mut known = None;
        let mut heads: Vec<(CollectionId, EVersion)> = Vec::new();
        for op in &txn.ops {
            op.check()?;
            let id = op.collection();
            if known != Some(id) {
                self.collection(id)?;
                known = Some(id);
            }
            if let TxOp::LogAppend { version, .. } | TxOp::LogTrim { to: version, .. } = op {
                let at = match heads.iter().position(|h| h.0 == id) {
                    Some(at) => at,
                    None => {
                        heads.push((id, self.collection(id)?.log.head));
                        heads.len() - 1
                    }
                };
                let head = heads[at].1;
                if matches!(op, TxOp::LogAppend { .. }) && *version <= head {
                    return Err(StoreError::LogOrder { head, version: *version });
                }
                heads[at].1 = head.max(*version);
            }
        }
        Ok(())
    }

    fn get_mut(&mut self, id: CollectionId) -> Result<&mut Collection, StoreError> {
        self.collections.get_mut(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    /// Applies one step. What fails has changed nothing.
    fn step(&mut self, op: TxOp, undo: &mut Undo) -> Result<(), StoreError> {
        match op {
            TxOp::CreateCollection { collection, bits } => self.create_collection(collection, bits, undo),
            TxOp::RemoveCollection { collection } => self.remove_collection(collection, undo),
            TxOp::SplitCollection { collection, bits, rem, into } => {
                self.split(collection, bits, rem, into, undo)
            }
            TxOp::MergeCollection { collection, into, bits } => self.merge(collection, into, bits, undo),
            TxOp::LogAppend { collection, version, entry } => {
                let log = &mut self.get_mut(collection)?.log;
                if version <= log.head {
                    return Err(StoreError::LogOrder { head: log.head, version });
                }
                undo.push(|| UndoStep::log(collection, log));
                log.head = version;
                log.entries.push_back((version, entry));
                Ok(())
            }
            TxOp::LogTrim { collection, to } => {
                self.log_cut(collection, undo, |log| (log.trim(to), Vec::new()))
            }
            TxOp::LogRewind { collection, to } => {
                self.log_cut(collection, undo, |log| (Vec::new(), log.rewind(to)))
            }
            TxOp::Rename { collection, from, to_collection, to } => {
                self.rename(collection, from, to_collection, to, undo)
            }
            TxOp::Clone { collection, from, to } => {
                let c = self.get_mut(collection)?;
                let copy = c.objects.get(&from).cloned();
                let copy = copy.ok_or_else(|| StoreError::NoSuchObject(collection, Box::new(from)))?;
                undo.object(collection, &to, c);
                let added = copy.bytes_used();
                let old = c.objects.insert(to, copy);
                self.account(old.map_or(0, |o| o.bytes_used()), added);
                Ok(())
            }
            TxOp::CloneRange { .. } => self.clone_range(op, undo),
            op => self.object_step(op, undo),
        }
    }

    fn log_cut(
        &mut self,
        id: CollectionId,
        undo: &mut Undo,
        cut: impl FnOnce(&mut Log) -> (Entries, Entries),
    ) -> Result<(), StoreError> {
        let log = &mut self.get_mut(id)?.log;
        let before = UndoStep::log(id, log);
        let (front, back) = cut(log);
        undo.push(|| before.with_entries(front, back));
        Ok(())
    }

    fn clone_range(&mut self, op: TxOp, undo: &mut Undo) -> Result<(), StoreError> {
        let TxOp::CloneRange { collection, from, to, from_offset, len, to_offset } = op else {
            return Ok(());
        };
        let c = self.get_mut(collection)?;
        let Some(source) = c.objects.get(&from) else {
            return Err(StoreError::NoSuchObject(collection, Box::new(from)));
        };
        let data = source.data.read(from_offset, len);
        undo.object(collection, &to, c);
        let target = c.objects.entry(to).or_default();
        let before = target.bytes_used();
        target.data.write(to_offset, &data);
        target.data.zero(to_offset + data.len() as u64, len - data.len() as u64);
        let after = target.bytes_used();
        self.account(before, after);
        Ok(())
    }

    fn account(&mut self, before: u64, after: u64) {
        self.bytes_used = (self.bytes_used + after).saturating_sub(before);
    }

    fn create_collection(&mut self, id: CollectionId, bits: u32, undo: &mut Undo) -> Result<(), StoreError> {
        if self.collections.contains_key(&id) {
            return Err(StoreError::CollectionExists(id));
        }
        self.collections.insert(id, Collection { bits, ..Collection::default() });
        undo.push(|| UndoStep::Created(id));
        Ok(())
    }

    fn remove_collection(&mut self, id: CollectionId, undo: &mut Undo) -> Result<(), StoreError> {
        if !self.get_mut(id)?.objects.is_empty() {
            return Err(StoreError::CollectionNotEmpty(id));
        }
        if let Some(c) = self.collections.remove(&id) {
            undo.push(|| UndoStep::Removed(id, c));
        }
        Ok(())
    }

    fn split(
        &mut self,
        from: CollectionId,
        bits: u32,
        rem: u32,
        into: CollectionId,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let goes = |o: &GHObject| TxOp::split_takes(bits, rem, o.hobj.hash);
        let (source, target) = (self.collection(from)?, self.collection(into)?);
        let moved: Vec<GHObject> = source.objects.keys().filter(|o| goes(o)).cloned().collect();
        if let Some(twice) = moved.iter().find(|o| target.objects.contains_key(o)) {
            return Err(StoreError::ObjectExists(into, Box::new(twice.clone())));
        }
        undo.push(|| UndoStep::Bits(from, source.bits));
        undo.push(|| UndoStep::Bits(into, target.bits));
        self.get_mut(from)?.bits = bits;
        self.get_mut(into)?.bits = bits;
        self.move_objects(from, into, &moved);
        undo.push(|| UndoStep::Moved(from, into, moved));
        Ok(())
    }

    fn merge(
        &mut self,
        from: CollectionId,
        into: CollectionId,
        bits: u32,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let (source, target) = (self.collection(from)?, self.collection(into)?);
        if let Some(twice) = source.objects.keys().find(|o| target.objects.contains_key(o)) {
            return Err(StoreError::ObjectExists(into, Box::new(twice.clone())));
        }
        let moved: Vec<GHObject> = source.objects.keys().cloned().collect();
        undo.push(|| UndoStep::Bits(into, target.bits));
        self.get_mut(into)?.bits = bits;
        self.move_objects(from, into, &moved);
        undo.push(|| UndoStep::Moved(from, into, moved));
        self.remove_collection(from, undo)
    }

    /// Moves objects that `from` has and `into` doesn't.
    pub(super) fn move_objects(&mut self, from: CollectionId, into: CollectionId, names: &[GHObject]) {
        let Some(source) = self.collections.get_mut(&from) else { return };
        let moved: Vec<_> = names.iter().filter_map(|name| source.objects.remove_entry(name)).collect();
        if let Some(target) = self.collections.get_mut(&into) {
            target.objects.extend(moved);
        }
    }

    fn rename(
        &mut self,
        id: CollectionId,
        from: GHObject,
        to_id: CollectionId,
        to: GHObject,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let target = self.collection(to_id)?;
        if target.objects.contains_key(&to) {
            return Err(StoreError::ObjectExists(to_id, Box::new(to)));
        }
        undo.object(to_id, &to, target);
        let source = self.get_mut(id)?;
        if !source.objects.contains_key(&from) {
            return Err(StoreError::NoSuchObject(id, Box::new(from)));
        }
        undo.object(id, &from, source);
        if let Some(object) = source.objects.remove(&from) {
            self.get_mut(to_id)?.objects.insert(to, object);
        }
        Ok(())
    }

    /// Steps on one object, which can't fail once the collection is there.
    fn object_step(&mut self, op: TxOp, undo: &mut Undo) -> Result<(), StoreError> {
        let c = self.get_mut(op.collection())?;
        if let Some(name) = op.object() {
            undo.object(op.collection(), name, c);
        }
        if let TxOp::Remove { object, .. } = &op {
            let before = c.objects.remove(object).map_or(0, |o| o.bytes_used());
            self.account(before, 0);
            return Ok(());
        }
        let (mut before, mut after) = (0, 0);
        let mut change = |object: &mut Object, op: TxOp| {
            before = object.bytes_used();
            object.change(op);
            after = object.bytes_used();
        };
        match op {
            // These only take away, so they make no object.
            TxOp::RemoveAttr { .. }
            | TxOp::RemoveAttrs { .. }
            | TxOp::OmapRemove { .. }
            | TxOp::OmapRemoveRange { .. }
            | TxOp::OmapClear { .. } => {
                if let Some(object) = op.object().and_then(|name| c.objects.get_mut(name)) {
                    change(object, op);
                }
            }
            op => {
                let Some(name) = op.object() else { return Ok(()) };
                match c.objects.get_mut(name) {
                    Some(object) => change(object, op),
                    None => {
                        let name = name.clone();
                        let mut object = Object::default();
                        object.change(op);
                        after = object.bytes_used();
                        c.objects.insert(name, object);
                    }
                }
            }
        }
        self.account(before, after);
        Ok(())
    }
}

/// Log entries.
pub(super) type Entries = Vec<(EVersion, Piece)>;

impl Log {
    /// See [`TxOp::LogTrim`]; returns what was dropped.
    fn trim(&mut self, to: EVersion) -> Entries {
        let dropped = self.entries.partition_point(|e| e.0 <= to);
        self.tail = self.tail.max(to);
        self.head = self.head.max(to);
        self.entries.drain(..dropped).collect()
    }

    /// See [`TxOp::LogRewind`]; returns what was dropped.
    fn rewind(&mut self, to: EVersion) -> Entries {
        let kept = self.entries.partition_point(|e| e.0 <= to);
        self.head = self.head.min(to);
        self.tail = self.tail.min(to);
        self.entries.split_off(kept).into()
    }
}

impl Object {
    /// A step that changes this object.
    fn change(&mut self, op: TxOp) {
        match op {
            TxOp::Write { offset, data, .. } => self.data.write(offset, &data),
            TxOp::Zero { offset, len, .. } => self.data.zero(offset, len),
            TxOp::Truncate { size, .. } => self.data.truncate(size),
            TxOp::SetAttrs { attrs, .. } => self.attrs.extend(attrs),
            TxOp::RemoveAttr { name, .. } => drop(self.attrs.remove(&name)),
            TxOp::RemoveAttrs { .. } => self.attrs.clear(),
            TxOp::OmapSet { entries, .. } => self.omap.extend(entries),
            TxOp::OmapRemove { keys, .. } => keys.iter().for_each(|k| drop(self.omap.remove(k))),
            TxOp::OmapRemoveRange { first, last, .. } if first < last => {
                let mut tail = self.omap.split_off(&first);
                let mut rest = tail.split_off(&last);
                self.omap.append(&mut rest);
            }
            TxOp::OmapSetHeader { header, .. } => self.omap_header = Some(header),
            TxOp::OmapClear { .. } => {
                self.omap.clear();
                self.omap_header = None;
            }
            TxOp::SetAllocHint { hint, .. } => self.hint = Some(hint),
            _ => {}
        }
    }

    /// What the object counts for. Omap and attributes by number only: their bytes are small beside the data, and
    /// adding them up would cost more than most writes.
    fn bytes_used(&self) -> u64 {
        self.data.bytes_used() + (1 + self.attrs.len() + self.omap.len()) as u64 * OVERHEAD_BYTES
    }
}

/// Whether a step can only fail for what `check_plain` sees.
fn is_plain(op: &TxOp) -> bool {
    op.object().is_some() || matches!(op, TxOp::LogAppend { .. } | TxOp::LogTrim { .. })
}
