//! Peers' sessions: what they were sent of the maps, and what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use auth::{SessionId, SessionInfo};
use messages::OsdOp;
use types::{EntityAddrVec, Epoch};

/// What becomes of an operation whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpDecision {
    /// Its PG gets it.
    Run,
    /// It waits, and those behind it of the same PG with it.
    Wait,
    /// It is dropped: a map makes its client send it again.
    Drop,
    /// It is a read for any copy, and this one is not served: its client is sent to the primary.
    AskPrimary,
    /// It is refused for lack of space: its client asked to be told.
    NoSpace,
}

/// A peer's session.
#[derive(Debug)]
pub(crate) struct Session {
    pub info: SessionInfo,
    /// Those of `info`, shared with the requests that wait in PGs.
    pub addrs: Arc<EntityAddrVec>,
    /// The newest map that the peer is known to have, or to have been sent (Ceph's projected_epoch).
    pub known_epoch: Epoch,
    /// Operations that wait for a map, for their PG to come into being or for space, in the order they came. Those behind one
    /// that waits for a map wait too: an object's operations keep their order. Bounded by the budget of messages.
    pub waiting: VecDeque<Box<OsdOp>>,
}

impl Session {
    pub(crate) fn new(info: SessionInfo) -> Self {
        let addrs = Arc::new(info.peer_addrs.clone());
        Self { info, addrs, known_epoch: Epoch(0), waiting: VecDeque::new() }
    }

    /// Notes a map that the peer says it has. Answers from where on it lacks maps up to `ours`, if it does, and
    /// reckons it has been sent them.
    pub(crate) fn lacks(&mut self, theirs: Epoch, ours: Epoch) -> Option<Epoch> {
        self.known_epoch = self.known_epoch.max(theirs);
        let known = self.known_epoch;
        self.known_epoch = known.max(ours);
        (known < ours).then_some(known)
    }

    /// Takes out the operations that need not wait at map `epoch`. `turn` is asked in order for each that is not held up
    /// by one before it.
    pub(crate) fn take_ready(
        &mut self,
        epoch: Epoch,
        mut turn: impl FnMut(&OsdOp) -> OpDecision,
    ) -> Vec<(Box<OsdOp>, OpDecision)> {
        let (mut ready, mut held) = (Vec::new(), VecDeque::new());
        let (mut map_missing, mut blocked) = (false, BTreeSet::new());
        for op in std::mem::take(&mut self.waiting) {
            map_missing |= op.epoch > epoch;
            let turn = match map_missing || blocked.contains(&op.pgid) {
                true => OpDecision::Wait,
                false => turn(&op),
            };
            match turn {
                OpDecision::Wait => {
                    blocked.insert(op.pgid);
                    held.push_back(op);
                }
                turn => ready.push((op, turn)),
            }
        }
        self.waiting = held;
        ready
    }
}

/// All sessions.
pub(crate) type Sessions = BTreeMap<SessionId, Session>;
