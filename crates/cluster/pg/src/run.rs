//! Requests of an object in their turn: run, parked for reads, run again.

use messages::osd_op::OsdFlags;
use messages::{OpResult, OsdOp, OsdOpReply};
use ops::{
    ExecuteResult, FoundSnap, Need, ObjectState, OpClass, OpContext, OpOutcome, OpReturn, WatchContext,
};
use store::{AttrChoice, ReadOutcome, ReadRequest, StoreError};
use telemetry::Stage;
use types::{Errno, GHObject, HObject, IntervalSet, Release, SnapId, UTime};

use crate::cache::{ReadCache, StoreView, read_request};
use crate::client::SENT_BEFORE_FULL;
use crate::copy::CopyWait;
use crate::objects::{Loaded, Object, ObjectSlot};
use crate::out::Out;
use crate::pg::{Parked, ReadFor};
use crate::phase::Phase;
use crate::request::Request;
use crate::snaps::PoolSnaps;
use crate::watch::Effects;
use crate::{Bug, Notice, Pg, PgEffect};

/// Objects of bad metadata that a PG names in the log, at most.
const BAD_OBJECTS_SAID_MAX: usize = 64;

/// The class of a change that no client asks for: it trims a clone, or removes watches.
pub(crate) fn own_change() -> OpClass {
    OpClass { writes: true, write_ordered: true, ..OpClass::default() }
}

/// What became of a request's run.
enum Ran {
    /// Its snapshot has nothing of the object.
    NoSnap,
    /// The metadata of the clone that it reads are bad, for this reason.
    BadClone(String),
    Executed(ExecuteResult),
}

impl Pg {
    pub(crate) fn ghobject(&self, slot: ObjectSlot) -> Option<GHObject> {
        let object = self.objects.get(slot)?;
        Some(GHObject { shard: self.id.shard, ..GHObject::from(object.oid.clone()) })
    }

    /// Runs what may run of an object's requests, in order.
    pub(crate) fn pump(&mut self, slot: ObjectSlot, out: &mut Out<'_>) {
        if self.scrub.is_some() {
            self.give_way(slot);
        }
        while !matches!(self.phase, Phase::Failed) {
            if self.watches.any_ending() && self.remove_ended_watches(slot, out) {
                if !self.load_object(slot, out) {
                    return;
                }
                continue;
            }
            let Some(object) = self.objects.get(slot) else {
                return self.broken("requests of an object without a context", out);
            };
            if object.copy != CopyWait::No && self.pump_copy(slot, out) {
                continue;
            }
            let Some(object) = self.objects.get(slot) else {
                return self.broken("requests of an object without a context", out);
            };
            let (front, trims) = (object.queue.front(), !object.trims.is_empty());
            if front.is_none() && !trims {
                return;
            }
            match object.loaded {
                Loaded::Reading => return,
                Loaded::No => {
                    if !self.load_object(slot, out) {
                        return;
                    }
                }
                Loaded::Bad(errno) => self.refuse_waiting(slot, errno, out),
                Loaded::Yes(_) if object.has_trim() && self.admits(object, own_change()) => {
                    self.trim_clone(slot, out)
                }
                Loaded::Yes(_) if front.is_some_and(|front| self.admits(object, front.class)) => {
                    let request = self.objects.get_mut(slot).and_then(Object::dequeue);
                    if let Some(request) = request {
                        self.run(slot, request, ReadCache::default(), out);
                    }
                }
                Loaded::Yes(_) => return,
            }
        }
    }

    /// Whether a request of this class, or a change of the class [`own_change`], may begin now. Everything that begins on
    /// an object asks here.
    pub(crate) fn admits(&self, object: &Object, class: OpClass) -> bool {
        let sees_all = !class.writes && !object.writing && self.config.planted.is(Bug::ReadSeesUncommitted);
        sees_all || (object.admits(class) && !(class.writes && self.scrub_holds(&object.oid)))
    }

    /// Looks for the object's metadata in the store's memory, or reads it. Whether it is known now.
    fn load_object(&mut self, slot: ObjectSlot, out: &mut Out<'_>) -> bool {
        let Some(object) = self.ghobject(slot) else {
            self.broken("an object to load without a context", out);
            return false;
        };
        let attrs = AttrChoice::These(self.common_attrs.names().into());
        let request = ReadRequest::Object { collection: self.records.collection, object, attrs };
        if let Some(result) = self.backend.peek(&request, &self.records, out) {
            self.note_object(slot, result, out);
            return true;
        }
        self.set_loaded(slot, Loaded::Reading);
        if let Some(first) = self.objects.get(slot).and_then(|object| object.queue.front()) {
            out.reached(first, Stage::Reading);
        }
        self.read(request, ReadFor::Object(slot), out);
        false
    }

    fn set_loaded(&mut self, slot: ObjectSlot, loaded: Loaded) {
        if let Some(object) = self.objects.get_mut(slot) {
            object.loaded = loaded;
        }
    }

    /// The object's metadata can't be read: everything that waits for it gets the error. Whoever asks next makes the
    /// store try again.
    fn refuse_waiting(&mut self, slot: ObjectSlot, errno: Errno, out: &mut Out<'_>) {
        let Some(object) = self.objects.get_mut(slot) else {
            return self.broken("requests wait for the metadata of an object without a context", out);
        };
        object.loaded = Loaded::No;
        let (waiting, trims) = (std::mem::take(&mut object.queue), !object.trims.is_empty());
        self.retry_watches(slot);
        if trims {
            self.fail_trim("an object's metadata can't be read", out);
        }
        for request in waiting {
            if !request.class.writes {
                self.reply_error(&request, errno, out);
            } else if let Some(request) = self.answer_resend(request, out) {
                self.fail_write(slot, request, errno, out);
            }
        }
    }

    pub(crate) fn on_object_read(
        &mut self,
        slot: ObjectSlot,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Out<'_>,
    ) {
        self.note_object(slot, result, out);
        self.pump(slot, out);
    }

    fn note_object(&mut self, slot: ObjectSlot, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        let Some(oid) = self.objects.get(slot).map(|o| o.oid.clone()) else {
            return self.broken("metadata of an object without a context", out);
        };
        let state = match result {
            Ok(ReadOutcome::Object(None)) => Ok(ObjectState::absent(oid.clone())),
            Ok(ReadOutcome::Object(Some(head))) => {
                self.common_attrs.state_of(&head).map_err(|e| (e, Errno::EIO))
            }
            Ok(_) => {
                return self.broken("the store answered another question than an object's metadata", out);
            }
            Err(error) => Err((error.to_string(), error.errno())),
        };
        match state {
            Ok(state) => {
                self.said_bad.remove(&oid);
                self.set_loaded(slot, Loaded::Yes(state));
                self.note_watchers(slot);
            }
            Err((reason, errno)) => {
                self.say_bad(oid, &reason, out);
                self.set_loaded(slot, Loaded::Bad(errno));
            }
        }
    }

    /// Said once an object, and of so many: clients that ask again must not fill the log.
    fn say_bad(&mut self, oid: HObject, reason: &str, out: &mut Out<'_>) {
        if self.said_bad.len() < BAD_OBJECTS_SAID_MAX && self.said_bad.insert(oid.clone()) {
            out.push(PgEffect::Notice(Notice::BadObject { reason: format!("{oid}: {reason}") }));
        }
    }

    /// Runs a request whose turn it is.
    pub(crate) fn run(
        &mut self,
        slot: ObjectSlot,
        mut request: Request,
        mut cache: ReadCache,
        out: &mut Out<'_>,
    ) {
        let began = *request.began.get_or_insert(self.now);
        let Some(request) = self.unless_refused(request, out) else { return };
        let Some((object, ran)) = self.execute(slot, &request, began, &mut cache, out) else {
            return self.broken("a request runs on an object that is not loaded", out);
        };
        if let Some(error) = cache.take_failure() {
            self.say_bad(object.hobj.clone(), &error.to_string(), out);
        }
        match ran {
            Ran::NoSnap => self.reply_error(&request, Errno::ENOENT, out),
            Ran::BadClone(reason) => {
                self.say_bad(object.hobj, &reason, out);
                self.reply_error(&request, Errno::EIO, out);
            }
            Ran::Executed(ExecuteResult::Dropped) => {
                Self::dropped(request.session, request.op.tid, "the pool is full", out);
            }
            Ran::Executed(ExecuteResult::Pending) => self.park(slot, object, request, cache, out),
            Ran::Executed(ExecuteResult::Done(outcome)) => {
                self.note_unsupported(&outcome, out);
                self.note_notifies(&outcome);
                match request.class.writes {
                    true => self.finish_write(slot, &object, request, *outcome, out),
                    false => self.finish_read(&request, *outcome, out),
                }
            }
        }
    }

    /// The request, unless it gets its answer without a run: of a client that is shut out, sent before its client knew of a full
    /// pool, or a resend, which the log answers.
    fn unless_refused(&mut self, request: Request, out: &mut Out<'_>) -> Option<Request> {
        if self.is_blocklisted(&request.caller.addrs) {
            self.reply_error(&request, Errno::ESHUTDOWN, out);
            return None;
        }
        let unaware =
            request.class.write_ordered && self.sent_before_full(&request.op, request.caller.reqid.name.kind);
        if unaware && !self.config.planted.is(Bug::FullDropsSome) {
            Self::dropped(request.session, request.op.tid, SENT_BEFORE_FULL, out);
            return None;
        }
        match request.class.writes {
            true => self.answer_resend(request, out),
            false => Some(request),
        }
    }

    /// Has the interpreter run a request, and names the object (of a read at a snapshot, the clone) that it ran on. `None`: the
    /// object is not loaded.
    fn execute(
        &mut self,
        slot: ObjectSlot,
        request: &Request,
        began: UTime,
        cache: &mut ReadCache,
        out: &mut Out<'_>,
    ) -> Option<(GHObject, Ran)> {
        let mut object = self.ghobject(slot)?;
        let Some(Loaded::Yes(state)) = self.objects.get(slot).map(|o| &o.loaded) else { return None };
        let snaps = PoolSnaps::of(self.map.as_ref(), &self.records.info);
        let clone = if request.class.writes {
            None
        } else {
            match find(state, &request.op, snaps.removed) {
                FoundSnap::Head => None,
                FoundSnap::Clone(id) => Some(id),
                FoundSnap::Nothing => return Some((object, Ran::NoSnap)),
            }
        };
        object.hobj.snap = clone.unwrap_or(SnapId::HEAD);
        let connected = match state.info.watchers.is_empty() {
            true => Vec::new(),
            false => self.watches.connected(&state.info.oid, request.caller.reqid.name),
        };
        let watches = WatchContext {
            connected: &connected,
            next_notify_id: self.watches.next_notify_id(self.epoch()),
            notify_bytes: self.watches.notify_bytes(),
        };
        let pool = self.map.as_ref().map(|m| &m.pool);
        let osdmap = self.map.as_ref().map(|m| &m.osdmap);
        let forgets = request.op.retry_attempt > 0 && self.config.planted.is(Bug::ResendForgetsSnaps);
        let snapc = if forgets { Default::default() } else { snaps.context_of(request) };
        let ctx = OpContext {
            caller: &request.caller,
            limits: &self.config.ops,
            snapc: &snapc,
            removed_snaps: snaps.removed,
            flags: request.op.flags,
            pool_has_omap: pool.is_none_or(|p| p.has_omap),
            full: pool.and_then(|p| p.full),
            classes: &self.config.classes,
            now: began,
            mtime: request.op.mtime,
            seed: request.seed(),
            last_user_version: self.records.info.last_user_version,
            require_osd_release: osdmap.map_or(Release::LUMINOUS, |m| m.require_osd_release),
            require_min_compat_client: osdmap.map_or(Release::LUMINOUS, |m| m.require_min_compat_client),
            watches,
        };
        let omap_bytes_max = self.config.ops.omap_read_bytes_max();
        let mut view = StoreView {
            cache,
            backend: &mut *self.backend,
            records: &self.records,
            out,
            object,
            omap_bytes_max,
        };
        let ran = match clone.map(|_| view.clone_info()) {
            None => Ran::Executed(ops::execute(&mut view, &ctx, state, &request.op.ops)),
            Some(None) => Ran::Executed(ExecuteResult::Pending),
            Some(Some(Err(reason))) => Ran::BadClone(reason),
            Some(Some(Ok(info))) => {
                let clone = ObjectState { exists: true, info, snapset: state.snapset.clone() };
                Ran::Executed(ops::execute(&mut view, &ctx, &clone, &request.op.ops))
            }
        };
        Some((view.object, ran))
    }

    fn note_unsupported(&mut self, outcome: &OpOutcome, out: &mut Out<'_>) {
        if let Some(code) = outcome.unsupported {
            if self.said_unsupported.insert(code) {
                out.push(PgEffect::Notice(Notice::UnsupportedOp { code }));
            }
        }
    }

    fn park(
        &mut self,
        slot: ObjectSlot,
        oid: GHObject,
        request: Request,
        mut cache: ReadCache,
        out: &mut Out<'_>,
    ) {
        let Some(object) = self.objects.get_mut(slot) else {
            return self.broken("a request waits for reads of an object without a context", out);
        };
        if request.class.writes {
            object.writing = true;
        } else {
            object.readers += 1;
        }
        let (park, needs, mut copies) = (self.park_id(), cache.take_new(), false);
        let missing = needs.len();
        if missing == 0 {
            return self.broken("a request waits for no read: nothing would ever run it again", out);
        }
        out.reached(&request, Stage::Reading);
        let bytes_max = self.config.ops.omap_read_bytes_max();
        self.parked.insert(park, Parked { slot, request, cache, missing });
        for (index, need) in needs {
            if let (_, Need::Copy(source)) = need {
                copies = true;
                self.start_copy(park, index, *source, out);
            } else if let Some(request) = read_request(need, self.records.collection, &oid, bytes_max) {
                self.read(request, ReadFor::Step { park, index }, out);
            }
        }
        if let Some(object) = self.objects.get_mut(slot).filter(|_| copies) {
            object.copy = CopyWait::Source;
        }
    }

    pub(crate) fn on_step_read(
        &mut self,
        park: u64,
        index: usize,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Out<'_>,
    ) {
        // A request that was put back into its object's queue, to run again from the start, waits for no read.
        let Some(parked) = self.parked.get_mut(&park) else { return };
        parked.cache.answer(index, result);
        self.on_need_answered(park, out);
    }

    /// Runs a parked request again, that lacks nothing more.
    pub(crate) fn resume(&mut self, park: u64, out: &mut Out<'_>) {
        let Some(Parked { slot, request, cache, .. }) = self.parked.remove(&park) else {
            return self.broken("a request that waited for its last read is gone", out);
        };
        match self.objects.get_mut(slot) {
            Some(object) if request.class.writes && object.writing => object.writing = false,
            Some(object) if !request.class.writes && object.readers > 0 => object.readers -= 1,
            _ => return self.broken("an object did not count a request that waited for reads", out),
        }
        self.run(slot, request, cache, out);
    }

    pub(crate) fn finish_read(&mut self, request: &Request, outcome: OpOutcome, out: &mut Out<'_>) {
        let reply = self.reply_of_read(request, outcome, out);
        out.push(PgEffect::Reply { session: request.session, reply });
    }

    /// Does what a read leaves to do, and makes its answer.
    pub(crate) fn reply_of_read(
        &mut self,
        request: &Request,
        mut outcome: OpOutcome,
        out: &mut Out<'_>,
    ) -> Box<OsdOpReply> {
        let user_version = outcome.state.info.user_version;
        if let Some(effects) = Effects::of(request, &mut outcome) {
            self.perform(&outcome.state.info.oid, user_version, *effects, out);
        }
        self.reads_to_count += outcome.delta;
        let mut reply = self.reply(request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        match outcome.result {
            r if r >= 0 => reply.set_versions(Default::default(), user_version),
            r if r == Errno::ENOENT.code() => self.set_enoent_versions(&mut reply),
            _ => {}
        }
        reply
    }

    /// A reply with each operation's result; operations and results are as many.
    pub(crate) fn reply(&self, request: &Request, result: i32, returns: Vec<OpReturn>) -> Box<OsdOpReply> {
        let results = request.op.ops.iter().zip(returns);
        let results = results.map(|(op, ret)| OpResult::of(op, ret.rval, ret.data)).collect();
        Box::new(OsdOpReply::to(&request.op, result, self.epoch(), results))
    }

    pub(crate) fn set_enoent_versions(&self, reply: &mut OsdOpReply) {
        // A floor for what the object's version will be when it is made.
        reply.set_enoent_versions(self.records.info.last_update, self.records.info.last_user_version);
    }

    /// Answers without having begun: such replies carry no version, also where the object is not there.
    pub(crate) fn reply_error(&self, request: &Request, errno: Errno, out: &mut Out<'_>) {
        let reply = Box::new(OsdOpReply::error(&request.op, errno.code(), self.epoch()));
        out.push(PgEffect::Reply { session: request.session, reply });
    }
}

/// What a read is of.
fn find(state: &ObjectState, op: &OsdOp, removed: Option<&IntervalSet>) -> FoundSnap {
    let found = match op.snapid {
        SnapId::DIR if state.exists => return FoundSnap::Head,
        SnapId::DIR => return FoundSnap::Nothing,
        SnapId::HEAD => FoundSnap::Head,
        id if op.has_flag(OsdFlags::MAP_SNAP_CLONE) => state.snapset.find_clone(id),
        snap => state.snapset.find(snap, removed),
    };
    match found {
        FoundSnap::Head if !state.is_visible() => FoundSnap::Nothing,
        found => found,
    }
}
