//! Moving a collection from one shard to another, or back, in steps.
//!
//! An object is written where it goes to before it is removed where it was, so after a crash both shards may have it, alike.
//! Where the collection comes from shows in a *mark*, an object in a collection of the shard that it goes to: written with
//! the first objects, changed when all is there, and removed when the other shard has nothing of it any more.

use buffer::Piece;
use encoding::{Decode, Encode};
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId};

use crate::{
    Advice, AttrChoice, Attrs, CollectionId, LogRecord, LogRecordKind, ObjectChange, ReadOutcome,
    ReadRequest, Rehoming, StoreError, StoreShard, Transaction,
};

/// The collection of a shard's marks: there while there are any. No pool has its number.
pub const MARKS: CollectionId = CollectionId::Pg(types::SpgId {
    pg: PgId { pool: PoolId(i64::MIN), seed: 0 },
    shard: types::ShardId::NONE,
});

/// Bytes of objects that are copied together, and the longest pages of omaps and logs.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_ENTRIES: usize = 10_000;

/// Between which shards a collection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    pub from: StoreShard,
    pub to: StoreShard,
}

/// What a mark says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    pub id: CollectionId,
    pub from: StoreShard,
    /// All is there.
    pub arrived: bool,
}

impl Mark {
    fn object(id: CollectionId) -> GHObject {
        let name = Name::from(id.to_bytes(0));
        HObject::head(PoolId(i64::MIN), Name::new(), Name::new(), name, 0).into()
    }

    fn put(self, txn: &mut Transaction) {
        let mut value = vec![u8::from(self.arrived)];
        value.extend(self.from.0.to_le_bytes());
        txn.set_attr(MARKS, &Self::object(self.id), "from", value);
    }

    /// Reads a mark as it is listed.
    pub fn of(object: &GHObject, attrs: &Attrs) -> Result<Self, StoreError> {
        let damaged =
            || StoreError::Damaged("a mark of a collection between two shards can't be read".into());
        let id = CollectionId::from_bytes_exact(object.hobj.name.as_bytes()).map_err(|_| damaged())?;
        let value: [u8; 5] =
            attrs.get(&Name::from("from")).and_then(|v| v.as_slice().try_into().ok()).ok_or_else(damaged)?;
        let [arrived, a, b, c, d] = value;
        Ok(Self { id, from: StoreShard(u32::from_le_bytes([a, b, c, d])), arrived: arrived != 0 })
    }

    /// Removes the mark of a collection, the last one with what they are in.
    pub fn remove(id: CollectionId, is_last: bool, txn: &mut Transaction) {
        txn.remove(MARKS, &Self::object(id));
        if is_last {
            txn.remove_collection(MARKS);
        }
    }
}

/// What a step wants next.
pub enum Next {
    Read(StoreShard, ReadRequest),
    Commit(StoreShard, Transaction),
    Done(Result<Rehoming, StoreError>),
}

/// What the answer that is waited for is of.
enum Stage {
    Stat,
    List,
    Head,
    Extents,
    Data(u64),
    OmapHeader,
    Omap,
    Copied,
    Removed,
    Log,
    Arrived,
    Emptied,
    Ended,
}

/// One step. What it asks for is answered before it asks for more.
pub struct MovingStep {
    pub id: CollectionId,
    pub way: Way,
    /// It moves to where the collection comes from.
    pub back: bool,
    /// The mark is there.
    pub marked: bool,
    /// Marks of other collections where it goes to.
    other_marks: bool,
    objects_max: usize,
    stage: Stage,
    /// Something of this step is durable.
    moved: bool,
    bits: u32,
    info: Piece,
    /// Objects that are left, the next one last.
    objects: Vec<GHObject>,
    /// None follow those.
    is_last: bool,
    txn: Transaction,
    /// The objects in it.
    copied: Vec<GHObject>,
    extents: Vec<(u64, u64)>,
    log: (EVersion, EVersion, Vec<LogRecord>),
}

impl MovingStep {
    pub fn new(
        id: CollectionId,
        way: Way,
        back: bool,
        (marked, other_marks): (bool, bool),
        max: usize,
    ) -> Self {
        Self {
            id,
            way,
            back,
            marked,
            other_marks,
            objects_max: max,
            stage: Stage::Stat,
            moved: false,
            bits: 0,
            info: Piece::empty(),
            objects: Vec::new(),
            is_last: false,
            txn: Transaction::new(),
            copied: Vec::new(),
            extents: Vec::new(),
            log: (EVersion::default(), EVersion::default(), Vec::new()),
        }
    }

    fn source(&self) -> StoreShard {
        if self.back { self.way.to } else { self.way.from }
    }

    fn target(&self) -> StoreShard {
        if self.back { self.way.from } else { self.way.to }
    }

    pub fn begin(&self) -> Next {
        Next::Read(self.way.from, ReadRequest::Collection { collection: self.id })
    }

    /// What failed has no effect; what the step did before it stays, and is a step of its own.
    pub fn failed(&self, error: StoreError) -> Next {
        Next::Done(if self.moved { Ok(Rehoming::Continues) } else { Err(error) })
    }

    fn read(&mut self, stage: Stage, request: ReadRequest) -> Next {
        self.stage = stage;
        Next::Read(self.source(), request)
    }

    fn commit(&mut self, stage: Stage, shard: StoreShard, txn: Transaction) -> Next {
        self.stage = stage;
        Next::Commit(shard, txn)
    }

    /// Takes the answer to a read.
    pub fn on_read(&mut self, outcome: ReadOutcome) -> Next {
        let (collection, object) = (self.id, self.copied.last().cloned());
        match (&self.stage, outcome, object) {
            (Stage::Stat, ReadOutcome::Collection(Some(stat)), _) => {
                (self.bits, self.info) = (stat.bits, stat.info);
                let (start, end) = (GHObject::min(), GHObject::max());
                let (objects_max, attrs) = (self.objects_max, AttrChoice::None);
                self.read(Stage::List, ReadRequest::List { collection, start, end, objects_max, attrs })
            }
            (Stage::List, ReadOutcome::Objects(page), _) => {
                self.is_last = page.next == GHObject::max();
                self.objects = page.objects.into_iter().map(|(object, _)| object).rev().collect();
                self.next_object()
            }
            (Stage::Head, ReadOutcome::Object(Some(head)), Some(object)) => {
                // A crash may have left it there.
                self.txn.remove(collection, &object).truncate(collection, &object, head.stat.size);
                if let Some(hint) = head.stat.hint {
                    self.txn.change(collection, &object, ObjectChange::SetAllocHint(hint));
                }
                if !head.attrs.is_empty() {
                    self.txn.set_attrs(collection, &object, head.attrs);
                }
                let (offset, len) = (0, head.stat.size);
                self.read(Stage::Extents, ReadRequest::Extents { collection, object, offset, len })
            }
            (Stage::Extents, ReadOutcome::Extents(extents), Some(object)) => {
                self.extents = extents;
                self.next_extent(object)
            }
            (Stage::Data(offset), ReadOutcome::Data(data), Some(object)) => {
                self.txn.write(collection, &object, *offset, data);
                self.next_extent(object)
            }
            (Stage::OmapHeader, ReadOutcome::OmapHeader(header), Some(object)) => {
                if !header.is_empty() {
                    self.txn.change(collection, &object, ObjectChange::OmapSetHeader(header));
                }
                self.read(Stage::Omap, omap_after(collection, object, None))
            }
            (Stage::Omap, ReadOutcome::Omap(page), Some(object)) => {
                let more = page.entries.last().filter(|_| page.more).map(|(key, _)| key.clone());
                if !page.entries.is_empty() {
                    self.txn.omap_set(collection, &object, page.entries);
                }
                match more {
                    Some(after) => self.read(Stage::Omap, omap_after(collection, object, Some(after))),
                    None => self.next_object(),
                }
            }
            (Stage::Log, ReadOutcome::Log(page), _) => {
                (self.log.0, self.log.1) = (page.tail, page.head);
                self.log.2.extend(page.records);
                match self.log.2.last().filter(|_| page.more).map(|record| record.version) {
                    Some(after) => self.read_log(after),
                    None => self.arrive(),
                }
            }
            (_, outcome, _) => self.failed(StoreError::Damaged(format!(
                "a read of what is moved to another shard gives {outcome:?}"
            ))),
        }
    }

    /// What it had committed is durable.
    pub fn on_commit(&mut self) -> Next {
        self.moved = true;
        let id = self.id;
        match self.stage {
            Stage::Copied => {
                self.marked = true;
                let mut txn = Transaction::new();
                for object in self.copied.drain(..) {
                    txn.remove(id, &object);
                }
                self.commit(Stage::Removed, self.source(), txn)
            }
            Stage::Removed => self.next_object(),
            Stage::Arrived => {
                let mut txn = Transaction::new();
                txn.remove_collection(id);
                self.commit(Stage::Emptied, self.way.from, txn)
            }
            Stage::Emptied => {
                let mut txn = Transaction::new();
                Mark::remove(id, !self.other_marks, &mut txn);
                self.commit(Stage::Ended, self.way.to, txn)
            }
            _ => Next::Done(Ok(Rehoming::Done)),
        }
    }

    /// The next object of the step, or its end.
    fn next_object(&mut self) -> Next {
        let is_full = self.txn.payload_bytes() >= BATCH_BYTES as u64;
        if let Some(object) = if is_full { None } else { self.objects.pop() } {
            self.copied.push(object.clone());
            let (collection, attrs) = (self.id, AttrChoice::All);
            return self.read(Stage::Head, ReadRequest::Object { collection, object, attrs });
        }
        if !self.copied.is_empty() || !self.marked {
            return self.put_copies();
        }
        if !self.is_last {
            return Next::Done(Ok(Rehoming::Continues));
        }
        if !self.back {
            return self.read_log(EVersion::default());
        }
        let mut txn = Transaction::new();
        txn.remove_collection(self.id);
        Mark::remove(self.id, !self.other_marks, &mut txn);
        self.commit(Stage::Ended, self.way.to, txn)
    }

    fn next_extent(&mut self, object: GHObject) -> Next {
        let (collection, advice) = (self.id, Advice::default());
        match self.extents.pop() {
            Some((offset, len)) => {
                let read = ReadRequest::Data { collection, object, offset, len, advice, verify: false };
                self.read(Stage::Data(offset), read)
            }
            None => self.read(Stage::OmapHeader, ReadRequest::OmapHeader { collection, object }),
        }
    }

    fn put_copies(&mut self) -> Next {
        let mut txn = Transaction::new();
        if !self.marked {
            if !self.other_marks {
                txn.create_collection(MARKS, 0);
            }
            txn.create_collection(self.id, self.bits);
            Mark { id: self.id, from: self.way.from, arrived: false }.put(&mut txn);
        }
        txn.append(std::mem::take(&mut self.txn));
        self.commit(Stage::Copied, self.target(), txn)
    }

    fn read_log(&mut self, after: EVersion) -> Next {
        let (collection, records_max, bytes_max) = (self.id, BATCH_ENTRIES, BATCH_BYTES);
        self.read(Stage::Log, ReadRequest::Log { collection, after, records_max, bytes_max })
    }

    /// Every object is there: the log and the info follow, and the collection is the new shard's.
    fn arrive(&mut self) -> Next {
        let (id, mut txn) = (self.id, Transaction::new());
        txn.set_info(id, std::mem::take(&mut self.info));
        let (tail, head, records) = std::mem::take(&mut self.log);
        if tail != EVersion::default() {
            txn.log_trim(id, tail);
        }
        let last = records.last().map_or(tail, |record| record.version);
        for record in records {
            txn.log_append(id, record.version, record.kind, record.bytes);
        }
        if head > last {
            // A head that no record has comes from a rewinding.
            let newest = EVersion::new(Epoch(u32::MAX), u64::MAX);
            txn.log_append(id, newest, LogRecordKind::Entry, Piece::empty()).log_rewind(id, head);
        }
        Mark { id, from: self.way.from, arrived: true }.put(&mut txn);
        self.commit(Stage::Arrived, self.way.to, txn)
    }
}

fn omap_after(collection: CollectionId, object: GHObject, after: Option<Name>) -> ReadRequest {
    ReadRequest::OmapRange {
        collection,
        object,
        after,
        before: None,
        prefix: Name::new(),
        entries_max: BATCH_ENTRIES,
        bytes_max: BATCH_BYTES,
        values: true,
    }
}
