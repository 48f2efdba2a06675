//! A stored map that is damaged is fetched from a monitor while the OSD loads, and stored whole: one byte that has flipped does not
//! keep all PGs of an OSD from clients.

use encoding::Decode;
use maps::OsdMap;
use messages::MonGetOsdMap;
use store::{CollectionId, Transaction};
use types::{Epoch, UTime};

use super::map_reader::StoredMap;
use super::superblock::full_map_object;
use super::{Control, OwnIo};
use crate::LogLevel;
use crate::parts::Out;

/// A map that a monitor was asked for.
#[derive(Debug)]
pub(super) struct Fetch {
    epoch: Epoch,
    /// What is wrong with the stored one.
    why: String,
}

impl Control {
    /// Has a monitor send the map that the loading waits for.
    pub(super) fn fetch_map(&mut self, now: UTime, epoch: Epoch, why: String, out: &mut Out) {
        self.log(LogLevel::Warn, format!("{why}: map {epoch} is fetched from a monitor"), out);
        self.fetching = Some(Fetch { epoch, why });
        if self.mon.is_ready() {
            return self.ask_fetched(out);
        }
        let mut effects = Vec::new();
        self.mon.start(now, &mut effects);
        self.perform_mon(now, effects, out);
    }

    /// Asks, also again: another session's answer does not come.
    pub(super) fn ask_fetched(&mut self, out: &mut Out) {
        if let Some(Fetch { epoch, .. }) = self.fetching {
            self.send_mon(
                MonGetOsdMap { full_first: epoch, full_last: epoch, ..MonGetOsdMap::default() },
                out,
            );
        }
    }

    /// The monitor's answer: nothing else makes it send maps before the OSD has loaded.
    pub(super) fn on_fetched(&mut self, now: UTime, message: &messages::OsdMap, out: &mut Out) {
        let Some(Fetch { epoch, why }) = self.fetching.take() else { return };
        let Some(bytes) = message.maps.get(&epoch) else {
            return self.fail(format!("{why}; the monitor has no map {epoch} any more"));
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
        // Truncated first: nothing is kept of one that is damaged.
        txn.truncate(CollectionId::Meta, &full_map_object(epoch), 0);
        txn.write(CollectionId::Meta, &full_map_object(epoch), 0, bytes.0.clone().into());
        self.queue(txn, OwnIo::Quiet, out);
        self.on_load_map(now, Ok(Some(Box::new(StoredMap { map, increment: None }))), out);
    }
}
