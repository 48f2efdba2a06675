//! Service daemons that registered with the manager by librados: `rbd-mirror`, `radosgw` and others.
//!
//! The map of them is in memory only, since daemons come again after a start. Its epochs never go back, also across a kill.

use std::collections::BTreeMap;
use std::time::Duration;

use messages::{MappedDaemon, MappedService, ServiceMapContents};
use types::{EntityAddr, Name, UTime};

use super::reserved::Reserved;
use crate::state::{Batch, State, StateKey};

/// What a daemon says of itself, by name.
pub(crate) type Facts = BTreeMap<String, String>;

/// What a text counts in [`ServiceMap`]'s limit beside its bytes.
const TEXT_OVERHEAD: usize = 64;

/// The services that are the cluster's own daemons: they are not listed among the others.
const OWN_KINDS: [&str; 5] = ["osd", "client", "mon", "mds", "mgr"];

/// Epochs that one durable write reserves.
const BLOCK: u64 = 100;

/// The first epoch, of a cluster that never had a service.
const FIRST: u64 = 1;

fn key() -> StateKey {
    StateKey::name("servicemap", "max_epoch")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServiceDaemon {
    /// The global id and the address of the client that it is.
    pub gid: u64,
    pub addr: EntityAddr,
    /// Where and when it came.
    pub start_epoch: u64,
    pub start_stamp: UTime,
    pub metadata: Facts,
    pub task_status: Facts,
    pub status: Facts,
    pub status_stamp: UTime,
    /// When it was last heard of.
    pub last_beacon: UTime,
}

impl ServiceDaemon {
    /// What the daemon counts in the limit, with the two names that it is found by.
    fn cost(&self, service: &str, name: &str) -> usize {
        let names = service.len() + name.len() + 2 * TEXT_OVERHEAD;
        let maps = [&self.metadata, &self.task_status, &self.status];
        names + TEXT_OVERHEAD + maps.into_iter().map(cost).sum::<usize>()
    }
}

fn epoch_number(epoch: u64) -> u32 {
    u32::try_from(epoch).unwrap_or(u32::MAX)
}

fn cost(facts: &Facts) -> usize {
    facts.iter().map(|(key, value)| key.len() + value.len() + 2 * TEXT_OVERHEAD).sum()
}

pub(crate) fn facts(said: &BTreeMap<Name, Name>) -> Facts {
    said.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

/// A daemon that introduces itself.
#[derive(Clone, Debug)]
pub(crate) struct Registration {
    pub service: String,
    pub name: String,
    pub gid: u64,
    pub addr: EntityAddr,
    pub metadata: Facts,
    pub status: Facts,
}

/// What became of what a daemon said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Noted,
    /// It did not register, or too long ago.
    Unknown,
    /// With it the texts of all daemons would exceed the limit.
    TooMuch,
}

/// The daemons of each service, by name. All texts together have a limit, which the caller gives.
#[derive(Clone, Debug)]
pub(crate) struct ServiceMap {
    /// Rises with every change.
    counted: u64,
    epochs: Reserved,
    /// The time of the last change.
    modified: Option<UTime>,
    services: BTreeMap<String, BTreeMap<String, ServiceDaemon>>,
    /// What all daemons cost.
    bytes: usize,
}

impl ServiceMap {
    /// After a start: every epoch that was reserved before counts as shown, and as those of the map that the start has
    /// emptied.
    pub(crate) fn open(state: &State, now: UTime) -> Self {
        let epochs = Reserved::open(key(), BLOCK, state);
        let (counted, modified) = match epochs.durable() {
            0 => (FIRST, None),
            shown => (shown + 1, Some(now)),
        };
        Self { counted, epochs, modified, services: BTreeMap::new(), bytes: 0 }
    }

    /// The newest epoch that may be shown. It is behind the changes until the block is durable that they are in.
    pub(crate) fn epoch(&self) -> u64 {
        self.counted.min(self.epochs.durable().max(FIRST))
    }

    /// Reserves epochs as they are needed; none before the first service.
    pub(crate) fn reserve(&mut self, batch: &mut Batch) {
        if self.counted > FIRST {
            self.epochs.reserve(self.counted + 1, batch);
        }
    }

    /// A batch is durable: its reservation may be used.
    pub(crate) fn committed(&mut self, state: &State) {
        self.epochs.committed(state);
    }

    /// The map as subscribers get it. `unchanged`: the time of a map that never changed.
    pub(crate) fn contents(&self, unchanged: UTime) -> ServiceMapContents {
        let name = |text: &String| Name::from(text.as_str());
        let named = |facts: &Facts| facts.iter().map(|(key, value)| (name(key), name(value))).collect();
        let daemon = |daemon: &ServiceDaemon| MappedDaemon {
            gid: daemon.gid,
            addr: daemon.addr,
            start_epoch: epoch_number(daemon.start_epoch),
            start_stamp: daemon.start_stamp,
            metadata: named(&daemon.metadata),
            task_status: named(&daemon.task_status),
        };
        let service = |daemons: &BTreeMap<String, ServiceDaemon>| MappedService {
            daemons: daemons.iter().map(|(key, value)| (name(key), daemon(value))).collect(),
            summary: Name::new(),
        };
        ServiceMapContents {
            epoch: epoch_number(self.epoch()),
            modified: self.modified.unwrap_or(unchanged),
            services: self.services.iter().map(|(key, daemons)| (name(key), service(daemons))).collect(),
        }
    }

    /// `None`: nothing has changed since the start.
    pub(crate) fn modified(&self) -> Option<UTime> {
        self.modified
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, ServiceDaemon>)> {
        self.services.iter().map(|(service, daemons)| (service.as_str(), daemons))
    }

    /// The services that are not the cluster's own daemons.
    pub(crate) fn others(&self) -> impl Iterator<Item = (&str, &BTreeMap<String, ServiceDaemon>)> {
        self.services().filter(|(service, _)| !OWN_KINDS.contains(service))
    }

    /// Notes a daemon in place of another client of the same name. The same client that connects again keeps its entry and
    /// gets the new status.
    pub(crate) fn register(&mut self, now: UTime, said: Registration, limit: usize) -> Taken {
        let Registration { service, name, gid, addr, metadata, status } = said;
        let known = self.services.get(&service).and_then(|daemons| daemons.get(&name));
        let same = known.filter(|known| known.gid == gid);
        let is_new = same.is_none();
        let daemon = match same {
            Some(known) => ServiceDaemon { status, status_stamp: now, last_beacon: now, ..known.clone() },
            None => ServiceDaemon {
                gid,
                addr,
                start_epoch: self.counted + 1,
                start_stamp: now,
                metadata,
                task_status: Facts::new(),
                status,
                status_stamp: now,
                last_beacon: now,
            },
        };
        let freed = known.map_or(0, |known| known.cost(&service, &name));
        let bytes = self.bytes - freed + daemon.cost(&service, &name);
        if bytes > limit {
            return Taken::TooMuch;
        }
        self.bytes = bytes;
        self.services.entry(service).or_default().insert(name, daemon);
        if is_new {
            self.changed(now);
        }
        Taken::Noted
    }

    /// A daemon is heard of, and says its state or its tasks where they are new.
    pub(crate) fn report(
        &mut self,
        now: UTime,
        (service, name, gid): (&str, &str, u64),
        status: Option<Facts>,
        tasks: Option<Facts>,
        limit: usize,
    ) -> Taken {
        let found = self.services.get_mut(service).and_then(|daemons| daemons.get_mut(name));
        let Some(daemon) = found.filter(|daemon| daemon.gid == gid) else { return Taken::Unknown };
        daemon.last_beacon = now;
        let before = [&daemon.status, &daemon.task_status].map(cost);
        let after = [status.as_ref().map_or(before[0], cost), tasks.as_ref().map_or(before[1], cost)];
        let bytes = self.bytes - before.iter().sum::<usize>() + after.iter().sum::<usize>();
        if bytes > limit && bytes > self.bytes {
            return Taken::TooMuch;
        }
        self.bytes = bytes;
        if let Some(status) = status {
            (daemon.status, daemon.status_stamp) = (status, now);
        }
        if let Some(tasks) = tasks.filter(|tasks| *tasks != daemon.task_status) {
            daemon.task_status = tasks;
            self.changed(now);
        }
        Taken::Noted
    }

    /// A daemon leaves; one that took its name stays.
    pub(crate) fn leave(&mut self, now: UTime, (service, name, gid): (&str, &str, u64)) {
        self.drop_where(now, |of, named, daemon| of == service && named == name && daemon.gid == gid);
    }

    /// Forgets the daemons that were not heard of for so long.
    pub(crate) fn prune(&mut self, now: UTime, grace: Duration) {
        self.drop_where(now, |_, _, daemon| daemon.last_beacon.after(grace) < now);
    }

    fn drop_where(&mut self, now: UTime, goes: impl Fn(&str, &str, &ServiceDaemon) -> bool) {
        let before = self.bytes;
        for (service, daemons) in &mut self.services {
            daemons.retain(|name, daemon| {
                let goes = goes(service, name, daemon);
                if goes {
                    self.bytes -= daemon.cost(service, name);
                }
                !goes
            });
        }
        self.services.retain(|_, daemons| !daemons.is_empty());
        if self.bytes != before {
            self.changed(now);
        }
    }

    fn changed(&mut self, now: UTime) {
        self.counted += 1;
        self.modified = Some(now);
    }

    /// What all texts count, counted anew.
    pub(crate) fn is_counted_right(&self) -> bool {
        let daemons = self
            .services
            .iter()
            .flat_map(|(service, daemons)| daemons.iter().map(|(name, daemon)| daemon.cost(service, name)));
        daemons.sum::<usize>() == self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn register(map: &mut ServiceMap, gid: u64) {
        let said = Registration {
            service: "s".into(),
            name: "n".into(),
            gid,
            addr: EntityAddr::default(),
            metadata: Facts::new(),
            status: Facts::new(),
        };
        assert_eq!(map.register(UTime::default(), said, usize::MAX), Taken::Noted);
    }

    #[test]
    fn epochs_never_go_back_and_are_shown_only_when_they_are_reserved() {
        let (mut state, mut shown) = (State::new(), 0);
        for round in 0..5 {
            let mut map = ServiceMap::open(&state, UTime::default());
            assert!(map.epoch() >= shown, "round {round}: {} after {shown}", map.epoch());
            for gid in 0..round * 70 {
                register(&mut map, gid);
                let mut batch = Batch::default();
                map.reserve(&mut batch);
                let before = map.epoch();
                assert!(before >= shown);
                // The last commit is lost with the process.
                if gid + 1 < round * 70 {
                    batch.apply_to(&mut state);
                    map.committed(&state);
                }
                assert!(map.epoch() >= before);
                shown = map.epoch();
            }
        }
        assert!(shown > 700, "every change is a new epoch: {shown}");
    }

    #[test]
    fn a_cluster_without_services_writes_nothing_and_stays_at_its_first_epoch() {
        let (state, mut batch) = (State::new(), Batch::default());
        let mut map = ServiceMap::open(&state, UTime::default());
        map.reserve(&mut batch);
        assert!(batch.is_empty());
        assert_eq!((map.epoch(), map.modified()), (1, None));
    }
}
