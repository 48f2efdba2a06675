//! Reads.

use encoding::Decode;
use store::{
    Advice, AttrChoice, Attrs, CollectionId, CollectionStat, LogPage, LogRecord, ObjectHead, ObjectPage,
    OmapPage, ReadOutcome, ReadRequest, StatFs, StoreError,
};
use types::{EVersion, GHObject, Name};

use crate::apply::after_log_key;
use crate::data::PageCache;
use crate::object::{Context, Found};
use crate::page::{Page, value_if};
use crate::records::{CollectionRecord, Onode, decode_log_record};
use crate::tables::{Attempt, Table, damaged};
use crate::worker::io_error;
use store::keys;

/// Bytes of the file system below that are left to metadata (redb's file grows there) and to other programs.
const KEPT_BELOW: u64 = 64 << 20;

/// Which keys of an omap, and how much of them.
struct KeyRange<'a> {
    after: Option<&'a Name>,
    before: Option<&'a Name>,
    prefix: &'a Name,
    values: bool,
}

/// Bytes that transactions may still bring, by what limits them.
struct Room {
    /// What the store's size leaves, beside the reserve.
    left: u64,
    /// Blocks that were given up stay with the image's file: they need nothing of the file system below.
    spare: u64,
    /// What any file can still get of the file system.
    free: u64,
}

impl Context<'_, '_> {
    pub fn read(&self, request: &ReadRequest) -> Attempt<ReadOutcome> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len, advice, verify } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Data(self.read_data(&found, *offset, *len, page_cache(*advice, *verify))?)
            }
            R::Extents { collection, object, offset, len } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Extents(self.extents(&found, *offset, *len)?)
            }
            R::Stat { collection, object } => {
                ReadOutcome::Stat(self.require(*collection, object)?.onode.stat())
            }
            R::Attr { collection, object, name } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Attr(self.attr(&found.onode, name)?.ok_or(StoreError::NoSuchAttr)?)
            }
            R::Attrs { collection, object } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Attrs(self.attrs(&found.onode, &AttrChoice::All, object)?)
            }
            R::Object { collection, object, attrs } => {
                let head = |Found { onode, .. }| -> Attempt<ObjectHead> {
                    Ok(ObjectHead { stat: onode.stat(), attrs: self.attrs(&onode, attrs, object)? })
                };
                ReadOutcome::Object(self.find(*collection, object)?.map(head).transpose()?)
            }
            R::OmapHeader { collection, object } => {
                ReadOutcome::OmapHeader(self.require(*collection, object)?.onode.omap_header)
            }
            R::OmapKeys { collection, object, keys } => {
                let nid = self.require(*collection, object)?.onode.nid;
                let mut entries = Vec::new();
                for key in keys {
                    let value = self.tables.get(Table::Omap, &keys::numbered_key(nid, key))?;
                    entries.extend(value.map(|v| (key.clone(), v.into())));
                }
                ReadOutcome::Omap(OmapPage { entries, more: false })
            }
            R::OmapRange { collection, object, after, before, prefix, entries_max, bytes_max, values } => {
                let nid = self.require(*collection, object)?.onode.nid;
                let (after, before) = (after.as_ref(), before.as_ref());
                let range = KeyRange { after, before, prefix, values: *values };
                ReadOutcome::Omap(self.omap_range(nid, &range, Page::new(*entries_max, *bytes_max))?)
            }
            R::List { collection, start, end, objects_max, attrs } => {
                ReadOutcome::Objects(self.list(*collection, start, end, *objects_max, attrs)?)
            }
            // What can't be read of its tables may be anything.
            R::ListReadable { collection, start, end, objects_max } => {
                ReadOutcome::Objects(self.list(*collection, start, end, *objects_max, &AttrChoice::None)?)
            }
            R::Collections => ReadOutcome::Collections(self.collections()?),
            R::Collection { collection } => ReadOutcome::Collection(self.collection_stat(*collection)?),
            R::Log { collection, after, records_max, bytes_max } => {
                ReadOutcome::Log(self.log(*collection, *after, Page::new(*records_max, *bytes_max))?)
            }
            R::StatFs => ReadOutcome::StatFs(self.statfs()?),
        })
    }

    fn omap_range(
        &self,
        nid: u64,
        range: &KeyRange<'_>,
        mut page: Page<(Name, buffer::Piece)>,
    ) -> Attempt<OmapPage> {
        let KeyRange { after, before, prefix, values } = *range;
        let start = match after {
            // The key right after `after`.
            Some(after) if after >= prefix => keys::numbered_key(nid, &[after, &[0][..]].concat()),
            _ => keys::numbered_key(nid, prefix),
        };
        let behind_prefix = keys::after_prefix(&keys::numbered_key(nid, prefix));
        let before = before.map(|before| keys::numbered_key(nid, before));
        let end = [behind_prefix, before].into_iter().flatten().min();
        let number_len = size_of_val(&nid);
        self.tables.scan(Table::Omap, &start, end.as_deref(), |key, value| {
            let name = &key[number_len..];
            let bytes = name.len() + if values { value.len() } else { 0 };
            Ok(page.push(bytes, || (Name::from(name), value_if(values, value))))
        })?;
        Ok(OmapPage { entries: page.entries, more: page.more })
    }

    fn list(
        &self,
        id: CollectionId,
        start: &GHObject,
        end: &GHObject,
        objects_max: usize,
        attrs: &AttrChoice,
    ) -> Attempt<ObjectPage> {
        let prefix = self.collection_key(id)?;
        let (from, to) = (keys::object_key(&prefix, start), keys::object_key(&prefix, end));
        let mut page = ObjectPage { objects: Vec::new(), next: end.clone(), gaps: Vec::new() };
        let mut visit = |key: &[u8], onode: Option<&[u8]>| {
            let object = keys::object_of(&key[prefix.len()..])
                .ok_or_else(|| damaged(format!("an object of collection {id} has a malformed key")))?;
            if page.objects.len() == objects_max {
                page.next = object;
                return Ok(false);
            }
            let attrs = match onode {
                Some(bytes) => {
                    let onode = Onode::from_bytes_exact(bytes)
                        .map_err(|e| damaged(format!("the record of object {object} in {id}: {e}")))?;
                    self.attrs(&onode, attrs, &object)?
                }
                None => Attrs::new(),
            };
            page.objects.push((object, attrs));
            Ok(true)
        };
        match attrs {
            AttrChoice::None => {
                self.tables.scan_keys(Table::Onodes, &from, Some(&to), |key| visit(key, None))?
            }
            AttrChoice::All | AttrChoice::These(_) => {
                self.tables.scan(Table::Onodes, &from, Some(&to), |key, onode| visit(key, Some(onode)))?;
            }
        }
        Ok(page)
    }

    fn collections(&self) -> Attempt<Vec<CollectionId>> {
        let mut all = Vec::new();
        self.tables.scan_keys(Table::Collections, &[], None, |key| {
            let id = keys::collection_of(key);
            all.push(id.ok_or_else(|| damaged(format!("a collection has the malformed key {key:02x?}")))?);
            Ok(true)
        })?;
        Ok(all)
    }

    fn collection_stat(&self, id: CollectionId) -> Attempt<Option<CollectionStat>> {
        let key = keys::collection_key(id);
        let Some(bytes) = self.tables.get(Table::Collections, &key)? else { return Ok(None) };
        let record = CollectionRecord::from_bytes_exact(&bytes);
        let record = record.map_err(|e| damaged(format!("the record of collection {id}: {e}")))?;
        let info = self.tables.get(Table::Infos, &key)?.unwrap_or_default();
        Ok(Some(CollectionStat { bits: record.bits, info: info.into(), rehoming: None }))
    }

    fn log(&self, id: CollectionId, after: EVersion, mut page: Page<LogRecord>) -> Attempt<LogPage> {
        let (prefix, ends) = self.collection(id)?;
        let end = keys::after_prefix(&prefix);
        self.tables.scan(Table::Log, &after_log_key(&prefix, after), end.as_deref(), |key, value| {
            let version = keys::log_version(&key[prefix.len()..])
                .ok_or_else(|| damaged(format!("a log record of {id} has a malformed key")))?;
            let (kind, bytes) = decode_log_record(value)
                .map_err(|e| damaged(format!("the log record {version} of {id}: {e}")))?;
            Ok(page.push(bytes.len(), || LogRecord { version, kind, bytes }))
        })?;
        Ok(LogPage { tail: ends.log_tail, head: ends.log_head, records: page.entries, more: page.more })
    }

    /// Bytes that transactions can still bring, beside the reserve: what the store's size leaves, data and metadata
    /// counted, but not more than the file system below has.
    pub fn bytes_available(&self) -> Attempt<u64> {
        let Room { left, spare, free } = self.room()?;
        Ok(left.min(spare + free))
    }

    fn room(&self) -> Attempt<Room> {
        let (data, metadata) = (self.space.data_bytes(), self.tables.metadata_bytes());
        let below = self.image.fs_space().map_err(|e| io_error("size of the image", self.image, None, &e))?;
        Ok(Room {
            left: self.space.bytes_total().saturating_sub(data + metadata + self.space.reserve_bytes()),
            spare: below.given.saturating_sub(data),
            free: below.free.saturating_sub(KEPT_BELOW),
        })
    }

    fn statfs(&self) -> Attempt<StatFs> {
        let (data_bytes, metadata_bytes) = (self.space.data_bytes(), self.tables.metadata_bytes());
        let Room { left, spare, free } = self.room()?;
        let report = self.space.report(data_bytes + metadata_bytes, left, spare, free);
        Ok(StatFs {
            bytes_total: report.total,
            bytes_used: data_bytes + metadata_bytes,
            bytes_available: report.available,
            data_bytes,
            metadata_bytes,
            metadata_factor: 1,
            objects: self.tables.len(Table::Onodes)?,
            has_uncounted_omaps: true,
            ..StatFs::default()
        })
    }
}

fn page_cache(advice: Advice, verify: bool) -> PageCache {
    if verify {
        PageCache::Bypass
    } else if advice.contains(Advice::DONTNEED) || advice.contains(Advice::NOCACHE) {
        PageCache::DropAfter
    } else {
        PageCache::Keep
    }
}
