//! Random histories: many requests in flight, awaited out of order, compared with the model.
//!
//! The model takes the requests in their order, each when its completion has come. So it knows the answer of a step of
//! re-homing, which the store may choose, before it judges the requests behind that step.

use std::collections::{BTreeMap, VecDeque};

use super::compare::{compare_all, compare_read};
use super::factory::Factory;
use super::generate::{Generator, Shape};
use super::harness::{Harness, outcome_of};
use super::model::{Homes, Model};
use super::space::{ROOMY_BYTES, check_removal, check_space};
use crate::{CollectionId, Completion, ObjectStore, ReadRequest, StoreError, StoreShard, Token, Transaction};

/// Something done to the store, in order.
enum Entry {
    Queue(Transaction),
    Read(ReadRequest),
    Rehome(CollectionId, StoreShard),
    Acknowledge,
}

/// A history under way.
pub struct History<S: ObjectStore> {
    pub h: Harness<S>,
    pub model: Model,
    pub generator: Generator,
    shape: Shape,
    /// What the model has not seen.
    script: VecDeque<(Token, Entry)>,
    done: BTreeMap<Token, Completion>,
    /// Refusals that the caller knows of and has not acknowledged.
    refused: Vec<Token>,
    committed: u64,
    queued: u64,
    /// For messages.
    name: String,
}

/// Where a fresh store makes the collections of histories.
pub fn homes<S: ObjectStore>(h: &mut Harness<S>) -> Homes {
    let of = Generator::collections().into_iter().map(|id| (id, h.shard_of(id))).collect();
    Homes { shards: h.shards(), of }
}

/// Runs a history and looks at everything that is left, also after reopening and a crash, and after removing it all.
///
/// # Panics
/// Where store and model differ.
pub fn random_history<F: Factory>(factory: &mut F, shape: Shape, seed: u64, requests: usize) {
    let store = factory.fresh(ROOMY_BYTES);
    let mut history = History::new(store, factory, shape, seed);
    for part in 1..=3 {
        history.run(requests / 3);
        let name = format!("{}, part {part}", history.name);
        let History { h, model, .. } = &mut history;
        compare_all(h, model, &name);
        history.acknowledge_all();
        let History { h, model, .. } = &mut history;
        check_space(factory, h, model, &name);
        history = history.reopened(factory);
    }
    history.check_weights();
    let History { mut h, mut model, name, .. } = history;
    check_removal(factory, &mut h, &mut model, &name);
    if let Some(h) = reopened(factory, h, None) {
        compare_all(&mut { h }, &model, &format!("{name}, emptied and reopened"));
    }
}

/// The store closed and opened again, or after a crash by the seed, or `None` if it keeps nothing.
pub fn reopened<F: Factory>(
    factory: &mut F,
    h: Harness<F::Store>,
    crash: Option<u64>,
) -> Option<Harness<F::Store>> {
    let properties = factory.properties();
    let store = match crash {
        Some(seed) if properties.crashes => factory.crash(h.take(), seed),
        None if properties.reopens => factory.reopen(h.take()),
        _ => return None,
    };
    Some(Harness::new(store.expect("the properties say that the store can"), properties))
}

impl<S: ObjectStore> History<S> {
    /// Around an empty store, which gets the first collections.
    pub fn new<F: Factory<Store = S>>(store: S, factory: &F, shape: Shape, seed: u64) -> Self {
        let mut h = Harness::new(store, factory.properties());
        let mut model = Model::new(homes(&mut h));
        for txn in Generator::setup() {
            h.apply(txn.clone()).expect("a collection can be made");
            model.apply(&txn).expect("a collection can be made");
        }
        Self {
            h,
            model,
            generator: Generator::new(seed, shape),
            shape,
            script: VecDeque::new(),
            done: BTreeMap::new(),
            refused: Vec::new(),
            committed: 0,
            queued: 0,
            name: format!("seed {seed}"),
        }
    }

    /// Does so many random things, and waits for all of them.
    fn run(&mut self, requests: usize) {
        for _ in 0..requests {
            self.request();
            if self.generator.rng.one_in(5) {
                self.h.turn();
            }
            if self.generator.rng.one_in(3) {
                self.h.poll();
            }
            self.compare();
            while self.h.in_flight() > self.shape.in_flight_max {
                self.wait_for_one();
            }
        }
        self.h.settle();
        self.compare();
        assert!(self.script.is_empty(), "{}: everything was compared", self.name);
    }

    fn request(&mut self) {
        let rng = &mut self.generator.rng;
        if !self.refused.is_empty() && rng.one_in(8) {
            let at = rng.below(self.refused.len() as u64) as usize;
            let refused = self.refused.swap_remove(at);
            self.h.acknowledge(refused);
            self.script.push_back((refused, Entry::Acknowledge));
        } else if rng.one_in(self.shape.rehome_one_in) {
            let (id, to, objects_max) = self.generator.rehoming(&self.model);
            let token = self.h.ask_rehome(id, to, objects_max);
            self.script.push_back((token, Entry::Rehome(id, to)));
        } else if rng.one_in(2) {
            let txn = self.generator.transaction(&self.model);
            let token = self.h.queue(txn.clone());
            self.script.push_back((token, Entry::Queue(txn)));
        } else {
            let request = self.generator.read(&self.model);
            let token = self.h.ask(request.clone());
            self.script.push_back((token, Entry::Read(request)));
        }
    }

    /// Acknowledges every refusal that is known.
    fn acknowledge_all(&mut self) {
        for refused in std::mem::take(&mut self.refused) {
            self.h.acknowledge(refused);
            self.model.acknowledge(refused);
        }
    }

    /// Waits for any of the requests, not for the oldest.
    fn wait_for_one(&mut self) {
        let done = &self.done;
        let open = |(token, entry): &(Token, Entry)| {
            let waits = !matches!(entry, Entry::Acknowledge) && !done.contains_key(token);
            waits.then_some(*token)
        };
        let open: Vec<Token> = self.script.iter().filter_map(open).collect();
        let token = open[self.generator.rng.below(open.len() as u64) as usize];
        let completion = self.h.wait(token);
        self.done.insert(token, completion);
        self.compare();
    }

    /// Shows the model what has completed, in order of the requests, and compares.
    fn compare(&mut self) {
        while let Some((token, entry)) = self.script.pop_front() {
            let token = match entry {
                Entry::Acknowledge => {
                    self.model.acknowledge(token);
                    continue;
                }
                _ => token,
            };
            let Some(completion) = self.done.remove(&token).or_else(|| self.h.ready(token)) else {
                self.script.push_front((token, entry));
                return;
            };
            self.compare_one(token, entry, completion);
        }
    }

    fn compare_one(&mut self, token: Token, entry: Entry, completion: Completion) {
        match (entry, completion) {
            (Entry::Queue(txn), completion) => {
                let (got, want) = (outcome_of(completion), self.model.queue(&txn, token));
                let same = got == want || self.is_same_refusal(&got, &want);
                assert!(same, "{}: {txn:?} gave {got:?}, wanted {want:?}", self.name);
                let after_refused = matches!(got, Err(StoreError::AfterRefused(_)));
                self.queued += u64::from(!after_refused);
                self.committed += u64::from(got.is_ok());
                if got.is_err() && !after_refused {
                    self.refused.push(token);
                }
            }
            (Entry::Read(request), Completion::Read { result, .. }) => {
                compare_read(&self.model, &request, &result, &self.name);
            }
            (Entry::Rehome(id, to), Completion::Rehomed { result, .. }) => self.model.rehome(id, to, &result),
            (_, completion) => panic!("{}: {completion:?} is of another kind", self.name),
        }
    }

    /// Of collections in several shards a store may name any two.
    fn is_same_refusal(&self, got: &Result<(), StoreError>, want: &Result<(), StoreError>) -> bool {
        match (got, want) {
            (Err(StoreError::AcrossShards { first, second }), Err(StoreError::AcrossShards { .. })) => {
                self.model.home(*first) != self.model.home(*second)
            }
            (_, _) => false,
        }
    }

    /// The history goes on, on the store opened again where it keeps anything: in order, then after a crash.
    fn reopened<F: Factory<Store = S>>(mut self, factory: &mut F) -> Self {
        let seed = self.generator.rng.next_u64();
        for crash in [None, Some(seed)] {
            let properties = factory.properties();
            if !(if crash.is_some() { properties.crashes } else { properties.reopens }) {
                continue;
            }
            let h = reopened(factory, self.h, crash).expect("the properties say so");
            self = Self { h, ..self };
            self.model.acknowledge_all();
            self.refused.clear();
            let name = format!("{}, reopened (crash: {crash:?})", self.name);
            compare_all(&mut self.h, &self.model, &name);
            check_space(factory, &mut self.h, &self.model, &name);
        }
        self
    }

    /// A history that commits little tries little.
    fn check_weights(&self) {
        let (committed, queued) = (self.committed, self.queued);
        assert!(committed * 10 >= queued * 6, "{}: only {committed} of {queued} committed", self.name);
    }
}
