//! A store that is older than what its OSD has acknowledged, as that of a backup, does not serve: it would show what it has as whole.
//! Nor does one whose newest map is not the one that the monitor has by that number: the monitor's state, or the store, is of a backup
//! that has gone on by itself, and maps that follow one do not follow the other.
//!
//! An OSD goes by a map only once that is durable in its store, and the `up_thru` that a map has of it is an epoch that it went by.
//! So a store whose newest map is older than that has lost what came later. That is looked up in the monitor's newest map before the
//! first newer one is stored, since the store's own newest map is the measure. Maps of one number that were made at different times
//! are different maps; when the monitor made that of the store's newest is in its increment, however that is encoded.

use encoding::Decode;
use maps::{Incremental, OsdMap};
use messages::{MonGetOsdMap, OsdSuperblock};
use options::opt;
use types::{Epoch, UTime};

use super::Control;
use crate::parts::Out;
use crate::{LogLevel, OsdPhase};

/// Whether a store has what its OSD acknowledged, as far as maps tell.
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreAge {
    /// It was opened with this as its newest map.
    Unknown { newest: Epoch },
    /// It may serve.
    Fine,
}

impl StoreAge {
    /// Of a store as it was opened. One that has never served has nothing to lose: the map may have the `up_thru` of the store that it
    /// replaces.
    pub(super) fn of(superblock: &OsdSuperblock, pgs: usize) -> Self {
        match superblock.mounted == Epoch(0) && pgs == 0 {
            true => Self::Fine,
            false => Self::Unknown { newest: superblock.newest_map },
        }
    }
}

impl Control {
    /// Whether the store may get newer maps; `newest` is the monitor's. If that is not known yet it asks, and
    /// [`Control::preboot`] follows.
    pub(super) fn knows_store_age(&mut self, newest: u64, out: &mut Out) -> bool {
        let StoreAge::Unknown { newest: stored } = self.store_age else { return true };
        let Some(newest) = u32::try_from(newest).ok().map(Epoch).filter(|newest| *newest >= stored) else {
            // The monitor sees that it is behind.
            self.store_age = StoreAge::Fine;
            return true;
        };
        // Of what it has itself it has gone by every map.
        let full = if newest > stored { newest } else { Epoch(0) };
        let (full_first, full_last, inc_first, inc_last) = (full, full, stored, stored);
        let ask = MonGetOsdMap { full_first, full_last, inc_first, inc_last, ..MonGetOsdMap::default() };
        self.send_mon(ask, out);
        false
    }

    /// Maps came before the store's age is known: none is stored. Those of other OSDs do not count.
    pub(super) fn on_map_of_age(
        &mut self,
        now: UTime,
        stored: Epoch,
        message: &messages::OsdMap,
        out: &mut Out,
    ) {
        let asked = self.mon_maps.and_then(|theirs| u32::try_from(theirs.newest).ok()).map(Epoch);
        let Some(asked) = asked.filter(|_| self.state == OsdPhase::Preboot) else { return };
        let has_no_other = message.maps.is_empty() && message.incremental_maps.keys().all(|of| *of == stored);
        let too_old = match message.maps.get(&asked).map(|bytes| OsdMap::from_bytes(bytes)) {
            Some(Ok(map)) if (map.epoch, map.fsid) == (asked, self.config.cluster_fsid) => {
                self.why_too_old(&map, stored)
            }
            Some(Ok(_) | Err(_)) => {
                self.log(LogLevel::Warn, format!("the monitor's map {asked} can't be read"), out);
                None
            }
            None if has_no_other && message.newest_map >= asked => {
                if asked > stored {
                    self.log(LogLevel::Warn, format!("the monitor does not have map {asked}"), out);
                }
                None
            }
            // Another message.
            None => return,
        };
        if let Some(reason) = self.why_another_history(message, stored) {
            return self.fail(reason);
        }
        match too_old {
            Some(reason) if self.options.get(opt::OSD_ALLOW_OLDER_STORE) => {
                self.log(LogLevel::Warn, format!("{reason}; osd_allow_older_store is set"), out);
            }
            Some(reason) => {
                return self.fail(format!(
                    "{reason}. Put the newer store back; or take what this one has, without what was acknowledged later, with \
                     --set osd_allow_older_store=true"
                ));
            }
            None => {}
        }
        self.store_age = StoreAge::Fine;
        self.preboot(now, out);
    }

    /// Why the store's newest map is not the monitor's, if that still has the one of this number.
    fn why_another_history(&self, message: &messages::OsdMap, stored: Epoch) -> Option<String> {
        let theirs = message.incremental_maps.get(&stored)?;
        let theirs = Incremental::from_bytes(theirs).ok().filter(|theirs| theirs.epoch == stored)?;
        let ours = self.history.newest_map().filter(|ours| ours.epoch == stored)?;
        (theirs.modified != ours.modified).then(|| {
            format!(
                "its OSD map {stored} is another than the monitor's: it was made at {}, and the monitor's at {}. The monitor's state, or \
                 this store, is of an older backup, and maps were made since. With the cluster stopped, put the newer one back; or \
                 make the monitor's state again from the OSDs' maps with `loligo mon rebuild --force DIR` (`loligo mon rebuild \
                 --help` says what that loses)",
                ours.modified, theirs.modified
            )
        })
    }

    /// Why the store is older than what its OSD acknowledged, if the map says so.
    fn why_too_old(&self, map: &OsdMap, stored: Epoch) -> Option<String> {
        let osd =
            map.osd(self.config.whoami).filter(|osd| osd.exists() && osd.uuid == self.config.osd_fsid)?;
        let served = osd.info.up_thru;
        (served > stored).then(|| {
            format!(
                "its store is older than what it has acknowledged: it has OSD map {stored}, and served with map {served}. It is of \
                 an older backup, or its disk has lost what was written"
            )
        })
    }
}
