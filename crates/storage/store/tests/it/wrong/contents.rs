//! Flaws in what is kept apart, cut off or brought back: rare names, large values, versions, collections made again.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Piece;
use store::sim::SimStore;
use store::{
    CollectionChange, CollectionId, LogChange, LogRecord, ObjectChange, ObjectRef, ObjectStore, ReadOutcome,
    ReadRequest, Step, StoreError, StoreShard, Token, Transaction,
};
use types::{EVersion, GHObject, Name};

use super::{Flaw, look};

/// A transaction with other steps on the same objects.
pub fn with_steps(txn: &Transaction, steps: impl IntoIterator<Item = Step>) -> Transaction {
    let mut other = Transaction::new();
    for mut step in steps {
        let mut named = |object: &mut ObjectRef| {
            let (collection, name) = txn.object(*object);
            *object = other.name(collection, name);
        };
        match &mut step {
            Step::Object { object, .. } => named(object),
            Step::Clone { from, to } | Step::CloneRange { from, to, .. } | Step::Rename { from, to } => {
                named(from);
                named(to);
            }
            Step::Log { .. } | Step::SetInfo { .. } | Step::Collection { .. } => {}
        }
        other.push(step);
    }
    other
}

/// Names objects by the bytes of their namespaces, keys and names, one after the other.
#[derive(Default)]
pub struct NamesRunTogether {
    first: BTreeMap<(CollectionId, Vec<u8>, GHObject), GHObject>,
}

impl NamesRunTogether {
    fn named(&mut self, collection: CollectionId, object: &GHObject) -> GHObject {
        let h = &object.hobj;
        let bytes = [&h.nspace[..], &h.key, &h.name].concat();
        let mut rest = object.clone();
        (rest.hobj.nspace, rest.hobj.key, rest.hobj.name) = (Name::new(), Name::new(), Name::new());
        self.first.entry((collection, bytes, rest)).or_insert_with(|| object.clone()).clone()
    }
}

impl Flaw for NamesRunTogether {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        if !txn.steps().iter().all(|step| matches!(step, Step::Object { .. })) {
            return inner.queue(txn, token);
        }
        let mut other = Transaction::new();
        for step in txn.steps() {
            if let Step::Object { object, change } = step {
                let (collection, object) = txn.object(*object);
                other.change(collection, &self.named(collection, object), change.clone());
            }
        }
        inner.queue(other, token);
    }

    fn read(&mut self, inner: &mut SimStore, mut request: ReadRequest, token: Token) {
        if let ReadRequest::Data { collection, object, .. } = &mut request {
            *object = self.named(*collection, object);
        }
        inner.read(request, token);
    }

    fn peek(&mut self, _: &mut SimStore, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }
}

/// Keeps the data of PGs of other pools with those of pool 1.
pub fn pools_share_objects(inner: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    for step in txn.steps() {
        let Step::Object { object, change: change @ ObjectChange::Write { .. } } = step else { continue };
        let (collection, object) = txn.object(*object);
        let CollectionId::Pg(spg) = collection else { continue };
        let twin = CollectionId::Pg(types::PgId { pool: types::PoolId(1), seed: spg.pg.seed }.into());
        let there = look(inner, &ReadRequest::Stat { collection: twin, object: object.clone() }).is_ok();
        if twin != collection && there && inner.shard_of(twin) == inner.shard_of(collection) {
            more.change(twin, object, change.clone());
        }
    }
    more
}

/// Changes steps.
pub struct Rewrites(pub fn(&Step) -> Option<Step>);

impl Flaw for Rewrites {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let steps: Vec<Step> =
            txn.steps().iter().map(|step| (self.0)(step).unwrap_or_else(|| step.clone())).collect();
        inner.queue(with_steps(&txn, steps), token);
    }
}

fn cut(piece: &Piece, max: usize) -> Piece {
    piece.slice(0..piece.len().min(max))
}

/// Keeps only so much of a value of an omap.
pub fn cut_omap_values(step: &Step) -> Option<Step> {
    let Step::Object { object, change: ObjectChange::OmapSet(entries) } = step else { return None };
    let entries = entries.iter().map(|(k, v)| (k.clone(), cut(v, 4096))).collect();
    Some(Step::Object { object: *object, change: ObjectChange::OmapSet(entries) })
}

/// The same of an omap's header.
pub fn cut_omap_headers(step: &Step) -> Option<Step> {
    let Step::Object { object, change: ObjectChange::OmapSetHeader(header) } = step else { return None };
    Some(Step::Object { object: *object, change: ObjectChange::OmapSetHeader(cut(header, 4096)) })
}

/// The same of a log record.
pub fn cut_log_records(step: &Step) -> Option<Step> {
    let Step::Log { collection, change: LogChange::Append(record) } = step else { return None };
    let record = LogRecord { bytes: cut(&record.bytes, 4096), ..record.clone() };
    Some(Step::Log { collection: *collection, change: LogChange::Append(record) })
}

/// Takes 32 bits of a hash for none.
pub fn split_by_no_bits(step: &Step) -> Option<Step> {
    match step {
        Step::Collection { collection, change: CollectionChange::Split { bits: 32, rem: _, into } } => {
            let change = CollectionChange::Split { bits: 0, rem: 0, into: *into };
            Some(Step::Collection { collection: *collection, change })
        }
        _ => None,
    }
}

/// Orders log records by their versions without the epochs.
#[derive(Default)]
pub struct IgnoresEpochs {
    newest: BTreeMap<CollectionId, EVersion>,
}

impl Flaw for IgnoresEpochs {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let mut steps = Vec::new();
        for step in txn.steps() {
            if let Step::Log { collection, change: LogChange::Append(record) } = step {
                let newest = self.newest.entry(*collection).or_default();
                if record.version > *newest && record.version.version < newest.version {
                    continue;
                }
                *newest = record.version;
            }
            if let Step::Log { collection, change: LogChange::Rewind(_) | LogChange::Trim(_) } = step {
                self.newest.remove(collection);
            }
            if let Step::Collection { collection, .. } = step {
                self.newest.remove(collection);
            }
            steps.push(step.clone());
        }
        inner.queue(with_steps(&txn, steps), token);
    }
}

/// A record that was rewound comes back when another of its version is appended.
#[derive(Default)]
pub struct RewoundRecordsComeBack {
    first: BTreeMap<(CollectionId, EVersion), LogRecord>,
}

impl Flaw for RewoundRecordsComeBack {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let mut steps = Vec::new();
        for step in txn.steps() {
            let mut step = step.clone();
            if let Step::Collection { collection, .. } = &step {
                self.first.retain(|(id, _), _| id != collection);
            }
            if let Step::Log { collection, change: LogChange::Append(record) } = &mut step {
                let key = (*collection, record.version);
                *record = self.first.entry(key).or_insert_with(|| record.clone()).clone();
            }
            steps.push(step);
        }
        inner.queue(with_steps(&txn, steps), token);
    }
}

/// A collection that is removed and made again by one transaction has its info and log as they were.
pub fn collections_made_again_keep_their_infos(inner: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    let mut removed = BTreeSet::new();
    for step in txn.steps() {
        let Step::Collection { collection, change } = step else { continue };
        match change {
            CollectionChange::Remove | CollectionChange::Merge { .. } => {
                removed.insert(*collection);
            }
            CollectionChange::Create { .. } if removed.contains(collection) => {
                let stat = look(inner, &ReadRequest::Collection { collection: *collection });
                if let Ok(ReadOutcome::Collection(Some(stat))) = stat {
                    more.set_info(*collection, stat.info);
                }
            }
            CollectionChange::Create { .. } | CollectionChange::Split { .. } => {}
        }
    }
    more
}

/// Goes on naming the shard that a collection had before it was removed.
#[derive(Default)]
pub struct RemembersShards {
    seen: std::cell::RefCell<BTreeMap<CollectionId, StoreShard>>,
}

impl Flaw for RemembersShards {
    fn shard_of(&self, inner: &SimStore, collection: CollectionId) -> StoreShard {
        let mut seen = self.seen.borrow_mut();
        let shard = inner.shard_of(collection);
        *seen.entry(collection).or_insert(shard)
    }

    fn rehome(
        &mut self,
        inner: &mut SimStore,
        (id, to, max): (CollectionId, StoreShard, usize),
        token: Token,
    ) {
        inner.rehome(id, to, max, token);
        self.seen.borrow_mut().insert(id, inner.shard_of(id));
    }

    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let named = txn.collections();
        let creates = txn
            .steps()
            .iter()
            .any(|s| matches!(s, Step::Collection { change: CollectionChange::Create { .. }, .. }));
        inner.queue(txn, token);
        for id in named.into_iter().filter(|_| creates) {
            self.seen.borrow_mut().insert(id, inner.shard_of(id));
        }
    }

    fn crashed(&mut self, _: &mut SimStore, _: &[Token]) {
        self.seen.borrow_mut().clear();
    }
}

/// Remembers that an object was missing, until it is written; forgets to forget that when a split, merge or rename
/// brings it.
#[derive(Default)]
pub struct RemembersWhatWasMissing {
    missing: BTreeSet<(CollectionId, GHObject)>,
}

impl Flaw for RemembersWhatWasMissing {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let moves = |s: &Step| matches!(s, Step::Collection { change: CollectionChange::Split { .. }, .. });
        for (collection, object) in txn.objects() {
            self.missing.remove(&(*collection, object.clone()));
        }
        if !txn.steps().iter().any(moves) {
            let named = txn.collections();
            if txn.steps().iter().any(|s| matches!(s, Step::Collection { .. })) {
                self.missing.retain(|(id, _)| !named.contains(id));
            }
        }
        inner.queue(txn, token);
    }

    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        if let ReadRequest::Object { collection, object, attrs } = &request {
            let key = (*collection, object.clone());
            if self.missing.contains(&key) {
                let object = GHObject::max();
                let attrs = attrs.clone();
                return inner.read(ReadRequest::Object { collection: *collection, object, attrs }, token);
            }
            if matches!(look(inner, &request), Ok(ReadOutcome::Object(None))) {
                self.missing.insert(key);
            }
        }
        inner.read(request, token);
    }

    fn peek(&mut self, _: &mut SimStore, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }

    fn crashed(&mut self, _: &mut SimStore, _: &[Token]) {
        self.missing.clear();
    }

    fn reopened(&mut self, _: &mut SimStore) {
        self.missing.clear();
    }
}
