//! How much each pool takes, whatever happens to its objects and to the store.

use std::collections::BTreeMap;

use crate::common::{Sim, Simulated, check, forced};
use crate::large::rested;
use blockstore::{BLOCK, Options};
use buffer::Piece;
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

/// Bytes of each pool's omaps.
fn omaps(h: &mut Harness<Simulated>) -> BTreeMap<i64, u64> {
    let space = h.statfs();
    assert!(!space.has_uncounted_omaps, "{space:?}");
    space.omaps_by_pool.into_iter().map(|(pool, bytes)| (pool.0, bytes)).collect()
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

/// Keys of 4 bytes from `first` on, with values of so many bytes.
fn entries(first: u32, count: u32, value_bytes: usize) -> Vec<(Name, Piece)> {
    (first..first + count).map(|n| (format!("{n:04}").as_str().into(), vec![7; value_bytes].into())).collect()
}

/// Keys and values count, headers and attributes don't, whatever sets, copies and removes them.
#[test]
fn omaps_count_by_their_keys_and_values() {
    let mut factory = Sim::new(Options::default(), 256 << 10);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    let (a, b, child) = (pg(1, 0), pg(2, 0), pg(1, 1));
    let (first, copy, other) = (object(1, "first", 2), object(1, "copy", 2), object(2, "other", 3));
    h.commit(|t| t.create_collection(a, 0).create_collection(b, 0));
    h.commit(|t| t.omap_set(a, &first, entries(0, 10, 20)).set_attr(a, &first, "name", vec![1; 500]));
    h.commit(|t| t.change(a, &first, ObjectChange::OmapSetHeader(vec![1; 90].into())));
    h.commit(|t| t.omap_set(b, &other, entries(0, 3, 0)));
    assert_eq!(omaps(&mut h), [(1, 240), (2, 12)].into());
    // Set again with shorter values, in one transaction with a longer one of the same key.
    h.commit(|t| t.omap_set(a, &first, entries(0, 1, 30)).omap_set(a, &first, entries(0, 5, 10)));
    assert_eq!(omaps(&mut h), [(1, 190), (2, 12)].into());
    h.refused(|t| t.omap_set(a, &first, entries(20, 5, 10)).touch(pg(9, 9), &first));
    h.commit(|t| t.change(a, &first, ObjectChange::OmapRemove(vec!["0009".into(), "none".into()])));
    h.commit(|t| t.change(a, &first, range("0004", "0006")));
    assert_eq!(omaps(&mut h), [(1, 190 - 24 - 14 - 24), (2, 12)].into());
    h.commit(|t| t.clone_object(a, &first, &copy));
    assert_eq!(omaps(&mut h), [(1, 2 * 128), (2, 12)].into());
    h = crashed(&mut factory, h);
    assert_eq!(omaps(&mut h), [(1, 2 * 128), (2, 12)].into(), "from the log");
    h = rested(&factory, h);
    h = crashed(&mut factory, h);
    assert_eq!(omaps(&mut h), [(1, 2 * 128), (2, 12)].into(), "from the tree");
    // A copy over an object whose omap is another.
    h.commit(|t| t.omap_set(a, &copy, entries(0, 100, 10)).clone_object(a, &first, &copy));
    h.commit(|t| {
        t.create_collection(child, 1).split(a, 1, 0, child).change(child, &first, ObjectChange::OmapClear)
    });
    assert_eq!(omaps(&mut h), [(1, 128), (2, 12)].into());
    h.commit(|t| t.remove(child, &copy).remove(b, &other));
    assert_eq!(omaps(&mut h), BTreeMap::new());
    h = rested(&factory, h);
    h = crashed(&mut factory, h);
    assert_eq!(omaps(&mut h), BTreeMap::new());
}

fn range(first: &str, last: &str) -> ObjectChange {
    ObjectChange::OmapRemoveRange { first: first.into(), last: last.into() }
}

/// A long omap that is cleared counts until its keys are removed, whether its object lives on, with another one, or not.
#[test]
fn a_long_omap_that_is_removed_step_by_step_counts_for_its_pool() {
    for is_removed in [false, true] {
        let mut factory = Sim::new(Options::default(), 256 << 10);
        let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
        let (c, large) = (pg(3, 0), object(3, "large", 1));
        h.commit(|t| t.create_collection(c, 0));
        for first in (0..2000).step_by(400) {
            h.commit(|t| t.omap_set(c, &large, entries(first, 400, 20)));
        }
        assert_eq!(omaps(&mut h), [(3, 48_000)].into());
        h.commit(|t| {
            t.change(c, &large, ObjectChange::OmapClear).omap_set(c, &large, entries(0, 2, 20));
            if is_removed { t.remove(c, &large) } else { t }
        });
        assert!(omaps(&mut h)[&3] > 10_000, "most keys are still there");
        h = crashed(&mut factory, h);
        h = rested(&factory, h);
        assert_eq!(omaps(&mut h), if is_removed { BTreeMap::new() } else { [(3, 48)].into() });
        h.commit(|t| t.remove(c, &large));
        h = rested(&factory, h);
        h = crashed(&mut factory, h);
        assert_eq!(omaps(&mut h), BTreeMap::new());
    }
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
