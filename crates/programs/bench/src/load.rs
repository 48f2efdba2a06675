//! The measured part of an instance's run.

use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

use client::ClientEvent;
use messages::{Op, OpArgs, OpCode};
use objecter::{Outcome, Request, RequestId};
use types::{PoolId, UTime};

use crate::content::Content;
use crate::error::{BenchError, errno_text};
use crate::names;
use crate::pace::{Due, Pace};
use crate::plan::{Kind, Operation, Plan};
use crate::run::Note;
use crate::session::{Session, read_op, request};
use crate::tally::{Interval, Tally};

const SECOND: u64 = 1_000_000_000;

/// CEPH_OSD_ALLOC_HINT_FLAG_*: SEQUENTIAL_WRITE, SEQUENTIAL_READ, APPEND_ONLY, IMMUTABLE; those that `rados bench` gives.
const HINTS: u32 = 1 | 4 | 16 | 32;

/// The objects that operations are on.
#[derive(Clone)]
pub(crate) struct Objects {
    pub pool: PoolId,
    pub prefix: String,
    pub object_size: u64,
    pub content: Content,
    /// Whether what is read is compared.
    pub verifies: bool,
    /// Whether writes carry hints about sizes.
    pub hints: bool,
}

impl Objects {
    pub(crate) fn name(&self, number: u64) -> String {
        names::object(&self.prefix, number)
    }

    pub(crate) fn request(&self, operation: &Operation) -> Request {
        let Operation { kind, object, offset, length } = *operation;
        let ops = match kind {
            Kind::Read => vec![read_op(offset, length)],
            Kind::Write => {
                let data = self.content.range(object, offset, length);
                let write = Op::new(OpCode::WRITE, OpArgs::extent(offset, length)).with_indata(data);
                let hint = OpArgs::AllocHint {
                    expected_object_size: self.object_size,
                    expected_write_size: length,
                    flags: HINTS,
                };
                let hint = self.hints.then(|| Op::new(OpCode::SETALLOCHINT, hint));
                hint.into_iter().chain([write]).collect()
            }
        };
        request(self.pool, self.name(object), ops)
    }

    /// What is wrong with the answer of an operation, if anything.
    pub(crate) fn check(&self, operation: &Operation, outcome: &Outcome) -> Result<(), Wrong> {
        let code = outcome.result();
        if code < 0 {
            return Err(Wrong::Error(code));
        }
        if operation.kind == Kind::Write {
            return Ok(());
        }
        let Outcome::Replied { ops, .. } = outcome else { return Ok(()) };
        let got: u64 = ops.iter().map(|op| op.outdata.len() as u64).sum();
        if got != operation.length {
            return Err(Wrong::Length(got));
        }
        let same =
            |op: &messages::OpResult| self.content.matches(operation.object, operation.offset, &op.outdata);
        if self.verifies && !ops.iter().all(same) { Err(Wrong::Bytes) } else { Ok(()) }
    }
}

/// What is wrong with an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wrong {
    Error(i32),
    Length(u64),
    Bytes,
}

impl Wrong {
    pub(crate) fn text(self, operation: &Operation, objects: &Objects) -> String {
        let Operation { kind, object, offset, length } = *operation;
        let verb = match kind {
            Kind::Read => "reading",
            Kind::Write => "writing",
        };
        let what = format!("{verb} {length} bytes at {offset} of {}", objects.name(object));
        match self {
            Self::Error(code) => format!("{what}: {}", errno_text(code)),
            Self::Length(got) => format!("{what}: only {got} bytes came"),
            Self::Bytes => format!("{what}: other bytes came than were written"),
        }
    }
}

/// A run of a plan.
pub(crate) struct Load<'a> {
    pub session: &'a mut Session,
    pub objects: &'a Objects,
    pub plan: &'a mut Plan,
    pub pace: Pace,
    pub start: UTime,
    pub end: UTime,
    pub instance: usize,
    pub notes: &'a Sender<Note>,
}

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub tally: Tally,
    /// From the start to the end of the last operation.
    pub seconds: f64,
    /// Why it ended before its time.
    pub failed: Option<String>,
}

struct State {
    under_way: BTreeMap<RequestId, (UTime, Operation)>,
    tally: Tally,
    interval: Interval,
    /// When the interval began.
    since: u64,
    last_done: UTime,
    /// No more operations are begun.
    stopping: bool,
    failed: Option<String>,
}

impl Load<'_> {
    /// Runs until the time is over, or the plan, and everything begun has ended.
    pub(crate) fn run(mut self) -> Result<Measured, BenchError> {
        let mut state = State {
            under_way: BTreeMap::new(),
            tally: Tally::default(),
            interval: Interval { second: 1, ..Interval::default() },
            since: self.start.as_nanos(),
            last_done: self.start,
            stopping: false,
            failed: None,
        };
        let mut events = Vec::new();
        loop {
            let now = self.session.client.now();
            self.end_intervals(&mut state, now);
            let next = self.begin_due(&mut state, now);
            if state.stopping && state.under_way.is_empty() {
                break;
            }
            let second = UTime::from_nanos(state.since + SECOND);
            let until = if state.stopping { second } else { next.map_or(second, |at| at.min(second)) };
            self.session.turn(Some(until), &mut events)?;
            for event in events.drain(..) {
                match event {
                    ClientEvent::Done { id, outcome, at } => self.on_done(&mut state, id, &outcome, at),
                    other => self.session.note(&other),
                }
            }
        }
        let done = state.last_done;
        if state.interval.operations > 0 {
            self.send_interval(&mut state, done.as_nanos());
        }
        if state.failed.is_some() || self.session.stage.is_interrupted() {
            state.tally.never_begun = self.pace.left();
        }
        let seconds = done.as_nanos().saturating_sub(self.start.as_nanos()) as f64 / 1e9;
        Ok(Measured { tally: state.tally, seconds, failed: state.failed })
    }

    /// Begins what is due. When to look again, at the latest.
    fn begin_due(&mut self, state: &mut State, now: UTime) -> Option<UTime> {
        if now < self.start {
            return Some(self.start);
        }
        let is_closed = matches!(self.pace, Pace::Closed { .. });
        if self.session.stage.is_stopped() || is_closed && now >= self.end {
            state.stopping = true;
        }
        while !state.stopping {
            let now = self.session.client.now();
            let planned = match self.pace.due(now, state.under_way.len()) {
                Due::Since(planned) => planned,
                Due::At(at) => return Some(at),
                Due::WhenOneEnds => return is_closed.then_some(self.end),
                Due::Never => break,
            };
            let Some(operation) = self.plan.next() else { break };
            match self.session.client.submit(self.objects.request(&operation)) {
                Ok(id) => drop(state.under_way.insert(id, (planned, operation))),
                Err(busy) => {
                    debug_assert!(false, "the client accepts as many as may be in flight: {busy:?}");
                    return None;
                }
            }
            self.pace.begun();
        }
        state.stopping = true;
        None
    }

    fn on_done(&self, state: &mut State, id: RequestId, outcome: &Outcome, at: UTime) {
        // An answer to what was asked before the measurement.
        let Some((planned, operation)) = state.under_way.remove(&id) else { return };
        state.last_done = state.last_done.max(at);
        match self.objects.check(&operation, outcome) {
            Ok(()) => {
                let nanos = at.as_nanos().saturating_sub(planned.as_nanos());
                state.tally.add(operation.kind, nanos, operation.length);
                state.interval.add(nanos, operation.length);
            }
            Err(wrong) => {
                match wrong {
                    Wrong::Error(code) => *state.tally.errors.entry(code).or_default() += 1,
                    Wrong::Length(_) | Wrong::Bytes => state.tally.mismatches += 1,
                }
                if state.failed.is_none() {
                    state.failed = Some(wrong.text(&operation, self.objects));
                    self.session.stage.stop();
                }
            }
        }
    }

    /// Ends the seconds that are over.
    fn end_intervals(&self, state: &mut State, now: UTime) {
        while now.as_nanos() >= state.since + SECOND {
            let until = state.since + SECOND;
            self.send_interval(state, until);
        }
    }

    fn send_interval(&self, state: &mut State, until: u64) {
        let seconds = until.saturating_sub(state.since) as f64 / 1e9;
        let in_flight = state.under_way.len() as u64;
        let next = Interval { second: state.interval.second + 1, ..Interval::default() };
        let interval = std::mem::replace(&mut state.interval, next);
        state.since = until;
        // The main thread has ended: nothing is printed any more.
        let _ = self.notes.send(Note::Interval(self.instance, Interval { seconds, in_flight, ..interval }));
    }
}
