//! A store of several shards as one, over the handles of its shards: each request goes where its collection is.
//!
//! An OSD uses the handles themselves, each on a core. This is for who has the whole store on one thread (a tool). It knows
//! where collections are and which are closed; what they hold it never looks at.
//!
//! A transaction of collections that exist, in one shard, goes straight there. Anything that may change where collections
//! are, or concerns several shards, is done *alone*: it waits until the shards have nothing under way, and what comes
//! after it waits for it.
//! So is a step of moving a collection to another shard. An acknowledgement waits for the transactions before it: what a
//! refusal of theirs closes depends on what was still closed, and that shows here when they complete.

mod gather;
mod moving;
mod recovery;
#[cfg(all(test, feature = "sim"))]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use types::{PoolId, UTime};

use crate::{
    CollectionChange, CollectionId, Completion, Compression, FreeSpace, ObjectStore, ReadOutcome,
    ReadRequest, Rehoming, Step, StoreError, StoreMemory, StoreShard, Token, Transaction, Tuning, Waker,
};
use gather::{Gather, Kind};
use moving::{MARKS, MovingStep, Next, Way};
use recovery::Recovery;

type Collections = SmallVec<[CollectionId; 2]>;

/// A request that waits.
enum Held {
    Transaction(Transaction, Token),
    Read(ReadRequest, Token),
    Acknowledge(Token),
    Rehome { id: CollectionId, to: StoreShard, objects_max: usize, token: Token },
    Recover(Box<Recovery>),
}

/// What is done alone.
enum Alone {
    /// What there is and is not when it has committed.
    Transaction {
        token: Token,
        shard: StoreShard,
        changes: Vec<(CollectionId, bool)>,
    },
    /// The caller's token, and the one of what the step asks for.
    Step(Box<MovingStep>, Token, Token),
    Recovery(Box<Recovery>, Token),
}

/// See the module's documentation.
pub struct Sharded<S> {
    shards: Vec<S>,
    homes: BTreeMap<CollectionId, StoreShard>,
    /// Collections in two shards; at home where they come from.
    moving: BTreeMap<CollectionId, Way>,
    /// Collections closed by a refusal that is known here, with the transaction that closed them. What the shards have
    /// closed is all here when they have no transaction under way: only then may an acknowledgement change it.
    closed: BTreeMap<CollectionId, Token>,
    /// Transactions that the shards have, with the collections that they name.
    transactions: BTreeMap<Token, Collections>,
    /// Reads that every shard answers a part of.
    gathers: BTreeMap<Token, Gather>,
    /// Requests that the shards have; one of all shards counts for each.
    under_way: usize,
    alone: Option<Alone>,
    held: VecDeque<Held>,
    /// So many of `held` a turn has begun.
    begun: usize,
    /// What is done alone has asked the shards for more.
    asked: bool,
    ready: Vec<Completion>,
    now: UTime,
}

impl<S: ObjectStore> Sharded<S> {
    /// Of each shard in order its handle, and the collections that it has.
    pub fn new(shards: Vec<(S, Vec<CollectionId>)>) -> Self {
        let (handles, collections): (Vec<S>, Vec<Vec<CollectionId>>) = shards.into_iter().unzip();
        let mut homes = BTreeMap::new();
        for (all, number) in collections.iter().zip(0..) {
            homes.extend(all.iter().filter(|id| **id != MARKS).map(|id| (*id, StoreShard(number))));
        }
        // The first thing that it does: where such collections are is not known before.
        let held: VecDeque<Held> =
            Recovery::of(collections).map(|recovery| Held::Recover(Box::new(recovery))).into_iter().collect();
        Self {
            shards: handles,
            homes,
            moving: BTreeMap::new(),
            closed: BTreeMap::new(),
            transactions: BTreeMap::new(),
            gathers: BTreeMap::new(),
            under_way: 0,
            alone: None,
            held,
            begun: 0,
            asked: false,
            ready: Vec::new(),
            now: UTime::default(),
        }
    }

    /// The handles, by the shards' numbers, for what the contract does not offer.
    pub fn handles(&mut self) -> &mut [S] {
        &mut self.shards
    }

    /// Gives the handles away, by the shards' numbers. What is under way on them goes on there.
    pub fn into_handles(self) -> Vec<S> {
        self.shards
    }

    /// Collections that are on their way, with the shard that they go to.
    pub fn on_their_way(&self) -> Vec<(CollectionId, StoreShard)> {
        self.moving.iter().map(|(id, way)| (*id, way.to)).collect()
    }

    /// Whether it is known where every collection is: after some turns, where a move was under way when the store was closed.
    pub fn is_settled(&self) -> bool {
        !self.held.iter().any(|held| matches!(held, Held::Recover(_)))
            && !matches!(self.alone, Some(Alone::Recovery(..)))
    }

    /// Whether a request would overtake others.
    fn must_wait(&self) -> bool {
        !self.held.is_empty() || self.alone.is_some()
    }

    /// The shard of a transaction that needs no more care.
    fn plain_home(&self, txn: &Transaction, collections: &[CollectionId]) -> Option<StoreShard> {
        if txn.steps().iter().any(|step| matches!(step, Step::Collection { .. })) {
            return None;
        }
        let mut homes = collections.iter().map(|id| {
            let open = !self.closed.contains_key(id) && !self.moving.contains_key(id);
            self.homes.get(id).copied().filter(|_| open)
        });
        let first = homes.next().unwrap_or(Some(StoreShard(0)))?;
        homes.all(|home| home == Some(first)).then_some(first)
    }

    /// The shard in which all of a transaction's collections are, or are to be made.
    fn common_home(&self, txn: &Transaction, collections: &[CollectionId]) -> Result<StoreShard, StoreError> {
        if let Some(id) = collections.iter().find(|id| self.closed.contains_key(id)) {
            return Err(StoreError::AfterRefused(*id));
        }
        txn.check()?;
        let mut found: Option<(CollectionId, StoreShard)> = None;
        for id in collections {
            if let Some(way) = self.moving.get(id) {
                return Err(StoreError::Rehoming { collection: *id, to: way.to });
            }
            match (found, self.homes.get(id)) {
                (_, None) => {}
                (Some((first, shard)), Some(home)) if shard != *home => {
                    return Err(StoreError::AcrossShards { first, second: *id });
                }
                (_, Some(home)) => found = Some((*id, *home)),
            }
        }
        let of_first = || collections.first().map_or(StoreShard(0), |id| self.shard_of(*id));
        Ok(found.map_or_else(of_first, |(_, shard)| shard))
    }

    fn shard(&mut self, shard: StoreShard) -> &mut S {
        // Every home is a place among the handles.
        &mut self.shards[shard.0 as usize]
    }

    fn pass(&mut self, shard: StoreShard, txn: Transaction, collections: Collections, token: Token) {
        self.transactions.insert(token, collections);
        self.under_way += 1;
        self.shard(shard).queue(txn, token);
    }

    fn pass_read(&mut self, request: ReadRequest, token: Token) {
        let Some(id) = request.collection() else {
            let all = (0..self.shards()).map(StoreShard).collect();
            return self.pass_gathered(Kind::All, all, &request, token);
        };
        let way = self.moving.get(&id).copied();
        match way.and_then(|way| Some((way, Kind::of_moving(&request, way.to)?))) {
            None => {
                let home = self.shard_of(id);
                self.under_way += 1;
                self.shard(home).read(request, token);
            }
            Some((way, kind @ Kind::Collection { .. })) => {
                self.pass_gathered(kind, vec![way.from], &request, token);
            }
            Some((way, kind)) => self.pass_gathered(kind, vec![way.from, way.to], &request, token),
        }
    }

    fn pass_gathered(&mut self, kind: Kind, of: Vec<StoreShard>, request: &ReadRequest, token: Token) {
        self.gathers.insert(token, Gather::of(kind, of.len()));
        self.under_way += of.len();
        of.into_iter().for_each(|shard| self.shard(shard).read(request.clone(), token));
    }

    /// Whether it is known what each transaction before has closed, and in whose name. An acknowledgement that came earlier
    /// would open too little: of what its refusal has closed, a later refusal would seem to be the one that did.
    fn may_acknowledge(&self) -> bool {
        self.transactions.is_empty()
    }

    fn pass_acknowledgement(&mut self, refused: Token) {
        self.closed.retain(|_, by| *by != refused);
        self.shards.iter_mut().for_each(|shard| shard.acknowledge(refused));
    }

    /// Notes which collections a refusal closes.
    fn close(&mut self, collections: Collections, error: &StoreError, token: Token) {
        let by = match error {
            // By the refusal that closed that one.
            StoreError::AfterRefused(id) => self.closed.get(id).copied(),
            // The shard ended, and says so of everything that comes: no acknowledgement opens it.
            StoreError::Io { .. } | StoreError::Stopped => None,
            _ => Some(token),
        };
        let Some(by) = by else { return };
        for id in collections {
            self.closed.entry(id).or_insert(by);
        }
    }

    /// Begins a transaction that nothing else is under way beside.
    fn begin_alone(&mut self, txn: Transaction, token: Token) {
        let collections = txn.collections();
        match self.common_home(&txn, &collections) {
            Ok(shard) => {
                self.alone = Some(Alone::Transaction { token, shard, changes: changes(&txn) });
                self.pass(shard, txn, collections, token);
            }
            Err(error) => {
                self.close(collections, &error, token);
                self.ready.push(Completion::Refused { token, error });
            }
        }
    }

    /// Begins a step of moving a collection, or says at once what became of it.
    fn begin_step(&mut self, id: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        let way = self.way_of(id, to);
        let (way, marked) = match way {
            Ok(Some(way)) => way,
            Ok(None) => {
                let result = Ok(Rehoming::Done);
                return self.ready.push(Completion::Rehomed { token, result });
            }
            Err(error) => return self.ready.push(Completion::Rehomed { token, result: Err(error) }),
        };
        let other_marks = self.moving.iter().any(|(of, other)| *of != id && other.to == way.to);
        let step = MovingStep::new(id, way, to == way.from, (marked, other_marks), objects_max);
        let next = step.begin();
        self.alone = Some(Alone::Step(Box::new(step), token, self.unused_token()));
        self.perform(next);
    }

    /// Which way a collection is to go, and whether it is on it already. `None`: it is there.
    fn way_of(&self, id: CollectionId, to: StoreShard) -> Result<Option<(Way, bool)>, StoreError> {
        let shards = self.shards();
        if to.0 >= shards {
            return Err(StoreError::NoSuchShard { shard: to, shards });
        }
        if self.closed.contains_key(&id) {
            return Err(StoreError::AfterRefused(id));
        }
        let from = *self.homes.get(&id).ok_or(StoreError::NoSuchCollection(id))?;
        match self.moving.get(&id) {
            Some(way) if to == way.from || to == way.to => Ok(Some((*way, true))),
            Some(way) => Err(StoreError::Rehoming { collection: id, to: way.to }),
            None if to == from => Ok(None),
            None => Ok(Some((Way { from, to }, false))),
        }
    }

    /// A token that no refusal has which is not acknowledged; nothing else is under way.
    fn unused_token(&self) -> Token {
        let is_free = |token: &Token| !self.closed.values().any(|by| by == token);
        (0..).map(Token).find(is_free).unwrap_or(Token(u64::MAX))
    }

    /// Does what a step, or the recovery, wants next.
    fn perform(&mut self, next: Next) {
        let internal = match &self.alone {
            Some(Alone::Step(_, _, token) | Alone::Recovery(_, token)) => *token,
            _ => return,
        };
        match next {
            Next::Read(shard, request) => {
                self.under_way += 1;
                self.asked = true;
                self.shard(shard).read(request, internal);
            }
            Next::Commit(shard, txn) => {
                self.under_way += 1;
                self.asked = true;
                self.shard(shard).queue(txn, internal);
            }
            Next::Done(result) => self.end_step(result),
        }
    }

    fn end_step(&mut self, result: Result<Rehoming, StoreError>) {
        match self.alone.take() {
            Some(Alone::Step(step, token, _)) => {
                match result {
                    Ok(Rehoming::Continues) => drop(self.moving.insert(step.id, step.way)),
                    Ok(Rehoming::Done) => {
                        self.moving.remove(&step.id);
                        let home = if step.back { step.way.from } else { step.way.to };
                        self.homes.insert(step.id, home);
                    }
                    Err(_) => {}
                }
                self.ready.push(Completion::Rehomed { token, result });
            }
            // A mark that can't be read, or an end that can't be written, is there again at the next opening.
            Some(Alone::Recovery(recovery, _)) => {
                for (id, home, way) in recovery.found {
                    self.homes.insert(id, home);
                    self.moving.extend(way.map(|way| (id, way)));
                }
            }
            other => self.alone = other,
        }
    }

    /// Gives a step, or the recovery, what it asked for.
    fn answer(&mut self, shard: usize, completion: Completion) {
        let token = completion.token();
        if let Completion::Refused { .. } = completion {
            self.shards[shard].acknowledge(token);
        }
        let next = match (&mut self.alone, completion) {
            (Some(Alone::Step(step, ..)), Completion::Read { result: Ok(outcome), .. }) => {
                step.on_read(outcome)
            }
            (Some(Alone::Step(step, ..)), Completion::Committed { .. }) => step.on_commit(),
            (
                Some(Alone::Step(step, ..)),
                Completion::Read { result: Err(error), .. } | Completion::Refused { error, .. },
            ) => step.failed(error),
            (Some(Alone::Recovery(recovery, _)), Completion::Read { result: Ok(outcome), .. }) => {
                recovery.on_read(outcome)
            }
            (Some(Alone::Recovery(recovery, _)), Completion::Committed { .. }) => recovery.next(),
            (Some(Alone::Recovery(recovery, _)), Completion::Refused { .. }) => recovery.on_refused(),
            (Some(Alone::Recovery(..)), Completion::Read { result: Err(error), .. }) => {
                Next::Done(Err(error))
            }
            _ => return,
        };
        self.perform(next);
    }

    /// Goes on with requests that wait and that a turn has begun. Returns whether the shards have got any.
    fn release(&mut self) -> bool {
        let mut released = false;
        while self.alone.is_none() && self.begun > 0 {
            let plain = match self.held.front() {
                Some(Held::Transaction(txn, _)) => self.plain_home(txn, &txn.collections()).is_some(),
                Some(Held::Rehome { .. } | Held::Recover(_)) => false,
                Some(Held::Acknowledge(_)) => self.may_acknowledge(),
                Some(Held::Read(..)) => true,
                None => return released,
            };
            if !plain && self.under_way > 0 {
                return released;
            }
            let Some(next) = self.held.pop_front() else { return released };
            self.begun -= 1;
            released = true;
            match next {
                Held::Read(request, token) => self.pass_read(request, token),
                Held::Acknowledge(refused) => self.pass_acknowledgement(refused),
                Held::Rehome { id, to, objects_max, token } => self.begin_step(id, to, objects_max, token),
                Held::Recover(mut recovery) => {
                    let next = recovery.next();
                    self.alone = Some(Alone::Recovery(recovery, Token(0)));
                    self.perform(next);
                }
                Held::Transaction(txn, token) => {
                    let collections = txn.collections();
                    match self.plain_home(&txn, &collections) {
                        Some(home) => self.pass(home, txn, collections, token),
                        None => self.begin_alone(txn, token),
                    }
                }
            }
        }
        released
    }

    /// Takes what the shards have completed.
    fn collect(&mut self) {
        let mut out = Vec::new();
        for number in 0..self.shards.len() {
            self.shards[number].completions(&mut out);
            out.drain(..).for_each(|completion| self.complete(number, completion));
        }
    }

    fn complete(&mut self, shard: usize, completion: Completion) {
        self.under_way = self.under_way.saturating_sub(1);
        if matches!(self.alone, Some(Alone::Step(..) | Alone::Recovery(..))) {
            return self.answer(shard, completion);
        }
        let token = completion.token();
        match &completion {
            Completion::Committed { .. } | Completion::Refused { .. } => {
                let collections = self.transactions.remove(&token).unwrap_or_default();
                if let Completion::Refused { error, .. } = &completion {
                    self.close(collections, error, token);
                }
                if let Some(Alone::Transaction { shard, changes, .. }) = self
                    .alone
                    .take_if(|alone| matches!(alone, Alone::Transaction { token: of, .. } if *of == token))
                {
                    if matches!(completion, Completion::Committed { .. }) {
                        self.note(shard, changes);
                    }
                }
            }
            Completion::Read { .. } if self.gathers.contains_key(&token) => {
                return self.gathered(completion);
            }
            Completion::Read { .. } | Completion::Rehomed { .. } => {}
        }
        self.ready.push(completion);
    }

    /// Adds a shard's part of an answer; the last one completes it.
    fn gathered(&mut self, completion: Completion) {
        let (token, Completion::Read { result, .. }) = (completion.token(), completion) else { return };
        let Some(gather) = self.gathers.get_mut(&token) else { return };
        if gather.add(result) {
            let gathered = self.gathers.remove(&token).map_or(Err(StoreError::Stopped), Gather::result);
            let result = self.without_marks(gathered);
            self.ready.push(Completion::Read { token, result });
        }
    }

    /// Marks are no objects of the caller's.
    fn without_marks(&self, mut answer: Result<ReadOutcome, StoreError>) -> Result<ReadOutcome, StoreError> {
        if let Ok(ReadOutcome::StatFs(space)) = &mut answer {
            space.objects = space.objects.saturating_sub(self.moving.len() as u64);
        }
        answer
    }

    fn note(&mut self, shard: StoreShard, changes: Vec<(CollectionId, bool)>) {
        for (id, exists) in changes {
            match exists {
                true => drop(self.homes.insert(id, shard)),
                false => drop(self.homes.remove(&id)),
            }
        }
    }

    /// Goes on as far as it can.
    fn advance(&mut self) {
        self.collect();
        while std::mem::take(&mut self.asked) || self.release() {
            let now = self.now;
            self.shards.iter_mut().for_each(|shard| shard.turn(now));
            self.collect();
        }
    }
}

/// The collections that a transaction makes and removes, in order.
fn changes(txn: &Transaction) -> Vec<(CollectionId, bool)> {
    let of_step = |step: &Step| match step {
        Step::Collection { collection, change } => match change {
            CollectionChange::Create { .. } => Some((*collection, true)),
            CollectionChange::Remove | CollectionChange::Merge { .. } => Some((*collection, false)),
            CollectionChange::Split { .. } => None,
        },
        _ => None,
    };
    txn.steps().iter().filter_map(of_step).collect()
}

impl<S: ObjectStore> ObjectStore for Sharded<S> {
    fn queue(&mut self, txn: Transaction, token: Token) {
        let collections = txn.collections();
        match self.plain_home(&txn, &collections) {
            Some(home) if !self.must_wait() => self.pass(home, txn, collections, token),
            _ => self.held.push_back(Held::Transaction(txn, token)),
        }
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        match self.must_wait() {
            true => self.held.push_back(Held::Read(request, token)),
            false => self.pass_read(request, token),
        }
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.must_wait() {
            return None;
        }
        if let Some(id) = request.collection() {
            if self.moving.contains_key(&id) {
                return None;
            }
            let home = self.shard_of(id);
            return self.shard(home).peek(request);
        }
        let mut gather = Gather::of(Kind::All, self.shards.len());
        for shard in &mut self.shards {
            gather.add(shard.peek(request)?);
        }
        Some(self.without_marks(gather.result()))
    }

    fn acknowledge(&mut self, refused: Token) {
        match self.must_wait() || !self.may_acknowledge() {
            true => self.held.push_back(Held::Acknowledge(refused)),
            false => self.pass_acknowledgement(refused),
        }
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.held.push_back(Held::Rehome { id: collection, to, objects_max, token });
    }

    fn turn(&mut self, now: UTime) {
        self.now = self.now.max(now);
        self.begun = self.held.len();
        let now = self.now;
        self.shards.iter_mut().for_each(|shard| shard.turn(now));
        self.advance();
    }

    fn deadline(&self) -> Option<UTime> {
        self.shards.iter().filter_map(ObjectStore::deadline).min()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        self.advance();
        out.append(&mut self.ready);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.shards.iter_mut().for_each(|shard| shard.set_waker(waker.clone()));
    }

    fn memory_pools(&self) -> StoreMemory {
        let mut sum = StoreMemory::default();
        self.shards.iter().for_each(|shard| sum += shard.memory_pools());
        sum
    }

    fn set_compression(&mut self, pool: Option<PoolId>, how: Option<Compression>) {
        self.shards.iter_mut().for_each(|shard| shard.set_compression(pool, how));
    }

    fn free_space(&self) -> Option<FreeSpace> {
        self.shards.iter().try_fold(FreeSpace::default(), |mut sum, shard| {
            sum += shard.free_space()?;
            Some(sum)
        })
    }

    fn drop_caches(&mut self) -> bool {
        self.shards.iter_mut().fold(true, |all, shard| shard.drop_caches() & all)
    }

    fn set_tuning(&mut self, tuning: Tuning) {
        self.shards.iter_mut().for_each(|shard| shard.set_tuning(tuning));
    }

    fn shards(&self) -> u32 {
        self.shards.len() as u32
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        let known = self.homes.get(&collection).copied();
        known.unwrap_or_else(|| StoreShard::of_new(collection, self.shards()))
    }
}
