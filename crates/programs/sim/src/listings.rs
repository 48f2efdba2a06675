//! Clients that list the pool while its PGs are split: a listing has every object that was there all the time exactly
//! once, and no object twice.

use std::collections::BTreeMap;

use encoding::Decode;
use messages::osd_op::{ListCursor, Op, OpArgs, OpCode, PgNlsResponse};
use objecter::{Outcome, Request, RequestId};
use types::{Epoch, Errno, HObject, PgId};

use crate::Place;
use crate::world::{Happening, World};

/// Objects that are made at first and stay.
const LASTING: usize = 24;

/// A request of a listing, or of what is listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Make,
    List,
}

/// A listing under way.
pub struct Listing {
    cursor: HObject,
    /// How often each object has come.
    seen: BTreeMap<String, usize>,
}

fn object(number: usize) -> String {
    format!("listed{number}")
}

impl World {
    /// Makes the objects that every listing has.
    pub(crate) fn make_listed(&mut self) {
        let Some(pool) = self.pool.filter(|_| self.plan.listings) else { return };
        let admin = self.admin();
        for number in 0..LASTING {
            let create = Op::new(OpCode::CREATE, OpArgs::extent(0, 0));
            let request = Request::on(pool, object(number).as_str(), vec![create]);
            self.submit_part(admin, request, Part::Make);
        }
    }

    fn submit_part(&mut self, index: usize, request: Request, part: Part) {
        let submitted = self.with_client(index, |core, now, out| core.submit(now, request, out));
        match submitted {
            Ok(id) => drop(self.clients[index].parts.insert(id, part)),
            Err(_) => self.clients[index].listing = None,
        }
    }

    /// A client's turn to begin a listing.
    pub(crate) fn list_turn(&mut self, index: usize, life: u32) {
        let client = &self.clients[index];
        if client.life != life || !client.alive || self.is_healing {
            return;
        }
        let pause = self.random(60 * self.plan.think);
        self.after(pause, Happening::ListTurn(index, life));
        let client = &self.clients[index];
        if client.listing.is_none() && !client.is_fenced && client.core.epoch() > Epoch(0) {
            self.begin_listing(index);
        }
    }

    /// Begins a listing once everything is made that it has to have.
    pub(crate) fn begin_listing(&mut self, index: usize) {
        if self.listed_made == LASTING {
            self.say(Place::Client(index), "begins a listing");
            let listing = Listing { cursor: HObject::min(), seen: BTreeMap::new() };
            self.clients[index].listing = Some(listing);
            self.list_on(index);
        }
    }

    /// Asks for the next objects.
    fn list_on(&mut self, index: usize) {
        let (Some(pool), Some(listing)) = (self.pool, &self.clients[index].listing) else { return };
        let cursor = listing.cursor.clone();
        let args = OpArgs::Pgls { count: 1 + self.random(8), start_epoch: Epoch(0) };
        let op = Op::new(OpCode::PGNLS, args).with_indata(ListCursor::plain(&cursor));
        let request = Request::on_pg(PgId { pool, seed: cursor.hash }, vec![op]);
        self.submit_part(index, request, Part::List);
    }

    /// A request ended, of a listing or of what is listed: whether it was one.
    pub(crate) fn part_done(&mut self, index: usize, id: RequestId, outcome: &Outcome) -> bool {
        let Some(part) = self.clients[index].parts.remove(&id) else { return false };
        let result = outcome.result();
        if result == Errno::ESHUTDOWN.code() {
            self.fenced_client_learns(index);
        }
        match (part, outcome) {
            (Part::Make, _) if result == 0 => self.listed_made += 1,
            (Part::Make, _) => self.fail(format!("an object to list can't be made: {result}")),
            (Part::List, Outcome::Replied { ops, .. }) if result >= 0 => {
                let data = ops.first().map(|op| op.outdata.to_vec()).unwrap_or_default();
                self.listed(index, &data);
            }
            (Part::List, Outcome::Ended { errno: Errno::ETIMEDOUT, .. }) => {
                self.clients[index].listing = None
            }
            (Part::List, _) if result == Errno::ESHUTDOWN.code() => self.clients[index].listing = None,
            (Part::List, _) => self.fail(format!("a listing of client{index} has the result {result}")),
        }
        true
    }

    fn listed(&mut self, index: usize, data: &[u8]) {
        let Some(listing) = &mut self.clients[index].listing else { return };
        let page = match PgNlsResponse::from_bytes(data) {
            Ok(page) => page,
            Err(error) => return self.fail(format!("a listing's answer does not decode: {error}")),
        };
        for entry in page.entries {
            *listing.seen.entry(entry.name.to_string()).or_default() += 1;
        }
        if page.handle <= listing.cursor {
            let text = format!("a listing at {:?} is to go on at {:?}", listing.cursor, page.handle);
            return self.fail(text);
        }
        listing.cursor = page.handle;
        if !listing.cursor.is_max() {
            return self.list_on(index);
        }
        let Some(listing) = self.clients[index].listing.take() else { return };
        self.say(Place::Client(index), &format!("has listed {} objects", listing.seen.len()));
        self.counts.listings += 1;
        let twice = listing.seen.iter().find(|(_, times)| **times > 1);
        let lasting = (0..LASTING).map(object);
        let left_out = lasting.into_iter().find(|name| !listing.seen.contains_key(name));
        if let Some((name, times)) = twice {
            self.fail(format!("a listing of client{index} has {name} {times} times"));
        }
        if let Some(name) = left_out {
            self.fail(format!("a listing of client{index} leaves out {name}, which was there all the time"));
        }
    }
}
