//! Handles of one store that share what they must not.

use std::cell::RefCell;
use std::rc::Rc;

use store::{
    CollectionId, Completion, MemStore, ObjectStore, ReadOutcome, ReadRequest, StoreError, StoreShard, Token,
    Transaction, Waker,
};
use types::UTime;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HandleFlaw {
    None,
    /// The list of collections is that of all handles.
    OneCollectionsTable,
    /// A completion goes to the handle that asks first.
    OneCompletionQueue,
    /// An acknowledgement counts for every handle.
    AcknowledgesAtAll,
}

/// One of several handles, which can reach all of them.
pub struct FlawedHandle {
    all: Rc<RefCell<Vec<MemStore>>>,
    here: usize,
    flaw: HandleFlaw,
}

pub fn flawed_handles(flaw: HandleFlaw, count: u32) -> Vec<FlawedHandle> {
    let all = Rc::new(RefCell::new(MemStore::handles(64 << 20, count)));
    (0..count as usize).map(|here| FlawedHandle { all: all.clone(), here, flaw }).collect()
}

impl FlawedHandle {
    fn own<T>(&self, f: impl FnOnce(&mut MemStore) -> T) -> T {
        f(&mut self.all.borrow_mut()[self.here])
    }

    fn all_collections(&self) -> Vec<CollectionId> {
        let peeked = |store: &mut MemStore| match store.peek(&ReadRequest::Collections) {
            Some(Ok(ReadOutcome::Collections(of))) => of,
            _ => Vec::new(),
        };
        self.all.borrow_mut().iter_mut().flat_map(peeked).collect()
    }
}

impl ObjectStore for FlawedHandle {
    fn queue(&mut self, txn: Transaction, token: Token) {
        self.own(|store| store.queue(txn, token));
    }

    fn read(&mut self, request: ReadRequest, token: Token) {
        self.own(|store| store.read(request, token));
    }

    fn peek(&mut self, request: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        if self.flaw == HandleFlaw::OneCollectionsTable && *request == ReadRequest::Collections {
            return Some(Ok(ReadOutcome::Collections(self.all_collections())));
        }
        self.own(|store| store.peek(request))
    }

    fn acknowledge(&mut self, refused: Token) {
        match self.flaw {
            HandleFlaw::AcknowledgesAtAll => {
                self.all.borrow_mut().iter_mut().for_each(|store| store.acknowledge(refused));
            }
            HandleFlaw::None | HandleFlaw::OneCollectionsTable | HandleFlaw::OneCompletionQueue => {
                self.own(|store| store.acknowledge(refused));
            }
        }
    }

    fn rehome(&mut self, collection: CollectionId, to: StoreShard, objects_max: usize, token: Token) {
        self.own(|store| store.rehome(collection, to, objects_max, token));
    }

    fn turn(&mut self, now: UTime) {
        match self.flaw {
            HandleFlaw::OneCompletionQueue => self.all.borrow_mut().iter_mut().for_each(|s| s.turn(now)),
            HandleFlaw::None | HandleFlaw::OneCollectionsTable | HandleFlaw::AcknowledgesAtAll => {
                self.own(|store| store.turn(now));
            }
        }
    }

    fn deadline(&self) -> Option<UTime> {
        self.own(|store| store.deadline())
    }

    fn completions(&mut self, out: &mut Vec<Completion>) {
        if self.flaw == HandleFlaw::OneCompletionQueue {
            return self.all.borrow_mut().iter_mut().for_each(|store| store.completions(out));
        }
        let from = out.len();
        self.own(|store| store.completions(out));
        if self.flaw == HandleFlaw::OneCollectionsTable {
            let all = self.all_collections();
            for completion in &mut out[from..] {
                if let Completion::Read { result: Ok(ReadOutcome::Collections(of)), .. } = completion {
                    of.clone_from(&all);
                }
            }
        }
    }

    fn set_waker(&mut self, waker: Waker) {
        self.own(|store| store.set_waker(waker));
    }

    fn shards(&self) -> u32 {
        1
    }

    fn shard_of(&self, collection: CollectionId) -> StoreShard {
        self.own(|store| store.shard_of(collection))
    }
}
