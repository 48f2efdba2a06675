//! What a store refuses, and what that leaves.

use std::collections::BTreeSet;

use types::GHObject;

use super::super::compare::compare_all;
use super::super::factory::Factory;
use super::super::model::{Homes, Model};
use super::super::reads::{data_request, list_request, object, object_request, pg, version};
use super::{bytes, empty, many_objects, pairs, pattern};
use crate::{Fault, LogRecordKind, OBJECT_BYTES_MAX, ObjectChange, ReadRequest, StoreError, Transaction};

pub fn a_refused_transaction_leaves_nothing<F: Factory>(factory: &mut F) {
    let mut h = empty(factory);
    let c = pg(0);
    let shards = h.shards();
    let of = [pg(0), pg(1), pg(2)].into_iter().map(|id| (id, h.shard_of(c))).collect();
    let mut model = Model::new(Homes { shards, of });
    let mut setup = Transaction::new();
    setup.create_collection(c, 0).create_collection(pg(1), 2).create_collection(pg(2), 0);
    for (i, o) in many_objects().iter().enumerate().step_by(9) {
        setup.write(c, o, 0, pattern(5000, i as u32)).omap_set(c, o, pairs(&[("k", "v"), ("l", "w")]));
    }
    for n in 1..9 {
        setup.log_append(c, version(n), LogRecordKind::Entry, bytes("entry"));
    }
    setup.set_info(c, bytes("info"));
    model.apply(&setup).expect("setup");
    h.apply(setup).expect("setup");
    let before = h.statfs();
    let (a, b) = (object("a", 1), object("b", 2));
    let mut fails = [Transaction::new(), Transaction::new(), Transaction::new()];
    fails[0].touch(pg(9), &a);
    fails[1].clone_object(c, &object("none", 4), &a);
    fails[2].log_append(c, version(1), LogRecordKind::Entry, bytes("x"));
    for fail in fails {
        let mut txn = Transaction::new();
        let (victim, other) = (model.objects(c)[2].clone(), model.objects(c)[3].clone());
        txn.write(c, &victim, 100, pattern(9000, 4)).remove(c, &other);
        txn.change(c, &victim, ObjectChange::OmapClear).touch(c, &a).set_info(c, bytes("other"));
        txn.clone_object(c, &victim, &b).rename((c, &victim), (pg(2), &a));
        txn.log_append(c, version(9), LogRecordKind::Entry, bytes("x")).log_trim(c, version(3));
        txn.log_rewind(c, version(6)).create_collection(pg(5), 1);
        txn.split(c, 1, 1, pg(1)).merge(pg(2), pg(1), 0);
        txn.append(fail);
        let want = model.apply(&txn).expect_err("the last step fails");
        assert_eq!(h.apply(txn), Err(want));
        compare_all(&mut h, &model, "after a refused transaction");
        assert_eq!(h.statfs(), before, "a refused transaction takes no space");
    }
    h.commit(|t| t.write(c, &a, 0, bytes("fine").into()));
    assert_eq!(h.data(c, &a), b"fine", "acknowledged, a refused transaction stops nothing else");
}

pub fn errors_say_whose_fault<F: Factory>(factory: &mut F) {
    let (mut h, c) = super::one_pg(factory);
    let a = object("a", 1);
    let missing = StoreError::NoSuchCollection(pg(4));
    assert_eq!((missing.fault(), missing.errno()), (Fault::Caller, types::Errno::ENOENT));
    assert_eq!(h.refused(|t| t.write(pg(4), &a, 0, bytes("x").into())), missing);
    assert_eq!(h.refused(|t| t.remove(pg(4), &a)), missing);
    assert_eq!(h.refused(|t| t.log_trim(pg(4), version(1))), missing);
    assert_eq!(h.refused(|t| t.set_info(pg(4), bytes("x"))), missing);
    assert_eq!(h.get(list_request(pg(4))), Err(missing.clone()));
    assert_eq!(h.get(object_request(pg(4), &a)), Err(missing));
    let no_object = StoreError::NoSuchObject(c, Box::new(a.clone()));
    let object = || a.clone();
    for read in [
        data_request(c, &a, 0, 1),
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
        assert_eq!(h.refused(|t| t.write(c, &a, offset, bytes("x").into())), too_large);
        assert_eq!(h.refused(|t| t.zero(c, &a, offset, 1)), too_large);
        assert_eq!(h.refused(|t| t.clone_range(c, (&a, 0), (&a, offset), 1)), too_large);
        assert_eq!(h.refused(|t| t.clone_range(c, (&a, offset), (&a, 0), 1)), too_large);
        assert_eq!(too_large.fault(), Fault::Caller);
    }
    h.commit(|t| t.truncate(c, &a, max));
    assert_eq!(h.size(c, &a), Some(max), "a hole costs nothing");
    assert_eq!(h.extents(c, &a), vec![]);
    h.commit(|t| t.remove(c, &GHObject::clone(&a)));
}
