//! What operations leave to do beyond their object, when it is durable: see [`OpEffect`]. And the removal of watches
//! that have ended from their objects, which no client asks for.

use core::time::Duration;

use encoding::Encode;
use ops::{OpEffect, OpOutcome, WatchId};
use store::Attrs;
use types::{HObject, ReqId};

use crate::attrs::INFO_ATTR;
use crate::objects::{Loaded, ObjectSlot};
use crate::out::Out;
use crate::pg::ClientChange;
use crate::request::Request;
use crate::run::own_change;
use crate::watches::{Asker, NewNotify};
use crate::{Bug, EntryKind, LogEntry, ObjectSteps, Pg};

/// Objects whose watches end in one event.
const OBJECTS_PER_TICK: usize = 64;

/// What to do when a change is durable.
#[derive(Debug)]
pub(crate) struct Effects {
    pub by: Asker,
    pub all: Vec<OpEffect>,
}

impl Effects {
    /// Those of a request that has run; `None` if there are none, as with most.
    pub fn of(request: &Request, outcome: &mut OpOutcome) -> Option<Box<Self>> {
        let all = std::mem::take(&mut outcome.effects);
        let by = Asker {
            name: request.caller.reqid.name,
            session: (!request.session_ended).then_some(request.session),
        };
        (outcome.result >= 0 && !all.is_empty()).then(|| Box::new(Self { by, all }))
    }
}

impl Pg {
    /// The numbers that a run has given to notifies are used.
    pub(crate) fn note_notifies(&mut self, outcome: &OpOutcome) {
        let notifies = outcome.effects.iter().filter(|effect| matches!(effect, OpEffect::Notify { .. }));
        self.watches.use_notify_ids(notifies.count());
    }

    /// Performs the effects of a change of an object that is durable now.
    pub(crate) fn perform_of_change(&mut self, slot: ObjectSlot, effects: Effects, out: &mut Out<'_>) {
        let Some(object) = self.objects.get(slot) else {
            return self.broken("an operation's effects are on an object without a context", out);
        };
        let oid = object.oid.clone();
        let user_version = match &object.loaded {
            Loaded::Yes(state) => state.info.user_version,
            Loaded::No | Loaded::Reading | Loaded::Bad(_) => 0,
        };
        self.perform(&oid, user_version, effects, out);
    }

    pub(crate) fn perform(&mut self, oid: &HObject, user_version: u64, effects: Effects, out: &mut Out<'_>) {
        let Effects { by, all } = effects;
        for effect in all {
            match effect {
                OpEffect::Watch { info, pings } => {
                    self.watches.connect(oid, &info, pings, by, self.now, out);
                }
                OpEffect::Ping { cookie } => self.watches.ping(oid, (cookie, by.name), self.now),
                OpEffect::Unwatch { watcher, disconnect } => {
                    self.watches.remove(oid, watcher, disconnect, out);
                }
                OpEffect::Notify { id, cookie, timeout_seconds, payload } => {
                    let timeout = Duration::from_secs(timeout_seconds.into());
                    let new = NewNotify { id, cookie, timeout, payload, user_version };
                    self.watches.notify(oid, new, by, self.now, out);
                }
                OpEffect::NotifyAck { id, cookie, reply } => {
                    self.watches.ack(oid, id, cookie, &reply, by, out);
                }
            }
        }
    }

    pub(crate) fn on_watch_tick(&mut self, out: &mut Out<'_>) {
        for oid in self.watches.expire(self.now, OBJECTS_PER_TICK, out) {
            let slot = self.objects.slot(&oid);
            self.pump(slot, out);
        }
    }

    /// Watches of clients that the map shuts out end.
    pub(crate) fn fence_watches(&mut self) {
        // Most PGs have no watch, and this is asked of each PG with each map.
        let (Some(map), false) = (&self.map, self.watches.is_empty()) else { return };
        // An OSD goes through older maps again at its start: who is shut out by one of those may watch since a later one.
        if map.epoch < self.records.info.last_update.epoch {
            return;
        }
        self.watches.fence(|addr| map.osdmap.is_blocklisted(addr), self.now);
    }

    /// An object's metadata are known, in this interval.
    pub(crate) fn note_watchers(&mut self, slot: ObjectSlot) {
        let Some(Loaded::Yes(state)) = self.objects.get(slot).map(|object| &object.loaded) else { return };
        if !state.info.watchers.is_empty() && !self.config.planted.is(Bug::LoadForgetsWatches) {
            self.watches.load(&state.info.oid, &state.info.watchers, self.now);
            self.fence_watches();
        }
    }

    /// An interval has started: the objects that the PG still knows have their watches again.
    pub(crate) fn note_kept_watchers(&mut self) {
        let slots: Vec<ObjectSlot> = self.objects.iter().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.note_watchers(slot));
    }

    /// The removal of watches of an object is not made, or undone.
    pub(crate) fn retry_watches(&mut self, slot: ObjectSlot) {
        if let Some(oid) = self.objects.get(slot).map(|object| &object.oid) {
            self.watches.retry(oid, self.now);
        }
    }

    /// Makes the change that removes the watches of an object that have ended, if they may be removed now. Whether the
    /// object's metadata must be read for it first.
    pub(crate) fn remove_ended_watches(&mut self, slot: ObjectSlot, out: &mut Out<'_>) -> bool {
        let Some(object) = self.objects.get(slot) else { return false };
        if !self.watches.is_ending(&object.oid) || !self.phase.serves_requests() {
            return false;
        }
        match object.loaded {
            Loaded::No => return true,
            Loaded::Yes(_) if self.admits(object, own_change()) => {
                let oid = object.oid.clone();
                self.remove_watches(slot, oid, out);
            }
            // Asked again when the request that has the object is done.
            Loaded::Yes(_) | Loaded::Reading => {}
            Loaded::Bad(_) => self.retry_watches(slot),
        }
        false
    }

    /// As Ceph's handle_watch_timeout.
    fn remove_watches(&mut self, slot: ObjectSlot, oid: HObject, out: &mut Out<'_>) {
        let (ended, version) = (self.watches.take_ending(&oid), self.next_version());
        let (Some(ghobject), Some(Loaded::Yes(state))) =
            (self.ghobject(slot), self.objects.get_mut(slot).map(|object| &mut object.loaded))
        else {
            return self.broken("a watch ends on an object that is not loaded", out);
        };
        // A change that is not durable yet may have removed a watch: its effect ends it here.
        let ended: Vec<WatchId> =
            ended.into_iter().filter(|id| state.info.watchers.remove(id).is_some()).collect();
        if ended.is_empty() {
            return;
        }
        let mut entry = LogEntry::new(EntryKind::Modify, oid, version, ReqId::default());
        entry.prior_version = std::mem::replace(&mut state.info.version, version);
        state.info.prior_version = entry.prior_version;
        entry.mtime = self.now;
        let mut steps = ObjectSteps::of(self.records.collection);
        let info = state.info.to_bytes(u64::MAX).into();
        steps.set_attrs(&ghobject, Attrs::from([(INFO_ATTR.into(), info)]));
        let by = Asker { name: Default::default(), session: None };
        let all = ended.into_iter().map(|watcher| OpEffect::Unwatch { watcher, disconnect: true }).collect();
        let client = ClientChange {
            slot,
            reply: None,
            request: None,
            effects: Some(Box::new(Effects { by, all })),
            trimmed: None,
            stats: Default::default(),
        };
        self.submit(Vec::new(), Box::new(entry), steps, client, out);
    }
}
