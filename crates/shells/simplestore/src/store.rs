//! The handle: what a caller holds, in front of the thread that does the work.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use device::{DirLock, FileLock};
use store::{
    CollectionId, Completion, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::UTime;

use crate::label::Label;
use crate::worker::{Request, Worker};

/// An open store. Dropping it finishes what its turns began, then closes it.
///
/// Its queue has no limit: what is in flight is bounded by the budgets at the connections.
pub struct SimpleStore {
    /// Taken since the last turn, in order.
    taken: Vec<Request>,
    requests: Option<Sender<Vec<Request>>>,
    done: Receiver<Vec<Completion>>,
    /// Completions of requests that the thread can't take any more.
    orphans: Vec<Completion>,
    waker: Arc<SharedWaker>,
    thread: Option<JoinHandle<()>>,
    label: Label,
    /// On the directory and its files.
    _locks: Locks,
}

/// What keeps others from a store.
type Locks = (DirLock, [FileLock; 2]);

/// The waker, as the thread finds it whenever it has completed something.
#[derive(Default)]
struct SharedWaker(Mutex<Option<Waker>>);

impl SharedWaker {
    /// A panic elsewhere doesn't make the waker wrong.
    fn lock(&self) -> MutexGuard<'_, Option<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let waker = self.lock().clone();
        if let Some(waker) = waker {
            waker();
        }
    }
}

impl SimpleStore {
    pub(crate) fn start(mut worker: Worker, label: Label, locks: Locks) -> std::io::Result<Self> {
        let (requests, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let waker = Arc::new(SharedWaker::default());
        let shared = waker.clone();
        let thread = std::thread::Builder::new()
            .name(format!("store-osd.{}", label.osd))
            .spawn(move || worker.run(&inbox, &outbox, &|| shared.wake()))?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Self {
            taken: Vec::new(),
            requests,
            done,
            orphans: Vec::new(),
            waker,
            thread,
            label,
            _locks: locks,
        })
    }

    /// Whose store it is.
    pub fn label(&self) -> &Label {
        &self.label
    }
}

impl ObjectStore for SimpleStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.taken.push(Request::Apply(txn, token));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.taken.push(Request::Read(Box::new(request), token));
    }

    fn peek(&mut self, _request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        // What is in memory is the thread's.
        None
    }

    fn acknowledge(&mut self, refused: Token) {
        self.taken.push(Request::Acknowledge(refused));
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, _objects_max: usize, token: Token) {
        self.taken.push(Request::Rehome { collection, to, token });
    }

    fn turn(&mut self, _now: UTime) {
        if self.taken.is_empty() {
            return;
        }
        let taken = std::mem::take(&mut self.taken);
        let unsent = match &self.requests {
            Some(requests) => requests.send(taken).err().map(|unsent| unsent.0),
            None => Some(taken),
        };
        for request in unsent.into_iter().flatten() {
            self.orphans.extend(request.fail(StoreError::Stopped));
        }
    }

    fn deadline(&self) -> Option<UTime> {
        None
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        self.done.try_iter().for_each(|completions| out.extend(completions));
        out.append(&mut self.orphans);
    }

    fn set_waker(&mut self, waker: Waker) {
        *self.waker.lock() = Some(waker);
        // What became ready before there was this waker.
        if !self.done.is_empty() {
            self.waker.wake();
        }
    }

    fn shards(&self) -> u32 {
        1
    }

    fn shard_of(&self, _collection: CollectionId) -> StoreShard {
        StoreShard(0)
    }
}

impl Drop for SimpleStore {
    fn drop(&mut self) {
        // The thread ends when nothing more can be sent; the lock goes after it.
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
