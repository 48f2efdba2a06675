//! The metadata's tables within one redb transaction, and the way back for a store transaction that is refused.
//!
//! Every value carries a checksum of its key and itself: redb checks its pages only when it repairs a file.

use std::ops::Bound;

use buffer::crc32c;
use redb::{
    AccessGuard, Range, ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata, StorageError,
    Table as RedbTable, TableDefinition, TableError, WriteTransaction,
};
use store::StoreError;
use types::Errno;

type Bytes = &'static [u8];

const TABLES: usize = 8;

/// A table of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Collection key to `CollectionRecord`.
    Collections,
    /// Collection key to the collection's small info.
    Infos,
    /// Collection and object key to `Onode`.
    Onodes,
    /// Onode number and chunk number to `Chunk`.
    Chunks,
    /// Onode number and omap key to value.
    Omap,
    /// Onode number and name to value, of the attributes that are not in the onode.
    Attrs,
    /// Collection key and version to log record.
    Log,
    /// Names to what concerns the store as a whole; not counted as metadata.
    Meta,
}

impl Table {
    /// In the order of the discriminants.
    const ALL: [Self; TABLES] = [
        Self::Collections,
        Self::Infos,
        Self::Onodes,
        Self::Chunks,
        Self::Omap,
        Self::Attrs,
        Self::Log,
        Self::Meta,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Collections => "collections",
            Self::Infos => "infos",
            Self::Onodes => "onodes",
            Self::Chunks => "chunks",
            Self::Omap => "omap",
            Self::Attrs => "attrs",
            Self::Log => "log",
            Self::Meta => "meta",
        }
    }

    pub fn definition(self) -> TableDefinition<'static, Bytes, Bytes> {
        TableDefinition::new(self.name())
    }

    /// Whether keys and values count as metadata.
    fn is_counted(self) -> bool {
        match self {
            Self::Collections
            | Self::Infos
            | Self::Onodes
            | Self::Chunks
            | Self::Omap
            | Self::Attrs
            | Self::Log => true,
            Self::Meta => false,
        }
    }
}

/// Why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// The request is refused; the store goes on.
    Refused(StoreError),
    /// The database or a write to the image failed: the store stops.
    Fatal(StoreError),
}

impl Failure {
    pub fn into_error(self) -> StoreError {
        match self {
            Self::Refused(error) | Self::Fatal(error) => error,
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Fatal(database_error("metadata", error))
    }
}

/// A refusal because of what is stored.
pub fn damaged(why: impl Into<String>) -> Failure {
    Failure::Refused(StoreError::Damaged(why.into()))
}

/// What redb reports, in the contract's words.
pub fn database_error(what: &'static str, error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(e) => {
            StoreError::Io { what, errno: e.raw_os_error().map_or(Errno::EIO, Errno), at: None }
        }
        redb::Error::PreviousIo => StoreError::Io { what, errno: Errno::EIO, at: None },
        other => StoreError::Damaged(format!("{what}: {other}")),
    }
}

/// The result of a part of a request.
pub type Attempt<T> = Result<T, Failure>;

/// Bytes of the checksum at a stored value's end.
const CHECKSUM_BYTES: usize = 4;

fn checksum(key: &[u8], value: &[u8]) -> [u8; CHECKSUM_BYTES] {
    crc32c(crc32c(!0, key), value).to_le_bytes()
}

/// A value as it is stored.
pub fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(value.len() + CHECKSUM_BYTES);
    sealed.extend_from_slice(value);
    sealed.extend_from_slice(&checksum(key, value));
    sealed
}

/// The value in what is stored, or `None` if they don't match.
pub fn unseal<'a>(key: &[u8], sealed: &'a [u8]) -> Option<&'a [u8]> {
    let (value, stored) = sealed.split_last_chunk::<CHECKSUM_BYTES>()?;
    (checksum(key, value) == *stored).then_some(value)
}

/// [`unseal`] for a record of a table.
fn unseal_record<'a>(table: Table, key: &[u8], sealed: &'a [u8]) -> Attempt<&'a [u8]> {
    unseal(key, sealed).ok_or_else(|| {
        damaged(format!("bad checksum of the record with key {:02x?} of table {}", key, table.name()))
    })
}

/// A key's stored value as it was.
struct Undo(Table, Vec<u8>, Option<Vec<u8>>);

/// A table, open for changes or for reading only.
enum Open<'t> {
    Write(RedbTable<'t, Bytes, Bytes>),
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

    fn writable(&mut self) -> Attempt<&mut RedbTable<'t, Bytes, Bytes>> {
        match self {
            Self::Write(table) => Ok(table),
            // A bug of this crate; the store must not go on with a change half made.
            Self::Read(_) => Err(Failure::Fatal(StoreError::Damaged("a change while only reading".into()))),
        }
    }
}

/// All tables, in the order of [`Table::ALL`].
pub struct Tables<'t> {
    tables: [Open<'t>; TABLES],
    undo: Vec<Undo>,
    metadata_bytes: u64,
    /// As of the last [`Tables::commit`].
    metadata_bytes_committed: u64,
}

impl<'t> Tables<'t> {
    /// Opens all for changes, making those that don't exist. `metadata_bytes` are what they hold.
    pub fn open(txn: &'t WriteTransaction, metadata_bytes: u64) -> Result<Self, TableError> {
        Self::open_each(metadata_bytes, |table| txn.open_table(table.definition()).map(Open::Write))
    }

    /// Opens all for reading, which costs much less.
    pub fn open_read(txn: &ReadTransaction, metadata_bytes: u64) -> Result<Self, TableError> {
        Self::open_each(metadata_bytes, |table| txn.open_table(table.definition()).map(Open::Read))
    }

    fn open_each(
        metadata_bytes: u64,
        open: impl Fn(Table) -> Result<Open<'t>, TableError>,
    ) -> Result<Self, TableError> {
        let [a, b, c, d, e, f, g, h] = Table::ALL.map(open);
        let tables = [a?, b?, c?, d?, e?, f?, g?, h?];
        let metadata_bytes_committed = metadata_bytes;
        Ok(Self { tables, undo: Vec::new(), metadata_bytes, metadata_bytes_committed })
    }

    /// Bytes of all counted tables' keys and stored values.
    pub fn metadata_bytes(&self) -> u64 {
        self.metadata_bytes
    }

    pub fn get(&self, table: Table, key: &[u8]) -> Attempt<Option<Vec<u8>>> {
        match self.tables[table as usize].get(key)? {
            Some(sealed) => Ok(Some(unseal_record(table, key, sealed.value())?.to_vec())),
            None => Ok(None),
        }
    }

    pub fn contains(&self, table: Table, key: &[u8]) -> Attempt<bool> {
        Ok(self.tables[table as usize].get(key)?.is_some())
    }

    /// Keys in a table.
    pub fn len(&self, table: Table) -> Attempt<u64> {
        Ok(self.tables[table as usize].len()?)
    }

    pub fn set(&mut self, table: Table, key: &[u8], value: &[u8]) -> Attempt<()> {
        let sealed = seal(key, value);
        let old = self.tables[table as usize].writable()?.insert(key, &sealed[..])?;
        let old = old.map(|v| v.value().to_vec());
        self.changed(table, key, old, Some(sealed.len()));
        Ok(())
    }

    /// Removes a key if it is there, whatever its value.
    pub fn remove(&mut self, table: Table, key: &[u8]) -> Attempt<()> {
        let old = self.tables[table as usize].writable()?.remove(key)?.map(|v| v.value().to_vec());
        if old.is_some() {
            self.changed(table, key, old, None);
        }
        Ok(())
    }

    /// Moves a value, which must be there, to another key.
    pub fn rename(&mut self, table: Table, from: &[u8], to: &[u8]) -> Attempt<()> {
        let value = self.get(table, from)?;
        let value = value.ok_or_else(|| damaged(format!("a record of table {} is gone", table.name())))?;
        self.remove(table, from)?;
        self.set(table, to, &value)
    }

    /// Notes a change for the way back, and counts its bytes.
    fn changed(&mut self, table: Table, key: &[u8], old: Option<Vec<u8>>, new_len: Option<usize>) {
        if table.is_counted() {
            let bytes = |len: Option<usize>| len.map_or(0, |len| (key.len() + len) as u64);
            let without = self.metadata_bytes.saturating_sub(bytes(old.as_ref().map(Vec::len)));
            self.metadata_bytes = without + bytes(new_len);
        }
        self.undo.push(Undo(table, key.to_vec(), old));
    }

    /// Visits keys and values from `start` on and before `end` (to the table's end if `None`) until `visit` says stop.
    pub fn scan(
        &self,
        table: Table,
        start: &[u8],
        end: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Attempt<bool>,
    ) -> Attempt<()> {
        self.scan_sealed(table, start, end, |key, sealed| visit(key, unseal_record(table, key, sealed)?))
    }

    /// [`Tables::scan`] with values as they are stored, unchecked.
    fn scan_sealed(
        &self,
        table: Table,
        start: &[u8],
        end: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Attempt<bool>,
    ) -> Attempt<()> {
        if end.is_some_and(|end| start >= end) {
            return Ok(());
        }
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        for entry in self.tables[table as usize].range((Bound::Included(start), end))? {
            let (key, sealed) = entry?;
            if !visit(key.value(), sealed.value())? {
                break;
            }
        }
        Ok(())
    }

    /// [`Tables::scan`] of keys alone, whatever their values.
    pub fn scan_keys(
        &self,
        table: Table,
        start: &[u8],
        end: Option<&[u8]>,
        mut visit: impl FnMut(&[u8]) -> Attempt<bool>,
    ) -> Attempt<()> {
        self.scan_sealed(table, start, end, |key, _| visit(key))
    }

    /// The keys of a range, whatever their values.
    pub fn keys(&self, table: Table, start: &[u8], end: Option<&[u8]>) -> Attempt<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        self.scan_keys(table, start, end, |key| {
            keys.push(key.to_vec());
            Ok(true)
        })?;
        Ok(keys)
    }

    /// Whether a range has no key.
    pub fn is_empty(&self, table: Table, start: &[u8], end: Option<&[u8]>) -> Attempt<bool> {
        let mut empty = true;
        self.scan_keys(table, start, end, |_| {
            empty = false;
            Ok(false)
        })?;
        Ok(empty)
    }

    pub fn remove_range(&mut self, table: Table, start: &[u8], end: Option<&[u8]>) -> Attempt<()> {
        for key in self.keys(table, start, end)? {
            self.remove(table, &key)?;
        }
        Ok(())
    }

    /// Makes the changes so far stay.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.metadata_bytes_committed = self.metadata_bytes;
    }

    /// Takes back the changes since the last [`Tables::commit`], newest first.
    pub fn rollback(&mut self) -> Attempt<()> {
        while let Some(Undo(table, key, old)) = self.undo.pop() {
            let table = self.tables[table as usize].writable()?;
            match old {
                Some(old) => drop(table.insert(&key[..], &old[..])?),
                None => drop(table.remove(&key[..])?),
            }
        }
        self.metadata_bytes = self.metadata_bytes_committed;
        Ok(())
    }
}
