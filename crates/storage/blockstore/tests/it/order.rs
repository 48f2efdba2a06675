//! What waits for a page of the tree, and what goes on meanwhile.

use crate::common::{Sim, Simulated};
use blockstore::Options;
use store::conformance::{Factory, Harness};
use store::{
    AttrChoice, CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Token, Transaction,
};
use types::{GHObject, HObject, Name, PgId, PoolId};

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(n: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), format!("{n}").as_str().into(), n << 16).into()
}

fn read_of(c: CollectionId, n: u32) -> ReadRequest {
    ReadRequest::Data {
        collection: c,
        object: object(n),
        offset: 0,
        len: 100,
        advice: Default::default(),
        verify: false,
    }
}

/// Two PGs of many objects, opened again: no leaf of the tree is in memory.
fn cold() -> (Sim, Harness<Simulated>) {
    let mut factory = Sim::new(Options::default(), 4 << 20);
    let mut h = Harness::new(factory.fresh(64 << 20), factory.properties());
    for c in [pg(0), pg(1)] {
        h.commit(|t| t.create_collection(c, 0));
        for first in (0..4000).step_by(100) {
            h.commit(|t| {
                (first..first + 100).fold(t, |t, n| t.set_attr(c, &object(n), "_", vec![n as u8; 200]))
            });
        }
        h.commit(|t| t.write(c, &object(7), 0, vec![7; 100].into()));
    }
    let mut simulated = h.take();
    simulated.store.request_checkpoint();
    factory.drain(&mut simulated);
    let Simulated { store, disks } = simulated;
    drop(store);
    disks.close();
    // Not by `Factory::reopen`, which looks at every page.
    let opened = factory.open(&disks);
    (factory.clone(), Harness::new(opened, factory.properties()))
}

#[test]
fn a_request_that_waits_for_a_page_holds_up_neither_other_collections_nor_other_objects() {
    let (_, mut h) = cold();
    // What is warm: object 7 of both.
    for c in [pg(0), pg(1)] {
        assert_eq!(h.data(c, &object(7)), [7; 100]);
    }
    let warm = |c| ReadRequest::Attr { collection: c, object: object(7), name: "_".into() };
    for c in [pg(0), pg(1)] {
        assert!(h.get(warm(c)).is_ok());
    }
    let list = ReadRequest::List {
        collection: pg(0),
        start: GHObject::min(),
        end: GHObject::max(),
        objects_max: 5000,
        attrs: AttrChoice::All,
    };
    let slow = h.ask(list);
    let cold = h.ask(ReadRequest::Attr { collection: pg(0), object: object(2000), name: "_".into() });
    let seen = [pg(0), pg(1)].map(|c| h.store().peek(&warm(c)).is_some());
    assert_eq!(seen, [true; 2], "what is in memory is answered at once");
    let (mut elsewhere, mut behind) = (Transaction::new(), Transaction::new());
    elsewhere.write(pg(1), &object(7), 0, vec![8; 50].into());
    behind.remove(pg(0), &object(3999));
    let (elsewhere, behind) = (h.queue(elsewhere), h.queue(behind));
    let Some(Ok(ReadOutcome::Data(now))) = h.store().peek(&read_of(pg(1), 7)) else {
        panic!("it took effect")
    };
    assert_eq!(now.slice(0..50).to_vec(), [8; 50]);
    assert!(h.store().peek(&ReadRequest::Stat { collection: pg(0), object: object(3999) }).is_none());
    let after = h.ask(read_of(pg(1), 7));
    assert_eq!(h.outcome(elsewhere), Ok(()));
    let Ok(ReadOutcome::Data(data)) = h.result(after) else { panic!("the object is there") };
    assert_eq!(data.to_vec(), [vec![8; 50], vec![7; 50]].concat());
    assert!(h.result(cold).is_ok());
    let Ok(ReadOutcome::Objects(page)) = h.result(slow) else { panic!("the list comes") };
    assert_eq!(page.objects.len(), 4000, "a transaction that was queued later is not seen");
    assert_eq!(h.outcome(behind), Ok(()));
}

#[test]
fn a_read_that_waits_sees_what_its_object_was_and_others_go_on() {
    let (_, mut h) = cold();
    let old = h.ask(ReadRequest::Attr { collection: pg(0), object: object(1234), name: "_".into() });
    let mut overwrite = Transaction::new();
    overwrite.set_attr(pg(0), &object(1234), "_", vec![1]);
    let overwrite = h.queue(overwrite);
    let new = h.ask(ReadRequest::Attr { collection: pg(0), object: object(1234), name: "_".into() });
    let attr = |result| match result {
        Ok(ReadOutcome::Attr(value)) => value.to_vec(),
        other => panic!("{other:?}"),
    };
    assert_eq!(attr(h.result(old)), vec![1234u32 as u8; 200]);
    assert_eq!(attr(h.result(new)), [1]);
    assert_eq!(h.outcome(overwrite), Ok(()));
}

#[test]
fn a_cold_list_with_attributes_reads_many_pages_at_once() {
    let (_, h) = cold();
    let list = ReadRequest::List {
        collection: pg(0),
        start: GHObject::min(),
        end: GHObject::max(),
        objects_max: 5000,
        attrs: AttrChoice::All,
    };
    let mut store = h.take().store;
    store.read(list, Token(1));
    // The device's first answer comes when it has done all that was asked of it before.
    store.turn(types::UTime { sec: 1_000_000_000, nsec: 0 });
    let begin = store.deadline().expect("it waits for the device");
    let (mut now, mut done) = (begin, Vec::new());
    while done.is_empty() {
        store.turn(now);
        store.completions(&mut done);
        now = now.max(store.deadline().unwrap_or(now));
    }
    let Some(Completion::Read { result: Ok(ReadOutcome::Objects(page)), .. }) = done.pop() else {
        panic!("the list comes")
    };
    assert_eq!(page.objects.len(), 4000);
    // 4000 objects of some 300 bytes are about 150 leaves, which take 5 ms.
    let took = std::time::Duration::from_nanos(now.as_nanos() - begin.as_nanos());
    assert!(took < std::time::Duration::from_millis(8), "{took:?}");
}
