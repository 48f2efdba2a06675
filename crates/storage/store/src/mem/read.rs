//! Reading.

use std::ops::Bound;

use types::{EVersion, GHObject, Name};

use super::object::Object;
use super::{Collection, MemStore};
use crate::{
    CollectionId, CollectionStat, LogPage, ObjectHead, ObjectPage, ObjectStat, OmapPage, ReadOutcome,
    ReadRequest, StatFs, StoreError,
};

impl MemStore {
    pub(super) fn perform(&self, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len } => {
                ReadOutcome::Data(self.object(*collection, object)?.data.read(*offset, *len))
            }
            R::Extents { collection, object, offset, len } => {
                ReadOutcome::Extents(self.object(*collection, object)?.data.extents(*offset, *len))
            }
            R::Stat { collection, object } => ReadOutcome::Stat(self.object(*collection, object)?.stat()),
            R::Attr { collection, object, name } => {
                let attr = self.object(*collection, object)?.attrs.get(name);
                ReadOutcome::Attr(attr.cloned().ok_or(StoreError::NoSuchAttr)?)
            }
            R::Attrs { collection, object } => {
                ReadOutcome::Attrs(self.object(*collection, object)?.attrs.clone())
            }
            R::Object { collection, object } => {
                let found = self.collection(*collection)?.objects.get(object);
                ReadOutcome::Object(found.map(|o| ObjectHead { stat: o.stat(), attrs: o.attrs.clone() }))
            }
            R::OmapHeader { collection, object } => {
                let header = self.object(*collection, object)?.omap_header.clone();
                ReadOutcome::OmapHeader(header.unwrap_or_else(buffer::Piece::empty))
            }
            R::OmapKeys { collection, object, keys } => {
                let omap = &self.object(*collection, object)?.omap;
                let found = keys.iter().filter_map(|k| Some((k.clone(), omap.get(k)?.clone())));
                ReadOutcome::Omap(OmapPage { entries: found.collect(), more: false })
            }
            R::OmapRange { collection, object, after, prefix, entries_max, bytes_max, values } => {
                let object = self.object(*collection, object)?;
                ReadOutcome::Omap(object.omap_range(
                    after.as_ref(),
                    prefix,
                    *entries_max,
                    *bytes_max,
                    *values,
                ))
            }
            R::List { collection, start, end, objects_max } => {
                ReadOutcome::Objects(self.collection(*collection)?.list(start, end, *objects_max))
            }
            R::Collections => ReadOutcome::Collections(self.collections.keys().copied().collect()),
            R::Collection { collection } => {
                let found = self.collections.get(collection);
                ReadOutcome::Collection(found.map(|c| CollectionStat { bits: c.bits }))
            }
            R::Log { collection, after, entries_max, bytes_max } => {
                ReadOutcome::Log(self.collection(*collection)?.log_range(*after, *entries_max, *bytes_max))
            }
            R::StatFs => ReadOutcome::StatFs(self.statfs()),
        })
    }

    fn object(&self, id: CollectionId, name: &GHObject) -> Result<&Object, StoreError> {
        let object = self.collection(id)?.objects.get(name);
        object.ok_or_else(|| StoreError::NoSuchObject(id, Box::new(name.clone())))
    }

    fn statfs(&self) -> StatFs {
        StatFs {
            bytes_total: self.bytes_total,
            bytes_used: self.bytes_used,
            bytes_available: self.bytes_total.saturating_sub(self.bytes_used),
            objects: self.collections.values().map(|c| c.objects.len() as u64).sum(),
        }
    }
}

impl Object {
    fn stat(&self) -> ObjectStat {
        ObjectStat { size: self.data.size(), hint: self.hint }
    }

    fn omap_range(
        &self,
        after: Option<&Name>,
        prefix: &Name,
        entries_max: usize,
        bytes_max: usize,
        values: bool,
    ) -> OmapPage {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut page = OmapPage::default();
        let mut bytes = 0;
        let matching = self.omap.range((start, Bound::Unbounded)).take_while(|(k, _)| k.starts_with(prefix));
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
    fn list(&self, start: &GHObject, end: &GHObject, objects_max: usize) -> ObjectPage {
        let mut objects = Vec::new();
        if start < end {
            let mut range = self.objects.range(start..end);
            for (object, _) in range.by_ref() {
                if objects.len() == objects_max {
                    return ObjectPage { objects, next: object.clone() };
                }
                objects.push(object.clone());
            }
        }
        ObjectPage { objects, next: end.clone() }
    }

    fn log_range(&self, after: EVersion, entries_max: usize, bytes_max: usize) -> LogPage {
        let log = &self.log;
        let mut page = LogPage { tail: log.tail, head: log.head, ..LogPage::default() };
        let mut bytes = 0;
        let from = log.entries.partition_point(|e| e.0 <= after);
        for (version, entry) in log.entries.range(from..) {
            bytes += entry.len();
            if page.entries.len() >= entries_max || (bytes > bytes_max && !page.entries.is_empty()) {
                page.more = true;
                break;
            }
            page.entries.push((*version, entry.clone()));
        }
        page
    }
}
