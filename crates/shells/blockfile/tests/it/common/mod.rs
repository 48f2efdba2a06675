//! Making and opening stores in this crate's tests.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use blockfile::{BlockFileStore, NewStore, OpenError, Options, Owner, mkfs, open, path_in};
use store::conformance::{Harness, Properties};
use store::{Advice, CollectionId, ObjectStore, ReadRequest};
use types::{Fsid, GHObject, HObject, Name, OsdId, UTime};

pub const META: CollectionId = CollectionId::Meta;

pub const PROPERTIES: Properties = Properties {
    shards: 1,
    shares_space: true,
    reopens: true,
    crashes: false,
    checks_data: true,
    fails_commits: false,
    shares_blocks: true,
    threaded: true,
    patience: Duration::from_secs(60),
};

pub fn owner(osd: i32) -> Owner {
    Owner { cluster: Fsid([1; 16]), osd: OsdId(osd), osd_uuid: Fsid([2; 16]) }
}

pub fn object(name: &str) -> GHObject {
    HObject::head(types::PoolId(1), Name::new(), Name::new(), name.into(), name.len() as u32 * 77).into()
}

/// Makes a store with one collection and an object `a` with these bytes.
pub fn make_with_object(dir: &Path, owner: &Owner, new: &NewStore, bytes: &[u8]) {
    mkfs(dir, owner, new, &Options::default()).unwrap();
    let mut h = Harness::new(open(dir, owner, &Options::default()).unwrap(), PROPERTIES);
    h.commit(|t| t.create_collection(META, 0).write(META, &object("a"), 0, bytes.to_vec().into()));
    drop(h.take());
}

/// Why a store is not opened.
pub fn error(dir: &Path, owner: &Owner) -> OpenError {
    match open(dir, owner, &Options::default()) {
        Ok(_) => panic!("the store is opened"),
        Err(error) => error,
    }
}

pub fn read(object: &GHObject, len: u64) -> ReadRequest {
    let (object, advice) = (object.clone(), Advice::default());
    ReadRequest::Data { collection: META, object, offset: 0, len, advice, verify: false }
}

/// Bytes that the file system has given to a store's file.
pub fn given(dir: &Path) -> u64 {
    std::fs::metadata(path_in(dir)).unwrap().blocks() * 512
}

/// Gives the store turns until its file has fewer bytes.
pub fn shrinks_below(h: &mut Harness<BlockFileStore>, dir: &Path, bytes: u64) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while given(dir) >= bytes && Instant::now() < end {
        // Later than the time of any opening, and quicker than the clock.
        let passed = Instant::now() - (end - Duration::from_secs(60));
        h.store().turn(UTime::from_nanos(3_000_000_000 * 1_000_000_000).after(passed * 4));
        std::thread::sleep(Duration::from_millis(1));
    }
    given(dir) < bytes
}
