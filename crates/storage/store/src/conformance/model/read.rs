//! What reads must yield.

use buffer::{Piece, Rope};
use types::{GHObject, Name};

use super::{Model, ModelObject};
use crate::{
    AttrChoice, CollectionId, CollectionStat, LogPage, ObjectHead, ObjectPage, ObjectStat, OmapPage,
    ReadOutcome, ReadRequest, StoreError,
};

impl Model {
    fn list(
        &self,
        collection: CollectionId,
        (start, end): (&GHObject, &GHObject),
        objects_max: usize,
        attrs: &AttrChoice,
    ) -> Result<ReadOutcome, StoreError> {
        let all = &self.collection(collection)?.objects;
        let mut rest = all.iter().filter(|(name, _)| *name >= start && *name < end);
        let page = rest.by_ref().take(objects_max);
        let objects = page.map(|(name, o)| (name.clone(), attrs.choose(&o.attrs))).collect();
        let next = rest.next().map_or_else(|| end.clone(), |(name, _)| name.clone());
        Ok(ReadOutcome::Objects(ObjectPage { objects, next, gaps: Vec::new() }))
    }

    /// What a read must yield. Not for [`ReadRequest::Extents`] and [`ReadRequest::StatFs`], where stores may differ.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadOutcome, StoreError> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len, .. } => {
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
            R::Object { collection, object, attrs } => {
                let found = self.collection(*collection)?.objects.get(object);
                let head = |o: &ModelObject| ObjectHead { stat: o.stat(), attrs: attrs.choose(&o.attrs) };
                ReadOutcome::Object(found.map(|o| head(o)))
            }
            R::OmapHeader { collection, object } => {
                ReadOutcome::OmapHeader(self.object(*collection, object)?.header.clone())
            }
            R::OmapKeys { collection, object, keys } => {
                let omap = &self.object(*collection, object)?.omap;
                let entries = omap.iter().filter(|(k, _)| keys.contains(k));
                let entries = entries.map(|(k, v)| (k.clone(), v.clone())).collect();
                ReadOutcome::Omap(OmapPage { entries, more: false })
            }
            R::OmapRange { collection, object, after, before, prefix, entries_max, bytes_max, values } => {
                let wanted = |k: &Name| {
                    k.starts_with(prefix)
                        && after.as_ref().is_none_or(|after| k > after)
                        && before.as_ref().is_none_or(|before| k < before)
                };
                let object = self.object(*collection, object)?;
                ReadOutcome::Omap(object.omap_page(wanted, *entries_max, *bytes_max, *values))
            }
            R::List { collection, start, end, objects_max, attrs } => {
                self.list(*collection, (start, end), *objects_max, attrs)?
            }
            R::ListReadable { collection, start, end, objects_max } => {
                self.list(*collection, (start, end), *objects_max, &AttrChoice::None)?
            }
            R::Collections => ReadOutcome::Collections(self.collections()),
            R::Collection { collection } => {
                ReadOutcome::Collection(self.get(*collection).map(|c| CollectionStat {
                    bits: c.bits,
                    info: c.info.clone(),
                    rehoming: c.rehoming,
                }))
            }
            R::Log { collection, after, records_max, bytes_max } => {
                let c = self.collection(*collection)?;
                let all: Vec<_> = c.log.values().filter(|r| r.version > *after).cloned().collect();
                let kept = limit(all.iter().map(|r| r.bytes.len()), *records_max, *bytes_max);
                let (tail, head, more) = (c.tail, c.head, kept < all.len());
                ReadOutcome::Log(LogPage { tail, head, records: all.into_iter().take(kept).collect(), more })
            }
            R::Extents { .. } | R::StatFs => panic!("stores may differ in {request:?}"),
        })
    }
}

impl ModelObject {
    fn stat(&self) -> ObjectStat {
        ObjectStat { size: self.data.len() as u64, hint: self.hint }
    }

    fn omap_page(
        &self,
        wanted: impl Fn(&Name) -> bool,
        entries_max: usize,
        bytes_max: usize,
        values: bool,
    ) -> OmapPage {
        let value = |v: &Piece| if values { v.clone() } else { Piece::empty() };
        let all: Vec<_> =
            self.omap.iter().filter(|(k, _)| wanted(k)).map(|(k, v)| (k.clone(), value(v))).collect();
        let kept = limit(all.iter().map(|(k, v)| k.len() + v.len()), entries_max, bytes_max);
        let more = kept < all.len();
        OmapPage { entries: all.into_iter().take(kept).collect(), more }
    }
}

/// How many of the sizes fit: the first always, if any is allowed.
fn limit(sizes: impl Iterator<Item = usize>, count_max: usize, bytes_max: usize) -> usize {
    let mut bytes = 0usize;
    let fits = sizes.enumerate().take_while(|(i, size)| {
        bytes = bytes.saturating_add(*size);
        *i < count_max && (*i == 0 || bytes <= bytes_max)
    });
    fits.count()
}
