//! What holds for every transaction and read.

use std::collections::BTreeSet;

use buffer::{Piece, Rope};
use types::GHObject;

use super::super::harness::{Factory, Harness, object, pg, version};
use super::super::{Generator, Model, compare_all, random_history};
use super::{bytes, many_objects, map, one_pg, pattern};
use crate::{Completion, Fault, OBJECT_BYTES_MAX, ReadOutcome, ReadRequest, StoreError, Transaction, TxOp};

pub fn a_refused_transaction_leaves_nothing(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let mut model = Model::new();
    let mut setup = Transaction::new();
    setup.create_collection(c, 0).create_collection(pg(1), 2).create_collection(pg(2), 0);
    for (i, o) in many_objects().into_iter().enumerate().step_by(9) {
        setup.write(c, o.clone(), 0, pattern(5000, i as u32)).omap_set(c, o, map(&[("k", "v"), ("l", "w")]));
    }
    (1..9).for_each(|n| {
        setup.log_append(c, version(n), bytes("entry"));
    });
    model.apply(&setup).expect("setup");
    setup.ops.remove(0);
    h.apply(setup).expect("setup");
    let (a, b) = (object("a", 1), object("b", 2));
    let fails: [TxOp; 3] = [
        TxOp::Touch { collection: pg(9), object: a.clone() },
        TxOp::Clone { collection: c, from: object("none", 4), to: a.clone() },
        TxOp::LogAppend { collection: c, version: version(1), entry: bytes("x") },
    ];
    for fail in fails {
        let mut txn = Transaction::new();
        let victim = model.objects(c)[2].clone();
        txn.write(c, victim.clone(), 100, pattern(9000, 4)).remove(c, model.objects(c)[3].clone());
        txn.push(TxOp::OmapClear { collection: c, object: victim.clone() }).touch(c, a.clone());
        txn.push(TxOp::Clone { collection: c, from: victim.clone(), to: b.clone() });
        txn.push(TxOp::Rename { collection: c, from: victim, to_collection: pg(2), to: a.clone() });
        txn.log_append(c, version(9), bytes("x")).log_trim(c, version(3));
        txn.push(TxOp::LogRewind { collection: c, to: version(6) }).create_collection(pg(5), 1);
        txn.push(TxOp::SplitCollection { collection: c, bits: 1, rem: 1, into: pg(1) });
        txn.push(TxOp::MergeCollection { collection: pg(2), into: pg(1), bits: 0 }).push(fail);
        let want = model.apply(&txn).expect_err("the last step fails");
        assert_eq!(h.apply(txn), Err(want));
        compare_all(&mut h, &model, "after a refused transaction");
    }
    h.commit(|t| {
        t.write(c, a.clone(), 0, Rope::copy_from(b"fine"));
    });
    assert_eq!(h.data(c, &a), b"fine", "a refused transaction stops nothing else");
}

pub fn errors_say_whose_fault(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let missing = StoreError::NoSuchCollection(pg(4));
    assert_eq!((missing.fault(), missing.errno()), (Fault::Caller, types::Errno::ENOENT));
    assert_eq!(
        h.refused(|t| {
            t.write(pg(4), a.clone(), 0, Rope::copy_from(b"x"));
        }),
        missing
    );
    assert_eq!(
        h.refused(|t| {
            t.remove(pg(4), a.clone());
        }),
        missing
    );
    assert_eq!(
        h.refused(|t| {
            t.log_trim(pg(4), version(1));
        }),
        missing
    );
    let (start, end) = (GHObject::min(), GHObject::max());
    assert_eq!(
        h.get(ReadRequest::List { collection: pg(4), start, end, objects_max: 1 }),
        Err(missing.clone())
    );
    assert_eq!(h.get(ReadRequest::Object { collection: pg(4), object: a.clone() }), Err(missing));
    let no_object = StoreError::NoSuchObject(c, Box::new(a.clone()));
    let object = || a.clone();
    for read in [
        ReadRequest::Data { collection: c, object: object(), offset: 0, len: 1 },
        ReadRequest::Stat { collection: c, object: object() },
        ReadRequest::Attrs { collection: c, object: object() },
        ReadRequest::Attr { collection: c, object: object(), name: "x".into() },
        ReadRequest::OmapHeader { collection: c, object: object() },
        ReadRequest::OmapKeys { collection: c, object: object(), keys: BTreeSet::new() },
        ReadRequest::Extents { collection: c, object: object(), offset: 0, len: 1 },
    ] {
        assert_eq!(h.get(read), Err(no_object.clone()));
    }
    let max = OBJECT_BYTES_MAX;
    for (offset, end) in [(max, max + 1), (u64::MAX, u64::MAX)] {
        let too_large = StoreError::ObjectTooLarge { end, max };
        let data = Rope::copy_from(b"x");
        assert_eq!(
            h.refused(|t| {
                t.write(c, a.clone(), offset, data);
            }),
            too_large
        );
        assert_eq!(
            h.refused(|t| {
                t.zero(c, a.clone(), offset, 1);
            }),
            too_large
        );
        assert_eq!(too_large.fault(), Fault::Caller);
    }
    h.commit(|t| {
        t.truncate(c, a.clone(), max);
    });
    assert_eq!(h.size(c, &a), Some(max), "a hole costs nothing");
}

pub fn reads_see_what_was_queued_before(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut asked = Vec::new();
    for i in 0..50u32 {
        let mut txn = Transaction::new();
        txn.write(c, a.clone(), 0, pattern(5000, i)).set_attr(
            c,
            a.clone(),
            "n",
            Piece::copy_from(&i.to_le_bytes()),
        );
        h.queue(txn);
        let data = ReadRequest::Data { collection: c, object: a.clone(), offset: 0, len: u64::MAX };
        let attr = ReadRequest::Attr { collection: c, object: a.clone(), name: "n".into() };
        asked.push((i, h.ask(data), h.ask(attr)));
    }
    for (i, data, attr) in asked {
        assert_eq!(h.result(data), Ok(ReadOutcome::Data(pattern(5000, i))), "neither older nor newer");
        assert_eq!(h.result(attr), Ok(ReadOutcome::Attr(Piece::copy_from(&i.to_le_bytes()))));
    }
}

pub fn transactions_complete_in_order(factory: &mut dyn Factory) {
    let (mut h, c) = one_pg(factory);
    let mut tokens = Vec::new();
    for i in 0..200u32 {
        let mut txn = Transaction::new();
        if i % 10 != 9 {
            txn.write(c, object("a", 1), u64::from(i) * 100, pattern(100, i));
        } else {
            txn.touch(pg(9), object("a", 1));
        }
        tokens.push(h.queue(txn));
    }
    let mut done = Vec::new();
    while done.len() < tokens.len() {
        done.extend(h.poll());
        std::thread::yield_now();
    }
    assert_eq!(done.iter().map(Completion::token).collect::<Vec<_>>(), tokens);
    for (i, completion) in done.iter().enumerate() {
        assert_eq!(matches!(completion, Completion::Refused { .. }), i % 10 == 9, "{i}: {completion:?}");
    }
}

pub fn random_histories_equal_the_model(factory: &mut dyn Factory) {
    for seed in 1..=4 {
        random_history(factory, seed, 400);
    }
}

pub fn everything_is_there_after_reopening(factory: &mut dyn Factory) {
    let mut h = Harness::new(factory.fresh());
    let mut model = Model::new();
    let mut generator = Generator::new(99);
    let mut txn = Generator::setup();
    for _ in 0..300 {
        assert_eq!(h.apply(txn.clone()), model.apply(&txn));
        txn = generator.transaction();
    }
    let Some(store) = factory.reopen(h.store) else { return };
    let mut h = Harness::new(store);
    compare_all(&mut h, &model, "reopened");
    h.commit(|t| {
        t.create_collection(pg(77), 0).touch(pg(77), object("a", 1));
    });
    let store = factory.reopen(h.store).expect("it kept everything before");
    assert_eq!(Harness::new(store).list(pg(77)), vec![object("a", 1)], "and goes on");
}
