//! Making and looking at stores in this crate's tests.

pub mod history;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use device::{DeviceOptions, Power};
use simplestore::{Label, OpenError, Options, SimpleStore};
use store::conformance::{Harness, Properties};
use store::{
    Advice, AttrChoice, CollectionId, LogPage, ObjectHead, OmapPage, ReadOutcome, ReadRequest, StoreError,
    Transaction,
};
use types::{EVersion, Epoch, Fsid, GHObject, HObject, Name, OsdId, PgId, PoolId};

pub const META: CollectionId = CollectionId::Meta;

pub const PROPERTIES: Properties = Properties {
    shards: 1,
    shares_space: true,
    reopens: true,
    crashes: true,
    checks_data: true,
    fails_commits: true,
    shares_blocks: false,
    threaded: true,
    patience: Duration::from_secs(60),
};

pub fn label(size_bytes: u64) -> Label {
    Label { cluster: Fsid([1; 16]), osd: OsdId(7), osd_uuid: Fsid([2; 16]), size_bytes }
}

pub fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), name.len() as u32 * 77).into()
}

pub fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

pub fn version(n: u64) -> EVersion {
    EVersion::new(Epoch(1), n)
}

/// With a volatile cache and a switch.
pub fn switchable() -> (Options, Arc<Power>) {
    let power = Arc::new(Power::default());
    let device = DeviceOptions { volatile_cache: true, leak_seed: None, power: Some(power.clone()) };
    (Options { device, ..Options::default() }, power)
}

pub fn transaction(build: impl FnOnce(&mut Transaction) -> &mut Transaction) -> Transaction {
    let mut txn = Transaction::new();
    build(&mut txn);
    txn
}

pub type Simple = Harness<SimpleStore>;

/// Held while a child is made: until it executes its program it has all that this process has open, and a store that is dropped
/// meanwhile stays locked.
pub static CHILD_IS_MADE: Mutex<()> = Mutex::new(());

/// As [`simplestore::open`], at a moment when no child holds what was just closed.
pub fn open(dir: &Path, options: &Options) -> Result<SimpleStore, OpenError> {
    let _none = CHILD_IS_MADE.lock().unwrap_or_else(PoisonError::into_inner);
    simplestore::open(dir, options)
}

/// The same as [`simplestore::mkfs`].
pub fn mkfs(dir: &Path, label: &Label, options: &Options) -> Result<(), OpenError> {
    let _none = CHILD_IS_MADE.lock().unwrap_or_else(PoisonError::into_inner);
    simplestore::mkfs(dir, label, options)
}

pub fn harness(dir: &Path, options: &Options) -> Simple {
    Harness::new(open(dir, options).unwrap(), PROPERTIES)
}

/// Opens a store that was opened before.
pub fn reopened(dir: &Path) -> Simple {
    harness(dir, &Options::default())
}

/// A new store of one collection.
pub fn fresh(dir: &Path, size_bytes: u64) -> Simple {
    mkfs(dir, &label(size_bytes), &Options::default()).unwrap();
    let mut h = reopened(dir);
    h.commit(|t| t.create_collection(META, 0));
    h
}

/// Reads that may fail.
pub trait Look {
    fn try_data(&mut self, collection: CollectionId, object: &GHObject) -> Result<Vec<u8>, StoreError>;
    fn try_head(&mut self, c: CollectionId, object: &GHObject) -> Result<Option<ObjectHead>, StoreError>;
    fn try_omap(&mut self, collection: CollectionId, object: &GHObject) -> Result<OmapPage, StoreError>;
    fn try_log(&mut self, collection: CollectionId) -> Result<LogPage, StoreError>;
    fn try_list(&mut self, collection: CollectionId, attrs: AttrChoice) -> Result<Vec<GHObject>, StoreError>;
}

impl Look for Simple {
    fn try_data(&mut self, collection: CollectionId, object: &GHObject) -> Result<Vec<u8>, StoreError> {
        match self.get(read(collection, object, 0, u64::MAX))? {
            ReadOutcome::Data(data) => Ok(data.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    fn try_head(&mut self, c: CollectionId, object: &GHObject) -> Result<Option<ObjectHead>, StoreError> {
        let request = ReadRequest::Object { collection: c, object: object.clone(), attrs: AttrChoice::All };
        match self.get(request)? {
            ReadOutcome::Object(head) => Ok(head),
            other => panic!("{other:?}"),
        }
    }

    fn try_omap(&mut self, collection: CollectionId, object: &GHObject) -> Result<OmapPage, StoreError> {
        let request = ReadRequest::OmapRange {
            collection,
            object: object.clone(),
            after: None,
            before: None,
            prefix: Name::new(),
            entries_max: usize::MAX,
            bytes_max: usize::MAX,
            values: true,
        };
        match self.get(request)? {
            ReadOutcome::Omap(page) => Ok(page),
            other => panic!("{other:?}"),
        }
    }

    fn try_log(&mut self, collection: CollectionId) -> Result<LogPage, StoreError> {
        let after = EVersion::default();
        let request = ReadRequest::Log { collection, after, records_max: usize::MAX, bytes_max: usize::MAX };
        match self.get(request)? {
            ReadOutcome::Log(page) => Ok(page),
            other => panic!("{other:?}"),
        }
    }

    fn try_list(&mut self, collection: CollectionId, attrs: AttrChoice) -> Result<Vec<GHObject>, StoreError> {
        let (start, end) = (GHObject::min(), GHObject::max());
        match self.get(ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs })? {
            ReadOutcome::Objects(page) => Ok(page.objects.into_iter().map(|o| o.0).collect()),
            other => panic!("{other:?}"),
        }
    }
}

pub fn read(collection: CollectionId, object: &GHObject, offset: u64, len: u64) -> ReadRequest {
    let (object, advice) = (object.clone(), Advice::default());
    ReadRequest::Data { collection, object, offset, len, advice, verify: false }
}
