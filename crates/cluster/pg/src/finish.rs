//! A write's end: its log entry, its transaction, its reply; and resends of it.

use buffer::Rope;
use encoding::Encode;
use messages::OsdOpReply;
use ops::{
    CleanRegions, Mutation, NewClone, ObjectInfo, ObjectState, OpOutcome, OpReturn, Record, StatsDelta,
};
use store::{Advice, AllocHint, Attrs, ObjectChange};
use telemetry::Stage;
use types::{EVersion, Epoch, Errno, GHObject, HObject, ReqId, SnapId, UTime};

use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};
use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::pg::{ClientChange, Delayed, DelayedOf, InFlight};
use crate::request::Request;
use crate::watch::Effects;
use crate::{Bug, Change, Context, EntryKind, Extras, LogEntry, ObjectSteps, Pg, PgEffect};

impl Pg {
    /// The version of the next change, above those of all before. The last may be of a later map: an OSD begins again with a map that all
    /// its PGs had reached, and goes on from there.
    pub(crate) fn next_version(&self) -> EVersion {
        let last = self.records.info.last_update;
        let least = if self.config.planted.is(Bug::VersionsFollowTheMap) { Epoch(0) } else { last.epoch };
        EVersion::new(self.epoch().max(least), last.version + 1)
    }

    /// Answers a request that the log knows, now or when its change is durable. Gives back one that it doesn't know.
    pub(crate) fn answer_resend(&mut self, request: Request, out: &mut Out<'_>) -> Option<Request> {
        let Some(found) = self.records.log.find(&request.caller.reqid) else { return Some(request) };
        if self.config.planted.is(Bug::ResendRunsTwice) && found.version <= self.records.durable {
            return Some(request);
        }
        let same = found.op_returns.len() == request.op.ops.len();
        let returns =
            if same { found.op_returns.to_vec() } else { vec![OpReturn::default(); request.op.ops.len()] };
        let (version, session) = (found.version, request.session);
        let mut reply = self.reply(&request, found.return_code, returns);
        reply.set_versions(version, found.user_version);
        if version <= self.records.durable || self.config.planted.is(Bug::ResendAnsweredEarly) {
            out.push(PgEffect::Reply { session, reply });
        } else {
            let of = DelayedOf::Write(Box::new(request));
            self.delayed.push_back(Delayed { version, session, reply, of });
        }
        None
    }

    pub(crate) fn finish_write(
        &mut self,
        slot: ObjectSlot,
        object: &GHObject,
        request: Request,
        outcome: OpOutcome,
        out: &mut Out<'_>,
    ) {
        match (outcome.mutations.is_empty(), outcome.record) {
            (true, Record::Nothing) => self.finish_unlogged(slot, request, outcome, out),
            (true, _) => self.log_only(slot, request, outcome, out),
            (false, _) => self.commit(slot, object, request, outcome, out),
        }
    }

    /// A write that changes nothing and that the log does not keep. What it has seen of its object is durable when it is answered.
    fn finish_unlogged(&mut self, slot: ObjectSlot, request: Request, outcome: OpOutcome, out: &mut Out<'_>) {
        let reply = self.reply_of_read(&request, outcome, out);
        let (version, session) = (self.records.info.last_update, request.session);
        if self.objects.get(slot).is_some_and(|object| object.uncommitted > 0) {
            let of = DelayedOf::Write(Box::new(request));
            self.delayed.push_back(Delayed { version, session, reply, of });
        } else {
            out.push(PgEffect::Reply { session, reply });
        }
    }

    /// A write that failed, or changes nothing: only its result is remembered.
    fn log_only(&mut self, slot: ObjectSlot, request: Request, mut outcome: OpOutcome, out: &mut Out<'_>) {
        let Some(Loaded::Yes(before)) = self.objects.get(slot).map(|o| &o.loaded) else {
            return self.broken("a write without effect ends on an object that is not loaded", out);
        };
        let oid = before.info.oid.clone();
        let user_version = outcome.copied_version.unwrap_or(before.info.user_version);
        let effects = Effects::of(&request, &mut outcome);
        let version = self.next_version();
        let mut entry = Box::new(LogEntry::new(EntryKind::Error, oid, version, request.caller.reqid));
        entry.return_code = outcome.result;
        if request.returns_vector() || outcome.result < 0 {
            let limit = self.config.ops.write_op_reply_len_max as usize;
            entry.extras.op_returns = outcome.returns.iter().map(|r| bounded(r, limit)).collect();
        }
        let mut reply = self.reply(&request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        // A resend is answered with the entry's versions all the same.
        if outcome.record == Record::Versioned {
            reply.set_versions(version, user_version);
            if outcome.result == Errno::ENOENT.code() {
                self.set_enoent_versions(&mut reply);
            }
        }
        let stats = StatsDelta { num_rd: outcome.delta.num_rd, ..StatsDelta::default() };
        let client =
            ClientChange { slot, reply: Some(reply), request: Some(request), effects, trimmed: None, stats };
        self.submit(Vec::new(), entry, ObjectSteps::of(self.records.collection), client, out);
    }

    /// A write can't be made: its error is remembered, and answered once that is durable. Otherwise a resend, after an
    /// answer that got lost, would be run after later writes of its client.
    pub(crate) fn fail_write(&mut self, slot: ObjectSlot, request: Request, errno: Errno, out: &mut Out<'_>) {
        let Some(oid) = self.objects.get(slot).map(|object| object.oid.clone()) else {
            return self.broken("a write fails on an object without a context", out);
        };
        let mut entry =
            Box::new(LogEntry::new(EntryKind::Error, oid, self.next_version(), request.caller.reqid));
        entry.return_code = errno.code();
        let reply = Some(Box::new(OsdOpReply::error(&request.op, errno.code(), self.epoch())));
        let (request, stats) = (Some(request), StatsDelta::default());
        let client = ClientChange { slot, reply, request, effects: None, trimmed: None, stats };
        self.submit(Vec::new(), entry, ObjectSteps::of(self.records.collection), client, out);
    }

    fn commit(
        &mut self,
        slot: ObjectSlot,
        object: &GHObject,
        request: Request,
        mut outcome: OpOutcome,
        out: &mut Out<'_>,
    ) {
        let effects = Effects::of(&request, &mut outcome);
        let (mut version, now) = (self.next_version(), self.now);
        let last_user = self.records.info.last_user_version;
        let mut steps = ObjectSteps::of(self.records.collection);
        let mut earlier = Vec::new();
        if let Some(clone) = outcome.clone {
            earlier.push(make_clone(*clone, object, version, &request, &mut steps));
            version.version += 1;
        }
        let Some(Loaded::Yes(state)) = self.objects.get_mut(slot).map(|o| &mut o.loaded) else {
            return self.broken("a change is made of an object that is not loaded", out);
        };
        let prior_version = state.info.version;
        *state = outcome.state;
        let info = &mut state.info;
        if outcome.user_modify {
            info.user_version = (last_user.max(info.user_version) + 1).max(version.version);
        }
        let user_version = info.user_version;
        let kind = if state.exists { EntryKind::Modify } else { EntryKind::Delete };
        let mut entry = Box::new(LogEntry::new(kind, info.oid.clone(), version, request.caller.reqid));
        entry.prior_version = prior_version;
        entry.user_version = user_version;
        entry.mtime = if outcome.copied_version.is_some() { UTime::default() } else { request.op.mtime };
        entry.clean_regions = outcome.clean_regions;
        if request.returns_vector() {
            entry.return_code = outcome.result;
            entry.extras.op_returns = outcome.returns.clone();
        }
        let dontneed = self.map.as_ref().is_some_and(|m| m.pool.writes_dontneed);
        let advice = if dontneed { Advice::DONTNEED } else { Advice::default() };
        for mutation in outcome.mutations {
            add_step(&mut steps, object, mutation, advice);
        }
        if state.exists {
            stamp(state, &request, version, prior_version);
            if entry.mtime != UTime::default() {
                (state.info.mtime, state.info.local_mtime) = (entry.mtime, now);
            }
            steps.set_attrs(object, self.common_attrs.of_head(state));
        } else {
            *state = ObjectState::absent(state.info.oid.clone());
        }
        let mut reply = self.reply(&request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        reply.set_versions(version, user_version);
        let stats = outcome.delta;
        let mut client =
            ClientChange { slot, reply: Some(reply), request: Some(request), effects, trimmed: None, stats };
        if self.config.planted.is(Bug::ReplyBeforeDurable) {
            let (session, reply) = (client.request.take().map(|r| r.session), client.reply.clone());
            if let (Some(session), Some(reply)) = (session, reply) {
                out.push(PgEffect::Reply { session, reply });
            }
        }
        self.submit(earlier, entry, steps, client, out);
    }

    /// Hands a change to the backend.
    #[inline]
    pub(crate) fn submit(
        &mut self,
        earlier: Vec<LogEntry>,
        entry: Box<LogEntry>,
        steps: ObjectSteps,
        mut client: ClientChange,
        out: &mut Out<'_>,
    ) {
        match self.objects.get_mut(client.slot) {
            Some(object) => object.uncommitted += 1,
            None => return self.broken("a change is made of an object without a context", out),
        }
        if self.scrub.is_some() {
            self.note_change_in_scrub(client.slot, &client.stats);
        }
        let (token, version, before) = (self.token(), entry.version, self.records.before());
        let reads = std::mem::take(&mut self.reads_to_count);
        let mut stats = client.stats;
        stats += reads;
        let durable = self.records.durable;
        let trim_to = self.records.log.trim_target(&self.config.log, durable, 1);
        let change = Change { earlier, newest: entry, steps, stats, trim_to, durable };
        if let Some(request) = &mut client.request {
            request.set_aside.give_up();
            out.reached(request, Stage::Submitted);
        }
        self.in_flight.push_back(InFlight { token, version, before, reads, client: Box::new(client) });
        let mut ctx = Context { records: &mut self.records, limits: &self.config.log, out };
        self.backend.submit(token, change, &mut ctx);
    }

    /// Sends what waited for changes that now are durable.
    pub(crate) fn release_delayed(&mut self, out: &mut Out<'_>) {
        while self.delayed.front().is_some_and(|d| d.version <= self.records.durable) {
            if let Some(Delayed { session, reply, .. }) = self.delayed.pop_front() {
                out.push(PgEffect::Reply { session, reply });
            }
        }
    }
}

impl LogEntry {
    pub(crate) fn new(kind: EntryKind, oid: types::HObject, version: EVersion, reqid: types::ReqId) -> Self {
        Self {
            kind,
            oid,
            version,
            prior_version: EVersion::default(),
            user_version: 0,
            reqid,
            mtime: UTime::default(),
            clean_regions: CleanRegions::default(),
            return_code: 0,
            extras: Extras::default(),
        }
    }
}

/// A clone of a head.
pub(crate) fn clone_of(head: &GHObject, id: SnapId) -> GHObject {
    GHObject { hobj: HObject { snap: id, ..head.hobj.clone() }, ..head.clone() }
}

/// The steps that make a clone of a head, and the log's entry of it.
fn make_clone(
    clone: NewClone,
    head: &GHObject,
    version: EVersion,
    request: &Request,
    steps: &mut ObjectSteps,
) -> LogEntry {
    let NewClone { info, snaps } = clone;
    let object = clone_of(head, info.oid.snap);
    let mut entry = LogEntry::new(EntryKind::Clone, info.oid.clone(), version, ReqId::default());
    entry.prior_version = info.prior_version;
    entry.user_version = info.user_version;
    entry.mtime = request.op.mtime;
    entry.extras.snaps = snaps.to_bytes(0);
    snaps.iter().for_each(|snap| steps.index(*snap, &object.hobj));
    let info = ObjectInfo { version, ..info };
    steps.clone_object(head, &object);
    steps.set_attrs(&object, Attrs::from([(INFO_ATTR.into(), info.to_bytes(u64::MAX).into())]));
    steps.change(&object, ObjectChange::RemoveAttr(SNAPSET_ATTR.into()));
    entry
}

/// What every change of an object sets in its metadata.
fn stamp(state: &mut ObjectState, request: &Request, version: EVersion, prior: EVersion) {
    let info = &mut state.info;
    info.version = version;
    info.prior_version = prior;
    info.last_reqid = request.caller.reqid;
}

/// A result small enough for the log.
fn bounded(ret: &OpReturn, limit: usize) -> OpReturn {
    let data = if ret.data.len() <= limit { ret.data.clone() } else { Rope::new() };
    OpReturn { rval: ret.rval, data }
}

/// Adds a mutation as the store has it, with the pool's advice beside the client's.
#[inline]
fn add_step(steps: &mut ObjectSteps, object: &GHObject, mutation: Mutation, of_pool: Advice) {
    let change = match mutation {
        Mutation::Create | Mutation::Touch => ObjectChange::Touch,
        Mutation::Write { offset, data, flags } => {
            let advice = Advice(Advice::of_op_flags(flags).0 | of_pool.0);
            ObjectChange::Write { offset, data, advice, checksums: None }
        }
        Mutation::Zero { offset, len } => ObjectChange::Zero { offset, len },
        Mutation::Truncate(size) => ObjectChange::Truncate(size),
        Mutation::Remove => ObjectChange::Remove,
        Mutation::BecomeClone(id) => return steps.clone_object(&clone_of(object, id), object),
        Mutation::SetAttr(name, value) => ObjectChange::SetAttrs([(name, value.to_piece())].into()),
        Mutation::RemoveAttr(name) => ObjectChange::RemoveAttr(name),
        Mutation::OmapSet(pairs) => {
            ObjectChange::OmapSet(pairs.into_iter().map(|(key, value)| (key, value.to_piece())).collect())
        }
        Mutation::OmapRemove(keys) => ObjectChange::OmapRemove(keys),
        Mutation::OmapRemoveRange(first, last) => ObjectChange::OmapRemoveRange { first, last },
        Mutation::OmapHeader(header) => ObjectChange::OmapSetHeader(header.to_piece()),
        Mutation::OmapClear => ObjectChange::OmapClear,
        Mutation::AllocHint { object_size, write_size, flags } => {
            ObjectChange::SetAllocHint(AllocHint { object_size, write_size, flags })
        }
    };
    steps.change(object, change);
}
