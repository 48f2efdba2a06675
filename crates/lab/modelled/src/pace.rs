//! When answers are given: a request's work is done for real at once, its answer waits until the model has it done.
//!
//! [`Pace::begin`] gives the model a request, [`Pace::finish`] hands in its answer. Whichever of the model and the
//! real work is later gives the answer. One thread ([`Pace::run`]) sleeps until the model's next event.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use devmodel::{Nanos, Op, Request};

use crate::timing::Timing;

/// What is to be done when a request is answered.
pub type Answer = Box<dyn FnOnce() + Send>;

/// A sleep without an event to wait for ends after this long nevertheless.
const IDLE: Duration = Duration::from_secs(1);

/// What waking takes is learned and slept less; where the machine is so busy that it takes longer than this, answers are
/// late rather than waited for awake.
const LAG_MAX: Duration = Duration::from_micros(100);

/// What a request takes from a program to this process and back besides the model: the kernel's part. The model is given
/// a time of arrival that is so much earlier, so that the program sees the model's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TransportOverhead {
    /// Of a read or write.
    pub request: Duration,
    pub flush: Duration,
    /// Of each MiB that is read or written, besides.
    pub mib: Duration,
}

impl TransportOverhead {
    fn of(&self, request: &Request) -> Nanos {
        let overhead = match request.op {
            Op::Flush => self.flush,
            Op::Read | Op::Write => {
                self.request + self.mib.mul_f64(request.length as f64 / f64::from(1 << 20))
            }
            Op::Discard => self.request,
        };
        Nanos::try_from(overhead.as_nanos()).unwrap_or(Nanos::MAX)
    }
}

/// What was answered, and how well the real work kept up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Requests answered.
    pub answered: u64,
    /// Of these, how many the real work finished after the model.
    pub late: u64,
    /// By how much, together.
    pub late_nanos: Nanos,
}

/// A request that has no answer yet.
enum Waiting {
    /// Neither the model nor the real work is done.
    Both,
    /// The model was done at this time; the real work isn't.
    Work(Nanos),
    /// The real work is done; the model isn't.
    Model(Answer),
}

struct State {
    timing: Box<dyn Timing>,
    /// The latest time given to the model.
    told: Nanos,
    waiting: HashMap<u64, Waiting>,
    next: u64,
    /// When the thread will wake by itself.
    wakes: Nanos,
    counts: Counts,
    hurried: bool,
    ended: bool,
}

/// A model in real time.
pub struct Pace {
    state: Mutex<State>,
    earlier: Condvar,
    origin: Instant,
    overhead: TransportOverhead,
}

impl Pace {
    /// A model whose requests take `way` besides.
    #[must_use]
    pub fn new(timing: Box<dyn Timing>, overhead: TransportOverhead) -> Self {
        let state = State {
            timing,
            told: 0,
            waiting: HashMap::new(),
            next: 0,
            wakes: 0,
            counts: Counts::default(),
            hurried: false,
            ended: false,
        };
        Self { state: Mutex::new(state), earlier: Condvar::new(), origin: Instant::now(), overhead }
    }

    /// A request has come. Its number is for [`Pace::finish`].
    pub fn begin(&self, request: Request) -> u64 {
        let mut state = self.lock();
        let came = self.now().saturating_sub(self.overhead.of(&request));
        let id = state.next;
        state.next += 1;
        // The model's time never goes back: what it has done already came before this.
        state.told = state.told.max(came);
        let told = state.told;
        state.timing.arrive(told, id, request);
        state.waiting.insert(id, Waiting::Both);
        let hurried = state.hurried;
        if state.timing.next_event().is_some_and(|at| hurried || at < state.wakes) {
            self.earlier.notify_one();
        }
        id
    }

    /// A request's work is done: its answer is given now or when the model says so.
    pub fn finish(&self, id: u64, answer: Answer) {
        let mut state = self.lock();
        match state.waiting.remove(&id) {
            Some(Waiting::Work(due)) => {
                state.counts.answered += 1;
                state.counts.late += 1;
                state.counts.late_nanos += self.now().saturating_sub(due);
                drop(state);
                answer();
            }
            _ => {
                state.waiting.insert(id, Waiting::Model(answer));
            }
        }
    }

    /// Gives answers in time until [`Pace::end`]. For a thread of its own.
    pub fn run(&self) {
        // A sleep's end is put off by 50 us unless a thread asks for better.
        // Where that can't be had, answers are that much late.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let mut lag = Duration::ZERO;
        let mut state = self.lock();
        while !state.ended {
            let due = self.due(&mut state);
            if !due.is_empty() {
                drop(state);
                due.into_iter().for_each(|answer| answer());
                state = self.lock();
                continue;
            }
            let event = state.timing.next_event().filter(|_| !state.hurried);
            let now = self.now();
            let wait = event.map_or(IDLE, |at| Duration::from_nanos(at.saturating_sub(now)).min(IDLE));
            let sleep = wait.saturating_sub(lag);
            if sleep.is_zero() {
                // Shorter than waking takes: the rest is waited for awake, and requests may come meanwhile. The core is
                // lent to whoever wants it: the kernel's workers, who bring requests, would wait for a time slice.
                drop(state);
                std::thread::yield_now();
                state = self.lock();
                continue;
            }
            let wakes = now.saturating_add(Nanos::try_from(sleep.as_nanos()).unwrap_or(Nanos::MAX));
            state.wakes = wakes;
            let (woken, result) =
                self.earlier.wait_timeout(state, sleep).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            // This thread is awake: no wake-up is needed.
            state.wakes = 0;
            if result.timed_out() {
                let late = Duration::from_nanos(self.now().saturating_sub(wakes)).min(LAG_MAX);
                lag = (lag * 7 + late) / 8;
            }
        }
    }

    /// Ends [`Pace::run`]; answers that are still due are dropped.
    pub fn end(&self) {
        self.lock().ended = true;
        self.earlier.notify_all();
    }

    /// Answers come as soon as the work is done from here on.
    pub fn hurry(&self) {
        self.lock().hurried = true;
        self.earlier.notify_all();
    }

    /// What was answered so far.
    pub fn counts(&self) -> Counts {
        self.lock().counts
    }

    /// Gives the model every event up to now, and takes the answers that are due. The model is never given a time
    /// beyond its own events, so that a request that comes now is not late for it.
    fn due(&self, state: &mut State) -> Vec<Answer> {
        let now = if state.hurried { Nanos::MAX } else { self.now() };
        let mut due = Vec::new();
        while let Some(at) = state.timing.next_event().filter(|at| *at <= now) {
            state.told = state.told.max(at);
            let told = state.told;
            for done in state.timing.complete(told) {
                match state.waiting.remove(&done.id) {
                    Some(Waiting::Model(answer)) => due.push(answer),
                    _ => {
                        state.waiting.insert(done.id, Waiting::Work(done.at));
                    }
                }
            }
        }
        state.counts.answered += due.len() as u64;
        due
    }

    fn now(&self) -> Nanos {
        Nanos::try_from(self.origin.elapsed().as_nanos()).unwrap_or(Nanos::MAX)
    }

    /// A thread that panicked inside has left nothing half done that matters: counters and maps.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Constant;
    use std::sync::Arc;
    use std::sync::mpsc;

    const MS: Nanos = 1_000_000;

    fn with(nanos: Nanos, overhead: Nanos, body: impl FnOnce(&Pace)) -> Counts {
        let overhead =
            TransportOverhead { request: Duration::from_nanos(overhead), ..TransportOverhead::default() };
        let pace = Arc::new(Pace::new(Box::new(Constant::new(nanos, 0)), overhead));
        let thread = std::thread::spawn({
            let pace = pace.clone();
            move || pace.run()
        });
        body(&pace);
        pace.end();
        thread.join().unwrap();
        pace.counts()
    }

    /// A request whose work takes `work`; how long its answer took.
    fn ask(pace: &Pace, work: Duration) -> Duration {
        let begin = Instant::now();
        let (send, receive) = mpsc::channel();
        let id = pace.begin(Request::read(0, 4096));
        std::thread::sleep(work);
        pace.finish(id, Box::new(move || send.send(()).unwrap()));
        receive.recv_timeout(Duration::from_secs(20)).unwrap();
        begin.elapsed()
    }

    #[test]
    fn an_answer_waits_for_the_model_and_not_much_longer() {
        let counts = with(5 * MS, 0, |pace| {
            // On a machine that does other things most are later than that, by what it withholds; not all of them.
            let mut times = (0..2000).map(|_| ask(pace, Duration::ZERO));
            let soon = times.find(|took| {
                assert!(*took >= Duration::from_millis(5), "{took:?}");
                *took < Duration::from_millis(8)
            });
            assert!(soon.is_some(), "every answer came 3 ms or more after the model's time");
        });
        assert_eq!(counts.late, 0);
    }

    #[test]
    fn work_that_is_slower_than_the_model_is_answered_at_once_and_counted() {
        let counts = with(MS, 0, |pace| {
            assert!(ask(pace, Duration::from_millis(30)) < Duration::from_millis(500));
        });
        assert_eq!((counts.answered, counts.late), (1, 1));
        assert!(counts.late_nanos >= 20 * MS);
    }

    #[test]
    fn many_wait_side_by_side() {
        let begin = Instant::now();
        with(50 * MS, 0, |pace| {
            let (send, receive) = mpsc::channel();
            for _ in 0..64 {
                let send = send.clone();
                let id = pace.begin(Request::read(0, 4096));
                pace.finish(id, Box::new(move || send.send(()).unwrap()));
            }
            (0..64).for_each(|_| receive.recv_timeout(Duration::from_secs(20)).unwrap());
        });
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    }

    #[test]
    fn a_hurried_model_keeps_nobody_waiting() {
        let begin = Instant::now();
        with(3_600_000 * MS, 0, |pace| {
            let (send, receive) = mpsc::channel();
            let waits = pace.begin(Request::read(0, 4096));
            pace.finish(waits, Box::new(move || send.send(()).unwrap()));
            pace.hurry();
            receive.recv_timeout(Duration::from_secs(20)).unwrap();
            let _ = (0..10).map(|_| ask(pace, Duration::ZERO)).max();
        });
        assert!(begin.elapsed() < Duration::from_secs(15), "{:?}", begin.elapsed());
    }

    #[test]
    fn the_overhead_is_not_waited_for_again() {
        with(200 * MS, 150 * MS, |pace| {
            // A request can't have come before there was a clock.
            std::thread::sleep(Duration::from_millis(160));
            // Waited for again, it would take 200 ms at the least, each time. A busy machine may make one of them late.
            let soon = (0..20).map(|_| ask(pace, Duration::ZERO)).find(|took| {
                assert!(*took >= Duration::from_millis(50), "{took:?}");
                *took < Duration::from_millis(150)
            });
            assert!(soon.is_some(), "no answer came before 150 ms");
        });
    }
}
