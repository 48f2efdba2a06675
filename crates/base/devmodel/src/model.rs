//! A device: the state machine that callers drive.

use std::collections::{BTreeSet, VecDeque};

use crate::cache::Cache;
use crate::media::Media;
use crate::sheet::{Base, Sheet};
use crate::{Done, ModelError, Nanos, Op, Request};

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
    device: Device,
    /// Requests that need no device, and when they are done.
    short: BTreeSet<(Nanos, u64)>,
    /// Done and not asked for yet.
    done: VecDeque<Done>,
    in_flight: usize,
}

#[derive(Clone, Debug)]
enum Device {
    Plain(Media),
    Cached(Box<Cache>),
}

impl Device {
    fn next_event(&self) -> Option<Nanos> {
        match self {
            Self::Plain(media) => media.next_event(),
            Self::Cached(cache) => cache.next_event(),
        }
    }

    fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        match self {
            Self::Plain(media) => media.step(now),
            Self::Cached(cache) => cache.step(now),
        }
    }
}

/// A disk smaller than this has too few tracks to be one.
const DISK_BYTES_MIN: u64 = 16 << 20;

impl Model {
    /// A model of a name (`disk-7200`, `ssd`, `raid0-of-N`, each also with `-write-back`) with parameters that differ
    /// from its data sheet (see [`parameters`](crate::parameters)), of a size. The disk of a size is as large as that:
    /// its arm's times are those of the data sheet from its first byte to its last.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn named(name: &str, parameters: &[(String, String)], size_bytes: u64) -> Result<Self, ModelError> {
        let sheet = Sheet::read(name, parameters)?;
        let least = match sheet.base() {
            Base::Disk => DISK_BYTES_MIN,
            Base::Raid0(n) => DISK_BYTES_MIN * u64::from(n),
            Base::Ssd => 1,
        };
        if size_bytes < least {
            return Err(ModelError::Size { model: name.to_owned(), bytes: size_bytes, least });
        }
        let media = Media::new(&sheet, size_bytes);
        let device = match sheet.write_back() {
            true => Device::Cached(Box::new(Cache::new(&sheet, media))),
            false => Device::Plain(media),
        };
        let (short, done) = (BTreeSet::new(), VecDeque::new());
        Ok(Self { name: name.to_owned(), size_bytes, now: 0, device, short, done, in_flight: 0 })
    }

    /// The name it was made by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes that it has.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// A request has come. `id` is the caller's: the completion names it, and no two in flight may have the same. `now`
    /// never goes back; if it does, the latest time known counts.
    pub fn arrive(&mut self, now: Nanos, id: u64, request: Request) {
        self.advance(now);
        self.in_flight += 1;
        let offset = request.offset.min(self.size_bytes);
        let length = request.length.min(self.size_bytes - offset);
        let request = Request { offset, length, ..request };
        let empty = length == 0 && request.op != Op::Flush;
        match &mut self.device {
            Device::Cached(cache) if !empty => cache.arrive(self.now, id, request),
            Device::Plain(media) if !empty && matches!(request.op, Op::Read | Op::Write) => {
                media.submit(self.now, id, request.op == Op::Write, offset, length);
            }
            // Nothing is held back, so a flush has nothing to wait for.
            Device::Plain(media) => {
                self.short.insert((self.now + media.flush(), id));
            }
            Device::Cached(_) => {
                self.short.insert((self.now, id));
            }
        }
    }

    /// When to call [`complete`](Self::complete) next; `None` if nothing is under way. May be a time without any
    /// completion, and may lie in the past.
    pub fn next_event(&self) -> Option<Nanos> {
        let done = self.done.front().map(|done| done.at);
        let short = self.short.first().map(|s| s.0);
        [done, short, self.device.next_event()].into_iter().flatten().min()
    }

    /// What is done by `now`, in the order in which it was, each once.
    pub fn complete(&mut self, now: Nanos) -> Vec<Done> {
        self.advance(now);
        self.in_flight -= self.done.len();
        self.done.drain(..).collect()
    }

    /// Requests that have arrived and that [`complete`](Self::complete) has not named yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Bytes that a cache holds and the medium doesn't have yet. They go there without any request: as long as there
    /// are some, [`next_event`](Self::next_event) names a time.
    pub fn dirty_bytes(&self) -> u64 {
        match &self.device {
            Device::Plain(_) => 0,
            Device::Cached(cache) => cache.dirty_bytes(),
        }
    }

    /// Lets everything happen that happens up to a time.
    fn advance(&mut self, now: Nanos) {
        self.now = self.now.max(now);
        loop {
            let short = self.short.first().map(|s| s.0).filter(|at| *at <= self.now);
            // The device's own go first if they are at the same time: the order is the same on every run.
            if let Some((id, at)) = self.device.step(short.unwrap_or(self.now)) {
                self.done.push_back(Done { id, at });
                continue;
            }
            let Some((at, id)) = short.and_then(|_| self.short.pop_first()) else { return };
            self.done.push_back(Done { id, at });
        }
    }
}
