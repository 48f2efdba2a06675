//! Whether an object's history is linearizable: whether there is an order of its operations in which each took effect at
//! one moment between its beginning and its end, and each answer follows from the state at that moment.
//!
//! The search is Wing's and Gong's with Lowe's memory of what was tried (a set of operations done with the state that
//! they led to leads nowhere twice). An operation without an answer may have taken effect at any moment after its
//! beginning, or never. If an answer shows it, it has by then, and is searched like one with an answer. The others are
//! placed only where what has an answer can't go on without them ([`search`]). Beyond linearizability: changes of one client to one object take effect in the order in which
//! it began them, and those of a fenced client take no effect once another client could rely on the fence.

mod search;
mod shown;

use self::search::{Search, add};
use self::shown::Shown;
use crate::history::{Action, Fence, History, Mark, Operation, Seen};
use crate::model::{Context, State, Way};

/// Operations of one object that a search takes.
pub const OPERATIONS_MAX: usize = 256;
/// Stands for the mark of every change that no answer shows and no operation asks for: states that differ in such marks
/// alone are one.
const UNSEEN: Mark = 1 << 47;

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

struct Item<'a> {
    op: &'a Operation,
    /// Its mark, or [`UNSEEN`].
    mark: Mark,
    /// The last moment at which it may take effect.
    until: u64,
    /// Whether it must be placed.
    required: bool,
    seen: Option<&'a Seen>,
    /// What it may have taken for its snapshots, whether a snapshot that it names may have been gone, what it copied.
    ways: Vec<Way>,
    /// Changes that must be placed before it: of its client, if it is a change; of an earlier holder of its lock; what an
    /// answer shows to be earlier.
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

    /// Whether it certainly changed the object.
    fn changes(&self) -> bool {
        self.required && self.op.action.writes() && !matches!(self.seen, Some(Seen::Error(_)))
    }

    /// The states that it may lead to, where its answer follows from this one.
    fn outcomes(&self, state: &State) -> Vec<State> {
        let mut outcomes: Vec<State> = Vec::new();
        for way in &self.ways {
            if state.wild {
                return vec![state.clone()];
            }
            let (after, answer) = self.op.action.apply(self.mark, way, state);
            if self.agrees(state, &answer) && !outcomes.contains(&after) {
                outcomes.push(after);
            }
        }
        outcomes
    }

    /// Whether its answer follows from the state, which it leaves as it is.
    fn stays(&self, state: &State) -> bool {
        match (&self.op.action, self.seen) {
            (Action::Read, Some(Seen::Ok(seen))) => state.wild || seen.as_ref() == state.head.as_deref(),
            _ => self.outcomes(state).contains(state),
        }
    }

    /// Whether both do the same to every state. Of those that nothing shows.
    fn does_the_same(&self, other: &Self) -> bool {
        let (one, two) = (self.op, other.op);
        (self.mark, &one.action, one.hold) == (other.mark, &two.action, two.hold) && self.ways == other.ways
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

/// Checks one object's history.
pub fn check(history: &History, object: usize) -> Verdict {
    search(history, object).0
}

/// The verdict, and the states that the search looked at.
fn search(history: &History, object: usize) -> (Verdict, usize) {
    let shown = Shown::of(history, object);
    let fences = fences(history, object);
    let of_object = history.of_object(object);
    let mut items: Vec<Item> = of_object.filter_map(|op| item(history, &shown, &fences, op)).collect();
    if items.len() > OPERATIONS_MAX {
        return (Verdict::Undecided(Attempt { placed: Vec::new(), next: Vec::new() }), 0);
    }
    note_orders(&mut items);
    shown::note_orders(history, object, &mut items);
    Search::new(items).run()
}

fn item<'a>(history: &History, shown: &Shown, fences: &[Relied], op: &'a Operation) -> Option<Item<'a>> {
    let of_client = fences.iter().filter(|(fence, _)| (fence.client, fence.life) == (op.client, op.life));
    let fenced = of_client.map(|(_, until)| *until).min().unwrap_or(u64::MAX);
    let by = shown.by.get(&op.mark).copied();
    let new = |until: u64, seen: Option<&'a Seen>| {
        let until = if op.action.writes() { until.min(fenced).min(by.unwrap_or(u64::MAX)) } else { until };
        let mark = if shown.named.contains(&op.mark) { op.mark } else { UNSEEN };
        let (required, none) = (seen.is_some() || by.is_some(), Done::default());
        Item { op, mark, until, required, seen, ways: ways(history, shown, op), first: none, then: none }
    };
    if let Action::ReadAt { snap } = op.action
        && history.is_removed(snap, op)
    {
        return None;
    }
    match op.end.as_ref().map(|end| (end.at, &end.seen)) {
        Some((_, Seen::NoEffect)) => None,
        None | Some((_, Seen::Unknown)) if !op.action.writes() => None,
        None | Some((_, Seen::Unknown)) => Some(new(u64::MAX, None)),
        Some((at, seen)) => Some(new(at, Some(seen))),
    }
}

fn ways(history: &History, shown: &Shown, op: &Operation) -> Vec<Way> {
    let mut contexts = Vec::new();
    for context in if op.action.writes() { history.contexts(op) } else { vec![Context::default()] } {
        let context = context.seen_at(&shown.snaps);
        if !contexts.contains(&context) {
            contexts.push(context);
        }
    }
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
                add(&mut items[i].then, j);
            }
            if items[j].op.action.writes() && items[j].required && later(&items[j], &items[i]) {
                add(&mut items[i].first, j);
            }
            let same = i != j && of(&items[i]) == of(&items[j]);
            if !same || !items[i].op.action.writes() || !items[j].op.action.writes() {
                continue;
            }
            if items[j].op.began > items[i].op.began {
                add(&mut items[i].then, j);
            } else if items[j].required {
                add(&mut items[i].first, j);
            }
        }
    }
}

/// A fence, and when a client could first rely on it for an object.
type Relied<'a> = (&'a Fence, u64);

/// The fences, each with when an OSD with its map first answered for the object.
fn fences(history: &History, object: usize) -> Vec<Relied<'_>> {
    let answer = |op: &Operation| {
        let end = op.end.as_ref().filter(|end| end.epoch > 0)?;
        Some((op.epoch.max(end.epoch), end.at))
    };
    let answers: Vec<(u32, u64)> = history.of_object(object).filter_map(answer).collect();
    let first = |fence: &Fence| {
        let with_it = answers.iter().filter(|(epoch, _)| *epoch >= fence.epoch);
        with_it.map(|(_, at)| *at).min().unwrap_or(u64::MAX)
    };
    history.fences.iter().map(|fence| (fence, first(fence))).collect()
}

#[cfg(test)]
mod tests;
