//! What a refusal closes, and what opens it again.

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::history::reopened;
use super::super::reads::{list_request, object, pg};
use super::{bytes, empty, one_pg, pattern};
use crate::{
    CollectionId, INFO_BYTES_MAX, ObjectChange, ObjectStore, ReadOutcome, StoreError, StoreShard, Token,
    Transaction,
};

/// Collections of one shard.
fn three_pgs<F: Factory>(factory: &mut F) -> (Harness<F::Store>, [CollectionId; 3]) {
    let mut h = empty(factory);
    h.commit(|t| t.create_collection(pg(0), 0).create_collection(pg(1), 0).create_collection(pg(2), 0));
    (h, [pg(0), pg(1), pg(2)])
}

fn touch<S: ObjectStore>(h: &mut Harness<S>, collections: &[CollectionId], name: &str) -> Token {
    let mut txn = Transaction::new();
    for collection in collections {
        txn.touch(*collection, &object(name, 1));
    }
    h.queue(txn)
}

/// Queues what no store applies.
fn bad<S: ObjectStore>(h: &mut Harness<S>, collection: CollectionId) -> Token {
    let mut txn = Transaction::new();
    txn.touch(collection, &object("bad", 1)).create_collection(collection, 0);
    h.queue(txn)
}

pub fn a_refusal_closes_its_collections_until_it_is_acknowledged<F: Factory>(factory: &mut F) {
    let (mut h, [a, b, c]) = three_pgs(factory);
    let before = touch(&mut h, &[a], "before");
    let refused = bad(&mut h, a);
    let after = touch(&mut h, &[a], "after");
    let read = h.ask(list_request(a));
    let elsewhere = touch(&mut h, &[b], "elsewhere");
    let spanning = touch(&mut h, &[a, c], "spanning");
    let closed_by_it = touch(&mut h, &[c], "closed");
    assert_eq!(h.outcome(before), Ok(()));
    assert_eq!(h.outcome(refused), Err(StoreError::CollectionExists(a)));
    assert_eq!(h.outcome(after), Err(StoreError::AfterRefused(a)));
    assert!(h.result(read).is_ok(), "reads go on");
    assert_eq!(h.outcome(elsewhere), Ok(()), "another collection is not closed");
    assert_eq!(h.outcome(spanning), Err(StoreError::AfterRefused(a)));
    assert_eq!(
        h.outcome(closed_by_it),
        Err(StoreError::AfterRefused(c)),
        "what is refused closes all it names"
    );
    // Tokens that close nothing: the refusal that closed the collections is another.
    [before, after, spanning, closed_by_it].into_iter().for_each(|token| h.acknowledge(token));
    let still = touch(&mut h, &[c, a], "still");
    assert_eq!(h.outcome(still), Err(StoreError::AfterRefused(a)));
    h.acknowledge(refused);
    let open = touch(&mut h, &[a, b, c], "open");
    assert_eq!(h.outcome(open), Ok(()), "one acknowledgement opens all that was closed by it");
    assert_eq!(h.list(a), vec![object("before", 1), object("open", 1)]);
    assert_eq!(h.list(c), vec![object("open", 1)]);
}

pub fn each_refusal_is_acknowledged_by_itself<F: Factory>(factory: &mut F) {
    let (mut h, [a, b, _]) = three_pgs(factory);
    let (first, second) = (bad(&mut h, a), bad(&mut h, b));
    h.settle();
    h.acknowledge(second);
    let (of_a, of_b) = (touch(&mut h, &[a], "x"), touch(&mut h, &[b], "x"));
    assert_eq!(h.outcome(of_a), Err(StoreError::AfterRefused(a)));
    assert_eq!(h.outcome(of_b), Ok(()));
    let both = touch(&mut h, &[a, b], "y");
    assert_eq!(h.outcome(both), Err(StoreError::AfterRefused(a)));
    h.acknowledge(first);
    // In one burst: refused again, and acknowledged before what follows it completes.
    let again = bad(&mut h, a);
    h.turn();
    assert!(h.outcome(again).is_err());
    h.acknowledge(again);
    let open = touch(&mut h, &[a, b], "z");
    assert_eq!(h.outcome(open), Ok(()));
}

pub fn opening_a_store_again_acknowledges_everything<F: Factory>(factory: &mut F) {
    let (mut h, [a, _, _]) = three_pgs(factory);
    let refused = bad(&mut h, a);
    h.settle();
    let mut h = reopened(factory, h, None).expect("the properties say so");
    assert!(h.ready(refused).is_none());
    h.commit(|t| t.touch(a, &object("open", 1)));
    assert_eq!(h.list(a), vec![object("open", 1)]);
}

pub fn limits_are_held_to_the_byte<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.commit(|t| t.set_info(c, vec![7; INFO_BYTES_MAX]));
    let bytes_over = INFO_BYTES_MAX + 1;
    let too_large = h.refused(|t| t.set_info(c, vec![7; bytes_over]));
    assert_eq!(too_large, StoreError::InfoTooLarge { bytes: bytes_over });
    let write = |offset, len, checksums: usize| ObjectChange::Write {
        offset,
        data: pattern(len, 1),
        advice: Default::default(),
        checksums: Some(vec![0; checksums]),
    };
    for (offset, bytes, checksums) in [(1, 4096, 1), (0, 4095, 1), (0, 4096, 2), (0, 8192, 1), (4096, 100, 0)]
    {
        let got = h.refused(|t| t.change(c, &a, write(offset, bytes, checksums)));
        assert_eq!(got, StoreError::BadChecksums { offset, bytes, checksums });
    }
    assert_eq!(h.size(c, &a), None);
    h.commit(|t| t.change(c, &a, write(0, 0, 0)));
    assert_eq!(h.size(c, &a), Some(0), "no bytes need no checksums");
    h.commit(|t| t.set_attr(c, &a, "x", bytes("y")));
}

pub fn collections_of_two_shards_share_no_transaction<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let in_shard = |shard: StoreShard, h: &mut Harness<F::Store>| {
        let id =
            (0..1000).map(pg).find(|id| h.shard_of(*id) == shard).expect("collections go to every shard");
        h.commit(|t| t.create_collection(id, 0));
        id
    };
    let (a, b) = (in_shard(StoreShard(0), &mut h), in_shard(StoreShard(1), &mut h));
    let across = touch(&mut h, &[a, b], "x");
    let (after_a, after_b) = (touch(&mut h, &[a], "x"), touch(&mut h, &[b], "x"));
    match h.outcome(across) {
        Err(StoreError::AcrossShards { first, second }) => {
            assert_eq!((first.min(second), first.max(second)), (a.min(b), a.max(b)))
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(h.outcome(after_a), Err(StoreError::AfterRefused(a)), "both are closed");
    assert_eq!(h.outcome(after_b), Err(StoreError::AfterRefused(b)), "both are closed");
    h.acknowledge(across);
    let (of_a, of_b) = (touch(&mut h, &[a], "y"), touch(&mut h, &[b], "y"));
    assert_eq!((h.outcome(of_a), h.outcome(of_b)), (Ok(()), Ok(())));
    assert_eq!((h.list(a), h.list(b)), (vec![object("y", 1)], vec![object("y", 1)]));
}

pub fn an_acknowledgement_opens_for_what_is_queued_after_it<F: Factory>(factory: &mut F) {
    let (mut h, [a, _, _]) = three_pgs(factory);
    for round in 0..3 {
        let refused = bad(&mut h, a);
        assert!(h.outcome(refused).is_err());
        // All in one burst.
        let before = touch(&mut h, &[a], "before");
        h.acknowledge(refused);
        let (name, read) = (format!("after{round}"), h.ask(list_request(a)));
        let after = touch(&mut h, &[a], &name);
        assert_eq!(h.outcome(before), Err(StoreError::AfterRefused(a)), "it was queued before");
        assert_eq!(h.outcome(after), Ok(()));
        assert!(matches!(h.result(read), Ok(ReadOutcome::Objects(page)) if page.objects.len() == round));
    }
}
