//! OSDMaps: from the monitor and from OSDs, in order, and what each means to the requests under way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use encoding::Decode;
use maps::{Incremental, MapFlags, OsdMap};
use types::{Epoch, Errno, OsdId, PoolId, UTime};

use crate::event::ObjecterEffect;
use crate::objecter::Objecter;
use crate::placement::{Change, is_full};

/// The number of a wait for the newest map.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapWaitId(pub u64);

/// Why the monitor was asked for its newest epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum VersionWanted {
    /// To know whether the pool of this request exists.
    Pool(u64),
    Wait(MapWaitId),
}

/// The pools that were full before a message's maps or in any of them: their OSDs drop writes.
struct FullPools(BTreeSet<PoolId>);

/// What is to be sent again.
#[derive(Default)]
struct Again {
    /// By tid.
    requests: BTreeSet<u64>,
    /// By cookie.
    lingers: BTreeSet<u64>,
}

impl FullPools {
    fn note(&mut self, map: &OsdMap) {
        self.0.extend(map.pools.keys().filter(|pool| is_full(map, **pool)));
    }
}

impl Objecter {
    /// Takes the maps of a message that are new. Requests are compared with every epoch: a PG that went away and came
    /// back has dropped them in between.
    pub(crate) fn on_osd_map(
        &mut self,
        now: UTime,
        message: &messages::OsdMap,
        out: &mut Vec<ObjecterEffect>,
    ) {
        let fsid = self.map.as_ref().map_or(self.config.fsid, |map| map.fsid);
        if !fsid.is_zero() && message.fsid != fsid {
            let text = format!("maps of the cluster {} ignored", message.fsid);
            return out.push(ObjecterEffect::Warning(text));
        }
        // A message without a map.
        let Some(last) = message.last() else { return };
        if last <= self.epoch() {
            return;
        }
        let was_paused = self.pauses_anything();
        let mut full = FullPools(BTreeSet::new());
        self.map.iter().for_each(|map| full.note(map));
        let mut resend = Again::default();
        if let Err(error) = self.take_maps(now, message, last, &mut full, &mut resend, out) {
            out.push(ObjecterEffect::Warning(format!("{error}; the newest full map is asked for")));
            (self.map, self.map_was_lost) = (None, true);
        }
        self.subscriptions_got_map();
        let wanted = self.map_waits.keys().next().is_some();
        if was_paused || self.pauses_anything() || self.epoch() < self.barrier || wanted || self.map.is_none()
        {
            self.request_map(now, out);
        }
        // First: what they have under way is not sent again with its old tid.
        self.register_again(now, resend.lingers, out);
        resend.requests.into_iter().for_each(|tid| self.assign(now, tid, out));
        self.finish_map_waits(out);
    }

    /// Takes a map that the client's owner has: an OSD is a client of others by its own maps. They come in order, and each
    /// of them; one that is not newer is ignored. A request whose pool such a map lacks must not be submitted: only a
    /// monitor could say that it never existed.
    pub fn take_map(&mut self, now: UTime, map: Arc<OsdMap>, out: &mut Vec<ObjecterEffect>) {
        if map.epoch <= self.epoch() {
            return;
        }
        let skipped = self.map.as_ref().is_some_and(|before| before.epoch.next() != map.epoch);
        let mut full = FullPools(BTreeSet::new());
        self.map.iter().for_each(|before| full.note(before));
        full.note(&map);
        self.map = Some(map);
        self.placements.clear();
        let mut resend = Again::default();
        self.compare_requests(skipped, &full, &mut resend, out);
        self.register_again(now, resend.lingers, out);
        resend.requests.into_iter().for_each(|tid| self.assign(now, tid, out));
        self.finish_map_waits(out);
        self.checked();
    }

    /// Applies the maps in order and collects in `resend` what has to be sent again.
    fn take_maps(
        &mut self,
        now: UTime,
        message: &messages::OsdMap,
        last: Epoch,
        full: &mut FullPools,
        resend: &mut Again,
        out: &mut Vec<ObjecterEffect>,
    ) -> Result<(), String> {
        // Without a map it begins with the newest whole one.
        let first = self.map.is_none().then(|| message.maps.keys().next_back().copied()).flatten();
        let mut skipped = first.is_some() && std::mem::take(&mut self.map_was_lost);
        let mut next = first.unwrap_or(self.epoch().next());
        while next <= last {
            if !self.read_epoch(message, next)? {
                let bound = message.cluster_osdmap_trim_lower_bound;
                if self.map.is_none() || next >= bound {
                    self.request_map(now, out);
                    break;
                }
                // The cluster has no longer what lies between.
                (next, skipped) = (bound, true);
                continue;
            }
            self.map.iter().for_each(|map| full.note(map));
            self.compare_requests(skipped, full, resend, out);
            next = next.next();
        }
        Ok(())
    }

    /// Takes one epoch. Returns whether the message has it.
    fn read_epoch(&mut self, message: &messages::OsdMap, epoch: Epoch) -> Result<bool, String> {
        let bad = |error: &dyn std::fmt::Display| format!("OSD map {epoch} is not usable: {error}");
        let base = self.map.as_mut().filter(|map| map.epoch.next() == epoch);
        if let (Some(map), Some(bytes)) = (base, message.incremental_maps.get(&epoch)) {
            let increment = Incremental::from_bytes(bytes).map_err(|e| bad(&e))?;
            Arc::make_mut(map).apply(&increment).map_err(|e| bad(&e))?;
        } else if let Some(bytes) = message.maps.get(&epoch) {
            self.map = Some(Arc::new(OsdMap::from_bytes(bytes).map_err(|e| bad(&e))?));
        } else {
            return Ok(false);
        }
        self.placements.clear();
        match self.epoch() == epoch {
            true => Ok(true),
            false => Err(bad(&format_args!("it says that it is {}", self.epoch()))),
        }
    }

    fn compare_requests(
        &mut self,
        skipped: bool,
        full: &FullPools,
        resend: &mut Again,
        out: &mut Vec<ObjecterEffect>,
    ) {
        let tids: Vec<u64> = self.pending.keys().copied().collect();
        for tid in tids {
            let change = self.place(tid);
            let (Some(map), Some(pending)) = (&self.map, self.pending.get_mut(&tid)) else {
                debug_assert!(false, "request {tid} ended while another was compared");
                continue;
            };
            pending.prune_snaps(map);
            let dropped = full.0.contains(&pending.request.pool()) && pending.respects_full();
            match change {
                Change::None if !skipped && !dropped => {}
                Change::None | Change::Resend => {
                    pending.home = None;
                    resend.requests.insert(tid);
                    self.cancel_map_check(tid);
                }
                Change::PoolGone => self.on_pool_gone(tid, out),
                Change::PoolEio => self.end_unanswered(tid, Errno::EIO, out),
            }
        }
        self.compare_lingers(skipped, &mut resend.lingers, out);
        self.close_moved_sessions(resend, out);
    }

    /// Closes the sessions of OSDs that are down or have other addresses.
    fn close_moved_sessions(&mut self, resend: &mut Again, out: &mut Vec<ObjecterEffect>) {
        // Without a map there are no sessions.
        let Some(map) = &self.map else { return };
        let moved = |osd: OsdId, addrs| !map.is_up(osd) || map.client_addrs(osd) != Some(addrs);
        let osds = self.sessions.iter().filter(|(osd, s)| moved(**osd, &s.addrs));
        for osd in osds.map(|(osd, _)| *osd).collect::<Vec<_>>() {
            self.close_session(osd, out);
            resend.lingers.extend(self.lingers_of(osd));
            for (tid, pending) in self.pending.iter_mut().filter(|(_, p)| p.home == Some(osd)) {
                pending.home = None;
                resend.requests.insert(*tid);
            }
        }
    }

    /// A request's pool is not in the map: it was deleted, or is newer than the map, or never was.
    pub(crate) fn on_pool_gone(&mut self, tid: u64, out: &mut Vec<ObjecterEffect>) {
        let epoch = self.epoch();
        let Some(pending) = self.pending.get_mut(&tid) else {
            debug_assert!(false, "request {tid} is placed and has ended");
            return;
        };
        if pending.placement.is_some() {
            pending.pool_gone_from = Some(epoch);
        }
        match pending.pool_gone_from {
            Some(from) if epoch >= from => self.end_unanswered(tid, Errno::ENOENT, out),
            Some(_) => {}
            None => self.ask_version(VersionWanted::Pool(tid), out),
        }
    }

    fn ask_version(&mut self, why: VersionWanted, out: &mut Vec<ObjecterEffect>) {
        if self.versions.values().any(|w| *w == why) {
            return;
        }
        let handle = self.with_mon(out, |mon, effects| mon.get_version("osdmap", effects));
        self.versions.insert(handle, why);
    }

    pub(crate) fn cancel_map_check(&mut self, tid: u64) {
        self.versions.retain(|_, why| *why != VersionWanted::Pool(tid));
    }

    /// The monitor said which epoch is the newest.
    pub(crate) fn on_version(&mut self, now: UTime, handle: u64, newest: u64, out: &mut Vec<ObjecterEffect>) {
        // The request has ended, or its pool has come.
        let Some(why) = self.versions.remove(&handle) else { return };
        let newest = Epoch(u32::try_from(newest).unwrap_or(u32::MAX));
        match why {
            VersionWanted::Pool(tid) => {
                if let Some(pending) = self.pending.get_mut(&tid) {
                    pending.pool_gone_from.get_or_insert(newest);
                    self.on_pool_gone(tid, out);
                }
            }
            VersionWanted::Wait(id) => self.map_waits.entry(newest).or_default().push(id),
        }
        self.finish_map_waits(out);
        if self.epoch() < newest {
            self.request_map(now, out);
        }
    }

    fn finish_map_waits(&mut self, out: &mut Vec<ObjecterEffect>) {
        let later = self.map_waits.split_off(&self.epoch().next());
        let reached = std::mem::replace(&mut self.map_waits, later);
        out.extend(reached.into_values().flatten().map(ObjecterEffect::MapReached));
    }

    /// Answers with [`ObjecterEffect::MapReached`] once the map is as new as the newest that the monitor has now: after
    /// a command, requests then see its effect.
    pub fn wait_for_latest_map(&mut self, out: &mut Vec<ObjecterEffect>) -> MapWaitId {
        let id = MapWaitId(self.next_tid());
        self.ask_version(VersionWanted::Wait(id), out);
        id
    }

    /// Holds every request back until the map has this epoch: what was sent by older ones cannot be trusted (after a
    /// client was fenced).
    pub fn set_epoch_barrier(&mut self, now: UTime, epoch: Epoch, out: &mut Vec<ObjecterEffect>) {
        if epoch > self.barrier {
            self.barrier = epoch;
            self.request_map(now, out);
        }
    }

    fn pauses_anything(&self) -> bool {
        let flags = MapFlags::PAUSERD | MapFlags::PAUSEWR;
        self.map
            .as_ref()
            .is_some_and(|map| map.flags & flags != 0 || map.pools.keys().any(|pool| is_full(map, *pool)))
    }

    fn subscriptions_got_map(&mut self) {
        let epoch = self.epoch().0.into();
        self.mon.subscriptions().got("osdmap", epoch);
    }

    /// Asks for the next map: once, or for all to come while a flag of this one holds requests back.
    pub(crate) fn request_map(&mut self, now: UTime, out: &mut Vec<ObjecterEffect>) {
        let start = match self.map {
            Some(_) => u64::from(self.epoch().next().0),
            None => 0,
        };
        let waits = MapFlags::FULL | MapFlags::PAUSERD | MapFlags::PAUSEWR;
        let all = self.map.as_ref().is_some_and(|map| map.flags & waits != 0);
        let flags = if all { 0 } else { monclient::ONETIME };
        self.map_requested_at = Some(now);
        if self.mon.subscriptions().want("osdmap", start, flags) {
            self.with_mon(out, |mon, effects| mon.renew(effects));
        }
    }
}

/// Waits for epochs, by epoch.
pub(crate) type MapWaits = BTreeMap<Epoch, Vec<MapWaitId>>;
