//! The handle: what a caller holds, in front of the thread that does the work.

use std::sync::Arc;
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, unbounded};
use device::DirLock;
use store::{Completion, ObjectStore, ReadRequest, StoreError, Token, Transaction};

use crate::label::Label;
use crate::worker::{Request, Worker};

/// Called from the store's thread when completions are ready; must only wake somebody up.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// An open store. Dropping it finishes what was queued, then closes it.
///
/// Its queue has no limit of its own: what is in flight is bounded by the budgets at the connections.
pub struct SimpleStore {
    requests: Option<Sender<Request>>,
    done: Receiver<Completion>,
    /// Answers to requests that the thread can't take any more.
    orphans: Vec<Completion>,
    thread: Option<JoinHandle<()>>,
    label: Label,
    _lock: DirLock,
}

impl SimpleStore {
    pub(crate) fn start(
        mut worker: Worker,
        label: Label,
        lock: DirLock,
        waker: Waker,
    ) -> std::io::Result<Self> {
        let (requests, inbox) = unbounded();
        let (outbox, done) = unbounded();
        let name = format!("store-osd.{}", label.osd);
        let thread =
            std::thread::Builder::new().name(name).spawn(move || worker.run(&inbox, &outbox, &*waker))?;
        let (requests, thread) = (Some(requests), Some(thread));
        Ok(Self { requests, done, orphans: Vec::new(), thread, label, _lock: lock })
    }

    /// Whose store it is.
    pub fn label(&self) -> &Label {
        &self.label
    }

    fn send(&mut self, request: Request) {
        let Some(requests) = &self.requests else { return };
        if let Err(unsent) = requests.send(request) {
            self.orphans.push(unsent.0.fail(StoreError::Stopped));
        }
    }
}

impl ObjectStore for SimpleStore {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.send(Request::Apply(txn, token));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.send(Request::Read(Box::new(request), token));
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        out.extend(self.done.try_iter());
        out.append(&mut self.orphans);
    }
}

impl Drop for SimpleStore {
    fn drop(&mut self) {
        // The thread ends when nobody can send any more; the lock goes after it.
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
