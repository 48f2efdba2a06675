//! A change is undone: the PG goes back to what it was before it, answers its client, and runs again what came after
//! it. Those requests were valid, but were run on a state that never came to be.

use std::collections::BTreeSet;

use ops::StatsDelta;
use store::{StoreError, Token};
use types::{EVersion, Errno};

use crate::copy::CopyWait;
use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::pg::{ClientChange, DelayedOf, InFlight, OwnRecords};
use crate::phase::Phase;
use crate::request::Request;
use crate::{Bug, EntryKind, Notice, Pg, PgEffect, PgFailure};

impl Pg {
    pub(crate) fn on_refused(&mut self, token: Token, error: StoreError, out: &mut Out<'_>) {
        if self.own.front().is_some_and(|own| own.token == token) {
            self.on_own_refused(error, out);
        } else {
            let progress = self.call_backend(out, |backend, ctx| backend.on_refused(token, error, ctx));
            self.on_progress(progress, out);
        }
        self.on_store_answered(out);
    }

    fn on_own_refused(&mut self, error: StoreError, out: &mut Out<'_>) {
        match (self.own.pop_front(), error) {
            // The records are written again already.
            (Some(OwnRecords { undone: true, .. }), _) => {}
            (_, StoreError::AfterRefused(_)) if !self.in_flight.is_empty() => self.own_lost = true,
            (Some(own), error) if self.phase == Phase::Splitting && error.is_local() => {
                self.postpone_split(own.token, error, out);
            }
            (Some(own), error) if self.phase == Phase::Removing => {
                self.on_removal_refused(own.token, error, out);
            }
            (_, error) => self.fail(PgFailure::Refused(error), out),
        }
    }

    pub(crate) fn on_undone(&mut self, from: Token, error: StoreError, out: &mut Out<'_>) {
        let Ok(at) = self.in_flight.binary_search_by_key(&from, |f| f.token) else {
            return self.broken("a change was undone that is not in flight", out);
        };
        let errno = error.errno();
        // The scrub may have counted what is undone.
        let (held, scrubbed) = (self.held_slots(), self.scrub.is_some());
        self.abort_scrub(out);
        out.push(PgEffect::Notice(Notice::ChangeRefused { error }));
        let undone: Vec<InFlight> = self.in_flight.split_off(at).into();
        let first = undone.first().and_then(|change| self.records.log.entry(change.version));
        let is_error = first.is_none_or(|entry| entry.kind == EntryKind::Error)
            || self.config.planted.is(Bug::RefusalIsForgotten);
        self.go_back(&undone);
        let mut write_own = std::mem::take(&mut self.own_lost);
        for own in self.own.iter_mut().filter(|own| own.token > from) {
            own.undone = true;
            write_own = true;
        }
        self.run_again(undone, errno, is_error, write_own, out);
        if scrubbed {
            self.release_held(held, out);
        }
    }

    /// Makes the records what they were before the oldest of the changes.
    fn go_back(&mut self, undone: &[InFlight]) {
        // Never empty: it begins with the refused change.
        let Some(first) = undone.first() else { return };
        let mut stats = StatsDelta::default();
        for change in undone {
            stats += change.client.stats;
            stats += change.reads;
            self.reads_to_count += change.reads;
        }
        self.records.go_back(&first.before, stats);
    }

    /// Answers the request of the first change; puts those of the others, and everything that waited for them, back
    /// into their objects' queues, in order. `is_error`: what was refused was the entry of an error.
    fn run_again(
        &mut self,
        undone: Vec<InFlight>,
        errno: Errno,
        is_error: bool,
        write_own: bool,
        out: &mut Out<'_>,
    ) {
        let back_to = self.records.info.last_update;
        let mut slots = BTreeSet::new();
        let mut versioned: Vec<(EVersion, ObjectSlot, Request)> = Vec::new();
        let mut refused = Some((errno, is_error));
        for change in undone {
            let (version, slot) = (change.version, change.client.slot);
            slots.insert(slot);
            let request = self.undo(change, refused.take(), out);
            versioned.extend(request.map(|request| (version, slot, request)));
        }
        self.take_delayed_of_undone(back_to, &mut versioned);
        // A resend may be all that is left of a change whose interval ended: it runs before the changes that followed.
        versioned.sort_by_key(|(version, ..)| *version);
        if self.config.planted.is(Bug::RefusalTurnsOrder) {
            versioned.reverse();
        }
        let requests: Vec<(ObjectSlot, Request)> = versioned.into_iter().map(|(_, s, r)| (s, r)).collect();
        let waiting: BTreeSet<ObjectSlot> = requests.iter().map(|(slot, _)| *slot).collect();
        self.requeue(&slots, requests, out);
        self.release_delayed(out);
        if write_own {
            self.submit_info(out);
        }
        for slot in &slots | &waiting {
            self.pump(slot, out);
        }
    }

    /// Takes a change out of its object's count. Of the `refused` one (its error, and whether it was the entry of an error) the
    /// request is answered; of any other it is given back.
    fn undo(
        &mut self,
        change: InFlight,
        refused: Option<(Errno, bool)>,
        out: &mut Out<'_>,
    ) -> Option<Request> {
        let ClientChange { slot, request, reply, effects, trimmed, .. } = *change.client;
        if let Some(object) = self.objects.get_mut(slot) {
            debug_assert!(object.uncommitted > 0);
            object.uncommitted -= 1;
        }
        if effects.is_some() {
            self.retry_watches(slot);
        }
        if trimmed.is_some() {
            self.on_trim_undone();
        }
        // None: an interval ended, so the request was dropped, or waits to be run again. Or no client has asked.
        let mut request = request?;
        let Some((errno, is_error)) = refused else {
            request.set_aside.restore();
            return Some(request);
        };
        match reply {
            Some(reply) if self.config.planted.is(Bug::RefusedIsAcknowledged) => {
                out.push(PgEffect::Reply { session: request.session, reply });
            }
            // The store does not even take the entry: a resend is run again.
            _ if is_error => self.reply_error(&request, errno, out),
            _ => self.fail_write(slot, request, errno, out),
        }
        None
    }

    /// Takes the resends of what is undone from the answers that wait, and has listings wait for no change that is undone.
    fn take_delayed_of_undone(
        &mut self,
        back_to: EVersion,
        versioned: &mut Vec<(EVersion, ObjectSlot, Request)>,
    ) {
        for mut delayed in std::mem::take(&mut self.delayed) {
            let repeats_undone = delayed.version > back_to;
            match delayed.of {
                // A client may name another object than the first time, whose context nothing has kept.
                DelayedOf::Write(request) if repeats_undone => {
                    versioned.push((delayed.version, self.objects.slot(&request.head()), *request));
                }
                DelayedOf::Write(_) => self.delayed.push_back(delayed),
                DelayedOf::Listing(_) => {
                    // It saw nothing of what is undone.
                    delayed.version = delayed.version.min(back_to);
                    self.delayed.push_back(delayed);
                }
            }
        }
    }

    /// Before what waits in each object's queue: the given requests, then those that are parked for reads.
    fn requeue(
        &mut self,
        slots: &BTreeSet<ObjectSlot>,
        mut requests: Vec<(ObjectSlot, Request)>,
        out: &mut Out<'_>,
    ) {
        let parked: Vec<u64> =
            self.parked.iter().filter(|(_, p)| slots.contains(&p.slot)).map(|(id, _)| *id).collect();
        self.cancel_copies(|of| parked.contains(&of), out);
        for id in parked {
            // The completions of their reads are ignored.
            requests.extend(self.parked.remove(&id).map(|p| (p.slot, p.request)));
        }
        for slot in slots {
            let Some(object) = self.objects.get_mut(*slot) else {
                // A context stays while a change of its object is not durable, also at the end of an interval.
                debug_assert!(false, "a change of {slot:?} is undone, which has no context");
                continue;
            };
            object.writing = false;
            object.copy = CopyWait::No;
            object.readers = 0;
            if matches!(object.loaded, Loaded::Yes(_)) {
                object.loaded = Loaded::No;
            }
        }
        for (slot, request) in requests.into_iter().rev() {
            match self.objects.get_mut(slot) {
                Some(object) => object.queue.push_front(request),
                None => debug_assert!(false, "a request of {slot:?} is put back, which has no context"),
            }
        }
    }
}
