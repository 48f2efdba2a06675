//! Reads that every case needs, by the harness.

use buffer::Piece;
use types::{EVersion, Epoch, GHObject, HObject, Name, PgId, PoolId};

use super::harness::Harness;
use crate::{
    Advice, AttrChoice, CollectionId, LogPage, ObjectStore, OmapPage, ReadOutcome, ReadRequest, StatFs,
    StoreError,
};

impl<S: ObjectStore> Harness<S> {
    /// All bytes of an object.
    pub fn data(&mut self, collection: CollectionId, object: &GHObject) -> Vec<u8> {
        self.data_range(collection, object, 0, u64::MAX)
    }

    /// Bytes of an object.
    pub fn data_range(
        &mut self,
        collection: CollectionId,
        object: &GHObject,
        offset: u64,
        len: u64,
    ) -> Vec<u8> {
        match self.get(data_request(collection, object, offset, len)) {
            Ok(ReadOutcome::Data(data)) => data.to_vec(),
            other => panic!("data of {object}: {other:?}"),
        }
    }

    /// An object's size, or `None` if it doesn't exist.
    pub fn size(&mut self, collection: CollectionId, object: &GHObject) -> Option<u64> {
        match self.get(ReadRequest::Stat { collection, object: object.clone() }) {
            Ok(ReadOutcome::Stat(stat)) => Some(stat.size),
            Err(StoreError::NoSuchObject(..)) => None,
            other => panic!("stat of {object}: {other:?}"),
        }
    }

    pub fn extents(&mut self, collection: CollectionId, object: &GHObject) -> Vec<(u64, u64)> {
        let request = ReadRequest::Extents { collection, object: object.clone(), offset: 0, len: u64::MAX };
        match self.get(request) {
            Ok(ReadOutcome::Extents(extents)) => extents,
            other => panic!("extents of {object}: {other:?}"),
        }
    }

    /// All objects of a collection.
    pub fn list(&mut self, collection: CollectionId) -> Vec<GHObject> {
        match self.get(list_request(collection)) {
            Ok(ReadOutcome::Objects(page)) => page.objects.into_iter().map(|o| o.0).collect(),
            other => panic!("list of {collection}: {other:?}"),
        }
    }

    /// A whole omap.
    pub fn omap(&mut self, collection: CollectionId, object: &GHObject) -> Vec<(Name, Piece)> {
        match self.get(omap_request(collection, object)) {
            Ok(ReadOutcome::Omap(OmapPage { entries, more: false })) => entries,
            other => panic!("omap of {object}: {other:?}"),
        }
    }

    /// A whole log.
    pub fn log(&mut self, collection: CollectionId) -> LogPage {
        match self.get(log_request(collection)) {
            Ok(ReadOutcome::Log(page)) => page,
            other => panic!("log of {collection}: {other:?}"),
        }
    }

    pub fn statfs(&mut self) -> StatFs {
        match self.get(ReadRequest::StatFs) {
            Ok(ReadOutcome::StatFs(statfs)) => statfs,
            other => panic!("statfs: {other:?}"),
        }
    }
}

pub fn data_request(collection: CollectionId, object: &GHObject, offset: u64, len: u64) -> ReadRequest {
    let (advice, verify) = (Advice::default(), false);
    ReadRequest::Data { collection, object: object.clone(), offset, len, advice, verify }
}

pub fn object_request(collection: CollectionId, object: &GHObject) -> ReadRequest {
    ReadRequest::Object { collection, object: object.clone(), attrs: AttrChoice::All }
}

/// Names of all objects.
pub fn list_request(collection: CollectionId) -> ReadRequest {
    let (start, end) = (GHObject::min(), GHObject::max());
    ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs: AttrChoice::None }
}

pub fn omap_request(collection: CollectionId, object: &GHObject) -> ReadRequest {
    ReadRequest::OmapRange {
        collection,
        object: object.clone(),
        after: None,
        before: None,
        prefix: Name::new(),
        entries_max: usize::MAX,
        bytes_max: usize::MAX,
        values: true,
    }
}

pub fn log_request(collection: CollectionId) -> ReadRequest {
    let after = EVersion::default();
    ReadRequest::Log { collection, after, records_max: usize::MAX, bytes_max: usize::MAX }
}

/// The collection of a PG of pool 1.
pub fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

/// A head in pool 1.
pub fn object(name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), hash).into()
}

/// A version of epoch 1.
pub fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1), n)
}
