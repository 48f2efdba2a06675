//! The operation queue of a shard: the requests on their way to its PGs.
//!
//! First in, first out: this is the place of a scheduler. A request that may not begin is held, and so is what comes
//! behind it of the same session for the same PG: an object's operations keep their order. The gates' budgets bound it.

use std::collections::{BTreeSet, VecDeque};

use auth::SessionId;
use pg::ClientOp;
use telemetry::OpTimes;

use super::PgSlot;

/// A request for a PG.
#[derive(Debug)]
pub(crate) struct QueuedOp {
    pub slot: PgSlot,
    pub op: ClientOp,
    pub times: OpTimes,
}

/// The requests in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct OpQueue {
    ready: VecDeque<QueuedOp>,
    held: VecDeque<QueuedOp>,
    /// The sessions and PGs of what is held.
    blocked: BTreeSet<(PgSlot, SessionId)>,
}

impl OpQueue {
    pub(crate) fn push(&mut self, op: QueuedOp) {
        self.ready.push_back(op);
    }

    /// The next request that may be tried.
    pub(crate) fn next(&mut self) -> Option<QueuedOp> {
        loop {
            let op = self.ready.pop_front()?;
            if self.blocked.is_empty() || !self.blocked.contains(&(op.slot, op.op.session)) {
                return Some(op);
            }
            self.held.push_back(op);
        }
    }

    /// Puts a request aside that may not begin.
    pub(crate) fn hold(&mut self, op: QueuedOp) {
        self.blocked.insert((op.slot, op.op.session));
        self.held.push_back(op);
    }

    /// Lets what is held be tried again, in its order and before what came later.
    pub(crate) fn retry(&mut self) {
        if self.held.is_empty() {
            return;
        }
        self.blocked.clear();
        self.held.append(&mut self.ready);
        std::mem::swap(&mut self.held, &mut self.ready);
    }

    /// Takes out what is held and `which` names.
    pub(crate) fn take_held(&mut self, which: impl Fn(&QueuedOp) -> bool) -> Vec<QueuedOp> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let (taken, kept) = std::mem::take(&mut self.held).into_iter().partition::<Vec<_>, _>(|op| which(op));
        self.held = kept.into();
        self.blocked = self.held.iter().map(|op| (op.slot, op.op.session)).collect();
        taken
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &QueuedOp> {
        self.held.iter().chain(&self.ready)
    }

    /// The first invariant that does not hold after an event: nothing is left that may be tried, and what is blocked is
    /// what is held.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let held: BTreeSet<_> = self.held.iter().map(|op| (op.slot, op.op.session)).collect();
        match self.ready.is_empty() && held == self.blocked {
            true => Ok(()),
            false => Err("the operation queue was not worked off"),
        }
    }
}

#[cfg(test)]
pub(super) fn test_queued_op(slot: u32, session: u64, tid: u64) -> QueuedOp {
    let op = ClientOp {
        session: SessionId(session),
        source: types::EntityName::new(types::EntityType::Client, 1),
        addrs: Default::default(),
        features: 0,
        caps: auth::Caps::all(),
        op: Box::new(super::test_op(tid)),
    };
    QueuedOp { slot: PgSlot(slot), op, times: OpTimes::received_at(types::UTime::default()) }
}

#[cfg(test)]
mod tests {
    use super::test_queued_op as op;
    use super::*;

    fn tids(ops: impl IntoIterator<Item = QueuedOp>) -> Vec<u64> {
        ops.into_iter().map(|op| op.op.op.tid).collect()
    }

    #[test]
    fn what_is_behind_a_held_request_of_its_session_and_pg_waits_and_nothing_else() {
        let mut queue = OpQueue::default();
        [op(1, 1, 1), op(1, 1, 2), op(1, 2, 3), op(2, 1, 4)].into_iter().for_each(|op| queue.push(op));
        let first = queue.next().unwrap();
        queue.hold(first);
        let mut ran = Vec::new();
        while let Some(op) = queue.next() {
            ran.push(op);
        }
        assert_eq!(tids(ran), [3, 4]);
        queue.check().unwrap();
        queue.push(op(1, 1, 5));
        queue.retry();
        assert_eq!(tids(std::iter::from_fn(|| queue.next())), [1, 2, 5]);
    }

    #[test]
    fn what_is_taken_out_blocks_nothing_any_more() {
        let mut queue = OpQueue::default();
        queue.hold(op(1, 1, 1));
        queue.hold(op(1, 2, 2));
        assert_eq!(tids(queue.take_held(|op| op.op.session == SessionId(1))), [1]);
        queue.push(op(1, 1, 3));
        queue.push(op(1, 2, 4));
        assert_eq!(queue.next().map(|op| op.op.op.tid), Some(3));
        assert!(queue.next().is_none());
    }
}
