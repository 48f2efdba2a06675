//! A PG's end: its pool is gone, and everything stored goes too, in transactions of bounded size.

use std::sync::Arc;

use store::{Left, NoPeek, ObjectGap, ObjectPage, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use types::{GHObject, OsdId, SpgId};

use crate::out::Out;
use crate::pg::ReadFor;
use crate::phase::Phase;
use crate::{Pg, PgConfig, PgEffect, PgFailure};

/// Objects removed in one transaction.
const OBJECTS_AT_ONCE: usize = 256;

/// How far a removal is.
#[derive(Debug)]
pub(crate) struct Removal {
    /// Objects that the next transaction removes at most: half as many after one that was refused, so that what can't be removed
    /// is found, and twice as many after one that was not.
    at_once: usize,
    /// How many objects the transaction under way removes, and the last of them.
    under_way: Option<(usize, GHObject)>,
    /// The last object that was removed, or can't be: no step looks again at what is up to it, nor passes by the gaps before it.
    behind: Option<GHObject>,
    /// What can't be removed, but for gaps.
    refused: Option<Left>,
    /// What was passed by, each once.
    gaps: Vec<ObjectGap>,
}

impl Default for Removal {
    fn default() -> Self {
        let (under_way, behind, refused, gaps) = (None, None, None, Vec::new());
        Self { at_once: OBJECTS_AT_ONCE, under_way, behind, refused, gaps }
    }
}

impl Removal {
    /// Where the list goes on, when no step is under way. One that was refused is known to be; another has removed its objects.
    fn start(&mut self) -> GHObject {
        if let Some((_, last)) = self.under_way.take() {
            self.at_once = (2 * self.at_once).min(OBJECTS_AT_ONCE);
            self.behind = Some(last);
        }
        self.behind.clone().unwrap_or(GHObject::min())
    }

    /// What is to be removed next, of a part of the list from where it is.
    fn next(&mut self, page: ObjectPage, meta: &GHObject) -> Vec<GHObject> {
        ObjectGap::add(&mut self.gaps, page.gaps);
        let objects = page.objects.into_iter().map(|(object, _)| object);
        let others = objects.filter(|object| object != meta && Some(object) > self.behind.as_ref());
        let objects: Vec<GHObject> = others.take(self.at_once).collect();
        self.under_way = objects.last().map(|last| (objects.len(), last.clone()));
        objects
    }

    /// A transaction is refused since one of its objects, or of what leads to it, can't be read.
    fn refused(&mut self, objects: usize, last: GHObject, why: StoreError) {
        if objects > 1 {
            self.at_once = objects / 2;
            return;
        }
        Left::add(&mut self.refused, (1, 0), &why);
        self.behind = Some(last);
    }

    fn left(&self) -> Option<Left> {
        let mut left = self.refused.clone();
        self.gaps.iter().for_each(|gap| Left::add(&mut left, (0, 1), &gap.why));
        left
    }
}

impl Pg {
    /// A PG that the store still has of a pool that is gone: only to be removed. Begins at once.
    pub fn remove_leftover(id: SpgId, whoami: OsdId, config: Arc<PgConfig>, out: &mut Vec<PgEffect>) -> Self {
        let mut no_memory = NoPeek;
        let out = &mut Out::new(out, &mut no_memory);
        let mut pg = Self::empty(id, whoami, config, Phase::Removing);
        pg.continue_removal(out);
        pg
    }

    pub(crate) fn on_remove(&mut self, out: &mut Out<'_>) {
        if matches!(self.phase, Phase::Removing) {
            return;
        }
        self.phase = Phase::Removing;
        self.split = None;
        self.drop_requests("its pool is gone", out);
        self.continue_removal(out);
    }

    /// The next step, when nothing is under way in this OSD's store. Changes may still be in flight elsewhere: the other
    /// copies of a pool that is gone may never say that they are durable.
    pub(crate) fn continue_removal(&mut self, out: &mut Out<'_>) {
        if self.backend.awaits_store() || !self.own.is_empty() || !self.reads.is_empty() {
            return;
        }
        let removal = self.removal.get_or_insert_default();
        let request = ReadRequest::ListReadable {
            collection: self.records.collection,
            start: removal.start(),
            end: GHObject::max(),
            // One more is where it begins, and one more has the PG's records.
            objects_max: OBJECTS_AT_ONCE + 2,
        };
        self.read_own(request, ReadFor::Remove, out);
    }

    pub(crate) fn on_remove_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        let page = match result {
            Ok(ReadOutcome::Objects(page)) => page,
            Err(StoreError::NoSuchCollection(_)) => return out.push(PgEffect::Removed),
            Ok(_) => return self.fail(PgFailure::Load("the store answered another question".into()), out),
            Err(error) => return self.fail(PgFailure::Remove(error), out),
        };
        let (collection, meta) = (self.records.collection, self.records.meta.clone());
        let removal = self.removal.get_or_insert_default();
        let mut txn = Transaction::new();
        // The PG's records go last: what is half removed must still be known as a PG.
        for object in removal.next(page, &meta) {
            txn.remove(collection, &object);
        }
        if removal.under_way.is_none() {
            if let Some(left) = removal.left() {
                return self.fail(PgFailure::Remains(left), out);
            }
            txn.remove(collection, &meta).remove_collection(collection);
        }
        self.submit_own(txn, out);
    }

    /// The store refuses a step of the removal.
    pub(crate) fn on_removal_refused(&mut self, token: Token, error: StoreError, out: &mut Out<'_>) {
        let Some(removal) = self.removal.as_mut().filter(|_| error.is_damage()) else {
            return self.fail(PgFailure::Remove(error), out);
        };
        match removal.under_way.take() {
            Some((objects, last)) => {
                removal.refused(objects, last, error);
                out.push(PgEffect::Acknowledge { token });
            }
            // It was the last step.
            None => {
                self.fail(PgFailure::Remains(Left { objects: 0, gaps: 0, why: error }), out);
            }
        }
    }
}
