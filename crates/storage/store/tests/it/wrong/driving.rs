//! Flaws in how a store is driven: tokens, turns, deadlines, acknowledgements.

use std::cell::Cell;
use std::collections::BTreeSet;

use store::sim::SimStore;
use store::{
    CollectionChange, CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Step, StoreError,
    Token, Transaction,
};
use types::UTime;

use super::Flaw;

/// Uses the top byte of tokens for itself.
pub struct CutsTokens;

impl Flaw for CutsTokens {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            match completion {
                Completion::Committed { token }
                | Completion::Refused { token, .. }
                | Completion::Read { token, .. }
                | Completion::Rehomed { token, .. } => token.0 &= u64::MAX >> 8,
            }
        }
    }
}

/// Takes token 0 for none.
pub struct LosesTokenZero;

impl Flaw for LosesTokenZero {
    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        out.retain(|c| c.token() != Token(0));
    }
}

/// Does nothing in a turn whose time is that of the last.
#[derive(Default)]
pub struct IgnoresTurnsOfOneTime {
    last: Option<UTime>,
}

impl Flaw for IgnoresTurnsOfOneTime {
    fn takes_turn(&mut self, now: UTime) -> bool {
        self.last.replace(now) != Some(now)
    }
}

/// Wants a turn at once, always.
#[derive(Default)]
pub struct AlwaysWantsATurn {
    now: Cell<UTime>,
}

impl Flaw for AlwaysWantsATurn {
    fn takes_turn(&mut self, now: UTime) -> bool {
        self.now.set(now);
        true
    }

    fn deadline(&self, inner: &SimStore) -> Option<UTime> {
        inner.deadline().or(Some(self.now.get()))
    }
}

/// An acknowledgement of what closes nothing counts for a refusal that comes later with that token.
#[derive(Default)]
pub struct RemembersAcknowledgements {
    early: BTreeSet<Token>,
    refused: BTreeSet<Token>,
}

impl Flaw for RemembersAcknowledgements {
    fn acknowledge(&mut self, inner: &mut SimStore, refused: Token) {
        if !self.refused.remove(&refused) {
            self.early.insert(refused);
        }
        inner.acknowledge(refused);
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            if let Completion::Refused { token, .. } = completion {
                self.refused.insert(*token);
                if self.early.remove(token) {
                    inner.acknowledge(*token);
                }
            }
        }
    }
}

/// Closes only collections that exist.
#[derive(Default)]
pub struct ClosesOnlyWhatExists {
    closed: Vec<(Token, CollectionId)>,
}

impl Flaw for ClosesOnlyWhatExists {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let missing = |id: &CollectionId| {
            let stat = super::look(inner, &ReadRequest::Collection { collection: *id });
            matches!(stat, Ok(ReadOutcome::Collection(None)))
        };
        let named = txn.collections();
        let creates =
            |s: &Step| matches!(s, Step::Collection { change: CollectionChange::Create { .. }, .. });
        let only_missing = named.len() == 1 && named.iter().all(missing);
        if only_missing && txn.steps().iter().any(creates) {
            for (token, id) in std::mem::take(&mut self.closed) {
                if named.contains(&id) {
                    inner.acknowledge(token);
                }
            }
        } else if only_missing {
            self.closed.extend(named.iter().map(|id| (token, *id)));
        }
        inner.queue(txn, token);
    }
}

/// Answers which collections there are from what is durable.
#[derive(Default)]
pub struct ListsCollectionsLate {
    before: Vec<CollectionId>,
    asked: BTreeSet<Token>,
    answer: Vec<CollectionId>,
}

impl Flaw for ListsCollectionsLate {
    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        if request == ReadRequest::Collections {
            self.asked.insert(token);
            self.answer = self.before.clone();
        }
        inner.read(request, token);
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if *request == ReadRequest::Collections { None } else { inner.peek(request) }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            if let Completion::Read { token, result: Ok(ReadOutcome::Collections(all)) } = completion {
                if self.asked.remove(token) {
                    *all = self.answer.clone();
                }
            }
        }
        if inner.deadline().is_none() {
            if let Ok(ReadOutcome::Collections(all)) = super::look(inner, &ReadRequest::Collections) {
                self.before = all;
            }
        }
    }

    fn reopened(&mut self, inner: &mut SimStore) {
        if let Ok(ReadOutcome::Collections(all)) = super::look(inner, &ReadRequest::Collections) {
            self.before = all;
        }
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        self.reopened(inner);
    }
}
