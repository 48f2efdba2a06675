//! A store of several shards as one, over the handles of its shards: each request goes where its collection is.
//!
//! An OSD uses the handles themselves, each on a core. This is for who has the whole store on one thread (a tool). It knows
//! where collections are and which are closed; what they hold it never looks at.
//!
//! A transaction of collections that exist, in one shard, goes straight there. Anything that may change where collections
//! are, or concerns several shards, is done *alone*: it waits until the shards have nothing under way, and what comes
//! after it waits for it.
//!
//! Not yet: moving a collection to another shard is refused.

mod gather;

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use types::UTime;

use crate::{
    CollectionChange, CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, Step,
    StoreError, StoreShard, Token, Transaction, Waker,
};
use gather::Gather;

type Collections = SmallVec<[CollectionId; 2]>;

/// A request that waits.
enum Held {
    Transaction(Transaction, Token),
    Read(ReadRequest, Token),
    Acknowledge(Token),
    Rehome(CollectionId, StoreShard, Token),
}

/// A transaction that is done alone: what there is and is not when it has committed.
struct Alone {
    token: Token,
    shard: StoreShard,
    changes: Vec<(CollectionId, bool)>,
}

/// See the module's documentation.
pub struct Sharded<S> {
    shards: Vec<S>,
    homes: BTreeMap<CollectionId, StoreShard>,
    /// Collections closed by a refusal that is known here, with the transaction that closed them.
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
    ready: Vec<Completion>,
    now: UTime,
}

impl<S: ObjectStore> Sharded<S> {
    /// Of each shard in order its handle, and the collections that it has.
    pub fn new(shards: Vec<(S, Vec<CollectionId>)>) -> Self {
        let mut homes = BTreeMap::new();
        let handles = shards.into_iter().zip(0..).map(|((handle, collections), number)| {
            homes.extend(collections.into_iter().map(|id| (id, StoreShard(number))));
            handle
        });
        Self {
            shards: handles.collect(),
            homes,
            closed: BTreeMap::new(),
            transactions: BTreeMap::new(),
            gathers: BTreeMap::new(),
            under_way: 0,
            alone: None,
            held: VecDeque::new(),
            begun: 0,
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
            let open = !self.closed.contains_key(id);
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
        match request.collection() {
            Some(id) => {
                let home = self.shard_of(id);
                self.under_way += 1;
                self.shard(home).read(request, token);
            }
            None => {
                self.gathers.insert(token, Gather::of(self.shards.len()));
                self.under_way += self.shards.len();
                self.shards.iter_mut().for_each(|shard| shard.read(request.clone(), token));
            }
        }
    }

    fn pass_acknowledgement(&mut self, refused: Token) {
        self.closed.retain(|_, by| *by != refused);
        self.shards.iter_mut().for_each(|shard| shard.acknowledge(refused));
    }

    /// Notes which collections a refusal closes.
    fn close(&mut self, collections: Collections, error: &StoreError, token: Token) {
        let by = match error {
            // By the refusal that closed that one, unless it was acknowledged meanwhile.
            StoreError::AfterRefused(id) => self.closed.get(id).copied(),
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
                self.alone = Some(Alone { token, shard, changes: changes(&txn) });
                self.pass(shard, txn, collections, token);
            }
            Err(error) => {
                self.close(collections, &error, token);
                self.ready.push(Completion::Refused { token, error });
            }
        }
    }

    fn rehome_now(&self, id: CollectionId, to: StoreShard) -> Result<Rehoming, StoreError> {
        let shards = self.shards.len() as u32;
        if to.0 >= shards {
            return Err(StoreError::NoSuchShard { shard: to, shards });
        }
        if self.closed.contains_key(&id) {
            return Err(StoreError::AfterRefused(id));
        }
        match self.homes.get(&id) {
            None => Err(StoreError::NoSuchCollection(id)),
            Some(home) if *home == to => Ok(Rehoming::Done),
            Some(_) => Err(StoreError::AcrossShards { first: id, second: id }),
        }
    }

    /// Goes on with requests that wait and that a turn has begun. Returns whether the shards have got any.
    fn release(&mut self) -> bool {
        let mut released = false;
        while self.alone.is_none() && self.begun > 0 {
            let plain = match self.held.front() {
                Some(Held::Transaction(txn, _)) => self.plain_home(txn, &txn.collections()).is_some(),
                Some(Held::Rehome(..)) => false,
                Some(Held::Read(..) | Held::Acknowledge(_)) => true,
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
                Held::Rehome(id, to, token) => {
                    let result = self.rehome_now(id, to);
                    self.ready.push(Completion::Rehomed { token, result });
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
        let token = completion.token();
        match &completion {
            Completion::Committed { .. } | Completion::Refused { .. } => {
                let collections = self.transactions.remove(&token).unwrap_or_default();
                if let Completion::Refused { error, .. } = &completion {
                    self.close(collections, error, token);
                }
                if let Some(alone) = self.alone.take_if(|alone| alone.token == token) {
                    if matches!(completion, Completion::Committed { .. }) {
                        self.note(alone);
                    }
                }
            }
            Completion::Read { .. } if self.gathers.contains_key(&token) => {
                return self.gathered(shard, completion);
            }
            Completion::Read { .. } | Completion::Rehomed { .. } => {}
        }
        self.ready.push(completion);
    }

    /// Adds a shard's part of an answer; the last one completes it.
    fn gathered(&mut self, shard: usize, completion: Completion) {
        let (token, Completion::Read { result, .. }) = (completion.token(), completion) else { return };
        let Some(gather) = self.gathers.get_mut(&token) else { return };
        if gather.add(shard, result) {
            let result = self.gathers.remove(&token).map_or(Err(StoreError::Stopped), Gather::result);
            self.ready.push(Completion::Read { token, result });
        }
    }

    fn note(&mut self, Alone { shard, changes, .. }: Alone) {
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
        while self.release() {
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
            let home = self.shard_of(id);
            return self.shard(home).peek(request);
        }
        let mut gather = Gather::of(self.shards.len());
        for (number, shard) in self.shards.iter_mut().enumerate() {
            gather.add(number, shard.peek(request)?);
        }
        Some(gather.result())
    }

    fn acknowledge(&mut self, refused: Token) {
        match self.must_wait() {
            true => self.held.push_back(Held::Acknowledge(refused)),
            false => self.pass_acknowledgement(refused),
        }
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, _objects_max: usize, token: Token) {
        self.held.push_back(Held::Rehome(collection, to, token));
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

    fn shards(&self) -> u32 {
        self.shards.len() as u32
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        let known = self.homes.get(&collection).copied();
        known.unwrap_or_else(|| StoreShard::of_new(collection, self.shards()))
    }
}
