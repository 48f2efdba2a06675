//! A stored map that is damaged is fetched from a monitor while the OSD loads, and stored whole: one byte that has flipped does not
//! keep all PGs of an OSD from clients.

use core::time::Duration;

use encoding::Decode;
use maps::OsdMap;
use store::Transaction;
use types::{Epoch, UTime};

use super::map_reader::StoredMap;
use super::superblock::{full_map_object, replace_meta};
use super::{Control, OwnIo};
use crate::LogLevel;
use crate::parts::Out;

/// A map that a monitor was asked for.
#[derive(Debug)]
pub(super) struct Fetch {
    epoch: Epoch,
    /// What is wrong with the stored one.
    why: String,
    ask_again: UTime,
}

/// How long an answer may take.
const RETRY: Duration = Duration::from_secs(2);

impl Control {
    /// Has a monitor send the map that the loading waits for.
    pub(super) fn fetch_map(&mut self, now: UTime, epoch: Epoch, why: String, out: &mut Out) {
        self.log(LogLevel::Warn, format!("{why}: map {epoch} is fetched from a monitor"), out);
        self.fetching = Some(Fetch { epoch, why, ask_again: now });
        self.ask_fetched(now, out);
        // Without effect where there is a session.
        let mut effects = Vec::new();
        self.mon.start(now, &mut effects);
        self.perform_mon(now, effects, out);
    }

    /// Asks, also again: another session's answer does not come, and a monitor may not have the map yet.
    pub(super) fn ask_fetched(&mut self, now: UTime, out: &mut Out) {
        if !self.mon.is_ready() {
            return;
        }
        if let Some(fetch) = &mut self.fetching {
            fetch.ask_again = now.after(RETRY);
            let epoch = fetch.epoch;
            self.ask_fulls(Some((epoch, epoch)), out);
        }
    }

    pub(super) fn fetch_tick(&mut self, now: UTime, out: &mut Out) {
        if self.fetching.as_ref().is_some_and(|fetch| fetch.ask_again <= now) {
            self.ask_fetched(now, out);
        }
    }

    /// Without a session its beginning asks.
    pub(super) fn fetch_deadline(&self) -> Option<UTime> {
        self.fetching.as_ref().filter(|_| self.mon.is_ready()).map(|fetch| fetch.ask_again)
    }

    /// The monitor's answer to a fetch, or another that was late: then the fetch goes on.
    pub(super) fn on_fetched(&mut self, now: UTime, fetch: Fetch, message: &messages::OsdMap, out: &mut Out) {
        let (epoch, why) = (fetch.epoch, &fetch.why);
        let Some(bytes) = message.maps.get(&epoch) else {
            let is_empty = message.maps.is_empty() && message.incremental_maps.is_empty();
            match is_empty && message.newest_map >= epoch {
                true => self.fail(format!("{why}; the monitor does not have map {epoch}")),
                false => self.fetching = Some(fetch),
            }
            return;
        };
        let map = match OsdMap::from_bytes(bytes) {
            Ok(map) if (map.epoch, map.fsid) == (epoch, self.config.cluster_fsid) => map,
            Ok(map) => {
                let (found, fsid) = (map.epoch, map.fsid);
                return self.fail(format!("{why}; the monitor sent map {found} of {fsid} for map {epoch}"));
            }
            Err(error) => return self.fail(format!("{why}; the monitor's map {epoch}: {error}")),
        };
        let mut txn = Transaction::new();
        replace_meta(&full_map_object(epoch), bytes.0.clone().into(), &mut txn);
        self.queue(txn, OwnIo::Quiet, out);
        self.on_load_map(now, Ok(Some(Box::new(StoredMap { map, increment: None }))), out);
    }
}
