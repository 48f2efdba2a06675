//! What the shell needs of a model: it takes requests and answers when they are done.

use std::collections::BTreeSet;

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
    /// What each MiB takes besides.
    pub mib_nanos: Nanos,
    done: BTreeSet<(Nanos, u64)>,
}

impl Constant {
    /// Every request takes so long, and each of its MiB.
    #[must_use]
    pub fn new(nanos: Nanos, mib_nanos: Nanos) -> Self {
        Self { nanos, mib_nanos, ..Self::default() }
    }
}

impl Timing for Constant {
    fn arrive(&mut self, now: Nanos, id: u64, request: Request) {
        let bytes = (request.length as f64 / f64::from(1 << 20) * self.mib_nanos as f64) as Nanos;
        self.done.insert((now.saturating_add(self.nanos).saturating_add(bytes), id));
    }
    fn next_event(&self) -> Option<Nanos> {
        self.done.first().map(|done| done.0)
    }
    fn complete(&mut self, now: Nanos) -> Vec<Done> {
        let later = self.done.split_off(&(now.saturating_add(1), 0));
        std::mem::replace(&mut self.done, later).into_iter().map(|(at, id)| Done { id, at }).collect()
    }
}
