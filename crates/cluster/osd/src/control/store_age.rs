//! A store that is older than what its OSD has acknowledged, as that of a backup, does not serve: it would show what it has as whole.
//!
//! An OSD goes by a map only once that is durable in its store, and the `up_thru` that a map has of it is an epoch that it went by.
//! So a store whose newest map is older than that has lost what came later. That is looked up in the monitor's newest map before the
//! first newer one is stored, since the store's own newest map is the measure.

use encoding::Decode;
use maps::OsdMap;
use messages::OsdSuperblock;
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
        let Some(newest) = u32::try_from(newest).ok().map(Epoch).filter(|newest| *newest > stored) else {
            // Of what it has itself it has gone by every map.
            self.store_age = StoreAge::Fine;
            return true;
        };
        self.ask_fulls(Some((newest, newest)), out);
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
        let is_empty = message.maps.is_empty() && message.incremental_maps.is_empty();
        let too_old = match message.maps.get(&asked).map(|bytes| OsdMap::from_bytes(bytes)) {
            Some(Ok(map)) if (map.epoch, map.fsid) == (asked, self.config.cluster_fsid) => {
                self.why_too_old(&map, stored)
            }
            Some(Ok(_) | Err(_)) => {
                self.log(LogLevel::Warn, format!("the monitor's map {asked} can't be read"), out);
                None
            }
            None if is_empty && message.newest_map >= asked => {
                self.log(LogLevel::Warn, format!("the monitor does not have map {asked}"), out);
                None
            }
            // Another message.
            None => return,
        };
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
