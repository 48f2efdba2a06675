//! A device.

use std::collections::VecDeque;

use crate::{Done, ModelError, Nanos, Request};

/// A modelled device.
///
/// The caller's loop: [`arrive`](Self::arrive) when a request comes; sleep until [`next_event`](Self::next_event)
/// (ask again after each arrival: it may have come nearer); then [`complete`](Self::complete) with the time that it is,
/// and answer the requests it names. Being called late changes nothing: what happens inside has its own exact times.
#[derive(Clone, Debug)]
pub struct Model {
    name: String,
    size_bytes: u64,
    now: Nanos,
    ready: VecDeque<Done>,
}

impl Model {
    /// A model of a name (`disk-7200`, `ssd`, `raid0-of-N`, each also with `-write-back`) with parameters that differ
    /// from its data sheet, of a size.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn named(name: &str, parameters: &[(String, String)], size_bytes: u64) -> Result<Self, ModelError> {
        if let Some((parameter, _)) = parameters.first() {
            let (model, name) = (name.to_owned(), parameter.clone());
            return Err(ModelError::UnknownParameter { model, name, nearest: None });
        }
        Ok(Self { name: name.to_owned(), size_bytes, now: 0, ready: VecDeque::new() })
    }

    /// The name it was made by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that it has.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// A request has come. `id` is the caller's: the completion names it. `now` never goes back; if it does, the
    /// latest time known counts.
    pub fn arrive(&mut self, now: Nanos, id: u64, _request: Request) {
        self.now = self.now.max(now);
        self.ready.push_back(Done { id, at: self.now + 8_000_000 });
    }

    /// When to call [`complete`](Self::complete) next; `None` if nothing is under way. May be a time without any
    /// completion, and may lie in the past.
    pub fn next_event(&self) -> Option<Nanos> {
        self.ready.front().map(|done| done.at)
    }

    /// What is done by `now`, in the order in which it was, each once.
    pub fn complete(&mut self, now: Nanos) -> Vec<Done> {
        self.now = self.now.max(now);
        let n = self.ready.iter().take_while(|done| done.at <= self.now).count();
        self.ready.drain(..n).collect()
    }

    /// Requests that have arrived and that [`complete`](Self::complete) has not named yet.
    pub fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
