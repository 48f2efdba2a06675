//! A write's end: its log entry, its transaction, its reply; and resends of it.

use buffer::Rope;
use encoding::Encode;
use messages::OsdOpReply;
use ops::{CleanRegions, Mutation, ObjectState, OpOutcome, OpReturn, StatsDelta};
use store::{AllocHint, Attrs, Transaction, TxOp};
use types::{EVersion, Errno, GHObject, SnapContext, UTime};

use crate::objects::{Loaded, ObjectSlot};
use crate::request::Request;
use crate::run::{INFO_ATTR, SNAPSET_ATTR};
use crate::{EntryKind, LogEntry, Notice, Pg, PgEffect, RollbackRecord};

/// The notice's code for a write that would have to make a clone: no operation has it.
const CLONE_WANTED: u16 = 0;

impl Pg {
    fn next_version(&self) -> EVersion {
        EVersion::new(self.epoch(), self.info.last_update.version + 1)
    }

    /// Answers a request that the log knows, now or when its change is durable. Whether it was one.
    pub(crate) fn answer_resend(&mut self, request: &Request, out: &mut Vec<PgEffect>) -> bool {
        let Some(found) = self.log.find(&request.reqid) else { return false };
        let same = found.op_returns.len() == request.op.ops.len();
        let returns = match same {
            true => found.op_returns.to_vec(),
            false => vec![OpReturn::default(); request.op.ops.len()],
        };
        let mut reply = self.reply(request, found.return_code, returns);
        reply.set_versions(found.version, found.user_version);
        let version = found.version;
        match version <= self.durable {
            true => out.push(PgEffect::Reply { session: request.session, reply }),
            false => self.delayed.push_back((version, request.session, reply)),
        }
        true
    }

    pub(crate) fn finish_write(
        &mut self,
        slot: ObjectSlot,
        request: Request,
        snapc: &SnapContext,
        mut outcome: OpOutcome,
        out: &mut Vec<PgEffect>,
    ) {
        let Some(Loaded::Yes(before)) = self.objects.get(slot).map(|o| &o.loaded) else { return };
        if !outcome.mutations.is_empty() && needs_clone(before, snapc) {
            let errno = Errno::EOPNOTSUPP;
            outcome.mutations.clear();
            outcome.result = errno.code();
            outcome.unsupported = Some(CLONE_WANTED);
            if self.said_unsupported.insert(CLONE_WANTED) {
                out.push(PgEffect::Notice(Notice::UnsupportedOp { code: CLONE_WANTED }));
            }
        }
        match outcome.mutations.is_empty() {
            true => self.log_only(slot, &request, outcome, out),
            false => self.commit(slot, request, snapc, outcome, out),
        }
    }

    /// A write that failed, or changes nothing: only its result is remembered.
    fn log_only(&mut self, slot: ObjectSlot, request: &Request, outcome: OpOutcome, out: &mut Vec<PgEffect>) {
        let Some(Loaded::Yes(before)) = self.objects.get(slot).map(|o| &o.loaded) else { return };
        let (oid, user_version) = (before.info.oid.clone(), before.info.user_version);
        let version = self.next_version();
        let mut entry = LogEntry::new(EntryKind::Error, oid, version, request.reqid);
        entry.return_code = outcome.result;
        if request.returns_vector() || outcome.result < 0 {
            let limit = self.config.ops.write_op_reply_len_max as usize;
            entry.op_returns = outcome.returns.iter().map(|r| bounded(r, limit)).collect();
        }
        let mut reply = self.reply(request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        reply.set_versions(version, user_version);
        if outcome.result == Errno::ENOENT.code() {
            self.set_enoent_versions(&mut reply);
        }
        self.add_stats(&StatsDelta { num_rd: outcome.delta.num_rd, ..StatsDelta::default() });
        self.append_and_submit(slot, entry, Transaction::new(), (request.session, reply), out);
    }

    fn commit(
        &mut self,
        slot: ObjectSlot,
        request: Request,
        snapc: &SnapContext,
        outcome: OpOutcome,
        out: &mut Vec<PgEffect>,
    ) {
        let (version, now, last_user) = (self.next_version(), self.now, self.info.last_user_version);
        let Some(object) = self.ghobject(slot) else { return };
        let Some(Loaded::Yes(state)) = self.objects.get_mut(slot).map(|o| &mut o.loaded) else { return };
        let prior_version = state.info.version;
        *state = outcome.state;
        let info = &mut state.info;
        if outcome.user_modify {
            info.user_version = (last_user.max(info.user_version) + 1).max(version.version);
        }
        let user_version = info.user_version;
        let kind = if state.exists { EntryKind::Modify } else { EntryKind::Delete };
        let mut entry = LogEntry::new(kind, info.oid.clone(), version, request.reqid);
        entry.prior_version = prior_version;
        entry.user_version = user_version;
        entry.mtime = request.op.mtime;
        entry.clean_regions = outcome.clean_regions;
        if request.returns_vector() {
            entry.return_code = outcome.result;
            entry.op_returns = outcome.returns.clone();
        }
        let mut txn = Transaction::new();
        txn.ops.reserve(outcome.mutations.len() + 4);
        for mutation in outcome.mutations {
            push_mutation(&mut txn, self.collection, &object, mutation);
        }
        if state.exists {
            stamp(state, &request, version, prior_version, snapc, now);
            let attrs = [
                (INFO_ATTR.into(), state.info.to_bytes(u64::MAX).into()),
                (SNAPSET_ATTR.into(), state.snapset.to_bytes(0).into()),
            ];
            txn.set_attrs(self.collection, object, Attrs::from(attrs));
        } else {
            *state = ObjectState::absent(state.info.oid.clone());
        }
        self.add_stats(&outcome.delta);
        let mut reply = self.reply(&request, outcome.result, outcome.returns);
        outcome.extents.apply(&mut reply);
        reply.set_versions(version, user_version);
        self.append_and_submit(slot, entry, txn, (request.session, reply), out);
    }

    /// Adds the log entry and the info to `txn` and hands it to the backend.
    fn append_and_submit(
        &mut self,
        slot: ObjectSlot,
        entry: LogEntry,
        mut txn: Transaction,
        reply: (auth::SessionId, Box<OsdOpReply>),
        out: &mut Vec<PgEffect>,
    ) {
        let version = entry.version;
        self.info.last_update = version;
        self.info.last_complete = version;
        self.info.last_user_version = self.info.last_user_version.max(entry.user_version);
        self.info.stats.version = version;
        self.write_entry(entry, &mut txn);
        self.write_info(&mut txn);
        if let Some(object) = self.objects.get_mut(slot) {
            object.uncommitted += 1;
        }
        self.submit(version, txn, Some(slot), Some(reply), out);
    }

    pub(crate) fn add_stats(&mut self, delta: &StatsDelta) {
        let sum = &mut self.info.stats.stats.sum;
        sum.num_bytes += delta.num_bytes;
        sum.num_objects += delta.num_objects;
        sum.num_rd += delta.num_rd;
        sum.num_rd_kb += delta.num_rd_kb;
        sum.num_wr += delta.num_wr;
        sum.num_wr_kb += delta.num_wr_kb;
        sum.num_objects_dirty += delta.num_objects_dirty;
        if (delta.num_whiteouts, delta.num_objects_omap) != (0, 0) {
            // The small info does not hold these.
            sum.num_whiteouts += delta.num_whiteouts;
            sum.num_objects_omap += delta.num_objects_omap;
            self.info_dirty = true;
        }
    }

    /// Sends what waited for changes that now are durable.
    pub(crate) fn release_delayed(&mut self, out: &mut Vec<PgEffect>) {
        while self.delayed.front().is_some_and(|(version, ..)| *version <= self.durable) {
            if let Some((_, session, reply)) = self.delayed.pop_front() {
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
            reverting_to: EVersion::default(),
            user_version: 0,
            reqid,
            mtime: UTime::default(),
            snaps: Vec::new(),
            rollback: RollbackRecord::none(),
            extra_reqids: Vec::new(),
            extra_return_codes: Default::default(),
            clean_regions: CleanRegions::default(),
            return_code: 0,
            op_returns: Vec::new(),
        }
    }
}

/// Whether a snapshot that the object has not seen must keep its present state: a clone, which is not made yet.
fn needs_clone(before: &ObjectState, snapc: &SnapContext) -> bool {
    before.is_visible() && snapc.snaps.first().is_some_and(|newest| newest.0 > before.snapset.seq)
}

/// What every change of an object sets in its metadata.
fn stamp(
    state: &mut ObjectState,
    request: &Request,
    version: EVersion,
    prior: EVersion,
    snapc: &SnapContext,
    now: UTime,
) {
    let info = &mut state.info;
    info.version = version;
    info.prior_version = prior;
    info.last_reqid = request.reqid;
    if request.op.mtime != UTime::default() {
        info.mtime = request.op.mtime;
        info.local_mtime = now;
    }
    state.snapset.seq = state.snapset.seq.max(snapc.seq);
}

/// A result small enough for the log.
fn bounded(ret: &OpReturn, limit: usize) -> OpReturn {
    let data = if ret.data.len() <= limit { ret.data.clone() } else { Rope::new() };
    OpReturn { rval: ret.rval, data }
}

fn push_mutation(txn: &mut Transaction, collection: store::CollectionId, oid: &GHObject, mutation: Mutation) {
    let object = oid.clone();
    txn.push(match mutation {
        Mutation::Create | Mutation::Touch => TxOp::Touch { collection, object },
        Mutation::Write { offset, data, .. } => TxOp::Write { collection, object, offset, data },
        Mutation::Zero { offset, len } => TxOp::Zero { collection, object, offset, len },
        Mutation::Truncate(size) => TxOp::Truncate { collection, object, size },
        Mutation::Remove => TxOp::Remove { collection, object },
        Mutation::SetAttr(name, value) => {
            TxOp::SetAttrs { collection, object, attrs: [(name, value.to_piece())].into() }
        }
        Mutation::RemoveAttr(name) => TxOp::RemoveAttr { collection, object, name },
        Mutation::OmapSet(pairs) => {
            let entries = pairs.into_iter().map(|(key, value)| (key, value.to_piece())).collect();
            TxOp::OmapSet { collection, object, entries }
        }
        Mutation::OmapRemove(keys) => {
            TxOp::OmapRemove { collection, object, keys: keys.into_iter().collect() }
        }
        Mutation::OmapRemoveRange(first, last) => TxOp::OmapRemoveRange { collection, object, first, last },
        Mutation::OmapHeader(header) => TxOp::OmapSetHeader { collection, object, header: header.to_piece() },
        Mutation::OmapClear => TxOp::OmapClear { collection, object },
        Mutation::AllocHint { object_size, write_size, flags } => {
            TxOp::SetAllocHint { collection, object, hint: AllocHint { object_size, write_size, flags } }
        }
    });
}
