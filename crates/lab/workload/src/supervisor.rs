//! Supervises programs that run at the same time, here and on other hosts: starts them, reads them line by line, bounds
//! their time, ends them by process id. For one local program whose output is read at its end see `process::wait`.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use process::{beginning, last_words};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::error::{Error, Result};
use crate::hosts::script;
use crate::phase::Clients;

/// How long a program has to end after SIGTERM before SIGKILL, and its output to end after it.
const GRACE: Duration = Duration::from_secs(3);

/// Bytes that are kept of a program's standard error, and of its output outside of the caller's hands.
const KEPT: usize = 1 << 20;

/// How long other hosts have to be ready.
const READY: Duration = Duration::from_secs(30);

/// Connections that may be made at the same time.
const CONNECTING: usize = 4;

/// A program to run.
pub(crate) struct Program {
    /// For errors: `rados bench in pool p0`.
    pub what: String,
    /// The whole command.
    pub command: Command,
    /// What to do if it can't be started.
    pub remedy: &'static str,
    /// It runs on another host ([`script::RUN`]): started by a line on its input once all are ready, ended by the end
    /// of its input. The CPU is what it says.
    elsewhere: bool,
}

impl Program {
    /// One of this machine.
    pub fn new(what: impl Into<String>, command: Command, remedy: &'static str) -> Self {
        Self { what: what.into(), command, remedy, elsewhere: false }
    }

    /// The command is ssh's.
    pub fn elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }
}

/// What a program left.
#[derive(Debug)]
pub(crate) struct Finished {
    /// As in [`Program`].
    pub what: String,
    /// Standard output, its first MiB.
    pub out: String,
    /// Standard error, its first MiB.
    pub err: String,
    /// When it started.
    pub started: Instant,
    /// From start to end.
    pub seconds: f64,
    /// Its CPU and that of its children.
    pub cpu: Clients,
}

/// What happens to the programs while they run.
pub(crate) enum ProcessEvent<'a> {
    /// All can start, and do so now.
    Begins,
    /// All of this machine have started.
    Started(&'a [u32]),
    /// A line of a program's standard output, and when it came.
    Line(usize, &'a str, Instant),
    /// A program has ended well.
    Ended(usize),
    /// Something failed: each program's output and errors up to then.
    Failed(usize, &'a str, &'a str),
}

enum OutputEvent {
    Out(usize, String, Instant),
    Err(usize, String),
    /// Standard output has ended.
    Over(usize),
}

struct Running {
    what: String,
    child: Child,
    began: Instant,
    /// Of one elsewhere.
    remote: Option<Remote>,
    out: String,
    err: String,
    /// Its output has ended.
    over: bool,
    ended: Option<(ExitStatus, f64, Clients)>,
    /// The caller got [`ProcessEvent::Ended`].
    reported: bool,
}

/// What is known of a program on another host.
#[derive(Default)]
struct Remote {
    stdin: Option<ChildStdin>,
    ready: bool,
    started: bool,
    cpu: Clients,
}

impl Remote {
    /// Takes a line that is the host's, not the program's. Whether it was one.
    fn take(&mut self, line: &str, at: Instant, began: &mut Instant) -> bool {
        if !self.ready && line == script::READY {
            self.ready = true;
        } else if self.ready && !self.started && line == script::STARTED {
            (self.started, *began) = (true, at);
        } else if let Some((user_s, system_s)) = script::cpu(line) {
            self.cpu = Clients { user_s, system_s };
        } else {
            return false;
        }
        true
    }
}

/// Runs all to their end. When one fails, is late, or the caller wants to stop, all are ended.
pub(crate) fn run_all(
    programs: Vec<Program>,
    limit: Duration,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(ProcessEvent<'_>),
) -> Result<Vec<Finished>> {
    let (sender, output) = channel();
    let mut all = Vec::new();
    let outcome = start_all(programs, &mut all, sender, &output, stop, on_event).and_then(|()| {
        let pids: Vec<u32> = all.iter().filter(|r| r.remote.is_none()).map(|r| r.child.id()).collect();
        on_event(ProcessEvent::Started(&pids));
        attend(&mut all, &output, Instant::now() + limit, limit, stop, on_event)
    });
    end_all(&mut all);
    if outcome.is_err() {
        for (index, running) in all.iter().enumerate() {
            on_event(ProcessEvent::Failed(index, &running.out, &running.err));
        }
    }
    outcome?;
    Ok(all.into_iter().map(finished).collect())
}

/// Starts all as close to each other as can be: those elsewhere are prepared first, and told to begin when all can.
fn start_all(
    programs: Vec<Program>,
    all: &mut Vec<Running>,
    sender: Sender<OutputEvent>,
    output: &Receiver<OutputEvent>,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(ProcessEvent<'_>),
) -> Result<()> {
    if !programs.iter().any(|p| p.elsewhere) {
        on_event(ProcessEvent::Begins);
    }
    for (index, program) in programs.into_iter().enumerate() {
        all.push(start(index, program, &sender)?);
        // A host refuses more than a few connections that are being made.
        wait_ready(all, output, CONNECTING, stop)?;
    }
    // Readers hold the only senders now: the channel closes when all output has ended.
    drop(sender);
    if all.iter().all(|r| r.remote.is_none()) {
        return Ok(());
    }
    wait_ready(all, output, 0, stop)?;
    on_event(ProcessEvent::Begins);
    for remote in all.iter_mut().filter_map(|r| r.remote.as_mut()) {
        // Where the connection is gone, the program's end tells.
        let _ = remote.stdin.as_mut().map(|stdin| stdin.write_all(b"go\n"));
    }
    Ok(())
}

/// Waits until at most `unready` of those elsewhere are not ready.
fn wait_ready(
    all: &mut [Running],
    output: &Receiver<OutputEvent>,
    unready: usize,
    stop: &AtomicBool,
) -> Result<()> {
    let began = Instant::now();
    let waits = |r: &Running| r.remote.as_ref().is_some_and(|remote| !remote.ready);
    while all.iter().filter(|r| waits(r)).count() > unready {
        listen(all, output, Duration::from_millis(20), &mut |_| ());
        for index in 0..all.len() {
            let Some(running) = all.get_mut(index) else { continue };
            if let Some((status, ..)) = running.look()? {
                listen(all, output, Duration::from_millis(200), &mut |_| ());
                return Err(failed(all, index, status));
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if began.elapsed() > READY
            && let Some(late) = all.iter().find(|r| waits(r))
        {
            let (what, output) = (format!("connecting for {}", late.what), last_words(&late.err, &late.out));
            return Err(Error::Late { what, seconds: READY.as_secs(), output });
        }
    }
    Ok(())
}

fn start(index: usize, program: Program, sender: &Sender<OutputEvent>) -> Result<Running> {
    let Program { what, mut command, remedy, elsewhere } = program;
    let name = command.get_program().to_string_lossy().into_owned();
    // A group of its own: children of the program end with it, and a terminal's Ctrl-C reaches the caller first.
    let stdin = if elsewhere { Stdio::piped() } else { Stdio::null() };
    command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().map_err(|source| Error::Start {
        program: name,
        source,
        remedy: remedy.to_owned(),
    })?;
    if let Some(out) = child.stdout.take() {
        let sender = sender.clone();
        thread::spawn(move || {
            each_line(out, |line| sender.send(OutputEvent::Out(index, line, Instant::now())).is_ok());
            // Nobody listens any more: fine.
            let _ = sender.send(OutputEvent::Over(index));
        });
    }
    if let Some(err) = child.stderr.take() {
        let sender = sender.clone();
        thread::spawn(move || each_line(err, |line| sender.send(OutputEvent::Err(index, line)).is_ok()));
    }
    let (out, err) = (String::new(), String::new());
    let remote = elsewhere.then(|| Remote { stdin: child.stdin.take(), ..Remote::default() });
    Ok(Running { what, child, began, remote, out, err, over: false, ended: None, reported: false })
}

fn each_line(from: impl Read, mut take: impl FnMut(String) -> bool) {
    let mut reader = BufReader::new(from);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        match reader.read_until(b'\n', &mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(_) if !take(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned()) => {
                return;
            }
            Ok(_) => {}
        }
    }
}

/// Handles output until all have ended well.
fn attend(
    all: &mut [Running],
    output: &Receiver<OutputEvent>,
    deadline: Instant,
    limit: Duration,
    stop: &AtomicBool,
    on_event: &mut dyn FnMut(ProcessEvent<'_>),
) -> Result<()> {
    loop {
        // Where output has ended, the program is about to: its time is taken closely.
        let soon = all.iter().any(|r| r.over && r.ended.is_none());
        listen(all, output, Duration::from_millis(if soon { 1 } else { 20 }), on_event);
        for index in 0..all.len() {
            let Some(running) = all.get_mut(index) else { continue };
            let Some((status, seconds, _)) = running.look()? else { continue };
            if !status.success() {
                listen(all, output, Duration::from_millis(200), on_event);
                return Err(failed(all, index, status));
            }
            // A child in the background may keep the output open: that is not waited for longer than the grace.
            let waited = running.began.elapsed().saturating_sub(Duration::from_secs_f64(seconds));
            if !running.reported && (running.over || waited > GRACE) {
                running.reported = true;
                on_event(ProcessEvent::Ended(index));
            }
        }
        if all.iter().all(|r| r.reported) {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        if Instant::now() > deadline
            && let Some(late) = all.iter().find(|r| r.ended.is_none())
        {
            let (what, output) = (late.what.clone(), last_words(&late.err, &late.out));
            return Err(Error::Late { what, seconds: limit.as_secs(), output });
        }
    }
}

/// Handles output for a while, or until one program's ends.
fn listen(
    all: &mut [Running],
    output: &Receiver<OutputEvent>,
    wait: Duration,
    on_event: &mut dyn FnMut(ProcessEvent<'_>),
) {
    let until = Instant::now() + wait;
    loop {
        match output.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(OutputEvent::Out(index, line, at)) => {
                let own =
                    |r: &mut Running| r.remote.as_mut().is_some_and(|m| m.take(&line, at, &mut r.began));
                if all.get_mut(index).is_some_and(own) {
                    continue;
                }
                on_event(ProcessEvent::Line(index, &line, at));
                keep(all.get_mut(index).map(|r| &mut r.out), &line);
            }
            Ok(OutputEvent::Err(index, line)) => keep(all.get_mut(index).map(|r| &mut r.err), &line),
            Ok(OutputEvent::Over(index)) => {
                if let Some(running) = all.get_mut(index) {
                    running.over = true;
                }
                return;
            }
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => {
                // All output has ended; the programs will in a moment.
                thread::sleep(Duration::from_millis(1));
                return;
            }
        }
    }
}

fn keep(text: Option<&mut String>, line: &str) {
    if let Some(text) = text.filter(|t| t.len() < KEPT) {
        text.push_str(beginning(line, KEPT - text.len()));
        text.push('\n');
    }
}

fn failed(all: &[Running], index: usize, status: ExitStatus) -> Error {
    let (what, output) =
        all.get(index).map_or_else(Default::default, |r| (r.what.clone(), last_words(&r.err, &r.out)));
    Error::Failed { what, status: status.to_string(), output }
}

impl Running {
    /// Its end, if it has ended. Its CPU is read while the kernel still keeps its remains.
    fn look(&mut self) -> Result<Option<(ExitStatus, f64, Clients)>> {
        if self.ended.is_none() {
            let Some(pid) = pid_of(&self.child) else { return Ok(None) };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            let Ok(Some(how)) = waitid(WaitId::Pid(pid), options) else { return Ok(None) };
            let seconds = self.began.elapsed().as_secs_f64();
            let cpu = cpu_of(self.child.id());
            if how.exit_status() != Some(0) {
                // What a failed program leaves behind is of no use to anyone. The id is its own until waited for.
                let _ = kill_process_group(pid, Signal::KILL);
            }
            let status = self.child.wait().map_err(|source| Error::Io {
                doing: "waiting for",
                path: self.what.clone().into(),
                source,
            })?;
            self.ended = Some((status, seconds, cpu));
        }
        Ok(self.ended)
    }
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Ends all that still run: SIGTERM, then SIGKILL, to the group of each.
fn end_all(all: &mut [Running]) {
    // One elsewhere ends with its input, which waits for the other host to be done.
    let mut elsewhere = false;
    for remote in all.iter_mut().filter(|r| r.ended.is_none()).filter_map(|r| r.remote.as_mut()) {
        remote.stdin = None;
        elsewhere = true;
    }
    let until = Instant::now() + GRACE;
    let waits = |r: &mut Running| r.remote.is_some() && matches!(r.look(), Ok(None));
    while elsewhere && all.iter_mut().any(waits) && Instant::now() < until {
        thread::sleep(Duration::from_millis(5));
    }
    for signal in [Signal::TERM, Signal::KILL] {
        for running in all.iter().filter(|r| r.ended.is_none()) {
            // Not waited for yet, so the id is still its own; gone meanwhile is as good as ended.
            let _ = pid_of(&running.child).map(|pid| kill_process_group(pid, signal));
        }
        let until = Instant::now() + GRACE;
        while all.iter_mut().any(|r| matches!(r.look(), Ok(None))) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn finished(running: Running) -> Finished {
    let (seconds, own) = running.ended.map_or_else(Default::default, |(_, s, c)| (s, c));
    let (cpu, started) = (running.remote.map_or(own, |remote| remote.cpu), running.began);
    Finished { started, what: running.what, out: running.out, err: running.err, seconds, cpu }
}

/// CPU of a process and of the children it has waited for, from the kernel.
fn cpu_of(pid: u32) -> Clients {
    let (user_s, system_s) = process::stat(pid).map(|stat| stat.cpu_seconds()).unwrap_or_default();
    Clients { user_s, system_s }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        Program::new(text, command, "install a shell")
    }

    fn run(texts: &[&str], limit_ms: u64) -> (Result<Vec<Finished>>, Vec<String>) {
        let mut events = Vec::new();
        let ran = run_all(
            texts.iter().map(|t| shell(t)).collect(),
            Duration::from_millis(limit_ms),
            &AtomicBool::new(false),
            &mut |h| match h {
                ProcessEvent::Begins => {}
                ProcessEvent::Started(pids) => events.push(format!("{} started", pids.len())),
                ProcessEvent::Line(i, line, _) => events.push(format!("{i}: {line}")),
                ProcessEvent::Ended(i) => events.push(format!("{i} ended")),
                ProcessEvent::Failed(i, out, err) => {
                    events.push(format!("{i} failed with {out:?} and {err:?}"))
                }
            },
        );
        (ran, events)
    }

    #[test]
    fn lines_come_in_order_and_before_the_end() {
        let (ran, events) = run(&["echo a; sleep 0.2; echo b", "sleep 0.1; echo c >&2; printf d"], 9000);
        let ran = ran.unwrap();
        assert_eq!(events.join(" "), "2 started 0: a 1: d 1 ended 0: b 0 ended");
        assert_eq!((ran[0].out.as_str(), ran[1].err.as_str()), ("a\nb\n", "c\n"));
        assert!((0.2..1.5).contains(&ran[0].seconds), "{}", ran[0].seconds);
    }

    #[test]
    fn one_that_fails_ends_the_others_and_has_its_words() {
        let begin = Instant::now();
        let (ran, _) = run(&["exec sleep 50", "echo out; echo why >&2; exit 3"], 9000);
        let text = ran.unwrap_err().to_string();
        assert!(text.contains("why") && text.contains("exit status: 3"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn one_that_is_late_is_ended_with_its_children() {
        let (ran, events) = run(&["sleep 50 & echo $!; echo stuck >&2; wait"], 300);
        let text = ran.unwrap_err().to_string();
        assert!(text.contains("stuck") && text.contains("ended"), "{text}");
        let child = events[1].trim_start_matches("0: ").to_owned();
        // The kernel takes a moment to clear away what was killed; a killed child may stay as a zombie of init.
        let gone = || !process::is_running(child.parse().unwrap());
        let begin = Instant::now();
        while !gone() && begin.elapsed() < Duration::from_secs(5) {
            thread::sleep(Duration::from_millis(10));
        }
        assert!(gone());
    }

    #[test]
    fn a_child_in_the_background_does_not_keep_us_waiting() {
        let begin = Instant::now();
        let (ran, _) = run(&["sleep 20 & echo ready"], 15_000);
        assert_eq!(ran.unwrap()[0].out, "ready\n");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn the_callers_wish_ends_all() {
        let began = Instant::now();
        let stop = AtomicBool::new(true);
        let ran = run_all(vec![shell("exec sleep 50")], Duration::from_secs(60), &stop, &mut |_| ());
        assert!(matches!(ran, Err(Error::Stopped)));
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_missing_program_says_what_to_do() {
        let command = Command::new("no-such-program-here");
        let program = Program::new("it", command, "apt-get install it");
        let ran = run_all(vec![program], Duration::from_secs(1), &AtomicBool::new(false), &mut |_| ());
        assert!(ran.unwrap_err().to_string().contains("apt-get install it"));
    }

    #[test]
    fn those_elsewhere_start_together_and_tell_their_own_cpu() {
        // Each by itself, they would start 0.5 s apart, each time. A busy machine may make one of them late.
        let soon = (0..5).map(|_| skew_of_two_elsewhere()).find(|skew| *skew < Duration::from_millis(300));
        assert!(soon.is_some(), "they were 300 ms apart or more, five times");
    }

    /// Runs two programs elsewhere. Returns how far apart they started.
    fn skew_of_two_elsewhere() -> Duration {
        let dir = tempfile::tempdir().unwrap();
        let there = |text: &str| {
            let mut words = script::run_words(dir.path().to_str().unwrap(), Duration::from_secs(30));
            words.extend(["sh", "-c", text].map(str::to_owned));
            let mut command = Command::new("sh");
            command
                .args(["-c", &format!("sleep 0.{}; {}", text.len() % 7, script::line(script::RUN, &words))]);
            Program::new(text, command, "install a shell").elsewhere()
        };
        let mut events = Vec::new();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo b";
        let programs = vec![there("echo a"), there(work)];
        let ran = run_all(programs, Duration::from_secs(30), &AtomicBool::new(false), &mut |h| match h {
            ProcessEvent::Begins => events.push("begins".to_owned()),
            ProcessEvent::Started(pids) => assert!(pids.is_empty()),
            ProcessEvent::Line(_, line, _) => events.push(line.to_owned()),
            ProcessEvent::Ended(_) | ProcessEvent::Failed(..) => {}
        });
        let ran = ran.unwrap();
        assert_eq!(events, ["begins", "a", "b"]);
        assert!(ran[1].cpu.user_s + ran[1].cpu.system_s > 0.01, "{:?}", ran[1]);
        ran[0].started.max(ran[1].started) - ran[0].started.min(ran[1].started)
    }

    #[test]
    fn one_elsewhere_that_can_not_be_reached_says_why() {
        let broken = || shell("echo no route >&2; exit 255").elsewhere();
        let ran = run_all(vec![broken()], Duration::from_secs(9), &AtomicBool::new(false), &mut |_| ());
        assert!(ran.unwrap_err().to_string().contains("no route"));
    }

    #[test]
    fn cpu_of_children_counts() {
        let (ran, _) = run(&["sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; true"], 60_000);
        let cpu = ran.unwrap()[0].cpu;
        assert!(cpu.user_s + cpu.system_s > 0.02, "{cpu:?}");
    }
}
