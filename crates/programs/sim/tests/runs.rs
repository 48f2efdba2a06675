//! A few runs of the simulator; `make sim` has many.

use std::cell::RefCell;
use std::rc::Rc;

use pg::Bug;
use sim::plan::{Defect, Disks, Fault, LARGE_STORE, PlanKind, SnapKind};
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
fn osds_that_were_out_serve_again() {
    let mut marked_out = 0;
    for seed in 1..=8 {
        let faults = vec![Fault::MarkOut, Fault::KillOsd, Fault::MarkDown, Fault::Reset, Fault::CutLinks];
        let (osds, length, fault_interval) = (2 + (seed % 2) as i32, 20_000_000_000, 1_000_000_000);
        let plan = Plan { osds, faults, length, fault_interval, think: THINK, ..Plan::of(seed) };
        let report = run(plan, Trace::default());
        assert_eq!(report.failure, None, "seed {seed}");
        marked_out += report.counts.by_fault.get(&Fault::MarkOut).copied().unwrap_or(0);
    }
    assert!(marked_out > 8, "{marked_out}");
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

const SMALL_DISKS: Disks = Disks {
    model: "ssd",
    block_bytes: 512,
    log_apart: false,
    log_bytes: 1 << 20,
    spare_bytes: 0,
    deferred_bytes: 0,
    cache_bytes: 16 << 10,
    changes_bytes_max: 1 << 20,
    discards: true,
};

/// Whether a run with the defect fails, of the first `seeds` seeds. Their plans are changed so that what the defect needs
/// happens often.
fn is_found(defect: Defect, seeds: u64, change: impl Fn(&mut Plan)) -> bool {
    (1..=seeds).any(|seed| {
        let mut plan = Plan { length: 20_000_000_000, ..Plan::of(seed) };
        change(&mut plan);
        plan.defect = None;
        let whole = plan.clone();
        plan.defect = Some(defect);
        let fails = |plan: Plan| {
            let report =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(plan, Trace::default())));
            report.map_or(true, |report| report.failure.is_some())
        };
        fails(plan) && !fails(whole)
    })
}

/// A load of one kind, with few other things in it.
fn plain(plan: &mut Plan) {
    (plan.images, plan.notes, plan.snaps) = (0, 0, SnapKind::None);
    (plan.copies, plan.listings, plan.disks) = (false, false, None);
    (plan.gates, plan.shards) = (vec![0], vec![0]);
    (plan.objects, plan.window, plan.think) = (1, 8, THINK / 4);
    plan.store_bytes = LARGE_STORE;
    (plan.faults, plan.fault_interval) = (Vec::new(), 500_000_000);
}

#[test]
fn messages_between_cores_that_lose_their_order_are_noticed() {
    assert!(is_found(Defect::CoresLoseOrder, 10, |plan| {
        (plan.gates, plan.shards, plan.core_delay_us) = (vec![0, 1], vec![0, 1], 50_000);
    }));
}

#[test]
fn a_clone_that_is_trimmed_too_early_is_noticed() {
    assert!(is_found(Defect::Pg(Bug::TrimTakesAll), 10, |plan| {
        plain(plan);
        (plan.snaps, plan.snap_interval) = (SnapKind::Own, 200_000_000);
        // So few changes that a clone is of several snapshots.
        (plan.objects, plan.think) = (8, 10 * THINK);
    }));
}

#[test]
fn runs_in_which_snapshots_are_trimmed_all_the_time_end_well() {
    for seed in 1..=6 {
        let report = run(Plan::of_kind(PlanKind::Trims, seed), Trace::default());
        assert_eq!(report.failure, None, "seed {seed}");
        assert!(report.counts.by_fault.contains_key(&Fault::EndInMap), "{:?}", report.counts);
    }
}

#[test]
fn a_change_that_keeps_nothing_for_its_snapshots_is_noticed() {
    assert!(is_found(Defect::Pg(Bug::ResendForgetsSnaps), 10, |plan| {
        plain(plan);
        (plan.snaps, plan.snap_interval, plan.faults) = (SnapKind::Own, 200_000_000, vec![Fault::Reset]);
    }));
}

#[test]
fn a_refusal_that_is_not_remembered_is_noticed() {
    assert!(is_found(Defect::Pg(Bug::RefusalIsForgotten), 20, |plan| {
        plain(plan);
        plan.faults = vec![Fault::RefuseSpace, Fault::Reset];
    }));
}

#[test]
fn a_full_pool_that_drops_some_of_what_waits_is_noticed() {
    assert!(is_found(Defect::Pg(Bug::FullDropsSome), 10, |plan| {
        plain(plan);
        (plan.faults, plan.commit_us) = (vec![Fault::Pause], 50..300_000);
    }));
}

#[test]
fn a_backoff_that_lasts_is_noticed() {
    assert!(is_found(Defect::Pg(Bug::BackoffLasts), 10, |plan| {
        plain(plan);
        plan.faults = vec![Fault::RaisePgs, Fault::RefuseSpace];
    }));
}

#[test]
fn blocks_that_come_back_early_are_noticed() {
    assert!(is_found(Defect::BlockStore(blockstore::Bug::BlocksComeBackEarly), 20, |plan| {
        plain(plan);
        plan.use_small_disks(SMALL_DISKS);
        plan.faults = vec![Fault::KillOsd, Fault::PowerLossOsd];
    }));
}

#[test]
fn bytes_that_are_read_unchecked_are_noticed() {
    assert!(is_found(Defect::BlockStore(blockstore::Bug::ReadsAreUnchecked), 10, |plan| {
        plain(plan);
        plan.use_small_disks(SMALL_DISKS);
        plan.faults = vec![Fault::BitRot];
    }));
}

#[test]
fn a_lock_that_is_taken_without_a_fence_is_noticed() {
    assert!(is_found(Defect::LockIsOnlyBroken, 10, |plan| {
        plain(plan);
        plan.images = 1;
    }));
}

#[test]
fn watches_that_a_restart_forgets_are_noticed() {
    assert!(is_found(Defect::Pg(Bug::LoadForgetsWatches), 10, |plan| {
        plain(plan);
        (plan.notes, plan.faults) = (1, vec![Fault::KillOsd]);
    }));
}

#[test]
fn bad_bytes_that_a_store_returns_are_noticed() {
    assert!(is_found(Defect::StoreServesBadBytes, 10, |plan| {
        plain(plan);
        plan.faults = vec![Fault::BitRot];
    }));
}
