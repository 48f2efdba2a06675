//! Admission: how many client messages, and how many of their bytes, are held until their replies.

use std::collections::{BTreeMap, BTreeSet};

use auth::SessionId;
use smallvec::SmallVec;
use store::Token;
use types::SpgId;

/// The limits; 0 is no limit (osd_client_message_cap, osd_client_message_size_cap).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ThrottleLimits {
    pub messages_max: u64,
    pub bytes_max: u64,
}

/// A message that holds budget: its session and transaction id.
type Held = (SessionId, u64);

/// The messages under one of these: each one's bytes, and which PG has it. Nearly always one.
type Messages = SmallVec<[(u64, Option<SpgId>); 1]>;

/// The budget. A message that has already come is always let in, so it is overdrawn by at most one message a session;
/// a session that brings one while the budget is spent is paused until there is room again.
#[derive(Debug)]
pub(crate) struct Throttle {
    limits: ThrottleLimits,
    messages: u64,
    bytes: u64,
    /// A client may send a message again before it is answered; each gets its own answer.
    held: BTreeMap<Held, Messages>,
    paused: BTreeSet<SessionId>,
    /// Bytes of transactions that the store has not answered: they are there also when their session is gone.
    queued: BTreeMap<Token, u64>,
    queued_bytes: u64,
}

impl Throttle {
    pub(crate) fn new(limits: ThrottleLimits) -> Self {
        Self {
            limits,
            messages: 0,
            bytes: 0,
            held: BTreeMap::new(),
            paused: BTreeSet::new(),
            queued: BTreeMap::new(),
            queued_bytes: 0,
        }
    }

    pub(crate) fn set_limits(&mut self, limits: ThrottleLimits) {
        self.limits = limits;
    }

    /// Messages and bytes held.
    pub(crate) fn held(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// Whether a session has a message of this transaction id that is not answered.
    pub(crate) fn holds(&self, session: SessionId, tid: u64) -> bool {
        self.held.contains_key(&(session, tid))
    }

    /// The first invariant that does not hold: the sums are those of what is held and queued, and what is held or paused
    /// is of a session that `exists`.
    pub(crate) fn check(&self, exists: impl Fn(SessionId) -> bool) -> Result<(), &'static str> {
        let held = || self.held.values().flatten();
        let sums = (held().count() as u64, held().map(|(bytes, _)| *bytes).sum::<u64>());
        if sums != (self.messages, self.bytes) {
            return Err("the budget's sums are not those of the messages held");
        }
        if self.queued_bytes != self.queued.values().sum::<u64>() {
            return Err("the bytes queued are not those of the transactions queued");
        }
        let mut sessions = self.held.keys().map(|(session, _)| *session).chain(self.paused.iter().copied());
        match sessions.all(exists) && self.held.values().all(|messages| !messages.is_empty()) {
            true => Ok(()),
            false => Err("budget is held, or paused for, by a session that does not exist"),
        }
    }

    fn is_spent(&self) -> bool {
        let spent = |held: u64, max: u64| max > 0 && held >= max;
        spent(self.messages, self.limits.messages_max) || spent(self.bytes, self.limits.bytes_max)
    }

    /// Takes a message in. Answers whether its session has to be paused now.
    pub(crate) fn admit(&mut self, session: SessionId, tid: u64, bytes: u64) -> bool {
        self.held.entry((session, tid)).or_default().push((bytes, None));
        self.messages += 1;
        self.bytes += bytes;
        self.is_spent() && self.paused.insert(session)
    }

    /// A message went on to a PG.
    pub(crate) fn hand_to(&mut self, session: SessionId, tid: u64, pgid: SpgId) {
        let held = self.held.get_mut(&(session, tid));
        if let Some(message) = held.into_iter().flatten().find(|(_, at)| at.is_none()) {
            message.1 = Some(pgid);
        }
    }

    /// Frees those of a transaction id's messages that `which` names.
    fn free(&mut self, held: &Held, mut which: impl FnMut(usize, Option<SpgId>) -> bool) {
        // A session that has ended has freed its messages; replies to them still come.
        let Some(messages) = self.held.get_mut(held) else { return };
        let mut index = 0;
        let (mut count, mut freed) = (0, 0);
        messages.retain(|(bytes, at)| {
            let free = which(index, *at);
            index += 1;
            (count, freed) = if free { (count + 1, freed + *bytes) } else { (count, freed) };
            !free
        });
        if messages.is_empty() {
            self.held.remove(held);
        }
        self.messages -= count;
        self.bytes -= freed;
    }

    /// A transaction went to the store.
    pub(crate) fn queue(&mut self, token: Token, bytes: u64) {
        if bytes > 0 {
            self.queued.insert(token, bytes);
            self.queued_bytes += bytes;
        }
    }

    /// The store has answered it. Whether what waited for [`Throttle::store_is_behind`] may go on.
    pub(crate) fn dequeue(&mut self, token: Token) -> bool {
        let was_behind = self.store_is_behind();
        if let Some(bytes) = self.queued.remove(&token) {
            self.queued_bytes -= bytes;
        }
        was_behind && !self.store_is_behind()
    }

    /// Whether the store has so much to do that no write may begin: sessions that come and go free their own budget,
    /// not the memory of what they began.
    pub(crate) fn store_is_behind(&self) -> bool {
        self.limits.bytes_max > 0 && self.queued_bytes >= self.limits.bytes_max
    }

    /// A message was answered or dropped. Answers which sessions may go on.
    pub(crate) fn release(&mut self, session: SessionId, tid: u64) -> Vec<SessionId> {
        self.free(&(session, tid), |index, _| index == 0);
        self.resumable()
    }

    /// A PG dropped all that it had.
    pub(crate) fn release_pg(&mut self, pgid: SpgId) -> Vec<SessionId> {
        let dropped: Vec<Held> =
            self.held.iter().filter(|(_, h)| h.iter().any(|m| m.1 == Some(pgid))).map(|(k, _)| *k).collect();
        dropped.iter().for_each(|held| self.free(held, |_, at| at == Some(pgid)));
        self.resumable()
    }

    /// The PGs that have messages of a session which are not answered.
    pub(crate) fn pgs_of(&self, session: SessionId) -> BTreeSet<SpgId> {
        let of_session = self.held.range((session, 0)..=(session, u64::MAX));
        of_session.flat_map(|(_, messages)| messages).filter_map(|(_, at)| *at).collect()
    }

    /// A session ended: what it held is free.
    pub(crate) fn close(&mut self, session: SessionId) -> Vec<SessionId> {
        self.paused.remove(&session);
        let range = (session, 0)..=(session, u64::MAX);
        let tids: Vec<u64> = self.held.range(range).map(|(&(_, tid), _)| tid).collect();
        tids.into_iter().for_each(|tid| self.free(&(session, tid), |_, _| true));
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
        let mut t = Throttle::new(ThrottleLimits { messages_max: 2, bytes_max: 0 });
        assert!(!t.admit(A, 1, 10));
        assert!(t.admit(A, 2, 10));
        assert!(t.admit(B, 1, 10), "what has come is let in, but no more");
        assert!(t.release(A, 1).is_empty(), "still two held");
        assert_eq!(t.release(A, 2), [A, B]);
        assert_eq!(t.held(), (1, 10));
    }

    #[test]
    fn bytes_count_too_and_each_answer_frees_one_message() {
        let mut t = Throttle::new(ThrottleLimits { messages_max: 0, bytes_max: 100 });
        assert!(!t.admit(A, 1, 99));
        assert!(t.admit(A, 1, 1));
        assert_eq!(t.release(A, 1), [A]);
        assert_eq!(t.held(), (1, 1), "a message that bears the same number is still there");
        t.release(A, 1);
        assert_eq!(t.held(), (0, 0));
        assert!(t.release(A, 1).is_empty(), "a third answer frees nothing");
    }

    #[test]
    fn what_a_pg_dropped_is_free_and_nothing_else() {
        let mut t = Throttle::new(ThrottleLimits { messages_max: 0, bytes_max: 0 });
        let pgid = SpgId::from("1.2".parse::<types::PgId>().unwrap());
        t.admit(A, 1, 10);
        t.admit(A, 2, 20);
        t.hand_to(A, 2, pgid);
        assert_eq!((t.pgs_of(A), t.pgs_of(B)), ([pgid].into(), [].into()));
        t.release_pg(pgid);
        assert_eq!(t.held(), (1, 10));
        assert!(t.pgs_of(A).is_empty());
    }

    #[test]
    fn what_the_store_has_not_answered_counts_though_its_session_is_gone() {
        let mut t = Throttle::new(ThrottleLimits { messages_max: 0, bytes_max: 100 });
        t.queue(Token(1), 60);
        t.queue(Token(2), 60);
        assert!(t.store_is_behind());
        assert!(t.dequeue(Token(1)) && !t.store_is_behind());
        assert!(!t.dequeue(Token(2)), "nobody waited");
    }

    #[test]
    fn a_closed_session_frees_what_it_held() {
        let mut t = Throttle::new(ThrottleLimits { messages_max: 2, bytes_max: 0 });
        t.admit(A, 1, 10);
        t.admit(A, 2, 10);
        t.admit(B, 7, 10);
        assert_eq!(t.close(A), [B]);
        assert_eq!(t.held(), (1, 10));
    }
}
