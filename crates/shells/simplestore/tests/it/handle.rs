//! What the handle promises beside the suite.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use crate::common::{Look, META, fresh, object, open, reopened, transaction};
use simplestore::Options;
use store::{AttrChoice, Completion, ObjectStore, StoreShard, Token};
use types::UTime;

#[test]
fn a_waker_that_is_set_late_is_called_for_what_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let mut store = open(dir.path(), &Options::default()).unwrap();
    let (first, first_called) = mpsc::channel();
    store.set_waker(Arc::new(move || first.send(()).unwrap()));
    store.queue(transaction(|t| t.touch(META, &object("a"))), Token(1));
    store.turn(UTime::default());
    first_called.recv_timeout(Duration::from_secs(60)).unwrap();
    let late = Arc::new(AtomicU32::new(0));
    let called = late.clone();
    store.set_waker(Arc::new(move || {
        called.fetch_add(1, Ordering::SeqCst);
    }));
    assert_eq!(late.load(Ordering::SeqCst), 1, "the completion was ready before");
    let mut done = Vec::new();
    store.completions(&mut done);
    assert_eq!(done, [Completion::Committed { token: Token(1) }]);
}

#[test]
fn dropping_the_store_finishes_what_its_turns_began_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let mut store = open(dir.path(), &Options::default()).unwrap();
    for i in 0..20 {
        store.queue(transaction(|t| t.touch(META, &object(&format!("begun{i:02}")))), Token(i));
        store.turn(UTime::default());
    }
    store.queue(transaction(|t| t.touch(META, &object("taken"))), Token(99));
    drop(store);
    let names = reopened(dir.path()).try_list(META, AttrChoice::None).unwrap();
    assert_eq!(names.len(), 20);
    assert!(!names.contains(&object("taken")));
}

#[test]
fn a_turn_is_one_group_whatever_its_length() {
    let dir = tempfile::tempdir().unwrap();
    drop(fresh(dir.path(), 10 << 20));
    let mut store = open(dir.path(), &Options::default()).unwrap();
    let (wake, woken) = mpsc::channel();
    store.set_waker(Arc::new(move || {
        let _ = wake.send(());
    }));
    for i in 0..300 {
        let txn = transaction(|t| t.write(META, &object(&format!("o{i}")), 0, vec![1; 100].into()));
        store.queue(txn, Token(i));
    }
    store.turn(UTime::default());
    woken.recv_timeout(Duration::from_secs(60)).unwrap();
    let mut done = Vec::new();
    store.completions(&mut done);
    assert_eq!(done.len(), 300, "all are there with the first wake-up");
    assert!(done.iter().all(|c| matches!(c, Completion::Committed { .. })));
    assert_eq!((store.shards(), store.shard_of(META)), (1, StoreShard(0)));
}
