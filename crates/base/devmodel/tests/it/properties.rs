//! What holds for every model and every sequence of requests.

use std::collections::BTreeMap;

use devmodel::{Done, Model, Nanos, Op, Request};
use proptest::prelude::*;

const SIZE: u64 = 1 << 30;
const MODELS: [&str; 7] = [
    "disk-7200",
    "disk-7200-write-back",
    "ssd",
    "ssd-write-back",
    "raid0-of-2",
    "raid0-of-4-write-back",
    "raid0-of-3",
];

fn request() -> impl Strategy<Value = Request> {
    let op = prop_oneof![
        4 => Just(Op::Read), 6 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard)
    ];
    // Some near each other, so that they touch; some behind the end.
    let offset = prop_oneof![0..64u64, 0..=SIZE / 4096 + 1];
    let length = prop_oneof![Just(0u64), Just(4096), 1..200_000u64, Just(4 << 20)];
    (op, offset, length, any::<bool>()).prop_map(|(op, block, length, fua)| Request {
        op,
        offset: block * 4096,
        length,
        fua,
    })
}

/// Requests with pauses before them, nanoseconds.
fn requests() -> impl Strategy<Value = Vec<(Nanos, Request)>> {
    let pause = prop_oneof![Just(0u64), 0..100_000u64, 0..20_000_000u64];
    proptest::collection::vec((pause, request()), 1..150)
}

fn make(name: &str) -> Model {
    // A small cache, so that it fills.
    let small = ("cache_size".to_owned(), "1M".to_owned());
    let parameters = if name.ends_with("write-back") { vec![small] } else { Vec::new() };
    Model::named(name, &parameters, SIZE).expect("a model")
}

/// Plays requests, calling `complete` at each event plus `late`; gives completions in order, and the model.
fn play(name: &str, requests: &[(Nanos, Request)], late: Nanos) -> (Vec<Done>, Model) {
    let mut model = make(name);
    let (mut now, mut out) = (0, Vec::new());
    for (id, (pause, request)) in requests.iter().enumerate() {
        let at = now + pause;
        while let Some(event) = model.next_event().filter(|e| *e <= at) {
            out.extend(model.complete((event + late).min(at)));
        }
        now = at;
        model.arrive(now, id as u64, *request);
    }
    while let Some(event) = model.next_event() {
        out.extend(model.complete(event + late));
    }
    (out, model)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_request_is_done_once_in_order_and_not_before_its_least_time(all in requests(), n in 0..MODELS.len()) {
        let (done, model) = play(MODELS[n], &all, 0);
        prop_assert_eq!(done.len(), all.len());
        prop_assert_eq!(model.in_flight(), 0);
        prop_assert!(done.is_sorted_by_key(|d| d.at));
        let at: BTreeMap<u64, Nanos> = done.iter().map(|d| (d.id, d.at)).collect();
        prop_assert_eq!(at.len(), all.len());
        let mut arrived = 0;
        for (id, (pause, request)) in all.iter().enumerate() {
            arrived += pause;
            let bytes = request.length.min(SIZE.saturating_sub(request.offset));
            // No way in or out is faster than 2 GB/s.
            let least = if matches!(request.op, Op::Read | Op::Write) { bytes / 2 } else { 0 };
            prop_assert!(at[&(id as u64)] >= arrived + least, "{:?}", request);
        }
        prop_assert_eq!(model.dirty_bytes(), 0, "what is dirty goes to the medium by itself");
    }

    #[test]
    fn being_asked_late_changes_nothing(all in requests(), n in 0..MODELS.len(), late in 0..5_000_000u64) {
        prop_assert_eq!(play(MODELS[n], &all, 0).0, play(MODELS[n], &all, late).0);
    }

    #[test]
    fn after_a_flush_of_writes_nothing_is_dirty(all in requests(), n in 0..MODELS.len()) {
        let mut model = make(MODELS[n]);
        let mut now = 0;
        for (id, (pause, request)) in all.iter().enumerate() {
            now += pause;
            model.arrive(now, id as u64, *request);
        }
        while model.in_flight() > 0 {
            now = now.max(model.next_event().expect("something is under way"));
            model.complete(now);
        }
        model.arrive(now, u64::MAX, Request::flush());
        while model.in_flight() > 0 {
            now = now.max(model.next_event().expect("the flush is under way"));
            model.complete(now);
        }
        prop_assert_eq!(model.dirty_bytes(), 0);
    }

    #[test]
    fn no_sequence_is_faster_than_the_media(
        write in any::<bool>(), block in 1..1024u64, depth in 1..40u64, write_back in any::<bool>()
    ) {
        let name = if write_back { "disk-7200-write-back" } else { "disk-7200" };
        let mut model = make(name);
        let (block, count) = (block * 1024, 200);
        let (mut sent, mut now) = (0, 0);
        while sent < count || model.in_flight() > 0 {
            while sent < count && (model.in_flight() as u64) < depth {
                let op = if write { Op::Write } else { Op::Read };
                model.arrive(now, sent, Request { op, offset: sent * block, length: block, fua: false });
                sent += 1;
            }
            now = model.next_event().expect("something is under way");
            model.complete(now);
        }
        model.arrive(now, count, Request::flush());
        while model.in_flight() > 0 {
            now = model.next_event().expect("the flush is under way");
            model.complete(now);
        }
        let rate = (count * block) as f64 * 1e3 / now as f64;
        prop_assert!(rate <= 140.0, "{} MB/s", rate);
    }
}
