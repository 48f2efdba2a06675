//! Admission: how many client messages, and how many of their bytes, are held until their replies.

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use types::SpgId;

/// The limits; 0 is no limit (osd_client_message_cap, osd_client_message_size_cap).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    pub messages_max: u64,
    pub bytes_max: u64,
}

/// A message that holds budget: its session and transaction id.
type Held = (SessionId, u64);

/// The budget. A message that has already come is always let in, so it is overdrawn by at most one message a session;
/// a session that brings one while the budget is spent is paused until there is room again.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: Limits,
    messages: u64,
    bytes: u64,
    /// By message: how often it came (a resent transaction id adds up), bytes, and which PG has it.
    held: BTreeMap<Held, (u64, u64, Option<SpgId>)>,
    paused: BTreeSet<SessionId>,
}

impl Throttle {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, messages: 0, bytes: 0, held: BTreeMap::new(), paused: BTreeSet::new() }
    }

    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Messages and bytes held.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    fn is_spent(&self) -> bool {
        let spent = |held: u64, max: u64| max > 0 && held >= max;
        spent(self.messages, self.limits.messages_max) || spent(self.bytes, self.limits.bytes_max)
    }

    /// Takes a message in. Answers whether its session has to be paused now.
    pub(crate) fn admit(&mut self, session: SessionId, tid: u64, bytes: u64) -> bool {
        let entry = self.held.entry((session, tid)).or_default();
        (entry.0, entry.1) = (entry.0 + 1, entry.1 + bytes);
        self.messages += 1;
        self.bytes += bytes;
        self.is_spent() && self.paused.insert(session)
    }

    /// A message went on to a PG.
    pub(crate) fn hand_to(&mut self, session: SessionId, tid: u64, pgid: SpgId) {
        if let Some(held) = self.held.get_mut(&(session, tid)) {
            held.2 = Some(pgid);
        }
    }

    fn free(&mut self, held: &Held) {
        if let Some((messages, bytes, _)) = self.held.remove(held) {
            self.messages -= messages;
            self.bytes -= bytes;
        }
    }

    /// A message was answered or dropped. Answers which sessions may go on.
    pub(crate) fn release(&mut self, session: SessionId, tid: u64) -> Vec<SessionId> {
        self.free(&(session, tid));
        self.resumable()
    }

    /// A PG dropped all that it had.
    pub(crate) fn release_pg(&mut self, pgid: SpgId) -> Vec<SessionId> {
        let dropped: Vec<Held> =
            self.held.iter().filter(|(_, h)| h.2 == Some(pgid)).map(|(k, _)| *k).collect();
        dropped.iter().for_each(|held| self.free(held));
        self.resumable()
    }

    /// A session ended: what it held is free.
    pub(crate) fn close(&mut self, session: SessionId) -> Vec<SessionId> {
        self.paused.remove(&session);
        let range = (session, 0)..=(session, u64::MAX);
        let tids: Vec<u64> = self.held.range(range).map(|(&(_, tid), _)| tid).collect();
        tids.into_iter().for_each(|tid| self.free(&(session, tid)));
        self.resumable()
    }

    fn resumable(&mut self) -> Vec<SessionId> {
        match self.is_spent() {
            true => Vec::new(),
            false => std::mem::take(&mut self.paused).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    #[test]
    fn a_session_is_paused_when_the_budget_is_spent_and_goes_on_when_there_is_room() {
        let mut t = Throttle::new(Limits { messages_max: 2, bytes_max: 0 });
        assert!(!t.admit(A, 1, 10));
        assert!(t.admit(A, 2, 10));
        assert!(t.admit(B, 1, 10), "what has come is let in, but no more");
        assert!(t.release(A, 1).is_empty(), "still two held");
        assert_eq!(t.release(A, 2), [A, B]);
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn bytes_count_too_and_a_resend_is_released_with_its_original() {
        let mut t = Throttle::new(Limits { messages_max: 0, bytes_max: 100 });
        assert!(!t.admit(A, 1, 99));
        assert!(t.admit(A, 1, 1));
        assert_eq!(t.release(A, 1), [A]);
        assert_eq!(t.held(), (0, 0));
        assert!(t.release(A, 1).is_empty(), "a second answer frees nothing");
    }

    #[test]
    fn what_a_pg_dropped_is_free_and_nothing_else() {
        let mut t = Throttle::new(Limits { messages_max: 0, bytes_max: 0 });
        let pgid = SpgId::from("1.2".parse::<types::PgId>().unwrap());
        t.admit(A, 1, 10);
        t.admit(A, 2, 20);
        t.hand_to(A, 2, pgid);
        t.release_pg(pgid);
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn a_closed_session_frees_what_it_held() {
        let mut t = Throttle::new(Limits { messages_max: 2, bytes_max: 0 });
        t.admit(A, 1, 10);
        t.admit(A, 2, 10);
        t.admit(B, 7, 10);
        assert_eq!(t.close(A), [B]);
        assert_eq!(t.held(), (1, 10));
    }
}
