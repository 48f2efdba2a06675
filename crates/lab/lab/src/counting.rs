//! Ceph's perf counters at the begin and the end of each phase.

use std::collections::BTreeMap;
use std::path::PathBuf;

use results::PhaseCounters;
use testbed::{AdminClient, Testbed};
use watch::counters::{self, Counters};

/// The most OSDs of a running cluster that are asked: each takes half a second.
const ASKED_MAX: usize = 24;

/// Who is asked, and what was said.
pub(crate) struct Counting {
    source: Source,
    /// By daemon.
    before: BTreeMap<String, Counters>,
    changed: PhaseCounters,
}

enum Source {
    /// A cluster that has no counters.
    None,
    Sockets(BTreeMap<String, PathBuf>),
    Tell(AdminClient, Vec<String>),
}

impl Counting {
    /// Finds out who can be asked.
    pub fn of(bed: &Testbed) -> Self {
        let sockets = bed.sockets();
        let source = if !sockets.is_empty() {
            Source::Sockets(sockets)
        } else if bed.processes().is_empty() && bed.export().is_none() {
            // A cluster that doesn't answer now is one whose load fails with a sentence; counters add none.
            let mut osds = bed.admin_client().osds().unwrap_or_default();
            osds.truncate(ASKED_MAX);
            Source::Tell(bed.admin_client(), osds)
        } else {
            Source::None
        };
        Self { source, before: BTreeMap::new(), changed: PhaseCounters::new() }
    }

    /// Right before a phase.
    pub fn begins(&mut self) {
        self.before = self.read();
        if let (Source::Tell(..), true) = (&self.source, self.before.is_empty()) {
            // Who doesn't answer the first time is not waited for again.
            self.source = Source::None;
        }
    }

    /// Right after it.
    pub fn ends(&mut self, phase: &str) {
        let now = self.read();
        let of = |(daemon, now): (&String, &Counters)| Some(counters::changes(self.before.get(daemon)?, now));
        let changed: Counters = now.iter().filter_map(of).flatten().collect();
        self.changed.insert(phase.to_owned(), changed);
    }

    /// All that changed, by phase.
    pub fn changed(&self) -> &PhaseCounters {
        &self.changed
    }

    /// A daemon that doesn't answer is missing.
    fn read(&self) -> BTreeMap<String, Counters> {
        match &self.source {
            Source::None => BTreeMap::new(),
            Source::Sockets(sockets) => {
                let of = |(name, path): (&String, &PathBuf)| {
                    Some((name.clone(), counters::over_socket(name, path).ok()?))
                };
                sockets.iter().filter_map(of).collect()
            }
            Source::Tell(admin_client, osds) => {
                // The first one that doesn't answer ends it: every one of them may take a minute.
                let of = |name: &String| {
                    let text = admin_client.ask(name, &["perf", "dump"]).ok()?;
                    Some((name.clone(), counters::parse(name, text.trim()).ok()?))
                };
                osds.iter().map_while(of).collect()
            }
        }
    }
}
