//! Where an event's effects go, and the store's memory that it may look at meanwhile.

use store::{Peek, ReadOutcome, ReadRequest, StoreError};
use telemetry::Stage;

use crate::PgEffect;
use crate::request::Request;

/// The effects of one event, in order. Appends to what the caller has.
pub(crate) struct Out<'a> {
    effects: &'a mut Vec<PgEffect>,
    store: &'a mut dyn Peek,
    /// A transaction is among the effects, which the store does not have yet: its memory shows an older state.
    store_is_behind: bool,
}

impl<'a> Out<'a> {
    pub fn new(effects: &'a mut Vec<PgEffect>, store: &'a mut dyn Peek) -> Self {
        Self { effects, store, store_is_behind: false }
    }

    pub fn push(&mut self, effect: PgEffect) {
        self.store_is_behind |= matches!(effect, PgEffect::Queue { .. });
        self.effects.push(effect);
    }

    /// A request has reached a stage.
    pub fn reached(&mut self, request: &Request, stage: Stage) {
        let (session, tid) = (request.session, request.op.tid);
        self.effects.push(PgEffect::Reached { session, tid, stage });
    }
}

impl Peek for Out<'_> {
    /// What a read would give, if the store's memory holds it and is not behind.
    fn peek_at(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.store_is_behind {
            return None;
        }
        self.store.peek_at(request)
    }
}

impl std::fmt::Debug for Out<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Out").field("effects", &self.effects.len()).finish_non_exhaustive()
    }
}
