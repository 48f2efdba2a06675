//! What the answers about an object show of its changes.

use std::collections::{BTreeMap, BTreeSet};

use super::Item;
use super::search::add;
use crate::history::{Action, History, Mark, Operation, Seen};
use crate::model::Contents;

#[derive(Default)]
pub(super) struct Shown {
    /// The changes that some answer shows, with the end of the first that does: they have taken effect by then.
    pub by: BTreeMap<Mark, u64>,
    /// Those, and those that some operation asks for.
    pub named: BTreeSet<Mark>,
    /// The snapshots that a read or a rollback names.
    pub snaps: BTreeSet<u64>,
}

impl Shown {
    pub fn of(history: &History, object: usize) -> Self {
        let mut shown = Self::default();
        for op in history.of_object(object) {
            if let Action::Swap { expected, .. } = op.action {
                shown.named.insert(expected);
            }
            if let Action::ReadAt { snap } | Action::Rollback { snap } = op.action {
                shown.snaps.insert(snap);
            }
            let Some(end) = op.end.as_ref() else { continue };
            let mut note = |mark: Mark| {
                shown.named.insert(mark);
                let by = shown.by.entry(mark).or_insert(end.at);
                *by = end.at.min(*by);
            };
            match (&op.action, &end.seen) {
                (Action::Swap { expected, .. }, Seen::Ok(_)) => note(*expected),
                _ => contents(history, op).into_iter().flat_map(marks).for_each(note),
            }
        }
        shown
    }
}

/// What an answer shows. What is left at a snapshot whose removal has begun shows nothing.
fn contents<'a>(history: &History, op: &'a Operation) -> Option<&'a Contents> {
    if let Action::ReadAt { snap } = op.action
        && history.is_removed(snap, op)
    {
        return None;
    }
    match op.end.as_ref().map(|end| &end.seen) {
        Some(Seen::Ok(contents)) => contents.as_ref(),
        _ => None,
    }
}

fn marks(contents: &Contents) -> impl Iterator<Item = Mark> {
    contents.blocks.iter().map(|word| word >> 16).chain([contents.mark])
}

/// Notes the orders that answers show: an object's last change came after all others that its blocks show, and after all
/// that had ended when the read began; of two blocks that were appended the later one's change came later.
pub(super) fn note_orders(history: &History, object: usize, items: &mut [Item]) {
    let places: BTreeMap<Mark, usize> = items.iter().enumerate().map(|(i, item)| (item.op.mark, i)).collect();
    // Without rollbacks nothing brings back what another change replaced.
    let is_of_past = |op: &Operation| matches!(op.action, Action::ReadAt { .. });
    let goes_back = items.iter().any(|item| matches!(item.op.action, Action::Rollback { .. }));
    for op in history.of_object(object) {
        let Some(contents) = contents(history, op) else { continue };
        let last = places.get(&contents.mark);
        if let Some(last) = last.copied().filter(|_| !goes_back && !is_of_past(op)) {
            let before = |item: &Item| item.changes() && item.until < op.began;
            let earlier: Vec<usize> = (0..items.len()).filter(|i| *i != last && before(&items[*i])).collect();
            earlier.into_iter().for_each(|i| add(&mut items[last].first, i));
        }
        let mut appended: Option<usize> = None;
        for i in contents.blocks.iter().filter_map(|word| places.get(&(word >> 16))).copied() {
            if let Some(last) = last.filter(|last| **last != i) {
                add(&mut items[*last].first, i);
            }
            if matches!(items[i].op.action, Action::Append { .. }) {
                if let Some(before) = appended.filter(|before| *before != i) {
                    add(&mut items[i].first, before);
                }
                appended = Some(i);
            }
        }
    }
}
