//! A queue of devices that are as slow as a model says.
//!
//! A request is performed at once by the queue below, and completes when the model has done it too, or when the queue
//! below has if that is later. The caller's time moves the model on: no thread waits. Everything but the time is the queue
//! below's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use blockdev::{
    Completion, DeviceError, DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token, Waker,
};
use devmodel::{Model, ModelError, Nanos};
use types::UTime;

/// A modelled disk whose time is that of the queues on it. Clones are the same disk.
#[derive(Clone)]
pub struct ModelledDisk(Arc<Mutex<Disk>>);

struct Disk {
    model: Model,
    /// The time of the first call; the model's clock begins there.
    origin: Option<Nanos>,
    next_request: u64,
    next_queue: u64,
    /// By the model's id of a request.
    owners: BTreeMap<u64, Owner>,
    queues: BTreeMap<u64, Mailbox>,
}

/// The queue of a request, and its number there.
struct Owner {
    queue: u64,
    token: Token,
}

/// Completions of the model that a queue has not taken yet.
#[derive(Default)]
struct Mailbox {
    done: Vec<Token>,
    waker: Option<Waker>,
}

/// The bytes `base..base + span` of a modelled disk, which a device lies on. A device that is longer begins at the
/// range's start again.
#[derive(Clone)]
pub struct ModelledPlace {
    disk: ModelledDisk,
    base: u64,
    span: u64,
}

/// See the module's documentation.
pub struct ModelledQueue<Q> {
    below: Q,
    places: BTreeMap<DeviceId, Place>,
    next: u64,
    open: BTreeMap<Token, Open>,
    /// Requests in `open` that a model has not done.
    modelled: usize,
    ready: Vec<Completion>,
}

struct Place {
    place: ModelledPlace,
    /// This queue's number on the disk.
    queue: u64,
}

/// A request in flight.
struct Open {
    /// The caller's.
    token: Token,
    /// Whether the model has not done it.
    modelled: bool,
    result: Option<Result<Done, DeviceError>>,
}

impl ModelledDisk {
    /// A disk of a model's name, with `parameters` as `a=b,c=d` over the model's own.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn named(name: &str, parameters: &str, size_bytes: u64) -> Result<Self, ModelError> {
        let model = Model::named(name, &devmodel::pairs(parameters)?, size_bytes)?;
        Ok(Self(Arc::new(Mutex::new(Disk {
            model,
            origin: None,
            next_request: 0,
            next_queue: 0,
            owners: BTreeMap::new(),
            queues: BTreeMap::new(),
        }))))
    }

    pub fn place(&self, base: u64, span: u64) -> ModelledPlace {
        ModelledPlace { disk: self.clone(), base, span: span.max(1) }
    }

    /// A panic elsewhere doesn't make the state wrong.
    fn state(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Disk {
    /// The model's time.
    fn time(&mut self, now: UTime) -> Nanos {
        let origin = *self.origin.get_or_insert(now.as_nanos());
        now.as_nanos().saturating_sub(origin)
    }

    fn arrive(&mut self, now: UTime, owner: Owner, request: devmodel::Request) {
        let now = self.time(now);
        let id = self.next_request;
        self.next_request += 1;
        self.owners.insert(id, owner);
        self.model.arrive(now, id, request);
    }

    /// Performs everything that is due. Answers the wakers of the other queues that have completions.
    fn advance(&mut self, now: UTime, queue: u64) -> Vec<Waker> {
        let now = self.time(now);
        let mut wakers = Vec::new();
        for done in self.model.complete(now) {
            // The queue was dropped.
            let Some(Owner { queue: its, token }) = self.owners.remove(&done.id) else { continue };
            let Some(mailbox) = self.queues.get_mut(&its) else { continue };
            mailbox.done.push(token);
            if its != queue {
                wakers.extend(mailbox.waker.clone());
            }
        }
        wakers
    }
}

impl<Q: DeviceQueue> ModelledQueue<Q> {
    /// Lays the devices of `below` that are named on modelled disks; the others are as fast as they are.
    pub fn new(below: Q, places: impl IntoIterator<Item = (DeviceId, ModelledPlace)>) -> Self {
        let number = |place: ModelledPlace| {
            let mut disk = place.disk.state();
            let queue = disk.next_queue;
            disk.next_queue += 1;
            disk.queues.insert(queue, Mailbox::default());
            drop(disk);
            Place { place, queue }
        };
        let places = places.into_iter().map(|(device, place)| (device, number(place))).collect();
        Self { below, places, next: 0, open: BTreeMap::new(), modelled: 0, ready: Vec::new() }
    }

    /// Moves the disks' time on, and takes their completions.
    fn advance(&mut self, now: UTime) {
        for Place { place, queue } in self.places.values() {
            let mut disk = place.disk.state();
            let wakers = disk.advance(now, *queue);
            drop(disk);
            wakers.iter().for_each(|wake| wake());
        }
        self.learn();
    }

    fn learn(&mut self) {
        for Place { place, queue } in self.places.values() {
            let mut disk = place.disk.state();
            let Some(mailbox) = disk.queues.get_mut(queue) else {
                debug_assert!(false, "queue {queue} has no mailbox on its disk");
                continue;
            };
            for token in mailbox.done.drain(..) {
                if let Some(open) = self.open.get_mut(&token) {
                    open.modelled = false;
                    self.modelled -= 1;
                    finish(&mut self.open, token, &mut self.ready);
                }
            }
        }
    }
}

/// Completes a request if both the model and the queue below have.
fn finish(open: &mut BTreeMap<Token, Open>, token: Token, ready: &mut Vec<Completion>) {
    let is_done = |o: &Open| !o.modelled && o.result.is_some();
    if !open.get(&token).is_some_and(is_done) {
        return; // The other one completes it.
    }
    if let Some(Open { token, result: Some(result), .. }) = open.remove(&token) {
        ready.push(Completion { token, result });
    }
}

impl<Q: DeviceQueue> DeviceQueue for ModelledQueue<Q> {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        // The model's durable writes take the time of FUA: they stand for a device that flushes nothing else with them.
        let of_model = |below| Geometry { durable_flushes: false, ..below };
        self.below.geometry(device).map(of_model)
    }

    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>) {
        for request in requests.iter_mut() {
            let number = Token(self.next);
            self.next += 1;
            let token = std::mem::replace(&mut request.token, number);
            // What the queue below refuses takes no time.
            let geometry = self.below.geometry(request.device);
            let taken = geometry.is_some_and(|geometry| geometry.check(request).is_ok());
            let place = self.places.get(&request.device).filter(|_| taken);
            if let Some(Place { place, queue }) = place {
                let owner = Owner { queue: *queue, token: number };
                place.disk.state().arrive(now, owner, place.modelled(&request.op));
            }
            self.modelled += usize::from(place.is_some());
            self.open.insert(number, Open { token, modelled: place.is_some(), result: None });
        }
        self.below.submit(now, requests);
        self.advance(now);
    }

    fn turn(&mut self, now: UTime) {
        self.below.turn(now);
        self.advance(now);
    }

    fn deadline(&self) -> Option<UTime> {
        let event = |place: &Place| {
            let disk = place.place.disk.state();
            disk.model.next_event().map(|at| UTime::from_nanos(at + disk.origin.unwrap_or(0)))
        };
        let modelled = (self.modelled > 0).then(|| self.places.values().filter_map(event).min()).flatten();
        modelled.into_iter().chain(self.below.deadline()).min()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        let mut done = Vec::new();
        self.below.completions(&mut done);
        for Completion { token, result } in done {
            if let Some(open) = self.open.get_mut(&token) {
                open.result = Some(result);
                finish(&mut self.open, token, &mut self.ready);
            }
        }
        self.learn();
        out.append(&mut self.ready);
    }

    fn set_waker(&mut self, waker: Waker) {
        for Place { place, queue } in self.places.values() {
            if let Some(mailbox) = place.disk.state().queues.get_mut(queue) {
                mailbox.waker = Some(Arc::clone(&waker));
            }
        }
        self.below.set_waker(waker);
    }
}

impl<Q> Drop for ModelledQueue<Q> {
    fn drop(&mut self) {
        for Place { place, queue } in self.places.values() {
            place.disk.state().queues.remove(queue);
        }
    }
}

impl ModelledPlace {
    /// The request as the model takes it.
    fn modelled(&self, op: &Op) -> devmodel::Request {
        let at = |offset: u64| self.base + offset % self.span;
        match op {
            Op::Read { offset, buffer } => devmodel::Request::read(at(*offset), buffer.len() as u64),
            Op::Write { offset, data, durability } => devmodel::Request {
                fua: *durability == Durability::Durable,
                ..devmodel::Request::write(at(*offset), data.len() as u64)
            },
            Op::Flush => devmodel::Request::flush(),
            Op::Discard { offset, len } => devmodel::Request::discard(at(*offset), *len),
        }
    }
}
