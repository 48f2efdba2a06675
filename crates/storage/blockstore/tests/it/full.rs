//! A store with hardly a free block: it goes on, and what is not needed any more comes back.

use crate::common::{Sim, Simulated};
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{CollectionId, ObjectChange, Transaction};
use types::{GHObject, HObject, Name, PoolId};

/// More than what is written by way of the log.
const OBJECT_BYTES: usize = 64 << 10;

fn object(n: usize) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("{n}").as_str().into(), n as u32).into()
}

fn written(n: usize, value: u8) -> Transaction {
    let mut txn = Transaction::new();
    txn.write(CollectionId::Meta, &object(n), 0, vec![value; OBJECT_BYTES].into());
    txn
}

/// The objects that fit, all written.
fn filled(h: &mut Harness<Simulated>) -> usize {
    (0..).find(|n| h.apply(written(*n, 1)).is_err()).expect("it is full at some time")
}

/// Objects that have nothing but attributes.
fn plain(n: usize) -> GHObject {
    HObject::head(PoolId(2), Name::new(), Name::new(), format!("{n}").as_str().into(), n as u32).into()
}

fn set_attributes(
    h: &mut Harness<Simulated>,
    objects: impl Iterator<Item = usize>,
    name: &str,
    bytes: usize,
) {
    for n in objects {
        h.commit(|t| t.set_attr(CollectionId::Meta, &plain(n), name, vec![1; bytes]));
    }
}

fn remove_attributes(h: &mut Harness<Simulated>, objects: usize) {
    for n in 0..objects {
        h.commit(|t| t.change(CollectionId::Meta, &plain(n), ObjectChange::RemoveAttrs));
    }
}

fn checkpointed(h: &mut Harness<Simulated>) {
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
}

fn opened() -> Harness<Simulated> {
    let options = Options { pages_per_turn: 1, ..Options::default() };
    let mut factory = Sim::new(options, 16 << 20);
    let mut h = Harness::new(factory.fresh(16 << 20), factory.properties());
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    h
}

/// Fills a store but for the room that an overwrite's payload must have beside what there is. Returns how many objects there are.
fn fill(h: &mut Harness<Simulated>) -> usize {
    let objects = filled(h) - 2;
    h.commit(|t| t.remove(CollectionId::Meta, &object(objects)));
    h.commit(|t| t.remove(CollectionId::Meta, &object(objects + 1)));
    objects
}

/// Overwrites all objects while a checkpoint writes what has changed. An overwrite has new blocks, and the old ones come back
/// later: without a bound such writes take all that are free.
fn overwrite_during_a_checkpoint(h: &mut Harness<Simulated>, objects: usize) {
    // Small overwrites, which the checkpoint first brings to their places: until then no block comes back.
    for n in 0..objects {
        h.commit(|t| t.write(CollectionId::Meta, &object(n), 0, vec![1; 4096].into()));
    }
    h.store().store.request_checkpoint();
    let mut queued = Vec::new();
    for round in 0_u8..10 {
        for n in 0..objects {
            queued.push(h.queue(written(n, round + 2)));
            h.turn();
        }
    }
    for token in queued {
        assert_eq!(h.outcome(token), Ok(()));
    }
    for n in 0..objects {
        assert!(h.data(CollectionId::Meta, &object(n)) == [11; OBJECT_BYTES], "object {n}");
    }
}

#[test]
fn a_checkpoint_of_a_full_store_has_the_blocks_that_it_needs() {
    let mut h = opened();
    set_attributes(&mut h, 0..200, "a", 5_000);
    let objects = fill(&mut h);
    // The tree is small again, and what the checkpoint has to write is large.
    remove_attributes(&mut h, 200);
    checkpointed(&mut h);
    set_attributes(&mut h, 0..200, "a", 5_000);
    overwrite_during_a_checkpoint(&mut h, objects);
}

#[test]
fn a_checkpoint_that_divides_every_leaf_has_blocks_for_that() {
    const SMALL: usize = 2_000;
    let mut h = opened();
    set_attributes(&mut h, 0..SMALL, "a", 480);
    let objects = fill(&mut h);
    // One checkpoint writes all entries in order, which fills their leaves.
    remove_attributes(&mut h, SMALL);
    checkpointed(&mut h);
    set_attributes(&mut h, 0..SMALL, "a", 480);
    checkpointed(&mut h);
    set_attributes(&mut h, (0..SMALL).step_by(12), "b", 20);
    overwrite_during_a_checkpoint(&mut h, objects);
}
