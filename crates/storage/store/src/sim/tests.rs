//! What simulations rely on beside the contract.

use buffer::Rope;
use types::{GHObject, HObject, Name, PgId, PoolId};

use super::*;

const OPTIONS: SimOptions =
    SimOptions { bytes_total: 1 << 30, shards: 3, seed: 5, commit_us: 50..500, read_us: 10..200 };

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(n: u64) -> GHObject {
    let name = Name::from(format!("object{n}"));
    HObject::head(PoolId(1), Name::new(), Name::new(), name, n as u32).into()
}

fn data(collection: CollectionId, object: &GHObject) -> ReadRequest {
    let (advice, verify) = Default::default();
    ReadRequest::Data { collection, object: object.clone(), offset: 0, len: u64::MAX, advice, verify }
}

/// Collections of three shards.
fn store(options: SimOptions) -> SimStore {
    let mut store = SimStore::new(options);
    for seed in 0..3 {
        let mut txn = Transaction::new();
        txn.create_collection(pg(seed), 0);
        store.queue(txn, Token(seed.into()));
    }
    trace(&mut store);
    store
}

fn write(store: &mut SimStore, collection: CollectionId, n: u64) {
    let mut txn = Transaction::new();
    txn.write(collection, &object(n), 0, Rope::copy_from(&n.to_le_bytes()));
    store.queue(txn, Token(n));
}

/// Everything that completes, with the time at which it does.
fn trace(store: &mut SimStore) -> Vec<(UTime, Completion)> {
    let mut all = Vec::new();
    let mut now = store.now;
    store.turn(now);
    loop {
        let mut done = Vec::new();
        store.completions(&mut done);
        all.extend(done.into_iter().map(|c| (now, c)));
        let Some(deadline) = store.deadline() else { return all };
        now = deadline;
        store.turn(now);
    }
}

fn some_writes_and_reads(options: SimOptions) -> Vec<(UTime, Completion)> {
    let mut store = store(options);
    for n in 10..60 {
        write(&mut store, pg(n as u32 % 3), n);
        store.read(data(pg(n as u32 % 3), &object(n)), Token(1000 + n));
        if n % 7 == 0 {
            store.turn(store.now);
        }
    }
    trace(&mut store)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let first = some_writes_and_reads(OPTIONS);
    assert_eq!(first.len(), 100);
    assert_eq!(first, some_writes_and_reads(OPTIONS));
    assert_ne!(first, some_writes_and_reads(SimOptions { seed: 6, ..OPTIONS }));
}

#[test]
fn commits_take_their_time_and_are_visible_at_once() {
    let mut store = store(OPTIONS);
    let before = store.now;
    write(&mut store, pg(0), 10);
    store.turn(before);
    let mut done = Vec::new();
    store.completions(&mut done);
    assert_eq!(done, vec![], "not durable yet");
    store.read(data(pg(0), &object(10)), Token(11));
    let all = trace(&mut store);
    assert!(all.iter().all(|(at, _)| *at > before));
    assert!(all.iter().any(|(_, c)| matches!(c, Completion::Read { result: Ok(_), .. })));
    assert!(all.iter().any(|(_, c)| *c == Completion::Committed { token: Token(10) }));
}

#[test]
fn a_power_loss_keeps_a_first_part_of_each_shard() {
    let (mut all_kept, mut none_kept) = (0, 0);
    for seed in 0..40 {
        let mut store = store(OPTIONS);
        (10..40).for_each(|n| write(&mut store, pg(n as u32 % 3), n));
        store.turn(store.now);
        store.reseed(seed);
        let (mut store, lost) = store.power_loss();
        for shard in 0..3 {
            let there =
                |n: &u64| store.visible.peek(&data(pg(shard), &object(*n))).is_some_and(|r| r.is_ok());
            let of_shard: Vec<u64> = (10..40).filter(|n| n % 3 == u64::from(shard)).collect();
            let kept: Vec<u64> = of_shard.iter().copied().filter(there).collect();
            assert_eq!(kept, of_shard[..kept.len()], "seed {seed}: a first part");
            assert!(
                of_shard[kept.len()..].iter().all(|n| lost.contains(&Token(*n))),
                "seed {seed}: the rest is lost"
            );
        }
        all_kept += u32::from(lost.is_empty());
        none_kept += u32::from(lost.len() == 30);
    }
    assert!(all_kept < 40 && none_kept < 40, "{all_kept} losses took nothing, {none_kept} everything");
}

#[test]
fn a_split_needs_space_too() {
    let mut store = store(OPTIONS);
    store.refuse_space(true);
    let mut txn = Transaction::new();
    txn.split(pg(0), 3, 4, pg(4));
    store.queue(txn.clone(), Token(10));
    assert!(matches!(trace(&mut store)[0].1, Completion::Refused { error: StoreError::NoSpace { .. }, .. }));
    store.refuse_space(false);
    store.acknowledge(Token(10));
    store.queue(txn, Token(11));
    assert!(!matches!(trace(&mut store)[0].1, Completion::Refused { error: StoreError::NoSpace { .. }, .. }));
}

#[test]
fn space_can_be_refused_and_given_back() {
    let mut store = store(OPTIONS);
    store.refuse_space(true);
    write(&mut store, pg(0), 10);
    write(&mut store, pg(0), 11);
    let mut errors: Vec<_> = trace(&mut store).into_iter().map(|(_, c)| c).collect();
    errors.sort_by_key(Completion::token);
    let no_space = StoreError::NoSpace { needed: 8, available: 0 };
    assert_eq!(errors[0], Completion::Refused { token: Token(10), error: no_space });
    assert_eq!(errors[1], Completion::Refused { token: Token(11), error: StoreError::AfterRefused(pg(0)) });
    store.refuse_space(false);
    store.acknowledge(Token(10));
    write(&mut store, pg(0), 12);
    assert_eq!(trace(&mut store)[0].1, Completion::Committed { token: Token(12) });
}
