//! From loaded to active and back: what an OSD says to the monitor so that the map shows it up, and when it stops.

use core::time::Duration;

use messages::{Message, OsdBoot, OsdMarkMeDead, OsdMarkMeDown};
use monclient::{MonClientEffect, VersionRange};
use options::opt;
use store::Transaction;
use types::{EntityAddrVec, Epoch, Fsid, UTime};

use super::superblock::store_superblock;
use super::{Control, OwnIo};
use crate::parts::Out;
use crate::{LogLevel, OsdEffect, OsdEvent, OsdPhase};

/// How long a boot message may go unanswered before it is sent again. Monitors don't lose it, but one may ignore it
/// while the cluster's NOUP flag is set.
const BOOT_RETRY: Duration = Duration::from_secs(10);

/// How long the monitor has to note a clean stop (osd_mon_shutdown_timeout).
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the map has another store for an OSD than the one with this UUID. Before its first start an OSD has none.
pub(super) fn is_of_another_store(osd: &maps::Osd, store: Fsid) -> bool {
    !osd.uuid.is_zero() && osd.uuid != store
}

impl Control {
    /// Begins to boot: asks which maps there are, gets them, and then [`Osd::send_boot`].
    pub(crate) fn start_boot(&mut self, now: UTime, out: &mut Out) {
        if matches!(self.state, OsdPhase::Stopping | OsdPhase::Stopped) {
            return;
        }
        self.state = OsdPhase::Preboot;
        self.mon_maps = None;
        let mut effects = Vec::new();
        self.mon.start(now, &mut effects);
        self.ask_version(&mut effects);
        self.perform_mon(now, effects, out);
    }

    fn ask_version(&mut self, effects: &mut Vec<MonClientEffect>) {
        if self.version_asked.is_none() && self.mon.is_ready() {
            self.version_asked = Some(self.mon.get_version("osdmap", effects));
        }
    }

    /// A session with a monitor is open: sends (again) everything that the monitor must know.
    pub(crate) fn on_mon_ready(&mut self, now: UTime, out: &mut Out) {
        if self.loading.is_some() {
            // It takes no other maps before it has loaded, and asks for what it needs then.
            return self.ask_fetched(now, out);
        }
        let next = u64::from(self.history.newest().0) + 1;
        let subscriptions = self.mon.subscriptions();
        subscriptions.want("mgrmap", 0, 0);
        subscriptions.want_from("osd_pg_creates", 0, 0);
        if self.state != OsdPhase::Preboot {
            subscriptions.want_from("osdmap", next, 0);
        }
        self.renew_subscriptions(out);
        self.ask_missing_fulls(out);
        let mut effects = Vec::new();
        match self.state {
            OsdPhase::Preboot => self.ask_version(&mut effects),
            OsdPhase::Booting => self.send_boot(now, out),
            OsdPhase::Active => {
                self.report_all(now, out);
                self.ask_purged(out);
            }
            OsdPhase::Initializing | OsdPhase::Stopping | OsdPhase::Stopped => {}
        }
        self.perform_mon(now, effects, out);
    }

    pub(crate) fn on_version(&mut self, now: UTime, handle: u64, version: VersionRange, out: &mut Out) {
        if self.version_asked == Some(handle) {
            self.version_asked = None;
            self.mon_maps = Some(version);
            self.preboot(now, out);
        }
    }

    /// Boots if our map is recent enough, otherwise asks for newer ones and comes back here when they are in.
    pub(crate) fn preboot(&mut self, now: UTime, out: &mut Out) {
        // Before the monitor has said which maps there are, or when the OSD boots already, there is nothing to do.
        let (OsdPhase::Preboot, Some(theirs)) = (self.state, self.mon_maps) else { return };
        if !self.knows_store_age(theirs.newest, out) {
            return;
        }
        let have = u64::from(self.history.epoch().0);
        let next = u64::from(self.history.newest().0) + 1;
        // From the first one that the monitor still has; it then begins with a full map.
        let from = if next >= theirs.oldest { next } else { theirs.oldest };
        self.mon.subscriptions().want_from("osdmap", from, 0);
        self.renew_subscriptions(out);
        let near = self.options.get(opt::OSD_MAP_MESSAGE_MAX);
        if have == 0 || have + near <= theirs.newest || self.map_commits > 0 || !self.stored_maps.is_empty() {
            return;
        }
        if self.never_boots() {
            return;
        }
        if self.rebinding {
            // It boots with the address that it is about to get.
            return;
        }
        match self.why_not_boot() {
            Some(reason) => self.log(LogLevel::Warn, format!("waiting to boot: {reason}"), out),
            None => self.send_boot(now, out),
        }
    }

    /// Whether the map that the OSD has does not let it boot with its store. Where that is the newest, it fails: a newer
    /// one might say otherwise.
    fn never_boots(&mut self) -> bool {
        let Some(reason) = self.why_never_boot() else { return false };
        let newest = self.mon_maps.map_or(0, |theirs| theirs.newest);
        if u64::from(self.history.epoch().0) >= newest {
            self.fail(reason);
        }
        true
    }

    /// Why the map has no place for this OSD with this store.
    fn why_never_boot(&self) -> Option<String> {
        let osd = self.history.current()?.osd(self.config.whoami).filter(|osd| osd.exists())?;
        let (theirs, ours) = (osd.uuid, self.config.osd_fsid);
        match osd.state & maps::OsdState::DESTROYED != 0 {
            true => {
                Some("the map says that this OSD is destroyed: it takes an empty store to begin again".into())
            }
            false if is_of_another_store(osd, ours) => {
                Some(format!("the map has another store for this OSD: {theirs}, and this one is {ours}"))
            }
            false => None,
        }
    }

    fn why_not_boot(&self) -> Option<&'static str> {
        use maps::OsdState as Bits;
        let map = self.history.current()?;
        let state = map.osd(self.config.whoami).map_or(0, |osd| osd.state);
        if state & Bits::NOUP != 0 || map.has_flags(maps::MapFlags::NOUP) {
            return Some("noup is set");
        }
        (!map.has_flags(maps::MapFlags::SORTBITWISE)).then_some("the map's sortbitwise flag is not set")
    }

    fn send_boot(&mut self, now: UTime, out: &mut Out) {
        let boot = self.boot_message();
        self.send_mon(boot, out);
        self.state = OsdPhase::Booting;
        self.booting_since = now;
        self.log(LogLevel::Info, format!("booting at map {}", self.history.epoch()), out);
    }

    fn boot_message(&self) -> OsdBoot {
        let addrs = &self.config.addrs;
        let mut metadata = self.config.metadata.clone();
        for (name, addr) in [
            ("front_addr", &addrs.client),
            ("back_addr", &addrs.cluster),
            ("hb_front_addr", &addrs.hb_front),
            ("hb_back_addr", &addrs.hb_back),
        ] {
            metadata.insert(name.into(), addr.to_string());
        }
        OsdBoot {
            paxos: messages::Paxos::at(self.history.epoch().0.into()),
            superblock: self.boot_superblock(),
            hb_back_addrs: addrs.hb_back.clone(),
            hb_front_addrs: addrs.hb_front.clone(),
            cluster_addrs: addrs.cluster.clone(),
            boot_epoch: self.boot_epoch,
            metadata,
            osd_features: self.config.profile.features_supported,
        }
    }

    pub(crate) fn boot_retry_at(&self) -> UTime {
        self.booting_since.after(BOOT_RETRY)
    }

    pub(crate) fn boot_tick(&mut self, now: UTime, out: &mut Out) {
        if self.state == OsdPhase::Booting && self.boot_retry_at() <= now {
            self.start_boot(now, out);
        }
        if self.stop_by.is_some_and(|by| by <= now) {
            self.log(LogLevel::Warn, "the monitor did not note the stop in time", out);
            self.finish_stop(out);
        }
    }

    /// Looks at what the newest map says of this OSD.
    pub(crate) fn check_own_state(&mut self, now: UTime, out: &mut Out) {
        // A new OSD has no map yet.
        let Some(map) = self.history.current().cloned() else { return };
        let me = map.osd(self.config.whoami).filter(|osd| osd.exists());
        let addrs = &self.config.addrs;
        let is_up = me.is_some_and(|osd| osd.is_up());
        let is_me = me.is_some_and(|osd| osd.client_addrs == addrs.client);
        if is_up
            && is_me
            && self.up_epoch == Epoch(0)
            && me.is_some_and(|osd| osd.info.up_from > self.bind_epoch)
        {
            self.up_epoch = map.epoch;
            if self.boot_epoch == Epoch(0) {
                self.boot_epoch = map.epoch;
            }
        }
        match self.state {
            OsdPhase::Booting if self.up_epoch > Epoch(0) => self.become_active(now, out),
            OsdPhase::Active if me.is_none() => self.fail("the map says that this OSD does not exist".into()),
            OsdPhase::Active if !(is_up && is_me) => self.on_marked_down(now, is_up, out),
            OsdPhase::Stopping if !is_up => self.finish_stop(out),
            OsdPhase::Preboot => self.preboot(now, out),
            OsdPhase::Booting => {
                self.never_boots();
            }
            OsdPhase::Initializing | OsdPhase::Active | OsdPhase::Stopping | OsdPhase::Stopped => {}
        }
    }

    fn become_active(&mut self, now: UTime, out: &mut Out) {
        self.state = OsdPhase::Active;
        self.log(LogLevel::Info, format!("active since map {}", self.up_epoch), out);
        out.push(OsdEffect::Active);
        self.report_all(now, out);
        self.begin_purged(now, out);
    }

    /// The map shows this OSD down, or another instance in its place, although it runs: boot again. A later map than this one has to
    /// show us up.
    fn on_marked_down(&mut self, now: UTime, is_up: bool, out: &mut Out) {
        let epoch = self.history.epoch();
        let what = if is_up { "at other addresses" } else { "down, but it is still running" };
        self.log(LogLevel::Warn, format!("map {epoch} shows this OSD {what}"), out);
        if !is_up {
            let dead = OsdMarkMeDead {
                paxos: messages::Paxos::at(epoch.0.into()),
                fsid: self.config.cluster_fsid,
                target_osd: self.config.whoami,
                epoch,
            };
            self.send_mon(dead, out);
        }
        self.up_epoch = Epoch(0);
        self.bind_epoch = epoch;
        self.rebinding = true;
        out.push(OsdEffect::Rebind);
        self.start_boot(now, out);
    }

    /// The host has given the OSD another cluster address.
    pub(crate) fn on_rebound(&mut self, now: UTime, addrs: EntityAddrVec, out: &mut Out) {
        self.log(LogLevel::Info, format!("the cluster address is now {addrs}"), out);
        self.config.addrs.cluster = addrs;
        self.rebinding = false;
        self.preboot(now, out);
    }

    /// A clean stop: the monitor marks the OSD down, so that no client waits for it.
    pub(crate) fn shut_down(&mut self, now: UTime, out: &mut Out) {
        if self.state == OsdPhase::Stopping {
            return;
        }
        let was_active = self.state == OsdPhase::Active;
        self.state = OsdPhase::Stopping;
        if !was_active || !self.mon.is_ready() {
            return self.finish_stop(out);
        }
        self.send_mark_me_down(true, out);
        self.stop_by = Some(now.after(SHUTDOWN_TIMEOUT));
    }

    /// Reports why the OSD cannot go on: to the cluster log, and to the monitor if a map shows this OSD up, so that clients
    /// and peers need not find out. The monitor acknowledges it: a monitor drops what waits there of a session that ended.
    /// It does not say that it is dead, as a clean stop does: parts on other cores serve until they learn of the failure.
    pub(crate) fn report_failure(&mut self, now: UTime, out: &mut Out) {
        let Some(reason) = &self.failure else {
            return out.broken("a failure without a reason is reported");
        };
        let text = format!("osd.{} failed: {reason}", self.config.whoami);
        self.cluster_log(now, LogLevel::Error, text, out);
        if self.up_epoch == Epoch(0) || !self.mon.is_ready() {
            return self.finish_failure(out);
        }
        self.send_mark_me_down(false, out);
        self.stop_by = Some(now.after(SHUTDOWN_TIMEOUT));
    }

    /// The only events that count after a failure: the monitor noted it, is gone, or had its time.
    pub(crate) fn on_event_failing(&mut self, now: UTime, event: OsdEvent, out: &mut Out) {
        let mut effects = Vec::new();
        let mut done = self.stop_by.is_some_and(|by| by <= now);
        if let OsdEvent::Mon(event) = event {
            self.mon.handle(now, event, &mut effects);
        }
        for effect in effects {
            match effect {
                MonClientEffect::Io(io) => out.push(OsdEffect::Mon(io)),
                MonClientEffect::Deliver(Message::OsdMarkMeDown(_)) | MonClientEffect::Lost => done = true,
                MonClientEffect::Deliver(_)
                | MonClientEffect::Ready
                | MonClientEffect::Version(..)
                | MonClientEffect::Warning(_) => {}
            }
        }
        if done {
            self.finish_failure(out);
        }
    }

    fn finish_failure(&mut self, out: &mut Out) {
        // It was finished before: the reason was taken.
        let Some(reason) = self.failure.take() else { return };
        let mut effects = Vec::new();
        self.mon.stop(&mut effects);
        super::push_io(effects, out);
        self.state = OsdPhase::Stopped;
        out.push(OsdEffect::Failed(reason));
    }

    fn send_mark_me_down(&mut self, down_and_dead: bool, out: &mut Out) {
        let epoch = self.history.epoch();
        let down = OsdMarkMeDown {
            paxos: messages::Paxos::at(epoch.0.into()),
            fsid: self.config.cluster_fsid,
            target_osd: self.config.whoami,
            target_addrs: self.config.addrs.client.clone(),
            epoch,
            request_ack: true,
            down_and_dead,
        };
        self.send_mon(down, out);
    }

    /// The monitor knows, or had its time: what was queued before becomes durable with the last superblock.
    pub(crate) fn finish_stop(&mut self, out: &mut Out) {
        self.stop_by = None;
        let mut effects = Vec::new();
        self.mon.stop(&mut effects);
        super::push_io(effects, out);
        if self.loading.is_some() || self.history.epoch() == Epoch(0) {
            self.state = OsdPhase::Stopped;
            return out.push(OsdEffect::Stopped);
        }
        self.superblock.current_epoch = self.superblock.current_epoch.max(self.reached());
        if self.boot_epoch > Epoch(0) {
            // The interval of this start, ended cleanly.
            (self.superblock.mounted, self.superblock.clean_thru) = (self.boot_epoch, self.history.epoch());
        }
        let mut txn = Transaction::new();
        store_superblock(&self.superblock, &mut txn);
        self.queue(txn, OwnIo::Stop, out);
    }
}
