//! Reads a collection as records.

use std::collections::VecDeque;

use blockfile::{Blocking, unexpected};
use buffer::Rope;
use store::{
    Advice, AttrChoice, Attrs, CollectionId, CollectionStat, LogPage, ObjectPage, ObjectStore, OmapPage,
    ReadOutcome, ReadRequest, StoreError,
};
use types::{EVersion, GHObject, Name};

use crate::Record;

/// Bytes of an object that are read at once: each multiple of it begins a record of data.
pub const WINDOW: u64 = 4 << 20;

/// Objects that are listed at once, with their attributes.
const LISTED: usize = 100;

/// Keys, and log records, of a record.
const ENTRIES: usize = 256;

/// The unit in which zeros are left out.
const BLOCK: usize = 4096;

/// Where a reader is.
enum At {
    Beginning,
    /// The next object of the list is this one or comes after it.
    Objects(GHObject),
    Log(EVersion),
    Ended,
}

/// The object that is being read.
struct Current {
    object: GHObject,
    size: u64,
    /// What may hold bytes, ascending.
    extents: VecDeque<(u64, u64)>,
    /// Where the next window begins, at the earliest.
    from: u64,
    header_read: bool,
    /// Where the omap goes on; `None` when it was read.
    omap_after: Option<Option<Name>>,
}

/// Yields the records of a collection. Nothing may be queued on it meanwhile.
pub struct Reader {
    collection: CollectionId,
    at: At,
    info: CollectionStat,
    log_head: EVersion,
    listed: VecDeque<(GHObject, Attrs)>,
    current: Option<Current>,
    /// Read already, in order.
    ready: VecDeque<Record>,
}

impl Reader {
    pub fn new(collection: CollectionId) -> Self {
        Self {
            collection,
            at: At::Beginning,
            info: CollectionStat::default(),
            log_head: EVersion::default(),
            listed: VecDeque::new(),
            current: None,
            ready: VecDeque::new(),
        }
    }

    /// The next record; `None` behind the last.
    ///
    /// # Errors
    /// The store's. A collection on its way between shards is one: only an OSD brings it to its end.
    pub fn next<S: ObjectStore>(&mut self, store: &mut Blocking<S>) -> Result<Option<Record>, StoreError> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Ok(Some(record));
            }
            if let Some(mut current) = self.current.take() {
                if self.advance(store, &mut current)? {
                    self.current = Some(current);
                }
                continue;
            }
            if let Some((object, attrs)) = self.listed.pop_front() {
                self.begin(store, object, attrs)?;
                continue;
            }
            match std::mem::replace(&mut self.at, At::Ended) {
                At::Beginning => self.begin_collection(store)?,
                At::Objects(start) => self.list(store, start)?,
                At::Log(after) => self.read_log(store, after)?,
                At::Ended => return Ok(None),
            }
        }
    }

    fn begin_collection<S: ObjectStore>(&mut self, store: &mut Blocking<S>) -> Result<(), StoreError> {
        let collection = self.collection;
        self.info = match store.read(ReadRequest::Collection { collection })? {
            ReadOutcome::Collection(Some(stat)) => stat,
            ReadOutcome::Collection(None) => return Err(StoreError::NoSuchCollection(collection)),
            other => return Err(unexpected(&other)),
        };
        if let Some(to) = self.info.rehoming {
            return Err(StoreError::Rehoming { collection, to });
        }
        let log = self.log_page(store, EVersion::default(), 0)?;
        self.log_head = log.head;
        self.ready.push_back(Record::Collection { collection, bits: self.info.bits, log_tail: log.tail });
        self.at = At::Objects(GHObject::min());
        Ok(())
    }

    fn list<S: ObjectStore>(&mut self, store: &mut Blocking<S>, start: GHObject) -> Result<(), StoreError> {
        let (collection, end, attrs) = (self.collection, GHObject::max(), AttrChoice::All);
        let list = ReadRequest::List { collection, start, end: end.clone(), objects_max: LISTED, attrs };
        let ObjectPage { objects, next, .. } = match store.read(list)? {
            ReadOutcome::Objects(page) => page,
            other => return Err(unexpected(&other)),
        };
        self.listed = objects.into();
        self.at = if next == end { At::Log(EVersion::default()) } else { At::Objects(next) };
        Ok(())
    }

    fn begin<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
        object: GHObject,
        attrs: Attrs,
    ) -> Result<(), StoreError> {
        let collection = self.collection;
        let stat = match store.read(ReadRequest::Stat { collection, object: object.clone() })? {
            ReadOutcome::Stat(stat) => stat,
            other => return Err(unexpected(&other)),
        };
        let extents = ReadRequest::Extents { collection, object: object.clone(), offset: 0, len: u64::MAX };
        let extents = match store.read(extents)? {
            ReadOutcome::Extents(extents) => extents.into(),
            other => return Err(unexpected(&other)),
        };
        self.current = Some(Current {
            object: object.clone(),
            size: stat.size,
            extents,
            from: 0,
            header_read: false,
            omap_after: Some(None),
        });
        self.ready.push_back(Record::Object { object, stat, attrs });
        Ok(())
    }

    /// Reads the next part of the object. `false`: there is none.
    fn advance<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
        current: &mut Current,
    ) -> Result<bool, StoreError> {
        let (collection, object) = (self.collection, current.object.clone());
        while current.extents.front().is_some_and(|(start, len)| start + len <= current.from) {
            current.extents.pop_front();
        }
        if let Some((start, _)) = current.extents.front() {
            let offset = (*start).max(current.from) / WINDOW * WINDOW;
            let len = WINDOW.min(current.size - offset);
            current.from = offset + WINDOW;
            let advice = Advice::NOCACHE;
            let read = ReadRequest::Data { collection, object, offset, len, advice, verify: true };
            match store.read(read)? {
                ReadOutcome::Data(data) => self.ready.extend(without_zeros(offset, &data)),
                other => return Err(unexpected(&other)),
            }
            return Ok(true);
        }
        if !current.header_read {
            current.header_read = true;
            match store.read(ReadRequest::OmapHeader { collection, object })? {
                ReadOutcome::OmapHeader(header) if header.is_empty() => {}
                ReadOutcome::OmapHeader(header) => self.ready.push_back(Record::OmapHeader(header)),
                other => return Err(unexpected(&other)),
            }
            return Ok(true);
        }
        let Some(after) = current.omap_after.take() else { return Ok(false) };
        let page = store.read(ReadRequest::OmapRange {
            collection,
            object,
            after,
            before: None,
            prefix: Name::new(),
            entries_max: ENTRIES,
            bytes_max: WINDOW as usize,
            values: true,
        })?;
        let ReadOutcome::Omap(OmapPage { entries, more }) = page else { return Err(unexpected(&page)) };
        current.omap_after = entries.last().filter(|_| more).map(|(key, _)| Some(key.clone()));
        if !entries.is_empty() {
            self.ready.push_back(Record::Omap(entries));
        }
        Ok(true)
    }

    fn read_log<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
        after: EVersion,
    ) -> Result<(), StoreError> {
        let LogPage { records, more, .. } = self.log_page(store, after, ENTRIES)?;
        let last = records.last().map(|record| record.version);
        if !records.is_empty() {
            self.ready.push_back(Record::Log(records));
        }
        match last.filter(|_| more) {
            Some(last) => self.at = At::Log(last),
            None => {
                let info = self.info.info.clone();
                self.ready.push_back(Record::End { log_head: self.log_head, info });
            }
        }
        Ok(())
    }

    fn log_page<S: ObjectStore>(
        &self,
        store: &mut Blocking<S>,
        after: EVersion,
        records_max: usize,
    ) -> Result<LogPage, StoreError> {
        let (collection, bytes_max) = (self.collection, WINDOW as usize);
        match store.read(ReadRequest::Log { collection, after, records_max, bytes_max })? {
            ReadOutcome::Log(page) => Ok(page),
            other => Err(unexpected(&other)),
        }
    }
}

/// The runs of blocks that are not all zero.
fn without_zeros(offset: u64, data: &Rope) -> Vec<Record> {
    let bytes = data.to_piece();
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for start in (0..bytes.len()).step_by(BLOCK) {
        let end = (start + BLOCK).min(bytes.len());
        if bytes[start..end].iter().all(|byte| *byte == 0) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == start => run.end = end,
            _ => runs.push(start..end),
        }
    }
    let record = |run: std::ops::Range<usize>| Record::Data {
        offset: offset + run.start as u64,
        data: bytes.slice(run).into(),
    };
    runs.into_iter().map(record).collect()
}
