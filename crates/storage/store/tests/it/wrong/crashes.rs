//! Flaws that a power loss, a bad block or a failed commit shows.

use std::collections::BTreeMap;

use store::sim::SimStore;
use store::{
    CollectionId, Completion, MemStore, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, Step,
    StoreError, StoreShard, Token, Transaction,
};
use types::{Errno, GHObject, UTime};

use super::{Flaw, apply_now, data_of, look};

/// Shows transactions as committed in the turn that begins them. A store that applies them at once shows what is
/// refused.
pub struct AcknowledgesBeforeDurable {
    shadow: Option<MemStore>,
}

impl AcknowledgesBeforeDurable {
    pub fn new() -> Self {
        Self { shadow: None }
    }

    fn shadow(&mut self, inner: &SimStore) -> &mut MemStore {
        self.shadow.get_or_insert_with(|| MemStore::with_shards(1 << 30, inner.shards()))
    }
}

impl Flaw for AcknowledgesBeforeDurable {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.shadow(inner).queue(txn.clone(), token);
        inner.queue(txn, token);
    }

    fn acknowledge(&mut self, inner: &mut SimStore, refused: Token) {
        self.shadow(inner).acknowledge(refused);
        inner.acknowledge(refused);
    }

    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        self.shadow(inner).rehome(id, to, max, token);
        inner.rehome(id, to, max, token);
    }

    fn turn(&mut self, inner: &mut SimStore) {
        self.shadow(inner).turn(UTime::default());
    }

    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        self.shadow(inner).turn(UTime::default());
        self.shadow(inner).completions(&mut Vec::new());
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        self.shadow(inner).completions(out);
        let mut late = Vec::new();
        inner.completions(&mut late);
        out.extend(late.into_iter().filter(|c| matches!(c, Completion::Read { .. })));
    }
}

/// Does the newest transactions again when it is opened after a power loss.
#[derive(Default)]
pub struct ReplaysTwice {
    newest: Vec<(Token, Transaction)>,
}

impl Flaw for ReplaysTwice {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.newest.push((token, txn.clone()));
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let kept: Vec<_> = self.newest.drain(..).filter(|(token, _)| !lost.contains(token)).collect();
        for (_, txn) in kept.into_iter().rev().take(2).rev() {
            // A log takes no record twice.
            apply_now(inner, part(&txn, |_, step| !matches!(step, Step::Log { .. })));
        }
    }
}

/// A transaction of which only some steps are there after a power loss.
fn part(txn: &Transaction, keeps: impl Fn(usize, &Step) -> bool) -> Transaction {
    let mut part = Transaction::new();
    let (names, steps) = txn.clone().into_parts();
    for (collection, object) in &names {
        part.name(*collection, object);
    }
    assert_eq!(part.objects().len(), names.len(), "the table is as it was");
    for step in steps.into_iter().enumerate().filter(|(i, step)| keeps(*i, step)).map(|s| s.1) {
        part.push(step);
    }
    part
}

/// Leaves the first half of a transaction that a power loss interrupts.
#[derive(Default)]
pub struct Tears {
    queued: BTreeMap<Token, Transaction>,
}

impl Flaw for Tears {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.clone());
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let queued = std::mem::take(&mut self.queued);
        if let Some(txn) = lost.iter().find_map(|token| queued.get(token)) {
            let half = txn.steps().len() / 2;
            apply_now(inner, part(txn, |i, _| i < half));
        }
    }
}

/// Makes a transaction durable in one collection after the other.
#[derive(Default)]
pub struct TearsBetweenCollections {
    queued: BTreeMap<Token, Transaction>,
}

impl Flaw for TearsBetweenCollections {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.clone());
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let queued = std::mem::take(&mut self.queued);
        for txn in lost.iter().filter_map(|token| queued.get(token)) {
            let all = txn.collections();
            let of_first = |step: &Step| match step {
                Step::Object { object, .. } => Some(txn.object(*object).0) == all.first().copied(),
                Step::Log { collection, .. } | Step::SetInfo { collection, .. } => {
                    Some(collection) == all.first()
                }
                Step::Clone { .. }
                | Step::CloneRange { .. }
                | Step::Rename { .. }
                | Step::Collection { .. } => false,
            };
            if all.len() > 1 {
                apply_now(inner, part(txn, |_, step| of_first(step)));
                return;
            }
        }
    }
}

/// Gives freed blocks to others before the transaction that frees them is durable: after a power loss what it should
/// have replaced has others' bytes.
#[derive(Default)]
pub struct FreesBeforeCommit {
    queued: BTreeMap<Token, Transaction>,
}

impl Flaw for FreesBeforeCommit {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.queued.insert(token, txn.clone());
        inner.queue(txn, token);
    }

    fn crashed(&mut self, inner: &mut SimStore, lost: &[Token]) {
        let queued = std::mem::take(&mut self.queued);
        let frees = |step: &Step| match step {
            Step::Object { object, change: ObjectChange::Remove | ObjectChange::Write { .. } } => {
                Some(*object)
            }
            _ => None,
        };
        for txn in lost.iter().filter_map(|token| queued.get(token)) {
            let Some(object) = txn.steps().iter().find_map(frees) else { continue };
            let (collection, name) = txn.object(object);
            if data_of(inner, collection, name).is_some_and(|d| d.len() >= 4096) {
                let mut garbage = Transaction::new();
                garbage.write(collection, name, 0, vec![0xee; 4096].into());
                apply_now(inner, garbage);
                return;
            }
        }
    }
}

/// Forgets after a power loss that a collection was on its way, and has it where it came from.
pub struct ForgetsRehoming;

impl Flaw for ForgetsRehoming {
    fn crashed(&mut self, inner: &mut SimStore, _: &[Token]) {
        let Ok(ReadOutcome::Collections(all)) = look(inner, &ReadRequest::Collections) else { return };
        for id in all {
            inner.rehome(id, inner.shard_of(id), usize::MAX, Token(u64::MAX));
            super::settle(inner);
        }
    }
}

/// Returns bad bytes: what is damaged reads as other bytes.
pub struct NeverChecks;

impl Flaw for NeverChecks {
    fn damage(&mut self, inner: &mut SimStore, collection: CollectionId, object: &GHObject, offset: u64) {
        let byte = data_of(inner, collection, object).map(|d| d.to_vec()[offset as usize] ^ 0x40);
        let mut txn = Transaction::new();
        txn.write(collection, object, offset, vec![byte.unwrap_or_default()].into());
        apply_now(inner, txn);
    }
}

/// Takes the whole object for bad where a block is.
pub struct BlamesTheWholeObject;

impl Flaw for BlamesTheWholeObject {
    fn damage(&mut self, inner: &mut SimStore, collection: CollectionId, object: &GHObject, _: u64) {
        let len = data_of(inner, collection, object).map_or(0, |d| d.len() as u64);
        (0..len).step_by(4096).for_each(|offset| inner.damage(collection, object, offset));
    }
}

/// Merges into a bad block without looking at its checksum: a partial overwrite makes it good.
#[derive(Default)]
pub struct OverwritesBadBlocks {
    bad: Option<(CollectionId, GHObject)>,
}

impl Flaw for OverwritesBadBlocks {
    fn damage(&mut self, inner: &mut SimStore, collection: CollectionId, object: &GHObject, offset: u64) {
        self.bad = Some((collection, object.clone()));
        inner.damage(collection, object, offset);
    }

    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        if let Some((collection, object)) = &self.bad {
            let writes = |s: &Step| match s {
                Step::Object { object, change: ObjectChange::Write { .. } } => {
                    Some(txn.object(*object).1.clone())
                }
                _ => None,
            };
            if txn.steps().iter().find_map(writes).as_ref() == Some(object) {
                // The object is written whole with what happens to be there.
                let mut whole = Transaction::new();
                whole.remove(*collection, object).write(*collection, object, 0, vec![7; 256 << 10].into());
                whole.append(txn);
                txn = whole;
            }
        }
        inner.queue(txn, token);
    }
}

/// Goes on after a commit has failed.
#[derive(Default)]
pub struct GoesOnAfterAFailedCommit {
    fails: bool,
    done: Vec<Completion>,
    taken: Vec<Completion>,
}

impl Flaw for GoesOnAfterAFailedCommit {
    fn fail_commits(&mut self, _: &mut SimStore) {
        self.fails = true;
    }

    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        if !std::mem::take(&mut self.fails) {
            return inner.queue(txn, token);
        }
        let error = StoreError::Io { what: "commit", errno: Errno::EIO, at: None };
        self.taken.push(Completion::Refused { token, error });
    }

    fn turn(&mut self, _: &mut SimStore) {
        self.done.append(&mut self.taken);
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
        inner.completions(out);
    }
}
