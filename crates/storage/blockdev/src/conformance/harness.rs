//! Drives a queue request by request, and checks every completion.

#![allow(clippy::disallowed_methods, reason = "it waits for queues and stores that have threads")]

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use buffer::{PieceMut, Rope};
use types::UTime;

use super::factory::Properties;
use crate::{Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token};

/// How long a threaded one is given before the clock is advanced to its deadline.
const THREAD_MOMENT: Duration = Duration::from_millis(5);

/// How many deadlines in a row may bring nothing.
const IDLE_DEADLINES_MAX: u32 = 100_000;

/// What the waker sets.
#[derive(Default)]
struct Wake {
    woken: Mutex<bool>,
    called: Condvar,
}

impl Wake {
    fn call(&self) {
        *self.woken.lock().expect("no panic under this lock") = true;
        self.called.notify_all();
    }

    /// Whether the waker was called since the last time, waiting at most `patience` for it.
    fn take(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut woken = self.woken.lock().expect("no panic under this lock");
        while !*woken {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            woken = self.called.wait_timeout(woken, left).expect("no panic under this lock").0;
        }
        std::mem::take(&mut *woken)
    }
}

/// The expected completion of a request.
enum Open {
    /// Where the buffer is, and how long.
    Read(usize, usize),
    Write,
    Flush,
    Discard,
}

/// A request's outcome: a read's bytes, nothing for others.
pub type Outcome = Result<Vec<u8>, DeviceError>;

/// A queue under watch. Every completion is checked: it belongs to a request that was not completed before, is of its
/// kind, and a read hands back its own buffer. [`finish`](Self::finish) checks that every request was completed.
pub struct Harness<Q: DeviceQueue> {
    queue: Q,
    properties: Properties,
    pub now: UTime,
    wake: Arc<Wake>,
    random: types::SplitMix64,
    open: BTreeMap<Token, Open>,
    done: BTreeMap<Token, Outcome>,
}

impl<Q: DeviceQueue> Harness<Q> {
    pub fn new(mut queue: Q, properties: Properties) -> Self {
        let wake = Arc::new(Wake::default());
        let called = Arc::clone(&wake);
        queue.set_waker(Arc::new(move || called.call()));
        let now = UTime { sec: 1_000_000, nsec: 0 };
        let random = types::SplitMix64::new(1);
        Self { queue, properties, now, wake, random, open: BTreeMap::new(), done: BTreeMap::new() }
    }

    pub fn queue(&mut self) -> &mut Q {
        &mut self.queue
    }

    pub fn geometry(&self, device: DeviceId) -> Geometry {
        self.queue.geometry(device).unwrap_or_else(|| panic!("{device} was made and has a geometry"))
    }

    /// Submits a batch without waiting.
    pub fn submit(&mut self, ops: impl IntoIterator<Item = (DeviceId, Op)>) -> Vec<Token> {
        let mut tokens = Vec::new();
        let mut batch = Vec::new();
        for (device, mut op) in ops {
            let token = self.token();
            let open = match &mut op {
                Op::Read { buffer, .. } => Open::Read(buffer.as_mut_slice().as_ptr() as usize, buffer.len()),
                Op::Write { .. } => Open::Write,
                Op::Flush => Open::Flush,
                Op::Discard { .. } => Open::Discard,
            };
            self.open.insert(token, open);
            tokens.push(token);
            batch.push(Request { token, device, op });
        }
        self.queue.submit(self.now, &mut batch);
        assert!(batch.is_empty(), "submit takes every request");
        tokens
    }

    /// Any value that no open request has: the highest and the lowest too.
    fn token(&mut self) -> Token {
        loop {
            let drawn = self.random.next_u64();
            let token = Token(match drawn % 8 {
                0 => 0,
                1 => u64::MAX,
                _ => drawn,
            });
            if !self.open.contains_key(&token) && !self.done.contains_key(&token) {
                return token;
            }
        }
    }

    /// Requests that are not completed.
    pub fn in_flight(&self) -> usize {
        self.open.len()
    }

    /// Waits for one request.
    pub fn wait(&mut self, token: Token) -> Outcome {
        loop {
            if let Some(outcome) = self.done.remove(&token) {
                return outcome;
            }
            self.wait_for_some();
        }
    }

    /// Waits for each of these.
    pub fn wait_each(&mut self, tokens: &[Token]) -> Vec<Outcome> {
        tokens.iter().map(|token| self.wait(*token)).collect()
    }

    /// What has completed and not been waited for.
    pub fn take_done(&mut self) -> BTreeMap<Token, Outcome> {
        std::mem::take(&mut self.done)
    }

    /// Returns when at least one more request has completed.
    pub fn wait_for_some(&mut self) {
        assert!(!self.open.is_empty(), "something is in flight");
        for _ in 0..IDLE_DEADLINES_MAX {
            if self.collect() {
                return;
            }
            let deadline = self.queue.deadline();
            if let Some(patience) = self.properties.threads {
                let patience = if deadline.is_some() { THREAD_MOMENT } else { patience };
                if self.wake.take(patience) {
                    continue;
                }
            }
            let Some(deadline) = deadline else {
                panic!("{} requests are in flight: neither a wake-up nor a deadline", self.open.len());
            };
            self.now = self.now.max(deadline);
            self.turn();
        }
        panic!("{IDLE_DEADLINES_MAX} deadlines brought no completion");
    }

    /// Runs a turn, and checks that the deadline moves on.
    pub fn turn(&mut self) {
        self.queue.turn(self.now);
        if let Some(deadline) = self.queue.deadline() {
            assert!(deadline > self.now, "after a turn the deadline {deadline} is later than {}", self.now);
        }
    }

    /// Takes what is ready; whether that was anything.
    pub fn collect(&mut self) -> bool {
        let mut out = Vec::new();
        self.queue.completions(&mut out);
        let any = !out.is_empty();
        out.into_iter().for_each(|completion| self.completed(completion));
        any
    }

    fn completed(&mut self, Completion { token, result }: Completion) {
        let Some(open) = self.open.remove(&token) else {
            panic!("{token:?} was completed twice or never asked for");
        };
        let outcome = match (open, result) {
            (_, Err(error)) => Err(error),
            (Open::Read(at, len), Ok(Done::Read(mut buffer))) => {
                let own = (buffer.as_mut_slice().as_ptr() as usize, buffer.len());
                assert_eq!(own, (at, len), "a read hands back its own buffer");
                Ok(buffer.as_mut_slice().to_vec())
            }
            (Open::Write, Ok(Done::Written))
            | (Open::Flush, Ok(Done::Flushed))
            | (Open::Discard, Ok(Done::Discarded)) => Ok(Vec::new()),
            (_, Ok(done)) => panic!("{token:?} was completed as another kind of request: {done:?}"),
        };
        self.done.insert(token, outcome);
    }

    /// One request, waited for.
    pub fn perform(&mut self, device: DeviceId, op: Op) -> Outcome {
        let tokens = self.submit([(device, op)]);
        self.wait(tokens[0])
    }

    pub fn write(&mut self, device: DeviceId, offset: u64, data: &[u8], durability: Durability) {
        let written = self.perform(device, write(offset, data, durability));
        assert_eq!(written, Ok(vec![]), "a write at {offset}");
    }

    pub fn read(&mut self, device: DeviceId, offset: u64, len: usize) -> Vec<u8> {
        self.perform(device, read(offset, len)).unwrap_or_else(|e| panic!("a read at {offset}: {e}"))
    }

    pub fn flush(&mut self, device: DeviceId) {
        assert_eq!(self.perform(device, Op::Flush), Ok(vec![]), "a flush");
    }

    /// Waits for everything in flight, then a little longer: nothing more completes.
    pub fn finish(mut self) {
        while !self.open.is_empty() {
            self.wait_for_some();
        }
        self.turn();
        if self.properties.threads.is_some() {
            std::thread::sleep(THREAD_MOMENT);
        }
        self.collect();
    }
}

pub fn read(offset: u64, len: usize) -> Op {
    Op::Read { offset, buffer: PieceMut::zeroed(len) }
}

pub fn write(offset: u64, data: &[u8], durability: Durability) -> Op {
    Op::Write { offset, data: Rope::copy_from(data), durability }
}
