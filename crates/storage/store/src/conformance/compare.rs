//! Everything that a store has, compared with the model.

use types::GHObject;

use super::harness::{Harness, same_result};
use super::model::Model;
use super::reads::{data_request, list_request, log_request, object_request, omap_request};
use crate::{AttrChoice, CollectionId, ObjectStore, ReadOutcome, ReadRequest};

/// Reads everything that a store has and compares it with the model.
///
/// # Panics
/// Where they differ; the message has `when`.
pub fn compare_all<S: ObjectStore>(h: &mut Harness<S>, model: &Model, when: &str) {
    same(h, model, when, ReadRequest::Collections);
    for collection in model.collections() {
        assert_eq!(h.shard_of(collection), model.home(collection), "{when}: shard of {collection}");
        same(h, model, when, ReadRequest::Collection { collection });
        same(h, model, when, list_request(collection));
        let (start, end) = (GHObject::min(), GHObject::max());
        let attrs = AttrChoice::All;
        same(h, model, when, ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs });
        same(h, model, when, log_request(collection));
        compare_objects(h, model, collection, when);
    }
}

fn compare_objects<S: ObjectStore>(h: &mut Harness<S>, model: &Model, collection: CollectionId, when: &str) {
    for object in &model.objects(collection) {
        same(h, model, when, object_request(collection, object));
        same(h, model, when, data_request(collection, object, 0, u64::MAX));
        same(h, model, when, ReadRequest::OmapHeader { collection, object: object.clone() });
        same(h, model, when, omap_request(collection, object));
        let extents = h.extents(collection, object);
        let (offset, len) = (0, u64::MAX);
        check_extents(
            model,
            &ReadRequest::Extents { collection, object: object.clone(), offset, len },
            &extents,
        );
    }
}

fn same<S: ObjectStore>(h: &mut Harness<S>, model: &Model, when: &str, request: ReadRequest) {
    let want = model.read(&request);
    let got = h.get(request.clone());
    assert!(same_result(&got, &want), "{when}: {request:?} gave {got:?}, wanted {want:?}");
}

/// Extents ascend, don't touch, are within what was asked for and within the object, and have every byte that is not
/// zero.
///
/// # Panics
/// If they don't.
pub fn check_extents(model: &Model, request: &ReadRequest, extents: &[(u64, u64)]) {
    let ReadRequest::Extents { collection, object, offset, len } = request else {
        panic!("not a request for extents: {request:?}")
    };
    let c = model.get(*collection).expect("the collection exists");
    let data = &c.objects.get(object).expect("the object exists").data;
    let end = offset.saturating_add(*len).min(data.len() as u64);
    let mut at = *offset;
    for (i, &(start, len)) in extents.iter().enumerate() {
        let apart = if i == 0 { start >= at } else { start > at };
        assert!(len > 0 && apart && start + len <= end, "{request:?}: bad extents {extents:?}");
        check_zeros(&data[at as usize..start as usize], request);
        at = start + len;
    }
    if at < end {
        check_zeros(&data[at as usize..end as usize], request);
    }
}

fn check_zeros(bytes: &[u8], request: &ReadRequest) {
    assert!(bytes.iter().all(|&b| b == 0), "{request:?}: bytes outside of the extents");
}

/// Compares one read's answer with the model's.
///
/// # Panics
/// Where they differ.
pub fn compare_read(
    model: &Model,
    request: &ReadRequest,
    got: &Result<ReadOutcome, crate::StoreError>,
    when: &str,
) {
    if let (ReadRequest::Extents { collection, object, .. }, Ok(ReadOutcome::Extents(extents))) =
        (request, got)
    {
        let there = model.get(*collection).is_some_and(|c| c.objects.contains_key(object));
        assert!(there, "{when}: {request:?} gave {got:?}, and the object doesn't exist");
        check_extents(model, request, extents);
        return;
    }
    let want = match request {
        // Its errors are those of another read of the object.
        ReadRequest::Extents { collection, object, .. } => {
            model.read(&ReadRequest::Stat { collection: *collection, object: object.clone() })
        }
        request => model.read(request),
    };
    assert!(same_result(got, &want), "{when}: {request:?} gave {got:?}, wanted {want:?}");
}
