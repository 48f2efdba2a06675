//! What is there after a restart, where more than the last transaction depends on it.

use buffer::Piece;

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::history::reopened;
use super::super::reads::{data_request, object, pg, version};
use super::super::space::ROOMY_BYTES;
use super::faults::{BAD, damaged, last_written};
use super::space::{fill, small};
use super::{bytes, one_pg, pattern};
use crate::{
    CollectionId, LogRecordKind, ObjectChange, ReadRequest, Rehoming, StoreError, StoreShard, Token,
    Transaction,
};

/// Opening a store acknowledges every refusal. What was refused because it followed one stays refused.
pub fn what_followed_a_refusal_is_not_there_after_a_power_loss<F: Factory>(factory: &mut F) {
    for seed in 0..8u64 {
        let (mut h, c) = one_pg(factory);
        h.commit(|t| t.touch(c, &object("durable", 1)));
        let touch = |h: &mut Harness<F::Store>, name| {
            let mut txn = Transaction::new();
            txn.touch(c, &object(name, 1));
            h.queue(txn)
        };
        let before = touch(&mut h, "before");
        let mut txn = Transaction::new();
        txn.touch(c, &object("bad", 1)).create_collection(c, 0);
        let refused = h.queue(txn);
        let after = [touch(&mut h, "after"), touch(&mut h, "after that")];
        h.turn();
        let waits = seed % 2 == 0;
        if waits {
            assert_eq!(h.outcome(before), Ok(()));
            assert!(h.outcome(refused).is_err());
            for token in after {
                assert_eq!(h.outcome(token), Err(StoreError::AfterRefused(c)));
            }
        }
        let store = factory.crash(h.abandon(), seed).expect("the properties say so");
        let mut h = Harness::new(store, factory.properties());
        let all = [object("before", 1), object("durable", 1)];
        let list = h.list(c);
        assert!(list.contains(&all[1]) && (!waits || list.contains(&all[0])), "seed {seed}: {list:?}");
        assert!(list.iter().all(|o| all.contains(o)), "seed {seed}: {list:?} has what was refused");
    }
}

/// A transaction of hundreds of steps and megabytes, larger than what a store writes at once.
fn large(c: CollectionId, salt: u32) -> Transaction {
    let mut txn = Transaction::new();
    txn.write(c, &object("whole", 1), 0, pattern(4 << 20, salt));
    for n in 0..400 {
        let value = Piece::copy_from(&salt.to_le_bytes());
        txn.write(c, &object("part", n), 0, pattern(5000, salt));
        txn.omap_set(c, &object("part", n), vec![("salt".into(), value)]);
    }
    txn
}

pub fn a_large_transaction_is_there_whole_or_not_at_all<F: Factory>(factory: &mut F) {
    for seed in 0..6 {
        let (mut h, c) = one_pg(factory);
        assert_eq!(h.apply(large(c, 0)), Ok(()));
        h.queue(large(c, 50));
        h.turn();
        h.queue(large(c, 100));
        h.turn();
        let store = factory.crash(h.abandon(), seed).expect("the properties say so");
        let mut h = Harness::new(store, factory.properties());
        let whole = h.data(c, &object("whole", 1));
        let salt = [0, 50, 100].into_iter().find(|salt| whole == pattern(4 << 20, *salt).to_vec());
        let salt = salt.unwrap_or_else(|| panic!("seed {seed}: a write of megabytes is torn"));
        for n in 0..400 {
            let part = object("part", n);
            assert!(h.data(c, &part) == pattern(5000, salt).to_vec(), "seed {seed}: torn at object {n}");
            assert_eq!(*h.omap(c, &part)[0].1, salt.to_le_bytes(), "seed {seed}: torn at omap {n}");
        }
    }
}

/// A store that is closed in order notes so, and has to take that back before it acknowledges anything else.
pub fn a_power_loss_after_a_restart_loses_nothing_acknowledged<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    // The restarts before each transaction: in order (no seed), or by a power loss.
    let restarts: [&[Option<u64>]; 6] =
        [&[], &[None], &[None, None], &[Some(1), None], &[None, Some(2)], &[Some(3), Some(4)]];
    for (round, restarts) in restarts.iter().enumerate() {
        for restart in *restarts {
            h = reopened(factory, h, *restart).expect("the properties say so");
        }
        for n in 0..3 {
            let salt = (round * 3 + n) as u32;
            h.commit(|t| t.write(c, &a, 0, pattern(9000, salt)).touch(c, &object("n", salt)));
            let store = factory.crash(h.abandon(), u64::from(salt)).expect("the properties say so");
            h = Harness::new(store, factory.properties());
            assert!(h.data(c, &a) == pattern(9000, salt).to_vec(), "{restarts:?}, transaction {n} is lost");
            assert_eq!(h.list(c).len(), salt as usize + 2, "{restarts:?}, transaction {n}");
            if n == 1 {
                // The next is acknowledged by a store that was closed in order.
                h = reopened(factory, h, None).expect("the properties say so");
            }
        }
    }
}

pub fn a_full_store_opened_again_takes_what_makes_room<F: Factory>(factory: &mut F) {
    let (mut h, c) = small(factory);
    let large = fill(&mut h, c, 256 << 10, 0);
    fill(&mut h, c, 4096, 100_000);
    fill(&mut h, c, 1, 200_000);
    let before = h.statfs();
    let mut h = reopened(factory, h, None).expect("the properties say so");
    assert_eq!(h.statfs().data_bytes, before.data_bytes);
    for n in 0..large.min(30) {
        let mut txn = Transaction::new();
        match n % 3 {
            0 => txn.remove(c, &object("full", n)),
            1 => txn.truncate(c, &object("full", n), 100),
            _ => txn.zero(c, &object("full", n), 0, 256 << 10),
        };
        txn.log_append(c, version(u64::from(n) + 1), LogRecordKind::Entry, vec![1; 150]);
        txn.set_info(c, vec![n as u8; 500]);
        assert_eq!(h.apply(txn), Ok(()), "removal {n}: what makes room is taken");
    }
    h.commit(|t| t.write(c, &object("again", 1), 0, pattern(1 << 20, 1)));
}

fn is_checksum<T: std::fmt::Debug>(result: &Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Checksum { .. }))
}

pub fn a_damaged_block_is_not_washed_clean_by_changes_of_its_object<F: Factory>(factory: &mut F) {
    let renamed = object("renamed", 2);
    let (c, bad) = (pg(0), object("bad", 2));
    let mut changes =
        ["truncate", "zero", "attributes", "rename", "split"].map(|name| (name, Transaction::new()));
    changes[0].1.truncate(c, &bad, BAD + 10);
    changes[1].1.zero(c, &bad, BAD + 1, 10);
    changes[2].1.change(c, &bad, ObjectChange::RemoveAttrs);
    changes[3].1.rename((c, &bad), (c, &renamed));
    changes[4].1.log_trim(c, Default::default()).create_collection(pg(1), 0).split(c, 2, 2, pg(1));
    for (name, change) in changes {
        let mut h = damaged(factory).0;
        let outcome = h.apply(change);
        assert!(outcome.is_ok() || is_checksum(&outcome), "{name}: {outcome:?}");
        let place = match (name, &outcome) {
            ("rename", Ok(())) => (c, &renamed),
            ("split", Ok(())) => (pg(1), &bad),
            _ => (c, &bad),
        };
        for (offset, len) in [(0, u64::MAX), (BAD, 1)] {
            let got = h.get(data_request(place.0, place.1, offset, len));
            assert!(is_checksum(&got), "{name}: the bad block reads as good");
        }
    }
}

pub fn a_damaged_block_is_not_washed_clean_by_rehoming<F: Factory>(factory: &mut F) {
    let (mut h, c) = damaged(factory);
    let to = StoreShard((h.shard_of(c).0 + 1) % h.shards());
    let step = h.rehome(c, to, 100);
    if let Err(error) = &step {
        assert!(matches!(error, StoreError::Checksum { .. }), "{error}");
    }
    assert!(is_checksum(&h.get(data_request(c, &object("bad", 2), BAD, 1))), "the bad block reads as good");
    assert!(h.data(c, &object("good", 1)).len() > BAD as usize, "its neighbour is read");
}

pub fn a_failed_commit_ends_everything_in_flight<F: Factory>(factory: &mut F) {
    const ACKNOWLEDGED: u32 = 5;
    let mut h = Harness::new(factory.fresh(ROOMY_BYTES), factory.properties());
    let (c, a) = (pg(0), object("a", 1));
    h.commit(|t| t.create_collection(c, 0));
    let write = |h: &mut Harness<F::Store>, i: u32| {
        let mut txn = Transaction::new();
        txn.write(c, &a, 0, pattern(20_000, i)).set_attr(c, &a, "n", i.to_le_bytes().to_vec());
        h.queue(txn)
    };
    for i in 1..=ACKNOWLEDGED {
        let token = write(&mut h, i);
        assert_eq!(h.outcome(token), Ok(()));
    }
    assert!(factory.fail_commits(h.store()), "the properties say that it can");
    let mut tokens: Vec<Token> = Vec::new();
    for i in 1..=12 {
        tokens.push(write(&mut h, ACKNOWLEDGED + i));
        if i % 3 == 0 {
            h.turn();
        }
    }
    let reads = [data_request(c, &a, 0, u64::MAX), ReadRequest::Collections].map(|read| h.ask(read));
    for token in tokens {
        let outcome = h.outcome(token);
        let stopped = matches!(outcome, Err(StoreError::Io { .. } | StoreError::Stopped));
        assert!(stopped, "{token:?} is not durable: {outcome:?}");
        h.acknowledge(token);
    }
    for read in reads {
        // What they answer is the store's to say: but they are answered.
        let _ = h.result(read);
    }
    let _ = h.get(data_request(c, &a, 0, u64::MAX));
    if h.shards() > 1 {
        let to = StoreShard((h.shard_of(c).0 + 1) % h.shards());
        let step = h.rehome(c, to, 10);
        assert!(!matches!(step, Ok(Rehoming::Continues | Rehoming::Done)), "a step is durable: {step:?}");
    }
    let store = factory.reopen(h.take()).expect("the properties say so");
    let mut h = Harness::new(store, factory.properties());
    let n = last_written(&mut h, c);
    assert!((ACKNOWLEDGED..=ACKNOWLEDGED + 12).contains(&n), "{n} is there");
    assert!(h.data(c, &a) == pattern(20_000, n).to_vec(), "transaction {n} is there whole");
    h.commit(|t| t.set_attr(c, &a, "x", bytes("y")));
}
