//! A split: the pool has more PGs, and some of this one's objects are theirs from now on.
//!
//! The interval has ended, so nothing new begins. What is queued becomes durable first; then the snap index and the
//! objects are read once, to know which keys move and what each PG's counters are. One transaction does the rest: new
//! collections beside this one, objects moved, each new PG's index, log and info. When it is durable the PG names the new
//! ones by [`PgEffect::Split`](crate::PgEffect::Split), its OSD loads them as it does at a start, and the PG peers.
//!
//! Where the store has no room for the transaction, the PG fails for a while, so that nothing waits for it: no other PG, and
//! no request. Then it begins again as at a start, with what is stored and the map of then.
//!
//! What is to be split follows from the map and from the bits that the store has of the collection, so a split that a
//! crash prevented is made after it, and one that was made is not made again.
//!
//! The PG's own stored log stays as it is: who reads it leaves out what is of other PGs' objects (`records`). A new PG's
//! log has the entries and duplicates of its objects. It begins and ends at the same versions, so that versions go on
//! ascending; where the last entry is another PG's, a duplicate of no request takes its place.

use core::time::Duration;
use std::collections::BTreeMap;

use buffer::Piece;
use ops::StatsDelta;
use store::{AttrChoice, ObjectChange, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use types::{Epoch, GHObject, Name, OsdId, PgId, SpgId, UTime};

use crate::attrs::{INFO_ATTR, SNAPSET_ATTR};
use crate::count::count;
use crate::hash_range::{cuts, owner, split_bits};
use crate::out::Out;
use crate::pg::ReadFor;
use crate::phase::Phase;
use crate::records::Records;
use crate::{Pg, PgEffect, PgFailure, snap_index};

/// Objects that are read at once.
const OBJECTS_AT_ONCE: usize = 256;
/// Keys of the snap index that are read at once, and their bytes.
const KEYS_AT_ONCE: usize = 4096;
const KEY_BYTES_AT_ONCE: usize = 1 << 20;

/// After so long a split that the store refused is tried again: at first, and at most.
const RETRY_AFTER: Duration = Duration::from_secs(10);
const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// A split that the store refused.
#[derive(Debug)]
pub(crate) struct RefusedSplit {
    /// `None` while it is tried again.
    until: Option<UTime>,
    pause: Duration,
    /// The map with which it was due first.
    pub(crate) since: Epoch,
}

impl RefusedSplit {
    /// When it is to be tried again.
    pub fn deadline(&self) -> Option<UTime> {
        self.until
    }
}

/// A split that is under way.
#[derive(Debug)]
pub(crate) struct Split {
    step: Step,
    /// The new PGs, by their seeds.
    parts: BTreeMap<u32, Part>,
    /// An object's metadata can't be decoded: the counters are not exact.
    inexact: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// What was queued before becomes durable.
    Draining,
    Index,
    Counting,
    /// The transaction is queued.
    Committing,
}

/// What a new PG gets.
#[derive(Default, Debug)]
struct Part {
    counted: StatsDelta,
    /// Keys of the snap index.
    index: Vec<Name>,
}

impl Pg {
    /// Whether its pool has so many PGs that some of this one's objects are another's.
    pub fn is_to_split(&self, pg_num: u32) -> bool {
        let seed = self.id.pg.seed;
        let knows = self.phase != Phase::Loading;
        knows && seed < pg_num && split_bits(seed, pg_num) > self.records.bits
    }

    pub(crate) fn begin_split(&mut self, out: &mut Out<'_>) {
        let pg_num = self.map.as_ref().map_or(1, |map| map.pool.pg_num);
        let cuts = cuts(self.id.pg.seed, self.records.bits, pg_num);
        let parts = cuts.iter().map(|cut| (cut.into, Part::default())).collect();
        self.phase = Phase::Splitting;
        self.split = Some(Box::new(Split { step: Step::Draining, parts, inexact: false }));
        self.continue_split(out);
    }

    /// Goes on when all that was queued is durable, or undone.
    pub(crate) fn continue_split(&mut self, out: &mut Out<'_>) {
        if !self.in_flight.is_empty() || self.backend.awaits_store() || !self.own.is_empty() {
            return;
        }
        let Some(split) = &mut self.split else {
            return self.broken("a PG that splits into nothing", out);
        };
        match split.step {
            Step::Draining => {
                // Objects that are another PG's must have no context here when the next interval starts.
                self.objects.reset();
                split.step = Step::Index;
                self.read_index(None, out);
            }
            Step::Index | Step::Counting => {}
            Step::Committing => self.finish_split(out),
        }
    }

    fn read_index(&mut self, after: Option<Name>, out: &mut Out<'_>) {
        let request = ReadRequest::OmapRange {
            collection: self.records.collection,
            object: self.records.meta.clone(),
            after,
            before: None,
            prefix: snap_index::PREFIX.into(),
            entries_max: KEYS_AT_ONCE,
            bytes_max: KEY_BYTES_AT_ONCE,
            values: false,
        };
        self.read_own(request, ReadFor::Split, out);
    }

    fn read_objects(&mut self, start: GHObject, out: &mut Out<'_>) {
        let request = ReadRequest::List {
            collection: self.records.collection,
            start,
            end: GHObject::max(),
            objects_max: OBJECTS_AT_ONCE,
            attrs: AttrChoice::These(vec![INFO_ATTR.into(), SNAPSET_ATTR.into()]),
        };
        self.read_own(request, ReadFor::Split, out);
    }

    pub(crate) fn on_split_read(&mut self, result: Result<ReadOutcome, StoreError>, out: &mut Out<'_>) {
        let (Some(map), Some(split)) = (&self.map, &mut self.split) else {
            return self.broken("something was read for a split that is not under way", out);
        };
        let pg_num = map.pool.pg_num;
        match (split.step, result) {
            (Step::Index, Ok(ReadOutcome::Omap(page))) => {
                let last = page.entries.last().map(|(key, _)| key.clone());
                for (key, _) in page.entries {
                    // A damaged key stays: trimming reports it.
                    let Some((_, clone)) = snap_index::parse(&key) else { continue };
                    if let Some(part) = split.parts.get_mut(&owner(clone.hash, pg_num)) {
                        part.index.push(key);
                    }
                }
                if page.more {
                    return self.read_index(last, out);
                }
                split.step = Step::Counting;
                self.read_objects(GHObject::min(), out);
            }
            (Step::Counting, Ok(ReadOutcome::Objects(page))) => {
                for (object, attrs) in &page.objects {
                    let is_counted = !object.is_pgmeta() && object.hobj.pool == self.id.pg.pool;
                    let part = split.parts.get_mut(&owner(object.hobj.hash, pg_num));
                    // The PG's own; or one that stays.
                    let Some(part) = part.filter(|_| is_counted) else { continue };
                    match count(&object.hobj, attrs) {
                        Some(counted) => part.counted += counted,
                        None => split.inexact = true,
                    }
                }
                if page.next != GHObject::max() {
                    return self.read_objects(page.next, out);
                }
                split.step = Step::Committing;
                self.commit_split(out);
            }
            (_, Ok(_)) => self.fail(PgFailure::Load("the store answered another question".into()), out),
            (_, Err(error)) => self.fail(PgFailure::Load(error.to_string()), out),
        }
    }

    fn commit_split(&mut self, out: &mut Out<'_>) {
        let (Some(map), Some(split)) = (&self.map, &mut self.split) else {
            return self.broken("a split that is not under way is committed", out);
        };
        let (seed, pg_num) = (self.id.pg.seed, map.pool.pg_num);
        let parts = std::mem::take(&mut split.parts);
        self.records.info.stats.stats_invalid |= split.inexact;
        let mut txn = Transaction::new();
        for cut in cuts(seed, self.records.bits, pg_num) {
            let [from, into] = [cut.from, cut.into].map(|seed| self.part_id(seed).into());
            txn.create_collection(into, cut.bits);
            txn.split(from, cut.bits, cut.into, into);
        }
        let (mut moved, mut new) = (Vec::new(), Vec::with_capacity(parts.len()));
        for (part, Part { counted, index }) in parts {
            let Some(records) = self.records_of_part(part) else {
                return self.broken("a PG without a map splits", out);
            };
            new.push(records.info.pgid);
            txn.touch(records.collection, &records.meta);
            if !index.is_empty() {
                let keys = index.iter().map(|key| (key.clone(), Piece::empty())).collect();
                txn.omap_set(records.collection, &records.meta, keys);
                moved.extend(index);
            }
            let records = with_stats(records, &counted);
            records.write_whole_info(&mut txn);
            records.write_whole_log(&mut txn);
            self.records.add_stats(&-counted);
        }
        if !moved.is_empty() {
            txn.change(self.records.collection, &self.records.meta, ObjectChange::OmapRemove(moved));
        }
        self.records.bits = split_bits(seed, pg_num);
        self.records.log.keep(|hash| owner(hash, pg_num) == seed);
        self.records.note_log_size();
        self.records.dirty = true;
        self.records.write_info(&mut txn);
        if let Some(split) = &mut self.split {
            split.parts = new.into_iter().map(|id| (id.pg.seed, Part::default())).collect();
        }
        self.submit_own(txn, out);
    }

    fn part_id(&self, seed: u32) -> SpgId {
        SpgId { pg: PgId { seed, ..self.id.pg }, ..self.id }
    }

    /// A new PG's records, as Ceph's `PeeringState::split_into` makes them; counters apart.
    fn records_of_part(&self, seed: u32) -> Option<Records> {
        let (map, of) = (self.map.as_ref()?, &self.records);
        let id = self.part_id(seed);
        let mut records = Records::new(id);
        records.bits = split_bits(seed, map.pool.pg_num);
        records.past = of.past.clone();
        records.log = of.log.part(|hash| owner(hash, map.pool.pg_num) == seed);
        records.info = crate::PgInfo { pgid: id, ..of.info.clone() };
        let (history, stats) = (&mut records.info.history, &mut records.info.stats);
        history.epoch_created = map.epoch;
        stats.created = map.epoch;
        stats.parent_split_bits = records.bits;
        let at = map.osdmap.pg_to_up_acting(id.pg);
        let (up_primary, acting_primary) =
            (at.up_primary.unwrap_or(OsdId(-1)), at.acting_primary.unwrap_or(OsdId(-1)));
        if acting_primary != stats.acting_primary {
            history.same_primary_since = map.epoch;
        }
        if at.up != stats.up {
            history.same_up_since = map.epoch;
        }
        (stats.up, stats.up_primary) = (at.up, up_primary);
        (stats.acting, stats.acting_primary) = (at.acting, acting_primary);
        records.note_log_size();
        Some(records)
    }

    /// The new PGs are stored.
    fn finish_split(&mut self, out: &mut Out<'_>) {
        let Some(split) = self.split.take() else {
            return self.broken("a split that is not under way is done", out);
        };
        self.refused_split = None;
        let children = split.parts.into_keys().map(|seed| self.part_id(seed)).collect();
        out.push(PgEffect::Split { children });
        self.decide_role(out);
        for map in std::mem::take(&mut self.deferred_maps) {
            self.on_advance_map(map, out);
        }
    }
}

impl Pg {
    /// The store has refused the split, for reasons that may pass.
    pub(crate) fn postpone_split(&mut self, token: Token, error: StoreError, out: &mut Out<'_>) {
        let before = self.refused_split.take();
        let pause = before.as_ref().map_or(RETRY_AFTER, |before| (2 * before.pause).min(RETRY_AFTER_MAX));
        let since = before.map_or(self.epoch(), |before| before.since);
        self.refused_split = Some(RefusedSplit { until: Some(self.now.after(pause)), pause, since });
        self.split = None;
        // Nothing is built upon it: what is in memory is read again.
        out.push(PgEffect::Acknowledge { token });
        self.fail(PgFailure::Split(error), out);
    }

    /// Time has passed for a PG that has failed.
    pub(crate) fn retry_split(&mut self, out: &mut Out<'_>) {
        let now = self.now;
        let due = self.refused_split.as_mut().filter(|split| split.until.is_some_and(|until| until <= now));
        if let Some(split) = due {
            split.until = None;
            self.load_again(out);
        }
    }
}

fn with_stats(mut records: Records, counted: &StatsDelta) -> Records {
    records.info.stats.stats = Default::default();
    records.add_stats(counted);
    records
}
