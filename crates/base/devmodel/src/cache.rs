//! A write-back cache before a medium.
//!
//! A write is done when the cache has it; while the cache is full, writes wait in their order. What is dirty goes to the
//! medium in the order of its addresses, sweep after sweep, a few writes in flight at a time; while reads wait for the
//! medium, only if a flush waits or the cache is more than half full. A flush is done when everything that was in the
//! cache when it came is on the medium; with a battery it waits for nothing. Reads of what is wholly in one dirty piece
//! are the cache's. The order between a flush and a write that arrived before it but isn't in the cache yet is open,
//! as on a real device.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::dirty::Dirty;
use crate::media::Media;
use crate::sheet::{Base, Sheet};
use crate::{Nanos, Op, Request};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    media: Media,
    size: u64,
    /// Bytes a nanosecond in and out.
    rate: f64,
    /// The cache's own time for a command.
    command: Nanos,
    battery: bool,
    destage_depth: usize,
    destage_size: u64,
    dirty: Dirty,
    /// Raised by each flush: what it must wait for is what has its epoch or an older one.
    epoch: u64,
    /// When the way into the cache is free.
    free_at: Nanos,
    /// Writes on that way, and when they are in.
    coming: VecDeque<(Nanos, u64, Request)>,
    coming_bytes: u64,
    /// Writes that there is no room for.
    waiting: VecDeque<(u64, Request)>,
    /// Flushes that wait, and the epoch that they wait for.
    flushes: VecDeque<(u64, u64)>,
    /// Requests that are done without the medium, and when.
    ready: BTreeSet<(Nanos, u64)>,
    /// Commands at the medium.
    at_media: BTreeMap<u64, Purpose>,
    next_tag: u64,
    destaging: usize,
}

/// Why the medium was asked.
#[derive(Clone, Copy, Debug)]
enum Purpose {
    /// A caller's read, or a write that must be durable.
    Caller(u64),
    /// Bytes of an epoch that leave the cache.
    Destage { epoch: u64, bytes: u64 },
}

impl Cache {
    pub(crate) fn new(sheet: &Sheet, media: Media) -> Self {
        let disks = if let Base::Raid0(n) = sheet.base() { n as usize } else { 1 };
        Self {
            media,
            size: sheet.number("cache_size") as u64,
            rate: sheet.number("cache_mb_s") / 1e3,
            command: sheet.nanos("cache_us"),
            battery: sheet.number("battery") != 0.0,
            destage_depth: sheet.number("destage_depth") as usize * disks,
            destage_size: sheet.number("destage_size") as u64,
            dirty: Dirty::default(),
            epoch: 0,
            free_at: 0,
            coming: VecDeque::new(),
            coming_bytes: 0,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            ready: BTreeSet::new(),
            at_media: BTreeMap::new(),
            next_tag: 0,
            destaging: 0,
        }
    }

    /// Bytes that aren't on the medium yet.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty.bytes() + self.coming_bytes
    }

    /// A request comes, with a range inside the device that isn't empty, or a flush. Everything up to `now` has been
    /// stepped through.
    pub(crate) fn arrive(&mut self, now: Nanos, id: u64, request: Request) {
        let end = request.offset + request.length;
        match request.op {
            Op::Flush if self.battery || !self.dirty.any_up_to(self.epoch) => {
                let at = now + self.command + if self.battery { 0 } else { self.media.flush() };
                self.ready.insert((at, id));
            }
            Op::Flush => {
                self.flushes.push_back((self.epoch, id));
                self.epoch += 1;
            }
            Op::Discard => {
                self.dirty.forget(request.offset, end);
                self.ready.insert((now + self.command, id));
                self.admit(now);
            }
            Op::Read if self.dirty.holds(request.offset, end) => {
                let at = self.through(now, request.length);
                self.ready.insert((at, id));
            }
            Op::Write if !request.fua || self.battery => {
                self.waiting.push_back((id, request));
                self.admit(now);
            }
            Op::Read | Op::Write => self.ask(now, Purpose::Caller(id), request),
        }
        self.destage(now);
    }

    /// When something happens next.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        let coming = self.coming.front().map(|c| c.0);
        let ready = self.ready.first().map(|r| r.0);
        [coming, ready, self.media.next_event()].into_iter().flatten().min()
    }

    /// The next completion up to `now`: the request's id, and when it was done.
    pub(crate) fn step(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
        loop {
            let at = self.next_event().filter(|at| *at <= now)?;
            if self.ready.first().is_some_and(|r| r.0 == at) {
                return self.ready.pop_first().map(|(at, id)| (id, at));
            }
            if self.coming.front().is_some_and(|c| c.0 == at) {
                if let Some(done) = self.come_in() {
                    return Some(done);
                }
            }
            if let Some((tag, at)) = self.media.step(at) {
                if let Some(id) = self.media_done(tag, at) {
                    return Some((id, at));
                }
            }
        }
    }

    /// When so many bytes are through the way into the cache.
    fn through(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.free_at = now.max(self.free_at) + self.command + (bytes as f64 / self.rate) as Nanos;
        self.free_at
    }

    /// Lets waiting writes in while there is room. One that is larger than the cache goes when it is empty.
    fn admit(&mut self, now: Nanos) {
        while let Some((id, request)) = self.waiting.front().copied() {
            let held = self.dirty_bytes();
            if held > 0 && held + request.length > self.size {
                break;
            }
            self.waiting.pop_front();
            let at = self.through(now, request.length);
            self.coming.push_back((at, id, request));
            self.coming_bytes += request.length;
        }
    }

    /// The first write on its way is in the cache.
    fn come_in(&mut self) -> Option<(u64, Nanos)> {
        let (at, id, request) = self.coming.pop_front()?;
        self.coming_bytes -= request.length;
        self.dirty.add(self.epoch, request.offset, request.offset + request.length);
        // It may have been dirty before, so that there is more room than was kept.
        self.admit(at);
        self.destage(at);
        Some((id, at))
    }

    fn ask(&mut self, now: Nanos, purpose: Purpose, request: Request) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.at_media.insert(tag, purpose);
        self.media.submit(now, tag, request.op == Op::Write, request.offset, request.length);
    }

    /// Sends what is dirty to the medium, as far as it may go now.
    fn destage(&mut self, now: Nanos) {
        let callers = self.at_media.len() > self.destaging;
        let pressed = !self.flushes.is_empty() || self.dirty_bytes() > self.size / 2;
        if callers && !pressed {
            return;
        }
        while self.destaging < self.destage_depth {
            let Some((epoch, offset, bytes)) = self.dirty.next(self.destage_size) else { return };
            self.destaging += 1;
            self.ask(now, Purpose::Destage { epoch, bytes }, Request::write(offset, bytes));
        }
    }

    /// The medium is done with a command; gives the caller's request if it was one.
    fn media_done(&mut self, tag: u64, at: Nanos) -> Option<u64> {
        let caller = match self.at_media.remove(&tag)? {
            Purpose::Caller(id) => Some(id),
            Purpose::Destage { epoch, bytes } => {
                self.destaging -= 1;
                self.dirty.destaged(epoch, bytes);
                self.admit(at);
                None
            }
        };
        while let Some((_, id)) =
            self.flushes.front().filter(|(epoch, _)| !self.dirty.any_up_to(*epoch)).copied()
        {
            self.flushes.pop_front();
            self.ready.insert((at + self.media.flush(), id));
        }
        self.destage(at);
        caller
    }
}
