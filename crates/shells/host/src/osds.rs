//! The OSDs of the process, as its main thread knows them: it starts and stops them one by one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use osd::Placement;
use types::OsdId;

/// What an OSD of this process does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OsdState {
    /// Its store is open, and it is on its way to take part.
    Starting,
    /// It takes part.
    Active,
    /// Its store is open, but it does not boot (osd_debug_no_boot).
    Held,
    /// It was asked to stop.
    Stopping,
    /// It was stopped by a command; the process goes on.
    Stopped,
    /// Its store can't be opened or failed, or the map has no place for it.
    Failed(String),
}

impl OsdState {
    /// As `loligo status` shows it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Active => "active",
            Self::Held => "held",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Failed(_) => "failed",
        }
    }

    /// Whether its parts run.
    pub fn runs(&self) -> bool {
        match self {
            Self::Starting | Self::Active | Self::Held | Self::Stopping => true,
            Self::Stopped | Self::Failed(_) => false,
        }
    }
}

/// The states, for the threads that show them.
pub(crate) type OsdStates = Arc<Mutex<BTreeMap<OsdId, OsdState>>>;

struct OsdEntry {
    placement: Arc<Placement>,
    state: OsdState,
    /// Cores that still have parts of it.
    cores_left: usize,
    /// The nonce of its addresses since its last start.
    nonce: u32,
}

/// All OSDs of the process.
pub(crate) struct OsdTable {
    entries: BTreeMap<OsdId, OsdEntry>,
    shown: OsdStates,
}

impl OsdTable {
    pub(crate) fn new(shown: OsdStates) -> Self {
        Self { entries: BTreeMap::new(), shown }
    }

    /// Adds an OSD, or one that ran before and starts again. One that failed before it ran has no parts anywhere.
    pub(crate) fn add(&mut self, osd: OsdId, placement: Arc<Placement>, nonce: u32, state: OsdState) {
        let cores_left = if state.runs() { placement.cores() } else { 0 };
        self.entries.insert(osd, OsdEntry { placement, state: state.clone(), cores_left, nonce });
        self.show(osd, state);
    }

    pub(crate) fn state(&self, osd: OsdId) -> Option<&OsdState> {
        self.entries.get(&osd).map(|entry| &entry.state)
    }

    pub(crate) fn set(&mut self, osd: OsdId, state: OsdState) {
        if let Some(entry) = self.entries.get_mut(&osd) {
            entry.state = state.clone();
            self.show(osd, state);
        }
    }

    fn show(&self, osd: OsdId, state: OsdState) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).insert(osd, state);
    }

    /// A core has no part of it any more.
    pub(crate) fn core_ended(&mut self, osd: OsdId) {
        if let Some(entry) = self.entries.get_mut(&osd) {
            entry.cores_left = entry.cores_left.saturating_sub(1);
        }
    }

    /// Whether no core has a part of it: its store is closed, and its ports are free.
    pub(crate) fn has_ended(&self, osd: OsdId) -> bool {
        self.entries.get(&osd).is_some_and(|entry| entry.cores_left == 0)
    }

    pub(crate) fn placement(&self, osd: OsdId) -> Option<&Arc<Placement>> {
        self.entries.get(&osd).map(|entry| &entry.placement)
    }

    pub(crate) fn nonce(&self, osd: OsdId) -> Option<u32> {
        self.entries.get(&osd).map(|entry| entry.nonce)
    }

    /// The OSDs in the states that `picks` takes.
    pub(crate) fn having(&self, picks: impl Fn(&OsdState) -> bool) -> Vec<OsdId> {
        self.entries.iter().filter(|(_, entry)| picks(&entry.state)).map(|(osd, _)| *osd).collect()
    }

    pub(crate) fn states(&self) -> BTreeMap<OsdId, OsdState> {
        self.entries.iter().map(|(osd, entry)| (*osd, entry.state.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_has_ended_when_every_core_has_let_go_of_it() {
        let mut table = OsdTable::new(OsdStates::default());
        let cores = vec![osd::CoreId(0), osd::CoreId(1)];
        let placement = Arc::new(Placement::new(cores.clone(), cores).unwrap());
        table.add(OsdId(0), placement.clone(), 1, OsdState::Starting);
        table.set(OsdId(0), OsdState::Stopped);
        table.core_ended(OsdId(0));
        assert!(!table.has_ended(OsdId(0)));
        table.core_ended(OsdId(0));
        assert!(table.has_ended(OsdId(0)));
        table.add(OsdId(1), placement, 1, OsdState::Failed("its disk is gone".into()));
        assert!(table.has_ended(OsdId(1)) && !table.has_ended(OsdId(2)));
        assert_eq!(table.shown.lock().unwrap()[&OsdId(0)], OsdState::Stopped);
    }
}
