//! Which requests begin: what is in a shard's operation queue runs where its PG has the request's map and the store has the space.

use std::sync::Arc;

use auth::SessionId;
use maps::OsdMap;
use messages::OsdOpReply;
use messages::osd_op::OsdFlags;
use pg::{ClientOp, PgEvent, SetAside};
use telemetry::Stage;
use types::{Epoch, Errno, PoolId, UTime};

use super::op_queue::QueuedOp;
use super::space::Room;
use super::tracker::OpRecord;
use super::{PgSlot, Shard};
use crate::parts::{Out, PgPlace, ToGate};

/// What becomes of a request whose turn it is.
enum Turn {
    /// This space is set aside for it.
    Run(SetAside),
    Hold,
    /// A map makes its client send it again.
    Drop,
    /// So does a map that says that there is room for so many bytes again.
    SendBack(u64),
    /// It never fits, or there is too little space and its client asked for an error then (FULL_TRY, FULL_FORCE).
    NoSpace,
}

impl Shard {
    /// Works the operation queue off.
    pub(super) fn run_queue(&mut self, now: UTime, out: &mut Out) {
        while let Some(QueuedOp { slot, op, times }) = self.queue.next() {
            let (session, tid) = (op.session, op.op.tid);
            let place = PgPlace { shard: self.id, slot };
            match self.turn(slot, &op) {
                Turn::Run(set_aside) => {
                    if let Some(entry) = self.pgs.get_mut(slot) {
                        let mut record = OpRecord::new(session, op.source, times, &op.op);
                        record.reach(Stage::Begun, now);
                        entry.requests.push(record);
                    }
                    self.pg_handle(now, slot, PgEvent::ClientOp(op, set_aside), out);
                }
                Turn::Hold => self.queue.hold(QueuedOp { slot, op, times }),
                Turn::Drop => out.send_gate_of(session, ToGate::Dropped { session, place, tid }),
                Turn::SendBack(bytes) => {
                    self.note_sent_back(slot, session, bytes, out);
                    out.send_gate_of(session, ToGate::Dropped { session, place, tid });
                }
                Turn::NoSpace => {
                    let epoch = self.map.as_ref().map_or(Epoch(0), |map| map.epoch);
                    let reply = Box::new(OsdOpReply::error(&op.op, Errno::ENOSPC.code(), epoch));
                    out.send_gate_of(session, ToGate::Reply { session, place, reply });
                }
            }
        }
    }

    /// Hands PGs what they copy, as far as there is space for it. A write that turns out to be too large is dropped by its
    /// PG once the map says that the pool is full; one that tries all the same gets ENOSPC.
    pub(super) fn hand_out_copied(&mut self, now: UTime, out: &mut Out) {
        while let Some((slot, token, mut result)) = self.copied.pop_front() {
            // It was removed with its pool.
            let Some(entry) = self.pgs.get(slot) else { continue };
            let pool = entry.pg.id().pg.pool;
            let bytes = result.as_ref().map_or(0, |copied| self.space.of_copied(copied));
            let full = |map: &Option<Arc<OsdMap>>| map.as_ref().is_some_and(|map| is_full(map, pool));
            let mut set_aside = SetAside::default();
            match self.room_for(bytes) {
                Some(Room::Taken(taken)) => set_aside = taken,
                Some(Room::Never) => result = Err(Errno::ENOSPC),
                Some(Room::Lacking) if full(&self.map) => {
                    (result, self.lacking) = (Err(Errno::ENOSPC), bytes);
                }
                wait => {
                    if wait.is_some() {
                        self.space.wait(bytes, false);
                    }
                    self.copied.push_front((slot, token, result));
                    break;
                }
            }
            self.pg_handle(now, slot, PgEvent::Copied { token, result, set_aside }, out);
            self.lacking = 0;
        }
    }

    /// Whether a request may begin as far as its PG, space and memory go.
    ///
    /// One that lacks space waits: what is set aside for writes under way may come back. If the store says that there is
    /// really too little, the OSD reports itself full; the map then says so of the pool, the operation is dropped, and its
    /// client sends it again when the map takes that back. So a write is never dropped before there is a map to bring
    /// it back, and writes of an object keep their order. What would not fit into the empty store gets ENOSPC: no map would
    /// bring it room.
    fn turn(&mut self, slot: PgSlot, client: &ClientOp) -> Turn {
        let (op, session) = (&*client.op, client.session);
        // Its PG was removed with its pool meanwhile: no request waits for it.
        let Some(entry) = self.pgs.get(slot) else { return Turn::Drop };
        // The gate may have a map that the PG has not come to.
        if !entry.takes_requests_of(op.epoch) {
            return Turn::Hold;
        }
        let bytes = self.space.may_take(&op.ops, &self.config.pg.classes);
        let tries = op.flags & (OsdFlags::FULL_TRY | OsdFlags::FULL_FORCE) != 0;
        if !tries {
            self.space.came(slot, session, bytes);
        }
        let room = self.room_for(bytes);
        // What its PG only drops takes no space, and must not wait for any: its client has sent it elsewhere.
        let drops = || self.pgs.get(slot).is_some_and(|entry| entry.pg.drops(client));
        let lacks = match room {
            Some(Room::Taken(set_aside)) => return Turn::Run(set_aside),
            _ if drops() => return Turn::Run(SetAside::default()),
            lacks => lacks,
        };
        let full = self.map.as_ref().is_some_and(|map| is_full(map, op.pgid.pg.pool));
        match lacks {
            Some(Room::Never) => Turn::NoSpace,
            Some(Room::Lacking) if tries => {
                self.space.take_of_reserve(bytes, &op.ops).map_or(Turn::NoSpace, Turn::Run)
            }
            Some(Room::Lacking) if full => Turn::SendBack(bytes),
            Some(Room::Lacking | Room::Unknown | Room::Taken(_)) => {
                self.space.wait(bytes, tries);
                Turn::Hold
            }
            None => Turn::Hold,
        }
    }

    /// Sets space aside for a write; `None` while the store is behind. What takes nothing always has room.
    fn room_for(&mut self, bytes: u64) -> Option<Room> {
        match bytes {
            0 => Some(Room::Taken(SetAside::default())),
            _ if self.store_is_behind() => None,
            _ => Some(self.space.take(bytes)),
        }
    }

    /// A write is sent back for want of room. Its gate is to tell of its session's end, after which it does not come again.
    pub(super) fn note_sent_back(&mut self, slot: PgSlot, session: SessionId, bytes: u64, out: &mut Out) {
        self.space.send_back(slot, session, bytes);
        let place = PgPlace { shard: self.id, slot };
        out.send_gate_of(session, ToGate::SentBack { session, place });
    }

    /// Writes are gone that may have waited for room: others need not wait behind them.
    pub(super) fn note_fewer_wait(&mut self, now: UTime, out: &mut Out) {
        if self.space.is_awaited() || self.space.is_full() {
            self.retry(now, out);
        }
    }
}

/// Whether clients of a pool hold their writes back.
fn is_full(map: &OsdMap, pool: PoolId) -> bool {
    let full = |pool: &maps::PgPool| pool.has_flags(maps::PoolFlags::FULL);
    map.has_flags(maps::MapFlags::FULL) || map.pools.get(&pool).is_some_and(full)
}
