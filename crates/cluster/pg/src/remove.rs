//! A PG's end: its pool is gone, and everything stored goes too, in transactions of bounded size.

use std::sync::Arc;

use store::{NoPeek, ReadOutcome, ReadRequest, StoreError, Transaction};
use types::{GHObject, OsdId, SpgId};

use crate::out::Out;
use crate::pg::ReadFor;
use crate::phase::Phase;
use crate::{Pg, PgConfig, PgEffect, PgFailure};

/// Objects removed in one transaction.
const OBJECTS_AT_ONCE: usize = 256;

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
        let request = ReadRequest::ListReadable {
            collection: self.records.collection,
            start: GHObject::min(),
            end: GHObject::max(),
            objects_max: OBJECTS_AT_ONCE,
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
        let mut txn = Transaction::new();
        let mut others = false;
        for (object, _) in page.objects {
            // The PG's records go last: what is half removed must still be known as a PG.
            if object != self.records.meta {
                others = true;
                txn.remove(self.records.collection, &object);
            }
        }
        if !others {
            // This page has the whole list: nothing but what can't be read is left.
            if let Some(gap) = page.gaps.first() {
                let (gaps, why) = (page.gaps.len(), gap.why.clone());
                return self.fail(PgFailure::RemoveGaps { gaps, why }, out);
            }
            txn.remove(self.records.collection, &self.records.meta);
            txn.remove_collection(self.records.collection);
        }
        self.submit_own(txn, out);
    }
}
