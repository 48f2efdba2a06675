//! Random histories, compared with the model.

use types::{EVersion, GHObject, Name};

use super::generate::Generator;
use super::harness::{Factory, Harness};
use super::model::Model;
use crate::{CollectionId, ReadOutcome, ReadRequest};

/// Runs `steps` rounds of random transactions and reads from a seed, several in flight, and compares every outcome;
/// durable stores are reopened now and then.
///
/// # Panics
/// Where store and model differ.
pub fn random_history(factory: &mut dyn Factory, seed: u64, steps: usize) {
    let mut generator = Generator::new(seed);
    let mut model = Model::new();
    let mut harness = Harness::new(factory.fresh());
    let setup = Generator::setup();
    harness.apply(setup.clone()).expect("setup");
    model.apply(&setup).expect("setup");
    for step in 0..steps {
        let mut expected = Vec::new();
        for _ in 0..=generator.rng.below(6) {
            if generator.rng.one_in(2) {
                let txn = generator.transaction();
                let want = model.apply(&txn);
                expected.push((harness.queue(txn.clone()), format!("{txn:?}"), Ok(want)));
            } else {
                let request = generator.read();
                let want = model.read(&request);
                expected.push((harness.ask(request.clone()), format!("{request:?}"), Err(want)));
            }
        }
        for (token, what, want) in expected {
            match want {
                Ok(want) => assert_eq!(harness.outcome(token), want, "seed {seed}, step {step}: {what}"),
                Err(want) => assert_eq!(harness.result(token), want, "seed {seed}, step {step}: {what}"),
            }
        }
        if step % 100 == 99 {
            compare_all(&mut harness, &model, &format!("seed {seed}, step {step}"));
            harness = match reopened(factory, harness) {
                Ok(harness) => {
                    let mut harness = harness;
                    compare_all(&mut harness, &model, &format!("seed {seed}, step {step}, reopened"));
                    harness
                }
                Err(fresh) => {
                    model = Model::new();
                    model.apply(&setup).expect("setup");
                    fresh
                }
            };
        }
    }
}

/// The store opened again, or a fresh one if it keeps nothing.
fn reopened(factory: &mut dyn Factory, harness: Harness) -> Result<Harness, Harness> {
    match factory.reopen(harness.store) {
        Some(store) => Ok(Harness::new(store)),
        None => {
            let mut fresh = Harness::new(factory.fresh());
            fresh.apply(Generator::setup()).expect("setup");
            Err(fresh)
        }
    }
}

/// Reads everything that a store has and compares it with the model.
///
/// # Panics
/// Where they differ; `when` is said then.
pub fn compare_all(harness: &mut Harness, model: &Model, when: &str) {
    let same = |harness: &mut Harness, request: ReadRequest| {
        let (got, want) = (harness.get(request.clone()), model.read(&request));
        assert_eq!(got, want, "{when}: {request:?}");
    };
    same(harness, ReadRequest::Collections);
    for collection in model.collections() {
        let (start, end) = (GHObject::min(), GHObject::max());
        same(harness, ReadRequest::Collection { collection });
        same(harness, ReadRequest::List { collection, start, end, objects_max: usize::MAX });
        let (entries_max, bytes_max) = (usize::MAX, usize::MAX);
        let after = EVersion::default();
        same(harness, ReadRequest::Log { collection, after, entries_max, bytes_max });
        for object in model.objects(collection) {
            same(harness, ReadRequest::Object { collection, object: object.clone() });
            let whole = ReadRequest::Data { collection, object: object.clone(), offset: 0, len: u64::MAX };
            same(harness, whole);
            same(harness, ReadRequest::OmapHeader { collection, object: object.clone() });
            let (after, prefix, values) = (None, Name::new(), true);
            let object_ = object.clone();
            let all = ReadRequest::OmapRange {
                collection,
                object: object_,
                after,
                prefix,
                entries_max,
                bytes_max,
                values,
            };
            same(harness, all);
            check_extents(harness, model, collection, &object, when);
        }
    }
}

/// Extents ascend, don't touch, stay within the object, and have every byte that is not zero.
fn check_extents(
    harness: &mut Harness,
    model: &Model,
    collection: CollectionId,
    object: &GHObject,
    when: &str,
) {
    let request = ReadRequest::Extents { collection, object: object.clone(), offset: 0, len: u64::MAX };
    let Ok(ReadOutcome::Extents(extents)) = harness.get(request) else {
        panic!("{when}: extents of {object}")
    };
    let mut data = model.object(collection, object).expect("listed").data.clone();
    let mut end = None;
    for (offset, len) in extents {
        assert!(len > 0 && end.is_none_or(|end| offset > end), "{when}: extents of {object} touch");
        end = Some(offset + len);
        data[offset as usize..(offset + len) as usize].fill(0);
    }
    assert!(data.iter().all(|&b| b == 0), "{when}: bytes of {object} outside of its extents");
}
