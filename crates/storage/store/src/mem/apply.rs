//! Applying transactions, whole or not at all.
//!
//! Steps that can only fail for reasons seen beforehand (a missing collection, the log's order) are checked first and
//! then applied with nothing to undo: the path of every ordinary write. A transaction with a clone, a rename or a change
//! of collections keeps what it changes and puts it back if a later step fails.

use std::iter::Peekable;

use buffer::Piece;
use smallvec::SmallVec;
use types::{EVersion, GHObject};

use super::object::Object;
use super::table::ObjectTable;
use super::undo::{Undo, UndoStep};
use super::{Collection, Log, MemStore, OVERHEAD_BYTES, Usage};
use crate::{
    CollectionChange, CollectionId, LogChange, LogRecord, ObjectChange, Step, StoreError, StoreShard, Token,
    Transaction, split_takes,
};

/// The objects that a transaction names.
type Names = [(CollectionId, GHObject)];

/// A transaction's steps that have not been applied.
type Following = Peekable<std::vec::IntoIter<Step>>;

impl MemStore {
    /// Applies a transaction; one that is refused closes its collections.
    pub(super) fn apply_or_close(&mut self, txn: Transaction, token: Token) -> Result<(), StoreError> {
        let collections = txn.collections();
        if let Some(id) = collections.iter().find(|id| self.closed.contains_key(id)) {
            let error = StoreError::AfterRefused(*id);
            // Collections that were still open are closed with the others, by the refusal that closed those.
            let by = self.closed[id];
            for id in collections {
                self.closed.entry(id).or_insert(by);
            }
            return Err(error);
        }
        let shard = txn.check().and_then(|()| self.common_shard(&collections));
        let applied = shard.and_then(|shard| self.apply(txn, shard));
        if applied.is_err() {
            self.closed.extend(collections.into_iter().map(|id| (id, token)));
        }
        applied
    }

    /// The shard in which all of a transaction's collections are, or are to be made.
    fn common_shard(&self, collections: &[CollectionId]) -> Result<StoreShard, StoreError> {
        let mut found: Option<(CollectionId, StoreShard)> = None;
        for id in collections {
            let Some(c) = self.collections.get(id) else { continue };
            if let Some(moved) = &c.moved {
                return Err(StoreError::Rehoming { collection: *id, to: moved.to });
            }
            match found {
                Some((first, shard)) if shard != c.shard => {
                    return Err(StoreError::AcrossShards { first, second: *id });
                }
                _ => found = Some((*id, c.shard)),
            }
        }
        let of_first = || collections.first().map_or(StoreShard(0), |id| self.default_shard(*id));
        Ok(found.map_or_else(of_first, |f| f.1))
    }

    fn apply(&mut self, txn: Transaction, shard: StoreShard) -> Result<(), StoreError> {
        self.check_space(&txn)?;
        let plain = txn.steps().iter().all(is_plain);
        if plain {
            self.check_plain(&txn)?;
        }
        let usage = self.usage;
        let mut undo = if plain { Undo::off() } else { Undo::on() };
        let (names, steps) = txn.into_parts();
        let mut steps = steps.into_iter().peekable();
        while let Some(step) = steps.next() {
            if let Err(error) = self.step(&names, step, &mut steps, shard, &mut undo) {
                debug_assert!(!plain, "a plain step failed after its check: {error}");
                self.put_back(undo);
                self.usage = usage;
                return Err(error);
            }
        }
        Ok(())
    }

    fn check_space(&self, txn: &Transaction) -> Result<(), StoreError> {
        let needed = txn.payload_bytes();
        let mut available = self.bytes_available();
        if needed > available && txn.may_use_reserve() {
            available += self.reserve();
        }
        match needed <= available {
            true => Ok(()),
            false => Err(StoreError::NoSpace { needed, available }),
        }
    }

    /// Everything that can be wrong with a transaction of plain steps.
    fn check_plain(&self, txn: &Transaction) -> Result<(), StoreError> {
        let mut known = None;
        let mut heads: SmallVec<[(CollectionId, EVersion); 1]> = SmallVec::new();
        for step in txn.steps() {
            let id = match step {
                Step::Object { object, .. } => txn.object(*object).0,
                Step::Log { collection, .. } | Step::SetInfo { collection, .. } => *collection,
                Step::Clone { .. }
                | Step::CloneRange { .. }
                | Step::Rename { .. }
                | Step::Collection { .. } => {
                    continue;
                }
            };
            if known != Some(id) {
                self.collection(id)?;
                known = Some(id);
            }
            let Step::Log { change, .. } = step else { continue };
            let at = match heads.iter().position(|h| h.0 == id) {
                Some(at) => at,
                None => {
                    heads.push((id, self.collection(id)?.log.head));
                    heads.len() - 1
                }
            };
            heads[at].1 = head_after(heads[at].1, change)?;
        }
        Ok(())
    }

    fn get_mut(&mut self, id: CollectionId) -> Result<&mut Collection, StoreError> {
        self.collections.get_mut(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    /// Applies one step, and of those that follow the changes of the same object. What fails has changed nothing.
    fn step(
        &mut self,
        names: &Names,
        step: Step,
        following: &mut Following,
        shard: StoreShard,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let name = |object: crate::ObjectRef| &names[object.0 as usize];
        match step {
            Step::Object { object, change } => {
                let same = move |step: &Step| matches!(step, Step::Object { object: o, .. } if *o == object);
                let more = std::iter::from_fn(|| match following.next_if(same)? {
                    Step::Object { change, .. } => Some(change),
                    _ => None,
                });
                self.change_object(name(object), change, more, undo)
            }
            Step::Clone { from, to } => self.clone_object(name(from), name(to), undo),
            Step::CloneRange { from, to, from_offset, len, to_offset } => {
                self.clone_range((name(from), from_offset), (name(to), to_offset), len, undo)
            }
            Step::Rename { from, to } => self.rename(name(from), name(to), undo),
            Step::Log { collection, change } => self.change_log(collection, change, undo),
            Step::SetInfo { collection, info } => {
                let c = self.get_mut(collection)?;
                // Small by contract, but it may be a part of something large.
                let (info, before) = (info.compact(), c.info.len() as u64);
                let after = info.len() as u64;
                let old = std::mem::replace(&mut c.info, info);
                undo.push(|| UndoStep::Info(collection, old));
                self.usage.metadata = self.usage.metadata + after - before;
                Ok(())
            }
            Step::Collection { collection, change } => match change {
                CollectionChange::Create { bits } => self.create_collection(collection, bits, shard, undo),
                CollectionChange::Remove => self.remove_collection(collection, undo),
                CollectionChange::Split { bits, rem, into } => self.split(collection, bits, rem, into, undo),
                CollectionChange::Merge { into, bits } => self.merge(collection, into, bits, undo),
            },
        }
    }

    fn change_object(
        &mut self,
        (id, name): &(CollectionId, GHObject),
        first: ObjectChange,
        mut more: impl Iterator<Item = ObjectChange>,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let c = self.collections.get_mut(id).ok_or(StoreError::NoSuchCollection(*id))?;
        undo.object(*id, name, c);
        let mut next = Some(first);
        while let Some(change) = next {
            // Each round is one search for the object; only a removal ends one before the changes do.
            let (before, after);
            (before, after, next) = match c.objects.get_mut(name) {
                Some(_) if matches!(change, ObjectChange::Remove) => {
                    let removed = c.objects.remove(name);
                    (
                        removed.map_or(Usage::default(), |(name, o)| Usage::of(&name, &o)),
                        Usage::default(),
                        more.next(),
                    )
                }
                Some(object) => {
                    let before = Usage::of(name, object);
                    let next = object.change_until_removed(change, &mut more);
                    (before, Usage::of(name, object), next)
                }
                None if change.only_takes_away() => {
                    next = more.next();
                    continue;
                }
                None => {
                    let mut object = Object::default();
                    let next = object.change_until_removed(change, &mut more);
                    let after = Usage::of(name, &object);
                    c.objects.insert(name.clone(), object);
                    (Usage::default(), after, next)
                }
            };
            self.usage.replace(before, after);
        }
        Ok(())
    }

    fn clone_object(
        &mut self,
        (id, from): &(CollectionId, GHObject),
        (to_id, to): &(CollectionId, GHObject),
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let copy = self.collection(*id)?.objects.get(from).cloned();
        let target = self.get_mut(*to_id)?;
        let copy = copy.ok_or_else(|| StoreError::NoSuchObject(*id, Box::new(from.clone())))?;
        undo.object(*to_id, to, target);
        let after = Usage::of(to, &copy);
        let old = target.objects.insert(to.clone(), copy);
        self.usage.replace(old.map_or(Usage::default(), |o| Usage::of(to, &o)), after);
        Ok(())
    }

    fn clone_range(
        &mut self,
        ((id, from), from_offset): (&(CollectionId, GHObject), u64),
        ((to_id, to), to_offset): (&(CollectionId, GHObject), u64),
        len: u64,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let source = self.collection(*id)?.objects.get(from);
        let data = source.map(|source| source.data.read(from_offset, len));
        let target = self.get_mut(*to_id)?;
        let data = data.ok_or_else(|| StoreError::NoSuchObject(*id, Box::new(from.clone())))?;
        undo.object(*to_id, to, target);
        let old = target.objects.remove(to).map(|(_, object)| object);
        let before = old.as_ref().map_or(Usage::default(), |o| Usage::of(to, o));
        let mut object = old.unwrap_or_default();
        object.data.write(to_offset, &data);
        object.data.zero(to_offset + data.len() as u64, len - data.len() as u64);
        let after = Usage::of(to, &object);
        target.objects.insert(to.clone(), object);
        self.usage.replace(before, after);
        Ok(())
    }

    fn rename(
        &mut self,
        (id, from): &(CollectionId, GHObject),
        (to_id, to): &(CollectionId, GHObject),
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        let target = self.collection(*to_id)?;
        if target.objects.contains(to) {
            return Err(StoreError::ObjectExists(*to_id, Box::new(to.clone())));
        }
        undo.object(*to_id, to, target);
        let source = self.get_mut(*id)?;
        undo.object(*id, from, source);
        let object = source.objects.remove(from).map(|(_, object)| object);
        let object = object.ok_or_else(|| StoreError::NoSuchObject(*id, Box::new(from.clone())))?;
        self.usage.replace(Usage::of(from, &object), Usage::of(to, &object));
        self.get_mut(*to_id)?.objects.insert(to.clone(), object);
        Ok(())
    }

    fn change_log(&mut self, id: CollectionId, change: LogChange, undo: &mut Undo) -> Result<(), StoreError> {
        let log = &mut self.get_mut(id)?.log;
        head_after(log.head, &change)?;
        let before = UndoStep::log(id, log);
        let (added, front, back) = match change {
            LogChange::Append(record) => {
                let added = Usage::of_record(&record);
                log.append(record);
                (added, Vec::new(), Vec::new())
            }
            LogChange::Trim(to) => (0, log.trim(to), Vec::new()),
            LogChange::Rewind(to) => (0, Vec::new(), log.rewind(to)),
        };
        let dropped = front.iter().chain(&back).map(Usage::of_record).sum::<u64>();
        undo.push(|| before.with_records(front, back));
        self.usage.metadata = self.usage.metadata + added - dropped;
        Ok(())
    }

    fn create_collection(
        &mut self,
        id: CollectionId,
        bits: u32,
        shard: StoreShard,
        undo: &mut Undo,
    ) -> Result<(), StoreError> {
        if self.collections.contains_key(&id) {
            return Err(StoreError::CollectionExists(id));
        }
        let c = Collection {
            shard,
            bits,
            info: Piece::empty(),
            objects: ObjectTable::default(),
            log: Log::default(),
            moved: None,
        };
        self.collections.insert(id, c);
        self.usage.metadata += OVERHEAD_BYTES;
        undo.push(|| UndoStep::Created(id));
        Ok(())
    }

    fn remove_collection(&mut self, id: CollectionId, undo: &mut Undo) -> Result<(), StoreError> {
        if !self.get_mut(id)?.objects.is_empty() {
            return Err(StoreError::CollectionNotEmpty(id));
        }
        if let Some(c) = self.collections.remove(&id) {
            let log: u64 = c.log.records.iter().map(Usage::of_record).sum();
            self.usage.metadata -= OVERHEAD_BYTES + c.info.len() as u64 + log;
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
        let (source, target) = (self.collection(from)?, self.collection(into)?);
        let goes = |o: &&GHObject| split_takes(bits, rem, o.hobj.hash);
        let moved: Vec<GHObject> =
            source.objects.iter().map(|(name, _)| name).filter(goes).cloned().collect();
        if let Some(twice) = moved.iter().find(|o| target.objects.contains(o)) {
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
        // A split that takes everything, whose source then goes.
        self.split(from, 0, 0, into, undo)?;
        self.get_mut(into)?.bits = bits;
        self.remove_collection(from, undo)
    }

    /// Moves objects that `from` has and `into` doesn't.
    pub(super) fn move_objects(&mut self, from: CollectionId, into: CollectionId, names: &[GHObject]) {
        let Some(source) = self.collections.get_mut(&from) else { return };
        let moved: Vec<_> = names.iter().filter_map(|name| source.objects.remove(name)).collect();
        if let Some(target) = self.collections.get_mut(&into) {
            target.objects.extend(moved);
        }
    }
}

/// The log's head after a change.
fn head_after(head: EVersion, change: &LogChange) -> Result<EVersion, StoreError> {
    match change {
        LogChange::Append(record) if record.version <= head => {
            Err(StoreError::LogOrder { head, version: record.version })
        }
        LogChange::Append(record) => Ok(record.version),
        LogChange::Trim(to) => Ok(head.max(*to)),
        LogChange::Rewind(to) => Ok(head.min(*to)),
    }
}

impl Log {
    fn append(&mut self, record: LogRecord) {
        debug_assert!(record.version > self.head);
        self.head = record.version;
        self.records.push_back(record);
    }

    /// See [`LogChange::Trim`]; returns what was dropped.
    fn trim(&mut self, to: EVersion) -> Vec<LogRecord> {
        let dropped = self.records.partition_point(|e| e.version <= to);
        self.tail = self.tail.max(to);
        self.head = self.head.max(to);
        self.records.drain(..dropped).collect()
    }

    /// See [`LogChange::Rewind`]; returns what was dropped.
    fn rewind(&mut self, to: EVersion) -> Vec<LogRecord> {
        let kept = self.records.partition_point(|e| e.version <= to);
        self.head = self.head.min(to);
        self.tail = self.tail.min(to);
        self.records.split_off(kept).into()
    }
}

/// Whether a step can only fail for what `check_plain` sees.
fn is_plain(step: &Step) -> bool {
    match step {
        Step::Object { .. } | Step::Log { .. } | Step::SetInfo { .. } => true,
        Step::Clone { .. } | Step::CloneRange { .. } | Step::Rename { .. } | Step::Collection { .. } => false,
    }
}
