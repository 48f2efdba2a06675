//! What OSDs ask each other of placement groups: the questions of PGs here, and those of other OSDs.
//!
//! A question is asked as a client of the other OSD asks, at its public address, on a session that ends with its connection.
//! Nothing is sent again here: a PG that gets no answer asks again.

use core::time::Duration;
use std::collections::BTreeMap;

use auth::{SessionId, SessionInfo};
use messages::{PgHolding, PgInfoQuery, PgInfoReply, PgQuestion};
use types::{Epoch, OsdId, SpgId, UTime};

use super::Control;
use crate::OsdEffect;
use crate::parts::{Out, ToShard};
use crate::shard::pg_view::ancestors;

/// How long questions are gathered for one message. All PGs of an OSD may have one at a time, and only so many messages
/// may wait for a session to open.
const GATHER: Duration = Duration::from_millis(5);

/// Questions in a message, at most.
const QUESTIONS_MAX: usize = 512;

/// Questions of other OSDs that wait for a map here, at most. Beyond them they are dropped: they come again.
const WAITING_MAX: usize = 100_000;

#[derive(Default)]
pub(super) struct PgInfos {
    /// What PGs here ask, by the OSD that is asked, and when it is sent.
    asks: BTreeMap<OsdId, BTreeMap<SpgId, PgQuestion>>,
    send_at: Option<UTime>,
    /// What other OSDs ask by maps that this one has not come to.
    waiting: BTreeMap<(SessionId, SpgId), PgQuestion>,
}

impl PgInfos {
    pub(super) fn deadline(&self) -> Option<UTime> {
        self.send_at
    }
}

impl Control {
    /// A PG asks what another OSD has of it.
    pub(super) fn ask_peer(&mut self, now: UTime, osd: OsdId, question: PgQuestion) {
        self.pg_infos.asks.entry(osd).or_default().insert(question.pgid, question);
        self.pg_infos.send_at.get_or_insert(now.after(GATHER));
    }

    pub(super) fn pg_infos_tick(&mut self, now: UTime, out: &mut Out) {
        if self.pg_infos.send_at.is_none_or(|at| now < at) {
            return;
        }
        self.pg_infos.send_at = None;
        let asks = std::mem::take(&mut self.pg_infos.asks);
        // PGs have maps when they ask.
        let Some(map) = self.history.current() else { return };
        for (osd, questions) in asks {
            // One that has gone down since: its PGs hear of that.
            let Some(to) = map.client_addrs(osd).filter(|_| map.is_up(osd)) else { continue };
            let questions: Vec<PgQuestion> = questions.into_values().collect();
            for pgs in questions.chunks(QUESTIONS_MAX) {
                let query = PgInfoQuery { fsid: self.config.cluster_fsid, pgs: pgs.to_vec() };
                out.push(OsdEffect::SendPeer { to: to.clone(), message: query.into() });
            }
        }
    }

    /// Another OSD asks.
    pub(super) fn on_pg_info_query(&mut self, peer: &SessionInfo, query: PgInfoQuery, out: &mut Out) {
        if query.fsid != self.config.cluster_fsid {
            return;
        }
        for question in query.pgs {
            if self.applied() >= question.epoch {
                self.answer(peer.id, question, out);
            } else if self.pg_infos.waiting.len() < WAITING_MAX {
                self.pg_infos.waiting.insert((peer.id, question.pgid), question);
            }
        }
        let newest = self.pg_infos.waiting.values().map(|question| question.epoch).max();
        if newest.is_some_and(|epoch| epoch > self.history.newest()) {
            self.want_newer_map(out);
        }
    }

    /// The shards are through with another map: answers what waited for it.
    pub(super) fn answer_waiting(&mut self, out: &mut Out) {
        let applied = self.applied();
        let waiting = std::mem::take(&mut self.pg_infos.waiting);
        let (due, later) = waiting.into_iter().partition(|(_, question)| question.epoch <= applied);
        self.pg_infos.waiting = later;
        let due: BTreeMap<(SessionId, SpgId), PgQuestion> = due;
        for ((session, _), question) in due {
            self.answer(session, question, out);
        }
    }

    /// The map that all shards are through with: every PG that is here has it, and so has been split as far as it says.
    fn applied(&self) -> Epoch {
        match self.loading {
            // What is stored is not known yet.
            Some(_) => Epoch(0),
            None => self.shards.iter().map(|shard| shard.applied).min().unwrap_or(Epoch(0)),
        }
    }

    fn answer(&mut self, session: SessionId, question: PgQuestion, out: &mut Out) {
        let pgid = question.pgid;
        // One that is not here may still be part of another, as that one's shard knows.
        let of = std::iter::once(pgid).chain(ancestors(&pgid)).find_map(|of| self.pgs.shard_of(&of));
        if let Some(shard) = of {
            return out.send_shard(shard, ToShard::PgInfoAsked { session, question });
        }
        let map = self.history.current();
        if map.is_none_or(|map| !map.pools.contains_key(&pgid.pg.pool)) {
            // Its pool is gone, as who asks will learn.
            return;
        }
        let (fsid, epoch, has) = (self.config.cluster_fsid, self.applied(), PgHolding::Nothing);
        out.send_session(session, PgInfoReply { fsid, question, epoch, has });
    }

    /// Another OSD answers. It counts if it comes from where the map has that OSD.
    pub(super) fn on_pg_info_reply(&mut self, peer: &SessionInfo, reply: PgInfoReply, out: &mut Out) {
        let (Some(map), Ok(num)) = (self.history.current(), i32::try_from(peer.name.num)) else { return };
        let (osd, pgid) = (OsdId(num), reply.question.pgid);
        let at = map.client_addrs(osd).filter(|_| map.is_up(osd)).and_then(|addrs| addrs.v2());
        if reply.fsid != self.config.cluster_fsid || at.is_none() || at != peer.peer_addrs.v2() {
            return;
        }
        // It may have been removed since it asked.
        let Some(shard) = self.pgs.shard_of(&pgid) else { return };
        out.send_shard(shard, ToShard::PeerInfo { osd, reply: Box::new(reply) });
    }
}
