//! The power is cut while a store writes, after a random number of operations, on one store again and again. What was
//! acknowledged is there, what was not is there whole or not at all, and the store goes on.

use crate::common::history::{History, compare, last, model};
use crate::common::{PROPERTIES, harness, label, mkfs, open, switchable};
use simplestore::Options;
use store::Completion;
use store::conformance::Harness;
use types::{SplitMix64, UTime};

#[test]
#[cfg_attr(any(feature = "skip-flush-image", feature = "skip-flush-osd-metadata"), should_panic)]
fn a_store_whose_power_is_cut_has_everything_acknowledged_and_nothing_by_halves() {
    use store::{ObjectStore, Token};
    let number = |name: &str| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok());
    let seed = number("SIMPLESTORE_SEED").unwrap_or(20);
    let rounds = number("SIMPLESTORE_CUT_ROUNDS").unwrap_or(40);
    println!("SIMPLESTORE_SEED={seed}");
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(64 << 20), &Options::default()).unwrap();
    let (mut rng, mut all, mut applied) = (SplitMix64::new(seed), Vec::new(), 0);
    let mut history = History::new(seed);
    for round in 0..rounds {
        let when = format!("seed {seed}, round {round}");
        let (options, power) = switchable();
        let most = 20 << rng.below(10);
        let (operations, survivors) = (rng.below(most), rng.one_in(2).then(|| rng.next_u64()));
        let mut store = open(dir.path(), &options).unwrap();
        power.cut_after(operations, survivors);
        let (mut queued, mut acknowledged) = (applied, applied);
        let mut done: Vec<Completion> = Vec::new();
        let mut failed = false;
        while !failed {
            while queued < acknowledged + 12 {
                while all.len() as u64 <= queued {
                    all.push(history.next().1);
                }
                store.queue(all[queued as usize].clone(), Token(queued + 1));
                queued += 1;
                if rng.one_in(4) {
                    store.turn(UTime::default());
                }
            }
            store.turn(UTime::default());
            store.completions(&mut done);
            for completion in done.drain(..) {
                match completion {
                    Completion::Committed { token } => {
                        assert_eq!(token.0, acknowledged + 1, "{when}: in order");
                        acknowledged = token.0;
                    }
                    other => {
                        assert!(power.is_off(), "{when}: {other:?}");
                        failed = true;
                    }
                }
            }
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        drop(store);
        let mut h = Harness::new(open(dir.path(), &Options::default()).unwrap(), PROPERTIES);
        applied = last(&mut h);
        assert!((acknowledged..=queued).contains(&applied), "{when}: {acknowledged}, {applied}, {queued}");
        let mut want = model(all[..applied as usize].iter().cloned());
        compare(&mut h, &mut want, &when);
    }
    assert!(applied > rounds, "the writer got somewhere: {applied}");
}

#[test]
#[cfg_attr(
    any(feature = "skip-flush-image", feature = "skip-flush-osd-metadata"),
    ignore = "loses what it needs"
)]
fn a_store_whose_power_is_cut_while_it_recovers_recovers_later() {
    let dir = tempfile::tempdir().unwrap();
    mkfs(dir.path(), &label(64 << 20), &Options::default()).unwrap();
    let mut history = History::new(3);
    let all: Vec<_> = (0..30).map(|_| history.next().1).collect();
    let (options, power) = switchable();
    let mut h = harness(dir.path(), &options);
    all.iter().for_each(|txn| h.apply(txn.clone()).unwrap());
    power.cut_after(0, None);
    drop(h.abandon());
    let mut failed = 0;
    for operations in 0..40 {
        let (options, power) = switchable();
        power.cut_after(operations, Some(operations));
        failed += u64::from(open(dir.path(), &options).is_err());
    }
    assert!(
        (6..40).contains(&failed),
        "recovery was cut {failed} times, and came to its end before the last"
    );
    let mut h = harness(dir.path(), &Options::default());
    compare(&mut h, &mut model(all.into_iter()), "after cuts");
}
