//! Completions that are missing or too many, and deadlines that are wrong.

use blockdev::sim::{SimDisks, SimQueue};
use blockdev::{Completion, DeviceError, DeviceQueue, Done, Request};
use types::UTime;

use super::Flaw;

/// Forgets every so many completions.
pub struct Forgets(pub u32);

impl Flaw for Forgets {
    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        done.retain(|_| {
            self.0 = self.0.checked_sub(1).unwrap_or(30);
            self.0 != 0
        });
    }
}

/// Completes a flush again with the next completions.
#[derive(Default)]
pub struct CompletesTwice(Vec<Completion>);

impl Flaw for CompletesTwice {
    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        let again = std::mem::take(&mut self.0);
        let flushes = done.iter().filter(|c| matches!(c.result, Ok(Done::Flushed)));
        self.0.extend(flushes.map(|c| Completion { token: c.token, result: Ok(Done::Flushed) }));
        done.extend(again);
    }
}

pub struct NeverDue;

impl Flaw for NeverDue {
    fn deadline(&self, _: Option<UTime>) -> Option<UTime> {
        None
    }
}

pub struct AlwaysDue;

impl Flaw for AlwaysDue {
    fn deadline(&self, _: Option<UTime>) -> Option<UTime> {
        Some(UTime::default())
    }
}

/// Asks for a turn in a moment, whether it has something to do or not.
#[derive(Default)]
pub struct Restless(std::cell::Cell<u64>);

impl Flaw for Restless {
    fn deadline(&self, due: Option<UTime>) -> Option<UTime> {
        let base = UTime { sec: 2_000_000, nsec: 0 }.as_nanos();
        self.0.set(self.0.get() + 1);
        due.or_else(|| Some(UTime::from_nanos(base + self.0.get())))
    }
}

/// Refuses a batch as a whole if one of its requests is refused.
#[derive(Default)]
pub struct SpoilsTheBatch {
    refused: Vec<Completion>,
}

impl Flaw for SpoilsTheBatch {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        let check = |r: &Request| match inner.geometry(r.device) {
            Some(geometry) => geometry.check(r).err(),
            None => Some(DeviceError::NoSuchDevice { device: r.device }),
        };
        match requests.iter().find_map(check) {
            None => inner.submit(now, requests),
            Some(error) => self.refused.extend(
                requests.drain(..).map(|r| Completion { token: r.token, result: Err(error.clone()) }),
            ),
        }
    }

    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        done.append(&mut self.refused);
    }
}

/// Takes only as many requests as the queue is deep.
#[derive(Default)]
pub struct TakesADepthOnly {
    in_flight: usize,
}

impl Flaw for TakesADepthOnly {
    fn submit(&mut self, _: usize, inner: &mut SimQueue, now: UTime, requests: &mut Vec<Request>) {
        requests.truncate(16usize.saturating_sub(self.in_flight));
        self.in_flight += requests.len();
        inner.submit(now, requests);
    }

    fn completed(&mut self, _: usize, done: &mut Vec<Completion>) {
        self.in_flight -= done.len();
    }
}

/// Ends everybody's requests with the queue that is dropped.
pub struct DropsEverything;

impl Flaw for DropsEverything {
    fn dropped(&mut self, disks: &SimDisks) {
        disks.close();
    }
}
