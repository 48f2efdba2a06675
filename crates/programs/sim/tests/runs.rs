//! A few runs of the simulator; `make sim` has many.

use std::cell::RefCell;
use std::rc::Rc;

use pg::Bug;
use sim::plan::{Defect, Fault};
use sim::{Plan, Trace, run};

/// Nanoseconds between a client's operations: little, so that a short run has many.
const THINK: u64 = 20_000_000;

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    // With time between the faults in which clients get on.
    let (length, fault_interval) = (12_000_000_000, 3_000_000_000);
    let short = |seed| Plan { length, think: THINK, fault_interval, ..Plan::of(seed) };
    let (one, two) = (run(short(3), Trace::default()), run(short(3), Trace::default()));
    assert_eq!(one, two);
    assert!(one.counts.operations > 50, "{:?}", one.counts);
    assert_ne!(one.trace, run(short(4), Trace::default()).trace);
}

#[test]
fn runs_with_every_fault_end_well() {
    let (mut faults_met, mut operations) = (0, 0);
    for seed in 1..=3 {
        let (faults, length, fault_interval) = (Fault::ALL.to_vec(), 15_000_000_000, 1_000_000_000);
        let plan = Plan { faults, length, fault_interval, think: THINK, ..Plan::of(seed) };
        let report = run(plan, Trace::default());
        assert_eq!(report.failure, None, "seed {seed}");
        faults_met += report.counts.faults;
        operations += report.counts.operations;
    }
    assert!(faults_met > 20 && operations > 150, "{faults_met} faults, {operations} operations");
}

#[test]
fn a_trace_of_one_object_leaves_the_others_out() {
    #[derive(Clone, Default)]
    struct Shared(Rc<RefCell<Vec<u8>>>);
    impl std::io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let plan = Plan { length: 8_000_000_000, objects: 2, ..Plan::of(5) };
    let text = Shared::default();
    run(plan, Trace::to(Box::new(text.clone()), Some("obj1-0".into())));
    let text = String::from_utf8(text.0.take()).unwrap();
    assert!(text.contains("osd_op obj1-0") && text.contains("osd.0 starts"));
    assert!(!text.contains("obj0-0"), "a line of another object");
}

/// Whether a run of this seed with the defect fails.
fn finds(defect: Defect, seed: u64) -> bool {
    std::panic::catch_unwind(|| run(Plan { defect: Some(defect), ..Plan::of(seed) }, Trace::default()))
        .map_or(true, |report| report.failure.is_some())
}

#[test]
fn messages_between_cores_that_lose_their_order_are_noticed() {
    assert!((1..=20).any(|seed| finds(Defect::CoresLoseOrder, seed)));
}

#[test]
fn a_clone_that_is_trimmed_too_early_is_noticed() {
    assert!(finds(Defect::Pg(Bug::TrimTakesAll), 7));
}

#[test]
fn a_change_that_keeps_nothing_for_its_snapshots_is_noticed() {
    assert!(finds(Defect::Pg(Bug::ResendForgetsSnaps), 11));
}

#[test]
fn a_refusal_that_is_not_remembered_is_noticed() {
    assert!(finds(Defect::Pg(Bug::RefusalIsForgotten), 11));
}

#[test]
fn a_lock_that_is_taken_without_a_fence_is_noticed() {
    assert!(finds(Defect::LockIsOnlyBroken, 6));
}

#[test]
fn watches_that_a_restart_forgets_are_noticed() {
    assert!(finds(Defect::Pg(Bug::LoadForgetsWatches), 6));
}

#[test]
fn bad_bytes_that_a_store_returns_are_noticed() {
    assert!(finds(Defect::StoreServesBadBytes, 5));
}
