//! How long an OSD of many placement groups holds its core up while it goes through maps: the longest turns.
//!
//! A turn is one event with what the stores complete at once, as the host's cores run it. On a busy machine it takes as long
//! by the clock as other programs let it, so turns are ranked by their processor time, and both are shown. The epochs
//! come as fast as the monitor makes them, and each changes a flag that every placement group must be told of, which is
//! the worst case.

use std::time::{Duration, Instant};

use node::NodeEvent;
use osd::OsdEvent;
use rustix::time::{ClockId, clock_gettime};

use crate::HotpathError;
use crate::cluster::{Cluster, OSD};

pub(crate) const PGS: u32 = 16_384;
pub(crate) const EPOCHS: u32 = 40;

/// Turns that are printed.
const SHOWN: usize = 5;

/// A turn that runs.
pub(crate) struct Turn {
    what: &'static str,
    begun: Instant,
    cpu_begun: Duration,
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl Turn {
    pub(crate) fn begin(event: &NodeEvent) -> Self {
        Self { what: name(event), begun: Instant::now(), cpu_begun: cpu_time() }
    }
}

/// A turn's processor time, its time by the clock, and what it was.
type LongTurn = (Duration, Duration, &'static str);

/// The turns so far.
#[derive(Default)]
pub(crate) struct Turns {
    count: usize,
    /// The longest ones, the longest first.
    longest: Vec<LongTurn>,
    /// How many of these are kept.
    shown: usize,
}

impl Turns {
    fn showing(shown: usize) -> Self {
        Self { shown, ..Self::default() }
    }

    pub(crate) fn end(&mut self, turn: Turn) {
        self.count += 1;
        self.longest.push((cpu_time() - turn.cpu_begun, turn.begun.elapsed(), turn.what));
        self.longest.sort_by(|a, b| b.cmp(a));
        self.longest.truncate(self.shown);
    }

    fn show(&self, phase: &str) -> String {
        let ms = |time: &Duration| time.as_secs_f64() * 1e3;
        let one = |(cpu, clock, what): &LongTurn| format!("{:.1} ({:.1}) {what}", ms(cpu), ms(clock));
        let longest = self.longest.iter().map(one).collect::<Vec<_>>().join(", ");
        format!("{phase}: {} turns, the longest in ms of processor (clock): {longest}", self.count)
    }
}

fn name(event: &NodeEvent) -> &'static str {
    match event {
        NodeEvent::Mon(_) => "monitor",
        NodeEvent::StoreReady(_) => "osd: store",
        NodeEvent::Tick => "tick",
        NodeEvent::Osd(_, event) => match event {
            OsdEvent::Mon(_) => "osd: message of the monitor",
            OsdEvent::Store(..) => "osd: store",
            OsdEvent::Continue => "osd: more of a map",
            _ => "osd: another event",
        },
    }
}

/// Makes the placement groups, and lets the OSD go through the epochs. Prints the longest turns of both.
pub(crate) fn run(pgs: u32, epochs: u32) -> Result<(), HotpathError> {
    for line in measure(pgs, epochs, SHOWN)? {
        println!("{line}");
    }
    Ok(())
}

fn measure(pgs: u32, epochs: u32, shown: usize) -> Result<Vec<String>, HotpathError> {
    let mut options = options::Values::new();
    let set = options.set("mon_max_pg_per_osd", &pgs.max(250).to_string());
    set.map_err(|error| HotpathError::Cluster(error.to_string()))?;
    let mut cluster = Cluster::boot_with(1, options)?;
    cluster.turns = Some(Turns::showing(shown));
    cluster.create_pool("maps", pgs)?;
    cluster.tick_until("the PGs are made", |c| {
        c.nodes[0].osd(OSD).is_some_and(|osd| osd.pg_ids().len() == pgs as usize)
    })?;
    // Until everything is reported and nothing moves any more.
    (0..100).try_for_each(|_| cluster.tick())?;
    let made = cluster.turns.take().unwrap_or_default().show("making the placement groups");
    let before = cluster.nodes[0].osd(OSD).map_or(0, |osd| osd.epoch().0);
    cluster.turns = Some(Turns::showing(shown));
    for epoch in 0..epochs {
        let verb = if epoch % 2 == 0 { "set" } else { "unset" };
        cluster.command(&format!(r#"{{"prefix":"osd {verb}","key":"noscrub"}}"#))?;
    }
    let last = before + epochs;
    cluster.tick_until("the OSD has the last map", |c| {
        c.nodes[0].osd(OSD).is_some_and(|osd| osd.epoch().0 >= last)
    })?;
    (0..100).try_for_each(|_| cluster.tick())?;
    let gone_through = cluster.turns.take().unwrap_or_default().show(&format!("{epochs} epochs"));
    Ok(vec![format!("{pgs} placement groups on one OSD"), made, gone_through])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_osd_goes_through_the_epochs_and_turns_are_measured() {
        // Whose turns are the longest depends on the build.
        let lines = measure(16, 4, usize::MAX).unwrap();
        assert!(lines[2].starts_with("4 epochs: ") && lines[2].contains(") osd: "), "{lines:?}");
    }
}
