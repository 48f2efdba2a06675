//! Events to placement groups, and what they want done.

use std::sync::Arc;

use auth::SessionId;
use maps::{OsdMap, PoolFlags};
use messages::{OsdPgCreated, Paxos};
use options::opt;
use pg::{ClientOp, LogLimits, Notice, Pg, PgConfig, PgEffect, PgEvent, PgFailure, Phase};
use store::{CollectionId, Completion, Fault, Token};
use types::{SpgId, UTime};

use crate::osd::Out;
use crate::pg_view::{Mapping, view};
use crate::pgs::{PgEntry, PgSlot};
use crate::{LogLevel, Osd};

impl Osd {
    /// Hands an event to a PG and does what it wants.
    fn pg_handle(&mut self, now: UTime, pgid: SpgId, event: PgEvent, out: &mut Out) {
        let Some(entry) = self.pgs.entries.get_mut(&pgid) else {
            return self.broken(format!("an event for pg {pgid}, which is not here"), out);
        };
        let mut effects = Vec::new();
        entry.pg.handle(now, event, out, &mut effects);
        self.pg_perform(now, pgid, effects, out);
    }

    pub(crate) fn pg_perform(&mut self, now: UTime, pgid: SpgId, effects: Vec<PgEffect>, out: &mut Out) {
        for effect in effects {
            self.pg_effect(now, pgid, effect, out);
        }
        self.pg_looked_at(now, pgid, out);
    }

    fn pg_effect(&mut self, now: UTime, pgid: SpgId, effect: PgEffect, out: &mut Out) {
        let Some(entry) = self.pgs.entries.get_mut(&pgid) else {
            return self.broken(format!("an effect of pg {pgid}, which is not here"), out);
        };
        match effect {
            PgEffect::Reply { session, reply } => self.reply(session, *reply, out),
            PgEffect::Read { token, request } => {
                let Some(token) = entry.slot.token(token) else { return self.out_of_tokens(pgid, out) };
                out.push(crate::OsdEffect::Read { token, request });
            }
            PgEffect::Queue { token, txn } => {
                let Some(token) = entry.slot.token(token) else { return self.out_of_tokens(pgid, out) };
                if self.advancing {
                    self.advance_commits.insert(token);
                }
                self.throttle.queue(token, txn.payload_bytes());
                out.push(crate::OsdEffect::Queue { token, txn });
            }
            PgEffect::Acknowledge { token } => {
                let Some(token) = entry.slot.token(token) else { return self.out_of_tokens(pgid, out) };
                out.push(crate::OsdEffect::Acknowledge { token });
            }
            PgEffect::RequestsDropped => {
                let resumed = self.throttle.release_pg(pgid);
                out.extend(resumed.into_iter().map(crate::OsdEffect::Resume));
            }
            PgEffect::Notice(notice) => self.pg_notice(pgid, notice, out),
            PgEffect::Failed(failure) => self.pg_failed(now, pgid, failure, out),
            PgEffect::Removed => {
                self.pgs.remove(&pgid);
                self.log(LogLevel::Debug, format!("pg {pgid} is removed"), out);
            }
        }
    }

    /// A restart begins to count again.
    fn out_of_tokens(&mut self, pgid: SpgId, out: &mut Out) {
        self.fail(format!("pg {pgid} has used all store tokens of this start: restart the OSD"), out);
    }

    fn pg_notice(&mut self, pgid: SpgId, notice: Notice, out: &mut Out) {
        let (level, text) = match notice {
            Notice::UnsupportedOp { code } => {
                (LogLevel::Warn, format!("operation {code:#06x} is not there yet"))
            }
            Notice::Dropped { session, tid, reason } => {
                self.release(session, tid, out);
                (LogLevel::Debug, format!("dropped a request: {reason}"))
            }
            Notice::NotServed { reason } => (LogLevel::Warn, format!("not served: {reason}")),
            Notice::ChangeRefused { error } => {
                (LogLevel::Error, format!("the store refused a client's change: {error}"))
            }
            Notice::BadObject { reason } => (LogLevel::Error, reason),
        };
        self.log(level, format!("pg {pgid}: {text}"), out);
    }

    fn pg_failed(&mut self, now: UTime, pgid: SpgId, failure: PgFailure, out: &mut Out) {
        match failure {
            // The device is gone: nothing else on it can be trusted to last.
            PgFailure::Refused(error) if error.fault() == Fault::Disk && !error.is_local() => {
                self.fail(format!("pg {pgid}: {error}"), out);
            }
            failure => self.log(LogLevel::Error, format!("pg {pgid} has stopped: {failure}"), out),
        }
        self.stats_changed(now);
    }

    /// Notes what an event changed of a PG's state.
    fn pg_looked_at(&mut self, now: UTime, pgid: SpgId, out: &mut Out) {
        // The event may have ended with the PG's removal.
        let Some(entry) = self.pgs.entries.get_mut(&pgid) else { return };
        let active = entry.pg.is_active() && entry.mapping.leads;
        let changed = active != entry.active;
        if changed {
            entry.active = active;
            entry.changed = now;
            entry.to_announce = active;
            if active {
                entry.became_active = now;
            }
        }
        let announce = entry.to_announce && entry.pg.is_stored();
        entry.to_announce &= !announce;
        if changed {
            self.stats_changed(now);
        }
        if announce {
            self.announce_pg(pgid, out);
        }
    }

    /// Tells the monitor that a PG of a pool that is being made exists, once it does so durably: the monitor orders it
    /// no more.
    fn announce_pg(&mut self, pgid: SpgId, out: &mut Out) {
        if self.is_being_created(pgid) {
            self.pgs.created.insert(pgid.pg);
            self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pgid.pg }, out);
        }
    }

    pub(crate) fn is_being_created(&self, pgid: SpgId) -> bool {
        let pool = self.history.current().and_then(|map| map.pools.get(&pgid.pg.pool));
        pool.is_some_and(|pool| pool.has_flags(PoolFlags::CREATING))
    }

    /// Tells the monitor (again) which PGs of pools that are not complete yet were made.
    pub(crate) fn pgs_resend_created(&mut self, out: &mut Out) {
        for pg in self.pgs.created.clone() {
            self.send_mon(OsdPgCreated { paxos: Paxos::default(), pgid: pg }, out);
        }
    }

    pub(crate) fn pg_client_op(&mut self, now: UTime, op: ClientOp, out: &mut Out) {
        let pgid = op.op.pgid;
        self.throttle.hand_to(op.session, op.op.tid, pgid);
        self.pg_handle(now, pgid, PgEvent::ClientOp(Box::new(op)), out);
    }

    pub(crate) fn pg_completion(
        &mut self,
        now: UTime,
        slot: PgSlot,
        inner: Token,
        token: Token,
        completion: Completion,
        out: &mut Out,
    ) {
        let was_advancing = self.advance_commits.remove(&token);
        let room = self.throttle.dequeue(token);
        if let Some(pgid) = self.pgs.by_slot(slot) {
            let event = match completion {
                Completion::Committed { .. } => PgEvent::Committed { token: inner },
                Completion::Refused { error, .. } => PgEvent::Refused { token: inner, error },
                // The OSD moves no collection between shards.
                Completion::Rehomed { .. } => {
                    return self.broken(format!("pg {pgid} was moved to another store shard unasked"), out);
                }
                Completion::Read { result, .. } => PgEvent::ReadDone { token: inner, result },
            };
            let was_loading = self.pgs.is_loading(&pgid);
            // A refusal undoes records behind it that belong to reaching a map: the PG writes them again.
            self.advancing = matches!(event, PgEvent::Refused { .. });
            self.pg_handle(now, pgid, event, out);
            self.advancing = false;
            if was_loading && !self.pgs.is_loading(&pgid) {
                self.pg_loaded(now, pgid, out);
            }
        }
        if was_advancing && self.loading.is_none() {
            self.note_pgs_stable(out);
        }
        if room {
            self.sessions_ready(now, out);
        }
    }

    /// A PG has read what it keeps, or failed to: it gets the map, and the OSD goes on when it was the last.
    fn pg_loaded(&mut self, now: UTime, pgid: SpgId, out: &mut Out) {
        if let Some(map) = self.history.current().cloned() {
            self.pg_advance(now, pgid, &map, out);
        }
        self.pgs_loaded(now, out);
    }

    /// Gives a PG the next map, unless it has seen it.
    fn pg_advance(&mut self, now: UTime, pgid: SpgId, map: &Arc<OsdMap>, out: &mut Out) {
        let whoami = self.config.whoami;
        let Some(entry) = self.pgs.entries.get_mut(&pgid) else {
            return self.broken(format!("map {} for pg {pgid}, which is not here", map.epoch), out);
        };
        match entry.pg.phase() {
            // A PG that loads gets the map then; the others need none any more.
            Phase::Loading | Phase::Removing | Phase::Failed => return,
            Phase::Inactive | Phase::Active => {}
        }
        if map.epoch < entry.pg.info().stats.reported_epoch {
            // The OSD goes through stored maps again at its start.
            return;
        }
        let Some(view) = view(map, &pgid) else {
            return self.pg_remove(now, pgid, out);
        };
        let mapping = Mapping::of(&view, whoami);
        let moved = !mapping.is_same_place(&entry.mapping);
        if moved {
            entry.changed = now;
            entry.mapping = mapping;
        }
        entry.mapping.size = view.pool.size;
        self.advancing = true;
        self.pg_handle(now, pgid, PgEvent::AdvanceMap(Box::new(view)), out);
        self.advancing = false;
        if moved {
            self.stats_changed(now);
        }
    }

    /// The pool is gone: everything stored goes too, a part at a time.
    fn pg_remove(&mut self, now: UTime, pgid: SpgId, out: &mut Out) {
        self.pg_handle(now, pgid, PgEvent::Remove, out);
        self.stats_changed(now);
    }

    /// One epoch on for all PGs.
    pub(crate) fn pgs_advance(&mut self, now: UTime, map: &Arc<OsdMap>, old: Option<&OsdMap>, out: &mut Out) {
        self.note_pg_numbers(now, map, old, out);
        for pgid in self.pgs.ids() {
            self.pg_advance(now, pgid, map, out);
        }
        let known: Vec<SpgId> =
            self.pgs.deferred.iter().filter(|p| map.pools.contains_key(&p.pg.pool)).copied().collect();
        for pgid in known {
            self.pgs.deferred.remove(&pgid);
            self.pg_load(now, pgid, out);
        }
        let creating =
            |pool: &types::PoolId| map.pools.get(pool).is_some_and(|p| p.has_flags(PoolFlags::CREATING));
        self.pgs.created.retain(|pg| creating(&pg.pool));
        self.create_pgs(now, out);
    }

    /// Says it where a pool's number of PGs changes: neither splits nor merges are there yet.
    fn note_pg_numbers(&mut self, now: UTime, map: &OsdMap, old: Option<&OsdMap>, out: &mut Out) {
        self.pgs.unsplit.retain(|id, made| map.pools.get(id).is_some_and(|pool| pool.pg_num > *made));
        for (id, before) in old.into_iter().flat_map(|old| &old.pools) {
            let Some(after) = map.pools.get(id).filter(|pool| pool.pg_num != before.pg_num) else { continue };
            let (was, is) = (before.pg_num, after.pg_num);
            let problem = match is > was {
                true => {
                    self.pgs.unsplit.entry(*id).or_insert(was);
                    "split yet: objects that belong to the new PGs are not served"
                }
                false => "merged yet: the objects of the PGs that are gone are not served",
            };
            let text = format!(
                "pool {}: pg_num goes from {was} to {is}, but PGs can't be {problem}; set pg_num back to {was}",
                id.0
            );
            self.cluster_log(now, LogLevel::Error, text, out);
        }
    }

    /// The store's collections are known: each is a PG.
    pub(crate) fn pgs_found(&mut self, now: UTime, collections: Vec<CollectionId>, out: &mut Out) {
        let Some(map) = self.history.current().cloned() else {
            return self.broken("PGs are looked for before the first map is loaded", out);
        };
        self.pgs_configure();
        for collection in collections {
            let CollectionId::Pg(pgid) = collection else { continue };
            match map.pools.contains_key(&pgid.pg.pool) {
                true => self.pg_load(now, pgid, out),
                false => {
                    self.pgs.deferred.insert(pgid);
                }
            }
        }
    }

    fn pg_load(&mut self, now: UTime, pgid: SpgId, out: &mut Out) {
        let mut effects = Vec::new();
        let pg = Pg::load(pgid, self.config.whoami, self.pgs.config.clone(), &mut effects);
        self.insert_pg(now, pgid, pg, Mapping::default());
        self.pg_perform(now, pgid, effects, out);
    }

    pub(crate) fn insert_pg(&mut self, now: UTime, pgid: SpgId, pg: Pg, mapping: Mapping) {
        let slot = self.pgs.new_slot(pgid);
        let entry = PgEntry {
            slot,
            pg,
            mapping,
            active: false,
            to_announce: false,
            changed: now,
            became_active: now,
        };
        self.pgs.entries.insert(pgid, entry);
    }

    /// All maps are gone through. Collections of pools that no map had are of pools that came and went in a hole
    /// between maps: they go.
    pub(crate) fn pgs_drop_unknown(&mut self, now: UTime, out: &mut Out) {
        for pgid in std::mem::take(&mut self.pgs.deferred) {
            let mut effects = Vec::new();
            let config = self.pgs.config.clone();
            let pg = Pg::remove_leftover(pgid, self.config.whoami, config, &mut effects);
            self.insert_pg(now, pgid, pg, Mapping::default());
            self.pg_perform(now, pgid, effects, out);
        }
    }

    /// A session ended: the PGs that have requests of it forget those that did not begin.
    pub(crate) fn pgs_session_reset(&mut self, now: UTime, session: SessionId, out: &mut Out) {
        for pgid in self.throttle.pgs_of(session) {
            self.pg_handle(now, pgid, PgEvent::SessionReset { session }, out);
        }
    }

    pub(crate) fn pgs_tick(&mut self) {
        if self.pgs.configured_for != self.pgs.len() {
            self.pgs_configure();
        }
    }

    /// Gives PGs the options as they have them.
    pub(crate) fn pgs_configure(&mut self) {
        let (o, pgs) = (&self.options, self.pgs.len());
        let mut config = PgConfig::default();
        config.ops.object_size_max = o.get(opt::OSD_MAX_OBJECT_SIZE);
        config.ops.attr_size_max = o.get(opt::OSD_MAX_ATTR_SIZE);
        config.ops.attr_name_len_max = o.get(opt::OSD_MAX_ATTR_NAME_LEN);
        config.ops.omap_entries_max = o.get(opt::OSD_MAX_OMAP_ENTRIES_PER_REQUEST);
        config.ops.read_bytes_max = o.get(opt::OSD_READ_BYTES_MAX);
        config.log = LogLimits {
            entries_target: LogLimits::share(
                o.get(opt::OSD_TARGET_PG_LOG_ENTRIES_PER_OSD) as usize,
                pgs,
                o.get(opt::OSD_MIN_PG_LOG_ENTRIES) as usize,
                o.get(opt::OSD_MAX_PG_LOG_ENTRIES) as usize,
            ),
            trim_min: o.get(opt::OSD_PG_LOG_TRIM_MIN) as usize,
            trim_max: o.get(opt::OSD_PG_LOG_TRIM_MAX) as usize,
            dups_tracked: o.get(opt::OSD_PG_LOG_DUPS_TRACKED),
        };
        config.object_name_len_max = o.get(opt::OSD_MAX_OBJECT_NAME_LEN) as usize;
        config.namespace_len_max = o.get(opt::OSD_MAX_OBJECT_NAMESPACE_LEN) as usize;
        config.write_bytes_max = (o.get(opt::OSD_MAX_WRITE_SIZE) as usize) << 20;
        self.pgs.configured_for = pgs;
        self.pgs.configure(config);
    }
}
