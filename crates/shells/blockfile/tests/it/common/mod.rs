//! Making and opening stores in this crate's tests.

use std::path::Path;
use std::time::Duration;

use blockfile::{NewStore, OpenError, Options, Owner, mkfs, open};
use store::conformance::{Harness, Properties};
use store::{Advice, CollectionId, ReadRequest};
use types::{Fsid, GHObject, HObject, Name, OsdId};

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
