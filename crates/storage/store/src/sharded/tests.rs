//! Acknowledgements that overtake what is under way.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use types::{GHObject, HObject, Name, PgId, PoolId, SplitMix64};

use super::*;
use crate::sim::{SimOptions, SimStore};
use crate::{AttrChoice, MemStore};

type Outcome = Result<(), StoreError>;

fn pg(seed: u32) -> CollectionId {
    CollectionId::Pg(PgId { pool: PoolId(1), seed }.into())
}

fn object(name: &str) -> GHObject {
    HObject::head(PoolId(1), Name::new(), Name::new(), name.into(), 1).into()
}

/// One that touches an object of each of these collections, and is refused where an object is missing.
fn touch(pgs: &[u32], refused: bool) -> Transaction {
    let mut txn = Transaction::new();
    for seed in pgs {
        txn.touch(pg(*seed), &object("a"));
    }
    if refused {
        txn.clone_object(pg(pgs[0]), &object("none"), &object("b"));
    }
    txn
}

/// Collections of which neighbours are in different shards, if there are several.
const PGS: u32 = 8;

/// A store under the slow shards, and one that does the same at once.
struct Pair {
    slow: Sharded<SimStore>,
    at_once: MemStore,
    now: UTime,
    next: u64,
    open: BTreeMap<Token, Transaction>,
    wanted: BTreeMap<Token, Outcome>,
    got: BTreeMap<Token, Outcome>,
    /// Refusals that the slow store has told of and that are not acknowledged.
    refused: Vec<Token>,
}

impl Pair {
    fn new(shards: u32, seed: u64) -> Self {
        let options =
            SimOptions { bytes_total: 1 << 30, shards: 1, seed, commit_us: 10..300, read_us: 10..200 };
        let handle = |n| SimStore::new(SimOptions { seed: seed * 100 + u64::from(n), ..options.clone() });
        let mut pair = Self {
            slow: Sharded::new((0..shards).map(|n| (handle(n), Vec::new())).collect()),
            at_once: MemStore::with_shards(1 << 30, shards),
            now: UTime::default(),
            next: 0,
            open: BTreeMap::new(),
            wanted: BTreeMap::new(),
            got: BTreeMap::new(),
            refused: Vec::new(),
        };
        for seed in 0..PGS {
            let mut txn = Transaction::new();
            txn.create_collection(pg(seed), 0);
            pair.queue(txn);
        }
        pair.settle();
        pair
    }

    fn queue(&mut self, txn: Transaction) -> Token {
        let token = Token(self.next);
        self.next += 1;
        self.slow.queue(txn.clone(), token);
        self.at_once.queue(txn.clone(), token);
        self.open.insert(token, txn);
        token
    }

    fn acknowledge(&mut self, token: Token) {
        self.refused.retain(|of| *of != token);
        self.slow.acknowledge(token);
        self.at_once.acknowledge(token);
    }

    fn turn(&mut self) {
        self.slow.turn(self.now);
        self.at_once.turn(self.now);
        let (mut of_slow, mut of_at_once) = (Vec::new(), Vec::new());
        self.slow.completions(&mut of_slow);
        self.at_once.completions(&mut of_at_once);
        self.wanted.extend(of_at_once.into_iter().map(outcome));
        for (token, got) in of_slow.into_iter().map(outcome) {
            let txn = self.open.remove(&token).expect("a request completes once");
            assert_eq!(got, self.wanted[&token], "{token:?}: {txn:?}");
            if got.as_ref().is_err_and(|error| !matches!(error, StoreError::AfterRefused(_))) {
                self.refused.push(token);
            }
            self.got.insert(token, got);
        }
    }

    /// The next moment at which something completes.
    fn pass(&mut self) {
        self.now = self.slow.deadline().map_or(self.now, |deadline| deadline.max(self.now));
        self.turn();
    }

    fn settle(&mut self) {
        self.turn();
        while self.slow.deadline().is_some() {
            self.pass();
        }
        assert!(self.open.is_empty(), "everything completes: {:?}", self.open);
    }
}

fn outcome(completion: Completion) -> (Token, Outcome) {
    match completion {
        Completion::Committed { token } => (token, Ok(())),
        Completion::Refused { token, error } => (token, Err(error)),
        other => panic!("{other:?}"),
    }
}

/// The first refusal closes 3 by way of 1; then comes one that closes 2. What names 2 and 3 closes nothing more: when the
/// first is acknowledged before all of that has completed, 3 is open, also for what comes when it has.
#[test]
fn an_acknowledgement_does_not_overtake_what_its_refusal_closed() {
    let mut pair = Pair::new(1, 1);
    let first = pair.queue(touch(&[1], true));
    pair.turn();
    let later = [touch(&[1, 3], false), touch(&[2], true), touch(&[2, 3], false)];
    for txn in later {
        pair.queue(txn);
    }
    while !pair.got.contains_key(&first) {
        pair.pass();
    }
    assert_eq!(pair.open.len(), 3, "the others are under way");
    pair.acknowledge(first);
    let opened = pair.queue(touch(&[3], false));
    pair.settle();
    assert_eq!(pair.got[&opened], Ok(()));
    assert_eq!(pair.refused.len(), 1, "2 stays closed");
    let (closed, open) = (pair.queue(touch(&[2], false)), pair.queue(touch(&[3], false)));
    pair.settle();
    assert_eq!(pair.got[&open], Ok(()));
    assert_eq!(pair.got[&closed], Err(StoreError::AfterRefused(pg(2))));
}

#[test]
fn acknowledgements_that_meet_requests_under_way_open_what_they_would_one_by_one() {
    for (shards, seed) in [1, 2, 3].into_iter().flat_map(|shards| (1..=100).map(move |seed| (shards, seed))) {
        let mut rng = SplitMix64::new(seed);
        let mut pair = Pair::new(shards, seed);
        for _ in 0..300 {
            match rng.below(8) {
                0..4 => {
                    let first = rng.below(u64::from(PGS)) as u32;
                    let mut pgs = vec![first];
                    for _ in 0..rng.below(3) {
                        // Of the same shard, most of the time.
                        let step = if rng.one_in(8) { 1 } else { shards };
                        pgs.push((first + step * rng.below(8) as u32) % (PGS / shards * shards).max(1));
                    }
                    pair.queue(touch(&pgs, rng.one_in(4)));
                }
                4 | 5 if !pair.refused.is_empty() => {
                    let at = rng.below(pair.refused.len() as u64) as usize;
                    pair.acknowledge(pair.refused[at]);
                }
                6 => pair.turn(),
                7 => pair.pass(),
                _ => {}
            }
        }
        pair.settle();
        let committed = pair.got.values().filter(|got| got.is_ok()).count();
        assert!(committed > 20, "{shards} shards, seed {seed}: only {committed} committed");
    }
}

/// A shard that takes so many transactions more, and is only read from then on.
struct Limited {
    store: MemStore,
    left: Rc<Cell<usize>>,
    refused: Vec<Completion>,
}

impl Limited {
    fn new(left: &Rc<Cell<usize>>) -> Self {
        Self { store: MemStore::new(1 << 30), left: left.clone(), refused: Vec::new() }
    }

    fn collections(&mut self) -> Vec<CollectionId> {
        match self.store.peek(&ReadRequest::Collections) {
            Some(Ok(ReadOutcome::Collections(all))) => all,
            other => panic!("{other:?}"),
        }
    }
}

impl ObjectStore for Limited {
    fn queue(&mut self, txn: Transaction, token: Token) {
        match self.left.get() {
            0 => {
                let error = StoreError::Damaged("the store is opened to be read only".into());
                self.refused.push(Completion::Refused { token, error });
            }
            left => {
                self.left.set(left - 1);
                self.store.queue(txn, token);
            }
        }
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.store.read(request, token);
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        self.store.peek(request)
    }

    fn acknowledge(&mut self, refused: Token) {
        self.store.acknowledge(refused);
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.store.rehome(collection, to, objects_max, token);
    }

    fn turn(&mut self, now: UTime) {
        self.store.turn(now);
    }

    fn deadline(&self) -> Option<UTime> {
        self.store.deadline()
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.refused);
        self.store.completions(out);
    }

    fn set_waker(&mut self, waker: Waker) {
        self.store.set_waker(waker);
    }

    fn shards(&self) -> u32 {
        1
    }

    fn shard_of(&self, _: CollectionId) -> StoreShard {
        StoreShard(0)
    }
}

/// Turns a store until it has answered all that it was asked.
fn answers(store: &mut Sharded<Limited>) -> Vec<Completion> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        store.turn(UTime::default());
        store.completions(&mut all);
    }
    all
}

fn listed(store: &mut Sharded<Limited>, collection: CollectionId) -> Vec<GHObject> {
    let (start, end) = (GHObject::min(), GHObject::max());
    let request =
        ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs: AttrChoice::None };
    store.read(request, Token(0));
    match answers(store).pop() {
        Some(Completion::Read { result: Ok(ReadOutcome::Objects(page)), .. }) => {
            page.objects.into_iter().map(|(object, _)| object).collect()
        }
        other => panic!("{collection}: {other:?}"),
    }
}

/// Moves of collections to both shards end anywhere, and the store is read before one can write to it again.
#[test]
fn a_store_that_can_only_be_read_has_all_of_what_was_on_its_way() {
    let mut unfinished = 0;
    for taken in 0..40 {
        let left = Rc::new(Cell::new(usize::MAX));
        let mut store = Sharded::new((0..2).map(|_| (Limited::new(&left), Vec::new())).collect());
        let objects: Vec<GHObject> = (0..6).map(|n| object(&format!("o{n}"))).collect();
        for seed in 0..4 {
            let mut txn = Transaction::new();
            txn.create_collection(pg(seed), 0);
            for object in &objects {
                txn.touch(pg(seed), object);
            }
            store.queue(txn, Token(seed.into()));
        }
        answers(&mut store);
        // Those of a shard are on their way to the other one, and some arrive.
        for (seed, commits) in [(0, taken), (1, taken), (2, 2), (3, 2)] {
            left.set(commits);
            let to = StoreShard((store.shard_of(pg(seed)).0 + 1) % 2);
            for _ in 0..8 {
                store.rehome(pg(seed), to, 2, Token(9));
                answers(&mut store);
            }
        }
        left.set(0);
        let handles = store.into_handles().into_iter().map(|mut handle| {
            let all = handle.collections();
            (handle, all)
        });
        let mut read = Sharded::new(handles.collect());
        answers(&mut read);
        assert!(read.is_settled());
        unfinished += read.on_their_way().len();
        for seed in 0..4 {
            assert_eq!(listed(&mut read, pg(seed)), objects, "{}, {taken} transactions each", pg(seed));
        }
        read.read(ReadRequest::Collections, Token(0));
        let wanted = ReadOutcome::Collections((0..4).map(pg).collect());
        assert_eq!(answers(&mut read), [Completion::Read { token: Token(0), result: Ok(wanted) }]);
    }
    assert!(unfinished > 80, "{unfinished} collections were on their way");
}
