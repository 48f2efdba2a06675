//! What the shell needs of a model: told of requests, it tells when they are done.

use devmodel::{Done, Model, Nanos, Request};

/// A model as [`crate::Pace`] sees it; see [`Model`] for what each is to do.
pub trait Timing: Send {
    /// A request has come.
    fn arrive(&mut self, now: Nanos, id: u64, request: Request);
    /// When to call [`Timing::complete`] next.
    fn next_event(&self) -> Option<Nanos>;
    /// What is done by `now`.
    fn complete(&mut self, now: Nanos) -> Vec<Done>;
}

impl Timing for Model {
    fn arrive(&mut self, now: Nanos, id: u64, request: Request) {
        Self::arrive(self, now, id, request);
    }
    fn next_event(&self) -> Option<Nanos> {
        Self::next_event(self)
    }
    fn complete(&mut self, now: Nanos) -> Vec<Done> {
        Self::complete(self, now)
    }
}

/// A device on which everything takes the same time, side by side: with none, what the shell itself takes is measured.
#[derive(Clone, Default, Debug)]
pub struct Constant {
    /// What a request takes.
    pub nanos: Nanos,
    done: std::collections::VecDeque<Done>,
}

impl Constant {
    /// Every request takes this long.
    #[must_use]
    pub fn new(nanos: Nanos) -> Self {
        Self { nanos, ..Self::default() }
    }
}

impl Timing for Constant {
    fn arrive(&mut self, now: Nanos, id: u64, _: Request) {
        self.done.push_back(Done { id, at: now.saturating_add(self.nanos) });
    }
    fn next_event(&self) -> Option<Nanos> {
        self.done.front().map(|done| done.at)
    }
    fn complete(&mut self, now: Nanos) -> Vec<Done> {
        let count = self.done.partition_point(|done| done.at <= now);
        self.done.drain(..count).collect()
    }
}
