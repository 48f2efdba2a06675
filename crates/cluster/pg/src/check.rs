//! The PG's invariants, asserted after each event in debug builds.

use std::collections::{BTreeMap, BTreeSet};

use crate::Pg;
use crate::backoff::Backoff;
use crate::copy::CopyWait;
use crate::objects::{Loaded, Object, ObjectSlot};
use crate::pg::{InFlight, ReadFor};
use crate::phase::Phase;

impl Pg {
    /// The first of the PG's invariants that does not hold.
    ///
    /// # Errors
    /// What is wrong: a bug.
    pub fn check(&self) -> Result<(), &'static str> {
        let serves = self.phase.serves_requests();
        let blocked = || self.backoffs.values().any(|backoff| *backoff == Backoff::Blocked);
        holds(!serves || !blocked(), "a session is to hold back from a PG that serves")?;
        if matches!(self.phase, Phase::Failed | Phase::Loading) {
            return Ok(());
        }
        let ascend = |a: &InFlight, b: &InFlight| a.token < b.token && a.version < b.version;
        holds(
            self.records.info.last_update == self.records.log.head(),
            "the info's last update is not the log's head",
        )?;
        holds(self.records.info.log_tail == self.records.log.tail(), "the info's log tail is not the log's")?;
        holds(self.records.log.tail() <= self.records.durable, "the log is trimmed of what is not durable")?;
        holds(self.records.durable <= self.records.info.last_update, "more is durable than there is")?;
        holds(
            self.in_flight.iter().zip(self.in_flight.iter().skip(1)).all(|(a, b)| ascend(a, b)),
            "changes in flight are out of order",
        )?;
        let changes = || self.in_flight.iter().any(|f| f.client.request.is_some());
        let begun = !self.parked.is_empty() || !self.delayed.is_empty() || changes();
        let waits = |object: &Object| !object.queue.is_empty() || !object.trims.is_empty();
        let queued = || self.objects.iter().any(|(_, object)| waits(object));
        holds(serves || !(begun || queued()), "a request of an ended interval is kept")?;
        holds(!self.own_lost || !self.in_flight.is_empty(), "lost records follow no change in flight")?;
        self.watches.check()?;
        holds(serves || self.watches.is_empty(), "a watch of an ended interval is kept")?;
        holds(
            self.split.is_some() == (self.phase == Phase::Splitting),
            "a split is known of a PG that is not being split, or of one that is none is",
        )?;
        self.check_scrub()?;
        self.check_objects()
    }

    /// What objects count, against what refers to them.
    fn check_objects(&self) -> Result<(), &'static str> {
        let changed = self.in_flight.iter().map(|f| f.client.slot);
        let (mut changes, mut reads): (BTreeMap<ObjectSlot, u32>, BTreeMap<ObjectSlot, u32>) =
            Default::default();
        changed.for_each(|slot| *changes.entry(slot).or_default() += 1);
        self.parked.values().for_each(|p| *reads.entry(p.slot).or_default() += 1);
        self.objects.check()?;
        for (slot, object) in self.objects.iter() {
            let (changes, reads) = (changes.remove(&slot), reads.remove(&slot));
            holds(object.uncommitted == changes.unwrap_or(0), "an object miscounts its changes in flight")?;
            let parked = object.readers + u32::from(object.writing);
            holds(parked == reads.unwrap_or(0), "an object miscounts its parked requests")?;
            let copies = object.copy != CopyWait::No;
            holds(!object.writing || object.readers == 0 || copies, "an object is read while it is written")?;
            holds(object.writing || !copies, "an object waits for what no request copies")?;
        }
        let read = |purpose: &ReadFor| match purpose {
            ReadFor::Object(slot) => Some(*slot),
            ReadFor::Load
            | ReadFor::Step { .. }
            | ReadFor::List(_)
            | ReadFor::SnapIndex
            | ReadFor::Split
            | ReadFor::Trim { .. }
            | ReadFor::Scrub
            | ReadFor::Remove => None,
        };
        let reading: BTreeSet<ObjectSlot> = self.reads.values().filter_map(read).collect();
        let is_reading = |object: &Object| matches!(object.loaded, Loaded::Reading);
        let said = self.objects.iter().filter(|(_, object)| is_reading(object)).map(|(slot, _)| slot);
        holds(said.eq(reading), "an object's metadata is read for none, or for another")?;
        holds(changes.is_empty() && reads.is_empty(), "a change or a parked request has no object")
    }
}

fn holds(holds: bool, what: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(what) }
}
