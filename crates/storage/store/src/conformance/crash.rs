//! Random histories that power losses interrupt.
//!
//! Every transaction writes its number into the info of each collection that it names. After a crash that info
//! shows which transaction of the collection was the last, and the model's state after it is what must be there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::compare::compare_all;
use super::factory::{Factory, Properties};
use super::generate::{Generator, Shape};
use super::harness::{Harness, outcome_of};
use super::history::homes;
use super::model::{Model, ModelCollection};
use super::recover::{Known, choose_absent};
use super::space::{ROOMY_BYTES, check_removal, check_space, finish_rehoming, rehome_whole};
use crate::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, Rehoming, StoreShard, Token, Transaction,
};

/// A collection's shard, and the one that it is on its way to.
type Place = (StoreShard, Option<StoreShard>);

/// What a collection was after each of its transactions in the round; the first is what it began with.
pub type Steps = Vec<(u64, Option<Arc<ModelCollection>>)>;

/// A history under way.
struct CrashHistory<S: ObjectStore> {
    h: Harness<S>,
    model: Model,
    generator: Generator,
    /// Transactions that are not acknowledged, with their numbers.
    open: BTreeMap<Token, (u64, BTreeSet<CollectionId>)>,
    steps: BTreeMap<CollectionId, Steps>,
    /// The number of the last acknowledged transaction on each collection.
    acknowledged: BTreeMap<CollectionId, u64>,
    /// The collections of transactions on more than one.
    spanning: BTreeMap<u64, BTreeSet<CollectionId>>,
    /// A step of re-homing under way. Nothing is queued on its collection.
    moving: Option<(Token, CollectionId, StoreShard)>,
    /// Where each collection may be found.
    places: BTreeMap<CollectionId, Vec<Place>>,
    next: u64,
    name: String,
}

/// Runs rounds of random transactions, each ended by a power loss, on one store.
///
/// # Panics
/// If something acknowledged is lost, a transaction is torn, or the store comes back to a state that it never had.
pub fn crash_history<F: Factory>(factory: &mut F, shape: Shape, seed: u64, rounds: u64) {
    let store = factory.fresh(ROOMY_BYTES);
    let mut history = CrashHistory::new(store, factory.properties(), shape, seed);
    for round in 1..=rounds {
        history.name = format!("seed {seed}, crash {round}");
        history.run();
        history = history.crash(factory);
        if round % 4 == 0 {
            // Again, with nothing done since.
            history = history.crash(factory);
        }
        compare_all(&mut history.h, &history.model, &history.name);
        if round % 3 == 0 {
            check_space(factory, &mut history.h, &history.model, &history.name);
        }
        history.finish_rehomings();
    }
    let CrashHistory { mut h, mut model, name, .. } = history;
    check_space(factory, &mut h, &model, &name);
    check_removal(factory, &mut h, &mut model, &name);
}

impl<S: ObjectStore> CrashHistory<S> {
    fn new(store: S, properties: Properties, shape: Shape, seed: u64) -> Self {
        let mut h = Harness::new(store, properties);
        let model = Model::new(homes(&mut h));
        let mut history = Self {
            h,
            model,
            generator: Generator::new(seed, shape),
            open: BTreeMap::new(),
            steps: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            spanning: BTreeMap::new(),
            moving: None,
            places: BTreeMap::new(),
            next: 1,
            name: format!("seed {seed}, setup"),
        };
        history.begin_round();
        Generator::setup().into_iter().for_each(|txn| history.queue(txn));
        history.h.settle();
        history.acknowledge();
        history.begin_round();
        history
    }

    /// What is there now is durable.
    fn begin_round(&mut self) {
        self.open.clear();
        self.spanning.clear();
        self.acknowledged.clear();
        for id in Generator::collections() {
            let now = self.model.get(id).cloned();
            let number = now.as_ref().map_or(0, |c| number(&c.info));
            self.steps.insert(id, vec![(number, now)]);
            let place = self.model.get(id).map(|c| (c.shard, c.rehoming));
            self.places.insert(id, place.into_iter().collect());
        }
    }

    fn run(&mut self) {
        for _ in 0..20 + self.generator.rng.below(120) {
            match self.generator.rng.below(12) {
                0 => self.rehome_step(),
                1..=2 => self.h.turn(),
                3 => self.wait_for_one(),
                _ => {
                    let txn = self.generator.transaction(&self.model);
                    self.queue(txn);
                }
            }
            self.acknowledge();
        }
        // What is in flight when power is lost.
        for _ in 0..self.generator.rng.below(50) {
            if self.generator.rng.one_in(6) {
                self.h.turn();
            }
            let txn = self.generator.transaction(&self.model);
            // A refusal would be waited for.
            if self.model.clone().apply(&txn).is_ok() {
                self.queue(txn);
            }
        }
        if self.generator.rng.one_in(2) {
            self.h.turn();
        }
    }

    /// Queues a transaction with its number, unless it meets a collection that is being moved.
    fn queue(&mut self, mut txn: Transaction) {
        let named: BTreeSet<CollectionId> = txn.collections().into_iter().collect();
        if self.moving.is_some_and(|(_, id, _)| named.contains(&id)) {
            return;
        }
        let mut after = self.model.clone();
        if after.apply(&txn).is_err() {
            self.refuse(txn);
            return;
        }
        for id in named.iter().filter(|id| after.get(**id).is_some()) {
            txn.set_info(*id, self.next.to_le_bytes().to_vec());
        }
        self.model.apply(&txn).expect("an info more changes nothing else");
        for &id in &named {
            let state = self.model.get(id).cloned();
            if let Some(c) = &state {
                self.places.entry(id).or_default().push((c.shard, c.rehoming));
            }
            self.steps.entry(id).or_default().push((self.next, state));
        }
        if named.len() > 1 {
            self.spanning.insert(self.next, named.clone());
        }
        let token = self.h.queue(txn);
        self.open.insert(token, (self.next, named));
        self.next += 1;
    }

    fn refuse(&mut self, txn: Transaction) {
        let want = self.model.clone().apply(&txn);
        let token = self.h.queue(txn.clone());
        let got = self.h.outcome(token);
        assert_eq!(got.is_err(), want.is_err(), "{}: {txn:?}, {got:?}, {want:?}", self.name);
        self.h.acknowledge(token);
    }

    fn rehome_step(&mut self) {
        if self.moving.is_some() || self.model.shards() == 1 {
            return;
        }
        let (id, to, objects_max) = self.generator.rehoming(&self.model);
        if to.0 < self.model.shards() && self.model.get(id).is_some() {
            self.moving = Some((self.h.ask_rehome(id, to, objects_max), id, to));
        }
    }

    fn wait_for_one(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let at = self.generator.rng.below(self.open.len() as u64) as usize;
        let (&token, _) = self.open.iter().nth(at).expect("`at` is below their number");
        let completion = self.h.wait(token);
        self.committed(token, completion);
    }

    /// Notes what has completed.
    fn acknowledge(&mut self) {
        let tokens: Vec<Token> = self.open.keys().copied().collect();
        for token in tokens {
            if let Some(completion) = self.h.ready(token) {
                self.committed(token, completion);
            }
        }
        let moved = self.moving.and_then(|(token, id, to)| Some((self.h.ready(token)?, id, to)));
        if let Some((Completion::Rehomed { result, .. }, id, to)) = moved {
            self.model.rehome(id, to, &result);
            self.moving = None;
            let place = self.model.get(id).map(|c| (c.shard, c.rehoming));
            self.places.insert(id, place.into_iter().collect());
        }
    }

    fn committed(&mut self, token: Token, completion: Completion) {
        let (number, named) = self.open.remove(&token).expect("it is open");
        assert_eq!(outcome_of(completion), Ok(()), "{}: transaction {number}", self.name);
        self.acknowledged.extend(named.into_iter().map(|id| (id, number)));
    }

    /// Loses power, and makes the model what must be there.
    fn crash<F: Factory<Store = S>>(mut self, factory: &mut F) -> Self {
        if let Some((_, id, to)) = self.moving.take() {
            let places = self.places.entry(id).or_default();
            let ways = places.iter().flat_map(|&(shard, _)| [(shard, Some(to)), (to, None), (shard, None)]);
            let ways: Vec<Place> = ways.collect();
            places.extend(ways);
        }
        let seed = self.generator.rng.next_u64();
        let store = factory.crash(self.h.abandon(), seed).expect("the properties say that it can");
        let h = Harness::new(store, factory.properties());
        let mut history = Self { h, ..self };
        history.recover();
        history.begin_round();
        history
    }

    fn recover(&mut self) {
        let mut known: BTreeMap<CollectionId, usize> = BTreeMap::new();
        let mut absent = Vec::new();
        for id in Generator::collections() {
            match self.h.get(ReadRequest::Collection { collection: id }) {
                Ok(ReadOutcome::Collection(Some(stat))) => {
                    known.insert(id, self.last_step(id, &stat.info));
                }
                Ok(ReadOutcome::Collection(None)) => absent.push(id),
                other => panic!("{}: {id}: {other:?}", self.name),
            }
        }
        let floors = |id: &CollectionId| self.acknowledged.get(id).copied().unwrap_or(0);
        let all = Known { steps: &self.steps, spanning: &self.spanning, floors: &floors, name: &self.name };
        all.check(&known);
        let known = choose_absent(&all, known, &absent);
        for (id, at) in known {
            let state = self.steps[&id][at].1.clone();
            let state = state.map(|c| self.placed(id, &c));
            self.model.put(id, state);
        }
    }

    /// Which transaction was the last on a collection, by the number in its info.
    fn last_step(&self, id: CollectionId, info: &[u8]) -> usize {
        let last = number(info);
        let at = self.steps[&id].iter().position(|(number, state)| *number == last && state.is_some());
        at.unwrap_or_else(|| {
            panic!("{}: {id} has the info of transaction {last}, which is none of its", self.name)
        })
    }

    /// The collection in the shard where the store has it, which must be one of those where it may be.
    fn placed(&mut self, id: CollectionId, c: &ModelCollection) -> Arc<ModelCollection> {
        let Ok(ReadOutcome::Collection(Some(stat))) = self.h.get(ReadRequest::Collection { collection: id })
        else {
            panic!("{}: {id} was there before", self.name)
        };
        let place = (self.h.shard_of(id), stat.rehoming);
        let may = &self.places[&id];
        assert!(may.contains(&place), "{}: {id} is in {place:?}, and may only be in {may:?}", self.name);
        Arc::new(ModelCollection { shard: place.0, rehoming: place.1, ..c.clone() })
    }

    /// Brings what is between two shards to one of them, here or there.
    fn finish_rehomings(&mut self) {
        for id in self.model.collections() {
            let under_way = self.model.get(id).is_some_and(|c| c.rehoming.is_some());
            match self.generator.rng.below(3) {
                // Left for the round to come.
                0 => {}
                1 if under_way => {
                    let home = self.model.home(id);
                    rehome_whole(&mut self.h, &mut self.model, id, home, 3);
                }
                _ => finish_rehoming(&mut self.h, &mut self.model, id),
            }
        }
        self.begin_round();
    }
}

/// The number in an info, 0 where none was written.
fn number(info: &[u8]) -> u64 {
    info.try_into().map_or(0, u64::from_le_bytes)
}

/// Re-homing interrupted by power losses: whatever is left can be finished, to there and back.
pub fn rehoming_crashes<F: Factory>(factory: &mut F, seed: u64) {
    let shape = Shape { collections_one_in: 1000, refused_one_in: 1000, ..Shape::MIXED };
    let store = factory.fresh(ROOMY_BYTES);
    let mut history = CrashHistory::new(store, factory.properties(), shape, seed);
    for round in 0..12 {
        history.name = format!("seed {seed}, re-homing {round}");
        history.run();
        history.h.settle();
        history.acknowledge();
        for id in history.model.collections() {
            let elsewhere = StoreShard((history.model.home(id).0 + 1) % history.model.shards());
            let to = history.model.get(id).and_then(|c| c.rehoming).unwrap_or(elsewhere);
            let answer = history.h.rehome(id, to, 3);
            assert!(matches!(answer, Ok(Rehoming::Continues | Rehoming::Done)), "{answer:?}");
            history.model.rehome(id, to, &answer);
        }
        history.begin_round();
        history = history.crash(factory);
        compare_all(&mut history.h, &history.model, &history.name);
        history.finish_rehomings();
    }
}
