//! Makes a collection of records.

use blockfile::{Blocking, unexpected};
use buffer::Rope;
use store::{
    Advice, CollectionId, LogChange, LogRecordKind, ObjectChange, ObjectStore, ReadOutcome, ReadRequest,
    Step, StoreError, Transaction, UNFINISHED,
};
use types::{EVersion, GHObject};

use crate::Record;

/// A transaction takes no more after so many bytes or steps.
const BYTES: usize = 4 << 20;
const STEPS: usize = 1000;

/// Bytes that a clone must have in common with the one before it at least, to share them.
const SHARED_MIN: usize = 64 << 10;
const BLOCK: usize = 4096;

/// Makes one collection. Until its last record the collection has the info [`UNFINISHED`].
#[derive(Default)]
pub struct Writer {
    collection: Option<CollectionId>,
    txn: Transaction,
    bytes: usize,
    /// The object that records add to.
    object: Option<GHObject>,
    /// The one before it, where both are clones of one object: it may share its blocks.
    sibling: Option<(GHObject, u64)>,
    size: u64,
    log_last: EVersion,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next record.
    ///
    /// # Errors
    /// The store's; a series in another order than a [`crate::Reader`]'s is [`StoreError::Damaged`].
    pub fn put<S: ObjectStore>(&mut self, store: &mut Blocking<S>, record: Record) -> Result<(), StoreError> {
        match (self.collection, record) {
            (None, Record::Collection { collection, bits, log_tail }) => {
                self.collection = Some(collection);
                self.txn.create_collection(collection, bits).set_info(collection, UNFINISHED.to_vec());
                if log_tail != EVersion::default() {
                    self.txn.log_trim(collection, log_tail);
                }
                self.log_last = log_tail;
            }
            (Some(collection), Record::Object { object, stat, attrs }) => {
                self.bytes += attrs.bytes() as usize;
                self.txn.touch(collection, &object).truncate(collection, &object, stat.size);
                if !attrs.is_empty() {
                    self.txn.set_attrs(collection, &object, attrs);
                }
                if let Some(hint) = stat.hint {
                    self.txn.change(collection, &object, ObjectChange::SetAllocHint(hint));
                }
                let before = self.object.take().filter(|before| are_clones(before, &object));
                self.sibling = before.map(|before| (before, self.size));
                (self.object, self.size) = (Some(object), stat.size);
            }
            (Some(collection), Record::End { log_head, info }) => {
                self.end_log(collection, log_head);
                self.txn.set_info(collection, info);
                self.collection = None;
                return self.commit(store);
            }
            (Some(collection), Record::Log(records)) => {
                self.object = None;
                for record in records {
                    self.bytes += record.bytes.len();
                    self.log_last = record.version;
                    self.txn.push(Step::Log { collection, change: LogChange::Append(record) });
                }
            }
            (Some(collection), record) => self.put_into_object(store, collection, record)?,
            (None, record) => return Err(misplaced(&record)),
        }
        if self.bytes >= BYTES || self.txn.steps().len() >= STEPS {
            self.commit(store)?;
        }
        Ok(())
    }

    fn put_into_object<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
        collection: CollectionId,
        record: Record,
    ) -> Result<(), StoreError> {
        let Some(object) = self.object.clone() else { return Err(misplaced(&record)) };
        match record {
            Record::Data { offset, data } => self.put_data(store, collection, &object, offset, data)?,
            Record::OmapHeader(header) => {
                self.bytes += header.len();
                self.txn.change(collection, &object, ObjectChange::OmapSetHeader(header));
            }
            Record::Omap(entries) => {
                self.bytes += entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
                self.txn.omap_set(collection, &object, entries);
            }
            other => return Err(misplaced(&other)),
        }
        Ok(())
    }

    /// Writes data, but lets it share what the object's sibling has at the same place.
    fn put_data<S: ObjectStore>(
        &mut self,
        store: &mut Blocking<S>,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
        data: Rope,
    ) -> Result<(), StoreError> {
        let mut written = 0;
        if let Some(sibling) = self.sibling.clone().filter(|(_, size)| *size > offset) {
            // What is read below has to be queued.
            self.commit(store)?;
            let old = read(store, collection, &sibling.0, offset, data.len())?;
            for same in in_common(&old.to_piece(), &data.to_piece()) {
                self.write(collection, object, offset, &data, written..same.start);
                let at = offset + same.start as u64;
                self.txn.clone_range(collection, (&sibling.0, at), (object, at), same.len() as u64);
                written = same.end;
            }
        }
        self.write(collection, object, offset, &data, written..data.len());
        Ok(())
    }

    fn write(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
        data: &Rope,
        part: std::ops::Range<usize>,
    ) {
        if !part.is_empty() {
            self.bytes += part.len();
            self.txn.write(collection, object, offset + part.start as u64, data.slice(part));
        }
    }

    /// The head may be behind the last record: the log was rewound to a version that has none.
    fn end_log(&mut self, collection: CollectionId, head: EVersion) {
        if self.log_last < head {
            let behind = EVersion::new(head.epoch, head.version + 1);
            self.txn.log_append(collection, behind, LogRecordKind::Entry, Vec::new());
            self.txn.log_rewind(collection, head);
        }
    }

    fn commit<S: ObjectStore>(&mut self, store: &mut Blocking<S>) -> Result<(), StoreError> {
        self.bytes = 0;
        match self.txn.is_empty() {
            true => Ok(()),
            false => store.commit(std::mem::take(&mut self.txn)),
        }
    }
}

fn misplaced(record: &Record) -> StoreError {
    StoreError::Damaged(format!("{} comes where nothing like it belongs", record.what()))
}

/// Whether two objects are of one name: clones of each other, or a clone and its head.
fn are_clones(a: &GHObject, b: &GHObject) -> bool {
    a.hobj.name == b.hobj.name
        && (a.hobj.hash, &a.hobj.key, &a.hobj.nspace, a.hobj.pool)
            == (b.hobj.hash, &b.hobj.key, &b.hobj.nspace, b.hobj.pool)
        && (a.generation, a.shard) == (b.generation, b.shard)
}

fn read<S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
    object: &GHObject,
    offset: u64,
    len: usize,
) -> Result<Rope, StoreError> {
    let (object, len, advice) = (object.clone(), len as u64, Advice::default());
    match store.read(ReadRequest::Data { collection, object, offset, len, advice, verify: false })? {
        ReadOutcome::Data(data) => Ok(data),
        other => Err(unexpected(&other)),
    }
}

/// Runs of whole blocks that are equal in both, long enough to be shared.
fn in_common(old: &[u8], new: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (at, (a, b)) in old.chunks_exact(BLOCK).zip(new.chunks_exact(BLOCK)).enumerate() {
        if a != b {
            continue;
        }
        let start = at * BLOCK;
        match runs.last_mut() {
            Some(run) if run.end == start => run.end += BLOCK,
            _ => runs.push(start..start + BLOCK),
        }
    }
    runs.retain(|run| run.len() >= SHARED_MIN);
    runs
}

/// Removes a collection with all it has, in parts: it is [`UNFINISHED`] from the first on.
///
/// # Errors
/// The store's.
pub fn remove_collection<S: ObjectStore>(
    store: &mut Blocking<S>,
    collection: CollectionId,
) -> Result<(), StoreError> {
    let mut txn = Transaction::new();
    txn.set_info(collection, UNFINISHED.to_vec());
    loop {
        let (objects, next) = store.objects(collection, GHObject::min())?;
        for object in &objects {
            txn.remove(collection, object);
        }
        store.commit(std::mem::take(&mut txn))?;
        if next.is_none() {
            txn.remove_collection(collection);
            return store.commit(txn);
        }
    }
}
