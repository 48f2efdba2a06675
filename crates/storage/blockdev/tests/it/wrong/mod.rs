//! Devices with one flaw each, over simulated disks that have none.

pub mod bytes;
pub mod driving;
pub mod failing;
pub mod power;
pub mod threaded;

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use blockdev::conformance::{Factory, Properties};
use blockdev::sim::{SimDisks, SimQueue};
use blockdev::{Completion, DeviceId, DeviceQueue, Done, Durability, Geometry, Op, Request, Token, Waker};
use buffer::Rope;
use types::UTime;

use crate::common::Sim;

/// What is wrong. `queue` numbers the queues in the order in which they were opened.
pub trait Flaw {
    fn submit(&mut self, _queue: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        inner.submit(now, requests);
    }

    /// What completed is what is left of `done`.
    fn completed(&mut self, _queue: usize, _done: &mut Vec<Completion>) {}

    fn deadline(&self, due: Option<UTime>) -> Option<UTime> {
        due
    }

    fn geometry(&self, geometry: Geometry) -> Geometry {
        geometry
    }

    /// The disks are at hand from now on.
    fn made(&mut self, _disks: &SimDisks) {}

    /// After a power loss.
    fn after_power_loss(&mut self, _disks: &SimDisks) {}

    fn after_close(&mut self, _disks: &SimDisks) {}

    fn dropped(&mut self, _disks: &SimDisks) {}
}

/// None.
pub struct NoFlaw;

impl Flaw for NoFlaw {}

type Shared = Rc<RefCell<Box<dyn Flaw>>>;

pub struct FlawedQueue {
    /// `None`: dropped.
    inner: Option<SimQueue>,
    disks: SimDisks,
    flaw: Shared,
    number: usize,
}

impl FlawedQueue {
    fn inner(&mut self) -> &mut SimQueue {
        self.inner.as_mut().expect("only `drop` takes it")
    }
}

impl DeviceQueue for FlawedQueue {
    fn geometry(&self, device: DeviceId) -> Option<Geometry> {
        Some(self.flaw.borrow().geometry(self.inner.as_ref()?.geometry(device)?))
    }

    fn submit(&mut self, now: UTime, requests: &mut Vec<Request>) {
        let flaw = Rc::clone(&self.flaw);
        let number = self.number;
        flaw.borrow_mut().submit(number, self.inner(), now, requests);
        requests.clear();
    }

    fn turn(&mut self, now: UTime) {
        self.inner().turn(now);
    }

    fn deadline(&self) -> Option<UTime> {
        self.flaw.borrow().deadline(self.inner.as_ref()?.deadline())
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        let mut done = Vec::new();
        self.inner().completions(&mut done);
        self.flaw.borrow_mut().completed(self.number, &mut done);
        // The suite did not ask for these.
        done.retain(|completion| completion.token != OWN);
        out.append(&mut done);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.inner().set_waker(waker);
    }
}

impl Drop for FlawedQueue {
    fn drop(&mut self) {
        drop(self.inner.take());
        self.flaw.borrow_mut().dropped(&self.disks);
    }
}

pub struct FlawedFactory {
    pub sim: Sim,
    pub flaw: fn() -> Box<dyn Flaw>,
    shared: Shared,
    opened: usize,
}

impl FlawedFactory {
    pub fn new(sim: Sim, flaw: fn() -> Box<dyn Flaw>) -> Self {
        Self { sim, flaw, shared: Rc::new(RefCell::new(flaw())), opened: 0 }
    }
}

impl Factory for FlawedFactory {
    type Queue = FlawedQueue;

    fn properties(&self) -> Properties {
        self.sim.properties()
    }

    fn devices(&self) -> Vec<DeviceId> {
        self.sim.devices()
    }

    fn make(&mut self, seed: u64) {
        self.sim.make(seed);
        self.shared = Rc::new(RefCell::new((self.flaw)()));
        self.shared.borrow_mut().made(self.sim.disks());
        self.opened = 0;
    }

    fn open(&mut self) -> FlawedQueue {
        self.opened += 1;
        FlawedQueue {
            inner: Some(self.sim.open()),
            disks: self.sim.disks().clone(),
            flaw: Rc::clone(&self.shared),
            number: self.opened - 1,
        }
    }

    fn close(&mut self) {
        self.sim.close();
        self.shared.borrow_mut().after_close(self.sim.disks());
    }

    fn power_loss(&mut self, seed: u64) {
        self.sim.power_loss(seed);
        self.shared.borrow_mut().after_power_loss(self.sim.disks());
    }

    fn fail_flushes(&mut self, device: DeviceId) {
        self.sim.fail_flushes(device);
    }

    fn fail_reads(&mut self, device: DeviceId, range: Range<u64>) {
        self.sim.fail_reads(device, range);
    }

    fn fail_writes(&mut self, device: DeviceId, range: Range<u64>) {
        self.sim.fail_writes(device, range);
    }
}

/// The token of what a flaw asks for itself. The harness never draws it.
pub const OWN: Token = Token(0x0f1a_0f1a_0f1a_0f1a);

/// Puts durable bytes on the disks without a request of the suite.
pub fn poke(disks: &SimDisks, device: DeviceId, offset: u64, bytes: &[u8]) {
    let mut queue = disks.open();
    let op = Op::Write { offset, data: Rope::copy_from(bytes), durability: Durability::Durable };
    queue.submit(UTime::default(), &mut vec![Request::new(OWN, device, op)]);
    let mut out = Vec::new();
    while out.is_empty() {
        queue.turn(queue.deadline().expect("a write takes its time"));
        queue.completions(&mut out);
    }
    assert!(matches!(out[0].result, Ok(Done::Written)));
}
