//! A store in memory that behaves like one on a device, for simulations: commits and reads take time, transactions are
//! visible before they are durable, power can be lost, stored bytes can go bad, commits can fail.
//!
//! Everything is decided by the seed in the options and by the calls: no thread, no clock, no waker (what becomes ready
//! becomes ready within `turn`, at a deadline). The same calls give the same trace.
//!
//! There are two [`MemStore`]s: one has what is queued and answers reads, the other has what is durable. Between them is
//! the journal: what is queued and not durable, with the time at which it will be. A power loss keeps a part of the
//! journal, for each shard a first part of its records.

mod damage;
mod journal;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::time::Duration;

use types::{Errno, GHObject, SplitMix64, UTime};

use crate::{
    CollectionChange, CollectionId, Completion, MemStore, ObjectStore, ReadOutcome, ReadRequest, Rehoming,
    Step, StoreError, StoreShard, Token, Transaction, Waker,
};
use damage::Damage;
use journal::{Change, Journal, Record};

/// What a [`SimStore`] is like.
#[derive(Clone, Debug)]
pub struct SimOptions {
    pub bytes_total: u64,
    pub shards: u32,
    pub seed: u64,
    /// How long a group commit takes after the turn that begins it, microseconds.
    pub commit_us: Range<u64>,
    /// How long a read takes after the turn that begins it, microseconds.
    pub read_us: Range<u64>,
}

/// What was taken and no turn has begun.
enum Taken {
    Record(Record),
    Read(Completion),
}

/// See the module's documentation. A read that is answered by `peek` is one that the simulated cache holds.
pub struct SimStore {
    options: SimOptions,
    rng: SplitMix64,
    now: UTime,
    visible: MemStore,
    durable: MemStore,
    journal: Journal,
    damage: Damage,
    taken: Vec<Taken>,
    /// Reads under way, by the time at which they complete and a number that keeps them apart.
    reads: Vec<(UTime, Completion)>,
    ready: Vec<Completion>,
    commits_fail: bool,
    stays_open: bool,
    serves_damage: bool,
    space_is_refused: bool,
    stopped: bool,
}

impl SimStore {
    pub fn new(options: SimOptions) -> Self {
        // What the visible store has room for is written down without asking again.
        let durable = MemStore::with_shards(u64::MAX, options.shards);
        Self::open(options, durable, Damage::default(), UTime::default())
    }

    fn open(options: SimOptions, durable: MemStore, damage: Damage, now: UTime) -> Self {
        Self {
            rng: SplitMix64::new(options.seed),
            now,
            visible: durable.with_bytes_total(options.bytes_total),
            durable,
            journal: Journal::default(),
            damage,
            taken: Vec::new(),
            reads: Vec::new(),
            ready: Vec::new(),
            commits_fail: false,
            stays_open: false,
            serves_damage: false,
            space_is_refused: false,
            stopped: false,
            options,
        }
    }

    /// Makes everything that was taken durable, and opens the store again. A store that has stopped keeps only what was
    /// durable, and of the commit that failed a part that depends on the seed.
    pub fn close(mut self) -> Self {
        if self.stopped {
            return self.power_loss().0;
        }
        self.begin_taken();
        for record in self.journal.take_all() {
            record.change.apply(&mut self.durable);
        }
        self.open_again()
    }

    /// Loses power and opens the store again. Of what was not durable a part survives that depends on the seed. Returns
    /// the requests that were lost, in the order in which they would have become durable.
    pub fn power_loss(mut self) -> (Self, Vec<Token>) {
        let mut lost = Vec::new();
        for (record, survives) in self.journal.survivors(&mut self.rng) {
            match survives {
                true => record.change.apply(&mut self.durable),
                false => lost.push(record.completion.token()),
            }
        }
        lost.extend(self.taken.iter().filter_map(|taken| match taken {
            Taken::Record(record) => Some(record.completion.token()),
            Taken::Read(_) => None,
        }));
        (self.open_again(), lost)
    }

    fn open_again(self) -> Self {
        let options = SimOptions { seed: self.options.seed.wrapping_add(1), ..self.options };
        Self::open(options, self.durable, self.damage, self.now)
    }

    /// Gives the store another size from the next opening on.
    pub fn resize(&mut self, bytes_total: u64) {
        self.options.bytes_total = bytes_total;
    }

    /// Changes the seed that the coming delays and power losses depend on.
    pub fn reseed(&mut self, seed: u64) {
        self.rng = SplitMix64::new(seed);
    }

    /// Flips bits of the byte at `offset` of an object's stored data: reads of its block fail until it is written whole.
    pub fn damage(&mut self, collection: CollectionId, object: &GHObject, offset: u64) {
        self.damage.add(collection, object, offset);
    }

    /// Makes every commit from now on fail; the first that does stops the store.
    pub fn fail_commits(&mut self) {
        self.commits_fail = true;
    }

    /// Breaks the contract, to show that tests notice: what follows a refusal made by [`SimStore::refuse_space`] is taken.
    pub fn stay_open_after_refusals(&mut self) {
        self.stays_open = true;
    }

    /// Breaks the contract, to show that tests notice: damaged blocks are returned as they are.
    pub fn serve_damage(&mut self) {
        self.serves_damage = true;
    }

    /// Whether transactions that carry data of a PG's objects, or split its collection, are refused as if the store were full.
    pub fn refuse_space(&mut self, refuse: bool) {
        self.space_is_refused = refuse;
    }

    /// Why a transaction is refused whatever the visible store makes of it.
    fn injected(&mut self, txn: &Transaction) -> Option<StoreError> {
        let splits = |txn: &Transaction| {
            let is_split = |change: &_| matches!(change, CollectionChange::Split { .. });
            txn.steps().iter().any(|step| matches!(step, Step::Collection { change, .. } if is_split(change)))
        };
        let of_pg = |txn: &Transaction| txn.collections().iter().any(|c| matches!(c, CollectionId::Pg(_)));
        if self.space_is_refused && (txn.data_bytes() > 0 || splits(txn)) && of_pg(txn) {
            return Some(StoreError::NoSpace { needed: txn.data_bytes(), available: 0 });
        }
        self.damage.after(txn, &mut self.visible).err()
    }

    /// Shows a transaction at once.
    fn show(&mut self, txn: &Transaction, token: Token) -> Completion {
        let Some(error) = self.injected(txn) else {
            let completion = outcome(&mut self.visible, |s| s.queue(txn.clone(), token));
            if let Completion::Committed { .. } = completion {
                self.damage =
                    self.damage.after(txn, &mut self.visible).unwrap_or_else(|_| self.damage.clone());
            }
            return completion;
        };
        if self.stays_open {
            return Completion::Refused { token, error };
        }
        // The visible store refuses it too, and so closes its collections.
        let mut refused = txn.clone();
        if let Some(first) = txn.collections().first() {
            refused.touch(*first, &GHObject::max());
        }
        match outcome(&mut self.visible, |s| s.queue(refused, token)) {
            Completion::Refused { error: StoreError::NotAnObject(_), token } => {
                Completion::Refused { token, error }
            }
            other => other,
        }
    }

    fn microseconds(&mut self, range: Range<u64>) -> Duration {
        Duration::from_micros(range.start + self.rng.below((range.end - range.start).max(1)))
    }

    /// Gives what was taken its time.
    fn begin_taken(&mut self) {
        let commit = self.microseconds(self.options.commit_us.clone());
        self.journal.begin_group(self.now, commit);
        for taken in std::mem::take(&mut self.taken) {
            match taken {
                Taken::Record(record) => {
                    let more = self.microseconds(self.options.commit_us.clone());
                    self.journal.push(record, more);
                }
                Taken::Read(completion) => {
                    let at = self.now.after(self.microseconds(self.options.read_us.clone()));
                    self.reads.push((at, completion));
                }
            }
        }
    }

    fn commit_due(&mut self) {
        let due = self.journal.take_due(self.now);
        if due.is_empty() {
            return;
        }
        if !self.commits_fail {
            for record in due {
                record.change.apply(&mut self.durable);
                self.ready.push(record.completion);
            }
            return;
        }
        self.stopped = true;
        let io = StoreError::Io { what: "commit", errno: Errno::EIO, at: None };
        for record in self.journal.fail(due) {
            self.ready.push(failed(record.0, if record.1 { io.clone() } else { StoreError::Stopped }));
        }
    }
}

/// A completion as it is when the commit has failed. What was refused or does nothing keeps its outcome.
fn failed(completion: Completion, error: StoreError) -> Completion {
    match completion {
        Completion::Committed { token } => Completion::Refused { token, error },
        Completion::Rehomed { token, result: Ok(_) } => Completion::Rehomed { token, result: Err(error) },
        other => other,
    }
}

/// Does one thing with a store that completes everything in its turn.
fn outcome(store: &mut MemStore, ask: impl FnOnce(&mut MemStore)) -> Completion {
    ask(store);
    store.turn(UTime::default());
    let mut out = Vec::new();
    store.completions(&mut out);
    out.pop().expect("a request completes in its turn")
}

impl ObjectStore for SimStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        // A collection that goes or comes has another shard afterwards.
        let collections = txn.collections();
        let mut shards: Vec<_> = collections.iter().map(|c| self.visible.shard_of(*c)).collect();
        let completion = match self.stopped {
            true => Completion::Refused { token, error: StoreError::Stopped },
            false => self.show(&txn, token),
        };
        shards.extend(collections.iter().map(|c| self.visible.shard_of(*c)));
        let change = match completion {
            Completion::Committed { .. } => Change::Transaction(txn, token),
            Completion::Refused { .. } | Completion::Read { .. } | Completion::Rehomed { .. } => {
                Change::Nothing
            }
        };
        self.taken.push(Taken::Record(Record { shards, change, completion }));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        let answer = self.visible.peek(&request).expect("MemStore answers every peek");
        let result = match self.damage.found_by(&request) {
            Some(_) if self.serves_damage => answer.map(damage::flipped),
            Some(error) => Err(error),
            None => answer,
        };
        self.taken.push(Taken::Read(Completion::Read { token, result }));
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.rng.one_in(3) || self.damage.found_by(request).is_some() {
            return None;
        }
        self.visible.peek(request)
    }

    fn acknowledge(&mut self, refused: Token) {
        self.visible.acknowledge(refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        let from = self.visible.shard_of(collection);
        let completion = match self.stopped {
            true => Completion::Rehomed { token, result: Err(StoreError::Stopped) },
            false => outcome(&mut self.visible, |s| s.rehome(collection, to, objects_max, token)),
        };
        let change = match &completion {
            Completion::Rehomed { result: Ok(Rehoming::Continues | Rehoming::Done), .. } => {
                Change::Rehome { collection, to, objects_max, token }
            }
            _ => Change::Nothing,
        };
        self.taken.push(Taken::Record(Record { shards: vec![from, to], change, completion }));
    }

    fn turn(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.begin_taken();
        self.commit_due();
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.reads).into_iter().partition(|(at, _)| *at <= now);
        self.reads = later;
        let due: Vec<(UTime, Completion)> = due;
        self.ready.extend(due.into_iter().map(|(_, completion)| completion));
    }

    fn deadline(&self) -> Option<UTime> {
        self.reads.iter().map(|(at, _)| *at).chain(self.journal.next_due()).min()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.ready);
    }

    fn set_waker(&mut self, _waker: Waker) {
        // Everything becomes ready within `turn`.
    }

    fn shards(&self) -> u32 {
        self.visible.shards()
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.visible.shard_of(collection)
    }
}
