//! Peers' sessions: what they were sent of the maps, and what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use auth::{SessionId, SessionInfo};
use messages::OsdOp;
use types::{Epoch, SpgId};

/// A peer's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub info: SessionInfo,
    /// The newest map that the peer is known to have, or to have been sent (Ceph's projected_epoch).
    pub known_epoch: Epoch,
    /// Operations that wait for a map or for their PG to come into being, in the order they came. Those behind one
    /// that waits for a map wait too: an object's operations keep their order. Bounded by the budget of messages.
    pub waiting: VecDeque<Box<OsdOp>>,
}

impl Session {
    pub(crate) fn new(info: SessionInfo) -> Self {
        Self { info, known_epoch: Epoch(0), waiting: VecDeque::new() }
    }

    /// Notes a map that the peer says it has. Answers from where on it lacks maps up to `ours`, if it does, and
    /// reckons it has been sent them.
    pub(crate) fn lacks(&mut self, theirs: Epoch, ours: Epoch) -> Option<Epoch> {
        self.known_epoch = self.known_epoch.max(theirs);
        let known = self.known_epoch;
        self.known_epoch = known.max(ours);
        (known < ours).then_some(known)
    }

    /// Takes out the operations in front that can run at map `epoch`. `is_ready` says whether a PG is there (or never
    /// will be).
    pub(crate) fn take_ready(
        &mut self,
        epoch: Epoch,
        is_ready: impl Fn(&SpgId) -> bool,
    ) -> VecDeque<Box<OsdOp>> {
        let (mut ready, mut held) = (VecDeque::new(), VecDeque::new());
        let (mut map_missing, mut blocked) = (false, BTreeSet::new());
        for op in std::mem::take(&mut self.waiting) {
            map_missing |= op.epoch > epoch;
            if map_missing || blocked.contains(&op.pgid) || !is_ready(&op.pgid) {
                blocked.insert(op.pgid);
                held.push_back(op);
            } else {
                ready.push_back(op);
            }
        }
        self.waiting = held;
        ready
    }
}

/// All sessions.
pub(crate) type Sessions = BTreeMap<SessionId, Session>;
