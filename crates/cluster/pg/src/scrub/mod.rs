//! Scrub: the PG's objects are gone through, a chunk of them at a time between clients' requests, and checked.
//!
//! A chunk is a range of heads with all their clones. It is chosen by listing; then nothing that writes begins on its
//! objects, what has begun ends, and the chunk is read object by object ([`scan`]) and judged ([`check`]). A write that
//! wants in takes precedence: it ends the chunk, and a smaller one is chosen behind it, as often as
//! `osd_scrub_max_preemptions` allows; after that writes wait until the chunk is through. What the objects count for is
//! held against the PG's statistics in the end; changes of objects that were counted already are added on the way.
//!
//! The end of an interval, a failure or a refused change ends a scrub without a result, and its OSD may order another.
//! Snapshots are not trimmed meanwhile. Other copies would scan the same range and send what they have to this one.

mod check;
mod listing;
mod order;
mod result;
mod scan;

use core::time::Duration;

use messages::PgState;
use ops::StatsDelta;
use store::{AttrChoice, ObjectPage, Peek, ReadOutcome, ReadRequest, StoreError};
use types::{GHObject, HObject, SnapId, UTime};

use crate::copy::CopyWait;
use crate::objects::{Object, ObjectSlot};
use crate::out::Out;
use crate::pg::ReadFor;
use crate::{ClusterLogLevel, Notice, Pg, PgEffect};
use check::{Findings, Subject, check};
pub use order::{Inconsistent, ScrubOrder, ScrubState, ScrubWork, is_scrub_forbidden};
use scan::Scan;

/// Objects that one listing of a chunk's range returns; the rest comes with the next.
const LIST_MAX: usize = 1024;
/// Lines on objects that one scrub writes to the cluster log.
const LINES_MAX: usize = 100;
/// Damaged objects that are kept for `rados list-inconsistent-obj`.
const INCONSISTENT_MAX: usize = 1000;
/// When a chunk is chosen again that has an object which waits for its copy's source.
const COPY_RETRY: Duration = Duration::from_secs(1);

/// The objects from `start` up to, without, `end`.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Range {
    start: HObject,
    end: HObject,
}

impl Range {
    fn contains(&self, oid: &HObject) -> bool {
        self.start <= *oid && *oid < self.end
    }
}

/// Where a scrub is.
#[derive(Debug)]
enum Step {
    /// The next chunk is to be chosen.
    Next,
    /// Its objects are being listed, this many.
    Choosing {
        objects: usize,
    },
    /// Writes that have begun in the range end.
    Draining(Range),
    /// The range is listed again: it is as it will stay. These came before.
    Listing(Range, Vec<GHObject>),
    Scanning(Range, Box<Scan>),
    /// Nothing happens until then.
    Pausing(UTime),
}

/// A scrub that is under way.
#[derive(Debug)]
pub(crate) struct Scrub {
    order: ScrubOrder,
    began: UTime,
    /// Objects before it are scrubbed and counted.
    cursor: HObject,
    step: Step,
    /// Objects of the next chunk, and how often a write may still end it.
    chunk_objects: usize,
    preemptions_left: u32,
    /// Something waits until the chunk is through.
    holds_back: bool,
    found: Findings,
    lines: usize,
    inconsistent: Vec<Inconsistent>,
    work: ScrubWork,
}

impl Scrub {
    /// The range on which nothing may write.
    fn held(&self) -> Option<&Range> {
        match &self.step {
            Step::Draining(range) | Step::Listing(range, _) | Step::Scanning(range, _) => Some(range),
            Step::Next | Step::Choosing { .. } | Step::Pausing(_) => None,
        }
    }
}

/// What came of the PG's last scrubs, besides what its info has.
#[derive(Debug, Default)]
pub(crate) struct Scrubbed {
    /// Damaged objects, and of which interval; `None` before the first scrub.
    pub inconsistent: Option<Vec<Inconsistent>>,
    /// A repair has left errors.
    pub failed_repair: bool,
}

/// The place before an object's oldest clone.
fn boundary(oid: &HObject) -> HObject {
    match oid.is_max() {
        true => HObject::max(),
        false => HObject { snap: SnapId(0), ..oid.clone() },
    }
}

impl Pg {
    /// The scrub that runs.
    pub fn scrub_state(&self) -> Option<ScrubState> {
        self.scrub.as_ref().map(|scrub| ScrubState { order: scrub.order, began: scrub.began })
    }

    /// The damaged objects that the last scrub found in this start; `None` before one has ended.
    pub fn inconsistent(&self) -> Option<&[Inconsistent]> {
        self.scrubbed.inconsistent.as_deref()
    }

    /// Whether a change of this object waits for a scrub.
    pub(crate) fn scrub_holds(&self, oid: &HObject) -> bool {
        self.scrub.as_ref().and_then(|scrub| scrub.held()).is_some_and(|range| range.contains(oid))
    }

    pub(crate) fn scrub_deadline(&self) -> Option<UTime> {
        match self.scrub.as_ref()?.step {
            Step::Pausing(until) => Some(until),
            Step::Next
            | Step::Choosing { .. }
            | Step::Draining(_)
            | Step::Listing(..)
            | Step::Scanning(..) => None,
        }
    }

    /// What scrubs add to the PG's state.
    pub(crate) fn add_scrub_state(&self, mut state: PgState) -> PgState {
        if let Some(Scrub { order, .. }) = self.scrub.as_deref() {
            let bits = [
                (true, PgState::SCRUBBING),
                (order.deep, PgState::DEEP_SCRUB),
                (order.repair, PgState::REPAIR),
            ];
            state = bits.into_iter().filter(|(is, _)| *is).fold(state, |state, (_, bit)| state.with(bit));
        }
        if self.phase.serves_requests() && self.records.info.stats.stats.sum.num_scrub_errors > 0 {
            state = state.with(PgState::INCONSISTENT);
            if self.scrubbed.failed_repair {
                state = state.with(PgState::FAILED_REPAIR);
            }
        }
        state
    }

    /// Begins a scrub, if the PG is well.
    pub(crate) fn on_scrub_order(&mut self, order: ScrubOrder, out: &mut Out<'_>) {
        if self.scrub.is_some() {
            return self.broken("a scrub is ordered while one runs", out);
        }
        if !self.phase.is_clean() {
            return out.push(PgEffect::Scrubbed { complete: false, work: Box::default() });
        }
        self.scrub = Some(Box::new(Scrub {
            order: ScrubOrder { deep: order.deep || order.repair, ..order },
            began: self.now,
            cursor: HObject::min(),
            step: Step::Next,
            chunk_objects: 0,
            preemptions_left: 0,
            holds_back: false,
            found: Findings::default(),
            lines: 0,
            inconsistent: Vec::new(),
            work: ScrubWork::default(),
        }));
        self.fresh_chunk();
        self.say_scrub(ClusterLogLevel::Debug, format!("{} {} starts", self.id, order.mode()), out);
    }

    /// The next chunk is one of the full size.
    fn fresh_chunk(&mut self) {
        let config = &self.config.scrub;
        if let Some(scrub) = &mut self.scrub {
            scrub.chunk_objects =
                if scrub.order.deep { config.chunk_max } else { config.shallow_chunk_max }.max(1);
            scrub.preemptions_left = config.preemptions_max;
            scrub.holds_back = false;
            scrub.step = Step::Next;
        }
    }

    fn say_scrub(&mut self, level: ClusterLogLevel, text: String, out: &mut Out<'_>) {
        out.push(PgEffect::Notice(Notice::ClusterLog { level, text }));
    }

    /// Ends a scrub that comes to no result.
    pub(crate) fn abort_scrub(&mut self, out: &mut Out<'_>) {
        if let Some(scrub) = self.scrub.take() {
            self.reads.retain(|_, purpose| !matches!(purpose, ReadFor::Scrub));
            self.say_ended(false, scrub.began, scrub.work, out);
        }
    }

    /// An operator ends the scrub.
    pub(crate) fn on_scrub_abort(&mut self, out: &mut Out<'_>) {
        // It has ended before the order came.
        let Some(scrub) = &self.scrub else { return };
        let text = format!("{} {} is aborted", self.id, scrub.order.mode());
        self.say_scrub(ClusterLogLevel::Info, text, out);
        let waiting = self.held_slots();
        self.abort_scrub(out);
        self.release_held(waiting, out);
    }

    fn say_ended(&self, complete: bool, began: UTime, work: ScrubWork, out: &mut Out<'_>) {
        let took = Duration::from_nanos(self.now.as_nanos().saturating_sub(began.as_nanos()));
        out.push(PgEffect::Scrubbed { complete, work: Box::new(ScrubWork { took, ..work }) });
    }

    /// Lets go on what a scrub held back that has ended.
    pub(crate) fn release_held(&mut self, waiting: Vec<ObjectSlot>, out: &mut Out<'_>) {
        for slot in waiting {
            self.pump(slot, out);
        }
        self.trim_on(out);
    }

    /// Time has passed.
    pub(crate) fn on_scrub_tick(&mut self) {
        if let Some(scrub) = &mut self.scrub {
            if matches!(scrub.step, Step::Pausing(until) if until <= self.now) {
                scrub.step = Step::Next;
            }
        }
    }

    /// Goes on with what waits for no read. Asked at the end of every event.
    pub(crate) fn scrub_on(&mut self, out: &mut Out<'_>) {
        match self.scrub.as_ref().map(|scrub| &scrub.step) {
            Some(Step::Next) if self.is_scrub_ended_by_flags() => {
                self.abort_scrub(out);
                self.trim_on(out);
            }
            Some(Step::Next) => self.choose_chunk(out),
            Some(Step::Draining(_)) => self.drain(out),
            Some(Step::Choosing { .. } | Step::Listing(..) | Step::Scanning(..) | Step::Pausing(_))
            | None => {}
        }
    }

    /// Whether flags end the scrub.
    fn is_scrub_ended_by_flags(&self) -> bool {
        let (Some(map), Some(scrub)) = (&self.map, &self.scrub) else { return false };
        scrub.order.periodic && is_scrub_forbidden(&map.osdmap, self.id.pg.pool, scrub.order.deep)
    }

    fn list(&mut self, range: Range, objects_max: usize, out: &mut Out<'_>) {
        let at = |oid: HObject| match oid.is_max() {
            true => GHObject::max(),
            false => GHObject { shard: self.id.shard, ..GHObject::from(oid) },
        };
        let request = ReadRequest::List {
            collection: self.records.collection,
            start: at(range.start),
            end: at(range.end),
            objects_max,
            attrs: AttrChoice::None,
        };
        // Never from memory: between two chunks other events have their turn.
        self.read_own(request, ReadFor::Scrub, out);
    }

    fn choose_chunk(&mut self, out: &mut Out<'_>) {
        let Some(scrub) = &mut self.scrub else {
            return self.broken("a chunk is chosen for no scrub", out);
        };
        let objects = scrub.chunk_objects;
        scrub.step = Step::Choosing { objects };
        let range = Range { start: scrub.cursor.clone(), end: HObject::max() };
        self.list(range, objects, out);
    }

    /// Objects of the PG among those of a listing: its own and temporary ones are not scrubbed.
    fn scrubbed_of(&self, page: ObjectPage) -> Vec<GHObject> {
        let is_scrubbed = |object: &GHObject| !object.is_pgmeta() && object.hobj.pool == self.id.pg.pool;
        page.objects.into_iter().map(|(object, _)| object).filter(is_scrubbed).collect()
    }

    pub(crate) fn on_scrub_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        let Some(scrub) = &mut self.scrub else {
            return self.broken("something was read for a scrub that is not under way", out);
        };
        match (&mut scrub.step, result) {
            (Step::Scanning(_, scan), result) => {
                scrub.work.note(&result);
                scan.take(result);
                self.scan_on(out);
            }
            (Step::Choosing { objects }, Ok(ReadOutcome::Objects(page))) => {
                let objects = *objects;
                self.on_chosen(objects, page, out);
            }
            (Step::Listing(..), Ok(ReadOutcome::Objects(page))) => self.on_listed(page, out),
            (_, Ok(_)) => self.broken("the store answered another question than a scrub's", out),
            (_, Err(error)) => {
                let text =
                    format!("{} {} ends: its objects can't be listed: {error}", self.id, scrub.order.mode());
                self.say_scrub(ClusterLogLevel::Error, text, out);
                let waiting = self.held_slots();
                self.abort_scrub(out);
                self.release_held(waiting, out);
            }
        }
    }

    /// The chunk ends before the first object that is not listed, so that no object is without its clones.
    fn on_chosen(&mut self, objects: usize, page: ObjectPage, out: &mut Out<'_>) {
        let next = match page.next == GHObject::max() {
            true => HObject::max(),
            false => boundary(&page.next.hobj),
        };
        let Some(scrub) = &mut self.scrub else {
            return self.broken("a chunk was chosen for no scrub", out);
        };
        if next <= scrub.cursor {
            // One object has more clones than that.
            scrub.chunk_objects = objects.saturating_mul(2);
            scrub.step = Step::Next;
            return;
        }
        let range = Range { start: scrub.cursor.clone(), end: next };
        let in_range = |slot: ObjectSlot| self.objects.get(slot).filter(|object| range.contains(&object.oid));
        let copies = |object: &Object| object.copy != CopyWait::No;
        let waits_for_source = self.parked.values().any(|parked| in_range(parked.slot).is_some_and(copies));
        // A copy may wait for what waits for the scrub.
        let retry = self.now.after(COPY_RETRY);
        if let Some(scrub) = &mut self.scrub {
            scrub.step = if waits_for_source { Step::Pausing(retry) } else { Step::Draining(range) };
        }
        self.scrub_on(out);
    }

    /// Goes on when no write that has begun waits for reads in the range. What is queued already is seen by every read.
    fn drain(&mut self, out: &mut Out<'_>) {
        let Some(Step::Draining(range)) = self.scrub.as_ref().map(|scrub| &scrub.step) else {
            return self.broken("a chunk drains of no scrub", out);
        };
        let writes = |parked: &crate::pg::Parked| {
            let object = self.objects.get(parked.slot);
            parked.request.class.writes && object.is_some_and(|object| range.contains(&object.oid))
        };
        if self.parked.values().any(writes) {
            return;
        }
        let range = range.clone();
        if let Some(scrub) = &mut self.scrub {
            scrub.step = Step::Listing(range.clone(), Vec::new());
        }
        self.list(range, LIST_MAX, out);
    }

    fn on_listed(&mut self, page: ObjectPage, out: &mut Out<'_>) {
        let next = page.next.clone();
        let mut more = self.scrubbed_of(page);
        let (collection, config) = (self.records.collection, self.config.clone());
        let Some(Scrub { step: Step::Listing(range, objects), order, .. }) = self.scrub.as_deref_mut() else {
            return self.broken("a chunk was listed that no scrub lists", out);
        };
        objects.append(&mut more);
        let range = range.clone();
        if !next.max && next.hobj < range.end {
            return self.list(Range { start: next.hobj, end: range.end }, LIST_MAX, out);
        }
        let scan = Scan::new(collection, std::mem::take(objects), order.deep, &config.scrub);
        if let Some(scrub) = &mut self.scrub {
            scrub.step = Step::Scanning(range, Box::new(scan));
        }
        self.scan_on(out);
    }

    /// Reads on: metadata from the store's memory where it has them, everything else by a read at a time.
    fn scan_on(&mut self, out: &mut Out<'_>) {
        loop {
            let Some(Scrub { step: Step::Scanning(_, scan), work, .. }) = self.scrub.as_deref_mut() else {
                return self.broken("a chunk is read that no scrub reads", out);
            };
            let Some(request) = scan.next_read() else { return self.finish_chunk(out) };
            let known = scan.is_at_metadata().then(|| out.peek_at(&request)).flatten();
            match known {
                Some(result) => {
                    work.note(&result);
                    scan.take(result);
                }
                None => return self.read_own(request, ReadFor::Scrub, out),
            }
        }
    }

    fn finish_chunk(&mut self, out: &mut Out<'_>) {
        let (config, now) = (self.config.clone(), self.now);
        let waiting =
            if self.scrub.as_ref().is_some_and(|s| s.holds_back) { self.held_slots() } else { Vec::new() };
        let Some(scrub) = &mut self.scrub else {
            return self.broken("a chunk ends of no scrub", out);
        };
        let Step::Scanning(range, scan) = std::mem::replace(&mut scrub.step, Step::Next) else {
            return self.broken("a chunk ends that no scrub reads", out);
        };
        let subject =
            Subject { pg: self.id, osd: self.whoami, mode: scrub.order.mode(), config: &config.scrub };
        let found = check(subject, &scan.into_objects());
        scrub.found.add(&found);
        scrub.cursor = range.end;
        let room = LINES_MAX.saturating_sub(scrub.lines);
        scrub.lines += found.lines.len();
        let kept = INCONSISTENT_MAX.saturating_sub(scrub.inconsistent.len());
        scrub.inconsistent.extend(found.inconsistent.into_iter().take(kept));
        let is_last = scrub.cursor.is_max();
        for (level, text) in found.lines.into_iter().take(room) {
            self.say_scrub(level, text, out);
        }
        match is_last {
            true => self.finish_scrub(out),
            false => {
                self.fresh_chunk();
                if let Some(scrub) = self.scrub.as_mut().filter(|_| !config.scrub.sleep.is_zero()) {
                    scrub.step = Step::Pausing(now.after(config.scrub.sleep));
                }
            }
        }
        for slot in waiting {
            self.pump(slot, out);
        }
    }

    /// The objects of the range that is held which something waits for.
    pub(crate) fn held_slots(&self) -> Vec<ObjectSlot> {
        let Some(range) = self.scrub.as_ref().and_then(|scrub| scrub.held()) else { return Vec::new() };
        let waits = |object: &Object| {
            !object.queue.is_empty() || !object.trims.is_empty() || self.watches.is_ending(&object.oid)
        };
        // Few wait of many; a name is a miss of the processor's caches.
        let held = self.objects.iter().filter(|(_, object)| waits(object) && range.contains(&object.oid));
        held.map(|(slot, _)| slot).collect()
    }

    /// A change wants to begin on an object of the range that is held, if it is one: the chunk gives way, or holds it
    /// back.
    pub(crate) fn give_way(&mut self, slot: ObjectSlot) {
        let Some(object) = self.objects.get(slot).filter(|object| self.scrub_holds(&object.oid)) else {
            return;
        };
        let writes = object.queue.front().is_some_and(|request| request.class.writes);
        if !writes && object.trims.is_empty() && !self.watches.is_ending(&object.oid) {
            return;
        }
        let config = &self.config.scrub;
        let Some(scrub) = &mut self.scrub else { return };
        if scrub.preemptions_left == 0 {
            scrub.holds_back = true;
            scrub.work.held_back += 1;
            return;
        }
        scrub.preemptions_left -= 1;
        scrub.work.preemptions += 1;
        let min = if scrub.order.deep { config.chunk_min } else { config.shallow_chunk_min };
        scrub.chunk_objects = (scrub.chunk_objects / 2).max(min).max(1);
        scrub.step = Step::Next;
        self.reads.retain(|_, purpose| !matches!(purpose, ReadFor::Scrub));
    }

    /// A change of an object: if the scrub has counted the object, it counts the change too.
    pub(crate) fn note_change_in_scrub(&mut self, slot: ObjectSlot, stats: &StatsDelta) {
        let Some(object) = self.objects.get(slot) else { return };
        if let Some(scrub) = self.scrub.as_mut().filter(|scrub| object.oid < scrub.cursor) {
            scrub.found.counted += *stats;
        }
    }

    /// The scrub's invariants: see [`Pg::check`].
    pub(crate) fn check_scrub(&self) -> Result<(), &'static str> {
        let reads = self.reads.values().filter(|purpose| matches!(purpose, ReadFor::Scrub)).count();
        let Some(scrub) = &self.scrub else {
            return if reads == 0 { Ok(()) } else { Err("something is read for no scrub") };
        };
        if !self.phase.serves_requests() {
            return Err("a scrub of an ended interval is kept");
        }
        let reading = matches!(scrub.step, Step::Choosing { .. } | Step::Listing(..) | Step::Scanning(..));
        if reads != usize::from(reading) {
            return Err("a scrub waits for no read, or for several");
        }
        let Step::Scanning(range, _) = &scrub.step else { return Ok(()) };
        let writes = self.objects.iter().any(|(_, object)| object.writing && range.contains(&object.oid));
        if writes { Err("an object is written while it is scrubbed") } else { Ok(()) }
    }
}
