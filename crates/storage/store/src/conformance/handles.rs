//! What holds of a store's handles, one for each of its shards: each is a store by itself, although all use the same
//! tokens and devices.

use types::{GHObject, HObject, PgId, PoolId};

use super::Harness;
use super::factory::Properties;
use crate::{Advice, CollectionId, ObjectStore, ReadOutcome, ReadRequest, StoreError, Transaction};

const POOL: PoolId = PoolId(1);

fn collection(handle: usize) -> CollectionId {
    CollectionId::Pg(PgId { pool: POOL, seed: handle as u32 }.into())
}

fn object() -> GHObject {
    HObject::head(POOL, "".into(), "".into(), "object".into(), 0).into()
}

fn data(handle: usize) -> Vec<u8> {
    vec![handle as u8 + 1; 5000]
}

fn read(of: usize) -> ReadRequest {
    let advice = Advice::default();
    ReadRequest::Data {
        collection: collection(of),
        object: object(),
        offset: 0,
        len: u64::MAX,
        advice,
        verify: false,
    }
}

/// Makes the collection of a handle, or writes to it.
fn change(handle: usize, makes: bool) -> Transaction {
    let mut txn = Transaction::new();
    if makes {
        txn.create_collection(collection(handle), 0);
    }
    txn.write(collection(handle), &object(), 0, data(handle).into());
    txn
}

/// Holds the handles of one empty store, two or more, against each other.
///
/// # Panics
/// Where one shows, closes or completes what is another's.
pub fn handles_share_nothing<S: ObjectStore>(handles: Vec<S>, properties: Properties) {
    let count = handles.len();
    assert!(count > 1, "a store of one shard has nothing to share");
    let mut all: Vec<_> = handles.into_iter().map(|handle| Harness::new(handle, properties)).collect();
    // All under way at the same time, with the same tokens.
    let mut made: Vec<_> = all.iter_mut().enumerate().map(|(i, h)| h.queue(change(i, true))).collect();
    for (handle, token) in made.drain(..).enumerate().rev() {
        assert_eq!(all[handle].outcome(token), Ok(()), "handle {handle} makes its collection");
    }
    for (handle, harness) in all.iter_mut().enumerate() {
        match harness.get(ReadRequest::Collections) {
            Ok(ReadOutcome::Collections(of)) => {
                assert_eq!(of, [collection(handle)], "handle {handle} has another's collection");
            }
            other => panic!("{other:?}"),
        }
        for of in 0..count {
            match harness.get(read(of)) {
                Ok(ReadOutcome::Data(got)) if of == handle => {
                    assert_eq!(got.to_vec(), data(of), "handle {handle} has another's data");
                }
                Err(StoreError::NoSuchCollection(_)) if of != handle => {}
                other => panic!("handle {handle} reads of handle {of}'s: {other:?}"),
            }
        }
    }
    a_refusal_is_one_handles(&mut all);
    // One goes, with its core: the others serve on.
    drop(all.swap_remove(0).take());
    for harness in &mut all {
        assert!(harness.get(ReadRequest::StatFs).is_ok(), "a handle goes on when another has gone");
    }
}

fn a_refusal_is_one_handles<S: ObjectStore>(all: &mut [Harness<S>]) {
    let refused: Vec<_> = all.iter_mut().enumerate().map(|(i, h)| h.queue(change(i, true))).collect();
    for (handle, token) in refused.iter().enumerate() {
        let outcome = all[handle].outcome(*token);
        assert!(outcome.is_err(), "handle {handle} makes its collection twice");
    }
    // Only the first is opened again, although the others' refusals have the same token.
    all[0].acknowledge(refused[0]);
    for (handle, harness) in all.iter_mut().enumerate() {
        let outcome = harness.apply(change(handle, false));
        match handle {
            0 => assert_eq!(outcome, Ok(()), "an acknowledgement opens the handle's collection"),
            _ => assert!(
                matches!(outcome, Err(StoreError::AfterRefused(_))),
                "handle {handle} is opened by another's acknowledgement: {outcome:?}"
            ),
        }
    }
    for (harness, token) in all.iter_mut().zip(refused).skip(1) {
        harness.acknowledge(token);
    }
}
