//! The PG map: the newest report of every PG and OSD, and their sums.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

use messages::{ObjectStatSum, OsdStat, PgStat, PgState, PoolStat, StoreStatfs};
use types::{Epoch, IntervalSet, OsdId, PgId, PoolId, UTime};

use super::homes::{self, Homes};

/// A PG that exists in the map and was not reported yet.
fn unreported(created: Epoch, now: UTime) -> PgStat {
    PgStat {
        created,
        last_epoch_clean: created,
        last_fresh: now,
        last_change: now,
        last_active: now,
        last_peered: now,
        last_clean: now,
        last_unstale: now,
        last_undegraded: now,
        last_fullsized: now,
        ..PgStat::default()
    }
}

/// What a pool's PGs and stores add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolTotals {
    /// PGs.
    pub num_pg: u64,
    /// `store_stats` where OSDs report it by pool.
    pub stat: PoolStat,
}

impl PoolTotals {
    pub fn sum(&self) -> &ObjectStatSum {
        &self.stat.stats.sum
    }

    // OSDs report the numbers: whatever they say must not overflow.
    fn add(&mut self, other: &Self) {
        let (stat, more) = (&mut self.stat, &other.stat);
        self.num_pg += other.num_pg;
        stat.stats.sum.add(&more.stats.sum);
        stat.log_size = stat.log_size.saturating_add(more.log_size);
        stat.ondisk_log_size = stat.ondisk_log_size.saturating_add(more.ondisk_log_size);
        stat.up = stat.up.saturating_add(more.up);
        stat.acting = stat.acting.saturating_add(more.acting);
        stat.store_stats.add(&more.store_stats);
        stat.num_store_stats = stat.num_store_stats.saturating_add(more.num_store_stats);
    }

    fn add_pg(&mut self, pg: &PgStat) {
        let stat = PoolStat {
            stats: pg.stats,
            log_size: pg.log_size,
            ondisk_log_size: pg.ondisk_log_size,
            up: pg.up.len() as i32,
            acting: pg.acting.len() as i32,
            ..PoolStat::default()
        };
        self.add(&Self { num_pg: 1, stat });
    }
}

/// All reports.
#[derive(Clone, Debug, Default)]
pub struct PgMap {
    pub pgs: BTreeMap<PgId, PgStat>,
    pub osds: BTreeMap<i32, OsdStat>,
    /// Space that a pool takes on an OSD.
    pub pool_space: BTreeMap<(PoolId, i32), StoreStatfs>,
    /// Grows with every report.
    pub version: u64,
    /// When the last report came.
    pub stamp: UTime,
    /// PGs whose objects are not where the map wants them, with their state as it was reported.
    elsewhere: BTreeMap<PgId, PgState>,
    homes: Homes,
    samples: VecDeque<Sample<PoolId>>,
    /// The same, by the OSDs that lead the PGs.
    osd_samples: VecDeque<Sample<i32>>,
}

/// Rates are taken over this many samples at most.
const SAMPLES_MAX: usize = 6;

impl PgMap {
    /// An OSD's report about itself.
    pub fn report_osd(&mut self, now: UTime, osd: i32, stats: OsdStat, space: BTreeMap<PoolId, StoreStatfs>) {
        self.touch(now);
        self.osds.insert(osd, stats);
        self.pool_space.retain(|(_, of), _| *of != osd);
        self.pool_space.extend(space.into_iter().map(|(pool, space)| ((pool, osd), space)));
    }

    /// Takes a primary's report about a PG, if the PG exists and the report is newer than the last one.
    pub fn report_pg(&mut self, id: PgId, stats: PgStat) {
        if let Some(known) = self.pgs.get_mut(&id) {
            let newer =
                (stats.reported_epoch, stats.reported_seq) > (known.reported_epoch, known.reported_seq);
            if newer || known.state.is_unknown() {
                self.homes.report(id, &stats);
                *known = stats;
                self.elsewhere.remove(&id);
            }
        }
    }

    /// Whether a PG was reported since the monitor started, or since its report was forgotten.
    pub fn is_reported(&self, id: PgId) -> bool {
        self.pgs.get(&id).is_some_and(|pg| !pg.state.is_unknown())
    }

    /// Forgets what was reported of a PG: it is made again, from this epoch on.
    pub fn forget_report(&mut self, now: UTime, id: PgId, created: Epoch) {
        if let Some(pg) = self.pgs.get_mut(&id) {
            *pg = unreported(created, now);
            self.elsewhere.remove(&id);
            self.homes.forget(id);
        }
    }

    /// Adds and removes PGs as the OSD map says (`wanted`: PG → epoch of its pool's creation).
    pub fn set_pgs(&mut self, now: UTime, wanted: &BTreeMap<PgId, Epoch>) {
        self.pgs.retain(|id, _| wanted.contains_key(id));
        self.elsewhere.retain(|id, _| wanted.contains_key(id));
        self.homes.retain(|id| wanted.contains_key(&id));
        for (id, created) in wanted {
            if let Entry::Vacant(new) = self.pgs.entry(*id) {
                new.insert(unreported(*created, now));
                self.homes.add(*id);
            }
        }
        self.pool_space.retain(|(pool, _), _| wanted.keys().any(|id| id.pool == *pool));
    }

    /// Marks the PGs of primaries that are down as stale, and drops OSDs that do not exist.
    pub fn set_osds(&mut self, now: UTime, exists: impl Fn(i32) -> bool, is_up: impl Fn(i32) -> bool) {
        self.osds.retain(|osd, _| exists(*osd));
        for pg in self.pgs.values_mut() {
            if !pg.state.is_unknown() && !pg.state.has(PgState::STALE) && !is_up(pg.acting_primary.0) {
                pg.state = pg.state.with(PgState::STALE);
                pg.last_unstale = now;
                pg.last_change = now;
            }
        }
    }

    /// Shows a PG as down because its objects are on other OSDs than the map gives it, or as it was reported again.
    /// `is_up`: whether the OSD that reported it is up.
    pub fn set_elsewhere(&mut self, now: UTime, id: PgId, elsewhere: bool, is_up: bool) {
        // The pool was removed with its PGs.
        let Some(pg) = self.pgs.get_mut(&id) else { return };
        let reported = self.elsewhere.get(&id).copied();
        let state = match (elsewhere, reported) {
            (false, None) => return,
            (true, _) => PgState::DOWN,
            (false, Some(reported)) => reported,
        };
        if elsewhere {
            self.elsewhere.entry(id).or_insert(pg.state);
            pg.blocked_by = self.homes.of(id).unwrap_or_default().to_vec();
        } else {
            self.elsewhere.remove(&id);
            pg.blocked_by = Vec::new();
        }
        let state = if is_up { state } else { state.with(PgState::STALE) };
        if pg.state != state {
            pg.state = state;
            pg.last_change = now;
        }
    }

    /// Whether a PG's objects are on other OSDs than the map gives it.
    pub fn is_elsewhere(&self, id: PgId) -> bool {
        self.elsewhere.contains_key(&id)
    }

    /// The OSDs that have a PG's objects; `None` before it, or what it came out of, was reported.
    pub fn home(&self, id: PgId) -> Option<&[OsdId]> {
        self.homes.of(id)
    }

    /// The same of a PG that the next map may have: a new one comes out of another.
    pub fn home_of_next(&self, id: PgId) -> Option<&[OsdId]> {
        let mut of = id;
        while !self.pgs.contains_key(&of) {
            of = homes::parent(of)?;
        }
        self.homes.of(of)
    }

    /// Takes the homes that were kept from before the monitor's start.
    pub fn keep_homes(&mut self, homes: impl IntoIterator<Item = (PgId, Vec<OsdId>)>) {
        homes.into_iter().for_each(|(id, home)| self.homes.keep(id, home));
    }

    /// Takes what PGs had before the monitor's start: it counts until they are reported.
    pub fn keep_sums(&mut self, sums: impl IntoIterator<Item = (PgId, ObjectStatSum)>) {
        for (id, sum) in sums {
            if let Some(pg) = self.pgs.get_mut(&id).filter(|pg| pg.state.is_unknown()) {
                pg.stats.sum = sum;
            }
        }
    }

    /// Has a PG that was not reported be where its home is.
    pub fn recall(&mut self, id: PgId) {
        let unreported = self.pgs.get_mut(&id).filter(|pg| pg.state.is_unknown());
        let (Some(pg), Some(home)) = (unreported, self.homes.of(id)) else { return };
        let Some(first) = home.first() else { return };
        (pg.up_primary, pg.acting_primary) = (*first, *first);
        (pg.up, pg.acting) = (home.to_vec(), home.to_vec());
    }

    /// Whether a PG's home is what was kept: nothing has been heard of the PG that says otherwise.
    pub fn is_home_kept(&self, id: PgId) -> bool {
        self.homes.is_kept(id)
    }

    /// Whether an OSD that is up since this epoch has reported all PGs that it leads.
    pub fn has_reported_all(&self, osd: OsdId, up_from: Epoch) -> bool {
        // The lower half counts the reports that were whole; the parts of one come before it counts. An OSD that got several
        // maps at once may have seen itself up in a later one only.
        self.osds.get(&osd.0).is_some_and(|stat| stat.up_from >= up_from && stat.seq as u32 > 0)
    }

    fn touch(&mut self, now: UTime) {
        self.version += 1;
        self.stamp = now;
    }

    /// Takes a sample for rates (on every tick).
    pub fn sample(&mut self, now: UTime) {
        let pools = self.pools().into_iter().map(|(pool, stats)| (pool, *stats.sum())).collect();
        self.samples.push_back((now, pools));
        let mut osds: BTreeMap<i32, ObjectStatSum> = BTreeMap::new();
        for pg in self.pgs.values() {
            osds.entry(pg.acting_primary.0).or_default().add(&pg.stats.sum);
        }
        self.osd_samples.push_back((now, osds));
        while self.samples.len() > SAMPLES_MAX {
            self.samples.pop_front();
            self.osd_samples.pop_front();
        }
    }

    /// What clients do a second in a pool (`None`: in all of them).
    pub fn rates(&self, pool: Option<PoolId>) -> Rates {
        rates(&self.samples, |id| pool.is_none_or(|pool| pool == *id))
    }

    /// What clients do a second in the PGs that an OSD leads.
    pub fn osd_rates(&self, osd: i32) -> Rates {
        rates(&self.osd_samples, |id| *id == osd)
    }

    /// A number that OSDs report, summed up.
    pub fn sum_osds(&self, of: fn(&OsdStat) -> u32) -> u64 {
        self.osds.values().map(|stats| u64::from(of(stats))).sum()
    }

    /// Whether every OSD says what each pool takes of its store.
    pub fn is_by_pool(&self) -> bool {
        self.every_osd_says(|stats| stats.num_per_pool_osds)
    }

    /// Whether every OSD says what each pool's omaps take of its store.
    pub fn has_omaps_by_pool(&self) -> bool {
        self.every_osd_says(|stats| stats.num_per_pool_omap_osds)
    }

    /// Whether all that each report sums over are among those that say something. Where no OSD has reported, none does.
    fn every_osd_says(&self, how_many: fn(&OsdStat) -> u32) -> bool {
        !self.osds.is_empty() && self.osds.values().all(|stats| how_many(stats) >= stats.num_osds)
    }

    /// Sums a pool.
    pub fn pools(&self) -> BTreeMap<PoolId, PoolTotals> {
        let mut out: BTreeMap<PoolId, PoolTotals> = BTreeMap::new();
        for (id, pg) in &self.pgs {
            out.entry(id.pool).or_default().add_pg(pg);
        }
        for ((pool, _), space) in &self.pool_space {
            if let Some(pool) = out.get_mut(pool) {
                pool.stat.store_stats.add(space);
                pool.stat.num_store_stats += 1;
            }
        }
        out
    }

    /// The snapshots that every PG of a pool has purged; `None` as long as one was not reported.
    pub fn purged_snaps(&self, pool: PoolId) -> Option<IntervalSet> {
        let mut pgs = self.pgs.range(PgId { pool, seed: 0 }..).take_while(|(id, _)| id.pool == pool);
        let (_, first) = pgs.next()?;
        let mut purged = first.purged_snaps.clone();
        let reported = |pg: &PgStat| !pg.state.is_unknown();
        if !reported(first) {
            return None;
        }
        for (_, pg) in pgs {
            if !reported(pg) {
                return None;
            }
            purged.intersect(&pg.purged_snaps);
        }
        Some(purged)
    }

    /// The sum over all pools.
    pub fn total(&self) -> PoolTotals {
        self.pools().values().fold(PoolTotals::default(), |mut sum, pool| {
            sum.add(pool);
            sum
        })
    }

    /// The space of the OSDs that `wanted` picks.
    pub fn space(&self, wanted: impl Fn(i32) -> bool) -> StoreStatfs {
        self.osds.iter().filter(|(osd, _)| wanted(**osd)).fold(
            StoreStatfs::default(),
            |mut sum, (_, stats)| {
                sum.add(&stats.statfs);
                sum
            },
        )
    }

    /// How many PGs are in each state, the most first.
    pub fn by_state(&self) -> Vec<(PgState, u64)> {
        let mut counts: BTreeMap<PgState, u64> = BTreeMap::new();
        for pg in self.pgs.values() {
            *counts.entry(pg.state).or_default() += 1;
        }
        let mut out: Vec<(PgState, u64)> = counts.into_iter().collect();
        out.sort_by_key(|(state, n)| std::cmp::Reverse((*n, *state)));
        out
    }

    /// How many PGs have an OSD in their acting set.
    pub fn pgs_of(&self, osd: i32) -> usize {
        self.pgs.values().filter(|pg| pg.acting.contains(&OsdId(osd))).count()
    }
}

/// Sums of counters at a time, by what they are of.
type Sample<Id> = (UTime, BTreeMap<Id, ObjectStatSum>);

/// What was done a second up to the last sample, of all that `picks` takes: each since the first sample that has it. A
/// pool's first report is not a second's work, but a pool that is new has a rate with its second one.
fn rates<Id: Ord>(samples: &VecDeque<Sample<Id>>, picks: impl Fn(&Id) -> bool) -> Rates {
    let Some((to, after)) = samples.back() else { return Rates::default() };
    let mut rates = Rates::default();
    for (id, sums) in after.iter().filter(|(id, _)| picks(id)) {
        let first = samples.iter().find_map(|(from, before)| Some((from, before.get(id)?)));
        let Some((from, before)) = first.filter(|(from, _)| *from < to) else { continue };
        let seconds = to.as_nanos().saturating_sub(from.as_nanos()) as f64 / 1e9;
        rates.add(&sums.since(before), seconds);
    }
    rates
}

/// Client work a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    pub reads: u64,
    pub writes: u64,
    /// Whether there was any read.
    pub any_read: bool,
    /// Whether there was any write.
    pub any_write: bool,
}

impl Rates {
    /// Adds what was done in so many seconds.
    fn add(&mut self, done: &ObjectStatSum, seconds: f64) {
        let per_second = |n: i64| (n as f64 / seconds) as u64;
        self.read_bytes += per_second(done.num_rd_kb.saturating_mul(1024));
        self.write_bytes += per_second(done.num_wr_kb.saturating_mul(1024));
        self.reads += per_second(done.num_rd);
        self.writes += per_second(done.num_wr);
        self.any_read |= done.num_rd > 0 || done.num_rd_kb > 0;
        self.any_write |= done.num_wr > 0 || done.num_wr_kb > 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pg(seed: u32) -> PgId {
        PgId { pool: PoolId(1), seed }
    }

    #[test]
    fn only_newer_reports_of_pgs_that_exist_are_taken() {
        let now = UTime { sec: 9, nsec: 0 };
        let mut map = PgMap::default();
        map.set_pgs(now, &BTreeMap::from([(pg(0), Epoch(3))]));
        assert_eq!(map.by_state(), [(PgState::default(), 1)]);
        let report = |seq, state| PgStat { reported_seq: seq, state, ..Default::default() };
        map.report_pg(pg(0), report(5, PgState::ACTIVE));
        map.report_pg(pg(0), report(4, PgState::DOWN));
        map.report_pg(pg(1), report(4, PgState::DOWN));
        assert_eq!(map.by_state(), [(PgState::ACTIVE, 1)]);
        map.set_osds(now, |_| true, |_| false);
        assert_eq!(map.by_state(), [(PgState::ACTIVE.with(PgState::STALE), 1)]);
        map.set_pgs(now, &BTreeMap::new());
        assert!(map.pgs.is_empty());
    }

    #[test]
    fn rates_are_what_was_done_between_samples() {
        let mut map = PgMap::default();
        map.set_pgs(UTime::default(), &BTreeMap::from([(pg(0), Epoch(3))]));
        for second in 0..5u32 {
            let done = i64::from(second) * 10;
            let mut stat = PgStat { reported_seq: u64::from(second) + 1, ..Default::default() };
            (stat.stats.sum.num_wr, stat.stats.sum.num_wr_kb) = (done, done * 4);
            map.report_pg(pg(0), stat);
            map.sample(UTime { sec: 100 + second, nsec: 0 });
        }
        let rates = map.rates(None);
        assert_eq!((rates.writes, rates.write_bytes, rates.any_read), (10, 40 * 1024, false));
        assert_eq!(map.rates(Some(PoolId(2))), Rates::default());
    }

    #[test]
    fn a_new_pool_has_a_rate_with_its_second_sample() {
        let mut map = PgMap::default();
        (100..103).for_each(|sec| map.sample(UTime { sec, nsec: 0 }));
        map.set_pgs(UTime::default(), &BTreeMap::from([(pg(0), Epoch(3))]));
        for (seq, sec) in [103, 105].into_iter().enumerate() {
            let mut stat = PgStat { reported_seq: seq as u64 + 1, ..Default::default() };
            stat.stats.sum.num_wr = 1000 + 30 * seq as i64;
            map.report_pg(pg(0), stat);
            map.sample(UTime { sec, nsec: 0 });
            assert_eq!(map.rates(None).writes, 15 * seq as u64, "the first report is not a second's work");
        }
    }
}
