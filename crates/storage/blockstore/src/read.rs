//! Reads.

use buffer::{Piece, Rope};
use store::{
    Advice, AttrChoice, Attrs, CollectionId, CollectionStat, LogPage, ObjectHead, ObjectPage, ObjectStat,
    OmapPage, ReadOutcome, ReadRequest, StoreError, keys,
};
use types::{EVersion, GHObject, Name};

use crate::codec::Codec;
use crate::context::{Context, bad_blob};
use crate::data::assemble;
use crate::extents::{Extents, pieces};
use crate::find::Found;
use crate::layout::BLOCK;
use crate::mapped::{Mapped, unpacked};
use crate::onode::Onode;
use crate::records::{
    Part, collection_key, decode_log_record, key, log_key, log_version, name_of, part_key, table,
};
use crate::stop::{Attempt, Missing, Stop, damaged};

/// A read of a log allocates room for this many records when it begins, at most.
const LOG_RECORDS_AT_ONCE: usize = 512;

/// What a read comes to in memory.
pub enum Answer {
    Done(ReadOutcome),
    /// The store's space, which the caller counts.
    StatFs,
    /// Bytes of which some have to be read from the device.
    Data(DataRead),
}

/// A read of data, with what is in memory of it.
#[derive(Debug)]
pub struct DataRead {
    pub collection: CollectionId,
    pub object: GHObject,
    pub offset: u64,
    pub len: u64,
    pub mapped: Mapped,
    /// Of all that is mapped.
    pub extents: Extents,
    /// Whether what is read is kept in memory.
    pub keep: bool,
}

impl DataRead {
    /// The first block of the shard of one of its extents.
    pub fn first_block(&self, at: usize) -> u64 {
        self.mapped.slots[self.extents[at].slots.start].1.block
    }

    /// The bytes, once every extent has its.
    ///
    /// # Errors
    /// Compressed ones can't be decompressed.
    pub fn finish(&self, codec: &Codec) -> Result<ReadOutcome, StoreError> {
        let Mapped { slots, blobs } = &self.mapped;
        if blobs.is_empty() {
            let runs = pieces(&self.extents, slots, true);
            return Ok(ReadOutcome::Data(assemble(self.offset, self.len, runs)));
        }
        let blocks = pieces(&self.extents, slots, false).collect();
        let bad = |blob| bad_blob(self.collection, &self.object, blob);
        let contents = unpacked(blobs, blocks, codec).map_err(bad)?;
        Ok(ReadOutcome::Data(assemble(self.offset, self.len, contents.into_iter())))
    }
}

impl Context<'_> {
    /// # Errors
    /// The read fails, or a page has to be read first.
    pub fn perform(&self, request: &ReadRequest) -> Attempt<Answer> {
        use ReadRequest as R;
        let outcome = match request {
            R::Data { collection, object, offset, len, advice, verify } => {
                let once = advice.contains(Advice::DONTNEED) || advice.contains(Advice::NOCACHE);
                let found = self.target(*collection, object)?;
                return self.data(found, *offset, *len, (*verify, !once && !verify));
            }
            R::Extents { collection, object, offset, len } => {
                ReadOutcome::Extents(self.extents(&self.target(*collection, object)?, *offset, *len)?)
            }
            R::Stat { collection, object } => ReadOutcome::Stat(stat(&self.target(*collection, object)?)),
            R::Attr { collection, object, name } => {
                let found = self.target(*collection, object)?;
                let value = self.attr(&found.onode, name)?;
                ReadOutcome::Attr(value.ok_or(Stop::Error(StoreError::NoSuchAttr))?)
            }
            R::Attrs { collection, object } => {
                ReadOutcome::Attrs(self.attrs(&self.target(*collection, object)?.onode, &AttrChoice::All)?)
            }
            R::Object { collection, object, attrs } => {
                ReadOutcome::Object(match self.find(*collection, object)? {
                    Some(found) => {
                        Some(ObjectHead { attrs: self.attrs(&found.onode, attrs)?, stat: stat(&found) })
                    }
                    None => None,
                })
            }
            R::OmapHeader { collection, object } => {
                let found = self.target(*collection, object)?;
                let key = part_key(found.onode.omap, Part::OmapHeader, &[]);
                let header = self.get_keyed(&found.onode, &key)?;
                ReadOutcome::OmapHeader(header.unwrap_or_default())
            }
            R::OmapKeys { collection, object, keys } => {
                let found = self.target(*collection, object)?;
                ReadOutcome::Omap(self.omap_keys(&found, keys.iter())?)
            }
            R::OmapRange { .. } => ReadOutcome::Omap(self.omap_range(request)?),
            R::List { collection, start, end, objects_max, attrs } => {
                ReadOutcome::Objects(self.list(*collection, (start, end), *objects_max, attrs)?)
            }
            R::ListReadable { collection, start, end, objects_max } => {
                ReadOutcome::Objects(self.list_readable(*collection, (start, end), *objects_max)?)
            }
            R::Collections => ReadOutcome::Collections(self.collections()?),
            R::Collection { collection } => ReadOutcome::Collection(self.collection_stat(*collection)?),
            R::Log { collection, after, records_max, bytes_max } => {
                ReadOutcome::Log(self.log(*collection, *after, *records_max, *bytes_max)?)
            }
            R::StatFs => return Ok(Answer::StatFs),
        };
        Ok(Answer::Done(outcome))
    }

    fn target(&self, collection: CollectionId, object: &GHObject) -> Attempt<Found> {
        self.existing(collection, object)
    }

    fn data(&self, found: Found, offset: u64, len: u64, (verify, keep): (bool, bool)) -> Attempt<Answer> {
        let end = offset.saturating_add(len).min(found.onode.size);
        if offset >= end {
            return Ok(Answer::Done(ReadOutcome::Data(Rope::new())));
        }
        let mapped = self.mapped(&found.onode, offset / BLOCK, end.div_ceil(BLOCK))?;
        let extents = self.extents_of(&found, &mapped.slots, verify)?;
        let Found { collection, object, .. } = found;
        let read = DataRead { collection, object, offset, len: end - offset, mapped, extents, keep };
        Ok(match read.extents.iter().all(|extent| extent.bytes.is_some()) {
            true => Answer::Done(read.finish(&self.packer.codec)?),
            false => Answer::Data(read),
        })
    }

    fn extents(&self, found: &Found, offset: u64, len: u64) -> Attempt<Vec<(u64, u64)>> {
        let end = offset.saturating_add(len).min(found.onode.size);
        let mut out: Vec<(u64, u64)> = Vec::new();
        if offset >= end {
            return Ok(out);
        }
        for number in self.mapped(&found.onode, offset / BLOCK, end.div_ceil(BLOCK))?.numbers() {
            let (from, to) = ((number * BLOCK).max(offset), ((number + 1) * BLOCK).min(end));
            match out.last_mut() {
                Some((at, len)) if *at + *len == from => *len += to - from,
                _ => out.push((from, to - from)),
            }
        }
        Ok(out)
    }

    fn omap_keys<'a>(&self, found: &Found, keys: impl Iterator<Item = &'a Name>) -> Attempt<OmapPage> {
        let (mut page, mut missing) = (OmapPage::default(), Missing::default());
        for key in keys.filter(|_| found.onode.has_keys()) {
            let value = missing.note(self.get(&part_key(found.onode.omap, Part::Omap, key)))?;
            page.entries.extend(value.flatten().map(|value| (key.clone(), value)));
        }
        missing.none()?;
        Ok(page)
    }

    fn omap_range(&self, request: &ReadRequest) -> Attempt<OmapPage> {
        let ReadRequest::OmapRange {
            collection,
            object,
            after,
            before,
            prefix,
            entries_max,
            bytes_max,
            values,
        } = request
        else {
            return Err(damaged("another request than a range of an omap"));
        };
        let onode = self.target(*collection, object)?.onode;
        if !onode.has_keys() {
            return Ok(OmapPage::default());
        }
        let number = onode.omap;
        let mut from = part_key(number, Part::Omap, prefix);
        let mut end = keys::after_prefix(&from);
        if let Some(after) = after.as_ref().filter(|after| *after >= prefix) {
            from = part_key(number, Part::Omap, after);
            from.push(0);
        }
        if let Some(before) = before.as_ref().map(|before| part_key(number, Part::Omap, before)) {
            end = Some(end.map_or(before.clone(), |end| end.min(before)));
        }
        let (mut page, mut bytes) = (OmapPage::default(), 0);
        let mut merged = self.merged(&from, end.as_deref())?;
        while let Some((key, value)) = merged.next()? {
            let name = name_of(&key);
            bytes += name.len() + if *values { value.len() } else { 0 };
            if page.entries.len() >= *entries_max || (bytes > *bytes_max && !page.entries.is_empty()) {
                page.more = true;
                break;
            }
            page.entries.push((name, if *values { value } else { Piece::empty() }));
        }
        Ok(page)
    }

    /// The same behind what can't be read, too.
    fn list_readable(
        &self,
        id: CollectionId,
        range: (&GHObject, &GHObject),
        objects_max: usize,
    ) -> Attempt<ObjectPage> {
        self.passed.replace(Some(Vec::new()));
        let page = self.list(id, range, objects_max, &AttrChoice::None);
        let gaps = self.passed.take().unwrap_or_default();
        Ok(ObjectPage { gaps, ..page? })
    }

    fn list(
        &self,
        id: CollectionId,
        (start, end): (&GHObject, &GHObject),
        objects_max: usize,
        attrs: &AttrChoice,
    ) -> Attempt<ObjectPage> {
        let collection = self.collection(id)?;
        let shape = self.shape(id, &collection)?;
        let mut page = ObjectPage { objects: Vec::new(), next: end.clone(), gaps: Vec::new() };
        // What the objects so far lack is read together.
        let mut missing = Vec::new();
        let (mut from, stop) = (keys::object_key(&[], start), keys::object_key(&[], end));
        if start >= end {
            return Ok(page);
        }
        loop {
            let found = match self.next_object(shape.parts(), &from, Some(&stop)) {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(Stop::Pages(pages)) => {
                    missing.extend(pages);
                    break;
                }
                Err(other) => return Err(other),
            };
            let (key, _, value) = found;
            let object = keys::object_of(&key).ok_or_else(|| damaged("a key of an object"))?;
            if page.objects.len() == objects_max {
                page.next = object;
                break;
            }
            let onode = Onode::decode(&value).map_err(damaged)?;
            match self.attrs(&onode, attrs) {
                Ok(chosen) => page.objects.push((object, chosen)),
                Err(Stop::Pages(pages)) => {
                    missing.extend(pages);
                    page.objects.push((object, Attrs::new()));
                }
                Err(other) => return Err(other),
            }
            from = key;
            from.push(0);
        }
        match missing.is_empty() {
            true => Ok(page),
            false => Err(Stop::Pages(missing)),
        }
    }

    fn collections(&self) -> Attempt<Vec<CollectionId>> {
        let all = self.with_prefix(&[table::COLLECTION])?;
        let id = |key: &[u8]| keys::collection_of(&key[1..]).ok_or_else(|| damaged("a key of a collection"));
        all.iter().map(|(key, _)| id(key)).collect()
    }

    fn collection_stat(&self, id: CollectionId) -> Attempt<Option<CollectionStat>> {
        let Some(collection) = self.find_collection(id)? else { return Ok(None) };
        let info = self.get(&collection_key(table::INFO, id))?.unwrap_or_default();
        Ok(Some(CollectionStat { bits: collection.bits, info, rehoming: None }))
    }

    fn log(
        &self,
        id: CollectionId,
        after: EVersion,
        records_max: usize,
        bytes_max: usize,
    ) -> Attempt<LogPage> {
        let collection = self.collection(id)?;
        let all = key(table::LOG, &keys::collection_key(id));
        let end = keys::after_prefix(&all);
        let mut from = log_key(id, after);
        from.push(0);
        let records = Vec::with_capacity(records_max.min(LOG_RECORDS_AT_ONCE));
        let (tail, head) = (collection.log_tail, collection.log_head);
        let mut page = LogPage { tail, head, records, more: false };
        let mut bytes = 0;
        let mut merged = self.merged(&from, end.as_deref())?;
        while let Some((key, value)) = merged.next()? {
            let version = log_version(id, &key).ok_or_else(|| damaged("a key of a log record"))?;
            let record = decode_log_record(version, &value).map_err(damaged)?;
            bytes += record.bytes.len();
            if page.records.len() >= records_max || (bytes > bytes_max && !page.records.is_empty()) {
                page.more = true;
                break;
            }
            page.records.push(record);
        }
        Ok(page)
    }
}

fn stat(found: &Found) -> ObjectStat {
    ObjectStat { size: found.onode.size, hint: found.onode.hint }
}
