//! Space: what a store counts depends on what it holds alone, to the byte, not on how that came about.

use types::GHObject;

use super::factory::{Contents, Factory};
use super::harness::Harness;
use super::model::Model;
use crate::{CollectionId, ObjectStore, StatFs, StoreShard, Transaction};

/// Bytes of the stores of most cases.
pub const ROOMY_BYTES: u64 = 1 << 30;

/// Objects that one transaction removes.
const REMOVED_AT_ONCE: usize = 50;

/// Compares the store's counts with the model's contents, and its allocated bytes with those of a fresh store that was
/// given the same objects in order. Leaves the contents as they are.
///
/// # Panics
/// Where they differ; the message has `when`.
pub fn check_space<F: Factory>(factory: &mut F, h: &mut Harness<F::Store>, model: &Model, when: &str) {
    let contents = model.contents();
    if factory.properties().shares_blocks {
        for_each_object(model, |collection, object| rewrite(h, collection, object));
    }
    let statfs = h.statfs();
    let max = factory.metadata_bytes_max(&contents);
    assert_eq!(statfs.objects, contents.objects, "{when}: objects counted");
    assert!(
        statfs.metadata_bytes <= max,
        "{when}: {} bytes of metadata, at most {max} are allowed for {contents:?}",
        statfs.metadata_bytes
    );
    let fresh = copy_of(factory, h, model).statfs();
    let between = |id| model.get(id).is_some_and(|c| c.rehoming.is_some());
    if factory.properties().shares_blocks && model.collections().into_iter().any(between) {
        // What is between two shards can't be written over, so it may still share blocks, which the copy does not.
        assert!(statfs.data_bytes <= fresh.data_bytes, "{when}: {statfs:?} beside a copy's {fresh:?}");
    } else {
        assert_eq!(statfs.data_bytes, fresh.data_bytes, "{when}: data bytes, beside those of a fresh copy");
    }
    assert!(statfs.bytes_available <= statfs.bytes_total, "{when}: {statfs:?}");
}

fn for_each_object(model: &Model, mut each: impl FnMut(CollectionId, &GHObject)) {
    for collection in model.collections() {
        // One that is between two shards takes no transactions.
        if model.get(collection).is_some_and(|c| c.rehoming.is_none()) {
            model.objects(collection).iter().for_each(|object| each(collection, object));
        }
    }
}

/// Writes what an object has over itself, so that it shares no block.
fn rewrite<S: ObjectStore>(h: &mut Harness<S>, collection: CollectionId, object: &GHObject) {
    let mut txn = Transaction::new();
    for (offset, len) in h.extents(collection, object) {
        txn.write(collection, object, offset, h.data_range(collection, object, offset, len).into());
    }
    h.apply(txn).expect("objects may be written over themselves");
}

/// A fresh store with the same objects, made of their extents.
fn copy_of<F: Factory>(factory: &mut F, h: &mut Harness<F::Store>, model: &Model) -> Harness<F::Store> {
    let mut fresh = Harness::new(factory.fresh(ROOMY_BYTES), factory.properties());
    for collection in model.collections() {
        fresh.commit(|txn| txn.create_collection(collection, 0));
        for object in &model.objects(collection) {
            let mut txn = Transaction::new();
            for (offset, len) in h.extents(collection, object) {
                txn.write(collection, object, offset, h.data_range(collection, object, offset, len).into());
            }
            txn.truncate(collection, object, h.size(collection, object).expect("it is listed"));
            fresh.apply(txn).expect("the copy takes what the original has");
        }
    }
    fresh
}

/// Finishes what is between two shards, empties every collection, and checks that space comes back to the byte; then
/// removes the collections.
///
/// # Panics
/// If it doesn't.
pub fn check_removal<F: Factory>(factory: &mut F, h: &mut Harness<F::Store>, model: &mut Model, when: &str) {
    let empty = Harness::new(factory.fresh(ROOMY_BYTES), factory.properties()).statfs();
    for collection in model.collections() {
        finish_rehoming(h, model, collection);
        empty_collection(h, model, collection);
    }
    let collections = model.contents();
    assert_eq!((collections.objects, collections.log_records), (0, 0), "everything was removed");
    check_emptied(factory, h, (&collections, &empty), &format!("{when}, emptied"));
    for collection in model.collections() {
        let mut txn = Transaction::new();
        txn.remove_collection(collection);
        h.apply(txn.clone()).expect("an empty collection may be removed");
        model.apply(&txn).expect("an empty collection may be removed");
    }
    check_emptied(factory, h, (&Contents::default(), &empty), &format!("{when}, without collections"));
}

fn check_emptied<F: Factory>(
    factory: &mut F,
    h: &mut Harness<F::Store>,
    (contents, empty): (&Contents, &StatFs),
    when: &str,
) {
    let statfs = h.statfs();
    assert_eq!((statfs.objects, statfs.data_bytes), (0, empty.data_bytes), "{when}: space comes back");
    let max = factory.metadata_bytes_max(contents);
    assert!(statfs.metadata_bytes <= max, "{when}: {statfs:?}, at most {max} bytes of metadata are allowed");
    assert!(
        statfs.bytes_available + max >= empty.bytes_available,
        "{when}: {} bytes are available, in an empty store {}",
        statfs.bytes_available,
        empty.bytes_available
    );
}

/// Goes on with re-homing until it is done, if the collection is between two shards.
pub fn finish_rehoming<S: ObjectStore>(h: &mut Harness<S>, model: &mut Model, collection: CollectionId) {
    if let Some(to) = model.get(collection).and_then(|c| c.rehoming) {
        rehome_whole(h, model, collection, to, 16);
    }
}

/// Re-homes a collection, however many steps it takes.
///
/// # Panics
/// If it takes many more steps than it has objects.
pub fn rehome_whole<S: ObjectStore>(
    h: &mut Harness<S>,
    model: &mut Model,
    collection: CollectionId,
    to: StoreShard,
    objects_max: usize,
) {
    let steps_max = 16 + 2 * model.objects(collection).len();
    for _ in 0..steps_max {
        let answer = h.rehome(collection, to, objects_max);
        model.rehome(collection, to, &answer);
        if model.get(collection).is_none_or(|c| c.shard == to && c.rehoming.is_none()) {
            assert_eq!(h.shard_of(collection), to, "{collection} was re-homed");
            return;
        }
    }
    panic!("{collection} is not in {to:?} after {steps_max} steps of {objects_max} objects");
}

fn empty_collection<S: ObjectStore>(h: &mut Harness<S>, model: &mut Model, collection: CollectionId) {
    let objects = model.objects(collection);
    let mut apply = |txn: Transaction| {
        h.apply(txn.clone()).expect("a removal is taken");
        model.apply(&txn).expect("a removal is taken");
    };
    for some in objects.chunks(REMOVED_AT_ONCE) {
        let mut txn = Transaction::new();
        for object in some {
            txn.remove(collection, object);
        }
        apply(txn);
    }
    let mut txn = Transaction::new();
    txn.log_rewind(collection, Default::default()).set_info(collection, Vec::new());
    apply(txn);
}
