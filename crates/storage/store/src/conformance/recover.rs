//! Which state a store came back to after a crash.

use std::collections::{BTreeMap, BTreeSet};

use super::crash::Steps;
use crate::CollectionId;

/// What is known of a round.
pub struct Known<'a> {
    pub steps: &'a BTreeMap<CollectionId, Steps>,
    /// The collections of transactions on more than one, by their numbers.
    pub spanning: &'a BTreeMap<u64, BTreeSet<CollectionId>>,
    /// The number of the last acknowledged transaction on a collection.
    pub floors: &'a dyn Fn(&CollectionId) -> u64,
    pub name: &'a str,
}

impl Known<'_> {
    /// Fails if something acknowledged is lost, or a transaction is there in one of its collections only.
    ///
    /// # Panics
    /// So.
    pub fn check(&self, at: &BTreeMap<CollectionId, usize>) {
        for (id, &step) in at {
            let (last, floor) = (self.steps[id][step].0, (self.floors)(id));
            assert!(
                last >= floor,
                "{}: {id} is as transaction {last} left it, {floor} was acknowledged",
                self.name
            );
        }
        if let Some(torn) = self.torn(at) {
            panic!("{}: transaction {torn} is torn: {:?}, {at:?}", self.name, self.spanning[&torn]);
        }
    }

    /// A transaction that only some of its collections have, as far as they are known.
    fn torn(&self, at: &BTreeMap<CollectionId, usize>) -> Option<u64> {
        let has = |id: &CollectionId, number: u64| Some(self.steps[id][*at.get(id)?].0 >= number);
        let torn = |(number, named): &(&u64, &BTreeSet<CollectionId>)| {
            let had: BTreeSet<bool> = named.iter().filter_map(|id| has(id, **number)).collect();
            had.len() > 1
        };
        self.spanning.iter().find(torn).map(|(number, _)| *number)
    }
}

/// Which transaction was the last on the collections that don't exist: any that left them so, and that fits the others.
///
/// # Panics
/// If there is none.
pub fn choose_absent(
    all: &Known<'_>,
    known: BTreeMap<CollectionId, usize>,
    absent: &[CollectionId],
) -> BTreeMap<CollectionId, usize> {
    fits(all, known, absent).unwrap_or_else(|| {
        panic!(
            "{}: {absent:?} don't exist, and no order of transactions left that: one is lost or torn",
            all.name
        )
    })
}

fn fits(
    all: &Known<'_>,
    known: BTreeMap<CollectionId, usize>,
    absent: &[CollectionId],
) -> Option<BTreeMap<CollectionId, usize>> {
    let Some((id, rest)) = absent.split_first() else { return Some(known) };
    let steps = &all.steps[id];
    let floor = (all.floors)(id);
    for at in (0..steps.len()).rev() {
        // The first is what was there before the round.
        if steps[at].1.is_some() || (steps[at].0 < floor) {
            continue;
        }
        let mut with = known.clone();
        with.insert(*id, at);
        if all.torn(&with).is_none() {
            if let Some(found) = fits(all, with, rest) {
                return Some(found);
            }
        }
    }
    None
}
