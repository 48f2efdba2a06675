//! What Loligo, and the clients that it is measured with, make of an option.

use options::OptionStatus;

use crate::parts::Process;
use crate::resolve::{Ceph, Effect};
use crate::values;
use crate::verdict::Why;

/// Loligo: its servers are one process, its clients are Ceph's.
pub(crate) struct Loligo<'a> {
    pub(crate) clients: Ceph<'a>,
}

/// Sections whose options the lab passes to Loligo's servers; of an option in several the last one's.
const PASSED: [&str; 4] = ["global", "mon", "mgr", "osd"];

impl Loligo<'_> {
    /// The effect of an option in a section; `None` if neither Loligo nor its clients know it.
    pub(crate) fn effect(&self, name: &str, section: &str) -> Option<Effect> {
        let servers = matches!(options::status(name), OptionStatus::Effective | OptionStatus::Own);
        let passed = PASSED.contains(&section) && self.winner(name, section).is_none();
        let clients = self.clients.effect(name, section);
        let mut acts_in: Vec<Process> = (servers && passed).then_some(Process::Loligo).into_iter().collect();
        if let Some(Ok(processes)) = &clients {
            acts_in.extend(processes);
        }
        if !acts_in.is_empty() {
            return Some(Ok(acts_in));
        }
        match clients {
            _ if servers => Some(Err(match self.winner(name, section) {
                Some(winner) => Why::Overridden { section: winner.to_owned() },
                None => Why::NotPassed { section: section.to_owned() },
            })),
            Some(Err(why @ (Why::OtherSection { .. } | Why::Overridden { .. }))) => Some(Err(why)),
            _ => crate::resolve::known_anywhere(name).then_some(Err(Why::NothingToTune)),
        }
    }

    /// The section whose value of this option the servers get instead of this section's.
    fn winner(&self, name: &str, section: &str) -> Option<&'static str> {
        let at = PASSED.iter().position(|passed| *passed == section)?;
        PASSED.iter().skip(at + 1).rev().copied().find(|later| self.clients.is_set_in(later, name))
    }

    /// Whether a value is the default of the program that acts on it.
    pub(crate) fn is_default(&self, name: &str, value: &str) -> bool {
        match options::lookup(name) {
            Some(spec) => options::canonical(name, value) == options::canonical(name, spec.default),
            None => self.clients.entry(name).is_some_and(|e| values::same(e, value, e.default)),
        }
    }
}
