//! Each flush and each durable write is needed: a store that leaves one of them out breaks its word after some power loss,
//! one that leaves out none never does.
//!
//! A life is a store from its making through some ends of its process and some power losses, under a seed. What has been
//! acknowledged, or shown after an opening, has to be there ever after, and all that is there is what was queued up to
//! some transaction. Half of the stores write each superblock twice; in the lives of these, one of the two places is a bad one, of
//! which everything is lost again and again.

use blockdev::sim::SimDisks;
use blockstore::{Barrier, Options};
use store::conformance::{Factory, Harness};
use store::{CollectionId, ReadOutcome, ReadRequest, StoreError, Token, Transaction};
use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

use crate::common::{Sim, Simulated, write};

/// Lives of each store: those with a barrier left out show it in one of them.
const SEEDS: u64 = 512;

const SIZE: u64 = 4 << 20;
/// So small that records soon lie where those before a checkpoint did.
const LOG: u64 = 80 << 10;
/// Where the first pair of superblocks is.
const FIRST_PAIR: u64 = 4096;
const OBJECTS: u64 = 12;
/// Bytes of an object.
const OBJECT: usize = 96 << 10;
const ROUNDS: u64 = 6;

fn pg() -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 }.into())
}

fn object(name: &str, hash: u32) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), hash).into()
}

fn numbered(n: u64) -> GHObject {
    object(&format!("object {n}"), (n as u32).wrapping_mul(0x9e37_79b1))
}

/// Which transaction was the last: each sets an attribute of this object.
fn last() -> GHObject {
    object("last", 7)
}

/// What a transaction writes, if it writes data.
type Written = Option<(u64, usize, usize)>;

struct Life {
    factory: Sim,
    random: SplitMix64,
    disks: SimDisks,
    /// No transaction is so large that its data lie beside the log.
    small: bool,
    /// The pair of superblocks that is lost now and then.
    bad: Option<u64>,
    /// What each transaction wrote, from number 2 on: the first makes the collection.
    written: Vec<Written>,
    /// The number of the last transaction that has to be there.
    certain: u64,
}

type Kept<T> = Result<T, String>;

fn refused(what: &str) -> impl Fn(StoreError) -> String {
    let what = what.to_owned();
    move |error| format!("{what}: {error}")
}

impl Life {
    fn new(seed: u64, left_out: Option<Barrier>) -> Self {
        let durable_flushes = seed % 4 == 3;
        let (log_apart, copies) = (seed % 2 == 0, seed / 4 % 2 == 1);
        // So slow that the log goes on over what the superblock before keeps, while the next checkpoint has yet to flush.
        let pages_per_turn = if copies { 1 } else { Options::default().pages_per_turn };
        let (prefer_deferred_bytes, cache_bytes) = (16 << 10, 64 << 10);
        let options = Options { prefer_deferred_bytes, cache_bytes, pages_per_turn, ..Options::default() };
        let sim = Sim::new(options, LOG);
        let factory = Sim { log_apart, copies, durable_flushes, left_out, seed: seed << 20, ..sim };
        let second = FIRST_PAIR + 2 * 4096 + if log_apart { 64 << 10 } else { LOG };
        let bad = copies.then_some(if seed / 8 % 2 == 0 { FIRST_PAIR } else { second });
        let disks = factory.disks(SIZE);
        let (random, small) = (SplitMix64::new(seed), seed % 4 < 2);
        Self { factory, random, disks, small, bad, written: Vec::new(), certain: 0 }
    }

    fn live(&mut self) -> Kept<()> {
        self.factory.make(&self.disks, self.factory.label(SIZE));
        if self.random.one_in(2) {
            self.disks.power_loss();
        }
        self.lose();
        for _ in 0..ROUNDS {
            let mut h = self.open()?;
            // What was shown has to stay.
            if self.random.one_in(2) {
                drop(h.abandon());
                self.disks.power_loss();
                self.lose();
                h = self.open()?;
            }
            let loaded = self.load(&mut h);
            drop(h.abandon());
            loaded?;
            match self.random.one_in(2) {
                true => self.disks.close(),
                false => self.disks.power_loss(),
            }
            self.lose();
        }
        self.open().map(|h| drop(h.abandon()))
    }

    /// Loses the bad pair of superblocks, or not.
    fn lose(&mut self) {
        if let Some(pair) = self.bad.filter(|_| !self.random.one_in(4)) {
            write(&self.disks, pair, vec![0; 2 * 4096]);
        }
    }

    /// Opens the store, and looks whether what it holds may be.
    fn open(&mut self) -> Kept<Harness<Simulated>> {
        let store = self.factory.try_open(&self.disks).map_err(|error| format!("no opening: {error}"))?;
        let mut h = Harness::new(store, self.factory.properties());
        match self.check(&mut h) {
            Ok(()) => Ok(h),
            Err(broken) => {
                drop(h.abandon());
                Err(broken)
            }
        }
    }

    fn check(&mut self, h: &mut Harness<Simulated>) -> Kept<()> {
        let attr = ReadRequest::Attr { collection: pg(), object: last(), name: "number".into() };
        let number = match h.get(attr) {
            Ok(ReadOutcome::Attr(number)) => u64::from_le_bytes(number.as_slice().try_into().unwrap()),
            Err(StoreError::NoSuchCollection(_)) => 0,
            other => return Err(format!("the last transaction is not known: {other:?}")),
        };
        if number < self.certain {
            return Err(format!("transaction {number} is the last, and {} was certain", self.certain));
        }
        // What came after it was not acknowledged and is gone; what is seen stays.
        self.certain = number;
        self.written.truncate(number.saturating_sub(1) as usize);
        (0..OBJECTS).try_for_each(|n| self.check_object(h, n))
    }

    fn check_object(&self, h: &mut Harness<Simulated>, n: u64) -> Kept<()> {
        let mut want = Vec::new();
        for (number, written) in (2u64..).zip(&self.written) {
            let Some((_, from, to)) = written.filter(|(of, ..)| *of == n) else { continue };
            want.resize(want.len().max(to), 0);
            want[from..to].fill(number as u8);
        }
        if want.is_empty() {
            return Ok(());
        }
        let read = ReadRequest::Data {
            collection: pg(),
            object: numbered(n),
            offset: 0,
            len: u64::MAX,
            advice: Default::default(),
            verify: false,
        };
        match h.get(read) {
            Ok(ReadOutcome::Data(data)) if data.to_piece().as_slice() == want => Ok(()),
            Ok(_) => Err(format!("object {n} has other bytes")),
            Err(error) => Err(format!("object {n}: {error}")),
        }
    }

    /// Transactions, of which the last ones may be under way at the end.
    fn load(&mut self, h: &mut Harness<Simulated>) -> Kept<()> {
        if self.certain == 0 {
            let mut txn = Transaction::new();
            txn.create_collection(pg(), 0);
            h.apply(noting(txn, 1)).map_err(refused("the collection is refused"))?;
            self.certain = 1;
        }
        // Many small ones go round the log, with few flushes.
        let most = if self.small { 80 } else { [4, 40][self.random.below(2) as usize] };
        for _ in 0..self.random.below(most) {
            let burst: Vec<Token> = (0..=self.random.below(2)).map(|_| h.queue(self.transaction())).collect();
            for token in burst {
                h.outcome(token).map_err(refused("a transaction is refused"))?;
            }
            self.certain = self.written.len() as u64 + 1;
        }
        if self.random.one_in(2) {
            h.queue(self.transaction());
            self.leave_unflushed(h);
        }
        Ok(())
    }

    /// Turns, mostly until all of a record is written and its flush has begun.
    fn leave_unflushed(&mut self, h: &mut Harness<Simulated>) {
        let log = self.factory.devices().last().unwrap();
        let flushes = self.disks.counts(log).flushes;
        for _ in 0..self.random.below(400) {
            h.turn();
            if self.disks.counts(log).flushes > flushes {
                return;
            }
        }
    }

    /// The next transaction: a part of an object, or nothing but its number.
    fn transaction(&mut self) -> Transaction {
        let number = self.written.len() as u64 + 2;
        let most = if self.small { 4 << 10 } else { OBJECT as u64 };
        let n = self.random.below(OBJECTS);
        let from = self.random.below(OBJECT as u64 - most + 1) as usize;
        let written =
            (!self.random.one_in(3)).then(|| (n, from, from + 1 + self.random.below(most) as usize));
        let mut txn = Transaction::new();
        if let Some((n, from, to)) = written {
            txn.write(pg(), &numbered(n), from as u64, vec![number as u8; to - from].into());
        }
        self.written.push(written);
        noting(txn, number)
    }
}

/// The transaction, noting its number.
fn noting(mut txn: Transaction, number: u64) -> Transaction {
    txn.set_attr(pg(), &last(), "number", number.to_le_bytes().to_vec());
    txn
}

fn broken(seed: u64, left_out: Option<Barrier>) -> Option<String> {
    Life::new(seed, left_out).live().err()
}

#[test]
fn a_store_with_every_barrier_keeps_its_word() {
    for seed in 0..SEEDS {
        assert_eq!(broken(seed, None), None, "seed {seed}");
    }
}

#[test]
fn every_barrier_that_is_left_out_is_missed() {
    for barrier in Barrier::ALL {
        let found = (0..SEEDS).find_map(|seed| Some((seed, broken(seed, Some(barrier))?)));
        let (seed, how) =
            found.unwrap_or_else(|| panic!("{barrier:?} is left out, and no life of {SEEDS} misses it"));
        println!("{barrier:?} is missed in life {seed}: {how}");
    }
}
