//! What is seen when, and in which order requests complete.

use buffer::Piece;

use super::super::factory::Factory;
use super::super::harness::Harness;
use super::super::reads::{
    data_request, list_request, log_request, object, object_request, omap_request, pg, version,
};
use super::{bytes, many_objects, noise, one_pg, pairs, pattern};
use crate::{
    Completion, LogRecordKind, ObjectStore, ReadOutcome, ReadRequest, StoreError, Token, Transaction,
};

pub fn reads_see_what_was_queued_before<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    let mut asked = Vec::new();
    for i in 0..50u32 {
        let mut txn = Transaction::new();
        txn.write(c, &a, 0, pattern(5000, i)).set_attr(c, &a, "n", Piece::copy_from(&i.to_le_bytes()));
        h.queue(txn);
        let attr = ReadRequest::Attr { collection: c, object: a.clone(), name: "n".into() };
        asked.push((i, h.ask(data_request(c, &a, 0, u64::MAX)), h.ask(attr)));
        if i % 7 == 0 {
            h.turn();
        }
    }
    for (i, data, attr) in asked {
        assert_eq!(h.result(data), Ok(ReadOutcome::Data(pattern(5000, i))), "neither older nor newer");
        assert_eq!(h.result(attr), Ok(ReadOutcome::Attr(Piece::copy_from(&i.to_le_bytes()))));
    }
}

pub fn transactions_complete_in_order<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let mut tokens = Vec::new();
    for i in 0..200u32 {
        let mut txn = Transaction::new();
        txn.write(c, &object("a", 1), u64::from(i) * 100, pattern(100, i));
        if i == 150 {
            txn.touch(pg(9), &object("a", 1));
        }
        tokens.push(h.queue(txn));
        if i % 20 == 0 {
            h.turn();
        }
    }
    // The harness checks the order of each collection.
    h.settle();
    for (i, token) in tokens.iter().enumerate() {
        let completion = h.ready(*token).expect("it is settled");
        assert_eq!(matches!(completion, Completion::Refused { .. }), i >= 150, "{i}: {completion:?}");
    }
    h.acknowledge(tokens[150]);
}

pub fn every_read_sees_what_was_queued_in_the_same_burst<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    for i in 1..20u32 {
        let mut txn = Transaction::new();
        txn.write(c, &a, 0, pattern(100, i)).omap_set(
            c,
            &a,
            vec![("k".into(), Piece::copy_from(&i.to_le_bytes()))],
        );
        txn.log_append(c, version(u64::from(i)), LogRecordKind::Entry, bytes("record"));
        txn.touch(c, &object("n", i));
        h.queue(txn);
        // The harness compares what `peek` answers, before any turn, with these.
        let reads =
            [object_request(c, &object("n", i)), omap_request(c, &a), log_request(c), list_request(c)];
        let [object, omap, log, list] = reads.map(|read| h.ask(read));
        let statfs = h.ask(ReadRequest::StatFs);
        assert!(matches!(h.result(object), Ok(ReadOutcome::Object(Some(_)))));
        assert!(matches!(h.result(omap), Ok(ReadOutcome::Omap(p)) if *p.entries[0].1 == i.to_le_bytes()));
        assert!(matches!(h.result(log), Ok(ReadOutcome::Log(p)) if p.records.len() as u32 == i));
        assert!(matches!(h.result(list), Ok(ReadOutcome::Objects(p)) if p.objects.len() as u32 == i + 1));
        assert!(matches!(h.result(statfs), Ok(ReadOutcome::StatFs(s)) if s.objects == u64::from(i) + 1));
    }
    let data_bytes = h.statfs().data_bytes;
    let mut txn = Transaction::new();
    txn.write(c, &object("more", 1), 0, noise(1 << 20, 1)).remove(c, &object("n", 3));
    h.queue(txn);
    let statfs = h.statfs();
    assert_eq!(
        (statfs.data_bytes, statfs.objects),
        (data_bytes + (1 << 20), 20),
        "space is as of what is queued"
    );
}

pub fn a_burst_of_reads_wakes_the_caller_for_each<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let a = object("a", 1);
    h.commit(|t| t.write(c, &a, 0, pattern(10_000, 1)));
    for round in 0..60u64 {
        let tokens: Vec<Token> =
            (0..round % 5 + 1).map(|i| h.ask(data_request(c, &a, i * 100, 100))).collect();
        // The newest first: the others wait for nothing.
        for token in tokens.into_iter().rev() {
            assert!(h.result(token).is_ok());
        }
    }
}

pub fn what_a_read_returned_never_changes<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let (a, b) = (object("a", 1), object("b", 2));
    let mut kept = Vec::new();
    for i in 0..12u32 {
        h.commit(|t| t.write(c, &a, 0, pattern(50_000, i)).omap_set(c, &a, pairs(&[("k", "v")])));
        match h.get(data_request(c, &a, 100, 40_000)) {
            Ok(ReadOutcome::Data(data)) => {
                kept.push((data, pattern(50_000, i).to_vec()[100..40_100].to_vec()))
            }
            other => panic!("{other:?}"),
        }
        match i % 6 {
            0 => h.commit(|t| t.write(c, &a, 8192, pattern(4096, 99)).write(c, &a, 300, pattern(5, 9))),
            1 => h.commit(|t| t.truncate(c, &a, 200)),
            2 => h.commit(|t| t.remove(c, &a)),
            3 => h.commit(|t| t.clone_object(c, &a, &b).zero(c, &a, 0, 50_000)),
            4 => h.commit(|t| t.rename((c, &a), (c, &object("c", i)))),
            _ => h.commit(|t| t.clone_object(c, &b, &a)),
        }
        h.commit(|t| t.write(c, &object("fill", i), 0, pattern(60_000, 7)));
    }
    for (data, want) in kept {
        assert!(data.to_vec() == want);
    }
}

pub fn a_split_and_a_merge_with_requests_in_flight<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let all = many_objects();
    let mut txn = Transaction::new();
    for (i, object) in all.iter().enumerate() {
        txn.write(c, object, 0, pattern(300, i as u32)).omap_set(c, object, pairs(&[("k", "v")]));
    }
    h.queue(txn);
    let mut split = Transaction::new();
    split.log_trim(c, version(1)).create_collection(pg(1), 1).split(c, 1, 1, pg(1));
    let before = h.ask(list_request(c));
    let split = h.queue(split);
    let (parent, child) = (h.ask(list_request(c)), h.ask(list_request(pg(1))));
    let refused = queue_bad_merge(&mut h);
    let moved = all.iter().find(|o| o.hobj.hash & 1 == 1).expect("some hashes are odd");
    let data = h.ask(data_request(pg(1), moved, 0, u64::MAX));
    h.turn();
    let count = |result| match result {
        Ok(ReadOutcome::Objects(page)) => page.objects.len(),
        other => panic!("{other:?}"),
    };
    let odd = all.iter().filter(|o| o.hobj.hash & 1 == 1).count();
    assert_eq!(h.outcome(split), Ok(()));
    assert!(matches!(h.outcome(refused), Err(StoreError::ObjectExists(..))));
    assert_eq!((count(h.result(before)), count(h.result(parent))), (all.len(), all.len() - odd));
    assert_eq!(count(h.result(child)), odd);
    assert!(matches!(h.result(data), Ok(ReadOutcome::Data(data)) if data.len() == 300));
    h.acknowledge(refused);
    let mut merge = Transaction::new();
    merge.merge(pg(1), c, 0);
    let merge = h.queue(merge);
    let (gone, whole) = (h.ask(list_request(pg(1))), h.ask(list_request(c)));
    assert_eq!(h.outcome(merge), Ok(()));
    assert_eq!(h.result(gone), Err(StoreError::NoSuchCollection(pg(1))));
    assert_eq!(count(h.result(whole)), all.len());
}

/// Queues a merge of PG 1 with PG 0 that fails at its last step, when all objects were moved.
fn queue_bad_merge<S: ObjectStore>(h: &mut Harness<S>) -> Token {
    let mut txn = Transaction::new();
    let odd = many_objects().into_iter().find(|o| o.hobj.hash & 1 == 1).expect("some hashes are odd");
    txn.touch(pg(0), &odd).merge(pg(1), pg(0), 0);
    h.queue(txn)
}

pub fn tokens_are_used_again<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    for round in 0..4u32 {
        h.use_tokens_again();
        for i in 0..10 {
            let mut txn = Transaction::new();
            txn.touch(c, &object("a", i));
            // In each round another token is a refused transaction's.
            if i == round {
                txn.create_collection(c, 0);
            }
            let token = h.queue(txn);
            assert_eq!(h.outcome(token).is_ok(), i != round, "round {round}, request {i}");
            h.acknowledge(token);
            assert!(h.get(list_request(c)).is_ok());
        }
    }
}

pub fn steps_take_effect_in_order_however_often_an_object_is_named<F: Factory>(factory: &mut F) {
    let (mut h, c) = one_pg(factory);
    let name = |n: u32| object(&format!("o{n}"), n);
    let mut txn = Transaction::new();
    // The table has each of these several times: only a few names are looked through for one that is there.
    for n in 0..12 {
        txn.write(c, &name(n), 0, pattern(6000, n)).set_attr(c, &name(n), "x", bytes("first"));
    }
    for n in 0..12 {
        txn.write(c, &name(n), 3000, pattern(10, 99)).omap_set(c, &name(n), pairs(&[("k", "v")]));
        if n % 4 == 1 {
            txn.remove(c, &name(n));
        }
    }
    for n in 0..12 {
        txn.truncate(c, &name(n), 4000).set_attr(c, &name(n), "x", bytes("last"));
    }
    assert!(txn.objects().len() == 36, "the table has names more than once");
    assert_eq!(h.apply(txn), Ok(()));
    for n in 0..12 {
        let (data, omap) = match n % 4 {
            1 => (vec![0; 4000], vec![]),
            _ => {
                let first = pattern(6000, n).to_vec();
                let data = [&first[..3000], &pattern(10, 99).to_vec(), &first[3010..4000]].concat();
                (data, pairs(&[("k", "v")]))
            }
        };
        assert!(h.data(c, &name(n)) == data, "object {n}");
        assert_eq!(h.omap(c, &name(n)), omap, "object {n}");
        let attr = ReadRequest::Attr { collection: c, object: name(n), name: "x".into() };
        assert_eq!(h.get(attr), Ok(ReadOutcome::Attr(bytes("last"))), "object {n}");
    }
}
