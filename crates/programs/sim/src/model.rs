//! The model of an object: what it is after each operation, at its head and at each snapshot.

use std::collections::BTreeSet;
use std::rc::Rc;

use types::Errno;

use crate::history::{Action, Mark, Seen, words};

/// An object that exists.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Contents {
    /// Its attribute: the last change.
    pub mark: Mark,
    /// The word of each block; 0 where nothing was written.
    pub blocks: Vec<u64>,
}

/// The snapshots that a change must preserve.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Context {
    /// The newest snapshot that there has been.
    pub seq: u64,
    /// Those that there are, newest first.
    pub snaps: Vec<u64>,
}

impl Context {
    /// The same as far as these snapshots tell: where an object's answers and rollbacks name no other, both contexts lead to the
    /// same answers.
    pub fn seen_at(&self, named: &BTreeSet<u64>) -> Self {
        // Something may be left of an object as soon as there has been a snapshot.
        let floor = named.range(..=self.seq).next_back().copied().unwrap_or(self.seq.min(1));
        Self { seq: floor, snaps: self.snaps.iter().copied().filter(|snap| named.contains(snap)).collect() }
    }
}

/// An object's state.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct State {
    /// `None`: it does not exist.
    pub head: Option<Rc<Contents>>,
    /// The newest snapshot that a change knew of.
    seq: u64,
    /// What it was at snapshots that changes have preserved, where it existed.
    kept: Vec<(u64, Rc<Contents>)>,
    /// Snapshots at which it may be found as it was or as it is: see [`State::preserve`].
    vague: BTreeSet<u64>,
    /// Nothing is known of it: it went back to a vague snapshot.
    pub wild: bool,
}

impl State {
    /// What it was at a snapshot, or is since then.
    fn at(&self, snap: u64) -> Option<&Rc<Contents>> {
        match snap > self.seq {
            true => self.head.as_ref(),
            false => self.kept.iter().find(|(of, _)| *of == snap).map(|(_, contents)| contents),
        }
    }

    /// Whether an answer about a snapshot may be any.
    pub fn is_vague(&self, snap: u64) -> bool {
        self.vague.contains(&snap)
    }

    /// Whether something may be left of an object that does not exist.
    pub fn may_be_whiteout(&self) -> bool {
        self.head.is_none() && self.seq > 0
    }

    /// A change with a context comes: what it is now is kept for each snapshot that no change knew of.
    ///
    /// An object that does not exist, and of which no clone is left, has forgotten which snapshots it knew of. If it is
    /// then made by a change whose client knew fewer, those are vague.
    fn preserve(&mut self, context: &Context) {
        match &self.head {
            Some(head) => {
                let unseen = context.snaps.iter().take_while(|snap| **snap > self.seq);
                self.kept.extend(unseen.map(|snap| (*snap, head.clone())));
            }
            None => self.vague.extend(context.seq + 1..self.seq + 1),
        }
        self.seq = self.seq.max(context.seq);
    }
}

/// What an action found beside its object.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Way {
    pub context: Context,
    /// Of an action that goes back to a snapshot that is being removed: whether it is found to be gone.
    pub lost: bool,
    /// Of a copy: its source.
    pub source: Option<Rc<Contents>>,
}

impl Action {
    /// The object after the action, and the answer to the client.
    pub fn apply(&self, mark: Mark, way: &Way, state: &State) -> (State, Seen) {
        let Way { context, lost, source } = way;
        let head = state.head.as_deref();
        let old = || head.cloned().unwrap_or_default();
        let become_of = |head: Option<Rc<Contents>>| {
            let mut next = state.clone();
            next.preserve(context);
            next.head = head;
            (next, Seen::Ok(None))
        };
        let changed = |blocks: Vec<u64>| become_of(Some(Rc::new(Contents { mark, blocks })));
        let failed = |errno| (state.clone(), Seen::Error(errno));
        let found = |contents: Option<&Rc<Contents>>| match contents {
            Some(contents) => (state.clone(), Seen::Ok(Some((**contents).clone()))),
            None => failed(Errno::ENOENT),
        };
        match *self {
            Self::Read => found(state.head.as_ref()),
            Self::ReadAt { snap } => found(state.at(snap)),
            Self::WriteFull { blocks } => changed(words(mark, blocks)),
            Self::Write { at, blocks } => {
                let mut new = old().blocks;
                new.resize(new.len().max(at + blocks), 0);
                new[at..at + blocks].copy_from_slice(&words(mark, blocks));
                changed(new)
            }
            Self::Append { blocks } => changed([old().blocks, words(mark, blocks)].concat()),
            Self::Truncate { blocks } => {
                let mut new = old().blocks;
                new.resize(blocks, 0);
                changed(new)
            }
            Self::Remove if head.is_some() => become_of(None),
            Self::Remove => failed(Errno::ENOENT),
            Self::Create if head.is_none() => changed(Vec::new()),
            Self::Create => failed(Errno::EEXIST),
            Self::Swap { expected, blocks } => match head {
                Some(contents) if contents.mark == expected => changed(words(mark, blocks)),
                Some(_) => failed(Errno::ECANCELED),
                None => failed(Errno::ENOENT),
            },
            Self::Copy { .. } if source.is_some() => become_of(source.clone()),
            Self::Copy { .. } => failed(Errno::ENOENT),
            Self::Rollback { snap } if state.is_vague(snap) => {
                (State { wild: true, ..state.clone() }, Seen::Ok(None))
            }
            Self::Rollback { snap } => {
                let target = state.at(snap).filter(|_| !*lost || snap > state.seq).cloned();
                match head.is_none() && target.is_none() {
                    true => (state.clone(), Seen::Ok(None)),
                    false => become_of(target),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(seq: u64, snaps: &[u64]) -> Context {
        Context { seq, snaps: snaps.to_vec() }
    }

    /// The state after changes with their contexts; marks count from 1.
    fn after(changes: &[(Action, Context)]) -> State {
        let marked = changes.iter().zip(1..);
        marked.fold(State::default(), |state, ((action, context), mark)| {
            action.apply(mark, &Way { context: context.clone(), ..Way::default() }, &state).0
        })
    }

    #[test]
    fn snapshots_that_nothing_names_change_no_answer() {
        let contexts = [
            context(0, &[]),
            context(2, &[2]),
            context(3, &[3, 2]),
            context(5, &[5, 3]),
            context(6, &[6, 5, 3]),
        ];
        let actions = [WRITE, Action::Remove, Action::Append { blocks: 1 }, Action::Rollback { snap: 3 }];
        for named in [[].into(), [3].into(), [2, 3].into(), [3, 6].into()] {
            let named: BTreeSet<u64> = named;
            // One of seven of all histories of four changes.
            for n in 0..(contexts.len() * actions.len()).pow(4) / 7 {
                let (mut n, mut both) = (n * 7, [State::default(), State::default()]);
                for mark in 1..=4 {
                    let (action, context) = (&actions[n % 4], &contexts[n / 4 % 5]);
                    n /= 20;
                    if matches!(action, Action::Rollback { .. }) && !named.contains(&3) {
                        continue;
                    }
                    let contexts = [context.clone(), context.seen_at(&named)];
                    let ways = contexts.map(|context| Way { context, ..Way::default() });
                    let [one, two] = [0, 1].map(|i| action.apply(mark, &ways[i], &both[i]));
                    assert_eq!(one.1, two.1);
                    both = [one.0, two.0];
                    let [one, two] = &both;
                    assert_eq!(
                        (&one.head, one.wild, one.may_be_whiteout()),
                        (&two.head, two.wild, two.may_be_whiteout())
                    );
                    for snap in &named {
                        assert_eq!(
                            (one.at(*snap), one.is_vague(*snap)),
                            (two.at(*snap), two.is_vague(*snap))
                        );
                    }
                }
            }
        }
    }

    fn mark_at(state: &State, snap: u64) -> Option<Mark> {
        state.at(snap).map(|contents| contents.mark)
    }

    const WRITE: Action = Action::WriteFull { blocks: 1 };

    #[test]
    fn a_change_keeps_what_was_for_the_snapshots_that_no_change_knew_of() {
        let state = after(&[
            (WRITE, context(0, &[])),
            (WRITE, context(3, &[3, 2])),
            (WRITE, context(3, &[3, 2])),
            (Action::Remove, context(5, &[5, 3, 2])),
            (WRITE, context(6, &[6, 5, 3, 2])),
        ]);
        let marks: Vec<Option<Mark>> = (2..=7).map(|snap| mark_at(&state, snap)).collect();
        assert_eq!(marks, [Some(1), Some(1), None, Some(3), None, Some(5)]);
    }

    #[test]
    fn a_rollback_makes_the_head_what_it_was_and_keeps_what_it_is() {
        let state = after(&[
            (WRITE, context(0, &[])),
            (WRITE, context(2, &[2])),
            (Action::Rollback { snap: 2 }, context(3, &[3, 2])),
        ]);
        assert_eq!(state.head.as_ref().map(|head| head.mark), Some(1));
        assert_eq!((mark_at(&state, 2), mark_at(&state, 3)), (Some(1), Some(2)));
        let state = after(&[(Action::Rollback { snap: 2 }, context(3, &[3, 2]))]);
        assert_eq!(state, State::default(), "what was not there does not come to be");
    }

    #[test]
    fn an_older_context_on_what_is_gone_leaves_newer_snapshots_vague() {
        let state = after(&[
            (WRITE, context(4, &[4, 2])),
            (Action::Remove, context(4, &[4, 2])),
            (WRITE, context(2, &[2])),
        ]);
        assert!(state.is_vague(3) && state.is_vague(4) && !state.is_vague(2) && !state.is_vague(5));
    }
}
