//! Moving collections between shards.

use types::GHObject;

use super::super::compare::compare_all;
use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::history::homes;
use super::super::model::Model;
use super::super::reads::{data_request, list_request, object, pg, version};
use super::super::space::rehome_whole;
use super::{bytes, empty, one_pg, pairs, pattern};
use crate::{
    CollectionId, CollectionStat, LogRecordKind, ReadOutcome, ReadRequest, Rehoming, StoreError, StoreShard,
    Transaction,
};

const OBJECTS: u32 = 20;

/// A store with a collection of some objects, and another shard than its own.
fn some_objects<F: Factory>(factory: &mut F) -> (Harness<F::Store>, Model, StoreShard) {
    let mut h = empty(factory);
    let mut model = Model::new(homes(&mut h));
    let mut txn = Transaction::new();
    txn.create_collection(pg(0), 0).set_info(pg(0), bytes("info"));
    txn.log_append(pg(0), version(3), LogRecordKind::Duplicate, bytes("record"));
    for i in 0..OBJECTS {
        let object = object(&format!("o{i}"), i.wrapping_mul(0x9e37_79b9));
        txn.write(pg(0), &object, 0, pattern(5000, i)).omap_set(pg(0), &object, pairs(&[("k", "v")]));
    }
    assert_eq!((h.apply(txn.clone()), model.apply(&txn)), (Ok(()), Ok(())));
    let other = StoreShard((h.shard_of(pg(0)).0 + 1) % h.shards());
    (h, model, other)
}

pub fn rehoming_to_where_it_is_or_nowhere<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (home, shards) = (h.shard_of(c), h.shards());
    assert_eq!(h.rehome(c, home, 1), Ok(Rehoming::Done));
    let nowhere = StoreShard(shards);
    assert_eq!(h.rehome(c, nowhere, 1), Err(StoreError::NoSuchShard { shard: nowhere, shards }));
    assert_eq!(h.rehome(pg(9), home, 1), Err(StoreError::NoSuchCollection(pg(9))));
    h.commit(|t| t.touch(c, &object("a", 1)));
    let mut txn = Transaction::new();
    txn.create_collection(c, 1);
    let refused = h.queue(txn);
    assert_eq!(h.rehome(c, home, 1), Err(StoreError::AfterRefused(c)), "a closed collection does not move");
    h.acknowledge(refused);
    assert_eq!(h.rehome(c, home, 1), Ok(Rehoming::Done));
}

pub fn a_collection_moves_in_bounded_steps_and_is_read_meanwhile<F: Factory>(factory: &mut F) {
    let (mut h, mut model, to) = some_objects(factory);
    let (c, home) = (pg(0), h.shard_of(pg(0)));
    let before = h.statfs();
    for step in 1.. {
        let answer = h.rehome(c, to, 3);
        model.rehome(c, to, &answer);
        compare_all(&mut h, &model, &format!("step {step}"));
        assert_eq!(h.statfs().objects, before.objects, "step {step}: each object is counted once");
        if answer == Ok(Rehoming::Done) {
            assert!(step * 3 >= OBJECTS, "step {step} was the last, and moved more than it may");
            break;
        }
        assert_eq!(h.shard_of(c), home, "until it is done the collection is where it comes from");
        let stat = h.get(ReadRequest::Collection { collection: c });
        let want = CollectionStat { bits: 0, info: bytes("info"), rehoming: Some(to) };
        assert_eq!(stat, Ok(ReadOutcome::Collection(Some(want))));
        let refused = h.refused(|t| t.touch(c, &object("new", 1)));
        assert_eq!(refused, StoreError::Rehoming { collection: c, to });
        if step == 2 {
            third_shard_is_refused(&mut h, c, (home, to));
        }
        assert!(step < 100, "it ends");
    }
    assert_eq!(h.shard_of(c), to);
    h.commit(|t| t.write(c, &object("o1", 0x9e37_79b9), 0, pattern(100, 9)).touch(c, &object("new", 1)));
    assert_eq!(h.list(c).len() as u32, OBJECTS + 1);
}

fn third_shard_is_refused<S: crate::ObjectStore>(
    h: &mut Harness<S>,
    c: CollectionId,
    (home, to): (StoreShard, StoreShard),
) {
    if let Some(third) = (0..h.shards()).map(StoreShard).find(|s| *s != home && *s != to) {
        assert_eq!(h.rehome(c, third, 3), Err(StoreError::Rehoming { collection: c, to }));
    }
}

pub fn a_collection_on_its_way_can_turn_back<F: Factory>(factory: &mut F) {
    let (mut h, mut model, to) = some_objects(factory);
    let (c, home) = (pg(0), h.shard_of(pg(0)));
    for way in [home, to] {
        for _ in 0..3 {
            let answer = h.rehome(c, to, 4);
            model.rehome(c, to, &answer);
        }
        rehome_whole(&mut h, &mut model, c, way, 5);
        compare_all(&mut h, &model, "turned back");
        assert_eq!(h.shard_of(c), way);
        let mut txn = Transaction::new();
        txn.touch(c, &GHObject::from(object("again", 5).hobj)).set_info(c, bytes("again"));
        assert_eq!((h.apply(txn.clone()), model.apply(&txn)), (Ok(()), Ok(())));
        rehome_whole(&mut h, &mut model, c, home, 50);
    }
}

pub fn rehoming_with_requests_in_flight_keeps_their_order<F: Factory>(factory: &mut F) {
    let (mut h, _, to) = some_objects(factory);
    let (c, home) = (pg(0), h.shard_of(pg(0)));
    let last = object("last", 77);
    let write = |h: &mut Harness<F::Store>, salt| {
        let mut txn = Transaction::new();
        txn.write(c, &last, 0, pattern(9000, salt));
        h.queue(txn)
    };
    let first = write(&mut h, 1);
    let read = h.ask(data_request(c, &last, 0, u64::MAX));
    // More objects than there are: done in one step.
    let moved = h.ask_rehome(c, to, 1000);
    let second = write(&mut h, 2);
    let (list, read_again) = (h.ask(list_request(c)), h.ask(data_request(c, &last, 0, u64::MAX)));
    h.turn();
    let back = h.ask_rehome(c, home, 1000);
    let third = write(&mut h, 3);
    let read_last = h.ask(data_request(c, &last, 0, u64::MAX));
    for txn in [first, second, third] {
        assert_eq!(h.outcome(txn), Ok(()));
    }
    for (read, salt) in [(read, 1), (read_again, 2), (read_last, 3)] {
        assert_eq!(h.result(read), Ok(ReadOutcome::Data(pattern(9000, salt))));
    }
    assert!(
        matches!(h.result(list), Ok(ReadOutcome::Objects(page)) if page.objects.len() as u32 == OBJECTS + 1)
    );
    for step in [moved, back] {
        let completion = h.wait(step);
        let done = crate::Completion::Rehomed { token: step, result: Ok(Rehoming::Done) };
        assert_eq!(completion, done);
    }
    assert_eq!(h.shard_of(c), home);
}
