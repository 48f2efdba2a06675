//! Flaws in what requests do and reads answer.

use std::collections::{BTreeMap, BTreeSet};

use buffer::Piece;
use store::sim::SimStore;
use store::{
    AllocHint, AttrChoice, CollectionChange, CollectionId, Completion, LogChange, ObjectChange, ObjectStore,
    ReadOutcome, ReadRequest, Step, StoreError, StoreShard, Token, Transaction, split_takes,
};
use types::{GHObject, Name};

use super::{Flaw, data_of, look};

/// Takes a prefix with its last byte plus one for what comes after all keys of the prefix: 0xff becomes 0.
pub struct WrongPrefixSuccessor;

impl WrongPrefixSuccessor {
    fn narrowed(request: ReadRequest) -> ReadRequest {
        match request {
            ReadRequest::OmapRange {
                collection,
                object,
                after,
                before,
                prefix,
                entries_max,
                bytes_max,
                values,
            } => {
                let mut successor = prefix.to_vec();
                if let Some(last) = successor.last_mut() {
                    *last = last.wrapping_add(1);
                }
                let successor = Some(Name::from(successor)).filter(|s| !s.is_empty());
                let before = successor.into_iter().chain(before).min();
                ReadRequest::OmapRange {
                    collection,
                    object,
                    after,
                    before,
                    prefix,
                    entries_max,
                    bytes_max,
                    values,
                }
            }
            other => other,
        }
    }
}

impl Flaw for WrongPrefixSuccessor {
    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        inner.read(Self::narrowed(request), token);
    }

    fn peek(
        &mut self,
        inner: &mut SimStore,
        request: &ReadRequest,
    ) -> Option<Result<ReadOutcome, StoreError>> {
        inner.peek(&Self::narrowed(request.clone()))
    }
}

/// Changes what reads answer. `peek` answers nothing.
#[derive(Default)]
pub struct Answers {
    asked: BTreeMap<Token, ReadRequest>,
    change: Option<fn(&ReadRequest, &mut ReadOutcome)>,
}

impl Answers {
    pub fn with(change: fn(&ReadRequest, &mut ReadOutcome)) -> Self {
        Self { asked: BTreeMap::new(), change: Some(change) }
    }
}

impl Flaw for Answers {
    fn read(&mut self, inner: &mut SimStore, request: ReadRequest, token: Token) {
        self.asked.insert(token, request.clone());
        inner.read(request, token);
    }

    fn peek(&mut self, _: &mut SimStore, _: &ReadRequest) -> Option<Result<ReadOutcome, StoreError>> {
        None
    }

    fn completions(&mut self, inner: &mut SimStore, out: &mut Vec<Completion>) {
        inner.completions(out);
        for completion in out {
            if let (Completion::Read { token, result: Ok(outcome) }, Some(change)) = (completion, self.change)
            {
                change(&self.asked[token], outcome);
            }
        }
    }
}

/// Says that more follow where a page of a log is full.
pub fn more_of_full_log_pages(request: &ReadRequest, outcome: &mut ReadOutcome) {
    if let (ReadRequest::Log { records_max, .. }, ReadOutcome::Log(page)) = (request, outcome) {
        page.more = page.more || page.records.len() == *records_max;
    }
}

/// The same of an omap.
pub fn more_of_full_omap_pages(request: &ReadRequest, outcome: &mut ReadOutcome) {
    if let (ReadRequest::OmapRange { entries_max, .. }, ReadOutcome::Omap(page)) = (request, outcome) {
        page.more = page.more || page.entries.len() == *entries_max;
    }
}

/// Goes on with a list behind the first object of the next page.
pub fn lists_that_skip_an_object(_: &ReadRequest, outcome: &mut ReadOutcome) {
    if let ReadOutcome::Objects(page) = outcome {
        if page.next != GHObject::max() {
            page.next.generation = page.next.generation.wrapping_add(1);
        }
    }
}

/// Leaves the first bytes of what is read out where the read begins within a page.
pub fn unaligned_reads_off_by_one(request: &ReadRequest, outcome: &mut ReadOutcome) {
    if let (ReadRequest::Data { offset, .. }, ReadOutcome::Data(data)) = (request, outcome) {
        if offset % 4096 == 4095 && data.len() > 1 {
            let mut bytes = data.to_vec();
            bytes[1] = bytes[0];
            *data = bytes.into();
        }
    }
}

/// Appends steps to transactions.
pub struct Appends(pub fn(&mut SimStore, &Transaction) -> Transaction);

impl Flaw for Appends {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let more = (self.0)(inner, &txn);
        txn.append(more);
        inner.queue(txn, token);
    }
}

fn splits(txn: &Transaction) -> Option<(CollectionId, u32, u32, CollectionId)> {
    txn.steps().iter().find_map(|step| match step {
        Step::Collection { collection, change: CollectionChange::Split { bits, rem, into } } => {
            Some((*collection, *bits, *rem, *into))
        }
        _ => None,
    })
}

/// Loses the omaps of what a split moves.
pub fn lost_omaps_in_splits(inner: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    let Some((collection, bits, rem, into)) = splits(txn) else { return more };
    let (start, end, attrs) = (GHObject::min(), GHObject::max(), AttrChoice::None);
    let list = ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs };
    if let Ok(ReadOutcome::Objects(page)) = look(inner, &list) {
        for (object, _) in page.objects.iter().filter(|(o, _)| split_takes(bits, rem, o.hobj.hash)) {
            more.change(into, object, ObjectChange::OmapClear);
        }
    }
    more
}

/// Loses the log of what is split.
pub fn lost_logs_in_splits(_: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    if let Some((collection, ..)) = splits(txn) {
        more.log_rewind(collection, Default::default());
    }
    more
}

/// Loses the info when the log is rewound.
pub fn lost_infos_on_rewinds(_: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    for step in txn.steps() {
        if let Step::Log { collection, change: LogChange::Rewind(_) } = step {
            more.set_info(*collection, Piece::empty());
        }
    }
    more
}

/// Loses the hint of what is renamed.
pub fn lost_hints_on_renames(_: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    for step in txn.steps() {
        if let Step::Rename { to, .. } = step {
            let (collection, object) = txn.object(*to);
            more.change(collection, object, ObjectChange::SetAllocHint(AllocHint::default()));
        }
    }
    more
}

/// Loses the last key of a set of many.
pub fn lost_last_keys_of_many(_: &mut SimStore, txn: &Transaction) -> Transaction {
    let mut more = Transaction::new();
    for step in txn.steps() {
        if let Step::Object { object, change: ObjectChange::OmapSet(entries) } = step {
            if let Some((last, _)) = entries.last().filter(|_| entries.len() >= 400) {
                let (collection, object) = txn.object(*object);
                more.change(collection, object, ObjectChange::OmapRemove(vec![last.clone()]));
            }
        }
    }
    more
}

/// Cut bytes come back when the object grows again.
#[derive(Default)]
pub struct TruncateLeavesBytes {
    cut: BTreeMap<(CollectionId, GHObject), (u64, Vec<u8>)>,
}

impl Flaw for TruncateLeavesBytes {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let mut more = Transaction::new();
        for step in txn.steps() {
            let Step::Object { object, change: ObjectChange::Truncate(size) } = step else { continue };
            let (collection, object) = txn.object(*object);
            let data = data_of(inner, collection, object).map(|d| d.to_vec()).unwrap_or_default();
            let key = (collection, object.clone());
            if *size < data.len() as u64 {
                self.cut.insert(key, (*size, data[*size as usize..].to_vec()));
            } else if let Some((at, cut)) = self.cut.get(&key) {
                let back = cut.len().min((*size - at.min(size)) as usize);
                more.write(collection, object, *at, cut[..back].to_vec().into());
            }
        }
        txn.append(more);
        inner.queue(txn, token);
    }
}

/// A clone goes on sharing its first page with its source: writes of the one show in the other.
#[derive(Default)]
pub struct ClonesShareWrites {
    clones: BTreeMap<(CollectionId, GHObject), GHObject>,
}

impl Flaw for ClonesShareWrites {
    fn queue(&mut self, inner: &mut SimStore, mut txn: Transaction, token: Token) {
        let mut more = Transaction::new();
        for step in txn.steps() {
            match step {
                Step::Clone { from, to } if txn.object(*from).0 == txn.object(*to).0 => {
                    let (collection, from) = txn.object(*from);
                    self.clones.insert((collection, from.clone()), txn.object(*to).1.clone());
                }
                Step::Object { object, change: ObjectChange::Write { offset: 0, data, .. } } => {
                    let (collection, object) = txn.object(*object);
                    if let Some(clone) = self.clones.get(&(collection, object.clone())) {
                        let len = data.len().min(4096);
                        more.write(collection, clone, 0, data.slice(0..len));
                    }
                }
                _ => {}
            }
        }
        txn.append(more);
        inner.queue(txn, token);
    }
}

/// Says that what a split makes is in another shard.
#[derive(Default)]
pub struct WrongShardAfterASplit {
    made: BTreeSet<CollectionId>,
}

impl Flaw for WrongShardAfterASplit {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        self.made.extend(splits(&txn).map(|s| s.3));
        inner.queue(txn, token);
    }

    fn shard_of(&self, inner: &SimStore, collection: CollectionId) -> StoreShard {
        let shard = inner.shard_of(collection);
        match self.made.contains(&collection) {
            true => StoreShard((shard.0 + 1) % inner.shards()),
            false => shard,
        }
    }
}

/// Moves a collection in one step, however large it is.
pub struct RehomesAllAtOnce;

impl Flaw for RehomesAllAtOnce {
    fn rehome(&mut self, inner: &mut SimStore, (id, to, _): (CollectionId, StoreShard, usize), token: Token) {
        inner.rehome(id, to, usize::MAX, token);
    }
}

/// Leaves parts of pages as they were when a range is made zero.
pub struct ZeroSkipsPartsOfPages;

impl Flaw for ZeroSkipsPartsOfPages {
    fn queue(&mut self, inner: &mut SimStore, txn: Transaction, token: Token) {
        let (names, steps) = txn.into_parts();
        let mut other = Transaction::new();
        for (collection, object) in &names {
            other.name(*collection, object);
        }
        for mut step in steps {
            if let Step::Object { change: ObjectChange::Zero { offset, len }, .. } = &mut step {
                let end = offset.saturating_add(*len);
                let first = offset.next_multiple_of(4096);
                if end.saturating_sub(first) > 4096 {
                    (*offset, *len) = (first, end - first);
                }
            }
            other.push(step);
        }
        inner.queue(other, token);
    }
}
