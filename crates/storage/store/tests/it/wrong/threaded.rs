//! A store on its thread, which wakes the caller, or doesn't.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use store::conformance::{Contents, Factory, Properties};
use store::sim::SimStore;
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::{GHObject, UTime};

use crate::common::Sim;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WakeFlaw {
    None,
    /// Does not call for one burst of completions in four, and shows it only when the caller has collected after its turn.
    Drops,
    /// Calls, and shows what is ready later.
    Early,
}

enum Request {
    Queue(Transaction, Token),
    Read(ReadRequest, Token),
    Acknowledge(Token),
    Rehome(CollectionId, StoreShard, usize, Token),
    /// Begins what was taken before it.
    Turn(Vec<Request>, UTime),
    ShardOf(CollectionId, Sender<StoreShard>),
    FailCommits,
}

#[derive(Default)]
struct Shared {
    ready: Mutex<Vec<Completion>>,
    waker: Mutex<Option<Waker>>,
    /// Whether the caller has collected, or left, since it gave the last turn.
    collected: Mutex<bool>,
    collects: Condvar,
}

impl Shared {
    fn set_collected(&self, collected: bool) {
        *self.collected.lock().expect("no panic under this lock") = collected;
        self.collects.notify_all();
    }

    fn wait_until_collected(&self) {
        let collected = self.collected.lock().expect("no panic under this lock");
        drop(self.collects.wait_while(collected, |collected| !*collected).expect("no panic under this lock"));
    }
}

pub struct Threaded {
    to: Option<Sender<Request>>,
    taken: Vec<Request>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<SimStore>>,
    shards: u32,
}

impl Threaded {
    pub fn new(inner: SimStore, flaw: WakeFlaw) -> Self {
        let shared = Arc::new(Shared::default());
        let (to, from) = channel();
        let shards = inner.shards();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(inner, &from, &of_thread, flaw));
        Self { to: Some(to), taken: Vec::new(), shared, thread: Some(thread), shards }
    }

    fn send(&self, request: Request) {
        if let Some(to) = &self.to {
            to.send(request).expect("the thread lives as long as the store");
        }
    }

    /// Ends the thread where it is.
    fn stop(mut self) -> SimStore {
        self.to = None;
        self.shared.set_collected(true);
        self.thread.take().expect("it is stopped once").join().expect("the thread does not panic")
    }
}

fn serve(mut inner: SimStore, from: &Receiver<Request>, shared: &Shared, flaw: WakeFlaw) -> SimStore {
    let mut bursts = 0u64;
    loop {
        // What is due comes when nothing is asked.
        let patience = if inner.deadline().is_some() { Duration::ZERO } else { Duration::from_secs(600) };
        match from.recv_timeout(patience) {
            Ok(request) => perform(&mut inner, request),
            Err(RecvTimeoutError::Disconnected) => return inner,
            Err(RecvTimeoutError::Timeout) => {
                if let Some(deadline) = inner.deadline() {
                    inner.turn(deadline);
                }
            }
        }
        let mut done = Vec::new();
        inner.completions(&mut done);
        if !done.is_empty() {
            bursts += 1;
            show(
                shared,
                done,
                if flaw == WakeFlaw::Drops && bursts % 4 != 0 { WakeFlaw::None } else { flaw },
            );
        }
    }
}

fn perform(inner: &mut SimStore, request: Request) {
    match request {
        Request::Queue(txn, token) => inner.queue(txn, token),
        Request::Read(request, token) => inner.read(request, token),
        Request::Acknowledge(token) => inner.acknowledge(token),
        Request::Rehome(id, to, max, token) => inner.rehome(id, to, max, token),
        Request::Turn(taken, now) => {
            taken.into_iter().for_each(|request| perform(inner, request));
            inner.turn(now);
        }
        Request::ShardOf(id, answer) => drop(answer.send(inner.shard_of(id))),
        Request::FailCommits => inner.fail_commits(),
    }
}

fn show(shared: &Shared, done: Vec<Completion>, flaw: WakeFlaw) {
    let wake = || {
        let waker = shared.waker.lock().expect("no panic under this lock").clone();
        waker.iter().for_each(|waker| waker());
    };
    if flaw == WakeFlaw::Early {
        wake();
        std::thread::sleep(Duration::from_millis(20));
    }
    if flaw == WakeFlaw::Drops {
        // A caller that is slow would find the completions without being called, and miss nothing; also one that a call for
        // earlier ones makes come once more.
        shared.wait_until_collected();
        std::thread::sleep(Duration::from_millis(20));
    }
    shared.ready.lock().expect("no panic under this lock").extend(done);
    if flaw == WakeFlaw::None {
        wake();
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.to = None;
        self.shared.set_collected(true);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl ObjectStore for Threaded {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.taken.push(Request::Queue(txn, token));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.taken.push(Request::Read(request, token));
    }

    fn peek(&mut self, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }

    fn acknowledge(&mut self, refused: Token) {
        self.taken.push(Request::Acknowledge(refused));
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.taken.push(Request::Rehome(collection, to, objects_max, token));
    }

    fn turn(&mut self, now: UTime) {
        let taken = std::mem::take(&mut self.taken);
        self.shared.set_collected(false);
        self.send(Request::Turn(taken, now));
    }

    fn deadline(&self) -> Option<UTime> {
        None
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.append(&mut self.shared.ready.lock().expect("no panic under this lock"));
        self.shared.set_collected(true);
    }

    fn set_waker(&mut self, waker: Waker) {
        *self.shared.waker.lock().expect("no panic under this lock") = Some(waker);
    }

    fn shards(&self) -> u32 {
        self.shards
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        let (answer, answered) = channel();
        self.send(Request::ShardOf(collection, answer));
        answered.recv().expect("the thread answers")
    }
}

/// Makes stores on threads.
pub struct ThreadedFactory {
    pub sim: Sim,
    pub flaw: WakeFlaw,
}

impl Factory for ThreadedFactory {
    type Store = Threaded;

    fn properties(&self) -> Properties {
        let patience = match self.flaw {
            WakeFlaw::None => Duration::from_secs(60),
            WakeFlaw::Drops | WakeFlaw::Early => Duration::from_millis(300),
        };
        Properties { threaded: true, patience, ..self.sim.properties() }
    }

    fn fresh(&mut self, bytes_total: u64) -> Threaded {
        Threaded::new(self.sim.fresh(bytes_total), self.flaw)
    }

    fn metadata_bytes_max(&self, contents: &Contents) -> u64 {
        self.sim.metadata_bytes_max(contents)
    }

    fn reopen(&mut self, store: Threaded) -> Option<Threaded> {
        Some(Threaded::new(store.stop().close(), self.flaw))
    }

    fn crash(&mut self, store: Threaded, seed: u64) -> Option<Threaded> {
        let mut inner = store.stop();
        inner.reseed(seed);
        Some(Threaded::new(inner.power_loss().0, self.flaw))
    }

    fn damage(
        &mut self,
        store: Threaded,
        c: CollectionId,
        object: &GHObject,
        offset: u64,
    ) -> Option<Threaded> {
        let mut inner = store.stop();
        inner.damage(c, object, offset);
        Some(Threaded::new(inner, self.flaw))
    }

    fn fail_commits(&mut self, store: &mut Threaded) -> bool {
        store.send(Request::FailCommits);
        true
    }
}
