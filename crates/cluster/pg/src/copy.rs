//! Requests that copy another object (COPY_FROM): the PG asks for the source, and the request waits, with its object,
//! until it has come.
//!
//! The source is read by a request of this OSD's own (COPY_GET), also where it lies in the same PG. Two copies may each
//! read what the other one writes: then both would wait for ever. So a COPY_GET of another OSD reads an object that waits
//! for its source, before whatever waits for that object. It sees the state before the copy, which no client has been
//! answered for yet.

use std::sync::Arc;

use messages::OpCode;
use ops::{CopiedObject, CopySource};
use store::Token;
use types::{EntityType, Errno};

use crate::cache::ReadCache;
use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::request::Request;
use crate::{Bug, Pg, PgEffect, SetAside};

/// What a copy read, or why it could not.
pub type CopyResult = Result<Arc<CopiedObject>, Errno>;

/// Whether the request that has an object waits for what it copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum CopyWait {
    #[default]
    No,
    /// It waits, and other OSDs may read the object.
    Source,
    /// All has come: this parked request runs when nothing reads the object.
    Readers(u64),
}

/// Whether a request reads its object for another OSD's copy.
fn reads_for_a_copy(request: &Request) -> bool {
    let is_copy_get = || request.op.ops.iter().any(|op| op.code == OpCode::COPY_GET);
    request.caller.name.kind == EntityType::Osd && !request.class.writes && is_copy_get()
}

impl Pg {
    /// Asks for the source of a copy.
    pub(crate) fn start_copy(&mut self, park: u64, index: usize, source: CopySource, out: &mut Out<'_>) {
        let token = self.token();
        self.copies.insert(token, (park, index));
        out.push(PgEffect::Copy { token, source: Box::new(source) });
    }

    /// A source has come, or can't be had.
    pub(crate) fn on_copied(
        &mut self,
        token: Token,
        result: CopyResult,
        set_aside: SetAside,
        out: &mut Out<'_>,
    ) {
        // A copy of an ended interval, or of a session that is gone.
        let Some((park, index)) = self.copies.remove(&token) else { return };
        let Some(parked) = self.parked.get_mut(&park) else {
            return self.broken("a copy has come for no request", out);
        };
        parked.cache.answer_copy(index, result, set_aside);
        self.on_need_answered(park, out);
    }

    /// One of the needs of a parked request is answered; it runs with the last one.
    pub(crate) fn on_need_answered(&mut self, park: u64, out: &mut Out<'_>) {
        let Some(parked) = self.parked.get_mut(&park) else {
            return self.broken("a request that waited is gone", out);
        };
        parked.missing -= 1;
        if parked.missing > 0 {
            return;
        }
        let slot = parked.slot;
        match self.objects.get_mut(slot) {
            Some(object) if parked.request.class.writes && object.copy == CopyWait::Source => {
                object.copy = CopyWait::Readers(park);
            }
            Some(_) => self.resume(park, out),
            None => return self.broken("a request waited for an object without a context", out),
        }
        self.pump(slot, out);
    }

    /// Lets a copy go on whose source has come, or another OSD read what waits for its source. Whether one of them did.
    pub(crate) fn pump_copy(&mut self, slot: ObjectSlot, out: &mut Out<'_>) -> bool {
        // `pump` has looked the object up.
        let Some(object) = self.objects.get_mut(slot) else { return false };
        match object.copy {
            CopyWait::Readers(park) if object.readers == 0 => {
                object.copy = CopyWait::No;
                self.resume(park, out);
                true
            }
            CopyWait::Source if object.uncommitted == 0 && matches!(object.loaded, Loaded::Yes(_)) => {
                let lets_pass = self.config.planted.is(Bug::CopyLetsPass);
                let next = object.queue.iter().position(|request| lets_pass || reads_for_a_copy(request));
                let Some(request) = next.and_then(|at| object.queue.remove(at)) else { return false };
                self.run(slot, request, ReadCache::default(), out);
                true
            }
            CopyWait::No | CopyWait::Source | CopyWait::Readers(_) => false,
        }
    }

    /// A session is gone: no answer is wanted of its copies that have not begun to change anything, and their source may
    /// never come.
    pub(crate) fn cancel_copies_of(&mut self, session: auth::SessionId, out: &mut Out<'_>) {
        let of_session = |park: &u64| self.parked.get(park).is_some_and(|p| p.request.session == session);
        let mut parks: Vec<u64> = self.copies.values().map(|(park, _)| *park).filter(of_session).collect();
        parks.dedup();
        for park in parks {
            self.cancel_copies(|of| of == park, out);
            // Two copies of one request have the same place.
            let Some(parked) = self.parked.remove(&park) else { continue };
            let Some(object) = self.objects.get_mut(parked.slot) else {
                return self.broken("a copy waited for an object without a context", out);
            };
            (object.writing, object.copy) = (false, CopyWait::No);
            self.pump(parked.slot, out);
        }
    }

    /// Asks for no more of the copies of these parked requests.
    pub(crate) fn cancel_copies(&mut self, of: impl Fn(u64) -> bool, out: &mut Out<'_>) {
        self.copies.retain(|token, (park, _)| {
            let cancelled = of(*park);
            if cancelled {
                out.push(PgEffect::CancelCopy { token: *token });
            }
            !cancelled
        });
    }
}
