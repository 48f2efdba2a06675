//! A change of a PG: what all of its copies do alike.

use buffer::Piece;
use ops::StatsDelta;
use store::{Attrs, CollectionId, ObjectChange, Transaction};
use types::{EVersion, GHObject, HObject, Name, SnapId};

use crate::{LogEntry, snap_index};

/// A change of a PG, the same for every copy: each makes its own transaction of it by
/// [`Records::apply`](crate::Records::apply).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// Entries before `newest`, oldest first: that of the clone that a write makes.
    pub earlier: Vec<LogEntry>,
    pub newest: Box<LogEntry>,
    /// None where the entry is of a request that failed.
    pub steps: ObjectSteps,
    pub stats: StatsDelta,
    /// The log may be trimmed up to here. At most `durable`.
    pub trim_to: Option<EVersion>,
    /// Every change up to here is durable on every copy that counts: no copy ever undoes it.
    pub durable: EVersion,
}

impl Change {
    /// The change for a copy that does not have the object yet: it keeps the log, and gets the object as a whole.
    pub fn log_only(&self) -> Self {
        Self {
            earlier: self.earlier.clone(),
            newest: self.newest.clone(),
            steps: ObjectSteps::of(self.steps.collection),
            stats: StatsDelta::default(),
            trim_to: self.trim_to,
            durable: self.durable,
        }
    }
}

/// Steps on objects of one PG, in order. Nothing else: log, info and the collection itself are each copy's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectSteps {
    collection: CollectionId,
    txn: Transaction,
    /// Keys that the snap index gains and loses.
    indexed: Vec<Name>,
    unindexed: Vec<Name>,
}

impl ObjectSteps {
    /// No steps yet, on objects of `collection`.
    pub fn of(collection: CollectionId) -> Self {
        // Of an ordinary write: the object made, data, attributes; log record, trim, info.
        let txn = Transaction::with_capacity(1, 6);
        Self { collection, txn, indexed: Vec::new(), unindexed: Vec::new() }
    }

    pub fn change(&mut self, object: &GHObject, change: ObjectChange) {
        self.txn.change(self.collection, object, change);
    }

    /// Makes `to` equal `from`, which must exist.
    pub fn clone_object(&mut self, from: &GHObject, to: &GHObject) {
        self.txn.clone_object(self.collection, from, to);
    }

    pub fn set_attrs(&mut self, object: &GHObject, attrs: Attrs) {
        self.txn.set_attrs(self.collection, object, attrs);
    }

    /// A clone preserves a snapshot.
    pub fn index(&mut self, snap: SnapId, clone: &HObject) {
        self.indexed.push(snap_index::key(snap, clone));
    }

    /// A clone preserves a snapshot no more.
    pub fn unindex(&mut self, snap: SnapId, clone: &HObject) {
        self.unindexed.push(snap_index::key(snap, clone));
    }

    /// The steps on a copy whose snap index is `meta`'s omap.
    pub(crate) fn into_transaction(self, meta: &GHObject) -> Transaction {
        let Self { collection, mut txn, indexed, unindexed } = self;
        if !indexed.is_empty() {
            let pairs = indexed.into_iter().map(|key| (key, Piece::empty())).collect();
            txn.change(collection, meta, ObjectChange::OmapSet(pairs));
        }
        if !unindexed.is_empty() {
            txn.change(collection, meta, ObjectChange::OmapRemove(unindexed));
        }
        txn
    }
}
