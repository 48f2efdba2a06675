//! Snapshots of pools: ids given out, removed, and purged when every PG has removed their objects.
//!
//! A pool's snapshots are its own (by name, `rados mksnap`) or its clients' (by id, librbd and CephFS), never both. A
//! removed one stays in the map's queue until all of the pool's PGs report that they have purged it.

use auth::SessionId;
use maps::{PgPool, PoolFlags, PoolSnap};
use messages::{MonGetPurgedSnaps, PoolOp, RemoveSnaps};
use types::{Epoch, Errno, IntervalSet, PoolId, SnapId, UTime};

use crate::command::{Failure, fail};
use crate::event::MonEffect;
use crate::mon::{Claim, Mon};
use crate::service::purged_snaps::{self, PurgedByPool};

/// Bytes of purged snapshots that one answer has.
const PURGED_REPLY_BYTES_MAX: usize = 1 << 20;

/// A pool's snapshot by its name.
fn by_name(pool: &PgPool, name: &[u8]) -> Option<SnapId> {
    pool.snaps.iter().find(|(_, snap)| snap.name.as_bytes() == name).map(|(id, _)| *id)
}

/// EINVAL where the pool's snapshots are of the other kind: `other` is its flag.
fn check_kind(pool: &PgPool, other: u64) -> Result<(), Failure> {
    match (pool.has_flags(other), other) {
        (false, _) => Ok(()),
        (true, PoolFlags::POOL_SNAPS) => fail(Errno::EINVAL, "the pool's snapshots are its own, by name"),
        (true, _) => fail(Errno::EINVAL, "the pool's snapshots are its clients', by id"),
    }
}

impl Mon {
    fn pool_of_snaps(&self, id: PoolId) -> Result<&PgPool, Failure> {
        match self.osdmap.pools.get(&id) {
            Some(pool) => Ok(pool),
            None => fail(Errno::ENOENT, format!("there is no pool {id}")),
        }
    }

    /// MPoolOp's operations on snapshots. The id that was given out, if one was.
    pub(crate) fn pool_snap_op(&mut self, now: UTime, m: &PoolOp) -> Result<Option<SnapId>, Failure> {
        let id = PoolId(m.pool.into());
        match m.op {
            PoolOp::CREATE_SNAP => {
                let name = String::from_utf8(m.name.as_bytes().to_vec())
                    .map_err(|_| Failure::Errno(Errno::EINVAL, "a snapshot's name is text".into()))?;
                self.make_pool_snap(now, id, &name).map(|_| None)
            }
            PoolOp::DELETE_SNAP => self.remove_pool_snap(now, id, m.name.as_bytes()).map(|_| None),
            PoolOp::CREATE_UNMANAGED_SNAP => self.give_snap_id(now, id).map(Some),
            PoolOp::DELETE_UNMANAGED_SNAP => self.take_snap_id_back(now, id, m.snapid).map(|()| None),
            _ => fail(Errno::EOPNOTSUPP, ""),
        }
    }

    /// Takes a snapshot of a pool; false when there is one of this name.
    pub(crate) fn make_pool_snap(&mut self, now: UTime, id: PoolId, name: &str) -> Result<bool, Failure> {
        let pool = self.pool_of_snaps(id)?;
        check_kind(pool, PoolFlags::SELFMANAGED_SNAPS)?;
        if by_name(pool, name.as_bytes()).is_some() {
            return Ok(false);
        }
        self.change_snaps(now, id, |pool| {
            pool.flags |= PoolFlags::POOL_SNAPS;
            let snap = SnapId(pool.snap_seq.0 + 1);
            pool.snap_seq = snap;
            pool.snaps.insert(snap, PoolSnap { id: snap, stamp: now, name: name.into() });
        })?;
        Ok(true)
    }

    /// Removes a snapshot of a pool; false when there is none of this name.
    pub(crate) fn remove_pool_snap(&mut self, now: UTime, id: PoolId, name: &[u8]) -> Result<bool, Failure> {
        let pool = self.pool_of_snaps(id)?;
        check_kind(pool, PoolFlags::SELFMANAGED_SNAPS)?;
        let Some(snap) = by_name(pool, name) else { return Ok(false) };
        self.change_snaps(now, id, |pool| drop(pool.snaps.remove(&snap)))?;
        self.queue_removal(now, id, &[snap]);
        Ok(true)
    }

    /// An id for a snapshot that clients manage. The first of a pool is 2, as Ceph's.
    fn give_snap_id(&mut self, now: UTime, id: PoolId) -> Result<SnapId, Failure> {
        let pool = self.pool_of_snaps(id)?;
        check_kind(pool, PoolFlags::POOL_SNAPS)?;
        let next = SnapId(pool.snap_seq.0.max(1) + 1);
        self.change_snaps(now, id, |pool| {
            pool.flags |= PoolFlags::SELFMANAGED_SNAPS;
            pool.snap_seq = next;
        })?;
        Ok(next)
    }

    fn take_snap_id_back(&mut self, now: UTime, id: PoolId, snap: SnapId) -> Result<(), Failure> {
        let pool = self.pool_of_snaps(id)?;
        check_kind(pool, PoolFlags::POOL_SNAPS)?;
        if self.is_removed_snap(id, snap) {
            return Ok(());
        }
        if !pool.has_flags(PoolFlags::SELFMANAGED_SNAPS) {
            return fail(Errno::EOPNOTSUPP, "the pool never had snapshots of its clients");
        }
        if snap > pool.snap_seq {
            return fail(Errno::ENOENT, format!("snapshot {snap} was never made"));
        }
        self.change_snaps(now, id, |_| ())?;
        self.queue_removal(now, id, &[snap]);
        Ok(())
    }

    fn change_snaps(
        &mut self,
        now: UTime,
        id: PoolId,
        change: impl FnOnce(&mut PgPool),
    ) -> Result<(), Failure> {
        let epoch = self.osdmap.epoch.next();
        self.change_pool(now, id, |pool| {
            pool.snap_epoch = epoch;
            change(pool);
        })
    }

    fn queue_removal(&mut self, now: UTime, id: PoolId, snaps: &[SnapId]) {
        let queue = self.osdmap_change(now).new_removed_snaps.entry(id).or_default();
        snaps.iter().for_each(|snap| queue.insert(snap.0, 1));
    }

    fn is_removed_snap(&self, pool: PoolId, snap: SnapId) -> bool {
        let queued = self.osdmap.removed_snaps_queue.get(&pool);
        queued.is_some_and(|queue| queue.contains(snap.0))
            || purged_snaps::of_pool(&self.state, pool).contains(snap.0)
    }

    /// A metadata server's snapshots that are gone.
    pub(crate) fn remove_snaps(
        &mut self,
        now: UTime,
        session: SessionId,
        m: RemoveSnaps,
        out: &mut Vec<MonEffect>,
    ) {
        if self.is_proposing() {
            return self.wait(session, m.into(), out);
        }
        let pools = m.snaps.iter().map(|(pool, snaps)| {
            let pool = PoolId((*pool).into());
            let gone = snaps.iter().copied().filter(|snap| !self.is_removed_snap(pool, *snap)).collect();
            (pool, gone)
        });
        let wanted: Vec<(PoolId, Vec<SnapId>)> = pools
            .filter(|(pool, gone): &(_, Vec<_>)| self.osdmap.pools.contains_key(pool) && !gone.is_empty())
            .collect();
        if !wanted.iter().all(|(pool, _)| !self.pending.claimed.contains(&Claim::Pool(pool.0))) {
            return self.wait(session, m.into(), out);
        }
        let before = self.pending.map_changes;
        for (pool, gone) in wanted {
            let newest = gone.iter().copied().max().unwrap_or(SnapId(0));
            let changed = self.change_snaps(now, pool, |pool| {
                pool.flags |= PoolFlags::SELFMANAGED_SNAPS;
                pool.snap_seq = pool.snap_seq.max(newest);
            });
            if changed.is_ok() {
                self.queue_removal(now, pool, &gone);
            }
        }
        match self.pending.map_changes == before {
            true => out.push(MonEffect::Send { session, message: m.into() }),
            false => self.defer_reply(before, session, m, None),
        }
    }

    pub(crate) fn get_purged_snaps(
        &self,
        session: SessionId,
        m: &MonGetPurgedSnaps,
        out: &mut Vec<MonEffect>,
    ) {
        let (last, purged_snaps) = purged_snaps::after(&self.state, m.start, m.last, PURGED_REPLY_BYTES_MAX);
        let reply = messages::MonGetPurgedSnapsReply { paxos: m.paxos, start: m.start, last, purged_snaps };
        out.push(MonEffect::Send { session, message: reply.into() });
    }

    /// Takes from the map's queues what all PGs of a pool have purged, and the queues of pools that are gone.
    pub(crate) fn finish_removals(&mut self, now: UTime) {
        let pending = self.pending.osdmap.as_ref().is_some_and(|change| !change.new_purged_snaps.is_empty());
        if self.osdmap.removed_snaps_queue.is_empty() || pending || self.is_proposing() {
            return;
        }
        let queues = self.osdmap.removed_snaps_queue.iter();
        let queues = queues.filter(|(pool, _)| self.osdmap.pools.contains_key(pool));
        let purged: PurgedByPool = queues
            .filter_map(|(pool, queue)| {
                let mut purged: IntervalSet = self.pgmap.purged_snaps(*pool)?;
                purged.intersect(queue);
                (!purged.is_empty()).then_some((*pool, purged))
            })
            .collect();
        let is_gone = |(pool, _): &(&PoolId, _)| !self.osdmap.pools.contains_key(pool);
        let of_gone = self.osdmap.removed_snaps_queue.iter().filter(is_gone);
        let of_gone: PurgedByPool = of_gone.map(|(pool, queue)| (*pool, queue.clone())).collect();
        if purged.is_empty() && of_gone.is_empty() {
            return;
        }
        let epoch: Epoch = self.osdmap.epoch.next();
        let mut batch = std::mem::take(&mut self.pending.batch);
        if !purged.is_empty() {
            purged_snaps::put(&self.state, epoch, &purged, &mut batch);
        }
        of_gone.keys().for_each(|pool| purged_snaps::forget_pool(&self.state, *pool, &mut batch));
        self.pending.batch = batch;
        self.osdmap_change(now).new_purged_snaps = purged.into_iter().chain(of_gone).collect();
    }
}
