//! Bad blocks and failing commits.

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::reads::{data_request, object, pg};
use super::{bytes, empty, one_pg, pattern};
use crate::{CollectionId, Fault, ObjectStore, ReadOutcome, ReadRequest, StoreError, Transaction};

const LEN: usize = 256 << 10;
/// The byte that is damaged, and the largest block that a store may have one checksum for.
pub(super) const BAD: u64 = 100_000;
const BLOCK_MAX: u64 = 64 << 10;

/// A store with `bad`, of which a byte is damaged, and `good`.
pub(super) fn damaged<F: Factory>(factory: &mut F) -> (Harness<F::Store>, CollectionId) {
    let (mut h, c) = one_pg(factory);
    h.commit(|t| {
        t.write(c, &object("good", 1), 0, pattern(LEN, 1)).write(c, &object("bad", 2), 0, pattern(LEN, 2))
    });
    h.commit(|t| t.set_attr(c, &object("bad", 2), "x", bytes("y")));
    let store = factory.reopen(h.take()).expect("the properties say so");
    let store = factory.damage(store, c, &object("bad", 2), BAD).expect("the properties say so");
    (Harness::new(store, factory.properties()), c)
}

/// Fails unless the read or transaction found the bad block.
fn is_checksum(error: &StoreError, c: CollectionId) {
    match error {
        StoreError::Checksum { collection, object: name, offset } => {
            assert_eq!((*collection, &**name), (c, &object("bad", 2)));
            assert!(*offset <= BAD && BAD < offset + BLOCK_MAX, "byte {BAD} was damaged, {offset} is named");
            assert_eq!((error.fault(), error.errno()), (Fault::Disk, types::Errno::EIO));
        }
        other => panic!("a checksum error is due: {other:?}"),
    }
}

pub fn a_damaged_block_is_named_and_its_neighbours_are_read<F: Factory>(factory: &mut F) {
    let (mut h, c) = damaged(factory);
    let bad = object("bad", 2);
    for (offset, len) in [(0, u64::MAX), (BAD, 1), (BAD - 10, 20)] {
        for verify in [false, true] {
            let advice = Default::default();
            let read = ReadRequest::Data { collection: c, object: bad.clone(), offset, len, advice, verify };
            is_checksum(&h.get(read).expect_err("bad bytes are never returned"), c);
        }
    }
    let data = pattern(LEN, 2).to_vec();
    let (before, behind) = ((BAD - BLOCK_MAX) as usize, (BAD + BLOCK_MAX) as usize);
    assert!(h.data_range(c, &bad, 0, before as u64) == data[..before], "what is before the block is fine");
    assert!(h.data_range(c, &bad, behind as u64, u64::MAX) == data[behind..], "what is behind it too");
    assert!(h.data(c, &object("good", 1)) == pattern(LEN, 1).to_vec(), "and other objects");
    let attr = ReadRequest::Attr { collection: c, object: bad, name: "x".into() };
    assert_eq!(h.get(attr), Ok(ReadOutcome::Attr(bytes("y"))));
}

pub fn a_partial_overwrite_of_a_damaged_block_is_refused<F: Factory>(factory: &mut F) {
    let (mut h, c) = damaged(factory);
    let bad = object("bad", 2);
    let mut txn = Transaction::new();
    txn.touch(c, &object("new", 3)).write(c, &bad, BAD + 1, pattern(10, 7));
    let refused = h.queue(txn);
    let mut txn = Transaction::new();
    txn.touch(c, &object("new", 3));
    let after = h.queue(txn);
    is_checksum(&h.outcome(refused).expect_err("the rest of the block can't be known"), c);
    assert_eq!(h.outcome(after), Err(StoreError::AfterRefused(c)));
    h.acknowledge(refused);
    assert_eq!(h.size(c, &object("new", 3)), None, "refused whole");
    h.commit(|t| t.write(c, &bad, 0, pattern(4096, 9)).set_attr(c, &bad, "x", bytes("z")));
    is_checksum(&h.get(data_request(c, &bad, 0, u64::MAX)).expect_err("the block is still bad"), c);
}

pub fn a_damaged_block_that_is_overwritten_whole_is_good_again<F: Factory>(factory: &mut F) {
    let (mut h, c) = damaged(factory);
    let bad = object("bad", 2);
    let start = BAD / BLOCK_MAX * BLOCK_MAX;
    h.commit(|t| t.write(c, &bad, start, pattern(BLOCK_MAX as usize, 8)));
    let mut want = pattern(LEN, 2).to_vec();
    want[start as usize..(start + BLOCK_MAX) as usize]
        .copy_from_slice(&pattern(BLOCK_MAX as usize, 8).to_vec());
    assert!(h.data(c, &bad) == want);
    let (mut h, c) = damaged(factory);
    h.commit(|t| t.write(c, &bad, 0, pattern(LEN, 9)));
    assert!(h.data(c, &bad) == pattern(LEN, 9).to_vec());
    let (mut h, c) = damaged(factory);
    h.commit(|t| t.remove(c, &bad).write(c, &bad, 0, pattern(LEN, 5)));
    assert!(h.data(c, &bad) == pattern(LEN, 5).to_vec());
}

pub fn a_damaged_block_is_not_washed_clean_by_a_clone<F: Factory>(factory: &mut F) {
    for range in [false, true] {
        let (mut h, c) = damaged(factory);
        let (bad, copy) = (object("bad", 2), object("copy", 2));
        let mut txn = Transaction::new();
        match range {
            false => txn.clone_object(c, &bad, &copy),
            true => txn.clone_range(c, (&bad, 4096), (&copy, 100), LEN as u64),
        };
        match h.apply(txn) {
            Err(error) => is_checksum(&error, c),
            Ok(()) => match h.get(data_request(c, &copy, 0, u64::MAX)) {
                Err(StoreError::Checksum { .. }) => {}
                other => panic!("the copy of a bad block can't be good: {other:?}"),
            },
        }
    }
}

pub fn a_failed_commit_stops_the_store_and_loses_nothing_acknowledged<F: Factory>(factory: &mut F) {
    const ACKNOWLEDGED: u32 = 10;
    let mut h = empty(factory);
    let (c, a) = (pg(0), object("a", 1));
    h.commit(|t| t.create_collection(c, 0).create_collection(pg(1), 0));
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
    let mut tried = ACKNOWLEDGED;
    for i in 1..=20 {
        let token = write(&mut h, ACKNOWLEDGED + i);
        if i % 5 == 0 {
            h.turn();
        }
        match h.outcome(token) {
            Err(StoreError::Io { .. }) => tried = ACKNOWLEDGED + i,
            Err(StoreError::Stopped) if tried > ACKNOWLEDGED => {}
            other => panic!("commit {i} after the failure: {other:?}"),
        }
        h.acknowledge(token);
    }
    assert_eq!(h.refused(|t| t.touch(pg(1), &a)), StoreError::Stopped, "the whole store has stopped");
    let store = factory.reopen(h.take()).expect("the properties say so");
    let mut h = Harness::new(store, factory.properties());
    let n = last_written(&mut h, c);
    assert!(
        (ACKNOWLEDGED..=tried).contains(&n),
        "{ACKNOWLEDGED} were acknowledged, {tried} tried, {n} is there"
    );
    assert!(h.data(c, &a) == pattern(20_000, n).to_vec(), "transaction {n} is there whole");
    h.commit(|t| t.touch(pg(1), &a));
}

pub(super) fn last_written<S: ObjectStore>(h: &mut Harness<S>, collection: CollectionId) -> u32 {
    match h.get(ReadRequest::Attr { collection, object: object("a", 1), name: "n".into() }) {
        Ok(ReadOutcome::Attr(n)) => n.as_slice().try_into().map(u32::from_le_bytes).expect("four bytes"),
        other => panic!("{other:?}"),
    }
}
