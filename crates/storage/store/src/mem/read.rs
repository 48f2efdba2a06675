//! Reading.

use std::ops::Bound;

use types::{EVersion, GHObject, Name};

use super::object::Object;
use super::{Collection, MemStore};
use crate::{
    AttrChoice, CollectionId, CollectionStat, LogPage, ObjectHead, ObjectPage, ObjectStat, OmapPage,
    ReadOutcome, ReadRequest, StatFs, StoreError,
};

impl MemStore {
    pub(super) fn perform(&self, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len, advice: _, verify: _ } => {
                ReadOutcome::Data(self.object(*collection, object)?.data.read(*offset, *len))
            }
            R::Extents { collection, object, offset, len } => {
                ReadOutcome::Extents(self.object(*collection, object)?.data.extents(*offset, *len))
            }
            R::Stat { collection, object } => ReadOutcome::Stat(self.object(*collection, object)?.stat()),
            R::Attr { collection, object, name } => {
                let attr = self.object(*collection, object)?.attrs().get(name);
                ReadOutcome::Attr(attr.cloned().ok_or(StoreError::NoSuchAttr)?)
            }
            R::Attrs { collection, object } => {
                ReadOutcome::Attrs(self.object(*collection, object)?.attrs().clone())
            }
            R::Object { collection, object, attrs } => {
                let found = self.collection(*collection)?.get(object);
                ReadOutcome::Object(
                    found.map(|o| ObjectHead { stat: o.stat(), attrs: attrs.choose(o.attrs()) }),
                )
            }
            R::OmapHeader { collection, object } => {
                ReadOutcome::OmapHeader(self.object(*collection, object)?.omap_header())
            }
            R::OmapKeys { collection, object, keys } => {
                let omap = self.object(*collection, object)?.omap();
                let found = keys.iter().filter_map(|k| Some((k.clone(), omap.get(k)?.clone())));
                ReadOutcome::Omap(OmapPage { entries: found.collect(), more: false })
            }
            R::OmapRange { collection, object, after, before, prefix, entries_max, bytes_max, values } => {
                let range = KeyRange { after: after.as_ref(), before: before.as_ref(), prefix };
                let object = self.object(*collection, object)?;
                ReadOutcome::Omap(object.omap_range(&range, *entries_max, *bytes_max, *values))
            }
            R::List { collection, start, end, objects_max, attrs } => {
                ReadOutcome::Objects(self.collection(*collection)?.list(start, end, *objects_max, attrs))
            }
            R::ListReadable { collection, start, end, objects_max } => {
                let found = self.collection(*collection)?;
                ReadOutcome::Objects(found.list(start, end, *objects_max, &AttrChoice::None))
            }
            R::Collections => ReadOutcome::Collections(self.collections.keys().copied().collect()),
            R::Collection { collection } => {
                let found = self.collections.get(collection);
                ReadOutcome::Collection(found.map(|c| CollectionStat {
                    bits: c.bits,
                    info: c.info.clone(),
                    rehoming: c.moved.as_ref().map(|m| m.to),
                }))
            }
            R::Log { collection, after, records_max, bytes_max } => {
                ReadOutcome::Log(self.collection(*collection)?.log_range(*after, *records_max, *bytes_max))
            }
            R::StatFs => ReadOutcome::StatFs(self.statfs()),
        })
    }

    fn object(&self, id: CollectionId, name: &GHObject) -> Result<&Object, StoreError> {
        let object = self.collection(id)?.get(name);
        object.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(name.clone())))
    }

    pub(super) fn bytes_available(&self) -> u64 {
        self.bytes_total.saturating_sub(self.usage.data + self.usage.metadata + self.reserve())
    }

    /// Bytes that are kept back, so that a full store still takes what makes room.
    pub(super) fn reserve(&self) -> u64 {
        (self.bytes_total / 64).min(4 << 20)
    }

    fn statfs(&self) -> StatFs {
        StatFs {
            bytes_total: self.bytes_total,
            bytes_used: self.usage.data + self.usage.metadata,
            bytes_available: self.bytes_available(),
            data_bytes: self.usage.data,
            metadata_bytes: self.usage.metadata,
            metadata_factor: 1,
            objects: self.collections.values().map(|c| c.objects_count()).sum(),
            has_uncounted_omaps: true,
            ..StatFs::default()
        }
    }
}

/// Which keys of an omap.
struct KeyRange<'a> {
    after: Option<&'a Name>,
    before: Option<&'a Name>,
    prefix: &'a Name,
}

impl Object {
    fn stat(&self) -> ObjectStat {
        ObjectStat { size: self.data.size(), hint: self.hint }
    }

    fn omap_range(
        &self,
        range: &KeyRange<'_>,
        entries_max: usize,
        bytes_max: usize,
        values: bool,
    ) -> OmapPage {
        let KeyRange { after, before, prefix } = range;
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(*after),
            _ => Bound::Included(*prefix),
        };
        let mut page = OmapPage::default();
        let mut bytes = 0;
        let wanted = |key: &Name| key.starts_with(prefix) && before.is_none_or(|before| key < before);
        let matching = self.omap().range((start, Bound::Unbounded)).take_while(|(k, _)| wanted(k));
        for (key, value) in matching {
            bytes += key.len() + if values { value.len() } else { 0 };
            if page.entries.len() >= entries_max || (bytes > bytes_max && !page.entries.is_empty()) {
                page.more = true;
                break;
            }
            let value = if values { value.clone() } else { buffer::Piece::empty() };
            page.entries.push((key.clone(), value));
        }
        page
    }
}

impl Collection {
    fn objects_count(&self) -> u64 {
        let moved = self.moved.as_ref().map_or(0, |m| m.objects.len());
        (moved + self.objects.len()) as u64
    }

    fn get(&self, name: &GHObject) -> Option<&Object> {
        self.objects.get(name).or_else(|| self.moved.as_ref()?.objects.get(name))
    }

    fn list(&self, start: &GHObject, end: &GHObject, objects_max: usize, attrs: &AttrChoice) -> ObjectPage {
        let mut objects = Vec::new();
        if start < end {
            let moved = self.moved.iter().flat_map(|m| m.objects.range(start..end));
            for (name, object) in moved.chain(self.objects.range(start..end)) {
                if objects.len() == objects_max {
                    return ObjectPage { objects, next: name.clone(), gaps: Vec::new() };
                }
                objects.push((name.clone(), attrs.choose(object.attrs())));
            }
        }
        ObjectPage { objects, next: end.clone(), gaps: Vec::new() }
    }

    fn log_range(&self, after: EVersion, records_max: usize, bytes_max: usize) -> LogPage {
        let log = &self.log;
        let mut page = LogPage { tail: log.tail, head: log.head, ..LogPage::default() };
        let mut bytes = 0;
        let from = log.records.partition_point(|r| r.version <= after);
        for record in log.records.range(from..) {
            bytes += record.bytes.len();
            if page.records.len() >= records_max || (bytes > bytes_max && !page.records.is_empty()) {
                page.more = true;
                break;
            }
            page.records.push(record.clone());
        }
        page
    }
}
