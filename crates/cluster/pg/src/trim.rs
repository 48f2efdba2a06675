//! Trimming: what snapshots kept whose removal has begun is removed, a few objects at a time, each by a change of its own.
//!
//! The snapshots come from the map's queue, the objects from the index ([`crate::snap_index`]). When a snapshot has none
//! left it is purged: the PG says so in its reports, until the map's queue no longer has it, and for longer in its info. A
//! request may have been under way since before the removal, and still name the snapshot: a clone for it would stay.
//! (Ceph forgets with the map's queue.)
//!
//! Clones of snapshots that were purged may come back all the same: a PG is imported that was exported before. So the OSD
//! tells its PGs now and then all that was ever purged ([`PgEvent::Purged`](crate::PgEvent::Purged)), and what the index
//! has of these snapshots is trimmed as if their removal had just begun. (Ceph's scrub of purged snapshots does the same.)

use core::time::Duration;
use std::collections::BTreeSet;

use encoding::{Decode, Encode};
use maps::MapFlags;
use ops::{ObjectFlags, ObjectInfo, ObjectState, StatsDelta};
use store::{Attrs, ObjectChange, Peek, ReadOutcome, ReadRequest, StoreError};
use types::{EVersion, GHObject, HObject, IntervalSet, ReqId, SnapId, UTime};

use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};
use crate::finish::clone_of;
use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::pg::{ClientChange, ReadFor};
use crate::phase::Phase;
use crate::{Bug, EntryKind, LogEntry, ObjectSteps, Pg, snap_index};

/// Bytes of the index that are read at once.
const INDEX_BYTES_MAX: usize = 1 << 20;
/// How often one event looks into the index where no object is to be trimmed.
const LOOKS_MAX: usize = 64;
/// Ranges of purged snapshots that a PG remembers, beside those that the map's queue still has: the newest. Who names one
/// that is older has been under way for as many removals.
const PURGED_RANGES_MAX: usize = 64;
/// When what the store refused is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// What the PG is at with its removed snapshots.
#[derive(Debug, Default)]
pub(crate) struct Trimmer {
    /// Snapshots whose removal has begun, without those that are purged; and `again`.
    pub queue: IntervalSet,
    /// Snapshots that every PG has purged, of which this one is to look for clones once more.
    again: IntervalSet,
    step: Step,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    /// The index is being read for the first object of a snapshot. What is read says nothing of snapshots that are not in
    /// the `queue` of then: writes may still have been making clones for them.
    Looking { snap: SnapId, queue: IntervalSet },
    /// Clones are being trimmed: those whose changes are not durable.
    Trimming { snap: SnapId, busy: BTreeSet<(ObjectSlot, SnapId)> },
    /// What was purged is being made durable.
    Purging,
    /// Until then nothing is trimmed (osd_snap_trim_sleep).
    Pausing(UTime),
    /// An object could not be trimmed. It is tried again in the next interval.
    Failed,
}

/// A clone that is to be trimmed when its object's turn comes.
#[derive(Debug)]
pub(crate) struct Trim {
    pub clone: SnapId,
    /// The clone's metadata; `None` while they are read.
    pub info: Option<ObjectInfo>,
}

impl Trimmer {
    /// When the PG is to go on trimming.
    pub fn deadline(&self) -> Option<UTime> {
        match self.step {
            Step::Pausing(until) => Some(until),
            Step::Idle | Step::Looking { .. } | Step::Trimming { .. } | Step::Purging | Step::Failed => None,
        }
    }

    /// Whether it is at work.
    pub fn is_trimming(&self) -> bool {
        match self.step {
            Step::Looking { .. } | Step::Trimming { .. } | Step::Purging | Step::Pausing(_) => true,
            Step::Idle | Step::Failed => false,
        }
    }

    pub fn has_failed(&self) -> bool {
        self.step == Step::Failed
    }

    /// An interval has ended: what waits for its turn is forgotten.
    pub fn reset(&mut self) {
        self.step = Step::Idle;
    }
}

impl Pg {
    /// The snapshots that are being removed from the pool, by the map that is in force.
    fn removed_snaps(&self) -> IntervalSet {
        let removed = self.map.as_ref().and_then(|m| m.osdmap.removed_snaps_queue.get(&self.id.pg.pool));
        removed.cloned().unwrap_or_default()
    }

    /// Takes the queue of the map that is in force. A snapshot that has left it was purged everywhere.
    pub(crate) fn update_snap_queue(&mut self) {
        let mut queue = self.removed_snaps();
        queue.subtract(&self.records.info.purged_snaps);
        queue.union(&self.trim.again);
        self.trim.queue = queue;
    }

    /// These snapshots were purged by every PG: what is here of them all the same is trimmed. A PG that another OSD leads leaves
    /// that to it.
    pub(crate) fn on_purged(&mut self, purged: &IntervalSet, out: &mut Out<'_>) {
        match self.phase {
            Phase::Loading | Phase::Splitting | Phase::Peering(_) | Phase::Peered | Phase::Active(_) => {}
            Phase::Nonprimary | Phase::Removing | Phase::Failed => return,
        }
        self.trim.again.union(purged);
        self.trim.queue.union(purged);
        self.trim_on(out);
    }

    /// How many snapshots are to be trimmed: not those that were before.
    pub(crate) fn trims_to_do(&self) -> u64 {
        let mut queue = self.trim.queue.clone();
        queue.subtract(&self.trim.again);
        queue.size()
    }

    /// What the PG has purged of the map's queue.
    pub(crate) fn purged_of_queue(&self) -> IntervalSet {
        let mut purged = self.removed_snaps();
        purged.intersect(&self.records.info.purged_snaps);
        purged
    }

    /// Notes snapshots as purged, and forgets the oldest that no one can name any more.
    fn note_purged(&mut self, new: &IntervalSet) {
        let removed = self.removed_snaps();
        let purged = &mut self.records.info.purged_snaps;
        purged.union(new);
        while let [(start, len), ..] = *purged.ranges()
            && purged.ranges().len() > PURGED_RANGES_MAX
        {
            let mut of_queue = IntervalSet::range(start, len);
            of_queue.intersect(&removed);
            if !of_queue.is_empty() {
                break;
            }
            purged.remove(start, len);
        }
        self.records.dirty = true;
    }

    /// Goes on trimming if there is something to trim and nothing of it is under way.
    pub(crate) fn trim_on(&mut self, out: &mut Out<'_>) {
        self.look_for_trims(0, out);
    }

    /// `looks` into the index have been taken since something was recorded.
    fn look_for_trims(&mut self, mut looks: usize, out: &mut Out<'_>) {
        let flags = self.map.as_ref().map_or(0, |m| m.osdmap.flags);
        let may = self.phase.may_trim() && flags & MapFlags::NOSNAPTRIM == 0 && self.scrub.is_none();
        while may && self.trim.step == Step::Idle {
            let Some(&(first, _)) = self.trim.queue.ranges().first() else { break };
            let snap = SnapId(first);
            let request = self.index_request(snap);
            self.trim.step = Step::Looking { snap, queue: self.trim.queue.clone() };
            // The index is this copy's own, as its records are.
            match out.peek_at(&request) {
                Some(result) => self.note_index(result, out),
                None => self.read_own(request, ReadFor::SnapIndex, out),
            }
            looks += 1;
            if looks == LOOKS_MAX {
                break;
            }
        }
        // One record of all that was purged on the way.
        if looks > 0 && self.trim.step == Step::Idle {
            self.trim.step = Step::Purging;
            self.submit_info(out);
        }
    }

    /// The next keys of the index from a snapshot on: a batch of one snapshot's, as a rule.
    fn index_request(&self, from: SnapId) -> ReadRequest {
        ReadRequest::OmapRange {
            collection: self.records.collection,
            object: self.records.meta.clone(),
            after: Some(snap_index::first_key(from)),
            before: None,
            prefix: snap_index::PREFIX.into(),
            entries_max: self.config.concurrent_trims_max.max(1),
            bytes_max: INDEX_BYTES_MAX,
            values: false,
        }
    }

    pub(crate) fn on_index_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        self.note_index(result, out);
        self.look_for_trims(1, out);
    }

    fn note_index(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        // The answer to a look that an interval's end, or a failure, has stopped.
        let Step::Looking { snap, queue } = &self.trim.step else { return };
        let (snap, queue) = (*snap, queue.clone());
        let Ok(ReadOutcome::Omap(page)) = result else {
            return self.fail_trim("its index can't be read", out);
        };
        let found: Option<Vec<(SnapId, HObject)>> =
            page.entries.iter().map(|(key, _)| snap_index::parse(key)).collect();
        let Some(found) = found else { return self.fail_trim("its index has a damaged key", out) };
        let first = found.first().map_or(SnapId::HEAD, |(snap, _)| *snap);
        // Before the first snapshot that has objects there is nothing to trim.
        let mut purged = IntervalSet::range(snap.0, first.0 - snap.0);
        purged.intersect(&queue);
        purged.intersect(&self.trim.queue);
        if !purged.is_empty() {
            self.trim.queue.subtract(&purged);
            let mut new = purged.clone();
            new.subtract(&self.trim.again);
            self.trim.again.subtract(&purged);
            self.note_purged(&new);
        }
        if first != snap {
            self.trim.step = Step::Idle;
            return;
        }
        let clones: Vec<HObject> =
            found.into_iter().take_while(|(of, _)| *of == snap).map(|(_, clone)| clone).collect();
        let slots: Vec<(ObjectSlot, HObject)> = clones
            .into_iter()
            .map(|clone| (self.objects.slot(&HObject { snap: SnapId::HEAD, ..clone.clone() }), clone))
            .collect();
        let busy = slots.iter().map(|(slot, clone)| (*slot, clone.snap)).collect();
        self.trim.step = Step::Trimming { snap, busy };
        for (slot, clone) in slots {
            self.begin_trim(slot, clone, out);
        }
    }

    fn begin_trim(&mut self, slot: ObjectSlot, clone: HObject, out: &mut Out<'_>) {
        let id = clone.snap;
        let Some(object) = self.objects.get_mut(slot) else {
            return self.broken("a clone is to be trimmed of an object without a context", out);
        };
        object.trims.push(Trim { clone: id, info: None });
        let object = GHObject { shard: self.id.shard, ..GHObject::from(clone) };
        let request =
            ReadRequest::Attr { collection: self.records.collection, object, name: INFO_ATTR.into() };
        match self.backend.peek(&request, &self.records, out) {
            Some(result) => self.on_trim_read(slot, id, result, out),
            None => self.read(request, ReadFor::Trim { slot, clone: id }, out),
        }
    }

    pub(crate) fn on_trim_read(
        &mut self,
        slot: ObjectSlot,
        clone: SnapId,
        result: Result<ReadOutcome, StoreError>,
        out: &mut Out<'_>,
    ) {
        let info = match result {
            Ok(ReadOutcome::Attr(bytes)) => ObjectInfo::from_bytes(&bytes).ok(),
            _ => None,
        };
        let object = self.objects.get_mut(slot);
        let trim = object.and_then(|object| object.trims.iter_mut().find(|trim| trim.clone == clone));
        // Trimming has stopped since.
        let Some(trim) = trim else { return };
        if info.is_none() {
            return self.fail_trim("a clone's metadata can't be read", out);
        }
        trim.info = info;
        self.pump(slot, out);
    }

    /// Trims a clone whose object's turn it is: takes the removed snapshots from it, and removes it when none is left.
    pub(crate) fn trim_clone(&mut self, slot: ObjectSlot, out: &mut Out<'_>) {
        let (Some(head), Step::Trimming { snap, .. }) = (self.ghobject(slot), &self.trim.step) else {
            return self.broken("a clone is trimmed and no snapshot is", out);
        };
        let (snap, now, first) = (*snap, self.now, self.next_version());
        let removed = self.map.as_ref().and_then(|m| m.osdmap.removed_snaps_queue.get(&self.id.pg.pool));
        let takes_all = self.config.planted.is(Bug::TrimTakesAll);
        let again = &self.trim.again;
        let is_removed = |id: &SnapId| {
            let is_removed = removed.is_some_and(|removed| removed.contains(id.0));
            takes_all || *id == snap || is_removed || again.contains(id.0)
        };
        let Some(object) = self.objects.get_mut(slot) else {
            return self.broken("a clone is trimmed of an object without a context", out);
        };
        let at = object.trims.iter().position(|trim| trim.info.is_some());
        let trim = at.map(|at| object.trims.swap_remove(at));
        let (Some(Trim { clone, info: Some(info) }), Loaded::Yes(state)) = (trim, &mut object.loaded) else {
            return self.broken("a clone is trimmed before its metadata are known", out);
        };
        let Some(preserved) = state.snapset.clone_snaps.get(&clone).cloned() else {
            return self.fail_trim("the index names a clone that its head does not", out);
        };
        let (gone, left): (Vec<SnapId>, Vec<SnapId>) = preserved.into_iter().partition(is_removed);
        let mut change = TrimChange {
            steps: ObjectSteps::of(self.records.collection),
            head,
            version: first,
            now,
            stats: StatsDelta::default(),
        };
        let of_clone = change.of_clone(info, state, &gone, left);
        let of_head = change.of_head(state);
        let TrimChange { steps, stats, .. } = change;
        let client =
            ClientChange { slot, reply: None, request: None, effects: None, trimmed: Some(clone), stats };
        self.submit(vec![of_clone], Box::new(of_head), steps, client, out);
    }

    /// The change of a trimmed clone is durable.
    pub(crate) fn on_trimmed(&mut self, slot: ObjectSlot, clone: SnapId, out: &mut Out<'_>) {
        // One of an interval that has ended.
        let Step::Trimming { busy, .. } = &mut self.trim.step else { return };
        if !busy.remove(&(slot, clone)) || !busy.is_empty() {
            return;
        }
        let sleep = self.config.trim_sleep;
        self.trim.step = match sleep.is_zero() {
            true => Step::Idle,
            false => Step::Pausing(self.now.after(sleep)),
        };
        self.trim_on(out);
    }

    /// The PG's own records are durable.
    pub(crate) fn on_purge_recorded(&mut self, out: &mut Out<'_>) {
        if self.trim.step == Step::Purging {
            self.trim.step = Step::Idle;
            self.trim_on(out);
        }
    }

    /// Time has passed.
    pub(crate) fn on_trim_tick(&mut self, out: &mut Out<'_>) {
        if self.trim.deadline().is_some_and(|until| until <= self.now) {
            self.trim.step = Step::Idle;
            self.trim_on(out);
        }
    }

    /// The store has refused the change of a trimmed clone: its object is as before.
    pub(crate) fn on_trim_undone(&mut self) {
        if let Step::Trimming { .. } = self.trim.step {
            self.trim.step = Step::Pausing(self.now.after(self.config.trim_sleep.max(RETRY_AFTER)));
            self.objects.iter_mut().for_each(|object| object.trims.clear());
        }
    }

    /// Trimming stops until the next interval: to try again at once would be to try forever.
    pub(crate) fn fail_trim(&mut self, reason: &'static str, out: &mut Out<'_>) {
        self.trim.step = Step::Failed;
        self.objects.iter_mut().for_each(|object| object.trims.clear());
        out.push(crate::PgEffect::Notice(crate::Notice::TrimFailed { reason }));
    }
}

/// The change that trims a clone.
struct TrimChange {
    steps: ObjectSteps,
    head: GHObject,
    /// Of the next entry.
    version: EVersion,
    now: UTime,
    stats: StatsDelta,
}

impl TrimChange {
    fn entry(&mut self, kind: EntryKind, oid: HObject, prior: EVersion) -> LogEntry {
        let mut entry = LogEntry::new(kind, oid, self.version, ReqId::default());
        entry.prior_version = prior;
        entry.mtime = self.now;
        self.version.version += 1;
        entry
    }

    /// Takes the snapshots that are `gone` from the clone, and the clone away if none is `left`.
    fn of_clone(
        &mut self,
        mut info: ObjectInfo,
        state: &mut ObjectState,
        gone: &[SnapId],
        left: Vec<SnapId>,
    ) -> LogEntry {
        let (oid, id, prior) = (info.oid.clone(), info.oid.snap, info.version);
        let object = clone_of(&self.head, id);
        gone.iter().for_each(|snap| self.steps.unindex(*snap, &oid));
        if left.is_empty() {
            self.remove_from_snapset(id, state);
            self.count(&info, -1);
            self.stats.num_object_clones -= 1;
            self.steps.change(&object, ObjectChange::Remove);
            return self.entry(EntryKind::Delete, oid, prior);
        }
        let mut entry = self.entry(EntryKind::Modify, oid, prior);
        entry.extras.snaps = left.to_bytes(0);
        state.snapset.clone_snaps.insert(id, left);
        (info.prior_version, info.version) = (prior, entry.version);
        let attrs = [(INFO_ATTR.into(), info.to_bytes(u64::MAX).into())];
        self.steps.set_attrs(&object, Attrs::from(attrs));
        entry
    }

    /// The clone before this one shares less from then on, so it counts for more.
    fn remove_from_snapset(&mut self, id: SnapId, state: &mut ObjectState) {
        let snapset = &mut state.snapset;
        let at = snapset.clones.iter().position(|clone| *clone == id);
        let older = at.and_then(|at| at.checked_sub(1)).map(|at| snapset.clones[at]);
        let bytes = |snapset: &ops::SnapSet| older.map_or(0, |older| snapset.clone_bytes(older)) as i64;
        self.stats.num_bytes -= bytes(snapset) + snapset.clone_bytes(id) as i64;
        snapset.remove_clone(id);
        self.stats.num_bytes += bytes(snapset);
    }

    /// Writes the head's SnapSet; a whiteout that no clone needs any more is removed.
    fn of_head(&mut self, state: &mut ObjectState) -> LogEntry {
        let (oid, prior) = (state.info.oid.clone(), state.info.version);
        if state.info.is_whiteout() && state.snapset.clones.is_empty() {
            self.count(&state.info, -1);
            self.steps.change(&self.head, ObjectChange::Remove);
            *state = ObjectState::absent(oid.clone());
            return self.entry(EntryKind::Delete, oid, prior);
        }
        let entry = self.entry(EntryKind::Modify, oid, prior);
        (state.info.prior_version, state.info.version) = (prior, entry.version);
        let attrs = [
            (INFO_ATTR.into(), state.info.to_bytes(u64::MAX).into()),
            (SNAPSET_ATTR.into(), state.snapset.to_bytes(0).into()),
        ];
        self.steps.set_attrs(&self.head, Attrs::from(attrs));
        entry
    }

    /// Counts an object as come or gone; its bytes apart.
    fn count(&mut self, info: &ObjectInfo, by: i64) {
        self.stats.num_objects += by;
        self.stats.num_objects_dirty += by * i64::from(info.has(ObjectFlags::DIRTY));
        self.stats.num_objects_omap += by * i64::from(info.is_omap());
        self.stats.num_whiteouts += by * i64::from(info.is_whiteout());
    }
}
