//! The plainest store: whole byte strings, whole copies before every transaction. What it says is right.

use std::collections::BTreeMap;

use buffer::{Piece, Rope};
use types::{EVersion, GHObject, Name};

use crate::{
    AllocHint, Attrs, CollectionId, CollectionStat, LogPage, OBJECT_BYTES_MAX, ObjectHead, ObjectPage,
    ObjectStat, OmapPage, ReadOutcome, ReadRequest, StoreError, Transaction, TxOp,
};

#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct ModelObject {
    pub data: Vec<u8>,
    attrs: Attrs,
    omap: BTreeMap<Name, Piece>,
    header: Piece0,
    hint: Option<AllocHint>,
}

/// A piece that defaults to the empty one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Piece0(Piece);
impl Default for Piece0 {
    fn default() -> Self {
        Self(Piece::empty())
    }
}

#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct ModelCollection {
    bits: u32,
    objects: BTreeMap<GHObject, ModelObject>,
    tail: EVersion,
    head: EVersion,
    log: BTreeMap<EVersion, Piece>,
}

/// What a store must hold after the transactions applied to this.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Model {
    collections: BTreeMap<CollectionId, ModelCollection>,
}

impl Model {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Applies a transaction, or says why it is to be refused.
    pub fn apply(&mut self, txn: &Transaction) -> Result<(), StoreError> {
        let mut next = self.clone();
        txn.ops.iter().try_for_each(|op| next.step(op))?;
        *self = next;
        Ok(())
    }

    /// Collections in order.
    pub fn collections(&self) -> Vec<CollectionId> {
        self.collections.keys().copied().collect()
    }

    /// Objects of a collection in order.
    pub fn objects(&self, id: CollectionId) -> Vec<GHObject> {
        self.collections.get(&id).map(|c| c.objects.keys().cloned().collect()).unwrap_or_default()
    }

    fn collection(&self, id: CollectionId) -> Result<&ModelCollection, StoreError> {
        self.collections.get(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    fn get_mut(&mut self, id: CollectionId) -> Result<&mut ModelCollection, StoreError> {
        self.collections.get_mut(&id).ok_or(StoreError::NoSuchCollection(id))
    }

    pub(super) fn object(&self, id: CollectionId, name: &GHObject) -> Result<&ModelObject, StoreError> {
        let object = self.collection(id)?.objects.get(name);
        object.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(name.clone())))
    }

    fn step(&mut self, op: &TxOp) -> Result<(), StoreError> {
        check(op)?;
        let id = op.collection();
        match op {
            TxOp::CreateCollection { bits, .. } => match self.collections.contains_key(&id) {
                true => return Err(StoreError::CollectionExists(id)),
                false => {
                    self.collections.insert(id, ModelCollection { bits: *bits, ..Default::default() });
                }
            },
            TxOp::RemoveCollection { .. } => match self.collection(id)?.objects.is_empty() {
                true => drop(self.collections.remove(&id)),
                false => return Err(StoreError::CollectionNotEmpty(id)),
            },
            TxOp::SplitCollection { bits, rem, into, .. } => self.split(id, *into, *bits, *rem)?,
            TxOp::MergeCollection { into, bits, .. } => {
                self.split(id, *into, 0, 0)?;
                self.get_mut(*into)?.bits = *bits;
                self.collections.remove(&id);
            }
            TxOp::LogAppend { version, entry, .. } => {
                let c = self.get_mut(id)?;
                if *version <= c.head {
                    return Err(StoreError::LogOrder { head: c.head, version: *version });
                }
                c.head = *version;
                c.log.insert(*version, entry.clone());
            }
            TxOp::LogTrim { to, .. } => {
                let c = self.get_mut(id)?;
                c.log.retain(|v, _| v > to);
                (c.tail, c.head) = (c.tail.max(*to), c.head.max(*to));
            }
            TxOp::LogRewind { to, .. } => {
                let c = self.get_mut(id)?;
                c.log.retain(|v, _| v <= to);
                (c.tail, c.head) = (c.tail.min(*to), c.head.min(*to));
            }
            TxOp::Clone { from, to, .. } => {
                let copy = self.object(id, from)?.clone();
                self.get_mut(id)?.objects.insert(to.clone(), copy);
            }
            TxOp::CloneRange { from, to, from_offset, len, to_offset, .. } => {
                let source = &self.object(id, from)?.data;
                let bytes = |i: u64| source.get((from_offset + i) as usize).copied().unwrap_or(0);
                let copy: Vec<u8> = (0..*len).map(bytes).collect();
                write(&mut self.get_mut(id)?.objects.entry(to.clone()).or_default().data, *to_offset, &copy);
            }
            TxOp::Rename { from, to_collection, to, .. } => {
                if self.collection(*to_collection)?.objects.contains_key(to) {
                    return Err(StoreError::ObjectExists(*to_collection, Box::new(to.clone())));
                }
                let object = self.object(id, from)?.clone();
                self.get_mut(id)?.objects.remove(from);
                self.get_mut(*to_collection)?.objects.insert(to.clone(), object);
            }
            op => self.object_step(op)?,
        }
        Ok(())
    }

    fn split(
        &mut self,
        from: CollectionId,
        into: CollectionId,
        bits: u32,
        rem: u32,
    ) -> Result<(), StoreError> {
        self.collection(from)?;
        self.collection(into)?;
        let mask = if bits == 0 { 0 } else { u32::MAX >> (32 - bits) };
        let all = self.collection(from)?.objects.clone();
        for (name, object) in all.into_iter().filter(|(o, _)| o.hobj.hash & mask == rem & mask) {
            if self.collection(into)?.objects.contains_key(&name) {
                return Err(StoreError::ObjectExists(into, Box::new(name)));
            }
            self.get_mut(from)?.objects.remove(&name);
            self.get_mut(into)?.objects.insert(name, object);
        }
        self.get_mut(from)?.bits = bits;
        self.get_mut(into)?.bits = bits;
        Ok(())
    }

    fn object_step(&mut self, op: &TxOp) -> Result<(), StoreError> {
        let objects = &mut self.get_mut(op.collection())?.objects;
        let Some(name) = op.object() else { return Ok(()) };
        let takes_away = matches!(
            op,
            TxOp::Remove { .. }
                | TxOp::RemoveAttr { .. }
                | TxOp::RemoveAttrs { .. }
                | TxOp::OmapRemove { .. }
                | TxOp::OmapRemoveRange { .. }
                | TxOp::OmapClear { .. }
        );
        if takes_away && !objects.contains_key(name) {
            return Ok(());
        }
        let object = objects.entry(name.clone()).or_default();
        match op {
            TxOp::Remove { .. } => drop(objects.remove(name)),
            TxOp::Write { offset, data, .. } => write(&mut object.data, *offset, &data.to_vec()),
            TxOp::Zero { offset, len, .. } => write(&mut object.data, *offset, &vec![0; *len as usize]),
            TxOp::Truncate { size, .. } => object.data.resize(*size as usize, 0),
            TxOp::SetAttrs { attrs, .. } => object.attrs.extend(attrs.clone()),
            TxOp::RemoveAttr { name, .. } => drop(object.attrs.remove(name)),
            TxOp::RemoveAttrs { .. } => object.attrs.clear(),
            TxOp::OmapSet { entries, .. } => object.omap.extend(entries.clone()),
            TxOp::OmapRemove { keys, .. } => object.omap.retain(|k, _| !keys.contains(k)),
            TxOp::OmapRemoveRange { first, last, .. } => object.omap.retain(|k, _| k < first || k >= last),
            TxOp::OmapSetHeader { header, .. } => object.header = Piece0(header.clone()),
            TxOp::OmapClear { .. } => {
                object.omap.clear();
                object.header = Piece0::default();
            }
            TxOp::SetAllocHint { hint, .. } => object.hint = Some(*hint),
            _ => {}
        }
        Ok(())
    }

    /// What a read must yield. Not for [`ReadRequest::Extents`] and [`ReadRequest::StatFs`], where stores may differ.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len } => {
                let data = &self.object(*collection, object)?.data;
                let end = (data.len() as u64).min(offset.saturating_add(*len));
                let range = if *offset < end { *offset as usize..end as usize } else { 0..0 };
                ReadOutcome::Data(Rope::copy_from(&data[range]))
            }
            R::Stat { collection, object } => ReadOutcome::Stat(self.object(*collection, object)?.stat()),
            R::Attr { collection, object, name } => {
                let value = self.object(*collection, object)?.attrs.get(name).cloned();
                ReadOutcome::Attr(value.ok_or(StoreError::NoSuchAttr)?)
            }
            R::Attrs { collection, object } => {
                ReadOutcome::Attrs(self.object(*collection, object)?.attrs.clone())
            }
            R::Object { collection, object } => {
                let found = self.collection(*collection)?.objects.get(object);
                ReadOutcome::Object(found.map(|o| ObjectHead { stat: o.stat(), attrs: o.attrs.clone() }))
            }
            R::OmapHeader { collection, object } => {
                ReadOutcome::OmapHeader(self.object(*collection, object)?.header.0.clone())
            }
            R::OmapKeys { collection, object, keys } => {
                let omap = &self.object(*collection, object)?.omap;
                let entries = omap.iter().filter(|(k, _)| keys.contains(k));
                let entries = entries.map(|(k, v)| (k.clone(), v.clone())).collect();
                ReadOutcome::Omap(OmapPage { entries, more: false })
            }
            R::OmapRange { collection, object, after, prefix, entries_max, bytes_max, values } => {
                let omap = &self.object(*collection, object)?.omap;
                let wanted = omap
                    .iter()
                    .filter(|(k, _)| k.starts_with(prefix) && after.as_ref().is_none_or(|after| *k > after));
                let value = |v: &Piece| if *values { v.clone() } else { Piece::empty() };
                let all: Vec<_> = wanted.map(|(k, v)| (k.clone(), value(v))).collect();
                let kept = limit(all.iter().map(|(k, v)| k.len() + v.len()), *entries_max, *bytes_max);
                let more = kept < all.len();
                ReadOutcome::Omap(OmapPage { entries: all.into_iter().take(kept).collect(), more })
            }
            R::List { collection, start, end, objects_max } => {
                let all = &self.collection(*collection)?.objects;
                let mut rest = all.keys().filter(|o| *o >= start && *o < end).cloned();
                let objects = rest.by_ref().take(*objects_max).collect();
                ReadOutcome::Objects(ObjectPage { objects, next: rest.next().unwrap_or_else(|| end.clone()) })
            }
            R::Collections => ReadOutcome::Collections(self.collections()),
            R::Collection { collection } => ReadOutcome::Collection(
                self.collections.get(collection).map(|c| CollectionStat { bits: c.bits }),
            ),
            R::Log { collection, after, entries_max, bytes_max } => {
                let c = self.collection(*collection)?;
                let all: Vec<_> =
                    c.log.iter().filter(|(v, _)| *v > after).map(|(v, e)| (*v, e.clone())).collect();
                let kept = limit(all.iter().map(|(_, e)| e.len()), *entries_max, *bytes_max);
                let (tail, head, more) = (c.tail, c.head, kept < all.len());
                ReadOutcome::Log(LogPage { tail, head, entries: all.into_iter().take(kept).collect(), more })
            }
            R::Extents { .. } | R::StatFs => panic!("stores may differ in {request:?}"),
        })
    }
}

impl ModelObject {
    fn stat(&self) -> ObjectStat {
        ObjectStat { size: self.data.len() as u64, hint: self.hint }
    }
}

/// How many of the sizes fit: the first always, if any is allowed.
fn limit(sizes: impl Iterator<Item = usize>, entries_max: usize, bytes_max: usize) -> usize {
    let mut bytes = 0;
    let fits = sizes.enumerate().take_while(|(i, size)| {
        bytes += size;
        *i < entries_max && (*i == 0 || bytes <= bytes_max)
    });
    fits.count()
}

fn write(data: &mut Vec<u8>, offset: u64, bytes: &[u8]) {
    if !bytes.is_empty() {
        super::model_write(data, offset, bytes);
    }
}

fn check(op: &TxOp) -> Result<(), StoreError> {
    let names = match op {
        TxOp::Clone { from, to, .. } | TxOp::CloneRange { from, to, .. } | TxOp::Rename { from, to, .. } => {
            vec![from, to]
        }
        op => op.object().into_iter().collect(),
    };
    if let Some(bad) = names.into_iter().find(|o| o.max || o.hobj.is_max() || o.hobj.is_min()) {
        return Err(StoreError::NotAnObject(Box::new(bad.clone())));
    }
    if let Some(end) = op.end().filter(|&end| end > OBJECT_BYTES_MAX) {
        return Err(StoreError::ObjectTooLarge { end, max: OBJECT_BYTES_MAX });
    }
    let from = op.collection();
    if let TxOp::SplitCollection { into, bits, .. } | TxOp::MergeCollection { into, bits, .. } = op {
        let into = *into;
        if from == into || from == CollectionId::Meta || into == CollectionId::Meta || *bits > 32 {
            return Err(StoreError::BadSplit { from, into, bits: *bits });
        }
    }
    Ok(())
}
