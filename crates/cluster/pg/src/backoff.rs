//! Backoffs: a PG that can't serve soon drops requests and asks their sessions to hold them back, so that they hold no
//! budget of the OSD; it tells them when they may be sent again.
//!
//! A session sends everything again that it held back, in order. So nothing that it sent before it learned of the
//! backoff may run: the PG drops all of its requests until [`PgEvent::BackoffEnded`](crate::PgEvent::BackoffEnded).

use auth::SessionId;
use types::{Epoch, FeatureBits, HObject, PgId};

use crate::hash_range;
use crate::out::Out;
use crate::phase::{Peering, Phase};
use crate::{Bug, ClientOp, Pg, PgEffect};

/// Which objects' requests are held back: from `begin` up to but not including `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackoffRange {
    /// The PG's map.
    pub epoch: Epoch,
    pub begin: HObject,
    pub end: HObject,
}

/// A session's backoff, as its PG knows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Backoff {
    Blocked,
    /// It is ending: the session may have sent requests before it learned of it.
    Released,
}

impl BackoffRange {
    /// All objects of a PG, in a pool of so many.
    pub fn of(pg: PgId, pg_num: u32, epoch: Epoch) -> Self {
        Self { epoch, begin: hash_range::start(pg), end: hash_range::end(pg, pg_num) }
    }
}

impl Phase {
    /// Whether what the PG waits for may take long.
    fn blocks(self) -> bool {
        match self {
            Self::Loading | Self::Peering(Peering::Others) | Self::Peered | Self::Failed => true,
            // A map or a transaction away from being served: requests wait (as osd_backoff_on_peering has it).
            Self::Splitting | Self::Peering(Peering::UpThru | Peering::Activating) => false,
            // These answer or drop what comes.
            Self::Nonprimary | Self::Active(_) | Self::Removing => false,
        }
    }
}

impl Pg {
    /// Whether a request is dropped because its session holds back, or is to do so from now on.
    #[inline]
    pub(crate) fn is_held_back(&mut self, client: &ClientOp, out: &mut Out<'_>) -> bool {
        if self.phase.serves_requests() && self.backoffs.is_empty() {
            return false;
        }
        self.hold_back(client, out)
    }

    fn hold_back(&mut self, client: &ClientOp, out: &mut Out<'_>) -> bool {
        let (session, tid) = (client.session, client.op.tid);
        if self.backoffs.contains_key(&session) {
            Self::dropped(session, tid, "its session is to hold back", out);
            return true;
        }
        let knows = client.features & FeatureBits::RADOS_BACKOFF == FeatureBits::RADOS_BACKOFF;
        if !knows || !self.phase.blocks() {
            return false;
        }
        self.backoffs.insert(session, Backoff::Blocked);
        let range = match &self.map {
            Some(map) => BackoffRange::of(self.id.pg, map.pool.pg_num, map.epoch),
            // All that comes after the PG's start: a backoff is of one PG whatever its range.
            None => BackoffRange {
                epoch: self.epoch(),
                begin: hash_range::start(self.id.pg),
                end: HObject::max(),
            },
        };
        out.push(PgEffect::Block { session, tid, range: Box::new(range) });
        true
    }

    /// Has the sessions hold back that can, of the requests that wait.
    pub(crate) fn hold_back_waiting(&mut self, out: &mut Out<'_>) {
        for (op, set_aside) in std::mem::take(&mut self.waiting) {
            if !self.is_held_back(&op, out) {
                self.waiting.push_back((op, set_aside));
            }
        }
    }

    /// Ends all backoffs: requests are served again, or are another OSD's.
    pub(crate) fn release_backoffs(&mut self, out: &mut Out<'_>) {
        let epoch = self.epoch();
        if self.config.planted.is(Bug::BackoffLasts) {
            return;
        }
        for (&session, backoff) in &mut self.backoffs {
            if std::mem::replace(backoff, Backoff::Released) == Backoff::Blocked {
                out.push(PgEffect::Unblock { session, epoch });
            }
        }
    }

    pub(crate) fn on_backoff_ended(&mut self, session: SessionId) {
        self.backoffs.remove(&session);
    }
}
