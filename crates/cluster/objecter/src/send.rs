//! Requests on their way to OSDs.

use types::{Errno, OsdId, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Objecter, Timer};
use crate::placement::{Change, Placing};
use crate::request::{Outcome, RequestId};
use crate::session::Link;

impl Objecter {
    /// Compares a request with the newest map. Before there is one nothing changes.
    pub(crate) fn place(&mut self, tid: u64) -> Change {
        let (Some(map), Some(pending)) = (&self.map, self.pending.get_mut(&tid)) else {
            return Change::None;
        };
        let (barrier, seed) = (self.barrier, self.config.seed);
        let change = Placing { map, known: &mut self.placements, barrier, seed }.place(pending);
        if change == Change::PoolGone {
            pending.home = None;
        }
        change
    }

    /// Puts a request into the session of the OSD that serves it, and sends it unless it has to wait.
    pub(crate) fn assign(&mut self, now: UTime, tid: u64, out: &mut Vec<ObjecterEffect>) {
        let osd = self.pending.get(&tid).and_then(|p| p.placement.as_ref()).and_then(|at| at.osd);
        let home = osd.filter(|osd| self.ensure_session(*osd, out));
        // Requests that ended since they were collected.
        let Some(pending) = self.pending.get_mut(&tid) else { return };
        pending.home = home;
        match home.is_some() && !pending.paused {
            true => self.send(now, tid, out),
            // Only a newer map lets it go on.
            false => self.request_map(now, out),
        }
    }

    /// Sends a request if its session is connected and no backoff holds it: else it is sent as soon as that is so.
    pub(crate) fn send(&mut self, now: UTime, tid: u64, out: &mut Vec<ObjecterEffect>) {
        let (Some(map), Some(pending)) = (&self.map, self.pending.get_mut(&tid)) else {
            debug_assert!(false, "request {tid} is sent, and it has ended or there is no map");
            return;
        };
        // No OSD serves it now, or its session was closed with the map that `place` has not seen yet.
        let Some(session) = pending.home.and_then(|osd| self.sessions.get(&osd)) else { return };
        let Some(placement) = &pending.placement else {
            debug_assert!(false, "request {tid} has a session and no placement");
            return;
        };
        if session.link != Link::Open || session.holds_back(placement.pg, &pending.hobject(placement)) {
            return;
        }
        let features = self.config.profile.features_supported;
        let message = pending.message(tid, placement, map.epoch, features);
        pending.attempts += 1;
        pending.ever_sent = true;
        pending.sent_at = now;
        out.push(ObjecterEffect::Send(session.id, message.into()));
    }

    /// Sends everything in an OSD's session, in the order of its tids, which is the order of submission.
    pub(crate) fn send_all_of(&mut self, now: UTime, osd: OsdId, out: &mut Vec<ObjecterEffect>) {
        let of = |p: &crate::request::Pending| p.home == Some(osd) && !p.paused;
        let tids: Vec<u64> = self.pending.iter().filter(|(_, p)| of(p)).map(|(tid, _)| *tid).collect();
        tids.into_iter().for_each(|tid| self.send(now, tid, out));
    }

    /// Ends a request.
    pub(crate) fn end(&mut self, tid: u64, outcome: Outcome, out: &mut Vec<ObjecterEffect>) {
        // A request ends once; what comes for it later is ignored.
        let Some(pending) = self.pending.remove(&tid) else { return };
        self.bytes -= pending.bytes;
        if let Some(at) = pending.deadline {
            self.timers.remove(&(at, Timer::Request(tid)));
        }
        self.cancel_map_check(tid);
        match self.own_requests.remove(&pending.id) {
            Some(own) => self.on_own_done(own, pending.id, &outcome, out),
            None => out.push(ObjecterEffect::Done(pending.id, outcome)),
        }
    }

    /// Forgets a request: no outcome comes of it. What it asks for may happen all the same.
    pub fn cancel(&mut self, id: RequestId) {
        let tid = self.pending.iter().find(|(_, pending)| pending.id == id).map(|(tid, _)| *tid);
        // It has ended.
        let Some(tid) = tid else { return };
        self.end(tid, Outcome::Ended { errno: Errno::ECANCELED, sent: true }, &mut Vec::new());
        self.checked();
    }

    /// Ends a request without an answer.
    pub(crate) fn end_unanswered(&mut self, tid: u64, errno: Errno, out: &mut Vec<ObjecterEffect>) {
        let sent = self.pending.get(&tid).is_some_and(|p| p.ever_sent);
        self.end(tid, Outcome::Ended { errno, sent }, out);
    }
}
