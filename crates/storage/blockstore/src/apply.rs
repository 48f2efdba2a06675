//! The steps of a transaction.

use std::ops::Range;

use buffer::Piece;
use store::{CollectionChange, CollectionId, LogChange, ObjectChange, Step, StoreError, Transaction, keys};
use types::GHObject;

use crate::chunk::CHUNK_BLOCKS;
use crate::context::Context;
use crate::find::Found;
use crate::layout::BLOCK;
use crate::onode::{Home, Inline};
use crate::page::Key;
use crate::records::{
    Collection, Dead, Part, collection_key, dead_key, encode_log_record, key, log_key, object_key, object_of,
    part_key, space_key, table,
};
use crate::shape::{HASH_END, Part as HashPart, Shape, hash_range};
use crate::stop::{Attempt, Missing, Stop, damaged};

/// A copied range shares blocks if it has so many whole ones.
const SHARED_BLOCKS_MIN: u64 = 16;

/// Blocks that a transaction asks for together, about: as many as one request of the device has.
const BLOCKS_AHEAD: usize = 256;

/// So many objects of a collection move so that those of another need not.
const FEW_OBJECTS: usize = 16;

impl Context<'_> {
    /// Applies the steps of a transaction that [`Transaction::check`] has found sound.
    ///
    /// # Errors
    /// It is refused, or has to wait for something and begin again.
    pub fn apply(&mut self, txn: &Transaction) -> Attempt<()> {
        for (at, step) in txn.steps().iter().enumerate() {
            match self.step(txn, step) {
                Ok(()) => {}
                Err(Stop::Blocks(missing)) => {
                    return Err(Stop::Blocks(self.blocks_ahead(txn, &txn.steps()[at + 1..], missing)));
                }
                Err(stop) => return Err(stop),
            }
        }
        self.write_last();
        Ok(())
    }

    /// The blocks that a step has to read first, and those that writes behind it will: with one at a time, many small writes would begin
    /// again as often. What the steps between change is not looked at: a block that is read for nothing does no harm.
    fn blocks_ahead(&mut self, txn: &Transaction, steps: &[Step], mut missing: Vec<u64>) -> Vec<u64> {
        self.leave_last();
        for step in steps {
            if missing.len() >= BLOCKS_AHEAD {
                break;
            }
            let Step::Object { object, change: ObjectChange::Write { offset, data, .. } } = step else {
                continue;
            };
            let (collection, object) = txn.object(*object);
            let end = offset + data.len() as u64;
            let Ok(Some(found)) = self.find(collection, object) else { continue };
            for edge in [*offset, end].into_iter().filter(|edge| edge % BLOCK != 0) {
                let Ok(mapped) = self.mapped(&found.onode, edge / BLOCK, edge / BLOCK + 1) else { continue };
                if let Err(Stop::Blocks(more)) = self.bytes_of(&found, &mapped.slots) {
                    missing.extend(more);
                }
            }
        }
        missing
    }

    fn step(&mut self, txn: &Transaction, step: &Step) -> Attempt<()> {
        self.pool = self.pool_use.counted.blocks().then(|| txn.collection_of(step).pool());
        if !matches!(step, Step::Object { .. } | Step::Log { .. } | Step::SetInfo { .. }) {
            self.leave_last();
        }
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
        let mut found = match change.only_takes_away() {
            false => self.find_or_make(collection, object)?,
            true => match self.find_again(collection, object)? {
                Some(found) => found,
                None => return Ok(()),
            },
        };
        let omap = found.onode.omap;
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
                    self.set_attr(&mut found.onode, name, value)?;
                }
            }
            ObjectChange::RemoveAttr(name) => self.remove_attr(&mut found.onode, name)?,
            ObjectChange::RemoveAttrs => self.remove_attrs(&mut found.onode)?,
            ObjectChange::OmapSet(entries) => {
                found.onode.note_key();
                let mut missing = Missing::default();
                for (name, value) in entries {
                    missing.note(self.put(part_key(omap, Part::Omap, name), Piece::copy_from(value)))?;
                }
                missing.none()?;
            }
            ObjectChange::OmapRemove(names) => {
                let mut missing = Missing::default();
                for name in names.iter().filter(|_| found.onode.has_keys()) {
                    missing.note(self.delete(part_key(omap, Part::Omap, name)))?;
                }
                missing.none()?;
            }
            ObjectChange::OmapRemoveRange { first, last } => {
                let (start, end) = (part_key(omap, Part::Omap, first), part_key(omap, Part::Omap, last));
                if start < end && found.onode.has_keys() {
                    self.delete_range(&start, Some(&end))?;
                }
            }
            ObjectChange::OmapSetHeader(header) => {
                found.onode.note_key();
                let key = part_key(omap, Part::OmapHeader, &[]);
                self.put(key, Piece::copy_from(header))?;
            }
            ObjectChange::OmapClear => self.clear_omap(&mut found)?,
            ObjectChange::SetAllocHint(hint) => found.onode.hint = Some(*hint),
        }
        self.store(found);
        Ok(())
    }

    fn clear_omap(&mut self, found: &mut Found) -> Attempt<()> {
        match self.few_keys(&found.onode, Dead::Omap(None).parts())? {
            Some(all) => self.delete_parts(all),
            None => {
                self.put(dead_key(found.onode.omap), Dead::Omap(self.pool_of_omaps()).encode())?;
                found.onode.omap = self.new_number();
                Ok(())
            }
        }
    }

    fn remove(&mut self, found: &Found) -> Attempt<()> {
        self.delete(found.key().clone())?;
        self.counters.objects = self.counters.objects.saturating_sub(1);
        let onode = &found.onode;
        if let Home::Here(record) = onode.home(Inline::FirstChunk) {
            self.give_up_record(record)?;
        }
        if let Some(all) = self.few_keys(onode, Dead::All(None).parts())? {
            return self.delete_parts(all);
        }
        self.put(dead_key(onode.number), Dead::All(self.pool).encode())?;
        if onode.omap != onode.number {
            self.put(dead_key(onode.omap), Dead::Omap(self.pool_of_omaps()).encode())?;
        }
        Ok(())
    }

    fn clone_object(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        self.collection(id)?;
        self.collection(to_id)?;
        let mut source = self.existing(id, from)?;
        if (id, from) == (to_id, to) {
            return Ok(());
        }
        if let Some(old) = self.find(to_id, to)? {
            self.remove(&old)?;
        }
        let mut copy = self.find_or_make(to_id, to)?;
        (copy.onode.size, copy.onode.hint) = (source.onode.size, source.onode.hint);
        self.share_data(&mut source.onode, &mut copy.onode)?;
        for part in Inline::ATTRS {
            copy.onode.set_home(part, source.onode.home(part).clone());
        }
        for part in [Part::OmapHeader, Part::Attr, Part::Omap].into_iter().filter(|_| source.onode.has_keys())
        {
            copy.onode.note_key();
            let prefix = part_key(source.onode.number_of(part), part, &[]);
            let to = copy.onode.number_of(part);
            for (key, value) in self.with_prefix(&prefix)? {
                self.put_new(part_key(to, part, &key[prefix.len()..]), value);
            }
        }
        self.store(source);
        self.store(copy);
        Ok(())
    }

    fn clone_range(
        &mut self,
        ((id, from), from_offset): ((CollectionId, &GHObject), u64),
        ((to_id, to), to_offset): ((CollectionId, &GHObject), u64),
        len: u64,
    ) -> Attempt<()> {
        self.collection(id)?;
        self.collection(to_id)?;
        let mut source = self.existing(id, from)?;
        let there = source.onode.size.saturating_sub(from_offset).min(len);
        let mut target = self.find_or_make(to_id, to)?;
        // Whole blocks in the middle are shared where that is worth a count for each, the edges are copied.
        let (first, last) = (from_offset.div_ceil(BLOCK), (from_offset + there) / BLOCK);
        let aligned = from_offset % BLOCK == to_offset % BLOCK && source.key() != target.key();
        let mut shares = aligned && last >= first + SHARED_BLOCKS_MIN;
        // Compressed blocks keep their places within a chunk.
        let chunk_bytes = CHUNK_BLOCKS * BLOCK;
        if shares && from_offset % chunk_bytes != to_offset % chunk_bytes {
            shares = !self.has_blobs(&source.onode, &(first..last))?;
        }
        let shared = match shares {
            true => first * BLOCK..last * BLOCK,
            false => from_offset..from_offset,
        };
        for (start, end) in [(from_offset, shared.start), (shared.end, from_offset + there)] {
            if start < end {
                let data = self.read(&source, start, end - start)?;
                self.write(&mut target, to_offset + (start - from_offset), &data, None)?;
            }
        }
        if !shared.is_empty() {
            let to_first = (to_offset + (shared.start - from_offset)) / BLOCK;
            self.share_range(&mut source.onode, first..last, &mut target, to_first)?;
            target.onode.size = target.onode.size.max((to_first + last - first) * BLOCK);
        }
        self.zero(&mut target, to_offset + there, len - there)?;
        if !shared.is_empty() {
            self.store(source);
        }
        self.store(target);
        Ok(())
    }

    fn rename(
        &mut self,
        (id, from): (CollectionId, &GHObject),
        (to_id, to): (CollectionId, &GHObject),
    ) -> Attempt<()> {
        let target = self.key_of(to_id, to)?;
        if self.get(&target)?.is_some() {
            return Err(StoreError::ObjectExists(to_id, Box::new(to.clone())).into());
        }
        let found = self.existing(id, from)?;
        self.delete(found.key().clone())?;
        self.put_new(target, found.onode.encode());
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
                // Nothing is left up to the tail. What was removed there may still be passed one by one.
                let behind = |version| keys::joined(&log_key(id, version), &[0]);
                self.delete_range(&behind(tail), Some(&behind(*to)))?;
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
                let space = self.new_number();
                self.put_collection(id, &Collection { bits: *bits, space, ..Collection::default() })
            }
            CollectionChange::Remove => self.remove_collection(id),
            CollectionChange::Split { bits, rem, into } => {
                self.hand_over(id, *into, &hash_range(*bits, *rem))?;
                self.set_bits(id, *bits)?;
                self.set_bits(*into, *bits)
            }
            CollectionChange::Merge { into, bits } => {
                self.hand_over(id, *into, &(0..HASH_END))?;
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
        let collection = self.collection(id)?;
        let shape = self.shape(id, &collection)?;
        if self.next_object(shape.parts(), &[], None)?.is_some() {
            return Err(StoreError::CollectionNotEmpty(id).into());
        }
        let log = key(table::LOG, &keys::collection_key(id));
        self.delete_range(&log, keys::after_prefix(&log).as_deref())?;
        self.delete(collection_key(table::INFO, id))?;
        self.delete(collection_key(table::SHAPE, id))?;
        self.delete_collection(id)
    }

    /// Gives the objects with these reversed hashes from one collection to another.
    ///
    /// The two exchange their spaces, whatever the source has in its own: a split or a merge touches none of its objects.
    /// If the target has a few objects there (a PG's own), their records move first. If it has many, the source's move, one
    /// by one.
    fn hand_over(&mut self, from: CollectionId, into: CollectionId, hashes: &Range<u64>) -> Attempt<()> {
        let (source, target) = (self.collection(from)?, self.collection(into)?);
        let (mut source_shape, mut target_shape) = (self.shape(from, &source)?, self.shape(into, &target)?);
        let mut edges = vec![hashes.start, hashes.end];
        for (id, collection, shape) in [(from, &source, &source_shape), (into, &target, &target_shape)] {
            edges.extend(shape.parts().iter().map(|part| part.hashes.start));
            // A PG's objects have the PG's bits, so one's part of the hashes is the other's empty one.
            if let CollectionId::Pg(pg) = id {
                let own = hash_range(collection.bits.min(32), pg.pg.seed);
                edges.extend([own.start, own.end]);
            }
        }
        edges.retain(|edge| (hashes.start..=hashes.end).contains(edge));
        edges.sort_unstable();
        edges.dedup();
        // A range of hashes has objects of several pools: what comes first is known when all ranges were looked at.
        let mut twice: Option<GHObject> = None;
        for edge in edges.windows(2) {
            let range = edge[0]..edge[1];
            let (given, taken) = (part_at(&source_shape, &range), part_at(&target_shape, &range));
            if !self.has_more_than(&given, 0)? {
                continue;
            }
            let both = if self.has_more_than(&taken, FEW_OBJECTS)? {
                self.move_objects(&given, taken.space)?
            } else {
                source_shape.set(&range, taken.space);
                target_shape.set(&range, given.space);
                self.move_objects(&taken, given.space)?
            };
            twice = twice.into_iter().chain(both).min();
        }
        if let Some(first) = twice {
            return Err(StoreError::ObjectExists(into, Box::new(first)).into());
        }
        self.put_shape(from, &source_shape)?;
        self.put_shape(into, &target_shape)
    }

    fn has_more_than(&self, part: &HashPart, objects: usize) -> Attempt<bool> {
        let mut from = Key::new();
        for _ in 0..=objects {
            match self.next_object(std::slice::from_ref(part), &from, None)? {
                Some((key, ..)) => from = keys::joined(&key, &[0]),
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Moves objects' records to another space, up to the first that is there already, which it returns; what they lead
    /// to stays where it is.
    fn move_objects(&mut self, part: &HashPart, space: u64) -> Attempt<Option<GHObject>> {
        let mut from = Key::new();
        while let Some((key, _, value)) = self.next_object(std::slice::from_ref(part), &from, None)? {
            let old = keys::joined(&space_key(part.space), &key);
            let object = object_of(&old).ok_or_else(|| damaged("a key of an object"))?;
            let target = object_key(space, &object);
            if self.get(&target)?.is_some() {
                return Ok(Some(object));
            }
            self.delete_known(old, &value);
            self.put_new(target, value);
            from = key;
            from.push(0);
        }
        Ok(None)
    }
}

/// A collection's space for hashes that lie in one part of it.
fn part_at(shape: &Shape, hashes: &Range<u64>) -> HashPart {
    let space = shape.within(hashes).first().map_or(0, |part| part.space);
    HashPart { hashes: hashes.clone(), space }
}
