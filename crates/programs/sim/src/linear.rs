//! Whether an object's history is linearizable: whether there is an order of its operations in which each took effect at
//! one moment between its beginning and its end, and each answer follows from the state at that moment.
//!
//! The search is Wing's and Gong's with Lowe's memory of what was tried (a set of operations done with the state that
//! they led to leads nowhere twice). An operation without an answer may have taken effect at any moment after its
//! beginning, or never. Beyond linearizability: changes of one client to one object take effect in the order in which
//! it began them, and those of a fenced client take no effect once another client could rely on the fence.

use std::collections::{BTreeSet, HashSet};
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};

use crate::history::{Action, Fence, History, Mark, Operation, Seen};
use crate::model::{Context, State, Way};

/// Operations of one object that a search takes.
pub const OPERATIONS_MAX: usize = 256;
/// States that a search looks at before it gives up.
const STATES_MAX: usize = 200_000;

type Done = [u64; OPERATIONS_MAX / 64];

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    Linearizable,
    /// No order explains the history.
    Impossible(Attempt),
    /// The search was given up.
    Undecided(Attempt),
}

/// The attempt of a search that came furthest in time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The marks of the operations that it placed, in order.
    pub placed: Vec<Mark>,
    /// Of those that had to come next.
    pub next: Vec<Mark>,
}

#[derive(Clone)]
struct Item<'a> {
    op: &'a Operation,
    /// The last moment at which it may take effect.
    until: u64,
    /// Whether it must be placed.
    required: bool,
    seen: Option<&'a Seen>,
    /// What it may have taken for its snapshots, whether a snapshot that it names may have been gone, what it copied.
    ways: Vec<Way>,
    /// Changes that must be placed before it: of its client, if it is a change; of an earlier holder of its lock.
    first: Done,
    /// What it must be placed before, if it is placed.
    then: Done,
}

impl Item<'_> {
    /// The operation's position by the OSD's log, or else by its answer. Only a hint what to try first: both may be wrong,
    /// and the versions of answers go back when an object becomes a copy of another.
    fn hint(&self) -> ((u32, u64), u64) {
        let answered = self.op.end.as_ref().map_or(0, |end| end.version);
        let version = match self.op.logged {
            (_, 0) => (u32::MAX, if answered > 0 { answered } else { u64::MAX }),
            logged => logged,
        };
        (version, self.until)
    }

    /// Whether its answer says that it left the object as it was.
    fn only_looks(&self) -> bool {
        self.required && (!self.op.action.writes() || matches!(self.seen, Some(Seen::Error(_))))
    }

    /// The states that it may lead to, where its answer follows from this one.
    fn outcomes(&self, state: &State) -> Vec<State> {
        let mut outcomes: Vec<State> = Vec::new();
        for way in &self.ways {
            if state.wild {
                return vec![state.clone()];
            }
            let (after, answer) = self.op.action.apply(self.op.mark, way, state);
            if self.agrees(state, &answer) && !outcomes.contains(&after) {
                outcomes.push(after);
            }
        }
        outcomes
    }

    fn agrees(&self, state: &State, answer: &Seen) -> bool {
        if let Action::ReadAt { snap } = self.op.action
            && state.is_vague(snap)
        {
            return true;
        }
        // What is left of a removed object of which there are clones has no attributes, which CMPXATTR finds unequal.
        let unequal = Seen::Error(types::Errno::ECANCELED);
        let is_swap = matches!(self.op.action, Action::Swap { .. });
        if is_swap && state.may_be_whiteout() && self.seen == Some(&unequal) {
            return true;
        }
        match self.seen {
            Some(seen) => seen == answer,
            // Without an effect it might as well not be placed.
            None => matches!(answer, Seen::Ok(_)),
        }
    }
}

struct Search<'a> {
    items: Vec<Item<'a>>,
    tried: HashSet<(Done, u64, usize), BuildHasherDefault<DefaultHasher>>,
    order: Vec<usize>,
    /// The order that came furthest in time, and how far.
    best: Vec<usize>,
    reached: u64,
}

/// Checks one object's history.
pub fn check(history: &History, object: usize) -> Verdict {
    let items: Vec<Item> = history.of_object(object).filter_map(|op| item(history, op)).collect();
    let observed = observed(history, object);
    let is_known = |item: &&Item| item.required || observed.contains(&item.op.mark);
    // A change without an answer that no read shows need not have happened: usually a history without it is linearizable.
    let known: Vec<Item> = items.iter().filter(is_known).cloned().collect();
    match known.len() == items.len() {
        true => search(items),
        false => match search(known) {
            Verdict::Linearizable => Verdict::Linearizable,
            Verdict::Impossible(_) | Verdict::Undecided(_) => search(items),
        },
    }
}

/// The marks of changes that some answer shows.
fn observed(history: &History, object: usize) -> BTreeSet<Mark> {
    let of = |op: &Operation| match (&op.action, op.end.as_ref().map(|end| &end.seen)) {
        (_, Some(Seen::Ok(Some(contents)))) => {
            contents.blocks.iter().map(|word| word >> 16).chain([contents.mark]).collect()
        }
        (Action::Swap { expected, .. }, Some(Seen::Ok(None))) => vec![*expected],
        _ => Vec::new(),
    };
    history.of_object(object).flat_map(of).collect()
}

fn search(mut items: Vec<Item>) -> Verdict {
    if items.len() > OPERATIONS_MAX {
        return Verdict::Undecided(Attempt { placed: Vec::new(), next: Vec::new() });
    }
    note_orders(&mut items);
    let (order, best) = (Vec::new(), Vec::new());
    let mut search = Search { items, tried: HashSet::default(), order, best, reached: 0 };
    // Orders that follow the OSD's versions come first, then those that stray from them a little, then all.
    for strays in [0, 1, 2, usize::MAX] {
        search.tried.clear();
        match search.place([0; OPERATIONS_MAX / 64], 0, &State::default(), strays) {
            Some(true) => return Verdict::Linearizable,
            Some(false) if strays == usize::MAX => return Verdict::Impossible(search.furthest()),
            Some(false) | None => {}
        }
    }
    Verdict::Undecided(search.furthest())
}

fn item<'a>(history: &History, op: &'a Operation) -> Option<Item<'a>> {
    let fenced = history
        .fences
        .iter()
        .filter(|fence| (fence.client, fence.life) == (op.client, op.life))
        .map(|fence| relied_upon(history, op.object, fence))
        .min()
        .unwrap_or(u64::MAX);
    let new = |until, seen: Option<&'a Seen>| {
        let (required, none) = (seen.is_some(), [0; OPERATIONS_MAX / 64]);
        Item { op, until, required, seen, ways: ways(history, op), first: none, then: none }
    };
    if let Action::ReadAt { snap } = op.action
        && history.is_removed(snap, op)
    {
        return None;
    }
    match op.end.as_ref().map(|end| (end.at, &end.seen)) {
        Some((_, Seen::NoEffect)) => None,
        None | Some((_, Seen::Unknown)) if !op.action.writes() => None,
        None | Some((_, Seen::Unknown)) => Some(new(fenced, None)),
        Some((at, seen)) => {
            let until = if op.action.writes() { at.min(fenced) } else { at };
            Some(new(until, Some(seen)))
        }
    }
}

fn ways(history: &History, op: &Operation) -> Vec<Way> {
    let contexts = if op.action.writes() { history.contexts(op) } else { vec![Context::default()] };
    let may_be_lost = matches!(op.action, Action::Rollback { snap } if history.is_removed(snap, op));
    let sources = match op.action {
        Action::Copy { source } => history.sources(source, op),
        _ => vec![None],
    };
    let mut ways = Vec::new();
    for context in contexts {
        for source in &sources {
            for lost in [false, true].into_iter().take(1 + usize::from(may_be_lost)) {
                ways.push(Way { context: context.clone(), lost, source: source.clone() });
            }
        }
    }
    ways
}

/// Notes the order of each client's changes, and that of a lock's holders.
fn note_orders(items: &mut [Item]) {
    let of = |item: &Item| (item.op.client, item.op.life);
    for i in 0..items.len() {
        for j in 0..items.len() {
            // What a lock's holder wrote comes before all that a later holder does.
            let later = |a: &Item, b: &Item| matches!((a.op.hold, b.op.hold), (Some(a), Some(b)) if a.0 == b.0 && a.1 < b.1);
            if items[i].op.action.writes() && later(&items[i], &items[j]) {
                items[i].then[j / 64] |= 1 << (j % 64);
            }
            if items[j].op.action.writes() && items[j].required && later(&items[j], &items[i]) {
                items[i].first[j / 64] |= 1 << (j % 64);
            }
            let same = i != j && of(&items[i]) == of(&items[j]);
            if !same || !items[i].op.action.writes() || !items[j].op.action.writes() {
                continue;
            }
            if items[j].op.began > items[i].op.began {
                items[i].then[j / 64] |= 1 << (j % 64);
            } else if items[j].required {
                items[i].first[j / 64] |= 1 << (j % 64);
            }
        }
    }
}

/// When a client could first rely on a fence for an object: an OSD with the fence's map answered for the object.
fn relied_upon(history: &History, object: usize, fence: &Fence) -> u64 {
    let of = |op: &Operation| {
        let end = op.end.as_ref()?;
        (end.epoch > 0 && op.epoch.max(end.epoch) >= fence.epoch).then_some(end.at)
    };
    history.of_object(object).filter_map(of).min().unwrap_or(u64::MAX)
}

fn has(done: &Done, i: usize) -> bool {
    done[i / 64] >> (i % 64) & 1 == 1
}

fn hash(state: &State) -> u64 {
    let mut hasher = DefaultHasher::new();
    state.hash(&mut hasher);
    hasher.finish()
}

impl Search<'_> {
    /// Whether what is not done can be placed after `now` on `state`, straying at most so often from the order that the
    /// OSD's answers hint at; `None` when the search is given up.
    fn place(&mut self, done: Done, now: u64, state: &State, strays: usize) -> Option<bool> {
        let open = |i: &usize| !has(&done, *i);
        let required = (0..self.items.len()).filter(open).filter(|i| self.items[*i].required);
        let Some(first_end) = required.map(|i| self.items[i].until).min() else { return Some(true) };
        if first_end > self.reached {
            self.reached = first_end;
            self.best.clone_from(&self.order);
        }
        if first_end < now {
            return Some(false);
        }
        if self.tried.len() > STATES_MAX {
            return None;
        }
        if !self.tried.insert((done, hash(state), strays)) {
            return Some(false);
        }
        let candidates = self.candidates(&done, now, first_end, state);
        for (i, strays_here) in candidates {
            let Some(strays) = strays.checked_sub(strays_here) else { break };
            let item = &self.items[i];
            let at = now.max(item.op.began);
            if at > item.until || !self.keeps_order(&done, i) {
                continue;
            }
            let mut next = done;
            next[i / 64] |= 1 << (i % 64);
            for after in item.outcomes(state) {
                self.order.push(i);
                if self.place(next, at, &after, strays)? {
                    return Some(true);
                }
                self.order.pop();
            }
        }
        Some(false)
    }

    /// The items that may be placed next, each with whether (1 or 0) it strays from the order of the OSDs' versions: first
    /// those in that order up to the next one with an answer, then the rest; last what no OSD began.
    ///
    /// An operation that only reads and agrees with the state is placed at once: every order that has it later is also
    /// valid with it here.
    fn candidates(&self, done: &Done, now: u64, first_end: u64, state: &State) -> Vec<(usize, usize)> {
        let may = |i: &usize| !has(done, *i) && self.items[*i].op.began < first_end;
        let mut candidates: Vec<usize> = (0..self.items.len()).filter(may).collect();
        if let Some(i) = candidates.iter().find(|i| self.looks_now(done, now, state, **i)) {
            return vec![(*i, 0)];
        }
        // An operation that only reads and does not agree comes after some change.
        let is_likely = |item: &Item| item.required || item.op.logged.1 > 0;
        let order = |item: &Item| (!is_likely(item), item.only_looks(), item.hint());
        candidates.sort_by_key(|i| order(&self.items[*i]));
        // What an OSD began need not have lasted: the next that did is tried as well.
        let required = candidates.iter().position(|i| self.items[*i].required);
        let by_versions = required.map_or(candidates.len(), |at| at + 1);
        candidates.into_iter().enumerate().map(|(n, i)| (i, usize::from(n >= by_versions))).collect()
    }

    /// Whether item `i` only looks, agrees with the state and keeps nothing from being placed after it.
    fn looks_now(&self, done: &Done, now: u64, state: &State, i: usize) -> bool {
        let item = &self.items[i];
        let at = now.max(item.op.began);
        let hinders = |(j, other): (usize, &Item)| {
            !other.required && !has(done, j) && (other.until < at || has(&other.then, i))
        };
        item.only_looks()
            && self.keeps_order(done, i)
            && item.outcomes(state).contains(state)
            && !self.items.iter().enumerate().any(hinders)
    }

    /// Whether the client's own order of changes allows item `i` next.
    fn keeps_order(&self, done: &Done, i: usize) -> bool {
        let Item { first, then, .. } = &self.items[i];
        (0..done.len()).all(|w| first[w] & !done[w] == 0 && then[w] & done[w] == 0)
    }

    fn furthest(&self) -> Attempt {
        let placed: Vec<Mark> = self.best.iter().map(|i| self.items[*i].op.mark).collect();
        let open = self.items.iter().enumerate().filter(|(i, item)| item.required && !self.best.contains(i));
        let mut next: Vec<&Item> = open.map(|(_, item)| item).collect();
        next.sort_by_key(|item| item.until);
        Attempt { placed, next: next.iter().take(4).map(|item| item.op.mark).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::End;
    use crate::model::Contents;

    /// Operations as (client, action, began, ended, what was seen); marks count from 1.
    fn history(ops: &[(usize, Action, u64, u64, Seen)]) -> History {
        let mut history = History::default();
        history.object("o".into());
        for (i, (client, action, began, at, seen)) in ops.iter().cloned().enumerate() {
            let end = (at > 0).then_some(End { at, epoch: 1, version: 0, seen });
            let (mark, life, epoch) = (i as u64 + 1, 0, 1);
            let context = Context::default();
            let (logged, times) = ((0, 0), (0, 0));
            let op = Operation {
                mark,
                object: 0,
                client,
                life,
                action,
                context,
                hold: None,
                began,
                epoch,
                logged,
                end,
                times,
            };
            history.operations.push(op);
        }
        history
    }

    const APPEND: Action = Action::Append { blocks: 1 };
    const DONE: Seen = Seen::Ok(None);

    /// What a read sees after appends of these marks.
    fn appended(marks: &[u64]) -> Seen {
        let blocks = marks.iter().map(|m| (m << 16) | 1).collect();
        Seen::Ok(Some(Contents { mark: *marks.last().unwrap(), blocks }))
    }

    fn is_fine(ops: &[(usize, Action, u64, u64, Seen)]) -> bool {
        check(&history(ops), 0) == Verdict::Linearizable
    }

    #[test]
    fn what_overlaps_may_come_in_either_order_and_nothing_else_may() {
        for order in [[1, 2], [2, 1]] {
            let read = (2, Action::Read, 5, 6, appended(&order));
            assert!(is_fine(&[(0, APPEND, 1, 4, DONE), (1, APPEND, 2, 3, DONE), read]));
        }
        let read = (2, Action::Read, 5, 6, appended(&[2, 1]));
        assert!(!is_fine(&[(0, APPEND, 1, 2, DONE), (1, APPEND, 3, 4, DONE), read]));
    }

    #[test]
    fn an_acknowledged_change_is_never_lost_and_a_lost_answer_may_mean_either() {
        assert!(!is_fine(&[
            (0, APPEND, 1, 2, DONE),
            (1, APPEND, 3, 4, DONE),
            (2, Action::Read, 5, 6, appended(&[1])),
        ]));
        for seen in [appended(&[1]), appended(&[1, 2])] {
            let unknown = (1, APPEND, 3, 0, DONE);
            assert!(is_fine(&[(0, APPEND, 1, 2, DONE), unknown, (2, Action::Read, 5, 6, seen)]));
        }
    }

    #[test]
    fn what_was_seen_is_not_taken_back_and_nothing_happens_twice() {
        assert!(!is_fine(&[
            (0, APPEND, 1, 0, DONE),
            (1, Action::Read, 3, 4, appended(&[1])),
            (1, Action::Read, 5, 6, Seen::Error(types::Errno::ENOENT)),
        ]));
        assert!(!is_fine(&[(0, APPEND, 1, 2, DONE), (1, Action::Read, 3, 4, appended(&[1, 1]))]));
    }

    #[test]
    fn a_client_s_changes_keep_their_order() {
        let ops = |client| {
            let read = (2, Action::Read, 5, 6, appended(&[2, 1]));
            [(0, APPEND, 1, 4, DONE), (client, APPEND, 2, 3, DONE), read]
        };
        assert!(is_fine(&ops(1)));
        assert!(!is_fine(&ops(0)));
    }

    #[test]
    fn a_fenced_change_may_not_follow_what_relies_on_the_fence() {
        let absent = Seen::Error(types::Errno::ENOENT);
        let ops = [
            (0, APPEND, 1, 0, DONE),
            (1, Action::Read, 2, 3, absent.clone()),
            (1, Action::Read, 4, 5, absent),
            (1, Action::Read, 6, 7, appended(&[1])),
        ];
        let mut h = history(&ops);
        assert_eq!(check(&h, 0), Verdict::Linearizable);
        h.fences.push(Fence { client: 0, life: 0, epoch: 1 });
        assert_ne!(check(&h, 0), Verdict::Linearizable);
    }

    #[test]
    fn a_guard_sees_the_state_at_its_moment() {
        let swap = Action::Swap { expected: 1, blocks: 1 };
        let make = (0, Action::Create, 1, 2, DONE);
        assert!(is_fine(&[make.clone(), (0, swap.clone(), 3, 4, DONE)]));
        assert!(!is_fine(&[make.clone(), (0, swap.clone(), 3, 4, DONE), (0, swap.clone(), 5, 6, DONE)]));
        assert!(is_fine(&[
            make,
            (0, swap.clone(), 3, 4, DONE),
            (0, swap, 5, 6, Seen::Error(types::Errno::ECANCELED))
        ]));
    }
}
