//! Requests of an object in their turn: run, parked for reads, run again.

use encoding::Decode;
use messages::osd_op::OsdFlags;
use messages::{OpResult, OsdOpReply};
use ops::{ExecuteResult, ObjectInfo, ObjectState, OpContext, OpOutcome, OpReturn, SnapSet};
use store::{ObjectHead, ReadOutcome, ReadRequest, StoreError};
use types::{Errno, GHObject, SnapContext, SnapId};

use crate::cache::{ReadCache, read_request};
use crate::objects::{Loaded, ObjectSlot};
use crate::pg::{Parked, ReadFor};
use crate::request::Request;
use crate::{Notice, Pg, PgEffect};

/// An object's attribute that holds its [`ObjectInfo`].
pub(crate) const INFO_ATTR: &str = "_";
/// A head's attribute that holds its [`SnapSet`].
pub(crate) const SNAPSET_ATTR: &str = "ss";

/// Objects of bad metadata that a PG names in the log, at most.
const BAD_OBJECTS_SAID_MAX: usize = 64;

static NO_SNAPS: SnapContext = SnapContext { seq: 0, snaps: Vec::new() };

impl Pg {
    pub(crate) fn ghobject(&self, slot: ObjectSlot) -> Option<GHObject> {
        let object = self.objects.get(slot)?;
        Some(GHObject { shard: self.id.shard, ..GHObject::from(object.oid.clone()) })
    }

    /// Runs what may run of an object's requests, in order.
    pub(crate) fn pump(&mut self, slot: ObjectSlot, out: &mut Vec<PgEffect>) {
        while let Some(object) = self.objects.get_mut(slot) {
            let Some(front) = object.queue.front() else { return };
            match object.loaded {
                Loaded::Reading => return,
                Loaded::No => {
                    object.loaded = Loaded::Reading;
                    let Some(oid) = self.ghobject(slot) else { return };
                    let request = ReadRequest::Object { collection: self.collection, object: oid };
                    return self.read(request, ReadFor::Object(slot), out);
                }
                Loaded::Yes(_) | Loaded::Bad(_) => {}
            }
            if !front.skips_locks() && !object.admits(front.class) {
                return;
            }
            let Some(request) = object.queue.pop_front() else { return };
            match object.loaded {
                Loaded::Bad(errno) => self.reply_error(&request, errno, out),
                _ => self.run(slot, request, ReadCache::default(), out),
            }
        }
    }

    pub(crate) fn on_object_read(
        &mut self,
        slot: ObjectSlot,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Vec<PgEffect>,
    ) {
        let Some(object) = self.objects.get_mut(slot) else { return };
        let state = match result {
            Ok(ReadOutcome::Object(None)) => Ok(ObjectState::absent(object.oid.clone())),
            Ok(ReadOutcome::Object(Some(head))) => state_of(&head).map_err(|e| (e, Errno::EIO)),
            Ok(_) => Err(("the store answered another question".to_owned(), Errno::EIO)),
            Err(error) => Err((error.to_string(), error.errno())),
        };
        let failed = state.is_err();
        object.loaded = match state {
            Ok(state) => {
                self.said_bad.remove(&object.oid);
                Loaded::Yes(state)
            }
            Err((reason, errno)) => {
                // Said once an object, and of so many: clients that ask again must not fill the log.
                if self.said_bad.len() < BAD_OBJECTS_SAID_MAX && self.said_bad.insert(object.oid.clone()) {
                    let reason = format!("{}: {reason}", object.oid);
                    out.push(PgEffect::Notice(Notice::BadObject { reason }));
                }
                Loaded::Bad(errno)
            }
        };
        self.pump(slot, out);
        if let (true, Some(object)) = (failed, self.objects.get_mut(slot)) {
            // Whoever asks next makes the store try again.
            object.loaded = Loaded::No;
        }
    }

    /// Runs a request whose turn it is.
    fn run(&mut self, slot: ObjectSlot, request: Request, mut cache: ReadCache, out: &mut Vec<PgEffect>) {
        if self.is_blocklisted(&request.addrs) {
            return self.reply_error(&request, Errno::ESHUTDOWN, out);
        }
        if request.class.writes && self.answer_resend(&request, out) {
            return;
        }
        let Some(object) = self.objects.get_mut(slot) else { return };
        let Loaded::Yes(state) = &object.loaded else { return };
        let pool = self.map.as_ref().map(|m| &m.pool);
        let pool_snapc = pool.and_then(|p| p.snapc.as_ref());
        let enforced = request.op.has_flag(OsdFlags::ENFORCE_SNAPC);
        let snapc = match (request.class.writes, pool_snapc) {
            (false, _) => &NO_SNAPS,
            (true, Some(of_pool)) if !enforced => of_pool,
            (true, _) => &request.snapc,
        };
        if !request.class.writes && !is_readable(state, request.op.snapid) {
            return self.reply_error(&request, Errno::ENOENT, out);
        }
        let ctx = OpContext {
            limits: &self.config.ops,
            snapc,
            flags: request.op.flags,
            pool_has_omap: pool.is_none_or(|p| p.has_omap),
            full: pool.and_then(|p| p.full).filter(|_| !request.is_from_mds()),
        };
        match ops::execute(&mut cache, &ctx, state, &request.op.ops) {
            ExecuteResult::Dropped => Self::dropped(request.session, request.op.tid, "the pool is full", out),
            ExecuteResult::Pending => self.park(slot, request, cache, out),
            ExecuteResult::Done(outcome) => {
                let newest = snapc.clone();
                self.note_unsupported(&outcome, out);
                match request.class.writes {
                    true => self.finish_write(slot, request, &newest, *outcome, out),
                    false => self.finish_read(slot, &request, *outcome, out),
                }
            }
        }
    }

    fn note_unsupported(&mut self, outcome: &OpOutcome, out: &mut Vec<PgEffect>) {
        if let Some(code) = outcome.unsupported {
            if self.said_unsupported.insert(code) {
                out.push(PgEffect::Notice(Notice::UnsupportedOp { code }));
            }
        }
    }

    fn park(&mut self, slot: ObjectSlot, request: Request, mut cache: ReadCache, out: &mut Vec<PgEffect>) {
        let (Some(oid), Some(object)) = (self.ghobject(slot), self.objects.get_mut(slot)) else { return };
        match request.class.writes {
            true => object.writing = true,
            false => object.readers += 1,
        }
        let (park, needs) = (self.park_id(), cache.take_new());
        let missing = needs.len();
        for (index, need) in needs {
            let request =
                read_request(need, self.collection, oid.clone(), self.config.ops.omap_read_bytes_max());
            self.read(request, ReadFor::Step { park, index }, out);
        }
        self.parked.insert(park, Parked { slot, request, cache, missing });
    }

    pub(crate) fn on_step_read(
        &mut self,
        park: u64,
        index: usize,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Vec<PgEffect>,
    ) {
        let Some(parked) = self.parked.get_mut(&park) else { return };
        parked.cache.answer(index, result);
        parked.missing -= 1;
        if parked.missing > 0 {
            return;
        }
        let Some(Parked { slot, request, cache, .. }) = self.parked.remove(&park) else { return };
        if let Some(object) = self.objects.get_mut(slot) {
            match request.class.writes {
                true => object.writing = false,
                false => object.readers = object.readers.saturating_sub(1),
            }
        }
        self.run(slot, request, cache, out);
        self.pump(slot, out);
    }

    fn finish_read(
        &mut self,
        slot: ObjectSlot,
        request: &Request,
        outcome: OpOutcome,
        out: &mut Vec<PgEffect>,
    ) {
        let user_version = match self.objects.get(slot).map(|o| &o.loaded) {
            Some(Loaded::Yes(state)) => state.info.user_version,
            _ => 0,
        };
        self.add_stats(&outcome.delta);
        let mut reply = self.reply(request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        match outcome.result {
            r if r >= 0 => reply.set_versions(Default::default(), user_version),
            r if r == Errno::ENOENT.code() => self.set_enoent_versions(&mut reply),
            _ => {}
        }
        out.push(PgEffect::Reply { session: request.session, reply });
    }

    /// A reply with each operation's result; operations and results are as many.
    pub(crate) fn reply(&self, request: &Request, result: i32, returns: Vec<OpReturn>) -> Box<OsdOpReply> {
        let results = request.op.ops.iter().zip(returns);
        let results = results.map(|(op, ret)| OpResult::of(op, ret.rval, ret.data)).collect();
        Box::new(OsdOpReply::to(&request.op, result, self.epoch(), results))
    }

    pub(crate) fn set_enoent_versions(&self, reply: &mut OsdOpReply) {
        // A floor for what the object's version will be when it is made.
        reply.set_enoent_versions(self.info.last_update, self.info.last_user_version);
    }

    /// Answers without having begun: such replies carry no version, also where the object is not there.
    pub(crate) fn reply_error(&self, request: &Request, errno: Errno, out: &mut Vec<PgEffect>) {
        let reply = Box::new(OsdOpReply::error(&request.op, errno.code(), self.epoch()));
        out.push(PgEffect::Reply { session: request.session, reply });
    }
}

/// Whether a read of `snap` finds something. No clones are made yet: snapshots newer than what the object has seen are
/// still the head's.
fn is_readable(state: &ObjectState, snap: SnapId) -> bool {
    match snap {
        SnapId::DIR => state.exists,
        SnapId::HEAD => state.is_visible(),
        SnapId(n) => state.is_visible() && n > state.snapset.seq,
    }
}

fn state_of(head: &ObjectHead) -> Result<ObjectState, String> {
    let get = |name: &'static str| head.attrs.get(&name.into()).ok_or_else(|| format!("no attribute {name}"));
    let info = ObjectInfo::from_bytes(get(INFO_ATTR)?).map_err(|e| e.to_string())?;
    let snapset = SnapSet::from_bytes(get(SNAPSET_ATTR)?).map_err(|e| e.to_string())?;
    Ok(ObjectState { exists: true, info, snapset })
}
