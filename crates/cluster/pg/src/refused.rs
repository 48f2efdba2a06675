//! The store refuses a change: the PG goes back to what it was before it, answers its client, and runs again what came
//! after it.
//!
//! With one copy nothing else is needed: what was refused is nowhere. The store has closed the collection, so every
//! change in flight behind the refused one is refused too; their requests were valid, but were run on a state that
//! never came to be.

use std::collections::BTreeSet;

use store::{StoreError, Token};
use types::{EVersion, Errno};

use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::pg::{ChangeOf, ClientChange, Delayed, InFlight, Phase};
use crate::request::Request;
use crate::{Notice, Pg, PgEffect, PgFailure};

/// What a change replaces of the PG's info.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    pub last_update: EVersion,
    pub last_complete: EVersion,
    pub last_user_version: u64,
}

impl Pg {
    pub(crate) fn on_refused(&mut self, token: Token, error: StoreError, out: &mut Out<'_>) {
        // One that fell with an earlier refusal.
        if self.undone.remove(&token) {
            return;
        }
        let Ok(at) = self.in_flight.binary_search_by_key(&token, |f| f.token) else {
            return self.broken("the store refused a change that is not in flight", out);
        };
        let is_clients = matches!(self.in_flight[at].of, ChangeOf::Client(_));
        if !is_clients || !concerns_this_change_alone(&error) {
            return self.fail(PgFailure::Refused(error), out);
        }
        let errno = error.errno();
        out.push(PgEffect::Notice(Notice::ChangeRefused { error }));
        let undone: Vec<InFlight> = self.in_flight.split_off(at).into();
        self.go_back(&undone);
        out.push(PgEffect::Acknowledge { token });
        self.run_again(undone, errno, out);
        if matches!(self.phase, Phase::Removing) {
            self.continue_removal(out);
        }
    }

    /// Makes info, log and counters what they were before the oldest of the changes.
    fn go_back(&mut self, undone: &[InFlight]) {
        // Never empty: it begins with the refused change.
        let Some(first) = undone.first() else { return };
        self.info.last_update = first.before.last_update;
        self.info.last_complete = first.before.last_complete;
        self.info.last_user_version = first.before.last_user_version;
        self.info.stats.version = first.before.last_update;
        self.log.rewind(first.before.last_update);
        self.note_log_size();
        self.info_dirty = true;
        for change in undone {
            if let ChangeOf::Client(client) = &change.of {
                self.add_stats(&-client.delta);
            }
        }
        // The first is refused already; the others will be.
        self.undone.extend(undone.iter().skip(1).map(|c| c.token));
    }

    /// Answers the request of the first change; puts those of the others, and everything that waited for them, back
    /// into their objects' queues, in order.
    fn run_again(&mut self, undone: Vec<InFlight>, errno: Errno, out: &mut Out<'_>) {
        let back_to = self.info.last_update;
        let write_own = undone.iter().any(|c| matches!(c.of, ChangeOf::Pg));
        let mut slots = BTreeSet::new();
        let mut versioned: Vec<(EVersion, ObjectSlot, Request)> = Vec::new();
        for (i, change) in undone.into_iter().enumerate() {
            let InFlight { version, of: ChangeOf::Client(client), .. } = change else { continue };
            let ClientChange { slot, request, .. } = *client;
            slots.insert(slot);
            if let Some(object) = self.objects.get_mut(slot) {
                debug_assert!(object.uncommitted > 0);
                object.uncommitted -= 1;
            }
            match request {
                Some(request) if i == 0 => self.reply_error(&request, errno, out),
                Some(request) => versioned.push((version, slot, request)),
                // An interval ended: its client sends it again by itself.
                None => {}
            }
        }
        for delayed in &mut self.delayed {
            // Listings saw nothing of what was refused; resends of it are run as if they were new.
            if delayed.version > back_to {
                let version = std::mem::replace(&mut delayed.version, back_to);
                if let Some(request) = delayed.resend.take() {
                    // A client may name another object than the first time, whose context nothing has kept.
                    versioned.push((version, self.objects.slot(&request.head()), request));
                }
            }
        }
        self.delayed.retain(|d| !d.is_taken());
        // A resend may be all that is left of a change whose interval ended: it runs before the changes that followed.
        versioned.sort_by_key(|(version, ..)| *version);
        let requests: Vec<(ObjectSlot, Request)> = versioned.into_iter().map(|(_, s, r)| (s, r)).collect();
        let waiting: BTreeSet<ObjectSlot> = requests.iter().map(|(slot, _)| *slot).collect();
        self.requeue(&slots, requests);
        self.release_delayed(out);
        if write_own {
            self.submit_info(out);
        }
        for slot in &slots | &waiting {
            self.pump(slot, out);
        }
    }

    /// Before what waits in each object's queue: the given requests, then those that are parked for reads.
    fn requeue(&mut self, slots: &BTreeSet<ObjectSlot>, mut requests: Vec<(ObjectSlot, Request)>) {
        let parked: Vec<u64> =
            self.parked.iter().filter(|(_, p)| slots.contains(&p.slot)).map(|(id, _)| *id).collect();
        for id in parked {
            // Their reads are answered for nobody.
            requests.extend(self.parked.remove(&id).map(|p| (p.slot, p.request)));
        }
        for slot in slots {
            let Some(object) = self.objects.get_mut(*slot) else { continue };
            object.writing = false;
            object.readers = 0;
            if matches!(object.loaded, Loaded::Yes(_)) {
                object.loaded = Loaded::No;
            }
        }
        for (slot, request) in requests.into_iter().rev() {
            if let Some(object) = self.objects.get_mut(slot) {
                object.queue.push_front(request);
            }
        }
    }
}

impl Delayed {
    /// Whether only a request was left of it, which is run again.
    fn is_taken(&self) -> bool {
        self.was_resend && self.resend.is_none()
    }
}

/// Whether a refusal says nothing of the rest of the store, and the PG built a proper transaction.
fn concerns_this_change_alone(error: &StoreError) -> bool {
    error.is_local() || matches!(error, StoreError::ObjectTooLarge { .. })
}
