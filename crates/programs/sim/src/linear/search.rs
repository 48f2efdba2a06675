//! The search for an order of one object's operations.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use super::{Attempt, Done, Item, Verdict};
use crate::history::{Action, Mark};
use crate::model::State;

/// Bounds of an order: how often it may stray from that of the OSDs' versions, and how many changes without an answer
/// that nothing shows it may have. The versions are nearly right, so that an order is mostly found at once without any
/// bound; where they mislead early, a bound leads back there.
const BOUNDS: [(usize, usize); 8] = [
    (0, 0),
    (1, 0),
    (usize::MAX, usize::MAX),
    (4, 0),
    (usize::MAX, 0),
    (usize::MAX, 1),
    (2, 2),
    (usize::MAX, 2),
];

/// States that a search with each bound in turn looks at before it is given up, and then again.
const STATES_MAX: [usize; 3] = [1_000, 10_000, 200_000];

/// What an order may still have, and so what was left when a state led nowhere.
#[derive(Clone, Copy)]
struct Left {
    strays: usize,
    unseen: usize,
}

/// That a state led nowhere: the changes that need not be placed and were, and what was left.
struct DeadEnd {
    placed: Done,
    left: Left,
}

type Required = Done;

pub(super) struct Search<'a> {
    items: Vec<Item<'a>>,
    required: Done,
    /// By the required items that were placed, and the state that all that was placed led to.
    dead_ends: HashMap<(Required, u64), Vec<DeadEnd>, BuildHasherDefault<DefaultHasher>>,
    /// States that may be looked at before this bound is given up.
    states_left: usize,
    /// Whether the bound has kept an order from being tried.
    is_bounded: bool,
    order: Vec<usize>,
    /// The order that came furthest in time, and how far.
    best: Vec<usize>,
    reached: u64,
}

/// The item that may be placed next, and what it takes of what is left.
struct Candidate {
    item: usize,
    strays: usize,
    unseen: usize,
}

pub(super) fn has(done: &Done, i: usize) -> bool {
    done[i / 64] >> (i % 64) & 1 == 1
}

pub(super) fn add(done: &mut Done, i: usize) {
    done[i / 64] |= 1 << (i % 64);
}

fn both(a: &Done, b: &Done) -> Done {
    std::array::from_fn(|w| a[w] & b[w])
}

fn is_within(a: &Done, b: &Done) -> bool {
    both(a, b) == *a
}

fn are_apart(a: &Done, b: &Done) -> bool {
    both(a, b) == Done::default()
}

fn hash(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl<'a> Search<'a> {
    pub fn new(items: Vec<Item<'a>>) -> Self {
        let mut required = Done::default();
        items.iter().enumerate().filter(|(_, item)| item.required).for_each(|(i, _)| add(&mut required, i));
        Self {
            items,
            required,
            dead_ends: HashMap::default(),
            states_left: 0,
            is_bounded: false,
            order: Vec::new(),
            best: Vec::new(),
            reached: 0,
        }
    }

    /// The verdict, and the states that were looked at.
    pub fn run(mut self) -> (Verdict, usize) {
        let mut looked_at = 0;
        for (states_max, bound) in STATES_MAX.into_iter().flat_map(|most| BOUNDS.map(|bound| (most, bound))) {
            self.dead_ends.clear();
            (self.states_left, self.is_bounded) = (states_max, false);
            let left = Left { strays: bound.0, unseen: bound.1 };
            let found = self.place(Done::default(), 0, &State::default(), left);
            looked_at += states_max - self.states_left;
            match found {
                Some(true) => return (Verdict::Linearizable, looked_at),
                Some(false) if !self.is_bounded => return (Verdict::Impossible(self.furthest()), looked_at),
                Some(false) | None => self.order.clear(),
            }
        }
        (Verdict::Undecided(self.furthest()), looked_at)
    }

    /// Whether what is not done can be placed after `now` on `state`; `None` when the bound is given up.
    fn place(&mut self, done: Done, now: u64, state: &State, left: Left) -> Option<bool> {
        let open = self.items.iter().enumerate().filter(|(i, item)| item.required && !has(&done, *i));
        let Some(first_end) = open.map(|(_, item)| item.until).min() else { return Some(true) };
        if first_end > self.reached {
            self.reached = first_end;
            self.best.clone_from(&self.order);
        }
        if first_end < now {
            return Some(false);
        }
        self.states_left = self.states_left.checked_sub(1)?;
        let key = (both(&done, &self.required), hash(state));
        if self.leads_nowhere(&key, &done, left) {
            return Some(false);
        }
        for Candidate { item: i, strays, unseen } in self.candidates(&done, now, first_end, state) {
            let item = &self.items[i];
            let at = now.max(item.op.began);
            if at > item.until || !self.keeps_order(&done, i) {
                continue;
            }
            let strays = left.strays.checked_sub(strays);
            let unseen = left.unseen.checked_sub(unseen);
            let (Some(strays), Some(unseen)) = (strays, unseen) else {
                self.is_bounded = true;
                continue;
            };
            let mut next = done;
            add(&mut next, i);
            for after in item.outcomes(state) {
                self.order.push(i);
                if self.place(next, at, &after, Left { strays, unseen })? {
                    return Some(true);
                }
                self.order.pop();
            }
        }
        self.note_dead_end(key, &done, left);
        Some(false)
    }

    /// Whether the same state led nowhere when no more was placed of what need not be, and no less was left: whatever
    /// could follow here could have followed there.
    fn leads_nowhere(&self, key: &(Required, u64), done: &Done, left: Left) -> bool {
        let covers = |end: &DeadEnd| {
            is_within(&end.placed, done) && end.left.strays >= left.strays && end.left.unseen >= left.unseen
        };
        self.dead_ends.get(key).is_some_and(|ends| ends.iter().any(covers))
    }

    fn note_dead_end(&mut self, key: (Required, u64), done: &Done, left: Left) {
        let placed = std::array::from_fn(|w| done[w] & !self.required[w]);
        self.dead_ends.entry(key).or_default().push(DeadEnd { placed, left });
    }

    /// The items that may be placed next, with whether (1 or 0) each strays from the order of the OSDs' versions: first
    /// those in that order up to the next one that is required, then the rest. Changes that nothing shows come last.
    ///
    /// An operation that only reads and agrees with the state is placed at once: every order that has it later is also
    /// valid with it here.
    fn candidates(&self, done: &Done, now: u64, first_end: u64, state: &State) -> Vec<Candidate> {
        let may = |i: &usize| !has(done, *i) && self.items[*i].op.began < first_end;
        let open: Vec<usize> = (0..self.items.len()).filter(may).collect();
        if let Some(item) = open.iter().copied().find(|i| self.looks_now(done, now, state, *i)) {
            return vec![Candidate { item, strays: 0, unseen: 0 }];
        }
        let (mut required, mut unseen): (Vec<usize>, Vec<usize>) =
            open.into_iter().partition(|i| self.items[*i].required);
        // An operation that only reads and does not agree comes after some change.
        required.sort_by_cached_key(|i| (self.items[*i].only_looks(), self.items[*i].hint()));
        // A mark that no read shows has to be gone before the next read.
        let is_plain_read = |i: &usize| self.items[*i].op.action == Action::Read;
        if required.iter().all(is_plain_read) && unseen.iter().all(|i| self.items[*i].op.action.marks()) {
            unseen.clear();
        }
        unseen.retain(|i| !self.has_better(done, now, *i));
        unseen.sort_by_cached_key(|i| (self.items[*i].op.action.marks(), self.items[*i].hint()));
        let in_order = required.into_iter().enumerate();
        let required = in_order.map(|(n, item)| Candidate { item, strays: usize::from(n > 0), unseen: 0 });
        let unseen = unseen.into_iter().map(|item| Candidate { item, strays: 0, unseen: 1 });
        required.chain(unseen).collect()
    }

    /// Whether item `i` only looks, agrees with the state and keeps nothing from being placed after it.
    fn looks_now(&self, done: &Done, now: u64, state: &State, i: usize) -> bool {
        let item = &self.items[i];
        let at = now.max(item.op.began);
        let hinders = |(j, other): (usize, &Item)| {
            // What is too late already does not matter.
            let becomes_late = other.until < at && other.until >= now.max(other.op.began);
            !other.required && !has(done, j) && (becomes_late || has(&other.then, i))
        };
        item.only_looks()
            && self.keeps_order(done, i)
            && item.stays(state)
            && !self.items.iter().enumerate().any(hinders)
    }

    /// Whether a change that nothing shows may be left out here, because an earlier one that does the same may be placed
    /// instead, and whatever could follow can follow that too.
    fn has_better(&self, done: &Done, now: u64, i: usize) -> bool {
        let item = &self.items[i];
        let at = now.max(item.op.began);
        let can_wait = (0..done.len()).all(|w| item.then[w] & !done[w] == 0);
        (0..i).any(|j| {
            let other = &self.items[j];
            let blocks = |(k, of): (usize, &Item)| !of.required && !has(done, k) && has(&of.then, j);
            let may_swap = || {
                let same = (other.op.client, other.op.life) == (item.op.client, item.op.life);
                let apart =
                    can_wait && item.until >= other.until && !self.items.iter().enumerate().any(blocks);
                same || apart
            };
            !other.required
                && !has(done, j)
                && other.does_the_same(item)
                && now.max(other.op.began) <= at.min(other.until)
                && self.keeps_order(done, j)
                && may_swap()
        })
    }

    /// Whether what has to come before item `i` is done, and nothing that has to come after it.
    fn keeps_order(&self, done: &Done, i: usize) -> bool {
        let Item { first, then, .. } = &self.items[i];
        is_within(first, done) && are_apart(then, done)
    }

    fn furthest(&self) -> Attempt {
        let placed: Vec<Mark> = self.best.iter().map(|i| self.items[*i].op.mark).collect();
        let open = self.items.iter().enumerate().filter(|(i, item)| item.required && !self.best.contains(i));
        let mut next: Vec<&Item> = open.map(|(_, item)| item).collect();
        next.sort_by_key(|item| item.until);
        Attempt { placed, next: next.iter().take(4).map(|item| item.op.mark).collect() }
    }
}
