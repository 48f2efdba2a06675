//! Sessions to OSDs, and the backoffs that are in force on them.

use core::time::Duration;
use std::collections::BTreeMap;

use messages::{Message, OsdBackoff, Ping};
use types::{EntityAddrVec, HObject, OsdId, SpgId, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::{Objecter, Timer};

/// A session's number, never used twice by a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OsdSession(pub u64);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// The OSD could not be reached; tried again at that time.
    Pausing(UTime),
    Connecting,
    Open,
}

/// A session to an OSD that is up.
#[derive(Debug)]
pub(crate) struct Session {
    pub id: OsdSession,
    pub addrs: EntityAddrVec,
    pub link: Link,
    /// The pause before the next connection; zero once the OSD has sent something.
    delay: Duration,
    backoffs: BTreeMap<SpgId, BTreeMap<HObject, HObject>>,
    /// Where in `backoffs` each is, by its number.
    backoff_ids: BTreeMap<u64, (SpgId, HObject)>,
}

impl Session {
    /// Whether the OSD asked to hold requests on this object back.
    pub fn holds_back(&self, pg: SpgId, object: &HObject) -> bool {
        // No backoff for this PG.
        let Some(ranges) = self.backoffs.get(&pg) else { return false };
        let nearest = ranges.range(..=object).next_back();
        nearest.is_some_and(|(begin, end)| is_within(object, begin, end))
    }
}

/// A range without length is of the one object at its begin.
fn is_within(object: &HObject, begin: &HObject, end: &HObject) -> bool {
    object == begin || (object > begin && object < end)
}

impl Objecter {
    /// Makes sure that there is a session to an OSD. Returns whether there is one: not to an OSD that is down.
    pub(crate) fn ensure_session(&mut self, osd: OsdId, out: &mut Vec<ObjecterEffect>) -> bool {
        if self.sessions.contains_key(&osd) {
            return true;
        }
        let map = self.map.as_ref();
        let Some(addrs) = map.filter(|m| m.is_up(osd)).and_then(|m| m.client_addrs(osd)).cloned() else {
            return false;
        };
        let session = Session {
            id: self.next_session(),
            addrs: addrs.clone(),
            link: Link::Connecting,
            delay: Duration::ZERO,
            backoffs: BTreeMap::new(),
            backoff_ids: BTreeMap::new(),
        };
        out.push(ObjecterEffect::Connect(session.id, osd, addrs));
        self.sessions.insert(osd, session);
        true
    }

    fn next_session(&mut self) -> OsdSession {
        self.session_ids += 1;
        OsdSession(self.session_ids)
    }

    pub(crate) fn osd_of(&self, id: OsdSession) -> Option<OsdId> {
        self.sessions.iter().find(|(_, s)| s.id == id).map(|(osd, _)| *osd)
    }

    pub(crate) fn on_connected(&mut self, now: UTime, id: OsdSession, out: &mut Vec<ObjecterEffect>) {
        // An event of a session that was closed.
        let Some(osd) = self.osd_of(id) else { return };
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.link = Link::Open;
        }
        self.send_all_of(now, osd, out);
    }

    /// A session ended by itself. The OSD is reached for again as long as the map says that it is up.
    pub(crate) fn on_reset(
        &mut self,
        now: UTime,
        id: OsdSession,
        reason: &str,
        out: &mut Vec<ObjecterEffect>,
    ) {
        // An event of a session that was closed.
        let Some(osd) = self.osd_of(id) else { return };
        out.push(ObjecterEffect::Warning(format!("lost osd.{osd}: {reason}")));
        let (min, max) = (self.config.reconnect_delay_min, self.config.reconnect_delay_max);
        let next = self.next_session();
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.id = next;
            session.backoffs.clear();
            session.backoff_ids.clear();
            let delay = session.delay;
            session.delay = (delay * 2).clamp(min, max);
            if delay.is_zero() {
                session.link = Link::Connecting;
                out.push(ObjecterEffect::Connect(next, osd, session.addrs.clone()));
            } else {
                let at = now.after(delay);
                session.link = Link::Pausing(at);
                self.timers.insert((at, Timer::Reconnect(osd)));
            }
        }
        let again = self.lingers_of(osd);
        self.register_again(now, again, out);
        // Perhaps a newer map has the OSD down.
        self.request_map(now, out);
    }

    pub(crate) fn on_reconnect_due(&mut self, now: UTime, osd: OsdId, out: &mut Vec<ObjecterEffect>) {
        // The session may have been closed, and another begun, since the timer was set.
        let Some(session) = self.sessions.get_mut(&osd) else { return };
        if matches!(session.link, Link::Pausing(until) if until <= now) {
            session.link = Link::Connecting;
            out.push(ObjecterEffect::Connect(session.id, osd, session.addrs.clone()));
        }
    }

    /// Ends a session because of the map. What was in it has to be placed again.
    pub(crate) fn close_session(&mut self, osd: OsdId, out: &mut Vec<ObjecterEffect>) {
        let Some(session) = self.sessions.remove(&osd) else {
            debug_assert!(false, "a session to osd.{osd} is closed that does not exist");
            return;
        };
        if let Link::Connecting | Link::Open = session.link {
            out.push(ObjecterEffect::Disconnect(session.id));
        }
    }

    /// An OSD is alive: its next reset is followed by a new connection at once.
    pub(crate) fn heard_from(&mut self, osd: OsdId) {
        if let Some(session) = self.sessions.get_mut(&osd) {
            session.delay = Duration::ZERO;
        }
    }

    pub(crate) fn on_backoff(
        &mut self,
        now: UTime,
        osd: OsdId,
        backoff: OsdBackoff,
        out: &mut Vec<ObjecterEffect>,
    ) {
        let Some(session) = self.sessions.get_mut(&osd) else {
            debug_assert!(false, "a message of osd.{osd}, whose session was closed");
            return;
        };
        match backoff.op {
            OsdBackoff::BLOCK => {
                let (pg, begin, end) = (backoff.pgid, backoff.begin.clone(), backoff.end.clone());
                session.backoffs.entry(pg).or_default().insert(begin.clone(), end);
                session.backoff_ids.insert(backoff.id, (pg, begin));
                // It carries the epoch of the backoff, by which the OSD sees one from before a split.
                let ack = OsdBackoff { op: OsdBackoff::ACK_BLOCK, ..backoff };
                out.push(ObjecterEffect::Send(session.id, ack.into()));
            }
            OsdBackoff::UNBLOCK => {
                let Some((pg, begin)) = session.backoff_ids.remove(&backoff.id) else {
                    let text = format!("osd.{osd} ended backoff {}, which it had not begun", backoff.id);
                    return out.push(ObjecterEffect::Warning(text));
                };
                if let Some(ranges) = session.backoffs.get_mut(&pg) {
                    ranges.remove(&begin);
                }
                session.backoffs.retain(|_, ranges| !ranges.is_empty());
                let within = |object: &HObject| is_within(object, &backoff.begin, &backoff.end);
                let of = |(_, p): &(&u64, &crate::request::Pending)| {
                    p.home == Some(osd)
                        && !p.paused
                        && p.placement.as_ref().is_some_and(|at| at.pg == pg && within(&p.hobject(at)))
                };
                let tids: Vec<u64> = self.pending.iter().filter(of).map(|(tid, _)| *tid).collect();
                tids.into_iter().for_each(|tid| self.send(now, tid, out));
            }
            op => out.push(ObjecterEffect::Warning(format!("osd.{osd} sent a backoff of kind {op}"))),
        }
    }

    /// Sends a ping to OSDs that owe an answer for long: a connection that is dead then ends.
    pub(crate) fn ping_laggy(&mut self, now: UTime, out: &mut Vec<ObjecterEffect>) -> bool {
        let laggy =
            |p: &crate::request::Pending| p.attempts > 0 && p.sent_at.after(self.config.laggy_after) <= now;
        let osds: std::collections::BTreeSet<OsdId> =
            self.pending.values().filter(|p| laggy(p)).filter_map(|p| p.home).collect();
        for osd in &osds {
            if let Some(Session { id, link: Link::Open, .. }) = self.sessions.get(osd) {
                out.push(ObjecterEffect::Send(*id, Message::from(Ping::default())));
            }
        }
        !osds.is_empty()
    }
}
