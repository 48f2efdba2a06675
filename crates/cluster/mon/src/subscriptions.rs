//! Subscriptions: what a session wants to be kept up to date about, and the messages that do so.

use core::time::Duration;
use std::collections::BTreeMap;

use auth::SessionId;
use buffer::Piece;
use encoding::Encode;
use maps::MgrMap;
use messages::{Blob, LogEntry, Paxos};
use options::opt;
use types::{EntityAddrVec, EntityId, Epoch, UTime, broken};

use crate::event::MonEffect;
use crate::mon::Mon;
use crate::service::log::{CLUSTER, LogLevel, LogLine};
use crate::service::{kept_maps, osdmap};
use crate::session::{SUBSCRIPTIONS_MAX, Subscription};

/// Of the map of file systems. There are none: it is the first map, and the only one.
pub(crate) const FS_MAP_EPOCH: u32 = 1;

/// A client whose operation has no OSD asks for one more map, and for another only at its tick of five seconds. Where
/// several OSDs boot one after the other (an epoch each), the map that it waits for is rarely the first one: for
/// this long it gets those that follow too.
const ONETIME_GOES_ON: Duration = Duration::from_secs(6);

impl Mon {
    /// Adds to a session's subscriptions and sends the newer versions.
    pub(crate) fn subscribe(
        &mut self,
        now: UTime,
        session: SessionId,
        m: &messages::MonSubscribe,
        out: &mut Vec<MonEffect>,
    ) {
        for (what, item) in &m.what {
            let Some(known) = self.sessions.get_mut(&session) else {
                return self.fail(broken!("{session} ended while it subscribed"));
            };
            if known.subscriptions.len() >= SUBSCRIPTIONS_MAX && !known.subscriptions.contains_key(what) {
                let reason = format!("more than {SUBSCRIPTIONS_MAX} subscriptions");
                out.push(MonEffect::Close { session, reason });
                return;
            }
            if LOG_SUBSCRIPTIONS.contains(&what.as_str()) {
                // A watcher has one level: another one takes its place.
                known.subscriptions.retain(|name, _| !LOG_SUBSCRIPTIONS.contains(&name.as_str()));
            }
            let subscription = Subscription { next: item.start, onetime: item.is_onetime(), until: None };
            known.subscriptions.insert(what.clone(), subscription);
            if what == "config" {
                known.config_sent = None;
            }
            self.push(now, session, what, out);
        }
    }

    /// Sends every subscriber the versions that it does not have.
    pub(crate) fn push_all(&mut self, now: UTime, what: &str, out: &mut Vec<MonEffect>) {
        let subscribers = self.sessions.iter().filter(|(_, s)| s.subscriptions.contains_key(what));
        for session in subscribers.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.push(now, session, what, out);
        }
    }

    /// Sends a subscriber the versions that it does not have.
    fn push(&mut self, now: UTime, session: SessionId, what: &str, out: &mut Vec<MonEffect>) {
        let Some(subscription) = self.subscription(session, what) else {
            return self.fail(broken!("{session} is sent '{what}' without a subscription"));
        };
        if subscription.until.is_some_and(|until| until < now) {
            if let Some(known) = self.sessions.get_mut(&session) {
                known.subscriptions.remove(what);
            }
            return;
        }
        let sent_to = match what {
            "monmap" if subscription.next <= u64::from(self.monmap.epoch.0) => {
                self.send_monmap(session, out);
                Some(u64::from(self.monmap.epoch.0))
            }
            "mgrmap" if subscription.next <= u64::from(self.mgrmap.epoch.0) => {
                let map = match self.is_told_of_manager(session) {
                    true => &self.mgrmap,
                    false => &MgrMap { epoch: self.mgrmap.epoch, ..MgrMap::default() },
                };
                let map = map.to_bytes(self.features(session)).into();
                out.push(MonEffect::Send { session, message: messages::MgrMap { map }.into() });
                Some(u64::from(self.mgrmap.epoch.0))
            }
            "osdmap" if subscription.next <= u64::from(self.osdmap.epoch.0) => {
                self.send_osdmaps(session, subscription.next, out);
                Some(u64::from(self.osdmap.epoch.0))
            }
            "config" => {
                self.send_config(session, out);
                None
            }
            "servicemap" if subscription.next <= self.services.epoch() => {
                let map = self.services.contents(osdmap::created(&self.osdmap));
                out.push(MonEffect::Send { session, message: messages::ServiceMap { map }.into() });
                Some(self.services.epoch())
            }
            "fsmap" | "fsmap.user" if subscription.next <= FS_MAP_EPOCH.into() => {
                let message = match what {
                    "fsmap" => messages::FsMap { epoch: FS_MAP_EPOCH, ..Default::default() }.into(),
                    _ => messages::FsMapUser { epoch: FS_MAP_EPOCH }.into(),
                };
                out.push(MonEffect::Send { session, message });
                Some(FS_MAP_EPOCH.into())
            }
            "osd_pg_creates" => self.send_pg_creates(session, subscription.next, out),
            what if LOG_SUBSCRIPTIONS.contains(&what) => self.send_log(session, what, subscription.next, out),
            // The map of a file system's metadata servers: there is none.
            _ => None,
        };
        if let (Some(version), Some(known)) = (sent_to, self.sessions.get_mut(&session)) {
            if subscription.onetime && what != "osdmap" {
                known.subscriptions.remove(what);
            } else if let Some(known) = known.subscriptions.get_mut(what) {
                known.next = version + 1;
                if subscription.onetime && subscription.until.is_none() {
                    known.until = Some(now.after(ONETIME_GOES_ON));
                }
            }
        }
    }

    /// Sends a watcher (`ceph -w`) the newer lines of the cluster log. Answers the version of the last one.
    fn send_log(&self, session: SessionId, what: &str, next: u64, out: &mut Vec<MonEffect>) -> Option<u64> {
        let level = LogLevel::from_name(what.strip_prefix("log-")?)?;
        let version = self.log.version();
        // A new watcher gets the last line of the channel that `ceph -w` shows, as from Ceph, and no older ones.
        let from = if next == 0 { self.log.last_version(level, CLUSTER) } else { next };
        let entries: Vec<LogEntry> = self.log.since(from, level).filter_map(log_entry).collect();
        if !entries.is_empty() {
            let paxos = Paxos { version, ..Paxos::default() };
            let log = messages::Log { paxos, fsid: self.config.fsid, entries };
            out.push(MonEffect::Send { session, message: log.into() });
        }
        (version >= next).then_some(version)
    }

    fn subscription(&self, session: SessionId, what: &str) -> Option<Subscription> {
        self.sessions.get(&session)?.subscriptions.get(what).copied()
    }

    pub(crate) fn features(&self, session: SessionId) -> u64 {
        self.sessions.get(&session).map_or(0, |s| s.info.features)
    }

    pub(crate) fn send_monmap(&mut self, session: SessionId, out: &mut Vec<MonEffect>) {
        let map = self.monmap.to_bytes(self.features(session)).into();
        out.push(MonEffect::Send { session, message: messages::MonMap { map }.into() });
    }

    /// The stored options that apply to an entity.
    pub(crate) fn config_of(&self, entity: &EntityId) -> BTreeMap<String, String> {
        let options = self.settings.of(entity);
        options.into_iter().map(|(option, (_, value))| (option.to_string(), value.to_string())).collect()
    }

    fn send_config(&mut self, session: SessionId, out: &mut Vec<MonEffect>) {
        let Some(known) = self.sessions.get(&session) else {
            return self.fail(broken!("{session} is sent its configuration after it ended"));
        };
        let config = self.config_of(&known.info.entity);
        if known.config_sent.as_ref() == Some(&config) {
            return;
        }
        if let Some(known) = self.sessions.get_mut(&session) {
            known.config_sent = Some(config.clone());
        }
        out.push(MonEffect::Send { session, message: messages::Config { config }.into() });
    }

    /// A full map, encoded, if it is kept.
    fn full_map(&self, epoch: u64, out: &mut Vec<MonEffect>) -> Option<Piece> {
        if epoch == u64::from(self.osdmap.epoch.0) {
            return Some(self.osdmap_full.clone());
        }
        match kept_maps::map(&self.state, epoch) {
            Ok(found) => found.map(|(_, full)| full.into()),
            Err(error) => {
                out.push(MonEffect::Log(error.to_string()));
                None
            }
        }
    }

    /// Full map and increments from `next` (0: the newest full map) to the newest, in messages of a bounded size.
    pub(crate) fn send_osdmaps(&self, session: SessionId, next: u64, out: &mut Vec<MonEffect>) {
        let count_max = self.options.get(opt::OSD_MAP_MESSAGE_MAX).max(1) as usize;
        let bytes_max = self.options.get(opt::OSD_MAP_MESSAGE_MAX_BYTES).max(1) as usize;
        let newest = Epoch(self.osdmap.epoch.0);
        let first = kept_maps::first_committed(&self.state);
        let empty = || messages::OsdMap {
            fsid: self.config.fsid,
            cluster_osdmap_trim_lower_bound: Epoch(first as u32),
            newest_map: newest,
            ..Default::default()
        };
        let mut message = empty();
        let (mut count, mut bytes) = (0, 0);
        let mut from = next;
        if next == 0 || next < first {
            let epoch = if next == 0 { u64::from(newest.0) } else { first };
            if let Some(full) = self.full_map(epoch, out) {
                (count, bytes) = (1, full.len());
                message.maps.insert(Epoch(epoch as u32), Blob(full));
            }
            from = epoch + 1;
        }
        for (epoch, increment) in kept_maps::increments(&self.state, from) {
            if count > 0 && (count >= count_max || bytes + increment.len() > bytes_max) {
                let full = std::mem::replace(&mut message, empty());
                out.push(MonEffect::Send { session, message: full.into() });
                (count, bytes) = (0, 0);
            }
            message.incremental_maps.insert(Epoch(epoch as u32), increment.to_vec().into());
            count += 1;
            bytes += increment.len();
        }
        if count > 0 {
            out.push(MonEffect::Send { session, message: message.into() });
        }
    }
}

/// What a watcher of the cluster log subscribes to, by the least level wanted.
pub(crate) const LOG_SUBSCRIPTIONS: [&str; 5] = ["log-debug", "log-info", "log-sec", "log-warn", "log-error"];

/// A line as a watcher gets it, without the addresses: the log has them as text only.
fn log_entry(line: &LogLine) -> Option<LogEntry> {
    Some(LogEntry {
        name: line.name.parse().ok()?,
        rank: line.rank.parse::<EntityId>().ok()?.instance()?,
        addrs: EntityAddrVec::default(),
        stamp: line.stamp,
        seq: line.seq,
        level: line.level as u16,
        message: line.text.as_str().into(),
        channel: line.channel.clone(),
    })
}
