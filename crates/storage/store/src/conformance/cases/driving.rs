//! How a store is driven: tokens, turns, deadlines, acknowledgements that come early or twice.

use super::super::factory::Factory;
use super::super::reads::{data_request, object, pg};
use super::{empty, one_pg, pattern};
use crate::{CollectionId, ReadOutcome, ReadRequest, StoreError, Token, Transaction};

pub fn tokens_may_have_any_value<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.settle();
    for (salt, first) in (1..).zip([0, u64::MAX - 3, 1 << 63, (1 << 32) - 2, (1 << 56) - 1]) {
        h.number_tokens_from(first);
        let mut txn = Transaction::new();
        txn.write(c, &a, 0, pattern(5000, salt));
        let write = h.queue(txn);
        assert_eq!(write, Token(first));
        let read = h.ask(data_request(c, &a, 0, u64::MAX));
        let home = h.shard_of(c);
        let step = h.ask_rehome(c, home, 1);
        assert_eq!(h.outcome(write), Ok(()));
        assert_eq!(h.result(read), Ok(ReadOutcome::Data(pattern(5000, salt))));
        h.wait(step);
        let refused = h.refused(|t| t.touch(pg(9), &a));
        assert_eq!(refused, StoreError::NoSuchCollection(pg(9)));
        h.settle();
    }
}

pub fn a_turn_at_the_time_of_the_last_begins_what_was_queued<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for n in 0..5 {
        h.settle();
        h.turn();
        let mut txn = Transaction::new();
        txn.write(c, &object("a", n), 0, pattern(5000, n));
        let (write, read) = (h.queue(txn), h.ask(data_request(c, &object("a", n), 0, 10)));
        // The clock has not moved.
        h.turn_now();
        assert_eq!(h.outcome(write), Ok(()));
        assert!(h.result(read).is_ok());
    }
}

pub fn a_store_with_nothing_to_do_asks_for_no_turn_now<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for n in 0..20 {
        h.commit(|t| t.write(c, &object("a", n), 0, pattern(50_000, n)));
    }
    assert!(h.comes_to_rest(), "however often it is given a turn, it asks for another at once");
}

pub fn an_acknowledgement_of_what_closes_nothing_is_forgotten<F: Factory>(factory: &mut F) {
    const TOKEN: u64 = 1_000_000;
    let (mut h, c) = one_pg(factory);
    let touch = |name| {
        let mut txn = Transaction::new();
        txn.touch(c, &object(name, 1));
        txn
    };
    h.acknowledge(Token(TOKEN));
    for round in 0..3 {
        h.settle();
        h.number_tokens_from(TOKEN);
        let refused = h.queue({
            let mut txn = touch("bad");
            txn.create_collection(c, 0);
            txn
        });
        assert_eq!(refused, Token(TOKEN));
        assert_eq!(h.outcome(refused), Err(StoreError::CollectionExists(c)));
        let after = h.queue(touch("after"));
        assert_eq!(
            h.outcome(after),
            Err(StoreError::AfterRefused(c)),
            "round {round}: only earlier refusals of that token were acknowledged"
        );
        // The second finds nothing closed.
        h.acknowledge(refused);
        h.acknowledge(refused);
        assert_eq!(h.apply(touch("open")), Ok(()));
    }
}

pub fn a_refusal_closes_collections_that_do_not_exist<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let c = pg(5);
    let mut txn = Transaction::new();
    txn.touch(c, &object("a", 1));
    let refused = h.queue(txn);
    let create = |c: CollectionId| {
        let mut txn = Transaction::new();
        txn.create_collection(c, 0);
        txn
    };
    let after = h.queue(create(c));
    assert_eq!(h.outcome(refused), Err(StoreError::NoSuchCollection(c)));
    let later = h.queue(create(c));
    for token in [after, later] {
        assert_eq!(h.outcome(token), Err(StoreError::AfterRefused(c)), "what is made was to exist before");
    }
    assert_eq!(h.get(ReadRequest::Collection { collection: c }), Ok(ReadOutcome::Collection(None)));
    h.acknowledge(refused);
    assert_eq!(h.apply(create(c)), Ok(()));
}

pub fn the_list_of_collections_is_as_of_what_is_queued<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for n in 1..10 {
        let mut create = Transaction::new();
        create.create_collection(pg(n), 0);
        let create = h.queue(create);
        let made = h.ask(ReadRequest::Collections);
        let mut remove = Transaction::new();
        remove.remove_collection(pg(n));
        let remove = h.queue(remove);
        let removed = h.ask(ReadRequest::Collections);
        assert_eq!(h.result(made), Ok(ReadOutcome::Collections(vec![c, pg(n)])), "it sees what was queued");
        assert_eq!(h.result(removed), Ok(ReadOutcome::Collections(vec![c])), "it sees what was queued");
        assert_eq!((h.outcome(create), h.outcome(remove)), (Ok(()), Ok(())));
    }
}
