//! Requests that wait, and which others have to wait behind them.
//!
//! A request that needs something from the device waits beside the others. What comes later goes on unless the order is
//! visible: transactions of a collection stay in order, and a read stays in order with the transactions that change what
//! it reads. So a read of one object waits for no other object, and reads wait for no reads.

use std::collections::VecDeque;

use store::{CollectionId, ReadRequest, Step, StoreShard, Token, Transaction};
use types::GHObject;

use crate::context::Fetched;

/// A request that was taken.
pub enum Taken {
    Transaction(Transaction, Token),
    Read(ReadRequest, Token),
    Acknowledge(Token),
    Rehome(CollectionId, StoreShard, Token),
}

/// What a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    Nothing,
    /// The request with this number.
    Behind(u64),
    /// So many completions of the device.
    Device(usize),
    /// Room in the log, in memory, or free blocks. Transactions that come later wait for it, too: they would take the room.
    Room,
}

/// A request, and what it has gathered so far.
pub struct Entry {
    pub number: u64,
    pub taken: Taken,
    pub waits: Waits,
    pub fetched: Fetched,
    /// The clock of the pages when it was last tried: pages used since are those that it needs.
    pub tried: u64,
    /// It waited for room once. Later transactions wait until it is done.
    wanted_room: bool,
}

/// The requests that wait, in the order in which they came.
#[derive(Default)]
pub struct Inbox {
    waiting: VecDeque<Entry>,
    next: u64,
    /// Some entry may be ready.
    woken: bool,
}

impl Inbox {
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A new request: whether it has to wait behind another one.
    pub fn entry(&mut self, taken: Taken) -> Entry {
        let number = self.next;
        self.next += 1;
        let waits = self.before(self.waiting.len(), &taken).map_or(Waits::Nothing, Waits::Behind);
        Entry { number, taken, waits, fetched: Fetched::new(), tried: 0, wanted_room: false }
    }

    pub fn push(&mut self, entry: Entry) {
        self.put_back(self.waiting.len(), entry);
    }

    pub fn put_back(&mut self, at: usize, mut entry: Entry) {
        entry.wanted_room |= entry.waits == Waits::Room;
        self.waiting.insert(at, entry);
    }

    /// The last of the first `among` requests that a request has to wait for.
    fn before(&self, among: usize, taken: &Taken) -> Option<u64> {
        let earlier = self.waiting.range(..among).rev();
        let changes = matches!(taken, Taken::Transaction(..));
        earlier.filter(|e| in_order(&e.taken, taken) || changes && e.wanted_room).map(|e| e.number).next()
    }

    /// Whether a read would see another state if the requests that wait were done first.
    pub fn concerns(&self, request: &ReadRequest) -> bool {
        self.waiting.iter().any(|e| concerns(&e.taken, request))
    }

    fn find(&self, number: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&number, |e| e.number).ok()
    }

    /// Takes out the first request from place `at` on that can be tried; `at` becomes its place.
    pub fn next_ready(&mut self, at: &mut usize) -> Option<Entry> {
        if !self.woken {
            return None;
        }
        while let Some(entry) = self.waiting.get(*at) {
            let waits = match entry.waits {
                Waits::Behind(number) if self.find(number).is_some() => entry.waits,
                Waits::Behind(_) | Waits::Nothing => {
                    self.before(*at, &entry.taken).map_or(Waits::Nothing, Waits::Behind)
                }
                Waits::Device(_) | Waits::Room => entry.waits,
            };
            if waits == Waits::Nothing {
                return self.waiting.remove(*at);
            }
            self.waiting[*at].waits = waits;
            *at += 1;
        }
        self.woken = false;
        None
    }

    /// Something that a request waited for has come from the device.
    pub fn on_device(&mut self, number: u64, fetched: Fetched) {
        // A request that waits for the device stays here until all of it has come.
        let Some(at) = self.find(number) else { return };
        let entry = &mut self.waiting[at];
        entry.fetched.extend(fetched);
        if let Waits::Device(left) = entry.waits {
            entry.waits = if left > 1 { Waits::Device(left - 1) } else { Waits::Nothing };
            self.woken |= left <= 1;
        }
    }

    /// There may be room.
    pub fn wake(&mut self) {
        self.woken = true;
        for entry in self.waiting.iter_mut().filter(|e| e.waits == Waits::Room) {
            entry.waits = Waits::Nothing;
        }
    }

    /// The clock of the pages from which on requests that wait need what they used.
    pub fn needs_pages_from(&self) -> u64 {
        let waits = self.waiting.iter().filter(|e| matches!(e.waits, Waits::Device(_) | Waits::Nothing));
        waits.map(|e| e.tried).min().unwrap_or(u64::MAX)
    }
}

/// Whether it shows which of two requests is done first.
fn in_order(earlier: &Taken, later: &Taken) -> bool {
    match (earlier, later) {
        (Taken::Transaction(a, _), Taken::Transaction(b, _)) => {
            let of_b = b.collections();
            a.collections().iter().any(|id| of_b.contains(id))
        }
        (_, Taken::Read(request, _)) => concerns(earlier, request),
        (Taken::Read(request, _), _) => concerns(later, request),
        // An acknowledgement opens collections for what comes after it alone; both are rare.
        (Taken::Acknowledge(_) | Taken::Rehome(..), _) | (_, Taken::Acknowledge(_) | Taken::Rehome(..)) => {
            true
        }
    }
}

/// Whether a request may change what a read returns.
fn concerns(taken: &Taken, request: &ReadRequest) -> bool {
    let Some(id) = request.collection() else {
        return matches!(taken, Taken::Transaction(..) | Taken::Rehome(..));
    };
    match taken {
        Taken::Transaction(txn, _) => {
            if !txn.collections().contains(&id) {
                return false;
            }
            let Some(object) = object_of(request) else { return true };
            txn.objects().iter().any(|(c, o)| *c == id && o == object)
                || txn.steps().iter().any(|step| matches!(step, Step::Collection { .. }))
        }
        Taken::Rehome(collection, ..) => *collection == id,
        Taken::Read(..) | Taken::Acknowledge(_) => false,
    }
}

/// The object that a read is of, if it is of one alone.
fn object_of(request: &ReadRequest) -> Option<&GHObject> {
    use ReadRequest as R;
    match request {
        R::Data { object, .. }
        | R::Extents { object, .. }
        | R::Stat { object, .. }
        | R::Attr { object, .. }
        | R::Attrs { object, .. }
        | R::Object { object, .. }
        | R::OmapHeader { object, .. }
        | R::OmapKeys { object, .. }
        | R::OmapRange { object, .. } => Some(object),
        R::List { .. }
        | R::ListReadable { .. }
        | R::Collections
        | R::Collection { .. }
        | R::Log { .. }
        | R::StatFs => None,
    }
}
