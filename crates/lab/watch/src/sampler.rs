//! The thread that samples, and the marks of phases.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use results::Sample;
use rustix::time::{ClockId, clock_gettime};

use crate::change::{self, PhaseUse, Units};
use crate::cycles::Counting;
use crate::error::Error;
use crate::snapshot::{Reader, Snapshot};
use crate::tree::Tree;

/// Takes each sample, on the watching thread or on that of a mark. It must not call the [`Watch`]: that would wait for
/// itself.
pub type Sink = Box<dyn FnMut(Sample) + Send>;

/// What to watch.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Name and process id; several processes may share a name. Children count with their parents. Processes named
    /// `client` are not servers.
    pub processes: Vec<(String, u32)>,
    /// Kernel names of block devices, as `loop0`.
    pub devices: Vec<String>,
    /// Network interfaces.
    pub interfaces: Vec<String>,
    /// Between samples: a second.
    pub period: Duration,
    /// Whether cycles are to be counted; ask [`crate::cycles::counted`] once before.
    pub cycles: bool,
}

impl Default for Wanted {
    /// Nothing but the machine and `lo`, each second.
    fn default() -> Self {
        Self {
            processes: Vec::new(),
            devices: Vec::new(),
            interfaces: vec!["lo".to_owned()],
            period: Duration::from_secs(1),
            cycles: false,
        }
    }
}

/// What watching took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Cost {
    /// CPU seconds of the watching thread.
    pub cpu_s: f64,
    /// Seconds that it ran.
    pub seconds: f64,
    /// Samples taken on the beat.
    pub beats: u64,
    /// Beats that were left out because the one before took too long.
    pub missed: u64,
    /// The latest that a beat came, seconds.
    pub latest_s: f64,
}

/// A watch that goes on until it is stopped or dropped.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    /// Dropped, it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<Cost>>,
}

struct Shared {
    origin: Instant,
    units: Units,
    period: Duration,
    cycles: bool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("origin", &self.origin).finish_non_exhaustive()
    }
}

struct State {
    reader: Reader,
    /// Where the next sample begins.
    before: Snapshot,
    phase: Option<Marked>,
    /// Servers, for cycles.
    servers: Vec<u32>,
    sink: Sink,
}

/// A phase that has begun.
struct Marked {
    name: String,
    at: Snapshot,
    /// Most resident pages by name.
    resident: BTreeMap<String, u64>,
    counting: Option<Counting>,
}

impl Watch {
    /// Begins. `origin` is when the trial began: the zero of all samples' `t`.
    ///
    /// # Errors
    /// A device that the kernel does not know, or a kernel without CPU times.
    pub fn start(wanted: Wanted, origin: Instant, sink: Sink) -> Result<Self, Error> {
        let mut tree = Tree::default();
        wanted.processes.iter().for_each(|(name, pid)| tree.add(name, *pid));
        let mut reader = Reader::new(tree, wanted.devices, wanted.interfaces)?;
        let before = reader.take(origin.elapsed().as_secs_f64());
        let servers = wanted.processes.iter().filter(|(n, _)| n != "client").map(|(_, pid)| *pid).collect();
        let shared = Arc::new(Shared {
            origin,
            units: Units::here(),
            period: wanted.period.max(Duration::from_millis(10)),
            cycles: wanted.cycles,
            state: Mutex::new(State { reader, before, phase: None, servers, sink }),
        });
        let (end, ended) = channel();
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || beat(&own, &ended));
        Ok(Self { shared, end: Some(end), thread: Some(thread.map_err(Error::Thread)?) })
    }

    /// Watches another process too, from now on; all that it has done since its own start counts.
    pub fn add(&self, name: &str, pid: u32) {
        let mut state = self.shared.state();
        state.reader.tree.add(name, pid);
        if name != "client" {
            state.servers.push(pid);
        }
    }

    /// A phase begins now. One that has not ended is forgotten.
    pub fn begin(&self, phase: &str) {
        let mut state = self.shared.state();
        // Started before the mark: what it takes to start is not the phase's.
        let counting = if self.shared.cycles { Counting::start(&state.servers) } else { None };
        let at = self.shared.mark(&mut state);
        state.phase = Some(Marked { name: phase.to_owned(), at, resident: BTreeMap::new(), counting });
    }

    /// The phase ends now. None if none has begun.
    pub fn end(&self) -> Option<PhaseUse> {
        let (now, marked) = {
            let mut state = self.shared.state();
            let now = self.shared.mark(&mut state);
            (now, state.phase.take()?)
        };
        let Marked { name, at, resident, counting } = marked;
        let mut used = change::phase(&name, &at, &now, &resident, self.shared.units);
        used.cycles = counting.and_then(Counting::end);
        Some(used)
    }

    /// Ends the watch; the sink is called no more.
    #[must_use]
    pub fn stop(mut self) -> Cost {
        self.finish()
    }

    fn finish(&mut self) -> Cost {
        drop(self.end.take());
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    /// A sink that panicked leaves whole state behind.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything now; a sample too unless the last one is less than half a period ago. After a mark it always begins
    /// anew, so that no sample has parts of two phases.
    fn look(&self, state: &mut State, marks: bool) -> Snapshot {
        let now = state.reader.take(self.origin.elapsed().as_secs_f64());
        if let Some(marked) = &mut state.phase {
            for (name, totals) in &now.processes {
                let most = marked.resident.entry(name.clone()).or_default();
                *most = totals.resident.max(*most);
            }
        }
        let long = now.t - state.before.t >= self.period.as_secs_f64() / 2.0;
        if long {
            let phase = state.phase.as_ref().map_or("", |m| m.name.as_str());
            let sample = change::sample(&state.before, &now, phase, self.units);
            (state.sink)(sample);
        }
        if long || marks {
            state.before = now.clone();
        }
        now
    }

    fn mark(&self, state: &mut State) -> Snapshot {
        self.look(state, true)
    }
}

/// Samples at whole periods since the start, however long each takes, until the other end is dropped.
fn beat(shared: &Shared, ended: &Receiver<()>) -> Cost {
    let begin = Instant::now();
    let mut cost = Cost::default();
    let mut next = begin + shared.period;
    while let Err(RecvTimeoutError::Timeout) =
        ended.recv_timeout(next.saturating_duration_since(Instant::now()))
    {
        let late = next.elapsed();
        cost.latest_s = cost.latest_s.max(late.as_secs_f64());
        shared.look(&mut shared.state(), false);
        cost.beats += 1;
        next += shared.period;
        while next < Instant::now() {
            next += shared.period;
            cost.missed += 1;
        }
    }
    let cpu = clock_gettime(ClockId::ThreadCPUTime);
    cost.cpu_s = cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9;
    cost.seconds = begin.elapsed().as_secs_f64();
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};
    use std::sync::atomic::{AtomicBool, Ordering};

    fn watch(wanted: Wanted) -> (Watch, Arc<Mutex<Vec<Sample>>>) {
        let samples = Arc::new(Mutex::new(Vec::new()));
        let own = Arc::clone(&samples);
        let watch = Watch::start(wanted, Instant::now(), Box::new(move |s| own.lock().unwrap().push(s)));
        (watch.unwrap(), samples)
    }

    fn often(processes: Vec<(String, u32)>) -> Wanted {
        Wanted { processes, period: Duration::from_millis(50), ..Wanted::default() }
    }

    /// A process that keeps a core busy, as a child of the one that is named.
    fn busy() -> Child {
        let text = "trap 'kill $!; wait; exit' TERM; (while :; do :; done) & wait";
        Command::new("sh").args(["-c", text]).spawn().unwrap()
    }

    fn terminate(mut child: Child) {
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_childs_cpu_is_its_parents_and_outlives_both() {
        let child = busy();
        let (watch, samples) = watch(often(vec![("osd.0".to_owned(), child.id())]));
        watch.begin("write");
        // Other work may leave it less than a core, and late.
        let busy_seconds = |samples: &[Sample]| -> f64 {
            let cores =
                samples.windows(2).map(|s| (s[1].t - s[0].t) * s[1].values.get("cpu.osd.0").unwrap_or(&0.0));
            cores.sum()
        };
        let began = Instant::now();
        while busy_seconds(&samples.lock().unwrap()) < 0.3 && began.elapsed() < Duration::from_secs(60) {
            thread::sleep(Duration::from_millis(50));
        }
        let running = samples.lock().unwrap().clone();
        terminate(child);
        thread::sleep(Duration::from_millis(200));
        let used = watch.end().unwrap();
        let _ = watch.stop();
        let osd = &used.processes["osd.0"];
        assert!(osd.user_s + osd.system_s > 0.1, "{osd:?}");
        assert!(osd.rss_max > 100_000 && used.machine_s > 0.1, "{used:?}");
        let took = began.elapsed().as_secs_f64();
        assert!((0.3..=took + 0.1).contains(&used.seconds), "{} of {took}", used.seconds);
        assert!(running.iter().any(|s| s.values["cpu.osd.0"] > 0.1), "{running:?}");
        let all = samples.lock().unwrap();
        assert_eq!(all.last().unwrap().values["memory.osd.0"], 0.0);
    }

    #[test]
    fn a_process_that_starts_during_a_phase_is_its() {
        let (watch, _) = watch(often(Vec::new()));
        watch.begin("run");
        let child = busy();
        watch.add("client", child.id());
        thread::sleep(Duration::from_millis(600));
        let used = watch.end().unwrap();
        terminate(child);
        assert!(used.processes["client"].user_s > 0.05, "{used:?}");
        assert_eq!(used.cpu(10).server_us_per_op, 0.0);
        assert!(watch.end().is_none());
    }

    #[test]
    fn no_sample_has_parts_of_two_phases() {
        let (watch, samples) = watch(often(Vec::new()));
        thread::sleep(Duration::from_millis(120));
        let (mut marks, origin) = (Vec::new(), watch.shared.origin);
        for phase in ["write", "read"] {
            watch.begin(phase);
            let begin = origin.elapsed().as_secs_f64();
            thread::sleep(Duration::from_millis(333));
            marks.push((phase, begin, watch.end().unwrap().seconds));
            thread::sleep(Duration::from_millis(70));
        }
        let _ = watch.stop();
        let samples = samples.lock().unwrap();
        for (phase, begin, seconds) in marks {
            let own: Vec<f64> = samples.iter().filter(|s| s.phase == phase).map(|s| s.t).collect();
            assert!(own.len() >= 3, "{own:?}");
            // The first one may end half a period after the mark at the earliest.
            assert!(
                own.iter().all(|t| (begin..=begin + seconds + 0.05).contains(t)),
                "{phase} {begin}: {own:?}"
            );
        }
        assert!(samples.iter().any(|s| s.phase.is_empty()));
        assert!(samples.iter().map(|s| s.t).is_sorted());
    }

    #[test]
    fn a_device_that_is_not_there_is_refused_by_name() {
        let wanted = Wanted { devices: vec!["nosuch9".to_owned()], ..Wanted::default() };
        let error = Watch::start(wanted, Instant::now(), Box::new(|_| ())).unwrap_err();
        assert!(error.to_string().contains("nosuch9"), "{error}");
    }

    #[test]
    fn watching_costs_little() {
        let ended = Arc::new(AtomicBool::new(false));
        let sleeper = || {
            let ended = Arc::clone(&ended);
            thread::spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    thread::sleep(Duration::from_millis(20));
                }
            })
        };
        let threads: Vec<_> = (0..120).map(|_| sleeper()).collect();
        let (watch, _) = watch(often(vec![("osd.0".to_owned(), std::process::id())]));
        thread::sleep(Duration::from_secs(1));
        let cost = watch.stop();
        ended.store(true, Ordering::Relaxed);
        threads.into_iter().for_each(|t| t.join().unwrap());
        println!("{cost:?}: {:.2} ms a sample", cost.cpu_s / cost.beats as f64 * 1e3);
        assert!(cost.beats >= 5 && cost.cpu_s / (cost.beats as f64) < 0.02, "{cost:?}");
    }
}
