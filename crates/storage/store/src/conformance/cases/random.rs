//! Random histories of several shapes.

use super::super::compare::compare_all;
use super::super::crash::{crash_history, rehoming_crashes};
use super::super::factory::Factory;
use super::super::generate::Shape;
use super::super::harness::Harness;
use super::super::history::{History, homes, random_history, reopened};
use super::super::model::Model;
use super::super::reads::{object, pg, version};
use super::super::space::ROOMY_BYTES;
use crate::{LogRecordKind, Transaction};

pub fn random_histories_equal_the_model<F: Factory>(factory: &mut F) {
    for seed in 1..=4 {
        random_history(factory, Shape::MIXED, seed, 900);
    }
}

pub fn random_histories_with_many_refusals_equal_the_model<F: Factory>(factory: &mut F) {
    let shape = Shape { refused_one_in: 5, in_flight_max: 60, ..Shape::MIXED };
    for seed in 11..=12 {
        random_history(factory, shape, seed, 900);
    }
}

pub fn random_histories_that_split_merge_and_rehome_equal_the_model<F: Factory>(factory: &mut F) {
    let shape = Shape { collections_one_in: 4, rehome_one_in: 6, ..Shape::MIXED };
    for seed in 21..=23 {
        random_history(factory, shape, seed, 900);
    }
}

pub fn random_histories_with_thousands_of_keys_equal_the_model<F: Factory>(factory: &mut F) {
    let shape =
        Shape { omap_keys_max: 700, steps_max: 3, in_flight_max: 20, pg_attrs: false, ..Shape::MIXED };
    random_history(factory, shape, 31, 240);
}

pub fn random_histories_with_large_objects_equal_the_model<F: Factory>(factory: &mut F) {
    let (write_bytes_max, object_bytes_max) = (400_000, 3 << 20);
    let shape = Shape { write_bytes_max, object_bytes_max, steps_max: 3, in_flight_max: 20, ..Shape::MIXED };
    random_history(factory, shape, 41, 240);
}

pub fn random_histories_with_thousands_of_log_records_equal_the_model<F: Factory>(factory: &mut F) {
    let shape = Shape { log_records_max: 150, steps_max: 2, ..Shape::MIXED };
    random_history(factory, shape, 51, 240);
}

pub fn everything_is_there_after_reopening<F: Factory>(factory: &mut F) {
    let store = factory.fresh(ROOMY_BYTES);
    let History { mut h, mut model, mut generator, .. } = History::new(store, factory, Shape::MIXED, 99);
    for _ in 0..300 {
        let txn = generator.transaction(&model);
        assert_eq!(h.apply(txn.clone()), model.apply(&txn));
    }
    let mut h: Harness<F::Store> = reopened(factory, h, None).expect("the properties say so");
    compare_all(&mut h, &model, "reopened");
    h.commit(|t| t.create_collection(pg(77), 0).touch(pg(77), &object("a", 1)));
    let mut h = reopened(factory, h, None).expect("it kept everything before");
    assert_eq!(h.list(pg(77)), vec![object("a", 1)], "and goes on");
}

pub fn what_was_acknowledged_survives_power_losses<F: Factory>(factory: &mut F) {
    let shape = Shape { collections_one_in: 10, ..Shape::MIXED };
    for seed in 1..=4 {
        crash_history(factory, shape, seed, 12);
    }
    let large = Shape { write_bytes_max: 200_000, object_bytes_max: 1 << 20, ..shape };
    crash_history(factory, large, 5, 5);
}

/// Steps that have another effect when they are done twice.
pub fn what_a_crash_replays_is_done_once<F: Factory>(factory: &mut F) {
    let store = factory.fresh(ROOMY_BYTES);
    let mut h = Harness::new(store, factory.properties());
    let mut model = Model::new(homes(&mut h));
    let (a, b, c) = (object("a", 1), object("b", 2), object("c", 3));
    let mut first = Transaction::new();
    first.create_collection(pg(0), 0).write(pg(0), &a, 0, vec![1; 10_000].into()).touch(pg(0), &c);
    let mut all = vec![first];
    for i in 0..30u8 {
        let mut txn = Transaction::new();
        // The clone is of what the write replaces; the names go round.
        txn.clone_object(pg(0), &a, &b).write(pg(0), &a, u64::from(i) * 300, vec![i | 1; 5000].into());
        txn.clone_range(pg(0), (&b, 0), (&a, 700), 3000);
        txn.rename((pg(0), &a), (pg(0), &object("t", 9))).rename((pg(0), &c), (pg(0), &a));
        txn.rename((pg(0), &object("t", 9)), (pg(0), &c));
        if i % 3 == 0 {
            txn.log_append(pg(0), version(u64::from(i) + 1), LogRecordKind::Entry, vec![i; 20]);
        }
        all.push(txn);
    }
    for (i, txn) in all.into_iter().enumerate() {
        assert_eq!((h.apply(txn.clone()), model.apply(&txn)), (Ok(()), Ok(())));
        if i % 3 == 2 {
            let store = factory.crash(h.abandon(), i as u64).expect("the properties say so");
            h = Harness::new(store, factory.properties());
            compare_all(&mut h, &model, &format!("crashed after transaction {i}"));
        }
    }
}

/// Space that a transaction gives back may only be used again when it is durable.
pub fn what_replaces_old_data_does_not_touch_it_before_it_is_durable<F: Factory>(factory: &mut F) {
    for seed in 0..6 {
        let store = factory.fresh(ROOMY_BYTES);
        let mut h = Harness::new(store, factory.properties());
        let c = pg(0);
        h.commit(|t| t.create_collection(c, 0));
        for n in 0..10 {
            h.commit(|t| t.write(c, &object("old", n), 0, vec![n as u8 + 1; 60_000].into()));
        }
        // Nothing of this is waited for.
        for n in 0..10u32 {
            let mut txn = Transaction::new();
            match n % 3 {
                0 => txn.remove(c, &object("old", n)),
                1 => txn.truncate(c, &object("old", n), 0),
                _ => txn.write(c, &object("old", n), 0, vec![100; 60_000].into()),
            };
            h.queue(txn);
            let mut txn = Transaction::new();
            txn.write(c, &object("new", n), 0, vec![200; 60_000].into());
            h.queue(txn);
            if n % 2 == 0 {
                h.turn();
            }
        }
        let store = factory.crash(h.abandon(), seed).expect("the properties say so");
        let mut h = Harness::new(store, factory.properties());
        let mut undone = false;
        for n in 0..10u32 {
            let old = h.size(c, &object("old", n)).map(|_| h.data(c, &object("old", n)));
            let now = old == Some(vec![n as u8 + 1; 60_000]);
            let replaced = match n % 3 {
                0 => old.is_none(),
                1 => old == Some(vec![]),
                _ => old == Some(vec![100; 60_000]),
            };
            assert!(
                now || (replaced && !undone),
                "seed {seed}: object {n} is neither what it was nor what it became"
            );
            undone = undone || now;
        }
    }
}

pub fn rehoming_goes_on_after_power_losses<F: Factory>(factory: &mut F) {
    for seed in 1..=3 {
        rehoming_crashes(factory, seed);
    }
}
