//! One disk: an arm, a platter, a command queue, and a buffer that reads ahead of a sequential reader.
//!
//! A command waits in the queue until the mechanics are free; of the oldest `queue_depth` the one whose data come below
//! the head first is next, unless the oldest was passed over too often ([`PASSED_MAX`]). It costs the arm's time, the
//! rest of the rotation, and its bytes at the media rate. A command that was queued when the one before it ended, and
//! follows it on the platter, costs its bytes alone. One that comes later has missed its place: a write loses a
//! rotation, a read finds its bytes in the buffer, since the head reads on while nothing else is to do.
//!
//! Not modelled: more than one sequential reader in the buffer, head switches apart from the sustained rate, errors,
//! heat, vibration.

use std::collections::VecDeque;

use crate::Nanos;
use crate::geometry::Geometry;
use crate::sheet::Sheet;

/// A command that was passed over so many times the queue's depth goes first.
const PASSED_MAX: usize = 8;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    geometry: Geometry,
    /// What the drive needs for a command before anything moves.
    command: Nanos,
    /// Bytes a nanosecond to the host.
    bus: f64,
    queue_depth: usize,
    read_ahead: u64,
    queue: VecDeque<Command>,
    current: Option<Job>,
    /// The byte behind the last one that passed the head, and since when.
    head: u64,
    free_at: Nanos,
    buffer: Option<Buffer>,
    bus_free: Nanos,
    /// Reads served by the buffer, and when.
    hits: VecDeque<(Nanos, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Command {
    tag: u64,
    write: bool,
    offset: u64,
    end: u64,
    arrived: Nanos,
    /// How often another was taken while the drive could choose this one.
    passed: usize,
}

#[derive(Clone, Copy, Debug)]
struct Job {
    command: Command,
    done_at: Nanos,
}

/// Bytes `start..` that the drive has read: up to `from` at `from_at`, then on at the media rate while `running`.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    start: u64,
    from: u64,
    from_at: Nanos,
    limit: u64,
    running: bool,
    /// Until when the head must stay for a read that was promised its bytes, and where these end.
    promised: Nanos,
    due: u64,
}

impl Disk {
    pub(crate) fn new(sheet: &Sheet, bytes: u64, phase: f64) -> Self {
        Self {
            geometry: Geometry::new(sheet, bytes, phase),
            command: sheet.nanos("command_us"),
            bus: sheet.number("bus_mb_s") / 1e3,
            queue_depth: sheet.number("queue_depth") as usize,
            read_ahead: sheet.number("read_ahead") as u64,
            queue: VecDeque::new(),
            current: None,
            head: 0,
            free_at: 0,
            buffer: None,
            bus_free: 0,
            hits: VecDeque::new(),
        }
    }

    /// What a command without data takes.
    pub(crate) fn command(&self) -> Nanos {
        self.command
    }

    /// A command comes. Everything up to `now` has been stepped through.
    pub(crate) fn submit(&mut self, now: Nanos, tag: u64, write: bool, offset: u64, length: u64) {
        let command = Command { tag, write, offset, end: offset + length, arrived: now, passed: 0 };
        if !write {
            if let Some(available) = self.in_buffer(now, &command) {
                let sent = now.max(self.bus_free) + self.command + (length as f64 / self.bus) as Nanos;
                self.bus_free = sent;
                let last = self.hits.back().map_or(0, |hit| hit.0);
                self.hits.push_back((sent.max(available).max(last), tag));
                return;
            }
        }
        self.queue.push_back(command);
        if self.current.is_none() {
            self.start(now);
        }
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let hit = self.hits.front().map(|hit| hit.0);
        let job = self.current.map(|job| job.done_at);
        [hit, job].into_iter().flatten().min()
    }

    /// The next completion up to `now`: the command's tag, and when it was done.
    pub(crate) fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        let at = self.next_event().filter(|at| *at <= now)?;
        if self.hits.front().is_some_and(|hit| hit.0 == at) {
            return self.hits.pop_front().map(|(at, tag)| (tag, at));
        }
        let job = self.current.take()?;
        self.finish(&job);
        if !self.queue.is_empty() {
            self.start(at);
        }
        Some((job.command.tag, at))
    }

    /// The head is behind a command's bytes; a read's stay in the buffer, and the head reads on.
    fn finish(&mut self, job: &Job) {
        let Command { write, offset, end, .. } = job.command;
        (self.head, self.free_at) = (end, job.done_at);
        if write {
            // What was read before and is written now is not true any more.
            if self.buffer.is_some_and(|b| offset < b.limit && b.start < end) {
                self.buffer = None;
            }
            return;
        }
        let start = self.buffer.filter(|b| b.from == offset).map_or(offset, |b| b.start);
        self.buffer = Some(Buffer {
            start: start.max(end.saturating_sub(self.read_ahead)),
            from: end,
            from_at: job.done_at,
            limit: end + self.read_ahead,
            running: self.queue.is_empty(),
            promised: 0,
            due: end,
        });
    }

    /// Takes the best command of the queue.
    fn start(&mut self, now: Nanos) {
        let streamed = self.buffer.is_none_or(|b| !b.running);
        let from = self.leave_buffer(now);
        let begin = now.max(self.buffer.map_or(0, |b| b.promised));
        let data_at = |c: &Command| {
            if streamed && c.offset == self.head && now == self.free_at && c.arrived < now {
                return now;
            }
            let moved = begin.max(c.arrived + self.command) + self.geometry.seek(from, c.offset, c.write);
            moved + self.geometry.rotate(moved, c.offset)
        };
        let old = self.queue.front().is_some_and(|c| c.passed >= PASSED_MAX * self.queue_depth);
        let choice = if old { 1 } else { self.queue_depth };
        let best = self.queue.iter().take(choice).map(data_at).enumerate().min_by_key(|(n, at)| (*at, *n));
        let Some((n, data_at)) = best else { return };
        let Some(command) = self.queue.remove(n) else { return };
        self.queue.iter_mut().take(choice - 1).for_each(|c| c.passed += 1);
        let done_at = data_at + self.geometry.transfer(command.offset, command.end);
        self.current = Some(Job { command, done_at });
    }

    /// The head leaves what it reads ahead; gives where it is.
    fn leave_buffer(&mut self, now: Nanos) -> u64 {
        let Some(buffer) = self.buffer.as_mut().filter(|b| b.running) else { return self.head };
        let at = now.max(buffer.promised);
        let reached = self.geometry.reach(buffer.from, at.saturating_sub(buffer.from_at)).min(buffer.limit);
        (buffer.from, buffer.from_at, buffer.running) = (reached, at, false);
        buffer.limit = reached;
        reached
    }

    /// When a read's bytes are in the buffer, if they are or will be.
    fn in_buffer(&mut self, now: Nanos, read: &Command) -> Option<Nanos> {
        let geometry = &self.geometry;
        let buffer = self.buffer.as_mut()?;
        let running = buffer.running && self.current.is_none();
        let since = if running { now.saturating_sub(buffer.from_at) } else { 0 };
        let reached = geometry.reach(buffer.from, since).min(buffer.limit).max(buffer.from);
        // One that goes on where a read ends that is still waiting for its bytes is the same reader's, as the halves of
        // a request that the host had to cut.
        let begun = if running { reached.max(buffer.due) } else { reached };
        if read.offset < buffer.start || read.offset > begun || (!running && read.end > reached) {
            return None;
        }
        if !running {
            return Some(now);
        }
        if reached == buffer.limit {
            // It was full, and reads on when the platter is there again.
            (buffer.from, buffer.from_at) = (reached, now + geometry.rotate(now, reached));
        }
        buffer.limit = buffer.limit.max(read.end + self.read_ahead);
        buffer.start = buffer.start.max(read.offset.saturating_sub(self.read_ahead));
        if read.end <= reached {
            return Some(now);
        }
        let available = buffer.from_at + geometry.transfer(buffer.from, read.end);
        buffer.promised = buffer.promised.max(available);
        buffer.due = buffer.due.max(read.end);
        Some(available)
    }
}
