//! The metadata's tables within one redb transaction, and the way back for a store transaction that is refused.

use std::ops::Bound;

use redb::{
    AccessGuard, Range, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError,
    Table, TableDefinition, TableError, WriteTransaction,
};
use store::StoreError;
use types::Errno;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Format, label and counters.
pub const META: Definition = TableDefinition::new("meta");
const COLLECTIONS: Definition = TableDefinition::new("collections");
const ONODES: Definition = TableDefinition::new("onodes");
const CHUNKS: Definition = TableDefinition::new("chunks");
const OMAP: Definition = TableDefinition::new("omap");
const LOG: Definition = TableDefinition::new("log");

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum In {
    /// Collection key to `CollectionRecord`.
    Collections,
    /// Collection and object key to `Onode`.
    Onodes,
    /// Onode number and chunk number to `Chunk`.
    Chunks,
    /// Onode number and omap key to value.
    Omap,
    /// Collection key and version to entry.
    Log,
}

/// Why a step failed.
#[derive(Debug)]
pub enum Failure {
    /// The transaction is refused; the store goes on.
    Refused(StoreError),
    /// The metadata can't be read or written: the store stops.
    Fatal(StoreError),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Fatal(storage_error("metadata", &error))
    }
}

impl From<encoding::DecodeError> for Failure {
    fn from(error: encoding::DecodeError) -> Self {
        Self::Fatal(StoreError::Damaged(error.to_string()))
    }
}

/// What redb reports, in our words.
pub fn storage_error(what: &'static str, error: &StorageError) -> StoreError {
    match error {
        StorageError::Io(e) => StoreError::Io { what, errno: e.raw_os_error().map_or(Errno::EIO, Errno) },
        other => StoreError::Damaged(other.to_string()),
    }
}

/// A result of a step.
pub type Step<T> = Result<T, Failure>;

/// The old value of a key.
struct Undo(In, Vec<u8>, Option<Vec<u8>>);

type Bytes = &'static [u8];

/// A table, open for changes or for reading only.
enum Open<'t> {
    Write(Table<'t, Bytes, Bytes>),
    Read(ReadOnlyTable<Bytes, Bytes>),
}

impl<'t> Open<'t> {
    fn get(&self, key: &[u8]) -> Result<Option<AccessGuard<'_, Bytes>>, StorageError> {
        match self {
            Self::Write(table) => ReadableTable::get(table, key),
            Self::Read(table) => ReadableTable::get(table, key),
        }
    }

    fn range(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Result<Range<'_, Bytes, Bytes>, StorageError> {
        match self {
            Self::Write(table) => ReadableTable::range::<&[u8]>(table, bounds),
            Self::Read(table) => ReadableTable::range::<&[u8]>(table, bounds),
        }
    }

    fn len(&self) -> Result<u64, StorageError> {
        match self {
            Self::Write(table) => table.len(),
            Self::Read(table) => table.len(),
        }
    }

    fn writable(&mut self) -> Step<&mut Table<'t, Bytes, Bytes>> {
        match self {
            Self::Write(table) => Ok(table),
            Self::Read(_) => Err(Failure::Fatal(StoreError::Damaged("a change while only reading".into()))),
        }
    }
}

/// All tables.
pub struct Tables<'t> {
    tables: [Open<'t>; 5],
    undo: Vec<Undo>,
}

impl<'t> Tables<'t> {
    /// Opens all for changes, making those that don't exist.
    pub fn open(txn: &'t WriteTransaction) -> Result<Self, TableError> {
        let open = |definition| txn.open_table(definition).map(Open::Write);
        let tables = [open(COLLECTIONS)?, open(ONODES)?, open(CHUNKS)?, open(OMAP)?, open(LOG)?];
        Ok(Self { tables, undo: Vec::new() })
    }

    /// Opens all for reading, which costs much less.
    pub fn open_read(txn: &ReadTransaction) -> Result<Self, TableError> {
        let open = |definition| txn.open_table(definition).map(Open::Read);
        let tables = [open(COLLECTIONS)?, open(ONODES)?, open(CHUNKS)?, open(OMAP)?, open(LOG)?];
        Ok(Self { tables, undo: Vec::new() })
    }

    /// A value.
    pub fn get(&self, table: In, key: &[u8]) -> Step<Option<Vec<u8>>> {
        Ok(self.tables[table as usize].get(key)?.map(|v| v.value().to_vec()))
    }

    /// Keys in a table.
    pub fn len(&self, table: In) -> Step<u64> {
        Ok(self.tables[table as usize].len()?)
    }

    pub fn set(&mut self, table: In, key: &[u8], value: &[u8]) -> Step<()> {
        let old = self.tables[table as usize].writable()?.insert(key, value)?.map(|v| v.value().to_vec());
        self.undo.push(Undo(table, key.to_vec(), old));
        Ok(())
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, table: In, key: &[u8]) -> Step<Option<Vec<u8>>> {
        let old = self.tables[table as usize].writable()?.remove(key)?.map(|v| v.value().to_vec());
        if old.is_some() {
            self.undo.push(Undo(table, key.to_vec(), old.clone()));
        }
        Ok(old)
    }

    /// Visits keys and values from `start` on and before `end` (to the table's end if `None`) until `visit` says stop.
    pub fn scan(
        &self,
        table: In,
        start: &[u8],
        end: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Step<bool>,
    ) -> Step<()> {
        if end.is_some_and(|end| start >= end) {
            return Ok(());
        }
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.tables[table as usize].range((Bound::Included(start), end))? {
            let (key, value) = entry?;
            if !visit(key.value(), value.value())? {
                break;
            }
        }
        Ok(())
    }

    /// The keys that `scan` visits.
    pub fn keys(&self, table: In, start: &[u8], end: Option<&[u8]>) -> Step<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        self.scan(table, start, end, |key, _| {
            keys.push(key.to_vec());
            Ok(true)
        })?;
        Ok(keys)
    }

    /// Makes the changes so far stay.
    pub fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes back the changes since the last [`Tables::keep`], newest first.
    pub fn take_back(&mut self) -> Step<()> {
        while let Some(Undo(table, key, old)) = self.undo.pop() {
            let table = self.tables[table as usize].writable()?;
            match old {
                Some(old) => drop(table.insert(&key[..], &old[..])?),
                None => drop(table.remove(&key[..])?),
            }
        }
        Ok(())
    }
}
