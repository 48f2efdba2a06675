//! A session's backoffs: PGs that want no requests of it for now, or are not here for now.

use std::collections::BTreeMap;

use messages::{Message, OsdBackoff};
use pg::BackoffRange;
use types::{Epoch, SpgId};

use crate::parts::PgPlace;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// The client may not know of it yet.
    Sent,
    Acknowledged,
    /// Its end was sent before the client acknowledged it: what it sent in between may still come.
    Ended,
}

#[derive(Debug)]
struct Backoff {
    id: u64,
    /// `None`: the PG is not here, and the gate itself has asked for the backoff.
    place: Option<PgPlace>,
    range: BackoffRange,
    state: State,
}

/// The backoffs of a session. While there is one of a PG, what comes for the PG is dropped: the client sends it again.
#[derive(Debug, Default)]
pub(crate) struct Backoffs {
    /// Backoffs so far.
    ids: u64,
    of_pgs: BTreeMap<SpgId, Backoff>,
}

impl Backoffs {
    #[inline]
    pub(crate) fn holds_back(&self, pgid: &SpgId) -> bool {
        !self.of_pgs.is_empty() && self.of_pgs.contains_key(pgid)
    }

    /// The PGs here that have a backoff.
    pub(crate) fn places(&self) -> impl Iterator<Item = PgPlace> {
        self.of_pgs.values().filter_map(|backoff| backoff.place)
    }

    /// The PGs that were not here when their backoff began, which has not ended.
    pub(crate) fn absent(&self) -> impl Iterator<Item = SpgId> {
        let waits = |backoff: &Backoff| backoff.place.is_none() && backoff.state != State::Ended;
        self.of_pgs.iter().filter(move |(_, backoff)| waits(backoff)).map(|(pgid, _)| *pgid)
    }

    /// Begins one; the message that asks for it. `None` if there is one.
    pub(crate) fn begin(
        &mut self,
        pgid: SpgId,
        place: Option<PgPlace>,
        range: BackoffRange,
    ) -> Option<Message> {
        if self.of_pgs.contains_key(&pgid) {
            return None;
        }
        self.ids += 1;
        let backoff = Backoff { id: self.ids, place, range, state: State::Sent };
        let message = backoff.message(pgid, backoff.range.epoch, OsdBackoff::BLOCK);
        self.of_pgs.insert(pgid, backoff);
        Some(message)
    }

    /// Ends one: the message that says so, and its PG here if it is over with that. `None` if there is none.
    pub(crate) fn end(&mut self, pgid: SpgId, epoch: Epoch) -> Option<(Message, Option<PgPlace>)> {
        let backoff = self.of_pgs.get_mut(&pgid).filter(|backoff| backoff.state != State::Ended)?;
        let message = backoff.message(pgid, epoch, OsdBackoff::UNBLOCK);
        let place = match std::mem::replace(&mut backoff.state, State::Ended) {
            State::Acknowledged => self.of_pgs.remove(&pgid).and_then(|backoff| backoff.place),
            State::Sent | State::Ended => None,
        };
        Some((message, place))
    }

    /// The client acknowledges one. Its PG here if it is over with that.
    pub(crate) fn acknowledge(&mut self, message: &OsdBackoff) -> Option<PgPlace> {
        // A client may acknowledge what there never was.
        let backoff = self.of_pgs.get_mut(&message.pgid).filter(|backoff| backoff.id == message.id)?;
        match backoff.state {
            State::Sent => {
                backoff.state = State::Acknowledged;
                None
            }
            State::Acknowledged => None,
            State::Ended => self.of_pgs.remove(&message.pgid).and_then(|backoff| backoff.place),
        }
    }

    /// The PG is gone.
    pub(crate) fn forget(&mut self, pgid: &SpgId) {
        self.of_pgs.remove(pgid);
    }
}

impl Backoff {
    fn message(&self, pgid: SpgId, map_epoch: Epoch, op: u8) -> Message {
        let BackoffRange { begin, end, .. } = self.range.clone();
        OsdBackoff { pgid, map_epoch, op, id: self.id, begin, end }.into()
    }
}
