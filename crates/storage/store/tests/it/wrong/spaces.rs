//! Flaws in what is counted.

use std::collections::BTreeSet;

use buffer::Rope;
use store::sim::SimStore;
use store::{
    CollectionId, Completion, ObjectChange, ObjectStore, ReadOutcome, ReadRequest, StatFs, Step, StoreError,
    Token, Transaction,
};
use types::GHObject;

use super::{Flaw, look};

fn change_statfs(out: &mut [Completion], mut change: impl FnMut(&mut StatFs)) {
    for completion in out {
        if let Completion::Read { result: Ok(ReadOutcome::StatFs(statfs)), .. } = completion {
            change(statfs);
        }
    }
}

/// Doesn't give a block back that a clone has shared.
#[derive(Default)]
pub struct LeaksASharedExtent {
    cloned: BTreeSet<(CollectionId, GHObject)>,
    leaked: u64,
}

impl Flaw for LeaksASharedExtent {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        for step in txn.steps() {
            match step {
                Step::Clone { to, .. } => {
                    let (collection, object) = txn.object(*to);
                    self.cloned.insert((collection, object.clone()));
                }
                Step::Object { object, change: ObjectChange::Remove } => {
                    let (collection, object) = txn.object(*object);
                    self.leaked += 4096 * u64::from(self.cloned.remove(&(collection, object.clone())));
                }
                _ => {}
            }
        }
        inner.queue(txn, token);
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if *request == ReadRequest::StatFs { None } else { inner.peek(request) }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        change_statfs(out, |s| {
            s.data_bytes += self.leaked;
            s.bytes_used += self.leaked;
            s.bytes_available -= self.leaked;
        });
    }
}

/// Keeps what it had reserved for a transaction that it then refused.
#[derive(Default)]
pub struct LeaksTheReserveOfRefusals {
    leaked: u64,
}

impl Flaw for LeaksTheReserveOfRefusals {
    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if *request == ReadRequest::StatFs { None } else { inner.peek(request) }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        self.leaked += out.iter().filter(|c| matches!(c, Completion::Refused { .. })).count() as u64 * 512;
        change_statfs(out, |s| s.bytes_available -= self.leaked);
    }
}

/// Never counts metadata down.
#[derive(Default)]
pub struct LeaksMetadata {
    most: u64,
}

impl Flaw for LeaksMetadata {
    fn turn(&mut self, inner: &mut SimStore) {
        if let Ok(ReadOutcome::StatFs(statfs)) = look(inner, &ReadRequest::StatFs) {
            self.most = self.most.max(statfs.metadata_bytes);
        }
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if *request == ReadRequest::StatFs { None } else { inner.peek(request) }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        change_statfs(out, |s| s.metadata_bytes = self.most.max(s.metadata_bytes));
    }
}

/// Keeps nothing back: a full store takes nothing, not even what makes room.
pub struct KeepsNoReserve;

impl Flaw for KeepsNoReserve {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let Ok(ReadOutcome::StatFs(statfs)) = look(inner, &ReadRequest::StatFs) else {
            return inner.queue(txn, token);
        };
        if let Some(first) =
            txn.collections().first().filter(|_| txn.payload_bytes() > statfs.bytes_available)
        {
            txn.write(
                *first,
                &GHObject::pgmeta(types::PoolId(1), 0, types::ShardId::NONE),
                0,
                Rope::zeros(64 << 20),
            );
        }
        inner.queue(txn, token);
    }
}

/// Applies what there was room for of a transaction that needs more.
pub struct AppliesWhatFits;

impl Flaw for AppliesWhatFits {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let available = match look(inner, &ReadRequest::StatFs) {
            Ok(ReadOutcome::StatFs(statfs)) => statfs.bytes_available,
            _ => u64::MAX,
        };
        if txn.payload_bytes() > available && txn.data_bytes() > 0 {
            let mut first = Transaction::new();
            let fits = |s: &&Step| matches!(s, Step::Object { change: ObjectChange::Touch, .. });
            for step in txn.steps().iter().filter(fits) {
                if let Step::Object { object, change } = step {
                    let (collection, object) = txn.object(*object);
                    first.change(collection, object, change.clone());
                }
            }
            inner.queue(first, Token(super::OWN_TOKENS.start + token.0));
        }
        inner.queue(txn, token);
    }
}

/// Doesn't give back what transactions had allocated that a power loss took.
#[derive(Default)]
pub struct LeaksBlocksInCrashes {
    leaked: u64,
}

impl Flaw for LeaksBlocksInCrashes {
    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        if *request == ReadRequest::StatFs { None } else { inner.peek(request) }
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        change_statfs(out, |s| s.bytes_available -= self.leaked);
    }

    fn crashed(&mut self, _: &mut SimStore, lost: &[Token]) {
        self.leaked += 4096 * lost.len() as u64;
    }
}
