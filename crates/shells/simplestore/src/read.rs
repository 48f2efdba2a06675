//! Reads.

use buffer::Piece;
use encoding::Decode;
use store::{
    CollectionId, CollectionStat, LogPage, ObjectHead, ObjectPage, OmapPage, ReadOutcome, ReadRequest,
    StatFs, StoreError,
};
use types::{EVersion, GHObject, Name};

use crate::keys;
use crate::object::Context;
use crate::onode::{BLOCK, CollectionRecord};
use crate::tables::{Failure, In, Step};
use crate::worker::io_error;

/// Bytes of the file system below that are left to metadata (redb's file grows there) and to everybody else.
const KEPT_BELOW: u64 = 64 << 20;

impl Context<'_, '_> {
    pub fn read(&self, request: &ReadRequest) -> Step<ReadOutcome> {
        use ReadRequest as R;
        Ok(match request {
            R::Data { collection, object, offset, len } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Data(self.read_data(&found, *offset, *len)?)
            }
            R::Extents { collection, object, offset, len } => {
                let found = self.require(*collection, object)?;
                ReadOutcome::Extents(self.extents(&found, *offset, *len)?)
            }
            R::Stat { collection, object } => {
                ReadOutcome::Stat(self.require(*collection, object)?.onode.stat())
            }
            R::Attr { collection, object, name } => {
                let value = self.require(*collection, object)?.onode.attrs.remove(name);
                ReadOutcome::Attr(value.ok_or(StoreError::NoSuchAttr)?)
            }
            R::Attrs { collection, object } => {
                ReadOutcome::Attrs(self.require(*collection, object)?.onode.attrs)
            }
            R::Object { collection, object } => {
                let found = self.find(*collection, object)?.map(|f| f.onode);
                ReadOutcome::Object(found.map(|o| ObjectHead { stat: o.stat(), attrs: o.attrs }))
            }
            R::OmapHeader { collection, object } => {
                let header = self.require(*collection, object)?.onode.omap_header;
                ReadOutcome::OmapHeader(header.unwrap_or_default().into())
            }
            R::OmapKeys { collection, object, keys } => {
                let nid = self.require(*collection, object)?.onode.nid;
                let mut entries = Vec::new();
                for key in keys {
                    let value = self.tables.get(In::Omap, &keys::numbered_key(nid, key))?;
                    entries.extend(value.map(|v| (key.clone(), v.into())));
                }
                ReadOutcome::Omap(OmapPage { entries, more: false })
            }
            R::OmapRange { collection, object, after, prefix, entries_max, bytes_max, values } => {
                let nid = self.require(*collection, object)?.onode.nid;
                let mut page = Page::new(*entries_max, *bytes_max);
                self.omap_range(nid, after.as_ref(), prefix, *values, &mut page)?;
                ReadOutcome::Omap(OmapPage { entries: page.entries, more: page.more })
            }
            R::List { collection, start, end, objects_max } => {
                ReadOutcome::Objects(self.list(*collection, start, end, *objects_max)?)
            }
            R::Collections => ReadOutcome::Collections(self.collections()?),
            R::Collection { collection } => {
                let found = self.tables.get(In::Collections, &keys::collection_key(*collection))?;
                let record = found.map(|bytes| CollectionRecord::from_bytes(&bytes)).transpose()?;
                ReadOutcome::Collection(record.map(|r| CollectionStat { bits: r.bits }))
            }
            R::Log { collection, after, entries_max, bytes_max } => {
                ReadOutcome::Log(self.log(*collection, *after, Page::new(*entries_max, *bytes_max))?)
            }
            R::StatFs => ReadOutcome::StatFs(self.statfs()?),
        })
    }

    fn omap_range(
        &self,
        nid: u64,
        after: Option<&Name>,
        prefix: &Name,
        values: bool,
        page: &mut Page<Name>,
    ) -> Step<()> {
        let number = nid.to_be_bytes();
        let start = match after {
            // The key right after `after`.
            Some(after) if after >= prefix => keys::numbered_key(nid, &[after, &[0][..]].concat()),
            _ => keys::numbered_key(nid, prefix),
        };
        let end = keys::after_prefix(&keys::numbered_key(nid, prefix));
        self.tables.scan(In::Omap, &start, end.as_deref(), |key, value| {
            let name = Name::from(&key[number.len()..]);
            let value = if values { value } else { &[] };
            let bytes = name.len() + value.len();
            Ok(page.push(name, value, bytes))
        })
    }

    fn list(
        &self,
        id: CollectionId,
        start: &GHObject,
        end: &GHObject,
        objects_max: usize,
    ) -> Step<ObjectPage> {
        let (prefix, _) = self.collection(id)?;
        let (from, to) = (keys::object_key(&prefix, start), keys::object_key(&prefix, end));
        let mut page = ObjectPage { objects: Vec::new(), next: end.clone() };
        self.tables.scan(In::Onodes, &from, Some(&to), |key, _| {
            let object = keys::object_of(&key[prefix.len()..]).ok_or_else(|| damaged("an object's key"))?;
            if page.objects.len() == objects_max {
                page.next = object;
                return Ok(false);
            }
            page.objects.push(object);
            Ok(true)
        })?;
        Ok(page)
    }

    fn collections(&self) -> Step<Vec<CollectionId>> {
        let mut all = Vec::new();
        self.tables.scan(In::Collections, &[], None, |key, _| {
            all.push(keys::collection_of(key).ok_or_else(|| damaged("a collection's key"))?);
            Ok(true)
        })?;
        Ok(all)
    }

    fn log(&self, id: CollectionId, after: EVersion, mut page: Page<EVersion>) -> Step<LogPage> {
        let (prefix, record) = self.collection(id)?;
        let start = [&keys::log_key(&prefix, after)[..], &[0]].concat();
        self.tables.scan(In::Log, &start, keys::after_prefix(&prefix).as_deref(), |key, value| {
            let version =
                keys::log_version(&key[prefix.len()..]).ok_or_else(|| damaged("a log entry's key"))?;
            Ok(page.push(version, value, value.len()))
        })?;
        Ok(LogPage { tail: record.log_tail, head: record.log_head, entries: page.entries, more: page.more })
    }

    fn statfs(&self) -> Step<StatFs> {
        let space = &self.space;
        let bytes_used = space.used_blocks() * BLOCK;
        let room = self.image.fs_space().map_err(|e| io_error("size of the image", &e))?;
        // Blocks that were given up stay with the file: they need nothing of the file system below.
        let below = room.given.saturating_sub(bytes_used) + room.free.saturating_sub(KEPT_BELOW);
        Ok(StatFs {
            bytes_total: space.alloc.blocks() * BLOCK,
            bytes_used,
            bytes_available: (space.available_blocks() * BLOCK).min(below),
            objects: self.tables.len(In::Onodes)?,
        })
    }
}

fn damaged(what: &str) -> Failure {
    Failure::Fatal(StoreError::Damaged(format!("{what} can't be read")))
}

/// Entries until a limit.
struct Page<K> {
    entries: Vec<(K, Piece)>,
    more: bool,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
}

impl<K> Page<K> {
    fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { entries: Vec::new(), more: false, bytes: 0, entries_max, bytes_max }
    }

    /// Takes an entry; `false` when it didn't fit.
    fn push(&mut self, key: K, value: &[u8], bytes: usize) -> bool {
        self.bytes += bytes;
        self.more = self.entries.len() >= self.entries_max
            || (self.bytes > self.bytes_max && !self.entries.is_empty());
        if !self.more {
            self.entries.push((key, Piece::copy_from(value)));
        }
        !self.more
    }
}
