//! Copying and comparing collections.

use blockfile::Blocking;
use store::{CollectionId, ObjectStore, StoreError};

use crate::{Reader, Record, Writer};

/// What was done so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Progress {
    pub collections: u64,
    pub objects: u64,
    /// Those of the objects that have a PG's own records, and are no client's.
    pub own: u64,
    /// Bytes of data, without holes.
    pub bytes: u64,
}

impl Progress {
    /// What a list of the PG has, and what clients have put there: heads and clones.
    pub fn of_clients(&self) -> u64 {
        self.objects - self.own
    }

    pub fn count(&mut self, record: &Record) {
        match record {
            Record::Object { object, .. } => {
                self.objects += 1;
                self.own += u64::from(object.is_pgmeta());
            }
            Record::Data { data, .. } => self.bytes += data.len() as u64,
            Record::End { .. } => self.collections += 1,
            Record::Collection { .. } | Record::OmapHeader(_) | Record::Omap(_) | Record::Log(_) => {}
        }
    }
}

/// Why a copy or a comparison ended.
#[derive(Debug, thiserror::Error)]
pub enum TransferError<E> {
    #[error("the store that is read: {0}")]
    Source(StoreError),
    #[error("the store that is written: {0}")]
    Target(StoreError),
    /// What hears of the progress has ended it.
    #[error(transparent)]
    Ended(E),
}

/// Copies a collection into a store that has none of its name. `on` hears of each record.
///
/// # Errors
/// A store's, or `on`'s. The collection may be there in part then, and says so ([`store::UNFINISHED`]).
pub fn copy<A: ObjectStore, B: ObjectStore, E>(
    source: &mut Blocking<A>,
    target: &mut Blocking<B>,
    collection: CollectionId,
    mut on: impl FnMut(&Record) -> Result<(), E>,
) -> Result<(), TransferError<E>> {
    let (mut reader, mut writer) = (Reader::new(collection), Writer::new());
    while let Some(record) = reader.next(source).map_err(TransferError::Source)? {
        on(&record).map_err(TransferError::Ended)?;
        writer.put(target, record).map_err(TransferError::Target)?;
    }
    Ok(())
}

/// Where two collections differ first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The last object that both have begun.
    pub object: String,
    /// What each has there.
    pub first: String,
    pub second: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {}: {} in one, {} in the other", self.object, self.first, self.second)
    }
}

/// Compares a collection of two stores: every byte, attribute, key and log record.
///
/// # Errors
/// A store's (the second's is `Target`), or `on`'s.
pub fn compare<A: ObjectStore, B: ObjectStore, E>(
    first: &mut Blocking<A>,
    second: &mut Blocking<B>,
    collection: CollectionId,
    mut on: impl FnMut(&Record) -> Result<(), E>,
) -> Result<Option<Difference>, TransferError<E>> {
    let (mut one, mut other) = (Reader::new(collection), Reader::new(collection));
    let mut object = "the beginning".to_owned();
    loop {
        let a = one.next(first).map_err(TransferError::Source)?;
        let b = other.next(second).map_err(TransferError::Target)?;
        if a != b {
            let what = |record: Option<Record>| record.map_or("nothing".to_owned(), |record| record.what());
            return Ok(Some(Difference { object, first: what(a), second: what(b) }));
        }
        let Some(record) = a else { return Ok(None) };
        on(&record).map_err(TransferError::Ended)?;
        if let Record::Object { .. } = record {
            object = record.what();
        }
    }
}
