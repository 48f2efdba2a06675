//! New maps: from the message to the store, and from there, an epoch at a time, to everything that goes by them.

use std::sync::Arc;

use maps::OsdMap;
use messages::MonGetOsdMap;
use options::opt;
use store::{Completion, ReadOutcome, Transaction};
use types::{Epoch, UTime};

use super::map_history::{MapError, MapUpdate, trim};
use super::map_reader::{MapRead, MapReader};
use super::store_age::StoreAge;
use super::superblock::{inc_map_object, read_meta, store_superblock, trim_lower_bound};
use super::{Control, MapPurpose, OwnIo};
use crate::parts::Out;
use crate::{LogLevel, OsdPhase};

impl Control {
    /// Maps came, from the monitor or another OSD.
    pub(crate) fn handle_osd_map(&mut self, now: UTime, message: &messages::OsdMap, out: &mut Out) {
        if self.loading.is_some() || self.state == OsdPhase::Initializing {
            return;
        }
        if let StoreAge::Unknown { newest } = self.store_age {
            return self.on_map_of_age(now, newest, message, out);
        }
        if self.epochs_behind() > self.epochs_behind_max() {
            // The message is dropped, as the maps would be held decoded until the PGs have gone through those before.
            self.maps_refused = true;
            return;
        }
        self.map_messages += 1;
        self.map_epochs += (message.incremental_maps.len() + message.maps.len()) as u64;
        let mut txn = Transaction::new();
        let taken = self.history.take(message, self.config.cluster_fsid, &mut txn);
        let bound = message.cluster_osdmap_trim_lower_bound;
        let bound = trim_lower_bound(&self.superblock).max(bound.min(self.history.newest()));
        self.superblock.cluster_osdmap_trim_lower_bound = Some(bound);
        if let Some(last) = message.last() {
            self.mon.subscriptions().got("osdmap", last.min(self.history.newest()).0.into());
        }
        match taken {
            Ok(MapUpdate::Nothing) => {}
            Ok(MapUpdate::Gap { from }) => {
                self.mon.subscriptions().want_again("osdmap", from.0.into(), 0);
                self.renew_subscriptions(out);
            }
            Ok(MapUpdate::Maps { first, last }) => {
                self.store_maps(first, last, txn, out);
                if !message.maps.is_empty() {
                    // One message does not hold all that were asked for.
                    self.ask_missing_fulls(out);
                }
            }
            Err(error) => {
                self.log(LogLevel::Error, format!("can't use an OSD map: {error}"), out);
                // What came before the bad one counts.
                let newest = self.history.newest();
                if !txn.is_empty() && newest > self.superblock.newest_map {
                    self.store_maps(message.first().unwrap_or(newest), newest, txn, out);
                }
                // An increment that does not fit is no reason to leave out its epoch.
                if !matches!(error, MapError::OtherCluster(_)) {
                    let range = self.history.want_fulls(message);
                    self.ask_fulls(range, out);
                }
            }
        }
    }

    /// How many epochs the slowest PG is behind the newest map.
    fn epochs_behind(&self) -> u64 {
        let superblock = &self.superblock;
        // A new OSD's PGs begin with its first map, those of a restart where they were.
        let reached = self.reached().max(superblock.oldest_map).max(superblock.current_epoch);
        u64::from(self.history.newest().0.saturating_sub(reached.0))
    }

    fn epochs_behind_max(&self) -> u64 {
        let factor = self.options.get(opt::OSD_PG_EPOCH_MAX_LAG_FACTOR);
        (self.options.get(opt::OSD_MAP_CACHE_SIZE) as f64 * factor) as u64
    }

    /// Asks for the maps again that came while the PGs were too far behind, once half of those before are gone through.
    pub(super) fn ask_refused_maps(&mut self, out: &mut Out) {
        if self.maps_refused && self.epochs_behind() <= self.epochs_behind_max() / 2 {
            self.maps_refused = false;
            let next = u64::from(self.history.newest().0) + 1;
            self.mon.subscriptions().want_again("osdmap", next, 0);
            self.renew_subscriptions(out);
            self.ask_missing_fulls(out);
        }
    }

    /// Asks the monitor for full maps that were asked for and have not come: the session may be another one by now.
    pub(crate) fn ask_missing_fulls(&mut self, out: &mut Out) {
        self.ask_fulls(self.history.fulls_missing(), out);
    }

    pub(super) fn ask_fulls(&mut self, range: Option<(Epoch, Epoch)>, out: &mut Out) {
        if let Some((full_first, full_last)) = range {
            self.send_mon(MonGetOsdMap { full_first, full_last, ..MonGetOsdMap::default() }, out);
        }
    }

    fn store_maps(&mut self, first: Epoch, last: Epoch, mut txn: Transaction, out: &mut Out) {
        let superblock = &mut self.superblock;
        if superblock.oldest_map == Epoch(0) {
            superblock.oldest_map = first;
        }
        superblock.newest_map = last;
        // A restart begins at the current epoch: that map has to stay, or what it is made of.
        let bound = maps::trim_bound(trim_lower_bound(superblock).min(superblock.current_epoch));
        superblock.oldest_map = trim(superblock.oldest_map, bound, &mut txn);
        store_superblock(superblock, &mut txn);
        self.map_commits += 1;
        self.queue(txn, OwnIo::Maps { last }, out);
    }

    /// Maps up to `last` are durable: everything moves on to them.
    pub(crate) fn on_maps_stored(&mut self, now: UTime, last: Epoch, out: &mut Out) {
        let Some(commits) = self.map_commits.checked_sub(1) else {
            return out.broken(format!("maps up to {last} are stored, and no commit was under way"));
        };
        self.map_commits = commits;
        self.stored_maps.push_back(last);
        self.follow_maps(now, out);
    }

    /// Goes on with the maps that are stored: the shards get the next when all are through with the one before, so
    /// that no queue of maps grows before a slow one. The gates get the last of each run.
    pub(crate) fn follow_maps(&mut self, now: UTime, out: &mut Out) {
        while let Some(&last) = self.stored_maps.front() {
            if self.state == OsdPhase::Stopped || self.shards_lag() {
                return;
            }
            let before = self.history.epoch();
            if before < last {
                self.advance(now, out);
                if self.history.epoch() == before {
                    return out
                        .broken(format!("maps up to {last} are stored, and there is none after {before}"));
                }
                continue;
            }
            self.stored_maps.pop_front();
            self.note_pgs_stable(out);
            self.ask_refused_maps(out);
            self.check_own_state(now, out);
            self.publish_map(out);
            self.report_after_map(now, out);
        }
    }

    /// Whether a shard is not through with the map that the control part goes by.
    pub(crate) fn shards_lag(&self) -> bool {
        self.shards.iter().any(|shard| shard.applied < self.history.epoch())
    }

    /// One epoch on.
    pub(crate) fn advance(&mut self, now: UTime, out: &mut Out) {
        // There is no later map yet: the caller sees that the epoch is what it was.
        let Some((step, old)) = self.history.advance() else { return };
        self.pgs_advance(now, &step, old.as_deref(), out);
        self.copies_take_map(now, out);
    }

    /// Notes in the superblock the newest map that every PG has durably reached.
    pub(crate) fn note_pgs_stable(&mut self, out: &mut Out) {
        let epoch = self.reached();
        if self.superblock.current_epoch < epoch {
            self.superblock.current_epoch = epoch;
            let mut txn = Transaction::new();
            store_superblock(&self.superblock, &mut txn);
            self.queue(txn, OwnIo::Quiet, out);
        }
    }

    /// Reads a stored map. `base`: the map before it, if it is at hand.
    pub(super) fn read_map(
        &mut self,
        epoch: Epoch,
        base: Option<Arc<OsdMap>>,
        purpose: MapPurpose,
        out: &mut Out,
    ) {
        let reader = Box::new(MapReader::new(epoch, base));
        self.read(reader.request(), OwnIo::StoredMap { reader, purpose }, out);
    }

    pub(super) fn on_map_read(
        &mut self,
        now: UTime,
        mut reader: Box<MapReader>,
        purpose: MapPurpose,
        completion: Completion,
        out: &mut Out,
    ) {
        match (reader.on_read(completion), purpose) {
            (MapRead::Ask, _) => self.read(reader.request(), OwnIo::StoredMap { reader, purpose }, out),
            (MapRead::Done(found), MapPurpose::Load) => self.on_load_map(now, found, out),
            (MapRead::Done(found), MapPurpose::Create) => self.on_create_map(reader.epoch(), found, out),
        }
    }

    /// Reads the increments that peers may lack, from the newest to older ones, one after the other; nothing waits for them.
    pub(super) fn read_old_increments(&mut self, out: &mut Out) {
        let wanted =
            self.options.get(opt::OSD_MAP_SHARE_MAX_EPOCHS).min(self.options.get(opt::OSD_MAP_CACHE_SIZE));
        if let Some(epoch) = self.history.increment_lacked(wanted as usize) {
            self.read(read_meta(inc_map_object(epoch)), OwnIo::OldIncrement { epoch }, out);
        }
    }

    pub(super) fn on_old_increment(&mut self, epoch: Epoch, completion: Completion, out: &mut Out) {
        // One that is trimmed, never came or can't be read ends the row: peers that are further behind ask the monitor.
        let Completion::Read { result: Ok(ReadOutcome::Data(bytes)), .. } = completion else { return };
        if self.history.add_old_increment(epoch, bytes.to_piece()) {
            self.read_old_increments(out);
        }
    }
}
