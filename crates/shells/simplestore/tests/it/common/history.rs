//! Transactions of a seed, the same in every process, and the store that they make.

use std::collections::BTreeSet;

use buffer::Rope;
use store::conformance::{Harness, Properties};
use store::{
    AttrChoice, CollectionId, LogRecordKind, MemStore, ObjectChange, ObjectStore, ReadOutcome, ReadRequest,
    StoreError, Transaction,
};
use types::{EVersion, GHObject, Name, SplitMix64};

use super::{META, object, pg, read, version};

const OBJECTS: u64 = 12;
const COLLECTIONS: u64 = 3;

/// An endless history. Every transaction names every collection, so that they commit in one order; its number is the
/// attribute `n` of the object `marker` of the meta collection.
pub struct History {
    rng: SplitMix64,
    /// The number of the last transaction.
    pub n: u64,
    there: BTreeSet<(CollectionId, u64)>,
}

impl History {
    pub fn new(seed: u64) -> Self {
        Self { rng: SplitMix64::new(seed), n: 0, there: BTreeSet::new() }
    }

    pub fn next(&mut self) -> (u64, Transaction) {
        let mut txn = Transaction::new();
        self.n += 1;
        if self.n == 1 {
            txn.create_collection(META, 0);
            for c in 0..COLLECTIONS {
                txn.create_collection(pg(c as u32), 2);
            }
        }
        for c in (0..COLLECTIONS).map(|c| pg(c as u32)) {
            txn.set_info(c, self.n.to_le_bytes().to_vec());
            for _ in 0..self.rng.below(3) {
                self.change(&mut txn, c);
            }
        }
        txn.log_append(META, version(self.n), LogRecordKind::Entry, vec![self.n as u8; 150]);
        if self.rng.one_in(10) {
            txn.log_trim(META, version(self.n - self.rng.below(self.n.min(30))));
        }
        txn.set_attr(META, &object("marker"), "n", self.n.to_le_bytes().to_vec());
        (self.n, txn)
    }

    /// A change of an object that commits whatever there is.
    fn change(&mut self, txn: &mut Transaction, c: CollectionId) {
        let n = self.rng.below(OBJECTS);
        let name = |n: u64| object(&format!("object{n}"));
        let o = name(n);
        let (offset, len) = (self.rng.below(60_000), self.rng.below(40_000));
        let key = |n: u64| Name::from(format!("key{}", n % 20).as_str());
        let existed = !self.there.insert((c, n));
        match self.rng.below(11) {
            0..=2 => {
                txn.write(c, &o, offset, vec![self.n as u8; len as usize].into()).touch(META, &o);
            }
            3 => {
                txn.write(c, &o, offset / 4096 * 4096, Rope::from(vec![self.n as u8; 8192])).touch(c, &o);
            }
            4 => {
                txn.zero(c, &o, offset, len).touch(c, &o);
            }
            5 => {
                txn.truncate(c, &o, offset).touch(c, &o);
            }
            6 => {
                txn.remove(c, &o);
                self.there.remove(&(c, n));
            }
            7 => {
                let entries =
                    (0..self.rng.below(10)).map(|i| (key(len + i), vec![i as u8; 50].into())).collect();
                txn.omap_set(c, &o, entries);
            }
            8 => {
                let (first, last) = (key(offset), key(len));
                txn.touch(c, &o).change(c, &o, ObjectChange::OmapRemoveRange { first, last });
            }
            9 => {
                txn.touch(c, &o).set_attr(c, &o, key(len), vec![self.n as u8; 30]);
            }
            _ => {
                let to = self.rng.below(OBJECTS);
                if existed {
                    txn.clone_object(c, &o, &name(to));
                    self.there.insert((c, to));
                } else {
                    self.there.remove(&(c, n));
                }
            }
        }
    }
}

/// What a history's first transactions leave, in memory.
pub fn model(transactions: impl Iterator<Item = Transaction>) -> Harness<MemStore> {
    let mut h = Harness::new(MemStore::new(1 << 30), Properties::VOLATILE);
    transactions.for_each(|txn| h.apply(txn).expect("every transaction of a history commits"));
    h
}

/// The number of the last transaction that the store shows; 0 if there is none.
pub fn last<S: ObjectStore>(h: &mut Harness<S>) -> u64 {
    let request = ReadRequest::Attr { collection: META, object: object("marker"), name: "n".into() };
    match h.get(request) {
        Ok(ReadOutcome::Attr(n)) => u64::from_le_bytes(n[..].try_into().expect("eight bytes")),
        Err(StoreError::NoSuchCollection(_)) => 0,
        other => panic!("the marker: {other:?}"),
    }
}

/// Compares everything that two stores have.
pub fn compare<A: ObjectStore, B: ObjectStore>(a: &mut Harness<A>, b: &mut Harness<B>, when: &str) {
    let mut same = |request: ReadRequest| {
        let (got, want) = (a.get(request.clone()), b.get(request.clone()));
        assert!(got == want, "{when}: {request:?} gave {got:?}, not {want:?}");
        got
    };
    let Ok(ReadOutcome::Collections(collections)) = same(ReadRequest::Collections) else { panic!("{when}") };
    for collection in collections {
        let (start, end) = (GHObject::min(), GHObject::max());
        let after = EVersion::default();
        let list =
            ReadRequest::List { collection, start, end, objects_max: usize::MAX, attrs: AttrChoice::All };
        let Ok(ReadOutcome::Objects(page)) = same(list) else { panic!("{when}") };
        let _ = same(ReadRequest::Collection { collection });
        let _ = same(ReadRequest::Log { collection, after, records_max: usize::MAX, bytes_max: usize::MAX });
        for (object, _) in page.objects {
            let _ = same(read(collection, &object, 0, u64::MAX));
            let _ = same(ReadRequest::Stat { collection, object: object.clone() });
            let _ = same(ReadRequest::OmapHeader { collection, object: object.clone() });
            let (after, before, prefix, values) = (None, None, Name::new(), true);
            let (entries_max, bytes_max) = (usize::MAX, usize::MAX);
            let range = ReadRequest::OmapRange {
                collection,
                object,
                after,
                before,
                prefix,
                entries_max,
                bytes_max,
                values,
            };
            let _ = same(range);
        }
    }
}
