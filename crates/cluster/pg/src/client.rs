//! A client's request until it is in its object's queue: the checks of Ceph's do_op, in its order.

use auth::Access;
use messages::osd_op::OsdFlags;
use messages::{OpCode, OsdOp, OsdOpReply};
use ops::{OpClass, Rights, classify};
use types::{EntityAddrVec, EntityType, Epoch, Errno, FeatureBits, SnapId};

use crate::hash_range;
use crate::out::Out;
use crate::phase::{Peering, Phase};
use crate::request::Request;
use crate::{Bug, ClientOp, Pg, PgEffect, SetAside};

/// Why a request is dropped that another OSD serves: its client learns of the map and sends it there.
pub(crate) const NOT_PRIMARY: &str = "this OSD is not the primary";

/// Why a write is dropped whose client did not know that the pool is full: it learns of it and sends it again later.
pub(crate) const SENT_BEFORE_FULL: &str = "sent before the pool became full";

/// Whether any copy may serve a request: its client asks with EAGAIN in mind, on which it goes to the primary. What a
/// called method does its client has said by the flag WRITE.
pub fn may_read_replica(op: &OsdOp) -> bool {
    let balanced = op.flags & (OsdFlags::BALANCE_READS | OsdFlags::LOCALIZE_READS) != 0;
    let reads = op.ops.iter().all(|op| op.code.reads() && !op.code.writes());
    balanced && reads && !op.ops.is_empty() && !op.has_flag(OsdFlags::WRITE)
}

/// What a session must be granted.
fn access(needs: Rights) -> Access {
    let Rights { read, write, class_read, class_write, unlisted_class } = needs;
    let rights = [
        (read, Access::READ),
        (write, Access::WRITE),
        (class_read, Access::CLASS_READ),
        (class_write, Access::CLASS_WRITE),
        (unlisted_class, Access::ADMIN),
    ];
    rights.into_iter().filter(|(needed, _)| *needed).fold(Access::NOTHING, |sum, (_, access)| sum | access)
}

impl Pg {
    pub(crate) fn on_client_op(&mut self, client: ClientOp, set_aside: SetAside, out: &mut Out<'_>) {
        let keeps = self.phase == Phase::Failed && self.config.planted.is(Bug::FailedPgKeepsRequests);
        if !keeps && self.is_held_back(&client, out) {
            return;
        }
        let (session, tid) = (client.session, client.op.tid);
        let waits = match (&self.phase, &self.map) {
            (Phase::Failed, _) if keeps => true,
            (Phase::Failed | Phase::Removing, _) => {
                return Self::dropped(session, tid, "the PG is gone", out);
            }
            (Phase::Loading, _) | (_, None) => true,
            (Phase::Nonprimary, Some(map)) => {
                if map.acting.contains(&self.whoami) && may_read_replica(&client.op) {
                    // No copy but the primary's is served yet.
                    return self.refuse(&client, Errno::EAGAIN, out);
                }
                return Self::dropped(session, tid, NOT_PRIMARY, out);
            }
            (
                Phase::Splitting
                | Phase::Peering(Peering::Others | Peering::UpThru | Peering::Activating)
                | Phase::Peered,
                _,
            ) => true,
            (Phase::Active(_), _) => false,
        };
        if !waits {
            return self.begin(client, set_aside, out);
        }
        match self.waiting.len() < self.config.waiting_requests_max {
            true => self.waiting.push_back((client, set_aside)),
            false => Self::dropped(session, tid, "too many requests wait for the PG", out),
        }
    }

    /// Brings closer to the processor what there is of objects with this hash.
    pub fn touch(&self, hash: u32) {
        self.objects.touch(hash);
    }

    fn begin(&mut self, client: ClientOp, set_aside: SetAside, out: &mut Out<'_>) {
        let (session, tid) = (client.session, client.op.tid);
        if let Some(reason) = self.why_drop(&client) {
            return Self::dropped(session, tid, reason, out);
        }
        let class = match self.admit(&client) {
            Ok(class) => class,
            Err(errno) => return self.refuse(&client, errno, out),
        };
        if class.write_ordered && self.sent_before_full(&client.op, client.source.kind) {
            return Self::dropped(session, tid, SENT_BEFORE_FULL, out);
        }
        if self.map.as_ref().is_some_and(|m| m.pool.eio) {
            return match client.op.has_flag(OsdFlags::SUPPORTSPOOLEIO) {
                true => Self::dropped(session, tid, "the pool fails its requests", out),
                false => self.refuse(&client, Errno::EIO, out),
            };
        }
        let request = Request::new(client, class, set_aside);
        if class.is_pg {
            return self.start_list(request, out);
        }
        let slot = self.objects.slot(&request.head());
        if let Some(object) = self.objects.get_mut(slot) {
            object.enqueue(request);
        }
        self.pump(slot, out);
        self.objects.evict(self.config.object_contexts_idle_max);
    }

    /// Whether this PG would only drop a request, since its client sends it again by the map that the PG has.
    pub fn drops(&self, client: &ClientOp) -> bool {
        match self.phase {
            Phase::Failed | Phase::Removing | Phase::Nonprimary => true,
            // It has no map yet that would say so.
            Phase::Loading => false,
            Phase::Splitting | Phase::Peering(_) | Phase::Peered | Phase::Active(_) => {
                self.why_drop(client).is_some()
            }
        }
    }

    /// Why the client will send the request again, and to whom it belongs. What is dropped must be what its client sends
    /// again, which depends on its release (Ceph's can_discard_op).
    fn why_drop(&self, client: &ClientOp) -> Option<&'static str> {
        let (map, op, history) = (self.map.as_ref()?, &client.op, &self.records.info.history);
        debug_assert!(op.epoch <= map.epoch, "the OSD waits for maps");
        if op.epoch > map.epoch {
            return Some("its epoch is newer than the PG's");
        }
        if op.epoch < history.same_primary_since {
            return Some("it is of an older interval");
        }
        let has = |feature: u64| client.features & feature == feature;
        let resend_since = if !has(FeatureBits::RESEND_ON_SPLIT) {
            if has(FeatureBits::OSD_POOLRESEND) {
                map.pool.last_force_op_resend_preluminous
            } else {
                Epoch(0)
            }
        } else if has(FeatureBits::SERVER_NAUTILUS) {
            map.pool.last_force_op_resend
        } else {
            map.pool.last_force_op_resend_prenautilus
        };
        if op.epoch < resend_since {
            return Some("the pool wants requests sent again");
        }
        if self.config.planted.is(Bug::RequestsOutliveSplits) {
            return None;
        }
        if has(FeatureBits::RESEND_ON_SPLIT) && op.epoch < history.last_epoch_split {
            return Some("its PG has been split since");
        }
        let is_pg = op.ops.iter().any(|o| o.code.is_pg());
        if op.pgid.pg.pool != self.id.pg.pool
            || (!is_pg && !hash_range::contains(self.id.pg, map.pool.pg_num, op.hash))
        {
            return Some("the object is not of this PG");
        }
        None
    }

    /// Whether a write is dropped because its client did not know yet that the pool is full: it sends all of them again.
    /// It is asked when a request begins and when it runs: of writes that wait for an object all are dropped, also those
    /// that need no space, or these would overtake the others.
    pub(crate) fn sent_before_full(&self, op: &OsdOp, source: EntityType) -> bool {
        let tries = op.flags & (OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE) != 0;
        let full_since = self.records.info.history.last_epoch_marked_full;
        source != EntityType::Mds && !tries && op.epoch < full_since
    }

    fn admit(&self, client: &ClientOp) -> Result<OpClass, Errno> {
        let (op, config) = (&client.op, &self.config);
        if op.has_flag(OsdFlags::PARALLELEXEC) {
            return Err(Errno::EINVAL);
        }
        let class = classify(&op.ops, op.flags, &config.classes)?;
        if !client.caps.permits(access(class.needs)) {
            return Err(Errno::EPERM);
        }
        if class.is_pg {
            return Ok(class);
        }
        let (name, key, nspace) = (op.oid.len(), op.locator.key.len(), op.locator.nspace.len());
        if name.max(key) > config.object_name_len_max || nspace > config.namespace_len_max {
            return Err(Errno::ENAMETOOLONG);
        }
        if name == 0 {
            return Err(Errno::EINVAL);
        }
        if self.is_blocklisted(&client.addrs) {
            return Err(Errno::ESHUTDOWN);
        }
        if class.writes && op.snapid != SnapId::HEAD {
            return Err(Errno::EINVAL);
        }
        // Of reads too: what is far beyond has not been kept on its way here.
        if op.ops.iter().map(|o| o.indata.len()).sum::<usize>() > config.write_bytes_max {
            return Err(Errno::EMSGSIZE);
        }
        let of_dir = op.snapid == SnapId::DIR;
        match op.ops.iter().all(|o| (o.code == OpCode::LIST_SNAPS) == of_dir) {
            true => Ok(class),
            false => Err(Errno::EINVAL),
        }
    }

    /// Whether the PG's map shuts a client out. It is asked when a request begins and each time it runs: one that has
    /// waited must not take effect after the map that fences its client.
    pub(crate) fn is_blocklisted(&self, addrs: &EntityAddrVec) -> bool {
        let map = self.map.as_ref().map(|m| &m.osdmap);
        let blocklisted = map.is_some_and(|map| addrs.0.iter().any(|addr| map.is_blocklisted(addr)));
        blocklisted && !self.config.planted.is(Bug::FencedWriteRuns)
    }

    fn refuse(&self, client: &ClientOp, errno: Errno, out: &mut Out<'_>) {
        let reply = Box::new(OsdOpReply::error(&client.op, errno.code(), self.epoch()));
        out.push(PgEffect::Reply { session: client.session, reply });
    }
}
