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

/// Attributes of a megabyte in all, or none.
fn set_attributes(h: &mut Harness<Simulated>, bytes: Option<usize>) {
    for n in 0..200 {
        h.commit(|t| match bytes {
            Some(bytes) => t.set_attr(CollectionId::Meta, &object(n), "a", vec![1; bytes]),
            None => t.change(CollectionId::Meta, &object(n), ObjectChange::RemoveAttrs),
        });
    }
}

fn checkpointed(h: &mut Harness<Simulated>) {
    h.store().store.request_checkpoint();
    while !h.store().store.is_clean() {
        h.turn();
    }
}

#[test]
fn a_checkpoint_of_a_full_store_has_the_blocks_that_it_needs() {
    let options = Options { pages_per_turn: 1, ..Options::default() };
    let mut factory = Sim::new(options, 16 << 20);
    let mut h = Harness::new(factory.fresh(16 << 20), factory.properties());
    h.commit(|t| t.create_collection(CollectionId::Meta, 0));
    set_attributes(&mut h, Some(5_000));
    // An overwrite is taken if its payload has room beside what there is.
    let objects = filled(&mut h) - 2;
    h.commit(|t| t.remove(CollectionId::Meta, &object(objects)));
    h.commit(|t| t.remove(CollectionId::Meta, &object(objects + 1)));
    // The tree is small again, and what the checkpoint has to write is large.
    set_attributes(&mut h, None);
    checkpointed(&mut h);
    set_attributes(&mut h, Some(5_000));
    // Small overwrites, which the checkpoint first brings to their places: until then no block comes back.
    for n in 0..objects {
        h.commit(|t| t.write(CollectionId::Meta, &object(n), 0, vec![1; 4096].into()));
    }
    h.store().store.request_checkpoint();
    let mut queued = Vec::new();
    // An overwrite has new blocks, and the old ones come back later: without a bound such writes take all that are free.
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
