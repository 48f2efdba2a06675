//! The pool's snapshots as a request meets them.

use std::borrow::Cow;

use messages::osd_op::OsdFlags;
use types::{IntervalSet, SnapContext, SnapId};

use crate::request::Request;
use crate::{MapView, PgInfo};

/// Which snapshots the pool has, and which of them are removed.
#[derive(Clone, Copy)]
pub(crate) struct PoolSnaps<'a> {
    /// Those of a pool whose snapshots are its own.
    of_pool: Option<&'a SnapContext>,
    /// Those whose removal has begun and has not ended in every PG.
    pub removed: Option<&'a IntervalSet>,
    /// Those that this PG has removed, as far as it remembers.
    purged: &'a IntervalSet,
}

impl<'a> PoolSnaps<'a> {
    pub fn of(map: Option<&'a MapView>, info: &'a PgInfo) -> Self {
        let removed = map.and_then(|m| m.osdmap.removed_snaps_queue.get(&info.pgid.pg.pool));
        Self { of_pool: map.and_then(|m| m.pool.snapc.as_ref()), removed, purged: &info.purged_snaps }
    }

    /// The snapshots that a request's change must preserve: the pool's, or the client's. A client may not know yet that a
    /// snapshot is removed, or wait here since before: a clone that was made for it would stay for ever.
    pub fn context_of(self, request: &'a Request) -> Cow<'a, SnapContext> {
        let snapc = &request.snapc;
        match self.of_pool {
            _ if !request.class.writes => Cow::Owned(SnapContext::default()),
            Some(of_pool) if !request.op.has_flag(OsdFlags::ENFORCE_SNAPC) => Cow::Borrowed(of_pool),
            _ if !snapc.snaps.iter().any(|snap| self.is_removed(*snap)) => Cow::Borrowed(snapc),
            _ => {
                let snaps = snapc.snaps.iter().copied().filter(|snap| !self.is_removed(*snap)).collect();
                Cow::Owned(SnapContext { seq: snapc.seq, snaps })
            }
        }
    }

    fn is_removed(self, snap: SnapId) -> bool {
        self.removed.is_some_and(|removed| removed.contains(snap.0)) || self.purged.contains(snap.0)
    }
}
