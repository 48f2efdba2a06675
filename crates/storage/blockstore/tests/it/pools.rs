//! How much each pool takes, whatever happens to its objects and to the store.

use std::collections::BTreeMap;

use crate::common::{Sim, Simulated, check, forced};
use crate::large::rested;
use blockstore::{BLOCK, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, CompressionAlgorithm, ObjectChange, ObjectStore};
use types::{GHObject, HObject, Name, PgId, PoolId};

fn pg(pool: i64, seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(pool), seed }.into())
}

fn object(pool: i64, name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(pool), Name::new(), Name::new(), name.into(), hash).into()
}

/// Blocks of each pool, which are all blocks with data.
fn blocks(h: &mut Harness<Simulated>) -> BTreeMap<i64, u64> {
    let space = h.statfs();
    assert!(space.is_by_pool(), "{space:?}");
    space.by_pool.into_iter().map(|(pool, bytes)| (pool.0, bytes / BLOCK)).collect()
}

/// The store after a power loss, which an opening reads the log for, and after a checkpoint.
fn crashed(factory: &mut Sim, h: Harness<Simulated>) -> Harness<Simulated> {
    let mut store = factory.crash(h.abandon(), 7).expect("power can be lost");
    check(&mut store, "opened");
    Harness::new(store, factory.properties())
}

#[test]
fn holes_and_what_is_shared_or_compressed_count_as_what_they_take() {
    let mut factory = Sim::new(Options::default(), 256 << 10);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (a, b, child) = (pg(1, 0), pg(2, 0), pg(1, 1));
    let (thin, copy, other) = (object(1, "thin", 2), object(1, "copy", 2), object(2, "other", 3));
    h.commit(|t| t.create_collection(a, 0).create_collection(CollectionId::Meta, 0));
    h.commit(|t| t.create_collection(b, 0));
    assert_eq!(blocks(&mut h), BTreeMap::new());
    // 4 MiB long, with three blocks.
    h.commit(|t| t.truncate(a, &thin, 4 << 20).write(a, &thin, 1 << 20, vec![1; 8192].into()));
    h.commit(|t| t.write(a, &thin, 3 << 20, vec![1; 1].into()));
    h.commit(|t| t.write(b, &other, 0, vec![2; 5000].into()));
    assert_eq!(blocks(&mut h), [(1, 3), (2, 2)].into());
    // Written over in place, shared, and one block of what is shared written over.
    h.commit(|t| t.write(a, &thin, 1 << 20, vec![3; 4096].into()).clone_object(a, &thin, &copy));
    assert_eq!(blocks(&mut h), [(1, 3), (2, 2)].into());
    h.commit(|t| t.write(a, &thin, 1 << 20, vec![4; 4096].into()));
    assert_eq!(blocks(&mut h), [(1, 4), (2, 2)].into());
    h = crashed(&mut factory, h);
    assert_eq!(blocks(&mut h), [(1, 4), (2, 2)].into());
    h = rested(&factory, h);
    h = crashed(&mut factory, h);
    assert_eq!(blocks(&mut h), [(1, 4), (2, 2)].into(), "from the tree");
    // Refused: nothing counts.
    h.refused(|t| t.write(a, &thin, 0, vec![1; 9000].into()).touch(pg(9, 9), &thin));
    assert_eq!(blocks(&mut h), [(1, 4), (2, 2)].into());
    h.commit(|t| t.create_collection(child, 1).split(a, 1, 0, child).rename((child, &copy), (a, &copy)));
    h.commit(|t| t.zero(child, &thin, 0, 4 << 20));
    assert_eq!(blocks(&mut h), [(1, 3), (2, 2)].into(), "the copy has what both had");
    h.commit(|t| t.remove(a, &copy).remove(b, &other));
    assert_eq!(blocks(&mut h), BTreeMap::new());
    h.store().set_compression(Some(PoolId(2)), Some(forced(CompressionAlgorithm::Lz4, 64 << 10)));
    h.commit(|t| t.write(b, &other, 0, vec![5; 64 << 10].into()));
    assert_eq!(blocks(&mut h), [(2, 1)].into(), "compressed");
    h = crashed(&mut factory, h);
    h.commit(|t| t.remove(b, &other));
    h = rested(&factory, h);
    h = crashed(&mut factory, h);
    assert_eq!(blocks(&mut h), BTreeMap::new());
}

/// What is dead counts for its pool until its keys are removed, some at a time and by an opening that knows no object.
#[test]
fn blocks_of_what_is_removed_step_by_step_count_for_its_pool() {
    let mut factory = Sim::new(Options::default(), 256 << 10);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (c, large) = (pg(3, 0), object(3, "large", 1));
    h.commit(|t| t.create_collection(c, 0).write(c, &large, 0, vec![1; 300 << 12].into()));
    for first in (0..2000).step_by(400) {
        let keys = (first..first + 400).map(|n: u32| (format!("{n}").as_str().into(), vec![7; 20].into()));
        h.commit(|t| t.change(c, &large, ObjectChange::OmapSet(keys.collect())));
    }
    let mut store = h.take();
    let mut txn = store::Transaction::new();
    txn.remove(c, &large);
    store.queue(txn, store::Token(1));
    let mut h = Harness::new(factory.crash(store, 3).expect("power can be lost"), factory.properties());
    let left = blocks(&mut h);
    assert!(left.is_empty() || left == [(3, 300)].into(), "{left:?}");
    h = rested(&factory, h);
    assert_eq!(blocks(&mut h), if h.list(c).is_empty() { BTreeMap::new() } else { [(3, 300)].into() });
    h.commit(|t| t.remove(c, &large));
    h = rested(&factory, h);
    assert_eq!(blocks(&mut h), BTreeMap::new());
}
