//! What OSDs say: boot, signs of life, failures, reports.

use std::collections::BTreeMap;

use auth::{Access, SessionId};
use encoding::{Decode, Encode};
use maps::{MapFlags, Osd, OsdState, PoolFlags};
use messages::{Message, OsdBoot, OsdFailure, OsdMarkMeDown, OsdSuperblock};
use options::opt;
use types::{EntityAddrVec, EntityType, Epoch, OsdId, PgId, PoolId, SpgId, UTime, broken};

use crate::event::MonEffect;
use crate::mon::{Claim, Mon};
use crate::service::log::LogLevel;
use crate::service::{kept_maps, osdmap};
use crate::state::StateKey;

const METADATA: &str = "osd_metadata";
const POOL_CREATED: &str = "pool_created";
/// Pairs in an OSD's metadata that are kept.
const METADATA_MAX: usize = 256;

fn refuse_boot(osd: i32, why: &str, out: &mut Vec<MonEffect>) {
    out.push(MonEffect::Log(format!("boot of osd.{osd} refused: {why}")));
}

impl Mon {
    /// Messages that only OSDs send; whatever else comes is logged once a kind.
    pub(crate) fn receive_from_osd(
        &mut self,
        now: UTime,
        session: SessionId,
        message: Message,
        out: &mut Vec<MonEffect>,
    ) {
        let Some(known) = self.sessions.get(&session) else {
            return self.fail(broken!("{session} ended while a message of it was handled"));
        };
        let from = match known.info.entity.kind {
            EntityType::Osd => known.info.entity.id.parse::<i32>().ok(),
            _ => None,
        };
        let permitted = known.info.caps.permits(Access::READ | Access::WRITE | Access::EXECUTE);
        let (Some(osd), true) = (from, permitted) else { return self.unhandled(session, &message, out) };
        match message {
            Message::PgStats(m) => self.pg_stats(now, session, osd, &m, out),
            Message::OsdBeacon(_) => drop(self.beacons.insert(osd, now)),
            Message::MonGetPurgedSnaps(m) => self.get_purged_snaps(session, &m, out),
            Message::MonGetOsdMap(m) => self.get_osdmap(session, &m, out),
            // Known from the PG's first report.
            Message::OsdPgCreated(_) => {}
            other if self.is_proposing() => self.wait(session, other, out),
            Message::OsdBoot(m) => self.boot(now, session, osd, m, out),
            Message::OsdAlive(m) => self.alive(now, session, osd, &m, out),
            Message::OsdMarkMeDown(m) => self.mark_me_down(now, session, m, out),
            Message::OsdMarkMeDead(m) => self.mark_me_dead(now, session, osd, m, out),
            Message::OsdFailure(m) => self.failure(now, session, osd, m, out),
            Message::OsdPgTemp(m) => self.pg_temp(now, session, osd, m, out),
            Message::OsdFull(m) => self.full(now, session, osd, m, out),
            other => self.unhandled(session, &other, out),
        }
    }

    /// What an OSD said of itself when it booted.
    pub(crate) fn osd_metadata(&self, osd: i32) -> BTreeMap<String, String> {
        let bytes = self.state.get(&StateKey::name(METADATA, &osd.to_string()));
        bytes.and_then(|bytes| BTreeMap::from_bytes(bytes).ok()).unwrap_or_default()
    }

    /// What an OSD said of itself goes with it.
    pub(crate) fn forget_osd_metadata(&mut self, osd: i32) {
        self.batch().delete(StateKey::name(METADATA, &osd.to_string()));
    }

    fn boot(&mut self, now: UTime, session: SessionId, osd: i32, m: Box<OsdBoot>, out: &mut Vec<MonEffect>) {
        let Some(addrs) = self.sessions.get(&session).map(|s| s.info.peer_addrs.clone()) else {
            return self.fail(broken!("{session} ended while a message of it was handled"));
        };
        let entry = match self.bootable(osd, &addrs, &m.superblock, out) {
            Ok(entry) => entry.clone(),
            Err(why) => return refuse_boot(osd, &why, out),
        };
        if entry.is_up() && entry.client_addrs == addrs && entry.cluster_addrs == m.cluster_addrs {
            // The answer got lost: the map is the answer.
            return self.send_osdmaps(session, u64::from(m.superblock.current_epoch.0) + 1, out);
        }
        if self.osdmap.has_flags(MapFlags::NOUP) || osdmap::is_held(&self.osdmap, osd, OsdState::NOUP) {
            return refuse_boot(osd, "the noup flag is set", out);
        }
        if !self.claim(Claim::Osd(osd)) {
            return self.wait(session, Message::OsdBoot(m), out);
        }
        if entry.is_up() {
            // The former instance goes down in one epoch, this one comes up in the next.
            self.mark_down(now, osd);
            return self.wait(session, Message::OsdBoot(m), out);
        }
        self.bring_up(now, session, osd, &entry, addrs, *m);
    }

    /// The map's entry of an OSD, or why that OSD may not boot with its store.
    fn bootable(
        &self,
        osd: i32,
        addrs: &EntityAddrVec,
        superblock: &OsdSuperblock,
        out: &mut Vec<MonEffect>,
    ) -> Result<&Osd, String> {
        if superblock.cluster_fsid != self.config.fsid {
            return Err("its store belongs to another cluster".into());
        }
        let (has, newest) = (superblock.newest_map, self.osdmap.epoch);
        if has > newest {
            // Maps that were made from now on would have the numbers of others that it has.
            out.push(MonEffect::Behind { osd: OsdId(osd), has, newest });
            return Err(format!("it has map {has}, and the newest here is {newest}"));
        }
        if addrs.0.iter().all(|addr| addr.socket.is_none()) {
            return Err("its session shows no address".into());
        }
        let entry = self.osdmap.osd(OsdId(osd)).ok_or("there is no such OSD")?;
        if entry.state & OsdState::DESTROYED != 0 {
            return Err("it is destroyed".into());
        }
        match entry.uuid.is_zero() || entry.uuid == superblock.osd_fsid {
            true => Ok(entry),
            false => Err("its store is not that OSD's".into()),
        }
    }

    /// Has the increment being gathered bring an OSD up. `entry` is what the map has of it so far.
    fn bring_up(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        entry: &Osd,
        addrs: EntityAddrVec,
        m: OsdBoot,
    ) {
        let (id, epoch) = (OsdId(osd), self.osdmap.epoch);
        let features = match m.osd_features {
            0 => self.features(session),
            features => features,
        };
        let new = entry.state & OsdState::NEW != 0;
        let auto_out = entry.state & OsdState::AUTOOUT != 0;
        let change = self.osdmap_change(now);
        change.new_up_client.insert(id, addrs.clone());
        change.new_up_cluster.insert(id, m.cluster_addrs.clone());
        change.new_hb_back_up.insert(id, m.hb_back_addrs.clone());
        change.new_hb_front_up.insert(id, m.hb_front_addrs.clone());
        if entry.uuid.is_zero() {
            change.new_uuid.insert(id, m.superblock.osd_fsid);
        }
        if m.superblock.newest_map == Epoch(0) && entry.info.up_from > entry.info.lost_at {
            // An empty store where one with data was: what that held is lost.
            change.new_lost.insert(id, epoch);
        }
        let (begin, end) = (m.superblock.mounted, m.superblock.clean_thru);
        if (begin, end) > (entry.info.last_clean_begin, entry.info.last_clean_end) {
            change.new_last_clean_interval.insert(id, (begin, end));
        }
        let mut xinfo = entry.xinfo;
        xinfo.features = features;
        if new || auto_out {
            let weight = if xinfo.old_weight > 0 { xinfo.old_weight } else { maps::OsdMap::WEIGHT_IN };
            xinfo.old_weight = 0;
            change.new_weight.insert(id, weight);
        }
        change.new_xinfo.insert(id, xinfo);
        let metadata: BTreeMap<String, String> = m.metadata.into_iter().take(METADATA_MAX).collect();
        self.batch().put(StateKey::name(METADATA, &osd.to_string()), metadata.to_bytes(0));
        self.say(now, LogLevel::Info, format!("osd.{osd} {addrs} boot"));
        self.pending.maps_to.push((session, u64::from(m.superblock.current_epoch.0) + 1));
        self.beacons.insert(osd, now);
        self.failed_osds.remove(&osd);
        self.forget_remaining_pgs(osd, session);
    }

    /// Marks an OSD down in the increment being gathered.
    pub(crate) fn mark_down(&mut self, now: UTime, osd: i32) {
        self.osdmap_change(now).new_state.insert(OsdId(osd), OsdState::UP);
    }

    fn alive(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        m: &messages::OsdAlive,
        out: &mut Vec<MonEffect>,
    ) {
        // An OSD that was removed: it learns so from the map that it subscribes to.
        let Some(entry) = self.osdmap.osd(OsdId(osd)) else { return };
        let has = m.paxos.version.min(u64::from(self.osdmap.epoch.0));
        if !entry.is_up() || entry.info.up_thru >= m.want {
            return self.send_osdmaps(session, has + 1, out);
        }
        self.osdmap_change(now).new_up_thru.insert(OsdId(osd), Epoch(has as u32));
        self.pending.maps_to.push((session, has + 1));
    }

    fn mark_me_down(&mut self, now: UTime, session: SessionId, m: OsdMarkMeDown, out: &mut Vec<MonEffect>) {
        let osd = m.target_osd;
        let ack = m.request_ack.then(|| {
            let reply = OsdMarkMeDown { request_ack: false, down_and_dead: false, ..m.clone() };
            Message::from(reply)
        });
        let entry = self.osdmap.osd(osd).cloned();
        let Some(entry) =
            entry.filter(|e| e.is_up() && e.client_addrs == m.target_addrs && m.fsid == self.config.fsid)
        else {
            return out.extend(ack.map(|message| MonEffect::Send { session, message }));
        };
        if !self.claim(Claim::Osd(osd.0)) {
            return self.wait(session, m.into(), out);
        }
        let before = self.pending.map_changes;
        self.mark_down(now, osd.0);
        if m.down_and_dead {
            let dead_epoch = m.epoch;
            let xinfo = maps::OsdXInfo { dead_epoch, ..entry.xinfo };
            self.osdmap_change(now).new_xinfo.insert(osd, xinfo);
        }
        self.say(now, LogLevel::Info, format!("{osd_name} marked itself down", osd_name = name(osd)));
        if let Some(ack) = ack {
            self.defer_reply(before, session, ack, None);
        }
    }

    fn mark_me_dead(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        m: messages::OsdMarkMeDead,
        out: &mut Vec<MonEffect>,
    ) {
        let id = OsdId(osd);
        // Of an OSD that was removed there is nothing to mark.
        let Some(entry) = self.osdmap.osd(id).cloned() else { return };
        // For itself only, and nothing is answered: the map shows whether it is known to be dead.
        if m.target_osd != id || entry.is_up() || entry.xinfo.dead_epoch >= m.epoch {
            return;
        }
        if !self.claim(Claim::Osd(osd)) {
            return self.wait(session, m.into(), out);
        }
        let xinfo = maps::OsdXInfo { dead_epoch: m.epoch, ..entry.xinfo };
        self.osdmap_change(now).new_xinfo.insert(id, xinfo);
    }

    /// A report of another OSD's failure. A refused connection counts at once; silence only when OSDs of enough hosts
    /// report it.
    fn failure(
        &mut self,
        now: UTime,
        session: SessionId,
        reporter: i32,
        m: OsdFailure,
        out: &mut Vec<MonEffect>,
    ) {
        let target = m.target_osd;
        let same = self.osdmap.osd(target).is_some_and(|e| e.is_up() && e.client_addrs == m.target_addrs);
        // An old report, from or about an instance that is down now: the reporter learns so from the map.
        if m.fsid != self.config.fsid || !same || !osdmap::is_up(&self.osdmap, reporter) {
            return;
        }
        if m.flags & OsdFailure::FAILED == 0 {
            self.failures.remove(&(target.0, reporter));
            return;
        }
        self.failures.insert((target.0, reporter), now);
        let hosts: std::collections::BTreeSet<String> = self
            .failures
            .keys()
            .filter(|(t, _)| *t == target.0)
            .map(|(_, by)| {
                let place = crate::crush_view::location(&self.osdmap.crush, *by);
                place
                    .into_iter()
                    .find(|(kind, _)| kind == "host")
                    .map_or_else(|| name(OsdId(*by)), |(_, n)| n)
            })
            .collect();
        let immediate = m.flags & OsdFailure::IMMEDIATE != 0;
        let grace = self.options.get(opt::OSD_HEARTBEAT_GRACE) as i64;
        let enough = hosts.len() as u64 >= self.options.get(opt::MON_OSD_MIN_DOWN_REPORTERS);
        let forbidden = self.osdmap.has_flags(MapFlags::NODOWN)
            || osdmap::is_held(&self.osdmap, target.0, OsdState::NODOWN);
        // The report is kept; others may add to it.
        if forbidden || !(immediate || enough && i64::from(m.failed_for) >= grace) {
            return;
        }
        if !self.claim(Claim::Osd(target.0)) {
            return self.wait(session, m.into(), out);
        }
        self.mark_down(now, target.0);
        self.say(now, LogLevel::Info, format!("{} failed (reported by osd.{reporter})", name(target)));
    }

    fn pg_temp(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        m: messages::OsdPgTemp,
        out: &mut Vec<MonEffect>,
    ) {
        // The instance is down now: it gets the map that says so.
        if !osdmap::is_up(&self.osdmap, osd) {
            return;
        }
        for (pg, osds) in m.pg_temp {
            if !self.pgmap.pgs.contains_key(&pg) {
                continue;
            }
            let known = self.osdmap.pg_temp.get(&pg).cloned().unwrap_or_default();
            if known != osds && osds.iter().all(|o| osdmap::is_up(&self.osdmap, o.0)) {
                self.osdmap_change(now).new_pg_temp.insert(pg, osds);
            }
        }
        let has = m.paxos.version.min(u64::from(self.osdmap.epoch.0));
        if self.pending.osdmap.is_some() {
            self.pending.maps_to.push((session, has + 1))
        } else {
            self.send_osdmaps(session, has + 1, out)
        }
    }

    fn full(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        m: messages::OsdFull,
        out: &mut Vec<MonEffect>,
    ) {
        const MASK: u32 = OsdState::FULL | OsdState::BACKFILLFULL | OsdState::NEARFULL;
        // The OSD was removed or is down: it has no state to change, and gets the map that says so.
        let Some(entry) = self.osdmap.osd(OsdId(osd)).cloned() else { return };
        let bits = (entry.state ^ m.state) & MASK;
        if bits == 0 || !entry.is_up() {
            return;
        }
        if self.claim(Claim::Osd(osd)) {
            self.osdmap_change(now).new_state.insert(OsdId(osd), bits);
        } else {
            self.wait(session, m.into(), out)
        }
    }

    fn pg_stats(
        &mut self,
        now: UTime,
        session: SessionId,
        osd: i32,
        m: &messages::PgStats,
        out: &mut Vec<MonEffect>,
    ) {
        let ack =
            m.pg_stat.iter().map(|(pg, stat)| (*pg, (stat.reported_seq, stat.reported_epoch))).collect();
        if m.fsid == self.config.fsid && osdmap::is_up(&self.osdmap, osd) {
            let was_silent = !self.has_reported_all(OsdId(osd));
            self.pgmap.report_osd(now, osd, m.osd_stat.clone(), m.pool_stat.clone());
            for (pg, stat) in &m.pg_stat {
                self.pgmap.report_pg(*pg, stat.clone());
                self.note_pg_state(*pg, stat.state);
                // The report was sent before its OSD knew the newest map.
                self.place_pg(now, *pg);
            }
            if was_silent && self.has_reported_all(OsdId(osd)) {
                self.place_kept(now);
            }
        }
        self.finish_pools(now);
        self.finish_removals(now);
        let ack = messages::PgStatsAck { tid: m.tid, pg_stat: ack };
        out.push(MonEffect::Send { session, message: ack.into() });
    }

    fn get_osdmap(&self, session: SessionId, m: &messages::MonGetOsdMap, out: &mut Vec<MonEffect>) {
        let max = self.options.get(opt::OSD_MAP_MESSAGE_MAX).max(1) as usize;
        let mut reply = messages::OsdMap {
            fsid: self.config.fsid,
            cluster_osdmap_trim_lower_bound: Epoch(kept_maps::first_committed(&self.state) as u32),
            newest_map: self.osdmap.epoch,
            ..Default::default()
        };
        let fulls = u64::from(m.full_first.0)..=u64::from(m.full_last.0.min(self.osdmap.epoch.0));
        for (epoch, full) in kept_maps::fulls(&self.state, fulls.filter(|epoch| *epoch > 0).take(max)) {
            match full {
                Ok(full) => drop(reply.maps.insert(Epoch(epoch as u32), full.into())),
                Err(error) => out.push(MonEffect::Log(error.to_string())),
            }
        }
        let first = u64::from(m.inc_first.0).max(1);
        let last = u64::from(m.inc_last.0);
        for (epoch, bytes) in
            kept_maps::increments(&self.state, first).take_while(|(e, _)| *e <= last).take(max)
        {
            reply.incremental_maps.insert(Epoch(epoch as u32), bytes.to_vec().into());
        }
        out.push(MonEffect::Send { session, message: reply.into() });
    }

    /// The PGs that an OSD leads and that no OSD has reported yet: it must create them. The PGs of a pool that was complete once have
    /// existed: one that no OSD has is lost, and an OSD that made it anew would hide that.
    pub(crate) fn send_pg_creates(
        &self,
        session: SessionId,
        next: u64,
        out: &mut Vec<MonEffect>,
    ) -> Option<u64> {
        let entity = &self.sessions.get(&session)?.info.entity;
        let osd = entity.id.parse::<i32>().ok().filter(|_| entity.kind == EntityType::Osd)?;
        let epoch = u64::from(self.osdmap.epoch.0);
        if next > epoch || !osdmap::is_up(&self.osdmap, osd) {
            return None;
        }
        let mut pgs = BTreeMap::new();
        for (id, _) in self.pgmap.pgs.iter().filter(|(_, pg)| pg.state.is_unknown()) {
            let pool = self.osdmap.pools.get(&id.pool);
            if !pool.is_some_and(|pool| pool.has_flags(PoolFlags::CREATING)) {
                continue;
            }
            let is_led = || self.osdmap.pg_to_up_acting(*id).acting_primary == Some(OsdId(osd));
            if self.forced_pgs.permit(*id) && is_led() {
                let made = self.pg_created(*id);
                let stamp = pool.map(|pool| pool.create_time).unwrap_or_default();
                pgs.insert(SpgId::from(*id), (made, stamp));
            }
        }
        if pgs.is_empty() {
            return None;
        }
        let create = messages::OsdPgCreate2 { epoch: self.osdmap.epoch, pgs, ..Default::default() };
        out.push(MonEffect::Send { session, message: create.into() });
        Some(epoch)
    }

    /// The epoch that a pool was made in.
    pub(crate) fn pool_created(&self, pool: PoolId) -> Epoch {
        let bytes = self.state.get(&StateKey::version(POOL_CREATED, pool.0.max(0) as u64));
        bytes.and_then(|b| Epoch::from_bytes(b).ok()).unwrap_or(Epoch(1))
    }

    /// Keeps the epoch that a pool is made in, for as long as the pool lives.
    pub(crate) fn keep_pool_created(&mut self, pool: PoolId, epoch: Option<Epoch>) {
        let key = StateKey::version(POOL_CREATED, pool.0.max(0) as u64);
        match epoch {
            Some(epoch) => self.batch().put(key, epoch.to_bytes(0)),
            None => {
                self.batch().delete(key);
                self.forget_forced_pgs(pool);
            }
        }
    }

    /// The epoch from which on a PG is to exist.
    fn pg_created(&self, pg: PgId) -> Epoch {
        self.forced_pgs.epoch(pg).unwrap_or_else(|| self.pool_created(pg.pool))
    }

    /// The PGs that exist and the epochs that they were made in.
    pub(crate) fn wanted_pgs(&self) -> BTreeMap<PgId, Epoch> {
        let mut out = BTreeMap::new();
        for (id, pool) in &self.osdmap.pools {
            let made = self.pool_created(*id);
            let pgs = (0..pool.pg_num).map(|seed| PgId { pool: *id, seed });
            out.extend(pgs.map(|pg| (pg, self.forced_pgs.epoch(pg).unwrap_or(made))));
        }
        out
    }
}

fn name(osd: OsdId) -> String {
    format!("osd.{}", osd.0)
}
