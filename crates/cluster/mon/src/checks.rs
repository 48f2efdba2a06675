//! The health checks, computed from the maps and the reports.

use std::collections::{BTreeMap, BTreeSet};

use maps::{OsdMap, OsdState, PoolFlags};
use messages::{FULLEST_SHARD_ALERT, PgStat, PgState};
use options::opt;
use types::{OsdId, PgId, UTime};

use crate::command::osd_set_text;
use crate::command::status::span;
use crate::crush_view;
use crate::elsewhere::osd_names;
use crate::fmt::{bytes, general};
use crate::health::{Health, Severity};
use crate::mon::Mon;
use crate::service::osdmap;

/// A key of an OSD's metadata, Loligo's own: the bytes that its store was made for. It has fewer where the file system
/// below has fewer.
pub const STORE_BYTES: &str = "osd_store_bytes";

/// Bytes that a small store may keep for itself.
const SMALL_STORE_OWN: u64 = 16 << 20;

/// Lines of detail that a check about PGs has at most (mon_health_max_detail's default).
pub(crate) const DETAIL_MAX: usize = 50;

impl Mon {
    /// What is wrong at this moment.
    pub fn health(&self, now: UTime) -> Health {
        let mut health = Health::default();
        self.check_osds(&mut health);
        self.check_failed_osds(&mut health);
        self.check_remaining_pgs(&mut health);
        self.check_flags(&mut health);
        self.check_full(&mut health);
        self.check_pools(&mut health);
        self.check_pgs(now, &mut health);
        self.check_disk(&mut health);
        self.check_slow_ops(&mut health);
        self.check_scrubs(now, &mut health);
        health.mute(now, self.mutes());
        health
    }

    fn check_osds(&self, health: &mut Health) {
        let (map, crush) = (&self.osdmap, &self.osdmap.crush);
        let counted = |osd: i32| {
            osdmap::is_in(map, osd) && map.osd(OsdId(osd)).is_some_and(|e| e.state & OsdState::NEW == 0)
        };
        let down: BTreeSet<i32> =
            osdmap::osds(map).filter(|osd| counted(*osd) && !osdmap::is_up(map, *osd)).collect();
        if down.is_empty() {
            return;
        }
        // A bucket is down when it has OSDs that count below it and all of them are down.
        let mut types: BTreeMap<u16, Vec<(i32, usize)>> = BTreeMap::new();
        for node in crush_view::walk(crush, false).into_iter().filter(|node| node.id < 0) {
            let below: Vec<i32> = crush_view::walk_from(crush, node.id)
                .iter()
                .map(|n| n.id)
                .filter(|id| *id >= 0 && counted(*id))
                .collect();
            if !below.is_empty() && below.iter().all(|osd| down.contains(osd)) {
                types.entry(node.kind).or_default().push((node.id, below.len()));
            }
        }
        let top = crush.type_names.keys().next_back().copied().unwrap_or(0);
        for (kind, buckets) in &types {
            // Only the types that Ceph has a check for.
            let Some(code) = subtree_code(&crush_view::type_name(crush, *kind)) else { continue };
            let kind_name = crush_view::type_name(crush, *kind);
            let osds: usize = buckets.iter().map(|(_, n)| n).sum();
            let plural = if buckets.len() > 1 { "s" } else { "" };
            let detail = buckets.iter().map(|(id, n)| {
                let place = if i32::from(*kind) == top {
                    String::new()
                } else {
                    format!(" ({})", crush_view::location_text(crush, *id))
                };
                format!("{kind_name} {}{place} ({n} osds) is down", crush_view::name(crush, *id))
            });
            let summary = format!("{} {kind_name}{plural} ({osds} osds) down", buckets.len());
            health.add(code, Severity::Warn, summary, detail.collect());
        }
        let detail = down
            .iter()
            .map(|osd| format!("osd.{osd} ({}) is down", crush_view::location_text(crush, *osd)))
            .collect();
        health.add("OSD_DOWN", Severity::Warn, format!("{} osds down", down.len()), detail);
    }

    fn check_flags(&self, health: &mut Health) {
        let flags = osdmap::warn_flags(&self.osdmap);
        if !flags.is_empty() {
            let codes: Vec<String> = flags.split(',').map(|flag| format!("{flag} is set")).collect();
            health.add("OSDMAP_FLAGS", Severity::Warn, format!("{flags} flag(s) set"), codes);
        }
        const FLAGS: u32 = OsdState::NOUP | OsdState::NODOWN | OsdState::NOIN | OsdState::NOOUT;
        let map = &self.osdmap;
        let line = |what: String, flags: u32| {
            let names = osdmap::held_names(flags);
            (!names.is_empty()).then(|| format!("{what} has flags {}", names.join(",")))
        };
        let osds = map.existing_osds().filter_map(|(id, osd)| line(format!("osd.{id}"), osd.state & FLAGS));
        let node = |id: i32| {
            let kind = map.crush.bucket(id).map_or(0, |bucket| bucket.kind);
            let (kind, name) = (crush_view::type_name(&map.crush, kind), crush_view::name(&map.crush, id));
            format!("{kind} {name}")
        };
        let nodes = map.crush_node_flags.iter().filter_map(|(id, flags)| line(node(*id), *flags));
        let class = |id: i32| map.crush.class_names.get(&id).map_or("", String::as_str);
        let classes = map.device_class_flags.iter();
        let classes =
            classes.filter_map(|(id, flags)| line(format!("device class '{}'", class(*id)), *flags));
        let flagged: Vec<String> = osds.chain(nodes).chain(classes).collect();
        if !flagged.is_empty() {
            let summary = format!(
                "{} OSDs or CRUSH {{nodes, device-classes}} have {{NOUP,NODOWN,NOIN,NOOUT}} flags set",
                flagged.len()
            );
            health.add("OSD_FLAGS", Severity::Warn, summary, flagged);
        }
        let map = &self.osdmap;
        let (full, backfill, near) = (map.full_ratio, map.backfillfull_ratio, map.nearfull_ratio);
        if backfill < near || full < backfill {
            let ratio = |value: f32| general(f64::from(value), 6);
            let line = format!(
                "nearfull {}, backfillfull {}, full {} ought to rise",
                ratio(near),
                ratio(backfill),
                ratio(full)
            );
            health.add(
                "OSD_OUT_OF_ORDER_FULL",
                Severity::Error,
                "full ratio(s) out of order".into(),
                vec![line],
            );
        }
    }

    fn check_full(&self, health: &mut Health) {
        let mut found: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        let (mut shards, mut below) = (BTreeMap::<u32, Vec<String>>::new(), Vec::new());
        for (id, entry) in self.osdmap.existing_osds() {
            // An OSD without data does not stop writes.
            if !(osdmap::is_up(&self.osdmap, id.0) && osdmap::is_in(&self.osdmap, id.0)) {
                continue;
            }
            // The worst state alone counts.
            let bit = [OsdState::FULL, OsdState::BACKFILLFULL, OsdState::NEARFULL]
                .into_iter()
                .find(|bit| entry.state & bit != 0);
            if let Some(bit) = bit {
                found.entry(bit).or_default().push(format!("osd.{} is {}", id.0, full_name(bit)));
                let shard = self.alert(id.0, FULLEST_SHARD_ALERT);
                shards.entry(bit).or_default().extend(shard.map(|words| format!("osd.{}: {words}", id.0)));
                below.extend(self.short_below(id.0));
            }
        }
        if !below.is_empty() {
            let summary =
                format!("the file system below {} osd(s) has less space than they may take", below.len());
            health.add("OSD_FILE_SYSTEM_FULL", Severity::Warn, summary, below);
        }
        for (bit, mut detail) in found {
            let (code, severity) = match bit {
                OsdState::FULL => ("OSD_FULL", Severity::Error),
                OsdState::BACKFILLFULL => ("OSD_BACKFILLFULL", Severity::Warn),
                _ => ("OSD_NEARFULL", Severity::Warn),
            };
            let short = full_name(bit).replace(' ', "");
            let summary = format!("{} {short} osd(s)", detail.len());
            detail.append(shards.entry(bit).or_default());
            health.add(code, severity, summary, detail);
        }
    }

    /// How an OSD's store has less than it was made for, if the file system below it is what limits it.
    fn short_below(&self, osd: i32) -> Option<String> {
        let made_for: u64 = self.osd_metadata(osd).get(STORE_BYTES)?.parse().ok()?;
        let space = self.pgmap.osds.get(&osd)?.statfs;
        // What a store keeps for itself is less than a part in 25, or its log: 8 MiB are much of a small one.
        let own = (made_for / 25).max((made_for / 6).min(SMALL_STORE_OWN));
        (space.total < made_for - own).then(|| {
            format!(
                "osd.{osd} may take {}, but its file system lets it have {}, and {} of that are free: free space \
                 there, or delete objects",
                bytes(made_for),
                bytes(space.total),
                bytes(space.available)
            )
        })
    }

    fn check_pools(&self, health: &mut Health) {
        let (mut full, mut near, mut bare, mut single) = (vec![], vec![], vec![], vec![]);
        let (mut odd, mut smaller) = (vec![], vec![]);
        let pools = self.pgmap.pools();
        for (id, name, pool) in osdmap::pools(&self.osdmap) {
            if pool.has_flags(PoolFlags::FULL) {
                let why =
                    if pool.has_flags(PoolFlags::FULL_QUOTA) { "running out of quota" } else { "no space" };
                full.push(format!("pool '{name}' is full ({why})"));
            } else if pool.has_flags(PoolFlags::NEARFULL) {
                near.push(format!("pool '{name}' is nearfull"));
            }
            let objects = pools.get(&id).map_or(0, |stats| stats.sum().num_objects);
            if pool.application_metadata.is_empty() && objects > 0 {
                bare.push(format!("application not enabled on pool '{name}'"));
            }
            if pool.size == 1 {
                single.push(format!("pool '{name}' has no replicas configured"));
            }
            if !pool.pg_num_target.is_power_of_two() {
                odd.push(format!("pool '{name}' pg_num {} is not a power of two", pool.pg_num_target));
            }
            let (pg_num, pgp_num) = (pool.pg_num_target, pool.pgp_num_target);
            if pg_num > pgp_num {
                smaller.push(format!("pool {name} pg_num {pg_num} > pgp_num {pgp_num}"));
            }
        }
        let mut add = |code, summary: &str, mut detail: Vec<String>, hint: Option<&str>, wanted: bool| {
            if wanted && !detail.is_empty() {
                let summary = format!("{} {summary}", detail.len());
                detail.extend(hint.map(str::to_string));
                health.add(code, Severity::Warn, summary, detail);
            }
        };
        add("POOL_FULL", "pool(s) full", full, None, true);
        add("POOL_NEARFULL", "pool(s) nearfull", near, None, true);
        let hint = "use 'ceph osd pool application enable POOL APP', where APP is cephfs, rbd, rgw or a name of your own";
        let no_app = self.options.get(opt::MON_WARN_ON_POOL_NO_APP);
        add("POOL_APP_NOT_ENABLED", "pool(s) do not have an application enabled", bare, Some(hint), no_app);
        let no_copies = self.options.get(opt::MON_WARN_ON_POOL_NO_REDUNDANCY);
        add("POOL_NO_REDUNDANCY", "pool(s) have no replicas configured", single, None, no_copies);
        let powers = self.options.get(opt::MON_WARN_ON_POOL_PG_NUM_NOT_POWER_OF_TWO);
        add("SMALLER_PGP_NUM", "pools have pg_num > pgp_num", smaller, None, true);
        add("POOL_PG_NUM_NOT_POWER_OF_TWO", "pool(s) have non-power-of-two pg_num", odd, None, powers);
    }

    fn check_pgs(&self, now: UTime, health: &mut Health) {
        let threshold = self.options.get(opt::MON_PG_STUCK_THRESHOLD);
        let cutoff = UTime { sec: now.sec.saturating_sub(threshold as u32), nsec: now.nsec };
        let mut found: BTreeMap<PgImpact, ImpactCauses> = BTreeMap::new();
        for (id, pg) in &self.pgmap.pgs {
            for rule in RULES.iter().filter(|rule| rule.applies(pg, cutoff)) {
                let causes = found.entry(rule.impact).or_default();
                *causes.states.entry(rule.bit).or_default() += 1;
                if causes.lines.len() < DETAIL_MAX {
                    let mut line = rule.line(&self.osdmap, *id, pg, now);
                    if self.pgmap.is_elsewhere(*id) {
                        line += &format!(
                            ": its objects are on {}, where the map does not want them, and data can't be moved yet; \
                             undo that change of the map to reach them",
                            osd_names(self.pgmap.home(*id).into_iter().flatten().copied())
                        );
                    }
                    if let Some(reason) = self.why_stopped(*id, pg.state) {
                        line += &format!(": it failed: {reason}");
                    }
                    causes.lines.insert(*id, line);
                }
            }
        }
        let sums = *self.pgmap.total().sum();
        for (impact, ImpactCauses { states, lines }) in found {
            let (code, severity, what) = impact.shown();
            let mut parts: Vec<String> = Vec::new();
            if impact == PgImpact::Degraded && sums.num_objects_degraded > 0 && sums.num_object_copies > 0 {
                let percent = sums.num_objects_degraded as f64 / sums.num_object_copies as f64 * 100.0;
                parts.push(format!(
                    "{}/{} objects degraded ({percent:.3}%)",
                    sums.num_objects_degraded, sums.num_object_copies
                ));
            }
            parts.extend(
                states
                    .iter()
                    .map(|(bit, n)| format!("{n} pg{} {}", if *n > 1 { "s" } else { "" }, state_name(*bit))),
            );
            health.add(
                code,
                severity,
                format!("{what}: {}", parts.join(", ")),
                lines.into_values().collect(),
            );
        }
        let inside = osdmap::osds(&self.osdmap).filter(|osd| osdmap::is_in(&self.osdmap, *osd)).count();
        let copies = (self.pgmap.total().stat.up as u64).max(self.pgmap.pgs.len() as u64);
        let (max, per) = (self.options.get(opt::MON_MAX_PG_PER_OSD), copies / (inside.max(1) as u64));
        if inside > 0 && max > 0 && per > max {
            let summary = format!("too many PGs per OSD ({per} > max {max})");
            health.add("TOO_MANY_PGS", Severity::Warn, summary, vec![]);
        }
    }

    fn check_disk(&self, health: &mut Health) {
        // The shell has not reported the disk yet.
        let Some((total, available)) = self.disk.filter(|(total, _)| *total > 0) else { return };
        let percent = (available as f64 * 100.0 / total as f64) as u64;
        let (code, severity, word) = match percent {
            p if p <= self.options.get(opt::MON_DATA_AVAIL_CRIT) => {
                ("MON_DISK_CRIT", Severity::Error, "very low")
            }
            p if p <= self.options.get(opt::MON_DATA_AVAIL_WARN) => ("MON_DISK_LOW", Severity::Warn, "low"),
            _ => return,
        };
        let name = &self.config.name;
        let detail = format!("mon.{name} has {percent}% avail ({} of {})", bytes(available), bytes(total));
        health.add(code, severity, format!("mon {name} is {word} on available space"), vec![detail]);
    }
}

/// A code for each type of bucket, as Ceph forms them.
fn subtree_code(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "host" => "OSD_HOST_DOWN",
        "chassis" => "OSD_CHASSIS_DOWN",
        "rack" => "OSD_RACK_DOWN",
        "row" => "OSD_ROW_DOWN",
        "pdu" => "OSD_PDU_DOWN",
        "pod" => "OSD_POD_DOWN",
        "room" => "OSD_ROOM_DOWN",
        "datacenter" => "OSD_DATACENTER_DOWN",
        "zone" => "OSD_ZONE_DOWN",
        "region" => "OSD_REGION_DOWN",
        "root" => "OSD_ROOT_DOWN",
        _ => return None,
    })
}

fn full_name(bit: u32) -> &'static str {
    match bit {
        OsdState::FULL => "full",
        OsdState::BACKFILLFULL => "backfill full",
        _ => "near full",
    }
}

/// Which states led to a impact, how often, and a line a PG.
#[derive(Default)]
struct ImpactCauses {
    states: BTreeMap<PgState, usize>,
    lines: BTreeMap<PgId, String>,
}

/// What a PG's state means to users.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PgImpact {
    Unavailable,
    Degraded,
    BackfillFull,
    Damaged,
    RecoveryFull,
}

impl PgImpact {
    fn shown(self) -> (&'static str, Severity, &'static str) {
        match self {
            Self::Unavailable => ("PG_AVAILABILITY", Severity::Warn, "Reduced data availability"),
            Self::Degraded => ("PG_DEGRADED", Severity::Warn, "Degraded data redundancy"),
            Self::BackfillFull => ("PG_BACKFILL_FULL", Severity::Warn, "Low space hindering backfill"),
            Self::Damaged => ("PG_DAMAGED", Severity::Error, "Possible data damage"),
            Self::RecoveryFull => ("PG_RECOVERY_FULL", Severity::Error, "Full OSDs blocking recovery"),
        }
    }
}

/// Since when a PG has a state that a check reports.
struct Rule {
    bit: PgState,
    impact: PgImpact,
    /// The state is bad when it is missing.
    inverted: bool,
    /// Since when the PG was last fine; `None` for a state that is reported at once.
    since: Option<fn(&PgStat) -> UTime>,
}

const fn rule(bit: PgState, impact: PgImpact, since: Option<fn(&PgStat) -> UTime>) -> Rule {
    Rule { bit, impact, inverted: false, since }
}

const RULES: [Rule; 13] = [
    rule(PgState::INCONSISTENT, PgImpact::Damaged, None),
    rule(PgState::INCOMPLETE, PgImpact::Unavailable, None),
    rule(PgState::SNAPTRIM_ERROR, PgImpact::Damaged, None),
    rule(PgState::RECOVERY_UNFOUND, PgImpact::Damaged, None),
    rule(PgState::BACKFILL_UNFOUND, PgImpact::Damaged, None),
    rule(PgState::BACKFILL_TOOFULL, PgImpact::BackfillFull, None),
    rule(PgState::RECOVERY_TOOFULL, PgImpact::RecoveryFull, None),
    rule(PgState::DEGRADED, PgImpact::Degraded, None),
    rule(PgState::DOWN, PgImpact::Unavailable, None),
    rule(PgState::PEERING, PgImpact::Unavailable, Some(|pg| pg.last_peered)),
    rule(PgState::UNDERSIZED, PgImpact::Degraded, Some(|pg| pg.last_fullsized)),
    rule(PgState::STALE, PgImpact::Unavailable, Some(|pg| pg.last_unstale)),
    Rule {
        bit: PgState::ACTIVE,
        impact: PgImpact::Unavailable,
        inverted: true,
        since: Some(|pg| pg.last_active),
    },
];

fn state_name(bit: PgState) -> String {
    if bit == PgState::ACTIVE { "inactive".into() } else { bit.to_string() }
}

impl Rule {
    fn applies(&self, pg: &PgStat, cutoff: UTime) -> bool {
        if pg.state.has(self.bit) == self.inverted {
            return false;
        }
        match self.since.map(|since| since(pg)) {
            None => true,
            Some(since) if since == UTime::default() => pg.last_change < cutoff,
            Some(since) => since < cutoff,
        }
    }

    fn line(&self, map: &OsdMap, id: PgId, pg: &PgStat, now: UTime) -> String {
        let (state, acting) = (pg.state.to_string(), osd_set_text(&pg.acting));
        let mut line = match self.since.map(|since| since(pg)) {
            None => format!("pg {id} is {state}, acting {acting}"),
            Some(since) => {
                let time = if since == UTime::default() {
                    "since forever".to_string()
                } else {
                    format!("for {}", span(u64::from(now.sec.saturating_sub(since.sec))))
                };
                let what = state_name(self.bit);
                format!("pg {id} is stuck {what} {time}, current state {state}, last acting {acting}")
            }
        };
        if self.since.is_none() && pg.stats.sum.num_objects_unfound > 0 {
            line += &format!(", {} unfound", pg.stats.sum.num_objects_unfound);
        }
        let min_size = map.pools.get(&id.pool).map_or(0, |pool| pool.min_size);
        if pg.state.has(PgState::INCOMPLETE) && min_size > 1 {
            line += &format!(
                " (a min_size below {min_size} of pool {} may help)",
                osdmap::pool_name(map, id.pool)
            );
        }
        line
    }
}
