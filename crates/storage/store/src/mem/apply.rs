//! Applying transactions, whole or not at all.
//!
//! Steps that can only fail for reasons seen beforehand (a missing collection, a sentinel, a length, the log's order)
//! are checked first and then applied with nothing to undo: the way of every ordinary write. A transaction with a
//! clone, a rename or a collection step keeps what it changes and puts it back if a later step fails.

use std::collections::BTreeMap;

use types::{EVersion, GHObject};

use super::object::Object;
use super::{Collection, Log, MemStore, OVERHEAD_BYTES};
use crate::{CollectionId, OBJECT_BYTES_MAX, StoreError, Transaction, TxOp};

/// What a failed transaction has to put back: each as it was before the first change.
#[derive(Default)]
struct Undo {
    objects: BTreeMap<(CollectionId, GHObject), Option<Object>>,
    logs: BTreeMap<CollectionId, Log>,
    /// The whole map, kept at the first step that changes which collections there are or moves many objects.
    collections: Option<BTreeMap<CollectionId, Collection>>,
}

impl MemStore {
    pub(super) fn apply(&mut self, txn: Transaction) -> Result<(), StoreError> {
        self.check_space(&txn)?;
        if txn.ops.iter().all(is_plain) {
            self.check_plain(&txn)?;
            return txn.ops.into_iter().try_for_each(|op| self.step(op));
        }
        let bytes_used = self.bytes_used;
        let mut undo = Undo::default();
        for op in txn.ops {
            let done = check_names(&op).and_then(|()| {
                self.remember(&op, &mut undo);
                self.step(op)
            });
            if let Err(error) = done {
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
            check_names(op)?;
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

    fn remember(&self, op: &TxOp, undo: &mut Undo) {
        let id = op.collection();
        match op {
            _ if undo.collections.is_some() => {}
            TxOp::CreateCollection { .. }
            | TxOp::RemoveCollection { .. }
            | TxOp::SplitCollection { .. }
            | TxOp::MergeCollection { .. } => undo.collections = Some(self.collections.clone()),
            TxOp::LogAppend { .. } | TxOp::LogTrim { .. } | TxOp::LogRewind { .. } => {
                if let Some(c) = self.collections.get(&id) {
                    undo.logs.entry(id).or_insert_with(|| c.log.clone());
                }
            }
            TxOp::Clone { to, .. } | TxOp::CloneRange { to, .. } => self.remember_object(id, to, undo),
            TxOp::Rename { from, to_collection, to, .. } => {
                self.remember_object(id, from, undo);
                self.remember_object(*to_collection, to, undo);
            }
            _ => {
                if let Some(object) = op.object() {
                    self.remember_object(id, object, undo);
                }
            }
        }
    }

    fn remember_object(&self, id: CollectionId, object: &GHObject, undo: &mut Undo) {
        let key = (id, object.clone());
        let now = || self.collections.get(&id).and_then(|c| c.objects.get(object)).cloned();
        undo.objects.entry(key).or_insert_with(now);
    }

    /// Newest knowledge first: the collections as they were when they were kept, then what changed before that.
    fn put_back(&mut self, undo: Undo) {
        if let Some(collections) = undo.collections {
            self.collections = collections;
        }
        for (id, log) in undo.logs {
            if let Some(c) = self.collections.get_mut(&id) {
                c.log = log;
            }
        }
        for ((id, name), object) in undo.objects {
            let Some(c) = self.collections.get_mut(&id) else { continue };
            match object {
                Some(object) => c.objects.insert(name, object),
                None => c.objects.remove(&name),
            };
        }
    }

    fn get_mut(&mut self, id: CollectionId) -> Result<&mut Collection, StoreError> {
        self.collections.get_mut(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    /// Applies one step. What fails has changed nothing.
    fn step(&mut self, op: TxOp) -> Result<(), StoreError> {
        match op {
            TxOp::CreateCollection { collection, bits } => self.create_collection(collection, bits),
            TxOp::RemoveCollection { collection } => self.remove_collection(collection),
            TxOp::SplitCollection { collection, bits, rem, into } => self.split(collection, bits, rem, into),
            TxOp::MergeCollection { collection, into, bits } => self.merge(collection, into, bits),
            TxOp::LogAppend { collection, version, entry } => {
                let log = &mut self.get_mut(collection)?.log;
                if version <= log.head {
                    return Err(StoreError::LogOrder { head: log.head, version });
                }
                log.head = version;
                log.entries.push_back((version, entry));
                Ok(())
            }
            TxOp::LogTrim { collection, to } => {
                self.get_mut(collection)?.log.trim(to);
                Ok(())
            }
            TxOp::LogRewind { collection, to } => {
                self.get_mut(collection)?.log.rewind(to);
                Ok(())
            }
            TxOp::Rename { collection, from, to_collection, to } => {
                self.rename(collection, from, to_collection, to)
            }
            TxOp::Clone { collection, from, to } => {
                let c = self.get_mut(collection)?;
                let copy = c.objects.get(&from).cloned();
                let copy = copy.ok_or_else(|| StoreError::NoSuchObject(collection, Box::new(from)))?;
                let added = copy.bytes_used();
                let old = c.objects.insert(to, copy);
                self.account(old.map_or(0, |o| o.bytes_used()), added);
                Ok(())
            }
            TxOp::CloneRange { collection, from, to, from_offset, len, to_offset } => {
                let c = self.get_mut(collection)?;
                let source = c.objects.get(&from);
                let source =
                    source.ok_or_else(|| StoreError::NoSuchObject(collection, Box::new(from.clone())))?;
                let mut data = source.data.read(from_offset, len);
                let behind = len - data.len() as u64;
                let end = to_offset + data.len() as u64;
                let target = c.objects.entry(to).or_default();
                let before = target.bytes_used();
                target.data.write(to_offset, &std::mem::take(&mut data));
                target.data.zero(end, behind);
                let after = target.bytes_used();
                self.account(before, after);
                Ok(())
            }
            op => self.object_step(op),
        }
    }

    fn account(&mut self, before: u64, after: u64) {
        self.bytes_used = (self.bytes_used + after).saturating_sub(before);
    }

    fn create_collection(&mut self, id: CollectionId, bits: u32) -> Result<(), StoreError> {
        if self.collections.contains_key(&id) {
            return Err(StoreError::CollectionExists(id));
        }
        self.collections.insert(id, Collection { bits, ..Collection::default() });
        Ok(())
    }

    fn remove_collection(&mut self, id: CollectionId) -> Result<(), StoreError> {
        match self.get_mut(id)?.objects.is_empty() {
            true => self.collections.remove(&id),
            false => return Err(StoreError::CollectionNotEmpty(id)),
        };
        Ok(())
    }

    fn split(
        &mut self,
        from: CollectionId,
        bits: u32,
        rem: u32,
        into: CollectionId,
    ) -> Result<(), StoreError> {
        check_split(from, into, bits)?;
        self.collection(into)?;
        let source = self.get_mut(from)?;
        source.bits = bits;
        let mask = low_bits(bits);
        let all = std::mem::take(&mut source.objects);
        let (moved, kept) = all.into_iter().partition(|(o, _)| o.hobj.hash & mask == rem & mask);
        source.objects = kept;
        let target = self.get_mut(into)?;
        target.bits = bits;
        target.objects.extend::<BTreeMap<_, _>>(moved);
        Ok(())
    }

    fn merge(&mut self, from: CollectionId, into: CollectionId, bits: u32) -> Result<(), StoreError> {
        check_split(from, into, bits)?;
        let target = self.collection(into)?;
        let source = self.collection(from)?;
        if let Some(twice) = source.objects.keys().find(|o| target.objects.contains_key(o)) {
            return Err(StoreError::ObjectExists(into, Box::new(twice.clone())));
        }
        let objects = self.collections.remove(&from).map(|c| c.objects).unwrap_or_default();
        let target = self.get_mut(into)?;
        target.bits = bits;
        target.objects.extend(objects);
        Ok(())
    }

    fn rename(
        &mut self,
        id: CollectionId,
        from: GHObject,
        to_id: CollectionId,
        to: GHObject,
    ) -> Result<(), StoreError> {
        if self.collection(to_id)?.objects.contains_key(&to) {
            return Err(StoreError::ObjectExists(to_id, Box::new(to)));
        }
        let object = self.get_mut(id)?.objects.remove(&from);
        let object = object.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(from)))?;
        self.get_mut(to_id)?.objects.insert(to, object);
        Ok(())
    }

    /// Steps on one object, which can't fail once the collection is there.
    fn object_step(&mut self, op: TxOp) -> Result<(), StoreError> {
        let c = self.get_mut(op.collection())?;
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

impl Log {
    fn trim(&mut self, to: EVersion) {
        while self.entries.front().is_some_and(|e| e.0 <= to) {
            self.entries.pop_front();
        }
        self.tail = self.tail.max(to);
        self.head = self.head.max(to);
    }

    fn rewind(&mut self, to: EVersion) {
        while self.entries.back().is_some_and(|e| e.0 > to) {
            self.entries.pop_back();
        }
        self.head = self.head.min(to);
        self.tail = self.tail.min(to);
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

/// Sentinels and lengths: what is wrong whatever the store holds.
fn check_names(op: &TxOp) -> Result<(), StoreError> {
    let names: [Option<&GHObject>; 2] = match op {
        TxOp::Clone { from, to, .. } | TxOp::CloneRange { from, to, .. } | TxOp::Rename { from, to, .. } => {
            [Some(from), Some(to)]
        }
        op => [op.object(), None],
    };
    if let Some(bad) = names.into_iter().flatten().find(|o| is_sentinel(o)) {
        return Err(StoreError::NotAnObject(Box::new(bad.clone())));
    }
    match op.end() {
        Some(end) if end > OBJECT_BYTES_MAX => Err(StoreError::ObjectTooLarge { end, max: OBJECT_BYTES_MAX }),
        _ => Ok(()),
    }
}

fn is_sentinel(object: &GHObject) -> bool {
    object.max || object.hobj.max || object.hobj.is_min()
}

fn check_split(from: CollectionId, into: CollectionId, bits: u32) -> Result<(), StoreError> {
    match from == into || from == CollectionId::Meta || into == CollectionId::Meta || bits > 32 {
        true => Err(StoreError::BadSplit { from, into, bits }),
        false => Ok(()),
    }
}

/// A mask of the `bits` low bits, 32 at the most.
fn low_bits(bits: u32) -> u32 {
    u32::MAX.checked_shr(32u32.saturating_sub(bits)).unwrap_or(0)
}
